/* SPDX-License-Identifier: MIT */
/* text_mode.h - recognises files that a copy in text mode has changed.
 *
 * FTP's ASCII mode, git's autocrlf and their like take an image or an archive for a text and
 * convert its line ends, all over the file. That cannot be undone. */
#ifndef COMMON_TEXT_MODE_H
#define COMMON_TEXT_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * What a copy in text mode did to a file of an image: "each LF became CR LF" or "each CR LF became
 * LF". NULL: the bytes do not show that it happened.
 *
 * A PNG's signature was made to tell. In other files each LF stands behind a CR, which happens by
 * chance in less than one of 2^40 files. Lines of text that an image may hold (comments of a JPEG,
 * a PPM's header, XMP) are not counted.
 */
const char *text_mode_change(const uint8_t *bytes, size_t len);

/**
 * Whether a large file has hardly an LF behind a CR, as if each CR LF had become LF. One in 256
 * stands there in random bytes, but a file that repeats itself may do without.
 */
bool text_mode_removed(const uint8_t *bytes, size_t len);

/**
 * Like the two above, for archives and records, from a piece of the file's beginning. Lines of
 * text members are not counted.
 */
const char *text_mode_archive_change(const uint8_t *bytes, size_t len);
bool text_mode_archive_removed(const uint8_t *bytes, size_t len);

#endif

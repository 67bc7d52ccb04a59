/* SPDX-License-Identifier: MIT */
/* text_mode.h - recognises files that a copy in text mode has changed.
 *
 * FTP's ASCII mode, git's autocrlf and similar conversions mistake an image or an archive for text,
 * and convert line ends all over the file. That cannot be undone. */
#ifndef COMMON_TEXT_MODE_H
#define COMMON_TEXT_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Returns what a copy in text mode did to an image file: "each LF became CR LF", "each CR LF
 * became LF" or "each CR was removed". NULL: the bytes do not show that it happened.
 *
 * In a PNG, the signature is designed to show it. Other files show it if each LF follows a CR,
 * which happens randomly in fewer than one of 2^40 files. Lines of text in an image (comments of a
 * JPEG, a PPM's header, XMP) do not count. A file of at least 16 KiB also shows it if it contains
 * every byte value except CR.
 */
const char *text_mode_change(const uint8_t *bytes, size_t len);

/**
 * Returns whether almost no LF in a large file follows a CR, as if every CR LF had become LF. In
 * random data about one LF in 256 follows a CR, but an undamaged repetitive file may have no such
 * pair.
 */
bool text_mode_removed(const uint8_t *bytes, size_t len);

/**
 * Like text_mode_change(), but for the beginning of an archive or a record file, which shows only
 * whether each LF became CR LF. Lines of text members do not count.
 */
const char *text_mode_archive_change(const uint8_t *bytes, size_t len);
bool text_mode_archive_removed(const uint8_t *bytes, size_t len);

#endif

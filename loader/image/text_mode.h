/* SPDX-License-Identifier: MIT */
/* text_mode.h - recognises files that a copy in text mode has changed.
 *
 * FTP's ASCII mode, git's autocrlf and their like take an image for a text and convert its line
 * ends, all over the file. No decoder can undo that. */
#ifndef LOADER_IMAGE_TEXT_MODE_H
#define LOADER_IMAGE_TEXT_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * What a copy in text mode did to a binary file: "each LF became CR LF" or "each CR LF became LF".
 * NULL: the bytes do not show that it happened.
 *
 * A PNG's signature was made to tell. In other files each LF stands behind a CR, which happens by
 * chance in less than one of 2^40 files. Use it only for files that are bad or have junk anyway.
 */
const char *text_mode_change(const uint8_t *bytes, size_t len);

/**
 * Whether a large file has hardly an LF behind a CR, as if each CR LF had become LF. One in 256
 * stands there in random bytes, but a file that repeats itself may do without.
 */
bool text_mode_removed(const uint8_t *bytes, size_t len);

/**
 * Whether each LF of a file stands behind a CR, and at least 5 of these at `from` or behind it. Of
 * most files it reads no more than some hundred bytes: up to the first LF.
 */
bool text_mode_added(const uint8_t *bytes, size_t len, size_t from);

#endif

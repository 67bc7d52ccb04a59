/* SPDX-License-Identifier: MIT */
/* text.h - texts of others: names of files and clients, sentences of loaders. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>

/** Bytes of the UTF-8 character at `p`, or 0 when it is none. */
size_t text_utf8_length(const unsigned char *p);

/**
 * Make a text fit for a line of a terminal or log, in place: what would end the line or be taken
 * for a command becomes '?', that is control characters of ASCII and of Unicode (U+0080 to U+009F,
 * among them CSI), and lone bytes that are such in other character sets. Returns `text`.
 */
char *text_make_plain(char *text);

#endif

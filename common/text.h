/* SPDX-License-Identifier: MIT */
/* text.h - texts of others: names of files and clients, sentences of loaders. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include <plenum/error.h>

/** Bytes of the UTF-8 character at `p`, or 0 when it is none. */
size_t text_utf8_length(const unsigned char *p);

/**
 * Make a text fit for a line of a terminal or log, in place: what would end the line or be taken
 * for a command becomes '?', that is control characters of ASCII and of Unicode (U+0080 to U+009F,
 * among them CSI), and lone bytes that are such in other character sets. Returns `text`.
 */
char *text_make_plain(char *text);

/**
 * The next line of a text file, with its newline, into `*line`, which grows as getline(3) has it:
 * the caller frees it.
 *
 * Returns 1; 0 at the end of the file; or a negative errno value with a sentence that names `path`:
 * reading fails, memory is short, or it is no text (a zero byte, a line of more than 1 MiB).
 */
int text_read_line(FILE *file, const char *path, char **line, size_t *cap,
                   struct plenum_error *err);

#endif

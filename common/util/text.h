/* SPDX-License-Identifier: MIT */
/* text.h - untrusted text: names of files and clients, messages of loaders. */
#ifndef COMMON_TEXT_H
#define COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <plenum/error.h>

/** Returns the length of the UTF-8 character at `p`, or 0 if it is invalid. */
size_t text_utf8_length(const unsigned char *p);
/** Write a character, below 0x110000, as UTF-8. Returns the number of bytes. */
size_t text_put_utf8(uint32_t code, char ret[4]);

/**
 * Make a string safe for a terminal or a log line, in place. Everything that could end the line or
 * act as a command becomes '?': ASCII and Unicode control characters (U+0080 to U+009F, including
 * CSI), and single bytes that are control characters in other character sets.
 */
char *text_make_plain(char *text);

/** Returns whether a name is in a list such as "cpu,cpuacct". */
bool text_is_listed(const char *list, const char *name);

/**
 * Read the next line of a text file, with its newline, into `*line`, which grows as with
 * getline(3); the caller frees it. A byte order mark at the beginning of the file is left out.
 *
 * Returns 1; 0 at the end of the file; or a negative errno with a message that names `path`:
 * reading fails, memory is exhausted, or it is not a text file (a zero byte, a line of more than 1
 * MiB).
 */
int text_read_line(FILE *file, const char *path, char **line, size_t *cap,
                   struct plenum_error *err);

/** Reads the lines of a file in /proc or /sys without allocating memory, so that a lack of memory
 * does not look like the end of the file. */
struct text_lines {
    int fd;
    size_t at, len;
    char bytes[1024];
};

/** Open a file for reading. Returns 0 or -errno. */
int text_lines_open(struct text_lines *lines, const char *path);
/** Get the next line, without its newline. Returns false at the end, or if the file cannot be read.
 *  A line of `size` bytes or more is truncated. */
bool text_lines_next(struct text_lines *lines, char *line, size_t size);
void text_lines_close(struct text_lines *lines);

#endif

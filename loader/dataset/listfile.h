/* SPDX-License-Identifier: MIT */
/* listfile.h - parses a list of samples: lines of paths and labels. */
#ifndef LOADER_DATASET_LISTFILE_H
#define LOADER_DATASET_LISTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

enum listfile_kind {
    LISTFILE_TEXT, /* "path label"; the label is the last word; or fields separated by tabs */
    LISTFILE_TSV,  /* fields separated by tabs */
    LISTFILE_CSV,  /* fields separated by commas, possibly quoted (RFC 4180) */
};

enum { LISTFILE_FIELDS_MAX = 64 }; /* per line; further fields are ignored */

/** A string being parsed, in place: fields point into it. */
struct listfile {
    char *text; /* [len], and writable text[len] */
    size_t len;
    enum listfile_kind kind;
    const char *path_column, *label_column; /* a name or a number from 1; NULL: detected */
    bool no_images; /* neither is required; the first line of a CSV or TSV is a header */
    /* State of the parser: */
    size_t at, line;
    unsigned path_field, label_field;  /* LISTFILE_FIELDS_MAX: no such column */
    char *header[LISTFILE_FIELDS_MAX]; /* column names, if there are any */
    unsigned num_header;
};

/** One line. Its strings are NUL-terminated and point into the list's text. */
struct listfile_line {
    size_t offset, number; /* where it begins; counted from 1 */
    char *fields[LISTFILE_FIELDS_MAX];
    unsigned num_fields;
    const char *path, *label; /* NULL if not needed */
};

/** The kind of a file by its name: .csv, .tsv, or text. */
enum listfile_kind listfile_kind_of(const char *path);

/**
 * Start parsing: skip a byte order mark, read the header if there is one, and find the columns.
 *
 * There is a header if a column is requested by name, or if the first line of a CSV or TSV has
 * usual column names (path, file, filename, image ...; label, class, target ...). 0, or -EBADMSG
 * with `err` set.
 */
int listfile_begin(struct listfile *list, struct plenum_error *err);

/** The next line that is not empty (nor, in LISTFILE_TEXT, a comment: #): 1, 0 at the end, or
 * -EBADMSG; `err` contains the line's number. */
int listfile_next(struct listfile *list, struct listfile_line *ret, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* listfile.h - parses a list of samples: lines of paths and labels. */
#ifndef LOADER_DATASET_LISTFILE_H
#define LOADER_DATASET_LISTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

enum listfile_kind {
    LISTFILE_TEXT, /* "path label", where the label is the last word; or fields separated by tabs */
    LISTFILE_TSV,  /* fields separated by tabs */
    LISTFILE_CSV,  /* fields separated by commas, possibly quoted (RFC 4180) */
};

enum { LISTFILE_FIELDS_MAX = 64 }; /* per line; further fields are ignored */

/** A list that is parsed in place: fields point into `text`. */
struct listfile {
    char *text; /* [len]; text[len] must be writable */
    size_t len;
    enum listfile_kind kind;
    const char *path_column, *label_column; /* a name or a number from 1; NULL: detect it */
    bool no_images; /* neither column is required; the first line of a CSV or TSV is a header */
    /* State of the parser: */
    size_t at, line;
    unsigned path_field, label_field;  /* LISTFILE_FIELDS_MAX: no such column */
    char *header[LISTFILE_FIELDS_MAX]; /* column names, if there are any */
    unsigned num_header;
};

/** One line. Its strings are NUL-terminated and point into the list's text. */
struct listfile_line {
    size_t offset, number; /* offset: where it begins; number: counted from 1 */
    char *fields[LISTFILE_FIELDS_MAX];
    unsigned num_fields;
    const char *path, *label; /* NULL if there is no such column */
};

/** Returns the kind of a file by its name: .csv, .tsv, or text. */
enum listfile_kind listfile_kind_of(const char *path);

/**
 * Start parsing: skip a byte order mark, read the header if there is one, and find the columns.
 *
 * There is a header if a column is requested by name, in a CSV or TSV with `no_images`, or if the
 * first line of a CSV or TSV has usual column names (path, file, filename, image ...; label, class,
 * target ...). Returns 0, or -EBADMSG with `err` set.
 */
int listfile_begin(struct listfile *list, struct plenum_error *err);

/** Get the next line that is not empty, and in LISTFILE_TEXT not a comment (#). Returns 1; 0 at the
 * end; or -EBADMSG, with the line's number in `err`. */
int listfile_next(struct listfile *list, struct listfile_line *ret, struct plenum_error *err);

#endif

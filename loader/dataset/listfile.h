/* SPDX-License-Identifier: MIT */
/* listfile.h - the text of a list of samples: paths and labels, in lines. */
#ifndef LOADER_DATASET_LISTFILE_H
#define LOADER_DATASET_LISTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

enum listfile_kind {
    LISTFILE_TEXT, /* "path label"; the label is the last word; or fields between tabs */
    LISTFILE_TSV,  /* fields between tabs */
    LISTFILE_CSV,  /* fields between commas, which may be in quotes (RFC 4180) */
};

enum { LISTFILE_FIELDS_MAX = 64 }; /* of a line; what follows is not looked at */

/** A text while it is read. It is taken apart in place: fields point into it. */
struct listfile {
    char *text; /* [len], and writable text[len] */
    size_t len;
    enum listfile_kind kind;
    const char *path_column, *label_column; /* a name or a number from 1; NULL: found out */
    bool no_images; /* lines need neither path nor label; the first of a CSV or TSV names columns */
    /* Of reading: */
    size_t at, line;
    unsigned path_field, label_field;  /* LISTFILE_FIELDS_MAX: there is none */
    char *header[LISTFILE_FIELDS_MAX]; /* names of the columns, if there are any */
    unsigned num_header;
};

/** One line. All texts end with a NUL and lie in the list's text. */
struct listfile_line {
    size_t offset, number; /* where it begins; from 1 */
    char *fields[LISTFILE_FIELDS_MAX];
    unsigned num_fields;
    const char *path, *label; /* NULL where they are not needed */
};

/** What a file's name says of its kind: .csv, .tsv, or text. */
enum listfile_kind listfile_kind_of(const char *path);

/**
 * Begin: skip a byte order mark, take the header if there is one, and find the columns.
 *
 * A header is there when a column is asked for by name, or when the first line of a CSV or TSV
 * names columns as people do (path, file, filename, image ...; label, class, target ...).
 * 0, or -EBADMSG with a sentence.
 */
int listfile_begin(struct listfile *list, struct plenum_error *err);

/** The next line that is not empty (nor, in LISTFILE_TEXT, a comment: #): 1, 0 at the end, or
 * -EBADMSG with a sentence that gives the line's number. */
int listfile_next(struct listfile *list, struct listfile_line *ret, struct plenum_error *err);

#endif

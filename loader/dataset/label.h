/* SPDX-License-Identifier: MIT */
/* label.h - turns a written label of a data set into a class, by one rule for all formats. */
#ifndef LOADER_DATASET_LABEL_H
#define LOADER_DATASET_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/class_list.h"

/** A data set's settings about labels. Constant while it is indexed. */
struct label_rule {
    int64_t offset;                   /* label-offset: added to labels that are numbers */
    const struct class_list *classes; /* classes=, or NULL */
};

/** Where a label comes from. */
enum label_source {
    LABEL_VALUE,  /* a file, column, feature or JSON value: an integer is a class number */
    LABEL_FOLDER, /* the name of a folder: a class name, unless classes=numbers */
};

struct label {
    bool is_name;  /* it was written as a name */
    bool is_open;  /* its class is not known until all names are */
    int32_t class; /* its class, unless is_open */
};

/**
 * Read a label. An integer, in any spelling, is the number of a class; other text that looks like a
 * number is rejected; any other text is the name of a class. With classes=, a listed text means its
 * class, and unlisted names are rejected. If listed names are numerals, a number means the name
 * with its value.
 *
 * Returns 0, or -EBADMSG; `err` begins with the label, and the caller adds where it was found.
 */
int label_read(const struct label_rule *rule, enum label_source source, const char *text,
               size_t len, struct label *ret, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* label.h - from a label as a data set writes it to a class: the one rule of all formats. */
#ifndef LOADER_DATASET_LABEL_H
#define LOADER_DATASET_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/class_list.h"

/** What a data set's settings say about its labels. Constant while it is indexed. */
struct label_rule {
    int64_t offset;                   /* label-offset: added to labels that are numbers */
    const struct class_list *classes; /* classes=, or NULL */
};

/** Where a label comes from. */
enum label_source {
    LABEL_VALUE,  /* a file, a column, a feature, JSON: an integer is a class number */
    LABEL_FOLDER, /* the name of a folder: a name, unless classes=numbers */
};

struct label {
    bool is_name;  /* as it is written */
    bool is_open;  /* a name whose class is not known before all names are */
    int32_t class; /* else its class */
};

/**
 * Read a label. An integer, however it is spelled, is the number of a class; another text that
 * looks like a number is rejected; any other text is the name of a class. With classes= a text that
 * is listed is that class, and names that are not listed are rejected. Where listed names are
 * numerals, a number is the name that has its value.
 *
 * 0, or -EBADMSG with a sentence that begins with the label; the caller says where it stands.
 */
int label_read(const struct label_rule *rule, enum label_source source, const char *text,
               size_t len, struct label *ret, struct plenum_error *err);

#endif

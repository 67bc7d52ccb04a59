/* SPDX-License-Identifier: MIT */
/* beside.h - reads one field of all samples of a data set, for selections and weights. */
#ifndef LOADER_DATASET_BESIDE_H
#define LOADER_DATASET_BESIDE_H

#include "common/data/fields.h"
#include "loader/dataset/dataset.h"

/** Receives the field of a sample: `value` [len], aligned; NULL if the field is missing or damaged.
 * Returns 0, or -errno with `err` set to stop. */
typedef int beside_call(void *arg, uint32_t sample, const void *value, uint32_t len,
                        struct plenum_error *err);

/** A field, given like a stream's "NAME:SOURCE:KIND", but without a name. */
struct beside_field {
    const struct dataset *dataset;
    const struct dataset_options *options; /* the options that it was opened with */
    const char *source;
    const char *kind; /* "text", "float32", or "boxes": an array of struct plenum_box */
};

/** Read a field of each sample, in order. Errors: those of dataset_open(), dataset_read_fields()
 * and `call`; -ESTALE the data set has changed since it was opened. */
int beside_read(const struct beside_field *field, beside_call *call, void *arg,
                struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* field_table.h - records where the fields of samples are stored, and their lengths and types.
 *
 * The first dataset_open() that requests a set of fields reads them for all samples, and writes the
 * results to a file beside the index ("….index.fields-…"). Without a cache folder, every
 * dataset_open() reads them. */
#ifndef LOADER_DATASET_FIELD_TABLE_H
#define LOADER_DATASET_FIELD_TABLE_H

#include "common/data/fields.h"
#include "loader/dataset/dataset.h"

struct field_table;

/** The memory in bytes for reading the fields of a sample, without the delivered fields. */
struct field_memory {
    uint64_t each; /* used by each thread that reads fields */
    uint64_t turn; /* used by one thread at a time */
};

/** Where a field of a sample is stored, for formats that locate fields in advance. */
struct field_place {
    /* Offset in the sample's archive, or the mtime that the file had when it was found. */
    uint64_t where;
    uint64_t hash; /* stamp_hash_bytes() of a file; 0: not read yet */
    uint32_t len;
    uint32_t state; /* enum field_state */
};

enum field_state {
    FIELD_MISSING,
    FIELD_THERE,
    FIELD_TWICE,
    FIELD_A_LINK,
    FIELD_SPARSE,
    FIELD_STATES,
};

/**
 * Open the fields in options->fields of a data set that is otherwise open: sets dataset->fields and
 * dataset->field_table.
 *
 * Errors: -EINVAL a syntax error, or the data set has no fields; -EBADMSG a field that no sample
 * has; -EINPROGRESS, -EALREADY, -ECANCELED like dataset_open(); -ENOMEM; -EIO and others.
 */
int fields_open(struct dataset *dataset, const struct dataset_options *options,
                struct plenum_error *err);

/** Returns whether the fields in archives are still at the recorded offsets. */
bool fields_hold(const struct dataset *dataset);

/** Account for the memory for reading samples and fields of a data set: raises `sum->each` to what
 * its threads need, and adds to `sum->turn`. */
void dataset_add_memory(const struct dataset *dataset, struct field_memory *sum);

/** NULL is ignored. */
void fields_close(struct field_table *table);

#endif

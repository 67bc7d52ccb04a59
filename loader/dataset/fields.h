/* SPDX-License-Identifier: MIT */
/* fields.h - the fields of a data set's samples: where they lie, how long they are, what they are.
 *
 * The first opening reads all of them once; what it finds is kept in a file beside the index
 * ("….index.fields-…"). */
#ifndef LOADER_DATASET_FIELDS_H
#define LOADER_DATASET_FIELDS_H

#include "common/fields.h"
#include "loader/dataset/dataset.h"

struct field_table;

/** Memory in bytes that reading the fields of a sample takes, beside what the fields become. */
struct field_memory {
    uint64_t each; /* in each thread that reads */
    uint64_t turn; /* in one of them at a time */
};

/** Where a field of a sample lies, in a format that finds them in advance. */
struct field_place {
    uint64_t where; /* offset in the sample's archive; of a file: its mtime when it was found */
    uint64_t hash;  /* of a file's bytes: stamp_hash_bytes(); 0: it was not read yet */
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
 * Find out about the fields of a data set that is otherwise open, as options->fields asks: then
 * dataset->fields and dataset->field_table are there.
 *
 * Errors: -EINVAL the text, or a data set that has no fields; -EBADMSG one that no sample has;
 * -EINPROGRESS, -EALREADY, -ECANCELED as dataset_open(); -ENOMEM; -EIO and others.
 */
int fields_open(struct dataset *dataset, const struct dataset_options *options,
                struct plenum_error *err);

/** Do the fields that were found in archives still lie where they lay? */
bool fields_hold(const struct dataset *dataset);

/** NULL is ignored. */
void fields_close(struct field_table *table);

#endif

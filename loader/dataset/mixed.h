/* SPDX-License-Identifier: MIT */
/* mixed.h - opens the data sets of a plan (common/order/orderplan.h) as one data set. */
#ifndef LOADER_DATASET_MIXED_H
#define LOADER_DATASET_MIXED_H

#include "loader/dataset/dataset.h"

struct field_memory;

struct mixed;

/** Open all data sets of a plan as one: set dataset->mixed and all other members of `dataset`.
 *  Errors: those of dataset_open(). */
int mixed_open(struct dataset *dataset, const char *text, const struct dataset_options *options,
               struct plenum_error *err);
/** NULL is ignored. */
void mixed_close(struct mixed *mixed);

/** Returns the set that a sample belongs to; `*sample` becomes its number in that set. */
const struct dataset *mixed_find(const struct mixed *mixed, uint32_t *sample);
/** Returns the label of a sample among the classes of all sets. */
int64_t mixed_label(const struct mixed *mixed, uint32_t sample);
/** Returns the name of a class of all sets, or "". Borrowed. */
const char *mixed_class_name(const struct mixed *mixed, uint32_t label);
/** Returns the number of a sample's container among those of all sets. */
uint32_t mixed_container(const struct mixed *mixed, uint32_t sample);
/** Like dataset_read_fields(). */
int mixed_read_fields(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                      struct plenum_error *err);
/** Like dataset_add_memory(), for all sets. */
void mixed_add_memory(const struct mixed *mixed, struct field_memory *sum);
/** Returns a hash [16] of the fields of all sets. */
const uint8_t *mixed_fields_hash(const struct mixed *mixed);

#endif

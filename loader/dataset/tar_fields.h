/* SPDX-License-Identifier: MIT */
/* tar_fields.h - finds and reads the members of an archive that are fields of a sample. */
#ifndef LOADER_DATASET_TAR_FIELDS_H
#define LOADER_DATASET_TAR_FIELDS_H

#include "loader/dataset/format.h"
#include "loader/dataset/tar_reader.h"

/** The parts of a member's name. Members of one sample have the same key. */
struct tar_name {
    const char *name; /* without a leading "./" */
    const char *base; /* its last part */
    const char *dot;  /* start of the extension, or NULL */
    size_t key_len;   /* length of the key, a prefix of `name` */
};

/** Split a member's name; with `by_folder` the key is the whole name. Returns false if the member
 * does not belong to a sample. */
bool tar_split_name(const struct tar_member *m, bool by_folder, struct tar_name *ret);

/** These implement struct format's find_fields and read_field. */
int tar_find_fields(const struct dataset *dataset, const struct dataset_options *options,
                    struct field_place *places, struct plenum_error *err);
int tar_read_field(const struct dataset *dataset, const struct index_sample *sample,
                   const struct field_place *place, struct dataset_buffer *buffer,
                   struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* field_table_priv.h - the table of fields. field_table.c opens its file, field_scan.c reads all
 * samples to build it, and sample_fields.c uses it to read one sample. */
#ifndef LOADER_DATASET_FIELD_TABLE_PRIV_H
#define LOADER_DATASET_FIELD_TABLE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/field_value.h"

/** The file has this header, then the places [samples][fields] if the format locates fields. */
struct table_header {
    uint8_t magic[8];
    uint32_t version, count;
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3-64 of the file with this field zero */
    uint64_t index_checksum;
    uint32_t samples, places; /* places: equal to samples, or 0 */
    uint8_t hash[16];
    char text[FIELDS_TEXT_MAX];
    char warning[400];
    struct field_shape shape[FIELDS_MAX];
    uint32_t stored[FIELDS_MAX];
    struct field_memory memory;
};

struct field_table {
    struct table_header *header;      /* the file, `bytes` long */
    const struct field_place *places; /* [samples][fields], or NULL */
    size_t bytes;
    bool mapped;
    char *path; /* path of the file, or NULL */
};

static inline uint32_t samples_of(const struct dataset *d)
{
    return d->index.header->samples;
}

/* ---- sample_fields.c ---- */

/** Returns whether the places of some fields are known before they are read. */
bool fields_have_places(const struct dataset *d);

/** Record the places of a sample's field files in the table. */
int fields_find_files(const struct dataset *d, uint32_t sample, struct field_stored *all,
                      struct plenum_error *err);
/** Read all fields of a sample, as stored, into `all` [fields], which is zero-initialised. Raises
 * `memory` to the memory that this took, unless it is NULL. Returns -EBADMSG if the sample's record
 * is damaged. */
int fields_read_stored(const struct dataset *d, uint32_t sample, struct field_stored *all,
                       struct field_memory *memory, struct plenum_error *err);
/** Record the hashes of a sample's field files, which were just read, in the table. */
void fields_note_hashes(const struct dataset *d, uint32_t sample, const struct field_stored *all);
/** Convert a field whose shape is known. Returns 0; -EBADMSG if the sample has no value of that
 * shape; or -ENOMEM. */
int fields_make_alike(const struct dataset *d, uint32_t field, struct field_stored *s,
                      struct field_piece *ret, struct plenum_error *err);

/* ---- field_scan.c ---- */

/** Read the fields of all samples, and set the shapes and lengths in d->fields and the table's
 * header. */
int fields_scan(struct dataset *d, const struct dataset_options *options, struct plenum_error *err);

#endif

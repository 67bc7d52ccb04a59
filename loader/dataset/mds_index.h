/* SPDX-License-Identifier: MIT */
/* mds_index.h - parses the file index.json of a MosaicML Streaming data set: its shards and
 * columns. */
#ifndef LOADER_DATASET_MDS_INDEX_H
#define LOADER_DATASET_MDS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/unpack.h"

/** How the values of a column are stored. */
enum mds_kind {
    MDS_BYTES, /* also all encodings without their own kind, delivered as bytes */
    MDS_IMAGE, /* an encoded image */
    MDS_PIL,   /* u32 width, height, and length of the mode; mode; pixels */
    MDS_TEXT,
    MDS_SIGNED, /* an integer of `size` bytes */
    MDS_UNSIGNED,
    MDS_FLOAT,
};

struct mds_column {
    char *name;
    enum mds_kind kind;
    uint32_t size; /* in bytes; 0: it varies */
};

/** The columns of some shards. */
struct mds_layout {
    struct mds_column *columns;
    size_t count, cap;
    size_t variable; /* columns whose size varies */
};

struct mds_shard {
    const struct mds_layout *layout; /* borrowed from the index */
    char *path;                      /* path of the file, relative to the folder of index.json */
    char *packed_path;               /* path of the compressed file; NULL: there is none */
    uint64_t bytes;                  /* size of the decompressed shard */
    uint64_t packed_bytes;
    uint32_t samples;
    enum unpack_codec codec;
    bool packed; /* the compressed file is the one to read; set by the caller */
};

struct mds_index {
    struct mds_shard *shards;
    size_t count, cap;
    struct mds_layout **layouts;
    size_t num_layouts, cap_layouts;
};

/** Append the shards of an index.json to `index`, which is zero-initialised. Returns 0; -EBADMSG if
 * it is damaged or has an unsupported form; -EOPNOTSUPP if its compression is not supported; or
 * -ENOMEM. `err` is set, without the file's name. */
int mds_index_parse(struct mds_index *index, const char *text, size_t len,
                    struct plenum_error *err);
void mds_index_fini(struct mds_index *index);

/** Returns the number of a column, or -1. */
int mds_layout_find(const struct mds_layout *layout, const char *name);
/** Write the names of all columns to `ret`; returns `ret`. */
char *mds_layout_list(const struct mds_layout *layout, char *ret, size_t size);

#endif

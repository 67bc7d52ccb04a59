/* SPDX-License-Identifier: MIT */
/* parquet_file.h - reads the metadata at the end of a Parquet file: its columns, and where they
 * are. */
#ifndef LOADER_DATASET_PARQUET_FILE_H
#define LOADER_DATASET_PARQUET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/source.h"
#include "loader/dataset/unpack.h"

/** The physical types of values, with Parquet's numbers. */
enum parquet_type {
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTES,
    PARQUET_FIXED,
    PARQUET_TYPES,
};

/** A leaf of the schema. Members of structs are leaves, too: "image.bytes". */
struct parquet_column {
    char *name;
    enum parquet_type type;
    bool repeated;      /* it is in a list or a map, so a row has any number of values */
    bool text;          /* its bytes are text */
    bool no_sign;       /* its integers are unsigned */
    bool scaled;        /* its values are decimal fractions, stored as integers without the point */
    bool time;          /* its values are dates or times, stored as days or fractions of a second */
    unsigned max_level; /* the definition level of a value that is not null */
};

/** The values of one column in one row group. */
struct parquet_chunk {
    uint64_t begin, bytes; /* where its pages are in the file */
    uint64_t values;
    enum unpack_codec codec;
    bool encrypted;
};

struct parquet_group {
    uint64_t first_row, rows;
    struct parquet_chunk *chunks; /* [columns], borrowed from the file */
};

/** Constant once read. */
struct parquet_file {
    struct parquet_column *columns;
    struct parquet_group *groups;
    struct parquet_chunk *chunks; /* those of all groups, in order */
    size_t num_columns, num_groups, num_chunks;
    size_t cap_columns, cap_groups, cap_chunks;
    uint64_t size;     /* bytes of the file */
    uint64_t rows;     /* rows of all groups */
    char *huggingface; /* the JSON that `datasets` adds, or NULL */
    size_t huggingface_len;
};

/**
 * Read the metadata of a Parquet file of `size` bytes.
 *
 * Errors: -EBADMSG it is not a Parquet file, or damaged, truncated or encrypted; -ENOMEM; -ENODATA
 * the file has become shorter; another -errno of pread(). `err` is set, without the file's name.
 */
int parquet_file_read(const struct source *archive, uint64_t size, struct parquet_file **ret,
                      struct plenum_error *err);
/** NULL is ignored. */
void parquet_file_free(struct parquet_file *file);

/** Returns the number of the first column with this name, or -1. */
int parquet_file_find(const struct parquet_file *file, const char *name);
/** Returns whether another column has the same name. */
bool parquet_file_is_twin(const struct parquet_file *file, int column);
/** Write the names of all columns to `ret`, for a user who has to choose one. Returns `ret`. */
char *parquet_file_list(const struct parquet_file *file, char *ret, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* source.h - what the bytes of an archive are read from: an open file, or an object in a store. */
#ifndef LOADER_DATASET_SOURCE_H
#define LOADER_DATASET_SOURCE_H

#include <stdint.h>

#include "common/util/util.h"
#include "loader/store/store.h"

/** Borrows both. */
struct source {
    int fd;                            /* -1 for an object */
    const struct store_object *object; /* NULL for a file */
    uint32_t sample; /* that is read, for the cache of objects, or STORE_NO_SAMPLE */
};

static inline struct source source_of_file(int fd)
{
    return (struct source){.fd = fd, .sample = STORE_NO_SAMPLE};
}

/** Read exactly `len` bytes at `offset`: 0, -errno, or -ENODATA if a file ends before. Sets `err`
 * only for an object; a file's error is described by its code. */
int source_read(const struct source *source, void *bytes, size_t len, uint64_t offset,
                struct plenum_error *err);

/** Like source_read(), but describes the error of a file, too: without its name, which an object's
 * error has. */
int source_get(const struct source *source, void *bytes, size_t len, uint64_t offset,
               struct plenum_error *err);

/** Like source_read(), but up to `len` bytes, fewer only at the end: their number. */
int64_t source_read_some(const struct source *source, void *bytes, size_t len, uint64_t offset,
                         struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* source.h - reads the bytes of an archive, which is an open file or an object in a store. */
#ifndef LOADER_DATASET_SOURCE_H
#define LOADER_DATASET_SOURCE_H

#include <stdint.h>

#include "common/util/util.h"
#include "loader/store/store.h"

/** Borrows the file and the object. */
struct source {
    int fd;                            /* -1 for an object */
    const struct store_object *object; /* NULL for a file */
    uint32_t sample; /* the sample that is read, for the disk cache; or STORE_NO_SAMPLE */
};

static inline struct source source_of_file(int fd)
{
    return (struct source){.fd = fd, .sample = STORE_NO_SAMPLE};
}

/** Read exactly `len` bytes at `offset`. Returns 0; -ENODATA if a file ends before that; or another
 * -errno. Sets `err` only for an object; for a file, the code is the whole error. */
int source_read(const struct source *source, void *bytes, size_t len, uint64_t offset,
                struct plenum_error *err);

/** Like source_read(), but also sets `err` for a file. Its message does not name the file; that of
 * an object names the object. */
int source_get(const struct source *source, void *bytes, size_t len, uint64_t offset,
               struct plenum_error *err);

/** Like source_read(), but reads fewer than `len` bytes at the end. Returns the number of bytes
 * read, or -errno. */
int64_t source_read_some(const struct source *source, void *bytes, size_t len, uint64_t offset,
                         struct plenum_error *err);

#endif

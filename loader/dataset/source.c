/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/source.h"

#include <errno.h>
#include <string.h>

#include "common/util/error_set.h"

int source_read(const struct source *source, void *bytes, size_t len, uint64_t offset,
                struct plenum_error *err)
{
    return source->object
               ? store_read_sample(source->object, source->sample, offset, len, bytes, err)
               : io_pread_all(source->fd, bytes, len, offset);
}

int source_get(const struct source *source, void *bytes, size_t len, uint64_t offset,
               struct plenum_error *err)
{
    int r = source_read(source, bytes, len, offset, err);

    if (r == 0 || source->object)
        return r;
    return error_set(err, r, "%s",
                     r == -ENODATA ? "it became shorter while it was read" : strerror(-r));
}

int64_t source_read_some(const struct source *source, void *bytes, size_t len, uint64_t offset,
                         struct plenum_error *err)
{
    uint64_t size, n;
    int r;

    if (!source->object)
        return io_pread_some(source->fd, bytes, len, offset);
    size = store_get_facts(source->object)->size;
    n = offset < size ? min_u64(len, size - offset) : 0;
    r = n ? store_read_sample(source->object, source->sample, offset, n, bytes, err) : 0;
    return r < 0 ? r : (int64_t)n;
}

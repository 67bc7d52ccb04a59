/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/source.h"

int source_read(const struct source *source, void *bytes, size_t len, uint64_t offset,
                struct plenum_error *err)
{
    return source->object ? store_read(source->object, offset, len, bytes, err)
                          : io_pread_all(source->fd, bytes, len, offset);
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
    r = n ? store_read(source->object, offset, n, bytes, err) : 0;
    return r < 0 ? r : (int64_t)n;
}

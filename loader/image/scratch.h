/* SPDX-License-Identifier: MIT */
/* scratch.h - memory that grows to the requested size and is kept from image to image. */
#ifndef LOADER_IMAGE_SCRATCH_H
#define LOADER_IMAGE_SCRATCH_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct scratch {
    void *bytes; /* 64-byte aligned */
    size_t size;
};

static inline void scratch_free(struct scratch *s)
{
    free(s->bytes);
    *s = (struct scratch){0};
}

/** Make s->bytes hold at least `size` bytes. If it has to grow, the content is lost. Returns 0 or
 * -ENOMEM. */
static inline int scratch_reserve(struct scratch *s, size_t size)
{
    if (size <= s->size)
        return 0;
    size = (size + size / 4 + 63) & ~(size_t)63;
    scratch_free(s);
    s->bytes = aligned_alloc(64, size);
    if (!s->bytes)
        return -ENOMEM;
    s->size = size;
    return 0;
}

/** Free the memory if it has more than `keep` bytes. */
static inline void scratch_trim(struct scratch *s, size_t keep)
{
    if (s->size > keep)
        scratch_free(s);
}

#endif

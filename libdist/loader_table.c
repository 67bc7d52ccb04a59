/* SPDX-License-Identifier: MIT */
/* loader_table.c - the loaders of a stream, one entry each. An entry is in use while it has a
 * session. */
#include "config.h"

#include "libdist/loader_table.h"

#include <assert.h>
#include <errno.h>

struct loader *loader_from(struct plenum_stream *s, struct loader *from)
{
    assert(from >= s->loaders->all && from <= s->loaders->all + LOADERS_MAX);
    while (from < s->loaders->all + LOADERS_MAX && !from->session)
        from++;
    return from < s->loaders->all + LOADERS_MAX ? from : NULL;
}

int loader_add(struct plenum_stream *s, int of, const struct address *own, struct loader **ret)
{
    struct loader *l = s->loaders->all;

    assert(lock_is_held(&s->mu));
    assert(of >= 0 && of < s->loaders->num_named);
    while (l < s->loaders->all + LOADERS_MAX && l->session)
        l++;
    if (l == s->loaders->all + LOADERS_MAX)
        return -ENOSPC;
    *l = (struct loader){.stream = s,
                         .address = &s->loaders->named[of].address,
                         .of = of,
                         .bit = UINT32_C(1) << (l - s->loaders->all)};
    if (own) {
        l->own = *own;
        l->address = &l->own;
    }
    l->session = session_create(&s->loaders->setup, l, l->address);
    if (!l->session)
        return -ENOMEM;
    *ret = l;
    return 0;
}

void loader_end(struct loader *l)
{
    assert(lock_is_held(&l->stream->mu));
    session_close(l->session, true);
    session_destroy(l->session);
    l->session = NULL;
}

struct loader *loader_first(struct plenum_stream *s)
{
    struct loader *first = NULL;

    assert(lock_is_held(&s->mu));
    FOR_LOADERS(l, s)
        if (session_is_open(l->session) &&
            (!first || (address_is_local(l->address) && !address_is_local(first->address))))
            first = l;
    return first;
}

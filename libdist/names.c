/* SPDX-License-Identifier: MIT */
/* names.c - requests the names of samples and classes.
 *
 * A limited number of names is requested from one loader at a time, which answers in order. If the
 * loader is lost, the rest are requested from another. */
#include "config.h"

#include "libdist/names.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/list.h"
#include "common/util/util.h"
#include "libdist/io.h"
#include "libdist/loader_table.h"

enum { UNDER_WAY_MAX = 64 };

/* A caller's request for names of samples or classes. */
struct name_ask {
    enum wire_named of;
    const uint32_t *samples; /* [count]; NULL: all classes, in order */
    char **names;            /* [count]: the first `have` have arrived */
    uint32_t count, sent, have;
    uint64_t base; /* request number of the first name */
    int code;      /* < 0: the request has failed with this error */
    struct plenum_error err;
    struct list link; /* unlinked once the request is complete or has failed */
};

/* Returns the oldest request, or NULL. */
static struct name_ask *first_ask(struct plenum_stream *s)
{
    struct list *link = list_first(&s->loaders->name_asks);

    return link ? container_of(link, struct name_ask, link) : NULL;
}

void names_ask(struct plenum_stream *s)
{
    struct name_ask *a = first_ask(s);
    struct loader *l;
    bool asked = false;

    assert(lock_is_held(&s->mu));
    if (!s->loaders->names_asked)
        s->loaders->names_asked = loader_first(s);
    l = s->loaders->names_asked;
    if (!a || !l)
        return;
    while (a->code == 0 && a->sent < a->count && a->sent - a->have < UNDER_WAY_MAX) {
        struct wire_ask_name m = {.number = a->samples ? a->samples[a->sent] : a->sent,
                                  .of = a->of};
        int r = session_ask_name(l->session, a->base + a->sent, &m, &a->err);

        if (r == -ENOTSUP)
            a->code = r;
        asked |= r != -ENOTSUP;
        if (r < 0)
            break;
        a->sent++;
    }
    /* A failed request stays in the list until its answers have arrived. */
    if (a->have == a->sent && (a->code < 0 || a->have == a->count)) {
        list_remove(&a->link);
        stream_changed(s);
        names_ask(s);
        return;
    }
    if (asked)
        (void)session_flush(l->session);
}

int names_receive(struct loader *l, uint64_t request, const struct wire_name *m)
{
    struct plenum_stream *s = l->stream;
    struct name_ask *a = first_ask(s);

    assert(lock_is_held(&s->mu));
    if (l != s->loaders->names_asked || !a || a->have == a->sent || request != a->base + a->have)
        return -EPROTO;
    if (!m->text[0] && a->of == WIRE_NAMED_SAMPLE) {
        a->code = error_set(&a->err, -EINVAL, "the data set has no sample %u", a->samples[a->have]);
    } else {
        a->names[a->have] = strdup(m->text);
        if (!a->names[a->have])
            a->code = error_set(&a->err, -ENOMEM, "out of memory");
    }
    a->have++;
    names_ask(s);
    return 0;
}

void names_release(struct plenum_stream *s, const struct loader *l)
{
    struct name_ask *a = first_ask(s);

    assert(lock_is_held(&s->mu));
    if (s->loaders->names_asked != l)
        return;
    s->loaders->names_asked = NULL;
    if (a) /* the first request: its rest will go to another loader */
        a->sent = a->have;
}

static int wait_for(struct plenum_stream *s, struct name_ask *a, struct plenum_error *err)
{
    assert(lock_is_held(&s->mu));
    list_add_last(&s->loaders->name_asks, &a->link);
    a->base = s->next_request + 1;
    s->next_request += a->count;
    names_ask(s);
    io_poke(); /* there is something to wait for now */
    while (list_is_linked(&a->link) && s->error_code == 0 && !s->closed)
        lock_wait(&s->mu, &s->changed);
    if (!list_is_linked(&a->link))
        return a->code < 0 ? error_set(err, a->code, "%s", a->err.text) : 0;
    list_remove(&a->link);
    return stream_over(s, err);
}

/* Copy the names into one block: pointers, then the strings. */
static char **pack(char *const *names, uint32_t count)
{
    size_t bytes = (count + (size_t)1) * sizeof(char *);
    char **ret, *text;

    for (uint32_t i = 0; i < count; i++)
        bytes += strlen(names[i]) + 1;
    ret = malloc(bytes);
    if (!ret)
        return NULL;
    text = (char *)(ret + count + 1);
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = text;
        text = stpcpy(text, names[i]) + 1;
    }
    ret[count] = NULL;
    return ret;
}

int names_get(struct plenum_stream *s, enum wire_named of, const uint32_t *samples, uint32_t count,
              char ***ret, struct plenum_error *err)
{
    struct name_ask ask = {.of = of, .samples = samples, .count = count};
    int r;

    assert(lock_is_held(&s->mu));
    ask.names = calloc(count + (size_t)1, sizeof(*ask.names));
    if (!ask.names)
        return error_set(err, -ENOMEM, "out of memory");
    if (count > 0 && (r = wait_for(s, &ask, err)) < 0)
        goto out;
    *ret = pack(ask.names, count);
    r = *ret ? 0 : error_set(err, -ENOMEM, "out of memory");

out:
    for (uint32_t i = 0; i < count; i++)
        free(ask.names[i]);
    free(ask.names);
    return r;
}

/* SPDX-License-Identifier: MIT */
/* lookup.c - loaders behind a host name.
 *
 * A name may resolve to several addresses, such as that of a headless service in Kubernetes, and
 * each address is a separate loader. The name is looked up again while the stream runs: a new
 * address gets a session, and an address that has disappeared gets no new requests. The session
 * with its loader stays until the loader has answered all requests, and for as long as there is no
 * other loader. Since any loader can render any batch, the batches do not depend on any of this.
 *
 * A failed look-up changes nothing, because it does not mean that a loader is gone.
 *
 * getaddrinfo() may take seconds. So a separate thread calls it, without the lock, holding a
 * reference to the stream; nothing waits for that thread. Only one runs at a time. */
#include "config.h"

#include "libdist/lookup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/io.h"
#include "libdist/loader_table.h"
#include "libdist/schedule.h"

/* The interval between look-ups, and the interval while no loader is connected. */
uint64_t lookup_every_ns = 10 * NS_PER_SEC;
static const uint64_t look_again_ns = NS_PER_SEC;

struct task {
    struct plenum_stream *stream;
    int count;
    struct {
        int of;
        unsigned turn;
        struct address name;
    } names[];
};

static struct loader *find(struct plenum_stream *s, const struct address *address)
{
    FOR_LOADERS(l, s)
        if (address_is_same(l->address, address))
            return l;
    return NULL;
}

static int add(struct plenum_stream *s, int of, const struct address *own)
{
    struct loader *l;
    int r = loader_add(s, of, own, &l);

    if (r == 0)
        schedule_admit(l);
    return r;
}

/* Update the loaders behind named[of], which now resolves to the `count` addresses in `found`. */
static void add_found(struct plenum_stream *s, int of, const struct address *found, int count)
{
    s->loaders->named[of].error.text[0] = '\0';
    FOR_LOADERS(l, s) {
        if (l->of != of)
            continue;
        l->unlisted = true;
        for (int i = 0; i < count && l->unlisted; i++) {
            l->unlisted = !address_is_same(l->address, &found[i]);
            if (!l->unlisted) /* messages use the name of a sole loader */
                l->own = found[i];
        }
    }
    for (int i = 0; i < count; i++) {
        struct loader *known = find(s, &found[i]);

        if (known && known->unlisted) { /* another name resolved to this address before */
            known->of = of;
            known->own = found[i];
            known->unlisted = false;
        }
        if (known || add(s, of, &found[i]) != -ENOSPC) /* -ENOMEM: retried next time */
            continue;
        if (!s->loaders->told_full)
            stream_warn(s, "%s names more than %d loaders: %s and others are not used",
                        s->loaders->named[of].address.text, LOADERS_MAX, found[i].text);
        s->loaders->told_full = true;
    }
}

int lookup_first(struct plenum_stream *s, struct plenum_error *err)
{
    const struct plenum_error *why = NULL;
    int known = 0;

    assert(lock_is_held(&s->mu));
    s->loaders->several = s->loaders->num_named > 1;
    for (int i = 0; i < s->loaders->num_named; i++) {
        struct loader_name *n = &s->loaders->named[i];
        struct address *found;
        int r;

        n->is_name = address_is_name(&n->address);
        s->loaders->several |= n->is_name;
        if (!n->is_name) {
            if (add(s, i, NULL) < 0)
                return error_set(err, -ENOMEM, "out of memory");
            known++;
            continue;
        }
        r = address_lookup(&n->address, 0, &found, &n->both, &n->error);
        n->looked_ns = time_now_ns();
        if (r > 0) {
            add_found(s, i, found, r);
            known++;
        } else {
            why = why ? why : &n->error;
            if (s->loaders->num_named == 1)
                return error_set(err, r, "%s", n->error.text);
            stream_warn(s, "loader %s is not used: %s", n->address.text, n->error.text);
        }
        free(found);
    }
    return known ? 0 : error_set(err, -ENOENT, "%s", why->text);
}

static void *look_main(void *arg)
{
    struct task *task = arg;
    struct plenum_stream *s = task->stream;

    for (int i = 0; i < task->count; i++) {
        struct loader_name *n = &s->loaders->named[task->names[i].of];
        struct plenum_error err = {""};
        struct address *found;
        bool both;
        int r = address_lookup(&task->names[i].name, task->names[i].turn, &found, &both, &err);

        lock_acquire(&s->mu);
        if (r > 0) {
            n->both = both;
            add_found(s, task->names[i].of, found, r);
        } else {
            n->error = err;
        }
        lock_release(&s->mu);
        free(found);
    }
    lock_acquire(&s->mu);
    s->loaders->looking = false;
    if (!s->loaders->over)
        io_poke();
    lock_release(&s->mu);
    stream_unref(s);
    free(task);
    return NULL;
}

static bool is_connected(struct plenum_stream *s)
{
    FOR_LOADERS(l, s)
        if (!session_is_down(l->session))
            return true;
    return false;
}

/* Returns whether all loaders behind the name have been unreachable. */
static bool is_in_vain(struct plenum_stream *s, int of)
{
    bool any = false;

    FOR_LOADERS(l, s) {
        if (l->of != of)
            continue;
        if (!session_is_down(l->session) || session_refusal(l->session) ||
            !session_error(l->session)[0])
            return false;
        any = true;
    }
    return any;
}

/* Returns the pause until the next look-up, which spreads the look-ups of a job's streams. */
static uint64_t pause_of(const struct plenum_stream *s)
{
    return lookup_every_ns + XXH3_64bits(s->name, strlen(s->name)) % (lookup_every_ns / 2);
}

static uint64_t time_of(struct plenum_stream *s, int of, bool connected)
{
    const struct loader_name *n = &s->loaders->named[of];

    if (n->both && n->turn % 2 == 0 && is_in_vain(s, of))
        return 0; /* retry with the other address family */
    return n->looked_ns + (connected ? pause_of(s) : min_u64(look_again_ns, lookup_every_ns));
}

/* Look up all names, even if only one is due. A loader that one name no longer resolves to may
 * still be behind another; it is ended only when all names have been looked up. */
static void start(struct plenum_stream *s, uint64_t now)
{
    struct task *task =
        calloc(1, sizeof(*task) + (size_t)s->loaders->num_named * sizeof(task->names[0]));

    for (int i = 0; i < s->loaders->num_named; i++) {
        struct loader_name *n = &s->loaders->named[i];

        if (!n->is_name)
            continue;
        n->turn += n->both && is_in_vain(s, i);
        n->looked_ns = now;
        if (!task) /* retried later */
            continue;
        task->names[task->count].of = i;
        task->names[task->count].turn = n->turn;
        task->names[task->count++].name = n->address;
    }
    if (!task)
        return;
    task->stream = s;
    (void)atomic_fetch_add(&s->refs, 1);
    s->loaders->looking = thread_start(NULL, look_main, task) == 0;
    if (!s->loaders->looking) {
        (void)atomic_fetch_sub(&s->refs,
                               1); /* not the last one: the program's handle holds another */
        free(task);
    }
}

/* Has the loader answered all requests? Batches that wait to be compared count, too, because
 * messages name their loader. */
static bool is_idle(const struct loader *l)
{
    return session_is_idle(l->session) && !schedule_waits_for(l->stream, l->session);
}

/* End idle loaders that their names no longer resolve to, unless no other one is open. */
static void end_unlisted(struct plenum_stream *s)
{
    bool other = false;

    FOR_LOADERS(l, s)
        other |= session_is_open(l->session) && !l->unlisted;
    FOR_LOADERS(l, s) {
        if (!l->unlisted || !is_idle(l) || (session_is_open(l->session) && !other))
            continue;
        loader_end(l);
    }
}

uint64_t lookup_tick(struct plenum_stream *s, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;
    bool connected;

    assert(lock_is_held(&s->mu));
    if (!s->loaders->looking) /* otherwise another name may still resolve to it */
        end_unlisted(s);
    connected = is_connected(s);
    for (int i = 0; i < s->loaders->num_named && !s->loaders->looking; i++)
        if (s->loaders->named[i].is_name)
            next = min_u64(next, time_of(s, i, connected));
    if (next > now_ns)
        return next;
    start(s, now_ns);
    return s->loaders->looking ? UINT64_MAX : now_ns + look_again_ns;
}

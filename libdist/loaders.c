/* SPDX-License-Identifier: MIT */
/* loaders.c - the loaders of a stream: which are connected, what their sessions report, and how the
 * stream reacts.
 *
 * A lost loader is retried again and again (loader_session.c). The stream stalls only while none is
 * connected, and fails when none has answered for loader_timeout, or when all have rejected it. If
 * no loader was named, the job's own is expected at one of several addresses; one of the job's
 * processes keeps it (io.c).
 *
 * Not here: which loader renders which batch (schedule.c). */
#include "config.h"

#include "libdist/loaders.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/jobloader.h"
#include "common/order/orderplan.h"
#include "common/pipeline/identity.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/amended.h"
#include "libdist/io.h"
#include "libdist/loader_table.h"
#include "libdist/lookup.h"
#include "libdist/names.h"
#include "libdist/ownloader.h"
#include "libdist/schedule.h"

enum {
    /* Attempts, within about a second, before the own loader's address counts as taken. */
    OWN_TAKEN_MAX = 8,
};

/* How long opening a stream may wait for a first answer before it warns. */
static const uint64_t first_word_ns = NS_PER_SEC;

unsigned loaders_count(struct plenum_stream *s)
{
    unsigned n = 0;

    FOR_LOADERS(l, s)
        n++;
    return n;
}

bool loaders_has_remote(const struct plenum_stream *s)
{
    for (int i = 0; i < s->loaders->num_named; i++)
        if (s->loaders->named[i].address.tcp)
            return true;
    return false;
}

static unsigned count_open(struct plenum_stream *s)
{
    unsigned n = 0;

    FOR_LOADERS(l, s)
        n += session_is_open(l->session);
    return n;
}

static bool has_loader(struct plenum_stream *s, int of)
{
    FOR_LOADERS(l, s)
        if (l->of == of)
            return true;
    return false;
}

/* List all loaders: "ADDRESS (state), ...". */
static void list_errors(struct plenum_stream *s, char *text, size_t size)
{
    size_t n = 0;

    *text = '\0';
    FOR_LOADERS(l, s)
        if (n < size - 1)
            n += (size_t)snprintf(text + n, size - n, "%s%s (%s)", n ? ", " : "", l->address->text,
                                  session_error(l->session)[0]  ? session_error(l->session)
                                  : session_is_down(l->session) ? "not tried"
                                                                : "does not answer");
    for (int i = 0; i < s->loaders->num_named; i++)
        if (n < size - 1 && s->loaders->named[i].error.text[0] && !has_loader(s, i))
            n += (size_t)snprintf(text + n, size - n, "%s%s (%s)", n ? ", " : "",
                                  s->loaders->named[i].address.text,
                                  s->loaders->named[i].error.text);
}

static void no_loader(struct plenum_stream *s, uint64_t now)
{
    char text[sizeof(s->error.text)], all[sizeof(text) + 64];

    list_errors(s, text, sizeof(text));
    (void)snprintf(all, sizeof(all), "no loader answered for %.0f s: %s",
                   s->loaders->alone_ns ? (double)(now - s->loaders->alone_ns) / (double)NS_PER_SEC
                                        : 0.0,
                   text);
    stream_fail(s, -ECONNRESET, all);
}

/* Returns whether no named loader has answered a stream that is being opened. The job's own loader
 * does not count, because its keeper answers for it (jobloader.c). */
static bool waits_for_first_word(struct plenum_stream *s)
{
    char own[64];

    (void)jobloader_form_address("", own, sizeof(own));
    if (s->opened || s->loaders->own || s->loaders->told_waiting || !s->loaders->alone_ns)
        return false;
    FOR_LOADERS(l, s)
        if (session_has_greeted(l->session) || str_after(l->address->text, own))
            return false;
    return true;
}

/* Warn early that no loader answers. Returns the time of the next check. */
static uint64_t tell_waiting(struct plenum_stream *s, uint64_t now)
{
    char text[512];
    uint64_t at;

    if (!waits_for_first_word(s))
        return UINT64_MAX;
    at = sum_u64(s->loaders->alone_ns, first_word_ns);
    if (now < at)
        return at;
    s->loaders->told_waiting = true;
    list_errors(s, text, sizeof(text));
    stream_warn(s, "no loader answers yet: %s; the stream waits up to %.0f s for one", text,
                (double)s->loader_timeout_ns / (double)NS_PER_SEC);
    return UINT64_MAX;
}

/* If every loader has rejected the stream, fail it, or reject its amended plan. Loaders that always
 * died while opening it (-ECONNRESET) count as missing. */
static void maybe_give_up(struct plenum_stream *s, uint64_t now)
{
    const struct loader *first = NULL;

    FOR_LOADERS(l, s) {
        if (session_is_open(l->session) || !session_refusal(l->session))
            return;
        if (!first && session_refusal(l->session) != -ECONNRESET)
            first = l;
    }
    for (int i = 0; i < s->loaders->num_named; i++)
        /* The name may still resolve to a loader. */
        if (s->loaders->named[i].error.text[0] && !has_loader(s, i))
            return;
    if (first && s->amended)
        amended_refuse(s, session_refusal(first->session), session_error(first->session));
    else if (first)
        stream_fail(s, session_refusal(first->session), session_error(first->session));
    else
        no_loader(s, now);
}

/* Check an OPENED. The first one describes the data set; all later ones must describe an equal
 * one. */
static int described(struct loader *l, const struct wire_opened *m, struct plenum_error *err)
{
    struct plenum_stream *s = l->stream;
    int r;

    assert(lock_is_held(&s->mu));
    if (s->amended)
        return amended_describe(s, m, err);
    if (s->opened) {
        char difference[200];

        if (m->samples == s->num_samples && memcmp(m->fingerprint, s->fingerprint, 16) == 0)
            return 0;
        (void)datasum_difference(&s->sum, &m->sum, difference, sizeof(difference));
        if (s->plan && (s->plan->num_sets > 1 || !difference[0]))
            return amended_refuse_changed(s, err);
        return error_set(err, -ESTALE, "%s is now a different data set under the same name: %s",
                         s->open.dataset, difference);
    }
    if (m->sets != (s->plan ? s->plan->num_sets : 0) ||
        m->reweighs != (s->plan ? s->plan->num_reweighs : 0))
        return error_set(err, -EPROTO, "%u data sets were requested, but %u were described",
                         s->plan ? s->plan->num_sets : 0, m->sets);
    r = wire_order(&s->open, s->plan ? m->positions : m->samples, &s->order, &s->steps, err);
    if (r < 0)
        return r;
    if (s->plan) {
        memcpy(s->sets, m->set, m->sets * sizeof(m->set[0]));
        memcpy(s->reweighs, m->reweigh, m->reweighs * sizeof(m->reweigh[0]));
        s->steps.gaps = s->plan->skips;
        s->steps.num_gaps = s->plan->num_skips;
    }
    s->sum = m->sum;
    s->num_samples = m->samples;
    s->num_classes = m->classes;
    s->num_class_names = m->class_names;
    if (m->warning[0])
        stream_warn(s, "data set '%s': %s", s->open.dataset, m->warning);
    memcpy(s->fingerprint, m->fingerprint, sizeof(s->fingerprint));
    if (s->plan)
        stream_identity(s, (struct order_place){0}, s->identity);
    else
        identity_of(s->fingerprint, s->num_samples, &s->open, s->identity);
    s->opened = true;
    schedule_begin(s);
    return 0;
}

/* Fill every slot once, for PLENUM_SOURCE=synthetic: pixels at the zero point, labels, sample
 * numbers and, if samples are mixed, weights of 1. */
static void fill_synthetic(const struct loader *l)
{
    const struct plenum_stream *s = l->stream;
    const struct slot_set *set = session_set(l->session);
    size_t count = wire_batch_count(&s->open);
    const struct wire_slot *layout = &s->layout;

    for (uint32_t i = 0; i < set->num_slots; i++) {
        uint8_t *bytes = ring_slot(set->ring, i);
        int64_t *labels = (int64_t *)(void *)(bytes + layout->labels_at);
        uint32_t *samples = (uint32_t *)(void *)(bytes + layout->samples_at);

        memset(bytes, s->open.dtype == PLENUM_UINT8 ? 128 : 0, layout->labels_at);
        for (size_t k = 0; k < count; k++) {
            labels[k] = (int64_t)(k % max_u64(s->num_classes, 1));
            samples[k] = s->order.first + (uint32_t)(k % (s->plan ? s->num_samples : s->order.n));
        }
        for (size_t k = 0; s->open.mix && k < count; k++) {
            ((int64_t *)(void *)(bytes + layout->labels2_at))[k] = labels[k];
            ((float *)(void *)(bytes + layout->weights_at))[k] = 1;
        }
    }
}

static void opened(struct loader *l, const struct wire_opened *m)
{
    struct plenum_stream *s = l->stream;
    uint64_t now = time_now_ns();

    assert(lock_is_held(&s->mu));
    l->threads = m->threads;
    l->io_threads = m->io_threads;
    l->warned = false;
    l->service_ns = l->avoid_ns = 0;
    if (s->synthetic)
        fill_synthetic(l);
    if (s->loaders->lost_ns) {
        s->loaders->stood_ns += now - s->loaders->lost_ns;
        stream_warn(s, "%s; after %.2f s, batches are coming from %s", s->loaders->lost_text,
                    (double)(now - s->loaders->lost_ns) / (double)NS_PER_SEC, l->address->text);
    }
    s->loaders->lost_ns = s->loaders->alone_ns = 0;
    schedule_pump(s);
    names_ask(s);
    stream_changed(s);
}

/* Get the slots that the loader fills: a ring of its own on this host; over TCP, one that all
 * remote sessions share, with slots for hedges and verification. */
static int take_slots(struct loader *l, const struct wire_open *open, struct slot_set **ret,
                      struct plenum_error *err)
{
    struct plenum_stream *s = l->stream;
    uint32_t more = s->loaders->several ? HEDGE_SLOTS : 0;
    int r;

    if (!l->address->tcp)
        return slot_set_create(open, open->slots, s, &s->mu, ret, err);
    if (more > 0 && s->verify_share > 0)
        more = s->depth + 1;
    if (!s->loaders->remote) {
        r = slot_set_create(&s->open, s->open.slots + more, s, &s->mu, &s->loaders->remote, err);
        if (r < 0)
            return r;
        io_close(&s->loaders->remote->ring->fd); /* the shared ring is sent to no loader */
    }
    *ret = slot_set_ref(s->loaders->remote);
    return 0;
}

static int take_fields(struct loader *l, const struct wire_fields *m, struct plenum_error *err)
{
    struct plenum_stream *s = l->stream;
    struct field_shape shape[FIELDS_MAX];
    int r;

    assert(lock_is_held(&s->mu));
    if (m->count != s->fields.count)
        return error_set(err, -EPROTO, "%u fields were requested, but %u were announced",
                         s->fields.count, m->count);
    for (uint32_t i = 0; i < m->count; i++)
        if (!field_shape_is_as(&m->field[i], s->fields.spec[i].as))
            return error_set(err, -EPROTO,
                             "field '%s' was announced with a different kind from the one "
                             "requested",
                             s->fields.spec[i].name);
    r = views_shape_fields(&s->views, &s->fields, m->field, shape, err);
    if (r < 0)
        return r;
    if (s->open.num_fields > 0)
        return memcmp(m->hash, s->fields_hash, sizeof(m->hash)) == 0 &&
                       memcmp(shape, s->open.field, m->count * sizeof(shape[0])) == 0
                   ? 0
                   : error_set(err, -ESTALE, "the fields of %s are different there",
                               s->open.dataset);
    s->open.num_fields = m->count;
    memcpy(s->open.field, shape, m->count * sizeof(shape[0]));
    memcpy(s->fields_hash, m->hash, sizeof(s->fields_hash));
    if (wire_slot_init(&s->open, &s->layout) < 0) {
        s->open.num_fields = 0;
        return error_set(err, -EINVAL, "a batch with these fields would have more than 1 TiB");
    }
    s->open.slot_bytes = s->layout.bytes;
    return 0;
}

static int greeted(struct loader *l, const struct wire_open *open, struct slot_set **ret,
                   struct plenum_error *err)
{
    assert(lock_is_held(&l->stream->mu));
    l->stream->loaders->own_taken = 0;
    return take_slots(l, open, ret, err);
}

/* Is this error temporary? A loader that has served the stream, or this process, may lack a
 * resource for a moment (-EAGAIN: threads). The loader may not have closed our previous session
 * yet, and batches in that session's ring may still be held here.
 *
 * The job's own loader may be restarted once the cause of its death is gone (-ENOEXEC, from its
 * keeper: jobloader.c).
 *
 * A storage failure (-EIO) is not temporary: the file system has already retried, a batch that
 * cannot be read ends the stream as well, and the user must learn of it at once. A storage timeout
 * (-ETIMEDOUT) is temporary: handle_error() of loader_session_input.c. */
static bool is_for_later(const struct plenum_stream *s, int code)
{
    if (s->amended && code == -ENOMEM) /* the tables of an amended plan */
        return false;
    return s->opened && (code == -ENOSPC || code == -EUSERS || code == -ENOMEM || code == -EMFILE ||
                         code == -ENFILE || code == -EAGAIN || code == -ENOEXEC);
}

/* Is this the only connected loader? */
static bool is_only_one(const struct loader *l)
{
    FOR_LOADERS(other, l->stream)
        if (other != l && !session_is_down(other->session))
            return false;
    return true;
}

static bool refused(struct loader *l, int code, const char *text)
{
    struct plenum_stream *s = l->stream;

    assert(lock_is_held(&s->mu));
    if (!is_for_later(s, code))
        return false;
    if (!l->warned && !s->loaders->alone_ns)
        stream_warn(s, "loader %s is not used for now: %s", l->address->text, text);
    l->warned = !s->loaders->alone_ns;
    /* The connection was of no use, because the loader has rejected us in the end. */
    if (s->loaders->alone_ns && l->alone_ns && is_only_one(l))
        s->loaders->alone_ns = l->alone_ns;
    return true;
}

static void starting(struct loader *l, const char *text)
{
    assert(lock_is_held(&l->stream->mu));
    if (!l->told_starting)
        stream_warn(l->stream, "%s", text);
    l->told_starting = true;
}

static bool out_of(struct loader *l, int code, const char *text)
{
    assert(lock_is_held(&l->stream->mu));
    if (is_for_later(l->stream, code))
        return true;
    stream_fail(l->stream, code, text);
    return false;
}

static void alive(struct loader *l, uint64_t now_ns)
{
    assert(lock_is_held(&l->stream->mu));
    if (l->stream->loaders->alone_ns)
        l->stream->loaders->alone_ns = now_ns;
}

/* Try the own loader's next address, because another user has this one. Returns 0 if there is a
 * next one. */
static int try_next_own(struct plenum_stream *s)
{
    if (!s->loaders->own || s->loaders->own_turn + 1 >= OWNLOADER_TURNS)
        return -EADDRINUSE;
    s->loaders->own_taken = 0;
    ownloader_address(&s->loaders->own_key, ++s->loaders->own_turn, &s->loaders->named[0].address);
    return 0;
}

/* Count a failure to connect to the job's own address although it was bound, or its queue was full.
 * If that happens again and again, another user has taken the address. */
static void own_is_taken(struct plenum_stream *s)
{
    if (++s->loaders->own_taken >= OWN_TAKEN_MAX)
        (void)try_next_own(s);
}

static bool unauthenticated(struct loader *l)
{
    assert(lock_is_held(&l->stream->mu));
    return try_next_own(l->stream) == 0;
}

static void unreached(struct loader *l, int code)
{
    struct plenum_stream *s = l->stream;

    assert(lock_is_held(&s->mu));
    s->loaders->wants_keeper = s->loaders->own && code == -ECONNREFUSED;
    if (s->loaders->own && code == -EAGAIN)
        own_is_taken(s);
}

static void released(struct loader *l)
{
    struct plenum_stream *s = l->stream;

    assert(lock_is_held(&s->mu));
    schedule_release(s, l->session);
    /* Slots in a ring that only this loader fills keep their state, because it may still write into
     * them. */
    if (s->loaders->remote && session_set(l->session) == s->loaders->remote)
        slot_set_free_asked(s->loaders->remote, l->session);
    names_release(s, l);
}

static void lost(struct loader *l, bool ran, uint64_t since_ns)
{
    struct plenum_stream *s = l->stream;
    uint64_t now = time_now_ns();
    unsigned others = count_open(s);
    int refusal = session_refusal(l->session);

    assert(lock_is_held(&s->mu));
    if (s->error_code < 0)
        return;
    s->loaders->incidents += ran;
    schedule_confirm(s);
    if (ran && others > 0) {
        unsigned moved = schedule_count_moved(s);

        stream_warn(s, "loader %s %s; %u batches are requested from other loaders (%u)",
                    l->address->text, session_error(l->session), moved, others);
        l->warned = refusal;
    } else if (ran && s->loaders->lost_ns == 0) {
        s->loaders->lost_ns = since_ns;
        (void)snprintf(s->loaders->lost_text, sizeof(s->loaders->lost_text), "loader %s %s",
                       l->address->text, session_error(l->session));
    }
    if (refusal && !l->warned && others > 0) {
        stream_warn(s, "loader %s is not used: %s", l->address->text, session_error(l->session));
        l->warned = true;
    }
    if (others == 0 && s->loaders->alone_ns == 0)
        s->loaders->alone_ns = now;
    if (refusal)
        maybe_give_up(s, now);
    schedule_pump(s);
    names_ask(s);
    if (schedule_has_next(s))
        stream_changed(s);
}

static const struct session_events session_events = {.unreached = unreached,
                                                     .unauthenticated = unauthenticated,
                                                     .fields = take_fields,
                                                     .greeted = greeted,
                                                     .starting = starting,
                                                     .out_of = out_of,
                                                     .described = described,
                                                     .opened = opened,
                                                     .refused = refused,
                                                     .alive = alive,
                                                     .done = schedule_done,
                                                     .named = names_receive,
                                                     .released = released,
                                                     .lost = lost};

/* While this process was stopped, it could not hear its loaders: restart their silence timers. */
static void forgive(struct plenum_stream *s, uint64_t now_ns)
{
    FOR_LOADERS(l, s) {
        session_forgive(l->session, now_ns);
        if (l->alone_ns)
            l->alone_ns = now_ns;
    }
    if (s->loaders->alone_ns)
        s->loaders->alone_ns = now_ns;
}

static uint64_t tick(struct plenum_stream *s, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;
    bool others;

    if (s->error_code == 0 && s->loaders->alone_ns &&
        now_ns >= sum_u64(s->loaders->alone_ns, s->loader_timeout_ns))
        no_loader(s, now_ns);
    others = loaders_count(s) > 1;
    FOR_LOADERS(l, s) {
        if (s->error_code < 0) {
            session_close(l->session, false);
            continue;
        }
        if (session_is_down(l->session)) /* it may connect now */
            l->alone_ns = s->loaders->alone_ns;
        next = min_u64(next, session_tick(l->session, now_ns, others));
    }
    if (s->error_code < 0)
        return UINT64_MAX;
    next = min_u64(next, tell_waiting(s, now_ns));
    next = min_u64(next, lookup_tick(s, now_ns));
    if (count_open(s) > 1)
        next = min_u64(next, schedule_tick(s, now_ns));
    return s->loaders->alone_ns ? min_u64(next, sum_u64(s->loaders->alone_ns, s->loader_timeout_ns))
                                : next;
}

/* Keep a loader at the job's own address, where a connection was refused. If another process has
 * bound the address, do nothing, because it may be about to listen. If that happens OWN_TAKEN_MAX
 * times, it is not a loader: try the next address. */
static void keep_own(struct plenum_stream *s)
{
    struct plenum_error err;
    int r;

    assert(s->loaders->own);
    r = io_keep_loader(s->loaders->named[0].address.text, s->info.num_local_instances > 1, &err);
    if (r == -EADDRINUSE)
        own_is_taken(s);
    else if (r < 0)
        stream_fail(s, r, err.text);
}

uint64_t loaders_tick(struct plenum_stream *s, bool jumped)
{
    uint64_t next;

    assert(lock_is_held(&s->mu));
    if (jumped)
        forgive(s, time_now_ns());
    next = tick(s, time_now_ns());
    if (s->loaders->wants_keeper)
        keep_own(s);
    s->loaders->wants_keeper = false;
    return next;
}

static void reopen(struct loader *l, uint64_t now)
{
    session_close(l->session, true);
    session_retry_at(l->session, now);
    l->stream->loaders->alone_ns = now;
}

void loaders_reopen(struct plenum_stream *s)
{
    uint64_t now = time_now_ns();

    assert(lock_is_held(&s->mu));
    FOR_LOADERS(l, s)
        reopen(l, now);
}

void loaders_reshape(struct plenum_stream *s)
{
    uint64_t now = time_now_ns();

    assert(lock_is_held(&s->mu));
    FOR_LOADERS(l, s)
        if (session_is_bound(l->session))
            reopen(l, now);
}

void loaders_leave(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu)); /* since before the fork */
    FOR_LOADERS(l, s) {
        session_leave(l->session);
        slot_set_leave(session_set(l->session));
    }
    slot_set_leave(s->loaders->remote);
    schedule_leave(s);
}

void loaders_fini(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    s->loaders->over = true;
    FOR_LOADERS(l, s)
        session_close(l->session, true);
    slot_set_unref(s->loaders->remote);
    s->loaders->remote = NULL;
}

void loaders_free(struct plenum_stream *s)
{
    if (!s->loaders)
        return;
    FOR_LOADERS(l, s)
        session_destroy(l->session);
    free(s->loaders);
    s->loaders = NULL;
}

int loaders_create(struct plenum_stream *s, const char *named, struct plenum_error *err)
{
    struct address list[ADDRESS_LIST_MAX];
    struct loader_table *all = calloc(1, sizeof(*all));
    int r;

    assert(lock_is_held(&s->mu));
    if (!all)
        return error_set(err, -ENOMEM, "out of memory");
    s->loaders = all;
    list_init(&all->name_asks);
    all->alone_ns = s->opened_ns;
    all->own = !named;
    if (named) {
        r = address_parse_list(named, list, err);
        if (r < 0)
            return r;
        all->num_named = r;
        for (int i = 0; i < r; i++)
            all->named[i].address = list[i];
    } else {
        r = ownloader_key(&s->info, &all->own_key, err);
        if (r < 0)
            return r;
        all->num_named = 1;
        ownloader_address(&all->own_key, 0, &all->named[0].address);
    }
    return lookup_first(s, err);
}

void loaders_begin(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    s->loaders->setup =
        (struct session_setup){.events = &session_events,
                               .lock = &s->mu,
                               .requests = &s->next_request,
                               .open = &s->open,
                               .version = pipeline_version_name(s->views.view[0].pipeline.version),
                               .name = s->name,
                               .job = s->job,
                               .split = s->split,
                               .tls = s->tls,
                               .silence_ns = s->silence_ns,
                               .own_loader = s->loaders->own,
                               .mute = s->synthetic};
}

bool loaders_ready(struct plenum_stream *s, const void *tag)
{
    assert(lock_is_held(&s->mu));
    FOR_LOADERS(l, s)
        if (l == tag) {
            session_ready(l->session);
            return true;
        }
    return false;
}

const struct ring *loaders_ring(struct plenum_stream *s)
{
    const struct loader *first = loader_first(s);

    return first ? session_set(first->session)->ring : NULL;
}

void loaders_get_stats(struct plenum_stream *s, struct plenum_stream_stats *ret)
{
    const struct loader *first = loader_first(s);

    ret->incidents = s->loaders->incidents;
    ret->lost_ns = s->loaders->stood_ns;
    schedule_get_stats(s, ret);
    FOR_LOADERS(l, s)
        if (session_is_open(l->session)) {
            ret->loaders++;
            ret->loader_threads += l->threads;
            ret->loader_io_threads += l->io_threads;
        }
    if (first)
        (void)snprintf(ret->loader, sizeof(ret->loader), "%s", first->address->text);
}

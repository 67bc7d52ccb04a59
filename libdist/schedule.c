/* SPDX-License-Identifier: MIT */
/* schedule.c - the batches of a stream: which loader renders which batch, and when it is requested.
 *
 * Any loader can render any batch, so a stream uses all named loaders, and the batches do not
 * depend on which one was used. Batches are requested in the order of delivery, `depth` of them at
 * a time:
 *
 *     while the program finds enough ready    a loader of this host, if one is open; among equals
 *                                             the one chosen by rendezvous hashing
 *     when batches are short                  the loader that would finish first: its own time per
 *                                             batch, multiplied by its pending requests
 *
 * By the second rule, each loader is busy in proportion to its speed. By the hash, equal requests
 * (of two jobs, or of two unshuffled epochs) go to the same loader, which has their files in its
 * cache.
 *
 * Memory: each ring has room for all batches that are requested, ready or leased. Whichever loader
 * is lost, the others therefore have free slots for its batches. The number of requested batches is
 * bounded over all rings together.
 *
 * A late batch is also requested from another loader. It is late when its own loader is silent
 * (loader_session.c), or when the program has waited for it longer than batches usually take, by
 * the measured latencies. The first answer wins, and the other request is cancelled. A loader that
 * cannot render a batch (because of its disk, for example) is avoided for a while, and the batch is
 * requested from the others. The batch fails when no loader is left that might render it; a loader
 * that is absent for a moment counts until loader_timeout.
 *
 * Some batches are requested from two loaders from the start, and are compared (batch_verify.c).
 *
 *     UNASKED --requested--> ASKED --answered--> READY --next()-->
 *        |  ^                  |
 *        |  +--lost, dropped---+
 *        +--no loader can render it--> FAILED
 *
 * entry_states lists all transitions, and is_sound() checks what holds in each state. */
#include "config.h"

#include "libdist/schedule.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/state.h"
#include "common/util/util.h"
#include "libdist/batch_verify.h"
#include "libdist/loader_table.h"
#include "libdist/rtt.h"

enum {
    LATENCIES_MIN = 8, /* measurements needed before a batch counts as late */
    LATE_HEDGES = 2,   /* late batches that are requested twice at the same time */
    FORGET_AFTER = 64, /* a loader that was idle for this many batches' time is tried again */
};

static const uint64_t late_least_ns = 50 * NS_PER_MS, look_again_ns = 20 * NS_PER_MS,
                      avoid_first_ns = NS_PER_SEC, avoid_last_ns = 30 * NS_PER_SEC;

enum entry_state {
    ENTRY_UNASKED, /* no loader renders it */
    ENTRY_ASKED,   /* one or two loaders render it, or their results are to be compared */
    ENTRY_READY,
    ENTRY_FAILED, /* its error is returned in its turn */
};

/** A batch that has been assigned a position, in the order of delivery. */
struct entry {
    enum entry_state state;
    struct order_place place; /* position of its first step */
    struct order_place after; /* position after its last step that counts */
    struct plenum_lease *slot;
    /* Second request, to another loader, because the first is late or must be compared. */
    struct plenum_lease *hedge;
    struct batch_verify verify;
    uint32_t failed; /* loaders that could not render it, one bit each */
    /* The error of a failed batch, with a message. Before it fails: the last loader's error. */
    int code;
    uint32_t substituted;
    struct plenum_error err;
    struct entry *next;
};

struct schedule {
    struct entry *first, *last;       /* oldest first */
    struct order_place next_place;    /* position of the next entry, where a step begins */
    struct rtt latency;               /* time from RENDER to a batch's arrival */
    uint64_t latencies;               /* number of measurements in `latency` */
    struct plenum_stream_stats stats; /* the counters kept here */
};

/* Is a loader filling this slot, or is its result waiting to be compared? */
static bool is_under_way(const struct plenum_lease *slot)
{
    return slot->state == SLOT_FILLING || slot->state == SLOT_CHECKING;
}

static bool is_sound(const void *object)
{
    const struct entry *e = object;

    switch (e->state) {
    case ENTRY_UNASKED:
        return !e->slot && !e->hedge && !e->verify.arbiter;
    case ENTRY_ASKED:
        return e->slot && is_under_way(e->slot) && (!e->hedge || is_under_way(e->hedge));
    case ENTRY_READY:
        return e->slot && e->slot->state == SLOT_READY && !e->hedge && !e->verify.arbiter;
    case ENTRY_FAILED:
        return !e->slot && !e->hedge && !e->verify.arbiter && e->code < 0;
    }
    return false;
}

static const struct state_row entry_states[] = {
    [ENTRY_UNASKED] = {"unasked", STATE(ENTRY_ASKED) | STATE(ENTRY_FAILED)},
    [ENTRY_ASKED] = {"asked", STATE(ENTRY_UNASKED) | STATE(ENTRY_READY)},
    [ENTRY_READY] = {"ready", 0},
    [ENTRY_FAILED] = {"failed", 0},
};

static const struct state_machine entry_machine = {
    .name = "entry", .states = entry_states, .count = ARRAY_LEN(entry_states), .holds = is_sound};

/* Change an entry's state. No other function writes it. */
static void move(struct entry *e, enum entry_state to)
{
    enum entry_state from = e->state;

    e->state = to;
    state_moved(&entry_machine, e, 0, from, to);
}

/* Can the entry be returned, as a batch or as an error? */
static bool is_settled(const struct entry *e)
{
    return e->state == ENTRY_READY || e->state == ENTRY_FAILED;
}

static uint32_t count_entries(const struct plenum_stream *s, enum entry_state state)
{
    uint32_t n = 0;

    for (const struct entry *e = s->schedule->first; e; e = e->next)
        n += e->state == state;
    return n;
}

int schedule_create(struct plenum_stream *s, struct plenum_error *err)
{
    s->schedule = calloc(1, sizeof(*s->schedule));
    return s->schedule ? 0 : error_set(err, -ENOMEM, "out of memory");
}

void schedule_begin(struct plenum_stream *s)
{
    assert(!s->schedule->first);
    if (order_has_steps(&s->steps)) /* otherwise nothing is requested */
        s->schedule->next_place = order_place_settle(&s->steps, (struct order_place){0});
}

void schedule_free(struct plenum_stream *s)
{
    assert(!s->schedule || !s->schedule->first);
    free(s->schedule);
    s->schedule = NULL;
}

/* Count the slots that the program holds, in rings that are in use. */
static unsigned count_leased(struct plenum_stream *s)
{
    const struct slot_set *seen = NULL;
    unsigned n = 0;

    FOR_LOADERS(l, s) {
        const struct slot_set *set = session_set(l->session);

        if (!set || set == seen)
            continue;
        if (set == s->loaders->remote)
            seen = s->loaders->remote; /* shared by several sessions */
        n += slot_set_count(set, SLOT_LEASED);
    }
    return n;
}

/* Returns the nanoseconds that a loader needs for its pending batches and one more. If its time per
 * batch is unknown or outdated (FORGET_AFTER), `usual_ns` is used. */
static double done_in(const struct loader *l, uint64_t usual_ns, uint64_t now)
{
    uint64_t service = l->service_ns;
    unsigned filling = session_filling(l->session);

    if (service == 0 || (filling == 0 && now - l->since_ns > FORGET_AFTER * service))
        service = usual_ns;
    return (double)(filling + 1) * (double)service;
}

/* Returns a loader's weight for a request (rendezvous hashing). Equal requests go to the loader
 * with the highest weight, even after other loaders have come or gone. */
static uint64_t rendezvous_weight(const struct loader *l, struct order_place place)
{
    const struct plenum_stream *s = l->stream;
    uint64_t key[4] = {s->open.shuffle == ORDER_NONE ? 0 : place.epoch, place.position};

    memcpy(&key[2], s->fingerprint, sizeof(s->fingerprint));
    return XXH3_64bits_withSeed(l->address->text, strlen(l->address->text),
                                XXH3_64bits(key, sizeof(key)));
}

struct choice {
    const struct loader *but; /* do not choose this one */
    uint32_t failed;          /* do not choose these, one bit each */
    struct order_place place;
    uint64_t now, usual_ns;
    bool plenty;
};

static bool may_have(const struct loader *l, const struct choice *c, bool avoided)
{
    return session_is_open(l->session) && l != c->but && !(l->bit & c->failed) &&
           (avoided || (c->now >= l->avoid_ns && !l->unlisted)) &&
           !session_is_silent(l->session, c->now) && session_free_slot(l->session);
}

/* Is `a` the better choice? */
static bool is_better(const struct loader *a, const struct loader *b, const struct choice *c)
{
    bool local_a = address_is_local(a->address), local_b = address_is_local(b->address);

    if (!c->plenty) {
        double in_a = done_in(a, c->usual_ns, c->now), in_b = done_in(b, c->usual_ns, c->now);

        if (in_a * 1.25 < in_b || in_b * 1.25 < in_a)
            return in_a < in_b;
    }
    if (local_a != local_b)
        return local_a;
    return rendezvous_weight(a, c->place) > rendezvous_weight(b, c->place);
}

/* Returns the loader for a batch, with a free slot; or NULL. */
static struct loader *choose(struct plenum_stream *s, struct order_place place, uint32_t failed,
                             const struct loader *but)
{
    struct choice c = {.but = but, .failed = failed, .place = place, .now = time_now_ns()};
    struct loader *best = NULL;

    if (!s->loaders->several)
        return may_have(s->loaders->all, &c, true) ? s->loaders->all : NULL;
    c.plenty = 2 * (count_entries(s, ENTRY_READY) + count_entries(s, ENTRY_FAILED)) >= s->depth;
    FOR_LOADERS(l, s)
        if (session_is_open(l->session) && l->service_ns)
            c.usual_ns = c.usual_ns ? min_u64(c.usual_ns, l->service_ns) : l->service_ns;
    if (c.usual_ns == 0)
        c.usual_ns = 1;
    for (int avoided = 0; avoided < 2 && !best; avoided++)
        FOR_LOADERS(l, s)
            if (may_have(l, &c, avoided) && (!best || is_better(l, best, &c)))
                best = l;
    return best;
}

/* Cancel the request for a slot, or discard its result. */
static void drop(struct plenum_lease *slot)
{
    if (!slot)
        return;
    if (slot->state == SLOT_FILLING)
        session_cancel(slot);
    else if (slot->state == SLOT_CHECKING)
        slot_free(slot);
}

/* Discard an entry: cancel its pending requests. */
static void forget(struct entry *e)
{
    if (e->state != ENTRY_ASKED)
        return;
    drop(e->slot);
    drop(e->hedge);
    drop(e->verify.arbiter);
    e->slot = e->hedge = e->verify.arbiter = NULL;
    move(e, ENTRY_UNASKED);
}

/* Continue with the other request of an entry, if there is one, because this one will not be
 * answered. */
static void lose(struct entry *e, const struct plenum_lease *slot)
{
    assert(e->state == ENTRY_ASKED && (slot == e->slot || slot == e->hedge));
    if (e->slot == slot)
        e->slot = e->hedge;
    e->hedge = NULL;
    if (!e->slot)
        move(e, ENTRY_UNASKED);
}

/* An entry's slot is filled: mark the entry as ready, so that the batch can be returned. */
static void settle(struct plenum_stream *s, struct entry *e, struct plenum_lease *slot,
                   const struct wire_done *m)
{
    struct plenum_lease *other = e->slot == slot ? e->hedge : e->slot;

    s->schedule->stats.hedges_won += slot == e->hedge && !e->verify.wanted;
    slot_settle(slot);
    drop(other);
    e->slot = slot;
    e->hedge = NULL;
    e->code = 0;
    e->substituted = m->substituted;
    move(e, ENTRY_READY);
}

/* Mark an entry as failed. The error is returned in its turn, and again until the program seeks, so
 * no later batch is needed. */
static void settle_failed(struct entry *e)
{
    forget(e);
    move(e, ENTRY_FAILED);
    while ((e = e->next))
        forget(e);
}

static void count_done(struct plenum_stream *s, struct plenum_lease *slot,
                       const struct wire_done *m)
{
    slot->times.done_ns = time_now_ns();
    slot->times.done = *m;
    s->schedule->stats.queue_ns += m->queue_ns;
    s->schedule->stats.read_ns += m->read_ns;
    s->schedule->stats.render_ns += m->render_ns;
    s->schedule->stats.rendered += wire_batch_count(&s->open);
}

/* Returns the first entry that lost its loader; NULL: none, or an earlier batch has failed, so no
 * later one is requested. */
static struct entry *first_unasked(const struct plenum_stream *s)
{
    struct entry *e = s->schedule->first;

    while (e && e->state != ENTRY_UNASKED)
        e = e->state == ENTRY_FAILED ? NULL : e->next;
    return e;
}

static struct entry *append_entry(struct plenum_stream *s)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->place = e->after = s->schedule->next_place;
    for (uint32_t i = 0; i < s->open.steps; i++) {
        if (s->epochs && s->schedule->next_place.epoch >= s->epochs)
            break; /* padding of the last batch does not count */
        e->after = order_place_after(&s->steps, s->schedule->next_place);
        s->schedule->next_place = order_place_settle(&s->steps, e->after);
    }
    if (s->schedule->last)
        s->schedule->last->next = e;
    else
        s->schedule->first = e;
    s->schedule->last = e;
    return e;
}

/* May one more new batch be requested? */
static bool may_append(struct plenum_stream *s)
{
    uint32_t count = 0;

    if (s->epochs && s->schedule->next_place.epoch >= s->epochs)
        return false;
    if (count_entries(s, ENTRY_FAILED) > 0)
        return false;
    if (!s->loaders->several)
        return true; /* a free slot is all that it needs */
    for (const struct entry *e = s->schedule->first; e; e = e->next)
        count++;
    return count + count_leased(s) < s->open.slots;
}

/* Returns whether every open loader has failed to render it, with no other loader to come. */
static bool is_hopeless(struct plenum_stream *s, const struct entry *e)
{
    uint64_t now = time_now_ns();
    bool open = false;

    FOR_LOADERS(l, s) {
        if (!(l->bit & e->failed) && session_may_come(l->session, now, s->loader_timeout_ns))
            return false;
        open |= session_is_open(l->session);
    }
    return open;
}

static struct loader *loader_of(const struct plenum_lease *slot)
{
    return session_loader(slot->session);
}

/* Request a batch into a free slot of the loader. */
static struct plenum_lease *ask(struct loader *l, struct order_place place)
{
    const struct plenum_stream *s = l->stream;
    struct plenum_lease *slot = session_free_slot(l->session);
    uint64_t now = time_now_ns(), waited = s->stats.wait_ns;

    if (s->waiting_ns && now > s->waiting_ns)
        waited += now - s->waiting_ns;
    if (!slot || session_render(l->session, place, waited, slot) < 0)
        return NULL;
    if (session_filling(l->session) == 1)
        l->since_ns = slot->times.asked_ns;
    return slot;
}

/* Request a pending batch from another loader, too. */
static bool ask_another(struct plenum_stream *s, struct entry *e)
{
    struct loader *l = choose(s, e->place, e->failed, loader_of(e->slot));

    e->hedge = l ? ask(l, e->place) : NULL;
    if (!e->hedge)
        return false;
    (void)session_flush(l->session);
    return true;
}

/* Request one more batch. Returns false if there is none to request, or no loader for it. */
static bool ask_next(struct plenum_stream *s)
{
    struct entry *e = first_unasked(s);
    struct loader *l;

    if (e && e->code < 0 && is_hopeless(s, e)) {
        settle_failed(e);
        return false;
    }
    if (!e && !may_append(s))
        return false;
    l = choose(s, e ? e->place : s->schedule->next_place, e ? e->failed : 0, NULL);
    if (!l)
        return false;
    if (!e) {
        e = append_entry(s);
        if (!e) {
            stream_fail(s, -ENOMEM, "out of memory");
            return false;
        }
    }
    e->slot = ask(l, e->place);
    if (!e->slot)
        return false;
    move(e, ENTRY_ASKED);
    if (s->synthetic) {
        session_answer(e->slot);
        count_done(s, e->slot, &(struct wire_done){0});
        settle(s, e, e->slot, &(struct wire_done){0});
    } else if (s->verify_share > 0 && !e->failed &&
               verify_is_wanted(s->verify_share, s->open.seed, e->place)) {
        e->verify.wanted = ask_another(s, e);
    }
    return true;
}

void schedule_pump(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    if (s->error_code < 0 || s->held || !s->opened)
        return;
    while (count_entries(s, ENTRY_ASKED) < s->depth && ask_next(s))
        ;
    FOR_LOADERS(l, s)
        if (session_is_open(l->session))
            (void)session_flush(l->session);
}

static struct entry *entry_of(struct plenum_stream *s, const struct plenum_lease *slot)
{
    struct entry *e;

    for (e = s->schedule->first; e->slot != slot && e->hedge != slot && e->verify.arbiter != slot;
         e = e->next)
        ;
    return e;
}

/* Record that a loader failed to render a batch. Another one may succeed if the cause is this one's
 * disk, its memory or its copy of a file. A sample that is bad is bad for every loader. */
static void note_failure(struct loader *l, struct entry *e, struct plenum_lease *slot,
                         const struct wire_done *m)
{
    struct plenum_stream *s = l->stream;

    slot_free(slot);
    lose(e, slot);
    if (e->slot && e->slot->state == SLOT_CHECKING) { /* the other loader has already rendered it */
        settle(s, e, e->slot, &e->slot->times.done);
        return;
    }
    e->failed |= l->bit;
    e->code = m->status;
    (void)error_set(&e->err, 0, "%s", m->text);
    if (m->status == -EBADMSG || (!e->slot && is_hopeless(s, e))) {
        settle_failed(e);
        return;
    }
    l->avoid_for_ns =
        l->avoid_for_ns ? min_u64(l->avoid_for_ns * 2, avoid_last_ns) : avoid_first_ns;
    l->avoid_ns = time_now_ns() + l->avoid_for_ns;
    s->schedule->stats.moved++;
    if (!l->warned)
        stream_warn(s,
                    "loader %s could not render a batch (%s); it is requested from other loaders",
                    l->address->text, m->text);
    l->warned = true;
}

static void note_times(struct loader *l, const struct plenum_lease *slot)
{
    struct plenum_stream *s = l->stream;
    uint64_t now = time_now_ns(), took = now - l->since_ns;

    l->service_ns = l->service_ns ? (l->service_ns * 3 + took) / 4 : took;
    l->since_ns = now;
    l->avoid_ns = l->avoid_for_ns = 0;
    rtt_update(&s->schedule->latency, now - slot->times.asked_ns);
    s->schedule->latencies++;
}

static struct verify_stream verify_stream_of(const struct plenum_stream *s)
{
    return (struct verify_stream){
        .open = &s->open, .layout = &s->layout, .order = &s->order, .steps = &s->steps};
}

/* Fail a batch because two loaders rendered it differently. `arbiter`: the slot of a third loader,
 * or NULL. */
static void fail_unlike(struct plenum_stream *s, struct entry *e,
                        const struct plenum_lease *arbiter)
{
    const struct verify_stream stream = verify_stream_of(s);
    const struct verify_side sides[] = {
        {loader_of(e->slot)->address->text, e->slot},
        {loader_of(e->hedge)->address->text, e->hedge},
        {arbiter ? loader_of(arbiter)->address->text : NULL, arbiter},
    };

    e->code = verify_arbitrate(&e->verify, &stream, e->place, sides, &e->err);
    settle_failed(e);
}

static struct plenum_lease *ask_arbiter(struct plenum_stream *s, struct entry *e)
{
    struct loader *l =
        choose(s, e->place, e->failed | loader_of(e->slot)->bit, loader_of(e->hedge));

    return l ? ask(l, e->place) : NULL;
}

/* Look at a batch being verified: an answer (`came`) has arrived, or will never arrive (NULL). */
static void look_at(struct plenum_stream *s, struct entry *e, struct plenum_lease *came)
{
    const struct verify_stream stream = verify_stream_of(s);
    struct plenum_lease *other = e->slot == came ? e->hedge : e->slot;

    switch (verify_look(&e->verify, &stream, e->slot, e->hedge)) {
    case VERIFY_WAIT:
        break;
    case VERIFY_ALONE:
        settle(s, e, e->slot, &e->slot->times.done);
        break;
    case VERIFY_ALIKE:
        s->schedule->stats.verified++;
        settle(s, e, other, &other->times.done);
        break;
    case VERIFY_ARBITRATE:
        e->verify.arbiter = ask_arbiter(s, e);
        if (!e->verify.arbiter)
            fail_unlike(s, e, NULL);
        break;
    case VERIFY_UNLIKE:
        fail_unlike(s, e, NULL);
        break;
    }
}

/* Handle the third loader's answer for a batch; `made`: it has rendered the batch. */
static void arbitrate(struct plenum_stream *s, struct entry *e, bool made)
{
    struct plenum_lease *arbiter = e->verify.arbiter;

    e->verify.arbiter = NULL;
    slot_keep(arbiter);
    fail_unlike(s, e, made ? arbiter : NULL);
    slot_free(arbiter);
}

/* Confirm batches without a lost loader, which will not answer for those that it was to verify. */
void schedule_confirm(struct plenum_stream *s)
{
    for (struct entry *e = s->schedule->first; e; e = e->next)
        if (e->verify.wanted && e->state == ENTRY_ASKED)
            look_at(s, e, NULL);
}

/* Handle a loader's answer for a slot. */
static void take_answer(struct loader *l, struct plenum_lease *slot, const struct wire_done *done)
{
    struct plenum_stream *s = l->stream;
    struct entry *e = entry_of(s, slot);

    if (slot == e->verify.arbiter) {
        arbitrate(s, e, done->status >= 0);
    } else if (done->status < 0) {
        note_failure(l, e, slot, done);
    } else {
        note_times(l, slot);
        count_done(s, slot, done);
        if (e->verify.wanted) {
            slot_keep(slot);
            look_at(s, e, slot);
        } else {
            settle(s, e, slot, done);
        }
    }
}

void schedule_done(struct loader *l, struct plenum_lease *slot, const struct wire_done *done)
{
    struct plenum_stream *s = l->stream;

    assert(lock_is_held(&s->mu));
    if (slot)
        take_answer(l, slot, done);
    schedule_pump(s);
    if (slot && schedule_has_next(s))
        stream_changed(s);
}

/* Returns the time at which a batch that the program waits for is late. */
static uint64_t late_at(const struct plenum_stream *s, const struct plenum_lease *slot)
{
    return slot->times.asked_ns + max_u64(rtt_late(&s->schedule->latency), late_least_ns);
}

static bool hedge(struct plenum_stream *s, struct entry *e)
{
    if (!ask_another(s, e))
        return false;
    s->schedule->stats.hedged++;
    return true;
}

/* If one loader has rendered the batch but the verifying one is late, stop waiting for the latter.
 * Returns false if no loader has rendered it, so that it is treated like any late batch. */
static bool stop_verifying(struct plenum_stream *s, struct entry *e, uint64_t now)
{
    bool first = e->slot && e->slot->state == SLOT_CHECKING;
    struct plenum_lease *made = first ? e->slot : e->hedge, *other = first ? e->hedge : e->slot;

    if (e->verify.arbiter) /* the arbiter is worth waiting for, until it is abandoned */
        return true;
    if (!made || made->state != SLOT_CHECKING || !other)
        return false;
    if (!session_is_silent(other->session, now) && now < late_at(s, other))
        return true;
    settle(s, e, made, &made->times.done);
    if (e == s->schedule->first)
        stream_changed(s);
    return true;
}

/* Find late batches and request them from other loaders. Returns the time of the next call. */
uint64_t schedule_tick(struct plenum_stream *s, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    unsigned hedged = 0;
    bool head = true, moved = false;

    for (struct entry *e = s->schedule->first; e; e = e->next)
        hedged += e->hedge != NULL;
    for (struct entry *e = s->schedule->first; e; e = e->next) {
        if (e->state != ENTRY_ASKED)
            continue;
        if (e->verify.wanted && stop_verifying(s, e, now)) {
            next = min_u64(next, now + look_again_ns);
            continue;
        }
        if (e->hedge)
            continue;
        if (session_is_silent(e->slot->session, now)) {
            if (!hedge(s, e) && loader_of(e->slot)->address->tcp) {
                /* Free its slot: there may be no other. */
                session_cancel(e->slot);
                lose(e, e->slot);
                s->schedule->stats.moved++;
                moved = true;
            }
            next = min_u64(next, now + look_again_ns);
            continue;
        }
        /* Among batches that are merely late, hedge only the first, because the program does not
         * need the others yet. */
        if (!head || s->schedule->latencies < LATENCIES_MIN)
            continue;
        head = false;
        if (now < late_at(s, e->slot)) {
            next = min_u64(next, late_at(s, e->slot));
            continue;
        }
        if (s->waiting_ns && hedged < LATE_HEDGES && hedge(s, e))
            hedged++;
        next = min_u64(next, now + look_again_ns);
    }
    if (moved)
        schedule_pump(s);
    return next;
}

bool schedule_starved(struct plenum_stream *s)
{
    bool open = false;

    assert(lock_is_held(&s->mu));
    if (s->schedule->first)
        return false;
    FOR_LOADERS(l, s) {
        if (!session_is_open(l->session))
            continue;
        open = true;
        if (!s->loaders->several && slot_set_count(session_set(l->session), SLOT_LEASED) <
                                        session_set(l->session)->num_slots)
            return false;
    }
    return open && (!s->loaders->several || count_leased(s) >= s->open.slots);
}

void schedule_drop(struct plenum_stream *s)
{
    struct entry *next;

    assert(lock_is_held(&s->mu));
    for (struct entry *e = s->schedule->first; e; e = next) {
        next = e->next;
        forget(e);
        if (e->state == ENTRY_READY)
            slot_free(e->slot);
        free(e);
    }
    s->schedule->first = s->schedule->last = NULL;
}

void schedule_seek(struct plenum_stream *s, struct order_place place)
{
    schedule_drop(s);
    s->schedule->next_place = place;
    schedule_pump(s);
}

bool schedule_has_next(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    return s->schedule->first && is_settled(s->schedule->first);
}

int schedule_next(struct plenum_stream *s, struct made_batch *ret, struct plenum_error *err)
{
    struct entry *e = s->schedule->first;

    assert(schedule_has_next(s));
    if (e->state == ENTRY_FAILED)
        return error_set(err, e->code, "%s", e->err.text);
    s->schedule->first = e->next;
    if (!e->next)
        s->schedule->last = NULL;
    *ret = (struct made_batch){
        .place = e->place, .after = e->after, .slot = e->slot, .substituted = e->substituted};
    free(e);
    return 0;
}

bool schedule_is_through(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    return !s->schedule->first && s->epochs && s->schedule->next_place.epoch >= s->epochs;
}

void schedule_admit(const struct loader *l)
{
    for (struct entry *e = l->stream->schedule->first; e; e = e->next)
        e->failed &= ~l->bit; /* the bit's last owner failed, not this loader */
}

void schedule_release(struct plenum_stream *s, const struct loader_session *se)
{
    assert(lock_is_held(&s->mu));
    for (struct entry *e = s->schedule->first; e; e = e->next) {
        if (e->verify.arbiter && e->verify.arbiter->session == se)
            e->verify.arbiter = NULL;
        if (e->hedge && e->hedge->session == se && e->hedge->state == SLOT_FILLING)
            lose(e, e->hedge);
        if (e->slot && e->slot->session == se && e->slot->state == SLOT_FILLING)
            lose(e, e->slot);
    }
}

unsigned schedule_count_moved(struct plenum_stream *s)
{
    unsigned moved = count_entries(s, ENTRY_UNASKED);

    s->schedule->stats.moved += moved;
    return moved;
}

bool schedule_waits_for(const struct plenum_stream *s, const struct loader_session *se)
{
    for (const struct entry *e = s->schedule->first; e; e = e->next)
        if (e->state == ENTRY_ASKED &&
            (e->slot->session == se || (e->hedge && e->hedge->session == se)))
            return true;
    return false;
}

void schedule_leave(struct plenum_stream *s)
{
    for (const struct entry *e = s->schedule->first; e; e = e->next)
        slot_set_leave(e->slot ? e->slot->set : NULL);
}

void schedule_get_stats(const struct plenum_stream *s, struct plenum_stream_stats *ret)
{
    const struct plenum_stream_stats *own = &s->schedule->stats;

    ret->rendered = own->rendered;
    ret->queue_ns = own->queue_ns;
    ret->read_ns = own->read_ns;
    ret->render_ns = own->render_ns;
    ret->moved = own->moved;
    ret->hedged = own->hedged;
    ret->hedges_won = own->hedges_won;
    ret->verified = own->verified;
    ret->ready = count_entries(s, ENTRY_READY) + count_entries(s, ENTRY_FAILED);
    ret->in_flight = count_entries(s, ENTRY_ASKED);
}

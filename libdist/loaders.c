/* SPDX-License-Identifier: MIT */
/* loaders.c - which loader makes which batch.
 *
 * Any loader can make any batch, so a stream uses all that are named, and which one made a batch
 * does not show in it. Batches are asked for in the order of delivery, `depth` of them at a time:
 *
 *     while the program finds enough ready    a loader of this host, if one is open; among equals
 *                                             the one that a hash of the request names
 *     when batches are short                  the loader that would be done first: its own time for
 *                                             a batch, times what it has to do already
 *
 * By the second rule each is busy in proportion to what it delivers. By the hash, equal requests
 * (of two jobs, of two epochs that are not shuffled) go to the same loader, which has their files
 * in its cache.
 *
 * Memory: each ring has room for all batches that are asked for, ready or leased; so whichever
 * loader is lost, the others have a free slot for what it leaves behind. What is asked for is
 * bounded over all rings together.
 *
 * A batch that is late is asked for a second time, of another loader: when its own is silent
 * (session.c), or when the program waits for it for longer than batches take, by the latencies that
 * were measured. The first answer wins, and the other loader is told to stop. A loader that cannot
 * make a batch (its disk) is left alone for a while, and the batch is asked of the others. It fails
 * when no loader is left that may make it: one that is away for a moment may, until loader_timeout.
 *
 * A share of the batches (verify_share), chosen by a hash of their place, is asked of two loaders
 * from the begin. Where these do not agree, one of them makes wrong pixels: a third is asked, where
 * there is one, so as to say which, and the stream fails with their names. A second answer that is
 * late or that does not come is not waited for. */
#include "config.h"

#include "libdist/stream_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/util.h"

enum {
    LATENCIES_MIN = 8, /* that must be known before a batch is called late */
    LATE_HEDGES = 2,   /* batches asked for twice at a time because they are late */
    FORGET_AFTER = 64, /* a loader that has had nothing to do for so many of its batches is tried
                          again, however slow it was */
    NAMES_UNDER_WAY = 64,
};

static const uint64_t late_least_ns = 50 * NS_PER_MS, look_again_ns = 20 * NS_PER_MS,
                      avoid_first_ns = NS_PER_SEC, avoid_last_ns = 30 * NS_PER_SEC;

struct session *loaders_from(struct plenum_stream *s, struct session *from)
{
    while (from < s->sessions + SESSIONS_MAX && !from->address)
        from++;
    return from < s->sessions + SESSIONS_MAX ? from : NULL;
}

struct session *loaders_add(struct plenum_stream *s, int of, const struct address *own)
{
    struct session *se = s->sessions;
    uint64_t now = time_now_ns();

    while (se < s->sessions + SESSIONS_MAX && se->address)
        se++;
    if (se == s->sessions + SESSIONS_MAX)
        return NULL;
    *se = (struct session){.stream = s,
                           .address = &s->named[of].address,
                           .of = of,
                           .bit = UINT32_C(1) << (se - s->sessions),
                           .away_ns = now,
                           .conn = {.fd = -1, .tx_fd = -1, .rx_fd = -1},
                           .retry_delay_ns = 5 * NS_PER_MS};
    if (own) {
        se->own = *own;
        se->address = &se->own;
    }
    for (struct entry *e = s->first; e; e = e->next)
        e->failed &= ~se->bit; /* that was another loader */
    return se;
}

void stream_fail(struct plenum_stream *s, int code, const char *text)
{
    assert(code < 0 && *text); /* of a loader's word, wire.c sees to that */
    if (s->error_code == 0) {
        s->error_code = code;
        (void)error_set(&s->error, code, "%s", text);
    }
    stream_changed(s);
}

static unsigned count_sessions(struct plenum_stream *s)
{
    unsigned n = 0;

    FOR_SESSIONS(se, s)
        n++;
    return n;
}

static unsigned count_open(struct plenum_stream *s)
{
    unsigned n = 0;

    FOR_SESSIONS(se, s)
        n += se->state == SESSION_OPEN;
    return n;
}

static bool has_sessions(struct plenum_stream *s, int of)
{
    FOR_SESSIONS(se, s)
        if (se->of == of)
            return true;
    return false;
}

static void no_loader(struct plenum_stream *s, uint64_t now)
{
    char text[sizeof(s->error.text)] = "", all[sizeof(text) + 64];
    size_t n = 0;

    FOR_SESSIONS(se, s)
        if (n < sizeof(text) - 1)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s (%s)", n ? ", " : "",
                                  se->address->text,
                                  se->error.text[0] ? se->error.text : "not tried");
    for (int i = 0; i < s->num_named; i++)
        if (n < sizeof(text) - 1 && s->named[i].error.text[0] && !has_sessions(s, i))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s (%s)", n ? ", " : "",
                                  s->named[i].address.text, s->named[i].error.text);
    (void)snprintf(all, sizeof(all), "no loader answered for %.0f s: %s",
                   s->alone_ns ? (double)(now - s->alone_ns) / (double)NS_PER_SEC : 0.0, text);
    stream_fail(s, -ECONNRESET, all);
}

/* Every loader has said that it will not serve us, and none does. */
static void maybe_give_up(struct plenum_stream *s, uint64_t now)
{
    const struct session *first = NULL;

    FOR_SESSIONS(se, s) {
        if (se->state == SESSION_OPEN || !se->refused)
            return;
        if (!first && se->refused != -ECONNRESET)
            first = se;
    }
    for (int i = 0; i < s->num_named; i++)
        if (s->named[i].error.text[0] && !has_sessions(s, i)) /* it may yet come to stand for one */
            return;
    if (first)
        stream_fail(s, first->refused, first->error.text);
    else
        no_loader(s, now);
}

static struct plenum_lease *free_slot(const struct session *se)
{
    for (uint32_t i = 0; i < se->set->num_slots; i++)
        if (se->set->slots[i].state == SLOT_FREE)
            return &se->set->slots[i];
    return NULL;
}

/* Slots in the program's hands, of rings that are in use. */
static unsigned count_leased(struct plenum_stream *s)
{
    const struct slot_set *seen = NULL;
    unsigned n = 0;

    FOR_SESSIONS(se, s) {
        if (!se->set || se->set == seen)
            continue;
        if (se->set == s->remote)
            seen = s->remote; /* it is several sessions' */
        for (uint32_t i = 0; i < se->set->num_slots; i++)
            n += se->set->slots[i].state == SLOT_LEASED;
    }
    return n;
}

bool loaders_starved(struct plenum_stream *s)
{
    bool open = false;

    if (s->first)
        return false;
    FOR_SESSIONS(se, s) {
        if (se->state != SESSION_OPEN)
            continue;
        open = true;
        for (uint32_t i = 0; !s->several && i < se->set->num_slots; i++)
            if (se->set->slots[i].state != SLOT_LEASED)
                return false;
    }
    return open && (!s->several || count_leased(s) >= s->open.slots);
}

/* When a session would be done with one more batch, by the time that it takes for one. */
static double done_in(const struct session *se, uint64_t usual_ns, uint64_t now)
{
    uint64_t service = se->service_ns;

    if (service == 0 || (se->filling == 0 && now - se->since_ns > FORGET_AFTER * service))
        service = usual_ns;
    return (double)(se->filling + 1) * (double)service;
}

/* How near a request is to a loader: the nearest of those that are there stays the nearest when
 * others come or go. */
static uint64_t nearness(const struct session *se, struct order_place place)
{
    const struct plenum_stream *s = se->stream;
    uint64_t key[4] = {s->open.shuffle == ORDER_NONE ? 0 : place.epoch, place.position};

    memcpy(&key[2], s->fingerprint, sizeof(s->fingerprint));
    return XXH3_64bits_withSeed(se->address->text, strlen(se->address->text),
                                XXH3_64bits(key, sizeof(key)));
}

struct choice {
    const struct session *not; /* another than this */
    uint32_t failed;           /* and than these */
    struct order_place place;
    uint64_t now, usual_ns;
    bool plenty;
};

static bool may_have(const struct session *se, const struct choice *c, bool avoided)
{
    return se->state == SESSION_OPEN && se != c->not && !(se->bit & c->failed) &&
           (avoided || (c->now >= se->avoid_ns && !se->unlisted)) && !session_is_silent(se, c->now) &&
           se->filling + se->cancelling + (se->discard > 0) < se->set->num_slots &&
           free_slot(se);
}

/* Is `a` the better one? */
static bool is_better(const struct session *a, const struct session *b, const struct choice *c)
{
    bool local_a = address_is_local(a->address), local_b = address_is_local(b->address);

    if (!c->plenty) {
        double in_a = done_in(a, c->usual_ns, c->now), in_b = done_in(b, c->usual_ns, c->now);

        if (in_a * 1.25 < in_b || in_b * 1.25 < in_a)
            return in_a < in_b;
    }
    if (local_a != local_b)
        return local_a;
    return nearness(a, c->place) > nearness(b, c->place);
}

/* The session that is asked for a batch, with a free slot; or NULL. */
static struct session *choose(struct plenum_stream *s, struct order_place place, uint32_t failed,
                              const struct session *not )
{
    struct choice c = {.not= not, .failed = failed, .place = place, .now = time_now_ns()};
    struct session *best = NULL;
    unsigned ready = 0;

    if (!s->several)
        return may_have(s->sessions, &c, true) ? s->sessions : NULL;
    for (const struct entry *e = s->first; e; e = e->next)
        ready += e->ready;
    c.plenty = 2 * ready >= s->depth;
    FOR_SESSIONS(se, s)
        if (se->state == SESSION_OPEN && se->service_ns)
            c.usual_ns = c.usual_ns ? min_u64(c.usual_ns, se->service_ns) : se->service_ns;
    if (c.usual_ns == 0)
        c.usual_ns = 1;
    for (int avoided = 0; avoided < 2 && !best; avoided++)
        FOR_SESSIONS(se, s)
            if (may_have(se, &c, avoided) && (!best || is_better(se, best, &c)))
                best = se;
    return best;
}

struct session *loaders_first(struct plenum_stream *s)
{
    struct session *first = NULL;

    FOR_SESSIONS(se, s)
        if (se->state == SESSION_OPEN && (!first || (address_is_local(se->address) &&
                                                     !address_is_local(first->address))))
            first = se;
    return first;
}

/* What is in the slot is of no interest any more. */
static void drop(struct plenum_lease *slot)
{
    if (!slot)
        return;
    if (slot->state == SLOT_FILLING) {
        session_cancel(slot);
    } else if (slot->state == SLOT_CHECKING) {
        slot->state = SLOT_FREE;
        slot_set_unref(slot->set);
    }
}

/* The slot is filled: its batch may be handed out. */
static void settle(struct plenum_stream *s, struct entry *e, struct plenum_lease *slot,
                   const struct wire_done *m)
{
    struct plenum_lease *other = e->slot == slot ? e->hedge : e->slot;

    s->stats.hedges_won += slot == e->hedge && !e->verify;
    if (slot->state != SLOT_CHECKING)
        slot->set->refs++;
    drop(other);
    e->slot = slot;
    e->hedge = NULL;
    e->ready = true;
    e->code = 0;
    e->substituted = m->substituted;
    slot->state = SLOT_READY;
}

/* The batch cannot be had: that is what is handed out in its turn. */
static void settle_failed(struct entry *e)
{
    loaders_forget(e);
    e->ready = true;
}

static void count_done(struct plenum_stream *s, struct plenum_lease *slot, const struct wire_done *m)
{
    slot->times.done_ns = time_now_ns();
    slot->times.done = *m;
    s->stats.queue_ns += m->queue_ns;
    s->stats.read_ns += m->read_ns;
    s->stats.render_ns += m->render_ns;
    s->stats.rendered += wire_batch_count(&s->open);
}

/* The next entry to ask for: one that lost its loader; NULL: a new one at the end of the list. */
static struct entry *first_unasked(const struct plenum_stream *s)
{
    struct entry *e;

    for (e = s->first; e && (e->slot || e->ready); e = e->next)
        ;
    return e;
}

static struct entry *append_entry(struct plenum_stream *s)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->place = e->after = s->next_place;
    for (uint32_t i = 0; i < s->open.steps; i++) {
        if (s->epochs && s->next_place.epoch >= s->epochs)
            break; /* what fills up the last batch does not count */
        e->after = order_place_after(&s->steps, s->next_place);
        s->next_place = order_place_settle(&s->steps, e->after);
    }
    if (s->last)
        s->last->next = e;
    else
        s->first = e;
    s->last = e;
    return e;
}

/* May one more batch be asked for, that was not before? */
static bool may_append(struct plenum_stream *s)
{
    uint32_t count = 0;

    if (s->epochs && s->next_place.epoch >= s->epochs)
        return false;
    if (!s->several)
        return true; /* a free slot is all that it needs */
    for (const struct entry *e = s->first; e; e = e->next)
        count++;
    return count + count_leased(s) < s->open.slots;
}

/* Is the loader there, or may it come (back) yet? It is waited for as long as if it were the only one;
 * each try to reach it that fails asks again (loaders_lost()). */
static bool may_come(const struct session *se, uint64_t now)
{
    if (se->state != SESSION_DOWN)
        return true;
    return !se->refused && se->retry_ns < UINT64_MAX &&
           now < sum_u64(se->away_ns, se->stream->loader_timeout_ns);
}

/* Every loader that is open has failed to make it, and no other one may come. */
static bool is_hopeless(struct plenum_stream *s, const struct entry *e)
{
    uint64_t now = time_now_ns();
    bool open = false;

    FOR_SESSIONS(se, s) {
        if (!(se->bit & e->failed) && may_come(se, now))
            return false;
        open |= se->state == SESSION_OPEN;
    }
    return open;
}

/* Have a batch that is asked for made by another loader, too. */
static bool ask_another(struct plenum_stream *s, struct entry *e)
{
    struct session *se = choose(s, e->place, e->failed, e->slot->session);
    struct plenum_lease *slot = se ? free_slot(se) : NULL;

    if (!slot || session_render(se, e->place, slot) < 0)
        return false;
    e->hedge = slot;
    (void)session_flush(se);
    return true;
}

static bool is_to_verify(const struct plenum_stream *s, struct order_place place)
{
    uint64_t key[] = {s->open.seed, place.epoch, place.position};

    return (double)XXH3_64bits(key, sizeof(key)) < s->verify_share * 0x1p64;
}

static void ask_next(struct plenum_stream *s, unsigned *filling)
{
    struct entry *e = first_unasked(s);
    struct session *se;

    if (e && e->code < 0 && is_hopeless(s, e)) {
        settle_failed(e);
        return;
    }
    if (!e && !may_append(s)) {
        *filling = s->depth;
        return;
    }
    se = choose(s, e ? e->place : s->next_place, e ? e->failed : 0, NULL);
    if (se && !e) {
        e = append_entry(s);
        if (!e)
            stream_fail(s, -ENOMEM, "out of memory");
    }
    if (!se || !e || session_render(se, e->place, e->slot = free_slot(se)) < 0) {
        if (e)
            e->slot = NULL;
        *filling = s->depth;
        return;
    }
    if (s->synthetic) {
        se->filling--;
        count_done(s, e->slot, &(struct wire_done){0});
        settle(s, e, e->slot, &(struct wire_done){0});
        return;
    }
    ++*filling;
    if (s->verify_share > 0 && !e->failed && is_to_verify(s, e->place))
        e->verify = ask_another(s, e);
}

void loaders_pump(struct plenum_stream *s)
{
    unsigned filling = 0;

    if (s->error_code < 0 || s->held || !s->opened)
        return;
    for (const struct entry *e = s->first; e; e = e->next)
        filling += e->slot && !e->ready;
    while (filling < s->depth)
        ask_next(s, &filling);
    FOR_SESSIONS(se, s)
        if (se->state == SESSION_OPEN)
            (void)session_flush(se);
}

void loaders_forget(struct entry *e)
{
    if (e->ready)
        return;
    drop(e->slot);
    drop(e->hedge);
    drop(e->third);
    e->slot = e->hedge = e->third = NULL;
}

static struct entry *entry_of(struct plenum_stream *s, const struct plenum_lease *slot)
{
    struct entry *e;

    for (e = s->first; e->slot != slot && e->hedge != slot && e->third != slot; e = e->next)
        ;
    return e;
}

/* Another loader may do what this one could not: its disk, its memory, its copy of a file. What a
 * sample itself is at fault for is so everywhere. */
static void note_failure(struct session *se, struct entry *e, struct plenum_lease *slot,
                         const struct wire_done *m)
{
    struct plenum_stream *s = se->stream;

    slot->state = SLOT_FREE;
    if (e->slot == slot)
        e->slot = e->hedge;
    e->hedge = NULL;
    if (e->slot && e->slot->state == SLOT_CHECKING) { /* it has been made already */
        settle(s, e, e->slot, &e->slot->times.done);
        return;
    }
    e->failed |= se->bit;
    e->code = m->status;
    (void)error_set(&e->err, 0, "%s", m->text);
    if (m->status == -EBADMSG || (!e->slot && is_hopeless(s, e))) {
        settle_failed(e);
        return;
    }
    se->avoid_for_ns =
        se->avoid_for_ns ? min_u64(se->avoid_for_ns * 2, avoid_last_ns) : avoid_first_ns;
    se->avoid_ns = time_now_ns() + se->avoid_for_ns;
    s->stats.moved++;
    if (!se->warned)
        stream_warn(s, "loader %s could not make a batch (%s); others are asked for it",
                    se->address->text, m->text);
    se->warned = true;
}

static void note_times(struct session *se, const struct plenum_lease *slot)
{
    struct plenum_stream *s = se->stream;
    uint64_t now = time_now_ns(), took = now - se->since_ns;

    se->service_ns = se->service_ns ? (se->service_ns * 3 + took) / 4 : took;
    se->since_ns = now;
    se->avoid_ns = se->avoid_for_ns = 0;
    spread_add(&s->latency, now - slot->times.asked_ns);
    s->latencies++;
}

/* Is the i-th sample of two batches the same? */
static bool is_same(const struct plenum_stream *s, const struct plenum_lease *one,
                    const struct plenum_lease *two, uint64_t i)
{
    const uint8_t *a = ring_slot(one->set->ring, one->index),
                  *b = ring_slot(two->set->ring, two->index);
    uint64_t each = wire_sample_bytes(&s->open);
    struct wire_slot layout = {0};

    (void)wire_slot_init(&s->open, &layout);
    return memcmp(a + i * each, b + i * each, each) == 0 &&
           memcmp(a + layout.labels_at + i * 8, b + layout.labels_at + i * 8, 8) == 0 &&
           memcmp(a + layout.samples_at + i * 4, b + layout.samples_at + i * 4, 4) == 0;
}

/* Two loaders do not make the same of a batch; so it fails. `third`: what one more makes of it. */
static void judge(struct plenum_stream *s, struct entry *e, const struct plenum_lease *third)
{
    const char *one = e->slot->session->address->text, *two = e->hedge->session->address->text;
    bool like_one = third && is_same(s, third, e->slot, e->differs),
         like_two = third && is_same(s, third, e->hedge, e->differs);
    struct order_place place = e->place;
    char who[WIRE_TEXT_MAX];
    uint64_t position;

    for (uint64_t step = 0; step < e->differs / s->open.local; step++)
        place = order_place_settle(&s->steps, order_place_after(&s->steps, place));
    position = place.position + wire_step_position(&s->open, (uint32_t)(e->differs % s->open.local));
    if (like_one || like_two)
        (void)snprintf(who, sizeof(who),
                       "%s makes what %s makes, so %s, or its copy of the data, is broken",
                       third->session->address->text, like_one ? one : two, like_one ? two : one);
    else
        (void)snprintf(who, sizeof(who),
                       "one of them, or its copy of the data, is broken; plenumctl hash on each host "
                       "tells which");
    e->code = -EBADMSG;
    (void)error_set(&e->err, 0,
                    "the loaders %s and %s do not make the same of sample %u (epoch %llu, position "
                    "%llu): %s",
                    one, two,
                    order_sample(&s->order, (uint32_t)place.epoch, (uint32_t)(position % s->steps.n)),
                    (unsigned long long)place.epoch, (unsigned long long)position, who);
    settle_failed(e);
}

/* Keep what is in the slot until there is something to compare it with. */
static void keep(struct plenum_lease *slot)
{
    slot->state = SLOT_CHECKING;
    slot->set->refs++;
}

/* A batch that must be made twice has been made once, or a second time. */
static void verify(struct plenum_stream *s, struct entry *e, struct plenum_lease *slot)
{
    struct plenum_lease *other = e->slot == slot ? e->hedge : e->slot;
    uint64_t count = wire_batch_count(&s->open);
    struct session *se;

    if (!other) { /* its loader is lost, or it was not waited for */
        settle(s, e, slot, &slot->times.done);
        return;
    }
    if (other->state == SLOT_FILLING) {
        keep(slot);
        return;
    }
    for (e->differs = 0; e->differs < count && is_same(s, slot, other, e->differs); e->differs++)
        ;
    if (e->differs == count) {
        s->stats.verified++;
        slot->state = SLOT_FREE;
        settle(s, e, other, &other->times.done);
        return;
    }
    keep(slot);
    se = choose(s, e->place, e->failed | slot->session->bit, other->session);
    e->third = se ? free_slot(se) : NULL;
    if (!e->third || session_render(se, e->place, e->third) < 0) {
        e->third = NULL;
        judge(s, e, NULL);
    }
}

/* One more loader has made of the batch what it makes; NULL: it could not. */
static void take_third(struct plenum_stream *s, struct entry *e, const struct plenum_lease *third)
{
    e->third->state = SLOT_FREE;
    e->third = NULL;
    judge(s, e, third);
}

/* What another loader was to confirm, and it will not. */
static void settle_unverified(struct plenum_stream *s)
{
    for (struct entry *e = s->first; e; e = e->next) {
        if (!e->slot || e->slot->state != SLOT_CHECKING)
            continue;
        if (!e->hedge)
            settle(s, e, e->slot, &e->slot->times.done);
        else if (e->hedge->state == SLOT_CHECKING && !e->third)
            judge(s, e, NULL);
    }
    if (s->first && s->first->ready)
        stream_changed(s);
}

void loaders_done(struct session *se, struct plenum_lease *slot, const struct wire_done *done)
{
    struct plenum_stream *s = se->stream;
    struct entry *e = entry_of(s, slot);

    if (slot == e->third) {
        take_third(s, e, done->status < 0 ? NULL : slot);
    } else if (done->status < 0) {
        note_failure(se, e, slot, done);
    } else {
        note_times(se, slot);
        count_done(s, slot, done);
        if (e->verify)
            verify(s, e, slot);
        else
            settle(s, e, slot, done);
    }
    loaders_pump(s);
    if (s->first && s->first->ready)
        stream_changed(s);
}

void loaders_opened(struct session *se)
{
    struct plenum_stream *s = se->stream;
    uint64_t now = time_now_ns();

    if (s->lost_ns) {
        s->stats.lost_ns += now - s->lost_ns;
        stream_warn(s, "%s; batches come from %s again after %.2f s", s->lost_text,
                    se->address->text, (double)(now - s->lost_ns) / (double)NS_PER_SEC);
    }
    s->lost_ns = s->alone_ns = 0;
    loaders_pump(s);
    loaders_ask_names(s);
    stream_changed(s);
}

void loaders_lost(struct session *se, bool ran, uint64_t since_ns)
{
    struct plenum_stream *s = se->stream;
    uint64_t now = time_now_ns();
    unsigned others = count_open(s);

    if (s->error_code < 0)
        return;
    s->stats.incidents += ran;
    settle_unverified(s);
    if (ran && others > 0) {
        unsigned moved = 0;

        for (const struct entry *e = s->first; e; e = e->next)
            moved += !e->slot && !e->ready;
        s->stats.moved += moved;
        stream_warn(s, "loader %s %s; %u batches are asked of others (%u)", se->address->text,
                    se->error.text, moved, others);
        se->warned = se->refused;
    } else if (ran && s->lost_ns == 0) {
        s->lost_ns = since_ns;
        (void)snprintf(s->lost_text, sizeof(s->lost_text), "loader %s %s", se->address->text,
                       se->error.text);
    }
    if (se->refused && !se->warned && others > 0) {
        stream_warn(s, "loader %s is not used: %s", se->address->text, se->error.text);
        se->warned = true;
    }
    if (others == 0 && s->alone_ns == 0)
        s->alone_ns = now;
    if (se->refused)
        maybe_give_up(s, now);
    loaders_pump(s);
    loaders_ask_names(s);
    if (s->first && s->first->ready)
        stream_changed(s);
}

void loaders_ask_names(struct plenum_stream *s)
{
    struct name_ask *a = s->asks;
    struct session *se;
    bool asked = false;

    if (!s->names)
        s->names = loaders_first(s);
    se = s->names;
    if (!a || !se)
        return;
    if (se->loader_minor < (a->of == WIRE_NAMED_CLASS ? WIRE_MINOR_CLASSES : WIRE_MINOR_NAME))
        a->code = error_set(&a->err, -ENOTSUP, "%s is too old to tell the names of %s",
                            se->loader_name, a->of == WIRE_NAMED_CLASS ? "classes" : "samples");
    while (a->code == 0 && a->sent < a->count && a->sent - a->have < NAMES_UNDER_WAY) {
        struct wire_ask_name m = {.number = a->samples ? a->samples[a->sent] : a->sent,
                                  .of = a->of};

        asked = true;
        if (wire_put_ask_name(&se->conn.tx, a->base + a->sent, &m) < 0)
            break;
        a->sent++;
    }
    /* What failed must still hear the answers to what it has asked. */
    if (a->have == a->sent && (a->code < 0 || a->have == a->count)) {
        s->asks = a->next;
        a->over = true;
        stream_changed(s);
        loaders_ask_names(s);
        return;
    }
    if (asked) {
        se->asked_ns = time_now_ns();
        (void)session_flush(se);
    }
}

/* When a batch that is waited for is late. */
static uint64_t late_at(const struct plenum_stream *s, const struct plenum_lease *slot)
{
    uint64_t usual = s->latency.mean_ns + 4 * s->latency.dev_ns;

    return slot->times.asked_ns + max_u64(2 * usual, late_least_ns);
}

static bool hedge(struct plenum_stream *s, struct entry *e)
{
    if (!ask_another(s, e))
        return false;
    s->stats.hedged++;
    return true;
}

/* A batch that was made once, and whose second making is late: do not wait for it. */
static bool stop_verifying(struct plenum_stream *s, struct entry *e, uint64_t now)
{
    bool first = e->slot && e->slot->state == SLOT_CHECKING;
    struct plenum_lease *made = first ? e->slot : e->hedge, *other = first ? e->hedge : e->slot;

    if (e->third) /* worth being waited for: until it answers or is given up */
        return true;
    if (!made || made->state != SLOT_CHECKING || !other)
        return false;
    if (!session_is_silent(other->session, now) && now < late_at(s, other))
        return true;
    settle(s, e, made, &made->times.done);
    if (e == s->first)
        stream_changed(s);
    return true;
}

/* Look for batches that are late, and ask others for them. Returns when to look again. */
static uint64_t hedge_late(struct plenum_stream *s, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    unsigned hedged = 0;
    bool head = true, moved = false;

    for (struct entry *e = s->first; e; e = e->next)
        hedged += e->hedge != NULL;
    for (struct entry *e = s->first; e; e = e->next) {
        if (e->ready || !e->slot)
            continue;
        if (e->verify && stop_verifying(s, e, now)) {
            next = min_u64(next, now + look_again_ns);
            continue;
        }
        if (e->hedge)
            continue;
        if (session_is_silent(e->slot->session, now)) {
            if (!hedge(s, e) && e->slot->session->address->tcp) {
                /* There may be no slot but its own. */
                session_cancel(e->slot);
                e->slot = NULL;
                s->stats.moved++;
                moved = true;
            }
            next = min_u64(next, now + look_again_ns);
            continue;
        }
        /* Of those that are only late, the first: nobody waits for the others yet. */
        if (!head || s->latencies < LATENCIES_MIN)
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
        loaders_pump(s);
    return next;
}

uint64_t loaders_tick(struct plenum_stream *s, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;
    bool others;

    if (s->error_code == 0 && s->alone_ns && now_ns >= sum_u64(s->alone_ns, s->loader_timeout_ns))
        no_loader(s, now_ns);
    others = count_sessions(s) > 1;
    FOR_SESSIONS(se, s) {
        if (s->error_code < 0)
            session_close(se, false);
        else
            next = min_u64(next, session_tick(se, now_ns, others));
    }
    if (s->error_code < 0)
        return UINT64_MAX;
    next = min_u64(next, lookup_tick(s, now_ns));
    if (count_open(s) > 1)
        next = min_u64(next, hedge_late(s, now_ns));
    return s->alone_ns ? min_u64(next, sum_u64(s->alone_ns, s->loader_timeout_ns)) : next;
}

void loaders_forgive(struct plenum_stream *s, uint64_t now_ns)
{
    FOR_SESSIONS(se, s) {
        se->heard_ns = se->asked_ns = se->pinged_ns = se->away_ns = now_ns;
        if (se->alone_ns)
            se->alone_ns = now_ns;
    }
    if (s->alone_ns)
        s->alone_ns = now_ns;
}

void loaders_reopen(struct plenum_stream *s)
{
    uint64_t now = time_now_ns();

    FOR_SESSIONS(se, s) {
        session_close(se, true);
        se->retry_ns = now;
    }
    s->alone_ns = now;
}

void loaders_fini(struct plenum_stream *s)
{
    s->over = true;
    FOR_SESSIONS(se, s)
        session_close(se, true);
    slot_set_unref(s->remote);
    s->remote = NULL;
}

/* SPDX-License-Identifier: MIT */
/* stream.c - the program's side of a stream: delivery in order, leases, cursors.
 *
 * A stream delivers a list of batches, each at a position in the stream (schedule.c). They are
 * requested from loaders in order, and each fills a slot of a ring. next() returns the first one
 * when it is ready, and waits until then. Which loader filled a slot, and how often the batch was
 * requested, is not visible here.
 *
 * Not here: options (stream_options.c), the contents of a batch (batch.c), changes of a plan
 * (amend.c), opening in all instances (together.c), which cursors are valid (cursor_check.c), and
 * warnings (stream_core.c). */
#include "config.h"

#include "libdist/stream_open.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/orderplan.h"
#include "common/pipeline/identity.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/amend.h"
#include "libdist/batch.h"
#include "libdist/cursor_check.h"
#include "libdist/io.h"
#include "libdist/job_priv.h"
#include "libdist/loaders.h"
#include "libdist/names.h"
#include "libdist/pacing.h"
#include "libdist/schedule.h"
#include "libdist/stream_core.h"
#include "libdist/stream_options.h"

static void free_stream(struct plenum_stream *s)
{
    loaders_free(s);
    schedule_free(s);
    tls_destroy(s->tls);
}

static bool would_return(struct plenum_stream *s)
{
    return s->closed || schedule_has_next(s) || s->error_code < 0 || schedule_is_through(s) ||
           schedule_starved(s);
}

static const struct stream_calls stream_calls = {.would_return = would_return, .free = free_stream};

static int stream_create(const struct plenum_job_info *info,
                         const struct plenum_stream_options *options,
                         const struct stream_trial *trial, struct plenum_stream **ret,
                         struct plenum_error *err)
{
    struct plenum_stream *s;
    int r;

    if (options->size != sizeof(*options))
        return error_set(err, -EINVAL,
                         "the options were not initialised by this library version's "
                         "plenum_stream_options_init()");
    s = stream_new(&stream_calls);
    if (!s)
        return error_set(err, -ENOMEM, "out of memory");
    lock_acquire(&s->mu); /* uncontended, but the functions called here assert it */
    r = stream_set_job(s, info, err);
    if (r < 0)
        goto fail;
    r = schedule_create(s, err);
    if (r < 0)
        goto fail;
    r = loaders_create(s, options->loader ? options->loader : s->info.loader, err);
    if (r < 0)
        goto fail;
    r = stream_set_options(s, options, trial, err);
    if (r < 0)
        goto fail;
    if (trace_open(&s->info, s->open.dataset, &s->trace, err) < 0 && err)
        stream_warn(s, "%s", err->text);
    loaders_begin(s);
    /* Strings that the caller keeps only for the duration of this call. */
    s->info.job_id = s->info.loader = NULL;
    lock_release(&s->mu);
    *ret = s;
    return 0;

fail:
    lock_release(&s->mu);
    stream_unref(s);
    return r;
}

/* In a forked child: unmap rings, because it would keep their memory after the parent has ended. */
static void leave_child(struct plenum_stream *s)
{
    loaders_leave(s);
    for (struct slot_set *set = s->shown; set; set = set->next_shown)
        slot_set_leave(set);
}

static void fail_cut_off(struct plenum_stream *s)
{
    stream_fail(s, -EIO, io_closed_sentence);
}

static const struct io_calls io_calls = {.tick = loaders_tick,
                                         .ready = loaders_ready,
                                         .cut_off = fail_cut_off,
                                         .end = loaders_fini,
                                         .leave = leave_child};

int stream_open(const struct plenum_job_info *info, const struct plenum_stream_options *options,
                const struct stream_trial *trial, bool held, struct plenum_stream **ret,
                struct plenum_error *err)
{
    static const struct stream_trial none;
    struct plenum_stream *s = NULL;
    int r = job_claim(info, err);

    if (r < 0)
        return r;
    r = stream_create(info, options, trial ? trial : &none, &s, err);
    if (r < 0)
        return r;
    (void)pacing_open(&s->info);
    s->held = held;
    r = io_add(s, &s->mu, &io_calls, err);
    if (r < 0) {
        stream_unref(s);
        return r;
    }
    lock_acquire(&s->mu);
    while (!s->opened && s->error_code == 0)
        lock_wait(&s->mu, &s->changed);
    r = s->error_code ? stream_over(s, err) : 0;
    lock_release(&s->mu);
    if (r < 0) {
        plenum_stream_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void stream_release(struct plenum_stream *s, uint64_t span)
{
    lock_acquire(&s->mu);
    s->held = false;
    if (span != s->open.span) { /* loaders must know the span, too */
        s->open.span = s->steps.span = span;
        loaders_reopen(s);
    } else {
        schedule_pump(s);
    }
    lock_release(&s->mu);
    io_poke();
}

int plenum_stream_open(const struct plenum_job_info *info,
                       const struct plenum_stream_options *options, struct plenum_stream **ret,
                       struct plenum_error *err)
{
    if (options->size == sizeof(*options) && options->split == PLENUM_SPLIT_FILE)
        return error_set(err, -EINVAL,
                         "split = file needs plenum_stream_open_all(): the instances must agree on "
                         "the number of steps");
    return stream_open(info, options, NULL, false, ret, err);
}

/* Report rings that the program knows and that are no longer referenced. Releases the lock during
 * the calls. */
static void retire_rings(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    for (struct slot_set **at = &s->shown, *set; (set = *at) != NULL;) {
        if (set->refs > 1) {
            at = &set->next_shown;
            continue;
        }
        *at = set->next_shown;
        lock_release(&s->mu);
        s->on_ring(s->on_ring_arg, set->ring->base, set->ring->bytes, 0);
        lock_acquire(&s->mu);
        slot_set_unref(set);
        at = &s->shown; /* the list may have changed */
    }
}

/* Report a ring to the program before its first batch is returned. Releases the lock during the
 * call. */
static void show_ring(struct plenum_stream *s, struct slot_set *set)
{
    assert(lock_is_held(&s->mu));
    set->shown = true;
    set->next_shown = s->shown;
    s->shown = slot_set_ref(set);
    lock_release(&s->mu);
    s->on_ring(s->on_ring_arg, set->ring->base, set->ring->bytes, 1);
    lock_acquire(&s->mu);
}

static int forked(struct plenum_error *err)
{
    return error_set(
        err, -ECHILD,
        "this process was forked from the one that opened the stream; open another stream here");
}

/* Begin a call and take the lock; plenum_stream_destroy() waits for the call's end. Returns 0; or
 * -ECHILD or -EBADF, without the lock. */
static int enter(struct plenum_stream *s, struct plenum_error *err)
{
    if (s->pid != getpid()) /* the lock may have been held during the fork */
        return forked(err);
    lock_acquire(&s->mu);
    if (s->closed) {
        int r = stream_over(s, err);

        lock_release(&s->mu);
        return r;
    }
    s->inside++;
    return 0;
}

static void leave(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    if (--s->inside == 0 && s->closed)
        (void)pthread_cond_broadcast(&s->changed);
    lock_release(&s->mu);
}

/* Close the trace file once the stream is closed and all its batches are released, because releases
 * after the end are traced, too. */
static void finish_trace(struct plenum_stream *s)
{
    assert(lock_is_held(&s->mu));
    if (!s->closed || s->leased > 0)
        return;
    trace_close(s->trace);
    s->trace = NULL;
}

void plenum_stream_shutdown(struct plenum_stream *stream)
{
    struct plenum_stream *s = stream;

    if (enter(s, NULL) < 0)
        return;
    s->closed = true;
    s->closed_ns = time_now_ns();
    stream_changed(s);
    lock_release(&s->mu);
    io_remove(s);
    lock_acquire(&s->mu);
    schedule_drop(s);
    retire_rings(s);
    finish_trace(s);
    leave(s);
}

void plenum_stream_destroy(struct plenum_stream *stream)
{
    struct plenum_stream *s = stream;

    if (!s || s->pid != getpid())
        return;
    plenum_stream_shutdown(s);
    lock_acquire(&s->mu);
    while (s->inside > 0)
        lock_wait(&s->mu, &s->changed);
    lock_release(&s->mu);
    stream_unref(s);
}

/* Return the next batch, which is ready. */
static int deliver(struct plenum_stream *s, struct plenum_batch *ret, struct plenum_error *err)
{
    struct plenum_error why;
    struct made_batch made;
    int r = schedule_next(s, &made, &why);

    assert(lock_is_held(&s->mu));
    if (r < 0) {
        stream_fail(s, r, why.text);
        return error_set(err, r, "%s", why.text);
    }
    batch_describe(s, &made, ret);
    if (made.substituted > 0)
        ret->num_substituted = batch_count_substituted(s, ret, made.substituted);
    if (ret->num_substituted > 0 && s->stats.substituted == 0)
        stream_warn(
            s,
            "%u bad samples of batch %llu are replaced by others, so some are shown twice: "
            "'plenumctl verify %s%s' lists all bad samples, and bad = fail ends a stream at "
            "the first",
            ret->num_substituted, (unsigned long long)ret->index,
            s->plan ? "DATASET" : s->open.dataset, s->fields.count ? " --fields FIELDS" : "");
    slot_lease(made.slot);
    made.slot->times.index = ret->index;
    made.slot->times.leased_ns = time_now_ns();
    (void)atomic_fetch_add(&s->refs, 1); /* for the lease, which may outlive the program's handle */
    s->cursor = made.after;
    s->leased++;
    s->next_index++;
    s->stats.batches++;
    s->stats.samples += ret->num_valid;
    s->stats.substituted += ret->num_substituted;
    schedule_pump(s);
    return 0;
}

static int wait_for_batch(struct plenum_stream *s, uint64_t deadline_ns, struct plenum_batch *ret,
                          struct plenum_error *err)
{
    for (;;) {
        if (s->closed)
            return stream_over(s, err);
        if (schedule_has_next(s))
            return deliver(s, ret, err);
        if (s->error_code < 0)
            return stream_over(s, err);
        if (schedule_is_through(s))
            return error_set(err, -ENODATA, "all %llu epochs are over",
                             (unsigned long long)s->epochs);
        if (schedule_starved(s))
            return error_set(
                err, -ENOBUFS,
                "all %u slots of the ring are leased: release a batch before asking for "
                "the next",
                s->open.slots);
        if (deadline_ns != UINT64_MAX && time_now_ns() >= deadline_ns)
            return error_set(err, -EAGAIN, "no batch was ready in time");
        if (io_is_closed()) {
            stream_fail(s, -EIO, io_closed_sentence);
            continue;
        }
        (void)lock_wait_until(&s->mu, &s->changed, deadline_ns);
    }
}

int plenum_stream_next(struct plenum_stream *stream, uint64_t timeout_ns, struct plenum_batch *ret,
                       struct plenum_error *err)
{
    uint64_t begin = time_now_ns(), end;
    int r = enter(stream, err);

    if (r < 0)
        return r;
    if (timeout_ns > 0)
        pacing_wait(begin);
    stream->waiting_ns = begin;
    r = wait_for_batch(stream, sum_u64(begin, timeout_ns), ret, err);
    stream->waiting_ns = 0;
    end = time_now_ns();
    stream->stats.wait_ns += end - begin;
    trace_wait(stream->trace, begin, end);
    pacing_take(begin, end, timeout_ns > 0, r == 0 ? &ret->lease->times : NULL,
                r == 0 ? ret->count : 0);
    stream_update_fd(stream);
    if (stream->on_ring) {
        retire_rings(stream);
        if (r == 0 && !ret->lease->set->shown)
            show_ring(stream, ret->lease->set);
    }
    leave(stream);
    return r;
}

int plenum_stream_get_fd(struct plenum_stream *stream, struct plenum_error *err)
{
    struct plenum_stream *s = stream;
    int r = enter(s, err);

    if (r < 0)
        return r;
    if (s->ready_fd < 0) {
        s->ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s->ready_fd < 0)
            r = error_set(err, -errno, "no file descriptor is available: %s", strerror(errno));
        stream_update_fd(s);
    }
    if (s->ready_fd >= 0)
        r = s->ready_fd;
    leave(s);
    return r;
}

void plenum_stream_get_ring(struct plenum_stream *stream, struct plenum_ring *ret)
{
    const struct ring *ring;

    *ret = (struct plenum_ring){0};
    if (stream->pid != getpid())
        return;
    lock_acquire(&stream->mu);
    ring = loaders_ring(stream);
    if (ring)
        *ret = (struct plenum_ring){.base = ring->base, .bytes = ring->bytes};
    lock_release(&stream->mu);
}

void plenum_batch_release(struct plenum_batch *batch)
{
    struct plenum_lease *slot = batch->lease;
    struct plenum_stream *s;

    *batch = (struct plenum_batch){0};
    if (!slot)
        return;
    s = slot->set->stream;
    if (s->pid != getpid())
        return;
    lock_acquire(&s->mu);
    if (s->trace) {
        slot->times.released_ns = time_now_ns();
        trace_batch(s->trace, &slot->times);
    }
    slot_free(slot);
    s->leased--;
    schedule_pump(s);
    stream_update_fd(s);
    if (s->closed)
        retire_rings(s);
    finish_trace(s);
    lock_release(&s->mu);
    stream_unref(s);
}

void plenum_stream_get_info(const struct plenum_stream *stream, struct plenum_stream_info *ret)
{
    const struct plenum_stream *s = stream;
    bool here = s->pid == getpid(); /* otherwise the lock may have been held during the fork */

    if (here)
        lock_acquire((struct lock *)&s->mu); /* plenum_stream_reshape() changes steps */
    *ret = (struct plenum_stream_info){.num_samples = s->plan ? s->num_samples : s->order.n,
                                       .num_positions = s->steps.n,
                                       .steps_per_epoch = order_steps_whole(&s->steps),
                                       .num_classes = s->num_classes,
                                       .height = s->open.height,
                                       .width = s->open.width,
                                       .channels = s->open.channels,
                                       .steps = s->open.steps,
                                       .replicas = s->info.num_local_replicas,
                                       .micro_batch = s->open.local / s->info.num_local_replicas,
                                       .slots = s->open.slots,
                                       .batch_bytes = wire_batch_count(&s->open) *
                                                      wire_sample_bytes(&s->open)};
    ret->batches = (order_steps_total(&s->steps, s->epochs) + s->open.steps - 1) / s->open.steps;
    if (here)
        lock_release((struct lock *)&s->mu);
    memcpy(ret->fingerprint, s->fingerprint, sizeof(ret->fingerprint));
    memcpy(ret->identity, s->identity, sizeof(ret->identity));
}

const char *plenum_stream_get_dataset(const struct plenum_stream *stream)
{
    return wire_dataset(stream->open.dataset, stream->open.plan);
}

uint32_t plenum_stream_get_sets(const struct plenum_stream *stream,
                                struct plenum_set ret[PLENUM_SETS_MAX])
{
    const struct orderplan *plan = stream->first_plan;
    uint64_t first = 0;

    for (uint32_t i = 0; plan && i < plan->num_sets; i++) {
        ret[i] = (struct plenum_set){
            .name = plan->sets[i].name, .first = first, .num_samples = stream->sets[i].samples};
        first += stream->sets[i].samples;
    }
    return plan ? plan->num_sets : 0;
}

int plenum_stream_cursor(struct plenum_stream *stream, struct plenum_cursor *ret)
{
    *ret = (struct plenum_cursor){0};
    if (stream->pid != getpid())
        return -ECHILD;
    lock_acquire(&stream->mu);
    *ret =
        (struct plenum_cursor){.epoch = stream->cursor.epoch, .position = stream->cursor.position};
    stream_identity(stream, stream->cursor, ret->identity);
    lock_release(&stream->mu);
    return 0;
}

int plenum_stream_cursor_at(struct plenum_stream *stream, uint64_t epoch, uint64_t position,
                            struct plenum_cursor *ret)
{
    *ret = (struct plenum_cursor){.epoch = epoch, .position = position};
    if (stream->pid != getpid())
        return -ECHILD;
    lock_acquire(&stream->mu);
    stream_identity(stream, (struct order_place){epoch, position}, ret->identity);
    lock_release(&stream->mu);
    return 0;
}

int plenum_stream_get_place(struct plenum_stream *stream, struct plenum_place *ret)
{
    struct order_place place;

    *ret = (struct plenum_place){0};
    if (stream->pid != getpid())
        return -ECHILD;
    lock_acquire(&stream->mu);
    place = order_place_settle(&stream->steps, stream->cursor);
    *ret = (struct plenum_place){.epoch = place.epoch,
                                 .position = place.position,
                                 .steps_left = order_steps_left(&stream->steps, place)};
    lock_release(&stream->mu);
    return 0;
}

int plenum_stream_amend(struct plenum_stream *stream, const char *lines, struct plenum_error *err)
{
    int r = enter(stream, err);

    if (r < 0)
        return r;
    r = amend_stream(stream, lines, err);
    leave(stream);
    return r;
}

/* Get the position of a cursor that a program passes. */
static int read_cursor(const struct plenum_stream *s, const struct plenum_cursor *cursor,
                       struct order_place *ret, struct plenum_error *err)
{
    int r = cursor_check(s, cursor, err);

    if (r < 0)
        return r;
    if (cursor->position >= max_u64(s->steps.n, s->steps.span) || cursor->epoch >= UINT32_MAX)
        return error_set(
            err, -EINVAL,
            "the cursor is at position %llu of epoch %llu, but an epoch has %u positions",
            (unsigned long long)cursor->position, (unsigned long long)cursor->epoch, s->steps.n);
    *ret = (struct order_place){.epoch = cursor->epoch, .position = cursor->position};
    return 0;
}

/* Continue the stream from this position. */
static void move_to(struct plenum_stream *s, struct order_place place)
{
    assert(lock_is_held(&s->mu));
    s->cursor = place;
    s->next_index = 0;
    schedule_seek(s, order_place_settle(&s->steps, place));
    stream_update_fd(s);
    io_poke();
}

int plenum_stream_seek(struct plenum_stream *stream, const struct plenum_cursor *cursor,
                       struct plenum_error *err)
{
    struct plenum_stream *s = stream;
    struct order_place place;
    int r = enter(s, err);

    if (r < 0)
        return r;
    r = read_cursor(s, cursor, &place, err);
    if (r == 0 && s->error_code < 0)
        r = stream_over(s, err);
    if (r == 0) /* prefetched batches are useless now */
        move_to(s, place);
    leave(s);
    return r;
}

/* Check a new share. `steps` begin as the stream's and become those of the new share. */
static int check_share(const struct plenum_stream *s, const struct plenum_share *share,
                       struct order_steps *steps, uint32_t *offset, struct plenum_error *err)
{
    uint32_t local = share->num_local_replicas;
    uint64_t micro_batch = s->open.local / s->info.num_local_replicas;
    uint64_t per_step = share->num_replicas * micro_batch;
    int r;

    if (s->split == PLENUM_SPLIT_FILE)
        return error_set(err, -ENOTSUP,
                         "the stream cannot be reshaped: with split = file, each instance has data "
                         "of its own: open it again");
    if (local != s->info.num_local_replicas)
        return error_set(err, -EINVAL,
                         "the stream has slots for %u replicas of this instance and cannot "
                         "continue with %u: open it again",
                         s->info.num_local_replicas, local);
    r = stream_check_share(share, err);
    if (r < 0)
        return r;
    if (per_step > UINT32_MAX)
        return error_set(err, -EINVAL, "a step of %llu samples is too large",
                         (unsigned long long)per_step);
    *offset = (uint32_t)(share->replica_offset * micro_batch);
    r = wire_open_check_share(&s->open, (uint32_t)per_step, *offset, err);
    if (r < 0)
        return r;
    steps->per_step = (uint32_t)per_step;
    if (!order_has_steps(steps))
        return error_set(err, -EINVAL,
                         "an epoch of %u samples is shorter than one step of %u, so last=drop "
                         "leaves no step; use last=pad",
                         steps->n, steps->per_step);
    return 0;
}

int plenum_stream_reshape(struct plenum_stream *stream, const struct plenum_share *share,
                          const struct plenum_cursor *at, struct plenum_error *err)
{
    struct plenum_stream *s = stream;
    struct order_steps steps;
    struct order_place place;
    uint32_t offset = 0;
    int r = enter(s, err);

    if (r < 0)
        return r;
    steps = s->steps;
    place = s->cursor;
    r = s->error_code < 0 ? stream_over(s, err) : check_share(s, share, &steps, &offset, err);
    if (r == 0 && at)
        r = read_cursor(s, at, &place, err);
    else if (r == 0 && s->open.steps > 1 && s->leased > 0)
        r = error_set(err, -EBUSY,
                      "a batch of %u steps is leased, and the stream does not know how many of "
                      "them count: release it, or pass the cursor to continue from",
                      s->open.steps);
    if (r == 0) {
        schedule_drop(s); /* while its loaders still have the old share */
        s->steps = steps;
        s->open.per_step = steps.per_step;
        s->open.offset = offset;
        s->info.num_replicas = share->num_replicas;
        s->info.replica_offset = share->replica_offset;
        loaders_reshape(s);
        move_to(s, place);
    }
    leave(s);
    return r;
}

int plenum_stream_tag(struct plenum_stream *stream, uint64_t previous,
                      const struct plenum_cursor *at, uint64_t *ret)
{
    struct {
        uint64_t previous;
        struct plenum_cursor cursor;
        uint64_t per_step;
    } hashed = {.previous = previous};
    int r = at ? 0 : plenum_stream_cursor(stream, &hashed.cursor);

    *ret = 0;
    if (stream->pid != getpid())
        r = -ECHILD;
    if (r < 0)
        return r;
    if (at)
        hashed.cursor = *at;
    lock_acquire(&stream->mu);
    hashed.per_step = stream->open.per_step;
    lock_release(&stream->mu);
    *ret = XXH3_64bits(&hashed, sizeof(hashed));
    return 0;
}

void plenum_stream_get_stats(struct plenum_stream *stream, struct plenum_stream_stats *ret)
{
    struct plenum_stream *s = stream;

    *ret = (struct plenum_stream_stats){0};
    if (s->pid != getpid())
        return;
    lock_acquire(&s->mu);
    *ret = s->stats;
    ret->elapsed_ns = (s->closed ? s->closed_ns : time_now_ns()) - s->opened_ns;
    loaders_get_stats(s, ret);
    lock_release(&s->mu);
}

int plenum_stream_sample_names(struct plenum_stream *stream, const uint32_t *samples,
                               uint32_t count, char ***ret, struct plenum_error *err)
{
    char **names = NULL;
    int r = enter(stream, err);

    if (r < 0)
        return r;
    r = names_get(stream, WIRE_NAMED_SAMPLE, samples, count, &names, err);
    leave(stream);
    if (r == 0)
        *ret = names;
    return r;
}

int plenum_stream_class_names(struct plenum_stream *stream, char ***ret, uint32_t *ret_count,
                              struct plenum_error *err)
{
    char **names = NULL;
    uint32_t count;
    int r = enter(stream, err);

    if (r < 0)
        return r;
    count = stream->num_class_names;
    if (count > 0)
        r = names_get(stream, WIRE_NAMED_CLASS, NULL, count, &names, err);
    leave(stream);
    if (r < 0)
        return r;
    *ret = names;
    *ret_count = count;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* stream_core.c - the part of a stream that every other file may use: it creates and frees the
 * stream, keeps its error and its warnings, and wakes the calls that wait for it.
 *
 * Not here: batches (schedule.c), loaders (loaders.c), most of the program's calls (stream.c). */
#include "config.h"

#include "libdist/stream_core.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/order/orderplan.h"
#include "common/pipeline/identity.h"
#include "common/util/util.h"

struct plenum_stream *stream_new(const struct stream_calls *calls)
{
    struct plenum_stream *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->calls = calls;
    s->pid = getpid();
    s->opened_ns = time_now_ns();
    s->ready_fd = -1;
    atomic_init(&s->refs, 1);
    lock_init(&s->mu);
    (void)pthread_cond_init(&s->changed, NULL);
    return s;
}

void stream_unref(struct plenum_stream *s)
{
    unsigned refs = atomic_fetch_sub(&s->refs, 1);

    assert(refs > 0);
    if (refs != 1)
        return;
    s->calls->free(s);
    io_close(&s->ready_fd);
    trace_close(s->trace);
    if (s->plan != s->first_plan)
        orderplan_free(s->plan);
    orderplan_free(s->first_plan);
    (void)pthread_cond_destroy(&s->changed);
    lock_fini(&s->mu);
    free(s);
}

void stream_warn(struct plenum_stream *s, const char *format, ...)
{
    char text[sizeof(s->warnings[0].text)];
    va_list args;

    assert(lock_is_held(&s->mu));
    assert(s->num_warnings <= WARNINGS_MAX);
    if (s->num_warnings == WARNINGS_MAX) /* unread: keep the newest */
        memmove(&s->warnings[0], &s->warnings[1], sizeof(s->warnings[0]) * --s->num_warnings);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)error_set(&s->warnings[s->num_warnings++], 0, "%s", text);
    trace_incident(s->trace, text);
}

int plenum_stream_take_warning(struct plenum_stream *stream, struct plenum_error *ret)
{
    struct plenum_stream *s = stream;
    int taken = 0;

    if (s->pid != getpid())
        return 0;
    lock_acquire(&s->mu);
    if (s->num_warnings > 0) {
        *ret = s->warnings[0];
        memmove(&s->warnings[0], &s->warnings[1], sizeof(s->warnings[0]) * --s->num_warnings);
        taken = 1;
    }
    lock_release(&s->mu);
    return taken;
}

void stream_identity(const struct plenum_stream *s, struct order_place place, uint8_t ret[16])
{
    if (s->plan)
        identity_of_plan(&(struct identity_plan){.plan = s->plan,
                                                 .sets = s->sets,
                                                 .reweighs = s->reweighs,
                                                 .positions = s->steps.n,
                                                 .open = &s->open,
                                                 .sum = &s->sum},
                         place, ret);
    else
        memcpy(ret, s->identity, sizeof(s->identity));
}

void stream_fail(struct plenum_stream *s, int code, const char *text)
{
    assert(lock_is_held(&s->mu));
    assert(code < 0 && *text); /* wire.c ensures this for a loader's messages */
    if (s->error_code == 0) {
        s->error_code = code;
        (void)error_set(&s->error, code, "%s", text);
    }
    stream_changed(s);
}

int stream_over(const struct plenum_stream *s, struct plenum_error *err)
{
    assert(lock_is_held(&s->mu));
    assert(s->closed || s->error_code < 0);
    return s->closed ? error_set(err, -EBADF, "the stream is closed")
                     : error_set(err, s->error_code, "%s", s->error.text);
}

void stream_update_fd(struct plenum_stream *s)
{
    bool ready;

    assert(lock_is_held(&s->mu));
    if (s->ready_fd < 0)
        return;
    ready = s->calls->would_return(s);
    if (ready == s->ready_fd_set)
        return;
    s->ready_fd_set = ready;
    if (ready)
        io_event_set(s->ready_fd);
    else
        io_event_clear(s->ready_fd);
}

void stream_changed(struct plenum_stream *s)
{
    stream_update_fd(s);
    (void)pthread_cond_broadcast(&s->changed);
}

/* SPDX-License-Identifier: MIT */
/* batch_trace.c - see batch_trace.h. The file is a JSON array of trace events, one per line:
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event
 * Format"). It can be read while it is being written, and after a crash, when its last line is
 * missing: the format allows that.
 *
 * Each process in the trace is one stream. Its first track is the program: when it waits for data,
 * and when it holds a batch. Each slot of the ring has a track, too: the batch is requested and
 * waits in the loader's queue, is rendered, is ready, is in use. */
#include "config.h"

#include "libdist/batch_trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/util.h"

enum { TRACK_PROGRAM = 1, TRACK_SLOTS = 2, TEXT_MAX = 512 };

struct trace {
    FILE *file;
    struct json json;
    unsigned process; /* number of the stream in the trace */
    /* Added to CLOCK_MONOTONIC to get CLOCK_REALTIME, so that traces of several hosts line up. */
    uint64_t offset_ns;
    uint32_t slots; /* number of slots whose tracks have been named */
};

static struct json *begin_event(struct trace *t, const char *phase, const char *name,
                                uint32_t track)
{
    json_begin_object(&t->json, NULL, JSON_FLAT);
    json_text(&t->json, "ph", phase);
    json_text(&t->json, "name", name);
    json_number(&t->json, "pid", t->process);
    json_number(&t->json, "tid", track);
    return &t->json;
}

/* Write an event that names the process or a track. */
static void name_it(struct trace *t, const char *what, uint32_t track, const char *name)
{
    struct json *j = begin_event(t, "M", what, track);

    json_begin_object(j, "args", JSON_FLAT);
    json_text(j, "name", name);
    json_end_object(j);
    json_end_object(j);
}

int trace_open(const struct plenum_job_info *info, const char *title, struct trace **ret,
               struct plenum_error *err)
{
    static atomic_uint streams; /* number of this process's traces so far */
    const char *folder = getenv("PLENUM_TRACE");
    unsigned number = atomic_fetch_add(&streams, 1);
    char path[4096], host[128] = "", text[TEXT_MAX];
    struct timespec real;
    struct trace *t;

    *ret = NULL;
    if (!folder || !*folder)
        return 0;
    if (mkdir(folder, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "no trace: PLENUM_TRACE=%s: %s", folder, strerror(errno));
    (void)gethostname(host, sizeof(host) - 1);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s-%ld-%u.trace.json", folder, host,
                         (long)getpid(), number) >= sizeof(path))
        return error_set(err, -ENAMETOOLONG, "no trace: PLENUM_TRACE is too long");
    t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no trace: out of memory");
    t->file = fopen(path, "we");
    if (!t->file) {
        int code = -errno;

        free(t);
        return error_set(err, code, "no trace: %s: %s", path, strerror(-code));
    }
    t->process = (unsigned)getpid() * 16 + number % 16;
    (void)clock_gettime(CLOCK_REALTIME, &real);
    t->offset_ns = (uint64_t)real.tv_sec * NS_PER_SEC + (uint64_t)real.tv_nsec - time_now_ns();
    t->json.file = t->file;
    json_begin_array(&t->json, NULL, JSON_LINES);
    (void)snprintf(text, sizeof(text), "instance %u on %s: %s", info->instance_index, host, title);
    name_it(t, "process_name", 0, text);
    name_it(t, "thread_name", TRACK_PROGRAM, "program");
    (void)fflush(t->file);
    *ret = t;
    return 0;
}

void trace_close(struct trace *t)
{
    if (!t)
        return;
    json_end_array(&t->json);
    (void)fclose(t->file);
    free(t);
}

/* Write a time, in microseconds since 1970. */
static void put_time(struct trace *t, uint64_t ns)
{
    json_real(&t->json, "ts", (double)(ns + t->offset_ns) / 1e3, 3);
}

/* Begin a span, up to the inside of its "args". */
static struct json *begin_span(struct trace *t, uint32_t track, const char *name, uint64_t begin_ns,
                               uint64_t end_ns)
{
    struct json *j = begin_event(t, "X", name, track);

    put_time(t, begin_ns);
    json_real(j, "dur", (double)(end_ns > begin_ns ? end_ns - begin_ns : 0) / 1e3, 3);
    json_begin_object(j, "args", JSON_FLAT);
    return j;
}

static void end_span(struct json *j)
{
    json_end_object(j);
    json_end_object(j);
}

/* Complete an event and flush the file, because otherwise a forked child would also write the rest
 * of the buffer when it exits. */
static void end_event(struct trace *t)
{
    end_span(&t->json);
    (void)fflush(t->file);
}

void trace_wait(struct trace *t, uint64_t begin_ns, uint64_t end_ns)
{
    if (!t)
        return;
    (void)begin_span(t, TRACK_PROGRAM, "wait", begin_ns, end_ns);
    end_event(t);
}

void trace_batch(struct trace *t, const struct trace_batch *b)
{
    uint32_t track = TRACK_SLOTS + b->slot;
    uint64_t taken = min_u64(b->asked_ns + b->done.queue_ns, b->done_ns);
    const struct {
        const char *name;
        uint64_t begin_ns, end_ns;
    } spans[] = {{"queue", b->asked_ns, taken},
                 {"render", taken, b->done_ns},
                 {"ready", b->done_ns, b->leased_ns},
                 {"in use", b->leased_ns, b->released_ns}};
    char name[32];

    if (!t)
        return;
    for (; t->slots <= b->slot; t->slots++) {
        (void)snprintf(name, sizeof(name), "slot %u", t->slots);
        name_it(t, "thread_name", TRACK_SLOTS + t->slots, name);
    }
    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        struct json *j = begin_span(t, track, spans[i].name, spans[i].begin_ns, spans[i].end_ns);

        json_number(j, "batch", b->index);
        if (i == 1) {
            json_number(j, "epoch", b->epoch);
            json_number(j, "position", b->position);
            json_real(j, "read_ms", (double)b->done.read_ns / 1e6, 3);
            json_real(j, "render_ms", (double)b->done.render_ns / 1e6, 3);
            json_number(j, "substituted", b->done.substituted);
        }
        end_span(j);
    }
    (void)fflush(t->file);
}

void trace_incident(struct trace *t, const char *text)
{
    struct json *j;

    if (!t)
        return;
    j = begin_event(t, "i", "incident", TRACK_PROGRAM);
    json_text(j, "s", "p");
    put_time(t, time_now_ns());
    json_begin_object(j, "args", JSON_FLAT);
    json_text(j, "text", text);
    end_event(t);
}

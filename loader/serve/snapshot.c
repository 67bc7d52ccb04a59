/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/serve/monitor.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session_facts.h"

/* A snapshot is used for fifty times as long as its creation took, so that the loop spends at most
 * a fiftieth of its time on snapshots; if slow clients hold several snapshots, it is used for a
 * second. */
enum { FRESH_TIMES = 50, FRESH_MS = 1000, HELD_MAX = 8 };

static unsigned made; /* number of snapshots; only the loop uses it */

struct snapshot {
    unsigned refs;
    uint64_t stale_ns; /* when it becomes stale */
    struct wire_status loader;
    struct frame_buffer frames; /* STATUS_STREAM frames, one after the other */
    size_t count;
    struct record {
        uint64_t id;
        uint32_t uid;
        size_t at, len; /* where its payload is in `frames` */
    } streams[];
};

void snapshot_unref(struct snapshot *snapshot)
{
    assert(!snapshot || snapshot->refs > 0);
    if (!snapshot || --snapshot->refs > 0)
        return;
    assert(made > 0);
    frame_buffer_fini(&snapshot->frames);
    free(snapshot);
    made--;
}

static int add_stream(struct snapshot *p, const struct server *server,
                      const struct session *session)
{
    static struct wire_status_stream stream; /* static because it is large; only the loop uses it */
    size_t begin = p->frames.len;
    int r;

    memset(&stream, 0, sizeof(stream));
    if (!monitor_get_stream(server, session, &stream))
        return 0;
    r = wire_put_status_stream(&p->frames, 0, &stream);
    if (r < 0)
        return r;
    p->streams[p->count++] = (struct record){.id = stream.id,
                                             .uid = stream.uid,
                                             .at = begin + FRAME_HEADER_BYTES,
                                             .len = p->frames.len - begin - FRAME_HEADER_BYTES};
    return 0;
}

static struct snapshot *make(struct server *server)
{
    uint64_t begin = time_cpu_ns();
    struct snapshot *p = calloc(1, sizeof(*p) + server->num_sessions * sizeof(p->streams[0]));

    if (!p)
        return NULL;
    p->refs = 1;
    made++;
    monitor_get_status(server, &p->loader);
    for (const struct session *s = session_first(server); s; s = session_next(s))
        if (add_stream(p, server, s) < 0) {
            snapshot_unref(p);
            return NULL;
        }
    p->stale_ns = time_now_ns() + max_u64(made > HELD_MAX ? FRESH_MS * NS_PER_MS : 0,
                                          FRESH_TIMES * (time_cpu_ns() - begin));
    return p;
}

struct snapshot *snapshot_get(struct server *server)
{
    if (!server->snapshot || time_now_ns() >= server->snapshot->stale_ns) {
        snapshot_unref(server->snapshot);
        server->snapshot = make(server);
    }
    if (server->snapshot)
        server->snapshot->refs++;
    return server->snapshot;
}

void snapshot_forget(struct server *server)
{
    snapshot_unref(server->snapshot);
    server->snapshot = NULL;
}

static bool sees(const struct snapshot_viewer *v, const struct record *stream)
{
    return v->all || stream->id == v->id || (v->known && stream->uid == v->uid);
}

int snapshot_put_loader(const struct snapshot *p, const struct snapshot_viewer *viewer,
                        uint64_t request, struct frame_buffer *b)
{
    struct wire_status loader = p->loader;

    loader.streams = 0;
    for (size_t i = 0; i < p->count; i++)
        loader.streams += sees(viewer, &p->streams[i]);
    return wire_put_status(b, request, &loader);
}

int snapshot_put_stream(const struct snapshot *p, const struct snapshot_viewer *viewer,
                        uint64_t request, size_t *next, struct frame_buffer *b)
{
    size_t i = *next, begin;
    int r;

    while (i < p->count && !sees(viewer, &p->streams[i]))
        i++;
    *next = i + 1;
    if (i >= p->count)
        return 0;
    begin = frame_begin(b, WIRE_STATUS_STREAM, request);
    frame_put_bytes(b, p->frames.bytes + p->streams[i].at, p->streams[i].len);
    r = frame_end(b, begin);
    return r < 0 ? r : 1;
}

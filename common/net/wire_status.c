/* SPDX-License-Identifier: MIT */
/* wire_status.c - the codec of a loader's status (wire.h). */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "common/net/wire.h"
#include "common/util/util.h"

enum { CACHE_COUNTERS = 13 };

/* List a cache's counters in the order of the message. */
static void list_counters(struct wire_cache *c, uint64_t *ret[CACHE_COUNTERS])
{
    uint64_t *all[CACHE_COUNTERS] = {&c->samples, &c->known,       &c->bytes,   &c->limit,
                                     &c->hits,    &c->hit_bytes,   &c->misses,  &c->miss_bytes,
                                     &c->writes,  &c->write_bytes, &c->evicted, &c->dropped,
                                     &c->damaged};

    memcpy(ret, all, sizeof(all));
}

static void put_cache(struct frame_buffer *b, const struct wire_cache *m)
{
    struct wire_cache copy = *m;
    uint64_t *counters[CACHE_COUNTERS];

    frame_put_u32(b, m->open);
    frame_put_u32(b, m->in_memory);
    frame_put_u32(b, m->paused);
    list_counters(&copy, counters);
    for (unsigned i = 0; i < CACHE_COUNTERS; i++)
        frame_put_u64(b, *counters[i]);
}

static void get_cache(struct frame_reader *r, struct wire_cache *ret)
{
    uint64_t *counters[CACHE_COUNTERS];

    ret->open = frame_get_choice(r, 2);
    ret->in_memory = frame_get_choice(r, 2);
    ret->paused = frame_get_choice(r, 2);
    list_counters(ret, counters);
    for (unsigned i = 0; i < CACHE_COUNTERS; i++)
        *counters[i] = frame_get_u64(r);
}

static void put_shared(struct frame_buffer *b, const struct wire_shared *m)
{
    frame_put_u64(b, m->kept);
    frame_put_u64(b, m->bytes);
    frame_put_u64(b, m->limit);
    frame_put_u64(b, m->rendered);
    frame_put_u64(b, m->copied);
    frame_put_u64(b, m->evicted);
    frame_put_u64(b, m->refused);
    frame_put_u64(b, m->saved_ns);
}

static void get_shared(struct frame_reader *r, struct wire_shared *ret)
{
    ret->kept = frame_get_u64(r);
    ret->bytes = frame_get_u64(r);
    ret->limit = frame_get_u64(r);
    ret->rendered = frame_get_u64(r);
    ret->copied = frame_get_u64(r);
    ret->evicted = frame_get_u64(r);
    ret->refused = frame_get_u64(r);
    ret->saved_ns = frame_get_u64(r);
}

int wire_put_status(struct frame_buffer *b, uint64_t request, const struct wire_status *m)
{
    size_t begin = frame_begin(b, WIRE_STATUS, request);

    frame_put_text(b, m->version);
    frame_put_text(b, m->host);
    frame_put_u32(b, m->pid);
    frame_put_u32(b, m->uid);
    frame_put_u64(b, m->uptime_ns);
    frame_put_u32(b, m->threads);
    frame_put_u32(b, m->io_threads);
    frame_put_u32(b, m->sessions);
    frame_put_u32(b, m->streams);
    frame_put_u64(b, m->samples);
    frame_put_u64(b, m->substituted);
    frame_put_u64(b, m->batches);
    frame_put_u64(b, m->failed);
    frame_put_u64(b, m->refused);
    frame_put_u64(b, m->queued);
    frame_put_u64(b, m->rate);
    frame_put_u64(b, m->ring_bytes);
    frame_put_u64(b, m->ring_limit);
    frame_put_u64(b, m->render_busy);
    frame_put_u64(b, m->read_busy);
    frame_put_u64(b, m->memory_bytes);
    frame_put_u32(b, m->descriptors);
    frame_put_u32(b, m->stopping);
    frame_put_u32(b, m->lanes);
    for (uint32_t i = 0; i < m->lanes; i++) {
        frame_put_u32(b, m->lane[i].threads);
        frame_put_u32(b, m->lane[i].streams);
        frame_put_u64(b, m->lane[i].ring_bytes);
    }
    frame_put_text(b, m->loops);
    put_cache(b, &m->cache);
    put_shared(b, &m->shared);
    return frame_end(b, begin);
}

int wire_get_status(struct frame_reader *r, struct wire_status *ret)
{
    frame_get_text(r, ret->version, sizeof(ret->version));
    frame_get_text(r, ret->host, sizeof(ret->host));
    ret->pid = frame_get_u32(r);
    ret->uid = frame_get_u32(r);
    ret->uptime_ns = frame_get_u64(r);
    ret->threads = frame_get_u32(r);
    ret->io_threads = frame_get_u32(r);
    ret->sessions = frame_get_u32(r);
    ret->streams = frame_get_u32(r);
    ret->samples = frame_get_u64(r);
    ret->substituted = frame_get_u64(r);
    ret->batches = frame_get_u64(r);
    ret->failed = frame_get_u64(r);
    ret->refused = frame_get_u64(r);
    ret->queued = frame_get_u64(r);
    ret->rate = frame_get_u64(r);
    ret->ring_bytes = frame_get_u64(r);
    ret->ring_limit = frame_get_u64(r);
    ret->render_busy = frame_get_u64(r);
    ret->read_busy = frame_get_u64(r);
    ret->memory_bytes = frame_get_u64(r);
    ret->descriptors = frame_get_u32(r);
    ret->stopping = frame_get_choice(r, 2);
    ret->lanes = frame_get_choice(r, WIRE_LANES_MAX + 1);
    for (uint32_t i = 0; i < ret->lanes; i++) {
        ret->lane[i].threads = frame_get_u32(r);
        ret->lane[i].streams = frame_get_u32(r);
        ret->lane[i].ring_bytes = frame_get_u64(r);
    }
    ret->loops[0] = '\0';
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_LOOPS */
        frame_get_text(r, ret->loops, sizeof(ret->loops));
    ret->cache = (struct wire_cache){.open = false};
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_CACHE */
        get_cache(r, &ret->cache);
    ret->shared = (struct wire_shared){.limit = 0};
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_SHARED */
        get_shared(r, &ret->shared);
    return frame_got(r);
}

int wire_put_status_stream(struct frame_buffer *b, uint64_t request,
                           const struct wire_status_stream *m)
{
    size_t begin = frame_begin(b, WIRE_STATUS_STREAM, request);

    frame_put_u64(b, m->id);
    frame_put_u32(b, m->pid);
    frame_put_u32(b, m->uid);
    frame_put_text(b, m->client);
    frame_put_text(b, m->dataset);
    frame_put_text(b, m->pipeline);
    frame_put_u64(b, m->age_ns);
    frame_put_u64(b, m->samples);
    frame_put_u64(b, m->substituted);
    frame_put_u64(b, m->batches);
    frame_put_u64(b, m->failed);
    frame_put_u64(b, m->epoch);
    frame_put_u64(b, m->position);
    frame_put_u64(b, m->epoch_samples);
    frame_put_u64(b, m->batch_samples);
    frame_put_u64(b, m->ring_bytes);
    frame_put_u32(b, m->slots);
    frame_put_u32(b, m->in_flight);
    frame_put_u32(b, m->lane);
    frame_put_u64(b, m->rate);
    frame_put_u64(b, m->waited);
    frame_put_u64(b, m->read_ns);
    frame_put_u64(b, m->render_ns);
    frame_put_u64(b, m->cpu_ns);
    frame_put_u64(b, m->queue_ns);
    frame_put_u32(b, (uint32_t)m->bound);
    frame_put_u64(b, m->cores);
    frame_put_u32(b, m->num_sets);
    for (uint32_t i = 0; i < m->num_sets; i++) {
        frame_put_text(b, m->sets[i].name);
        frame_put_u64(b, m->sets[i].shown);
        frame_put_u64(b, m->sets[i].last_epoch);
    }
    return frame_end(b, begin);
}

int wire_get_status_stream(struct frame_reader *r, struct wire_status_stream *ret)
{
    ret->id = frame_get_u64(r);
    ret->pid = frame_get_u32(r);
    ret->uid = frame_get_u32(r);
    frame_get_text(r, ret->client, sizeof(ret->client));
    frame_get_text(r, ret->dataset, sizeof(ret->dataset));
    frame_get_text(r, ret->pipeline, sizeof(ret->pipeline));
    ret->age_ns = frame_get_u64(r);
    ret->samples = frame_get_u64(r);
    ret->substituted = frame_get_u64(r);
    ret->batches = frame_get_u64(r);
    ret->failed = frame_get_u64(r);
    ret->epoch = frame_get_u64(r);
    ret->position = frame_get_u64(r);
    ret->epoch_samples = frame_get_u64(r);
    ret->batch_samples = frame_get_u64(r);
    ret->ring_bytes = frame_get_u64(r);
    ret->slots = frame_get_u32(r);
    ret->in_flight = frame_get_u32(r);
    ret->lane = frame_get_u32(r);
    ret->rate = frame_get_u64(r);
    ret->waited = frame_get_u64(r);
    ret->read_ns = frame_get_u64(r);
    ret->render_ns = frame_get_u64(r);
    ret->cpu_ns = frame_get_u64(r);
    ret->queue_ns = frame_get_u64(r);
    ret->bound = (enum wire_bound)frame_get_choice(r, WIRE_BOUND_COUNT);
    ret->cores = frame_get_u64(r);
    ret->num_sets = !r->bad && r->at < r->end ? frame_get_choice(r, WIRE_SETS_MAX + 1) : 0;
    for (uint32_t i = 0; i < ret->num_sets; i++) {
        frame_get_text(r, ret->sets[i].name, sizeof(ret->sets[i].name));
        ret->sets[i].shown = frame_get_u64(r);
        ret->sets[i].last_epoch = frame_get_u64(r);
    }
    return frame_got(r);
}

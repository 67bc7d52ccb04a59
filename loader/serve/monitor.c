/* SPDX-License-Identifier: MIT */
/* monitor.c - computes the rates of streams, and what limits them (bound.h).
 *
 * It also estimates how many cores would be enough. A program that waits for a share w of its time
 * and consumes r samples per second would consume r / (1 - w) if it never waited; each sample needs
 * the CPU time that recent samples took. There is no estimate for a program that only waits. */
#include "config.h"

#include "loader/serve/monitor.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/order/mixture.h"
#include "common/order/orderplan.h"
#include "common/util/memory.h"
#include "common/util/util.h"
#include "loader/cache/sample_cache.h"
#include "loader/image/image.h"
#include "loader/serve/bound.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session_facts.h"

enum {
    MILLION = 1000000,
    THREAD_BYTES = 2 << 20, /* memory that a thread keeps after decoding photographs */
    ONLY_WAITS = 900000,
};

/* Returns part / whole in units of 1 / scale, or 0 if `whole` is 0. */
static uint64_t ratio(uint64_t part, uint64_t whole, uint64_t scale)
{
    return whole ? (uint64_t)((double)part / (double)whole * (double)scale + 0.5) : 0;
}

static uint64_t busy(uint64_t worked_ns, unsigned threads, uint64_t time_ns)
{
    return min_u64(ratio(worked_ns, threads * time_ns, MILLION), MILLION);
}

static enum wire_bound find_bound(const struct server *server, const struct window_point *own,
                                  uint64_t waited)
{
    struct window_point all = window_span(&server->window);

    return bound_find(&(struct bound_load){
        .samples = own->totals.samples,
        .render_ns = own->totals.render_ns,
        .cpu_ns = own->totals.cpu_ns,
        .waited = waited,
        .rendering = busy(all.totals.render_ns, server->threads, all.at_ns),
        .reading = busy(all.totals.read_ns, server->io_threads, all.at_ns),
        .resting = busy(all.totals.rested_ns, server->threads, all.at_ns),
        .all_render_ns = all.totals.render_ns,
        .all_cpu_ns = all.totals.cpu_ns,
    });
}

/* Fill in rate, waiting, times, bound and cores of a stream, from the last seconds of the stream
 * and of the loader. */
static void put_rates(const struct server *server, const struct session_facts *s,
                      struct wire_status_stream *ret)
{
    struct window_point p = window_span(s->window);
    uint64_t waited = s->knows_wait ? min_u64(ratio(p.waited_ns, p.at_ns, MILLION), MILLION) : 0;

    ret->rate = ratio(p.totals.samples * 1000, p.at_ns, NS_PER_SEC);
    ret->waited = s->knows_wait && p.at_ns > 0 ? waited : WIRE_UNKNOWN;
    ret->read_ns = ratio(p.totals.read_ns, p.totals.samples, 1);
    ret->render_ns = ratio(p.totals.render_ns, p.totals.samples, 1);
    ret->cpu_ns = ratio(p.totals.cpu_ns, p.totals.samples, 1);
    ret->queue_ns = ratio(p.totals.queue_ns, p.totals.batches, 1);
    ret->bound = find_bound(server, &p, waited);
    ret->cores = WIRE_UNKNOWN;
    if (s->knows_wait && p.at_ns > 0 && waited < ONLY_WAITS)
        ret->cores = ratio(ret->rate * ret->cpu_ns, MILLION - waited, MILLION) / NS_PER_SEC;
}

/* Fill in what the run has shown of each set of a plan before the stream's position. */
static void put_sets(const struct session_facts *s, struct wire_status_stream *ret)
{
    const struct mixture *mixture = s->spec->order.mixture;
    uint64_t shown[MIXTURE_SETS_MAX], before[MIXTURE_SETS_MAX] = {0}, after[MIXTURE_SETS_MAX] = {0};
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint64_t epoch = s->asked->epoch;

    _Static_assert((int)MIXTURE_SETS_MAX == (int)WIRE_SETS_MAX, "a plan's sets");
    _Static_assert((int)ORDERPLAN_NAME_MAX == (int)WIRE_SET_NAME_MAX, "their names");
    if (!mixture)
        return;
    ret->num_sets = mixture_shown(mixture, epoch, s->asked->position, shown);
    if (epoch > 0) {
        (void)mixture_shown(mixture, epoch - 1, 0, before);
        (void)mixture_shown(mixture, epoch, 0, after);
    }
    (void)dataset_get_sets(s->dataset, sets);
    for (uint32_t i = 0; i < ret->num_sets; i++) {
        (void)snprintf(ret->sets[i].name, sizeof(ret->sets[i].name), "%s", sets[i].name);
        ret->sets[i].shown = shown[i];
        ret->sets[i].last_epoch = after[i] - before[i];
    }
}

bool monitor_get_stream(const struct server *server, const struct session *session,
                        struct wire_status_stream *ret)
{
    struct queue_totals totals;
    struct session_facts s;

    session_get_facts(session, &s);
    if (!s.streams)
        return false;
    queue_stream_get_totals(s.stream, &totals);
    *ret = (struct wire_status_stream){.id = s.id,
                                       .pid = (uint32_t)s.pid,
                                       .uid = s.uid,
                                       .age_ns = time_now_ns() - s.opened_ns,
                                       .epoch = s.asked->epoch,
                                       .position = s.asked->position,
                                       .epoch_samples = s.spec->order.n,
                                       .batch_samples = wire_batch_count(s.open),
                                       .ring_bytes = s.ring_bytes,
                                       .slots = s.open->slots,
                                       .in_flight = s.under_way,
                                       .samples = totals.samples,
                                       .substituted = totals.substituted,
                                       .batches = totals.batches,
                                       .failed = totals.failed,
                                       .lane = queue_stream_node(s.stream)};
    (void)snprintf(ret->client, sizeof(ret->client), "%s", s.name);
    (void)snprintf(ret->dataset, sizeof(ret->dataset), "%s", dataset_get_name(s.dataset));
    pipeline_write_decimals(s.open->pipeline, ret->pipeline, sizeof(ret->pipeline));
    put_rates(server, &s, ret);
    put_sets(&s, ret);
    return true;
}

/* Returns a value of /proc/self/status in bytes, or 0 if the kernel does not report it. */
static uint64_t memory_of(const char *key)
{
    uint64_t bytes = 0;

    (void)memory_read("/proc/self/status", key, &bytes);
    return bytes;
}

uint64_t monitor_reading_bytes(const struct server *server, const struct dataset *dataset)
{
    return dataset_get_read_memory(dataset, server->io_threads) +
           (dataset_is_remote(dataset) ? server->fetch_memory : 0);
}

uint64_t monitor_own_bytes(struct server *server, const struct stream_memory *more)
{
    uint64_t working = more->working, reading = more->reading;
    uint64_t now = memory_of("RssAnon"), rings = 0, least;
    struct renderings_counts shared;

    for (const struct session *s = session_first(server); s; s = session_next(s)) {
        struct session_facts f;

        session_get_facts(s, &f);
        rings += f.private_ring ? ring_resident(f.private_ring) : 0;
        working = max_u64(working, f.spec ? render_working_bytes(f.spec) : 0);
        if (f.dataset)
            reading = max_u64(reading, monitor_reading_bytes(server, f.dataset));
    }
    queue_get_shared(server->queue, &shared); /* counted in full below */
    now -= min_u64(now, rings + shared.bytes);
    if (server->num_sessions <= 1) /* only the requesting client is left */
        server->own_bytes = 0;
    server->own_bytes = max_u64(server->own_bytes, now);
    least =
        (server->threads + server->io_threads) * THREAD_BYTES + server->threads * working + reading;
    return max_u64(server->own_bytes, least) + server->options->cache_memory +
           server->options->share_memory;
}

void monitor_beat(struct server *server, uint64_t now_ns)
{
    struct window_point point = {.at_ns = now_ns};
    struct queue_counters c;

    queue_get_counters(server->queue, &c);
    point.totals = c.all;
    window_add(&server->window, &point);
    if (server->options->memory_budget > 0)
        (void)monitor_own_bytes(server, &(struct stream_memory){0});
}

static uint32_t open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint32_t n = 0;

    if (!dir)
        return 0;
    for (const struct dirent *d; (d = readdir(dir));)
        n += d->d_name[0] != '.';
    (void)closedir(dir);
    return n - 1; /* without the thread that reads this */
}

static void put_cache(struct wire_cache *ret)
{
    struct sample_cache_counts c;

    sample_cache_get_counts(&c);
    *ret = (struct wire_cache){.open = c.open,
                               .in_memory = c.in_memory,
                               .paused = c.paused,
                               .samples = c.kept.entries,
                               .known = c.kept.known,
                               .bytes = c.kept.bytes,
                               .limit = c.kept.limit,
                               .hits = c.hits,
                               .hit_bytes = c.hit_bytes,
                               .misses = c.misses,
                               .miss_bytes = c.miss_bytes,
                               .writes = c.writes,
                               .write_bytes = c.write_bytes,
                               .evicted = c.evicted,
                               .dropped = c.dropped,
                               .damaged = c.damaged};
}

static void put_shared(const struct server *server, struct wire_shared *ret)
{
    struct renderings_counts c;

    queue_get_shared(server->queue, &c);
    *ret = (struct wire_shared){.kept = c.kept,
                                .bytes = c.bytes,
                                .limit = c.limit,
                                .rendered = c.rendered,
                                .copied = c.shared,
                                .evicted = c.evicted,
                                .refused = c.refused,
                                .saved_ns = c.saved_ns};
}

void monitor_get_status(const struct server *server, struct wire_status *ret)
{
    struct window_point p = window_span(&server->window);
    struct wire_status_stream stream;
    struct queue_counters c;

    queue_get_counters(server->queue, &c);
    *ret = (struct wire_status){
        .version = PACKAGE_VERSION,
        .pid = (uint32_t)getpid(),
        .uid = (uint32_t)geteuid(),
        .uptime_ns = time_now_ns() - server->started_ns,
        .threads = server->threads,
        .io_threads = server->io_threads,
        .sessions = server->num_sessions,
        .samples = c.all.samples,
        .substituted = c.all.substituted,
        .batches = c.all.batches,
        .failed = c.all.failed,
        .refused = server->refused,
        .queued = c.queued,
        .rate = ratio(p.totals.samples * 1000, p.at_ns, NS_PER_SEC),
        .ring_bytes = server->ring_bytes,
        .ring_limit = server->options->ring_limit,
        .render_busy = busy(p.totals.render_ns, server->threads, p.at_ns),
        .read_busy = busy(p.totals.read_ns, server->io_threads, p.at_ns),
        .memory_bytes = memory_of("VmRSS"),
        .descriptors = open_descriptors(),
        .stopping = server->stopping,
        .lanes = (uint32_t)min_u64(pin_count_nodes(server->pin), WIRE_LANES_MAX)};
    put_cache(&ret->cache);
    put_shared(server, &ret->shared);
    (void)gethostname(ret->host, sizeof(ret->host) - 1);
    image_describe_loops(server->options->jpeg, ret->loops, sizeof(ret->loops));
    for (unsigned i = 0; i < server->threads; i++)
        ret->lane[pin_node_of_worker(server->pin, i) % ret->lanes].threads++;
    for (const struct session *s = session_first(server); s; s = session_next(s)) {
        if (!monitor_get_stream(server, s, &stream))
            continue;
        ret->streams++;
        ret->lane[stream.lane % ret->lanes].streams++;
        ret->lane[stream.lane % ret->lanes].ring_bytes += stream.ring_bytes;
    }
}

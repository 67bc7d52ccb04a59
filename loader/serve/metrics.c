/* SPDX-License-Identifier: MIT */
/* metrics.c - writes metrics. Names and units follow Prometheus's conventions: base units, and
 * counters that end in _total and never decrease while the process lives. */
#include "config.h"

#include "loader/serve/metrics.h"

#include <time.h>

#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/serve/server_priv.h"

static void head(FILE *f, const char *name, const char *type, const char *help)
{
    (void)fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_one(FILE *f, const char *name, const char *type, const char *help, double value)
{
    head(f, name, type, help);
    (void)fprintf(f, "%s %.17g\n", name, value);
}

/* Write a label's value: quotes and backslashes are escaped, control characters become '?'. */
static void put_label(FILE *f, const char *name, const char *value)
{
    char plain[WIRE_DATASET_MAX]; /* room for the longest string */

    (void)snprintf(plain, sizeof(plain), "%s", value);
    (void)fprintf(f, "%s=\"", name);
    for (value = text_make_plain(plain); *value; value++) {
        if (*value == '\\' || *value == '"')
            (void)fputc('\\', f);
        (void)fputc(*value, f);
    }
    (void)fputc('"', f);
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_SEC;
}

static void put_histogram(FILE *f, const char *name, const char *help, const struct histogram *h)
{
    uint64_t sum = 0;

    head(f, name, "histogram", help);
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        sum += h->counts[i];
        (void)fprintf(f, "%s_bucket{le=\"%g\"} %llu\n", name, seconds(histogram_bounds_ns[i]),
                      (unsigned long long)sum);
    }
    sum += h->counts[HISTOGRAM_BOUNDS];
    (void)fprintf(f, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9f\n%s_count %llu\n", name,
                  (unsigned long long)sum, name, seconds(h->sum_ns), name, (unsigned long long)sum);
}

static void put_stream_name(FILE *f, const char *metric, const struct wire_status_stream *s)
{
    (void)fprintf(f, "%s{stream=\"%llu\",", metric, (unsigned long long)s->id);
    put_label(f, "client", s->client);
    (void)fputc(',', f);
    put_label(f, "dataset", s->dataset);
}

static double scaled(uint64_t value, double scale)
{
    return (double)value / scale;
}

static void put_streams(FILE *f, const struct status *status)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
        double scale;
    } metrics[] = {
#define FIELD(field) offsetof(struct wire_status_stream, field)
        {"plenum_stream_samples_total", "counter", "Samples rendered for the stream.",
         FIELD(samples), 1},
        {"plenum_stream_substituted_samples_total", "counter",
         "Samples that were shown in place of bad ones.", FIELD(substituted), 1},
        {"plenum_stream_batches_total", "counter",
         "Batches that were answered, including failed ones.", FIELD(batches), 1},
        {"plenum_stream_batches_in_flight", "gauge",
         "Batches requested by the stream and not yet answered.", 0, 1},
        {"plenum_stream_trainer_waited_ratio", "gauge",
         "Fraction of the last ten seconds that the program waited for batches.", FIELD(waited),
         1e6},
        {"plenum_stream_cores_enough", "gauge",
         "Number of cores with which the program would not wait, estimated over the last ten "
         "seconds.",
         FIELD(cores), 1e3},
        {"plenum_stream_cpu_seconds_per_sample", "gauge",
         "CPU time to read and render one sample of the stream.", FIELD(cpu_ns), 1e9},
#undef FIELD
    };

    for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
        head(f, metrics[i].name, metrics[i].type, metrics[i].help);
        for (uint32_t k = 0; k < status->loader.streams; k++) {
            const struct wire_status_stream *s = &status->streams[k];
            uint64_t value = s->in_flight;

            if (metrics[i].offset)
                value = *(const uint64_t *)(const void *)((const char *)s + metrics[i].offset);
            if (value == WIRE_UNKNOWN)
                continue;
            put_stream_name(f, metrics[i].name, s);
            (void)fprintf(f, "} %.17g\n", scaled(value, metrics[i].scale));
        }
    }
    head(f, "plenum_stream_bound", "gauge",
         "1 for the stage that bounds the stream's rate, "
         "otherwise 0.");
    for (uint32_t k = 0; k < status->loader.streams; k++)
        for (unsigned b = 0; b < WIRE_BOUND_COUNT; b++) {
            put_stream_name(f, "plenum_stream_bound", &status->streams[k]);
            (void)fprintf(f, ",bound=\"%s\"} %d\n", status_bound_name((enum wire_bound)b),
                          status->streams[k].bound == b);
        }
}

/* Write the share of each set of a plan in what its stream has shown, a function of its
 * position. */
static void put_sets(FILE *f, const struct status *status)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } metrics[] = {
        {"plenum_stream_set_samples",
         "Samples of each set of a plan that a run has shown before the stream's position, all "
         "replicas together.",
         offsetof(struct wire_status_set, shown)},
        {"plenum_stream_set_last_epoch_samples",
         "Samples of each set of a plan in the last complete epoch, all replicas together.",
         offsetof(struct wire_status_set, last_epoch)},
    };

    for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
        head(f, metrics[i].name, "gauge", metrics[i].help);
        for (uint32_t k = 0; k < status->loader.streams; k++) {
            const struct wire_status_stream *s = &status->streams[k];

            for (uint32_t n = 0; n < s->num_sets; n++) {
                const void *value = (const char *)&s->sets[n] + metrics[i].offset;

                (void)fprintf(f, "%s{stream=\"%llu\",", metrics[i].name, (unsigned long long)s->id);
                put_label(f, "set", s->sets[n].name);
                (void)fprintf(f, "} %llu\n", (unsigned long long)*(const uint64_t *)value);
            }
        }
    }
}

static void put_cache(FILE *f, const struct wire_cache *c)
{
    if (!c->open)
        return;
    put_one(f, "plenum_cache_in_memory", "gauge",
            "1 if the cache of samples is in memory, 0 if it is on the disk.", c->in_memory);
    put_one(f, "plenum_cache_paused", "gauge",
            "1 while the cache of samples is not used because its disk is full or fails.",
            c->paused);
    put_one(f, "plenum_cache_samples", "gauge", "Samples in the cache.", (double)c->samples);
    put_one(f, "plenum_cache_known_samples", "gauge",
            "Samples in the cache whose next use is known.", (double)c->known);
    put_one(f, "plenum_cache_bytes", "gauge", "Space that the cache uses.", (double)c->bytes);
    put_one(f, "plenum_cache_limit_bytes", "gauge", "Limit on that space.", (double)c->limit);
    put_one(f, "plenum_cache_hits_total", "counter",
            "Samples that were read from the cache, each of which saved a request.",
            (double)c->hits);
    put_one(f, "plenum_cache_hit_bytes_total", "counter", "Bytes that were read from the cache.",
            (double)c->hit_bytes);
    put_one(f, "plenum_cache_misses_total", "counter", "Samples that were fetched from a store.",
            (double)c->misses);
    put_one(f, "plenum_cache_miss_bytes_total", "counter", "Bytes that were fetched from a store.",
            (double)c->miss_bytes);
    put_one(f, "plenum_cache_writes_total", "counter", "Samples that were added to the cache.",
            (double)c->writes);
    put_one(f, "plenum_cache_write_bytes_total", "counter", "Bytes that were added to the cache.",
            (double)c->write_bytes);
    put_one(f, "plenum_cache_evicted_total", "counter",
            "Samples that were removed from the cache for others.", (double)c->evicted);
    put_one(f, "plenum_cache_dropped_total", "counter",
            "Samples that were not added because the disk was too slow.", (double)c->dropped);
    put_one(f, "plenum_cache_damaged_total", "counter",
            "Samples in the cache whose bytes were wrong, and which were fetched again.",
            (double)c->damaged);
}

static void put_shared(FILE *f, const struct wire_shared *m)
{
    if (m->limit == 0)
        return;
    put_one(f, "plenum_shared_kept", "gauge", "Renderings that are kept for other streams.",
            (double)m->kept);
    put_one(f, "plenum_shared_bytes", "gauge", "Memory of these renderings.", (double)m->bytes);
    put_one(f, "plenum_shared_limit_bytes", "gauge", "Limit on that memory.", (double)m->limit);
    put_one(f, "plenum_shared_rendered_total", "counter",
            "Samples that were rendered for several streams.", (double)m->rendered);
    put_one(f, "plenum_shared_copied_total", "counter",
            "Samples that a stream copied instead of rendering them.", (double)m->copied);
    put_one(f, "plenum_shared_evicted_total", "counter", "Renderings that were dropped for others.",
            (double)m->evicted);
    put_one(f, "plenum_shared_refused_total", "counter",
            "Renderings that were not kept because those that are kept are needed sooner.",
            (double)m->refused);
    put_one(f, "plenum_shared_saved_cpu_seconds_total", "counter",
            "CPU time that rendering the copied samples would have taken.", seconds(m->saved_ns));
}

void metrics_write(FILE *file, const struct status *status, const struct server *server)
{
    const struct wire_status *l = &status->loader;
    struct queue_counters c;
    struct timespec now;

    queue_get_counters(server->queue, &c);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    head(file, "plenum_build_info", "gauge",
         "Version of the loader, as a label; the value is always 1.");
    (void)fprintf(file, "plenum_build_info{version=\"%s\"} 1\n", PACKAGE_VERSION);
    put_one(file, "plenum_start_time_seconds", "gauge",
            "Start time of the loader, in seconds since the Unix epoch.",
            (double)now.tv_sec + (double)now.tv_nsec / 1e9 - seconds(l->uptime_ns));
    put_one(file, "plenum_stopping", "gauge",
            "1 while the loader finishes its last batches before it ends, otherwise 0.",
            l->stopping);
    put_one(file, "plenum_clients", "gauge", "Number of connected clients.", l->sessions);
    put_one(file, "plenum_streams", "gauge", "Number of open streams.", l->streams);
    put_one(file, "plenum_samples_total", "counter", "Samples rendered.", (double)c.all.samples);
    put_one(file, "plenum_substituted_samples_total", "counter",
            "Samples that were shown in place of bad ones.", (double)c.all.substituted);
    put_one(file, "plenum_batches_total", "counter",
            "Batches that were answered, including failed ones.", (double)c.all.batches);
    put_one(file, "plenum_failed_batches_total", "counter",
            "Batches that were answered with an error.", (double)c.all.failed);
    put_one(file, "plenum_refused_clients_total", "counter", "Clients that the loader refused.",
            (double)l->refused);
    put_one(file, "plenum_queued_samples", "gauge",
            "Samples that are waiting to be read and rendered.", (double)l->queued);
    put_one(file, "plenum_ring_bytes", "gauge",
            "Memory of clients' rings that the loader has mapped.", (double)l->ring_bytes);
    put_one(file, "plenum_ring_limit_bytes", "gauge",
            "Limit on the memory of clients' rings that the loader maps.", (double)l->ring_limit);
    head(file, "plenum_threads", "gauge", "Number of threads, by kind.");
    (void)fprintf(file, "plenum_threads{kind=\"render\"} %u\nplenum_threads{kind=\"read\"} %u\n",
                  l->threads, l->io_threads);
    head(file, "plenum_thread_busy_seconds_total", "counter",
         "Time that the loader's threads spent working, by kind.");
    (void)fprintf(file,
                  "plenum_thread_busy_seconds_total{kind=\"render\"} %.9f\n"
                  "plenum_thread_busy_seconds_total{kind=\"read\"} %.9f\n",
                  seconds(c.all.render_ns), seconds(c.all.read_ns));
    put_one(file, "plenum_sample_cpu_seconds_total", "counter",
            "CPU time spent reading and rendering samples.", seconds(c.all.cpu_ns));
    put_histogram(file, "plenum_read_seconds", "Time to read one sample.", &c.read);
    put_histogram(file, "plenum_render_seconds", "Time to decode, crop and resize one sample.",
                  &c.render);
    put_histogram(file, "plenum_queue_seconds",
                  "Time from the request of a batch until work on it starts.", &c.queue);
    put_histogram(file, "plenum_wait_seconds", "Time that programs waited for one batch.",
                  &server->waits);
    head(file, "plenum_node_threads", "gauge", "Number of decoder threads, by NUMA node.");
    for (uint32_t i = 0; i < l->lanes; i++)
        (void)fprintf(file, "plenum_node_threads{node=\"%u\"} %u\n", i, l->lane[i].threads);
    head(file, "plenum_node_ring_bytes", "gauge", "Memory of clients' rings, by NUMA node.");
    for (uint32_t i = 0; i < l->lanes; i++)
        (void)fprintf(file, "plenum_node_ring_bytes{node=\"%u\"} %llu\n", i,
                      (unsigned long long)l->lane[i].ring_bytes);
    put_cache(file, &l->cache);
    put_shared(file, &l->shared);
    put_streams(file, status);
    put_sets(file, status);
    put_one(file, "process_resident_memory_bytes", "gauge", "Resident memory of the loader.",
            (double)l->memory_bytes);
    put_one(file, "process_open_fds", "gauge", "Number of open file descriptors of the loader.",
            l->descriptors);
}

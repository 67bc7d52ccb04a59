/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/status.h"

#include <stdarg.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"
#include "common/util.h"

const char *status_bound_name(enum wire_bound bound)
{
    static const char *const names[WIRE_BOUND_COUNT] = {
        [WIRE_BOUND_IDLE] = "idle",       [WIRE_BOUND_TRAINER] = "trainer",
        [WIRE_BOUND_STORAGE] = "storage", [WIRE_BOUND_DECODE] = "decode",
        [WIRE_BOUND_CPU] = "cpu",         [WIRE_BOUND_TRANSPORT] = "transport",
    };

    return names[bound];
}

uint32_t status_other_streams(const struct wire_status *loader)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < loader->lanes; i++)
        all += loader->lane[i].streams;
    return (uint32_t)(all - min_u64(all, loader->streams));
}

/* A number in units of 1 / scale; null where it is not known. */
static void put_real(struct json *j, const char *key, uint64_t value, double scale, int decimals)
{
    if (value == WIRE_UNKNOWN)
        json_null(j, key);
    else
        json_real(j, key, (double)value / scale, decimals);
}

static void put_loader(struct json *j, const struct wire_status *l)
{
    json_begin_object(j, "loader", false);
    json_text(j, "version", l->version);
    json_text(j, "host", l->host);
    json_number(j, "pid", l->pid);
    json_number(j, "uid", l->uid);
    json_bool(j, "stopping", l->stopping);
    json_seconds(j, "uptime_seconds", l->uptime_ns);
    json_number(j, "threads", l->threads);
    json_number(j, "io_threads", l->io_threads);
    json_number(j, "sessions", l->sessions);
    json_number(j, "streams", l->streams);
    json_number(j, "other_streams", status_other_streams(l));
    json_number(j, "samples", l->samples);
    json_number(j, "substituted_samples", l->substituted);
    json_number(j, "batches", l->batches);
    json_number(j, "failed_batches", l->failed);
    json_number(j, "refused_clients", l->refused);
    json_number(j, "queued_samples", l->queued);
    put_real(j, "samples_per_second", l->rate, 1e3, 3);
    put_real(j, "render_busy", l->render_busy, 1e6, 6);
    put_real(j, "read_busy", l->read_busy, 1e6, 6);
    json_number(j, "ring_bytes", l->ring_bytes);
    json_number(j, "ring_limit_bytes", l->ring_limit);
    json_number(j, "memory_bytes", l->memory_bytes);
    json_number(j, "descriptors", l->descriptors);
    json_text(j, "loops", l->loops);
    json_begin_array(j, "nodes", false);
    for (uint32_t i = 0; i < l->lanes; i++) {
        json_begin_object(j, NULL, true);
        json_number(j, "threads", l->lane[i].threads);
        json_number(j, "streams", l->lane[i].streams);
        json_number(j, "ring_bytes", l->lane[i].ring_bytes);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

static void put_stream(struct json *j, const struct wire_status_stream *s)
{
    json_begin_object(j, NULL, false);
    json_number(j, "id", s->id);
    json_text(j, "client", s->client);
    json_number(j, "pid", s->pid);
    json_number(j, "uid", s->uid);
    json_text(j, "dataset", s->dataset);
    json_text(j, "pipeline", s->pipeline);
    json_seconds(j, "age_seconds", s->age_ns);
    json_number(j, "samples", s->samples);
    json_number(j, "substituted_samples", s->substituted);
    json_number(j, "batches", s->batches);
    json_number(j, "failed_batches", s->failed);
    json_number(j, "epoch", s->epoch);
    json_number(j, "position", s->position);
    json_number(j, "epoch_samples", s->epoch_samples);
    json_number(j, "batch_samples", s->batch_samples);
    json_number(j, "slots", s->slots);
    json_number(j, "batches_in_flight", s->in_flight);
    json_number(j, "ring_bytes", s->ring_bytes);
    json_number(j, "node", s->lane);
    put_real(j, "samples_per_second", s->rate, 1e3, 3);
    put_real(j, "trainer_waited", s->waited, 1e6, 6);
    json_text(j, "bound_by", status_bound_name(s->bound));
    put_real(j, "cores_enough", s->cores, 1e3, 3);
    json_seconds(j, "read_seconds_per_sample", s->read_ns);
    json_seconds(j, "render_seconds_per_sample", s->render_ns);
    json_seconds(j, "cpu_seconds_per_sample", s->cpu_ns);
    json_seconds(j, "queue_seconds_per_batch", s->queue_ns);
    json_end_object(j);
}

void status_write_json(FILE *file, const struct status *status)
{
    struct json j = {.file = file};

    json_begin_object(&j, NULL, false);
    put_loader(&j, &status->loader);
    json_begin_array(&j, "streams", false);
    for (uint32_t i = 0; i < status->loader.streams; i++)
        put_stream(&j, &status->streams[i]);
    json_end_array(&j);
    json_end_object(&j);
}

struct table {
    FILE *file;
    unsigned width;
    const char *line_end;
};

/* One line, cut where the width ends, never within a character. What would move a cursor is '?'. */
__attribute__((format(printf, 2, 3))) static void put_line(const struct table *t,
                                                           const char *format, ...)
{
    char text[8192];
    unsigned columns = 0;
    va_list args;
    char *c;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (c = text_make_plain(text); *c; c++) {
        columns += (*c & 0xc0) != 0x80; /* the first byte of a character */
        if (columns > t->width)
            break;
    }
    *c = '\0';
    (void)fprintf(t->file, "%s%s\n", text, t->line_end);
}

static const char *format_age(uint64_t ns, char *text, size_t size)
{
    uint64_t s = ns / NS_PER_SEC;

    if (s < 120)
        (void)snprintf(text, size, "%llu s", (unsigned long long)s);
    else if (s < 7200)
        (void)snprintf(text, size, "%llu min", (unsigned long long)s / 60);
    else if (s < 172800)
        (void)snprintf(text, size, "%llu h %llu min", (unsigned long long)s / 3600,
                       (unsigned long long)s / 60 % 60);
    else
        (void)snprintf(text, size, "%llu days", (unsigned long long)s / 86400);
    return text;
}

static const char *format_known(uint64_t value, double scale, int decimals, const char *unit,
                                char *text, size_t size)
{
    if (value == WIRE_UNKNOWN)
        (void)snprintf(text, size, "-");
    else
        (void)snprintf(text, size, "%.*f%s", decimals, (double)value / scale, unit);
    return text;
}

/* The rest of a line: the end of a text that is too long says more than its beginning. */
static const char *tail(const char *text, size_t columns, char *ret, size_t size)
{
    size_t len = strlen(text);

    if (len <= columns || columns < 4)
        return text;
    text += len - (columns - 3);
    while ((*text & 0xc0) == 0x80)
        text++;
    (void)snprintf(ret, size, "...%s", text);
    return ret;
}

static void put_stream_lines(const struct table *t, const struct wire_status_stream *s)
{
    char waited[32], cores[32], at[32], set[512], client[64];

    (void)snprintf(at, sizeof(at), "%llu %3.0f%%", (unsigned long long)s->epoch,
                   s->epoch_samples ? 100.0 * (double)s->position / (double)s->epoch_samples : 0.0);
    put_line(t, "%4llu %-22.22s %9.0f %7s %-9s %6s %9s %6llu", (unsigned long long)s->id,
             tail(s->client, 22, client, sizeof(client)), (double)s->rate / 1e3,
             format_known(s->waited, 1e4, 1, "%", waited, sizeof(waited)),
             status_bound_name(s->bound), format_known(s->cores, 1e3, 1, "", cores, sizeof(cores)),
             at, (unsigned long long)s->substituted);
    put_line(t, "     %s; %s", tail(s->dataset, 36, set, sizeof(set)), s->pipeline);
}

void status_write_text(FILE *file, const struct status *status, unsigned width, unsigned height,
                       const char *line_end)
{
    struct table table = {file, width < 72 ? 72 : width, line_end}, *t = &table;
    const struct wire_status *l = &status->loader;
    char a[32], b[32], c[32];
    unsigned used = 6 + (status_other_streams(l) > 0), shown = 0;

    put_line(t, "plenumd %s on %s, pid %u, up %s%s", l->version, l->host, l->pid,
             format_age(l->uptime_ns, a, sizeof(a)), l->stopping ? ", ENDING" : "");
    put_line(t, "streams %u, clients %u, %.0f samples/s, %llu samples wait", l->streams,
             l->sessions, (double)l->rate / 1e3, (unsigned long long)l->queued);
    put_line(t, "threads: %u decode, %.0f%% busy; %u read, %.0f%% busy%s%s", l->threads,
             (double)l->render_busy / 1e4, l->io_threads, (double)l->read_busy / 1e4,
             l->loops[0] ? "; loops: " : "", l->loops);
    put_line(t, "rings %s of %s; own memory %s; %u descriptors",
             format_bytes(l->ring_bytes, a, sizeof(a)), format_bytes(l->ring_limit, b, sizeof(b)),
             format_bytes(l->memory_bytes, c, sizeof(c)), l->descriptors);
    put_line(
        t,
        "since the start: %llu samples, %llu bad ones replaced, %llu batches failed, %llu refused",
        (unsigned long long)l->samples, (unsigned long long)l->substituted,
        (unsigned long long)l->failed, (unsigned long long)l->refused);
    for (uint32_t i = 0; i < l->lanes && l->lanes > 1 && (height == 0 || i < 4); i++, used++)
        put_line(t, "node %u: %u threads, %u streams, rings %s", i, l->lane[i].threads,
                 l->lane[i].streams, format_bytes(l->lane[i].ring_bytes, a, sizeof(a)));
    put_line(t, "%4s %-22s %9s %7s %-9s %6s %9s %6s", "ID", "CLIENT", "SAMPLES/S", "WAITED",
             "BOUND BY", "CORES", "EPOCH", "BAD");
    for (; shown < l->streams && (height == 0 || used + 3 <= height); shown++, used += 2)
        put_stream_lines(t, &status->streams[shown]);
    if (shown < l->streams)
        put_line(t, "     and %u more", l->streams - shown);
    if (status_other_streams(l) > 0)
        put_line(t, "     and %u of other users", status_other_streams(l));
}

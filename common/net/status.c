/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"

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

double status_cache_percent(const struct wire_cache *cache)
{
    uint64_t all = cache->hits + cache->misses;

    return all ? 100.0 * (double)cache->hits / (double)all : 0.0;
}

/* Write value / scale, or null if the value is unknown. */
static void put_real(struct json *j, const char *key, uint64_t value, double scale, int decimals)
{
    if (value == WIRE_UNKNOWN)
        json_null(j, key);
    else
        json_real(j, key, (double)value / scale, decimals);
}

void status_put_cache(struct json *j, const struct wire_cache *c)
{
    if (!c->open) {
        json_null(j, "cache");
        return;
    }
    json_begin_object(j, "cache", JSON_LINES);
    json_bool(j, "in_memory", c->in_memory);
    json_bool(j, "paused", c->paused);
    json_number(j, "samples", c->samples);
    json_number(j, "samples_with_known_use", c->known);
    json_number(j, "bytes", c->bytes);
    json_number(j, "limit_bytes", c->limit);
    json_number(j, "hits", c->hits);
    json_number(j, "hit_bytes", c->hit_bytes);
    json_number(j, "misses", c->misses);
    json_number(j, "miss_bytes", c->miss_bytes);
    json_number(j, "writes", c->writes);
    json_number(j, "write_bytes", c->write_bytes);
    json_number(j, "evicted", c->evicted);
    json_number(j, "dropped", c->dropped);
    json_number(j, "damaged", c->damaged);
    json_end_object(j);
}

static void put_shared(struct json *j, const struct wire_shared *m)
{
    if (m->limit == 0) {
        json_null(j, "shared");
        return;
    }
    json_begin_object(j, "shared", JSON_LINES);
    json_number(j, "kept", m->kept);
    json_number(j, "bytes", m->bytes);
    json_number(j, "limit_bytes", m->limit);
    json_number(j, "rendered", m->rendered);
    json_number(j, "copied", m->copied);
    json_number(j, "evicted", m->evicted);
    json_number(j, "refused", m->refused);
    json_seconds(j, "saved_cpu_seconds", m->saved_ns);
    json_end_object(j);
}

static void put_loader(struct json *j, const struct wire_status *l)
{
    json_begin_object(j, "loader", JSON_LINES);
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
    status_put_cache(j, &l->cache);
    put_shared(j, &l->shared);
    json_begin_array(j, "nodes", JSON_LINES);
    for (uint32_t i = 0; i < l->lanes; i++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_number(j, "threads", l->lane[i].threads);
        json_number(j, "streams", l->lane[i].streams);
        json_number(j, "ring_bytes", l->lane[i].ring_bytes);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

/* Returns a set's share of all samples of the last epoch, or of all since the beginning of the
 * run. */
static double share_of(const struct wire_status_stream *s, uint32_t set, bool of_epoch)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < s->num_sets; i++)
        all += of_epoch ? s->sets[i].last_epoch : s->sets[i].shown;
    return (double)(of_epoch ? s->sets[set].last_epoch : s->sets[set].shown) /
           (double)max_u64(all, 1);
}

static void put_sets(struct json *j, const struct wire_status_stream *s)
{
    json_begin_array(j, "sets", JSON_LINES);
    for (uint32_t i = 0; i < s->num_sets; i++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_text(j, "name", s->sets[i].name);
        json_number(j, "shown", s->sets[i].shown);
        json_real(j, "share", share_of(s, i, false), 6);
        json_number(j, "last_epoch_shown", s->sets[i].last_epoch);
        if (s->epoch > 0)
            json_real(j, "last_epoch_share", share_of(s, i, true), 6);
        else
            json_null(j, "last_epoch_share");
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_stream(struct json *j, const struct wire_status_stream *s)
{
    json_begin_object(j, NULL, JSON_LINES);
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
    if (s->num_sets > 0)
        put_sets(j, s);
    json_end_object(j);
}

void status_write_json(FILE *file, const struct status *status)
{
    struct json j = {.file = file};

    json_begin_object(&j, NULL, JSON_LINES);
    put_loader(&j, &status->loader);
    json_begin_array(&j, "streams", JSON_LINES);
    for (uint32_t i = 0; i < status->loader.streams; i++)
        put_stream(&j, &status->streams[i]);
    json_end_array(&j);
    json_end_object(&j);
}

enum {
    WIDTH_MIN = 60,
    WIDTH_OF_ALL = 80,
    HEIGHT_OF_ALL = 16,
    CLIENT_MAX = 60,
    OTHER_COLUMNS = 57,
    EPOCH_COLUMNS = 10
};

struct status_table {
    FILE *file;
    unsigned width;
    const char *line_end;
    bool wraps;     /* there is space to wrap long lines */
    unsigned lines; /* written so far */
};

/* Returns the length in bytes of the first `columns` characters of a string. */
static size_t head_bytes(const char *text, size_t columns)
{
    size_t n = 0;

    for (; text[n]; n++)
        if ((text[n] & 0xc0) != 0x80 && columns-- == 0) /* the first byte of a character */
            break;
    return n;
}

/* Returns the number of bytes that continue a character. */
static unsigned count_continued(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += (*text & 0xc0) == 0x80;
    return n;
}

static void end_line(struct status_table *t, const char *text, size_t bytes)
{
    (void)fprintf(t->file, "%.*s%s\n", (int)bytes, text, t->line_end);
    t->lines++;
}

/* Print one line, cut at the width but never within a character. Control characters become '?'. */
__attribute__((format(printf, 2, 3))) static void put_line(struct status_table *t,
                                                           const char *format, ...)
{
    char text[8192];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    end_line(t, text_make_plain(text), head_bytes(text, t->width));
}

/* Returns the end of the last separator of parts within the first `bytes` bytes, or 0. */
static size_t find_break(const char *text, size_t bytes)
{
    for (size_t n = bytes; n > 1; n--)
        if (text[n - 1] == ' ' && (text[n - 2] == ',' || text[n - 2] == ';'))
            return n;
    return 0;
}

/* Print parts separated by ", " or "; ", wrapped at separators if there is space. */
__attribute__((format(printf, 2, 3))) static void put_parts(struct status_table *t,
                                                            const char *format, ...)
{
    char text[2048], *at = text;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)text_make_plain(text);
    for (;;) {
        size_t bytes = head_bytes(at, t->width), end = 0;

        if (t->wraps && at[bytes])
            end = find_break(at, bytes + 1);
        if (end == 0) {
            end_line(t, at, bytes);
            return;
        }
        end_line(t, at, end - 1);
        at += end - 2; /* the next line is indented by two columns */
        at[0] = at[1] = ' ';
    }
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

/* Returns the text or, if it is too long, "..." and its end, which is more informative. */
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

/* Returns the text or, if it is too long, its beginning and "...": the program's name comes
 * first. */
static const char *head(const char *text, size_t columns, char *ret, size_t size)
{
    size_t bytes = head_bytes(text, columns);

    if (text[bytes])
        (void)snprintf(ret, size, "%.*s...", (int)head_bytes(text, columns - 3), text);
    else
        (void)snprintf(ret, size, "%s", text);
    return ret;
}

/* Is there a column for the epoch? On a terminal that is too narrow, the epoch is in a stream's
 * second line. */
static bool has_epoch_column(const struct status_table *t)
{
    return t->width >= WIDTH_OF_ALL;
}

static unsigned client_columns(const struct status_table *t)
{
    unsigned others = has_epoch_column(t) ? OTHER_COLUMNS : OTHER_COLUMNS - EPOCH_COLUMNS;

    return (unsigned)min_u64(t->width - others, CLIENT_MAX);
}

/* Print one row of the table, or the header. */
static void put_row(struct status_table *t, const char *const cell[8])
{
    char epoch[64] = "", client[8 + 4 * CLIENT_MAX];
    unsigned columns = client_columns(t);

    (void)head(cell[1], columns, client, sizeof(client));
    columns += count_continued(client); /* printf() counts bytes */
    if (has_epoch_column(t))
        (void)snprintf(epoch, sizeof(epoch), " %9s", cell[6]);
    put_line(t, "%4s %-*s %9s %7s %-9s %6s%s %6s", cell[0], (int)columns, client, cell[2], cell[3],
             cell[4], cell[5], epoch, cell[7]);
}

static unsigned lines_of_stream(const struct wire_status_stream *s)
{
    return 2U + (s->substituted > 0) + (s->num_sets > 0);
}

/* Describe the sets' shares: "last epoch photos 70.0 %, art 20.0 %" or, during the first epoch,
 * those since the beginning. Returns `ret`. */
static const char *describe_sets(const struct wire_status_stream *s, char *ret, size_t size)
{
    size_t n = (size_t)snprintf(ret, size, "%s", s->epoch > 0 ? "last epoch" : "so far");

    for (uint32_t i = 0; i < s->num_sets && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, "%s %s %.1f%%", i ? "," : "", s->sets[i].name,
                              100 * share_of(s, i, s->epoch > 0));
    return ret;
}

static void put_stream_lines(struct status_table *t, const struct wire_status_stream *s)
{
    char id[24], rate[32], waited[32], cores[32], at[64], epoch[80] = "", bad[24], set[512];
    char sets[1024];

    (void)snprintf(id, sizeof(id), "%llu", (unsigned long long)s->id);
    (void)snprintf(rate, sizeof(rate), "%.0f", (double)s->rate / 1e3);
    (void)snprintf(at, sizeof(at), "%llu %3.0f%%", (unsigned long long)s->epoch,
                   s->epoch_samples ? 100.0 * (double)s->position / (double)s->epoch_samples : 0.0);
    (void)snprintf(bad, sizeof(bad), "%llu", (unsigned long long)s->substituted);
    put_row(t, (const char *const[]){id, s->client, rate,
                                     format_known(s->waited, 1e4, 1, "%", waited, sizeof(waited)),
                                     status_bound_name(s->bound),
                                     format_known(s->cores, 1e3, 1, "", cores, sizeof(cores)), at,
                                     bad});
    if (!has_epoch_column(t))
        (void)snprintf(epoch, sizeof(epoch), "epoch %s; ", at);
    put_line(t, "     %s%s; %s", epoch, tail(s->dataset, 36, set, sizeof(set)), s->pipeline);
    if (s->num_sets > 0)
        put_line(t, "     %s", describe_sets(s, sets, sizeof(sets)));
    if (s->substituted > 0)
        put_line(t, "     %s bad samples replaced by others: plenumctl verify lists them", bad);
}

void status_write_text(FILE *file, const struct status *status, unsigned width, unsigned height,
                       const char *line_end)
{
    struct status_table table = {.file = file,
                                 .width = width < WIDTH_MIN ? WIDTH_MIN : width,
                                 .line_end = line_end,
                                 .wraps = height == 0 || height >= HEIGHT_OF_ALL},
                        *t = &table;
    const struct wire_status *l = &status->loader;
    unsigned others = status_other_streams(l) > 0, shown = 0;
    char a[32], b[32], c[32];

    put_parts(t, "plenumd %s on %s, pid %u, up %s%s", l->version, l->host, l->pid,
              format_age(l->uptime_ns, a, sizeof(a)), l->stopping ? ", ENDING" : "");
    put_parts(t, "streams %u, clients %u, %.0f samples/s, %llu samples wait", l->streams,
              l->sessions, (double)l->rate / 1e3, (unsigned long long)l->queued);
    put_parts(t, "threads: %u decode, %.0f%% busy; %u read, %.0f%% busy%s%s", l->threads,
              (double)l->render_busy / 1e4, l->io_threads, (double)l->read_busy / 1e4,
              l->loops[0] ? "; loops: " : "", l->loops);
    put_parts(t, "rings %s of %s; own memory %s; %u descriptors",
              format_bytes(l->ring_bytes, a, sizeof(a)), format_bytes(l->ring_limit, b, sizeof(b)),
              format_bytes(l->memory_bytes, c, sizeof(c)), l->descriptors);
    put_parts(
        t,
        "since the start: %llu samples, %llu bad ones replaced, %llu batches failed, %llu clients "
        "rejected",
        (unsigned long long)l->samples, (unsigned long long)l->substituted,
        (unsigned long long)l->failed, (unsigned long long)l->refused);
    if (l->cache.open)
        put_parts(t, "cache: %llu samples, %s of %s%s; %.1f%% of %llu reads from it%s",
                  (unsigned long long)l->cache.samples, format_bytes(l->cache.bytes, a, sizeof(a)),
                  format_bytes(l->cache.limit, b, sizeof(b)),
                  l->cache.in_memory ? " in memory" : "", status_cache_percent(&l->cache),
                  (unsigned long long)(l->cache.hits + l->cache.misses),
                  l->cache.paused ? "; PAUSED: it fails or is full" : "");
    if (l->shared.limit > 0)
        put_parts(t, "shared: %llu samples copied, %s of CPU time saved; %s of %s kept",
                  (unsigned long long)l->shared.copied,
                  format_age(l->shared.saved_ns, a, sizeof(a)),
                  format_bytes(l->shared.bytes, b, sizeof(b)),
                  format_bytes(l->shared.limit, c, sizeof(c)));
    for (uint32_t i = 0; i < l->lanes && l->lanes > 1 && (height == 0 || i < 4); i++)
        put_parts(t, "node %u: %u threads, %u streams, rings %s", i, l->lane[i].threads,
                  l->lane[i].streams, format_bytes(l->lane[i].ring_bytes, a, sizeof(a)));
    put_row(t, (const char *const[]){"ID", "CLIENT", "SAMPLES/S", "WAITED", "BOUND BY", "CORES",
                                     "EPOCH", "BAD"});
    for (; shown < l->streams; shown++) {
        unsigned lines = lines_of_stream(&status->streams[shown]);

        if (height != 0 && t->lines + lines + 1 + others > height)
            break;
        put_stream_lines(t, &status->streams[shown]);
    }
    if (shown < l->streams)
        put_line(t, "     and %u more", l->streams - shown);
    if (status_other_streams(l) > 0)
        put_line(t, "     and %u of other users", status_other_streams(l));
}

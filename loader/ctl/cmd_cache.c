/* SPDX-License-Identifier: MIT */
/* cmd_cache.c - plenumctl cache: shows the contents of a loader's cache, and what it has saved. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "common/net/status.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

struct cache_arguments {
    bool json;
    double price; /* price of a million requests */
};

static int parse_price(void *target, const char *value, struct plenum_error *err)
{
    struct cache_arguments *a = target;
    char *end;

    a->price = parse_real(value, &end);
    if (*end || end == value || !(a->price >= 0 && a->price <= 1e6))
        return error_set(err, -EINVAL, "--price needs a number such as 0.4, not '%s'", value);
    return 0;
}

#define AT(field) offsetof(struct cache_arguments, field)

static const struct option_def defs[] = {
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
    {"price", 0, "AMOUNT", OPTION_CALL, .call = parse_price,
     .help = "what the store charges for a million requests (default 0.4, in USD as for S3)"},
};

static const struct options_program program = {
    .name = "plenumctl cache",
    .usage = "[ADDRESS] [options]",
    .summary = "Show which part of the samples from object stores a loader has on its disk or in "
               "memory, and what that has saved.",
    .footer = "ADDRESS: unix:PATH, unix:@NAME or tcp:HOST:PORT. Default: as for plenumctl status. "
              "plenumd --cache-size (PLENUM_CACHE_SIZE for a job's own loader) or --cache-memory "
              "(PLENUM_CACHE_MEMORY) sets the size.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

static double price_of(const struct cache_arguments *a, uint64_t requests)
{
    return a->price * (double)requests / 1e6;
}

static void write_json(const struct cache_arguments *a, const struct wire_cache *c)
{
    struct json j = {.file = stdout};

    json_begin_object(&j, NULL, JSON_LINES);
    status_put_cache(&j, c);
    json_number(&j, "requests_saved", c->hits);
    json_real(&j, "price_saved", price_of(a, c->hits), 6);
    json_real(&j, "price_of_misses", price_of(a, c->misses), 6);
    json_end_object(&j);
}

static void write_text(const struct cache_arguments *a, const struct wire_cache *c)
{
    char text[32], more[32];

    printf("contents: %llu samples, %s of %s%s%s\n", (unsigned long long)c->samples,
           format_bytes(c->bytes, text, sizeof(text)), format_bytes(c->limit, more, sizeof(more)),
           c->in_memory ? " in memory" : "",
           c->paused ? "; PAUSED: it fails, is full or is slow" : "");
    printf("next use known: %llu samples\n", (unsigned long long)c->known);
    printf("hits: %llu of %llu reads, %.1f%%\n", (unsigned long long)c->hits,
           (unsigned long long)(c->hits + c->misses), status_cache_percent(c));
    printf("saved: %s, %llu requests, %.2f USD\n", format_bytes(c->hit_bytes, text, sizeof(text)),
           (unsigned long long)c->hits, price_of(a, c->hits));
    printf("fetched: %s, at most %llu requests, %.2f USD\n",
           format_bytes(c->miss_bytes, text, sizeof(text)), (unsigned long long)c->misses,
           price_of(a, c->misses));
    printf("written: %s, %llu samples; %llu removed for others\n",
           format_bytes(c->write_bytes, text, sizeof(text)), (unsigned long long)c->writes,
           (unsigned long long)c->evicted);
    if (c->dropped > 0 || c->damaged > 0)
        printf("not written because the disk was too slow: %llu; damaged: %llu\n",
               (unsigned long long)c->dropped, (unsigned long long)c->damaged);
}

static void write_cache(void *arg, const struct status *status)
{
    const struct cache_arguments *a = arg;
    const struct wire_cache *c = &status->loader.cache;

    if (a->json)
        write_json(a, c);
    else if (c->open)
        write_text(a, c);
    else
        printf("this loader has no cache of samples: set its size with plenumd --cache-size or "
               "--cache-memory, or with PLENUM_CACHE_SIZE or PLENUM_CACHE_MEMORY for a job\n");
}

static int run(int argc, char **argv)
{
    struct cache_arguments arguments = {.price = 0.4};
    struct ctl_status_view view = {.name = program.name, .write = write_cache, .arg = &arguments};
    struct plenum_error err;
    int operands, r;

    r = options_start(&program, &arguments, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands > 1) {
        fprintf(stderr, "%s: only one address can be given; see --help\n", program.name);
        return 2;
    }
    view.json = arguments.json;
    r = ctl_show_status(operands ? argv[1] : NULL, &view, &err);
    if (r < 0)
        return ctl_fail("cache", &err);
    return fflush(stdout) == 0 ? r : 1;
}

const struct ctl_command ctl_cache = {
    .name = "cache",
    .summary = "show what a loader has cached, and what that saves",
    .run = run,
};

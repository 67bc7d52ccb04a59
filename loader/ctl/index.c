/* index.c - plenumctl index: index a data set now, and say what is in it. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/json.h"
#include "common/util.h"
#include "loader/ctl/ctl.h"

struct arguments {
    const char *cache_dir;
    uint32_t threads;
    const char *compare;
    bool rebuild, json;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    {"rebuild", 0, NULL, OPTION_FLAG, AT(rebuild), 0, 0,
     "build the index even if there is one that looks fresh", NULL},
    {"threads", 't', "N", OPTION_U32, AT(threads), 1, 4096,
     "threads that read folders (default: one for each CPU)", NULL},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir), 0, 0,
     "where indices are kept (default $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or "
     "~/.cache/plenum)",
     NULL},
    {"compare", 0, "FILE", OPTION_TEXT, AT(compare), 0, 0,
     "name the first difference from the index in this file, of another host say", NULL},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, "print JSON", NULL},
};

static const struct options_program program = {
    .name = "plenumctl index",
    .usage = "DATASET [options]",
    .summary =
        "Index a data set, unless there is a fresh index, and show what is in it. A loader does "
        "the same when a job first asks for the data set; this does it ahead of time.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

static void print_json(const struct dataset *d)
{
    struct json j = {.file = stdout};
    char text[33];

    json_begin_object(&j, NULL, true);
    json_text(&j, "name", dataset_get_name(d));
    json_number(&j, "samples", dataset_get_samples(d));
    json_number(&j, "classes", dataset_get_classes(d));
    json_number(&j, "bytes", dataset_get_bytes(d));
    json_number(&j, "passed_over", dataset_get_passed_over(d));
    json_text(&j, "fingerprint", datasum_hex(dataset_get_fingerprint(d), text));
    json_text(&j, "index", dataset_get_index_path(d));
    json_number(&j, "known_bad", dataset_get_known_bad(d));
    json_text(&j, "bad_list", dataset_get_known_bad(d) > 0 ? dataset_get_bad_path(d) : NULL);
    json_end_object(&j);
}

static void print_text(const struct dataset *d, double seconds)
{
    const char *path = dataset_get_index_path(d);
    char bytes[32], text[33];

    printf("data set     %s\n", dataset_get_name(d));
    printf("samples      %u in %u classes, %s\n", dataset_get_samples(d), dataset_get_classes(d),
           format_bytes(dataset_get_bytes(d), bytes, sizeof(bytes)));
    if (dataset_get_passed_over(d) > 0)
        printf("passed over  %llu files that are not named as images\n",
               (unsigned long long)dataset_get_passed_over(d));
    printf("fingerprint  %s\n", datasum_hex(dataset_get_fingerprint(d), text));
    printf("index        %s\n", path ? path : "in memory only: the cache folder cannot be written");
    if (dataset_get_known_bad(d) > 0)
        printf("known bad    %u samples: %s\n", dataset_get_known_bad(d), dataset_get_bad_path(d));
    printf("time         %.2f s\n", seconds);
}

/* 0: equal; 1: they differ. */
static int compare(const struct dataset *d, const char *path, struct plenum_error *err)
{
    char difference[1024];
    int r = dataset_compare(d, path, difference, sizeof(difference), err);

    if (r < 0)
        return r;
    if (difference[0])
        fprintf(stderr, "plenumctl index: the two differ: %s\n", difference);
    return difference[0] != '\0';
}

static int run(int argc, char **argv)
{
    struct arguments a = {0};
    struct dataset_options options = {.progress = ctl_show_progress};
    struct plenum_error err;
    struct dataset *dataset;
    uint64_t begin = time_now_ns();
    int operands, r;

    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands != 1) {
        fprintf(stderr, "%s: one data set is needed; see --help\n", program.name);
        return 2;
    }
    options.cache_dir = a.cache_dir;
    options.threads = a.threads;
    options.rebuild = a.rebuild;
    r = dataset_open(argv[1], &options, &dataset, &err);
    ctl_end_progress();
    if (r < 0)
        return ctl_fail("index", &err);
    if (a.json)
        print_json(dataset);
    else
        print_text(dataset, (double)(time_now_ns() - begin) / (double)NS_PER_SEC);
    r = a.compare ? compare(dataset, a.compare, &err) : 0;
    dataset_unref(dataset);
    return r < 0 ? ctl_fail("index", &err) : r;
}

const struct ctl_command ctl_index = {
    .name = "index",
    .summary = "index a data set and show what is in it",
    .run = run,
};

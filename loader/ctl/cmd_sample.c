/* SPDX-License-Identifier: MIT */
/* cmd_sample.c - plenumctl sample: shows everything that is known about some samples of a data
 * set. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

enum { FIELD_MAX = 4096 }; /* longer fields are not shown */

struct sample_arguments {
    const char *cache_dir;
    bool json;
};

#define AT(field) offsetof(struct sample_arguments, field)

static const struct option_def defs[] = {
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir), .help = "folder for indices"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON, one object per line"},
};

static const struct options_program program = {
    .name = "plenumctl sample",
    .usage = "DATASET NUMBER... [options]",
    .summary = "Show where samples come from, given their numbers: file, label, class, and "
               "everything else that the data set knows about them.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* Copy a value to `text` if it is text of at most FIELD_MAX bytes; otherwise write its size there,
 * such as "(12 bytes)". Returns `text`. */
static const char *readable(const void *value, size_t len, char *text)
{
    size_t n = min_u64(len, FIELD_MAX);

    memcpy(text, value, n);
    text[n] = '\0';
    if (len > FIELD_MAX || strlen(text) != n)
        (void)snprintf(text, FIELD_MAX, "(%zu bytes)", len);
    return text;
}

static void show_field(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    struct json *j = arg;
    char text[FIELD_MAX + 1], name[FIELD_MAX];

    (void)exact;
    (void)readable(value, len, text);
    (void)snprintf(name, sizeof(name), "%s", key);
    if (j)
        json_text(j, key, text);
    else
        printf("  %s: %s\n", text_make_plain(name), text_make_plain(text));
}

static int show(const struct dataset *d, uint32_t sample, bool json, struct plenum_error *err)
{
    struct json j = {.file = stdout};
    int64_t label = dataset_get_label(d, sample);
    const char *class = dataset_get_class_name(d, (uint32_t)label);
    const char *bad = dataset_get_why_bad(d, sample);
    char name[4096], plain[4096];
    int r;

    (void)dataset_get_sample_name(d, sample, name, sizeof(name));
    if (!json) {
        (void)snprintf(plain, sizeof(plain), "%s", class);
        printf("%u: %s\n  label %lld%s%s, %llu bytes\n", sample, text_make_plain(name),
               (long long)label, *class ? ", " : "", text_make_plain(plain),
               (unsigned long long)dataset_get_sample_bytes(d, sample));
        if (bad)
            printf("  known to be bad: %s\n", bad);
        return dataset_fields(d, sample, show_field, NULL, err);
    }
    json_begin_object(&j, NULL, JSON_FLAT);
    json_number(&j, "sample", sample);
    json_text(&j, "name", name);
    json_signed(&j, "label", label);
    json_text(&j, "class", *class ? class : NULL);
    json_number(&j, "bytes", dataset_get_sample_bytes(d, sample));
    json_text(&j, "known_bad", bad);
    json_begin_object(&j, "fields", JSON_FLAT);
    r = dataset_fields(d, sample, show_field, &j, err);
    json_end_object(&j);
    json_end_object(&j);
    return r;
}

static int run(int argc, char **argv)
{
    struct sample_arguments a = {0};
    struct dataset_options options = {0};
    struct plenum_error err;
    struct dataset *dataset;
    int operands, r;

    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands < 2) {
        fprintf(stderr, "%s: a data set and numbers of samples are needed; see --help\n",
                program.name);
        return 2;
    }
    options.cache_dir = a.cache_dir;
    r = ctl_dataset_open(argv[1], &options, &dataset, &err);
    if (r < 0)
        return ctl_fail("sample", &err);
    for (int i = 2; i <= operands && r >= 0; i++) {
        uint64_t number;

        if (parse_u64(argv[i], UINT32_MAX, &number) < 0 || number >= dataset_get_samples(dataset))
            r = error_set(&err, -1, "'%s' is not a sample of %s, which has %u samples", argv[i],
                          dataset_get_name(dataset), dataset_get_samples(dataset));
        else
            r = show(dataset, (uint32_t)number, a.json, &err);
    }
    dataset_unref(dataset);
    return r < 0 ? ctl_fail("sample", &err) : 0;
}

const struct ctl_command ctl_sample = {
    .name = "sample",
    .summary = "show where samples come from, and everything known about them",
    .run = run,
};

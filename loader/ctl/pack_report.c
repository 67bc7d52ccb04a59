/* SPDX-License-Identifier: MIT */
/* pack_report.c - reports the results of plenumctl pack in three forms: for people, for programs,
 * and as DATASET.json, which stays beside the archives and documents their origin.
 *
 * DATASET.json is written when all archives exist. It does not depend on the run that wrote it: it
 * contains no time, host or number of threads. */
#include "config.h"

#include "loader/ctl/pack_report.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/data/datasum.h"
#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

enum { SHOWN_MAX = 20 }; /* maximum number of kept files in the summary */

void pack_report_add_up(struct pack_report *report)
{
    report->archives = pack_plan_archives(report->plan);
    for (uint32_t i = 0; i < report->archives; i++) {
        const struct pack_archive *a = pack_record_get(report->record, i);

        pack_sum_add(&report->sum, &a->sum);
        report->archive_bytes += a->written.bytes;
        assert(a->there); /* a report follows a complete run */
    }
}

/* Returns the number of samples packed with unchanged pixels. */
static uint64_t packed_of(const struct pack_sum *sum)
{
    return sum->outcomes[PACK_BASELINE] + sum->outcomes[PACK_CONVERTED];
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static uint64_t raw_of(const struct pack_sum *sum)
{
    return sum->outcomes[PACK_RAW] + sum->outcomes[PACK_RAW_RESIZED];
}

/* Returns the number of resized samples, both JPEGs and raw pixels. */
static uint64_t resized_of(const struct pack_sum *sum)
{
    return sum->outcomes[PACK_RESIZED] + sum->outcomes[PACK_RAW_RESIZED];
}

static bool resizes(const struct pack_report *report)
{
    return report->plan->resize.longest || report->plan->resize.shortest;
}

static void put_numbers(struct json *j, const struct pack_report *report)
{
    static const char *const kept_names[PACK_OUTCOMES] = {
        [PACK_KEPT_PACKED] = "packed",         [PACK_KEPT_PNG] = "png", [PACK_KEPT_CMYK] = "cmyk",
        [PACK_KEPT_ARITHMETIC] = "arithmetic", [PACK_KEPT_ODD] = "odd", [PACK_KEPT_BAD] = "bad",
    };
    const struct pack_sum *s = &report->sum;

    json_number(j, "samples", s->samples);
    json_number(j, "bytes_before", s->bytes_before);
    json_number(j, "bytes_after", s->bytes_after);
    json_number(j, "bytes_of_archives", report->archive_bytes);
    json_number(j, "resized", resized_of(s));
    json_number(j, "raw", raw_of(s));
    json_number(j, "packed", packed_of(s));
    json_number(j, "converted", s->outcomes[PACK_CONVERTED]);
    json_number(j, "without_divisor", s->whole_row);
    json_begin_object(j, "kept", JSON_FLAT);
    for (int i = 0; i < PACK_OUTCOMES; i++)
        if (kept_names[i])
            json_number(j, kept_names[i], s->outcomes[i]);
    json_end_object(j);
}

static void put_files(struct json *j, const struct pack_report *report)
{
    uint64_t count;
    const struct pack_kept *kept = pack_record_get_kept(report->record, &count);

    json_begin_array(j, "files", JSON_LINES);
    for (uint64_t i = 0; i < count; i++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_number(j, "sample", kept[i].sample);
        json_text(j, "outcome", pack_outcome_name(kept[i].outcome));
        json_text(j, "name", kept[i].name);
        json_text(j, "reason", kept[i].reason);
        json_end_object(j);
    }
    json_end_array(j);
}

void pack_report_print_json(const struct pack_report *report)
{
    struct json j = {.file = stdout};

    json_begin_object(&j, NULL, JSON_LINES);
    json_number(&j, "archives", report->archives);
    json_number(&j, "archives_made_now", report->made);
    put_numbers(&j, report);
    put_files(&j, report);
    json_end_object(&j);
}

static void put_side(struct json *j, const char *key, uint32_t side)
{
    if (side)
        json_number(j, key, side);
    else
        json_null(j, key);
}

static void put_options(struct json *j, const struct pack_report *report)
{
    const struct pack_resize *resize = &report->plan->resize;

    json_begin_object(j, "options", JSON_FLAT);
    put_side(j, "longest", resize->longest);
    put_side(j, "shortest", resize->shortest);
    json_number(j, "raw_share", resize->raw_share);
    if (resizes(report) && resize->raw_share < 100) {
        json_number(j, "quality", resize->quality);
        json_text(j, "subsampling", resize->subsampling == ENCODE_444 ? "444" : "420");
    }
    if (resize->junk)
        json_bool(j, "junk", true);
    json_number(j, "samples_per_archive", report->plan->per_archive);
    json_text(j, "prefix", report->plan->prefix);
    json_end_object(j);
}

char *pack_report_describe(const struct pack_report *report, size_t *len)
{
    char *text = NULL, hex[33];
    FILE *f = open_memstream(&text, len);
    struct json j = {.file = f};

    if (!f)
        return NULL;
    json_begin_object(&j, NULL, JSON_LINES);
    json_text(&j, "made_by", "plenumctl pack");
    json_text(&j, "version", PACKAGE_VERSION);
    json_begin_object(&j, "source", JSON_FLAT);
    json_text(&j, "name", dataset_get_name(report->source));
    json_text(&j, "fingerprint", datasum_hex(report->plan->fingerprint, hex));
    json_end_object(&j);
    put_options(&j, report);
    json_number(&j, "archives", report->archives);
    put_numbers(&j, report);
    json_end_object(&j);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

static void print_kept(const struct pack_sum *s)
{
    static const struct {
        enum pack_outcome outcome;
        const char *what;
    } lines[] = {
        {PACK_KEPT_PACKED, "are already packed"},
        {PACK_KEPT_PNG, "are not JPEGs"},
        {PACK_KEPT_CMYK, "have four components"},
        {PACK_KEPT_ARITHMETIC, "are arithmetic coded"},
        {PACK_KEPT_ODD, "cannot be packed"},
        {PACK_KEPT_BAD,
         "do not decode completely: loaders replace them, or show the part above the damage"},
    };
    const char *title = "kept";

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (s->outcomes[lines[i].outcome] == 0)
            continue;
        printf("%-12s %llu %s\n", title, (unsigned long long)s->outcomes[lines[i].outcome],
               lines[i].what);
        title = "";
    }
}

static void print_resized(const struct pack_report *report)
{
    const struct pack_sum *s = &report->sum;
    char text[PACK_RESIZE_TEXT];

    printf("resized      %llu by %s; %llu are not larger and keep their pixels\n",
           (unsigned long long)resized_of(s), pack_resize_text(&report->plan->resize, text),
           (unsigned long long)(s->samples - resized_of(s) - s->outcomes[PACK_KEPT_BAD]));
}

static void print_files(const struct pack_report *report)
{
    uint64_t count;
    const struct pack_kept *kept = pack_record_get_kept(report->record, &count);

    for (uint64_t i = 0; i < count && i < SHOWN_MAX; i++) {
        char name[4096];

        (void)snprintf(name, sizeof(name), "%s", kept[i].name);
        printf("             %s: %s\n", text_make_plain(name), kept[i].reason);
    }
    if (count > SHOWN_MAX)
        printf("             and %llu more: see %s/plenum-pack.txt\n",
               (unsigned long long)(count - SHOWN_MAX), report->folder);
}

void pack_report_print_text(const struct pack_report *report)
{
    const struct pack_sum *s = &report->sum;
    char before[32], after[32], archives[32];

    printf("archives     %u in %s, %s; %u of them made now\n", report->archives, report->folder,
           format_bytes(report->archive_bytes, archives, sizeof(archives)), report->made);
    printf("samples      %llu\n", (unsigned long long)s->samples);
    printf("image files  %s -> %s (%.4f)\n", format_bytes(s->bytes_before, before, sizeof(before)),
           format_bytes(s->bytes_after, after, sizeof(after)),
           share(s->bytes_after, s->bytes_before));
    if (resizes(report))
        print_resized(report);
    if (raw_of(s) > 0)
        printf("raw          %llu are raw pixels\n", (unsigned long long)raw_of(s));
    printf("packed       %llu, of which %llu were progressive or had several scans\n",
           (unsigned long long)packed_of(s), (unsigned long long)s->outcomes[PACK_CONVERTED]);
    printf("no divisor   %llu (%.1f %%): only whole rows of these can be skipped\n",
           (unsigned long long)s->whole_row,
           100 * share(s->whole_row, packed_of(s) + s->outcomes[PACK_RESIZED]));
    print_kept(s);
    print_files(report);
    printf("time         %.1f s\n", report->seconds);
}

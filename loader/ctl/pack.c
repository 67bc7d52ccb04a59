/* SPDX-License-Identifier: MIT */
/* pack.c - plenumctl pack: writes a data set as archives of packed JPEGs, which render faster.
 *
 * This file has the command line, the checks before anything is written, and the summary.
 * pack_job.c does the work, and pack_record.c makes it resumable. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"
#include "common/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/pack_job.h"

enum { SHOWN_MAX = 20 }; /* files that the summary names with a reason why they were kept */

struct arguments {
    const char *cache_dir, *prefix;
    uint32_t per_archive, threads;
    bool json;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    {"samples-per-archive", 'n', "K", OPTION_U32, AT(per_archive), 1, 10000000,
     .help = "samples in each archive but the last (default 1000)"},
    {"prefix", 0, "NAME", OPTION_TEXT, AT(prefix),
     .help = "archives are called NAME-000000.tar and so on (default archive)"},
    {"threads", 't', "N", OPTION_U32, AT(threads), 1, 4096,
     .help = "threads that pack (default: one for each CPU)"},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir), .help = "where indices are kept"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl pack",
    .usage = "DATASET DIR [options]",
    .summary =
        "Copy a data set into WebDataset archives whose JPEGs have the same pixels and render "
        "faster. The same command goes on where an earlier one was stopped.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* The result of packing. */
struct outcome {
    struct pack_sum sum;
    uint32_t archives, made;
    uint64_t archive_bytes;
    double seconds;
};

static int make_folder(const char *path, struct plenum_error *err)
{
    struct stat st;

    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "cannot make the folder %s: %s", path, strerror(errno));
    if (stat(path, &st) < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    return S_ISDIR(st.st_mode) ? 0 : error_set(err, -ENOTDIR, "%s is no folder", path);
}

/* Refuse a folder inside the data set: the archives would become a part of it. */
static int check_target(const struct dataset *source, const char *folder, struct plenum_error *err)
{
    static const char format[] = "folder:";
    const char *root = dataset_get_name(source);
    char *real;
    size_t len;
    int r = 0;

    if (strncmp(root, format, sizeof(format) - 1) != 0)
        return 0;
    root += sizeof(format) - 1;
    len = strlen(root);
    real = realpath(folder, NULL);
    if (!real)
        return error_set(err, -errno, "%s: %s", folder, strerror(errno));
    if (strncmp(real, root, len) == 0 && (real[len] == '/' || !real[len]))
        r = error_set(err, -EINVAL, "%s lies in the data set itself: name another folder", folder);
    free(real);
    return r;
}

static int check_prefix(const char *prefix, struct plenum_error *err)
{
    size_t len = strlen(prefix);

    if (len == 0 || len >= sizeof(((struct pack_plan *)0)->prefix) || *prefix == '.' ||
        strpbrk(prefix, "/\t\n\\{}*?["))
        return error_set(err, -EINVAL,
                         "--prefix '%s': it is the beginning of a file's name, without any of "
                         "/ \\ { } * ? [",
                         prefix);
    return 0;
}

/* All class names, a line each, or NULL where no class has one. */
static char *list_classes(const struct dataset *source, size_t *len)
{
    uint32_t count = dataset_get_classes(source);
    char *text = NULL;
    bool named = false;
    FILE *f = open_memstream(&text, len);

    for (uint32_t i = 0; f && i < count; i++) {
        const char *name = dataset_get_class_name(source, i);

        named = named || *name;
        for (; *name; name++)
            (void)fputc(*name == '\n' ? '?' : *name, f);
        (void)fputc('\n', f);
    }
    if (f)
        (void)fclose(f);
    if (named)
        return text;
    free(text);
    return NULL;
}

/* Beside the archives, which hold numbers alone. */
static int write_classes(const struct dataset *source, const char *folder, struct plenum_error *err)
{
    size_t len = 0;
    char *text = list_classes(source, &len), *path, *partial;
    struct stat st;
    int r = 0;

    if (!text)
        return 0;
    path = str_format("%s/classes.txt", folder);
    partial = str_format("%s/classes.txt.partial", folder);
    if (!path || !partial)
        r = -ENOMEM;
    else if (stat(path, &st) < 0 || (size_t)st.st_size != len)
        r = io_write_file_by(partial, path, text, len);
    if (r < 0)
        (void)error_set(err, r, "cannot write %s/classes.txt: %s", folder, strerror(-r));
    free(path);
    free(partial);
    free(text);
    return r;
}

static void add_up(struct pack_record *record, const struct pack_plan *plan, struct outcome *o)
{
    o->archives = pack_plan_archives(plan);
    for (uint32_t i = 0; i < o->archives; i++) {
        const struct pack_archive *a = pack_record_get(record, i);

        pack_sum_add(&o->sum, &a->sum);
        o->archive_bytes += a->written.bytes;
    }
}

static uint64_t packed_of(const struct pack_sum *sum)
{
    return sum->outcomes[PACK_BASELINE] + sum->outcomes[PACK_CONVERTED];
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void print_json(const struct outcome *o, struct pack_record *record)
{
    static const char *const kept_names[PACK_OUTCOMES] = {
        [PACK_KEPT_PACKED] = "packed",         [PACK_KEPT_PNG] = "png", [PACK_KEPT_CMYK] = "cmyk",
        [PACK_KEPT_ARITHMETIC] = "arithmetic", [PACK_KEPT_ODD] = "odd", [PACK_KEPT_BAD] = "bad",
    };
    const struct pack_sum *s = &o->sum;
    struct json j = {.file = stdout};
    uint64_t count;
    const struct pack_kept *kept = pack_record_get_kept(record, &count);

    json_begin_object(&j, NULL, false);
    json_number(&j, "archives", o->archives);
    json_number(&j, "archives_made_now", o->made);
    json_number(&j, "samples", s->samples);
    json_number(&j, "bytes_before", s->bytes_before);
    json_number(&j, "bytes_after", s->bytes_after);
    json_number(&j, "bytes_of_archives", o->archive_bytes);
    json_number(&j, "packed", packed_of(s));
    json_number(&j, "converted", s->outcomes[PACK_CONVERTED]);
    json_number(&j, "without_divisor", s->whole_row);
    json_begin_object(&j, "kept", true);
    for (int i = 0; i < PACK_OUTCOMES; i++)
        if (kept_names[i])
            json_number(&j, kept_names[i], s->outcomes[i]);
    json_end_object(&j);
    json_begin_array(&j, "files", false);
    for (uint64_t i = 0; i < count; i++) {
        json_begin_object(&j, NULL, true);
        json_number(&j, "sample", kept[i].sample);
        json_text(&j, "outcome", pack_outcome_name(kept[i].outcome));
        json_text(&j, "name", kept[i].name);
        json_text(&j, "reason", kept[i].reason);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void print_kept(const struct pack_sum *s)
{
    static const struct {
        enum pack_outcome outcome;
        const char *what;
    } lines[] = {
        {PACK_KEPT_PACKED, "are packed already"},
        {PACK_KEPT_PNG, "are no JPEGs"},
        {PACK_KEPT_CMYK, "have four components"},
        {PACK_KEPT_ARITHMETIC, "are arithmetic coded"},
        {PACK_KEPT_ODD, "cannot be packed"},
        {PACK_KEPT_BAD, "do not decode whole: of these, loaders show what lies above the damage"},
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

static void print_text(const struct outcome *o, struct pack_record *record, const char *folder)
{
    const struct pack_sum *s = &o->sum;
    char before[32], after[32], archives[32];
    uint64_t count;
    const struct pack_kept *kept = pack_record_get_kept(record, &count);

    printf("archives     %u in %s, %s; %u of them made now\n", o->archives, folder,
           format_bytes(o->archive_bytes, archives, sizeof(archives)), o->made);
    printf("samples      %llu\n", (unsigned long long)s->samples);
    printf("image files  %s -> %s (%.4f)\n", format_bytes(s->bytes_before, before, sizeof(before)),
           format_bytes(s->bytes_after, after, sizeof(after)),
           share(s->bytes_after, s->bytes_before));
    printf("packed       %llu, of which %llu were progressive or had several scans\n",
           (unsigned long long)packed_of(s), (unsigned long long)s->outcomes[PACK_CONVERTED]);
    printf("no divisor   %llu (%.1f %%): only whole rows can be left out of these\n",
           (unsigned long long)s->whole_row, 100 * share(s->whole_row, packed_of(s)));
    print_kept(s);
    for (uint64_t i = 0; i < count && i < SHOWN_MAX; i++) {
        char name[4096];

        (void)snprintf(name, sizeof(name), "%s", kept[i].name);
        printf("             %s: %s\n", text_make_plain(name), kept[i].reason);
    }
    if (count > SHOWN_MAX)
        printf("             and %llu more: see %s/plenum-pack.txt\n",
               (unsigned long long)(count - SHOWN_MAX), folder);
    printf("time         %.1f s\n", o->seconds);
}

static int pack(const struct arguments *a, struct dataset *source, const char *folder,
                struct plenum_error *err)
{
    struct pack_plan plan = {.samples = dataset_get_samples(source), .per_archive = a->per_archive};
    struct pack_job_options options = {.source = source,
                                       .folder = folder,
                                       .plan = &plan,
                                       .threads = a->threads,
                                       .progress = ctl_show_progress};
    struct pack_record *record = NULL;
    struct outcome o = {0};
    uint64_t begin = time_now_ns();
    int r = make_folder(folder, err);

    memcpy(plan.fingerprint, dataset_get_fingerprint(source), sizeof(plan.fingerprint));
    (void)snprintf(plan.prefix, sizeof(plan.prefix), "%s", a->prefix);
    if (r < 0)
        return r;
    r = check_target(source, folder, err);
    if (r < 0)
        return r;
    r = pack_record_open(folder, &plan, &record, err);
    if (r < 0)
        goto out;
    r = write_classes(source, folder, err);
    if (r < 0)
        goto out;
    options.record = record;
    r = pack_job_run(&options, &o.made, err);
    ctl_end_progress();
    if (r < 0 && r != -EEXIST)
        fprintf(stderr, "%s: what is packed is kept; the same command goes on from there\n",
                program.name);
    if (r < 0)
        goto out;
    o.seconds = (double)(time_now_ns() - begin) / (double)NS_PER_SEC;
    add_up(record, &plan, &o);
    if (a->json)
        print_json(&o, record);
    else
        print_text(&o, record, folder);

out:
    pack_record_close(record);
    return r;
}

static int run(int argc, char **argv)
{
    struct arguments a = {.per_archive = 1000, .prefix = "archive"};
    /* Bad samples are copied as they are, known or not. */
    struct dataset_options options = {.forget_bad = true};
    struct plenum_error err;
    struct dataset *source;
    int operands, r;

    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands != 2 || check_prefix(a.prefix, &err) < 0) {
        fprintf(stderr, "%s: %s; see --help\n", program.name,
                operands != 2 ? "a data set and a folder to write are needed" : err.text);
        return 2;
    }
    options.cache_dir = a.cache_dir;
    options.threads = a.threads;
    r = ctl_dataset_open(argv[1], &options, &source, &err);
    if (r < 0)
        return ctl_fail("pack", &err);
    r = pack(&a, source, argv[2], &err);
    dataset_unref(source);
    return r < 0 ? ctl_fail("pack", &err) : 0;
}

const struct ctl_command ctl_pack = {
    .name = "pack",
    .summary = "copy a data set into archives that render faster",
    .run = run,
};

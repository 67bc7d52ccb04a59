/* SPDX-License-Identifier: MIT */
/* cmd_pack.c - plenumctl pack: writes a data set as archives of packed JPEGs, which render faster.
 *
 * This file has the command line, and the checks before anything is written. pack_job.c does the
 * work, pack_record.c makes it resumable, and pack_report.c reports the results. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/pack_job.h"
#include "loader/ctl/pack_report.h"

struct pack_arguments {
    const char *cache_dir, *prefix;
    uint32_t per_archive, threads;
    struct pack_resize resize; /* quality 0: not given */
    bool subsampling;          /* --subsampling was given */
    bool raw, json;
};

#define AT(field) offsetof(struct pack_arguments, field)

static int parse_subsampling(void *target, const char *value, struct plenum_error *err)
{
    struct pack_arguments *a = target;

    if (strcmp(value, "420") != 0 && strcmp(value, "444") != 0)
        return error_set(err, -EINVAL, "--subsampling must be 420 or 444, not '%s'", value);
    a->resize.subsampling = strcmp(value, "444") == 0 ? ENCODE_444 : ENCODE_420;
    a->subsampling = true;
    return 0;
}

static const struct option_def defs[] = {
    {"samples-per-archive", 'n', "K", OPTION_U32, AT(per_archive), 1, 10000000,
     .help = "samples in each archive except the last (default 1000)"},
    {"prefix", 0, "NAME", OPTION_TEXT, AT(prefix),
     .help = "name archives NAME-000000.tar and so on (default archive)"},
    {"longest", 0, "N", OPTION_U32, AT(resize.longest), PACK_SIDE_MIN, PACK_SIDE_MAX,
     .help = "shrink images so that the longer side is at most N pixels; shrunk images become "
             "JPEGs, unless they are written as raw pixels"},
    {"shortest", 0, "N", OPTION_U32, AT(resize.shortest), PACK_SIDE_MIN, PACK_SIDE_MAX,
     .help = "shrink images so that the shorter side is at most N pixels; shrunk images become "
             "JPEGs, unless they are written as raw pixels"},
    {"quality", 0, "Q", OPTION_U32, AT(resize.quality), 1, 100,
     .help = "quality of these JPEGs (default 90)"},
    {"subsampling", 0, "420|444", OPTION_CALL, .call = parse_subsampling,
     .help = "chroma subsampling of these JPEGs (default 420)"},
    {"raw", 0, NULL, OPTION_FLAG, AT(raw),
     .help = "write all images as raw pixels (PPM), which need no decoding: fastest, but many "
             "times larger"},
    {"raw-share", 0, "P", OPTION_U32, AT(resize.raw_share), 1, 99,
     .help = "write P percent of the samples as raw pixels and the others as JPEGs"},
    {"junk", 0, NULL, OPTION_FLAG, AT(resize.junk),
     .help = "also pack JPEGs with junk bytes in their headers, the way that pipelines with the "
             "word junk decode them; without this option they are copied unchanged"},
    {"threads", 't', "N", OPTION_U32, AT(threads), 1, 4096,
     .help = "threads that pack (default: one per CPU)"},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir), .help = "folder for indices"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct option_words words[] = {{"subsampling", "420 444"}, {0}};

static const struct options_program program = {
    .name = "plenumctl pack",
    .usage = "DATASET DIR [options]",
    .summary = "Copy a data set into WebDataset archives whose JPEGs have the same pixels and "
               "render faster, or whose images are smaller or raw. To resume after an "
               "interruption, run the same command again.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = words,
};

static int make_folder(const char *path, struct plenum_error *err)
{
    struct stat st;

    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "cannot make the folder %s: %s", path, strerror(errno));
    if (stat(path, &st) < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    return S_ISDIR(st.st_mode) ? 0 : error_set(err, -ENOTDIR, "%s is not a folder", path);
}

/* Reject a folder inside the data set, because the archives would become a part of it. */
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
        r = error_set(err, -EINVAL, "%s is inside the data set: name another folder", folder);
    free(real);
    return r;
}

static int check_prefix(const char *prefix, struct plenum_error *err)
{
    size_t len = strlen(prefix);

    if (len == 0 || len >= sizeof(((struct pack_plan *)0)->prefix) || *prefix == '.' ||
        strpbrk(prefix, "/\t\n\\{}*?["))
        return error_set(
            err, -EINVAL,
            "--prefix '%s': it must be the beginning of a file name, without any of / \\ { } * ? [",
            prefix);
    return 0;
}

/* Check that the options for images can be combined, and complete them. */
static int check_resize(struct pack_arguments *a, struct plenum_error *err)
{
    struct pack_resize *resize = &a->resize;
    bool resizes = resize->longest || resize->shortest;

    if (resize->longest && resize->shortest)
        return error_set(err, -EINVAL, "--longest and --shortest cannot be used together");
    if (a->raw && resize->raw_share)
        return error_set(err, -EINVAL,
                         "--raw and --raw-share cannot be used together: either all images become "
                         "raw pixels, or a share of them");
    if (a->raw && (resize->quality || a->subsampling))
        return error_set(err, -EINVAL,
                         "--quality and --subsampling are for JPEGs, but --raw turns all images "
                         "into raw pixels");
    if (!resizes && (resize->quality || a->subsampling))
        return error_set(err, -EINVAL,
                         "--quality and --subsampling are for the JPEGs of shrunk images: also "
                         "give --longest or --shortest");
    if (a->raw)
        resize->raw_share = 100;
    if (resizes && !resize->quality)
        resize->quality = PACK_QUALITY;
    return 0;
}

/* List all class names in `*ret` (malloc), one per line; NULL if no class has a name. Returns 0 or
 * -ENOMEM. */
static int list_classes(const struct dataset *source, char **ret, size_t *len)
{
    uint32_t count = dataset_get_classes(source);
    char *text = NULL;
    bool named = false;
    FILE *f = open_memstream(&text, len);

    *ret = NULL;
    if (!f)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = dataset_get_class_name(source, i);

        named = named || *name;
        for (; *name; name++)
            (void)fputc(*name == '\n' ? '?' : *name, f);
        (void)fputc('\n', f);
    }
    if (fclose(f) != 0) {
        free(text);
        return -ENOMEM;
    }
    if (named)
        *ret = text;
    else
        free(text);
    return 0;
}

/* Write a file beside the archives. If it exists, replace it only if `replaces` is set. */
static int write_beside(const char *folder, const char *name, bool replaces, const char *text,
                        size_t len, struct plenum_error *err)
{
    char *path = str_format("%s/%s", folder, name);
    char *partial = str_format("%s/%s.partial", folder, name);
    int r = 0;

    if (!path || !partial)
        r = -ENOMEM;
    else if (replaces || access(path, F_OK) < 0)
        r = io_write_file_by(partial, path, text, len);
    if (r < 0)
        (void)error_set(err, r, "cannot write %s/%s: %s", folder, name, strerror(-r));
    free(path);
    free(partial);
    return r;
}

/* Write the class names, because the archives hold only class numbers. */
static int write_classes(const struct dataset *source, const char *folder, struct plenum_error *err)
{
    size_t len = 0;
    char *text;
    int r = list_classes(source, &text, &len);

    if (r < 0)
        return error_set(err, r, "out of memory");
    if (text)
        r = write_beside(folder, "classes.txt", false, text, len, err);
    free(text);
    return r;
}

/* Write DATASET.json, once all archives exist. */
static int write_description(const struct pack_report *report, struct plenum_error *err)
{
    size_t len = 0;
    char *text = pack_report_describe(report, &len);
    bool replaces = report->made > 0;
    int r = text ? write_beside(report->folder, "DATASET.json", replaces, text, len, err)
                 : error_set(err, -ENOMEM, "out of memory");

    free(text);
    return r;
}

static int pack(const struct pack_arguments *a, struct dataset *source, const char *folder,
                struct plenum_error *err)
{
    struct pack_plan plan = {
        .samples = dataset_get_samples(source), .per_archive = a->per_archive, .resize = a->resize};
    struct pack_job_options options = {.source = source,
                                       .folder = folder,
                                       .plan = &plan,
                                       .threads = a->threads,
                                       .progress = ctl_show_progress};
    struct pack_report report = {.source = source, .folder = folder, .plan = &plan};
    struct pack_record *record = NULL;
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
    r = pack_job_run(&options, &report.made, err);
    ctl_end_progress();
    if (r < 0 && r != -EEXIST)
        fprintf(stderr, "%s: the finished part is kept; the same command continues from there\n",
                program.name);
    if (r < 0)
        goto out;
    report.record = record;
    report.seconds = (double)(time_now_ns() - begin) / (double)NS_PER_SEC;
    pack_report_add_up(&report);
    r = write_description(&report, err);
    if (r < 0)
        goto out;
    if (a->json)
        pack_report_print_json(&report);
    else
        pack_report_print_text(&report);

out:
    pack_record_close(record);
    return r;
}

/* Reject shrinking pictures whose boxes would not shrink. */
static int check_objects(const struct pack_arguments *a, const struct dataset *source,
                         struct plenum_error *err)
{
    if (!dataset_has_object_classes(source) || (!a->resize.longest && !a->resize.shortest))
        return 0;
    return error_set(err, -EINVAL,
                     "--longest and --shortest would shrink the pictures of %s, but not the boxes "
                     "of their objects: pack it without them, and let the pipeline shrink both",
                     dataset_get_name(source));
}

/* Collect the names of fields for a message. */
static void list_field(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    char *all = arg; /* [200] */
    size_t at = strlen(all);

    (void)value;
    (void)len;
    (void)exact;
    (void)snprintf(all + at, 200 - at, "%s'%s'", at > 0 ? ", " : "", key);
}

/* Say that fields other than the objects of detection data sets are not packed. */
static void tell_of_fields(const struct dataset *source)
{
    char all[200] = "";

    if (dataset_has_object_classes(source) ||
        dataset_fields(source, 0, list_field, all, NULL) < 0 || !all[0])
        return;
    fprintf(stderr,
            "%s: only images and labels are packed, not the fields that samples also have: %s\n",
            program.name, text_make_plain(all));
}

static int run(int argc, char **argv)
{
    struct pack_arguments a = {.per_archive = 1000, .prefix = "archive"};
    /* Bad samples are packed unchanged, even if they are on the list of bad samples. */
    struct dataset_options options = {.forget_bad = true, .outlines = true};
    struct plenum_error err;
    struct dataset *source;
    int operands, r;

    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands != 2 || check_prefix(a.prefix, &err) < 0 || check_resize(&a, &err) < 0) {
        fprintf(stderr, "%s: %s; see --help\n", program.name,
                operands != 2 ? "a data set and a folder to write are needed" : err.text);
        return 2;
    }
    options.cache_dir = a.cache_dir;
    options.threads = a.threads;
    r = ctl_files_open(argv[1], &options, &source, &err);
    if (r < 0)
        return ctl_fail("pack", &err);
    r = dataset_has_images(source) ? check_objects(&a, source, &err)
                                   : dataset_refuse_images(source, &err);
    if (r == 0) {
        tell_of_fields(source);
        r = pack(&a, source, argv[2], &err);
    }
    dataset_unref(source);
    return r < 0 ? ctl_fail("pack", &err) : 0;
}

const struct ctl_command ctl_pack = {
    .name = "pack",
    .summary = "copy a data set into archives that render faster",
    .run = run,
};

/* SPDX-License-Identifier: MIT */
/* cmd_index.c - plenumctl index: indexes a data set now, and shows its contents; also records
 * tiles, and uploads or compares the index. */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/dataset/hint_cache.h"
#include "loader/dataset/sidecar.h"

struct index_arguments {
    const char *cache_dir;
    uint32_t threads;
    const char *compare;
    bool tiles, rebuild, upload, json;
    struct json output; /* for --json */
    unsigned shown;     /* data sets shown so far */
};

/* The state of --tiles. */
struct tiles {
    struct dataset *dataset;
    struct hint_cache *hints;
    struct render_scratch *scratches; /* [threads] */
    atomic_uint_fast64_t recorded;    /* samples that have a hint, old or new */
    atomic_uint_fast64_t bytes;       /* bytes of these hints */
    atomic_uint_fast64_t without;     /* samples without tiles */
    atomic_uint_fast64_t bad;         /* bad samples */
    atomic_uint_fast64_t jpegs, progressive;
};

#define AT(field) offsetof(struct index_arguments, field)

static const struct option_def defs[] = {
    {"tiles", 0, NULL, OPTION_FLAG, AT(tiles),
     .help = "also decode every JPEG and record where its tiles begin, as a loader does in the "
             "first epoch"},
    {"rebuild", 0, NULL, OPTION_FLAG, AT(rebuild),
     .help = "rebuild the index even if it seems to be up to date"},
    {"upload", 0, NULL, OPTION_FLAG, AT(upload),
     .help = "also write the index beside the archives in S3, where loaders of all hosts find it"},
    {"threads", 't', "N", OPTION_U32, AT(threads), 1, 4096,
     .help = "threads that read folders and decode (default: one per CPU)"},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir),
     .help = "folder for indices (default $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or "
             "~/.cache/plenum)"},
    {"compare", 0, "FILE", OPTION_TEXT, AT(compare),
     .help = "show the first difference from the index in FILE, for example from another host"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "plenumctl index",
    .usage = "DATASET [options]",
    .summary = "Index a data set, unless a fresh index exists, and show what it contains. A "
               "loader does the same when a job first uses the data set; this does it in "
               "advance. With a plan (@FILE), index each of its data sets, and make the tables "
               "of its selections and weights.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

static int index_tiles(void *arg, uint64_t index, unsigned thread)
{
    struct tiles *t = arg;
    struct render_scratch *s = &t->scratches[thread];
    struct image_tiles tiles = {0};
    uint32_t sample = (uint32_t)index;
    struct ctl_jpegs kind;
    int r = 0;

    if (!s->decoder)
        r = image_decoder_create(&s->decoder);
    if (r < 0)
        return r;
    image_decoder_use_jpeg(s->decoder, IMAGE_JPEG_PLENUM);
    r = dataset_read(t->dataset, sample, &s->files.of[0].image, NULL);
    if (r < 0 && r != -EBADMSG)
        return r;
    (void)hint_cache_get(t->hints, sample, &s->hint, &tiles.hint, &tiles.len);
    if (r >= 0)
        r = image_find_tiles(
            s->decoder, &(struct image_file){s->files.of[0].image.bytes, s->files.of[0].image.len},
            &tiles, NULL);
    if (r == -EBADMSG) {
        (void)atomic_fetch_add(&t->bad, 1);
        return 0;
    }
    if (r < 0 && r != -ENOTSUP) /* a format that this build does not decode has no tiles */
        return r;
    kind = ctl_jpegs_of(s->files.of[0].image.bytes, s->files.of[0].image.len);
    (void)atomic_fetch_add(&t->jpegs, kind.all);
    (void)atomic_fetch_add(&t->progressive, kind.progressive);
    if (tiles.found) {
        r = hint_cache_put(t->hints, sample, tiles.found, tiles.found_len, tiles.found_max,
                           tiles.len);
        if (r < 0)
            return r;
        tiles.len = tiles.found_len;
    }
    (void)atomic_fetch_add(tiles.len > 0 ? &t->recorded : &t->without, 1);
    (void)atomic_fetch_add(&t->bytes, tiles.len);
    return 0;
}

static void show_tiles(void *arg, uint64_t done, uint64_t total)
{
    ctl_show_progress(arg, "looking for tiles", done, total);
}

/* Report why hints cannot be stored. */
static int refuse_tiles(const struct dataset *d, int code, struct plenum_error *err)
{
    const char *path = dataset_get_index_path(d), *where = path ? path : "there is no cache folder";

    if (dataset_is_generated(d))
        return error_set(err, -EINVAL,
                         "--tiles: the images of %s are generated: there are no JPEGs",
                         dataset_get_name(d));
    if (code == -EFBIG)
        return error_set(err, code, "--tiles: the samples of %s are too small to have tiles",
                         dataset_get_name(d));
    if (code == -EROFS || code == -EACCES)
        return error_set(
            err, code,
            "--tiles: the hints cannot be written beside the index (%s): name a folder that you "
            "can write to with --cache-dir, and give the loader the same one",
            where);
    if (code == -ENOSPC)
        return error_set(err, code,
                         "--tiles: there is no room for all hints: either the disk of %s is full, "
                         "or the hints have reached 1/25 of the size of the data set, their limit; "
                         "in that case remove %s.notes and run this again",
                         path, path);
    return error_set(err, code, "--tiles: %s.notes: %s", path, strerror(-code));
}

static int find_all_tiles(struct tiles *t, uint32_t threads, struct plenum_error *err)
{
    struct parallel loop = {.threads = threads ? threads : parallel_cpus(),
                            .count = dataset_get_samples(t->dataset),
                            .turn = index_tiles,
                            .progress = show_tiles,
                            .arg = t};
    int r;

    t->hints = dataset_get_hints(t->dataset);
    r = t->hints ? hint_cache_state(t->hints) : dataset_get_hints_code(t->dataset);
    if (!t->hints || r == -EROFS)
        return refuse_tiles(t->dataset, r, err);
    t->scratches = calloc(loop.threads, sizeof(*t->scratches));
    r = t->scratches ? parallel_run(&loop) : -ENOMEM;
    ctl_end_progress();
    for (unsigned i = 0; t->scratches && i < loop.threads; i++)
        render_scratch_fini(&t->scratches[i]);
    free(t->scratches);
    if (r == 0)
        return 0;
    return hint_cache_state(t->hints) < 0
               ? refuse_tiles(t->dataset, hint_cache_state(t->hints), err)
               : error_set(err, r,
                           "%s: a sample could not be read: %s; plenumctl verify shows which",
                           dataset_get_name(t->dataset), strerror(-r));
}

static void print_json(struct json *j, const struct dataset *d, const struct tiles *t)
{
    char text[33];

    json_begin_object(j, NULL, JSON_FLAT);
    json_text(j, "name", dataset_get_name(d));
    json_number(j, "samples", dataset_get_samples(d));
    json_number(j, "classes", dataset_get_classes(d));
    json_number(j, "bytes", dataset_get_bytes(d));
    json_number(j, "passed_over", dataset_get_skipped(d));
    json_text(j, "warning", *dataset_get_warning(d) ? dataset_get_warning(d) : NULL);
    json_text(j, "fingerprint", datasum_hex(dataset_get_fingerprint(d), text));
    json_text(j, "index", dataset_get_index_path(d));
    if (t) {
        json_begin_object(j, "tiles", JSON_FLAT);
        json_number(j, "samples", atomic_load(&t->recorded));
        json_number(j, "without", atomic_load(&t->without));
        json_number(j, "bad", atomic_load(&t->bad));
        json_number(j, "progressive", atomic_load(&t->progressive));
        json_number(j, "bytes", atomic_load(&t->bytes));
        json_end_object(j);
    }
    json_number(j, "known_bad", dataset_get_known_bad(d));
    json_text(j, "bad_list", dataset_get_known_bad(d) > 0 ? dataset_get_bad_path(d) : NULL);
    json_end_object(j);
}

static void print_tiles(const struct dataset *d, const struct tiles *t)
{
    struct ctl_jpegs jpegs = {atomic_load(&t->jpegs), atomic_load(&t->progressive)};
    char bytes[32];

    printf("tiles        of %llu samples, in %s (%.2f %% of the data)",
           (unsigned long long)atomic_load(&t->recorded),
           format_bytes(atomic_load(&t->bytes), bytes, sizeof(bytes)),
           100 * (double)atomic_load(&t->bytes) / (double)dataset_get_bytes(d));
    if (atomic_load(&t->without) > 0)
        printf("; %llu need none or cannot have any", (unsigned long long)atomic_load(&t->without));
    if (atomic_load(&t->bad) > 0)
        printf("; %llu are bad (see plenumctl verify)", (unsigned long long)atomic_load(&t->bad));
    putchar('\n');
    ctl_print_progressive(&jpegs, false);
}

static void print_text(const struct dataset *d, const struct tiles *t, double seconds)
{
    const char *path = dataset_get_index_path(d);
    char name[4096], bytes[32], text[33];

    printf("data set     %s\n", ctl_plain_name(d, name, sizeof(name)));
    printf("samples      %u in %u classes, %s\n", dataset_get_samples(d), dataset_get_classes(d),
           format_bytes(dataset_get_bytes(d), bytes, sizeof(bytes)));
    if (*dataset_get_warning(d))
        printf("warning      %s\n", dataset_get_warning(d));
    if (dataset_get_skipped(d) > 0)
        printf("skipped      %llu files with other names than %s\n",
               (unsigned long long)dataset_get_skipped(d), dataset_image_names());
    printf("fingerprint  %s\n", datasum_hex(dataset_get_fingerprint(d), text));
    printf("index        %s\n", path ? path : "in memory only: the cache folder is not writable");
    if (dataset_get_known_bad(d) > 0)
        printf("known bad    %u of them: %s\n", dataset_get_known_bad(d), dataset_get_bad_path(d));
    if (t)
        print_tiles(d, t);
    printf("time         %.2f s\n", seconds);
}

/* Compare a data set with the index in a file. Returns 0 if they are equal, 1 if not, or -errno. */
static int compare(const struct dataset *d, const char *path, struct plenum_error *err)
{
    char difference[1024];
    int r = dataset_compare(d, path, difference, sizeof(difference), err);

    if (r < 0)
        return r;
    if (difference[0])
        fprintf(stderr, "plenumctl index: the two indices differ: %s\n", difference);
    return difference[0] != '\0';
}

static void print_result(struct index_arguments *a, const struct dataset *dataset,
                         const struct tiles *tiles, uint64_t begin_ns)
{
    if (a->json) {
        print_json(&a->output, dataset, tiles);
        return;
    }
    if (a->shown++ > 0)
        putchar('\n');
    print_text(dataset, tiles, (double)(time_now_ns() - begin_ns) / (double)NS_PER_SEC);
}

/* Index one data set. Returns 1 if it differs from the index in --compare. */
static int index_one(void *arg, const char *name, struct plenum_error *err)
{
    struct index_arguments *a = arg;
    struct dataset_options options = {
        .cache_dir = a->cache_dir, .threads = a->threads, .rebuild = a->rebuild, .hints = a->tiles};
    struct tiles tiles = {0};
    char *uploaded = NULL;
    uint64_t begin = time_now_ns();
    int r = ctl_files_open(name, &options, &tiles.dataset, err);

    if (r < 0)
        return r;
    r = a->tiles ? find_all_tiles(&tiles, a->threads, err) : 0;
    if (r == 0 && a->upload)
        r = sidecar_upload(tiles.dataset, &uploaded, err);
    if (r == 0)
        print_result(a, tiles.dataset, a->tiles ? &tiles : NULL, begin);
    if (uploaded && !a->json)
        printf("uploaded     %s\n", uploaded);
    free(uploaded);
    if (r == 0 && a->compare)
        r = compare(tiles.dataset, a->compare, err);
    dataset_unref(tiles.dataset);
    return r;
}

static void print_plan(struct index_arguments *a, const struct dataset *d, uint32_t positions)
{
    const char *warning = dataset_get_warning(d);

    if (a->json) {
        json_end_array(&a->output);
        json_text(&a->output, "plan", dataset_get_name(d));
        json_text(&a->output, "warning", *warning ? warning : NULL);
        json_number(&a->output, "positions", positions);
        json_end_object(&a->output);
        return;
    }
    printf("\nplan         %s: epochs of %u positions\n", dataset_get_name(d), positions);
    if (*warning)
        printf("warning      %s\n", warning);
}

/* Index the data sets of a plan, then open it as a whole, which makes its tables. */
static int index_plan(const char *name, struct index_arguments *a, struct plenum_error *err)
{
    struct dataset_options options = {.cache_dir = a->cache_dir, .threads = a->threads};
    struct order order = {0};
    struct dataset *dataset;
    int r;

    if (a->compare)
        return error_set(err, -EINVAL, "--compare: this is a plan: compare each of its data sets");
    if (a->json) {
        json_begin_object(&a->output, NULL, JSON_LINES);
        json_begin_array(&a->output, "sets", JSON_LINES);
    }
    r = ctl_for_each(name, index_one, a, err);
    if (r < 0)
        return r;
    r = ctl_dataset_open(name, &options, &dataset, err);
    if (r < 0)
        return r;
    r = dataset_set_order(dataset, &order, err);
    if (r == 0)
        print_plan(a, dataset, order.n);
    dataset_unref(dataset);
    return r;
}

static int run(int argc, char **argv)
{
    struct index_arguments a = {.output.file = stdout};
    struct plenum_error err;
    int r;

    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    r = ctl_is_plan(argv[1]) ? index_plan(argv[1], &a, &err) : index_one(&a, argv[1], &err);
    return r < 0 ? ctl_fail("index", &err) : r;
}

const struct ctl_command ctl_index = {
    .name = "index",
    .summary = "index a data set and show what it contains",
    .run = run,
};

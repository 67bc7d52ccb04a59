/* SPDX-License-Identifier: MIT */
/* render.c - bench/render: training images per second and core, rendered in several ways.
 *
 * All rows see the same photographs and, if they crop, the same crops: those that Plenum draws. The
 * photographs are loaded into memory in advance; nothing here reads files or waits. See bench.h for
 * how rows are compared, and bench/README.md for a description of each row. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/forms.h"
#include "common/options/options.h"
#include "common/pipeline/views.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "loader/image/resize/crop.h"
#ifdef HAVE_FFCV_WAY
#include "bench/ffcv.h"
#endif

struct arguments {
    const char *images, *pipeline, *rows;
    uint32_t rounds, limit, seed;
    bool json, kernels, forms;
};

/* The entry points of one file. */
struct hint {
    uint8_t *bytes; /* NULL: none */
    size_t len;
};

/* State shared by the rows. */
struct context {
    struct pipeline pipeline;
    struct image_decoder *decoder;
    struct crop_tables tables;
    uint8_t *dst;               /* [height][width][3] */
    struct pack_result *packed; /* the files, packed */
    size_t num_packed;
    struct hint *hints; /* one per file */
    size_t num_hints;
    uint32_t seed;
#ifdef HAVE_FFCV_WAY
    struct ffcv_way *ffcv;
#endif
};

/* One way of rendering training images. */
struct row {
    const char *name;
    const char *what;
    /* Prepare one more file, untimed; may be NULL. 0, or an error that excludes the file. */
    int (*add)(struct context *c, const struct bench_file *file, size_t index);
    int (*run)(struct context *c, const struct row *row, const struct bench_file *file,
               size_t index, uint32_t round);
    const char *missing; /* why the row is left out; NULL: it is available */
    bool off;            /* not requested */
    const char *recipe;  /* for run_recipe() and run_apart() */
    struct views views;  /* also for these two */
    bool indexed;        /* also for these two: entry points are known */
    /* For run_other(). */
    struct image_decoder *decoder;
};

static struct image_draw draw_of(const struct context *c, size_t index, uint32_t round)
{
    return (struct image_draw){.seed = c->seed, .epoch = round, .position = (uint32_t)index};
}

static int render(const struct context *c, struct image_decoder *decoder,
                  const struct image_file *file, size_t index, uint32_t round)
{
    const struct image_store store = {PLENUM_INT8, PLENUM_NHWC, 3};
    struct image_view view = {
        .pipeline = &c->pipeline, .draw = draw_of(c, index, round), .dst = c->dst};

    return image_render(decoder, &view, &store, file, NULL);
}

static int run_plain(struct context *c, const struct row *row, const struct bench_file *file,
                     size_t index, uint32_t round)
{
    (void)row;
    return render(c, c->decoder, &(struct image_file){file->bytes, file->len}, index, round);
}

/* List all images that a recipe renders from a file, one after the other. */
static uint32_t list_images(const struct context *c, const struct row *row, size_t index,
                            uint32_t round, struct image_view ret[VIEWS_IMAGES_MAX])
{
    uint8_t *at = c->dst;
    uint32_t n = 0;

    for (uint32_t i = 0; i < row->views.count; i++)
        for (uint32_t k = 0; k < row->views.view[i].count; k++, n++) {
            const struct pipeline *p = &row->views.view[i].pipeline;

            ret[n] =
                (struct image_view){.pipeline = p, .draw = draw_of(c, index, round), .dst = at};
            ret[n].draw.view = n;
            at += (size_t)p->width * p->height * 3;
        }
    return n;
}

static void use_tiles(struct context *c, const struct row *row, size_t index,
                      struct image_tiles *tiles)
{
    if (!row->indexed)
        return;
    tiles->hint = c->hints[index].bytes;
    tiles->len = c->hints[index].len;
    image_decoder_use_tiles(c->decoder, tiles);
}

static int run_recipe(struct context *c, const struct row *row, const struct bench_file *file,
                      size_t index, uint32_t round)
{
    const struct image_store store = {PLENUM_INT8, PLENUM_NHWC, 3};
    struct image_tiles tiles = {0};
    struct image_view views[VIEWS_IMAGES_MAX];
    uint32_t count = list_images(c, row, index, round, views);
    int r;

    use_tiles(c, row, index, &tiles);
    r = image_render_views(c->decoder, views, count, &store,
                           &(struct image_file){file->bytes, file->len}, NULL);
    image_decoder_use_tiles(c->decoder, NULL);
    return r;
}

/* Render the same images, decoding again for each. */
static int run_apart(struct context *c, const struct row *row, const struct bench_file *file,
                     size_t index, uint32_t round)
{
    const struct image_store store = {PLENUM_INT8, PLENUM_NHWC, 3};
    struct image_tiles tiles = {0};
    struct image_view views[VIEWS_IMAGES_MAX];
    uint32_t count = list_images(c, row, index, round, views);
    int r = 0;

    use_tiles(c, row, index, &tiles);
    for (uint32_t i = 0; r == 0 && i < count; i++)
        r = image_render_views(c->decoder, &views[i], 1, &store,
                               &(struct image_file){file->bytes, file->len}, NULL);
    image_decoder_use_tiles(c->decoder, NULL);
    return r;
}

/* Pack a file; it may replace one that another row refused. */
static int add_packed(struct context *c, const struct bench_file *file, size_t index)
{
    struct pack_result result;
    int r = image_pack(c->decoder, &(struct image_file){file->bytes, file->len}, &result, NULL);

    if (r < 0 || !result.bytes)
        return r < 0 ? r : -EOPNOTSUPP;
    if (index >= c->num_packed) {
        struct pack_result *grown = realloc(c->packed, (index + 1) * sizeof(*grown));

        if (!grown) {
            free(result.bytes);
            return -ENOMEM;
        }
        c->packed = grown;
        memset(&grown[c->num_packed], 0, (index + 1 - c->num_packed) * sizeof(*grown));
        c->num_packed = index + 1;
    }
    free(c->packed[index].bytes);
    c->packed[index] = result;
    return 0;
}

static int run_packed(struct context *c, const struct row *row, const struct bench_file *file,
                      size_t index, uint32_t round)
{
    (void)row;
    (void)file;
    return render(c, c->decoder, &(struct image_file){c->packed[index].bytes, c->packed[index].len},
                  index, round);
}

/* Record a file's entry points. */
static int add_indexed(struct context *c, const struct bench_file *file, size_t index)
{
    struct image_tiles tiles = {0};
    int r =
        image_find_tiles(c->decoder, &(struct image_file){file->bytes, file->len}, &tiles, NULL);

    if (r < 0)
        return r;
    if (index >= c->num_hints) {
        struct hint *grown = realloc(c->hints, (index + 1) * sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        c->hints = grown;
        memset(&grown[c->num_hints], 0, (index + 1 - c->num_hints) * sizeof(*grown));
        c->num_hints = index + 1;
    }
    free(c->hints[index].bytes);
    c->hints[index] = (struct hint){0};
    if (!tiles.found)
        return 0;
    c->hints[index] = (struct hint){malloc(tiles.found_len), tiles.found_len};
    if (!c->hints[index].bytes)
        return -ENOMEM;
    memcpy(c->hints[index].bytes, tiles.found, tiles.found_len);
    return 0;
}

static int render_with(struct context *c, struct image_tiles *tiles, const struct bench_file *file,
                       size_t index, uint32_t round)
{
    int r;

    image_decoder_use_tiles(c->decoder, tiles);
    r = render(c, c->decoder, &(struct image_file){file->bytes, file->len}, index, round);
    image_decoder_use_tiles(c->decoder, NULL);
    return r;
}

static int run_indexed(struct context *c, const struct row *row, const struct bench_file *file,
                       size_t index, uint32_t round)
{
    struct image_tiles tiles = {.hint = c->hints[index].bytes, .len = c->hints[index].len};

    (void)row;
    return render_with(c, &tiles, file, index, round);
}

static int run_indexing(struct context *c, const struct row *row, const struct bench_file *file,
                        size_t index, uint32_t round)
{
    struct image_tiles tiles = {0};

    (void)row;
    return render_with(c, &tiles, file, index, round);
}

/* Size of the hints relative to the files; 0 if there are none. */
static double hints_size(const struct context *c, const struct bench_files *files)
{
    double bytes = 0;

    for (size_t i = 0; i < files->count && i < c->num_hints; i++)
        bytes += (double)c->hints[i].len;
    return bytes / (double)files->bytes;
}

/* Size of packed files relative to the originals; 0 if none was packed. */
static double packed_size(const struct context *c, const struct bench_files *files)
{
    double bytes = 0;

    for (size_t i = 0; i < files->count && i < c->num_packed; i++)
        bytes += (double)c->packed[i].len;
    return bytes / (double)files->bytes;
}

/* Render the same images with other loops, or another decoder. */
static int run_other(struct context *c, const struct row *row, const struct bench_file *file,
                     size_t index, uint32_t round)
{
    return render(c, row->decoder, &(struct image_file){file->bytes, file->len}, index, round);
}

/* Decode the whole image to RGB rows, which are not kept. */
static int run_full_decode(struct context *c, const struct row *row, const struct bench_file *file,
                           size_t index, uint32_t round)
{
    (void)c;
    (void)row;
    (void)index;
    (void)round;
    return forms_full_decode(file, NULL);
}

/* The same with our own decoders, plus a hash of the pixels. */
static int run_verify(struct context *c, const struct row *row, const struct bench_file *file,
                      size_t index, uint32_t round)
{
    (void)row;
    (void)index;
    (void)round;
    return image_verify(c->decoder, &(struct image_file){file->bytes, file->len}, NULL, NULL);
}

#ifdef HAVE_FFCV_WAY
static int run_ffcv_way(struct context *c, const struct row *row, const struct bench_file *file,
                        size_t index, uint32_t round)
{
    struct image_draw draw = draw_of(c, index, round);
    struct crop crop;

    (void)row;
    crop_locate(&c->pipeline, &draw, file->width, file->height, &c->tables, &crop);
    return ffcv_way_render(c->ffcv, file->bytes, file->len, &crop.box, c->pipeline.width, c->dst);
}
#define FFCV_MISSING NULL
#else
#define run_ffcv_way NULL
#define FFCV_MISSING \
    "libturbojpeg0-dev, libopencv-dev or a C++ compiler was missing when this was built"
#endif

#define FFCV_ROW "ffcv-way" /* the reference for the other rows */
#define FULL_ROW "full-decode"
#define WHOLE_ROW "plenum-decode"
#define LIBJPEG_ROW "plain-libjpeg"
#define PLAIN_ROW "plain"
#define INDEXED_ROW "plain-indexed"
#define FORM_ROWS /* for --forms */ \
    FULL_ROW "," WHOLE_ROW "," LIBJPEG_ROW "," PLAIN_ROW "," INDEXED_ROW

#define SIMCLR                                                                   \
    "rrc(224) flip(0.5) color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8) grayscale(0.2) " \
    "blur(23, 0.1:2, p=0.5) solarize(128, p=0.2)"
#define PAIR "view(view, 2, rrc(224) flip(0.5))"
#define DINO                                                                    \
    "view(global, 2, rrc(224, scale=0.32:1, interpolation=bicubic) flip(0.5)) " \
    "view(local, 8, rrc(96, scale=0.05:0.32, interpolation=bicubic) flip(0.5))"

/* --kernels fills in the last ones. */
static struct row rows[] = {
    {.name = FULL_ROW,
     .what = "libjpeg-turbo: the whole image, accurate inverse DCT, no resize",
     .run = run_full_decode},
    {.name = WHOLE_ROW, .what = "Plenum: the whole image, and a hash of it", .run = run_verify},
    {.name = FFCV_ROW,
     .what = "TurboJPEG whole image, fast inverse DCT; OpenCV INTER_AREA of the crop",
     .run = run_ffcv_way,
     .missing = FFCV_MISSING},
    {.name = PLAIN_ROW, .what = "Plenum, version 1, files as they lie", .run = run_plain},
    {.name = LIBJPEG_ROW,
     .what = "the same, by libjpeg-turbo instead of Plenum's own decoder",
     .run = run_other},
    {.name = "plain-indexing",
     .what = "plain in a first epoch: the same, and noting where tiles begin",
     .run = run_indexing},
    {.name = INDEXED_ROW,
     .what = "plain in later epochs: only the tiles under the crop",
     .add = add_indexed,
     .run = run_indexed},
    {.name = "packed",
     .what = "Plenum, version 1, the same pixels from packed files",
     .add = add_packed,
     .run = run_packed},
    {.name = "recipe-torchvision",
     .what = "the recipe of torchvision's references, V2",
     .run = run_recipe,
     .recipe = "rrc(176) flip(0.5) trivial_augment_wide(interpolation=bilinear) "
               "erase(0.1, value=124:116:104)"},
    {.name = "recipe-timm",
     .what = "timm's rand-m9-mstd0.5-inc1 with jitter and erasing",
     .run = run_recipe,
     .recipe = "rrc(224, interpolation=random) flip(0.5) color_jitter(0.4, 0.4, 0.4) "
               "rand_augment(2, 9, mstd=0.5, inc=1) erase(0.25, value=pixel)"},
    {.name = "recipe-simclr",
     .what = "SimCLR's and DINO's global crop",
     .run = run_recipe,
     .recipe = SIMCLR},
    {.name = "recipe-jitter",
     .what = "a jitter of four parts",
     .run = run_recipe,
     .recipe = "rrc(224) flip(0.5) color_jitter(0.4, 0.4, 0.4, 0.1)"},
    {.name = "views-pair",
     .what = "two views like plain, from one decode; a second is of files",
     .run = run_recipe,
     .recipe = PAIR},
    {.name = "views-pair-indexed",
     .what = "the same in later epochs",
     .add = add_indexed,
     .run = run_recipe,
     .recipe = PAIR,
     .indexed = true},
    {.name = "views-simclr",
     .what = "two views of recipe-simclr, from one decode; files a second",
     .run = run_recipe,
     .recipe = "view(view, 2, " SIMCLR ")"},
    {.name = "views-dino",
     .what = "DINOv2's ten crops without its colours, from one decode; files a second",
     .run = run_recipe,
     .recipe = DINO},
    {.name = "dino-apart",
     .what = "the same ten images, each from a decode of its own",
     .run = run_apart,
     .recipe = DINO},
    {.name = "views-dino-indexed",
     .what = "views-dino in later epochs",
     .add = add_indexed,
     .run = run_recipe,
     .recipe = DINO,
     .indexed = true},
    {.name = "dino-apart-indexed",
     .what = "dino-apart in later epochs",
     .add = add_indexed,
     .run = run_apart,
     .recipe = DINO,
     .indexed = true},
    {.what = "the same with other loops", .run = run_other},
    {.what = "the same with other loops", .run = run_other},
};

enum { ROWS = ARRAY_LEN(rows), OTHERS = ROWS - 2, BLOCK = 25 };

static bool shown(const struct row *row)
{
    return !row->off && !row->missing;
}

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0, "folder of photographs (required)", NULL},
    {"pipeline", 'p', "TEXT", OPTION_TEXT, AT(pipeline), 0, 0,
     "rrc pipeline to render (default: train)", NULL},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, 10000,
     "rounds over all photographs and rows (default 15)", NULL},
    {"limit", 'l', "N", OPTION_U32, AT(limit), 1, 0, "only the first N photographs", NULL},
    {"seed", 's', "N", OPTION_U32, AT(seed), 0, 0, "seed of the crops (default 1)", NULL},
    {"kernels", 'k', NULL, OPTION_FLAG, AT(kernels), 0, 0,
     "also with every other set of loops that this processor can use", NULL},
    {"forms", 0, NULL, OPTION_FLAG, AT(forms), 0, 0,
     "photographs rewritten in each form of JPEG, PNG, WebP and AVIF, compared with the formats' "
     "libraries",
     NULL},
    {"rows", 0, "NAME[,NAME...]", OPTION_TEXT, AT(rows), 0, 0,
     "only these rows, to profile one (default: all)", NULL},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, "print JSON", NULL},
};

static const struct options_program program = {
    .name = "bench/render",
    .usage = "--images DIR [options]",
    .summary = "Training images a second of one core, in CPU time: Plenum beside other ways.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* Can all rows process a file? */
static bool suits_all(struct context *c, const struct bench_file *file, size_t index)
{
    for (size_t k = 0; k < ROWS; k++) {
        const struct row *row = &rows[k];

        if (!shown(row))
            continue;
        if ((row->add && row->add(c, file, index) < 0) || row->run(c, row, file, index, 0) < 0)
            return false;
    }
    return true;
}

/* Leave out files that any row cannot process, so that all rows do the same work. */
static void keep_common_files(struct context *c, struct bench_files *files)
{
    size_t kept = 0;

    for (size_t i = 0; i < files->count; i++) {
        struct bench_file *file = &files->files[i];

        if (suits_all(c, file, kept)) {
            files->files[kept++] = *file;
            continue;
        }
        files->bytes -= file->len;
        free(file->bytes);
        free(file->path);
        files->refused++;
    }
    files->count = kept;
}

/* One round: rates[row] in images per second. */
static void run_round(struct context *c, const struct bench_files *files, uint32_t round,
                      double *rates)
{
    uint64_t ns[ROWS] = {0};

    for (size_t at = 0; at < files->count; at += BLOCK) {
        for (size_t k = 0; k < ROWS; k++) {
            size_t row = (k + at / BLOCK + round) % ROWS;
            uint64_t start = time_cpu_ns();

            for (size_t i = at; shown(&rows[row]) && i < files->count && i < at + BLOCK; i++)
                (void)rows[row].run(c, &rows[row], &files->files[i], i, round);
            ns[row] += time_cpu_ns() - start;
        }
    }
    for (size_t k = 0; k < ROWS; k++)
        rates[k] = (double)files->count * 1e9 / (double)ns[k];
}

struct report {
    const struct arguments *arguments;
    const struct context *context;
    const struct bench_files *files;
    size_t base;            /* the reference row for ratios */
    double *rates, *column; /* [rounds][ROWS], [rounds] */
};

/* A row's images per second, divided round by round by another row's; NO_ROW: by 1. */
enum { NO_ROW = ROWS };

static struct bench_spread spread_of(const struct report *report, size_t row, size_t other)
{
    uint32_t rounds = report->arguments->rounds;

    for (uint32_t r = 0; r < rounds; r++)
        report->column[r] =
            report->rates[r * ROWS + row] / (other == NO_ROW ? 1 : report->rates[r * ROWS + other]);
    return bench_spread_of(report->column, rounds);
}

static void print_json(const struct report *report)
{
    struct json j;

    bench_json_begin(&j, "render");
    json_text(&j, "unit", "images/s of one core, CPU time");
    json_number(&j, "images", report->files->count);
    json_number(&j, "left_out", report->files->refused);
    json_number(&j, "rounds", report->arguments->rounds);
    json_text(&j, "pipeline", report->context->pipeline.text);
    json_text(&j, "ratios_to", rows[report->base].name);
    json_real(&j, "packed_size", packed_size(report->context, report->files), 4);
    json_real(&j, "index_size", hints_size(report->context, report->files), 4);
    json_begin_array(&j, "rows", false);
    for (size_t k = 0; k < ROWS; k++) {
        struct bench_spread rate, ratio;

        if (!shown(&rows[k]))
            continue;
        rate = spread_of(report, k, NO_ROW);
        ratio = spread_of(report, k, report->base);
        json_begin_object(&j, NULL, true);
        json_text(&j, "name", rows[k].name);
        bench_json_spread(&j, &rate, 1);
        json_begin_object(&j, "ratio", true);
        bench_json_spread(&j, &ratio, 3);
        json_end_object(&j);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "missing", false);
    for (size_t k = 0; k < ROWS; k++) {
        if (!rows[k].missing)
            continue;
        json_begin_object(&j, NULL, true);
        json_text(&j, "name", rows[k].name);
        json_text(&j, "why", rows[k].missing);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void print_table(const struct report *report)
{
    char cpu[128], ratios[64];

    bench_cpu_name(cpu, sizeof(cpu));
    (void)snprintf(ratios, sizeof(ratios), "to %s", rows[report->base].name);
    printf("%zu photographs (%.1f KiB each; %zu left out), %u rounds, %s\n%s\n\n"
           "%-18s %28s   %22s\n%-18s %8s %9s %9s   %6s %7s %7s\n",
           report->files->count, (double)report->files->bytes / 1024 / (double)report->files->count,
           report->files->refused, report->arguments->rounds, report->context->pipeline.text, cpu,
           "", "images/s of one core", ratios, "row", "min", "median", "max", "min", "median",
           "max");
    for (size_t k = 0; k < ROWS; k++) {
        struct bench_spread r, q;

        if (!shown(&rows[k]))
            continue;
        r = spread_of(report, k, NO_ROW);
        q = spread_of(report, k, report->base);
        printf("%-18s %8.1f %9.1f %9.1f   %6.3f %7.3f %7.3f\n", rows[k].name, r.min, r.median,
               r.max, q.min, q.median, q.max);
    }
    putchar('\n');
    for (size_t k = 0; k < ROWS; k++)
        if (shown(&rows[k]))
            printf("%-18s %s\n", rows[k].name, rows[k].what);
        else if (rows[k].missing)
            printf("%s is left out: %s\n", rows[k].name, rows[k].missing);
    if (report->context->num_hints > 0)
        printf("the index of tiles has %.4f of the bytes\n",
               hints_size(report->context, report->files));
    if (report->context->num_packed > 0)
        printf("packed files have %.4f of the bytes\n",
               packed_size(report->context, report->files));
}

/* FFCV's method, or its replacement if that is not available. */
static size_t find_base(void)
{
    size_t first = ROWS;

    for (size_t k = ROWS; k-- > 0;) {
        if (!shown(&rows[k]))
            continue;
        if (strcmp(rows[k].name, FFCV_ROW) == 0)
            return k;
        first = k;
    }
    return first;
}

static int measure(struct context *c, struct report *report)
{
    uint32_t rounds = report->arguments->rounds;

    report->rates = calloc((size_t)rounds * ROWS, sizeof(*report->rates));
    report->column = calloc(rounds, sizeof(*report->column));
    if (!report->rates || !report->column)
        return -ENOMEM;
    for (uint32_t round = 0; round < rounds; round++)
        run_round(c, report->files, round + 1, report->rates + (size_t)round * ROWS);
    return 0;
}

static void report_fini(struct report *report)
{
    free(report->rates);
    free(report->column);
}

static int compare_rows(const struct arguments *a, struct context *c, struct bench_files *files,
                        struct plenum_error *err)
{
    struct report report = {.arguments = a, .context = c, .files = files, .base = find_base()};
    int r;

    keep_common_files(c, files);
    if (files->count == 0)
        return error_set(err, -ENOENT, "%s: no photograph suits all rows", a->images);
    r = measure(c, &report);
    if (r == 0)
        (a->json ? print_json : print_table)(&report);
    report_fini(&report);
    return r;
}

static size_t find_row(const char *name)
{
    size_t k = 0;

    while (strcmp(rows[k].name, name) != 0)
        k++;
    return k;
}

/* The columns of --forms, each a row relative to another. libjpeg-turbo cannot decode the other
 * forms. */
static const struct column {
    const char *title, *key, *row, *other;
    bool jpeg;
} columns[] = {
    {"whole to full", "whole_to_full_decode", WHOLE_ROW, FULL_ROW, false},
    {"first to full", "first_to_full_decode", PLAIN_ROW, FULL_ROW, false},
    {"later to full", "later_to_full_decode", INDEXED_ROW, FULL_ROW, false},
    {"first to turbo", "first_to_libjpeg", PLAIN_ROW, LIBJPEG_ROW, true},
    {"later to turbo", "later_to_libjpeg", INDEXED_ROW, LIBJPEG_ROW, true},
};

static void print_forms_head(const struct arguments *a, const struct context *c,
                             const struct bench_files *files, struct json *j)
{
    char cpu[128];

    if (a->json) {
        bench_json_begin(j, "render --forms");
        json_text(j, "unit", "images/s of one core, CPU time");
        json_number(j, "images", files->count);
        json_number(j, "rounds", a->rounds);
        json_text(j, "pipeline", c->pipeline.text);
        json_begin_array(j, "forms", false);
        return;
    }
    bench_cpu_name(cpu, sizeof(cpu));
    printf("%zu photographs, %u rounds, %s\n%s\n\n%-12s %9s %7s %8s", files->count, a->rounds,
           c->pipeline.text, cpu, "form", "KiB each", "full/s", "first/s");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        printf("  %19s", columns[i].title);
    putchar('\n');
}

static void print_form(const struct form *form, const struct report *report, struct json *j)
{
    const struct bench_files *files = report->files;
    double kib = (double)files->bytes / 1024 / (double)files->count;
    struct bench_spread full = spread_of(report, find_row(FULL_ROW), NO_ROW);
    struct bench_spread first = spread_of(report, find_row(PLAIN_ROW), NO_ROW);

    if (report->arguments->json) {
        json_begin_object(j, NULL, false);
        json_text(j, "name", form->name);
        json_number(j, "left_out", files->refused);
        json_real(j, "kib_each", kib, 1);
        json_begin_object(j, "full_decode", true);
        bench_json_spread(j, &full, 1);
        json_end_object(j);
        json_begin_object(j, "first", true);
        bench_json_spread(j, &first, 1);
        json_end_object(j);
    } else {
        printf("%-12s %9.1f %7.0f %8.0f", form->name, kib, full.median, first.median);
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const struct column *col = &columns[i];
        bool there = form->jpeg || !col->jpeg;
        struct bench_spread q = {0};

        if (there)
            q = spread_of(report, find_row(col->row), find_row(col->other));
        if (!report->arguments->json && there) {
            printf("  %5.2f (%5.2f %5.2f)", q.median, q.min, q.max);
        } else if (!report->arguments->json) {
            printf("  %19s", "");
        } else if (there) {
            json_begin_object(j, col->key, true);
            bench_json_spread(j, &q, 3);
            json_end_object(j);
        } else {
            json_null(j, col->key);
        }
    }
    if (report->arguments->json)
        json_end_object(j);
    else
        putchar('\n');
    (void)fflush(stdout);
}

/* Convert all photographs to a form; those that cannot be converted are left out. */
static int make_form(const struct form *form, const struct bench_files *from,
                     struct bench_files *ret)
{
    int r = 0;

    *ret = (struct bench_files){.files = calloc(from->count, sizeof(*ret->files))};
    if (!ret->files)
        return -ENOMEM;
    for (size_t i = 0; i < from->count; i++) {
        r = form_make(form, &from->files[i], &ret->files[ret->count]);
        if (r == 0)
            ret->bytes += ret->files[ret->count++].len;
        else if (r == -EBADMSG)
            ret->refused++;
        else
            return r;
    }
    return 0;
}

static int measure_form(const struct form *form, const struct arguments *a, struct context *c,
                        const struct bench_files *photographs, struct json *j)
{
    struct bench_files files;
    struct report report = {.arguments = a, .context = c, .files = &files};
    int r = make_form(form, photographs, &files);

    if (r == 0)
        keep_common_files(c, &files);
    if (r == 0 && files.count > 0) {
        r = measure(c, &report);
        if (r == 0)
            print_form(form, &report, j);
    }
    report_fini(&report);
    bench_files_free(&files);
    return r;
}

static int compare_forms(const struct arguments *a, struct context *c,
                         const struct bench_files *files)
{
    struct json j;
    int r = 0;

    print_forms_head(a, c, files, &j);
    for (const struct form *f = forms; r == 0 && f->name; f++) {
        r = measure_form(f, a, c, files, &j);
        if (r == -EOPNOTSUPP) {
            if (!a->json)
                printf("%-12s is left out: this build has no encoder for it\n", f->name);
            r = 0;
        }
    }
    if (a->json) {
        json_end_array(&j);
        json_end_object(&j);
        return r;
    }
    printf("\nfull   the format's own library decodes the whole picture: libjpeg-turbo, libpng, "
           "libwebp, libavif\nturbo  libjpeg-turbo decodes what lies under the crop, for the same "
           "pixels\nwhole  Plenum decodes the whole picture, and hashes it\n"
           "first  Plenum in a first epoch; later: it knows where tiles begin\n\n");
    for (const struct form *f = forms; f->name; f++)
        printf("%-12s %s\n", f->name, f->what);
    return r;
}

/* The row of libjpeg's decoder. */
static int add_libjpeg(struct plenum_error *err)
{
    for (size_t k = 0; k < OTHERS; k++) {
        if (strcmp(rows[k].name, LIBJPEG_ROW) != 0)
            continue;
        if (image_decoder_create(&rows[k].decoder) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        image_decoder_use_jpeg(rows[k].decoder, IMAGE_JPEG_LIBJPEG);
    }
    return 0;
}

/* Add a row per set of loops, except for the best one. */
static int add_kernels(struct plenum_error *err)
{
    static char names[ROWS - OTHERS][32];

    for (uint32_t i = 0; i < ROWS - OTHERS; i++) {
        const char *kernels = image_kernels(i + 1);
        struct row *row = &rows[OTHERS + i];

        if (!kernels)
            break;
        if (image_decoder_create(&row->decoder) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        (void)image_decoder_use_kernels(row->decoder, kernels);
        (void)snprintf(names[i], sizeof(names[i]), "plain-%s", kernels);
        row->name = names[i];
    }
    return 0;
}

/* Is the name in the comma-separated list? */
static bool listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || !at[len]))
            return true;
    }
    return false;
}

static int choose_rows(const char *list, struct plenum_error *err)
{
    bool any = false;

    for (size_t k = 0; k < ROWS; k++) {
        rows[k].off = !rows[k].name || (list && !listed(list, rows[k].name));
        any = any || shown(&rows[k]);
    }
    return any ? 0
               : error_set(err, -EINVAL, "--rows: '%s' names no row that is there; see --help",
                           list);
}

/* Parse what a recipe's row renders; a build whose pipelines do not support it leaves the row out.
 * Returns the bytes of its pixels. */
static size_t parse_recipe(struct row *row)
{
    if (!row->recipe)
        return 0;
    if (views_parse(row->recipe, &row->views, NULL) < 0) {
        row->missing = "this build's pipelines do not know all of its words";
        return 0;
    }
    return views_pixels(&row->views) * 3;
}

static int context_init(struct context *c, const struct arguments *a, struct plenum_error *err)
{
    int r = pipeline_parse(a->pipeline, &c->pipeline, err);
    size_t room = 0;

    if (r < 0)
        return r;
    if (c->pipeline.crop != PIPELINE_RRC || c->pipeline.exif)
        return error_set(err, -EINVAL, "--pipeline: the rows are compared on rrc(S) without exif");
    if (a->forms && (a->rows || a->kernels))
        return error_set(err, -EINVAL, "--forms has rows of its own: leave out --rows, --kernels");
    c->seed = a->seed;
    for (size_t k = 0; k < ROWS; k++)
        room = max_u64(room, parse_recipe(&rows[k]));
    c->dst = malloc(max_u64(room, (size_t)c->pipeline.width * c->pipeline.height * 4));
    if (!c->dst || image_decoder_create(&c->decoder) < 0)
        return error_set(err, -ENOMEM, "out of memory");
#ifdef HAVE_FFCV_WAY
    if (ffcv_way_create(&c->ffcv) < 0)
        return error_set(err, -ENOMEM, "TurboJPEG does not start");
#endif
    r = add_libjpeg(err);
    if (r == 0 && a->kernels)
        r = add_kernels(err);
    return r < 0 ? r : choose_rows(a->forms ? FORM_ROWS : a->rows, err);
}

static void context_fini(struct context *c)
{
#ifdef HAVE_FFCV_WAY
    ffcv_way_destroy(c->ffcv);
#endif
    image_decoder_destroy(c->decoder);
    for (size_t k = 0; k < ROWS; k++)
        image_decoder_destroy(rows[k].decoder);
    for (size_t i = 0; i < c->num_packed; i++)
        free(c->packed[i].bytes);
    free(c->packed);
    for (size_t i = 0; i < c->num_hints; i++)
        free(c->hints[i].bytes);
    free(c->hints);
    free(c->dst);
}

int main(int argc, char **argv)
{
    struct arguments a = {.pipeline = "train", .rounds = 15, .seed = 1};
    struct bench_files files = {0};
    struct context c = {0};
    struct plenum_error err = {""};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    r = context_init(&c, &a, &err);
    if (r == 0)
        r = bench_files_load(a.images, a.limit, &files, &err);
    if (r == 0)
        r = a.forms ? compare_forms(&a, &c, &files) : compare_rows(&a, &c, &files, &err);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    bench_files_free(&files);
    context_fini(&c);
    return r < 0;
}

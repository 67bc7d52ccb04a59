/* SPDX-License-Identifier: MIT */
/* prepare.c - bench/prepare: measures benefits and costs of preparing photographs: bytes, time,
 * quality.
 *
 * Each row is a way of storing the same photographs: unchanged, with their entry points known,
 * packed, and packed after a resize (plenumctl pack). Everything is in memory. Rates are those of
 * rendering training images, as in bench/render; see bench.h for how rows are compared. Quality
 * compares images rendered from the stored form with those from the original photographs: the
 * pipeline of an evaluation, and training crops, of which small ones show what a resize has
 * lost. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "common/options/options.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/image/pack/pack.h"
#include "loader/image/resize/crop.h"
#ifdef HAVE_FFCV_WAY
#include "bench/ffcv.h"
#endif

struct bench_prepare_arguments {
    const char *images, *eval;
    uint32_t rounds, limit, seed, quality;
    bool full_chroma, json;
};

/* A file as a row stores it. */
struct kept {
    const uint8_t *bytes; /* the photograph's own, or `packed` */
    size_t len;
    uint8_t *packed; /* malloc, or NULL */
    struct image_tiles tiles;
    uint8_t *hint;          /* entry points: malloc, or NULL */
    uint32_t width, height; /* only for FFCV's row */
};

enum { TRAIN, EVAL, PIPELINES };

/* How close images are to their reference. */
struct quality {
    double squares; /* sum of squared differences */
    uint64_t values;
    double ssim; /* sum over all images */
    uint32_t images;
};

struct prepare_row {
    const char *name, *what;
    bool indexed, packs, ffcv;
    struct pack_resize resize;
    /* For all photographs: */
    struct kept *kept;
    uint64_t bytes, made_ns;
    uint32_t resized;
    struct quality quality[PIPELINES];
    struct bench_spread rate, ratio, to_ffcv;
};

#ifdef HAVE_FFCV_WAY
#define HAS_FFCV_ROW true /* the last row */
#else
#define HAS_FFCV_ROW false
#endif

static struct prepare_row rows[] = {
    {.name = "original", .what = "the original files"},
    {.name = "hints",
     .what = "the original files in later epochs, with hints about where tiles begin",
     .indexed = true},
    {.name = "packed", .what = "plenumctl pack", .packs = true},
    {.name = "longest-500", .what = "pack --longest 500", .packs = true, .resize.longest = 500},
    {.name = "longest-400", .what = "pack --longest 400", .packs = true, .resize.longest = 400},
    {.name = "longest-256", .what = "pack --longest 256", .packs = true, .resize.longest = 256},
    {.name = "shortest-256", .what = "pack --shortest 256", .packs = true, .resize.shortest = 256},
    {.name = "raw", .what = "pack --raw", .packs = true, .resize.raw_share = 100},
    {.name = "raw-longest-500",
     .what = "pack --longest 500 --raw",
     .packs = true,
     .resize = {.longest = 500, .raw_share = 100}},
    {.name = "raw-longest-256",
     .what = "pack --longest 256 --raw",
     .packs = true,
     .resize = {.longest = 256, .raw_share = 100}},
    {.name = "raw-shortest-256",
     .what = "pack --shortest 256 --raw",
     .packs = true,
     .resize = {.shortest = 256, .raw_share = 100}},
#ifdef HAVE_FFCV_WAY
    {.name = "ffcv-raw-256",
     .what = "the pixels of raw-longest-256, rendered by FFCV's method: OpenCV's crop, resize "
             "(INTER_AREA) and flip",
     .packs = true,
     .ffcv = true,
     .resize = {.longest = 256, .raw_share = 100}},
#endif
};

enum { ROWS = ARRAY_LEN(rows), BLOCK = 25, EPOCHS = 4 /* of training crops to compare */ };

struct prepare_context {
    struct pipeline pipeline[PIPELINES];
    struct image_decoder *decoder;
    struct crop_tables tables;
    uint8_t *want, *got;
    uint32_t seed;
};

#define AT(field) offsetof(struct bench_prepare_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), .help = "folder of photographs (required)"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, 10000,
     .help = "rounds over all photographs and rows (default 15)"},
    {"limit", 'l', "N", OPTION_U32, AT(limit), 1, 0, .help = "use only the first N photographs"},
    {"seed", 's', "N", OPTION_U32, AT(seed), 0, 0, .help = "seed of the crops (default 1)"},
    {"quality", 'q', "Q", OPTION_U32, AT(quality), 1, 100,
     .help = "quality of the JPEGs of shrunk images (default 90)"},
    {"444", 0, NULL, OPTION_FLAG, AT(full_chroma),
     .help = "write these JPEGs without chroma subsampling (4:4:4)"},
    {"eval", 'e', "TEXT", OPTION_TEXT, AT(eval),
     .help = "pipeline of an evaluation, of 224x224 pixels (default: eval)"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct options_program program = {
    .name = "bench/prepare",
    .usage = "--images DIR [options]",
    .summary =
        "Measure what preparing a data set gains and costs: bytes, training images per second of "
        "one core, and quality.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* --- preparing --- */

static int keep_packed(struct prepare_context *c, struct prepare_row *row,
                       const struct bench_file *file, struct kept *k)
{
    struct pack_result result;
    int r = (row->resize.raw_share ? image_pack_raw : image_pack_resized)(
        c->decoder, &row->resize, &(struct image_file){file->bytes, file->len}, &result, NULL);

    if (r < 0 || !result.bytes)
        return r;
    if (row->ffcv) {
        struct image_info info;

        r = image_verify(c->decoder, &(struct image_file){result.bytes, result.len}, &info, NULL);
        k->width = info.width;
        k->height = info.height;
    }
    k->packed = result.bytes;
    k->bytes = result.bytes;
    k->len = result.len;
    row->resized += result.outcome == PACK_RESIZED || result.outcome == PACK_RAW_RESIZED;
    return r;
}

static int keep_tiles(struct prepare_context *c, struct kept *k)
{
    int r = image_find_tiles(c->decoder, &(struct image_file){k->bytes, k->len}, &k->tiles, NULL);

    if (r < 0 || !k->tiles.found)
        return r;
    k->hint = malloc(k->tiles.found_len);
    if (!k->hint)
        return -ENOMEM;
    memcpy(k->hint, k->tiles.found, k->tiles.found_len);
    k->tiles.hint = k->hint;
    k->tiles.len = k->tiles.found_len;
    return 0;
}

static int keep(struct prepare_context *c, struct prepare_row *row, const struct bench_file *file,
                struct kept *k)
{
    uint64_t begin = time_cpu_ns();
    int r = 0;

    *k = (struct kept){.bytes = file->bytes, .len = file->len};
    if (row->packs)
        r = keep_packed(c, row, file, k);
    if (r == 0 && row->indexed)
        r = keep_tiles(c, k);
    row->made_ns += time_cpu_ns() - begin;
    row->bytes += k->len + k->tiles.len;
    return r;
}

static int keep_all(struct prepare_context *c, const struct bench_files *files,
                    struct plenum_error *err)
{
    for (size_t n = 0; n < ROWS; n++) {
        rows[n].kept = calloc(files->count, sizeof(*rows[n].kept));
        if (!rows[n].kept)
            return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < files->count; i++) {
            int r = keep(c, &rows[n], &files->files[i], &rows[n].kept[i]);

            if (r < 0)
                return error_set(err, r, "%s: %s", files->files[i].path, strerror(-r));
        }
    }
    return 0;
}

/* --- rendering --- */

static int render(struct prepare_context *c, const struct prepare_row *row, size_t index,
                  int pipeline, uint32_t epoch, uint8_t *dst)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct image_draw draw = {.seed = c->seed, .epoch = epoch, .position = (uint32_t)index};
    struct kept *k = &row->kept[index];
    int r;

    image_decoder_use_tiles(c->decoder, k->hint ? &k->tiles : NULL);
    r = image_render(
        c->decoder,
        &(struct image_view){.pipeline = &c->pipeline[pipeline], .draw = draw, .dst = dst}, &store,
        &(struct image_file){k->bytes, k->len}, NULL);
    image_decoder_use_tiles(c->decoder, NULL);
    return r;
}

#ifdef HAVE_FFCV_WAY
/* Render the same crop of the same pixels by FFCV's method. */
static void render_by_ffcv(struct prepare_context *c, const struct prepare_row *row, size_t index,
                           uint32_t epoch)
{
    struct image_draw draw = {.seed = c->seed, .epoch = epoch, .position = (uint32_t)index};
    const struct kept *k = &row->kept[index];
    const struct ffcv_raw raw = {k->bytes + k->len - 3 * (size_t)k->width * k->height, k->width,
                                 k->height};
    struct crop crop;

    crop_locate(&c->pipeline[TRAIN], &draw, k->width, k->height, &c->tables, &crop);
    ffcv_way_render_raw(&raw, &crop.box, crop.mirror, c->pipeline[TRAIN].width, c->got);
}
#else
#define render_by_ffcv(c, row, index, epoch)
#endif

/* Run one round. rates[row] is in images per second. */
static void run_round(struct prepare_context *c, size_t count, uint32_t round, double *rates)
{
    uint64_t ns[ROWS] = {0};

    for (size_t at = 0; at < count; at += BLOCK) {
        for (size_t n = 0; n < ROWS; n++) {
            size_t row = (n + at / BLOCK + round) % ROWS;
            uint64_t start = time_cpu_ns();

            for (size_t i = at; i < count && i < at + BLOCK; i++)
                if (rows[row].ffcv)
                    render_by_ffcv(c, &rows[row], i, round);
                else
                    (void)render(c, &rows[row], i, TRAIN, round, c->got);
            ns[row] += time_cpu_ns() - start;
        }
    }
    for (size_t n = 0; n < ROWS; n++)
        rates[n] = (double)count * 1e9 / (double)ns[n];
}

static int measure_rates(struct prepare_context *c, size_t count, uint32_t rounds)
{
    double *rates = calloc((size_t)rounds * ROWS, sizeof(*rates));
    double *column = calloc(rounds, sizeof(*column));
    int r = rates && column ? 0 : -ENOMEM;

    for (uint32_t round = 0; r == 0 && round < rounds; round++)
        run_round(c, count, round + 1, rates + (size_t)round * ROWS);
    for (size_t n = 0; r == 0 && n < ROWS; n++) {
        for (uint32_t i = 0; i < rounds; i++)
            column[i] = rates[i * ROWS + n] / rates[i * ROWS];
        rows[n].ratio = bench_spread_of(column, rounds);
        for (uint32_t i = 0; i < rounds; i++)
            column[i] = rates[i * ROWS + n] / rates[i * ROWS + ROWS - 1];
        rows[n].to_ffcv = bench_spread_of(column, rounds);
        for (uint32_t i = 0; i < rounds; i++)
            column[i] = rates[i * ROWS + n];
        rows[n].rate = bench_spread_of(column, rounds);
    }
    free(rates);
    free(column);
    return r;
}

/* --- quality --- */

static double luma(const uint8_t *p)
{
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
}

/* Compute the SSIM of one window of 8 x 8 pixels (Wang, Bovik, Sheikh and Simoncelli 2004, with
 * equal weights). */
static double ssim_window(const uint8_t *a, const uint8_t *b, size_t pitch)
{
    const double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255, n = 64;
    double sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0;
    double ma, mb, va, vb, vab;

    for (size_t y = 0; y < 8; y++)
        for (size_t x = 0; x < 8; x++) {
            double p = luma(a + y * pitch + 3 * x), q = luma(b + y * pitch + 3 * x);

            sa += p;
            sb += q;
            saa += p * p;
            sbb += q * q;
            sab += p * q;
        }
    ma = sa / n;
    mb = sb / n;
    va = saa / n - ma * ma;
    vb = sbb / n - mb * mb;
    vab = sab / n - ma * mb;
    return (2 * ma * mb + c1) * (2 * vab + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
}

/* Compute the SSIM over 8 x 8 windows, one every 4 pixels. */
static double ssim(const uint8_t *a, const uint8_t *b, uint32_t width, uint32_t height)
{
    size_t pitch = 3 * (size_t)width, count = 0;
    double sum = 0;

    for (uint32_t y = 0; y + 8 <= height; y += 4)
        for (uint32_t x = 0; x + 8 <= width; x += 4, count++)
            sum += ssim_window(a + y * pitch + 3 * x, b + y * pitch + 3 * x, pitch);
    return count ? sum / (double)count : 1;
}

static void judge(struct prepare_context *c, int pipeline, struct quality *q)
{
    const struct pipeline *p = &c->pipeline[pipeline];
    size_t bytes = (size_t)p->width * p->height * 3;

    for (size_t i = 0; i < bytes; i++) {
        double d = (double)c->want[i] - c->got[i];

        q->squares += d * d;
    }
    q->values += bytes;
    q->ssim += ssim(c->want, c->got, p->width, p->height);
    q->images++;
}

static int judge_all(struct prepare_context *c, size_t count, int pipeline, uint32_t epochs)
{
    for (uint32_t epoch = 0; epoch < epochs; epoch++)
        for (size_t i = 0; i < count; i++) {
            int r = render(c, &rows[0], i, pipeline, epoch, c->want);

            for (size_t n = 1; r == 0 && n < ROWS && !rows[n].ffcv; n++) {
                r = render(c, &rows[n], i, pipeline, epoch, c->got);
                judge(c, pipeline, &rows[n].quality[pipeline]);
            }
            if (r < 0)
                return r;
        }
    return 0;
}

/* Returns the peak signal-to-noise ratio in dB; infinite if there is no difference. */
static double psnr(const struct quality *q)
{
    return 10 * log10(255.0 * 255.0 * (double)q->values / q->squares);
}

static double mean_ssim(const struct quality *q)
{
    return q->ssim / q->images;
}

/* --- the report --- */

static double made_rate(const struct prepare_row *row, size_t count)
{
    return (double)count * 1e9 / (double)row->made_ns;
}

static void print_quality(const struct quality *q)
{
    if (q->squares > 0)
        printf("  %6.2f %6.4f", psnr(q), mean_ssim(q));
    else
        printf("  %6s %6s", "same", "same");
}

static void print_table(const struct bench_prepare_arguments *a, const struct prepare_context *c,
                        const struct bench_files *files)
{
    char cpu[128];

    bench_cpu_name(cpu, sizeof(cpu));
    printf("%zu photographs (%.1f KiB each; %zu left out), %u rounds of %s, quality %u, %s\n%s\n\n"
           "%-16s %7s %7s  %24s %6s%s  %14s  %14s %8s\n"
           "%-16s %7s %7s  %8s %7s %7s %6s%s  %7s %6s  %7s %6s %8s\n",
           files->count, (double)files->bytes / 1024 / (double)files->count, files->refused,
           a->rounds, c->pipeline[TRAIN].text, a->quality, a->full_chroma ? "4:4:4" : "4:2:0", cpu,
           "", "", "", "images/s of one core", "", HAS_FFCV_ROW ? "     to" : "", "evaluation",
           "training", "made", "row", "resized", "bytes", "min", "median", "max", "ratio",
           HAS_FFCV_ROW ? "   ffcv" : "", "PSNR", "SSIM", "PSNR", "SSIM", "images/s");
    for (size_t n = 0; n < ROWS; n++) {
        const struct prepare_row *row = &rows[n];

        printf("%-16s %6.0f%% %7.4f  %8.0f %7.0f %7.0f %6.2f", row->name,
               100 * (double)row->resized / (double)files->count,
               (double)row->bytes / (double)files->bytes, row->rate.min, row->rate.median,
               row->rate.max, row->ratio.median);
        if (HAS_FFCV_ROW)
            printf(" %6.2f", row->to_ffcv.median);
        if (n == 0 || row->ffcv) {
            putchar('\n');
            continue;
        }
        print_quality(&row->quality[EVAL]);
        print_quality(&row->quality[TRAIN]);
        printf(" %8.0f\n", made_rate(row, files->count));
    }
    putchar('\n');
    for (size_t n = 0; n < ROWS; n++)
        printf("%-16s %s\n", rows[n].name, rows[n].what);
}

static void put_quality(struct json *j, const char *key, const struct quality *q)
{
    json_begin_object(j, key, JSON_FLAT);
    json_real(j, "psnr_db", psnr(q), 3);
    json_real(j, "ssim", mean_ssim(q), 5);
    json_end_object(j);
}

static void print_json(const struct bench_prepare_arguments *a, const struct prepare_context *c,
                       const struct bench_files *files)
{
    struct json j = {.file = stdout};

    bench_json_begin(&j, "prepare");
    json_text(&j, "unit", "images/s of one core, CPU time");
    json_text(&j, "pipeline", c->pipeline[TRAIN].text);
    json_text(&j, "evaluation", c->pipeline[EVAL].text);
    json_number(&j, "photographs", files->count);
    json_number(&j, "rounds", a->rounds);
    json_number(&j, "quality", a->quality);
    json_text(&j, "subsampling", a->full_chroma ? "444" : "420");
    json_begin_array(&j, "rows", JSON_LINES);
    for (size_t n = 0; n < ROWS; n++) {
        const struct prepare_row *row = &rows[n];

        json_begin_object(&j, NULL, JSON_FLAT);
        json_text(&j, "name", row->name);
        json_number(&j, "resized", row->resized);
        json_number(&j, "bytes", row->bytes);
        json_real(&j, "bytes_ratio", (double)row->bytes / (double)files->bytes, 4);
        bench_json_spread(&j, &row->rate, 1);
        json_begin_object(&j, "ratio", JSON_FLAT);
        bench_json_spread(&j, &row->ratio, 3);
        json_end_object(&j);
        if (HAS_FFCV_ROW) {
            json_begin_object(&j, "ratio_to_ffcv_raw_256", JSON_FLAT);
            bench_json_spread(&j, &row->to_ffcv, 3);
            json_end_object(&j);
        }
        if (n > 0 && !row->ffcv) {
            put_quality(&j, "evaluation", &row->quality[EVAL]);
            put_quality(&j, "training", &row->quality[TRAIN]);
            json_real(&j, "made_per_second", made_rate(row, files->count), 1);
        }
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

/* --- main --- */

/* Measure all photographs. Returns 0, or an error if one of them cannot be packed or rendered. */
static int measure(const struct bench_prepare_arguments *a, struct prepare_context *c,
                   const struct bench_files *files, struct plenum_error *err)
{
    int r = keep_all(c, files, err);

    if (r < 0)
        return r;
    r = judge_all(c, files->count, EVAL, 1);
    if (r == 0)
        r = judge_all(c, files->count, TRAIN, EPOCHS);
    if (r == 0)
        r = measure_rates(c, files->count, a->rounds);
    if (r < 0)
        return error_set(err, r, "an image cannot be rendered: %s", strerror(-r));
    (a->json ? print_json : print_table)(a, c, files);
    return 0;
}

static int context_init(struct prepare_context *c, const struct bench_prepare_arguments *a,
                        struct plenum_error *err)
{
    size_t bytes = 0;
    int r = pipeline_parse("train", &c->pipeline[TRAIN], err);

    if (r == 0)
        r = pipeline_parse(a->eval, &c->pipeline[EVAL], err);
    if (r < 0)
        return r;
    for (int i = 0; i < PIPELINES; i++)
        bytes = max_u64(bytes, (size_t)c->pipeline[i].width * c->pipeline[i].height * 3);
    c->seed = a->seed;
    c->want = malloc(bytes);
    c->got = malloc(bytes);
    if (!c->want || !c->got || image_decoder_create(&c->decoder) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t n = 0; n < ROWS; n++) {
        rows[n].resize.quality = a->quality;
        rows[n].resize.subsampling = a->full_chroma ? ENCODE_444 : ENCODE_420;
    }
    return 0;
}

static void context_fini(struct prepare_context *c, size_t count)
{
    for (size_t n = 0; n < ROWS; n++) {
        for (size_t i = 0; rows[n].kept && i < count; i++) {
            free(rows[n].kept[i].packed);
            free(rows[n].kept[i].hint);
        }
        free(rows[n].kept);
    }
    image_decoder_destroy(c->decoder);
    free(c->want);
    free(c->got);
}

int main(int argc, char **argv)
{
    struct bench_prepare_arguments a = {
        .eval = "eval", .rounds = 15, .seed = 1, .quality = PACK_QUALITY};
    struct bench_files files = {0};
    struct prepare_context c = {0};
    struct plenum_error err = {""};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    r = context_init(&c, &a, &err);
    if (r == 0)
        r = bench_files_load(a.images, a.limit, &files, &err);
    if (r == 0)
        r = measure(&a, &c, &files, &err);
    if (r < 0)
        log_error("%s", err.text);
    context_fini(&c, files.count);
    bench_files_free(&files);
    return r < 0;
}

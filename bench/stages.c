/* SPDX-License-Identifier: MIT */
/* stages.c - bench/stages: measures how an image's time is spent.
 *
 * Each stage really runs a part of the work, on the same photographs and crops, image by image:
 *
 *     read          open, read and close the file, from the page cache
 *     header        the JPEG reader opens and closes the image: markers, tables, memory
 *     entropy       from the header to the crop's last row without computing pixels: libjpeg with
 *                   jpeg_skip_scanlines; our own decoder with loops that do nothing
 *     decode        the JPEG reader decodes the crop's rows, which are discarded
 *     resize        resizes rows that are in memory, into one slot
 *     resize+store  resizes into a ring of slots that exceeds every cache
 *     render        everything but reading: image_render() into the ring
 *
 * It also times the operations after the crop (operations.c), each on a copy of the resized window.
 *
 * The decoder stages run with both libjpeg-turbo and our own decoder; rendering uses our own. If
 * our decoder gives up on an image, libjpeg's time counts in our decoder's row, as in production.
 *
 * The table shows derived times (by subtraction) beside the measured ones. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#include "bench/bench.h"
#include "bench/operations.h"
#include "common/options/options.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/jpeg/jpeg_own.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/reader.h"
#include "loader/image/resize/crop.h"
#include "loader/image/resize/resize.h"
#include "loader/image/resize/resize_kernels.h"

enum { STRIP_ROWS = 16, SLOTS = 256, ROUNDS_MAX = 10000 };

struct bench_stages_arguments {
    const char *images, *pipeline, *kernels;
    uint32_t rounds, limit, seed;
    bool json;
};

/* Decoders, buffers, and the current image. */
struct stages_context {
    struct pipeline pipeline;
    struct image_decoder *decoder;
    struct image_reader *reader, *library; /* with our own decoder if possible; with libjpeg */
    struct jpeg_own *own;                  /* the decoder that computes no pixels */
    struct resize *resize;
    struct bench_operations *operations;
    struct crop_tables tables;
    uint8_t *planes; /* the resized window */
    uint8_t *slots;  /* [SLOTS][slot_bytes] */
    size_t slot_bytes;
    uint32_t slot; /* the next one */
    uint8_t *bytes;
    size_t bytes_room;

    const struct bench_file *file;
    struct image_draw draw;
    struct crop crop;
    struct rect region;
    uint8_t *rows; /* the region's decoded rows */
    size_t rows_room;
};

static const struct image_store store = {PLENUM_INT8, PLENUM_NHWC, 3};

static int run_read(struct stages_context *c)
{
    int fd = open(c->file->path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : io_pread_all(fd, c->bytes, c->file->len, 0);

    io_close(&fd);
    return r;
}

static int open_and_close(const struct stages_context *c, struct image_reader *reader)
{
    struct image_header header;
    int r = reader->ops->open(reader, c->file->bytes, c->file->len, &header, NULL);

    reader->ops->close(reader);
    return r;
}

static int run_header(struct stages_context *c)
{
    return open_and_close(c, c->reader);
}

static int run_library_header(struct stages_context *c)
{
    return open_and_close(c, c->library);
}

static void no_idct(const struct jpeg_block *blocks, uint32_t count)
{
    (void)blocks;
    (void)count;
}

static void no_h2v1(const uint8_t *in, uint32_t count, uint8_t *out)
{
    (void)in;
    (void)count;
    (void)out;
}

static void no_h2v2(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out)
{
    (void)near;
    (void)far;
    (void)count;
    (void)out;
}

static void no_h1v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint32_t count,
                    uint8_t *out)
{
    (void)near;
    (void)far;
    (void)bias;
    (void)count;
    (void)out;
}

static void no_colour(const uint8_t *const *planes, uint32_t count, uint8_t *out)
{
    (void)planes;
    (void)count;
    (void)out;
}

/* Returns this processor's loops for reading bits, with loops that compute samples or pixels
 * replaced by no-ops. */
static const struct jpeg_kernels *no_pixels(void)
{
    static struct jpeg_kernels none;
    size_t best = 0;

    while (!jpeg_kernels[best]->usable())
        best++;
    none = *jpeg_kernels[best];
    none.idct = no_idct;
    none.h2v1 = no_h2v1;
    none.h2v2 = no_h2v2;
    none.h1v2 = no_h1v2;
    none.ycc = none.rgb = none.grey = no_colour;
    return &none;
}

static int run_library_entropy(struct stages_context *c);

static int run_entropy(struct stages_context *c)
{
    struct image_rows rows;
    uint32_t width, height;
    int r = jpeg_own_open(c->own, c->file->bytes, c->file->len, false, &width, &height);

    if (r == 0)
        r = jpeg_own_seek(c->own, &c->region);
    for (uint32_t y = 0; r == 0 && y < c->region.height; y += rows.count)
        r = jpeg_own_read(c->own, &rows);
    jpeg_own_close(c->own);
    return r == JPEG_OWN_GIVES_UP ? run_library_entropy(c) : r;
}

struct stages_errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
};

static void on_error(j_common_ptr d)
{
    longjmp(((struct stages_errors *)d->err)->escape, 1);
}

static int run_library_entropy(struct stages_context *c)
{
    struct jpeg_decompress_struct d;
    struct stages_errors errors;

    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape)) {
        jpeg_destroy_decompress(&d);
        return -EBADMSG;
    }
    jpeg_mem_src(&d, c->file->bytes, c->file->len);
    (void)jpeg_read_header(&d, TRUE);
    (void)jpeg_start_decompress(&d);
    (void)jpeg_skip_scanlines(&d, c->region.top + c->region.height);
    jpeg_destroy_decompress(&d);
    return 0;
}

/* Decode the region's rows; they are kept in c->rows if `keep` is set. */
static int decode(struct stages_context *c, struct image_reader *reader, bool keep)
{
    struct image_header header;
    struct image_rows rows;
    uint8_t *to = c->rows;
    int r = reader->ops->open(reader, c->file->bytes, c->file->len, &header, NULL);

    if (r == 0)
        r = reader->ops->seek(reader, &c->region, NULL);
    for (uint32_t y = 0; r == 0 && y < c->region.height; y += rows.count) {
        r = reader->ops->read(reader, &rows, NULL);
        for (uint32_t i = 0; keep && r == 0 && i < rows.count; i++, to += c->region.width * 4)
            memcpy(to, rows.pixels + i * rows.pitch, (size_t)c->region.width * 4);
    }
    reader->ops->close(reader);
    return r;
}

static int run_decode(struct stages_context *c)
{
    return decode(c, c->reader, false);
}

static int run_library_decode(struct stages_context *c)
{
    return decode(c, c->library, false);
}

static uint8_t *next_slot(struct stages_context *c)
{
    return c->slots + c->slot++ % SLOTS * c->slot_bytes;
}

static int resize_as(struct stages_context *c, const struct crop *crop,
                     const struct image_store *as, uint8_t *dst)
{
    size_t pitch = (size_t)c->region.width * 4;
    struct rect need;
    int r = resize_begin(c->resize, crop, 4, as, dst, &need);
    const uint8_t *rows =
        c->rows + (need.top - c->region.top) * pitch + (size_t)(need.left - c->region.left) * 4;

    for (uint32_t y = 0; r == 0 && y < need.height; y += STRIP_ROWS)
        resize_push(c->resize, rows + y * pitch, pitch,
                    (uint32_t)min_u64(STRIP_ROWS, need.height - y));
    return r;
}

static int resize_into(struct stages_context *c, const struct crop *crop, uint8_t *dst)
{
    return resize_as(c, crop, &store, dst);
}

static int run_resize(struct stages_context *c)
{
    return resize_into(c, &c->crop, c->slots);
}

/* Bring code and rows into the caches before a timed resize. This uses another scale, because the
 * timed resize must build its tables, which are kept between images of equal scale. */
static int warm_resize(struct stages_context *c)
{
    struct crop other = c->crop;

    other.width++;
    other.height++;
    return resize_into(c, &other, c->slots);
}

static int run_store(struct stages_context *c)
{
    return resize_into(c, &c->crop, next_slot(c));
}

static int run_render(struct stages_context *c)
{
    return image_render(
        c->decoder,
        &(struct image_view){.pipeline = &c->pipeline, .draw = c->draw, .dst = next_slot(c)},
        &store, &(struct image_file){c->file->bytes, c->file->len}, NULL);
}

/* Choose the crop, find the region, and load its rows into memory. Not timed. */
static int prepare(struct stages_context *c, const struct bench_file *file, uint32_t position,
                   uint32_t round, uint32_t seed)
{
    size_t size;

    c->file = file;
    c->draw = (struct image_draw){.seed = seed, .epoch = round, .position = position};
    crop_locate(&c->pipeline, &c->draw, file->width, file->height, &c->tables, &c->crop);
    if (resize_begin(c->resize, &c->crop, 4, &store, c->slots, &c->region) < 0)
        return -ENOMEM;
    size = (size_t)c->region.width * c->region.height * 4;
    if (size > c->rows_room || !c->rows) {
        free(c->rows);
        c->rows = malloc(size);
        c->rows_room = size;
    }
    if (file->len > c->bytes_room || !c->bytes) {
        free(c->bytes);
        c->bytes = malloc(file->len);
        c->bytes_room = file->len;
    }
    return c->rows && c->bytes ? decode(c, c->reader, true) : -ENOMEM;
}

enum stages_stage {
    READ,
    HEADER,
    ENTROPY,
    DECODE,
    LIBRARY_HEADER,
    LIBRARY_ENTROPY,
    LIBRARY_DECODE,
    RENDER,
    RESIZE,
    STORE,
    STAGES,
    COLUMNS = STAGES + BENCH_OPERATIONS, /* numbers per round */
};

static const struct {
    int (*run)(struct stages_context *c);
    int (*before)(struct stages_context *c); /* not timed; may be NULL */
} stages[STAGES] = {
    [READ] = {run_read, NULL},
    [HEADER] = {run_header, NULL},
    [LIBRARY_HEADER] = {run_library_header, NULL},
    [LIBRARY_ENTROPY] = {run_library_entropy, NULL},
    [LIBRARY_DECODE] = {run_library_decode, NULL},
    [ENTROPY] = {run_entropy, NULL},
    [DECODE] = {run_decode, NULL},
    [RENDER] = {run_render, NULL},
    [RESIZE] = {run_resize, warm_resize},
    [STORE] = {run_store, warm_resize},
};

/* The report: a stage as measured, or minus another one. */
static const struct {
    const char *name, *how;
    enum stages_stage stage, less; /* if both are the same, nothing is subtracted */
} lines[] = {
    {"read", "run", READ, READ},
    {"header and setup", "run", HEADER, HEADER},
    {"entropy", "entropy run minus header", ENTROPY, HEADER},
    {"IDCT, upsampling, colour", "decode run minus entropy run", DECODE, ENTROPY},
    {"libjpeg: header", "the same with libjpeg-turbo", LIBRARY_HEADER, LIBRARY_HEADER},
    {"libjpeg: entropy", "the same with libjpeg-turbo", LIBRARY_ENTROPY, LIBRARY_HEADER},
    {"libjpeg: IDCT and so on", "the same with libjpeg-turbo", LIBRARY_DECODE, LIBRARY_ENTROPY},
    {"libjpeg: decode", "the same with libjpeg-turbo", LIBRARY_DECODE, LIBRARY_DECODE},
    {"resize within render", "render run minus decode run", RENDER, DECODE},
    {"resize alone", "run, with its tables, rows in memory", RESIZE, RESIZE},
    {"store", "resize into cold slots minus resize into a warm one", STORE, RESIZE},
    {"decode", "run", DECODE, DECODE},
    {"render", "run: all but read", RENDER, RENDER},
};

#define AT(field) offsetof(struct bench_stages_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0,
     .help = "folder of photographs (required)"},
    {"pipeline", 'p', "TEXT", OPTION_TEXT, AT(pipeline), 0, 0,
     .help = "pipeline to render, without exif (default: train)"},
    {"kernels", 'k', "NAME", OPTION_TEXT, AT(kernels), 0, 0,
     .help = "loops of the resize (default: the best this processor can use)"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, ROUNDS_MAX,
     .help = "rounds over all photographs (default 9)"},
    {"limit", 'l', "N", OPTION_U32, AT(limit), 1, 0, .help = "use only the first N photographs"},
    {"seed", 's', "N", OPTION_U32, AT(seed), 0, 0, .help = "seed of the crops (default 1)"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, .help = "print JSON"},
};

static const struct options_program program = {
    .name = "bench/stages",
    .usage = "--images DIR [options]",
    .summary = "Measure where the time for an image goes, in microseconds of one core.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* Time each operation, and add to ns[operation]. */
static int run_operations(struct stages_context *c, uint64_t *ns)
{
    const struct image_store planes = {PLENUM_UINT8, PLENUM_NCHW, 3};
    int r = resize_as(c, &c->crop, &planes, c->planes);

    for (size_t k = 0; k < BENCH_OPERATIONS && r == 0; k++)
        ns[k] += bench_operations_run(c->operations, k, &c->draw, c->planes, &store, c->slots);
    return r;
}

/* Run one round. us[column] is the average per image. */
static int run_round(struct stages_context *c, const struct bench_files *files, uint32_t round,
                     uint32_t seed, double *us)
{
    uint64_t ns[COLUMNS] = {0};

    for (size_t i = 0; i < files->count; i++) {
        int r = prepare(c, &files->files[i], (uint32_t)i, round, seed);

        for (size_t k = 0; k < STAGES && r == 0; k++) {
            uint64_t start;

            if (stages[k].before)
                (void)stages[k].before(c);
            start = time_cpu_ns();
            r = stages[k].run(c);
            ns[k] += time_cpu_ns() - start;
        }
        if (r == 0)
            r = run_operations(c, ns + STAGES);
        if (r < 0)
            return r;
    }
    for (size_t k = 0; k < COLUMNS; k++)
        us[k] = (double)ns[k] / 1e3 / (double)files->count;
    return 0;
}

/* Returns the spread over all rounds of a stage's time, minus that of stage `less` if it is a
 * different stage. */
static struct bench_spread spread_of(const struct bench_stages_arguments *a, const double *us,
                                     size_t stage, size_t less)
{
    double column[ROUNDS_MAX];

    for (uint32_t r = 0; r < a->rounds; r++, us += COLUMNS)
        column[r] = us[stage] - (stage == less ? 0 : us[less]);
    return bench_spread_of(column, a->rounds);
}

static void report_row_json(struct json *j, const char *name, const char *how,
                            const struct bench_spread *s)
{
    json_begin_object(j, NULL, JSON_FLAT);
    json_text(j, "name", name);
    json_text(j, "how", how);
    bench_json_spread(j, s, 2);
    json_end_object(j);
}

static const char *const operation_how = "run, with the store; window in cache";

static const char *operation_name(size_t k)
{
    return k == 0 ? "store a window" : bench_operations[k];
}

static void report_json(const struct bench_stages_arguments *a, const struct stages_context *c,
                        const struct bench_files *files, const double *us)
{
    struct json j;

    bench_json_begin(&j, "stages");
    json_text(&j, "unit", "us per image on one core");
    json_number(&j, "images", files->count);
    json_number(&j, "rounds", a->rounds);
    json_text(&j, "pipeline", c->pipeline.text);
    json_begin_array(&j, "rows", JSON_LINES);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct bench_spread s = spread_of(a, us, lines[i].stage, lines[i].less);

        report_row_json(&j, lines[i].name, lines[i].how, &s);
    }
    for (size_t k = 0; k < BENCH_OPERATIONS; k++) {
        struct bench_spread s = spread_of(a, us, STAGES + k, STAGES + k);

        if (s.max > 0)
            report_row_json(&j, operation_name(k), operation_how, &s);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void report(const struct bench_stages_arguments *a, const struct stages_context *c,
                   const struct bench_files *files, const double *us)
{
    double whole = spread_of(a, us, RENDER, RENDER).median;
    char cpu[128];

    bench_cpu_name(cpu, sizeof(cpu));
    printf("%zu photographs (%.1f KiB each), %u rounds, %s\n%s\n\n%-26s %8s %8s %8s  %6s\n",
           files->count, (double)files->bytes / 1024 / (double)files->count, a->rounds,
           c->pipeline.text, cpu, "us per image on one core", "min", "median", "max", "render");
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct bench_spread s = spread_of(a, us, lines[i].stage, lines[i].less);

        printf("%-26s %8.1f %8.1f %8.1f  %5.1f%%  %s\n", lines[i].name, s.min, s.median, s.max,
               s.median / whole * 100, lines[i].how);
    }
    puts("\noperations, with the store");
    for (size_t k = 0; k < BENCH_OPERATIONS; k++) {
        struct bench_spread s = spread_of(a, us, STAGES + k, STAGES + k);

        if (s.max > 0)
            printf("%-50s %8.1f %8.1f %8.1f\n", operation_name(k), s.min, s.median, s.max);
    }
}

static int context_init(struct stages_context *c, const struct bench_stages_arguments *a,
                        struct plenum_error *err)
{
    int r = pipeline_parse(a->pipeline, &c->pipeline, err);

    if (r < 0)
        return r;
    if (c->pipeline.width != c->pipeline.height)
        return error_set(err, -EINVAL, "--pipeline: width and height must be equal");
    if (c->pipeline.exif || c->pipeline.version != PIPELINE_V1)
        return error_set(err, -EINVAL, "--pipeline: it must be of version 1, without exif");
    c->slot_bytes = (size_t)c->pipeline.width * c->pipeline.height * 3;
    c->slots = malloc(SLOTS * c->slot_bytes);
    c->planes = malloc(c->slot_bytes);
    if (!c->slots || !c->planes || image_decoder_create(&c->decoder) < 0 ||
        jpeg_reader_create(&c->reader) < 0 || jpeg_reader_create(&c->library) < 0 ||
        jpeg_own_create(&c->own) < 0 || resize_create(&c->resize) < 0 ||
        bench_operations_create(&c->operations, c->pipeline.width, a->kernels) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    jpeg_reader_use(c->library, IMAGE_JPEG_LIBJPEG, NULL);
    jpeg_own_use(c->own, no_pixels());
    memset(c->slots, 0, SLOTS * c->slot_bytes);
    for (size_t i = 0; a->kernels && resize_kernels[i]; i++) {
        if (strcmp(resize_kernels[i]->name, a->kernels) != 0 || !resize_kernels[i]->usable())
            continue;
        resize_use(c->resize, resize_kernels[i]);
        return image_decoder_use_kernels(c->decoder, a->kernels);
    }
    return a->kernels ? error_set(err, -EINVAL,
                                  "--kernels: '%s' is not a set of loops for this "
                                  "processor",
                                  a->kernels)
                      : 0;
}

static void context_fini(struct stages_context *c)
{
    image_decoder_destroy(c->decoder);
    if (c->reader)
        c->reader->ops->destroy(c->reader);
    if (c->library)
        c->library->ops->destroy(c->library);
    jpeg_own_destroy(c->own);
    resize_destroy(c->resize);
    bench_operations_destroy(c->operations);
    free(c->planes);
    free(c->slots);
    free(c->rows);
    free(c->bytes);
}

static int measure(const struct bench_stages_arguments *a, struct stages_context *c,
                   const struct bench_files *files)
{
    double *us = calloc((size_t)a->rounds * COLUMNS, sizeof(*us));
    int r = us ? 0 : -ENOMEM;

    for (uint32_t round = 0; round <= a->rounds && r == 0; round++) /* the first round warms up */
        r = run_round(c, files, round, a->seed, us + (round ? round - 1 : 0) * COLUMNS);
    if (r == 0)
        (a->json ? report_json : report)(a, c, files, us);
    free(us);
    return r;
}

int main(int argc, char **argv)
{
    struct bench_stages_arguments a = {.pipeline = "train", .rounds = 9, .seed = 1};
    struct bench_files files = {0};
    struct stages_context c = {0};
    struct plenum_error err = {""};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    r = context_init(&c, &a, &err);
    if (r == 0)
        r = bench_files_load(a.images, a.limit, &files, &err);
    if (r == 0)
        r = measure(&a, &c, &files);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    bench_files_free(&files);
    context_fini(&c);
    return r < 0;
}

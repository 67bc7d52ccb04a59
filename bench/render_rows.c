/* SPDX-License-Identifier: MIT */
/* render_rows.c - bench/render's rows: what each of them does with a photograph. */
#include "config.h"

#include "bench/render_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/forms.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#ifdef HAVE_FFCV_WAY
#include "bench/ffcv.h"
#endif

static struct image_draw draw_of(const struct render_context *c, size_t index, uint32_t round)
{
    return (struct image_draw){.seed = c->seed, .epoch = round, .position = (uint32_t)index};
}

static int render(const struct render_context *c, struct image_decoder *decoder,
                  const struct image_file *file, size_t index, uint32_t round)
{
    const struct image_store store = {PLENUM_INT8, PLENUM_NHWC, 3};
    struct image_view view = {
        .pipeline = &c->pipeline, .draw = draw_of(c, index, round), .dst = c->dst};

    return image_render(decoder, &view, &store, file, NULL);
}

static int run_plain(struct render_context *c, const struct render_row *row,
                     const struct bench_file *file, size_t index, uint32_t round)
{
    (void)row;
    return render(c, c->decoder, &(struct image_file){file->bytes, file->len}, index, round);
}

/* List all images that a recipe renders from a file, one after the other. */
static uint32_t list_images(const struct render_context *c, const struct render_row *row,
                            size_t index, uint32_t round, struct image_view ret[VIEWS_IMAGES_MAX])
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

static void use_tiles(struct render_context *c, const struct render_row *row, size_t index,
                      struct image_tiles *tiles)
{
    if (!row->indexed)
        return;
    tiles->hint = c->hints[index].bytes;
    tiles->len = c->hints[index].len;
    image_decoder_use_tiles(c->decoder, tiles);
}

static int run_recipe(struct render_context *c, const struct render_row *row,
                      const struct bench_file *file, size_t index, uint32_t round)
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

/* Render the images of run_recipe(), but decode the file again for each. */
static int run_apart(struct render_context *c, const struct render_row *row,
                     const struct bench_file *file, size_t index, uint32_t round)
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

/* Pack a file; the result may replace that of a file that another row refused. */
static int add_packed(struct render_context *c, const struct bench_file *file, size_t index)
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

static int run_packed(struct render_context *c, const struct render_row *row,
                      const struct bench_file *file, size_t index, uint32_t round)
{
    (void)row;
    (void)file;
    return render(c, c->decoder, &(struct image_file){c->packed[index].bytes, c->packed[index].len},
                  index, round);
}

/* Record a file's entry points. */
static int add_indexed(struct render_context *c, const struct bench_file *file, size_t index)
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

static int render_with(struct render_context *c, struct image_tiles *tiles,
                       const struct bench_file *file, size_t index, uint32_t round)
{
    int r;

    image_decoder_use_tiles(c->decoder, tiles);
    r = render(c, c->decoder, &(struct image_file){file->bytes, file->len}, index, round);
    image_decoder_use_tiles(c->decoder, NULL);
    return r;
}

static int run_indexed(struct render_context *c, const struct render_row *row,
                       const struct bench_file *file, size_t index, uint32_t round)
{
    struct image_tiles tiles = {.hint = c->hints[index].bytes, .len = c->hints[index].len};

    (void)row;
    return render_with(c, &tiles, file, index, round);
}

static int run_indexing(struct render_context *c, const struct render_row *row,
                        const struct bench_file *file, size_t index, uint32_t round)
{
    struct image_tiles tiles = {0};

    (void)row;
    return render_with(c, &tiles, file, index, round);
}

double render_hints_size(const struct render_context *c, const struct bench_files *files)
{
    double bytes = 0;

    for (size_t i = 0; i < files->count && i < c->num_hints; i++)
        bytes += (double)c->hints[i].len;
    return bytes / (double)files->bytes;
}

double render_packed_size(const struct render_context *c, const struct bench_files *files)
{
    double bytes = 0;

    for (size_t i = 0; i < files->count && i < c->num_packed; i++)
        bytes += (double)c->packed[i].len;
    return bytes / (double)files->bytes;
}

/* Render with the row's own decoder, which has other loops or is libjpeg's. */
static int run_other(struct render_context *c, const struct render_row *row,
                     const struct bench_file *file, size_t index, uint32_t round)
{
    return render(c, row->decoder, &(struct image_file){file->bytes, file->len}, index, round);
}

/* Decode the whole image to RGB rows, which are not kept. */
static int run_full_decode(struct render_context *c, const struct render_row *row,
                           const struct bench_file *file, size_t index, uint32_t round)
{
    (void)c;
    (void)row;
    (void)index;
    (void)round;
    return forms_full_decode(file, NULL);
}

/* Decode the whole image with our own decoders, and hash the pixels. */
static int run_verify(struct render_context *c, const struct render_row *row,
                      const struct bench_file *file, size_t index, uint32_t round)
{
    (void)row;
    (void)index;
    (void)round;
    return image_verify(c->decoder, &(struct image_file){file->bytes, file->len}, NULL, NULL);
}

#ifdef HAVE_FFCV_WAY
static int run_ffcv_way(struct render_context *c, const struct render_row *row,
                        const struct bench_file *file, size_t index, uint32_t round)
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

#define SIMCLR                                                                   \
    "rrc(224) flip(0.5) color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8) grayscale(0.2) " \
    "blur(23, 0.1:2, p=0.5) solarize(128, p=0.2)"
#define PAIR "view(view, 2, rrc(224) flip(0.5))"
#define DINO                                                                    \
    "view(global, 2, rrc(224, scale=0.32:1, interpolation=bicubic) flip(0.5)) " \
    "view(local, 8, rrc(96, scale=0.05:0.32, interpolation=bicubic) flip(0.5))"

/* add_kernels() fills in the last ones. */
struct render_row render_rows[] = {
    {.name = FULL_ROW,
     .what = "libjpeg-turbo: the whole image, accurate inverse DCT, no resize",
     .run = run_full_decode},
    {.name = WHOLE_ROW, .what = "Plenum: the whole image, and a hash of it", .run = run_verify},
    {.name = FFCV_ROW,
     .what = "TurboJPEG whole image, fast inverse DCT; OpenCV INTER_AREA of the crop",
     .run = run_ffcv_way,
     .missing = FFCV_MISSING},
    {.name = PLAIN_ROW, .what = "Plenum, version 1, original files", .run = run_plain},
    {.name = LIBJPEG_ROW,
     .what = "plain, by libjpeg-turbo instead of Plenum's own decoder",
     .run = run_other},
    {.name = "plain-indexing",
     .what = "plain in a first epoch, which also records where tiles begin",
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
     .what = "the operations of SimCLR and of DINO's global crops",
     .run = run_recipe,
     .recipe = SIMCLR},
    {.name = "recipe-jitter",
     .what = "a colour jitter of four operations",
     .run = run_recipe,
     .recipe = "rrc(224) flip(0.5) color_jitter(0.4, 0.4, 0.4, 0.1)"},
    {.name = "views-pair",
     .what = "two views like plain, from one decode; files per second",
     .run = run_recipe,
     .recipe = PAIR},
    {.name = "views-pair-indexed",
     .what = "the same in later epochs",
     .add = add_indexed,
     .run = run_recipe,
     .recipe = PAIR,
     .indexed = true},
    {.name = "views-simclr",
     .what = "two views of recipe-simclr, from one decode; files per second",
     .run = run_recipe,
     .recipe = "view(view, 2, " SIMCLR ")"},
    {.name = "views-dino",
     .what = "DINOv2's ten crops without its colours, from one decode; files per second",
     .run = run_recipe,
     .recipe = DINO},
    {.name = "dino-apart",
     .what = "the same ten images, each from its own decode",
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
_Static_assert(ARRAY_LEN(render_rows) == ROWS, "ROWS counts the rows");

enum { OTHERS = ROWS - KERNEL_ROWS };

bool render_rows_shown(const struct render_row *row)
{
    return !row->off && !row->missing;
}

/* Create the decoder of LIBJPEG_ROW. */
static int add_libjpeg(struct plenum_error *err)
{
    for (size_t k = 0; k < OTHERS; k++) {
        if (strcmp(render_rows[k].name, LIBJPEG_ROW) != 0)
            continue;
        if (image_decoder_create(&render_rows[k].decoder) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        image_decoder_use_jpeg(render_rows[k].decoder, IMAGE_JPEG_LIBJPEG);
    }
    return 0;
}

/* Add a row per set of loops, except for the best one. */
static int add_kernels(struct plenum_error *err)
{
    static char names[ROWS - OTHERS][32];

    for (uint32_t i = 0; i < ROWS - OTHERS; i++) {
        const char *kernels = image_kernels(i + 1);
        struct render_row *row = &render_rows[OTHERS + i];

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

/* Returns whether the name is in the comma-separated list. */
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
        render_rows[k].off = !render_rows[k].name || (list && !listed(list, render_rows[k].name));
        any = any || render_rows_shown(&render_rows[k]);
    }
    return any ? 0 : error_set(err, -EINVAL, "--rows: '%s' names no available row", list);
}

/* Parse a row's recipe, or leave the row out if this build does not support it. Returns the bytes
 * of its pixels; 0 without a recipe. */
static size_t parse_recipe(struct render_row *row)
{
    if (!row->recipe)
        return 0;
    if (views_parse(row->recipe, &row->views, NULL) < 0) {
        row->missing = "this build does not support all of its operations";
        return 0;
    }
    return views_pixels(&row->views) * 3;
}

int render_rows_init(const char *list, bool kernels, size_t *ret_room, struct plenum_error *err)
{
    int r;

    *ret_room = 0;
    for (size_t k = 0; k < ROWS; k++)
        *ret_room = max_u64(*ret_room, parse_recipe(&render_rows[k]));
    r = add_libjpeg(err);
    if (r == 0 && kernels)
        r = add_kernels(err);
    return r < 0 ? r : choose_rows(list, err);
}

void render_rows_fini(void)
{
    for (size_t k = 0; k < ROWS; k++)
        image_decoder_destroy(render_rows[k].decoder);
}

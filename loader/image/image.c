/* SPDX-License-Identifier: MIT */
/* image.c - renders the bytes of a file as a sample in its slot.
 *
 *     bytes -> reader: header -> crop: what to show -> resize: which rows and columns that takes
 *           -> reader: those rows -> resize -> dst, or a window -> operations -> dst
 *                                           or, if padded, also through the window
 *
 * If nothing is resized, rows are copied instead.
 *
 * Rows are processed in strips of a few rows, so that pixels stay in the processor's cache and a
 * large image needs no more memory than a small one. Only an image that EXIF turns is collected
 * first, because its stored rows are shown as columns, mirrored or in reverse order.
 *
 * With several views, the reader delivers the rows and columns that any of them needs. From the
 * resize on, each view has its own lane, which receives only the rows that the view needs. */
#include "config.h"

#include "loader/image/image.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/stand_in.h"
#include "common/data/text_mode.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/exif.h"
#include "loader/image/limits.h"
#include "loader/image/ops/augment.h"
#include "loader/image/places.h"
#include "loader/image/reader.h"
#include "loader/image/resize/crop.h"
#include "loader/image/resize/pad.h"
#include "loader/image/resize/resize.h"
#include "loader/image/resize/resize_kernels.h"
#include "loader/image/resize/unscaled.h"
#include "loader/image/scratch.h"

enum { JPEG, PNG, WEBP, AVIF, PPM };

/* Buffers of up to KEPT bytes are kept from image to image, and up to KEPT_IDLE bytes in a lane
 * that an image does not use. */
enum { KEPT = 64 << 20, KEPT_IDLE = 1 << 20 };

static const struct {
    const char *format, *extension;
    int (*create)(struct image_reader **ret);
} formats[] = {
    [JPEG] = {"JPEG", ".jpg", jpeg_reader_create},  [PNG] = {"PNG", ".png", png_reader_create},
    [WEBP] = {"WebP", ".webp", webp_reader_create}, [AVIF] = {"AVIF", ".avif", avif_reader_create},
    [PPM] = {"PPM", ".ppm", ppm_reader_create},
};

/* The path from rows of the image to the pixels of one view. */
struct lane {
    /* Kept from image to image. */
    struct resize *resize;
    struct augment *augment;
    struct crop_tables tables;
    struct crop_tables ratios; /* tables for erasing */
    struct pad pad;
    struct unscaled unscaled;
    struct pipeline mask; /* the pipeline for a view's mask */
    /* For the current image. */
    struct crop crop;
    struct augment_plan plan;
    bool copies; /* `unscaled` copies (and pads); resize and pad are not used */
    bool augments;
    void *result; /* destination of a mask's numbers */
    /* Where the resize writes: a window if there are operations, otherwise the view's own
     * pixels. */
    uint8_t *window;
    struct rect region; /* input of the resize, in the image after EXIF */
};

struct image_decoder {
    struct image_reader *readers[ARRAY_LEN(formats)];
    struct lane **lanes; /* [lanes_count]: the largest number of views so far */
    uint32_t lanes_count;
    size_t lanes_cap;
    enum image_jpeg jpeg;
    const struct resize_kernels *kernels; /* NULL: the best ones */
    struct image_tiles *tiles;            /* borrowed, or NULL */
    struct scratch turned;                /* the region of an image that EXIF turns */
    uint32_t mask;         /* bytes per number of the mask being rendered; 0: not a mask */
    struct scratch planes; /* the three planes of each view's mask */
};

/* Guess the format of a file that no reader supports, from its first bytes. */
static const char *guess_format(const uint8_t *bytes, size_t len)
{
    static const struct {
        const char *name;
        uint8_t at, len;
        char mark[9];
    } known[] = {
        {"a GIF", 0, 4, "GIF8"},
        {"a TIFF", 0, 4, "II*\0"},
        {"a TIFF", 0, 4, "MM\0*"},
        {"a BigTIFF", 0, 4, "II+\0"},
        {"a BigTIFF", 0, 4, "MM\0+"},
        {"a HEIC", 4, 8, "ftypheic"},
        {"a HEIC", 4, 8, "ftypheix"},
        {"a HEIC", 4, 8, "ftypheim"},
        {"a HEIC", 4, 8, "ftypheis"},
        {"a HEIC", 4, 8, "ftyphevc"},
        {"a HEIF", 4, 8, "ftypmif1"},
        {"a HEIF", 4, 8, "ftypmsf1"},
        {"a JPEG 2000", 4, 4, "jP  "},
        {"a JPEG 2000", 0, 4, "\xFF\x4F\xFF\x51"},
        {"a JPEG XL", 0, 2, "\xFF\x0A"},
        {"a JPEG XL", 4, 4, "JXL "},
        {"a Photoshop", 0, 4, "8BPS"},
        {"an OpenEXR", 0, 4, "\x76\x2F\x31\x01"},
        {"a Radiance HDR", 0, 7, "#?RADIA"},
        {"a Radiance HDR", 0, 6, "#?RGBE"},
        {"a QOI", 0, 4, "qoif"},
        {"an ICO", 0, 4, "\0\0\1\0"},
        {"an SVG", 0, 4, "<svg"},
        {"a BMP", 0, 2, "BM"},
    };
    /* Netpbm: P1 ... P7, then white space. Binary PPMs and PGMs have a reader. */
    if (len >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
        strchr("\n\r\t ", bytes[2]) && bytes[2])
        return "a PNM";

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (len >= (size_t)known[i].at + known[i].len &&
            memcmp(bytes + known[i].at, known[i].mark, known[i].len) == 0)
            return known[i].name;
    return NULL;
}

static int refuse_format(const uint8_t *bytes, size_t len, struct plenum_error *err)
{
    const char *guess = guess_format(bytes, len);

    if (len == 0)
        return error_set(err, -EBADMSG, "the file is empty (0 bytes)");
    if (stand_in_refuse(bytes, len, -EBADMSG, err) < 0)
        return -EBADMSG;
    if (len >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '3' && isspace(bytes[2]))
        return error_set(err, -EBADMSG,
                         "this is a PNM image in text form (P%c), but only binary PPMs and PGMs "
                         "(P6, P5) are supported: convert it",
                         bytes[1]);
    if (guess)
        return error_set(
            err, -EBADMSG,
            "this is %s image, but only JPEG, PNG, WebP, AVIF and PPM are supported: convert it",
            guess);
    return error_set(err, -EBADMSG,
                     "this is not a JPEG, PNG, WebP, AVIF or PPM image: it begins with byte "
                     "0x%02x%s",
                     bytes[0], len == 1 ? " and has no other" : "");
}

static void forget_found(struct image_tiles *tiles)
{
    if (tiles)
        tiles->found = NULL;
}

/* Flags for opening a JPEG. WHOLE: decode a packed one like any other. JUNK: accept bytes in the
 * header that belong to no segment. */
enum { WHOLE = 1, JUNK = 2 };

/* Returns whether a copy in text mode has changed a file unnoticed by the decoder. A JPEG has no
 * checksum, and the decoders of WebP and AVIF tolerate a lot. */
static bool is_text_copy(size_t format, const struct image_header *header,
                         const struct image_file *file)
{
    if (header->junk > 0)
        return text_mode_change(file->bytes, file->len) ||
               text_mode_removed(file->bytes, file->len);
    return format != PNG && format != PPM && text_mode_change(file->bytes, file->len);
}

/* A file whose header has been read. */
struct opened {
    struct image_reader *reader;
    struct image_header header;
    const char *format;
};

/* Find the reader for a file and read the header with it. */
static int open_file(struct image_decoder *d, const struct image_file *file, unsigned how,
                     struct opened *ret, struct plenum_error *err)
{
    int r;

    forget_found(d->tiles);
    d->readers[JPEG]->refused_junk = false;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        struct image_reader *reader = d->readers[i];

        if (!reader->ops->knows(file->bytes, file->len))
            continue;
        if (d->mask && i != PNG)
            return error_set(err, -EBADMSG, "a mask must be a PNG");
        reader->whole = how & WHOLE;
        reader->junk = how & JUNK;
        reader->mask = d->mask;
        reader->tiles = d->tiles;
        r = reader->ops->open(reader, file->bytes, file->len, &ret->header, err);
        if (r == 0 && is_text_copy(i, &ret->header, file))
            r = -EBADMSG; /* explain() sets the message */
        if (r < 0) {
            reader->ops->close(reader);
            return r;
        }
        assert(ret->header.width > 0 && ret->header.width <= IMAGE_SIDE_MAX);
        assert(ret->header.height > 0 && ret->header.height <= IMAGE_SIDE_MAX);
        assert(ret->header.orientation >= 1 && ret->header.orientation <= 8);
        ret->format = formats[i].format;
        ret->reader = reader;
        return 0;
    }
    return refuse_format(file->bytes, file->len, err);
}

static void push_view(struct lane *l, const uint8_t *rows, size_t pitch, uint32_t count)
{
    if (l->copies)
        unscaled_push(&l->unscaled, rows, pitch, count);
    else
        resize_push(l->resize, rows, pitch, count);
}

/* Pass rows of a region, from its row `y` on, to each view that needs some of them. */
static void push_rows(struct image_decoder *d, uint32_t count, const struct rect *region,
                      uint32_t y, const struct image_rows *rows, uint32_t pixel)
{
    uint32_t top = region->top + y, bottom = top + rows->count;

    for (uint32_t i = 0; i < count; i++) {
        const struct rect *own = &d->lanes[i]->region;
        uint32_t from = own->top > top ? own->top : top;
        uint32_t to = own->top + own->height < bottom ? own->top + own->height : bottom;

        if (from < to)
            push_view(d->lanes[i],
                      rows->pixels + (from - top) * rows->pitch +
                          (size_t)(own->left - region->left) * pixel,
                      rows->pitch, to - from);
    }
}

/* Read all rows of a region for `count` views. */
static int pass_rows(struct image_decoder *d, const struct opened *file, const struct rect *region,
                     uint32_t count, struct plenum_error *err)
{
    struct image_rows rows;
    int r = file->reader->ops->seek(file->reader, region, err);

    if (r < 0)
        return r;
    for (uint32_t y = 0; y < region->height; y += rows.count) {
        r = file->reader->ops->read(file->reader, &rows, err);
        if (r < 0)
            return r;
        assert(rows.count > 0 && rows.count <= region->height - y);
        push_rows(d, count, region, y, &rows, image_pixel_bytes(&file->header));
    }
    return 0;
}

/* Like pass_rows(), but collects the rows in d->turned, turned as EXIF requires. `seen` is the
 * region after EXIF. */
static int pass_turned(struct image_decoder *d, const struct opened *file, const struct rect *seen,
                       uint32_t count, struct plenum_error *err)
{
    const struct image_header *header = &file->header;
    struct rect region = exif_to_stored(header->orientation, *seen, header->width, header->height);
    struct exif_turn turn = {
        .orientation = header->orientation,
        .width = region.width,
        .height = region.height,
        .pixel = image_pixel_bytes(header),
    };
    struct image_rows rows;
    int r = file->reader->ops->seek(file->reader, &region, err);

    if (r < 0)
        return r;
    if (scratch_reserve(&d->turned, (size_t)seen->width * seen->height * 4) < 0)
        return error_set(err, -ENOMEM, "out of memory for %ux%u pixels", seen->width, seen->height);
    turn.turned = d->turned.bytes;
    for (uint32_t y = 0; y < region.height; y += rows.count) {
        r = file->reader->ops->read(file->reader, &rows, err);
        if (r < 0)
            return r;
        assert(rows.count > 0 && rows.count <= region.height - y);
        for (uint32_t i = 0; i < rows.count; i++)
            exif_turn_row(&turn, rows.pixels + i * rows.pitch, y + i);
    }
    rows = (struct image_rows){d->turned.bytes, (size_t)seen->width * 4, seen->height};
    push_rows(d, count, seen, 0, &rows, 4);
    scratch_trim(&d->turned, KEPT);
    return 0;
}

/* Prepare for the rows of the image, which are written to l->window. */
static int begin_rows(struct lane *l, const struct pipeline *pipeline, uint32_t pixel,
                      const struct image_store *store)
{
    uint8_t *seen = l->window;

    if (l->copies) {
        l->region = unscaled_region(&l->crop);
        return unscaled_begin(&l->unscaled, pipeline, &l->crop, pixel, store, l->window);
    }
    if (l->crop.padded)
        seen = pad_window(&l->pad, pipeline, &l->crop);
    return seen ? resize_begin(l->resize, &l->crop, pixel, store, seen, &l->region) : -ENOMEM;
}

/* The image, after EXIF, as the views use it. */
struct image_scene {
    uint32_t width, height;
    uint32_t pixel; /* bytes of a pixel in the rows that are pushed */
    bool mask;      /* the image is a mask */
};

/* Determine which part of an image, or of a mask, a view needs; describe it in view->shown; and
 * prepare for its rows. */
static int begin_view(struct lane *l, struct image_view *view, const struct image_scene *scene,
                      const struct image_store *store, struct plenum_error *err)
{
    static const struct image_store planes = {PLENUM_UINT8, PLENUM_NCHW, 3};
    const struct pipeline *pipeline = view->pipeline;

    l->tables.boxes = view->boxes;
    crop_locate(pipeline, &view->draw, scene->width, scene->height, &l->tables, &l->crop);
    augment_draw(pipeline, &view->draw, &l->ratios, &l->plan);
    l->crop.mirror ^= l->plan.mirror;
    if (scene->mask) {
        augment_keep_moves(&l->plan);
        l->crop.filter = PIPELINE_NEAREST;
    }
    l->augments = augment_is_needed(&l->plan);
    l->copies = unscaled_suits(&l->crop, pipeline, l->augments ? &planes : store);
    l->augments |= l->crop.padded && !l->copies;
    l->window = view->dst;
    if (l->augments)
        l->window = augment_window(l->augment, &l->plan, pipeline->width, pipeline->height);
    view->shown = (struct image_shown){.height = scene->height,
                                       .width = scene->width,
                                       .mirror = l->crop.mirror,
                                       .upside_down = l->plan.upside_down};
    crop_shown(&l->crop, pipeline, view->shown.box);
    if (!l->window || begin_rows(l, pipeline, scene->pixel, l->augments ? &planes : store) < 0)
        return error_set(err, -ENOMEM, "out of memory for the resize");
    return 0;
}

/* Finish a view whose rows have all arrived. */
static void finish_view(struct lane *l, const struct image_view *view,
                        const struct image_store *store)
{
    const struct pipeline *pipeline = view->pipeline;

    assert(l->copies ? unscaled_done(&l->unscaled) : resize_done(l->resize));
    if (l->crop.padded && !l->copies)
        pad_finish(&l->pad, pipeline, &l->crop, l->window);
    if (l->augments)
        augment_finish(l->augment, &l->plan, pipeline->width, pipeline->height, store, view->dst);
}

/* Render the views of a file whose header has been read. */
static int render_opened(struct image_decoder *d, struct opened *file, struct image_view *views,
                         uint32_t count, const struct image_store *store, struct plenum_error *err)
{
    struct image_header *header = &file->header;
    struct image_scene scene = {.mask = d->mask > 0};
    struct rect seen = {0};
    bool swap, turns;
    int r;

    if (!views[0].pipeline->exif)
        header->orientation = 1;
    swap = exif_swaps(header->orientation);
    turns = header->orientation != 1;
    scene.width = swap ? header->height : header->width;
    scene.height = swap ? header->width : header->height;
    scene.pixel = turns ? 4 : image_pixel_bytes(header);
    for (uint32_t i = 0; i < count; i++) {
        assert(views[i].pipeline->exif == views[0].pipeline->exif);
        assert(views[i].pipeline->junk == views[0].pipeline->junk);
        r = begin_view(d->lanes[i], &views[i], &scene, store, err);
        if (r < 0)
            return r;
        seen = i == 0 ? d->lanes[i]->region : rect_union(seen, d->lanes[i]->region);
    }
    assert(seen.left + seen.width <= scene.width && seen.top + seen.height <= scene.height);
    r = turns ? pass_turned(d, file, &seen, count, err) : pass_rows(d, file, &seen, count, err);
    for (uint32_t i = 0; r == 0 && i < count; i++)
        finish_view(d->lanes[i], &views[i], store);
    return r;
}

/* Free memory that only unusually large views needed: all lanes together keep about KEPT bytes. */
static void trim_lanes(struct image_decoder *d, uint32_t used)
{
    for (uint32_t i = 0; i < d->lanes_count; i++) {
        size_t keep = i < used ? KEPT / used : KEPT_IDLE;

        augment_trim(d->lanes[i]->augment, keep);
        pad_trim(&d->lanes[i]->pad, keep);
    }
}

static void lane_destroy(struct lane *l)
{
    resize_destroy(l->resize);
    augment_destroy(l->augment);
    pad_fini(&l->pad);
    unscaled_fini(&l->unscaled);
    free(l);
}

static int add_lane(struct image_decoder *d)
{
    struct lane *l = calloc(1, sizeof(*l));

    if (!l)
        return -ENOMEM;
    if (resize_create(&l->resize) < 0 || augment_create(&l->augment) < 0 ||
        array_grow(&d->lanes, &d->lanes_cap, d->lanes_count, sizeof(struct lane *)) < 0) {
        lane_destroy(l);
        return -ENOMEM;
    }
    augment_use(l->augment, d->kernels ? d->kernels->name : image_kernels(0));
    if (d->kernels)
        resize_use(l->resize, d->kernels);
    d->lanes[d->lanes_count++] = l;
    return 0;
}

int image_decoder_create(struct image_decoder **ret)
{
    struct image_decoder *d = malloc(sizeof(*d));
    int r;

    if (!d)
        return -ENOMEM;
    *d = (struct image_decoder){0};
    r = add_lane(d);
    if (r < 0)
        goto fail;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        r = formats[i].create(&d->readers[i]);
        if (r < 0)
            goto fail;
    }
    *ret = d;
    return 0;

fail:
    image_decoder_destroy(d);
    return r;
}

void image_decoder_destroy(struct image_decoder *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (d->readers[i])
            d->readers[i]->ops->destroy(d->readers[i]);
    for (uint32_t i = 0; i < d->lanes_count; i++)
        lane_destroy(d->lanes[i]);
    free(d->lanes);
    scratch_free(&d->turned);
    scratch_free(&d->planes);
    free(d);
}

const char *image_kernels(uint32_t index)
{
    for (size_t i = 0; resize_kernels[i]; i++)
        if (resize_kernels[i]->usable() && index-- == 0)
            return resize_kernels[i]->name;
    return NULL;
}

void image_describe_loops(enum image_jpeg jpeg, char *ret, size_t size)
{
    bool library = jpeg_reader_choice(jpeg) == IMAGE_JPEG_LIBJPEG;

    (void)snprintf(ret, size, "%s, JPEGs by %s", image_kernels(0),
                   library ? "libjpeg-turbo" : "Plenum");
}

int image_decoder_use_kernels(struct image_decoder *d, const char *name)
{
    for (size_t i = 0; resize_kernels[i]; i++) {
        if (strcmp(resize_kernels[i]->name, name) != 0 || !resize_kernels[i]->usable())
            continue;
        for (uint32_t k = 0; k < d->lanes_count; k++) {
            resize_use(d->lanes[k]->resize, resize_kernels[i]);
            augment_use(d->lanes[k]->augment, name);
        }
        d->kernels = resize_kernels[i];
        jpeg_reader_use(d->readers[JPEG], d->jpeg, name);
        return 0;
    }
    return -ENOENT;
}

int image_jpeg_parse(const char *what, const char *text, enum image_jpeg *ret,
                     struct plenum_error *err)
{
    static const char *const names[] = {
        [IMAGE_JPEG_AUTO] = "auto",
        [IMAGE_JPEG_PLENUM] = "plenum",
        [IMAGE_JPEG_LIBJPEG] = "libjpeg",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *ret = (enum image_jpeg)i;
        return 0;
    }
    return error_set(err, -EINVAL, "%s must be one of auto, plenum, libjpeg, not '%s'", what, text);
}

void image_decoder_use_jpeg(struct image_decoder *d, enum image_jpeg jpeg)
{
    if (d->jpeg == jpeg)
        return;
    d->jpeg = jpeg;
    jpeg_reader_use(d->readers[JPEG], jpeg, d->kernels ? d->kernels->name : NULL);
}

void image_decoder_use_tiles(struct image_decoder *d, struct image_tiles *tiles)
{
    d->tiles = tiles;
}

/* Returns whether all of a JPEG decodes without a warning if junk in its header is accepted. */
static bool junk_is_its_only_fault(struct image_decoder *d, const struct image_file *file)
{
    struct image_tiles *tiles = d->tiles;
    int r;

    d->tiles = NULL;
    r = image_verify(d, file, NULL, NULL);
    d->tiles = tiles;
    forget_found(tiles);
    return r == 0;
}

/* Improve the message of -EBADMSG if the likely cause is known: a copy in text mode, or junk that a
 * pipeline can tolerate. Returns `r`. */
static int explain(struct image_decoder *d, const struct image_file *file, int r,
                   struct plenum_error *err)
{
    const char *change =
        r == -EBADMSG && file->len > 0 ? text_mode_change(file->bytes, file->len) : NULL;
    char text[sizeof(err->text)];

    if (change)
        return error_set(err, r, "it was copied in text mode (%s): copy it again", change);
    if (r != -EBADMSG || !err)
        return r;
    (void)snprintf(text, sizeof(text), "%s", err->text);
    if (text_mode_removed(file->bytes, file->len))
        return error_set(err, r,
                         "%s; the file was probably copied in text mode (each CR LF became LF): "
                         "copy it again",
                         text);
    if (!d->readers[JPEG]->refused_junk || !junk_is_its_only_fault(d, file))
        return r;
    return error_set(err, r, "%s: a pipeline with the word junk tolerates that", text);
}

int image_render_views(struct image_decoder *d, struct image_view *views, uint32_t count,
                       const struct image_store *store, const struct image_file *file,
                       struct plenum_error *err)
{
    struct opened opened;
    int r;

    assert(count > 0);
    while (d->lanes_count < count)
        if (add_lane(d) < 0)
            return error_set(err, -ENOMEM, "out of memory");
    r = open_file(d, file, views[0].pipeline->junk ? JUNK : 0, &opened, err);
    if (r < 0)
        return explain(d, file, r, err);
    r = render_opened(d, &opened, views, count, store, err);
    opened.reader->ops->close(opened.reader);
    trim_lanes(d, count);
    return explain(d, file, r, err);
}

/* Combine planes of low and high bytes into numbers. */
static void join_planes(const uint8_t *planes, size_t count, uint32_t item, void *dst)
{
    if (item == 1) {
        memcpy(dst, planes, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t number = (uint16_t)(planes[i] | planes[count + i] << 8);

        memcpy((uint8_t *)dst + 2 * i, &number, sizeof(number));
    }
}

static size_t pixels_of(const struct image_view *view)
{
    return (size_t)view->pipeline->width * view->pipeline->height;
}

/* Render a mask like the channels R and G of an image, by a pipeline with the image's crop and
 * without interpolation. */
static int render_mask(struct image_decoder *d, struct image_view *views, uint32_t count,
                       const struct image_file *file, struct plenum_error *err)
{
    static const struct image_store planes = {PLENUM_UINT8, PLENUM_NCHW, 3};
    uint32_t height = views[0].shown.height, width = views[0].shown.width;
    struct opened opened;
    int r;

    r = open_file(d, file, 0, &opened, err);
    if (r < 0)
        return r;
    if (opened.header.width != width || opened.header.height != height)
        r = error_set(err, -EBADMSG, "the mask has %u x %u pixels, but its image has %u x %u",
                      opened.header.height, opened.header.width, height, width);
    else
        r = render_opened(d, &opened, views, count, &planes, err);
    opened.reader->ops->close(opened.reader);
    return explain(d, file, r, err);
}

int image_render_masks(struct image_decoder *d, struct image_view *views, uint32_t count,
                       uint32_t item_bytes, const struct image_file *file, struct plenum_error *err)
{
    struct image_tiles *tiles = d->tiles;
    size_t total = 0;
    uint8_t *at;
    int r;

    assert(count > 0 && count <= d->lanes_count && (item_bytes == 1 || item_bytes == 2));
    for (uint32_t i = 0; i < count; i++)
        total += 3 * pixels_of(&views[i]);
    if (scratch_reserve(&d->planes, total) < 0)
        return error_set(err, -ENOMEM, "out of memory for a mask");
    at = d->planes.bytes;
    for (uint32_t i = 0; i < count; at += 3 * pixels_of(&views[i++])) {
        struct pipeline *mask = &d->lanes[i]->mask;

        *mask = *views[i].pipeline;
        mask->exif = false; /* masks are stored in the orientation after EXIF */
        memset(mask->fill, 255, sizeof(mask->fill));
        views[i].pipeline = mask;
        d->lanes[i]->result = views[i].dst;
        views[i].dst = at;
    }
    d->mask = item_bytes;
    d->tiles = NULL;
    r = render_mask(d, views, count, file, err);
    d->tiles = tiles;
    d->mask = 0;
    for (uint32_t i = 0; r == 0 && i < count; i++)
        join_planes(views[i].dst, pixels_of(&views[i]), item_bytes, d->lanes[i]->result);
    scratch_trim(&d->planes, KEPT);
    trim_lanes(d, count);
    return r;
}

/* Render the columns or rows of the picture like a mask. `planes` has three. */
static int render_places(struct image_decoder *d, const struct image_view *of, bool rows,
                         uint8_t *planes, struct plenum_error *err)
{
    static const struct image_store store = {PLENUM_UINT8, PLENUM_NCHW, 3};
    struct places_reader reader = {.base = {.ops = &places_reader_ops}, .rows = rows};
    struct opened opened = {
        .reader = &reader.base,
        .header = {.width = of->shown.width, .height = of->shown.height, .orientation = 1}};
    struct pipeline *pipeline = &d->lanes[0]->mask;
    struct image_view view = *of;
    int r;

    view.pipeline = pipeline;
    view.dst = planes;
    *pipeline = *of->pipeline;
    pipeline->exif = false;
    memset(pipeline->fill, 255, sizeof(pipeline->fill));
    pipeline->pad_mode = PIPELINE_CONSTANT;
    d->mask = 2;
    r = render_opened(d, &opened, &view, 1, &store, err);
    d->mask = 0;
    scratch_free(&reader.strip);
    return r;
}

int image_find_places(struct image_decoder *d, const struct image_view *view, uint16_t *columns,
                      uint16_t *rows, struct plenum_error *err)
{
    size_t pixels = pixels_of(view);
    int r = scratch_reserve(&d->planes, 3 * pixels);

    if (r < 0 || (d->lanes_count == 0 && add_lane(d) < 0))
        return error_set(err, -ENOMEM, "out of memory for a mask");
    for (int i = 0; r == 0 && i < (rows ? 2 : 1); i++) {
        r = render_places(d, view, i == 1, d->planes.bytes, err);
        if (r == 0)
            join_planes(d->planes.bytes, pixels, 2, i == 1 ? rows : columns);
    }
    scratch_trim(&d->planes, KEPT);
    trim_lanes(d, 1);
    return r;
}

int image_render(struct image_decoder *d, struct image_view *view, const struct image_store *store,
                 const struct image_file *file, struct plenum_error *err)
{
    return image_render_views(d, view, 1, store, file, err);
}

/* Hash R, G and B of a row's pixels, without the fourth byte. */
static void hash_row(XXH3_state_t *state, const uint8_t *pixels, uint32_t pixel, uint32_t width)
{
    uint8_t rgb[256 * 3];

    if (pixel == 3) {
        (void)XXH3_64bits_update(state, pixels, 3 * (size_t)width);
        return;
    }
    while (width > 0) {
        uint32_t count = width < 256 ? width : 256;

        for (uint32_t i = 0; i < count; i++)
            memcpy(rgb + 3 * i, pixels + 4 * i, 3);
        (void)XXH3_64bits_update(state, rgb, 3 * count);
        pixels += 4 * count;
        width -= count;
    }
}

/* Hash all pixels, row by row. */
static int hash_all(const struct opened *file, uint64_t *ret, struct plenum_error *err)
{
    const struct image_header *header = &file->header;
    struct rect all = {.width = header->width, .height = header->height};
    struct image_rows rows;
    XXH3_state_t state;
    int r = file->reader->ops->seek(file->reader, &all, err);

    if (r < 0)
        return r;
    (void)XXH3_64bits_reset(&state);
    for (uint32_t y = 0; y < all.height; y += rows.count) {
        r = file->reader->ops->read(file->reader, &rows, err);
        if (r < 0)
            return r;
        assert(rows.count > 0 && rows.count <= all.height - y);
        for (uint32_t i = 0; i < rows.count; i++)
            hash_row(&state, rows.pixels + i * rows.pitch, image_pixel_bytes(header), all.width);
    }
    *ret = XXH3_64bits_digest(&state);
    return 0;
}

int image_verify(struct image_decoder *d, const struct image_file *file, struct image_info *ret,
                 struct plenum_error *err)
{
    struct opened opened;
    uint64_t pixels = 0;
    int r;

    r = open_file(d, file, WHOLE | JUNK, &opened, err);
    if (r < 0)
        return explain(d, file, r, err);
    r = explain(d, file, hash_all(&opened, &pixels, err), err);
    opened.reader->ops->close(opened.reader);
    if (ret)
        *ret = (struct image_info){.format = opened.format,
                                   .width = opened.header.width,
                                   .height = opened.header.height,
                                   .orientation = opened.header.orientation,
                                   .progressive = opened.header.progressive,
                                   .junk = opened.header.junk,
                                   .pixels = pixels};
    return r;
}

int image_refuse_junk(size_t junk, struct plenum_error *err)
{
    if (junk == 1)
        return error_set(err, -EBADMSG,
                         "1 byte before the first scan belongs to no segment; a pipeline that "
                         "begins with the word junk tolerates it");
    return error_set(err, -EBADMSG,
                     "%zu bytes before the first scan belong to no segment; a pipeline that begins "
                     "with the word junk tolerates them",
                     junk);
}

const char *image_extension(const struct image_decoder *d, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (d->readers[i]->ops->knows(bytes, len))
            return formats[i].extension;
    return NULL;
}

int image_find_tiles(struct image_decoder *d, const struct image_file *file,
                     struct image_tiles *tiles, struct plenum_error *err)
{
    struct image_tiles *others = d->tiles;
    struct opened opened;
    struct image_rows rows;
    struct rect last;
    int r;

    d->tiles = tiles;
    r = open_file(d, file, JUNK, &opened, err);
    d->tiles = others;
    if (r < 0)
        return explain(d, file, r, err);
    last = (struct rect){opened.header.width - 1, opened.header.height - 1, 1, 1};
    r = opened.reader->ops->seek(opened.reader, &last, err);
    if (r >= 0)
        r = opened.reader->ops->read(opened.reader, &rows, err);
    opened.reader->ops->close(opened.reader);
    return r;
}

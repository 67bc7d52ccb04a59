/* SPDX-License-Identifier: MIT */
/* preview_html.c - writes a contact sheet as a page of HTML.
 *
 * Images are inside the page, so it can be moved, sent and shown without a network; its policy
 * forbids everything else. Masks are images over the image, and boxes and key points are SVG, so
 * that the page's switches can hide them. Names of classes and files, and captions, come from
 * strangers: html_put_text() writes all of them. */
#include "config.h"

#include "loader/ctl/preview_html.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/ctl/html.h"
#include "loader/ctl/preview_fields.h"
#include "loader/image/encode.h"
#include "loader/image/ops/augment_text.h"

enum {
    SMALL_BELOW = 128, /* narrower samples are shown larger, so that captions fit below */
    MAP_SIDE = 64,     /* pixels of the drawing that shows where a crop lies */
    TEXT_SIDE = 12,    /* pixels of letters */
    SEAM = 2,          /* pixels between the images of a view, as in the style */
    POINT_RADIUS = 3,  /* pixels */
};

/* One image of a sample. */
struct shown_image {
    const struct preview_sample *sample;
    const struct pipeline *pipeline;
    uint32_t number; /* among the sample's images */
    size_t before;   /* pixels of all images before it */
    uint32_t scale;  /* how much larger it is shown */
};

static const char style[] =
    "body { margin: 16px; font: 14px/1.4 system-ui, sans-serif; background: #f8f8f8; color: #222;"
    " }\n"
    "h1 { margin: 0; font-size: 18px; overflow-wrap: anywhere; }\n"
    "p { margin: 0; overflow-wrap: anywhere; }\n"
    "label { margin-right: 12px; }\n"
    "main { display: grid; gap: 16px; margin-top: 16px; justify-content: start;"
    " align-items: start; }\n"
    "figure { position: relative; margin: 0; }\n"
    "figcaption { contain: inline-size; }\n"
    ".grey, .failed { color: #707070; font-size: 12px; }\n"
    ".field { font-size: 12px; max-height: 9em; overflow: auto; unicode-bidi: isolate; }\n"
    ".view { display: flex; gap: 2px; margin-bottom: 2px; }\n"
    ".image { position: relative; flex: none; background: #ddd; }\n"
    ".image > * { position: absolute; top: 0; left: 0; width: 100%; height: 100%; }\n"
    ".image img { image-rendering: pixelated; }\n"
    ".image .mask { opacity: 0.5; }\n"
    ".image svg { overflow: visible; }\n"
    "svg * { vector-effect: non-scaling-stroke; }\n"
    ".boxes rect { fill: none; pointer-events: all; stroke-width: 2px; }\n"
    ".boxes rect:first-of-type { stroke-width: 4px; stroke-opacity: 0.5; }\n"
    "svg text { paint-order: stroke; stroke-width: 4px; stroke-linejoin: round; font-weight: 600;"
    " }\n"
    ".points circle { stroke-width: 2px; }\n"
    ".draws { display: none; position: absolute; z-index: 1; top: 100%; left: 0; min-width: 100%;"
    " width: max-content; max-width: 24em; padding: 6px 8px; background: #fff;"
    " border: 1px solid #999; box-sizing: border-box; font-size: 12px; }\n"
    "figure:hover .draws, figure:focus .draws { display: block; }\n"
    ".draws div { display: flex; gap: 8px; align-items: center; }\n"
    ".draws svg { flex: none; margin: 2px; overflow: visible; }\n"
    ".map rect { fill: #ddd; }\n"
    ".map .crop { fill: #06c4; stroke: #06c; }\n"
    "#masks:not(:checked) ~ main .mask, #boxes:not(:checked) ~ main .boxes,"
    " #points:not(:checked) ~ main .points { display: none; }\n";

/* Write text with numbers in it, which is not markup either. */
__attribute__((format(printf, 2, 3))) static void put(FILE *page, const char *format, ...)
{
    char text[4096 + 128];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    html_put_text(page, text);
}

/* Returns how much larger the images are shown. */
static uint32_t scale_of(const struct views *views)
{
    uint64_t width = 1;

    for (uint32_t i = 0; i < views->count; i++)
        width = max_u64(width, (uint64_t)views->view[i].count * views->view[i].pipeline.width);
    return width < SMALL_BELOW ? (uint32_t)((SMALL_BELOW + width - 1) / width) : 1;
}

/* Returns the width of a sample on the page: each view's images form a row. */
static uint32_t width_of(const struct views *views)
{
    uint32_t width = 0, scale = scale_of(views);

    for (uint32_t i = 0; i < views->count; i++) {
        const struct view *view = &views->view[i];

        width =
            (uint32_t)max_u64(width, view->count * (view->pipeline.width * scale + SEAM) - SEAM);
    }
    return width;
}

/* Write a switch that hides what it names, if some fields are shown so. */
static void put_switch(FILE *page, const char *name, const char *text)
{
    fprintf(page, "<input type=\"checkbox\" id=\"%s\" checked><label for=\"%s\">%s</label>\n", name,
            name, text);
}

static void put_switches(FILE *page, const struct fields *fields)
{
    bool masks = false, boxes = false, points = false;

    for (uint32_t i = 0; i < fields->count; i++) {
        masks = masks || preview_is_area(&fields->shape[i]);
        boxes = boxes || fields->shape[i].type == PLENUM_FIELD_BOXES;
        points = points || fields->shape[i].type == PLENUM_FIELD_KEYPOINTS;
    }
    if (masks)
        put_switch(page, "masks", "masks");
    if (boxes)
        put_switch(page, "boxes", "boxes");
    if (points)
        put_switch(page, "points", "key points");
}

void preview_html_begin(FILE *page, const struct ctl_stream *stream, uint64_t epoch,
                        uint32_t columns)
{
    const char *name = dataset_get_name(stream->dataset);

    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"
          " img-src data:; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
          page);
    html_put_text(page, name);
    fprintf(page, "</title>\n<style>\n%smain { grid-template-columns: repeat(", style);
    if (columns > 0)
        fprintf(page, "%u", columns);
    else
        fputs("auto-fill", page);
    fprintf(page, ", %upx); }\n", width_of(&stream->spec.views));
    fputs("</style>\n</head>\n<body>\n<h1>", page);
    html_put_text(page, name);
    fputs("</h1>\n<p class=\"grey\">", page);
    put(page, "%s, seed %llu, epoch %llu", stream->spec.views.text,
        (unsigned long long)stream->spec.order.seed, (unsigned long long)epoch);
    fputs("</p>\n", page);
    put_switches(page, dataset_get_fields(stream->dataset));
    fputs("<main>\n", page);
}

/* Returns the image's value of a field that is not the same for all images. */
static const uint8_t *value_of(const struct shown_image *image, uint32_t i)
{
    const struct render_spec *spec = &image->sample->stream->spec;
    const struct field_shape shape = render_field_shape(spec, i);
    const uint8_t *at = image->sample->target->field[i];
    uint32_t before = image->number;

    assert(shape.mask || field_is_of_image(&shape));
    for (uint32_t k = 0; before > 0; k++) {
        const struct view *view = &spec->views.view[k];
        uint32_t count = view->count < before ? view->count : before;

        at += count *
              field_image_bytes(&shape, (uint64_t)view->pipeline.width * view->pipeline.height);
        before -= count;
    }
    return at;
}

static int put_picture(FILE *page, const struct shown_image *image)
{
    struct encode_options encode = {.pixels = image->sample->target->view[0] + image->before * 3,
                                    .width = image->pipeline->width,
                                    .height = image->pipeline->height,
                                    .quality = 92,
                                    .subsampling = ENCODE_444};
    uint8_t *bytes;
    size_t len;
    int r = encode_jpeg(&encode, &bytes, &len);

    if (r < 0)
        return r;
    fprintf(page, "<img alt=\"image %u of sample %u\" src=\"", image->number + 1,
            image->sample->result->sample);
    html_put_data(page, "image/jpeg", bytes, len);
    fputs("\">\n", page);
    free(bytes);
    return 0;
}

static void set_pixel(uint8_t *pixel, uint32_t number)
{
    uint32_t colour = preview_colour(number);

    for (unsigned c = 0; c < 3; c++)
        pixel[c] = (uint8_t)(colour >> (8 * (2 - c)));
    pixel[3] = number > 0 ? 255 : 0;
}

/* Colour the pixels of each object with its number, from 1. */
static void set_instances(uint8_t *pixels, size_t count, const uint8_t *instances)
{
    const uint8_t *bits = instances + sizeof(struct plenum_instances);
    struct plenum_instances head;

    memcpy(&head, instances, sizeof(head));
    for (uint64_t i = 1; i <= head.count; i++, bits += field_bits_bytes(count)) {
        bits += sizeof(struct plenum_instance);
        for (size_t k = 0; k < count; k++)
            if (bits[k / 8] >> k % 8 & 1)
                set_pixel(pixels + 4 * k, (uint32_t)i);
    }
}

/* Write a mask, or those of instances, as an image that is transparent where they are 0. */
static int put_mask(FILE *page, const struct shown_image *image, uint32_t i)
{
    const struct field_shape *shape = &dataset_get_fields(image->sample->stream->dataset)->shape[i];
    size_t count = (size_t)image->pipeline->width * image->pipeline->height, len;
    const uint8_t *value = value_of(image, i);
    uint8_t *pixels = calloc(count, 4), *bytes;
    int r;

    if (!pixels)
        return -ENOMEM;
    if (shape->type == PLENUM_FIELD_INSTANCES)
        set_instances(pixels, count, value);
    for (size_t k = 0; k < count && shape->mask; k++)
        set_pixel(pixels + 4 * k, preview_number(value, shape->room, k));
    r = encode_png(&(struct encode_options){.pixels = pixels,
                                            .width = image->pipeline->width,
                                            .height = image->pipeline->height,
                                            .alpha = true},
                   &bytes, &len);
    free(pixels);
    if (r < 0)
        return r;
    fputs("<img class=\"mask\" alt=\"\" src=\"", page);
    html_put_data(page, "image/png", bytes, len);
    fputs("\">\n", page);
    free(bytes);
    return 0;
}

/* Write an object's class: its number, and its name if there is one. */
static void put_class(FILE *page, const struct shown_image *image, int64_t class)
{
    const struct dataset *dataset = image->sample->stream->dataset;

    fprintf(page, "%lld", (long long)class);
    if (!dataset_has_object_classes(dataset) || class < 0 || class > UINT32_MAX)
        return;
    fputs(" ", page);
    html_put_text(page, dataset_get_class_name(dataset, (uint32_t) class));
}

/* Write a box with its class above its left corner, or inside it at the top of the image; on the
 * right, the text ends at the right corner. */
static void put_box(FILE *page, const struct shown_image *image, const struct plenum_box *box)
{
    uint32_t colour = preview_colour((uint64_t)box->class_id);
    double side = (double)TEXT_SIDE / image->scale, top = (double)box->top;
    bool ends = (double)box->left > 0.7 * image->pipeline->width;

    fputs("<g><title>", page);
    put_class(page, image, box->class_id);
    fprintf(page, ", object %lld: %.1f, %.1f to %.1f, %.1f</title>", (long long)box->id,
            (double)box->left, top, (double)box->right, (double)box->bottom);
    for (unsigned i = 0; i < 2; i++)
        fprintf(page,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" stroke=\"#%06x\"/>",
                (double)box->left, top, (double)(box->right - box->left),
                (double)(box->bottom - box->top), i == 0 ? 0xffffff : colour);
    fprintf(page, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" stroke=\"#%06x\" fill=\"#%s\">",
            (double)(ends ? box->right : box->left), top > side ? top - side / 3 : top + side,
            ends ? "end" : "start", colour, preview_is_light(colour) ? "000" : "fff");
    put_class(page, image, box->class_id);
    fputs("</text></g>\n", page);
}

static void put_boxes(FILE *page, const struct shown_image *image, const uint8_t *boxes)
{
    struct plenum_boxes head;

    memcpy(&head, boxes, sizeof(head));
    fputs("<g class=\"boxes\">\n", page);
    for (uint64_t i = 0; i < head.count; i++) {
        struct plenum_box box;

        memcpy(&box, boxes + sizeof(head) + i * sizeof(box), sizeof(box));
        put_box(page, image, &box);
    }
    fputs("</g>\n", page);
}

static void put_point(FILE *page, const struct shown_image *image,
                      const struct plenum_keypoint *point, uint32_t number)
{
    uint32_t colour = preview_colour(number);
    bool visible = point->visibility > 1;

    fprintf(page,
            "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"#%06x\" stroke=\"#%06x\">"
            "<title>point %u%s: %.1f, %.1f</title></circle>\n",
            (double)point->x, (double)point->y, (double)POINT_RADIUS / image->scale,
            visible ? colour : 0, visible ? 0 : colour, number, visible ? "" : ", hidden",
            (double)point->x, (double)point->y);
}

static void put_points(FILE *page, const struct shown_image *image, const struct field_shape *shape,
                       const uint8_t *poses)
{
    struct plenum_poses head;

    memcpy(&head, poses, sizeof(head));
    assert(head.count <= shape->shape[0]);
    fputs("<g class=\"points\">\n", page);
    for (uint64_t i = 0; i < head.count; i++) {
        const uint8_t *pose = poses + sizeof(head) + i * field_pose_bytes(shape->shape[1]);

        for (uint32_t k = 0; k < shape->shape[1]; k++) {
            struct plenum_keypoint point;

            memcpy(&point, pose + sizeof(struct plenum_pose) + k * sizeof(point), sizeof(point));
            if (point.visibility > 0)
                put_point(page, image, &point, k + 1);
        }
    }
    fputs("</g>\n", page);
}

/* Write the boxes and key points of an image, if there are such fields. */
static void put_drawing(FILE *page, const struct shown_image *image)
{
    const struct fields *fields = dataset_get_fields(image->sample->stream->dataset);
    bool begun = false;

    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field_shape shape = render_field_shape(&image->sample->stream->spec, i);

        if (!field_is_of_image(&shape) || preview_is_area(&shape))
            continue;
        if (!begun)
            fprintf(page, "<svg viewBox=\"0 0 %u %u\" style=\"font-size: %.2fpx\">\n",
                    image->pipeline->width, image->pipeline->height,
                    (double)TEXT_SIDE / image->scale);
        begun = true;
        if (shape.type == PLENUM_FIELD_BOXES)
            put_boxes(page, image, value_of(image, i));
        else
            put_points(page, image, &shape, value_of(image, i));
    }
    if (begun)
        fputs("</svg>\n", page);
}

static int put_image(FILE *page, const struct shown_image *image)
{
    const struct fields *fields = dataset_get_fields(image->sample->stream->dataset);
    int r = 0;

    fprintf(page, "<div class=\"image\" style=\"width: %upx; height: %upx\">\n",
            image->pipeline->width * image->scale, image->pipeline->height * image->scale);
    if (!image->sample->failure) {
        r = put_picture(page, image);
        for (uint32_t i = 0; i < fields->count && r == 0; i++)
            if (preview_is_area(&fields->shape[i]))
                r = put_mask(page, image, i);
        put_drawing(page, image);
    }
    fputs("</div>\n", page);
    return r;
}

/* Call `each` for all images of a sample, until it fails. */
static int for_images(FILE *page, const struct preview_sample *sample,
                      int (*each)(FILE *page, const struct shown_image *image), bool rows)
{
    const struct views *views = &sample->stream->spec.views;
    struct shown_image image = {.sample = sample, .scale = scale_of(views)};
    int r = 0;

    for (uint32_t i = 0; i < views->count && r == 0; i++) {
        image.pipeline = &views->view[i].pipeline;
        if (rows)
            fputs("<div class=\"view\">\n", page);
        for (uint32_t k = 0; k < views->view[i].count && r == 0; k++, image.number++) {
            r = each(page, &image);
            image.before += (size_t)image.pipeline->width * image.pipeline->height;
        }
        if (rows)
            fputs("</div>\n", page);
    }
    return r;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* Draw where the crop lies in the picture. */
static void put_map(FILE *page, const float crop[4], uint32_t width, uint32_t height)
{
    double left = lesser(crop[0], 0), top = lesser(crop[1], 0);
    double across = greater(crop[2], width) - left, down = greater(crop[3], height) - top;
    double scale = MAP_SIDE / greater(across, down);

    fprintf(page,
            "<svg class=\"map\" width=\"%.0f\" height=\"%.0f\" viewBox=\"%.1f %.1f %.1f %.1f\">"
            "<rect width=\"%u\" height=\"%u\"/>"
            "<rect class=\"crop\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></svg>\n",
            across * scale, down * scale, left, top, across, down, width, height, (double)crop[0],
            (double)crop[1], (double)(crop[2] - crop[0]), (double)(crop[3] - crop[1]));
}

/* Write what the pipeline drew for an image: the crop, and the operations with their values. */
static int put_draws(FILE *page, const struct shown_image *image)
{
    const struct preview_sample *sample = image->sample;
    const struct render_spec *spec = &sample->stream->spec;
    struct image_draw draw = render_draw(spec, sample->place.epoch, sample->place.position);
    const float *crop = sample->target->boxes + 4 * (size_t)image->number;
    uint32_t height = sample->target->size[0], width = sample->target->size[1];
    char words[AUGMENT_TEXT_MAX];

    draw.view = image->number;
    augment_describe(image->pipeline, &draw, words, sizeof(words));
    fputs("<div>\n", page);
    if (width > 0 && height > 0)
        put_map(page, crop, width, height);
    fputs("<p>", page);
    if (spec->views.named)
        put(page, "image %u: ", image->number + 1);
    fprintf(page, "crop %.1f, %.1f to %.1f, %.1f of %u x %u", (double)crop[0], (double)crop[1],
            (double)crop[2], (double)crop[3], width, height);
    put(page, "%s%s", words[0] ? "; " : "", words);
    fputs("</p>\n</div>\n", page);
    return 0;
}

/* Write a class, and its share of the label if there are two. */
static void put_label(FILE *page, const struct preview_sample *sample, int64_t label, float weight)
{
    fputs("<p>", page);
    if (weight < 1)
        fprintf(page, "%.2f: ", (double)weight);
    fprintf(page, "%lld ", (long long)label);
    html_put_text(page, dataset_get_class_name(sample->stream->dataset, (uint32_t)label));
    fputs("</p>\n", page);
}

static void put_fields(FILE *page, const struct preview_sample *sample)
{
    const struct fields *fields = dataset_get_fields(sample->stream->dataset);
    char text[4096];

    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field_shape *shape = &fields->shape[i];

        if (shape->mask || field_is_of_image(shape))
            continue;
        fputs("<p class=\"field\">", page);
        html_put_text(page, preview_value(fields->spec[i].name, shape, sample->target->field[i],
                                          sample->lengths[i], text, sizeof(text)));
        fputs(strlen(text) == sizeof(text) - 1 ? "...</p>\n" : "</p>\n", page);
    }
}

static void put_captions(FILE *page, const struct preview_sample *sample)
{
    const struct dataset *dataset = sample->stream->dataset;
    const struct render_result *result = sample->result;
    char name[4096];

    if (!dataset_has_object_classes(dataset)) {
        put_label(page, sample, result->label, result->weight);
        if (result->weight < 1)
            put_label(page, sample, result->label2, 1 - result->weight);
    }
    fputs("<p class=\"grey\">", page);
    put(page, "sample %u%s, %s", result->sample, result->substituted ? " (substitute)" : "",
        dataset_get_sample_path(dataset, result->sample, name, sizeof(name)));
    fputs("</p>\n", page);
    put_fields(page, sample);
}

int preview_html_sample(FILE *page, const struct preview_sample *sample)
{
    int r;

    fputs("<figure tabindex=\"0\">\n", page);
    r = for_images(page, sample, put_image, true);
    fputs("<figcaption>\n", page);
    if (sample->failure) {
        fputs("<p class=\"failed\">failed: ", page);
        html_put_text(page, sample->failure);
        fputs("</p>\n", page);
    } else {
        put_captions(page, sample);
    }
    fputs("</figcaption>\n", page);
    if (!sample->failure && !dataset_is_generated(sample->stream->dataset)) {
        fputs("<div class=\"draws\">\n", page);
        for_images(page, sample, put_draws, false);
        fputs("</div>\n", page);
    }
    fputs("</figure>\n", page);
    return r;
}

void preview_html_end(FILE *page)
{
    fputs("</main>\n</body>\n</html>\n", page);
}

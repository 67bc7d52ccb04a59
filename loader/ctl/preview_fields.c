/* SPDX-License-Identifier: MIT */
/* preview_fields.c - draws masks, boxes, key points and values of a sample.
 *
 * A mask that is shifted by a few pixels, or a box that was not flipped, is visible here at a
 * glance. */
#include "config.h"

#include "loader/ctl/preview_fields.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/dataset/field_value.h"

enum {
    VALUES_SHOWN = 8,      /* elements that are listed; for longer arrays, the shape is shown */
    THICK_FROM = 200,      /* image size in pixels from which frames are two pixels wide */
    TAG = FONT_HEIGHT + 1, /* height of a class label in a box */
    TAG_TEXT = 80,         /* bytes of its text */
};

/* Returns a colour of Pascal VOC's palette: three bits of the number at a time set one bit of red,
 * green and blue, from the highest down. */
static uint32_t palette(uint64_t number)
{
    uint32_t colour = 0;

    for (unsigned bit = 0; bit < 8; bit++)
        for (unsigned c = 0; c < 3; c++)
            colour |= (uint32_t)(number >> (3 * bit + c) & 1) << (7 - bit + 8 * (2 - c));
    return colour;
}

uint32_t preview_colour(uint64_t number)
{
    return palette(number < 256 ? number : number == UINT16_MAX ? 255 : 1 + number % 254);
}

uint32_t preview_number(const uint8_t *mask, uint32_t item, size_t pixel)
{
    assert(item == 1 || item == 2);
    return item == 1 ? mask[pixel] : mask[pixel * 2] | (uint32_t)mask[pixel * 2 + 1] << 8;
}

static void tint(uint8_t *pixel, uint32_t colour)
{
    for (unsigned c = 0; c < 3; c++)
        pixel[c] = (uint8_t)((pixel[c] + (colour >> (8 * (2 - c)) & 0xff) + 1) / 2);
}

void preview_mask(const struct canvas *image, const uint8_t *mask, uint32_t item)
{
    size_t count = (size_t)image->width * image->height;

    for (size_t i = 0; i < count; i++) {
        uint32_t number = preview_number(mask, item, i);

        if (number > 0)
            tint(image->pixels + i * 3, preview_colour(number));
    }
}

void preview_instances(const struct canvas *image, const uint8_t *instances)
{
    size_t count = (size_t)image->width * image->height;
    const uint8_t *bits = instances + sizeof(struct plenum_instances);
    struct plenum_instances head;

    memcpy(&head, instances, sizeof(head));
    for (uint64_t i = 1; i <= head.count; i++, bits += field_bits_bytes(count)) {
        bits += sizeof(struct plenum_instance);
        for (size_t k = 0; k < count; k++)
            if (bits[k / 8] >> k % 8 & 1)
                tint(image->pixels + k * 3, preview_colour(i));
    }
}

bool preview_is_light(uint32_t colour)
{
    return (colour >> 16) + 2 * (colour >> 8 & 0xff) + (colour & 0xff) > 2 * 255;
}

/* Format a class: its number, and its name if there is one and both fit into this width. Returns
 * the width of the text. */
static uint32_t name_class(const struct dataset *dataset, int64_t class, uint32_t width,
                           char text[TAG_TEXT])
{
    const char *name = dataset_has_object_classes(dataset) && class >= 0 && class <= UINT32_MAX
                           ? dataset_get_class_name(dataset, (uint32_t) class)
                           : "";
    int number = snprintf(text, TAG_TEXT, "%lld", (long long)class);

    (void)snprintf(text, TAG_TEXT, "%lld %s", (long long)class, name);
    (void)text_make_plain(text);
    if (*name == '\0' || strlen(text) * (FONT_WIDTH + 1) > width)
        text[number] = '\0';
    return (uint32_t)strlen(text) * (FONT_WIDTH + 1);
}

static void draw_box(const struct canvas *image, const struct dataset *dataset,
                     const struct plenum_box *box)
{
    uint32_t colour = preview_colour((uint64_t)box->class_id);
    uint32_t wide = image->width >= THICK_FROM && image->height >= THICK_FROM ? 2 : 1;
    uint32_t left = (uint32_t)floorf(box->left), top = (uint32_t)floorf(box->top);
    uint32_t right = (uint32_t)ceilf(box->right), bottom = (uint32_t)ceilf(box->bottom);
    uint32_t tag = top + wide + TAG <= bottom ? TAG : 0, tag_width;
    char text[TAG_TEXT];

    canvas_fill(image, left, top, right, top + wide, colour);
    canvas_fill(image, left, bottom > wide ? bottom - wide : 0, right, bottom, colour);
    canvas_fill(image, left, top, left + wide, bottom, colour);
    canvas_fill(image, right > wide ? right - wide : 0, top, right, bottom, colour);
    tag_width =
        name_class(dataset, box->class_id, right > left + wide ? right - left - wide : 0, text) +
        wide;
    if (tag == 0 || left + tag_width > right)
        return; /* the label does not fit into the box */
    canvas_fill(image, left, top, left + tag_width, top + wide + tag, colour);
    canvas_write(image,
                 &(struct line){.x = left + wide,
                                .y = top + wide,
                                .max_width = tag_width,
                                .scale = 1,
                                .ink = preview_is_light(colour) ? 0 : 0xffffff},
                 text);
}

void preview_boxes(const struct canvas *image, const struct dataset *dataset, const uint8_t *boxes)
{
    struct plenum_boxes head;

    memcpy(&head, boxes, sizeof(head));
    for (uint64_t i = 0; i < head.count; i++) {
        struct plenum_box box;

        memcpy(&box, boxes + sizeof(head) + i * sizeof(box), sizeof(box));
        draw_box(image, dataset, &box);
    }
}

/* Draw a point as a square, with a dark edge so that it is seen on any picture. */
static void draw_keypoint(const struct canvas *image, const struct plenum_keypoint *point,
                          uint32_t colour)
{
    bool large = image->width >= THICK_FROM && image->height >= THICK_FROM;
    uint32_t around = large ? 4 : 2, within = large ? 3 : 1;
    uint32_t x = (uint32_t)floorf(point->x), y = (uint32_t)floorf(point->y);

    canvas_fill(image, x > around ? x - around : 0, y > around ? y - around : 0, x + around + 1,
                y + around + 1, point->visibility > 1 ? 0 : colour);
    canvas_fill(image, x > within ? x - within : 0, y > within ? y - within : 0, x + within + 1,
                y + within + 1, point->visibility > 1 ? colour : 0);
}

void preview_keypoints(const struct canvas *image, const struct field_shape *shape,
                       const uint8_t *poses)
{
    struct plenum_poses head;

    memcpy(&head, poses, sizeof(head));
    assert(head.count <= shape->shape[0]);
    for (uint64_t i = 0; i < head.count; i++) {
        const uint8_t *pose = poses + sizeof(head) + i * field_pose_bytes(shape->shape[1]);

        for (uint32_t k = 0; k < shape->shape[1]; k++) {
            struct plenum_keypoint point;

            memcpy(&point, pose + sizeof(struct plenum_pose) + k * sizeof(point), sizeof(point));
            if (point.visibility > 0)
                draw_keypoint(image, &point, preview_colour(k + 1));
        }
    }
}

/* Returns whether these numbers can be listed: the kind is int64 or float32, and there are few of
 * them. */
static bool are_shown(const struct field_shape *shape, uint32_t len)
{
    return (shape->type == PLENUM_FIELD_INT64 || shape->type == PLENUM_FIELD_FLOAT32) &&
           len <= VALUES_SHOWN * field_item_bytes(shape->type);
}

static void print_numbers(const struct field_shape *shape, const uint8_t *value, uint32_t len,
                          char *ret, size_t size)
{
    uint32_t item = field_item_bytes(shape->type);
    size_t at = strlen(ret);

    assert(are_shown(shape, len) && len % item == 0);
    for (uint32_t i = 0; i < len / item && at < size; i++) {
        int64_t whole;
        float real;

        if (shape->type == PLENUM_FIELD_INT64) {
            memcpy(&whole, value + i * sizeof(whole), sizeof(whole));
            at += (size_t)snprintf(ret + at, size - at, " %lld", (long long)whole);
        } else {
            memcpy(&real, value + i * sizeof(real), sizeof(real));
            at += (size_t)snprintf(ret + at, size - at, " %g", (double)real);
        }
    }
}

char *preview_value(const char *name, const struct field_shape *shape, const uint8_t *value,
                    uint32_t len, char *ret, size_t size)
{
    char shown[128];

    (void)snprintf(ret, size, "%s:", name);
    if (are_shown(shape, len))
        print_numbers(shape, value, len, ret, size);
    else if (shape->type == PLENUM_FIELD_TEXT)
        (void)snprintf(ret, size, "%s: %.*s", name, (int)len, (const char *)value);
    else if (shape->type == PLENUM_FIELD_BYTES)
        (void)snprintf(ret, size, "%s: %u bytes", name, len);
    else
        (void)snprintf(ret, size, "%s: %s", name, field_name_shape(shape, shown, sizeof(shown)));
    for (char *p = ret; *p; p++)
        if (*p == '\n' || *p == '\t' || *p == '\r')
            *p = ' ';
    return text_make_plain(ret);
}

/* SPDX-License-Identifier: MIT */
/* preview_fields.h - draws fields on a contact sheet: masks, boxes and key points on the images,
 * others as text. */
#ifndef LOADER_CTL_PREVIEW_FIELDS_H
#define LOADER_CTL_PREVIEW_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/fields.h"
#include "loader/ctl/font.h"
#include "loader/dataset/dataset.h"

/** Returns the colour of a number in a mask, 0xRRGGBB, from Pascal VOC's palette. Numbers above 255
 * share the colours of 1 to 254, except 65535, which is padding and has the colour of 255. */
uint32_t preview_colour(uint64_t number);

/** Returns whether a colour needs dark letters. */
bool preview_is_light(uint32_t colour);

/** Returns the number of a pixel in a mask with `item` bytes (1 or 2) per pixel. */
uint32_t preview_number(const uint8_t *mask, uint32_t item, size_t pixel);

/** Tint an image with a mask of its size, [height][width] numbers of `item` bytes (1 or 2): 0
 * leaves a pixel unchanged, other numbers have the colours of Pascal VOC's palette. */
void preview_mask(const struct canvas *image, const uint8_t *mask, uint32_t item);

/** Draw the boxes of an unaligned struct plenum_boxes as frames with their classes in the upper
 * left corner: also by name if the data set has names for them. */
void preview_boxes(const struct canvas *image, const struct dataset *dataset, const uint8_t *boxes);

/** Draw the key points of an unaligned struct plenum_poses of this shape. A visible point is a
 * square with the colour of its number, from 1; a hidden one is dark with such an edge. */
void preview_keypoints(const struct canvas *image, const struct field_shape *shape,
                       const uint8_t *poses);

/** Returns whether a field is drawn as coloured pixels: a mask or instances. */
static inline bool preview_is_area(const struct field_shape *shape)
{
    return shape->mask || shape->type == PLENUM_FIELD_INSTANCES;
}

/** Tint the pixels of each object of an unaligned struct plenum_instances with the colour of its
 * number in the image, from 1. Bits of pixels follow each object. */
void preview_instances(const struct canvas *image, const uint8_t *instances);

/** Format "NAME: value" into `ret`, for a field that is not drawn. Long arrays and
 * bytes show their shape. The text is truncated to `size`. */
char *preview_value(const char *name, const struct field_shape *shape, const uint8_t *value,
                    uint32_t len, char *ret, size_t size);

#endif

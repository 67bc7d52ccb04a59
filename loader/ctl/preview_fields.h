/* SPDX-License-Identifier: MIT */
/* preview_fields.h - fields on a contact sheet: masks and boxes on the images, the others as text.
 */
#ifndef LOADER_CTL_PREVIEW_FIELDS_H
#define LOADER_CTL_PREVIEW_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "loader/ctl/font.h"

/** Tint an image by a mask of its size, [height][width] of `item` bytes each (1 or 2): 0 stays as
 * it is, other numbers have the colours of Pascal VOC's palette. */
void preview_mask(const struct canvas *image, const uint8_t *mask, uint32_t item);

/** Draw a struct plenum_boxes, not aligned, as frames with their classes in the upper left corner.
 */
void preview_boxes(const struct canvas *image, const uint8_t *boxes);

/** "NAME: value", of a field that is neither a mask nor boxes; of a long array and of bytes, their
 * shape: `ret`, cut off at `size`. */
char *preview_value(const char *name, const struct field_shape *shape, const uint8_t *value,
                    uint32_t len, char *ret, size_t size);

#endif

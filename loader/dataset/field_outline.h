/* SPDX-License-Identifier: MIT */
/* field_outline.h - parses the outlines of objects in COCO's three forms ("segmentation"):
 *
 *     [[x, y, x, y, x, y, ...], ...]                     polygons
 *     {"size": [height, width], "counts": [7, 2, ...]}   run lengths, column after column
 *     {"size": [height, width], "counts": "72..."}       the same, compressed by pycocotools
 */
#ifndef LOADER_DATASET_FIELD_OUTLINE_H
#define LOADER_DATASET_FIELD_OUTLINE_H

#include "common/data/fields.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/json_find.h"

/** An outline. Set the buffers, which are borrowed, before it is parsed. */
struct outline {
    struct dataset_buffer *numbers;          /* of struct field_outline; new ones are appended */
    struct dataset_buffer *text;             /* scratch */
    uint32_t polygons, height, width, count; /* like those of struct field_outline */
    double edges[4]; /* left, top, right, bottom of its points, or of its pixels; all 0 if empty */
};

/** Parse an outline. Returns 0; -EBADMSG with `err` set, a sentence about "it"; or -ENOMEM with
 * `err` set. */
int outline_parse(struct outline *outline, struct json_at value, struct plenum_error *err);

#endif

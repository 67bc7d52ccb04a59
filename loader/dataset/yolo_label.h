/* SPDX-License-Identifier: MIT */
/* yolo_label.h - reads a label file of a YOLO data set: one object per line, in one of these forms:
 *
 *     CLASS X Y WIDTH HEIGHT            centre and size of a box
 *     CLASS X Y WIDTH HEIGHT POINTS...  the same with key points, X Y or X Y VISIBILITY each
 *     CLASS X1 Y1 X2 Y2 X3 Y3 ...       an outline of at least three points
 *
 * All numbers but the class are fractions of the picture's sides. */
#ifndef LOADER_DATASET_YOLO_LABEL_H
#define LOADER_DATASET_YOLO_LABEL_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** What a label file's numbers mean. */
struct yolo_label_form {
    uint32_t width, height; /* of the picture */
    const int32_t *classes; /* [num_classes]: the class that each number means */
    uint32_t num_classes;
    uint32_t num_points, point_values; /* of each object; 0: boxes and outlines */
};

/** Write the objects as JSON for a field of boxes, with the line as "id", to `*ret` (malloc).
 * Returns 0; -EBADMSG with `err` set, which names the line; or -ENOMEM. */
int yolo_label_read(const char *text, size_t len, const struct yolo_label_form *form, char **ret,
                    struct plenum_error *err);

#endif

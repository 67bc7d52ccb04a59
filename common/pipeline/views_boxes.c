/* SPDX-License-Identifier: MIT */
/* views_boxes.c - finds the boxes that decide which part of a picture is shown (iou_crop). */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/views.h"
#include "common/util/error_set.h"

/* Returns the number of fields of boxes; `*at` is the last one, or the one with this name if it is
 * among them. */
static uint32_t count_boxes(const struct fields *fields, const char *name, int *at)
{
    uint32_t count = 0;

    *at = -1;
    for (uint32_t i = 0; i < fields->count; i++) {
        if (fields->spec[i].as != FIELD_AS_BOXES)
            continue;
        count++;
        if (!*name || strcmp(fields->spec[i].name, name) == 0)
            *at = (int)i;
    }
    return count;
}

int views_find_boxes(const struct pipeline *pipeline, const struct fields *fields)
{
    int at;
    uint32_t count;

    if (!pipeline->iou_crop)
        return -1;
    count = count_boxes(fields, pipeline->boxes, &at);
    return *pipeline->boxes || count == 1 ? at : -1;
}

bool views_need_boxes(const struct views *views)
{
    for (uint32_t i = 0; i < views->count; i++)
        if (views->view[i].pipeline.iou_crop)
            return true;
    return false;
}

int views_check_boxes(const struct views *views, const struct fields *fields,
                      struct plenum_error *err)
{
    for (uint32_t i = 0; i < views->count; i++) {
        const struct pipeline *p = &views->view[i].pipeline;
        int at;

        if (!p->iou_crop || views_find_boxes(p, fields) >= 0)
            continue;
        if (count_boxes(fields, "", &at) == 0)
            return error_set(err, -EINVAL,
                             "iou_crop depends on boxes: request a field of boxes, such as "
                             "objects:objects:boxes");
        if (!*p->boxes)
            return error_set(err, -EINVAL,
                             "there are several fields of boxes: name the one for iou_crop, as in "
                             "iou_crop(boxes=%s)",
                             fields->spec[at].name);
        return error_set(err, -EINVAL, "iou_crop: no field of boxes is named '%s'", p->boxes);
    }
    return 0;
}

size_t views_boxes_source(const char *pipeline, const char *text, char *ret, size_t size)
{
    struct fields fields;
    struct views views;
    size_t len = 0;

    if (!strstr(pipeline, " iou_crop(") && !strstr(pipeline, ",iou_crop("))
        return 0;
    if (views_parse(pipeline, &views, NULL) < 0 || fields_parse(text, &fields, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < views.count && len < size; i++) {
        int at = views_find_boxes(&views.view[i].pipeline, &fields);

        if (at >= 0)
            len += (size_t)snprintf(ret + len, size - len, "%s", fields.spec[at].source) + 1;
    }
    return len < size ? len : size;
}

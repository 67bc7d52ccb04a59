/* SPDX-License-Identifier: MIT */
/* views.h - the text that describes what a sample shows: one image of its file, or several views of
 * it, such as "view(global, 2, rrc(224, scale=0.32:1)) view(local, 8, rrc(96,
 * scale=0.05:0.32))". */
#ifndef COMMON_VIEWS_H
#define COMMON_VIEWS_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>
#include <plenum/stream.h>

#include "common/data/fields.h"
#include "common/pipeline/pipeline.h"

enum {
    VIEWS_MAX = PLENUM_VIEWS_MAX,
    VIEWS_IMAGES_MAX = 32, /* images of one sample in all views */
    VIEW_NAME_MAX = 32,    /* bytes of a view's name with its NUL */
    VIEWS_TEXT_MAX = 2048, /* bytes of a canonical text with its NUL */
};

/** One "view(name, count, pipeline)": `count` images from the same pipeline, each with its own
 *  draws. */
struct view {
    char name[VIEW_NAME_MAX]; /* empty if the text has no views */
    uint32_t count;           /* images per sample, at least 1 */
    struct pipeline pipeline;
};

struct views {
    bool named;      /* written as view(...); otherwise one pipeline, one image per sample */
    uint32_t count;  /* at least 1 */
    uint32_t images; /* images per sample: the sum of all counts; 1 for "none", of 0 x 0 pixels */
    struct view view[VIEWS_MAX]; /* in the order of the text */
    /** Canonical text: the pipeline's, or "v1 [exif] [junk] view(name, count, ...) ...". */
    char text[VIEWS_TEXT_MAX];
};

/**
 * Parse a pipeline (pipeline.h), or [v1] [exif] [junk] followed by view(NAME, COUNT, STAGES), up to
 * VIEWS_MAX times. Samples with views cannot be mixed.
 *
 * Returns 0, or -EINVAL with a message that quotes the stage at fault.
 */
int views_parse(const char *text, struct views *ret, struct plenum_error *err);

/** Check that the fields that follow the pixels (masks, boxes and key points) can do so. Returns 0,
 * or -EINVAL with a message: if there are no images; with augmix, which shows a picture at several
 * places; and for masks if pictures are blended. */
int views_check_fields(const struct views *views, const struct fields *fields,
                       struct plenum_error *err);

/** Returns the largest number of pictures that an image shows. */
uint32_t views_pictures(const struct views *views);

/**
 * Compute the shapes of fields in a batch: boxes and key points have room for the objects of all
 * pictures that an image shows.
 *
 * @param of   [fields->count]: the shapes of the fields of one picture.
 * @param ret  [fields->count]
 *
 * Returns 0, or -EINVAL with a message if a field would be too large.
 */
int views_shape_fields(const struct views *views, const struct fields *fields,
                       const struct field_shape *of, struct field_shape *ret,
                       struct plenum_error *err);

/** Returns whether pixels depend on a field of boxes (iou_crop). */
bool views_need_boxes(const struct views *views);

/** Check that each iou_crop has its field of boxes, as views_check_fields() does. Returns 0, or
 * -EINVAL with a message. */
int views_check_boxes(const struct views *views, const struct fields *fields,
                      struct plenum_error *err);

/** Returns the index of the field of boxes that iou_crop uses; -1 if there is none. */
int views_find_boxes(const struct pipeline *pipeline, const struct fields *fields);

/** Write the sources of the fields of boxes that iou_crop uses, each with its NUL, given the texts
 * of the pipeline and of all fields. Returns their length, which is 0 without iou_crop. */
size_t views_boxes_source(const char *pipeline, const char *text, char *ret, size_t size);

/** Returns whether any view has an operation that moves pixels other than by flips. */
bool views_move(const struct views *views);

/** Returns whether bytes in a JPEG's header that belong to no segment are accepted. All views agree
 * on it. */
static inline bool views_forgive_junk(const struct views *views)
{
    return views->view[0].pipeline.junk;
}

/** Returns the number of pixels of all images of a sample. */
uint64_t views_pixels(const struct views *views);

/** Is this a pipeline other than "none"? */
static inline bool views_have_images(const struct views *views)
{
    return views->view[0].pipeline.crop != PIPELINE_NO_IMAGE;
}

/** Returns the number of positions whose pictures a sample shows, apart from mixing. */
static inline uint32_t views_parts(const struct views *views)
{
    return pipeline_is_mosaic(&views->view[0].pipeline) ? 4 : 1;
}

/** Does the pipeline give each sample a second label and a weight? */
static inline bool views_mix(const struct views *views)
{
    return pipeline_mixes(&views->view[0].pipeline);
}

#endif

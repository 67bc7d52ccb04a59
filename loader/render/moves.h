/* SPDX-License-Identifier: MIT */
/* moves.h - moves points and rectangles of an image as its operations move pixels: rotations,
 * translations, shears, affine maps, perspectives, and those of policies.
 *
 * Takes the fixed-point maps that produce the pixels, and inverts them. docs/pixels.md, 3.8, has
 * the rules. */
#ifndef LOADER_RENDER_MOVES_H
#define LOADER_RENDER_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/pipeline/pipeline.h"
#include "loader/image/image.h"
#include "loader/image/rect.h"

enum { MOVES_MAX = 15 * PIPELINE_OPS_MAX }; /* rand_augment(15), as often as possible */

/** The result of one operation that moves pixels. */
struct moves_step {
    /** From the window before the first operation to this result: (x, y, 1) becomes (u, v, w), and
     * the point appears at (u / w, v / w). */
    double to[3][3];
    /** w is positive in some parts of the window before the operation, and negative in others. */
    bool crosses;
    /** Up to this result, where w is positive, the image has become its mirror image. */
    bool mirrored;
};

/** A rectangle that an operation erased. */
struct moves_cover {
    uint32_t after; /* number of steps that precede the operation */
    struct rect rect;
};

/** All operations of an image that move or erase pixels, in order. */
struct moves {
    uint32_t count;
    bool lost; /* the map of an operation has no inverse */
    double width, height;
    struct moves_step step[MOVES_MAX];
    uint32_t covers;
    struct moves_cover cover[PIPELINE_OPS_MAX];
};

/** Draw the operations of an image that move or erase pixels. They follow the flip from left to
 * right, and precede the one from top to bottom (image_shown). */
void moves_draw(const struct pipeline *pipeline, const struct image_draw *draw, struct moves *ret);

/** Edges in pixels of the window. */
struct moves_rect {
    double left, top, right, bottom;
};

/**
 * Move the part of `rect` that stays within the window at each operation.
 *
 * @param ret  the smallest rectangle that contains the result; undefined if nothing is left.
 *
 * Returns the area of that part, in pixels of the window before the first operation.
 */
double moves_rect(const struct moves *moves, const struct moves_rect *rect, struct moves_rect *ret);

/** Where a point of the window before the first operation ends up. */
struct moves_place {
    double at[2];
    bool covered;  /* an operation erased the pixel there */
    bool mirrored; /* the image around it has become its mirror image */
};

/** The part of an image that shows a picture, in pixels: cutmix pastes a rectangle of another one.
 * Zeros: all of it. */
struct moves_area {
    enum moves_where { MOVES_EVERYWHERE, MOVES_OUTSIDE, MOVES_INSIDE } where;
    struct rect rect;
};

/** The image of which a view is one part, and where that part is, in pixels before the flip from
 * top to bottom. */
struct moves_whole {
    const struct image_view *view; /* NULL: the view is the whole image */
    uint32_t left, top;
};

/** Returns the whole image. */
static inline const struct image_view *moves_whole_of(const struct moves_whole *whole,
                                                      const struct image_view *view)
{
    return whole->view ? whole->view : view;
}

/** Move a point. Returns whether it stays within the window at each operation; otherwise `ret` is
 * undefined. */
bool moves_point(const struct moves *moves, const double point[2], struct moves_place *ret);

#endif

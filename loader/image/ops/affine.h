/* SPDX-License-Identifier: MIT */
/* affine.h - builds and applies affine and perspective maps of a window, as inverse matrices in
 * fixed point.
 *
 * For each pixel of the result, a map gives its position in the source: docs/pixels.md, 10. */
#ifndef LOADER_IMAGE_AFFINE_H
#define LOADER_IMAGE_AFFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AFFINE_BITS = 16 }; /* fraction bits of a position, an angle in degrees and a factor */

/** Pixel (i, j) of the result comes from the horizontal position x[0] * i + x[1] * j + x[2] in the
 * source; its vertical position is computed in the same way from y. 0 is the left or upper edge of
 * the first pixel. `divides`: both positions are divided by the corresponding sum of d. */
struct affine {
    int64_t x[3], y[3];
    bool divides;
    int64_t d[3];
    bool mirror, upside_down; /* for maps that divide: how the source is flipped */
    bool bilinear;            /* interpolate bilinearly; otherwise use the nearest pixel */
    uint8_t fill[3];          /* the colour outside of the source */
};

/** The values that torchvision's RandomAffine draws. Angles are in degrees; everything except `dx`
 * and `dy` is scaled by 2^AFFINE_BITS. */
struct affine_parts {
    int64_t degrees; /* clockwise */
    int64_t dx, dy;  /* pixels to the right, and down */
    int64_t scale;   /* greater than 0 */
    int64_t shear_x, shear_y;
};

/* The functions up to affine_of_corners() create maps for a window of width x height that use the
 * nearest pixel, and black outside the source. */

/** Rotate around the centre, counterclockwise. */
void affine_rotation(struct affine *ret, int64_t degrees, uint32_t width, uint32_t height);
/** Shear rows: a row `j` pixels below the upper edge comes from `factor * j` pixels further
 * right. */
void affine_shear_x(struct affine *ret, int64_t factor);
/** Shear columns: a column `i` pixels right of the left edge comes from `factor * i` pixels further
 * down. */
void affine_shear_y(struct affine *ret, int64_t factor);
/** Move the image right by dx and down by dy, both scaled by 2^AFFINE_BITS. */
void affine_translate(struct affine *ret, int64_t dx, int64_t dy);
void affine_of_parts(struct affine *ret, const struct affine_parts *parts, uint32_t width,
                     uint32_t height);
/** Move the corners of the window (upper left, upper right, lower right, lower left) to these
 * pixels. Returns false if three of the new corners are on a line, because there is no such map. */
bool affine_of_corners(struct affine *ret, const int64_t corners[4][2], uint32_t width,
                       uint32_t height);

/** Change a map so that it maps the mirrored source to the mirrored result. */
void affine_mirror(struct affine *map, uint32_t width);
void affine_turn_upside_down(struct affine *map, uint32_t height);

/** A part of a row all of whose pixels come from inside the source. */
struct affine_span {
    const uint8_t *from; /* planes of width x height; 3 bytes more may be read */
    size_t plane;        /* distance of the planes in bytes, in `from` and `to` */
    uint32_t width;      /* width of the source */
    int32_t x, y;        /* position of the first pixel; if bilinear, of its upper left neighbour */
    int32_t dx, dy;      /* step from pixel to pixel */
    uint8_t *to;
    uint32_t count;
};

struct affine_loops {
    void (*nearest)(const struct affine_span *span);
    void (*bilinear)(const struct affine_span *span);
};

extern const struct affine_loops affine_portable;
#ifdef __x86_64__
extern const struct affine_loops affine_avx2;
#endif

/** Returns the weight of the right or lower neighbour, out of 4096. It is odd, so that mirroring
 * changes nothing. */
static inline uint32_t affine_part(uint32_t position)
{
    return (position >> 4 & 4094) | 1;
}

/** Blend four neighbours. The right ones are `right` bytes after the left ones, the lower ones
 * `below` bytes after the upper ones. */
static inline uint8_t affine_blend(const uint8_t *v, size_t right, size_t below,
                                   uint32_t right_part, uint32_t low_part)
{
    uint32_t left_part = 4096 - right_part;
    uint32_t upper = v[0] * left_part + v[right] * right_part;
    uint32_t lower = v[below] * left_part + v[below + right] * right_part;

    return (uint8_t)((upper * (4096 - low_part) + lower * low_part + (1 << 23)) >> 24);
}

enum { AFFINE_SLACK = 3 }; /* bytes after a source's planes that may be read */

/** Map `from` to `to`, three planes of width x height (1 to 8192) each; AFFINE_SLACK bytes after
 * `from` must be readable. */
void affine_apply(const struct affine_loops *loops, const struct affine *map, uint32_t width,
                  uint32_t height, const uint8_t *from, uint8_t *to);

#endif

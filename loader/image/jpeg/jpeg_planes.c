/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/jpeg/jpeg_planes.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/util/util.h"

void jpeg_planes_fini(struct jpeg_planes *s)
{
    scratch_free(&s->samples);
}

/* Determine which blocks of a component the region needs. */
static void locate_plane(const struct jpeg_component *c, const struct rect *region,
                         struct jpeg_plane *p)
{
    uint32_t x_margin = c->stretch_across == JPEG_FANCY ? 2 : 0;
    uint32_t y_margin = c->stretch_down == JPEG_FANCY ? 2 : 0;
    uint32_t x = region->left > x_margin ? region->left - x_margin : 0;
    uint32_t y = region->top > y_margin ? region->top - y_margin : 0;
    uint32_t x_last = (region->left + region->width - 1 + x_margin) / c->across;
    uint32_t y_last = (region->top + region->height - 1 + y_margin) / c->down;

    x_last = x_last < c->width ? x_last : c->width - 1;
    y_last = y_last < c->height ? y_last : c->height - 1;
    p->left = x / c->across / JPEG_BLOCK;
    p->top = y / c->down / JPEG_BLOCK;
    p->right = x_last / JPEG_BLOCK + 1;
    p->bottom = y_last / JPEG_BLOCK + 1;
    assert(p->left < p->right && p->top < p->bottom);
    p->rows = 3U * c->v * JPEG_BLOCK;
    p->pitch = align_up((size_t)(p->right - p->left) * JPEG_BLOCK + 2 * JPEG_PAD, 64);
}

void jpeg_planes_locate(struct jpeg_planes *s, const struct jpeg_frame *frame,
                        const struct rect *region)
{
    assert(region->width > 0 && region->height > 0);
    assert(region->left < frame->width && region->width <= frame->width - region->left);
    assert(region->top < frame->height && region->height <= frame->height - region->top);
    s->frame = frame;
    s->region = *region;
    for (uint32_t i = 0; i < frame->count; i++)
        locate_plane(&frame->component[i], region, &s->of[i]);
}

int jpeg_planes_make_room(struct jpeg_planes *s)
{
    size_t wide = align_up(s->region.width + 2, 64) + JPEG_PAD, at = 0;

    for (uint32_t i = 0; i < s->frame->count; i++)
        at += s->of[i].rows * s->of[i].pitch + wide;
    if (scratch_reserve(&s->samples, at) < 0)
        return -ENOMEM;
    at = 0;
    for (uint32_t i = 0; i < s->frame->count; i++) {
        struct jpeg_plane *p = &s->of[i];

        p->samples = (uint8_t *)s->samples.bytes + at + JPEG_PAD;
        at += p->rows * p->pitch;
        p->wide = (uint8_t *)s->samples.bytes + at;
        at += wide;
    }
    return 0;
}

void jpeg_planes_pad_edges(struct jpeg_planes *s, uint32_t row_of_mcus)
{
    for (uint32_t i = 0; i < s->frame->count; i++) {
        const struct jpeg_component *c = &s->frame->component[i];
        const struct jpeg_plane *p = &s->of[i];
        uint32_t begin = row_of_mcus * c->v * JPEG_BLOCK % p->rows;
        size_t end = c->width - (size_t)p->left * JPEG_BLOCK; /* end of the image in p->samples */

        if (c->stretch_across != JPEG_FANCY)
            continue;
        for (uint32_t y = begin; y < begin + c->v * JPEG_BLOCK; y++) {
            uint8_t *row = p->samples + y * p->pitch;

            if (p->left == 0)
                row[-1] = row[0];
            if (p->right * JPEG_BLOCK >= c->width)
                row[end] = row[end - 1];
        }
    }
}

/* Upsample a component for row `at` of the image, as wide as the region. */
static const uint8_t *enlarge(const struct jpeg_planes *s, const struct jpeg_kernels *kernels,
                              uint32_t component, uint32_t at)
{
    const struct jpeg_component *c = &s->frame->component[component];
    const struct jpeg_plane *p = &s->of[component];
    uint32_t y = at / c->down, other = y, base = p->left * JPEG_BLOCK;
    uint32_t left = s->region.left, last = left + s->region.width - 1;
    const uint8_t *near, *far;

    if (c->stretch_down == JPEG_FANCY && at % 2 == 0)
        other = y > 0 ? y - 1 : 0;
    else if (c->stretch_down == JPEG_FANCY)
        other = y + 1 < c->height ? y + 1 : y;
    assert(y >= p->top * JPEG_BLOCK && y < p->bottom * JPEG_BLOCK && y < c->height);
    near = jpeg_plane_row(p, y);
    far = jpeg_plane_row(p, other);
    if (c->stretch_across == JPEG_FANCY) {
        uint32_t first = left / 2 - base, count = last / 2 - left / 2 + 1;

        if (c->stretch_down == JPEG_FANCY)
            kernels->h2v2(near + first, far + first, count, p->wide);
        else
            kernels->h2v1(near + first, count, p->wide);
        return p->wide + left % 2;
    }
    if (c->stretch_across == JPEG_REPEAT) {
        uint32_t first = left / c->across - base, count = last / c->across - left / c->across + 1;

        for (uint32_t i = 0; i < count; i++) { /* `across` is at most 4 */
            uint32_t four = near[first + i] * UINT32_C(0x01010101);

            memcpy(p->wide + (size_t)i * c->across, &four, sizeof(four));
        }
        return p->wide + left % c->across;
    }
    if (c->stretch_down == JPEG_FANCY) {
        kernels->h1v2(near + left - base, far + left - base, at % 2 == 0 ? 1 : 2, s->region.width,
                      p->wide);
        return p->wide;
    }
    return near + left - base;
}

/* Apply the black of CMYK (`flip` is 255), or of YCCK whose other components were converted to RGB
 * (`flip` is 0). Inks are inverted (see jpeg.c). The loops have constant counts, so that compilers
 * vectorise them. */
static void print_black(uint8_t *pixels, const uint8_t *black, uint32_t count, uint8_t flip)
{
    enum { RUN = 16 };
    uint8_t four[4 * RUN];

    for (uint32_t at = 0; at < count; at += RUN, pixels += 4 * RUN) {
        for (uint32_t i = 0; i < RUN; i++) {
            uint32_t k = black[at + i] * UINT32_C(0x01010101);

            memcpy(four + 4 * (size_t)i, &k, sizeof(k));
        }
        for (uint32_t i = 0; i < 4 * RUN; i++)
            pixels[i] = (uint8_t)(four[i] - jpeg_times_255th(pixels[i] ^ flip, four[i]));
    }
}

void jpeg_planes_make_row(struct jpeg_planes *s, const struct jpeg_kernels *kernels, uint32_t y,
                          uint8_t *to)
{
    const uint8_t *rows[JPEG_COMPONENTS];

    for (uint32_t i = 0; i < s->frame->count; i++)
        rows[i] = enlarge(s, kernels, i, y);
    (s->frame->count == 1 ? kernels->grey
     : s->frame->ycc      ? kernels->ycc
                          : kernels->rgb)(rows, s->region.width, to);
    if (s->frame->count == 4)
        print_black(to, rows[3], s->region.width, s->frame->ycc ? 0 : 255);
}

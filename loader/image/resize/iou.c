/* SPDX-License-Identifier: MIT */
/* iou.c - draws crops like SSD's: torchvision's RandomIoUCrop (docs/pixels.md, 3.12).
 *
 * Boxes are rounded to 2^-8 pixel, and the rest is computed in integers, because the result decides
 * which pixels are shown. */
#include "config.h"

#include "loader/image/resize/iou.h"

#include <math.h>
#include <string.h>

#include "common/order/philox.h"
#include "loader/image/resize/crop.h"

enum {
    ROUNDS = 7, /* each draws the share of the box and the crop together that they have in common */
    TRIES = 40,
    DRAWS = 64, /* draws of a round */
    ONE = 1 << 8,
};

/* The shares in tenths, without the last one, which shows the whole canvas. */
static const int64_t shares[] = {0, 1, 3, 5, 7, 9};
enum { SHARES = sizeof(shares) / sizeof(shares[0]) };

/* Edges on the canvas, times ONE. */
struct iou_box {
    int64_t left, top, right, bottom;
};

static int64_t round_edge(float x, uint32_t most)
{
    double within = x > 0 ? x < (float)most ? (double)x : most : 0;

    return (int64_t)floor(within * ONE + 0.5);
}

static struct iou_box box_at(const struct image_boxes *boxes, uint32_t i,
                             const struct rect *picture)
{
    int64_t left = (int64_t)picture->left * ONE, top = (int64_t)picture->top * ONE;
    struct plenum_box box;

    memcpy(&box, boxes->bytes + i * sizeof(box), sizeof(box));
    return (struct iou_box){
        .left = left + round_edge(box.left, picture->width),
        .top = top + round_edge(box.top, picture->height),
        .right = left + round_edge(box.right, picture->width),
        .bottom = top + round_edge(box.bottom, picture->height),
    };
}

static int64_t area_of(const struct iou_box *box)
{
    return box->right > box->left && box->bottom > box->top
               ? (box->right - box->left) * (box->bottom - box->top)
               : 0;
}

/* Returns whether the centre of a box is inside a crop, and they have at least `tenths` of their
 * union in common. */
static bool fits(const struct iou_box *box, const struct iou_box *crop, int64_t tenths)
{
    const struct iou_box both = {
        .left = box->left > crop->left ? box->left : crop->left,
        .top = box->top > crop->top ? box->top : crop->top,
        .right = box->right < crop->right ? box->right : crop->right,
        .bottom = box->bottom < crop->bottom ? box->bottom : crop->bottom,
    };
    int64_t x = box->left + box->right, y = box->top + box->bottom, common = area_of(&both);

    return area_of(box) > 0 && 2 * crop->left < x && x < 2 * crop->right && 2 * crop->top < y &&
           y < 2 * crop->bottom && 10 * common >= tenths * (area_of(box) + area_of(crop) - common);
}

/* Draw a crop's size and place. Returns false if its proportions are not allowed. */
static bool draw_crop(const struct pipeline *p, const struct philox_block *d,
                      const struct iou_canvas *canvas, struct rect *ret)
{
    const struct pipeline_shape *s = &p->shape;
    uint64_t width = crop_scaled(canvas->width, s->scale_min, s->scale_max, d->word[0]);
    uint64_t height = crop_scaled(canvas->height, s->scale_min, s->scale_max, d->word[1]);

    *ret = (struct rect){
        .left = philox_below(d->word[2], canvas->width - (uint32_t)width),
        .top = philox_below(d->word[3], canvas->height - (uint32_t)height),
        .width = (uint32_t)width,
        .height = (uint32_t)height,
    };
    return width > 0 && height > 0 && width * s->ratio_min.den >= height * s->ratio_min.num &&
           width * s->ratio_max.den <= height * s->ratio_max.num;
}

bool iou_draw(const struct pipeline *pipeline, const struct image_draw *draw,
              const struct image_boxes *boxes, const struct iou_canvas *canvas, struct rect *ret)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t word = image_draw_words(draw, DRAW_IOU, DRAWS * round).word[0];
        uint32_t share = philox_below(word, SHARES + 1);

        if (share == SHARES)
            return false;
        for (uint32_t try = 1; try <= TRIES; try++) {
            struct philox_block d = image_draw_words(draw, DRAW_IOU, DRAWS * round + try);
            struct iou_box crop;

            if (!draw_crop(pipeline, &d, canvas, ret))
                continue;
            crop = (struct iou_box){(int64_t)ret->left * ONE, (int64_t)ret->top * ONE,
                                    ((int64_t)ret->left + ret->width) * ONE,
                                    ((int64_t)ret->top + ret->height) * ONE};
            for (uint32_t i = 0; i < boxes->count; i++) {
                struct iou_box box = box_at(boxes, i, &canvas->picture);

                if (fits(&box, &crop, shares[share]))
                    return true;
            }
        }
    }
    return false;
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/render/boxes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "common/data/fields.h"
#include "loader/render/moves.h"

/* The smallest area in square pixels that an operation leaves of a box. Positions are rounded to
 * 2^-16 pixel, so a sliver of a box that just left the image may seem to be visible. */
static const double smallest_area = 0.25;

struct span {
    double from, to;
};

static struct span cut(struct span s, double from, double to)
{
    s.from = s.from > from ? s.from : from;
    s.to = s.to < to ? s.to : to;
    s.to = s.to > s.from ? s.to : s.from;
    return s;
}

static double length(struct span s)
{
    return s.to - s.from;
}

static double within(double x, double most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Convert a span from pixels of the picture to pixels of the image, which shows the picture from
 * `from` to `to`. */
static struct span move(struct span s, double from, double to, uint32_t pixels, bool mirror)
{
    double a = within((s.from - from) * pixels / (to - from), pixels);
    double b = within((s.to - from) * pixels / (to - from), pixels);

    return mirror ? (struct span){pixels - b, pixels - a} : (struct span){a, b};
}

/* Move the visible part of a box, from the window after the crop, by operations. Returns the share
 * of it that is still visible; 0 if next to nothing is. */
static double follow(const struct moves *moves, struct span *x, struct span *y)
{
    const struct moves_rect before = {x->from, y->from, x->to, y->to};
    struct moves_rect after;
    double whole = length(*x) * length(*y), seen = moves_rect(moves, &before, &after);

    *x = (struct span){after.left, after.right};
    *y = (struct span){after.top, after.bottom};
    return seen >= smallest_area ? seen / whole : 0;
}

bool boxes_show_one(const struct plenum_box *box, const struct image_view *view,
                    const struct moves *moves, uint32_t visible, struct plenum_box *ret)
{
    const struct image_shown *shown = &view->shown;
    const double height = view->pipeline->height;
    const float *part = shown->box;
    struct span x = cut((struct span){box->left, box->right}, 0, shown->width);
    struct span y = cut((struct span){box->top, box->bottom}, 0, shown->height);
    double whole = length(x) * length(y), seen;

    x = cut(x, part[0], part[2]);
    y = cut(y, part[1], part[3]);
    seen = length(x) * length(y);
    if (!(seen > 0))
        return false;
    x = move(x, part[0], part[2], view->pipeline->width, shown->mirror);
    y = move(y, part[1], part[3], view->pipeline->height, false);
    if (moves->count > 0 || moves->lost)
        seen *= follow(moves, &x, &y);
    if (!(seen > 0) || seen * FIELD_VISIBLE_ONE < whole * visible)
        return false;
    if (shown->upside_down)
        y = (struct span){height - y.to, height - y.from};
    *ret = (struct plenum_box){.left = (float)x.from,
                               .top = (float)y.from,
                               .right = (float)x.to,
                               .bottom = (float)y.to,
                               .class_id = box->class_id,
                               .id = box->id};
    return true;
}

void boxes_show(const uint8_t *boxes, uint32_t count, const struct image_view *view,
                uint32_t visible, uint32_t most, uint8_t *dst)
{
    uint8_t *to = dst + sizeof(struct plenum_boxes);
    struct plenum_boxes head = {0};
    struct moves moves;

    assert(count <= most);
    if (count > 0)
        moves_draw(view->pipeline, &view->draw, &moves);
    for (uint32_t i = 0; i < count; i++) {
        struct plenum_box box, seen;

        memcpy(&box, boxes + i * sizeof(box), sizeof(box));
        if (boxes_show_one(&box, view, &moves, visible, &seen))
            memcpy(to + head.count++ * sizeof(seen), &seen, sizeof(seen));
    }
    memcpy(dst, &head, sizeof(head));
    memset(to + head.count * sizeof(struct plenum_box), 0,
           (most - head.count) * sizeof(struct plenum_box));
}

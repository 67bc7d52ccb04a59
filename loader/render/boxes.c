/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/render/boxes.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "common/data/fields.h"

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

/* Returns whether the centre of a span lies between two positions. */
static bool has_centre(const struct span *s, double from, double to)
{
    double centre = (s->from + s->to) / 2;

    return from < centre && centre < to;
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

/* Returns what a part that covers one end of a span leaves of it; the whole span if it covers
 * neither. */
static struct span rest_of(struct span s, struct span part)
{
    if (part.from <= s.from)
        return (struct span){part.to, s.to};
    return (struct span){s.from, part.to >= s.to ? part.from : s.to};
}

/* Keep the part of a box that is within the rectangle, or what remains outside it if that is a
 * rectangle, too. Returns the share of the box that is still visible; 0 if next to nothing is. */
static double keep_area(const struct moves_area *area, struct span *x, struct span *y)
{
    const struct rect *rect = &area->rect;
    struct span within_x = cut(*x, rect->left, (double)rect->left + rect->width);
    struct span within_y = cut(*y, rect->top, (double)rect->top + rect->height);
    double whole = length(*x) * length(*y), common = length(within_x) * length(within_y);
    double seen = area->where == MOVES_INSIDE ? common : whole - common;

    if (seen >= whole) /* the rectangle does not cut it */
        return whole > 0;
    if (area->where == MOVES_INSIDE) {
        *x = within_x;
        *y = within_y;
    } else if (length(within_y) >= length(*y)) {
        *x = rest_of(*x, within_x);
    } else if (length(within_x) >= length(*x)) {
        *y = rest_of(*y, within_y);
    }
    return seen >= smallest_area ? seen / whole : 0;
}

bool boxes_show_one(const struct plenum_box *box, const struct boxes_target *to,
                    const struct moves *moves, struct plenum_box *ret)
{
    const struct image_view *view = to->view;
    const struct image_shown *shown = &view->shown;
    const struct image_view *whole_view = moves_whole_of(&to->whole, view);
    const double height = whole_view->pipeline->height, left = to->whole.left, top = to->whole.top;
    const float *part = shown->box;
    struct span x = cut((struct span){box->left, box->right}, 0, shown->width);
    struct span y = cut((struct span){box->top, box->bottom}, 0, shown->height);
    double whole = length(x) * length(y), seen;

    if (view->pipeline->iou_crop &&
        !(has_centre(&x, part[0], part[2]) && has_centre(&y, part[1], part[3])))
        return false;
    x = cut(x, part[0], part[2]);
    y = cut(y, part[1], part[3]);
    seen = length(x) * length(y);
    if (!(seen > 0))
        return false;
    x = move(x, part[0], part[2], view->pipeline->width, shown->mirror);
    y = move(y, part[1], part[3], view->pipeline->height, false);
    x = (struct span){left + x.from, left + x.to};
    y = (struct span){top + y.from, top + y.to};
    if (moves->count > 0 || moves->lost)
        seen *= follow(moves, &x, &y);
    if (whole_view->shown.upside_down)
        y = (struct span){height - y.to, height - y.from};
    if (seen > 0 && to->area.where != MOVES_EVERYWHERE)
        seen *= keep_area(&to->area, &x, &y);
    if (!(seen > 0) || seen * FIELD_VISIBLE_ONE < whole * to->visible)
        return false;
    *ret = (struct plenum_box){.left = (float)x.from,
                               .top = (float)y.from,
                               .right = (float)x.to,
                               .bottom = (float)y.to,
                               .class_id = box->class_id,
                               .id = box->id};
    return true;
}

void boxes_add(const uint8_t *boxes, uint32_t count, const struct boxes_target *to)
{
    const struct image_view *whole = moves_whole_of(&to->whole, to->view);
    struct plenum_boxes head;
    struct moves moves;

    memcpy(&head, to->dst, sizeof(head));
    assert(head.count + count <= to->most);
    if (count > 0)
        moves_draw(whole->pipeline, &whole->draw, &moves);
    for (uint32_t i = 0; i < count; i++) {
        struct plenum_box box, seen;

        memcpy(&box, boxes + i * sizeof(box), sizeof(box));
        if (boxes_show_one(&box, to, &moves, &seen))
            memcpy(to->dst + field_boxes_bytes(head.count++), &seen, sizeof(seen));
    }
    memcpy(to->dst, &head, sizeof(head));
}

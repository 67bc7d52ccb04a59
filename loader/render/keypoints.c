/* SPDX-License-Identifier: MIT */
/* keypoints.c - moves key points as their pixels move.
 *
 * Left and right points are swapped if the image is a mirror image: the left hand of a person in a
 * mirror looks like a right one, and a network that sees only the image cannot tell. Flips in both
 * directions are half a turn, which swaps nothing. */
#include "config.h"

#include "loader/render/keypoints.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { HIDDEN = 1, VISIBLE = 2 }; /* COCO's numbers for points that are labelled */

/* Convert a coordinate from the picture to the image, which shows the picture from `from` to `to`.
 * Returns false if the image does not show it, or if it lies outside the picture. */
static bool place(double x, double from, double to, uint32_t pixels, uint32_t picture, double *ret)
{
    if (!(x >= from && x <= to && x >= 0 && x <= picture))
        return false;
    *ret = (x - from) * pixels / (to - from);
    *ret = *ret < pixels ? *ret : pixels; /* rounding must not move a point out of the image */
    return true;
}

/* Returns whether the part of the image within area->rect contains a point. Points on the right and
 * lower edge count as `edge` says. */
static bool is_within(const struct rect *rect, const double at[2], bool edge)
{
    double right = (double)rect->left + rect->width, bottom = (double)rect->top + rect->height;

    return at[0] >= rect->left && at[1] >= rect->top &&
           (edge ? at[0] <= right && at[1] <= bottom : at[0] < right && at[1] < bottom);
}

/* Move one point. Returns whether the image around it is a mirror image of the picture; false if it
 * is not shown. */
static bool move(const struct keypoints_target *to, const struct moves *moves,
                 struct plenum_keypoint *point)
{
    const struct pipeline *pipeline = to->view->pipeline;
    const struct image_view *whole = moves_whole_of(&to->whole, to->view);
    const struct image_shown *shown = &to->view->shown;
    const struct plenum_keypoint from = *point;
    const float *part = shown->box;
    struct moves_place end;
    double at[2];

    *point = (struct plenum_keypoint){.x = 0};
    if (from.visibility == 0 ||
        !place(from.x, part[0], part[2], pipeline->width, shown->width, &at[0]) ||
        !place(from.y, part[1], part[3], pipeline->height, shown->height, &at[1]))
        return false;
    at[0] = to->whole.left + (shown->mirror ? pipeline->width - at[0] : at[0]);
    at[1] += to->whole.top;
    if (!moves_point(moves, at, &end))
        return false;
    end.at[1] = whole->shown.upside_down ? whole->pipeline->height - end.at[1] : end.at[1];
    if (to->area.where == MOVES_INSIDE && !is_within(&to->area.rect, end.at, true))
        return false;
    if (to->area.where == MOVES_OUTSIDE)
        end.covered = end.covered || is_within(&to->area.rect, end.at, false);
    *point = (struct plenum_keypoint){
        .x = (float)end.at[0],
        .y = (float)end.at[1],
        .visibility = end.covered ? HIDDEN : from.visibility,
    };
    return end.mirrored ^ shown->mirror ^ whole->shown.upside_down;
}

/* Swap two points, of which an object may lack one or both. */
static void swap(uint8_t *points, const uint16_t pair[2])
{
    struct plenum_keypoint a, b;

    memcpy(&a, points + pair[0] * sizeof(a), sizeof(a));
    memcpy(&b, points + pair[1] * sizeof(b), sizeof(b));
    memcpy(points + pair[0] * sizeof(a), &b, sizeof(b));
    memcpy(points + pair[1] * sizeof(b), &a, sizeof(a));
}

/* Move the points of an object, `most` of them with those that it lacks. */
static void show(const struct keypoints_target *to, const struct moves *moves, uint8_t *points)
{
    const struct field_spec *spec = to->spec;
    const uint32_t most = to->shape->shape[1];
    bool mirrored[FIELD_POINTS_MAX], shown[FIELD_POINTS_MAX];

    assert(most <= FIELD_POINTS_MAX);
    for (uint32_t i = 0; i < most; i++) {
        struct plenum_keypoint point;

        memcpy(&point, points + i * sizeof(point), sizeof(point));
        mirrored[i] = move(to, moves, &point);
        shown[i] = point.visibility > 0;
        memcpy(points + i * sizeof(point), &point, sizeof(point));
    }
    for (uint32_t i = 0; i < spec->pairs; i++) {
        const uint16_t *pair = spec->pair[i];

        if (pair[0] < most && pair[1] < most && mirrored[pair[shown[pair[0]] ? 0 : 1]])
            swap(points, pair);
    }
}

void keypoints_add(const uint8_t *bytes, uint32_t len, const struct keypoints_target *to)
{
    const uint32_t most = to->shape->shape[1];
    const uint8_t *end = bytes + len;
    const struct image_view *whole = moves_whole_of(&to->whole, to->view);
    struct plenum_poses head;
    struct moves moves;

    memcpy(&head, to->dst, sizeof(head));
    if (len > 0)
        moves_draw(whole->pipeline, &whole->draw, &moves);
    for (; bytes < end; head.count++) {
        uint8_t *at = to->dst + field_poses_bytes(head.count, most);
        struct plenum_pose pose;
        struct field_pose from;

        memcpy(&from, bytes, sizeof(from));
        bytes += sizeof(from);
        assert(head.count < to->shape->shape[0] && from.points <= most);
        pose = (struct plenum_pose){.class_id = from.class_id, .id = from.id};
        memcpy(at, &pose, sizeof(pose));
        memcpy(at + sizeof(pose), bytes, from.points * sizeof(struct plenum_keypoint));
        show(to, &moves, at + sizeof(pose));
        bytes += from.points * sizeof(struct plenum_keypoint);
    }
    memcpy(to->dst, &head, sizeof(head));
}

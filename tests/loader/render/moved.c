/* SPDX-License-Identifier: MIT */
/* moved.c - prints random pipelines with the maps and erased rectangles of their operations, and
 * boxes and key points before and after them: test_moves.py computes the same with fractions.
 *
 *     moved FIRST COUNT
 *
 * prints for each pipeline from number FIRST on that moves or erases pixels of a sample, or that
 * cutmix follows:
 *
 *     image WIDTH HEIGHT MIRRORED UPSIDE-DOWN VISIBLE TEXT
 *     outside LEFT TOP WIDTH HEIGHT                 only the part outside it shows the picture
 *     inside LEFT TOP WIDTH HEIGHT                  only the part inside it does
 *     picture WIDTH HEIGHT LEFT TOP RIGHT BOTTOM    the picture's size, and the part that is shown
 *     map DIVIDES MIRRORED UPSIDE-DOWN and nine numbers    in order, with:
 *     erase LEFT TOP WIDTH HEIGHT                          in the window
 *     box LEFT TOP RIGHT BOTTOM [LEFT TOP RIGHT BOTTOM]    in the picture, and in the image
 *     pose (X Y VISIBILITY)*5 (X Y VISIBILITY)*5    in the same way; the pairs are 0, 3 and 4, 1
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/fields.h"
#include "loader/image/ops/augment.h"
#include "loader/render/boxes.h"
#include "loader/render/keypoints.h"
#include "loader/render/moves.h"
#include "tests/loader/image/random_pipeline.h"

enum { BOXES = 4, POSES = 3, POINTS = 5 };

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((state >> 33) % n);
}

static void print_box(const struct plenum_box *box)
{
    printf(" %a %a %a %a", (double)box->left, (double)box->top, (double)box->right,
           (double)box->bottom);
}

static void print_boxes(const struct image_view *view, const struct moves_area *area,
                        uint32_t visible)
{
    struct plenum_box boxes[BOXES];
    uint8_t moved[sizeof(struct plenum_boxes) + sizeof(struct plenum_box)];

    for (uint32_t i = 0; i < BOXES; i++) {
        uint32_t width = view->shown.width, height = view->shown.height;
        struct plenum_boxes head;

        boxes[i] = (struct plenum_box){.left = (float)below(4 * width) / 4 - 2,
                                       .top = (float)below(4 * height) / 4 - 2};
        boxes[i].right = boxes[i].left + (float)(1 + below(2 * width)) / 2;
        boxes[i].bottom = boxes[i].top + (float)(1 + below(2 * height)) / 2;
        memset(moved, 0, sizeof(moved));
        boxes_add((const uint8_t *)&boxes[i], 1,
                  &(struct boxes_target){.view = view,

                                         .area = *area,
                                         .visible = visible,
                                         .most = 1,
                                         .dst = moved});
        memcpy(&head, moved, sizeof(head));
        printf("box");
        print_box(&boxes[i]);
        memcpy(&boxes[i], moved + sizeof(head), sizeof(boxes[i]));
        if (head.count > 0)
            print_box(&boxes[i]);
        printf("\n");
    }
}

/* The same points are moved as one of two objects: the other one has fewer. */
static void print_pose(const struct image_view *view, const struct moves_area *area)
{
    static const struct field_spec spec = {.pairs = 2, .pair = {{0, 3}, {4, 1}}};
    const struct field_shape shape = {.type = PLENUM_FIELD_KEYPOINTS,
                                      .shape = {3, POINTS},
                                      .room = 8 + 3 * (16 + 12 * POINTS + 4)};
    struct field_pose poses[2] = {{.points = 1}, {.points = POINTS}};
    struct plenum_keypoint point[1 + POINTS] = {{0}};
    uint8_t from[sizeof(poses) + sizeof(point)], to[8 + 3 * (16 + 12 * POINTS + 4)];

    for (uint32_t i = 1; i <= POINTS; i++) {
        point[i] = (struct plenum_keypoint){.visibility = (float)below(3)};
        if (point[i].visibility > 0) {
            point[i].x = (float)below(8 * view->shown.width + 32) / 8 - 2;
            point[i].y = (float)below(8 * view->shown.height + 32) / 8 - 2;
        }
    }
    memcpy(from, &poses[0], sizeof(poses[0]));
    memcpy(from + sizeof(poses[0]), &point[0], sizeof(point[0]));
    memcpy(from + sizeof(poses[0]) + sizeof(point[0]), &poses[1], sizeof(poses[1]));
    memcpy(from + sizeof(poses) + sizeof(point[0]), &point[1], sizeof(point) - sizeof(point[0]));
    memset(to, 0, sizeof(to));
    keypoints_add(from, sizeof(from),
                  &(struct keypoints_target){.view = view,

                                             .area = *area,
                                             .spec = &spec,
                                             .shape = &shape,
                                             .dst = to});
    printf("pose");
    for (int i = 1; i <= POINTS; i++)
        printf(" %a %a %a", (double)point[i].x, (double)point[i].y, (double)point[i].visibility);
    memcpy(&point[1], to + 8 + 16 + 12 * POINTS + 4 + 16, sizeof(point) - sizeof(point[0]));
    for (int i = 1; i <= POINTS; i++)
        printf(" %a %a %a", (double)point[i].x, (double)point[i].y, (double)point[i].visibility);
    printf("\n");
}

static void print_erased(const struct rect *rect)
{
    printf("erase %u %u %u %u\n", rect->left, rect->top, rect->width, rect->height);
}

static void print_map(const struct affine *map)
{
    const int64_t *const rows[3] = {map->x, map->y, map->d};

    printf("map %d %d %d", map->divides, map->mirror, map->upside_down);
    for (int i = 0; i < 9; i++)
        printf(" %" PRId64, rows[i / 3][i % 3]);
    printf("\n");
}

/* Set view->shown, as rendering does. */
static void locate(struct image_view *view, struct augment_plan *plan)
{
    struct image_shown *shown = &view->shown;
    struct crop_tables tables = {0}, ratios = {0};
    struct crop crop;

    *shown = (struct image_shown){.width = 20 + below(60), .height = 20 + below(60)};
    crop_locate(view->pipeline, &view->draw, shown->width, shown->height, &tables, &crop);
    augment_draw(view->pipeline, &view->draw, &ratios, plan);
    crop_shown(&crop, view->pipeline, shown->box);
    shown->mirror = crop.mirror ^ plan->mirror;
    shown->upside_down = plan->upside_down;
}

/* Choose the part of an image that shows its picture, sometimes up to an edge of the image. */
static void choose_area(const struct pipeline *pipeline, struct moves_area *ret)
{
    struct rect *rect = &ret->rect;

    *ret = (struct moves_area){(enum moves_where)below(3), {.left = 0}};
    rect->left = below(3) ? below(pipeline->width) : 0;
    rect->top = below(3) ? below(pipeline->height) : 0;
    rect->width = below(3) ? 1 + below(pipeline->width - rect->left) : pipeline->width - rect->left;
    rect->height =
        below(3) ? 1 + below(pipeline->height - rect->top) : pipeline->height - rect->top;
}

static void print_area(const struct moves_area *area)
{
    const struct rect *rect = &area->rect;

    if (area->where != MOVES_EVERYWHERE)
        printf("%s %u %u %u %u\n", area->where == MOVES_INSIDE ? "inside" : "outside", rect->left,
               rect->top, rect->width, rect->height);
}

/* Print what happens to a sample of pipeline `number`, if that moves pixels. */
static void print_one(uint64_t number)
{
    static struct augment_plan plan;
    static struct moves moves;
    struct moves_area area;
    struct pipeline pipeline;
    struct image_view view = {.pipeline = &pipeline, .draw = {.seed = number, .epoch = 1}};
    char text[RANDOM_PIPELINE_MAX];
    uint32_t visible = number % 2 ? 0 : (uint32_t)(number / 2 % 10) * 1000;

    random_pipeline(number, text);
    if (strstr(text, "augmix") || pipeline_parse(text, &pipeline, NULL) < 0)
        return;
    state = number;
    locate(&view, &plan);
    moves_draw(&pipeline, &view.draw, &moves);
    choose_area(&pipeline, &area);
    if (moves.count == 0 && moves.covers == 0 && !moves.lost && area.where == MOVES_EVERYWHERE)
        return;
    printf("image %u %u %d %d %u %s\n", pipeline.width, pipeline.height, view.shown.mirror,
           view.shown.upside_down, visible, text);
    print_area(&area);
    printf("picture %u %u", view.shown.width, view.shown.height);
    for (int i = 0; i < 4; i++)
        printf(" %a", (double)view.shown.box[i]);
    printf("\n");
    for (uint32_t i = 0; i < plan.count; i++)
        if (plan.steps[i].kind == PIPELINE_AFFINE)
            print_map(&plan.steps[i].map);
        else if (plan.steps[i].kind == PIPELINE_ERASE || plan.steps[i].kind == PIPELINE_CUTOUT)
            print_erased(&plan.steps[i].erase.rect);
    print_boxes(&view, &area, visible);
    for (int i = 0; i < POSES; i++)
        print_pose(&view, &area);
}

int main(int argc, char *argv[])
{
    uint64_t first = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

    for (uint64_t i = 0; i < count; i++)
        print_one(first + i);
    return argc == 3 ? 0 : 2;
}

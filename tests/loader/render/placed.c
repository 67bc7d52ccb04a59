/* SPDX-License-Identifier: MIT */
/* placed.c - prints where random pipelines with scale_jitter, zoom_out and iou_crop place pictures
 * and boxes: test_placed.py computes the same from docs/pixels.md.
 *
 *     placed FIRST COUNT
 *
 * prints for each number from FIRST on:
 *
 *     image SEED EPOCH POSITION WIDTH HEIGHT TEXT    the picture's size, and the canonical text
 *     boxes (LEFT TOP RIGHT BOTTOM)*4    of the picture
 *     part LEFT TOP WIDTH HEIGHT    of the picture
 *     resized WIDTH HEIGHT LEFT TOP    that part: its size and place in the image
 *     shown LEFT TOP RIGHT BOTTOM MIRRORED    the reported geometry
 *     box [LEFT TOP RIGHT BOTTOM]    each box in the image, if it is shown
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/resize/crop.h"
#include "loader/render/boxes.h"

enum { BOXES = 4 };

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((state >> 33) % n);
}

/* Fill in the numbers of a pipeline. */
static void make_text(char *ret, size_t size)
{
    uint32_t low = 1 + below(30), high = low + below(30), side = 10 + below(20);
    uint32_t width = 1 + below(300), height = 1 + below(300), p = 1 + below(10);

    switch (below(5)) {
    case 0:
        (void)snprintf(ret, size, "scale_jitter(%ux%u, %u/10:%u/10) flip(0.5)", height, width, low,
                       high);
        break;
    case 1:
        (void)snprintf(ret, size, "zoom_out(%u/10:%u/10, p=%u/10) resize(%ux%u) flip(0.5)", side,
                       side + low, p, height, width);
        break;
    case 2:
        (void)snprintf(ret, size, "iou_crop(scale=%u/100:1, ratio=1/%u:2) resize(%ux%u) flip(0.5)",
                       low, 1 + below(4), height, width);
        break;
    case 3:
        (void)snprintf(ret, size, "zoom_out(%u/10:%u/10, p=%u/10) iou_crop resize(%ux%u) flip(0.5)",
                       side, side + low, p, height, width);
        break;
    default:
        (void)snprintf(ret, size, "zoom_out(%u/10:%u/10, p=%u/10) letterbox(%ux%u)", side,
                       side + low, p, height, width);
    }
}

static void print_box(const struct plenum_box *box)
{
    printf(" %a %a %a %a", (double)box->left, (double)box->top, (double)box->right,
           (double)box->bottom);
}

static void print_boxes(const struct image_view *view, const struct plenum_box *boxes)
{
    uint8_t moved[sizeof(struct plenum_boxes) + sizeof(struct plenum_box)];

    for (uint32_t i = 0; i < BOXES; i++) {
        struct plenum_boxes head;
        struct plenum_box box;

        memset(moved, 0, sizeof(moved));
        boxes_add((const uint8_t *)&boxes[i], 1,
                  &(struct boxes_target){.view = view, .most = 1, .dst = moved});
        memcpy(&head, moved, sizeof(head));
        memcpy(&box, moved + sizeof(head), sizeof(box));
        printf("box");
        if (head.count > 0)
            print_box(&box);
        printf("\n");
    }
}

static void make_boxes(uint32_t width, uint32_t height, struct plenum_box *ret)
{
    for (uint32_t i = 0; i < BOXES; i++) {
        ret[i] = (struct plenum_box){.left = (float)below(4 * width) / 4,
                                     .top = (float)below(4 * height) / 4};
        ret[i].right = ret[i].left + (float)(1 + below(2 * width)) / 3;
        ret[i].bottom = ret[i].top + (float)(1 + below(2 * height)) / 3;
    }
}

static void print_one(uint64_t number)
{
    struct pipeline pipeline;
    struct image_view view = {.pipeline = &pipeline,
                              .draw = {.seed = number * 0x9E3779B97F4A7C15, .epoch = 3}};
    struct image_shown *shown = &view.shown;
    struct plenum_box boxes[BOXES];
    struct crop_tables tables = {.boxes = {(const uint8_t *)boxes, BOXES}};
    struct crop crop;
    char text[200];

    state = number;
    (void)below(2);
    make_text(text, sizeof(text));
    view.draw.position = below(1000);
    *shown = (struct image_shown){.width = 1 + below(700), .height = 1 + below(700)};
    if (pipeline_parse(text, &pipeline, NULL) < 0)
        abort();
    make_boxes(shown->width, shown->height, boxes);
    crop_locate(&pipeline, &view.draw, shown->width, shown->height, &tables, &crop);
    crop_shown(&crop, &pipeline, shown->box);
    shown->mirror = crop.mirror;
    printf("image %" PRIu64 " %u %u %u %u %s\n", view.draw.seed, view.draw.epoch,
           view.draw.position, shown->width, shown->height, pipeline.text);
    printf("boxes");
    for (uint32_t i = 0; i < BOXES; i++)
        print_box(&boxes[i]);
    printf("\npart %u %u %u %u\n", crop.box.left, crop.box.top, crop.box.width, crop.box.height);
    printf("resized %u %u %" PRId64 " %" PRId64 "\n", crop.width, crop.height,
           (int64_t)crop.across.more - crop.across.first,
           (int64_t)crop.down.more - crop.down.first);
    printf("shown %a %a %a %a %d\n", (double)shown->box[0], (double)shown->box[1],
           (double)shown->box[2], (double)shown->box[3], shown->mirror);
    print_boxes(&view, boxes);
}

int main(int argc, char *argv[])
{
    uint64_t first = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;

    for (uint64_t i = 0; i < count; i++)
        print_one(first + i);
    return argc == 3 ? 0 : 2;
}

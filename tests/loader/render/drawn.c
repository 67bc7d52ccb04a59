/* SPDX-License-Identifier: MIT */
/* drawn.c - prints random pipelines with what they do to pixels, and the masks of objects in their
 * images: test_drawn.py draws the same with fractions.
 *
 *     drawn FIRST COUNT
 *
 * prints for each pipeline from number FIRST on:
 *
 *     image WIDTH HEIGHT MIRRORED UPSIDE-DOWN TEXT
 *     picture WIDTH HEIGHT LEFT TOP RIGHT BOTTOM    the picture's size, and the part that is shown
 *     axis BEGIN LENGTH RESIZED FIRST    across, then down: the box, its length after the resize,
 *                                        and the position there of the first pixel of the window
 *     map DIVIDES MIRRORED UPSIDE-DOWN and nine numbers    in order
 *     mask BITS POLYGONS (POINTS (X Y)*)*   an object's mask, in hexadecimal, and its outline
 *     runs BITS END...                      an encoded mask
 *     lost ...                              an object that is dropped, with its outline
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/fields.h"
#include "loader/image/ops/augment.h"
#include "loader/render/instance_masks.h"
#include "tests/loader/image/random_pipeline.h"

enum { OBJECTS = 4, POLYGONS = 3, POINTS = 6, RUNS = 40, ROOM = 1 << 20 };

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((state >> 33) % n);
}

/* An object with its numbers, as the loader stores them. */
struct drawn_object {
    struct field_outline head;
    uint32_t numbers[POLYGONS * (1 + 2 * POINTS) + RUNS];
};

static void add_polygons(struct drawn_object *o)
{
    uint32_t *at = o->numbers;

    o->head.polygons = 1 + below(POLYGONS);
    for (uint32_t i = 0; i < o->head.polygons; i++) {
        uint32_t points = 3 + below(POINTS - 2), grid = below(2) ? 64 : 2;

        *at++ = points;
        for (uint32_t k = 0; k < 2 * points; k++, at++) {
            float most = k % 2 ? o->head.box.bottom : o->head.box.right;
            float value = (float)below((uint32_t)(most + 8) * grid) / (float)grid - 4;

            memcpy(at, &value, sizeof(value));
        }
    }
    o->head.numbers = (uint32_t)(at - o->numbers);
}

static void add_runs(struct drawn_object *o, const struct image_shown *shown)
{
    uint32_t all = shown->width * shown->height, end = below(all);

    o->head.height = shown->height;
    o->head.width = shown->width;
    while (o->head.numbers < RUNS - 2) {
        o->numbers[o->head.numbers++] = end;
        end += below(below(3) ? shown->height : all / 4);
        end = end < all ? end : all;
    }
    o->numbers[o->head.numbers++] = all;
}

/* Print a mask and the numbers that it was drawn from. */
static void print_object(const struct drawn_object *o, const uint8_t *bits, size_t count)
{
    printf("%s ", !bits ? "lost" : o->head.polygons > 0 ? "mask" : "runs");
    for (size_t i = 0; bits && i < count; i++)
        printf("%02x", bits[i]);
    for (uint32_t i = 0, points = 0; i < o->head.numbers; i++) {
        float number;

        memcpy(&number, &o->numbers[i], sizeof(number));
        if (o->head.polygons == 0 || points == 0) {
            printf(" %u", o->numbers[i]);
            points = 2 * o->numbers[i];
            continue;
        }
        printf(" %a", (double)number);
        points--;
    }
    printf("\n");
}

static void draw(struct image_decoder *decoder, const struct image_view *view)
{
    static uint8_t room[ROOM];
    const struct image_shown *shown = &view->shown;
    size_t bits = field_bits_bytes((uint64_t)view->pipeline->width * view->pipeline->height);
    struct scratch scratch = {NULL, 0};

    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct drawn_object o = {
            .head.box = {.right = (float)shown->width, .bottom = (float)shown->height, .id = 7}};
        const struct boxes_target to = {.view = view, .most = 2, .dst = room};
        struct image_file outlines = {.bytes = (const uint8_t *)&o};
        const size_t each = sizeof(struct plenum_instance) + bits;
        struct plenum_instances head;

        if (i < OBJECTS - 1)
            add_polygons(&o);
        else
            add_runs(&o, shown);
        outlines.len = sizeof(o.head) + o.head.numbers * sizeof(uint32_t);
        memset(room, 0, sizeof(room));
        if (sizeof(head) + 2 * each > sizeof(room) ||
            instance_masks_add(&outlines, &to, decoder, &scratch, NULL) < 0)
            abort();
        memcpy(&head, room, sizeof(head));
        for (size_t k = sizeof(head) + head.count * each; k < sizeof(head) + 2 * each; k++)
            if (room[k] != 0)
                abort();
        print_object(&o, head.count > 0 ? room + sizeof(head) + each - bits : NULL, bits);
    }
    scratch_free(&scratch);
}

/* Set view->shown, as rendering does. */
static void locate(struct image_view *view, struct crop *crop, struct augment_plan *plan)
{
    struct image_shown *shown = &view->shown;
    struct crop_tables tables = {0}, ratios = {0};

    *shown = (struct image_shown){.width = 20 + below(60), .height = 20 + below(60)};
    crop_locate(view->pipeline, &view->draw, shown->width, shown->height, &tables, crop);
    augment_draw(view->pipeline, &view->draw, &ratios, plan);
    crop_shown(crop, view->pipeline, shown->box);
    shown->mirror = crop->mirror ^ plan->mirror;
    shown->upside_down = plan->upside_down;
}

static void print_axis(const struct crop_axis *axis, bool padded, uint32_t begin, uint32_t length,
                       const uint32_t resized[2])
{
    int64_t first = padded ? (int64_t)axis->first - axis->more - axis->pad : (int64_t)resized[1];

    printf("axis %u %u %u %" PRId64 "\n", begin, length, resized[0], first);
}

static void print_map(const struct affine *map)
{
    const int64_t *const rows[3] = {map->x, map->y, map->d};

    printf("map %d %d %d", map->divides, map->mirror, map->upside_down);
    for (int i = 0; i < 9; i++)
        printf(" %" PRId64, rows[i / 3][i % 3]);
    printf("\n");
}

static void print_one(struct image_decoder *decoder, uint64_t number)
{
    static struct augment_plan plan;
    struct pipeline pipeline;
    struct image_view view = {.pipeline = &pipeline, .draw = {.seed = number, .epoch = 1}};
    struct crop crop = {.padded = false};
    char text[RANDOM_PIPELINE_MAX];

    random_pipeline(number, text);
    if (strstr(text, "augmix") || pipeline_parse(text, &pipeline, NULL) < 0)
        return;
    state = number;
    locate(&view, &crop, &plan);
    printf("image %u %u %d %d %s\n", pipeline.width, pipeline.height, view.shown.mirror,
           view.shown.upside_down, text);
    printf("picture %u %u", view.shown.width, view.shown.height);
    for (int i = 0; i < 4; i++)
        printf(" %a", (double)view.shown.box[i]);
    printf("\n");
    print_axis(&crop.across, crop.padded, crop.box.left, crop.box.width,
               (const uint32_t[]){crop.width, crop.window.left});
    print_axis(&crop.down, crop.padded, crop.box.top, crop.box.height,
               (const uint32_t[]){crop.height, crop.window.top});
    for (uint32_t i = 0; i < plan.count; i++)
        if (plan.steps[i].kind == PIPELINE_AFFINE)
            print_map(&plan.steps[i].map);
    draw(decoder, &view);
}

int main(int argc, char *argv[])
{
    uint64_t first = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    struct image_decoder *decoder;

    if (image_decoder_create(&decoder) < 0)
        return 1;
    for (uint64_t i = 0; i < count; i++)
        print_one(decoder, first + i);
    image_decoder_destroy(decoder);
    return argc == 3 ? 0 : 2;
}

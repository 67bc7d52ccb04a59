/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/render/mosaic.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "loader/image/ops/augment.h"
#include "loader/image/resize/crop.h"
#include "loader/image/scratch.h"

struct mosaic {
    struct augment *augment;
    struct crop_tables tables;
    struct augment_plan plan;
    struct mosaic_part part[MOSAIC_PARTS];
    struct image_view *view; /* borrowed */
    uint8_t *window;         /* [3][height][width] */
    uint32_t item;           /* bytes per number of the mask */
    struct scratch room, planes;
};

static const struct image_store stored_planes = {PLENUM_UINT8, PLENUM_NCHW, 3};

int mosaic_create(struct mosaic **ret)
{
    struct mosaic *m = calloc(1, sizeof(*m));

    if (!m)
        return -ENOMEM;
    if (augment_create(&m->augment) < 0) {
        free(m);
        return -ENOMEM;
    }
    augment_use(m->augment, image_kernels(0));
    *ret = m;
    return 0;
}

void mosaic_destroy(struct mosaic *m)
{
    if (!m)
        return;
    augment_destroy(m->augment);
    scratch_free(&m->room);
    scratch_free(&m->planes);
    free(m);
}

static size_t planes_bytes(const struct pipeline *pipeline)
{
    return 3 * (size_t)pipeline->width * pipeline->height;
}

uint64_t mosaic_most_bytes(const struct pipeline *pipeline)
{
    return 4 * planes_bytes(pipeline); /* room, planes, and two windows of the operations */
}

/* Choose the place of a part, given where the pictures meet: along one axis. */
static void place(uint32_t side, uint32_t centre, bool end, uint32_t *begin, uint32_t *length)
{
    *begin = end ? centre : 0;
    *length = end ? side - centre : centre;
}

/* Choose the parts. The own picture is in the drawn corner, the others follow in the order upper
 * left, upper right, lower left, lower right. */
static void choose_parts(struct mosaic *m, bool mirror)
{
    const struct pipeline *whole = m->view->pipeline;
    struct philox_block d = image_draw_words(&m->view->draw, DRAW_MOSAIC, 0);
    uint32_t x = 1 + philox_below(d.word[0], whole->width - 1);
    uint32_t y = 1 + philox_below(d.word[1], whole->height - 1);

    for (uint32_t k = 0; k < MOSAIC_PARTS; k++) {
        struct mosaic_part *part = &m->part[k];
        struct pipeline *p = &part->pipeline;

        *p = *whole;
        p->crop = PIPELINE_PART;
        p->corner = (philox_below(d.word[2], MOSAIC_PARTS) + k) % MOSAIC_PARTS;
        p->resize_width = whole->width;
        p->resize_height = whole->height;
        p->ops_count = 0;
        p->mix.p = (struct rational){0, 1};
        p->flip = (struct rational){mirror, 1};
        place(whole->width, x, p->corner & 1, &part->left, &p->width);
        place(whole->height, y, p->corner & 2, &part->top, &p->height);
        if (mirror)
            part->left = whole->width - part->left - p->width;
    }
}

int mosaic_begin(struct mosaic *m, struct image_view *view)
{
    const struct pipeline *pipeline = view->pipeline;
    uint32_t word = image_draw_words(&view->draw, DRAW_FLIP, 0).word[0];

    assert(pipeline_is_mosaic(pipeline));
    m->view = view;
    augment_draw(pipeline, &view->draw, &m->tables, &m->plan);
    choose_parts(m, rational_happens(pipeline->flip, word) ^ m->plan.mirror);
    if (scratch_reserve(&m->room, planes_bytes(pipeline)) < 0)
        return -ENOMEM;
    m->window = augment_window(m->augment, &m->plan, pipeline->width, pipeline->height);
    return m->window ? 0 : -ENOMEM;
}

const struct mosaic_part *mosaic_get_part(const struct mosaic *m, uint32_t k)
{
    assert(k < MOSAIC_PARTS);
    return &m->part[k];
}

uint8_t *mosaic_get_room(const struct mosaic *m)
{
    return m->room.bytes;
}

/* Copy one plane of a part. `step` is the distance between its pixels. */
static void put_plane(const struct mosaic *m, uint32_t k, uint32_t plane, const uint8_t *from,
                      uint32_t step)
{
    const struct mosaic_part *part = &m->part[k];
    const struct pipeline *whole = m->view->pipeline;
    size_t pitch = whole->width;
    uint8_t *to = m->window + plane * pitch * whole->height + part->top * pitch + part->left;

    for (uint32_t y = 0; y < part->pipeline.height; y++, to += pitch)
        for (uint32_t x = 0; x < part->pipeline.width; x++, from += step)
            to[x] = *from;
}

void mosaic_put_part(struct mosaic *m, uint32_t k)
{
    size_t pixels = (size_t)m->part[k].pipeline.width * m->part[k].pipeline.height;
    const uint8_t *room = m->room.bytes;

    for (uint32_t c = 0; c < 3; c++)
        put_plane(m, k, c, room + c * pixels, 1);
}

/* Describe the image along one axis: `side` pixels, of which the own picture, resized from `whole`
 * to `resized`, ends or begins at the centre. */
static void tell_axis(uint32_t side, uint32_t whole, uint32_t resized, int64_t begin, float *low,
                      float *high)
{
    *low = (float)((double)(-begin * whole) / resized);
    *high = (float)((double)((side - begin) * whole) / resized);
}

void mosaic_finish(struct mosaic *m, const struct image_shown *own, const struct image_store *store)
{
    struct image_view *view = m->view;
    const struct pipeline *whole = view->pipeline, *p = &m->part[0].pipeline;
    struct crop_tables tables = {0};
    struct crop crop;

    view->shown = *own;
    view->shown.upside_down = m->plan.upside_down;
    crop_locate(p, &view->draw, own->width, own->height, &tables, &crop);
    tell_axis(whole->width, own->width, crop.width,
              p->corner & 1 ? whole->width - p->width : (int64_t)p->width - crop.width,
              &view->shown.box[0], &view->shown.box[2]);
    tell_axis(whole->height, own->height, crop.height,
              p->corner & 2 ? whole->height - p->height : (int64_t)p->height - crop.height,
              &view->shown.box[1], &view->shown.box[3]);
    augment_finish(m->augment, &m->plan, whole->width, whole->height, store, view->dst);
}

int mosaic_begin_mask(struct mosaic *m, uint32_t item)
{
    const struct pipeline *whole = m->view->pipeline;

    m->item = item;
    augment_keep_moves(&m->plan);
    if (scratch_reserve(&m->planes, planes_bytes(whole)) < 0)
        return -ENOMEM;
    m->window = augment_window(m->augment, &m->plan, whole->width, whole->height);
    if (m->window)
        memset(m->window, 0, planes_bytes(whole));
    return m->window ? 0 : -ENOMEM;
}

void mosaic_put_mask(struct mosaic *m, uint32_t k)
{
    const uint8_t *room = m->room.bytes;

    for (uint32_t i = 0; i < m->item; i++) /* numbers of 16 bits are little-endian */
        put_plane(m, k, i, room + i, m->item);
}

void mosaic_finish_mask(struct mosaic *m, uint8_t *dst)
{
    const struct pipeline *whole = m->view->pipeline;
    size_t pixels = (size_t)whole->width * whole->height;
    const uint8_t *planes;

    augment_finish(m->augment, &m->plan, whole->width, whole->height, &stored_planes,
                   m->planes.bytes);
    planes = m->planes.bytes;
    for (size_t i = 0; i < pixels * m->item; i++)
        dst[i] = planes[i % m->item * pixels + i / m->item];
}

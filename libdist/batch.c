/* SPDX-License-Identifier: MIT */
/* batch.c - what a batch contains: the position of each sample, and where its arrays lie in the
 * slot.
 *
 * The client computes positions itself: a batch's epochs, positions and valid flags follow from its
 * position when it is returned. A loader supplies only pixels, labels and sample numbers. */
#include "config.h"

#include "libdist/batch.h"

#include <assert.h>
#include <string.h>

#include "common/order/orderplan.h"
#include "common/pipeline/streamhash.h"
#include "common/util/util.h"

void batch_describe(const struct plenum_stream *s, const struct made_batch *made,
                    struct plenum_batch *b)
{
    struct plenum_lease *slot = made->slot;
    uint8_t *bytes = ring_slot(slot->set->ring, slot->index);
    const struct wire_slot *layout = &s->layout;
    struct order_place place = made->place;
    uint32_t n = 0;

    assert(lock_is_held(&s->mu));
    assert(slot->state == SLOT_READY);
    *b = (struct plenum_batch){.pixels = bytes,
                               .labels = (int64_t *)(void *)(bytes + layout->labels_at),
                               .samples = (uint32_t *)(void *)(bytes + layout->samples_at),
                               .positions = slot->positions,
                               .valid = slot->valid,
                               .epochs = slot->epochs,
                               .index = s->next_index,
                               .count = (uint32_t)wire_batch_count(&s->open),
                               .steps = s->open.steps,
                               .replicas = s->info.num_local_replicas,
                               .micro_batch = s->open.local / s->info.num_local_replicas,
                               .height = s->open.height,
                               .width = s->open.width,
                               .channels = s->open.channels,
                               .dtype = s->open.dtype,
                               .layout = s->open.layout,
                               .lease = slot};
    if (s->open.mix) {
        slot->labels2 = (int64_t *)(void *)(bytes + layout->labels2_at);
        slot->weights = (float *)(void *)(bytes + layout->weights_at);
    }
    for (uint32_t step = 0; step < s->open.steps; step++) {
        bool counts = !s->epochs || place.epoch < s->epochs;

        slot->epochs[step] = place.epoch;
        for (uint32_t i = 0; i < s->open.local; i++, n++) {
            uint32_t at = wire_step_distance(&s->open, i);

            slot->positions[n] = order_step_position(&s->steps, place, at);
            slot->valid[n] = counts && order_step_counts(&s->steps, place, at);
            b->num_valid += slot->valid[n];
        }
        place = order_place_settle(&s->steps, order_place_after(&s->steps, place));
    }
}

uint32_t batch_count_substituted(const struct plenum_stream *s, const struct plenum_batch *b,
                                 uint32_t told)
{
    uint32_t count = 0;

    if (s->plan) /* only loaders know a plan's order */
        return (uint32_t)min_u64(told, b->num_valid);

    for (uint32_t i = 0; i < b->count; i++)
        if (b->valid[i])
            count +=
                b->samples[i] != order_sample(&s->order, (uint32_t)b->epochs[i / s->open.local],
                                              (uint32_t)b->positions[i]);
    return count;
}

int plenum_batch_get_sets(const struct plenum_batch *batch, uint8_t *ret)
{
    const struct plenum_lease *slot = batch->lease;
    const struct plenum_stream *s = slot ? slot->set->stream : NULL;

    if (!s || !s->first_plan)
        return 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint64_t end = s->sets[0].samples;
        uint32_t set = 0;

        while (batch->samples[i] >= end && set + 1 < s->first_plan->num_sets)
            end += s->sets[++set].samples;
        ret[i] = (uint8_t)set;
    }
    return (int)s->first_plan->num_sets;
}

int plenum_batch_get_mix(const struct plenum_batch *batch, struct plenum_mix *ret)
{
    const struct plenum_lease *slot = batch->lease;

    *ret = (struct plenum_mix){0};
    if (!slot || !slot->labels2)
        return 0;
    *ret = (struct plenum_mix){.labels2 = slot->labels2, .weights = slot->weights};
    return 1;
}

int plenum_batch_get_geometry(const struct plenum_batch *batch, struct plenum_geometry *ret)
{
    const struct plenum_lease *slot = batch->lease;
    const struct wire_slot *layout;
    uint8_t *bytes = batch->pixels;

    *ret = (struct plenum_geometry){0};
    if (!slot || !slot->has_geometry)
        return 0;
    layout = &slot->set->stream->layout;
    *ret = (struct plenum_geometry){.boxes = (float *)(void *)(bytes + layout->boxes_at),
                                    .sizes = (uint32_t *)(void *)(bytes + layout->sizes_at),
                                    .flips = bytes + layout->flips_at};
    return (int)slot->set->stream->views.images;
}

int plenum_batch_get_views(const struct plenum_batch *batch,
                           struct plenum_view ret[PLENUM_VIEWS_MAX])
{
    const struct plenum_lease *slot = batch->lease;
    const struct plenum_stream *s = slot ? slot->set->stream : NULL;

    if (!s)
        return 0;
    for (uint32_t i = 0; i < s->views.count; i++) {
        const struct view *view = &s->views.view[i];

        ret[i] = (struct plenum_view){.name = view->name,
                                      .pixels = (uint8_t *)batch->pixels + s->layout.pixels_at[i],
                                      .count = view->count,
                                      .height = view->pipeline.height,
                                      .width = view->pipeline.width};
    }
    return (int)s->views.count;
}

/* Set a mask's shape: [H][W], [images][H][W], or, if sizes differ, all pixels in one dimension. */
static void set_mask_shape(const struct views *views, struct plenum_field *ret)
{
    const struct pipeline *first = &views->view[0].pipeline;
    bool alike = true;
    uint32_t n = 0;

    for (uint32_t i = 1; i < views->count; i++)
        alike = alike && views->view[i].pipeline.height == first->height &&
                views->view[i].pipeline.width == first->width;
    if (!alike) {
        ret->shape[n++] = (uint32_t)views_pixels(views);
    } else {
        if (views->images > 1)
            ret->shape[n++] = views->images;
        ret->shape[n++] = first->height;
        ret->shape[n++] = first->width;
    }
    ret->dims = n;
}

int plenum_batch_get_fields(const struct plenum_batch *batch,
                            struct plenum_field ret[PLENUM_FIELDS_MAX])
{
    const struct plenum_lease *slot = batch->lease;
    const struct plenum_stream *s = slot ? slot->set->stream : NULL;
    uint8_t *bytes = batch->pixels;

    if (!s)
        return 0;
    for (uint32_t i = 0; i < s->open.num_fields; i++) {
        const struct field_shape *field = &s->open.field[i];

        ret[i] = (struct plenum_field){.name = s->fields.spec[i].name,
                                       .type = (enum plenum_field_type)field->type,
                                       .dims = field->dims,
                                       .mask = field->mask,
                                       .room = wire_field_bytes(&s->open, field),
                                       .values = bytes + s->layout.fields_at[i]};
        memcpy(ret[i].shape, field->shape, sizeof(ret[i].shape));
        if (field->mask)
            set_mask_shape(&s->views, &ret[i]);
        if (field->type == PLENUM_FIELD_BOXES) {
            ret[i].dims = 1;
            ret[i].shape[0] = field_boxes_most(field->room);
        }
        if (field_varies(field))
            ret[i].lengths = (uint32_t *)(void *)(bytes + s->layout.lengths_at[i]);
    }
    return (int)s->open.num_fields;
}

/* List the fields of the i-th sample, for its hash. */
static void list_fields(const struct plenum_field *fields, uint32_t count, uint32_t i,
                        struct streamhash_field *ret)
{
    for (uint32_t k = 0; k < count; k++) {
        uint64_t room = fields[k].room, len = fields[k].lengths ? fields[k].lengths[i] : room;

        ret[k] = (struct streamhash_field){.bytes = (const uint8_t *)fields[k].values + i * room,
                                           .len = min_u64(len, room)};
    }
}

uint64_t plenum_batch_hash(const struct plenum_batch *batch)
{
    struct plenum_field fields[PLENUM_FIELDS_MAX];
    uint32_t num_fields = (uint32_t)plenum_batch_get_fields(batch, fields);
    struct plenum_view view[PLENUM_VIEWS_MAX];
    uint32_t views = (uint32_t)plenum_batch_get_views(batch, view);
    uint64_t sum = 0;
    uint32_t per_step = batch->replicas * batch->micro_batch;
    struct plenum_mix arrays;
    bool mixes = plenum_batch_get_mix(batch, &arrays) > 0;

    for (uint32_t i = 0; i < batch->count; i++) {
        struct streamhash_image images[PLENUM_VIEWS_MAX];
        struct streamhash_field field[PLENUM_FIELDS_MAX];
        struct streamhash_mix mix = {0};

        if (!batch->valid[i])
            continue;
        if (mixes)
            mix = (struct streamhash_mix){.label2 = arrays.labels2[i], .weight = arrays.weights[i]};
        for (uint32_t k = 0; k < views; k++) {
            size_t sample = (size_t)view[k].count * view[k].height * view[k].width;

            images[k] = (struct streamhash_image){.pixels = (const uint8_t *)view[k].pixels +
                                                            i * sample * batch->channels,
                                                  .count = view[k].count,
                                                  .width = view[k].width,
                                                  .height = view[k].height,
                                                  .channels = batch->channels,
                                                  .dtype = batch->dtype,
                                                  .layout = batch->layout};
        }
        list_fields(fields, num_fields, i, field);
        sum += streamhash_of(&(struct streamhash_sample){.epoch = batch->epochs[i / per_step],
                                                         .position = batch->positions[i],
                                                         .label = batch->labels[i],
                                                         .mix = mixes ? &mix : NULL,
                                                         .images = images,
                                                         .views = views,
                                                         .fields = field,
                                                         .num_fields = num_fields});
    }
    return sum;
}

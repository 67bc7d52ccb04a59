/* SPDX-License-Identifier: MIT */
/* batch_verify.c - renders some batches on two loaders and compares them.
 *
 * A share of the batches, chosen by a hash of their position, is requested from two loaders. If
 * they differ, one of the loaders renders wrong pixels. A third loader, if there is one,
 * arbitrates. The stream then fails, with the names of the loaders. If the second answer does not
 * arrive, the first is used.
 *
 * Not here: which loaders are used, and when an answer is late (schedule.c). */
#include "config.h"

#include "libdist/batch_verify.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"

bool verify_is_wanted(double share, uint64_t seed, struct order_place place)
{
    uint64_t key[] = {seed, place.epoch, place.position};

    return (double)XXH3_64bits(key, sizeof(key)) < share * 0x1p64;
}

/* Two batches, and the sample that is compared. */
struct pair {
    const uint8_t *a, *b;
    uint64_t i; /* index of the sample in both batches */
};

/* Are the sample's bytes equal in an array with `each` bytes per sample? */
static bool is_same_at(const struct pair *p, uint64_t at, uint64_t each)
{
    at += p->i * each;
    return memcmp(p->a + at, p->b + at, each) == 0;
}

static bool has_same_fields(const struct verify_stream *stream, const struct pair *p)
{
    const struct wire_open *open = stream->open;

    for (uint32_t k = 0; k < open->num_fields; k++)
        if (!is_same_at(p, stream->layout->fields_at[k], wire_field_bytes(open, &open->field[k])) ||
            (field_varies(&open->field[k]) &&
             !is_same_at(p, stream->layout->lengths_at[k], sizeof(uint32_t))))
            return false;
    return true;
}

static bool has_same_geometry(const struct verify_stream *stream, const struct pair *p)
{
    uint64_t images = wire_images(stream->open);

    return is_same_at(p, stream->layout->boxes_at, images * sizeof(float[4])) &&
           is_same_at(p, stream->layout->sizes_at, sizeof(uint32_t[2])) &&
           is_same_at(p, stream->layout->flips_at, images);
}

/* Returns whether the i-th sample is equal in both batches. Its geometry counts only if both
 * loaders have reported it. */
static bool is_same(const struct verify_stream *stream, const struct plenum_lease *one,
                    const struct plenum_lease *two, uint64_t i)
{
    const struct wire_slot *layout = stream->layout;
    const struct pair p = {.a = ring_slot(one->set->ring, one->index),
                           .b = ring_slot(two->set->ring, two->index),
                           .i = i};
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(stream->open, view);

    for (uint32_t k = 0; k < views; k++)
        if (!is_same_at(&p, layout->pixels_at[k],
                        view[k].count * wire_image_bytes(stream->open, &view[k])))
            return false;
    return (!one->has_geometry || !two->has_geometry || has_same_geometry(stream, &p)) &&
           has_same_fields(stream, &p) && is_same_at(&p, layout->labels_at, sizeof(int64_t)) &&
           is_same_at(&p, layout->samples_at, sizeof(uint32_t)) &&
           (!stream->open->mix || (is_same_at(&p, layout->labels2_at, sizeof(int64_t)) &&
                                   is_same_at(&p, layout->weights_at, sizeof(float))));
}

enum verify_verdict verify_look(struct batch_verify *v, const struct verify_stream *stream,
                                const struct plenum_lease *one, const struct plenum_lease *two)
{
    uint64_t count = wire_batch_count(stream->open);

    assert(v->wanted);
    if (!one || !two) {
        const struct plenum_lease *left = one ? one : two;

        return left && left->state == SLOT_CHECKING ? VERIFY_ALONE : VERIFY_WAIT;
    }
    if (one->state != SLOT_CHECKING || two->state != SLOT_CHECKING)
        return VERIFY_WAIT;
    if (v->undecided)
        return v->arbiter ? VERIFY_WAIT : VERIFY_UNLIKE;
    for (v->differs = 0; v->differs < count && is_same(stream, one, two, v->differs); v->differs++)
        ;
    if (v->differs == count)
        return VERIFY_ALIKE;
    v->undecided = true;
    return VERIFY_ARBITRATE;
}

int verify_arbitrate(const struct batch_verify *v, const struct verify_stream *stream,
                     struct order_place place, const struct verify_side sides[3],
                     struct plenum_error *err)
{
    const struct wire_open *open = stream->open;
    const char *one = sides[0].loader, *two = sides[1].loader;
    const struct plenum_lease *arbiter = sides[2].slot;
    bool like_one = arbiter && is_same(stream, arbiter, sides[0].slot, v->differs),
         like_two = arbiter && is_same(stream, arbiter, sides[1].slot, v->differs);
    char who[WIRE_TEXT_MAX];
    const struct plenum_lease *shown = sides[0].slot;
    const uint32_t *samples =
        (const void *)((const uint8_t *)ring_slot(shown->set->ring, shown->index) +
                       stream->layout->samples_at);
    uint64_t position;

    assert(v->undecided && v->differs < wire_batch_count(open));
    for (uint64_t step = 0; step < v->differs / open->local; step++)
        place = order_place_settle(stream->steps, order_place_after(stream->steps, place));
    position = wire_step_position(open, stream->steps, place, (uint32_t)(v->differs % open->local));
    if (like_one || like_two)
        (void)snprintf(who, sizeof(who),
                       "%s agrees with %s, so %s, or its copy of the data, is broken",
                       sides[2].loader, like_one ? one : two, like_one ? two : one);
    else
        (void)snprintf(
            who, sizeof(who),
            "one of them, or its copy of the data, is broken; plenumctl hash on each host shows "
            "which");
    return error_set(
        err, -EBADMSG,
        "loaders %s and %s rendered sample %u differently (epoch %llu, position %llu): %s", one,
        two,
        open->plan[0] ? samples[v->differs]
                      : order_sample(stream->order, (uint32_t)place.epoch,
                                     (uint32_t)(position % stream->steps->n)),
        (unsigned long long)place.epoch, (unsigned long long)position, who);
}

/* SPDX-License-Identifier: MIT */
/* verify.c - renders some batches on two loaders and compares them.
 *
 * A share of the batches, chosen by a hash of their position, is requested from two loaders. If
 * they differ, one of the loaders renders wrong pixels. A third loader, if there is one,
 * arbitrates, and the stream fails with their names. If the second answer does not arrive, the
 * first is used.
 *
 * Not here: which loaders are used, and when an answer is late (schedule.c). */
#include "config.h"

#include "libdist/verify.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"

bool verify_is_wanted(double share, uint64_t seed, struct order_place place)
{
    uint64_t key[] = {seed, place.epoch, place.position};

    return (double)XXH3_64bits(key, sizeof(key)) < share * 0x1p64;
}

/* Is the i-th sample the same in both batches? */
static bool is_same(const struct wire_open *open, const struct plenum_lease *one,
                    const struct plenum_lease *two, uint64_t i)
{
    const uint8_t *a = ring_slot(one->set->ring, one->index),
                  *b = ring_slot(two->set->ring, two->index);
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(open, view);
    struct wire_slot layout = {0};

    (void)wire_slot_init(open, &layout);
    for (uint32_t k = 0; k < views; k++) {
        uint64_t each = view[k].count * wire_image_bytes(open, &view[k]);
        uint64_t at = layout.pixels_at[k] + i * each;

        if (memcmp(a + at, b + at, each) != 0)
            return false;
    }
    if (one->has_geometry && two->has_geometry) {
        uint32_t images = wire_images(open);

        if (memcmp(a + layout.boxes_at + i * images * 16, b + layout.boxes_at + i * images * 16,
                   (size_t)images * 16) != 0 ||
            memcmp(a + layout.sizes_at + i * 8, b + layout.sizes_at + i * 8, 8) != 0 ||
            memcmp(a + layout.flips_at + i * images, b + layout.flips_at + i * images, images) != 0)
            return false;
    }
    for (uint32_t k = 0; k < open->num_fields; k++) {
        uint64_t each = wire_field_bytes(open, &open->field[k]);
        uint64_t at = layout.fields_at[k] + i * each, length_at = layout.lengths_at[k] + i * 4;

        if (memcmp(a + at, b + at, each) != 0 ||
            (field_varies(&open->field[k]) && memcmp(a + length_at, b + length_at, 4) != 0))
            return false;
    }
    return memcmp(a + layout.labels_at + i * 8, b + layout.labels_at + i * 8, 8) == 0 &&
           memcmp(a + layout.samples_at + i * 4, b + layout.samples_at + i * 4, 4) == 0 &&
           (!open->mix ||
            (memcmp(a + layout.labels2_at + i * 8, b + layout.labels2_at + i * 8, 8) == 0 &&
             memcmp(a + layout.weights_at + i * 4, b + layout.weights_at + i * 4, 4) == 0));
}

enum verify_verdict verify_look(struct verify *v, const struct wire_open *open,
                                const struct plenum_lease *one, const struct plenum_lease *two)
{
    uint64_t count = wire_batch_count(open);

    assert(v->wanted);
    if (!one || !two) {
        const struct plenum_lease *left = one ? one : two;

        return left && left->state == SLOT_CHECKING ? VERIFY_ALONE : VERIFY_WAIT;
    }
    if (one->state != SLOT_CHECKING || two->state != SLOT_CHECKING)
        return VERIFY_WAIT;
    if (v->undecided)
        return v->arbiter ? VERIFY_WAIT : VERIFY_UNLIKE;
    for (v->differs = 0; v->differs < count && is_same(open, one, two, v->differs); v->differs++)
        ;
    if (v->differs == count)
        return VERIFY_ALIKE;
    v->undecided = true;
    return VERIFY_ARBITRATE;
}

int verify_arbitrate(const struct verify *v, const struct wire_open *open,
                     const struct order *order, const struct order_steps *steps,
                     struct order_place place, const struct verify_side sides[3],
                     struct plenum_error *err)
{
    const char *one = sides[0].loader, *two = sides[1].loader;
    const struct plenum_lease *arbiter = sides[2].slot;
    bool like_one = arbiter && is_same(open, arbiter, sides[0].slot, v->differs),
         like_two = arbiter && is_same(open, arbiter, sides[1].slot, v->differs);
    char who[WIRE_TEXT_MAX];
    uint64_t position;

    assert(v->undecided && v->differs < wire_batch_count(open));
    for (uint64_t step = 0; step < v->differs / open->local; step++)
        place = order_place_settle(steps, order_place_after(steps, place));
    position = place.position + wire_step_position(open, (uint32_t)(v->differs % open->local));
    if (like_one || like_two)
        (void)snprintf(who, sizeof(who),
                       "%s makes what %s makes, so %s, or its copy of the data, is broken",
                       sides[2].loader, like_one ? one : two, like_one ? two : one);
    else
        (void)snprintf(
            who, sizeof(who),
            "one of them, or its copy of the data, is broken; plenumctl hash on each host shows "
            "which");
    return error_set(
        err, -EBADMSG,
        "the loaders %s and %s do not make the same of sample %u (epoch %llu, position "
        "%llu): %s",
        one, two, order_sample(order, (uint32_t)place.epoch, (uint32_t)(position % steps->n)),
        (unsigned long long)place.epoch, (unsigned long long)position, who);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/batch_verify.h"

enum { SAMPLES = 3, SIDE = 4, SLOTS = 3 };

static struct lock lock = LOCK_INITIALIZER;
static struct wire_open open_of = {.per_step = SAMPLES,
                                   .local = SAMPLES,
                                   .steps = 1,
                                   .width = SIDE,
                                   .height = SIDE,
                                   .channels = 3,
                                   .mix = true,
                                   .num_fields = 2,
                                   .field = {{.type = PLENUM_FIELD_TEXT, .room = 5},
                                             {.type = PLENUM_FIELD_UINT8, .room = 1, .mask = 1}}};
static struct wire_slot layout;
static struct order order;
static struct order_steps steps;
static const struct verify_stream stream = {
    .open = &open_of, .layout = &layout, .order = &order, .steps = &steps};
static struct slot_set *set;
static struct plenum_lease *one, *two, *arbiter;
static struct batch_verify v = {.wanted = true};

static void setup(void)
{
    struct plenum_error err;

    cr_assert(eq(int, wire_slot_init(&open_of, &layout), 0));
    open_of.slot_bytes = layout.bytes;
    lock_acquire(&lock);
    cr_assert(eq(int, slot_set_create(&open_of, SLOTS, NULL, &lock, &set, &err), 0), "%s",
              err.text);
    one = &set->slots[0];
    two = &set->slots[1];
    arbiter = &set->slots[2];
    for (unsigned i = 0; i < SLOTS; i++)
        slot_fill(&set->slots[i], NULL, i);
}

TestSuite(verify, .init = setup);

static void make(struct plenum_lease *slot, unsigned sample, uint8_t pixel)
{
    ring_slot(set->ring, slot->index)[sample * wire_sample_bytes(&open_of)] = pixel;
    slot_keep(slot);
}

static enum verify_verdict look(void)
{
    return verify_look(&v, &stream, one, two);
}

Test(verify, waits_for_both)
{
    cr_expect(eq(int, look(), VERIFY_WAIT));
    make(two, 1, 7);
    cr_expect(eq(int, look(), VERIFY_WAIT));
    make(one, 1, 7);
    cr_expect(eq(int, look(), VERIFY_ALIKE));
}

Test(verify, accepts_the_only_remaining_copy)
{
    two = NULL;
    cr_expect(eq(int, look(), VERIFY_WAIT));
    make(one, 0, 7);
    cr_expect(eq(int, look(), VERIFY_ALONE));
}

/* Not only pixels must be compared: where a batch is mixed, each of its arrays must. */
Test(verify, compares_second_labels_and_weights)
{
    uint8_t *bytes;

    bytes = ring_slot(set->ring, two->index);
    make(one, 0, 7);
    make(two, 0, 7);
    cr_expect(eq(int, look(), VERIFY_ALIKE));
    bytes[layout.end] = 1; /* after the last compared byte */
    cr_expect(eq(int, look(), VERIFY_ALIKE));
    bytes[layout.labels2_at + SAMPLES * 8 - 1] = 1;
    cr_expect(eq(int, look(), VERIFY_ARBITRATE));
    cr_expect(eq(u64, v.differs, SAMPLES - 1));
    v = (struct batch_verify){.wanted = true};
    bytes[layout.labels2_at + SAMPLES * 8 - 1] = 0;
    bytes[layout.weights_at + 4] = 1;
    cr_expect(eq(int, look(), VERIFY_ARBITRATE));
    cr_expect(eq(u64, v.differs, 1));
}

Test(verify, compares_fields)
{
    uint64_t places[4];
    uint8_t *bytes;

    places[0] = layout.fields_at[0] + 2 * 5 - 1;           /* the last byte of sample 1's text */
    places[1] = layout.lengths_at[0] + 4;                  /* its length */
    places[2] = layout.fields_at[1] + SIDE * SIDE;         /* the first byte of its mask */
    places[3] = layout.fields_at[1] + 2 * SIDE * SIDE - 1; /* the last byte of its mask */
    make(one, 0, 7);
    make(two, 0, 7);
    bytes = ring_slot(set->ring, two->index);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        v = (struct batch_verify){.wanted = true};
        cr_expect(eq(int, look(), VERIFY_ALIKE));
        bytes[places[i]] = 1;
        cr_expect(eq(int, look(), VERIFY_ARBITRATE), "%zu", i);
        cr_expect(eq(u64, v.differs, 1));
        bytes[places[i]] = 0;
    }
}

Test(verify, asks_a_third_once)
{
    make(one, 2, 7);
    make(two, 2, 8);
    cr_expect(eq(int, look(), VERIFY_ARBITRATE));
    cr_expect(eq(u64, v.differs, 2));
    v.arbiter = arbiter;
    cr_expect(eq(int, look(), VERIFY_WAIT));
    v.arbiter = NULL; /* the arbiter is lost */
    cr_expect(eq(int, look(), VERIFY_UNLIKE));
}

Test(verify, names_the_loader_that_differs)
{
    struct verify_side sides[] = {{"first", one}, {"second", two}, {NULL, NULL}};
    struct plenum_error err;

    cr_assert(eq(int, wire_order(&open_of, 100, &order, &steps, &err), 0), "%s", err.text);
    make(one, 1, 7);
    make(two, 1, 8);
    cr_assert(eq(int, look(), VERIFY_ARBITRATE));
    cr_expect(eq(int,
                 verify_arbitrate(&v, &stream, (struct order_place){.position = 6}, sides, &err),
                 -EBADMSG));
    cr_expect(strstr(err.text, "loaders first and second rendered sample") &&
                  strstr(err.text, "position 7)") && strstr(err.text, "one of them"),
              "%s", err.text);
    make(arbiter, 1, 8);
    sides[2] = (struct verify_side){"third", arbiter};
    (void)verify_arbitrate(&v, &stream, (struct order_place){.position = 6}, sides, &err);
    cr_expect(strstr(err.text, "third agrees with second, so first") != NULL, "%s", err.text);
}

Test(verify, verifies_the_requested_share)
{
    unsigned wanted = 0;

    for (unsigned i = 0; i < 10000; i++)
        wanted +=
            verify_is_wanted(0.25, 7, (struct order_place){.epoch = i / 100, .position = i % 100});
    cr_expect(gt(u32, wanted, 2300));
    cr_expect(lt(u32, wanted, 2700));
    cr_expect(eq(int, verify_is_wanted(1, 7, (struct order_place){0}), 1));
    cr_expect(eq(int, verify_is_wanted(0, 7, (struct order_place){0}), 0));
}

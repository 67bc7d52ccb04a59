/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/pipeline/identity.h"
#include "common/util/util.h"

static const uint8_t fingerprint[16] = {1, 2, 3};

enum { MOST = 5, EPOCHS = 48, ORDERS_MAX = 8192 };

/* The samples that an order shows in its first epochs, and its identity. */
struct shown {
    struct wire_open open;
    uint8_t identity[16];
    uint32_t positions;
    uint8_t samples[EPOCHS][MOST * 2];
};

static void show(struct shown *s, uint32_t samples)
{
    struct order_steps steps;
    struct order order;

    cr_assert(eq(int, wire_order(&s->open, samples, &order, &steps, NULL), 0));
    identity_of(fingerprint, samples, &s->open, s->identity);
    s->positions = steps.n;
    for (uint32_t e = 0; e < EPOCHS; e++)
        for (uint32_t p = 0; p < steps.n; p++)
            s->samples[e][p] = (uint8_t)order_sample(&order, e, p);
}

/* Lists all ways to write an order of this many samples. */
static size_t list(uint32_t samples, struct shown *all)
{
    size_t count = 0;

    for (uint32_t first = 0; first < samples; first++)
        for (uint32_t end = 0; end <= samples; end++)
            for (uint32_t block = 0; block <= MOST + 2; block++)
                for (uint32_t repeat = 0; repeat <= 2; repeat++) {
                    struct shown *s = &all[count];

                    if (end && end <= first)
                        continue;
                    *s = (struct shown){.open = {.seed = 5,
                                                 .subset = {first, end},
                                                 .repeat = repeat,
                                                 .block = block,
                                                 .per_step = 1,
                                                 .shuffle = block == 0   ? ORDER_GLOBAL
                                                            : block == 1 ? ORDER_NONE
                                                                         : ORDER_BLOCK}};
                    if (block > 1)
                        s->open.block = block - 1;
                    show(s, samples);
                    count++;
                    cr_assert(lt(sz, count, ORDERS_MAX));
                }
    return count;
}

/* Two different orders look equal by accident with probability 2^-48: two samples in 48 epochs. */
Test(identity, is_equal_exactly_if_the_order_is, .timeout = 600)
{
    struct shown *all = calloc(ORDERS_MAX, sizeof(*all));

    for (uint32_t samples = 1; samples <= MOST; samples++) {
        size_t count = list(samples, all);

        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < i; j++) {
                bool order = all[i].positions == all[j].positions &&
                             memcmp(all[i].samples, all[j].samples, sizeof(all[i].samples)) == 0;
                bool identity = memcmp(all[i].identity, all[j].identity, 16) == 0;

                cr_assert(eq(int, identity, order),
                          "%u samples: %u:%u x %u shuffle %d:%u, %u:%u x %u shuffle %d:%u", samples,
                          all[i].open.subset.first, all[i].open.subset.end, all[i].open.repeat,
                          (int)all[i].open.shuffle, all[i].open.block, all[j].open.subset.first,
                          all[j].open.subset.end, all[j].open.repeat, (int)all[j].open.shuffle,
                          all[j].open.block);
            }
    }
    free(all);
}

/* Cursors are stored for years: an identity must never change. */
Test(identity, keeps_its_value)
{
    static const uint8_t plain[16] = {0xb0, 0x77, 0x9f, 0x80, 0xea, 0xd0, 0xda, 0xd6,
                                      0x51, 0x81, 0xfd, 0x00, 0x1d, 0x2e, 0xa9, 0x49},
                         part[16] = {0xa6, 0x85, 0x4f, 0x52, 0x18, 0x00, 0xf2, 0x23,
                                     0x18, 0x16, 0x2f, 0x01, 0x0d, 0xae, 0xbf, 0x01};
    struct wire_open open = {
        .seed = 3, .pipeline = "v1 rrc(8)", .shuffle = ORDER_BLOCK, .block = 7, .last = ORDER_DROP};
    uint8_t got[16];

    identity_of(fingerprint, 100, &open, got);
    cr_expect(eq(int, memcmp(got, plain, 16), 0));
    open.subset = (struct order_subset){5, 60};
    open.repeat = 2;
    identity_of(fingerprint, 100, &open, got);
    cr_expect(eq(int, memcmp(got, part, 16), 0));
}

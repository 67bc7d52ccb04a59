/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/data/datasum.h"
#include "common/order/orderplan.h"
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

/* ---- plans ---- */

static const struct wire_set two_sets[] = {
    {.samples = 9, .hash = {1}}, {.samples = 5, .hash = {2}}, {.samples = 3, .hash = {3}}};
/* Where the new weights of samples begin in the plans below. */
static const struct wire_reweigh new_weights[] = {{.start = 200, .hash = 4},
                                                  {.start = 400, .hash = 5}};

/* What may differ between two streams with plans. */
struct planned {
    const char *text;
    struct wire_open open;
    const struct wire_set *sets;
    const struct wire_reweigh *reweighs;
    uint32_t positions;
};

static struct planned planned(const char *text)
{
    return (struct planned){.text = text,
                            .open = {.seed = 5, .pipeline = "v1 rrc(16)"},
                            .sets = two_sets,
                            .reweighs = new_weights,
                            .positions = 128};
}

/* Returns the position up to which two streams have the same identity, and checks that beyond it
 * they differ everywhere. */
static uint64_t equal_up_to(const struct planned *a, const struct planned *b)
{
    const struct planned *of[] = {a, b};
    struct orderplan *plans[2];
    uint64_t last = UINT64_MAX;
    struct plenum_error err;

    for (int i = 0; i < 2; i++)
        cr_assert(eq(int, orderplan_parse(of[i]->text, "/here", &plans[i], &err), 0), "%s",
                  err.text);
    for (uint64_t g = 0; g < 640; g++) {
        uint8_t identity[2][16];
        bool equal;

        for (int i = 0; i < 2; i++)
            identity_of_plan(&(struct identity_plan){plans[i], of[i]->sets, of[i]->reweighs,
                                                     of[i]->positions, &of[i]->open, NULL},
                             (struct order_place){g / of[i]->positions, g % of[i]->positions},
                             identity[i]);
        equal = memcmp(identity[0], identity[1], 16) == 0;
        cr_expect(g == 0 || !equal || last == g - 1, "%s / %s: at %llu again", a->text, b->text,
                  (unsigned long long)g);
        if (equal)
            last = g;
    }
    orderplan_free(plans[0]);
    orderplan_free(plans[1]);
    return last;
}

enum { ALWAYS = 639 };
static const uint64_t NEVER = UINT64_MAX;

static const char first_plan[] = "set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\n"
                                 "weights 1 a class\nweights 2 a class:1/2\n";

/* Each line of a plan counts from where it takes effect, and not before. */
Test(identity, of_a_plan_covers_what_was_shown)
{
    static const struct {
        const char *text;
        uint64_t last;
    } changes[] = {
        {"set a 3 /moved/x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         ALWAYS}, /* only the names of the files differ, and only the hash counts */
        {"set a 0.75 /x\nset b 1/4 /y\nat 128 b 7\nat 320 a 2 b 2\nskip 7 9\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         ALWAYS},
        {"set a 3 /x\nset b 1 /y\nset c 0 /z\nat 128 b 1\nat 320 a 1 b 1\nat 512 c 1\n"
         "weights 1 a class\nweights 2 a class:1/2\n",
         512},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 2\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         320},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nweights 1 a class\nweights 2 a class:1/2\n", 320},
        {"set a 3 /x\nset b 1 /y\nat 192 b 1\nat 320 a 1 b 1\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         128},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nweights 1 a class\n", 400},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nweights 3 a class\n"
         "weights 4 a class:1/2\n",
         200}, /* only the pass counts, whatever start the loader reports for it */
        {"set a 1 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         0},
        {"set A 3 /x\nset b 1 /y\nat 128 b 1\nat 320 A 1 b 1\nweights 1 A class\n"
         "weights 2 A class:1/2\n",
         0},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nblock 32\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         UINT64_MAX},
        {"set a 3 /x\nset b 1 /y\nat 128 b 1\nat 320 a 1 b 1\nlabels stack\nweights 1 a class\n"
         "weights 2 a class:1/2\n",
         UINT64_MAX},
    };
    struct planned one = planned(first_plan);

    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct planned two = planned(changes[i].text);

        cr_expect(eq(u64, equal_up_to(&one, &two), changes[i].last), "%s", changes[i].text);
    }
}

/* A plan's identity also covers the samples and options, which are not in its text. */
Test(identity, of_a_plan_covers_samples_and_options)
{
    struct wire_set sets[3];
    struct wire_reweigh reweighs[2];
    struct planned one = planned(first_plan), two = one;

    memcpy(sets, two_sets, sizeof(sets));
    memcpy(reweighs, new_weights, sizeof(reweighs));
    two.open.per_step = 96; /* R, M, S, I and storage do not count */
    two.open.steps = 3;
    two.open.offset = 7;
    two.open.deal = 1;
    two.open.dtype = PLENUM_UINT8;
    two.open.slots = 9;
    cr_expect(eq(u64, equal_up_to(&one, &two), ALWAYS));
    two.sets = sets;
    two.reweighs = reweighs;
    reweighs[1].hash ^= 1;
    cr_expect(eq(u64, equal_up_to(&one, &two), 400));
    reweighs[0].hash ^= 1;
    cr_expect(eq(u64, equal_up_to(&one, &two), 200));
    sets[2].hash[0] ^= 1; /* the plan has no third set */
    cr_expect(eq(u64, equal_up_to(&one, &two), 200));
    sets[1].hash[15] ^= 1;
    cr_expect(eq(u64, equal_up_to(&one, &two), 0));
    two = one;
    two.open.seed = 6;
    cr_expect(eq(u64, equal_up_to(&one, &two), NEVER));
    two = one;
    strcpy(two.open.pipeline, "v1 rrc(32)");
    cr_expect(eq(u64, equal_up_to(&one, &two), NEVER));
    two = one;
    two.positions = 256;
    cr_expect(eq(u64, equal_up_to(&one, &two), NEVER));
    two = one;
    two.open.last = ORDER_DROP;
    cr_expect(eq(u64, equal_up_to(&one, &two), NEVER));
}

/* One order of all samples: strata and classes. */
Test(identity, of_a_plan_covers_its_kind_of_order)
{
    static const char *const texts[] = {"set a 1 /x\nset b 1 /y\nblock 8\n",
                                        "set a 1 /x\nset b 1 /y\nblock 8\nstratify label\n",
                                        "set a 1 /x\nset b 1 /y\nblock 8\nstratify set\n",
                                        "set a 1 /x\nset b 1 /y\nblock 8\nbalance label\n",
                                        "set a 1 /x\nset b 1 /y\nbalance label classes=2 each=4\n",
                                        "set a 1 /x\nset b 1 /y\nbalance label classes=4 each=2\n",
                                        "set a 1 /x\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t k = 0; k < ARRAY_LEN(texts); k++) {
            struct planned one = planned(texts[i]), two = planned(texts[k]);

            cr_expect(eq(u64, equal_up_to(&one, &two), i == k ? ALWAYS : NEVER), "%s / %s",
                      texts[i], texts[k]);
        }
}

Test(identity, of_a_plan_keeps_its_value)
{
    static const uint8_t want[2][16] = {{0xc2, 0x15, 0x2d, 0xa1, 0x78, 0x64, 0x02, 0xae, 0xa2, 0xb2,
                                         0x8a, 0xbb, 0xd4, 0x05, 0xf2, 0x6e},
                                        {0xc2, 0x15, 0x2d, 0xa1, 0x78, 0x64, 0x2b, 0x26, 0xf7, 0xce,
                                         0x6b, 0x8c, 0x83, 0x99, 0xc7, 0x4e}};
    struct planned of = planned(first_plan);
    struct orderplan *plan;
    uint8_t got[16];

    for (int i = 0; i < 2; i++) {
        cr_assert(eq(int,
                     orderplan_parse(i ? of.text : "set a 3 /x\nset b 1 /y\nat 128 b 1\n", NULL,
                                     &plan, NULL),
                     0));
        identity_of_plan(
            &(struct identity_plan){plan, of.sets, of.reweighs, of.positions, &of.open, NULL},
            (struct order_place){3, 50}, got);
        for (int k = 0; k < 16; k++)
            cr_expect(eq(u8, got[k], want[i][k]), "%d: %d 0x%02x", i, k, got[k]);
        orderplan_free(plan);
    }
}

/* Returns whether a stream with this plan has, at this position, the identity that its data set of
 * nine samples has without a plan. */
static bool is_plain(const char *text, const struct wire_open *open, uint32_t positions,
                     uint64_t position)
{
    const struct datasum sum = {.samples = 9, .heads = 7};
    struct planned of = planned(text);
    uint8_t got[16], want[16], named[16];
    struct orderplan *plan;

    cr_assert(eq(int, orderplan_parse(text, NULL, &plan, NULL), 0));
    datasum_fingerprint(&sum, named);
    identity_of(named, 9, open, want);
    identity_of_plan(&(struct identity_plan){.plan = plan,
                                             .sets = of.sets,
                                             .reweighs = of.reweighs,
                                             .positions = positions,
                                             .open = &of.open,
                                             .sum = &sum},
                     (struct order_place){0, position}, got);
    orderplan_free(plan);
    return memcmp(got, want, sizeof(got)) == 0;
}

Test(identity, of_a_plan_is_that_of_its_data_set_while_it_changes_nothing)
{
    const struct wire_open plain = {.seed = 5, .pipeline = "v1 rrc(16)"},
                           blocks = {.seed = 5,
                                     .pipeline = "v1 rrc(16)",
                                     .shuffle = ORDER_BLOCK,
                                     .block = 2,
                                     .repeat = 3};
    static const char *const others[] = {
        "set a 1 select=\"label 1\" /x\n", "set a 1 weights=class /x\n",
        "set a 1 relabel=/r /x\n",         "set a 1 shuffle=none /x\n",
        "set a 1 /x\nlabels stack\n",      "set a 1 /x\nstratify label\nblock 3\n",
        "set a 1 /x\nset b 0 /y\n"};

    cr_expect(is_plain("set a 1 /x\n", &plain, 9, 0));
    cr_expect(is_plain("set other 1 /x\nskip 20 30\n", &plain, 9, 500));
    cr_expect(is_plain("set a 1 shuffle=block:2 repeat=3 /x\nskip 2 3\n", &blocks, 27, 0));
    cr_expect(not(is_plain("set a 1 repeat=3 /x\n", &blocks, 27, 0)));
    cr_expect(not(is_plain("set a 1 /x\n", &plain, 8, 0)));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect(not(is_plain(others[i], &plain, 9, 0)), "%s", others[i]);
    /* new_weights begin at position 200 */
    cr_expect(is_plain("set a 1 /x\nweights 1 a class\n", &plain, 9, 200));
    cr_expect(not(is_plain("set a 1 /x\nweights 1 a class\n", &plain, 9, 201)));
}

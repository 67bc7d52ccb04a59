/* SPDX-License-Identifier: MIT */
/* Tests the laws of the order for randomly drawn data sets, jobs and seeds. A job is simulated as
 * its instances see it: each walks from step to step and takes its share of the positions. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/order.h"
#include "common/order/philox.h"
#include "common/util/util.h"

/* A job: instances with equal shares of R replicas. */
struct world {
    uint32_t replicas, micro_batch, instances;
};

/* Draws a parameter of a trial. */
static uint32_t draw(uint32_t trial, uint32_t what, uint32_t below)
{
    return philox_below(philox_draw(4711, trial, what, DRAW_SAMPLE_SET, 9).word[0], below);
}

static struct order order_of_trial(uint32_t trial, uint32_t samples)
{
    struct order order = {.seed = draw(trial, 1, UINT32_MAX),
                          .shuffle = (enum order_shuffle)draw(trial, 2, 3),
                          .block = 1 + draw(trial, 3, 40)};
    struct order_subset subset = {0};
    uint32_t repeat = draw(trial, 4, 3) ? 1 : 1 + draw(trial, 5, 4);

    if (draw(trial, 6, 2)) {
        subset.first = draw(trial, 7, samples);
        subset.end = subset.first + 1 + draw(trial, 8, samples - subset.first);
    }
    cr_assert(eq(int, order_init(&order, samples, &subset, repeat, NULL), 0));
    return order;
}

static struct world world_of_trial(uint32_t trial, uint32_t salt)
{
    uint32_t instances = 1 + draw(trial, 20 + salt, 4);

    return (struct world){.instances = instances,
                          .replicas = instances * (1 + draw(trial, 30 + salt, 4)),
                          .micro_batch = 1 + draw(trial, 40 + salt, 5)};
}

static struct order_steps steps_of(const struct order *order, struct world w, enum order_last last)
{
    return (struct order_steps){
        .n = order_positions(order), .per_step = w.replicas * w.micro_batch, .last = last};
}

/* One instance of a job, and the order that it shows. */
struct share {
    const struct order *order;
    const struct order_steps *steps;
    uint32_t instances, instance;
};

/* Counts in `shown` [number of samples] how often an instance shows each sample in the step at
 * `place`, and in `*padding` its invalid positions. */
static void show_step(const struct share *share, struct order_place place, uint32_t *shown,
                      uint32_t *padding)
{
    uint32_t local = share->steps->per_step / share->instances;

    for (uint32_t i = 0; i < local; i++) {
        uint64_t p = place.position + (uint64_t)share->instance * local + i;

        if (p < share->steps->n)
            shown[order_sample(share->order, (uint32_t)place.epoch, (uint32_t)p)]++;
        else
            ++*padding;
    }
}

Test(laws, an_epoch_shows_each_sample_of_the_subset_repeat_times, .timeout = 600)
{
    for (uint32_t trial = 0; trial < 3000; trial++) {
        uint32_t samples = 1 + draw(trial, 0, 400), *shown = calloc(samples, sizeof(*shown)),
                 padding = 0;
        struct order order = order_of_trial(trial, samples);
        struct world w = world_of_trial(trial, 0);
        enum order_last last = draw(trial, 9, 2) ? ORDER_DROP : ORDER_PAD;
        struct order_steps steps = steps_of(&order, w, last);
        uint64_t taken = 0, count = order_steps_left(&steps, (struct order_place){0});
        uint32_t repeat = order.repeat, epoch = draw(trial, 10, 100);

        for (uint32_t instance = 0; instance < w.instances; instance++) {
            struct order_place place = {.epoch = epoch};
            uint64_t own = 0;

            for (; place.epoch == epoch && order_place_has_step(&steps, place); own++) {
                show_step(&(struct share){.order = &order,
                                          .steps = &steps,
                                          .instances = w.instances,
                                          .instance = instance},
                          place, shown, &padding);
                place = order_place_after(&steps, place);
            }
            cr_assert(eq(u64, own, count), "every instance has the same number of steps");
        }
        for (uint32_t s = 0; s < samples; s++) {
            bool inside = s >= order.first && s < order.first + order.n;

            taken += shown[s];
            if (last == ORDER_PAD)
                cr_assert(eq(u32, shown[s], inside ? repeat : 0), "trial %u, sample %u", trial, s);
            else
                cr_assert(le(u32, shown[s], inside ? repeat : 0), "trial %u, sample %u", trial, s);
        }
        cr_assert(eq(u64, taken + padding, count * steps.per_step), "trial %u", trial);
        cr_assert(lt(u64, last == ORDER_PAD ? padding : steps.n - taken, steps.per_step));
        free(shown);
    }
}

/* Repeats are adjacent: they are in one global batch, or in two consecutive ones. */
Test(laws, repeats_of_a_sample_are_adjacent_and_change_nothing_else)
{
    for (uint32_t trial = 0; trial < 300; trial++) {
        uint32_t samples = 1 + draw(trial, 0, 200), repeat = 1 + draw(trial, 5, 6);
        struct order once = {.seed = trial, .shuffle = ORDER_BLOCK, .block = 1 + trial % 9},
                     often = once;

        cr_assert(eq(int, order_init(&once, samples, &(struct order_subset){0}, 1, NULL), 0));
        cr_assert(eq(int, order_init(&often, samples, &(struct order_subset){0}, repeat, NULL), 0));
        for (uint32_t p = 0; p < order_positions(&often); p++)
            cr_assert(eq(u32, order_sample(&often, 3, p), order_sample(&once, 3, p / repeat)));
    }
}

/* When positions are dealt round-robin, every position of a step is dealt once, neighbours go to
 * different replicas, and each replica's positions ascend. */
Test(laws, dealing_gives_each_replica_its_share_and_separates_neighbours)
{
    for (uint32_t m = 1; m <= 9; m++)
        for (uint32_t replicas = 1; replicas <= 12; replicas++) {
            uint32_t per_step = m * replicas, of[108];

            memset(of, 0xff, sizeof(of));
            for (uint32_t i = 0; i < per_step; i++) {
                uint32_t p = order_deal(per_step, m, i);

                cr_assert(lt(u32, p, per_step));
                cr_assert(eq(u32, of[p], UINT32_MAX));
                of[p] = i / m;
                cr_assert(i % m == 0 || p > order_deal(per_step, m, i - 1));
                cr_assert(eq(u32, order_deal(per_step, 0, i), i));
            }
            for (uint32_t k = 1; k <= replicas; k++)
                for (uint32_t p = 0; p + k <= per_step; p++)
                    for (uint32_t q = p + 1; q < p + k; q++)
                        cr_assert(ne(u32, of[p], of[q]), "M %u, R %u: %u of %u in a row", m,
                                  replicas, q - p, k);
        }
}

/* Counts how often all instances together show each sample in step k. */
static void samples_of_step(const struct order *order, struct world w, uint64_t k, uint32_t *shown)
{
    struct order_steps steps = steps_of(order, w, ORDER_PAD);
    struct order_place place = {.epoch = 5};
    uint32_t padding = 0;

    for (uint64_t i = 0; i < k; i++)
        place = order_place_settle(&steps, order_place_after(&steps, place));
    for (uint32_t i = 0; i < w.instances; i++)
        show_step(
            &(struct share){
                .order = order, .steps = &steps, .instances = w.instances, .instance = i},
            place, shown, &padding);
}

Test(laws, a_global_batch_does_not_depend_on_replicas_and_instances)
{
    for (uint32_t trial = 0; trial < 200; trial++) {
        uint32_t samples = 1 + draw(trial, 0, 300), product = 1 + draw(trial, 11, 36);
        struct order order = order_of_trial(trial, samples);
        uint64_t k = draw(trial, 12, 12);
        uint32_t *want = calloc(samples, sizeof(*want)), *got = calloc(samples, sizeof(*got));

        samples_of_step(&order, (struct world){1, product, 1}, k, want);
        for (uint32_t replicas = 1; replicas <= product; replicas++)
            for (uint32_t instances = 1; instances <= replicas; instances++) {
                struct world w = {replicas, product / replicas, instances};

                if (product % replicas || replicas % instances)
                    continue;
                memset(got, 0, samples * sizeof(*got));
                samples_of_step(&order, w, k, got);
                cr_assert(eq(int, memcmp(got, want, samples * sizeof(*got)), 0), "R %u, M %u, I %u",
                          replicas, w.micro_batch, instances);
            }
        free(want);
        free(got);
    }
}

/* A job that stops after any number of steps and resumes with another number of replicas still
 * shows each sample of each epoch exactly once. */
Test(laws, a_run_continues_with_any_world_size, .timeout = 600)
{
    enum { EPOCHS = 2 };

    for (uint32_t a = 1; a <= 17; a++)
        for (uint32_t b = 1; b <= 17; b++)
            for (uint32_t trial = 0; trial < 6; trial++) {
                uint32_t number = (a * 18 + b) * 6 + trial, samples = 1 + draw(number, 0, 120);
                struct order order = order_of_trial(number, samples);
                uint32_t m = 1 + draw(number, 13, 3), *shown[EPOCHS], padding = 0;
                struct world first = {a, m, a}, second = {b, m, b}, w = first;
                uint32_t cut = draw(number, 14, 2 + 2 * samples / (a * m));
                struct order_place place = {0};

                for (int e = 0; e < EPOCHS; e++)
                    shown[e] = calloc(samples, sizeof(uint32_t));
                for (uint32_t step = 0;; step++) {
                    struct order_steps steps;

                    if (step >= cut)
                        w = second;
                    steps = steps_of(&order, w, ORDER_PAD);
                    /* A stream does the same when it is opened at a cursor. */
                    place = order_place_settle(&steps, place);
                    if (place.epoch >= EPOCHS)
                        break;
                    for (uint32_t i = 0; i < w.instances; i++)
                        show_step(&(struct share){.order = &order,
                                                  .steps = &steps,
                                                  .instances = w.instances,
                                                  .instance = i},
                                  place, shown[place.epoch], &padding);
                    place = order_place_after(&steps, place);
                }
                for (int e = 0; e < EPOCHS; e++) {
                    for (uint32_t s = order.first; s < order.first + order.n; s++)
                        cr_assert(eq(u32, shown[e][s], order.repeat),
                                  "%u then %u replicas after %u steps: sample %u of epoch %d", a, b,
                                  cut, s, e);
                    free(shown[e]);
                }
            }
}

/* Write the valid global positions that a job of steps of these sizes shows: `count` steps of the
 * first size, then the second. Returns how many. */
static uint32_t walk(struct order_steps steps, struct order_place place, uint32_t count,
                     uint32_t second, uint64_t *ret)
{
    uint32_t n = 0;

    for (uint32_t k = 0;; k++) {
        if (k == count)
            steps.per_step = second;
        place = order_place_settle(&steps, place);
        if (place.epoch >= 2)
            return n;
        for (uint32_t i = 0; i < steps.per_step; i++)
            if (order_step_counts(&steps, place, i))
                ret[n++] = place.epoch * steps.n + order_step_position(&steps, place, i);
        place = order_place_after(&steps, place);
    }
}

/* With skipped ranges, too: from a cursor at each position, jobs of all sizes R and M up to 17 show
 * the same positions in the same order, also if R or M changes on the way. */
Test(laws, each_cursor_continues_with_any_step, .timeout = 600)
{
    enum { N = 23 };
    static const struct order_gap gaps[] = {{3, 9}, {11, 12}, {N - 2, N + 3}, {2 * N - 1, 2 * N}};
    uint64_t want[2 * N], got[2 * N];

    for (uint32_t num_gaps = 0; num_gaps <= ARRAY_LEN(gaps); num_gaps += ARRAY_LEN(gaps))
        for (uint64_t cursor = 0; cursor < 2 * (uint64_t)N; cursor++) {
            struct order_steps steps = {.n = N, .gaps = gaps, .num_gaps = num_gaps};
            uint32_t n = 0;

            for (uint64_t g = cursor; g < 2 * (uint64_t)N; g++) {
                struct order_place place = {g / N, g % N};

                if (num_gaps == 0 || !order_is_skipped(&steps, place))
                    want[n++] = g;
            }
            for (uint32_t i = 0; i < 17 * 17; i++)
                for (uint32_t change = 0; change < 4; change++) {
                    struct order_place place = {cursor / N, cursor % N};

                    steps.per_step = (1 + i / 17) * (1 + i % 17);
                    cr_assert(eq(u32, walk(steps, place, change, 1 + i * 7 % (17 * 17), got), n));
                    cr_assert(eq(int, memcmp(got, want, n * sizeof(*got)), 0),
                              "steps of %u from position %llu", steps.per_step,
                              (unsigned long long)cursor);
                }
        }
}

/* A window of positions reads from at most ORDER_WINDOW_BLOCKS blocks of storage, plus one where
 * the last window includes the remainder that fills no block. */
Test(laws, block_shuffle_reads_within_the_stated_window)
{
    for (uint32_t trial = 0; trial < 200; trial++) {
        uint32_t n = 1 + draw(trial, 0, 6000), block = 1 + draw(trial, 3, 60);
        struct order order = {.seed = trial, .n = n, .shuffle = ORDER_BLOCK, .block = block};
        uint32_t whole = block < n ? block : n, span = whole * ORDER_WINDOW_BLOCKS;
        uint32_t windows = (n / whole + ORDER_WINDOW_BLOCKS - 1) / ORDER_WINDOW_BLOCKS;
        uint8_t *in = malloc(n);

        for (uint32_t w = 0; w < windows; w++) {
            uint32_t begin = w * span, end = w + 1 == windows ? n : begin + span, runs = 0;

            memset(in, 0, n);
            for (uint32_t p = begin; p < end; p++)
                in[order_sample(&order, 2, p)] = 1;
            for (uint32_t s = 0; s < n; s++)
                runs += in[s] && !in[(s + n - 1) % n];
            cr_assert(le(u32, runs, ORDER_WINDOW_BLOCKS + (w + 1 == windows)),
                      "n %u, block %u, window %u", n, block, w);
        }
        free(in);
    }
}

/* If instances have their own data, their parts may differ in size, yet all take the same number of
 * steps. */
Test(laws, parts_of_unequal_size_take_the_same_number_of_steps)
{
    for (uint32_t trial = 0; trial < 1000; trial++) {
        enum order_last last = draw(trial, 9, 2) ? ORDER_DROP : ORDER_PAD;
        uint32_t instances = 1 + draw(trial, 20, 5), local[5], n[5];
        uint64_t agreed = last == ORDER_DROP ? UINT64_MAX : 0;

        for (uint32_t i = 0; i < instances; i++) {
            struct order_steps own = {.n = n[i] = 1 + draw(trial, 50 + i, 90),
                                      .per_step = local[i] = 1 + draw(trial, 60 + i, 9),
                                      .last = last};
            uint64_t steps = order_steps_left(&own, (struct order_place){0});

            agreed = last == ORDER_DROP ? min_u64(agreed, steps) : max_u64(agreed, steps);
        }
        for (uint32_t i = 0; i < instances && agreed > 0; i++) {
            struct order_steps steps = {
                .n = n[i], .per_step = local[i], .last = last, .span = agreed * local[i]};
            struct order order = {.seed = order_part_seed(trial, i), .n = n[i]};
            struct order_place place = {0};
            uint32_t shown[91] = {0}, padding = 0;
            uint64_t count = 0;

            cr_assert(eq(u64, order_steps_left(&steps, place), agreed));
            for (; place.epoch == 0; count++) {
                show_step(
                    &(struct share){
                        .order = &order, .steps = &steps, .instances = 1, .instance = 0},
                    place, shown, &padding);
                place = order_place_settle(&steps, order_place_after(&steps, place));
            }
            cr_assert(eq(u64, count, agreed), "trial %u, instance %u", trial, i);
            for (uint32_t s = 0; s < n[i]; s++)
                cr_assert(last == ORDER_PAD ? shown[s] == 1 : shown[s] <= 1);
        }
    }
}

Test(laws, parts_have_their_own_seeds)
{
    for (uint32_t a = 0; a < 200; a++)
        for (uint32_t b = 0; b < a; b++)
            cr_assert(ne(u64, order_part_seed(7, a), order_part_seed(7, b)));
    cr_expect(ne(u64, order_part_seed(7, 0), order_part_seed(8, 0)));
    cr_expect(ne(u64, order_part_seed(7, 0), 7));
}

static void subset(const char *text, int code, uint32_t first, uint32_t end)
{
    struct order_subset got = {99, 99};
    struct plenum_error err = {""};

    cr_expect(eq(int, order_parse_subset(text, &got, &err), code), "%s", text);
    cr_expect(eq(u32, got.first, code ? 99 : first), "%s", text);
    cr_expect(eq(u32, got.end, code ? 99 : end), "%s", text);
    cr_expect(eq(int, err.text[0] != '\0', code != 0));
}

Test(laws, subsets_are_parsed_and_bounded)
{
    struct order order = {0};
    struct plenum_error err = {""};

    subset("0:10", 0, 0, 10);
    subset("5:", 0, 5, 0);
    subset(":7", 0, 0, 7);
    subset(":", 0, 0, 0);
    subset("7", -EINVAL, 0, 0);
    subset("7:7", -EINVAL, 0, 0);
    subset("8:7", -EINVAL, 0, 0);
    subset("a:7", -EINVAL, 0, 0);
    subset("1:7x", -EINVAL, 0, 0);
    subset("-1:7", -EINVAL, 0, 0);
    subset("0:99999999999", -EINVAL, 0, 0);
    subset("1:0", -EINVAL, 0, 0);
    cr_expect(eq(int, order_init(&order, 10, &(struct order_subset){0, 11}, 1, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "goes beyond the 10 samples"), NULL), "%s",
              err.text);
    cr_expect(eq(int, order_init(&order, 10, &(struct order_subset){10, 0}, 1, &err), -EINVAL));
    cr_expect(eq(int, order_init(&order, 1 << 30, &(struct order_subset){0}, 4, &err), -EINVAL));
    cr_expect(eq(int, order_init(&order, 1 << 30, &(struct order_subset){0}, 3, &err), 0));
    cr_expect(eq(u32, order_positions(&order), 3u << 30));
}

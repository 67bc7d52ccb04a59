/* SPDX-License-Identifier: MIT */
/* Tests the order with words of 8 bits, where every case can be tried.
 *
 * common/order/order.c is compiled with narrower words, so that behaviour specific to 2^32
 * occurs near 2^8: every number of samples, every block length, every position. Asserts in order.c
 * check that no sum overflows and that no walk is longer than the law allows; this test checks that
 * every order is a bijection, and that order_position() inverts it.
 *
 * make check takes one seed; ORDER_SEEDS=N takes N (make soak).
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_WORD uint8_t
#include "common/order/order.c"

#include "tests/tap.h"

enum { MOST = UINT8_MAX };

static uint64_t orders;

static bool is_bijection(const struct order *order, uint32_t epoch)
{
    uint8_t seen[MOST] = {0};

    orders++;
    for (uint32_t p = 0; p < order->n; p++) {
        uint32_t s = order_sample(order, epoch, p);

        if (s >= order->n || seen[s]++ || order_position(order, epoch, s) != p) {
            printf("# n %u, block %u, seed %llu, epoch %u: position %u shows %u\n", order->n,
                   order->block, (unsigned long long)order->seed, epoch, p, s);
            return false;
        }
    }
    return true;
}

/* Checks every order of one seed and epoch. */
static bool all_of(uint64_t seed, uint32_t epoch)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        struct order order = {.seed = seed, .n = n, .shuffle = ORDER_GLOBAL};

        if (!is_bijection(&order, epoch))
            return false;
        order.shuffle = ORDER_BLOCK;
        for (order.block = 1; order.block <= n; order.block++)
            if (!is_bijection(&order, epoch))
                return false;
    }
    return true;
}

/* Checks that blocks longer than the data set act as one block of its length. */
static bool long_blocks_are_one(uint64_t seed)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        struct order one = {.seed = seed, .n = n, .shuffle = ORDER_BLOCK, .block = n}, beyond = one;

        for (uint32_t more = 0; more < 3; more++) {
            beyond.block = more == 0 ? n + 1 : more == 1 ? MOST + 1 : UINT32_MAX;
            for (uint32_t p = 0; p < n; p++)
                if (order_sample(&one, 7, p) != order_sample(&beyond, 7, p))
                    return false;
        }
    }
    return true;
}

/* Checks subsets that end with the last number of a word, and repeats up to the last position. */
static bool subsets_and_repeats(uint64_t seed)
{
    for (uint32_t repeat = 1; repeat <= MOST; repeat++)
        for (uint32_t n = 1; n * repeat <= MOST; n++) {
            struct order often = {.seed = seed, .n = n, .first = MOST - n, .repeat = repeat};
            uint32_t shown[MOST + 1] = {0};

            for (uint32_t p = 0; p < n * repeat; p++) {
                uint32_t sample = order_sample(&often, 1, p);

                shown[sample]++;
                if (order_position(&often, 1, sample) != p / repeat * repeat)
                    return false;
            }
            for (uint32_t s = 0; s < n; s++)
                if (shown[MOST - n + s] != repeat)
                    return false;
        }
    return true;
}

int main(void)
{
    const char *text = getenv("ORDER_SEEDS");
    uint64_t seeds = text ? strtoull(text, NULL, 10) : 1;
    bool good = true;

    for (uint64_t i = 0; i < seeds && good; i++)
        good = all_of(i ? i * UINT64_C(0x9e3779b97f4a7c15) : 2022, (uint32_t)i);
    printf("# %llu orders\n", (unsigned long long)orders);
    tap_ok(good, "every order of every size, with blocks of every length, shows each sample once");
    tap_ok(long_blocks_are_one(1), "blocks longer than the data set are one block");
    tap_ok(subsets_and_repeats(2), "each sample of every subset is shown `repeat` times");
    return tap_end();
}

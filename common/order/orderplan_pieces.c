/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/order/orderplan_priv.h"

#include <string.h>

#include "common/util/util.h"

enum { RAMP_STEPS_MAX = 256 };

typedef unsigned __int128 u128;

static u128 divisor_of(u128 a, u128 b)
{
    while (b > 0) {
        u128 rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

int plan_parse_weight(struct plan_parser *p, const char *word, struct plan_fraction *ret)
{
    const char *at = word;
    struct plan_fraction f = {.down = 1};
    bool good = parse_next_u64(&at, UINT32_MAX, &f.up) == 0;
    uint64_t divisor;

    if (good && *at == '/') {
        at++;
        good = parse_next_u64(&at, UINT32_MAX, &f.down) == 0 && f.down > 0;
    } else if (good && *at == '.') {
        for (at++; good && *at >= '0' && *at <= '9'; at++) {
            good = f.down < 1000000000 && f.up <= UINT64_MAX / 10 - 1;
            f.up = f.up * 10 + (uint64_t)(*at - '0');
            f.down *= 10;
        }
    }
    if (!good || *at)
        return plan_fail(
            p,
            "a weight must be a number such as 7, 0.25 or 1/3, from 0 to 4294967295 and with at "
            "most nine digits after the point, not '%s'",
            word);
    divisor = (uint64_t)divisor_of(f.up, f.down);
    *ret = (struct plan_fraction){f.up / divisor, f.down / divisor};
    return 0;
}

/* Reduce weights to the smallest integers with the same proportions. */
int plan_reduce(struct plan_parser *p, const struct plan_fraction *from, uint32_t *ret)
{
    uint32_t n = p->plan->num_sets;
    const u128 most = (u128)1 << 56; /* so that no sum of products overflows */
    u128 common = 1, divisor = 0, sum = 0;

    for (uint32_t i = 0; i < n && common <= most; i++)
        common *= from[i].down / divisor_of(common, from[i].down);
    for (uint32_t i = 0; i < n && common <= most; i++)
        divisor = divisor_of(divisor, common / from[i].down * from[i].up);
    for (uint32_t i = 0; i < n && divisor > 0; i++)
        sum += common / from[i].down * from[i].up / divisor;
    if (common > most || sum > UINT32_MAX)
        return plan_fail(p, "the weights have too many digits: as integers they exceed 2^32");
    if (divisor == 0)
        return plan_fail(p, "all weights are 0");
    for (uint32_t i = 0; i < n; i++)
        ret[i] = (uint32_t)(common / from[i].down * from[i].up / divisor);
    return 0;
}

/* Parse NAME WEIGHT ... to the end of the line. Sets that are not named have weight 0. */
static int parse_weights(struct plan_parser *p, struct plan_fraction ret[MIXTURE_SETS_MAX])
{
    bool seen[MIXTURE_SETS_MAX] = {false};
    char word[PLAN_WORD_MAX];
    int r;

    for (uint32_t i = 0; i < MIXTURE_SETS_MAX; i++)
        ret[i] = (struct plan_fraction){0, 1};
    while ((r = plan_next_word(p, word)) > 0) {
        uint32_t set = orderplan_find(p->plan, word, strlen(word));

        if (set == UINT32_MAX)
            return plan_fail(p, "there is no set named '%s'", word);
        if (seen[set])
            return plan_fail(p, "set '%s' is named twice", word);
        seen[set] = true;
        r = plan_need_word(p, "a weight", word);
        if (r == 0)
            r = plan_parse_weight(p, word, &ret[set]);
        if (r < 0)
            return r;
    }
    return r;
}

/* Append a piece, whose weights the caller then fills in. */
int plan_add_piece(struct plan_parser *p, uint64_t start, uint32_t **ret)
{
    struct orderplan *plan = p->plan;
    uint32_t at = plan->num_pieces;

    if (at == MIXTURE_PIECES_MAX || (at + 1) * plan->num_sets > MIXTURE_WEIGHTS_MAX)
        return plan_fail(p, "there are too many pieces: at most %d, and %d weights in all",
                         MIXTURE_PIECES_MAX, MIXTURE_WEIGHTS_MAX);
    if (at > 0 && start == 0)
        return plan_fail(p, "weights at position 0 are in the lines 'set': a piece begins later");
    if (at > 0 && start <= plan->pieces[at - 1].start)
        return plan_fail(p, "pieces must be in order: one at position %llu comes after one at %llu",
                         (unsigned long long)start, (unsigned long long)plan->pieces[at - 1].start);
    if (start % plan->block)
        return plan_fail(
            p,
            "a piece begins at position %llu, which is not a multiple of block = %u: the next "
            "is %llu",
            (unsigned long long)start, plan->block,
            (unsigned long long)(start / plan->block + 1) * plan->block);
    *ret = plan->weights + (size_t)at * plan->num_sets;
    plan->pieces[at] = (struct mixture_piece){.start = start, .weights = *ret};
    plan->num_pieces++;
    return 0;
}

int plan_parse_at(struct plan_parser *p)
{
    struct plan_fraction weights[MIXTURE_SETS_MAX];
    uint32_t *to;
    uint64_t start;
    int r = plan_need_number(p, "the position", INT64_MAX, &start);

    if (r == 0)
        r = parse_weights(p, weights);
    if (r == 0)
        r = plan_add_piece(p, start, &to);
    return r < 0 ? r : plan_reduce(p, weights, to);
}

static uint64_t sum_of(const uint32_t *weights, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += weights[i];
    return sum;
}

/* Compute the weights of one step of a ramp from `from` to `to`, as shares of 2^30. */
static void blend(const struct orderplan *plan, const uint32_t *from, const uint32_t *to,
                  const uint64_t step[2], struct plan_fraction *ret)
{
    uint64_t a = sum_of(from, plan->num_sets), b = sum_of(to, plan->num_sets);

    for (uint32_t i = 0; i < plan->num_sets; i++) {
        u128 up = (u128)from[i] * b * (step[1] - step[0]) + (u128)to[i] * a * step[0];

        ret[i] = (struct plan_fraction){(uint64_t)(up * (1 << 30) / ((u128)a * b * step[1])), 1};
    }
}

/* Replace a ramp by its steps, each of which begins at a multiple of the block. */
int plan_parse_ramp(struct plan_parser *p)
{
    struct orderplan *plan = p->plan;
    const uint32_t *from = plan->pieces[plan->num_pieces - 1].weights;
    struct plan_fraction weights[MIXTURE_SETS_MAX];
    uint32_t target[MIXTURE_SETS_MAX], *to;
    uint64_t begin, end, steps;
    int r = plan_need_number(p, "the first position", INT64_MAX, &begin);

    if (r == 0)
        r = plan_need_number(p, "the last position", INT64_MAX, &end);
    if (r == 0)
        r = plan_need_number(p, "the number of steps", RAMP_STEPS_MAX, &steps);
    if (r == 0)
        r = parse_weights(p, weights);
    if (r == 0)
        r = plan_reduce(p, weights, target);
    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++) {
        uint64_t at = i ? end : begin, next = at - at % plan->block;

        if (at % plan->block)
            return plan_fail(p,
                             "a ramp %s at position %llu, which is not a multiple of block = %u: "
                             "the next is %llu",
                             i ? "ends" : "begins", (unsigned long long)at, plan->block,
                             (unsigned long long)next + plan->block);
    }
    if (end <= begin)
        return plan_fail(p, "a ramp from position %llu must end after it, not at %llu",
                         (unsigned long long)begin, (unsigned long long)end);
    if (steps == 0 || (end - begin) / steps < plan->block)
        return plan_fail(
            p,
            "a ramp needs steps, each of at least block = %u positions: from %llu to "
            "%llu at most %llu steps fit, not %llu; in Python, write (FROM, TO, STEPS)",
            plan->block, (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)min_u64((end - begin) / plan->block, RAMP_STEPS_MAX),
            (unsigned long long)steps);
    for (uint64_t k = 0; k < steps && r == 0; k++) {
        uint64_t at = begin + (uint64_t)((u128)(end - begin) * k / steps);

        r = plan_add_piece(p, at - at % plan->block, &to);
        if (r < 0)
            break;
        blend(plan, from, target, (uint64_t[]){k + 1, steps}, weights);
        if (k + 1 == steps)
            memcpy(to, target, plan->num_sets * sizeof(*to));
        else
            r = plan_reduce(p, weights, to);
    }
    return r;
}

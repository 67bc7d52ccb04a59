/* SPDX-License-Identifier: MIT */
/* mix.c - draws and applies mixup and cutmix.
 *
 * H. Zhang and others: "mixup: beyond empirical risk minimization", ICLR 2018; S. Yun and others:
 * "CutMix: regularization strategy to train strong classifiers with localizable features", ICCV
 * 2019.
 *
 * The share of a sample has the distribution Beta(alpha, alpha), drawn by rejection, without libm:
 *
 *     alpha < 1    M. Joehnk: "Erzeugung von betaverteilten und gammaverteilten Zufallszahlen",
 *                  Metrika 8 (1964): X = U^(1/alpha), Y = V^(1/alpha); if X + Y <= 1, the share is
 *                  X / (X + Y)
 *     alpha >= 1   X = U; if V <= (4 X (1 - X))^(alpha - 1), the share is X
 *
 * Powers are taken in binary logarithms, which are integers, times 2^32. */
#include "config.h"

#include "loader/image/ops/mix.h"

#include <assert.h>
#include <string.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/augment_loops.h"

__extension__ typedef unsigned __int128 u128;

enum {
    TRIES = 64,
    LOG_BITS = 32,
    POWER_BITS = 48,
};

#define ONE (UINT64_C(1) << POWER_BITS)

/* 2^(-2^-k) times 2^48, for k = 1 ... 32: each is the square root of the previous one; the first is
 * that of 1/2. */
static const uint64_t roots[LOG_BITS] = {
    0xB504F333F9DE, 0xD744FCCAD69D, 0xEAC0C6E7DD23, 0xF5257D152486, 0xFA83B2DB7229, 0xFD3E0C0CF486,
    0xFE9E115C7B8F, 0xFF4ECB59511E, 0xFFA756521C8D, 0xFFD3A751C0F7, 0xFFE9D2B2F7DA, 0xFFF4E91BFF1A,
    0xFFFA747EA003, 0xFFFD3A3B7814, 0xFFFE9D1CC60D, 0xFFFF4E8E2587, 0xFFFFA7470363, 0xFFFFD3A37DD9,
    0xFFFFE9D1BDF6, 0xFFFFF4E8DEBD, 0xFFFFFA746F4F, 0xFFFFFD3A37A3, 0xFFFFFE9D1BD0, 0xFFFFFF4E8DE7,
    0xFFFFFFA746F3, 0xFFFFFFD3A379, 0xFFFFFFE9D1BC, 0xFFFFFFF4E8DD, 0xFFFFFFFA746E, 0xFFFFFFFD3A36,
    0xFFFFFFFE9D1A, 0xFFFFFFFF4E8C,
};

/* Returns -log2(x / 2^33) times 2^32, rounded up, for 0 < x < 2^33. */
static uint64_t log_of(uint64_t x)
{
    unsigned shift = (unsigned)__builtin_clzll(x);
    uint64_t log = (uint64_t)(shift - 30) << LOG_BITS;

    /* x becomes a number from 1 to 2, times 2^63. Each squaring doubles its logarithm, and so
     * yields one more bit of the logarithm. */
    x <<= shift;
    for (int k = LOG_BITS - 1; k >= 0; k--) {
        u128 square = (u128)x * x;
        bool bit = square >> 127;

        log -= (uint64_t)bit << k;
        x = (uint64_t)(square >> (bit ? 64 : 63));
    }
    return log;
}

/* Returns 2^48 * 2^-(log / 2^32). */
static uint64_t power_of(uint64_t log)
{
    uint64_t whole = log >> LOG_BITS, x = ONE;

    if (whole > POWER_BITS)
        return 0;
    for (int k = 0; k < LOG_BITS; k++)
        if (log >> (LOG_BITS - 1 - k) & 1)
            x = (uint64_t)(((u128)x * roots[k]) >> POWER_BITS);
    return x >> whole;
}

/* Returns (word + 1/2) / 2^32, times 2^33: the middle of the interval of a word. */
static uint64_t middle(uint32_t word)
{
    return 2 * (uint64_t)word + 1;
}

/* Try to draw a share for alpha < 1. Returns false if the try is rejected. */
static bool try_johnk(struct rational alpha, const struct philox_block *d, uint32_t *ret)
{
    uint64_t x = log_of(middle(d->word[0])) * alpha.den / alpha.num;
    uint64_t y = log_of(middle(d->word[1])) * alpha.den / alpha.num;
    uint64_t sum, larger;

    if (power_of(x) + power_of(y) > ONE)
        return false;
    sum = ONE + power_of(x < y ? y - x : x - y); /* the sum of both, relative to the larger one */
    larger = ((ONE << MIX_SHARE_BITS) + sum / 2) / sum;
    *ret = (uint32_t)(x < y ? larger : (1 << MIX_SHARE_BITS) - larger);
    return true;
}

/* Try to draw a share for alpha >= 1. Returns false if the try is rejected. */
static bool try_uniform(struct rational alpha, const struct philox_block *d, uint32_t *ret)
{
    uint64_t x = middle(d->word[0]), rest = (UINT64_C(1) << 33) - x;
    uint64_t x_log, v_log;

    *ret = (uint32_t)(((uint64_t)d->word[0] + (1 << 16)) >> 17);
    /* x is never exactly 1/2, so 4 x (1 - x) < 1. Its logarithm is that of x (1 - x) plus 2. */
    x_log = log_of(x) + log_of(rest) - (UINT64_C(2) << LOG_BITS);
    v_log = log_of(middle(d->word[1]));
    return (u128)v_log * alpha.den >= (u128)x_log * (alpha.num - alpha.den);
}

uint32_t mix_draw_share(struct rational alpha, const struct image_draw *draw)
{
    uint32_t share;

    for (uint32_t try = 1; try <= TRIES; try++) {
        struct philox_block d = image_draw_words(draw, DRAW_MIXUP, try);

        if (alpha.num < alpha.den ? try_johnk(alpha, &d, &share) : try_uniform(alpha, &d, &share))
            return share;
    }
    return 1 << (MIX_SHARE_BITS - 1);
}

/* Compute one axis of the box: `side` * sqrt(rest) long around `centre`, clipped at the borders. */
static void cut_axis(uint32_t side, uint32_t rest, uint32_t centre, uint32_t *begin,
                     uint32_t *length)
{
    uint64_t area = (uint64_t)side * side * rest >> (MIX_SHARE_BITS + 2);
    uint32_t half = (uint32_t)sqrt_product(area, 1);

    *begin = centre > half ? centre - half : 0;
    *length = (uint32_t)min_u64(side, (uint64_t)centre + half) - *begin;
}

static void draw_cut(const struct pipeline *pipeline, uint32_t share, const struct philox_block *d,
                     struct mix_plan *plan)
{
    uint32_t width = pipeline->width, height = pipeline->height;
    uint32_t rest = (1 << MIX_SHARE_BITS) - share;
    uint64_t all = (uint64_t)width * height, kept;

    cut_axis(width, rest, philox_below(d->word[2], width), &plan->rect.left, &plan->rect.width);
    cut_axis(height, rest, philox_below(d->word[3], height), &plan->rect.top, &plan->rect.height);
    kept = all - (uint64_t)plan->rect.width * plan->rect.height;
    plan->cut = true;
    plan->mixed = kept < all;
    plan->weight = (uint32_t)(((kept << (MIX_WEIGHT_BITS + 1)) + all) / (2 * all));
}

void mix_draw(const struct pipeline *pipeline, const struct image_draw *draw, struct mix_plan *ret)
{
    const struct pipeline_mix *mix = &pipeline->mix;
    struct philox_block d;
    uint32_t share;

    *ret = (struct mix_plan){.weight = 1 << MIX_WEIGHT_BITS};
    if (!pipeline_mixes(pipeline))
        return;
    d = image_draw_words(draw, DRAW_MIXUP, 0);
    if (!rational_happens(mix->p, d.word[0]))
        return;
    if (rational_happens(mix->cut, d.word[1])) {
        draw_cut(pipeline, mix_draw_share(mix->cutmix, draw), &d, ret);
        return;
    }
    share = mix_draw_share(mix->mixup, draw);
    ret->mixed = share < 1 << MIX_SHARE_BITS;
    ret->share = share;
    ret->weight = share << (MIX_WEIGHT_BITS - MIX_SHARE_BITS);
}

/* Copy a plane of `pixel` bytes per pixel; the pixels in `rect` are the partner's. */
static void cut_plane(const struct rect *rect, const struct mix_format *format, size_t pixel,
                      const uint8_t *own, const uint8_t *partner, uint8_t *dst)
{
    size_t pitch = format->width * pixel, left = rect->left * pixel, middle = rect->width * pixel;

    assert(rect->left + rect->width <= format->width);
    assert(rect->top + rect->height <= format->height);
    for (uint32_t y = 0; y < format->height; y++, own += pitch, partner += pitch, dst += pitch) {
        if (y < rect->top || y >= rect->top + rect->height) {
            memcpy(dst, own, pitch);
            continue;
        }
        memcpy(dst, own, left);
        memcpy(dst + left, partner + left, middle);
        memcpy(dst + left + middle, own + left + middle, pitch - left - middle);
    }
}

void mix_store(const struct mix_plan *plan, const char *kernels, const struct mix_format *format,
               const uint8_t *own, const uint8_t *partner, uint8_t *dst)
{
    const struct image_store *store = &format->store;
    size_t plane = (size_t)format->width * format->height;

    assert(plan->mixed && (plan->cut || plan->share < 1 << MIX_SHARE_BITS));
    if (!plan->cut) {
        /* This includes the channel of the zero point, which is equal in both images. */
        augment_loops_of(kernels)->mix(own, partner, plane * store->channels, plan->share,
                                       image_store_flip(store), dst);
        return;
    }
    if (store->layout == PLENUM_NHWC) {
        cut_plane(&plan->rect, format, store->channels, own, partner, dst);
        return;
    }
    for (uint32_t c = 0; c < store->channels; c++)
        cut_plane(&plan->rect, format, 1, own + c * plane, partner + c * plane, dst + c * plane);
}

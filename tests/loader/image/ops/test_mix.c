/* SPDX-License-Identifier: MIT */
/* Tests mixup and cutmix: compares the distribution of shares with closed forms and an integral,
 * and boxes and blends with the plain formulas. tests/python/test_mix.py is a second
 * implementation, written from docs/pixels.md. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/ops/mix.h"

enum { DRAWS = 100000, ONE = 1 << MIX_SHARE_BITS };

/* Returns the integral of t^(alpha - 1) (1 - t)^(alpha - 1) from 0 to x <= 1/2, by Simpson's rule;
 * for alpha < 1 in u = t^alpha, which removes the singularity. */
static double integral(double alpha, double x)
{
    double power = alpha < 1 ? alpha : 1, end = pow(x, power), sum = 0;
    int n = 400;

    for (int i = 0; i <= n; i++) {
        double u = end * i / n, t = pow(u, 1 / power);
        double f = pow(1 - t, alpha - 1) * (alpha < 1 ? 1 : pow(t, alpha - 1));

        sum += f * (i == 0 || i == n ? 1 : i % 2 ? 4 : 2);
    }
    return sum * end / (3 * n * power);
}

/* Returns P(share <= x). */
static double beta(double alpha, double x)
{
    double all = 2 * integral(alpha, 0.5);

    return x <= 0.5 ? integral(alpha, x) / all : 1 - integral(alpha, 1 - x) / all;
}

/* Returns the maximum distance of 10^5 draws from the distribution, measured half-way between the
 * steps of a share. */
static double distance(struct rational alpha, double (*cdf)(double alpha, double x))
{
    static uint32_t counts[ONE + 1];
    double most = 0, sum = 0;

    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct image_draw draw = {.seed = 5, .epoch = 1, .position = i};
        uint32_t share = mix_draw_share(alpha, &draw);

        cr_assert(share <= ONE);
        counts[share]++;
    }
    for (uint32_t s = 0; s < ONE; s++) {
        sum += counts[s];
        if (s % 16 == 0 || s < 64 || s > ONE - 64)
            most =
                fmax(most, fabs(sum / DRAWS - cdf((double)alpha.num / alpha.den, (s + 0.5) / ONE)));
    }
    return most;
}

static double uniform(double alpha, double x)
{
    (void)alpha;
    return x;
}

static double arcsine(double alpha, double x)
{
    (void)alpha;
    return 2 / M_PI * asin(sqrt(x));
}

static double parabola(double alpha, double x)
{
    (void)alpha;
    return x * x * (3 - 2 * x);
}

/* Kolmogorov-Smirnov: the distance exceeds 1.95 / sqrt(n) once in a thousand times. */
#define CRITICAL (1.95 / sqrt(DRAWS))

Test(mix, shares_are_beta_distributed)
{
    static const struct rational alphas[] = {{1, 100},  {1, 10}, {1, 5}, {2, 5}, {4, 5},
                                             {99, 100}, {3, 2},  {7, 2}, {10, 1}};

    cr_expect(lt(dbl, distance((struct rational){1, 1}, uniform), CRITICAL));
    cr_expect(lt(dbl, distance((struct rational){1, 2}, arcsine), CRITICAL));
    cr_expect(lt(dbl, distance((struct rational){2, 1}, parabola), CRITICAL));
    for (size_t i = 0; i < ARRAY_LEN(alphas); i++)
        cr_expect(lt(dbl, distance(alphas[i], beta), CRITICAL), "alpha %u/%u", alphas[i].num,
                  alphas[i].den);
}

static struct pipeline parsed(const char *text)
{
    struct pipeline p;
    struct plenum_error err;

    cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
    return p;
}

Test(mix, probabilities_follow_the_pipeline)
{
    struct pipeline p = parsed("rrc(32) mix(mixup=0.8, cutmix=1, p=3/4, switch=1/4)");
    uint32_t mixed = 0, cut = 0;

    for (uint32_t i = 0; i < DRAWS; i++) {
        struct image_draw draw = {.seed = 6, .position = i};
        struct mix_plan plan;

        mix_draw(&p, &draw, &plan);
        mixed += plan.mixed;
        cut += plan.mixed && plan.cut;
        cr_assert(plan.mixed || plan.weight == 1 << MIX_WEIGHT_BITS);
    }
    /* Five standard deviations, and 1 % for draws that change nothing: mixups with a weight of 1,
     * and cutmix boxes without a pixel. */
    cr_expect(lt(dbl, fabs(mixed - 0.75 * DRAWS), 5 * sqrt(DRAWS * 0.1875) + 0.01 * DRAWS));
    cr_expect(lt(dbl, fabs(cut - 0.1875 * DRAWS), 5 * sqrt(DRAWS * 0.1523) + 0.01 * DRAWS));
}

Test(mix, boxes_lie_inside_and_weights_match_their_area)
{
    static const char *const texts[] = {"rrc(1) cutmix(1)", "rrc(2) cutmix(0.3)",
                                        "rrc(31) cutmix(2)", "rrc(8192) cutmix(1)",
                                        "rrc(9x40) cutmix(1)"};

    for (size_t t = 0; t < ARRAY_LEN(texts); t++) {
        struct pipeline p = parsed(texts[t]);

        for (uint32_t i = 0; i < 5000; i++) {
            struct image_draw draw = {.seed = 7, .position = i};
            double area = (double)p.width * p.height, weight;
            struct mix_plan plan;

            mix_draw(&p, &draw, &plan);
            cr_assert(plan.rect.left + plan.rect.width <= p.width);
            cr_assert(plan.rect.top + plan.rect.height <= p.height);
            weight = 1 - (double)plan.rect.width * plan.rect.height / area;
            cr_assert(fabs(plan.weight / 0x1p24 - weight) <= 0x1p-25);
            cr_assert(plan.mixed == (weight < 1));
        }
    }
}

/* Blend all pairs of levels by many shares, with all sets of loops. */
Test(mix, all_sets_of_loops_blend_equally)
{
    static uint8_t own[256 * 256], partner[256 * 256], got[256 * 256];
    struct image_store stores[] = {{PLENUM_UINT8, PLENUM_NCHW, 4}, {PLENUM_INT8, PLENUM_NHWC, 4}};

    for (uint32_t i = 0; i < sizeof(own); i++) {
        own[i] = (uint8_t)i;
        partner[i] = (uint8_t)(i >> 8);
    }
    for (uint32_t share = 0; share < ONE; share += share < 300 || share > ONE - 300 ? 1 : 97)
        for (uint32_t k = 0; image_kernels(k); k++)
            for (size_t s = 0; s < ARRAY_LEN(stores); s++) {
                struct mix_plan plan = {.mixed = true, .share = share};
                uint8_t flip = s ? 0x80 : 0;

                mix_store(&plan, image_kernels(k), &(struct mix_format){128, 128, stores[s]}, own,
                          partner, got);
                for (uint32_t i = 0; i < sizeof(own); i++) {
                    int32_t a = own[i] ^ flip, b = partner[i] ^ flip;
                    int32_t want = (int32_t)floor(b + (a - b) * (double)share / ONE + 0.5);

                    cr_assert(want == (got[i] ^ flip), "%s: %d and %d by %u", image_kernels(k), a,
                              b, share);
                }
            }
}

Test(mix, a_box_shows_the_partner)
{
    static const struct rect rects[] = {{0, 0, 7, 5}, {2, 1, 3, 4}, {6, 4, 1, 1}, {0, 3, 7, 1}};
    uint8_t own[4 * 35], partner[4 * 35], got[4 * 35];

    memset(own, 1, sizeof(own));
    memset(partner, 2, sizeof(partner));
    for (size_t t = 0; t < 2 * ARRAY_LEN(rects); t++) {
        const struct rect *r = &rects[t / 2];
        struct mix_plan plan = {.mixed = true, .cut = true, .rect = *r};
        struct image_store store = {PLENUM_UINT8, t % 2 ? PLENUM_NCHW : PLENUM_NHWC, 4};

        mix_store(&plan, "portable", &(struct mix_format){7, 5, store}, own, partner, got);
        for (uint32_t i = 0; i < sizeof(got); i++) {
            uint32_t at = t % 2 ? i % 35 : i / 4, x = at % 7, y = at / 7;
            bool inside =
                x >= r->left && x < r->left + r->width && y >= r->top && y < r->top + r->height;

            cr_assert(got[i] == (inside ? 2 : 1));
        }
    }
}

/* SPDX-License-Identifier: MIT */
/* oracle_policy.c - draws the names and strengths of a policy's operations, as docs/pixels.md,
 * 10.2, defines them. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "tests/loader/image/oracle.h"

static uint64_t word(const struct image_draw *d, uint32_t op, uint32_t draw, int i)
{
    return philox_draw(d->seed, d->position, d->epoch, DRAW_OPERATION, 16 * op + draw).word[i];
}

static uint64_t below(uint64_t w, uint64_t n)
{
    return w * n >> 32;
}

static int64_t near(int64_t num, int64_t den)
{
    int64_t twice = 2 * num + den; /* not negative */

    return twice / (2 * den);
}

/* Returns word number `n` of a string. */
static const char *nth(const char *words, uint64_t n, char ret[24])
{
    size_t len;

    for (; n > 0; n--)
        words = strchr(words, ' ') + 1;
    len = strcspn(words, " ");
    memcpy(ret, words, len);
    ret[len] = '\0';
    return words;
}

/* Returns whether `name` is one of these words. */
static bool is_any(const char *name, const char *words)
{
    char text[32], all[64];

    (void)snprintf(text, sizeof(text), " %s ", name);
    (void)snprintf(all, sizeof(all), " %s ", words);
    return strstr(all, text) != NULL;
}

struct strengths {
    int64_t last, shear, degrees, enhance; /* in hundredths, except degrees */
    int64_t way, way_den, bits, fewer;     /* way / way_den of the side; way_den 0: `way` pixels */
};

static const struct strengths rand_bins = {30, 30, 30, 90, 150, 331, 8, 4};
static const struct strengths wide_bins = {30, 99, 135, 99, 32, 0, 8, 6};
static const struct strengths auto_bins = {9, 30, 30, 90, 150, 331, 8, 4};
static const struct strengths augmix_bins = {9, 30, 30, 90, 1, 3, 4, 4};

static const char simple[] = "AutoContrast Equalize Invert Identity";
static const char enhancing[] = "Brightness Color Contrast Sharpness";

static int64_t at_bin(const struct strengths *s, const char *name, int64_t k, bool negative,
                      int64_t width, int64_t height)
{
    int64_t sign = negative ? -1 : 1, side = name[9] == 'X' ? width : height;

    if (is_any(name, simple))
        return 0;
    if (is_any(name, enhancing))
        return near(16384 * (100 * s->last + sign * s->enhance * k), 100 * s->last);
    if (strcmp(name, "Posterize") == 0)
        return s->bits - near(s->fewer * k, s->last);
    if (strcmp(name, "Solarize") == 0)
        return 255 - 255 * k / s->last;
    if (strcmp(name, "Rotate") == 0)
        return sign * near(65536 * s->degrees * k, s->last);
    if (name[0] == 'S')
        return sign * near(65536 * s->shear * k, 100 * s->last);
    return sign * 65536 *
           (s->way_den == 0 ? s->way * k / s->last : s->way * side * k / (s->way_den * s->last));
}

/* Returns the k / 64 quantile of the absolute value of a standard normal variable, times 2^16; for
 * 64, the limit of docs/pixels.md. */
static int64_t quantile(uint64_t k)
{
    double low = 0, high = 8;

    if (k == 64)
        return 200459;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (erf(middle / sqrt(2)) < (double)k / 64)
            low = middle;
        else
            high = middle;
    }
    return (int64_t)floor(low * 65536 + 0.5);
}

static int64_t level_of(const struct pipeline_policy *policy, uint64_t w)
{
    uint64_t k = (w >> 25) % 64, part = w % (1 << 25);
    int64_t z = quantile(k), l = policy->magnitude * 65536;

    z += (int64_t)((uint64_t)(quantile(k + 1) - z) * part >> 25);
    z = z * policy->deviation.num / policy->deviation.den;
    l += w >= (uint64_t)1 << 31 ? -z : z;
    return l < 0 ? 0 : l > 655360 ? 655360 : l;
}

static int64_t at_level(const struct pipeline_policy *policy, const char *name, int64_t l,
                        bool negative, int64_t width, int64_t height)
{
    const int64_t most = 655360, sign = negative ? -1 : 1;

    if (is_any(name, simple))
        return 0;
    if (is_any(name, enhancing))
        return policy->increasing ? near(16384 * (10 * most + sign * 9 * l), 10 * most)
                                  : near(16384 * (most + 18 * l), 10 * most);
    if (strcmp(name, "Posterize") == 0)
        return policy->increasing ? 4 - 4 * l / most : 4 * l / most;
    if (strcmp(name, "Solarize") == 0)
        return policy->increasing ? 256 - 256 * l / most : 256 * l / most;
    if (strcmp(name, "SolarizeAdd") == 0)
        return 110 * l / most;
    if (strcmp(name, "Rotate") == 0)
        return sign * 3 * l;
    if (name[0] == 'S')
        return sign * near(3 * l, 100);
    return sign * near(45 * (name[9] == 'X' ? width : height) * l, 1000);
}

/* Each entry has two operations: name, probability in tenths, bin. */
static const char *const pairs[3][25] = {
    {
        "Posterize 4 8 Rotate 6 9",  "Solarize 6 5 AutoContrast 6 0",
        "Equalize 8 0 Equalize 6 0", "Posterize 6 7 Posterize 6 6",
        "Equalize 4 0 Solarize 2 4", "Equalize 4 0 Rotate 8 8",
        "Solarize 6 3 Equalize 6 0", "Posterize 8 5 Equalize 10 0",
        "Rotate 2 3 Solarize 6 8",   "Equalize 6 0 Posterize 4 6",
        "Rotate 8 8 Color 4 0",      "Rotate 4 9 Equalize 6 0",
        "Equalize 0 0 Equalize 8 0", "Invert 6 0 Equalize 10 0",
        "Color 6 4 Contrast 10 8",   "Rotate 8 8 Color 10 2",
        "Color 8 8 Solarize 8 7",    "Sharpness 4 7 Invert 6 0",
        "ShearX 6 5 Equalize 10 0",  "Color 4 0 Equalize 6 0",
        "Equalize 4 0 Solarize 2 4", "Solarize 6 5 AutoContrast 6 0",
        "Invert 6 0 Equalize 10 0",  "Color 6 4 Contrast 10 8",
        "Equalize 8 0 Equalize 6 0",
    },
    {
        "Invert 1 0 Contrast 2 6",         "Rotate 7 2 TranslateX 3 9",
        "Sharpness 8 1 Sharpness 9 3",     "ShearY 5 8 TranslateY 7 9",
        "AutoContrast 5 0 Equalize 9 0",   "ShearY 2 7 Posterize 3 7",
        "Color 4 3 Brightness 6 7",        "Sharpness 3 9 Brightness 7 9",
        "Equalize 6 0 Equalize 5 0",       "Contrast 6 7 Sharpness 6 5",
        "Color 7 7 TranslateX 5 8",        "Equalize 3 0 AutoContrast 4 0",
        "TranslateY 4 3 Sharpness 2 6",    "Brightness 9 6 Color 2 8",
        "Solarize 5 2 Invert 0 0",         "Equalize 2 0 AutoContrast 6 0",
        "Equalize 2 0 Equalize 6 0",       "Color 9 9 Equalize 6 0",
        "AutoContrast 8 0 Solarize 2 8",   "Brightness 1 3 Color 7 0",
        "Solarize 4 5 AutoContrast 9 0",   "TranslateY 9 9 TranslateY 7 9",
        "AutoContrast 9 0 Solarize 8 3",   "Equalize 8 0 Invert 1 0",
        "TranslateY 7 9 AutoContrast 9 0",
    },
    {
        "ShearX 9 4 Invert 2 0",       "ShearY 9 8 Invert 7 0",     "Equalize 6 0 Solarize 6 6",
        "Invert 9 0 Equalize 6 0",     "Equalize 6 0 Rotate 9 3",   "ShearX 9 4 AutoContrast 8 0",
        "ShearY 9 8 Invert 4 0",       "ShearY 9 5 Solarize 2 6",   "Invert 9 0 AutoContrast 8 0",
        "Equalize 6 0 Rotate 9 3",     "ShearX 9 4 Solarize 3 3",   "ShearY 8 8 Invert 7 0",
        "Equalize 9 0 TranslateY 6 6", "Invert 9 0 Equalize 6 0",   "Contrast 3 3 Rotate 8 4",
        "Invert 8 0 TranslateY 0 2",   "ShearY 7 6 Solarize 4 8",   "Invert 6 0 Rotate 8 4",
        "ShearY 3 7 TranslateX 9 3",   "ShearX 1 6 Invert 6 0",     "Solarize 7 2 TranslateY 6 7",
        "ShearY 8 4 Invert 8 0",       "ShearX 7 9 TranslateY 8 3", "ShearY 8 5 AutoContrast 7 0",
        "ShearX 7 2 Invert 1 0",
    },
};

static const char fourteen[] =
    "Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness "
    "Posterize Solarize AutoContrast Equalize";
static const char fifteen[] =
    "AutoContrast Equalize Invert Rotate Posterize Solarize SolarizeAdd Color Contrast Brightness "
    "Sharpness ShearX ShearY TranslateX TranslateY";
static const char thirteen[] =
    "ShearX ShearY TranslateX TranslateY Rotate Posterize Solarize AutoContrast Equalize "
    "Brightness Color Contrast Sharpness";

bool oracle_policy_next(const struct oracle_policy *of, uint32_t step, struct oracle_action *ret)
{
    const struct pipeline_op *op = of->op;
    const struct pipeline_policy *policy = &op->policy;
    const struct image_draw *draw = of->draw;
    uint32_t at = of->at, width = of->width, height = of->height, t = step + 1;
    bool negative;
    char number[24];

    *ret = (struct oracle_action){.name = "Identity",
                                  .bilinear = policy->reading == PIPELINE_READING_BILINEAR};
    if (op->kind == PIPELINE_AUTO_AUGMENT && step < 2) {
        const char *pair = pairs[policy->table][below(word(draw, at, 1, 0), 25)];
        uint64_t tenths;

        t = step + 2;
        negative = word(draw, at, t, 3) >> 31;
        (void)nth(pair, 3 * step + 1, number);
        tenths = strtoull(number, NULL, 10);
        (void)nth(pair, 3 * step + 2, number);
        if (word(draw, at, t, 1) * 10 >= tenths << 32)
            return true;
        (void)nth(pair, 3 * step, ret->name);
        ret->amount =
            at_bin(&auto_bins, ret->name, strtoll(number, NULL, 10), negative, width, height);
        return true;
    }
    negative = word(draw, at, t, 3) >> 31;
    if (op->kind == PIPELINE_TRIVIAL_AUGMENT_WIDE && step < 1) {
        (void)nth(fourteen, below(word(draw, at, t, 0), 14), ret->name);
        ret->amount = at_bin(&wide_bins, ret->name, (int64_t)below(word(draw, at, t, 2), 31),
                             negative, width, height);
        return true;
    }
    if (op->kind != PIPELINE_RAND_AUGMENT || step >= policy->count)
        return false;
    if (!policy->timm) {
        (void)nth(fourteen, below(word(draw, at, t, 0), 14), ret->name);
        ret->amount = at_bin(&rand_bins, ret->name, policy->magnitude, negative, width, height);
    } else if (word(draw, at, t, 1) < (uint64_t)1 << 31) {
        ret->timm = true;
        ret->bilinear = policy->reading != PIPELINE_READING_NEAREST;
        (void)nth(fifteen, below(word(draw, at, t, 0), 15), ret->name);
        ret->amount = at_level(policy, ret->name, level_of(policy, word(draw, at, t, 2)), negative,
                               width, height);
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

uint64_t oracle_mix_weight(const struct pipeline_op *op, uint32_t at, const struct image_draw *draw,
                           uint32_t which)
{
    uint64_t own = word(draw, at, 0, 1) / 65536, cuts[16] = {0};
    uint32_t chains = op->policy.count;

    if (which == 0)
        return own;
    for (uint32_t c = 0; c + 1 < chains; c++)
        cuts[1 + c] = below(word(draw, at, 3 * c + 2, 1), 65536 - own + 1);
    cuts[chains] = 65536 - own;
    qsort(cuts, chains + 1, sizeof(cuts[0]), by_size);
    return cuts[which] - cuts[which - 1];
}

bool oracle_chain_next(const struct oracle_policy *of, uint32_t chain, uint32_t step,
                       struct oracle_action *ret)
{
    const struct pipeline_op *op = of->op;
    const struct image_draw *draw = of->draw;
    uint32_t at = of->at, depth = op->policy.depth, t = 3 * chain + 1 + step;

    *ret = (struct oracle_action){.name = "Identity",
                                  .bilinear = op->policy.reading != PIPELINE_READING_NEAREST};
    if (depth == 0)
        depth = 1 + (uint32_t)below(word(draw, at, 3 * chain + 1, 1), 3);
    if (step >= depth)
        return false;
    (void)nth(thirteen, below(word(draw, at, t, 0), 13), ret->name);
    ret->amount =
        at_bin(&augmix_bins, ret->name, (int64_t)below(word(draw, at, t, 2), op->policy.magnitude),
               word(draw, at, t, 3) >> 31, of->width, of->height);
    return true;
}

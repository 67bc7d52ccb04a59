/* SPDX-License-Identifier: MIT */
/* Compares the resize with two loops that follow its definition: every set of kernels that this
 * processor can use, on every shape. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/resize/resize_kernels.h"
#include "tests/loader/image/oracle.h"

/* Input and output size of an axis, and the part of the output that is kept. */
struct span {
    uint32_t n, m, first, count;
};

static const struct span spans[] = {
    {1, 1, 0, 1},         {1, 224, 0, 224},      {2, 224, 0, 224},     {224, 224, 0, 224},
    {223, 224, 0, 224},   {225, 224, 0, 224},    {224, 1, 0, 1},       {448, 224, 0, 224},
    {3000, 224, 0, 224},  {3001, 7, 0, 7},       {500, 341, 58, 224},  {7, 5, 0, 5},
    {5, 7, 1, 3},         {3, 96000, 47888, 64}, {65500, 224, 3, 16},  {65500, 3, 0, 3},
    {8, 8192, 8000, 192}, {401, 232, 4, 224},    {13, 64, 0, 64},      {64, 13, 0, 13},
    {7000, 224, 0, 224},  {20000, 640, 100, 70}, {16384, 512, 0, 512}, {65500, 8192, 8000, 192},
};

static const struct image_store stores[] = {
    {PLENUM_UINT8, PLENUM_NHWC, 3}, {PLENUM_INT8, PLENUM_NHWC, 3},  {PLENUM_UINT8, PLENUM_NHWC, 4},
    {PLENUM_INT8, PLENUM_NHWC, 4},  {PLENUM_UINT8, PLENUM_NCHW, 3}, {PLENUM_INT8, PLENUM_NCHW, 3},
    {PLENUM_UINT8, PLENUM_NCHW, 4}, {PLENUM_INT8, PLENUM_NCHW, 4},
};

static void fill(uint8_t *bytes, size_t count, uint32_t kind)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t noise =
            philox4x32_10((struct philox_block){{(uint32_t)i, kind, 0, 0}}, 4, 4).word[0];

        bytes[i] = (uint8_t)(kind == 0 ? noise : kind == 1 ? (noise & 1 ? 255 : 0) : 255);
    }
}

/* Resize as the definition says, from a box of four bytes per pixel to a window of plain RGB, not
 * mirrored. */
static uint8_t *resize_plainly(enum pipeline_filter filter, const uint8_t *from,
                               const struct span *x, const struct span *y)
{
    uint8_t *narrow = malloc((size_t)x->count * y->n * 3);
    uint8_t *rgb = malloc((size_t)x->count * y->count * 3);

    for (uint32_t row = 0; row < y->n; row++)
        for (uint32_t c = 0; c < 3; c++)
            oracle_resize(&(struct oracle_line){.filter = filter,
                                                .from = from + (size_t)row * x->n * 4 + c,
                                                .step = 4,
                                                .n = x->n,
                                                .m = x->m,
                                                .first = x->first,
                                                .outputs = x->count,
                                                .to = narrow + (size_t)row * x->count * 3 + c,
                                                .to_step = 3});
    for (uint32_t column = 0; column < x->count * 3; column++)
        oracle_resize(&(struct oracle_line){.filter = filter,
                                            .from = narrow + column,
                                            .step = (size_t)x->count * 3,
                                            .n = y->n,
                                            .m = y->m,
                                            .first = y->first,
                                            .outputs = y->count,
                                            .to = rgb + column,
                                            .to_step = (size_t)x->count * 3});
    free(narrow);
    return rgb;
}

/* A resize to compare with the definition's. */
struct trial {
    enum pipeline_filter filter;
    const struct span *x, *y;
    const uint8_t *from; /* [y->n][x->n][4] */
    const uint8_t *want; /* resize_plainly() */
    const struct image_store *store;
    bool mirror;
    uint32_t strip; /* rows that are pushed at once */
};

/* Check that each byte of each pixel has the right value in the right place. */
static bool stored_right(const uint8_t *got, const struct trial *t, char *why)
{
    const struct image_store *s = t->store;
    uint32_t width = t->x->count, height = t->y->count;

    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < s->channels; c++) {
                uint32_t from = t->mirror ? width - 1 - x : x;
                int want = c == 3 ? 128 : t->want[((size_t)y * width + from) * 3 + c];
                size_t at = s->layout == PLENUM_NHWC ? ((size_t)y * width + x) * s->channels + c
                                                     : ((size_t)c * height + y) * width + x;

                if (got[at] == (uint8_t)(s->dtype == PLENUM_INT8 ? want - 128 : want))
                    continue;
                (void)snprintf(why, 200, "channel %u of (%u, %u) is %d, it must be %d", c, x, y,
                               got[at], want);
                return false;
            }
    return true;
}

/* Compare one sample with the real resize, which gets strips of rows with `pixel` bytes per pixel.
 * Each buffer has exactly the size that is needed, so that sanitizers report any access beyond
 * it. */
static bool agrees_with(struct resize *r, uint32_t pixel, const struct trial *t, char *why)
{
    enum { GUARD = 64 };
    const struct span *x = t->x, *y = t->y;
    size_t size = (size_t)x->count * y->count * t->store->channels;
    uint8_t *got = malloc(size + GUARD);
    struct crop crop = {
        .box = {.left = 5, .top = 3, .width = x->n, .height = y->n},
        .width = x->m,
        .height = y->m,
        .window = {x->first, y->first, x->count, y->count},
        .mirror = t->mirror,
        .filter = t->filter,
    };
    struct rect need;
    bool good;

    memset(got, 0x55, size + GUARD);
    cr_assert(eq(int, resize_begin(r, &crop, pixel, t->store, got, &need), 0));
    need.left -= 5;
    need.top -= 3;
    cr_assert(need.left + need.width <= x->n && need.top + need.height <= y->n);
    for (uint32_t row = 0; row < need.height; row += t->strip) {
        uint32_t count = need.height - row < t->strip ? need.height - row : t->strip;
        size_t pitch = (size_t)need.width * pixel;
        uint8_t *rows = malloc(count * pitch + (pixel == 3 ? RESIZE_BEHIND : 0));

        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < need.width; k++)
                memcpy(rows + i * pitch + (size_t)k * pixel,
                       t->from + ((size_t)(need.top + row + i) * x->n + need.left + k) * 4, pixel);
        if (pixel == 3)
            memset(rows + count * pitch, 0xEE, RESIZE_BEHIND);
        cr_assert(not(resize_done(r)));
        resize_push(r, rows, pitch, count);
        free(rows);
    }
    cr_assert(resize_done(r));
    good = stored_right(got, t, why);
    for (size_t i = 0; i < GUARD && good; i++)
        if (got[size + i] != 0x55) {
            (void)snprintf(why, 200, "byte %zu after the sample is written", i);
            good = false;
        }
    free(got);
    return good;
}

/* Compare with rows of 3 and of 4 bytes per pixel. The parity of `strip` decides which comes first,
 * because both share the vertical tables. */
static bool resize_agrees(struct resize *r, const struct trial *t, char *why)
{
    uint32_t first = t->strip % 2 ? 3 : 4;

    return agrees_with(r, first, t, why) && agrees_with(r, 7 - first, t, why);
}

struct set {
    uint32_t index; /* in resize_kernels[] */
};

static struct criterion_test_params every_set(void)
{
    static struct set sets[8];
    uint32_t count = 0;

    for (uint32_t k = 0; resize_kernels[k]; k++)
        if (resize_kernels[k]->usable())
            sets[count++].index = k;
    return cr_make_param_array(struct set, sets, count);
}

static struct resize *resize_of(const struct set *set)
{
    struct resize *r;

    cr_assert(eq(int, resize_create(&r), 0));
    resize_use(r, resize_kernels[set->index]);
    return r;
}

/* A resize for each set of kernels. The definition's loops take the most time, so their result is
 * computed once and compared with all sets. */
struct all {
    struct resize *of[8];
    uint32_t count;
};

static struct all resize_of_all(void)
{
    struct all all = {.count = 0};

    for (uint32_t k = 0; resize_kernels[k]; k++)
        if (resize_kernels[k]->usable())
            all.of[all.count++] = resize_of(&(struct set){k});
    return all;
}

static void destroy_all(struct all *all)
{
    while (all->count > 0)
        resize_destroy(all->of[--all->count]);
}

static bool all_agree(const struct all *all, const struct trial *t, char *why)
{
    for (uint32_t k = 0; k < all->count; k++)
        if (!resize_agrees(all->of[k], t, why)) {
            size_t len = strlen(why);

            (void)snprintf(why + len, 200 - len, " (by set %u of %u)", k + 1, all->count);
            return false;
        }
    return true;
}

/* Each span is used across and down, with a few samples along the other axis. */
Test(resize, every_axis_follows_the_definition)
{
    static const struct span few[] = {{1, 1, 0, 1}, {5, 4, 0, 4}, {9, 8, 0, 8}};
    struct all all = resize_of_all();
    char why[200];

    for (size_t i = 0; i < ARRAY_LEN(spans); i++)
        for (uint32_t kind = 0; kind < 3 * PIPELINE_RANDOM; kind++) {
            const struct span *s = &spans[i], *other = &few[(i + kind) % ARRAY_LEN(few)];
            enum pipeline_filter filter = (enum pipeline_filter)(kind / 3);

            /* The definition's loops take seconds for the largest spans: once is enough. */
            if (filter != PIPELINE_BILINEAR && (uint64_t)s->n * s->count > 1 << 20 &&
                kind != 3 * PIPELINE_BICUBIC)
                continue;
            uint8_t *from = malloc((size_t)s->n * other->n * 4);

            fill(from, (size_t)s->n * other->n * 4, kind % 3);
            for (int across = 0; across < 2; across++) {
                const struct span *x = across ? s : other, *y = across ? other : s;
                uint8_t *want = resize_plainly(filter, from, x, y);

                cr_expect(all_agree(&all,
                                    &(struct trial){.filter = filter,
                                                    .x = x,
                                                    .y = y,
                                                    .from = from,
                                                    .want = want,
                                                    .store = &stores[(i + kind) % 8],
                                                    .mirror = kind == 1,
                                                    .strip = 16},
                                    why),
                          "filter %d, %u -> %u from %u, %s, kind %u: %s", (int)filter, s->n, s->m,
                          s->first, across ? "across" : "down", kind, why);
                free(want);
            }
            free(from);
        }
    destroy_all(&all);
}

/* Random shapes, mostly small ones, where vector loops are most likely to go wrong at the ends. */
Test(resize, random_shapes)
{
    struct all all = resize_of_all();
    char why[200];

    for (uint32_t i = 0; i < 3000; i++) {
        struct philox_block d = philox_draw(1, i, 0, DRAW_SEED, 0);
        struct philox_block e = philox_draw(1, i, 1, DRAW_SEED, 0);
        uint32_t limit = i % 3 == 0 ? 300 : 40;
        struct span x = {1 + philox_below(d.word[0], limit), 1 + philox_below(d.word[1], 40), 0, 0};
        struct span y = {1 + philox_below(d.word[2], limit), 1 + philox_below(d.word[3], 40), 0, 0};
        enum pipeline_filter filter = (enum pipeline_filter)(e.word[0] / 17 % PIPELINE_RANDOM);
        uint32_t strip = 1 + e.word[0] % 17, mirror = e.word[0] >> 31;
        uint8_t *from = malloc((size_t)x.n * y.n * 4), *want;

        x.first = philox_below(e.word[1], x.m);
        y.first = philox_below(e.word[2], y.m);
        x.count = 1 + (e.word[3] & 0xFFFF) % (x.m - x.first);
        y.count = 1 + (e.word[3] >> 16) % (y.m - y.first);
        fill(from, (size_t)x.n * y.n * 4, i % 5 == 0 ? 1 : 0);
        want = resize_plainly(filter, from, &x, &y);
        cr_assert(all_agree(&all,
                            &(struct trial){.filter = filter,
                                            .x = &x,
                                            .y = &y,
                                            .from = from,
                                            .want = want,
                                            .store = &stores[i % ARRAY_LEN(stores)],
                                            .mirror = mirror,
                                            .strip = strip},
                            why),
                  "filter %d, shape %u: %ux%u -> %ux%u, window %ux%u+%u+%u, strips of %u: %s",
                  (int)filter, i, x.n, y.n, x.m, y.m, x.count, y.count, x.first, y.first, strip,
                  why);
        free(want);
        free(from);
    }
    destroy_all(&all);
}

ParameterizedTestParameters(resize, stores_in_every_form)
{
    return every_set();
}

ParameterizedTest(struct set *set, resize, stores_in_every_form)
{
    struct resize *r = resize_of(set);
    char why[200];

    /* Widths around the sizes of vector registers. */
    for (uint32_t side = 1; side < 70; side++) {
        struct span x = {side + side / 3 + 4, side, 0, side}, y = {7, 5, 0, 5};
        uint8_t *from = malloc((size_t)x.n * y.n * 4), *want;

        fill(from, (size_t)x.n * y.n * 4, 0);
        want = resize_plainly(PIPELINE_BILINEAR, from, &x, &y);
        for (uint32_t i = 0; i < 2 * ARRAY_LEN(stores); i++)
            cr_assert(resize_agrees(r,
                                    &(struct trial){.filter = PIPELINE_BILINEAR,
                                                    .x = &x,
                                                    .y = &y,
                                                    .from = from,
                                                    .want = want,
                                                    .store = &stores[i / 2],
                                                    .mirror = i % 2,
                                                    .strip = 16},
                                    why),
                      "%s, side %u, store %u: %s", resize_kernels[set->index]->name, side, i / 2,
                      why);
        free(want);
        free(from);
    }
    resize_destroy(r);
}

ParameterizedTestParameters(resize, tables_are_kept_only_where_they_fit)
{
    return every_set();
}

/* The tables of consecutive samples differ in one property: no table may be used for another
 * sample. */
ParameterizedTest(struct set *set, resize, tables_are_kept_only_where_they_fit)
{
    static const struct span of[] = {{50, 40, 4, 30}, {51, 40, 4, 30}, {51, 39, 4, 30},
                                     {51, 39, 5, 30}, {51, 39, 5, 31}, {51, 39, 5, 31}};
    struct resize *r = resize_of(set);
    uint8_t *from = malloc(51 * 51 * 4);
    char why[200];

    fill(from, 51 * 51 * 4, 0);
    for (uint32_t i = 0; i < ARRAY_LEN(of) * ARRAY_LEN(of) * 2; i++) {
        const struct span *x = &of[i / 2 % ARRAY_LEN(of)], *y = &of[i / 2 / ARRAY_LEN(of)];
        enum pipeline_filter filter = (enum pipeline_filter)(i / 3 % PIPELINE_RANDOM);
        uint8_t *want = resize_plainly(filter, from, x, y);

        if (i % 5 == 0)
            resize_use(r, resize_kernels[set->index]);
        if (i % 7 == 0)
            resize_use(r, &resize_portable);
        cr_assert(resize_agrees(r,
                                &(struct trial){.filter = filter,
                                                .x = x,
                                                .y = y,
                                                .from = from,
                                                .want = want,
                                                .store = &stores[0],
                                                .mirror = i % 2,
                                                .strip = 3},
                                why),
                  "%u: %s", i, why);
        free(want);
    }
    free(from);
    resize_destroy(r);
}

Test(resize, coefficients_sum_to_one)
{
    for (size_t i = 0; i < ARRAY_LEN(spans) * PIPELINE_RANDOM; i++) {
        const struct span *s = &spans[i / PIPELINE_RANDOM];
        int32_t *coef = malloc(s->n * sizeof(*coef)), sum = 0;

        oracle_coefficients((enum pipeline_filter)(i % PIPELINE_RANDOM), s->n, s->m, s->first,
                            coef);
        for (uint32_t x = 0; x < s->n; x++) {
            sum += coef[x];
            cr_expect(coef[x] <= INT16_MAX && coef[x] >= INT16_MIN);
        }
        cr_expect(eq(i32, sum, 1 << RESIZE_BITS));
        free(coef);
    }
}

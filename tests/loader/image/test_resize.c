/* The resize against two loops that spell out its definition. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/philox.h"
#include "common/util.h"
#include "loader/image/resize.h"
#include "tests/loader/image/oracle.h"

/* Source and output size of an axis, and the part of the output that is kept. */
struct span {
    uint32_t n, m, first, count;
};

static const struct span spans[] = {
    {1, 1, 0, 1},         {1, 224, 0, 224},      {2, 224, 0, 224},    {224, 224, 0, 224},
    {223, 224, 0, 224},   {225, 224, 0, 224},    {224, 1, 0, 1},      {448, 224, 0, 224},
    {3000, 224, 0, 224},  {3001, 7, 0, 7},       {500, 341, 58, 224}, {7, 5, 0, 5},
    {5, 7, 1, 3},         {3, 96000, 47888, 64}, {65500, 224, 3, 16}, {65500, 3, 0, 3},
    {8, 8192, 8000, 192}, {401, 232, 4, 224},    {13, 64, 0, 64},     {64, 13, 0, 13},
};

static void fill(uint8_t *bytes, size_t count, uint32_t kind)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t noise =
            philox4x32_10((struct philox_block){{(uint32_t)i, kind, 0, 0}}, 4, 4).word[0];

        bytes[i] = (uint8_t)(kind == 0 ? noise : kind == 1 ? (noise & 1 ? 255 : 0) : 255);
    }
}

/* One axis by the real resize: a box of one column or one row. */
static void resize_one(struct resize *r, const struct span *s, bool across, const uint8_t *from,
                       uint8_t *to)
{
    struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct crop crop = {
        .box = {.width = across ? s->n : 1, .height = across ? 1 : s->n},
        .width = across ? s->m : 1,
        .height = across ? 1 : s->m,
        .window = {across ? s->first : 0, across ? 0 : s->first, across ? s->count : 1,
                   across ? 1 : s->count},
    };
    struct rect need;

    cr_assert(eq(int, resize_begin(r, &crop, &store, to, &need), 0));
    resize_push(r, from + ((size_t)need.left + need.top) * 3, (size_t)need.width * 3, need.height);
    cr_assert(resize_done(r));
}

Test(resize, every_axis_follows_the_definition)
{
    for (size_t k = 0; resize_kernels[k]; k++) {
        struct resize *r;

        if (!resize_kernels[k]->usable())
            continue;
        cr_assert(eq(int, resize_create(&r), 0));
        resize_use(r, resize_kernels[k]);
        for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
            const struct span *s = &spans[i];
            uint8_t *from = malloc((size_t)s->n * 3), *got = malloc((size_t)s->count * 3);
            uint8_t *want = malloc((size_t)s->count * 3);

            for (uint32_t kind = 0; kind < 3; kind++) {
                fill(from, (size_t)s->n * 3, kind);
                for (uint32_t c = 0; c < 3; c++)
                    oracle_resize(from + c, s->n, 3, s->m, s->first, s->count, want + c, 3);
                for (int across = 0; across < 2; across++) {
                    memset(got, 0x55, (size_t)s->count * 3);
                    resize_one(r, s, across, from, got);
                    cr_expect(memcmp(got, want, (size_t)s->count * 3) == 0,
                              "%s: %u -> %u from %u, %s, kind %u", resize_kernels[k]->name, s->n,
                              s->m, s->first, across ? "across" : "down", kind);
                }
            }
            free(from);
            free(got);
            free(want);
        }
        resize_destroy(r);
    }
}

Test(resize, coefficients_sum_to_one)
{
    for (size_t i = 0; i < ARRAY_LEN(spans); i++) {
        int32_t *coef = malloc(spans[i].n * sizeof(*coef)), sum = 0;

        oracle_coefficients(spans[i].n, spans[i].m, spans[i].first, coef);
        for (uint32_t x = 0; x < spans[i].n; x++) {
            sum += coef[x];
            cr_expect(coef[x] <= INT16_MAX && coef[x] >= INT16_MIN);
        }
        cr_expect(eq(i32, sum, 1 << RESIZE_BITS));
        free(coef);
    }
}

Test(resize, stores_in_every_form)
{
    enum { W = 29, H = 23, S = 13 };
    static const struct image_store stores[] = {
        {PLENUM_UINT8, PLENUM_NHWC, 3}, {PLENUM_INT8, PLENUM_NHWC, 3},
        {PLENUM_UINT8, PLENUM_NHWC, 4}, {PLENUM_INT8, PLENUM_NHWC, 4},
        {PLENUM_UINT8, PLENUM_NCHW, 3}, {PLENUM_INT8, PLENUM_NCHW, 3},
        {PLENUM_UINT8, PLENUM_NCHW, 4}, {PLENUM_INT8, PLENUM_NCHW, 4},
    };
    uint8_t pixels[W * H * 3], plain[S * S * 3], got[S * S * 4 + 1];
    struct resize *r;
    struct rect need;

    fill(pixels, sizeof(pixels), 0);
    cr_assert(eq(int, resize_create(&r), 0));
    for (int mirror = 0; mirror < 2; mirror++) {
        struct crop crop = {
            .box = {.width = W, .height = H},
            .width = S,
            .height = S,
            .window = {.width = S, .height = S},
            .mirror = mirror,
        };

        /* The plain form, never mirrored, is the reference: others only move bytes. */
        crop.mirror = false;
        cr_assert(eq(int, resize_begin(r, &crop, &stores[0], plain, &need), 0));
        resize_push(r, pixels, W * 3, H);
        crop.mirror = mirror;
        for (size_t i = 0; i < ARRAY_LEN(stores); i++) {
            const struct image_store *s = &stores[i];

            memset(got, 0xEE, sizeof(got));
            cr_assert(eq(int, resize_begin(r, &crop, s, got, &need), 0));
            cr_assert(need.left == 0 && need.top == 0 && need.width == W && need.height == H);
            for (uint32_t y = 0; y < H; y++)
                resize_push(r, pixels + y * W * 3, W * 3, 1);
            cr_assert(resize_done(r));
            for (uint32_t y = 0; y < S; y++)
                for (uint32_t x = 0; x < S; x++)
                    for (uint32_t c = 0; c < s->channels; c++) {
                        uint32_t from = mirror ? S - 1 - x : x;
                        int want = c == 3 ? 128 : plain[(y * S + from) * 3 + c];
                        size_t at = s->layout == PLENUM_NHWC ? (y * S + x) * s->channels + c
                                                             : (c * S + y) * S + x;

                        if (s->dtype == PLENUM_INT8)
                            cr_assert(eq(int, (int8_t)got[at], want - 128));
                        else
                            cr_assert(eq(int, got[at], want));
                    }
            cr_expect(eq(int, got[S * S * s->channels], 0xEE), "nothing is written behind");
        }
    }
    resize_destroy(r);
}

/* SPDX-License-Identifier: MIT */
/* Checks that each of several views from one decode is bit-equal to a rendering of that view
 * alone. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/image.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/random_pipeline.h"

enum { IMAGES = 6 };

static const struct image_store stores[] = {{PLENUM_UINT8, PLENUM_NHWC, 3},
                                            {PLENUM_INT8, PLENUM_NCHW, 3},
                                            {PLENUM_INT8, PLENUM_NHWC, 4},
                                            {PLENUM_UINT8, PLENUM_NCHW, 4}};

static size_t bytes_of(const struct pipeline *p, const struct image_store *store)
{
    return (size_t)p->width * p->height * store->channels;
}

/* Choose random pipelines, either all with the word exif or all without. */
static void choose(uint64_t number, bool exif, struct pipeline ret[IMAGES])
{
    for (uint32_t n = 0, tried = 0; n < IMAGES; tried++) {
        char text[RANDOM_PIPELINE_MAX];

        random_pipeline(number * 100 + tried, text);
        if (pipeline_parse(text, &ret[n], NULL) < 0 || pipeline_mixes(&ret[n]))
            continue;
        ret[n++].exif = exif;
    }
}

/* Render several views of a file at once, and each of them alone with another decoder. `number`
 * selects how many. Returns whether the file is bad. */
static bool compare(struct image_decoder *together, struct image_decoder *alone,
                    const struct pipeline *pipelines, uint64_t number, const uint8_t *bytes,
                    size_t len)
{
    const struct image_store *store = &stores[number % ARRAY_LEN(stores)];
    uint32_t count = 1 + (uint32_t)(number % IMAGES);
    struct image_view views[IMAGES];
    bool bad = false;
    int r;

    for (uint32_t i = 0; i < count; i++)
        views[i] = (struct image_view){
            .pipeline = &pipelines[i],
            .draw = {.seed = number, .epoch = 3, .position = 5, .view = i},
            .dst = malloc(bytes_of(&pipelines[i], store)),
        };
    r = image_render_views(together, views, count, store, &(struct image_file){bytes, len}, NULL);
    cr_assert(r == 0 || r == -EBADMSG);
    for (uint32_t i = 0; i < count; i++) {
        size_t size = bytes_of(&pipelines[i], store);
        uint8_t *want = malloc(size);
        int got = image_render(
            alone,
            &(struct image_view){.pipeline = &pipelines[i], .draw = views[i].draw, .dst = want},
            store, &(struct image_file){bytes, len}, NULL);

        bad = bad || got < 0;
        if (r == 0)
            cr_assert(got == 0 && memcmp(want, views[i].dst, size) == 0,
                      "number %llu, image %u of %u, %s", (unsigned long long)number, i, count,
                      pipelines[i].text);
        free(want);
        free(views[i].dst);
    }
    cr_assert(eq(int, r < 0, bad), "a file that is bad for one view is bad for all views, and "
                                   "vice versa");
    return bad;
}

Test(views, each_equals_the_pipeline_alone)
{
    static const uint32_t sizes[][2] = {{300, 217}, {64, 90}, {9, 200}, {1, 1}, {131, 99}};
    static const char *const kernels[] = {NULL, "portable"};
    static struct pipeline pipelines[IMAGES];

    for (size_t k = 0; k < ARRAY_LEN(kernels); k++) {
        struct image_decoder *together, *alone;

        cr_assert(eq(int, image_decoder_create(&together), 0));
        cr_assert(eq(int, image_decoder_create(&alone), 0));
        if (kernels[k])
            cr_assert(eq(int, image_decoder_use_kernels(together, kernels[k]), 0));
        for (uint64_t number = 0; number < 120; number++) {
            struct made_jpeg spec = made_kinds[number % made_kinds_count];
            struct made m;

            choose(number, number % 2, pipelines);
            spec.width = sizes[number % ARRAY_LEN(sizes)][0];
            spec.height = sizes[number % ARRAY_LEN(sizes)][1];
            spec.orientation = (int)(number % 9);
            m = make_jpeg(&spec);
            (void)compare(together, alone, pipelines, number, m.bytes, m.len);
            free(m.bytes);
        }
        image_decoder_destroy(together);
        image_decoder_destroy(alone);
    }
}

/* Hints that were found with several views serve a single view, and vice versa. */
Test(views, tiles_change_nothing)
{
    static struct pipeline pipelines[IMAGES];
    struct made_jpeg spec = {.name = "photo", .width = 500, .height = 375, .colour = MADE_COLOUR};
    struct made m = make_jpeg(&spec);
    struct image_decoder *noting, *alone;
    uint8_t *hint = NULL;
    size_t len = 0;

    cr_assert(eq(int, image_decoder_create(&noting), 0));
    cr_assert(eq(int, image_decoder_create(&alone), 0));
    for (uint64_t number = 0; number < 60; number++) {
        struct image_tiles tiles = {.hint = hint, .len = len};

        choose(number, false, pipelines);
        image_decoder_use_tiles(noting, &tiles);
        (void)compare(noting, alone, pipelines, number, m.bytes, m.len);
        image_decoder_use_tiles(noting, NULL);
        if (!tiles.found)
            continue;
        hint = realloc(hint, tiles.found_len);
        memcpy(hint, tiles.found, tiles.found_len);
        len = tiles.found_len;
    }
    cr_expect(gt(sz, len, 0));
    free(hint);
    free(m.bytes);
    image_decoder_destroy(noting);
    image_decoder_destroy(alone);
}

/* A truncated file is bad for all views if any of them needs the missing data, and otherwise good
 * for all. */
Test(views, damage_is_bad_for_all_or_none)
{
    static struct pipeline pipelines[IMAGES];
    struct made_jpeg spec = {.name = "photo", .width = 200, .height = 150, .colour = MADE_COLOUR};
    struct made m = make_jpeg(&spec);
    struct image_decoder *together, *alone;
    uint32_t bad = 0, good = 0;

    cr_assert(eq(int, image_decoder_create(&together), 0));
    cr_assert(eq(int, image_decoder_create(&alone), 0));
    for (uint64_t number = 0; number < 400; number++) {
        bool is_bad;

        choose(number, false, pipelines);
        is_bad = compare(together, alone, pipelines, number, m.bytes,
                         m.len - m.len * (number % 50) / 90);
        bad += is_bad;
        good += !is_bad;
    }
    cr_expect(gt(u32, bad, 20));
    cr_expect(gt(u32, good, 20));
    free(m.bytes);
    image_decoder_destroy(together);
    image_decoder_destroy(alone);
}

/* The first image has the draws of a sample without views; each other image has different draws. */
Test(views, each_image_has_its_own_draws)
{
    struct image_draw one = {.seed = 7, .epoch = 2, .position = 11}, other = one;
    struct philox_block a, b = philox_draw(7, 11, 2, DRAW_CROP, 0);

    a = image_draw_words(&one, DRAW_CROP, 0);
    cr_expect(eq(int, memcmp(&a, &b, sizeof(a)), 0));
    for (other.view = 1; other.view < 64; other.view++) {
        a = image_draw_words(&other, DRAW_CROP, 0);
        b = philox4x32_10((struct philox_block){{11, 2, DRAW_CROP + 65536 * other.view, 0}}, 7, 0);
        cr_expect(eq(int, memcmp(&a, &b, sizeof(a)), 0), "docs/pixels.md defines it");
    }
}

/* SPDX-License-Identifier: MIT */
/* Checks that our own code allocates no more memory after some images. Calls are wrapped only in
 * objects that are linked in, which are ours; libjpeg, libpng, libwebp and libavif are shared
 * libraries and keep the real calls. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "tests/loader/image/made.h"

static bool watching, failing;
static uint32_t calls, fail_at;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static bool refuse(void)
{
    if (!watching)
        return false;
    calls++;
    return failing && calls == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse() ? NULL : __real_aligned_alloc(alignment, size);
}

static struct pipeline parse(const char *text)
{
    struct pipeline p;

    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

Test(allocation, nothing_per_image_after_warm_up)
{
    enum { COUNT = 24, SIDE = 64 };
    static const struct image_store stores[] = {{PLENUM_INT8, PLENUM_NHWC, 3},
                                                {PLENUM_UINT8, PLENUM_NCHW, 4}};
    struct pipeline pipelines[] = {parse("rrc(64) flip(0.5)"), parse("resize(80) center_crop(64)"),
                                   parse("rrc(20) flip(0.5)"), parse("exif rrc(64)")};
    static uint8_t pixels[SIDE * SIDE * 4];
    struct image_decoder *decoder;
    struct made made[COUNT];
    uint32_t warm_up = 0, num_packed = 0;

    for (uint32_t i = 0; i < COUNT; i++) {
        struct made_jpeg spec = made_kinds[i % made_kinds_count];

        spec.width = 100 + 7 * i;
        spec.height = 300 - 5 * i;
        spec.orientation = (int)(i % 9);
        made[i] = make_jpeg(&spec);
    }
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    /* pack every third image: packed images are read in part */
    for (uint32_t i = 0; i < COUNT; i += 3) {
        struct pack_result packed;

        cr_assert(
            eq(int,
               image_pack(decoder, &(struct image_file){made[i].bytes, made[i].len}, &packed, NULL),
               0));
        if (!packed.bytes)
            continue;
        num_packed++;
        free(made[i].bytes);
        made[i] = (struct made){packed.bytes, packed.len};
    }
    cr_assert(num_packed > 0);
    for (uint32_t round = 0; round < 30; round++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            struct image_draw draw = {.seed = 1, .epoch = round % 10, .position = i};
            /* Every fifth file is bad, and decoding it ends in a longjmp(). */
            size_t len = i % 5 == 4 ? made[i].len / 2 : made[i].len;
            struct plenum_error err;

            watching = true;
            (void)image_render(
                decoder,
                &(struct image_view){.pipeline = &pipelines[(i + round) % ARRAY_LEN(pipelines)],
                                     .draw = draw,
                                     .dst = pixels},
                &stores[i % 2], &(struct image_file){made[i].bytes, len}, &err);
            watching = false;
        }
        if (round == 29)
            break;
        if (round < 20) { /* round 20 + k repeats round k */
            warm_up += calls;
            calls = 0;
        }
    }
    cr_expect(warm_up > 0, "allocations are counted");
    cr_expect(warm_up < 100, "%u allocations while buffers grew", warm_up);
    cr_expect(eq(u32, calls, 0));
    image_decoder_destroy(decoder);
    for (uint32_t i = 0; i < COUNT; i++)
        free(made[i].bytes);
}

Test(allocation, each_allocation_may_fail)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 4};
    struct pipeline p = parse("exif rrc(16)");
    struct made_jpeg jpeg = {.width = 50, .height = 60, .colour = MADE_COLOUR, .orientation = 6};
    struct made_jpeg scans = {
        .width = 50, .height = 60, .colour = MADE_COLOUR, .progressive = true};
    struct made_png png = {
        .width = 50, .height = 60, .colour_type = 2, .depth = 8, .interlaced = true};
    struct made_ppm ppm = {.width = 50, .height = 60, .orientation = 6};
    struct made_ppm grey = {.width = 50, .height = 60, .grey = true};
#ifdef HAVE_WEBP
    struct made_webp webp = {
        .width = 50, .height = 60, .orientation = 6, .animated = true, .left = 2};
#endif
#ifdef HAVE_AVIF
    struct made_avif avif = {.width = 50, .height = 60, .turn = 1};
#endif
    struct made made[] = {
        make_jpeg(&jpeg), make_jpeg(&scans), make_png(&png), make_ppm(&ppm), make_ppm(&grey),
#ifdef HAVE_WEBP
        make_webp(&webp),
#endif
#ifdef HAVE_AVIF
        make_avif(&avif),
#endif
    };
    struct image_draw draw = {0};
    uint8_t pixels[16 * 16 * 4];

    for (size_t i = 0; i < ARRAY_LEN(made); i++) {
        int r = -ENOMEM;

        for (fail_at = 1; r == -ENOMEM; fail_at++) {
            struct image_decoder *decoder = NULL;
            struct plenum_error err = {""};

            cr_assert(fail_at < 200);
            watching = failing = true;
            calls = 0;
            r = image_decoder_create(&decoder);
            if (r == 0) {
                r = image_render(decoder,
                                 &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                                 &store, &(struct image_file){made[i].bytes, made[i].len}, &err);
                watching = false;
                cr_assert(r == 0 || err.text[0], "a failed call sets a message");
            }
            watching = failing = false;
            cr_assert(r == 0 || r == -ENOMEM, "%d: %s", r, err.text);
            image_decoder_destroy(decoder);
        }
        cr_expect(fail_at > 5);
        free(made[i].bytes);
    }
}

/* A rendering that runs out of memory half-way must not change later ones. */
Test(allocation, a_failure_leaves_nothing_behind)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct pipeline small = parse("rrc(16)"), large = parse("rrc(64)");
    struct made_jpeg spec = {.width = 300, .height = 200, .colour = MADE_COLOUR};
    struct made made = make_jpeg(&spec);
    struct image_draw draw = {.seed = 3};
    static uint8_t want[64 * 64 * 3], got[64 * 64 * 3];
    struct image_decoder *decoder;
    int r = -ENOMEM;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    cr_assert(eq(int,
                 image_render(decoder,
                              &(struct image_view){.pipeline = &large, .draw = draw, .dst = want},
                              &store, &(struct image_file){made.bytes, made.len}, NULL),
                 0));
    image_decoder_destroy(decoder);
    for (fail_at = 1; r == -ENOMEM; fail_at++) {
        cr_assert(eq(int, image_decoder_create(&decoder), 0));
        cr_assert(
            eq(int,
               image_render(decoder,
                            &(struct image_view){.pipeline = &small, .draw = draw, .dst = got},
                            &store, &(struct image_file){made.bytes, made.len}, NULL),
               0));
        calls = 0;
        watching = failing = true;
        r = image_render(decoder,
                         &(struct image_view){.pipeline = &large, .draw = draw, .dst = got}, &store,
                         &(struct image_file){made.bytes, made.len}, NULL);
        watching = failing = false;
        cr_assert(
            eq(int,
               image_render(decoder,
                            &(struct image_view){.pipeline = &large, .draw = draw, .dst = got},
                            &store, &(struct image_file){made.bytes, made.len}, NULL),
               0));
        cr_expect(memcmp(want, got, sizeof(want)) == 0, "after allocation %u failed", fail_at);
        image_decoder_destroy(decoder);
    }
    cr_expect(fail_at > 3);
    free(made.bytes);
}

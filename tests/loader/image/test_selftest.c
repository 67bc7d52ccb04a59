/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/builtin.h"
#include "loader/image/image.h"

#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

Test(selftest, this_machine_renders_the_defined_pixels)
{
    struct plenum_error err = {""};

    for (int version = 0; version < PIPELINE_VERSIONS; version++)
        cr_expect(eq(int, image_self_test((enum pipeline_version)version, &err), 0), "%s",
                  err.text);
}

/* The golden hashes are meaningful because the oracle agrees with the pixels that were hashed. */
Test(selftest, the_oracle_agrees_on_the_built_in_images)
{
    static const char *const pipelines[] = {
        "rrc(32) flip(0.5)",
        "resize(40) center_crop(32)",
    };
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct image_decoder *decoder;
    char why[200];

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < builtin_images_count; i++)
        for (uint32_t k = 0; k < 6 * ARRAY_LEN(pipelines); k++) {
            struct image_draw draw = {.seed = 2022, .epoch = 1, .position = k % 6};
            struct pipeline p;

            cr_assert(eq(int, pipeline_parse(pipelines[k / 6], &p, NULL), 0));
            cr_expect(oracle_agrees(decoder,
                                    &(struct rendering){&p, &draw, &store, builtin_images[i].bytes,
                                                        builtin_images[i].len},
                                    why, NULL, NULL),
                      "%s: %s", builtin_images[i].name, why);
        }
    image_decoder_destroy(decoder);
}

static const struct {
    const char *text, *without; /* a policy, and the same policy without its interpolation */
    enum pipeline_reading reading;
    uint64_t golden;
} policies[] = {
    {"rand_augment(2, 9, interpolation=nearest)", "rand_augment(2, 9)", PIPELINE_READING_NEAREST,
     0xf45c959d1e37ff27},
    {"rand_augment(2, 9, interpolation=bilinear)", "rand_augment(2, 9)", PIPELINE_READING_BILINEAR,
     0x0e842ea1416e991d},
    {"rand_augment(2, 9, mstd=0.5, inc=1, interpolation=nearest)",
     "rand_augment(2, 9, mstd=0.5, inc=1)", PIPELINE_READING_NEAREST, 0x6d88d0961c5e2681},
    {"rand_augment(2, 9, mstd=0.5, inc=1, interpolation=bilinear)",
     "rand_augment(2, 9, mstd=0.5, inc=1)", PIPELINE_READING_BILINEAR, 0xee35b177f547fe7c},
    {"trivial_augment_wide(interpolation=nearest)", "trivial_augment_wide",
     PIPELINE_READING_NEAREST, 0xebc6a7d05a4ebda9},
    {"trivial_augment_wide(interpolation=bilinear)", "trivial_augment_wide",
     PIPELINE_READING_BILINEAR, 0x07551117499316a8},
    {"auto_augment(cifar10, interpolation=nearest)", "auto_augment(cifar10)",
     PIPELINE_READING_NEAREST, 0x1110ca26f9d95279},
    {"auto_augment(cifar10, interpolation=bilinear)", "auto_augment(cifar10)",
     PIPELINE_READING_BILINEAR, 0xb8520dbb1a1193c1},
    {"augmix(interpolation=nearest)", "augmix", PIPELINE_READING_NEAREST, 0x55ace23b611e33b1},
    {"augmix(interpolation=bilinear)", "augmix", PIPELINE_READING_BILINEAR, 0xf12f2e30be4aafba},
};

static struct pipeline with_policy(const char *policy)
{
    char text[200];
    struct pipeline p;

    (void)snprintf(text, sizeof(text), "rrc(32) flip(0.5) %s", policy);
    cr_assert(eq(int, pipeline_parse(text, &p, NULL), 0), "%s", text);
    return p;
}

/* Returns the hash of six renderings of each built-in image, all at different positions. Checks
 * that the oracle, to which we pass the interpolation, agrees with each rendering. */
static uint64_t hash_policy(struct image_decoder *decoder, size_t policy)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    struct pipeline p = with_policy(policies[policy].text),
                    plain = with_policy(policies[policy].without);
    uint8_t got[32 * 32 * 3], want[32 * 32 * 3];
    XXH3_state_t state;

    plain.ops[plain.ops_count - 1].policy.reading = policies[policy].reading;
    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < builtin_images_count; i++)
        for (uint32_t k = 0; k < 6; k++) {
            const struct builtin_image *image = &builtin_images[i];
            struct image_draw draw = {.seed = 2022, .epoch = 1, .position = (uint32_t)i * 6 + k};

            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = got},
                                &store, &(struct image_file){image->bytes, image->len}, NULL),
                   0));
            cr_assert(
                eq(int, oracle_render(&plain, &draw, &store, image->bytes, image->len, want), 0));
            cr_expect(eq(int, memcmp(got, want, sizeof(got)), 0), "%s: %s, position %u",
                      policies[policy].text, image->name, draw.position);
            (void)XXH3_64bits_update(&state, got, sizeof(got));
        }
    return XXH3_64bits_digest(&state);
}

static bool is_documented(const struct made *page, const char *text, uint64_t golden)
{
    char line[200];

    (void)snprintf(line, sizeof(line), "| `%s` | %016llx |", text, (unsigned long long)golden);
    return memmem(page->bytes, page->len, line, strlen(line)) != NULL;
}

/* Each policy has different pixels with each of its two interpolations. */
Test(selftest, interpolations_of_policies_have_golden_pixels)
{
    const char *top = getenv("top_srcdir");
    char *path = str_format("%s/docs/pixels.md", top ? top : "../..");
    struct made page = read_file(path);
    struct image_decoder *decoder;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        uint64_t golden = policies[i].golden;

        cr_expect(eq(u64, hash_policy(decoder, i), golden), "%s", policies[i].text);
        cr_expect(i % 2 == 0 || golden != policies[i - 1].golden, "%s", policies[i].text);
        cr_expect(is_documented(&page, policies[i].text, golden), "%s", policies[i].text);
    }
    image_decoder_destroy(decoder);
    free(page.bytes);
    free(path);
}

/* Independent implementations of the pipeline use these files. */
Test(selftest, the_golden_files_are_the_built_in_images)
{
    static const char *const names[] = {"420",         "422", "444",       "grey",
                                        "progressive", "440", "arithmetic"};
    const char *top = getenv("top_srcdir");

    cr_assert(eq(sz, ARRAY_LEN(names), builtin_images_count));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path =
            str_format("%s/tests/loader/image/golden/%s.jpg", top ? top : "../..", names[i]);
        struct made m = read_file(path);

        cr_expect(eq(sz, m.len, builtin_images[i].len), "%s", path);
        cr_expect(m.len == builtin_images[i].len &&
                      memcmp(m.bytes, builtin_images[i].bytes, m.len) == 0,
                  "%s", path);
        free(m.bytes);
        free(path);
    }
}

Test(selftest, another_version_is_refused)
{
    struct plenum_error err = {""};

    cr_expect(eq(int, image_self_test((enum pipeline_version)77, &err), -EPROTO));
    cr_expect(err.text[0] != 0);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util.h"
#include "loader/image/builtin.h"
#include "loader/image/image.h"

#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

Test(selftest, this_machine_gives_the_pixels_of_the_definition)
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
            cr_expect(oracle_agrees(decoder, &p, &draw, &store, builtin_images[i].bytes,
                                    builtin_images[i].len, why, NULL, NULL),
                      "%s: %s", builtin_images[i].name, why);
        }
    image_decoder_destroy(decoder);
}

/* Second implementations use the files. */
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

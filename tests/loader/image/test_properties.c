/* SPDX-License-Identifier: MIT */
/* Tests with random pipelines what must hold for every pipeline. PLENUM_PIPELINES is the number of
 * pipelines that are rendered (600 by default). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/image/image.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/random_pipeline.h"

static const struct image_store stores[] = {
    {PLENUM_UINT8, PLENUM_NHWC, 3},
    {PLENUM_INT8, PLENUM_NHWC, 4},
    {PLENUM_UINT8, PLENUM_NCHW, 3},
    {PLENUM_INT8, PLENUM_NCHW, 4},
};

static uint64_t pipelines(void)
{
    const char *asked = getenv("PLENUM_PIPELINES");

    return asked && *asked ? strtoull(asked, NULL, 10) : 600;
}

Test(properties, renderer_and_oracle_agree, .timeout = 600)
{
    struct image_decoder *decoder;
    char text[RANDOM_PIPELINE_MAX], why[200];
    uint64_t parsed = 0;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (uint64_t i = 0; i < pipelines(); i++) {
        struct made_jpeg spec = made_kinds[i % made_kinds_count];
        struct plenum_error err = {""};
        struct pipeline p;
        struct made m;

        random_pipeline(i, text);
        if (pipeline_parse(text, &p, &err) < 0) {
            cr_assert(strstr(err.text, "too long") || strstr(err.text, "more than"), "%s: %s", text,
                      err.text);
            continue;
        }
        parsed++;
        spec.width = 20 + (uint32_t)(i * 7 % 90);
        spec.height = 20 + (uint32_t)(i * 13 % 70);
        spec.orientation = (int)(i % 9);
        m = make_jpeg(&spec);
        for (uint32_t position = 0; position < 4; position++) {
            struct image_draw draw = {.seed = i, .epoch = 3, .position = position};

            cr_assert(oracle_agrees(decoder,
                                    &(struct rendering){&p, &draw,
                                                        &stores[(i + position) % ARRAY_LEN(stores)],
                                                        m.bytes, m.len},
                                    why, NULL, NULL),
                      "pipeline %llu, %s, position %u: %s", (unsigned long long)i, text, position,
                      why);
        }
        free(m.bytes);
    }
    cr_assert(gt(u64, parsed, pipelines() * 3 / 4));
    image_decoder_destroy(decoder);
}

Test(properties, a_canonical_text_parses_to_itself)
{
    char text[RANDOM_PIPELINE_MAX];

    for (uint64_t i = 0; i < 20 * pipelines(); i++) {
        struct pipeline p, again;

        random_pipeline(i, text);
        if (pipeline_parse(text, &p, NULL) < 0)
            continue;
        cr_assert(eq(int, pipeline_parse(p.text, &again, NULL), 0), "%s", p.text);
        cr_assert(eq(str, again.text, p.text));
    }
}

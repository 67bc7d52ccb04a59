/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

/* Compare one rendering; `why` stays empty if it is right. */
static int compare(struct image_decoder *decoder, const struct pipeline *pipeline,
                   const struct image_draw *draw, const struct image_store *store,
                   const uint8_t *bytes, size_t len, int decision, const uint8_t *want,
                   uint8_t *got, size_t size, char *why, struct plenum_error *err)
{
    size_t at = 0;
    int r;

    memset(got, 0xA5, size + GUARD);
    err->text[0] = 0;
    r = image_render(decoder, &(struct image_view){.pipeline = pipeline, .draw = *draw, .dst = got},
                     store, &(struct image_file){bytes, len}, err);
    if (r != decision)
        (void)snprintf(why, 200, "decision %d, the oracle's is %d; %.120s", r, decision, err->text);
    else if (r < 0 && !err->text[0])
        (void)snprintf(why, 200, "it is bad without a sentence");
    else if (r == 0 && memcmp(want, got, size) != 0 && oracle_judges(bytes, len)) {
        while (want[at] == got[at])
            at++;
        (void)snprintf(why, 200, "byte %zu is %d, the oracle's %d", at, got[at], want[at]);
    }
    for (size_t i = 0; i < GUARD && !why[0]; i++)
        if (got[size + i] != 0xA5)
            (void)snprintf(why, 200, "it writes %zu bytes behind its place", i + 1);
    return r;
}

bool oracle_agrees(struct image_decoder *decoder, const struct pipeline *pipeline,
                   const struct image_draw *draw, const struct image_store *store,
                   const uint8_t *bytes, size_t len, char *why, int *ret, struct plenum_error *err)
{
    size_t size = (size_t)pipeline->width * pipeline->height * store->channels;
    uint8_t *want = malloc(size), *got = malloc(size + GUARD);
    uint8_t *exact = malloc(len + !len); /* exact size: sanitizers notice a read past the end */
    struct plenum_error sentence = {""};
    uint32_t sets = 0;
    int decision, r = 0;

    memcpy(exact, bytes, len);
    decision = oracle_render(pipeline, draw, store, bytes, len, want);
    why[0] = 0;
    while (image_kernels(sets))
        sets++;
    for (uint32_t k = sets; k-- > 0 && !why[0];) {
        size_t used;

        (void)image_decoder_use_kernels(decoder, image_kernels(k));
        r = compare(decoder, pipeline, draw, store, exact, len, decision, want, got, size, why,
                    &sentence);
        used = strlen(why);
        if (used > 0)
            (void)snprintf(why + used, 200 - used, " (%s)", image_kernels(k));
    }
    if (ret)
        *ret = r;
    if (err)
        *err = sentence;
    free(exact);
    free(want);
    free(got);
    return !why[0];
}

bool oracle_agrees_in_all(struct image_decoder *decoder, const char *const *pipelines,
                          uint32_t draws, uint64_t seed, const struct made *file, char *why)
{
    static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};
    char sentence[200];

    for (uint32_t i = 0; pipelines[i]; i++) {
        struct pipeline pipeline;

        if (pipeline_parse(pipelines[i], &pipeline, NULL) < 0) {
            (void)snprintf(why, 300, "no pipeline: %.200s", pipelines[i]);
            return false;
        }
        for (uint32_t k = 0; k < draws; k++) {
            struct image_draw draw = {.seed = seed, .position = k};
            struct plenum_error err;
            int r;

            if (oracle_agrees(decoder, &pipeline, &draw, &plain, file->bytes, file->len, sentence,
                              &r, &err) &&
                r == 0)
                continue;
            (void)snprintf(why, 300, "%.60s, draw %u: %.200s", pipelines[i], k,
                           sentence[0] ? sentence : err.text);
            return false;
        }
    }
    return true;
}

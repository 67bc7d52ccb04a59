/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/agree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"

enum { GUARD = 64 };

/* The oracle's decision and pixels, and room for ours. */
struct answer {
    int decision;
    size_t size;
    uint8_t *want; /* [size] */
    uint8_t *got;  /* [size + GUARD] */
};

/* Compare one rendering. `why` stays empty if it is correct. Returns what image_render()
 * returned. */
static int compare(struct image_decoder *decoder, const struct rendering *of,
                   const struct answer *answer, char *why, struct plenum_error *err)
{
    const uint8_t *want = answer->want;
    uint8_t *got = answer->got;
    size_t size = answer->size, at = 0;
    int r;

    memset(got, 0xA5, size + GUARD);
    err->text[0] = 0;
    r = image_render(decoder,
                     &(struct image_view){.pipeline = of->pipeline, .draw = *of->draw, .dst = got},
                     of->store, &(struct image_file){of->bytes, of->len}, err);
    if (r != answer->decision)
        (void)snprintf(why, 200, "decision %d, the oracle's is %d; %.120s", r, answer->decision,
                       err->text);
    else if (r < 0 && !err->text[0])
        (void)snprintf(why, 200, "it is bad without a message");
    else if (r == 0 && memcmp(want, got, size) != 0 && oracle_judges(of->bytes, of->len)) {
        while (want[at] == got[at])
            at++;
        (void)snprintf(why, 200, "byte %zu is %d, the oracle's %d", at, got[at], want[at]);
    }
    for (size_t i = 0; i < GUARD && !why[0]; i++)
        if (got[size + i] != 0xA5)
            (void)snprintf(why, 200, "it writes %zu bytes beyond the end of its buffer", i + 1);
    return r;
}

bool oracle_agrees(struct image_decoder *decoder, const struct rendering *of, char *why, int *ret,
                   struct plenum_error *err)
{
    size_t size = (size_t)of->pipeline->width * of->pipeline->height * of->store->channels;
    struct answer answer = {.size = size, .want = malloc(size), .got = malloc(size + GUARD)};
    /* A copy of exactly this size, so that sanitizers detect a read past the end. */
    uint8_t *exact = malloc(of->len + !of->len);
    struct plenum_error sentence = {""};
    struct rendering ours = *of;
    uint32_t sets = 0;
    int r = 0;

    memcpy(exact, of->bytes, of->len);
    ours.bytes = exact;
    answer.decision =
        oracle_render(of->pipeline, of->draw, of->store, of->bytes, of->len, answer.want);
    why[0] = 0;
    while (image_kernels(sets))
        sets++;
    for (uint32_t k = sets; k-- > 0 && !why[0];) {
        size_t used;

        (void)image_decoder_use_kernels(decoder, image_kernels(k));
        r = compare(decoder, &ours, &answer, why, &sentence);
        used = strlen(why);
        if (used > 0)
            (void)snprintf(why + used, 200 - used, " (%s)", image_kernels(k));
    }
    if (ret)
        *ret = r;
    if (err)
        *err = sentence;
    free(exact);
    free(answer.want);
    free(answer.got);
    return !why[0];
}

bool oracle_agrees_on_damage(struct image_decoder *decoder, struct damage *d, char *why)
{
    static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const struct made *m = d->file;
    uint8_t *bytes = malloc(m->len);
    char sentence[200] = "";

    for (uint32_t i = 0; i < d->count && !sentence[0]; i++) {
        struct philox_block dice = philox_draw(8, i, d->key, DRAW_SEED, 0);
        struct image_draw draw = {.seed = 5, .position = i};
        bool in_head = d->head && i % d->head_of == 0 && m->len > d->head;
        uint32_t width, height;
        uint8_t orientation;
        int r;

        memcpy(bytes, m->bytes, m->len);
        bytes[philox_below(dice.word[0], in_head ? d->head : (uint32_t)m->len)] =
            (uint8_t)dice.word[1];
        if (oracle_header(bytes, m->len, &width, &height, &orientation) == 0 &&
            (uint64_t)width * height > 1 << 18)
            continue;
        if (!oracle_agrees(decoder, &(struct rendering){d->pipeline, &draw, &plain, bytes, m->len},
                           sentence, &r, NULL))
            (void)snprintf(why, 300, "damage %u: %s", i, sentence);
        d->good += r == 0;
        d->bad += r == -EBADMSG;
    }
    free(bytes);
    return !sentence[0];
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

            if (oracle_agrees(decoder,
                              &(struct rendering){&pipeline, &draw, &plain, file->bytes, file->len},
                              sentence, &r, &err) &&
                r == 0)
                continue;
            (void)snprintf(why, 300, "%.60s, draw %u: %.200s", pipelines[i], k,
                           sentence[0] ? sentence : err.text);
            return false;
        }
    }
    return true;
}

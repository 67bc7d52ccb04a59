#include "config.h"

#include "tests/loader/image/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool oracle_agrees(struct image_decoder *decoder, const struct pipeline *pipeline,
                   const struct image_draw *draw, const struct image_store *store,
                   const uint8_t *bytes, size_t len, char *why, int *ret, struct plenum_error *err)
{
    enum { GUARD = 64 };
    size_t size = (size_t)pipeline->side * pipeline->side * store->channels, at = 0;
    uint8_t *want = malloc(size), *got = malloc(size + GUARD);
    uint8_t *exact = malloc(len + !len); /* so that a sanitizer sees a byte read too far */
    struct plenum_error sentence = {""};
    int a, b;

    memcpy(exact, bytes, len);
    memset(got, 0xA5, size + GUARD);
    a = oracle_render(pipeline, draw, store, bytes, len, want);
    b = image_render(decoder, pipeline, draw, store, exact, len, got, &sentence);
    if (ret)
        *ret = b;
    if (err)
        *err = sentence;
    why[0] = 0;
    if (a != b)
        (void)snprintf(why, 200, "decision %d, the oracle's is %d; %.120s", b, a, sentence.text);
    else if (b < 0 && !sentence.text[0])
        (void)snprintf(why, 200, "it is bad without a sentence");
    else if (b == 0 && memcmp(want, got, size) != 0) {
        while (want[at] == got[at])
            at++;
        (void)snprintf(why, 200, "byte %zu is %d, the oracle's %d", at, got[at], want[at]);
    }
    for (size_t i = 0; i < GUARD && !why[0]; i++)
        if (got[size + i] != 0xA5)
            (void)snprintf(why, 200, "it writes %zu bytes behind its place", i + 1);
    free(exact);
    free(want);
    free(got);
    return !why[0];
}

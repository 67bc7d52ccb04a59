/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/streamhash.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"

enum { CHUNK = 3 * 1024 };

/* Add the bytes of pixels as they are stored, with each bit of `flip` inverted. */
static void add_bytes(XXH3_state_t *state, const uint8_t *pixels, size_t len, uint8_t flip)
{
    uint64_t chunk[CHUNK / sizeof(uint64_t)], mask = flip * UINT64_C(0x0101010101010101);

    for (size_t at = 0, n; at < len; at += n) {
        n = min_u64(len - at, CHUNK);
        chunk[(n - 1) / sizeof(mask)] = 0; /* may be filled only in part */
        memcpy(chunk, pixels + at, n);
        for (size_t i = 0; i < (n + sizeof(mask) - 1) / sizeof(mask); i++)
            chunk[i] ^= mask;
        (void)XXH3_64bits_update(state, chunk, n);
    }
}

static void add_image(XXH3_state_t *state, const struct streamhash_image *image,
                      const uint8_t *pixels)
{
    size_t area = (size_t)image->width * image->height;
    uint8_t flip = image->dtype == PLENUM_INT8 ? 0x80 : 0; /* int8 and uint8 differ in one bit */
    size_t next_channel = image->layout == PLENUM_NCHW ? area : 1;
    size_t next_pixel = image->layout == PLENUM_NCHW ? 1 : image->channels;
    uint8_t chunk[CHUNK];
    size_t n = 0;

    assert(image->channels >= 3);
    if (next_pixel == 3) { /* already in the form that is hashed */
        add_bytes(state, pixels, 3 * area, flip);
        return;
    }
    for (size_t i = 0; i < area; i++) {
        const uint8_t *p = pixels + i * next_pixel;

        chunk[n++] = p[0] ^ flip;
        chunk[n++] = p[next_channel] ^ flip;
        chunk[n++] = p[2 * next_channel] ^ flip;
        assert(n <= sizeof(chunk)); /* a multiple of the three channels */
        if (n == sizeof(chunk)) {
            (void)XXH3_64bits_update(state, chunk, n);
            n = 0;
        }
    }
    (void)XXH3_64bits_update(state, chunk, n);
}

uint64_t streamhash_of(const struct streamhash_sample *sample)
{
    const struct streamhash_mix *mix = sample->mix;
    XXH3_state_t state;
    uint64_t head[3];

    (void)XXH3_64bits_reset(&state);
    head[0] = sample->epoch;
    head[1] = sample->position;
    memcpy(&head[2], &sample->label, sizeof(sample->label));
    (void)XXH3_64bits_update(&state, head, sizeof(head));
    if (mix) {
        (void)XXH3_64bits_update(&state, &mix->label2, sizeof(mix->label2));
        (void)XXH3_64bits_update(&state, &mix->weight, sizeof(mix->weight));
    }
    for (uint32_t i = 0; i < sample->views; i++) {
        const struct streamhash_image *view = &sample->images[i];
        size_t bytes = (size_t)view->width * view->height * view->channels;

        for (uint32_t k = 0; k < view->count; k++)
            add_image(&state, view, (const uint8_t *)view->pixels + k * bytes);
    }
    for (uint32_t i = 0; i < sample->num_fields; i++) {
        const struct streamhash_field *field = &sample->fields[i];

        (void)XXH3_64bits_update(&state, &field->len, sizeof(field->len));
        (void)XXH3_64bits_update(&state, field->bytes, field->len);
    }
    return XXH3_64bits_digest(&state);
}

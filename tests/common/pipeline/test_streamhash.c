/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/pipeline/streamhash.h"
#include "common/util/util.h"

enum { IMAGES = 2, BYTES_MAX = IMAGES * 4 * 41 * 53 };

static uint8_t rgb[BYTES_MAX], stored[BYTES_MAX];

/* Computes the hash by its definition, from uint8 RGB pixels in NHWC. */
static uint64_t plain_hash(uint32_t pixels)
{
    uint64_t head[3] = {1, 2, (uint64_t)-3};
    uint8_t all[sizeof(head) + BYTES_MAX];

    memcpy(all, head, sizeof(head));
    memcpy(all + sizeof(head), rgb, 3 * (size_t)pixels);
    return XXH3_64bits(all, sizeof(head) + 3 * (size_t)pixels);
}

/* Store the images as a stream with these options does. */
static void store(const struct streamhash_image *m)
{
    size_t area = (size_t)m->width * m->height;

    for (size_t i = 0; i < m->count * area; i++)
        for (size_t c = 0; c < m->channels; c++) {
            size_t image = i / area, p = i % area;
            size_t at = m->layout == PLENUM_NCHW ? (image * m->channels + c) * area + p
                                                 : i * m->channels + c;
            uint8_t value = c < 3 ? rgb[3 * i + c] : 77;

            stored[at] = m->dtype == PLENUM_INT8 ? value ^ 0x80 : value;
        }
}

Test(streamhash, does_not_depend_on_how_pixels_are_stored)
{
    static const uint32_t sizes[][2] = {{1, 1}, {3, 1}, {32, 32}, {31, 33}, {41, 53}};

    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i * i / 7);
    for (size_t i = 0; i < ARRAY_LEN(sizes) * 8; i++) {
        struct streamhash_image images = {.pixels = stored,
                                          .count = IMAGES,
                                          .width = sizes[i / 8][0],
                                          .height = sizes[i / 8][1],
                                          .channels = i & 1 ? 4 : 3,
                                          .dtype = i & 2 ? PLENUM_INT8 : PLENUM_UINT8,
                                          .layout = i & 4 ? PLENUM_NCHW : PLENUM_NHWC};
        struct streamhash_sample sample = {
            .epoch = 1, .position = 2, .label = -3, .images = &images, .views = 1};

        store(&images);
        cr_assert(
            eq(u64, streamhash_of(&sample), plain_hash(IMAGES * images.width * images.height)),
            "%ux%u, storage %zu", images.width, images.height, i % 8);
    }
}

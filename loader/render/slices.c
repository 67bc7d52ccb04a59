/* SPDX-License-Identifier: MIT */
/* slices.c - generates pixels at the speed of copying memory.
 *
 * The table holds TABLE_PIXELS pixels. An image of P pixels shows P consecutive ones, starting at a
 * random position and wrapping around at the end. The table exists both as pixels and as planes, so
 * that either layout is copied in runs. int8 is uint8 with the highest bit flipped. */
#include "config.h"

#include "loader/render/slices.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "common/util/util.h"

enum { TABLE_PIXELS = 1 << 20 };

/* Created on first use, and kept as long as the process lives. */
static uint8_t *pixels; /* [TABLE_PIXELS][3] */
static uint8_t *planes; /* [3][TABLE_PIXELS] */
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    uint8_t *p = malloc((size_t)TABLE_PIXELS * 3), *q = malloc((size_t)TABLE_PIXELS * 3);

    if (!p || !q) {
        free(p);
        free(q);
        return;
    }
    for (uint32_t i = 0; i < TABLE_PIXELS; i++) {
        uint32_t word = philox_draw(0, i, 0, DRAW_SLICE, 1).word[0];

        for (uint32_t c = 0; c < 3; c++)
            p[i * 3 + c] = q[c * TABLE_PIXELS + i] = (uint8_t)(word >> 8 * c);
    }
    pixels = p;
    planes = q;
}

/* Copy `len` bytes of a table of `size`, starting at `at` and wrapping around, each XORed with
 * `flip`. */
static void copy(uint8_t *dst, const uint8_t *table, size_t size, size_t at, size_t len,
                 uint8_t flip)
{
    while (len > 0) {
        size_t n = min_u64(len, size - at);

        for (size_t i = 0; i < n; i++)
            dst[i] = table[at + i] ^ flip;
        dst += n;
        len -= n;
        at = 0;
    }
}

int slices_render(const struct image_draw *draw, size_t count, const struct image_store *store,
                  void *dst)
{
    uint8_t flip = store->dtype == PLENUM_INT8 ? 0x80 : 0, *out = dst;
    uint32_t at;

    (void)pthread_once(&made, make_table);
    if (!planes)
        return -ENOMEM;
    at = philox_below(image_draw_words(draw, DRAW_SLICE, 0).word[0], TABLE_PIXELS);
    if (store->layout == PLENUM_NCHW) {
        for (uint32_t c = 0; c < 3; c++)
            copy(out + c * count, planes + (size_t)c * TABLE_PIXELS, TABLE_PIXELS, at, count, flip);
        if (store->channels == 4)
            memset(out + 3 * count, 0x80 ^ flip, count);
    } else if (store->channels == 3) {
        copy(out, pixels, (size_t)TABLE_PIXELS * 3, (size_t)at * 3, count * 3, flip);
    } else {
        for (size_t i = 0; i < count; i++) {
            const uint8_t *p = pixels + (at + i) % TABLE_PIXELS * 3;

            for (uint32_t c = 0; c < 3; c++)
                out[i * 4 + c] = p[c] ^ flip;
            out[i * 4 + 3] = 0x80 ^ flip;
        }
    }
    return 0;
}

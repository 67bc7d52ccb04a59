/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/jpeg/jpeg_huff.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util/util.h"

/* A symbol of an AC table consists of a run of zeros and the size of the value after it, except for
 * these two. */
enum { SYMBOL_EOB = 0x00, SYMBOL_ZRL = 0xF0 };

/* With less compressed data than this, combining symbols takes longer than reading them one by
 * one. */
enum { COMBINE_BYTES = 6 << 10 };

static jpeg_entry entry_of(enum jpeg_huff_kind kind, uint8_t symbol, uint32_t code)
{
    uint32_t size = symbol & 15, step = kind != JPEG_HUFF_DC ? (symbol >> 4) + 1U : 0;

    assert(code >= 1 && code <= 16);
    if (kind == JPEG_HUFF_BAND && size == 0 && symbol != SYMBOL_ZRL) {
        size = symbol >> 4;
        step = JPEG_STEP_EOB;
    } else if (kind == JPEG_HUFF_AC && size == 0) {
        if (symbol == SYMBOL_ZRL)
            return JPEG_RARE;
        step = JPEG_STEP_EOB; /* any other run without a value also ends the block */
    }
    return (code + size) | step << 8 | code << 16 | size << 24;
}

/* Write an entry `times` times, four at once if possible. `times` must be a power of two or 0. */
static jpeg_entry *put(jpeg_entry *to, jpeg_entry entry, uint32_t times)
{
    const jpeg_entry four[4] = {entry, entry, entry, entry};
    jpeg_entry *end = to + times;

    assert((times & (times - 1)) == 0);
    if (times < 4) {
        while (to < end)
            *to++ = entry;
        return end;
    }
    for (; to < end; to += 4)
        memcpy(to, four, sizeof(four));
    return end;
}

/* Generate the codes in order of their lengths (T.81, annex C), which is also their order in
 * `one`. */
static bool fill_codes(struct jpeg_huff *h, enum jpeg_huff_kind kind)
{
    jpeg_entry *to = h->one;
    uint32_t code = 0, at = 0;

    for (uint32_t len = 1; len <= 16; len++, code <<= 1) {
        uint32_t width = len <= JPEG_LOOK ? 1U << (JPEG_LOOK - len) : 0;

        h->first[len] = (int32_t)at - (int32_t)code;
        for (uint32_t i = 0; i < h->counts[len - 1]; i++, code++, at++) {
            jpeg_entry entry = entry_of(kind, h->symbols[at], len);

            if (kind == JPEG_HUFF_DC && h->symbols[at] > 15)
                return false;
            if (code + 1 >= 1U << len) /* no code may consist only of ones */
                return false;
            to = put(to, entry, width);
        }
        h->beyond[len] = (int32_t)(code << (16 - len));
    }
    h->beyond[17] = INT32_MAX;
    assert(at == h->count && to <= h->one + JPEG_LOOKS);
    memset(to, 0, (size_t)(h->one + JPEG_LOOKS - to) * sizeof(*to));
    return true;
}

/* Combine entries of `one`: as many symbols as fit into the 11 bits, and possibly one more whose
 * code fits but whose value does not. */
static void fill_many(struct jpeg_huff *h)
{
    for (uint32_t i = 0; i < JPEG_LOOKS; i++) {
        jpeg_entry all = h->one[i];
        uint32_t length = all & 255, steps = all >> 8 & 255, before = 0;

        while (length < JPEG_LOOK && steps < 64 && all != JPEG_RARE) {
            jpeg_entry next = h->one[i << length & (JPEG_LOOKS - 1)];

            if (next == JPEG_RARE || (next >> 16 & 255) > JPEG_LOOK - length)
                break;
            before = steps;
            steps += next >> 8 & 255;
            length += next & 255;
        }
        h->many[i] = all == JPEG_RARE ? JPEG_RARE : length | steps << 8 | before << 16;
    }
}

/* Returns the value after a code, if all of its bits are among the 11. */
static int32_t value_in(uint32_t bits, jpeg_entry entry)
{
    return jpeg_value((uint64_t)bits << (64 - JPEG_LOOK), entry >> 16 & 255, entry >> 24);
}

static void fill_two(struct jpeg_huff *h)
{
    for (uint32_t i = 0; i < JPEG_LOOKS; i++) {
        jpeg_entry first = h->one[i], next;
        uint32_t length = first & 255, step = first >> 8 & 255;

        next = length < JPEG_LOOK ? h->one[i << length & (JPEG_LOOKS - 1)] : JPEG_RARE;
        if (first == JPEG_RARE) {
            h->two[i] = JPEG_RARE;
        } else if (next == JPEG_RARE || (next >> 16 & 255) > JPEG_LOOK - length ||
                   step == JPEG_STEP_EOB || first >> 24 > 3) {
            h->two[i] = length | (first >> 16 & 255) << 6 | first >> 24 << 10 | step << 14;
        } else {
            uint32_t value = (uint32_t)value_in(i, first);

            h->two[i] = (length + (next & 255)) | (length + (next >> 16 & 255)) << 6 |
                        next >> 24 << 10 | step << 14 | (next >> 8 & 255) << 21 | value << 28;
        }
    }
}

void jpeg_huff_fill(struct jpeg_huff *h)
{
    fill_two(h);
    fill_many(h);
}

static bool same(const struct jpeg_huff *h, const struct jpeg_huff_spec *spec)
{
    return h->count == spec->count && memcmp(h->counts, spec->bytes, 16) == 0 &&
           memcmp(h->symbols, spec->bytes + 16, spec->count) == 0;
}

/* Fill `two` and `many` with one symbol per entry; JPEG_RARE stays JPEG_RARE. */
static void fill_alone(struct jpeg_huff *h)
{
    for (uint32_t i = 0; i < JPEG_LOOKS; i++) {
        jpeg_entry e = h->one[i];

        h->two[i] = (e & 255) | (e >> 16 & 255) << 6 | e >> 24 << 10 | (e >> 8 & 255) << 14;
        h->many[i] = e & 0xFFFF;
    }
}

void jpeg_huffs_begin(struct jpeg_huffs *huffs, jpeg_huff_fill_fn *fill, size_t bytes)
{
    huffs->image++;
    huffs->fill = fill;
    huffs->bytes = bytes;
}

/* Combine symbols if that is worthwhile: there is much data to read, or an earlier image used the
 * table. */
static void combine(struct jpeg_huffs *huffs, struct jpeg_huff *h)
{
    if (h->combined || (huffs->bytes < COMBINE_BYTES && h->image == huffs->image))
        return;
    huffs->fill(h);
    h->combined = true;
}

const struct jpeg_huff *jpeg_huff_get(struct jpeg_huffs *huffs, enum jpeg_huff_kind kind,
                                      const struct jpeg_huff_spec *spec, int *ret)
{
    struct jpeg_huff **slots = huffs->slots[kind], **oldest = &slots[0];

    assert(kind < JPEG_HUFF_KINDS && huffs->fill);
    assert(spec->bytes && spec->count <= sizeof(slots[0]->symbols));
    huffs->clock++;
    for (size_t i = 0; i < JPEG_HUFF_SLOTS; i++) {
        if (slots[i] && slots[i]->used > 0 && same(slots[i], spec)) {
            slots[i]->used = huffs->clock;
            if (kind == JPEG_HUFF_AC)
                combine(huffs, slots[i]);
            return slots[i];
        }
        if (*oldest && (!slots[i] || slots[i]->used < (*oldest)->used))
            oldest = &slots[i];
    }
    *ret = -ENOMEM;
    if (!*oldest)
        *oldest = aligned_alloc(64, align_up(sizeof(**oldest), 64));
    if (!*oldest)
        return NULL;
    memcpy((*oldest)->counts, spec->bytes, 16);
    memcpy((*oldest)->symbols, spec->bytes + 16, spec->count);
    (*oldest)->count = spec->count;
    (*oldest)->used = 0; /* until the table is complete */
    *ret = -EBADMSG;
    if (!fill_codes(*oldest, kind))
        return NULL;
    (*oldest)->image = huffs->image;
    (*oldest)->combined = false;
    if (kind == JPEG_HUFF_AC) {
        combine(huffs, *oldest);
        if (!(*oldest)->combined)
            fill_alone(*oldest);
    }
    (*oldest)->used = huffs->clock;
    return *oldest;
}

void jpeg_huffs_fini(struct jpeg_huffs *huffs)
{
    for (size_t i = 0; i < JPEG_HUFF_KINDS; i++)
        for (size_t k = 0; k < JPEG_HUFF_SLOTS; k++)
            free(huffs->slots[i][k]);
    *huffs = (struct jpeg_huffs){0};
}

int jpeg_huff_slow(const struct jpeg_huff *h, struct jpeg_bits *bits, int32_t *value)
{
    uint32_t len = 1, size;
    int32_t next, at;
    uint8_t symbol;

    jpeg_bits_refill(bits);
    next = (int32_t)(bits->word >> 48);
    while (next >= h->beyond[len])
        len++;
    if (len > 16)
        return -1;
    at = (next >> (16 - len)) + h->first[len];
    symbol = h->symbols[at & 255];
    size = symbol & 15;
    *value = jpeg_value(bits->word, len, size);
    jpeg_bits_drop(bits, len + size);
    return symbol;
}

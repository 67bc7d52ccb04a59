/* SPDX-License-Identifier: MIT */
/* jpeg_huff.h - Huffman tables optimised for speed, and the bits that they decode.
 *
 * A table is indexed by the next 11 bits. If these bits begin with a symbol's whole code, the entry
 * has the total length of the code and the symbol's value bits, and the step to the symbol's
 * coefficient (its run of zeros plus one). Otherwise, and for invalid codes and rare symbols (ZRL
 * in an AC table), the entry is JPEG_RARE, and jpeg_huff_slow() decodes the symbol.
 *
 * The position of a symbol in the data is known only after the previous one was looked up; these
 * look-ups take most of the time. So there are two more tables for AC coefficients. An entry of
 * `two` has two symbols if the 11 bits hold the first one with its value, of at most three bits,
 * and the code of the second. An entry of `many`, for coefficients that are skipped, has all
 * symbols whose codes the 11 bits hold. Scans of a progressive file look up one symbol at a time.
 *
 * Many photographs have their own tables. If there is little data to decode with them, combining
 * symbols takes longer than decoding one by one, so the entries of `two` and `many` have one symbol
 * until a later image uses the same table. Longer indices would hold more symbols, but filling the
 * tables took longer than they saved (and they do not fit the first-level cache).
 *
 * The next bits are at the top of a 64-bit word. A refill ORs in eight bytes but counts only the
 * whole ones that fit: at least 56 bits are valid after that. The bytes have been unstuffed, and
 * bytes after the last one may be read. */
#ifndef LOADER_IMAGE_JPEG_HUFF_H
#define LOADER_IMAGE_JPEG_HUFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "loader/image/jpeg/jpeg_frame.h"

enum { JPEG_LOOK = 11, JPEG_LOOKS = 1 << JPEG_LOOK };

/** What the symbols of a table encode. */
enum jpeg_huff_kind {
    JPEG_HUFF_DC,
    JPEG_HUFF_AC,
    JPEG_HUFF_BAND, /* AC coefficients in a scan of a progressive file */
    JPEG_HUFF_KINDS,
};

/**
 * An entry of `one`: bits 0-7 the length of code and value, 8-15 the step from coefficient to
 * coefficient, 16-23 the length of the code, 24-31 that of the value.
 *
 * An entry of `many`: bits 0-7 the length and 8-15 the step of all symbols together, 16-23 the step
 * of all symbols except the last.
 *
 * An entry of `two`: bits 0-5 the length of both symbols, 6-9 where the bits of the last value
 * begin, 10-13 their number, 14-20 the first step, 21-27 the second step (0 if there is only one
 * symbol), 28-31 the first value (signed).
 *
 * In a band, the value bits of an end-of-blocks symbol encode how many blocks end.
 */
typedef uint32_t jpeg_entry;

enum {
    JPEG_STEP_EOB = 80, /* the step of EOB: past all coefficients */
    JPEG_RARE = 0,      /* the whole entry: decode it on the slow path */
};

struct jpeg_huff {
    jpeg_entry one[JPEG_LOOKS] __attribute__((aligned(64)));
    jpeg_entry two[JPEG_LOOKS], many[JPEG_LOOKS];
    int32_t beyond[18]; /* by length: the lowest 16-bit word above its codes; 17: a sentinel */
    int32_t first[17];  /* by length: added to a code, it gives the index of its symbol */
    uint8_t symbols[256];
    /* The numbers of codes with 1 ... 16 bits, and of symbols. */
    uint8_t counts[16];
    uint32_t count;
    uint64_t used;  /* huffs->clock when it was last used; 0: incomplete */
    bool combined;  /* entries have several symbols */
    uint64_t image; /* the image that it was built for */
};

enum { JPEG_HUFF_SLOTS = 6 };

/** A cache of tables, because many files share a few well-known ones. */
struct jpeg_huffs {
    struct jpeg_huff *slots[JPEG_HUFF_KINDS][JPEG_HUFF_SLOTS];
    uint64_t clock;
    /* The number of the current image. */
    uint64_t image;
    void (*fill)(struct jpeg_huff *huff);
    size_t bytes;
};

/** Fill `two` and `many` from `one`, with several symbols per entry. There are plain, AVX2 and NEON
 * versions. */
typedef void jpeg_huff_fill_fn(struct jpeg_huff *huff);
jpeg_huff_fill_fn jpeg_huff_fill, jpeg_huff_fill_avx2, jpeg_huff_fill_neon;

/** Begin an image that has about `bytes` bytes of compressed data. */
void jpeg_huffs_begin(struct jpeg_huffs *huffs, jpeg_huff_fill_fn *fill, size_t bytes);

/** Returns a table for `spec`, valid until six others of its kind have been requested. Returns
 * NULL, with `*ret` set to -ENOMEM, or to -EBADMSG if libjpeg would reject the table. */
const struct jpeg_huff *jpeg_huff_get(struct jpeg_huffs *huffs, enum jpeg_huff_kind kind,
                                      const struct jpeg_huff_spec *spec, int *ret);
void jpeg_huffs_fini(struct jpeg_huffs *huffs);

struct jpeg_bits {
    uint64_t word;     /* the next bits, from the top */
    uint32_t count;    /* at least this many bits of `word` are valid */
    const uint8_t *at; /* the first byte that is not in `word` */
};

static inline __attribute__((always_inline)) void jpeg_bits_refill(struct jpeg_bits *b)
{
    uint64_t next;

    memcpy(&next, b->at, sizeof(next));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    b->word |= next >> b->count;
    b->at += (63 - b->count) >> 3;
    b->count |= 56;
}

static inline __attribute__((always_inline)) void jpeg_bits_drop(struct jpeg_bits *b, uint32_t n)
{
    b->word <<= n;
    b->count -= n;
}

static inline __attribute__((always_inline)) jpeg_entry jpeg_bits_look(const struct jpeg_bits *b,
                                                                       const jpeg_entry *table)
{
    return table[b->word >> (64 - JPEG_LOOK)];
}

/** Returns EXTEND (T.81, F.2.2.1) of the `size` value bits that follow the top `code` bits. */
static inline __attribute__((always_inline)) int32_t jpeg_value(uint64_t word, uint32_t code,
                                                                uint32_t size)
{
    uint64_t t = word << code;
    int32_t negative = (int32_t)((int64_t)~t >> 63); /* all ones if the first bit is 0 */

    return (int32_t)(t >> 1 >> (63 - size)) + (negative & (1 - (int32_t)(1U << size)));
}

/**
 * Refill, then read one symbol of any table and its value. The caller must read the value bits of a
 * band's end-of-blocks symbol.
 *
 * Returns the symbol, or -1 for an invalid code.
 */
int jpeg_huff_slow(const struct jpeg_huff *huff, struct jpeg_bits *bits, int32_t *value);

#endif

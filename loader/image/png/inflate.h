/* SPDX-License-Identifier: MIT */
/* inflate.h - decompresses a zlib stream (RFC 1950, 1951) up to a requested position.
 *
 * It accepts only streams that zlib accepts, and rejects some of these that no encoder writes; the
 * caller then uses zlib. */
#ifndef LOADER_IMAGE_INFLATE_H
#define LOADER_IMAGE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INFLATE_WINDOW = 32768, /* farthest distance of a match */
    INFLATE_BEHIND_IN = 64, /* readable bytes after the input */
    INFLATE_BEHIND_OUT = 512,
    /* The number of bits that one look-up resolves, and the sizes of the tables with the entries of
     * longer codes. The sizes suffice for any complete code of up to 15 bits: one of 288 symbols,
     * and one of 32 (zlib's examples/enough.c). */
    INFLATE_LITERAL_BITS = 11,
    INFLATE_DISTANCE_BITS = 8,
    INFLATE_LITERALS = 2342,
    INFLATE_DISTANCES = 402,
};

struct inflate {
    const uint8_t *in, *end;
    uint64_t bits;
    uint32_t count; /* valid bits in `bits` */
    enum { INFLATE_HEADER, INFLATE_STORED, INFLATE_CODES, INFLATE_END } state;
    bool last;     /* this is the last block */
    bool fixed;    /* the tables are those of the fixed codes */
    size_t stored; /* bytes left in this stored block */
    uint32_t literals[INFLATE_LITERALS], distances[INFLATE_DISTANCES];
};

/** Begin a stream of [len] bytes. INFLATE_BEHIND_IN bytes after it must be readable, and may have
 * any values. `total`: the number of bytes that it will produce. Returns false if the stream is
 * rejected. */
bool inflate_start(struct inflate *s, const uint8_t *in, size_t len, uint64_t total);

/**
 * Decompress until there are bytes up to `target`, or the stream ends.
 *
 * @param first  Start of the earlier output, at least its last INFLATE_WINDOW bytes.
 * @param out    Where to write the next bytes; this is advanced. The output may go beyond `target`,
 *               and up to INFLATE_BEHIND_OUT bytes after `target` may be written.
 *
 * Returns false if the stream is rejected.
 */
bool inflate_run(struct inflate *s, const uint8_t *first, uint8_t **out, uint8_t *target);

static inline bool inflate_ended(const struct inflate *s)
{
    return s->state == INFLATE_END;
}

/** Returns the number of unused bytes of the input. */
static inline size_t inflate_left(const struct inflate *s)
{
    return (size_t)(s->end - (s->in - s->count / 8));
}

/** Returns whether only this Adler-32 is left of the input. Call it at the end of the stream. */
bool inflate_is_whole(const struct inflate *s, uint32_t adler);

#endif

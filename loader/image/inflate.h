/* SPDX-License-Identifier: MIT */
/* inflate.h - decompresses a zlib stream (RFC 1950, 1951) as far as it is asked to.
 *
 * It takes only what zlib takes: some of what zlib takes it refuses, as no encoder writes it.
 * Whoever is refused asks zlib. */
#ifndef LOADER_IMAGE_INFLATE_H
#define LOADER_IMAGE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INFLATE_WINDOW = 32768, /* how far back a match can reach */
    INFLATE_BEHIND_IN = 64, /* readable bytes behind the input */
    INFLATE_BEHIND_OUT = 512,
    /* Bits that are looked up at once, and entries of tables with those below them: as many as any
     * complete code of up to 15 bits needs, of 288 symbols and of 32 (zlib's examples/enough.c). */
    INFLATE_LITERAL_BITS = 11,
    INFLATE_DISTANCE_BITS = 8,
    INFLATE_LITERALS = 2342,
    INFLATE_DISTANCES = 402,
};

struct inflate {
    const uint8_t *in, *end;
    uint64_t bits;
    uint32_t count; /* of bits that are good in `bits` */
    enum { INFLATE_HEADER, INFLATE_STORED, INFLATE_CODES, INFLATE_END } state;
    bool last;     /* the block is */
    bool fixed;    /* the tables are those of the fixed codes */
    size_t stored; /* bytes left in this one */
    uint32_t literals[INFLATE_LITERALS], distances[INFLATE_DISTANCES];
};

/** Begin with [len] bytes; INFLATE_BEHIND_IN more may be read, whatever they are. `total`: bytes
 * that will come out. False: it is refused. */
bool inflate_start(struct inflate *s, const uint8_t *in, size_t len, uint64_t total);

/**
 * Decompress until there are bytes up to `target`, or the stream ends.
 *
 * @param first  What has come out before lies from here on, at least its last INFLATE_WINDOW bytes.
 * @param out    Where more goes; moved on. More than `target` may come out, and up to
 *               INFLATE_BEHIND_OUT bytes behind `target` may be written to.
 *
 * False: it is refused.
 */
bool inflate_run(struct inflate *s, const uint8_t *first, uint8_t **out, uint8_t *target);

static inline bool inflate_ended(const struct inflate *s)
{
    return s->state == INFLATE_END;
}

/** Bytes of the input that nothing was taken from. */
static inline size_t inflate_left(const struct inflate *s)
{
    return (size_t)(s->end - (s->in - s->count / 8));
}

/** At the end: whether the input ends there, too, with this Adler-32. */
bool inflate_is_whole(const struct inflate *s, uint32_t adler);

#endif

/* SPDX-License-Identifier: MIT */
/* normalise.h - the loops of plenum_normalise(), which come in sets. */
#ifndef LIBDIST_NORMALISE_H
#define LIBDIST_NORMALISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/normalise.h>

/** What becomes of each value of each channel. */
struct normalise_values {
    float scale[3], bias[3]; /* of a level 0 ... 255 */
    enum plenum_float type;
    uint8_t flip; /* a byte as it is stored ^ flip is its level */
    bool tabled;  /* the table is there: it is made when it is first needed */
    /** By the byte as it is stored. */
    union {
        float f32[3][256];
        uint16_t half[3][256];
    } table;
};

/** Pixels at equal distances, and where their floats go: an image, or several. */
struct normalise_run {
    const uint8_t *from[3]; /* the first pixel's byte of each channel */
    size_t from_step;       /* bytes from a pixel to the next: 1, 3 or 4 */
    uint8_t *to[3];         /* the first pixel's float of each channel */
    size_t to_step;         /* floats from a pixel to the next: 1 or 3 */
    size_t count;           /* pixels */
};

/** One set of loops. */
struct normalise_loops {
    const char *name;
    bool (*usable)(void);
    /** `past` tells that the floats are too many to stay in the cache. */
    void (*run)(struct normalise_values *values, const struct normalise_run *run, bool past);
};

/** The sets, the fastest first; NULL ends them. The last can be used everywhere. */
extern const struct normalise_loops *const normalise_loops[];

extern const struct normalise_loops normalise_portable;
#ifdef __x86_64__
extern const struct normalise_loops normalise_avx2;
#endif

/** Pixels `begin` to `end` of a run, by the table: what the loops leave at both ends. */
void normalise_by_table(struct normalise_values *values, const struct normalise_run *run,
                        size_t begin, size_t end);

/** So many bytes of floats are written past the cache: whoever reads them next would not find the
 * first of them there (bench/normalise measures what it brings). */
enum { NORMALISE_PAST_CACHE = 16 << 20 };

/** plenum_normalise() by one set of loops (NULL: the first that can be used), and past the cache
 * from so many bytes on. */
int normalise_with(const struct normalise_loops *loops, size_t past_cache,
                   const struct plenum_images *from, const double mean[3], const double std[3],
                   void *to, enum plenum_float type, enum plenum_layout layout,
                   struct plenum_error *err);

/** Bytes of one float. */
static inline size_t normalise_float_bytes(enum plenum_float type)
{
    return type == PLENUM_TO_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

#endif

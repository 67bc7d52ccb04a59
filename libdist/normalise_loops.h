/* SPDX-License-Identifier: MIT */
/* normalise_loops.h - the sets of loops for plenum_normalise(). */
#ifndef LIBDIST_NORMALISE_LOOPS_H
#define LIBDIST_NORMALISE_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/normalise.h>

/** The float for each value of each channel. */
struct normalise_values {
    float scale[3], bias[3]; /* for a level of 0 ... 255 */
    enum plenum_float type;
    uint8_t flip; /* stored byte ^ flip is the level */
    bool tabled;  /* the table exists: it is created on first use */
    /** Indexed by the stored byte. */
    union {
        float f32[3][256];
        uint16_t half[3][256];
    } table;
};

/** Equidistant pixels and the destination of their floats: one image, or several. */
struct normalise_run {
    const uint8_t *from[3]; /* the first pixel's byte for each channel */
    size_t from_step;       /* bytes between pixels: 1, 3 or 4 */
    uint8_t *to[3];         /* the first pixel's float for each channel */
    size_t to_step;         /* floats between pixels: 1 or 3 */
    size_t count;           /* pixels */
};

/** One set of loops. */
struct normalise_loops {
    const char *name;
    bool (*usable)(void);
    /** Convert a run of pixels. `past`: write past the cache, because the floats do not fit into
     * it. */
    void (*run)(struct normalise_values *values, const struct normalise_run *run, bool past);
};

/** All sets, the fastest first, ended by NULL. The last one works everywhere. */
extern const struct normalise_loops *const normalise_loops[];

extern const struct normalise_loops normalise_portable;
#ifdef __x86_64__
extern const struct normalise_loops normalise_avx2;
#endif

/** Convert pixels `begin` to `end` of a run through the table: those at its ends, which the loops
 * do not convert. */
void normalise_by_table(struct normalise_values *values, const struct normalise_run *run,
                        size_t begin, size_t end);

/** With at least this many bytes of floats, write past the cache, because the first floats would be
 * evicted from it before the program reads them (bench/normalise measures the gain). */
enum { NORMALISE_PAST_CACHE = 16 << 20 };

/** The arguments of plenum_normalise(). */
struct normalise_job {
    const struct plenum_images *from;
    const double *mean, *std; /* [3] */
    void *to;
    enum plenum_float type;
    enum plenum_layout layout;
};

/** Run plenum_normalise() with one set of loops (NULL: the first supported one), writing past the
 * cache for at least this many bytes. */
int normalise_with(const struct normalise_loops *loops, size_t past_cache,
                   const struct normalise_job *job, struct plenum_error *err);

/** Returns the bytes of one float. */
static inline size_t normalise_float_bytes(enum plenum_float type)
{
    return type == PLENUM_TO_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

#endif

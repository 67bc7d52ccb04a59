/* SPDX-License-Identifier: MIT */
/* jpeg_huff_neon.c - fills the tables `two` and `many`, four entries at a time.
 *
 * NEON has no gather instruction: entries are looked up one by one, and processed four at a time.
 * See jpeg_huff.h for the meaning of the entries. */
#include "config.h"

#include "loader/image/jpeg/jpeg_huff.h"

#ifdef __aarch64__

/* Short loops of fixed length work on registers, so they must be unrolled, which gcc does only at
 * -O3. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

NEON_INLINE uint32x4_t byte_of(uint32x4_t entries, int which)
{
    return vandq_u32(vshlq_u32(entries, vdupq_n_s32(-8 * which)), vdupq_n_u32(255));
}

NEON_INLINE uint32x4_t shift_left(uint32x4_t x, uint32x4_t by)
{
    return vshlq_u32(x, vreinterpretq_s32_u32(by));
}

NEON_INLINE uint32x4_t shift_right(uint32x4_t x, uint32x4_t by)
{
    return vshlq_u32(x, vnegq_s32(vreinterpretq_s32_u32(by)));
}

/* Returns the entries for the bits after the first `length` of these 11 bits. */
NEON_INLINE uint32x4_t entries_behind(const jpeg_entry *one, uint32x4_t bits, uint32x4_t length)
{
    uint32x4_t at = vandq_u32(shift_left(bits, length), vdupq_n_u32(JPEG_LOOKS - 1));
    uint64_t low = vgetq_lane_u64(vreinterpretq_u64_u32(at), 0);
    uint64_t high = vgetq_lane_u64(vreinterpretq_u64_u32(at), 1);
    uint32x4_t entries = vdupq_n_u32(one[(uint32_t)low]);

    entries = vld1q_lane_u32(one + (low >> 32), entries, 1);
    entries = vld1q_lane_u32(one + (uint32_t)high, entries, 2);
    return vld1q_lane_u32(one + (high >> 32), entries, 3);
}

/* Returns all ones where an entry's code lies within the 11 bits after the first `length`. */
NEON_INLINE uint32x4_t fits(uint32x4_t entry, uint32x4_t length)
{
    uint32x4_t end = vaddq_u32(length, byte_of(entry, 2));

    return vbicq_u32(vcleq_u32(end, vdupq_n_u32(JPEG_LOOK)), vceqzq_u32(entry));
}

/* Returns jpeg_value() of the first symbol. */
NEON_INLINE uint32x4_t values_of(uint32x4_t bits, uint32x4_t code, uint32x4_t size)
{
    uint32x4_t t = shift_left(vshlq_n_u32(bits, 32 - JPEG_LOOK), code);
    uint32x4_t value = shift_right(vshrq_n_u32(t, 1), vsubq_u32(vdupq_n_u32(31), size));
    uint32x4_t negative = vcgezq_s32(vreinterpretq_s32_u32(t)); /* the value's first bit is 0 */
    uint32x4_t less = vsubq_u32(vdupq_n_u32(1), shift_left(vdupq_n_u32(1), size));

    return vaddq_u32(value, vandq_u32(negative, less));
}

NEON_INLINE uint32x4_t two_of(const jpeg_entry *one, uint32x4_t bits, uint32x4_t first)
{
    uint32x4_t length = byte_of(first, 0), step = byte_of(first, 1), code = byte_of(first, 2);
    uint32x4_t size = byte_of(first, 3), next = entries_behind(one, bits, length);
    uint32x4_t alone =
        vorrq_u32(vcgtq_u32(size, vdupq_n_u32(3)), vceqq_u32(step, vdupq_n_u32(JPEG_STEP_EOB)));
    uint32x4_t both = vbicq_u32(fits(next, length), alone);
    uint32x4_t second = vandq_u32(next, both);
    uint32x4_t value = vandq_u32(values_of(bits, code, size), both);
    uint32x4_t begin = vbslq_u32(both, vaddq_u32(length, byte_of(second, 2)), code);
    uint32x4_t last = vbslq_u32(both, byte_of(second, 3), size);
    uint32x4_t all = vaddq_u32(length, byte_of(second, 0));

    all = vorrq_u32(all, vshlq_n_u32(begin, 6));
    all = vorrq_u32(all, vshlq_n_u32(last, 10));
    all = vorrq_u32(all, vshlq_n_u32(step, 14));
    all = vorrq_u32(all, vshlq_n_u32(byte_of(second, 1), 21));
    return vorrq_u32(all, vshlq_n_u32(value, 28));
}

NEON_INLINE uint32x4_t many_of(const jpeg_entry *one, uint32x4_t bits, uint32x4_t first)
{
    uint32x4_t length = byte_of(first, 0), steps = byte_of(first, 1);
    uint32x4_t before = vdupq_n_u32(0), going = vdupq_n_u32(UINT32_MAX);

    for (;;) {
        uint32x4_t next = entries_behind(one, bits, length);

        going = vandq_u32(going, vcltq_u32(steps, vdupq_n_u32(64)));
        going = vandq_u32(going, fits(next, length));
        if (vmaxvq_u32(going) == 0)
            break;
        next = vandq_u32(next, going);
        before = vbslq_u32(going, steps, before);
        steps = vaddq_u32(steps, byte_of(next, 1));
        length = vaddq_u32(length, byte_of(next, 0));
    }
    length = vorrq_u32(length, vshlq_n_u32(steps, 8));
    return vorrq_u32(length, vshlq_n_u32(before, 16));
}

void jpeg_huff_fill_neon(struct jpeg_huff *h)
{
    static const uint32_t first_bits[4] = {0, 1, 2, 3};
    uint32x4_t bits = vld1q_u32(first_bits);

    for (uint32_t i = 0; i < JPEG_LOOKS; i += 4, bits = vaddq_u32(bits, vdupq_n_u32(4))) {
        uint32x4_t first = vld1q_u32(h->one + i), rare = vceqzq_u32(first);

        vst1q_u32(h->two + i, vbicq_u32(two_of(h->one, bits, first), rare));
        vst1q_u32(h->many + i, vbicq_u32(many_of(h->one, bits, first), rare));
    }
}

#endif

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/control/pace_report.h"

#include <assert.h>

#include "common/util/util.h"
#include "launcher/control/control.h"

enum { MANTISSA_BITS = 11, MEETS = 0x80, STRIDE_BITS_MAX = 31 };

/* Append a time in microseconds, as mantissa and exponent, rounded down. */
static void put_time(struct frame_buffer *b, uint64_t ns)
{
    uint64_t us = min_u64(ns / 1000, UINT64_C(1) << 40);
    unsigned exponent = 0;

    for (; us >> MANTISSA_BITS; us >>= 1)
        exponent++;
    frame_put_u16(b, (uint16_t)(exponent << MANTISSA_BITS | us));
}

static uint64_t get_time(struct frame_reader *r)
{
    uint16_t v = frame_get_u16(r);

    return ((uint64_t)(v & ((1U << MANTISSA_BITS) - 1)) << (v >> MANTISSA_BITS)) * 1000;
}

static unsigned log2_of(uint32_t stride)
{
    unsigned bits = 0;

    while (stride >>= 1)
        bits++;
    return bits;
}

int pace_report_put(struct frame_buffer *b, const struct pace_report *m)
{
    size_t begin = frame_begin(b, CONTROL_PACE, 0);

    assert(m->count <= PACE_REPORT_STEPS);
    frame_put_u64(b, m->step);
    frame_put_u8(b, (uint8_t)(m->count | (m->meets ? MEETS : 0)));
    frame_put_u8(b, (uint8_t)log2_of(m->stride));
    for (uint32_t i = 0; i < m->count; i++) {
        put_time(b, m->steps[i].own_ns);
        put_time(b, m->steps[i].wait_ns);
    }
    put_time(b, m->read_ns);
    put_time(b, m->render_ns);
    put_time(b, m->rest_ns);
    put_time(b, m->network_ns);
    for (unsigned i = 0; i < PACE_SHARES; i++)
        frame_put_u8(b, m->share[i]);
    return frame_end(b, begin);
}

int pace_report_get(struct frame_reader *r, struct pace_report *ret)
{
    uint8_t count, bits;

    *ret = (struct pace_report){.step = frame_get_u64(r)};
    count = frame_get_u8(r);
    bits = frame_get_u8(r);
    ret->meets = (count & MEETS) != 0;
    ret->count = count & (uint8_t)~MEETS;
    if (r->bad || ret->count > PACE_REPORT_STEPS || bits > STRIDE_BITS_MAX)
        return -EPROTO;
    ret->stride = UINT32_C(1) << bits;
    for (uint32_t i = 0; i < ret->count; i++) {
        ret->steps[i].own_ns = get_time(r);
        ret->steps[i].wait_ns = get_time(r);
    }
    ret->read_ns = get_time(r);
    ret->render_ns = get_time(r);
    ret->rest_ns = get_time(r);
    ret->network_ns = get_time(r);
    for (unsigned i = 0; i < PACE_SHARES; i++) {
        ret->share[i] = frame_get_u8(r);
        r->bad |= ret->share[i] > 100;
    }
    return frame_got(r);
}

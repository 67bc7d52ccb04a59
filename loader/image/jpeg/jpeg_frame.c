/* SPDX-License-Identifier: MIT */
/* jpeg_frame.c - parses the markers of a JPEG up to its first entropy-coded byte (T.81, annex B),
 * and the markers between its scans.
 *
 * The colour space is determined like in libjpeg. With three components, JFIF means YCbCr;
 * otherwise Adobe's segment decides, or, if there is none, the identifiers of the components. With
 * four components, Adobe's segment decides. */
#include "config.h"

#include "loader/image/jpeg/jpeg_frame.h"

#include <assert.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_marker.h"
#include "loader/image/limits.h"

enum {
    M_SOF0 = 0xC0,
    M_SOF1 = 0xC1,
    M_SOF2 = 0xC2,
    M_DHT = 0xC4,
    M_SOI = 0xD8,
    M_EOI = 0xD9,
    M_SOS = 0xDA,
    M_DQT = 0xDB,
    M_DRI = 0xDD,
    M_APP0 = 0xE0,
    M_APP14 = 0xEE,
    M_APP15 = 0xEF,
    M_COM = 0xFE,
};

struct frame_parser {
    const uint8_t *bytes;
    size_t at, len;
    struct jpeg_frame *frame;
    bool forgives; /* bytes between segments are not an error */
    bool jfif, adobe;
    uint8_t transform; /* from Adobe's segment */
};

/* The contents of one segment. */
struct segment {
    const uint8_t *at;
    size_t len;
};

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static bool parse_quant(struct frame_parser *p, struct segment s)
{
    while (s.len > 0) {
        uint32_t wide = s.at[0] >> 4, table = s.at[0] & 15, size = 64 * (1 + wide);
        const uint8_t *from = s.at + 1;

        if (wide > 1 || table >= JPEG_TABLES || s.len < 1 + size)
            return false;
        for (uint32_t i = 0; i < 64; i++)
            p->frame->quant[table][jpeg_zigzag[i]] =
                (int16_t)(wide ? get16(from + 2 * i) : from[i]);
        p->frame->quant_defined |= 1U << table;
        s.at += 1 + size;
        s.len -= 1 + size;
    }
    return true;
}

static bool parse_huff(struct frame_parser *p, struct segment s)
{
    while (s.len > 0) {
        uint32_t table = s.at[0] & 15, count = 0;
        struct jpeg_huff_spec *spec = s.at[0] >> 4 ? p->frame->ac : p->frame->dc;

        if (s.at[0] >> 4 > 1 || table >= JPEG_TABLES || s.len < 17)
            return false;
        for (uint32_t i = 1; i <= 16; i++)
            count += s.at[i];
        if (count > 256 || s.len < 17 + count)
            return false;
        spec[table] = (struct jpeg_huff_spec){s.at + 1, count};
        s.at += 17 + count;
        s.len -= 17 + count;
    }
    return true;
}

static bool parse_app0(struct frame_parser *p, struct segment s)
{
    if (s.len < 14 || memcmp(s.at, "JFIF", 5) != 0)
        return true;
    p->jfif = true;
    return s.at[5] == 1; /* the major version of JFIF */
}

static bool parse_app14(struct frame_parser *p, struct segment s)
{
    if (s.len < 12 || memcmp(s.at, "Adobe", 5) != 0)
        return true;
    p->adobe = true;
    p->transform = s.at[11];
    return true;
}

static bool parse_frame(struct frame_parser *p, struct segment s)
{
    struct jpeg_frame *f = p->frame;

    if (f->count != 0 || s.len < 6 || s.at[0] != 8)
        return false;
    memset(f->sent, -1, sizeof(f->sent));
    f->height = get16(s.at + 1);
    f->width = get16(s.at + 3);
    f->count = s.at[5];
    if ((f->count != 1 && f->count != 3 && f->count != 4) || s.len != 6 + 3 * f->count)
        return false;
    if (f->width == 0 || f->height == 0 || f->width > IMAGE_SIDE_MAX ||
        f->height > IMAGE_SIDE_MAX || (uint64_t)f->width * f->height > IMAGE_PIXELS_MAX)
        return false;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint8_t *at = s.at + 6 + 3 * i;
        struct jpeg_component *c = &f->component[i];

        *c = (struct jpeg_component){.id = at[0], .h = at[1] >> 4, .v = at[1] & 15};
        c->quant = at[2];
        if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4 || c->quant >= JPEG_TABLES)
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (f->component[k].id == c->id)
                return false;
    }
    return true;
}

/* Parse the components of a scan: each at most once, in the frame's order. */
static bool parse_components(struct jpeg_frame *f, struct segment s)
{
    uint32_t next = 0;

    assert(s.at[0] >= 1 && s.at[0] <= f->count && f->count <= JPEG_COMPONENTS);
    f->scan.count = s.at[0];
    for (uint32_t i = 0; i < f->scan.count; i++, next++) {
        while (next < f->count && f->component[next].id != s.at[1 + 2 * i])
            next++;
        if (next == f->count)
            return false;
        f->scan.component[i] = (uint8_t)next;
        f->component[next].dc = s.at[2 + 2 * i] >> 4;
        f->component[next].ac = s.at[2 + 2 * i] & 15;
    }
    return true;
}

/* Returns whether the tables that the scan needs are defined. */
static bool has_tables(const struct jpeg_frame *f)
{
    for (uint32_t i = 0; i < f->scan.count; i++) {
        const struct jpeg_component *c = &f->component[f->scan.component[i]];
        bool dc = f->scan.first == 0 && f->scan.high == 0, ac = f->scan.last > 0;

        if ((dc && (c->dc >= JPEG_TABLES || !f->dc[c->dc].bytes)) ||
            (ac && (c->ac >= JPEG_TABLES || !f->ac[c->ac].bytes)) ||
            !(f->quant_defined >> c->quant & 1))
            return false;
    }
    return true;
}

/* Returns whether these coefficients may be sent in one scan. */
static bool is_band(const struct jpeg_frame *f)
{
    const struct jpeg_scan_spec *s = &f->scan;

    if (!f->progressive)
        return s->first == 0 && s->last == 63 && s->high == 0 && s->low == 0;
    if (s->low > 13 || (s->high > 0 && s->low != s->high - 1))
        return false;
    return s->first == 0 ? s->last == 0 : s->last >= s->first && s->last < 64 && s->count == 1;
}

/* Returns whether the scan may follow the previous ones: DC comes first, and each bit is sent once.
 * Records the bits that the scan sends. */
static bool is_next(struct jpeg_frame *f)
{
    const struct jpeg_scan_spec *s = &f->scan;

    assert(s->first <= s->last && s->last < 64); /* checked by is_band() */
    for (uint32_t i = 0; i < s->count; i++) {
        int8_t *sent = f->sent[s->component[i]];

        if (s->first > 0 && sent[0] < 0)
            return false;
        for (uint32_t k = s->first; k <= s->last; k++) {
            if (sent[k] != (s->high > 0 ? s->high : -1))
                return false;
            sent[k] = (int8_t)s->low;
        }
    }
    return true;
}

static bool parse_scan(struct frame_parser *p, struct segment s)
{
    struct jpeg_frame *f = p->frame;
    const uint8_t *rest;

    if (s.len < 1 || s.at[0] < 1 || s.at[0] > f->count || s.len != 4 + 2U * s.at[0] ||
        !parse_components(f, s))
        return false;
    rest = s.at + 1 + 2 * f->scan.count;
    f->scan.first = rest[0];
    f->scan.last = rest[1];
    f->scan.high = rest[2] >> 4;
    f->scan.low = rest[2] & 15;
    return is_band(f) && has_tables(f) && is_next(f);
}

static bool find_colours(struct frame_parser *p)
{
    const struct jpeg_component *c = p->frame->component;

    if (p->frame->count == 4) { /* CMYK, unless Adobe's segment says YCCK */
        p->frame->ycc = p->adobe && p->transform == 2;
        return !p->adobe || p->transform == 0 || p->transform == 2;
    }
    p->frame->ycc = true;
    if (p->frame->count == 1 || p->jfif)
        return true;
    if (p->adobe) {
        p->frame->ycc = p->transform != 0;
        return p->transform <= 1;
    }
    p->frame->ycc = !(c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B');
    return true;
}

/* Find how libjpeg enlarges a component. It uses weights only if one sample covers two pixels
 * across, two down, or both, and only if rows are not too short. */
static bool find_stretch(struct jpeg_component *c, uint32_t h_max, uint32_t v_max)
{
    bool wide = c->width > 2;

    assert(c->h > 0 && c->h <= h_max && c->v > 0 && c->v <= v_max);
    if (h_max % c->h != 0 || v_max % c->v != 0)
        return false;
    c->across = (uint8_t)(h_max / c->h);
    c->down = (uint8_t)(v_max / c->v);
    c->stretch_across = c->across == 1 ? JPEG_SAME : JPEG_REPEAT;
    c->stretch_down = c->down == 1 ? JPEG_SAME : JPEG_REPEAT;
    if (c->across == 2 && c->down <= 2 && wide)
        c->stretch_across = JPEG_FANCY;
    if (c->down == 2 && (c->across == 1 || (c->across == 2 && wide)))
        c->stretch_down = JPEG_FANCY;
    return true;
}

static bool find_sizes(struct jpeg_frame *f)
{
    uint32_t h_max = 1, v_max = 1, blocks = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        h_max = f->component[i].h > h_max ? f->component[i].h : h_max;
        v_max = f->component[i].v > v_max ? f->component[i].v : v_max;
        blocks += (uint32_t)f->component[i].h * f->component[i].v;
    }
    f->strip = v_max * JPEG_BLOCK;
    f->group = v_max;
    if (f->count == 1) { /* in a scan of one component, an MCU is one block (T.81, A.2.2) */
        f->component[0].h = f->component[0].v = 1;
        h_max = v_max = blocks = 1;
    }
    if (blocks > JPEG_MCU_BLOCKS)
        return false;
    for (uint32_t i = 0; i < f->count; i++) {
        struct jpeg_component *c = &f->component[i];

        c->width = (f->width * c->h + h_max - 1) / h_max;
        c->height = (f->height * c->v + v_max - 1) / v_max;
        f->blocks += jpeg_blocks(c->width) * jpeg_blocks(c->height);
        if (!find_stretch(c, h_max, v_max))
            return false;
        f->context = f->context || c->stretch_down == JPEG_FANCY;
    }
    f->mcu_width = h_max * JPEG_BLOCK;
    f->mcu_height = v_max * JPEG_BLOCK;
    f->mcus = (f->width + f->mcu_width - 1) / f->mcu_width;
    f->rows = (f->height + f->mcu_height - 1) / f->mcu_height;
    assert(f->mcus > 0 && f->rows > 0);
    for (uint32_t i = 0; i < f->count; i++) { /* MCUs contain all blocks */
        assert(jpeg_blocks(f->component[i].width) <= f->mcus * f->component[i].h);
        assert(jpeg_blocks(f->component[i].height) <= f->rows * f->component[i].v);
    }
    return true;
}

/* Find the next marker and its segment. */
static bool next_segment(struct frame_parser *p, uint8_t *code, struct segment *ret)
{
    size_t len, junk = 0;

    p->at = jpeg_marker_find(p->bytes, p->len, p->at, &junk);
    if ((junk > 0 && !p->forgives) || p->at + 3 > p->len)
        return false;
    *code = p->bytes[p->at];
    len = get16(p->bytes + p->at + 1);
    if (len < 2 || len > p->len - p->at - 1)
        return false;
    *ret = (struct segment){p->bytes + p->at + 3, len - 2};
    p->at += 1 + len;
    assert(p->at <= p->len);
    return true;
}

static bool parse_segment(struct frame_parser *p, uint8_t code, struct segment s)
{
    switch (code) {
    case M_SOF0:
    case M_SOF1:
    case M_SOF2:
        p->frame->progressive = code == M_SOF2;
        return parse_frame(p, s);
    case M_DHT:
        return parse_huff(p, s);
    case M_DQT:
        return parse_quant(p, s);
    case M_DRI:
        if (s.len != 2)
            return false;
        p->frame->restart = get16(s.at);
        return true;
    case M_SOS:
        return parse_scan(p, s);
    case M_APP0:
        return parse_app0(p, s);
    case M_APP14:
        return parse_app14(p, s);
    default:
        return (code > M_APP0 && code <= M_APP15) || code == M_COM;
    }
}

bool jpeg_frame_parse(const uint8_t *bytes, size_t len, bool junk, struct jpeg_frame *ret)
{
    struct frame_parser p = {.bytes = bytes, .at = 2, .len = len, .forgives = junk, .frame = ret};
    struct segment s;
    uint8_t code;

    *ret = (struct jpeg_frame){0};
    if (len < 2 || bytes[0] != 0xFF || bytes[1] != M_SOI)
        return false;
    do {
        if (!next_segment(&p, &code, &s) || !parse_segment(&p, code, s))
            return false;
    } while (code != M_SOS);
    ret->data = p.at;
    ret->several = ret->progressive || ret->scan.count < ret->count;
    return p.at <= IMAGE_HEADER_MAX && find_colours(&p) && find_sizes(ret) &&
           (!ret->several || ret->blocks <= IMAGE_BLOCKS_MAX);
}

bool jpeg_frame_next(struct jpeg_frame *f, const uint8_t *bytes, size_t len, size_t at, bool *end)
{
    struct frame_parser p = {.bytes = bytes, .at = at, .len = len, .frame = f};
    struct segment s;
    uint8_t code;

    assert(f->several && f->count > 0 && at <= len);
    *end = at + 2 <= len && bytes[at] == 0xFF && bytes[at + 1] == M_EOI;
    if (*end)
        return true;
    do {
        /* A new quantisation table would apply to components without any coefficient so far. */
        if (!next_segment(&p, &code, &s) || code == M_DQT || !parse_segment(&p, code, s))
            return false;
    } while (code != M_SOS);
    f->data = p.at;
    return true;
}

const uint8_t jpeg_zigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

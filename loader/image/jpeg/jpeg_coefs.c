/* SPDX-License-Identifier: MIT */
/* jpeg_coefs.c - reads the coefficients of a JPEG with several scans from its bits.
 *
 * Each scan goes over the whole image, and sends the DC coefficients, or a band of AC coefficients
 * of one component, or one more bit of either (T.81, annex G). So pixels can be computed only after
 * the last scan, and the whole file is read for any region, like in libjpeg, which warns of damage
 * anywhere. Only the values of coefficients in unneeded blocks can be left out: to continue
 * reading, it is enough to know which of them are 0, which takes one bit each. The bits of a block
 * form one word, which saves time in several ways:
 *
 * - A block whose word is 0 is never written, zeroed in advance or transformed.
 * - A scan that sends one more bit sends it for the coefficients that are not 0, and its runs count
 *   those that are 0. The word shows both, without a loop over coefficients.
 * - A run of blocks that are not in the scan is skipped word by word, or at once.
 *
 * A scan that is not progressive sends all coefficients of some components. */
#include "config.h"

#include "loader/image/jpeg/jpeg_coefs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_blocks.h"
#include "loader/image/jpeg/jpeg_own.h"
#include "loader/image/limits.h"

/* A block of an MCU. */
struct member {
    struct jpeg_coef_plane *plane;
    const struct jpeg_huff *dc, *ac;
    uint8_t component, x, y, h, v; /* as in struct mcu_block of jpeg_own.c */
    bool keep;                     /* blocks of this row are needed */
    size_t row;                    /* index of the row's first block in the plane */
    int16_t *ac_row;               /* if `keep`: coefficients of the row's first needed block */
};

/* The current scan. */
struct coefs_reader {
    struct jpeg_coefs *coefs;
    struct jpeg_frame frame;
    struct jpeg_scan *s;
    bool bmi2;

    /* For scans of DC, and for scans that are not progressive: */
    struct member members[JPEG_MCU_BLOCKS];
    uint32_t member_count;

    /* For a band of AC coefficients: */
    const struct jpeg_huff *huff;
    uint32_t run;  /* number of blocks that have no further symbols */
    uint64_t band; /* a bit for each coefficient */
};

/* Distribute the low bits of `from` over the set bits of `to`, starting with the lowest. */
JPEG_INLINE uint64_t deposit(uint64_t from, uint64_t to, bool bmi2)
{
    uint64_t all = 0;

#ifdef __x86_64__
    if (bmi2) { /* the intrinsic is not allowed in functions compiled for other processors */
        __asm__("pdep %2, %1, %0" : "=r"(all) : "r"(from), "rm"(to));
        return all;
    }
#else
    (void)bmi2;
#endif
    for (; from != 0 && to != 0; from >>= 1, to &= to - 1)
        if (from & 1)
            all |= to & -to;
    return all;
}

/* Returns the n-th set bit of `of`, counted from 0, or 0 if there are fewer. */
JPEG_INLINE uint64_t find_bit(uint64_t of, uint32_t n, bool bmi2)
{
#ifdef __x86_64__
    if (bmi2)
        return deposit(UINT64_C(1) << n, of, true);
#endif
    for (; n > 0; n--)
        of &= of - 1;
    return of & -of;
}

/* Table of bytes with their bits in reverse order. */
#define R2(n) (n), (n) + 2 * 64, (n) + 1 * 64, (n) + 3 * 64
#define R4(n) R2(n), R2((n) + 2 * 16), R2((n) + 1 * 16), R2((n) + 3 * 16)
#define R6(n) R4(n), R4((n) + 2 * 4), R4((n) + 1 * 4), R4((n) + 3 * 4)
static const uint8_t reversed[256] = {R6(0), R6(2), R6(1), R6(3)};

/* Read one bit for each set bit of `of`, starting with the lowest. Returns the positions of the
 * bits that are 1, or 0 if they are not `wanted`. At least 8 bits must be available; afterwards
 * there may be none. */
JPEG_INLINE uint64_t read_flags(struct jpeg_bits *b, uint64_t of, bool wanted, bool bmi2)
{
    uint32_t n = (uint32_t)__builtin_popcountll(of);
    uint64_t all = 0;

    while (__builtin_expect(n > 8, 0)) {
        if (wanted) {
            uint64_t eight = deposit(255, of, bmi2);

            all |= deposit(reversed[b->word >> 56], eight, bmi2);
            of &= ~eight;
        }
        jpeg_bits_drop(b, 8);
        jpeg_bits_refill(b);
        n -= 8;
    }
    if (wanted)
        all |= deposit(reversed[b->word >> 56], of, bmi2);
    jpeg_bits_drop(b, n);
    return all;
}

/* Make sure that there are enough bits for a block. */
JPEG_INLINE bool have_bits(struct jpeg_scan *s, struct jpeg_bits *b)
{
    if (__builtin_expect(b->at > s->limit, 0)) {
        s->bits = *b;
        if (!jpeg_scan_more(s))
            return false;
        *b = s->bits;
    }
    return true;
}

/* A symbol of a band. */
struct symbol {
    uint32_t step; /* distance from the previous coefficient; JPEG_STEP_EOB: the block ends */
    uint32_t size; /* size of the value in bits */
    int32_t value; /* the coefficient; after JPEG_STEP_EOB, the number of blocks that end here */
};

/* Read a symbol that is not in the table. */
static bool take_rare(struct jpeg_bits *b, const struct jpeg_huff *h, struct symbol *ret)
{
    int symbol = jpeg_huff_slow(h, b, &ret->value);
    uint32_t more = (uint32_t)symbol >> 4;

    if (symbol < 0)
        return false;
    jpeg_bits_refill(b);
    ret->step = more + 1;
    ret->size = (uint32_t)symbol & 15;
    if (ret->size == 0 && more < 15) {
        ret->step = JPEG_STEP_EOB;
        ret->value = (int32_t)((1U << more) + (uint32_t)(b->word >> 1 >> (63 - more)));
        jpeg_bits_drop(b, more);
        jpeg_bits_refill(b);
    }
    return true;
}

/* Read a symbol of at most 31 bits. `sign`: values have only one bit, or are ignored. Returns false
 * for an invalid code. */
JPEG_INLINE bool read_symbol(struct jpeg_bits *b, const struct jpeg_huff *h, bool sign,
                             struct symbol *ret)
{
    jpeg_entry e = jpeg_bits_look(b, h->one);
    uint32_t code = e >> 16 & 255;

    if (__builtin_expect(e == JPEG_RARE, 0)) {
        struct jpeg_bits copy = *b; /* a copy, so that *b can stay in registers */
        struct symbol symbol;

        if (!take_rare(&copy, h, &symbol))
            return false;
        *b = copy;
        *ret = symbol;
        return true;
    }
    ret->step = e >> 8 & 255;
    ret->size = e >> 24;
    if (ret->step == JPEG_STEP_EOB)
        ret->value =
            (int32_t)((1U << ret->size) + (uint32_t)(b->word << code >> 1 >> (63 - ret->size)));
    else if (sign)
        ret->value = (int32_t)(b->word << code >> 63) * 2 - 1;
    else
        ret->value = jpeg_value(b->word, code, ret->size);
    jpeg_bits_drop(b, e & 255);
    return true;
}

/* Read a block's band in the first scan that sends it. */
JPEG_INLINE bool read_first(struct jpeg_bits *b, const struct coefs_reader *r, int16_t *coef,
                            uint64_t *nonzero, uint32_t *run)
{
    uint32_t k = r->frame.scan.first - 1U, last = r->frame.scan.last, low = r->frame.scan.low;
    uint64_t seen = *nonzero;
    struct symbol symbol;

    if (coef && seen == 0)
        memset(coef, 0, 64 * sizeof(*coef));
    do {
        jpeg_bits_refill(b);
        if (!read_symbol(b, r->huff, false, &symbol))
            return false;
        if (symbol.step == JPEG_STEP_EOB) {
            *run = (uint32_t)symbol.value;
            break;
        }
        k += symbol.step;
        if (k > last)
            return false;
        seen |= (uint64_t)(symbol.size > 0) << k;
        if (coef) /* a run of zeros writes the last of them */
            coef[jpeg_natural[k]] = (int16_t)(symbol.value * (1 << low));
    } while (k < last);
    *nonzero = seen;
    return true;
}

/* Set the next lower bit of some coefficients' magnitudes. */
JPEG_INLINE void enlarge_some(int16_t *coef, uint64_t which, int32_t one)
{
    for (; which != 0; which &= which - 1) {
        int16_t *c = &coef[jpeg_natural[__builtin_ctzll(which)]];

        *c = (int16_t)(*c + (*c < 0 ? -one : one));
    }
}

/* Read one more bit of each coefficient of a block's band that is not 0, and the coefficients whose
 * first bit this is. */
JPEG_INLINE bool read_more(struct jpeg_bits *b, const struct coefs_reader *r, int16_t *coef,
                           uint64_t *nonzero, uint32_t *run, bool bmi2)
{
    uint64_t old = *nonzero & r->band, zero = ~*nonzero & r->band, larger = 0, begun = 0, at;
    int32_t one = 1 << r->frame.scan.low;
    struct symbol symbol;

    if (coef && *nonzero == 0)
        memset(coef, 0, 64 * sizeof(*coef));
    do {
        jpeg_bits_refill(b);
        if (!read_symbol(b, r->huff, true, &symbol))
            return false;
        if (symbol.step == JPEG_STEP_EOB) {
            *run = (uint32_t)symbol.value;
            break;
        }
        at = find_bit(zero, symbol.step - 1, bmi2);
        if (at == 0 || symbol.size > 1)
            return false;
        larger |= read_flags(b, old & (at - 1), coef != NULL, bmi2);
        old &= -at;
        zero &= -at << 1;
        if (symbol.size > 0) {
            begun |= at;
            if (coef)
                coef[jpeg_natural[__builtin_ctzll(at)]] = (int16_t)(symbol.value * one);
        }
    } while (at << 1 & r->band);
    if (symbol.step == JPEG_STEP_EOB) {
        jpeg_bits_refill(b);
        larger |= read_flags(b, old, coef != NULL, bmi2);
    }
    if (coef)
        enlarge_some(coef, larger, one);
    *nonzero |= begun;
    return true;
}

/* Like read_more(), for a block without symbols. */
JPEG_INLINE void read_bits(struct jpeg_bits *b, const struct coefs_reader *r, int16_t *coef,
                           uint64_t nonzero, bool bmi2)
{
    uint64_t old = nonzero & r->band, larger;

    if (old == 0)
        return;
    jpeg_bits_refill(b);
    larger = read_flags(b, old, coef != NULL, bmi2);
    if (coef)
        enlarge_some(coef, larger, 1 << r->frame.scan.low);
}

/* Variants of the loop over blocks. They are constants, so compilers generate a loop for each. */
enum {
    KEEP = 1, /* store the values; otherwise `coef` may be NULL */
    MORE = 2, /* refine coefficients of earlier scans */
    BMI2 = 4, /* use the instructions of BMI2 */
};

/* Read `count` blocks of a scan of AC coefficients. */
JPEG_INLINE bool read_band(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, uint32_t count,
                           unsigned how)
{
    const bool keep = how & KEEP, more = how & MORE, bmi2 = how & BMI2;
    struct jpeg_scan *s = r->s;
    struct jpeg_bits bits = s->bits;
    uint32_t run = r->run;

    for (uint32_t i = 0; i < count; i++) {
        int16_t *block = keep ? coef + (size_t)i * 64 : NULL;

        if (run == 0) {
            if (!have_bits(s, &bits))
                return false;
            if (more ? !read_more(&bits, r, block, &nonzero[i], &run, bmi2)
                     : !read_first(&bits, r, block, &nonzero[i], &run))
                return false;
            run -= run > 0;
        } else if (more) {
            if (!have_bits(s, &bits))
                return false;
            read_bits(&bits, r, block, nonzero[i], bmi2);
            run--;
        } else {
            uint32_t n = (uint32_t)min_u64(run, count - i);

            run -= n;
            i += n - 1;
        }
    }
    s->bits = bits;
    r->run = run;
    return true;
}

/* The loops over blocks, compiled for one kind of processor. */
struct coefs_loops {
    bool (*first)(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, uint32_t count);
    bool (*first_skipped)(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, uint32_t count);
    bool (*more)(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, uint32_t count);
    bool (*more_skipped)(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, uint32_t count);
};

#define LOOP(name, attribute, how)                                                       \
    attribute static bool name(struct coefs_reader *r, uint64_t *nonzero, int16_t *coef, \
                               uint32_t count)                                           \
    {                                                                                    \
        return read_band(r, nonzero, coef, count, how);                                  \
    }
#define LOOPS(name, attribute, bmi2)                                                    \
    LOOP(first_##name, attribute, KEEP | (bmi2))                                        \
    LOOP(first_skipped_##name, attribute, bmi2)                                         \
    LOOP(more_##name, attribute, KEEP | MORE | (bmi2))                                  \
    LOOP(more_skipped_##name, attribute, MORE | (bmi2))                                 \
    static const struct coefs_loops loops_##name = {first_##name, first_skipped_##name, \
                                                    more_##name, more_skipped_##name}

LOOPS(anywhere, , 0);
#ifdef __x86_64__
LOOPS(bmi2, __attribute__((target("bmi,bmi2,popcnt"))), BMI2);
#else
#define loops_bmi2 loops_anywhere
#endif

/* Read blocks of one row, interval by interval. */
static bool read_blocks(struct coefs_reader *r, struct jpeg_coef_plane *p, uint32_t x, uint32_t end,
                        uint32_t y, bool keep)
{
    const struct coefs_loops *loops = r->bmi2 ? &loops_bmi2 : &loops_anywhere;
    bool more = r->frame.scan.high > 0;
    struct jpeg_scan *s = r->s;

    assert(x <= end && end <= p->pitch);
    while (x < end) {
        uint64_t *nonzero = p->nonzero + (size_t)y * p->pitch + x;
        uint32_t n = end - x;

        if (s->restart > 0) {
            if (s->left == 0) {
                if (!jpeg_scan_restart(s))
                    return false;
                r->run = 0;
            }
            n = (uint32_t)min_u64(n, s->left);
            s->left -= n;
        }
        if (keep ? !(more ? loops->more : loops->first)(r, nonzero, jpeg_coefs_block(p, x, y), n)
                 : !(more ? loops->more_skipped : loops->first_skipped)(r, nonzero, NULL, n))
            return false;
        x += n;
    }
    return true;
}

/* Read a scan of AC coefficients. */
static bool read_band_scan(struct coefs_reader *r)
{
    uint32_t component = r->frame.scan.component[0];
    const struct jpeg_component *c = &r->frame.component[component];
    struct jpeg_coef_plane *p = &r->coefs->planes[component];
    uint32_t across = jpeg_blocks(c->width), down = jpeg_blocks(c->height);

    assert(r->frame.scan.count == 1 && r->frame.scan.first > 0);
    assert(p->right <= across && p->bottom <= down);
    r->run = 0;
    r->band = ~UINT64_C(0) >> (63 - r->frame.scan.last) & ~UINT64_C(0) << r->frame.scan.first;
    for (uint32_t y = 0; y < down; y++) {
        bool keep = y >= p->top && y < p->bottom;
        uint32_t left = keep ? p->left : across, right = keep ? p->right : across;

        if (!read_blocks(r, p, 0, left, y, false) || !read_blocks(r, p, left, right, y, true) ||
            !read_blocks(r, p, right, across, y, false))
            return false;
    }
    return true;
}

/* Read the coefficients of a block of a file that is not progressive. */
static bool read_whole_block(struct jpeg_bits *bits, const struct member *m, uint32_t x)
{
    const struct jpeg_coef_plane *p = m->plane;
    uint32_t seen = 0;
    int16_t *coef;

    if (!m->keep || x < p->left || x >= p->right)
        return skip_ac(bits, m->ac);
    coef = m->ac_row + (size_t)(x - p->left) * 64;
    memset(coef, 0, 64 * sizeof(*coef));
    if (!read_ac(bits, m->ac, coef, &seen)) /* may write the first coefficient of the next block */
        return false;
    p->nonzero[m->row + x] = (seen & 63) == 0 ? 0 : (seen & 56) == 0 ? 2 : UINT64_MAX;
    return true;
}

/* Read an MCU of a scan of DC coefficients, or of all coefficients. */
static bool read_mcu(struct coefs_reader *r, uint32_t mcu)
{
    const struct jpeg_scan_spec *scan = &r->frame.scan;
    struct jpeg_scan *s = r->s;
    struct jpeg_bits bits = s->bits;

    jpeg_bits_refill(&bits); /* more bits than an MCU has blocks */
    for (uint32_t i = 0; i < r->member_count; i++) {
        const struct member *m = &r->members[i];
        uint32_t x = mcu * m->h + m->x;
        int16_t *dc = m->plane->dc + m->row + x;

        if (scan->high > 0) {
            *dc = (int16_t)(*dc | (int32_t)(bits.word >> 63) << scan->low);
            jpeg_bits_drop(&bits, 1);
            continue;
        }
        if (!read_dc(&bits, m->dc, &s->dc[m->component]))
            return false;
        *dc = (int16_t)(s->dc[m->component] * (1 << scan->low));
        if (scan->last > 0 && !read_whole_block(&bits, m, x))
            return false;
    }
    s->bits = bits;
    return true;
}

/* Find where the blocks of a row of MCUs are stored. */
static void locate_row(struct coefs_reader *r, uint32_t row)
{
    for (uint32_t i = 0; i < r->member_count; i++) {
        struct member *m = &r->members[i];
        const struct jpeg_coef_plane *p = m->plane;
        uint32_t y = row * m->v + m->y;

        m->row = (size_t)y * p->pitch;
        m->keep = y >= p->top && y < p->bottom;
        m->ac_row = m->keep ? jpeg_coefs_block(p, p->left, y) : NULL;
    }
}

/* Read a scan whose MCUs may have several blocks. */
static bool read_mcu_scan(struct coefs_reader *r)
{
    const struct jpeg_frame *f = &r->frame;
    const struct jpeg_component *only = &f->component[f->scan.component[0]];
    bool mixed = f->scan.count > 1;
    uint32_t mcus = mixed ? f->mcus : jpeg_blocks(only->width);
    uint32_t rows = mixed ? f->rows : jpeg_blocks(only->height);

    assert(r->member_count > 0 && mcus <= f->mcus * only->h && rows <= f->rows * only->v);
    for (uint32_t row = 0; row < rows; row++) {
        locate_row(r, row);
        for (uint32_t mcu = 0; mcu < mcus; mcu++)
            if (!jpeg_scan_mcu(r->s) || !read_mcu(r, mcu))
                return false;
    }
    return true;
}

/* Returns whether the table has a symbol whose coefficient, shifted left by `low`, can have more
 * than 16 bits. */
static bool is_too_large(const struct jpeg_huff *h, uint32_t low)
{
    for (uint32_t i = 0; i < h->count; i++)
        if ((h->symbols[i] & 15U) + low > 16)
            return true;
    return false;
}

/* Get the tables of the scan, and the blocks of its MCUs in order. */
static int prepare_scan(struct coefs_reader *r, const struct jpeg_coefs_tools *tools)
{
    const struct jpeg_frame *f = &r->frame;
    const struct jpeg_scan_spec *scan = &f->scan;
    enum jpeg_huff_kind kind = f->progressive ? JPEG_HUFF_BAND : JPEG_HUFF_AC;
    int e = JPEG_OWN_GIVES_UP;

    r->member_count = 0;
    for (uint32_t i = 0; i < scan->count; i++) {
        const struct jpeg_component *c = &f->component[scan->component[i]];
        struct member m = {.plane = &r->coefs->planes[scan->component[i]],
                           .component = scan->component[i],
                           .h = scan->count > 1 ? c->h : 1,
                           .v = scan->count > 1 ? c->v : 1};

        if (scan->first == 0 && scan->high == 0)
            m.dc = jpeg_huff_get(tools->huffs, JPEG_HUFF_DC, &f->dc[c->dc], &e);
        if (scan->last > 0)
            m.ac = jpeg_huff_get(tools->huffs, kind, &f->ac[c->ac], &e);
        if ((scan->first == 0 && scan->high == 0 && !m.dc) || (scan->last > 0 && !m.ac))
            return e == -ENOMEM ? e : JPEG_OWN_GIVES_UP;
        if (f->progressive && m.ac && is_too_large(m.ac, scan->low))
            return JPEG_OWN_GIVES_UP;
        r->huff = m.ac;
        for (m.y = 0; m.y < m.v; m.y++)
            for (m.x = 0; m.x < m.h; m.x++) {
                assert(r->member_count < JPEG_MCU_BLOCKS);
                r->members[r->member_count++] = m;
            }
    }
    return 0;
}

static int make_room(struct jpeg_coefs *coefs, const struct jpeg_frame *f)
{
    size_t words = 0, blocks = 0, at;

    for (uint32_t i = 0; i < f->count; i++) {
        struct jpeg_coef_plane *p = &coefs->planes[i];

        p->pitch = f->mcus * f->component[i].h;
        assert(p->left < p->right && p->right <= p->pitch && p->top < p->bottom);
        words += (size_t)p->pitch * f->rows * f->component[i].v;
        blocks += (size_t)(p->right - p->left) * (p->bottom - p->top);
    }
    blocks++; /* read_ac() may write after the last one */
    if (scratch_reserve(&coefs->room, blocks * 128 + words * 10) < 0)
        return -ENOMEM;
    at = blocks * 128;
    memset((uint8_t *)coefs->room.bytes + at, 0, words * 10);
    blocks = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        struct jpeg_coef_plane *p = &coefs->planes[i];
        size_t n = (size_t)p->pitch * f->rows * f->component[i].v;

        p->ac = (int16_t *)coefs->room.bytes + blocks * 64;
        blocks += (size_t)(p->right - p->left) * (p->bottom - p->top);
        p->nonzero = (uint64_t *)((uint8_t *)coefs->room.bytes + at);
        at += n * sizeof(*p->nonzero);
    }
    for (uint32_t i = 0; i < f->count; i++) {
        struct jpeg_coef_plane *p = &coefs->planes[i];

        p->dc = (int16_t *)((uint8_t *)coefs->room.bytes + at);
        at += (size_t)p->pitch * f->rows * f->component[i].v * sizeof(*p->dc);
    }
    assert(at <= coefs->room.size);
    return 0;
}

/* Read the current scan, and find where it ends. */
static int read_scan(struct coefs_reader *r, const struct jpeg_coefs_tools *tools,
                     const struct image_file *file, size_t *end)
{
    int e = prepare_scan(r, tools);

    if (e != 0)
        return e;
    jpeg_scan_begin_whole(r->s, file, r->frame.data, r->frame.restart);
    if (!(r->frame.scan.first > 0 ? read_band_scan(r) : read_mcu_scan(r)) ||
        !jpeg_scan_end(r->s, end))
        return JPEG_OWN_GIVES_UP;
    return 0;
}

/* Returns whether coefficients of each component were sent. Coefficients that were not sent are
 * zeros, as in libjpeg, but if a component has none, the file is left to libjpeg. */
static bool is_whole(const struct jpeg_frame *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->sent[i][0] < 0)
            return false;
    return true;
}

int jpeg_coefs_read(struct jpeg_coefs *coefs, const struct jpeg_coefs_tools *tools,
                    const struct jpeg_frame *frame, const struct image_file *file)
{
    struct coefs_reader r = {
        .coefs = coefs, .frame = *frame, .s = tools->scan, .bmi2 = tools->bmi2};
    int e = make_room(coefs, frame);
    bool last = false;

    for (uint32_t scans = 1; e == 0 && !last; scans++) {
        size_t end = 0;

        if (scans > IMAGE_SCANS_MAX || (uint64_t)frame->blocks * scans > IMAGE_BLOCK_VISITS_MAX)
            return JPEG_OWN_GIVES_UP;
        e = read_scan(&r, tools, file, &end);
        if (e == 0 && !jpeg_frame_next(&r.frame, file->bytes, file->len, end, &last))
            e = JPEG_OWN_GIVES_UP;
    }
    return e == 0 && !is_whole(&r.frame) ? JPEG_OWN_GIVES_UP : e;
}

/* jpeg_own.c - from entropy-coded bytes to rows of pixels, only those of one region.
 *
 *     jpeg_frame.c   markers            -> what there is, and whether it is for us
 *     jpeg_huff.c    Huffman tables     -> tables of 12 bits, kept from image to image
 *     jpeg_scan.c    stuffed bytes      -> bits
 *     here           bits               -> coefficients, and the region's blocks of samples
 *     jpeg_pixels.c  coefficients       -> samples -> enlarged -> RGBX
 *
 * All blocks from the top to the region's last row have to be read, as nothing says where one
 * begins; but what does not lie under the region is only counted, several symbols at a time. Of
 * the samples there are two MCU rows in memory, in which each component's rows take turns: enlarging
 * a row may need the one above or below it.
 *
 *     seek()  -> [row of MCUs] -> [row of MCUs] -> ...      read in order, skipped above the region
 *     read()        <- rows of pixels whose samples are there, a few at a time
 *
 * We read at least as far as libjpeg would for the same rows, which looks one MCU row ahead where
 * chroma rows are mixed, and give up when anything is wrong there: so libjpeg's opinion of a file
 * stands.
 *
 * Why not libjpeg for this: its entropy decoder can stop at any byte and go on later, asks at each
 * symbol whether there are bits, and decodes coefficients of blocks that nobody wants. */
#include "config.h"

#include "loader/image/jpeg_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "loader/image/jpeg_frame.h"
#include "loader/image/jpeg_huff.h"
#include "loader/image/jpeg_pixels.h"
#include "loader/image/jpeg_scan.h"
#include "loader/image/scratch.h"

/* Rows that one read() delivers, and blocks that are transformed in one go. */
enum { STRIP_ROWS = 8, BATCH = 16 };

/* Places in `natural` for coefficients behind the last one, as a damaged file may have them:
 * libjpeg writes those into the last; and for the end of a block, which is none. */
enum { NOWHERE = 64 };

/* A component's samples under the region. */
struct plane {
    uint32_t left, right; /* blocks, across */
    uint32_t top, bottom; /* blocks, down */
    uint32_t rows;        /* in memory: those of two MCU rows */
    size_t pitch;
    uint8_t *samples; /* of block `left`, row 0; JPEG_PAD bytes before and behind each row */
    uint8_t *wide;    /* room for one enlarged row */
};

/* One block of an MCU. */
struct place {
    const struct jpeg_huff *dc, *ac;
    uint8_t component, x, y; /* blocks, within the MCU's of the component */
    uint8_t h;               /* blocks of an MCU, across */
    bool keep;               /* in this row of MCUs; then: */
    const struct plane *plane;
    const int16_t *quant;
    uint8_t *samples; /* of the plane's first block in the row */
};

struct jpeg_own {
    const struct jpeg_kernels *kernels;
    struct jpeg_huffs huffs;
    struct jpeg_frame frame;
    const uint8_t *bytes;
    size_t len;

    struct rect region;
    uint32_t left, right;  /* MCUs that hold the region, across */
    uint32_t top, bottom;  /* MCU rows of which anything is kept; bottom is the last to be read */
    uint32_t row;          /* the next MCU row */
    uint32_t y, y_ready;   /* the next row of pixels; those before y_ready can be made */
    struct plane planes[JPEG_COMPONENTS];
    struct place places[JPEG_MCU_BLOCKS];
    uint32_t places_count;
    struct scratch samples, strip;
    size_t strip_pitch;

    struct jpeg_scan scan;
    struct jpeg_block batch[BATCH];
    uint32_t batch_count;
    /* Of the batch; those of the blocks not in it are zero. */
    int16_t coef[BATCH][JPEG_COEF_ROOM] __attribute__((aligned(64)));
};

/* jpeg_zigzag[], then the last place for those behind it, then none. The end of a block is
 * JPEG_STEP_END behind the coefficient before. */
static const uint8_t natural[64 + 16 + JPEG_STEP_END] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,

    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,

    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
};

#define INLINE static inline __attribute__((always_inline))

/* The DC coefficient; leaves at least 29 bits. */
INLINE bool read_dc(struct jpeg_bits *b, const struct jpeg_huff *h, int32_t *dc)
{
    jpeg_entry e;
    int32_t value;

    jpeg_bits_refill(b);
    e = jpeg_bits_look(b, h->one);
    if (__builtin_expect(e == JPEG_RARE, 0)) {
        struct jpeg_bits bits = *b;

        if (jpeg_huff_slow(h, &bits, &value) < 0)
            return false;
        jpeg_bits_refill(&bits);
        *b = bits;
    } else {
        value = jpeg_value(b->word, e >> 16 & 255, e >> 24);
        jpeg_bits_drop(b, e & 255);
    }
    *dc += value;
    return *dc == (int16_t)*dc;
}

/* A symbol that is not in the table. The index of the coefficient goes on; false: no symbol. */
INLINE bool read_rare(struct jpeg_bits *bits, const struct jpeg_huff *h, uint32_t *k, int16_t *coef,
                      uint32_t *seen)
{
    struct jpeg_bits b = *bits; /* so that *bits needs no place in memory */
    int32_t value;
    int symbol = jpeg_huff_slow(h, &b, &value);

    if (symbol < 0)
        return false;
    jpeg_bits_refill(&b);
    *bits = b;
    if ((symbol & 15) == 0) {
        *k += symbol == 0xF0 ? 16 : JPEG_STEP_END;
        return true;
    }
    *k += (uint32_t)(symbol >> 4) + 1;
    if (coef) {
        coef[natural[*k]] = (int16_t)value;
        *seen |= natural[*k];
    }
    return true;
}

/* One or two of them; or a first one, where the second would be one too many. */
INLINE bool read_two(struct jpeg_bits *b, const struct jpeg_huff *h, uint32_t *k, int16_t *coef,
                     uint32_t *seen)
{
    jpeg_entry e = jpeg_bits_look(b, h->two);
    uint32_t second = e >> 21 & 127, at = *k + (e >> 14 & 127);

    if (__builtin_expect(e == JPEG_RARE || (at >= 63 && second > 0), 0))
        return read_rare(b, h, k, coef, seen);
    coef[natural[at]] = (int16_t)((int32_t)e >> 28);
    *seen |= natural[at];
    at += second;
    coef[natural[at]] = (int16_t)jpeg_value(b->word, e >> 6 & 15, e >> 10 & 15);
    *seen |= natural[at];
    *k = at;
    jpeg_bits_drop(b, e & 63);
    return true;
}

/* Read a block's AC coefficients into `coef`, which is zero; `seen` is all their places, ored. */
INLINE bool read_ac(struct jpeg_bits *b, const struct jpeg_huff *h, int16_t *coef, uint32_t *seen)
{
    uint32_t k = 0;

    for (;;) {
        jpeg_bits_refill(b); /* enough for two looks */
        if (!read_two(b, h, &k, coef, seen))
            return false;
        if (k >= 63)
            return true;
        if (!read_two(b, h, &k, coef, seen))
            return false;
        if (k >= 63)
            return true;
    }
}

INLINE bool pass_some(struct jpeg_bits *b, const struct jpeg_huff *h, uint32_t *k)
{
    jpeg_entry e = jpeg_bits_look(b, h->many);
    uint32_t seen;

    if (__builtin_expect(*k + (e >> 16) >= 63 || e == JPEG_RARE, 0)) {
        e = jpeg_bits_look(b, h->one);
        if (e == JPEG_RARE)
            return read_rare(b, h, k, NULL, &seen);
    }
    *k += e >> 8 & 255;
    jpeg_bits_drop(b, e & 255);
    return true;
}

/* Go over them. */
INLINE bool pass_ac(struct jpeg_bits *b, const struct jpeg_huff *h)
{
    uint32_t k = 0;

    for (;;) {
        jpeg_bits_refill(b);
        if (!pass_some(b, h, &k))
            return false;
        if (k >= 63)
            return true;
        if (!pass_some(b, h, &k))
            return false;
        if (k >= 63)
            return true;
    }
}

static void flush(struct jpeg_own *o)
{
    o->kernels->idct(o->batch, o->batch_count);
    memset(o->coef, 0, o->batch_count * sizeof(o->coef[0]));
    o->batch_count = 0;
}

/* A block without AC coefficients. */
static void fill_block(const struct jpeg_block *b)
{
    int32_t x = ((int16_t)(uint16_t)((uint32_t)(b->coef[0] * b->quant[0]) << 2) + 16) >> 5;
    uint64_t row = (uint8_t)((x < -128 ? -128 : x > 127 ? 127 : x) + 128);

    row *= UINT64_C(0x0101010101010101);
    for (uint32_t y = 0; y < JPEG_BLOCK; y++)
        memcpy(b->to + y * b->pitch, &row, sizeof(row));
}

/* Make samples of the block in o->coef[o->batch_count], now or with others. */
INLINE void take_block(struct jpeg_own *o, uint8_t *to, size_t pitch, const int16_t *quant,
                       uint32_t seen)
{
    struct jpeg_block *b = &o->batch[o->batch_count];
    int16_t *coef = o->coef[o->batch_count];

    *b = (struct jpeg_block){coef, quant, to, pitch};
    if ((seen & 63) == 0) {
        fill_block(b);
        coef[0] = 0;
    } else if ((seen & 56) == 0) {
        jpeg_idct_row(b);
        memset(coef, 0, JPEG_BLOCK * sizeof(*coef));
    } else if (++o->batch_count == BATCH) {
        flush(o);
    }
}

/* Read MCUs of which nothing is kept. */
INLINE bool pass_mcus(struct jpeg_own *o, uint32_t count)
{
    struct jpeg_scan *s = &o->scan;

    for (; count > 0; count--) {
        struct jpeg_bits bits;

        if (!jpeg_scan_mcu(s))
            return false;
        bits = s->bits;
        for (uint32_t i = 0; i < o->places_count; i++) {
            const struct place *p = &o->places[i];

            if (!read_dc(&bits, p->dc, &s->dc[p->component]) || !pass_ac(&bits, p->ac))
                return false;
        }
        s->bits = bits;
    }
    return true;
}

/* Read MCUs left ... right - 1 of the row. */
INLINE bool keep_mcus(struct jpeg_own *o)
{
    struct jpeg_scan *s = &o->scan;

    for (uint32_t mcu = o->left; mcu < o->right; mcu++) {
        struct jpeg_bits bits;

        if (!jpeg_scan_mcu(s))
            return false;
        bits = s->bits;
        for (uint32_t i = 0; i < o->places_count; i++) {
            const struct place *p = &o->places[i];
            uint32_t x = mcu * p->h + p->x, seen = 0;
            int32_t *dc = &s->dc[p->component];
            int16_t *coef = o->coef[o->batch_count];

            if (!read_dc(&bits, p->dc, dc))
                return false;
            if (!p->keep || x < p->plane->left || x >= p->plane->right) {
                if (!pass_ac(&bits, p->ac))
                    return false;
                continue;
            }
            coef[0] = (int16_t)*dc;
            if (!read_ac(&bits, p->ac, coef, &seen))
                return false;
            take_block(o, p->samples + (size_t)(x - p->plane->left) * JPEG_BLOCK, p->plane->pitch,
                       p->quant, seen);
        }
        s->bits = bits;
    }
    flush(o);
    return true;
}

/* A row of MCUs; with nothing to keep where `keep` is false. */
INLINE bool read_mcus(struct jpeg_own *o, bool keep)
{
    if (!keep)
        return pass_mcus(o, o->frame.mcus);
    return pass_mcus(o, o->left) && keep_mcus(o) && pass_mcus(o, o->frame.mcus - o->right);
}

static bool read_mcus_anywhere(struct jpeg_own *o, bool keep)
{
    return read_mcus(o, keep);
}

#ifdef __x86_64__
/* The same, where shifts by any number take one cycle. */
__attribute__((target("bmi,bmi2"))) static bool read_mcus_bmi2(struct jpeg_own *o, bool keep)
{
    return read_mcus(o, keep);
}
#else
#define read_mcus_bmi2 read_mcus_anywhere
#endif

/* Where samples are weighted with their neighbours, those at the image's edges are their own. */
static void pad_edges(struct jpeg_own *o)
{
    for (uint32_t i = 0; i < o->frame.count; i++) {
        const struct jpeg_component *c = &o->frame.component[i];
        const struct plane *p = &o->planes[i];
        uint32_t begin = o->row * c->v * JPEG_BLOCK % p->rows;
        size_t end = c->width - (size_t)p->left * JPEG_BLOCK; /* of the image, in p->samples */

        if (c->stretch_across != JPEG_FANCY)
            continue;
        for (uint32_t y = begin; y < begin + c->v * JPEG_BLOCK; y++) {
            uint8_t *row = p->samples + y * p->pitch;

            if (p->left == 0)
                row[-1] = row[0];
            if (p->right * JPEG_BLOCK >= c->width)
                row[end] = row[end - 1];
        }
    }
}

/* Which blocks of the row of MCUs are kept, and where. */
static void place_row(struct jpeg_own *o)
{
    for (uint32_t i = 0; i < o->places_count; i++) {
        struct place *p = &o->places[i];
        const struct jpeg_component *c = &o->frame.component[p->component];
        const struct plane *plane = &o->planes[p->component];
        uint32_t y = o->row * c->v + p->y;

        p->keep = y >= plane->top && y < plane->bottom;
        p->plane = plane;
        p->quant = o->frame.quant[c->quant];
        p->samples = plane->samples + y * JPEG_BLOCK % plane->rows * plane->pitch;
    }
}

/* Read the next row of MCUs. */
static bool read_row(struct jpeg_own *o)
{
    const struct jpeg_frame *f = &o->frame;
    bool keep = o->row >= o->top, ok;

    if (keep)
        place_row(o);
    ok = (o->kernels->bmi2 ? read_mcus_bmi2 : read_mcus_anywhere)(o, keep);
    if (keep)
        pad_edges(o);
    o->row++;
    o->y_ready = o->row < f->rows ? o->row * f->mcu_height - (f->context ? f->group : 0) : f->height;
    if (o->row > o->bottom) /* was the last MCU complete? */
        ok = ok && jpeg_scan_more(&o->scan);
    return ok;
}

static const uint8_t *row_of(const struct jpeg_own *o, uint32_t component, uint32_t y)
{
    const struct plane *p = &o->planes[component];

    return p->samples + y % p->rows * p->pitch;
}

/* A component's part of row o->y, as wide as the region. */
static const uint8_t *enlarge(struct jpeg_own *o, uint32_t component)
{
    const struct jpeg_component *c = &o->frame.component[component];
    const struct plane *p = &o->planes[component];
    uint32_t y = o->y / c->down, other = y, base = p->left * JPEG_BLOCK;
    uint32_t left = o->region.left, last = left + o->region.width - 1;
    const uint8_t *near, *far;

    if (c->stretch_down == JPEG_FANCY && o->y % 2 == 0)
        other = y > 0 ? y - 1 : 0;
    else if (c->stretch_down == JPEG_FANCY)
        other = y + 1 < c->height ? y + 1 : y;
    near = row_of(o, component, y);
    far = row_of(o, component, other);
    if (c->stretch_across == JPEG_FANCY) {
        uint32_t first = left / 2 - base, count = last / 2 - left / 2 + 1;

        if (c->stretch_down == JPEG_FANCY)
            o->kernels->h2v2(near + first, far + first, count, p->wide);
        else
            o->kernels->h2v1(near + first, count, p->wide);
        return p->wide + left % 2;
    }
    if (c->stretch_across == JPEG_REPEAT) {
        for (uint32_t x = left; x <= last; x++)
            p->wide[x - left] = near[x / c->across - base];
        return p->wide;
    }
    if (c->stretch_down == JPEG_FANCY) {
        o->kernels->h1v2(near + left - base, far + left - base, o->y % 2 == 0 ? 1 : 2,
                         o->region.width, p->wide);
        return p->wide;
    }
    return near + left - base;
}

static void make_row(struct jpeg_own *o, uint8_t *to)
{
    const uint8_t *rows[JPEG_COMPONENTS];

    for (uint32_t i = 0; i < o->frame.count; i++)
        rows[i] = enlarge(o, i);
    (o->frame.count == 1 ? o->kernels->grey : o->frame.ycc ? o->kernels->ycc : o->kernels->rgb)(
        rows, o->region.width, to);
    o->y++;
}

/* Which blocks of a component the region needs. */
static void place_plane(const struct jpeg_component *c, const struct rect *region, struct plane *p)
{
    uint32_t x_margin = c->stretch_across == JPEG_FANCY ? 2 : 0;
    uint32_t y_margin = c->stretch_down == JPEG_FANCY ? 2 : 0;
    uint32_t x = region->left > x_margin ? region->left - x_margin : 0;
    uint32_t y = region->top > y_margin ? region->top - y_margin : 0;
    uint32_t x_last = (region->left + region->width - 1 + x_margin) / c->across;
    uint32_t y_last = (region->top + region->height - 1 + y_margin) / c->down;

    x_last = x_last < c->width ? x_last : c->width - 1;
    y_last = y_last < c->height ? y_last : c->height - 1;
    p->left = x / c->across / JPEG_BLOCK;
    p->top = y / c->down / JPEG_BLOCK;
    p->right = x_last / JPEG_BLOCK + 1;
    p->bottom = y_last / JPEG_BLOCK + 1;
    p->rows = 2U * c->v * JPEG_BLOCK;
    p->pitch = align_up((size_t)(p->right - p->left) * JPEG_BLOCK + 2 * JPEG_PAD, 64);
}

/* The last row of MCUs that libjpeg would read for this row of pixels. */
static uint32_t last_row(const struct jpeg_frame *f, uint32_t y)
{
    uint32_t strip = y / f->strip, rows;

    if (f->context && y % f->strip >= f->strip - f->group)
        strip++;
    rows = (strip + 1) * (f->strip / f->mcu_height);
    return (rows < f->rows ? rows : f->rows) - 1;
}

static void find_rows_and_columns(struct jpeg_own *o)
{
    const struct jpeg_frame *f = &o->frame;

    o->left = o->top = UINT32_MAX;
    o->right = 0;
    o->bottom = last_row(f, o->region.top + o->region.height - 1);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct jpeg_component *c = &f->component[i];
        struct plane *p = &o->planes[i];

        place_plane(c, &o->region, p);
        o->left = (uint32_t)min_u64(o->left, p->left / c->h);
        o->top = (uint32_t)min_u64(o->top, p->top / c->v);
        o->right = (uint32_t)max_u64(o->right, (p->right - 1) / c->h + 1);
    }
}

static int make_room(struct jpeg_own *o)
{
    size_t wide = align_up(o->region.width + 2, 64) + JPEG_PAD, at = 0;

    for (uint32_t i = 0; i < o->frame.count; i++)
        at += o->planes[i].rows * o->planes[i].pitch + wide;
    o->strip_pitch = align_up((size_t)o->region.width * 4, 32) + 4 * JPEG_PAD;
    if (scratch_reserve(&o->samples, at) < 0 ||
        scratch_reserve(&o->strip, STRIP_ROWS * o->strip_pitch) < 0)
        return -ENOMEM;
    at = 0;
    for (uint32_t i = 0; i < o->frame.count; i++) {
        struct plane *p = &o->planes[i];

        p->samples = (uint8_t *)o->samples.bytes + at + JPEG_PAD;
        at += p->rows * p->pitch;
        p->wide = (uint8_t *)o->samples.bytes + at;
        at += wide;
    }
    return 0;
}

int jpeg_own_create(struct jpeg_own **ret)
{
    struct jpeg_own *o = aligned_alloc(64, align_up(sizeof(*o), 64));

    if (!o)
        return -ENOMEM;
    memset(o, 0, sizeof(*o));
    for (size_t i = 0; !o->kernels; i++)
        if (jpeg_kernels[i]->usable())
            o->kernels = jpeg_kernels[i];
    *ret = o;
    return 0;
}

void jpeg_own_destroy(struct jpeg_own *o)
{
    if (!o)
        return;
    jpeg_huffs_fini(&o->huffs);
    scratch_free(&o->samples);
    scratch_free(&o->strip);
    free(o);
}

void jpeg_own_use(struct jpeg_own *o, const struct jpeg_kernels *kernels)
{
    o->kernels = kernels;
}

int jpeg_own_open(struct jpeg_own *o, const uint8_t *bytes, size_t len, uint32_t *width,
                  uint32_t *height)
{
    if (!jpeg_frame_parse(bytes, len, &o->frame))
        return JPEG_OWN_GIVES_UP;
    o->bytes = bytes;
    o->len = len;
    *width = o->frame.width;
    *height = o->frame.height;
    return 0;
}

/* The blocks of an MCU in their order, with their tables. */
static int list_places(struct jpeg_own *o)
{
    o->places_count = 0;
    for (uint32_t i = 0; i < o->frame.count; i++) {
        const struct jpeg_component *c = &o->frame.component[i];
        jpeg_huff_fill_fn *fill = o->kernels->fill;
        int r = 0;
        const struct jpeg_huff *dc, *ac = NULL;

        dc = jpeg_huff_get(&o->huffs, false, &o->frame.dc[c->dc], fill, &r);
        if (dc)
            ac = jpeg_huff_get(&o->huffs, true, &o->frame.ac[c->ac], fill, &r);
        if (!ac)
            return r == -ENOMEM ? r : JPEG_OWN_GIVES_UP;
        for (uint8_t y = 0; y < c->v; y++)
            for (uint8_t x = 0; x < c->h; x++)
                o->places[o->places_count++] =
                    (struct place){.dc = dc, .ac = ac, .component = (uint8_t)i, .x = x, .y = y, .h = c->h};
    }
    return 0;
}

int jpeg_own_seek(struct jpeg_own *o, const struct rect *region)
{
    int r = list_places(o);

    if (r != 0)
        return r;
    o->region = *region;
    find_rows_and_columns(o);
    r = make_room(o);
    if (r < 0)
        return r;
    o->row = 0;
    o->y = region->top;
    o->y_ready = 0;
    o->batch_count = 0;
    memset(o->coef, 0, sizeof(o->coef));
    jpeg_scan_begin(&o->scan, o->bytes, o->len, o->frame.data, o->frame.restart);
    return 0;
}

int jpeg_own_read(struct jpeg_own *o, struct image_rows *ret)
{
    uint32_t end = o->region.top + o->region.height, count = 0;

    while (o->y_ready <= o->y || (o->y_ready >= end && o->row <= o->bottom))
        if (!read_row(o))
            return JPEG_OWN_GIVES_UP;
    for (; count < STRIP_ROWS && o->y < end && o->y < o->y_ready; count++)
        make_row(o, (uint8_t *)o->strip.bytes + count * o->strip_pitch);
    *ret = (struct image_rows){o->strip.bytes, o->strip_pitch, count};
    return 0;
}

void jpeg_own_close(struct jpeg_own *o)
{
    scratch_trim(&o->samples, 4 << 20);
    scratch_trim(&o->strip, 4 << 20);
}

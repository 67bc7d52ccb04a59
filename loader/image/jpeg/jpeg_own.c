/* SPDX-License-Identifier: MIT */
/* jpeg_own.c - decodes entropy-coded segments to the rows of pixels of one region.
 *
 *     jpeg_frame.c   markers            -> frame header, or give up
 *     jpeg_huff.c    Huffman tables     -> tables of 11 bits, kept from image to image
 *     jpeg_scan.c    stuffed bytes      -> bits
 *     jpeg_tiles.c   hint               -> where tiles begin
 *     here           bits               -> coefficients, and the region's blocks of samples
 *     jpeg_coefs.c   bits               -> coefficients, of files with several scans
 *     jpeg_planes.c  samples            -> rows of pixels
 *     jpeg_pixels.c  the loops over coefficients, samples and pixels
 *
 * Nothing in the entropy-coded data marks where a block begins. So all blocks from the top to the
 * region's last row are read; but blocks outside of the region are skipped, several symbols at a
 * time. If tiles are known from an earlier decode, only those under the region are read, two rows
 * of them at once: while the look-up of one row waits for memory, that of the other computes. Rows
 * whose tiles are not known are read from the end of the known ones.
 *
 *     seek()  -> [row of MCUs] -> [row of MCUs] -> ...      in order; blocks above are skipped
 *     read()        <- rows of pixels whose samples are complete, a few at a time
 *
 * For a file with several scans, seek() reads all coefficients, from which rows of MCUs are then
 * computed.
 *
 * We read at least as far as libjpeg would for the same rows (it reads one MCU row ahead if
 * upsampling mixes rows), and give up on any error there. So libjpeg reports the error of every
 * damaged file.
 *
 * Why not libjpeg: its entropy decoder can suspend at any byte, checks before each symbol whether
 * there are enough bits, and decodes the coefficients of blocks that are not needed. */
#include "config.h"

#include "loader/image/jpeg/jpeg_own.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_blocks.h"
#include "loader/image/jpeg/jpeg_coefs.h"
#include "loader/image/jpeg/jpeg_frame.h"
#include "loader/image/jpeg/jpeg_huff.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/jpeg/jpeg_planes.h"
#include "loader/image/jpeg/jpeg_scan.h"
#include "loader/image/jpeg/jpeg_tiles.h"
#include "loader/image/scratch.h"

/* Rows per read(), and blocks that are transformed at a time. */
enum { STRIP_ROWS = 8, BATCH = 16 };

/* One block of an MCU. */
struct mcu_block {
    const struct jpeg_huff *dc, *ac;
    uint8_t component, x, y; /* x, y: position in the component's part of the MCU, in blocks */
    uint8_t h;               /* blocks per MCU, across */
    bool keep;               /* blocks of this row are needed */
    const struct jpeg_plane *plane;
    const int16_t *quant;
    uint8_t *samples; /* samples of the plane's first block in the row */
};

struct jpeg_own {
    const struct jpeg_kernels *kernels;
    struct jpeg_huffs huffs;
    struct jpeg_frame frame;
    struct image_file file;

    struct jpeg_planes planes; /* planes of the region */
    uint32_t left, right;      /* MCUs that contain the region, across */
    uint32_t top, end;         /* MCU rows that have needed blocks: top ... end - 1 */
    uint32_t bottom;           /* the last MCU row to be read */
    uint32_t row;              /* the next MCU row */
    uint32_t y, y_ready;       /* the next row of pixels; rows before y_ready can be produced */
    /* The blocks of an MCU in even rows, and in odd rows. */
    struct mcu_block mcu_blocks[2][JPEG_MCU_BLOCKS];
    /* The blocks of an MCU in the row that each scan is reading. */
    const struct mcu_block *mcu_block[2];
    uint32_t mcu_block_count;
    struct scratch strip;
    size_t strip_pitch;
    struct jpeg_coefs coefs; /* coefficients of a file with several scans */

    struct jpeg_tiles tiles;
    /* `scan` is the current one; the other is for a second segment */
    struct jpeg_scan *scan, scans[2];
    struct jpeg_block batch[BATCH];
    uint32_t batch_count;
    uint8_t slot[BATCH]; /* per block of the batch: the index of its coefficients */
    /* Coefficients of the batch; those of blocks not in it are zero. */
    int16_t coef[BATCH][JPEG_COEF_ROOM] __attribute__((aligned(64)));
};

#define INLINE static inline __attribute__((always_inline))

/* Returns whether the block at `x` of its component's row is needed. */
INLINE bool wanted(const struct mcu_block *p, uint32_t x)
{
    return p->keep && x >= p->plane->left && x < p->plane->right;
}

static void flush(struct jpeg_own *o)
{
    assert(o->batch_count <= BATCH);
    o->kernels->idct(o->batch, o->batch_count);
    memset(o->coef, 0, sizeof(o->coef)); /* faster than clearing them one by one */
    o->batch_count = 0;
}

/* Fill a block without AC coefficients. */
static void fill_block(const struct jpeg_block *b)
{
    int32_t x = ((int16_t)(uint16_t)((uint32_t)(b->coef[0] * b->quant[0]) << 2) + 16) >> 5;
    uint64_t row = (uint8_t)((x < -128 ? -128 : x > 127 ? 127 : x) + 128);

    row *= UINT64_C(0x0101010101010101);
    for (uint32_t y = 0; y < JPEG_BLOCK; y++)
        memcpy(b->to + y * b->pitch, &row, sizeof(row));
}

/* Returns the coefficients of the next block, if `behind` is 0, or of the one after it. */
INLINE int16_t *next_coef(struct jpeg_own *o, uint32_t behind)
{
    return o->coef[o->slot[o->batch_count + behind]];
}

/* Dequantise and transform the block in next_coef(), now or as part of a batch. */
INLINE void output_block(struct jpeg_own *o, const struct mcu_block *p, uint32_t x, uint32_t seen)
{
    struct jpeg_block *b = &o->batch[o->batch_count];
    int16_t *coef = next_coef(o, 0);

    *b = (struct jpeg_block){.coef = coef,
                             .quant = p->quant,
                             .to = p->samples + (size_t)(x - p->plane->left) * JPEG_BLOCK,
                             .pitch = p->plane->pitch};
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

/* Skip MCUs without needed blocks. */
INLINE bool skip_mcus(struct jpeg_own *o, uint32_t count)
{
    struct jpeg_scan *s = o->scan;

    for (; count > 0; count--) {
        struct jpeg_bits bits;

        if (!jpeg_scan_mcu(s))
            return false;
        bits = s->bits;
        for (uint32_t i = 0; i < o->mcu_block_count; i++) {
            const struct mcu_block *p = &o->mcu_block[0][i];

            if (!read_dc(&bits, p->dc, &s->dc[p->component]) || !skip_ac(&bits, p->ac))
                return false;
        }
        s->bits = bits;
    }
    return true;
}

/* Read the AC coefficients of block `x` of its component's row, and convert them to samples if they
 * are needed. */
INLINE bool read_block(struct jpeg_own *o, struct jpeg_bits *bits, const struct mcu_block *p,
                       uint32_t x, int32_t dc)
{
    int16_t *coef = next_coef(o, 0);
    uint32_t seen = 0;

    if (!wanted(p, x))
        return skip_ac(bits, p->ac);
    coef[0] = (int16_t)dc;
    if (!read_ac(bits, p->ac, coef, &seen))
        return false;
    output_block(o, p, x, seen);
    return true;
}

/* Read MCUs begin ... end - 1 of the row. */
INLINE bool keep_mcus(struct jpeg_own *o, uint32_t begin, uint32_t end)
{
    struct jpeg_scan *s = o->scan;

    for (uint32_t mcu = begin; mcu < end; mcu++) {
        struct jpeg_bits bits;

        if (!jpeg_scan_mcu(s))
            return false;
        bits = s->bits;
        for (uint32_t i = 0; i < o->mcu_block_count; i++) {
            const struct mcu_block *p = &o->mcu_block[0][i];
            int32_t *dc = &s->dc[p->component];

            if (!read_dc(&bits, p->dc, dc) || !read_block(o, &bits, p, mcu * p->h + p->x, *dc))
                return false;
        }
        s->bits = bits;
    }
    return true;
}

/* Read one block of each of two scans at once, so that the look-ups of one overlap the waits of the
 * other. */
INLINE bool read_blocks(struct jpeg_own *o, struct jpeg_bits *bits,
                        const struct mcu_block *const *p, const uint32_t *x, const int32_t *dc)
{
    bool want[2] = {wanted(p[0], x[0]), wanted(p[1], x[1])};
    uint32_t seen[2] = {0};
    int16_t *coef[2];
    uint32_t count;

    if (want[0] != want[1])
        return read_block(o, &bits[0], p[0], x[0], dc[0]) &&
               read_block(o, &bits[1], p[1], x[1], dc[1]);
    if (!want[0])
        return skip_ac_both(bits, p[0]->ac);
    if (o->batch_count + 1 >= BATCH)
        flush(o);
    count = o->batch_count;
    for (uint32_t i = 0; i < 2; i++) {
        coef[i] = next_coef(o, i);
        coef[i][0] = (int16_t)dc[i];
    }
    if (!read_ac_both(bits, p[0]->ac, coef, seen))
        return false;
    output_block(o, p[0], x[0], seen[0]);
    /* The first block is not in the batch, so the second one takes its place. */
    if (o->batch_count == count) {
        uint8_t slot = o->slot[count];

        o->slot[count] = o->slot[count + 1];
        o->slot[count + 1] = slot;
    }
    output_block(o, p[1], x[1], seen[1]);
    return true;
}

/* Read `count` MCUs from begin[0] of its row with s[0], and `count` MCUs from begin[1] with
 * s[1]. */
INLINE bool read_both(struct jpeg_own *o, struct jpeg_scan *const *s, const uint32_t *begin,
                      uint32_t count)
{
    for (uint32_t mcu = 0; mcu < count; mcu++) {
        struct jpeg_bits bits[2];

        if (!jpeg_scan_mcu(s[0]) || !jpeg_scan_mcu(s[1]))
            return false;
        bits[0] = s[0]->bits;
        bits[1] = s[1]->bits;
        for (uint32_t i = 0; i < o->mcu_block_count; i++) {
            const struct mcu_block *p[2] = {&o->mcu_block[0][i], &o->mcu_block[1][i]};
            uint32_t x[2];
            int32_t dc[2];

            for (uint32_t k = 0; k < 2; k++) {
                if (!read_dc(&bits[k], p[0]->dc, &s[k]->dc[p[0]->component]))
                    return false;
                dc[k] = s[k]->dc[p[0]->component];
                x[k] = (begin[k] + mcu) * p[0]->h + p[0]->x;
            }
            if (!read_blocks(o, bits, p, x, dc))
                return false;
        }
        s[0]->bits = bits[0];
        s[1]->bits = bits[1];
    }
    return true;
}

/* The loops over MCUs, compiled for one kind of processor. They are separate functions, because
 * together they would need too many registers. */
struct own_loops {
    bool (*skip)(struct jpeg_own *o, uint32_t count);
    bool (*keep)(struct jpeg_own *o, uint32_t begin, uint32_t end);
    bool (*both)(struct jpeg_own *o, struct jpeg_scan *const *s, const uint32_t *begin,
                 uint32_t count);
};

#define LOOPS(name, attribute)                                                          \
    attribute static bool skip_##name(struct jpeg_own *o, uint32_t count)               \
    {                                                                                   \
        return skip_mcus(o, count);                                                     \
    }                                                                                   \
    attribute static bool keep_##name(struct jpeg_own *o, uint32_t begin, uint32_t end) \
    {                                                                                   \
        return keep_mcus(o, begin, end);                                                \
    }                                                                                   \
    attribute static bool both_##name(struct jpeg_own *o, struct jpeg_scan *const *s,   \
                                      const uint32_t *begin, uint32_t count)            \
    {                                                                                   \
        return read_both(o, s, begin, count);                                           \
    }                                                                                   \
    static const struct own_loops loops_##name = {skip_##name, keep_##name, both_##name}

LOOPS(anywhere, );
#ifdef __x86_64__
/* For processors that shift by any number of bits in one cycle. */
LOOPS(bmi2, __attribute__((target("bmi,bmi2"))));
#else
#define loops_bmi2 loops_anywhere
#endif

static const struct own_loops *loops_of(const struct jpeg_own *o)
{
    return o->kernels->bmi2 ? &loops_bmi2 : &loops_anywhere;
}

static const struct mcu_block *mcu_blocks_of(const struct jpeg_own *o, uint32_t row)
{
    return o->mcu_blocks[row % 2];
}

/* Read MCUs begin ... end - 1 of a row. */
static bool read_run(struct jpeg_own *o, uint32_t row, uint32_t begin, uint32_t end)
{
    bool keep = row >= o->top && row < o->end;
    const struct own_loops *loops = loops_of(o);
    uint32_t left = keep ? o->left : end, right = keep ? o->right : end;

    assert(begin <= end && end <= o->frame.mcus);
    left = left < begin ? begin : left > end ? end : left;
    right = right < left ? left : right > end ? end : right;
    assert(begin <= left && left <= right && right <= end);
    o->mcu_block[0] = mcu_blocks_of(o, row);
    return loops->skip(o, left - begin) && loops->keep(o, left, right) &&
           loops->skip(o, end - right);
}

/* Returns the tile that contains MCU `mcu` of a row. */
static struct jpeg_tile *tile_of(struct jpeg_own *o, uint32_t row, uint32_t mcu)
{
    assert(o->tiles.mcus > 0 && mcu < o->frame.mcus && row < o->frame.rows);
    return &o->tiles.tiles[(size_t)row * o->tiles.across + mcu / o->tiles.mcus];
}

/* Returns the tile after MCU `end` - 1. */
static struct jpeg_tile *tile_behind(struct jpeg_own *o, uint32_t row, uint32_t end)
{
    return tile_of(o, row, end - 1) + 1;
}

static void record_tile(struct jpeg_own *o, struct jpeg_scan *s, uint32_t row, uint32_t end)
{
    if (o->tiles.mcus > 0)
        jpeg_scan_tell(s, tile_behind(o, row, end));
}

/* Read MCUs begin ... end - 1 of a row, and record where the tiles after them begin. */
static bool read_run_of_tiles(struct jpeg_own *o, uint32_t row, uint32_t begin, uint32_t end)
{
    uint32_t step = o->tiles.mcus > 0 ? o->tiles.mcus : end - begin;

    for (uint32_t mcu = begin; mcu < end; mcu += step) {
        uint32_t next = mcu + step < end ? mcu + step : end;

        if (!read_run(o, row, mcu, next))
            return false;
        record_tile(o, o->scan, row, next);
    }
    return true;
}

/* Read two restart intervals of `count` MCUs at once, starting at begin[k] of rows[k]; or only the
 * first one, if two cannot be read. Sets `*done` to the number of intervals read. */
static bool read_segments(struct jpeg_own *o, const uint32_t *rows, const uint32_t *begin,
                          uint32_t count, uint32_t *done)
{
    struct jpeg_scan *s[2] = {o->scan, &o->scans[o->scan == &o->scans[0]]};

    *done = 1;
    if (s[0]->left == 0 && !jpeg_scan_restart(s[0]))
        return false;
    if (!jpeg_scan_begin_next(s[1], s[0]))
        return read_run_of_tiles(o, rows[0], begin[0], begin[0] + count);
    *done = 2;
    for (uint32_t k = 0; k < 2; k++)
        o->mcu_block[k] = mcu_blocks_of(o, rows[k]);
    o->scan = s[1];
    if (!loops_of(o)->both(o, s, begin, count) || !jpeg_scan_complete(s[0]))
        return false;
    for (uint32_t k = 0; k < 2; k++)
        record_tile(o, s[k], rows[k], begin[k] + count);
    return true;
}

/* Returns the number of restart intervals in a row, or 0 if they do not divide rows evenly, or if
 * tiles begin within them. In these cases, intervals cannot be read two at once. */
static uint32_t segments_across(const struct jpeg_own *o)
{
    uint32_t restart = o->frame.restart;

    if (restart == 0 || o->frame.mcus % restart != 0 ||
        (o->tiles.mcus > 0 && o->tiles.mcus != restart))
        return 0;
    return o->frame.mcus / restart;
}

/* Read `n` rows of MCUs in order. */
static bool read_rows_in_order(struct jpeg_own *o, uint32_t n)
{
    uint32_t mcus = o->frame.mcus, restart = o->frame.restart, at = 0, done;
    uint32_t across = segments_across(o);

    if (across == 0)
        return read_run_of_tiles(o, o->row, 0, mcus); /* n is 1 */
    for (; at + 1 < n * across; at += done) {
        uint32_t rows[2] = {o->row + at / across, o->row + (at + 1) / across};
        uint32_t begin[2] = {at % across * restart, (at + 1) % across * restart};

        if (!read_segments(o, rows, begin, restart, &done))
            return false;
    }
    return at == n * across || read_run_of_tiles(o, o->row + n - 1, (across - 1) * restart, mcus);
}

/* Begin a scan at the tile of MCU `mcu` of a row, which ends at the tile after MCU `end` - 1. */
static void begin_until(struct jpeg_own *o, struct jpeg_scan *s, uint32_t row, uint32_t mcu,
                        uint32_t end)
{
    jpeg_scan_begin_until(s, &o->file, tile_of(o, row, mcu), tile_behind(o, row, end),
                          o->frame.restart, row * o->frame.mcus + mcu);
}

/* Read the needed tiles of a row, from the first one and from the middle one at once. */
static bool read_known_row(struct jpeg_own *o)
{
    struct jpeg_scan *s[2] = {&o->scans[0], &o->scans[1]};
    uint32_t mcus = o->tiles.mcus, first = o->left / mcus * mcus;
    uint32_t middle = (first + o->right + mcus) / 2 / mcus * mcus, count, begin[2];

    o->scan = s[0];
    if (middle <= first || middle >= o->right) { /* everything is in one tile */
        uint32_t end = (uint32_t)min_u64(first + mcus, o->frame.mcus);

        begin_until(o, s[0], o->row, first, end);
        return read_run(o, o->row, first, end) &&
               jpeg_scan_is_at(s[0], tile_behind(o, o->row, end));
    }
    begin_until(o, s[0], o->row, first, middle);
    begin_until(o, s[1], o->row, middle, o->right);
    begin[0] = first;
    begin[1] = middle;
    o->mcu_block[0] = o->mcu_block[1] = mcu_blocks_of(o, o->row);
    count = (uint32_t)min_u64(middle - first, o->right - middle);
    if (!loops_of(o)->both(o, s, begin, count) ||
        !read_run(o, o->row, first + count, middle)) /* the rest of the first half */
        return false;
    o->scan = s[1];
    return read_run(o, o->row, middle + count, o->right) && jpeg_scan_ready(s[1]) &&
           jpeg_scan_is_at(s[0], tile_of(o, o->row, middle));
}

/* Read the needed tiles of two rows at once. */
static bool read_two_known_rows(struct jpeg_own *o)
{
    struct jpeg_scan *s[2] = {&o->scans[0], &o->scans[1]};
    uint32_t mcus = o->tiles.mcus, first = o->left / mcus * mcus, begin[2] = {first, first};
    /* `check`: where the position can be compared with the recorded tiles. */
    uint32_t end = o->right, check = end / mcus * mcus;

    if (check <= first)
        check = end = (uint32_t)min_u64(first + mcus, o->frame.mcus);
    assert(first < check && check <= end && end <= o->frame.mcus);
    for (uint32_t k = 0; k < 2; k++) {
        begin_until(o, s[k], o->row + k, first, end);
        o->mcu_block[k] = mcu_blocks_of(o, o->row + k);
    }
    if (!loops_of(o)->both(o, s, begin, check - first))
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        if (!jpeg_scan_is_at(s[k], tile_behind(o, o->row + k, check)))
            return false;
        begin[k] = check;
    }
    return loops_of(o)->both(o, s, begin, end - check) && jpeg_scan_ready(s[0]) &&
           jpeg_scan_ready(s[1]);
}

/* Read `n` rows of MCUs whose tiles are known. */
static bool read_known_rows(struct jpeg_own *o, uint32_t n)
{
    if (o->row < o->top || o->row >= o->end)
        return true;
    return n == 2 ? read_two_known_rows(o) : read_known_row(o);
}

/* Begin the scan at the first unknown tile. */
static void begin_unknown(struct jpeg_own *o)
{
    const struct jpeg_tiles *t = &o->tiles;
    const struct jpeg_tile first = {.at = (uint32_t)o->frame.data * 8};

    jpeg_scan_begin(o->scan, &o->file,
                    t->mcus > 0 ? &t->tiles[(size_t)t->rows * t->across] : &first, o->frame.restart,
                    o->row * o->frame.mcus, t->mcus > 0);
}

/* Set which blocks of a row of MCUs are needed, and where their samples are stored. */
static void locate_row(struct jpeg_own *o, uint32_t row)
{
    for (uint32_t i = 0; i < o->mcu_block_count; i++) {
        struct mcu_block *p = &o->mcu_blocks[row % 2][i];
        const struct jpeg_component *c = &o->frame.component[p->component];
        const struct jpeg_plane *plane = &o->planes.of[p->component];
        uint32_t y = row * c->v + p->y;

        p->keep = row >= o->top && y >= plane->top && y < plane->bottom;
        p->plane = plane;
        p->quant = o->frame.quant[c->quant];
        p->samples = jpeg_plane_row(plane, y * JPEG_BLOCK);
    }
}

/* Returns the number of MCU rows to read at once: two, if both must be read and that is faster than
 * two parts of one row. */
static uint32_t choose_rows(const struct jpeg_own *o)
{
    uint32_t row = o->row;

    if (row < o->tiles.known)
        return row >= o->top && row + 1 < o->end && row + 1 < o->tiles.known ? 2 : 1;
    return segments_across(o) % 2 == 1 && row < o->bottom ? 2 : 1;
}

/* Convert the coefficients of row `y` of a component's blocks, which have been read, to samples. */
static void make_blocks(struct jpeg_own *o, uint32_t component, uint32_t y)
{
    const uint64_t first_row = 0x1800c063; /* as in `nonzero` (jpeg_coefs.h) */
    const struct jpeg_coef_plane *from = &o->coefs.planes[component];
    const struct jpeg_plane *p = &o->planes.of[component];
    uint8_t *to = jpeg_plane_row(p, y * JPEG_BLOCK);

    for (uint32_t x = p->left; x < p->right; x++, to += JPEG_BLOCK) {
        size_t at = (size_t)y * from->pitch + x;
        struct jpeg_block *b = &o->batch[o->batch_count];
        int16_t *coef = from->nonzero[at] == 0 ? &from->dc[at] : jpeg_coefs_block(from, x, y);

        coef[0] = from->dc[at];
        *b = (struct jpeg_block){.coef = coef,
                                 .quant = o->frame.quant[o->frame.component[component].quant],
                                 .to = to,
                                 .pitch = p->pitch};
        if (from->nonzero[at] == 0) {
            fill_block(b);
        } else if ((from->nonzero[at] & ~first_row) == 0) {
            jpeg_idct_row(b);
        } else if (++o->batch_count == BATCH) {
            o->kernels->idct(o->batch, BATCH);
            o->batch_count = 0;
        }
    }
    o->kernels->idct(o->batch, o->batch_count);
    o->batch_count = 0;
}

/* Compute the samples of the next row of MCUs. */
static void make_mcus(struct jpeg_own *o)
{
    for (uint32_t i = 0; i < o->frame.count; i++) {
        uint32_t v = o->frame.component[i].v, y = o->row * v;

        for (uint32_t end = y + v; y < end; y++)
            if (y >= o->planes.of[i].top && y < o->planes.of[i].bottom)
                make_blocks(o, i, y);
    }
}

/* Read the next row of MCUs, or the next two. */
static bool read_rows(struct jpeg_own *o)
{
    const struct jpeg_frame *f = &o->frame;
    bool known = o->row < o->tiles.known || f->several, ok = true;
    uint32_t n = f->several ? 1 : choose_rows(o);

    assert(o->row + n <= f->rows);
    if (f->several) {
        make_mcus(o);
    } else {
        for (uint32_t k = 0; k < n; k++)
            locate_row(o, o->row + k);
        if (o->row == o->tiles.known)
            begin_unknown(o);
        ok = known ? read_known_rows(o, n) : read_rows_in_order(o, n);
        flush(o);
    }
    for (; n > 0; n--, o->row++)
        if (o->row >= o->top && o->row < o->end)
            jpeg_planes_pad_edges(&o->planes, o->row);
    o->y_ready =
        o->row < f->rows ? o->row * f->mcu_height - (f->context ? f->group : 0) : f->height;
    if (known || !ok)
        return ok;
    if (o->tiles.mcus > 0)
        o->tiles.rows = o->row;
    return jpeg_scan_ready(o->scan); /* the last MCU must be complete before its row is delivered */
}

/* Returns the last row of MCUs that libjpeg would read for this row of pixels. */
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
    o->right = o->end = 0;
    o->bottom = last_row(f, o->planes.region.top + o->planes.region.height - 1);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct jpeg_component *c = &f->component[i];
        const struct jpeg_plane *p = &o->planes.of[i];

        o->left = (uint32_t)min_u64(o->left, p->left / c->h);
        o->top = (uint32_t)min_u64(o->top, p->top / c->v);
        o->right = (uint32_t)max_u64(o->right, (p->right - 1) / c->h + 1);
        o->end = (uint32_t)max_u64(o->end, (p->bottom - 1) / c->v + 1);
    }
    assert(o->left < o->right && o->right <= f->mcus);
    assert(o->top < o->end && o->end <= f->rows && o->bottom < f->rows);
}

int jpeg_own_create(struct jpeg_own **ret)
{
    struct jpeg_own *o = aligned_alloc(64, align_up(sizeof(*o), 64));

    if (!o)
        return -ENOMEM;
    memset(o, 0, sizeof(*o));
    for (int i = 0; i < BATCH; i++)
        o->slot[i] = (uint8_t)i;
    for (size_t i = 0; !o->kernels; i++) {
        assert(jpeg_kernels[i]); /* the portable loops are always usable */
        if (jpeg_kernels[i]->usable())
            o->kernels = jpeg_kernels[i];
    }
    *ret = o;
    return 0;
}

void jpeg_own_destroy(struct jpeg_own *o)
{
    if (!o)
        return;
    jpeg_huffs_fini(&o->huffs);
    jpeg_tiles_fini(&o->tiles);
    jpeg_planes_fini(&o->planes);
    scratch_free(&o->strip);
    scratch_free(&o->coefs.room);
    free(o);
}

void jpeg_own_use(struct jpeg_own *o, const struct jpeg_kernels *kernels)
{
    o->kernels = kernels;
}

int jpeg_own_open(struct jpeg_own *o, const uint8_t *bytes, size_t len, bool junk, uint32_t *width,
                  uint32_t *height)
{
    if (!jpeg_frame_parse(bytes, len, junk, &o->frame))
        return JPEG_OWN_GIVES_UP;
    o->file = (struct image_file){bytes, len};
    o->tiles.mcus = o->tiles.known = 0;
    *width = o->frame.width;
    *height = o->frame.height;
    return 0;
}

int jpeg_own_use_hint(struct jpeg_own *o, const uint8_t *hint, size_t len)
{
    if (o->frame.several)
        return 0;
    return jpeg_tiles_begin(&o->tiles, &o->frame, o->file.bytes, o->file.len, hint, len);
}

const struct jpeg_tiles *jpeg_own_get_tiles(const struct jpeg_own *o)
{
    return o->tiles.mcus > 0 ? &o->tiles : NULL;
}

/* List the blocks of an MCU in order, with their tables. */
static int list_mcu_blocks(struct jpeg_own *o)
{
    o->mcu_block_count = 0;
    for (uint32_t i = 0; i < o->frame.count; i++) {
        const struct jpeg_component *c = &o->frame.component[i];
        int r = 0;
        const struct jpeg_huff *dc, *ac = NULL;

        dc = jpeg_huff_get(&o->huffs, JPEG_HUFF_DC, &o->frame.dc[c->dc], &r);
        if (dc)
            ac = jpeg_huff_get(&o->huffs, JPEG_HUFF_AC, &o->frame.ac[c->ac], &r);
        if (!ac)
            return r == -ENOMEM ? r : JPEG_OWN_GIVES_UP;
        for (uint8_t y = 0; y < c->v; y++)
            for (uint8_t x = 0; x < c->h; x++) {
                assert(o->mcu_block_count < JPEG_MCU_BLOCKS);
                o->mcu_blocks[0][o->mcu_block_count++] = (struct mcu_block){
                    .dc = dc, .ac = ac, .component = (uint8_t)i, .x = x, .y = y, .h = c->h};
            }
    }
    memcpy(o->mcu_blocks[1], o->mcu_blocks[0], sizeof(o->mcu_blocks[1]));
    return 0;
}

/* Read all scans of a file that has several. */
static int read_coefs(struct jpeg_own *o)
{
    struct jpeg_coefs_tools tools = {
        .huffs = &o->huffs, .scan = &o->scans[0], .bmi2 = o->kernels->bmi2};

    for (uint32_t i = 0; i < o->frame.count; i++) {
        const struct jpeg_plane *p = &o->planes.of[i];

        o->coefs.planes[i] = (struct jpeg_coef_plane){
            .left = p->left, .right = p->right, .top = p->top, .bottom = p->bottom};
    }
    return jpeg_coefs_read(&o->coefs, &tools, &o->frame, &o->file);
}

int jpeg_own_seek(struct jpeg_own *o, const struct rect *region)
{
    int r;

    jpeg_planes_locate(&o->planes, &o->frame, region);
    find_rows_and_columns(o);
    jpeg_huffs_begin(&o->huffs, o->kernels->fill, o->file.len - o->frame.data);
    r = o->frame.several ? read_coefs(o) : list_mcu_blocks(o);
    if (r != 0)
        return r;
    o->strip_pitch = align_up((size_t)region->width * 4, 32) + 4 * JPEG_PAD;
    if (jpeg_planes_make_room(&o->planes) < 0 ||
        scratch_reserve(&o->strip, STRIP_ROWS * o->strip_pitch) < 0)
        return -ENOMEM;
    o->row = o->frame.several ? o->top : (uint32_t)min_u64(o->top, o->tiles.known);
    o->y = region->top;
    o->y_ready = 0;
    o->batch_count = 0;
    memset(o->coef, 0, sizeof(o->coef));
    o->scan = &o->scans[0];
    return 0;
}

int jpeg_own_read(struct jpeg_own *o, struct image_rows *ret)
{
    uint32_t end = o->planes.region.top + o->planes.region.height, count = 0;

    assert(o->y < end);
    while (o->y_ready <= o->y || (o->y_ready >= end && o->row <= o->bottom))
        if (!read_rows(o))
            return JPEG_OWN_GIVES_UP;
    for (; count < STRIP_ROWS && o->y < end && o->y < o->y_ready; count++)
        jpeg_planes_make_row(&o->planes, o->kernels, o->y++,
                             (uint8_t *)o->strip.bytes + count * o->strip_pitch);
    assert(count > 0);
    *ret = (struct image_rows){o->strip.bytes, o->strip_pitch, count};
    return 0;
}

void jpeg_own_close(struct jpeg_own *o)
{
    scratch_trim(&o->planes.samples, 4 << 20);
    scratch_trim(&o->strip, 4 << 20);
    scratch_trim(&o->coefs.room, 16 << 20);
    scratch_trim(&o->tiles.room, 1 << 20);
}

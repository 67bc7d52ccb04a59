/* SPDX-License-Identifier: MIT */
/* resize.c - resizes with an antialiased filter, defined in integers.
 *
 *     two source rows --across--> ring of pairs of narrow rows --down--> one output row, stored
 *
 * Each axis has a table: for each output, where its source pixels begin, their number, and their
 * coefficients, times 2^14. Mirroring costs nothing: the horizontal table is written backwards. The
 * vertical table counts pairs of rows, with a coefficient of 0 where an output begins or ends in
 * the middle of a pair. The loops that multiply, add and store are in resize_*.c; this file builds
 * the tables and passes rows to the loops.
 *
 * Not here: which part of an image is resized (crop.c), and where rows come from (image.c). */
#include "config.h"

#include "loader/image/resize/resize.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "loader/image/resize/filter.h"
#include "loader/image/resize/resize_kernels.h"
#include "loader/image/scratch.h"

const struct resize_kernels *const resize_kernels[] = {
#ifdef __x86_64__
    &resize_avx2,
#endif
#ifdef __aarch64__
    &resize_neon,
#endif
    &resize_portable,
    NULL,
};

/* A request for the table of one axis: outputs first ... first + count - 1 of n -> m. */
struct axis_request {
    uint32_t n, m;
    uint32_t first, count;
    uint32_t unit; /* the taps begin and end at multiples of this */
    bool mirror;
    enum pipeline_filter filter;
    uint32_t pixel; /* for the horizontal axis: bytes of a pixel */
};

/* A table and the request that it was built for. */
struct axis_table {
    struct axis_request request;
    struct resize_axis axis;
    struct scratch memory;
};

struct resize {
    const struct resize_kernels *chosen;

    /* For the current sample. */
    const struct resize_kernels *kernels; /* the chosen loops, or the portable ones */
    struct axis_table across, down;
    struct resize_store store;
    uint8_t *dst;
    uint32_t pixel;      /* bytes of a pixel in the pushed rows */
    uint32_t rows_in;    /* source rows pushed */
    uint32_t pairs_made; /* pairs of rows written */
    uint32_t rows_out;   /* output rows written */
    uint32_t ring_pairs;
    size_t pair_bytes;

    /* Memory that is kept: a few hundred KiB at most, unless an image has unusual proportions. */
    const struct resize_kernels *prepared; /* those for which `own` was made; or NULL */
    struct scratch own;
    struct scratch ring;     /* [ring_pairs][pair_bytes]: pair k is at k % ring_pairs */
    struct scratch pointers; /* [ring_pairs] pointers to the pairs of one output */
    struct scratch held;     /* a row that waits for the second one of its pair */
    struct scratch wide;     /* [2] rows of a pair, with the fourth byte that `kernels` need */
};

/* The state of computing floor(at / unit) while `at` grows by a constant step, without a division
 * for each step. */
struct resize_walk {
    int64_t whole, rest; /* at = whole * unit + rest, 0 <= rest < unit */
    int64_t step_whole, step_rest, unit;
};

static struct resize_walk walk_from(int64_t at, int64_t step, int64_t unit)
{
    assert(step > 0 && unit > 0);
    int64_t whole = at / unit - (at % unit < 0);

    return (struct resize_walk){whole, at - whole * unit, step / unit, step % unit, unit};
}

static void walk_on(struct resize_walk *w)
{
    w->whole += w->step_whole;
    w->rest += w->step_rest;
    if (w->rest >= w->unit) {
        w->rest -= w->unit;
        w->whole++;
    }
}

/* The source pixels begin ... end - 1 of one output, and their weights. Pixel x has the distance
 * |(2x + 1) m - (2i + 1) n| from the centre of output i. If the filter is bilinear, its weight is
 * reach - distance. */
struct resize_window {
    enum pipeline_filter filter;
    int32_t *weights; /* weights of one output */
    uint64_t scale; /* 2^(32 + FILTER_BITS) divided by the distance that equals 1 for the filter */
    int64_t reach;
    int64_t first; /* signed distance of the pixel `begin` */
    int64_t apart; /* distance between pixels */
    uint32_t begin, taps;
    bool small; /* all terms are below 2^31 */
};

static int64_t weight_at(const struct resize_window *w, int64_t distance)
{
    return w->reach - (distance < 0 ? -distance : distance);
}

/* Compute coefficients, times 2^14, as the nearest integers. The first of the largest ones is
 * adjusted so that they add up to 2^14. */
static void find_coefficients(const struct resize_window *w, int16_t *coef)
{
    int64_t sum = 0, missing = 1 << RESIZE_BITS, d = w->first;
    uint32_t largest = 0;

    for (uint32_t k = 0; k < w->taps; k++, d += w->apart)
        sum += weight_at(w, d);
    assert(sum > 0);
    d = w->first;
    for (uint32_t k = 0; k < w->taps; k++, d += w->apart) {
        int64_t c = ((weight_at(w, d) << (RESIZE_BITS + 1)) + sum) / (2 * sum);

        coef[k] = (int16_t)c;
        missing -= c;
        if (coef[k] > coef[largest])
            largest = k;
    }
    coef[largest] = (int16_t)(coef[largest] + missing);
}

/* Like find_coefficients() if all terms are below 2^31, with one division per output: a coefficient
 * is a product with the reciprocal, which is at most one too small, and is corrected. */
static void find_coefficients_small(const struct resize_window *w, int16_t *coef)
{
    int32_t reach = (int32_t)w->reach, apart = (int32_t)w->apart, d = (int32_t)w->first;
    int32_t missing = 1 << RESIZE_BITS, greatest = 0;
    uint32_t sum = 0, largest = 0, reciprocal;

    for (uint32_t k = 0; k < w->taps; k++, d += apart)
        sum += (uint32_t)(reach - (d < 0 ? -d : d));
    assert(sum > 0);
    reciprocal = UINT32_MAX / (2 * sum);
    d = (int32_t)w->first;
    for (uint32_t k = 0; k < w->taps; k++, d += apart) {
        uint32_t weight = (uint32_t)(reach - (d < 0 ? -d : d));
        uint32_t dividend = (weight << (RESIZE_BITS + 1)) + sum;
        uint32_t c = (uint32_t)(((uint64_t)dividend * reciprocal) >> 32);

        c += dividend - c * 2 * sum >= 2 * sum;
        coef[k] = (int16_t)c;
        missing -= (int32_t)c;
        if ((int32_t)c > greatest) {
            greatest = (int32_t)c;
            largest = k;
        }
    }
    coef[largest] = (int16_t)(coef[largest] + missing);
}

/* Like find_coefficients(), for filters of other shapes: weights times 2^FILTER_BITS, and one
 * division per output. */
static void find_coefficients_filter(const struct resize_window *w, int16_t *coef)
{
    const struct filter_window window = {w->first, w->apart, w->scale, w->taps};
    const int64_t half = INT64_C(1) << 31;
    int64_t reciprocal =
        (INT64_C(1) << (RESIZE_BITS + 32)) / filter_weights(w->filter, &window, w->weights);
    int64_t missing = 1 << RESIZE_BITS;
    uint32_t largest = 0;

    for (uint32_t k = 0; k < w->taps; k++) {
        int64_t c = (w->weights[k] * reciprocal + half) >> 32;

        coef[k] = (int16_t)c;
        missing -= c;
        if (coef[k] > coef[largest])
            largest = k;
    }
    coef[largest] = (int16_t)(coef[largest] + missing);
}

/* Returns the largest number of taps that an output can have, as stored. */
static uint32_t taps_max(const struct axis_request *q, uint64_t reach)
{
    uint64_t taps = (reach + q->m - 1) / q->m + 1;

    taps = taps < q->n ? taps : q->n;
    if (q->unit > 1)
        taps = (taps + 2 * (q->unit - 1)) / q->unit * q->unit;
    return (uint32_t)taps;
}

/* Fill in one output: its source pixels, from a multiple of the unit on, and their coefficients. */
static void fill_output(struct resize_axis *axis, const struct axis_request *q, uint32_t at,
                        const struct resize_window *w)
{
    int16_t *coef = axis->coef + (size_t)at * axis->stride;
    uint32_t lead = (w->begin - axis->begin) % q->unit;

    axis->first[at] = w->begin - axis->begin - lead;
    axis->taps[at] = (lead + w->taps + q->unit - 1) / q->unit * q->unit;
    assert(w->taps > 0 && axis->taps[at] <= axis->stride);
    for (uint32_t k = 0; k < lead; k++)
        coef[k] = 0;
    if (w->filter == PIPELINE_NEAREST)
        coef[lead] = 1 << RESIZE_BITS;
    else if (filter_has_negative(w->filter))
        find_coefficients_filter(w, coef + lead);
    else if (w->small)
        find_coefficients_small(w, coef + lead);
    else
        find_coefficients(w, coef + lead);
    for (uint32_t k = lead + w->taps; k < axis->taps[at]; k++)
        coef[k] = 0;
}

static bool same_request(const struct axis_request *a, const struct axis_request *b)
{
    return a->n == b->n && a->m == b->m && a->first == b->first && a->count == b->count &&
           a->unit == b->unit && a->mirror == b->mirror && a->filter == b->filter &&
           a->pixel == b->pixel;
}

/* Build the table of an axis. Returns 0, 1 if the table already exists, or -ENOMEM. */
static int fill_table(struct axis_table *t, const struct axis_request *q)
{
    int64_t n = q->n, m = q->m, unit = 2 * (n > m ? n : m);
    int64_t reach = q->filter == PIPELINE_NEAREST ? m : unit * filter_support(q->filter);
    int64_t centre = (2 * (int64_t)q->first + 1) * n;
    /* The first pixel has the lowest x whose distance is below the reach, the last one the highest.
     * The nearest pixel is the one that contains the centre, or the second one if two do. */
    struct resize_walk low = walk_from(centre - reach - m, 2 * n, 2 * m);
    struct resize_walk high = walk_from(centre + reach - m - 1, 2 * n, 2 * m);
    uint32_t stride = taps_max(q, (uint64_t)reach);
    bool small = reach <= 1 << 15 && stride * reach <= 1 << 29;
    struct resize_axis *axis = &t->axis;
    size_t heads = ((size_t)q->count * 2 + stride) * sizeof(uint32_t);
    int32_t *weights;

    if (t->memory.bytes && same_request(&t->request, q))
        return 1;
    t->request = (struct axis_request){0};
    if (scratch_reserve(&t->memory, heads + q->count * (size_t)stride * sizeof(int16_t)) < 0)
        return -ENOMEM;
    weights = (int32_t *)t->memory.bytes + 2 * (size_t)q->count;
    *axis = (struct resize_axis){
        .count = q->count,
        .stride = stride,
        .first = t->memory.bytes,
        .taps = (uint32_t *)t->memory.bytes + q->count,
        .coef = (int16_t *)(weights + stride),
        .begin = low.whole < 0 ? 0 : (uint32_t)(low.whole + 1),
        .negative = filter_has_negative(q->filter),
    };
    for (uint32_t k = 0; k < q->count; k++, walk_on(&low), walk_on(&high), centre += 2 * n) {
        uint32_t begin = low.whole < 0 ? 0 : (uint32_t)(low.whole + 1);
        uint32_t end = (uint32_t)(high.whole + 1 > n ? n : high.whole + 1);

        if (q->filter == PIPELINE_NEAREST)
            end = begin + 1;
        struct resize_window w = {
            .filter = q->filter,
            .weights = weights,
            .scale = (UINT64_C(1) << (32 + FILTER_BITS)) / (uint64_t)unit,
            .reach = reach,
            .first = (2 * begin + 1) * m - centre,
            .apart = 2 * m,
            .begin = begin,
            .taps = end - begin,
            .small = small,
        };

        axis->end = end;
        fill_output(axis, q, q->mirror ? q->count - 1 - k : k, &w);
    }
    assert(axis->begin < axis->end && axis->end <= q->n);
    t->request = *q;
    return 0;
}

/* Compute and store the row of an output, all of whose pairs have arrived. */
static void finish_row(struct resize *r)
{
    const struct resize_axis *down = &r->down.axis;
    uint32_t i = r->rows_out, first = down->first[i] / 2;
    const void **pairs = r->pointers.bytes;
    struct resize_line line = {
        .pairs = pairs,
        .coef = down->coef + (size_t)i * down->stride,
        .pairs_count = down->taps[i] / 2,
        .width = r->across.axis.count,
        .store = &r->store,
        .out = r->dst + i * r->store.pitch,
    };

    assert(i < down->count && line.pairs_count > 0 && line.pairs_count <= r->ring_pairs);
    assert(first + line.pairs_count <= r->pairs_made && first + r->ring_pairs >= r->pairs_made);
    for (uint32_t k = 0; k < line.pairs_count; k++)
        pairs[k] = (const uint8_t *)r->ring.bytes + (first + k) % r->ring_pairs * r->pair_bytes;
    r->kernels->down(&line);
    r->rows_out++;
}

/* Convert pixels of three bytes to pixels of four. */
static void widen(const uint8_t *row, uint32_t width, uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, row += 3, to += 4)
        memcpy(to, row, 4);
}

static void make_pair(struct resize *r, const uint8_t *row, const uint8_t *next)
{
    const struct resize_axis *down = &r->down.axis;
    uint8_t *pair = (uint8_t *)r->ring.bytes + r->pairs_made % r->ring_pairs * r->pair_bytes;
    uint32_t width = r->across.axis.end - r->across.axis.begin;

    if (r->pixel != r->across.axis.pixel) {
        uint8_t *wide = r->wide.bytes;

        widen(row, width, wide);
        widen(next, width, wide + (size_t)width * 4);
        row = wide;
        next = wide + (size_t)width * 4;
    }
    r->kernels->across(&r->across.axis, r->own.bytes, row, next, pair);
    r->pairs_made++;
    while (!resize_done(r) &&
           (down->first[r->rows_out] + down->taps[r->rows_out]) / 2 <= r->pairs_made)
        finish_row(r);
}

int resize_create(struct resize **ret)
{
    struct resize *r = malloc(sizeof(*r));

    if (!r)
        return -ENOMEM;
    *r = (struct resize){0};
    for (size_t i = 0; !r->chosen; i++) {
        assert(resize_kernels[i]); /* the portable ones are always usable */
        if (resize_kernels[i]->usable())
            r->chosen = resize_kernels[i];
    }
    *ret = r;
    return 0;
}

void resize_destroy(struct resize *r)
{
    if (!r)
        return;
    scratch_free(&r->across.memory);
    scratch_free(&r->down.memory);
    scratch_free(&r->own);
    scratch_free(&r->ring);
    scratch_free(&r->pointers);
    scratch_free(&r->held);
    scratch_free(&r->wide);
    free(r);
}

void resize_use(struct resize *r, const struct resize_kernels *kernels)
{
    r->chosen = kernels;
}

static struct resize_store store_of(const struct image_store *s, uint32_t width, uint32_t height)
{
    bool planes = s->layout == PLENUM_NCHW;

    return (struct resize_store){
        .planes = planes,
        .fourth = s->channels == 4,
        .zero = image_store_zero(s),
        .flip = image_store_flip(s),
        .plane = (size_t)width * height,
        .pitch = planes ? width : (size_t)width * s->channels,
    };
}

/* Reserve memory for the rows kept from one push to the next, and for those computed from them. */
static int reserve_rows(struct resize *r)
{
    const struct resize_axis *x = &r->across.axis;
    size_t width = x->end - x->begin;

    if (scratch_reserve(&r->ring, r->ring_pairs * r->pair_bytes) < 0 ||
        scratch_reserve(&r->pointers, r->ring_pairs * sizeof(const void *)) < 0 ||
        scratch_reserve(&r->held, width * r->pixel + RESIZE_BEHIND) < 0)
        return -ENOMEM;
    return r->pixel == x->pixel ? 0 : scratch_reserve(&r->wide, 2 * width * 4);
}

int resize_begin(struct resize *r, const struct crop *crop, uint32_t pixel,
                 const struct image_store *store, void *dst, struct rect *needed)
{
    struct axis_request across = {
        .n = crop->box.width,
        .m = crop->width,
        .first = crop->window.left,
        .count = crop->window.width,
        .unit = 1,
        .mirror = crop->mirror,
        .filter = crop->filter,
        .pixel = pixel,
    };
    struct axis_request down = {
        .n = crop->box.height,
        .m = crop->height,
        .first = crop->window.top,
        .count = crop->window.height,
        .unit = 2,
        .filter = crop->filter,
    };
    struct resize_axis *x = &r->across.axis, *y = &r->down.axis;
    int made;

    assert(pixel == 3 || pixel == 4);
    assert(across.n > 0 && across.count > 0 && across.first + across.count <= across.m);
    assert(down.n > 0 && down.count > 0 && down.first + down.count <= down.m);
    made = fill_table(&r->across, &across);
    if (made <= 0)
        r->prepared = NULL;
    if (made < 0 || fill_table(&r->down, &down) < 0)
        return -ENOMEM;
    r->kernels = r->chosen->suits(x, y) ? r->chosen : &resize_portable;
    x->pixel = r->kernels->takes_rgb ? pixel : 4;
    r->pixel = pixel;
    r->store = store_of(store, crop->window.width, crop->window.height);
    r->dst = dst;
    r->rows_in = r->pairs_made = r->rows_out = 0;
    r->ring_pairs = y->stride / 2;
    r->pair_bytes = r->kernels->pair_bytes(x->count);
    if (reserve_rows(r) < 0)
        return -ENOMEM;
    if (r->prepared != r->kernels) {
        r->prepared = NULL;
        if (scratch_reserve(&r->own, r->kernels->table_bytes(x)) < 0)
            return -ENOMEM;
        r->kernels->prepare(x, r->own.bytes);
        r->prepared = r->kernels;
    }
    *needed = (struct rect){
        .left = crop->box.left + x->begin,
        .top = crop->box.top + y->begin,
        .width = x->end - x->begin,
        .height = y->end - y->begin,
    };
    return 0;
}

/* Prefetch rows that are needed soon. Unlike those that a decoder has just written, rows of a
 * mapped or read file may not be in the cache. */
static void fetch_pair(const uint8_t *row, size_t pitch, size_t row_bytes)
{
    for (size_t i = 0; i < row_bytes + 63; i += 64) {
        __builtin_prefetch(row + i);
        __builtin_prefetch(row + pitch + i);
    }
}

void resize_push(struct resize *r, const uint8_t *rows, size_t pitch, uint32_t count)
{
    size_t row_bytes = (size_t)(r->across.axis.end - r->across.axis.begin) * r->pixel;
    uint32_t height = r->down.axis.end - r->down.axis.begin;

    assert(count <= height - r->rows_in);
    if (count > 0 && r->rows_in % 2 == 1) {
        make_pair(r, r->held.bytes, rows);
        r->rows_in++;
        rows += pitch;
        count--;
    }
    for (; count >= 2; count -= 2, rows += 2 * pitch) {
        if (r->pixel == 3 && count >= 6)
            fetch_pair(rows + 4 * pitch, pitch, row_bytes);
        make_pair(r, rows, rows + pitch);
        r->rows_in += 2;
    }
    if (count == 0)
        return;
    r->rows_in++;
    if (r->rows_in == height) /* the last row is used twice: its twin has no weight */
        make_pair(r, rows, rows);
    else
        memcpy(r->held.bytes, rows, row_bytes);
}

bool resize_done(const struct resize *r)
{
    return r->rows_out == r->down.axis.count;
}

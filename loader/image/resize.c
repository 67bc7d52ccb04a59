/* resize.c - an antialiased triangle filter, defined in integers.
 *
 *     source rows --across--> ring of narrow rows --down--> one output row --> the slot
 *
 * Each axis has a table: for each output, where its source samples begin, how many there are, and
 * their coefficients at 2^14. Mirroring costs nothing: the table across is written backwards. The
 * loops that multiply and add are in resize_*.c; this file makes the tables, keeps the rows and
 * lays out the finished ones.
 *
 * Not here: which part of an image is resized (crop.c), and where rows come from (image.c). */
#include "config.h"

#include "loader/image/resize.h"

#include <errno.h>
#include <string.h>

#include "loader/image/resize_kernels.h"
#include "loader/image/scratch.h"

const struct resize_kernels *const resize_kernels[] = {&resize_portable, NULL};

struct resize {
    const struct resize_kernels *kernels;

    /* Of the sample at hand. */
    struct resize_axis across, down;
    struct image_store store;
    uint8_t *dst;
    uint32_t rows_in;  /* source rows pushed */
    uint32_t rows_out; /* output rows written */
    uint32_t ring_rows;
    size_t row_bytes; /* of a narrow row */

    /* Memory that stays: never more than some hundred KiB, whatever the image. */
    struct scratch across_tables, down_tables;
    struct scratch ring;     /* [ring_rows][row_bytes]: source row y is at y % ring_rows */
    struct scratch pointers; /* [down.stride] to the rows of one output */
    struct scratch line;     /* one output row, before its layout */
};

/* What one axis is asked for: outputs first ... first + count - 1 of source n -> m. */
struct axis_request {
    uint32_t n, m;
    uint32_t first, count;
    bool mirror;
};

/* The source samples x of output i with D - |(2x + 1) m - (2i + 1) n| > 0, D = 2 max(n, m). */
static void find_taps(const struct axis_request *q, uint32_t i, uint32_t *begin, uint32_t *end)
{
    int64_t n = q->n, m = q->m, reach = 2 * (n > m ? n : m);
    int64_t centre = (2 * (int64_t)i + 1) * n;
    int64_t low = centre - reach - m, high = (centre + reach - m - 1) / (2 * m) + 1;

    *begin = low < 0 ? 0 : (uint32_t)(low / (2 * m) + 1);
    *end = (uint32_t)(high > n ? n : high);
}

/* Coefficients of one output: nearest integers at 2^14; what is missing to 2^14 goes to the first
 * of the largest. */
static void find_coefficients(const struct axis_request *q, uint32_t i, uint32_t begin,
                              uint32_t taps, int16_t *coef)
{
    int64_t n = q->n, m = q->m, reach = 2 * (n > m ? n : m);
    int64_t distance = (2 * (int64_t)begin + 1) * m - (2 * (int64_t)i + 1) * n;
    int64_t sum = 0, missing = 1 << RESIZE_BITS, d = distance;
    uint32_t largest = 0;

    for (uint32_t k = 0; k < taps; k++, d += 2 * m)
        sum += reach - (d < 0 ? -d : d);
    d = distance;
    for (uint32_t k = 0; k < taps; k++, d += 2 * m) {
        int64_t weight = reach - (d < 0 ? -d : d);
        int64_t c = ((weight << (RESIZE_BITS + 1)) + sum) / (2 * sum);

        coef[k] = (int16_t)c;
        missing -= c;
        if (coef[k] > coef[largest])
            largest = k;
    }
    coef[largest] = (int16_t)(coef[largest] + missing);
}

static int axis_fill(struct resize_axis *axis, const struct axis_request *q, struct scratch *tables)
{
    uint64_t reach = 2 * (uint64_t)(q->n > q->m ? q->n : q->m);
    uint64_t stride = (reach + q->m - 1) / q->m + 1;
    size_t heads;

    stride = stride < q->n ? stride : q->n;
    heads = (size_t)q->count * sizeof(uint32_t);
    if (scratch_reserve(tables, 2 * heads + q->count * stride * sizeof(int16_t)) < 0)
        return -ENOMEM;
    *axis = (struct resize_axis){
        .count = q->count,
        .stride = (uint32_t)stride,
        .first = tables->bytes,
        .taps = (uint32_t *)tables->bytes + q->count,
        .coef = (int16_t *)((uint32_t *)tables->bytes + 2 * (size_t)q->count),
    };
    for (uint32_t k = 0; k < q->count; k++) {
        uint32_t at = q->mirror ? q->count - 1 - k : k, begin, end;

        find_taps(q, q->first + k, &begin, &end);
        if (k == 0)
            axis->begin = begin;
        axis->end = end;
        axis->first[at] = begin - axis->begin;
        axis->taps[at] = end - begin;
        find_coefficients(q, q->first + k, begin, end - begin, axis->coef + at * stride);
    }
    return 0;
}

/* The value that stands for 0.0: 0 as int8, and 128 as uint8, since int8 is uint8 - 128. */
static uint8_t zero_point(enum plenum_dtype dtype)
{
    return dtype == PLENUM_INT8 ? 0 : 128;
}

/* Lay out one finished row of [count][3] bytes. */
static void store_line(const struct resize *r, const uint8_t *line)
{
    size_t width = r->across.count, area = width * r->down.count;
    uint8_t zero = zero_point(r->store.dtype);

    if (r->store.layout == PLENUM_NHWC) { /* and 4 channels, or it would be in place already */
        uint8_t *out = r->dst + r->rows_out * width * 4;

        for (size_t x = 0; x < width; x++) {
            out[4 * x] = line[3 * x];
            out[4 * x + 1] = line[3 * x + 1];
            out[4 * x + 2] = line[3 * x + 2];
            out[4 * x + 3] = zero;
        }
    } else {
        uint8_t *out = r->dst + r->rows_out * width;

        for (size_t x = 0; x < width; x++) {
            out[x] = line[3 * x];
            out[x + area] = line[3 * x + 1];
            out[x + 2 * area] = line[3 * x + 2];
        }
        if (r->store.channels == 4)
            memset(out + 3 * area, zero, width);
    }
}

static void finish_row(struct resize *r)
{
    const struct resize_axis *down = &r->down;
    uint32_t first = down->first[r->rows_out], taps = down->taps[r->rows_out];
    const uint8_t **rows = r->pointers.bytes;
    const uint8_t *ring = r->ring.bytes;
    bool in_place = r->store.layout == PLENUM_NHWC && r->store.channels == 3;
    uint8_t *out = in_place ? r->dst + r->rows_out * r->row_bytes : r->line.bytes;

    for (uint32_t k = 0; k < taps; k++)
        rows[k] = ring + (first + k) % r->ring_rows * r->row_bytes;
    r->kernels->down(rows, down->coef + (size_t)r->rows_out * down->stride, taps, r->row_bytes,
                     r->store.dtype == PLENUM_INT8 ? 0x80 : 0, out);
    if (!in_place)
        store_line(r, out);
    r->rows_out++;
}

int resize_create(struct resize **ret)
{
    struct resize *r = malloc(sizeof(*r));

    if (!r)
        return -ENOMEM;
    *r = (struct resize){0};
    for (size_t i = 0; !r->kernels; i++)
        if (resize_kernels[i]->usable())
            r->kernels = resize_kernels[i];
    *ret = r;
    return 0;
}

void resize_destroy(struct resize *r)
{
    if (!r)
        return;
    scratch_free(&r->across_tables);
    scratch_free(&r->down_tables);
    scratch_free(&r->ring);
    scratch_free(&r->pointers);
    scratch_free(&r->line);
    free(r);
}

void resize_use(struct resize *r, const struct resize_kernels *kernels)
{
    r->kernels = kernels;
}

int resize_begin(struct resize *r, const struct crop *crop, const struct image_store *store,
                 void *dst, struct rect *needed)
{
    struct axis_request across = {
        .n = crop->box.width,
        .m = crop->width,
        .first = crop->window.left,
        .count = crop->window.width,
        .mirror = crop->mirror,
    };
    struct axis_request down = {
        .n = crop->box.height,
        .m = crop->height,
        .first = crop->window.top,
        .count = crop->window.height,
    };

    if (axis_fill(&r->across, &across, &r->across_tables) < 0 ||
        axis_fill(&r->down, &down, &r->down_tables) < 0)
        return -ENOMEM;
    r->store = *store;
    r->dst = dst;
    r->rows_in = r->rows_out = 0;
    r->row_bytes = (size_t)crop->window.width * 3;
    r->ring_rows = r->down.stride;
    if (scratch_reserve(&r->ring, r->ring_rows * r->row_bytes) < 0 ||
        scratch_reserve(&r->line, r->row_bytes) < 0 ||
        scratch_reserve(&r->pointers, r->down.stride * sizeof(const uint8_t *)) < 0)
        return -ENOMEM;
    *needed = (struct rect){
        .left = crop->box.left + r->across.begin,
        .top = crop->box.top + r->down.begin,
        .width = r->across.end - r->across.begin,
        .height = r->down.end - r->down.begin,
    };
    return 0;
}

void resize_push(struct resize *r, const uint8_t *rows, size_t pitch, uint32_t count)
{
    for (; count > 0; count--, rows += pitch) {
        uint8_t *ring = r->ring.bytes;

        r->kernels->across(&r->across, rows, ring + r->rows_in % r->ring_rows * r->row_bytes);
        r->rows_in++;
        while (!resize_done(r) &&
               r->down.first[r->rows_out] + r->down.taps[r->rows_out] <= r->rows_in)
            finish_row(r);
    }
}

bool resize_done(const struct resize *r)
{
    return r->rows_out == r->down.count;
}

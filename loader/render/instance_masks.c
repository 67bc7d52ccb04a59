/* SPDX-License-Identifier: MIT */
/* instance_masks.c - draws polygons at the size of the image, and samples encoded masks.
 *
 * Polygons are moved by the exact maps of the pixels, and drawn once. In each row of the image,
 * each edge that crosses the line through the centres of the pixels toggles all pixels from the
 * crossing on.
 *
 * After crops, sizes and flips alone, centres often lie exactly on edges, so crossings are computed
 * in integers. After other operations, they are computed in double precision, and points are
 * homogeneous, (u, v, w), so that a perspective needs no clipping: if its horizon crosses a
 * polygon, parts of it appear on both sides. Pixels are then compared with the point of the row
 * that lies infinitely far away in the picture, where no polygon is. */
#include "config.h"

#include "loader/render/instance_masks.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/util/error_set.h"
#include "loader/render/boxes.h"
#include "loader/render/moves.h"

enum { KEPT = 64 << 20 }; /* bytes of scratch memory that are kept from image to image */

__extension__ typedef __int128 i128;

/* One axis of an image before operations. */
struct masks_axis {
    int64_t from, size; /* the part of the picture that is shown, in units of 2^-20 pixel */
    int64_t pixels;     /* size of the image */
    bool flip;
};

/* The image that masks are drawn in. */
struct masks_target {
    const struct image_view *view;
    uint32_t width, height;
    bool moves; /* there are operations that move pixels */
    struct masks_axis axis[2];
    double to[3][3];         /* from the window before the first operation to the image */
    bool bends;              /* w depends on the point */
    bool encoded;            /* some masks are encoded: `rows` are needed */
    const uint16_t *columns; /* [height][width]: the pixels of the picture that the image shows; */
    const uint16_t *rows;    /* NULL if they are not needed */
    uint8_t *shown;          /* a bit for each pixel that shows the picture */
    uint8_t *toggles;        /* [height][width], zeros: pixels at which a polygon begins or ends */
};

/* A moved point: it appears at (u / w, v / w). */
struct masks_point {
    double u, v, w;
};

/* The pixels that a polygon toggles. */
struct masks_extent {
    uint32_t left, top, bottom;
};

/* Round a coordinate of the picture to a multiple of 2^-20 pixel. */
static int64_t whole(float x)
{
    return (int64_t)floor((double)x * (1 << 20) + 0.5);
}

/* ---- polygons after operations ---- */

static struct masks_point move(const struct masks_target *t, const uint8_t *point)
{
    const double(*m)[3] = t->to;
    float from[2];
    double x, y;

    memcpy(from, point, sizeof(from));
    x = (double)(whole(from[0]) - t->axis[0].from) * t->width / (double)t->axis[0].size;
    y = (double)(whole(from[1]) - t->axis[1].from) * t->height / (double)t->axis[1].size;
    x = t->axis[0].flip ? t->width - x : x;
    return (struct masks_point){m[0][0] * x + m[0][1] * y + m[0][2],
                                m[1][0] * x + m[1][1] * y + m[1][2],
                                m[2][0] * x + m[2][1] * y + m[2][2]};
}

/* Returns whether a crossing lies left of the row's point that is infinitely far away in the
 * picture. */
static bool is_left_of_infinity(const struct masks_target *t, double crossing, double middle)
{
    const double(*m)[3] = t->to;
    double a = m[1][0] - middle * m[2][0], b = m[1][1] - middle * m[2][1];
    double u = m[0][0] * b - m[0][1] * a, w = m[2][0] * b - m[2][1] * a;

    return w != 0 && crossing < u / w;
}

static uint32_t within(double x, uint32_t most)
{
    return x > 0 ? x < most ? (uint32_t)x : most : 0;
}

/* Toggle the pixels of a row from `first` on. */
static void toggle(struct masks_target *t, uint32_t row, uint32_t first,
                   struct masks_extent *extent)
{
    if (first < t->width)
        t->toggles[(size_t)row * t->width + first] ^= 1;
    extent->left = first < extent->left ? first : extent->left;
    extent->top = row < extent->top ? row : extent->top;
    extent->bottom = row + 1 > extent->bottom ? row + 1 : extent->bottom;
}

static void draw_edge(struct masks_target *t, const struct masks_point *p,
                      const struct masks_point *q, struct masks_extent *extent)
{
    uint32_t from = 0, to = t->height;

    if (p->w > 0 && q->w > 0) {
        double a = p->v / p->w, b = q->v / q->w;

        from = within(fmin(a, b) - 2, t->height);
        to = within(fmax(a, b) + 2, t->height);
    }
    for (uint32_t row = from; row < to; row++) {
        double a = p->v - (row + 0.5) * p->w, b = q->v - (row + 0.5) * q->w, crossing;

        if ((a <= 0) == (b <= 0)) /* a centre on an upper edge is inside, one on a lower is not */
            continue;
        crossing = (p->u * b - q->u * a) / (p->w * b - q->w * a);
        toggle(t, row, within(ceil(crossing - 0.5), t->width), extent);
        if (t->bends && is_left_of_infinity(t, crossing, row + 0.5))
            toggle(t, row, 0, extent);
    }
}

static void draw_moved(struct masks_target *t, const uint8_t *points, uint32_t count,
                       struct masks_extent *extent)
{
    const size_t each = 2 * sizeof(float);
    struct masks_point last = move(t, points + (count - 1) * each);

    for (uint32_t i = 0; i < count; i++) {
        struct masks_point next = move(t, points + i * each);

        draw_edge(t, &last, &next, extent);
        last = next;
    }
}

/* ---- polygons without operations ---- */

/* Convert a point to the image, in units of half a pixel / axis->size. Below 2^57, because outlines
 * stay below 10^6. */
static void place(const struct masks_target *t, const uint8_t *point, int64_t ret[2])
{
    float from[2];

    memcpy(from, point, sizeof(from));
    for (int i = 0; i < 2; i++) {
        const struct masks_axis *axis = &t->axis[i];

        ret[i] = (whole(from[i]) - axis->from) * 2 * axis->pixels;
        ret[i] = axis->flip ? 2 * axis->pixels * axis->size - ret[i] : ret[i];
    }
}

/* Returns the first pixel whose centre is not left of `over` / `under`. */
static uint32_t first_pixel(const struct masks_axis *axis, i128 over, i128 under)
{
    double guess = (double)over / (double)under / (double)axis->size;
    int64_t first = within(ceil((guess - 1) / 2), (uint32_t)axis->pixels);

    over = under < 0 ? -over : over;
    under = (under < 0 ? -under : under) * axis->size;
    while (first > 0 && (2 * first - 1) * under >= over)
        first--;
    while (first < axis->pixels && (2 * first + 1) * under < over)
        first++;
    return (uint32_t)first;
}

static void place_edge(struct masks_target *t, const int64_t p[2], const int64_t q[2],
                       struct masks_extent *extent)
{
    const int64_t size = t->axis[1].size;
    double top = (double)(p[1] < q[1] ? p[1] : q[1]), bottom = (double)(p[1] < q[1] ? q[1] : p[1]);
    uint32_t from = within(top / 2 / (double)size - 2, t->height);
    uint32_t to = within(bottom / 2 / (double)size + 2, t->height);

    for (uint32_t row = from; row < to; row++) {
        int64_t a = p[1] - (2 * (int64_t)row + 1) * size, b = q[1] - (2 * (int64_t)row + 1) * size;

        if ((a <= 0) != (b <= 0))
            toggle(t, row, first_pixel(&t->axis[0], (i128)p[0] * b - (i128)q[0] * a, (i128)b - a),
                   extent);
    }
}

static void draw_placed(struct masks_target *t, const uint8_t *points, uint32_t count,
                        struct masks_extent *extent)
{
    const size_t each = 2 * sizeof(float);
    int64_t last[2], next[2];

    place(t, points + (count - 1) * each, last);
    for (uint32_t i = 0; i < count; i++) {
        place(t, points + i * each, next);
        place_edge(t, last, next, extent);
        memcpy(last, next, sizeof(last));
    }
}

/* ---- all polygons ---- */

static void set_bits(uint8_t *bits, size_t from, size_t to)
{
    for (; from < to && from % 8; from++)
        bits[from / 8] |= (uint8_t)(1 << from % 8);
    memset(bits + from / 8, 0xff, (to - from) / 8);
    for (from += (to - from) / 8 * 8; from < to; from++)
        bits[from / 8] |= (uint8_t)(1 << from % 8);
}

/* Set the bits between toggles, which become zeros. */
static void fill(struct masks_target *t, const struct masks_extent *extent, uint8_t *bits)
{
    for (uint32_t row = extent->top; row < extent->bottom; row++) {
        uint8_t *begin = t->toggles + (size_t)row * t->width, *end = begin + t->width;
        uint8_t *from = begin + extent->left, *to;

        while (from < end && (from = memchr(from, 1, (size_t)(end - from)))) {
            *from = 0;
            to = from + 1 < end ? memchr(from + 1, 1, (size_t)(end - from - 1)) : NULL;
            set_bits(bits, (size_t)(from - t->toggles), (size_t)((to ? to : end) - t->toggles));
            if (!to)
                break;
            *to = 0;
            from = to + 1;
        }
    }
}

static void draw_polygon(struct masks_target *t, const uint8_t *points, uint32_t count,
                         uint8_t *bits)
{
    struct masks_extent extent = {t->width, t->height, 0};

    if (t->moves)
        draw_moved(t, points, count, &extent);
    else
        draw_placed(t, points, count, &extent);
    fill(t, &extent, bits);
}

static void draw_polygons(struct masks_target *t, const struct field_outline *head,
                          const uint8_t *numbers, uint8_t *bits)
{
    for (uint32_t i = 0; i < head->polygons; i++) {
        uint32_t count;

        memcpy(&count, numbers, sizeof(count));
        draw_polygon(t, numbers + sizeof(count), count, bits);
        numbers += sizeof(count) + count * 2 * sizeof(float);
    }
    for (size_t i = 0; t->columns && i < ((size_t)t->width * t->height + 7) / 8; i++)
        bits[i] &= t->shown[i];
}

/* ---- encoded masks ---- */

static uint32_t end_of(const uint8_t *runs, uint32_t i)
{
    uint32_t end;

    memcpy(&end, runs + i * sizeof(end), sizeof(end));
    return end;
}

/* Returns the number of the run that contains a pixel: of `count` runs, the first that ends behind
 * it. */
static uint32_t find_run(const uint8_t *runs, uint32_t count, uint32_t pixel)
{
    uint32_t from = 0, to = count - 1;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (end_of(runs, middle) > pixel)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

static void sample_runs(const struct masks_target *t, const struct field_outline *head,
                        const uint8_t *runs, uint8_t *bits)
{
    uint32_t count = head->numbers, begin = 0, end = 0,
             run = 0; /* of the last run that was found */
    uint32_t first, last;

    if (count < 2)
        return;
    first = end_of(runs, 0) / head->height;
    last = (end_of(runs, count - 1 - count % 2) - 1) / head->height;
    for (size_t i = 0; i < (size_t)t->width * t->height; i++) {
        uint32_t pixel = t->columns[i] * head->height + t->rows[i];

        if (t->columns[i] == UINT16_MAX || t->columns[i] < first || t->columns[i] > last)
            continue;
        if (pixel < begin || pixel >= end) {
            run = find_run(runs, count, pixel);
            begin = run > 0 ? end_of(runs, run - 1) : 0;
            end = end_of(runs, run);
        }
        bits[i / 8] |= (uint8_t)((run & 1) << i % 8);
    }
}

/* ---- all objects ---- */

/* Check the sizes of encoded masks, also of those that the image does not show. `*encoded`: there
 * are some. */
static int check_sizes(const struct image_file *o, const struct image_shown *shown, bool *encoded,
                       struct plenum_error *err)
{
    struct field_outline head;

    *encoded = false;
    for (const uint8_t *at = o->bytes; at < o->bytes + o->len;
         at += sizeof(head) + head.numbers * sizeof(uint32_t)) {
        memcpy(&head, at, sizeof(head));
        if (head.polygons > 0)
            continue;
        *encoded = true;
        if (head.height != shown->height || head.width != shown->width)
            return error_set(err, -EBADMSG,
                             "the mask of the object with id %lld has %u x %u pixels, but its "
                             "image has %u x %u",
                             (long long)head.box.id, head.height, head.width, shown->height,
                             shown->width);
    }
    return 0;
}

static void set_axes(struct masks_target *t)
{
    const struct image_shown *shown = &t->view->shown;

    for (int i = 0; i < 2; i++)
        t->axis[i] = (struct masks_axis){
            .from = whole(shown->box[i]),
            .size = whole(shown->box[i + 2]) - whole(shown->box[i]),
            .pixels = i == 0 ? t->width : t->height,
            .flip = i == 0 ? shown->mirror : shown->upside_down,
        };
}

static void set_map(struct masks_target *t, const struct moves *moves)
{
    t->moves = moves->count > 0;
    set_axes(t);
    if (!t->moves)
        return;
    memcpy(t->to, moves->step[moves->count - 1].to, sizeof(t->to));
    t->bends = t->to[2][0] != 0 || t->to[2][1] != 0;
    for (int i = 0; i < 9 && !t->bends; i++) /* the last one becomes 1 */
        t->to[i / 3][i % 3] /= t->to[2][2];
    for (int i = 0; i < 3 && t->view->shown.upside_down; i++)
        t->to[1][i] = t->height * t->to[2][i] - t->to[1][i];
}

/* Returns whether all pixels of an image show its picture. */
static bool is_whole(const struct image_shown *shown, const struct moves *moves)
{
    const float *part = shown->box;

    return moves->count == 0 && part[0] >= 0 && part[1] >= 0 && part[2] <= (float)shown->width &&
           part[3] <= (float)shown->height;
}

/* Prepare the memory, and find out which pixels are shown if that matters. */
static int prepare(struct masks_target *t, bool finds, struct image_decoder *decoder,
                   struct scratch *scratch, struct plenum_error *err)
{
    size_t pixels = (size_t)t->width * t->height, bits = (pixels + 7) / 8;
    uint16_t *places;
    int r = 0;

    if (scratch_reserve(scratch, pixels * (1 + 2 * sizeof(*places)) + bits) < 0)
        return error_set(err, -ENOMEM, "out of memory for masks");
    places = (void *)scratch->bytes;
    t->toggles = (uint8_t *)(places + 2 * pixels);
    t->shown = t->toggles + pixels;
    memset(t->toggles, 0, pixels + bits);
    if (finds) {
        r = image_find_places(decoder, t->view, places, t->encoded ? places + pixels : NULL, err);
        t->columns = places;
        t->rows = places + pixels;
    }
    for (size_t i = 0; r == 0 && finds && i < pixels; i++)
        t->shown[i / 8] |= (uint8_t)((places[i] != UINT16_MAX) << i % 8);
    return r;
}

static void clear_bits(uint8_t *bits, size_t from, size_t to)
{
    for (; from < to; from++)
        bits[from / 8] &= (uint8_t) ~(1 << from % 8);
}

/* Keep the pixels of the part of the image that shows the picture. */
static void keep_area(const struct masks_target *t, const struct moves_area *area, uint8_t *bits)
{
    size_t left = area->rect.left, right = left + area->rect.width;

    for (size_t row = 0; row < t->height && area->where != MOVES_EVERYWHERE; row++) {
        size_t begin = row * t->width, end = begin + t->width;
        bool crosses = row >= area->rect.top && row - area->rect.top < area->rect.height;

        if (crosses && area->where == MOVES_OUTSIDE)
            clear_bits(bits, begin + left, begin + right);
        else if (area->where == MOVES_INSIDE) {
            clear_bits(bits, begin, crosses ? begin + left : end);
            clear_bits(bits, crosses ? begin + right : end, end);
        }
    }
}

/* Draw the masks of the objects whose boxes are shown. */
static void draw_all(struct masks_target *t, const struct image_file *o, const struct moves *moves,
                     const struct boxes_target *to)
{
    const size_t bits = field_bits_bytes((uint64_t)t->width * t->height);
    const size_t each = sizeof(struct plenum_instance) + bits;
    struct plenum_instances all;
    struct field_outline head;

    memcpy(&all, to->dst, sizeof(all));
    for (const uint8_t *at = o->bytes; at < o->bytes + o->len;
         at += head.numbers * sizeof(uint32_t)) {
        uint8_t *dst = to->dst + sizeof(all) + all.count * each;
        struct plenum_box seen;

        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        if (!boxes_show_one(&head.box, to, moves, &seen))
            continue;
        assert(all.count < to->most);
        memcpy(dst, &(struct plenum_instance){.class_id = seen.class_id, .id = seen.id},
               sizeof(struct plenum_instance));
        dst += sizeof(struct plenum_instance);
        if (head.polygons > 0)
            draw_polygons(t, &head, at, dst);
        else
            sample_runs(t, &head, at, dst);
        keep_area(t, &to->area, dst);
        all.count++;
    }
    memcpy(to->dst, &all, sizeof(all));
}

int instance_masks_add(const struct image_file *outlines, const struct boxes_target *to,
                       struct image_decoder *decoder, struct scratch *scratch,
                       struct plenum_error *err)
{
    const struct image_view *view = to->view;
    struct masks_target t = {
        .view = view, .width = view->pipeline->width, .height = view->pipeline->height};
    struct moves moves;
    int r;

    if (outlines->len == 0)
        return 0;
    r = check_sizes(outlines, &view->shown, &t.encoded, err);
    if (r < 0)
        return r;
    moves_draw(view->pipeline, &view->draw, &moves);
    set_map(&t, &moves);
    r = prepare(&t, t.encoded || !is_whole(&view->shown, &moves), decoder, scratch, err);
    if (r == 0)
        draw_all(&t, outlines, &moves, to);
    scratch_trim(scratch, KEPT);
    return r;
}

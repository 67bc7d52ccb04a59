/* SPDX-License-Identifier: MIT */
/* pipeline_zoom.c - stages before the resize: a larger canvas, its colour, and SSD's crop. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"

int parser_fill(struct parser *p, uint8_t ret[3])
{
    return parser_key(p, "fill") ? parser_levels(p, ret) : -ENOENT;
}

void pipeline_write_fill(FILE *f, const uint8_t fill[3])
{
    (void)fprintf(f, ",fill=%u", fill[0]);
    if (fill[0] != fill[1] || fill[0] != fill[2])
        (void)fprintf(f, ":%u:%u", fill[1], fill[2]);
}

static int check_zoom(struct parser *p, const struct pipeline_zoom *zoom)
{
    const struct rational one = {1, 1}, most = {PIPELINE_ZOOM_MAX, 1};

    if (rational_less(zoom->low, one) || rational_less(zoom->high, zoom->low) ||
        rational_less(most, zoom->high))
        return parser_error(p,
                            "the sides of zoom_out must be low:high with 1 <= low <= high <= 16");
    return 0;
}

static int parse_zoom_out(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "zoom_out takes low:high, the sides of the canvas (1:4), "
                                "fill=LEVEL or R:G:B, and p=PROBABILITY";
    int r;

    if (!parser_word(p, "zoom_out"))
        return 0;
    ret->zoom = (struct pipeline_zoom){{1, 2}, {1, 1}, {4, 1}};
    if (!parser_char(p, '('))
        return parser_error(p, takes);
    r = parser_range(p, &ret->zoom.low, &ret->zoom.high);
    while (r == 0 && parser_char(p, ',')) {
        r = parser_fill(p, ret->fill);
        if (r == -ENOENT)
            r = parser_key(p, "p") ? parser_probability(p, &ret->zoom.p) : parser_error(p, takes);
    }
    if (r == 0)
        r = parser_close(p, takes);
    return r < 0 ? r : check_zoom(p, &ret->zoom);
}

static int parse_field(struct parser *p, const char *takes, char ret[PIPELINE_FIELD_MAX])
{
    size_t len = 0;

    if (!parser_key(p, "boxes"))
        return parser_error(p, takes);
    parser_skip_space(p);
    while (isalnum((unsigned char)p->at[len]) || p->at[len] == '_')
        len++;
    if (len == 0 || len >= PIPELINE_FIELD_MAX)
        return parser_error(p, "boxes= needs the name of a field, of up to 31 characters");
    memcpy(ret, p->at, len);
    ret[len] = '\0';
    p->at += len;
    return 0;
}

static int parse_iou_crop(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "iou_crop takes scale=low:high, ratio=low:high and boxes=FIELD";
    int r = 0;

    parser_skip_space(p);
    p->stage = p->at;
    if (!parser_word(p, "iou_crop"))
        return 0;
    ret->iou_crop = true;
    ret->shape = (struct pipeline_shape){{3, 10}, {1, 1}, {1, 2}, {2, 1}};
    if (!parser_char(p, '(') || parser_char(p, ')'))
        return 0;
    do {
        r = parser_shape(p, &ret->shape);
        if (r == -ENOENT)
            r = parse_field(p, takes, ret->boxes);
    } while (r == 0 && parser_char(p, ','));
    if (r == 0)
        r = parser_close(p, takes);
    return r < 0 ? r : parser_check_shape(p, &ret->shape);
}

int pipeline_parse_zoom(struct parser *p, struct pipeline *ret)
{
    int r = parse_zoom_out(p, ret);

    return r < 0 ? r : parse_iou_crop(p, ret);
}

static void write_zoom_out(FILE *f, const struct pipeline *p)
{
    if (p->zoom.p.num == 0)
        return;
    (void)fputs(" zoom_out(", f);
    rational_write_range(f, p->zoom.low, p->zoom.high);
    pipeline_write_fill(f, p->fill);
    (void)fputs(",p=", f);
    rational_write(f, p->zoom.p);
    (void)fputc(')', f);
}

void pipeline_write_zoom(FILE *f, const struct pipeline *p)
{
    write_zoom_out(f, p);
    if (!p->iou_crop)
        return;
    (void)fputs(" iou_crop(scale=", f);
    rational_write_range(f, p->shape.scale_min, p->shape.scale_max);
    (void)fputs(",ratio=", f);
    rational_write_range(f, p->shape.ratio_min, p->shape.ratio_max);
    if (p->boxes[0])
        (void)fprintf(f, ",boxes=%s", p->boxes);
    (void)fputc(')', f);
}

/* SPDX-License-Identifier: MIT */
/* pipeline_zoom.c - stages that place the image on a larger canvas, and the canvas's colour. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

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

int pipeline_parse_zoom(struct parser *p, struct pipeline *ret)
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

void pipeline_write_zoom(FILE *f, const struct pipeline *p)
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

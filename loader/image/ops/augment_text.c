/* SPDX-License-Identifier: MIT */
/* augment_text.c - describes the operations applied to a sample in words.
 *
 * The words are those of a pipeline; numbers are rounded for display. */
#include "config.h"

#include "loader/image/ops/augment_text.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/util/util.h"
#include "loader/image/ops/affine.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/augment_loops.h"
#include "loader/image/ops/mix.h"
#include "loader/image/resize/crop.h"

/* The text written so far. */
struct words {
    char *text;
    size_t used, size;
};

__attribute__((format(printf, 2, 3))) static void add(struct words *w, const char *format, ...)
{
    size_t room = w->size - w->used;
    char word[64];
    va_list args;
    int len;

    va_start(args, format);
    (void)vsnprintf(word, sizeof(word), format, args);
    va_end(args);
    len = snprintf(w->text + w->used, room, "%s%s", w->used > 0 ? ", " : "", word);
    if (len >= 0 && (size_t)len < room) {
        w->used += (size_t)len;
        return;
    }
    w->text[w->used] = '\0';
    w->size = w->used + 1; /* stop writing */
}

/* Returns a turn from -0.5 to 0.5. */
static double to_turns(uint32_t number)
{
    double turns = (double)number / AUGMENT_TURN;

    return turns > 0.5 ? turns - 1 : turns;
}

static double to_degrees(double radians)
{
    return radians * 180 / 3.14159265358979323846;
}

/* Describe the effect of a map on the picture: it is sheared, scaled and turned counterclockwise,
 * and its centre moves. Different pipelines can have the same map, so these are not always the
 * words of the pipeline. */
static void add_map(struct words *w, const struct augment_plan *plan,
                    const struct augment_step *step, const struct pipeline *pipeline)
{
    struct affine map = step->map;
    const double one = 1 << AFFINE_BITS;
    double centre[2] = {pipeline->width / 2.0, pipeline->height / 2.0};
    double det, forth[2][2], from[2], scale, angle, shear, dx, dy;

    if (map.divides) {
        add(w, "perspective");
        return;
    }
    if (plan->upside_down) /* a map describes the window in memory, not the visible image */
        affine_turn_upside_down(&map, pipeline->height);
    det = ((double)map.x[0] * (double)map.y[1] - (double)map.x[1] * (double)map.y[0]) / one;
    forth[0][0] = (double)map.y[1] / det;
    forth[0][1] = -(double)map.x[1] / det;
    forth[1][0] = -(double)map.y[0] / det;
    forth[1][1] = (double)map.x[0] / det;
    from[0] = centre[0] - (double)map.x[2] / one;
    from[1] = centre[1] - (double)map.y[2] / one;
    dx = forth[0][0] * from[0] + forth[0][1] * from[1] + 0.5 - centre[0];
    dy = forth[1][0] * from[0] + forth[1][1] * from[1] + 0.5 - centre[1];
    scale = sqrt(forth[0][0] * forth[0][0] + forth[1][0] * forth[1][0]);
    angle = to_degrees(atan2(-forth[1][0], forth[0][0]));
    shear = to_degrees(-atan((forth[0][0] * forth[0][1] + forth[1][0] * forth[1][1]) * det / one));
    if (map.x[1] == 0 && map.x[0] == map.y[1] && map.y[0] != 0) {
        scale = one / (double)map.x[0];
        add(w, "shear_y %+.1f", angle);
    } else if (fabs(angle) >= 0.05 || (fabs(shear) < 0.05 && fabs(scale - 1) < 0.005 &&
                                       fabs(dx) < 0.5 && fabs(dy) < 0.5)) {
        add(w, "rotate %+.1f", angle);
    }
    if (map.x[1] != 0 && fabs(shear) >= 0.05)
        add(w, "shear %+.1f", shear);
    if (fabs(scale - 1) >= 0.005)
        add(w, "scale %.2f", scale);
    if (fabs(dx) >= 0.5 || fabs(dy) >= 0.5)
        add(w, "translate %+.0f %+.0f", dx, dy);
}

static void add_step(struct words *w, const struct augment_plan *plan,
                     const struct augment_step *step, const struct pipeline *pipeline)
{
    const char *name = pipeline_op_name(step->kind);

    switch (pipeline_op_arguments(step->kind)) {
    case PIPELINE_PLAIN:
        add(w, "%s", name);
        break;
    case PIPELINE_FACTORS:
        add(w, "%s %.2f", name, (double)step->number / (1 << AUGMENT_BITS));
        break;
    case PIPELINE_HUES:
        add(w, "%s %+.2f", name, to_turns(step->number));
        break;
    case PIPELINE_GAINS:
        add(w, "%s %+.3f %.2f %.2f", name,
            to_turns((step->number >> 24) * AUGMENT_TURN / AUGMENT_HUES),
            (double)(step->number >> 12 & 0xFFF) / (1 << AUGMENT_GAIN_BITS),
            (double)(step->number & 0xFFF) / (1 << AUGMENT_GAIN_BITS));
        break;
    case PIPELINE_KERNEL:
        add(w, "%s %.2f", name, (double)step->blur.sigma / (1 << AUGMENT_BITS));
        break;
    case PIPELINE_NUMBER:
        add(w, "%s %u", name, step->number);
        break;
    case PIPELINE_SQUARE:
    case PIPELINE_RECTANGLE:
        add(w, "%s %ux%u", name, step->erase.rect.width, step->erase.rect.height);
        break;
    case PIPELINE_MAP:
        add_map(w, plan, step, pipeline);
        break;
    case PIPELINE_SHARE:
        if (name)
            add(w, "%s %.2f", name, step->number / 65536.0);
        break;
    case PIPELINE_TURNED: /* the rest are not steps themselves, but create steps */
    case PIPELINE_JITTER:
    case PIPELINE_LISTS:
    case PIPELINE_POLICY:
    case PIPELINE_ARGUMENTS:
        assert(false);
    }
}

static void add_mix(struct words *w, const struct mix_plan *plan)
{
    if (!plan->mixed)
        return;
    if (plan->cut)
        add(w, "cutmix %ux%u", plan->rect.width, plan->rect.height);
    else
        add(w, "mixup %.2f", (double)plan->share / (1 << MIX_SHARE_BITS));
}

void augment_describe(const struct pipeline *pipeline, const struct image_draw *draw, char *ret,
                      size_t size)
{
    struct words words = {.text = ret, .size = size};
    uint32_t word = image_draw_words(draw, DRAW_FLIP, 0).word[0];
    struct crop_tables ratios = {0};
    struct augment_plan plan;
    struct mix_plan mix;

    ret[0] = '\0';
    augment_draw(pipeline, draw, &ratios, &plan);
    mix_draw(pipeline, draw, &mix);
    if (rational_happens(pipeline->flip, word) != plan.mirror)
        add(&words, "%s", pipeline_op_name(PIPELINE_FLIP));
    if (plan.upside_down)
        add(&words, "%s", pipeline_op_name(PIPELINE_VERTICAL_FLIP));
    for (uint32_t i = 0; i < plan.count; i++)
        add_step(&words, &plan, &plan.steps[i], pipeline);
    add_mix(&words, &mix);
}

/* SPDX-License-Identifier: MIT */
/* operations.c - times the operations after the crop, each on a copy of the window. */
#include "config.h"

#include "bench/operations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pipeline/pipeline.h"
#include "common/util/util.h"
#include "loader/image/ops/augment.h"

const char *const bench_operations[BENCH_OPERATIONS] = {
    "",
    "brightness(0.6:1.4)",
    "contrast(0.6:1.4)",
    "saturation(0.6:1.4)",
    "color_jitter(0.4, 0.4, 0.4)",
    "hue(-0.1:0.1)",
    "color_jitter(0.4, 0.4, 0.4, 0.1)",
    "grayscale(1)",
    "solarize(128)",
    "equalize(1)",
    "autocontrast(1)",
    "sharpness(0:2)",
    "blur(23, 0.1:2)",
    "rotate(30)",
    "affine(30, translate=0.1:0.1, scale=0.8:1.2, shear=10)",
    "perspective(0.5)",
    "erase(1)",
    "erase(1, value=pixel)",
    "rand_augment(2, 9)",
    "trivial_augment_wide",
    "augmix",
};

struct bench_operations {
    struct augment *augment;
    struct crop_tables ratios;
    uint32_t side;
    struct pipeline pipelines[BENCH_OPERATIONS];
    bool known[BENCH_OPERATIONS];
};

int bench_operations_create(struct bench_operations **ret, uint32_t side, const char *kernels)
{
    struct bench_operations *o = calloc(1, sizeof(*o));

    if (!o || augment_create(&o->augment) < 0) {
        free(o);
        return -ENOMEM;
    }
    augment_use(o->augment, kernels ? kernels : image_kernels(0));
    o->side = side;
    for (size_t k = 0; k < BENCH_OPERATIONS; k++) {
        char text[PIPELINE_TEXT_MAX];

        (void)snprintf(text, sizeof(text), "rrc(%u) %s", side, bench_operations[k]);
        o->known[k] = pipeline_parse(text, &o->pipelines[k], NULL) == 0;
    }
    *ret = o;
    return 0;
}

void bench_operations_destroy(struct bench_operations *o)
{
    if (!o)
        return;
    augment_destroy(o->augment);
    free(o);
}

uint64_t bench_operations_run(struct bench_operations *o, size_t k, const struct image_draw *draw,
                              const uint8_t *planes, const struct image_store *store, uint8_t *dst)
{
    struct augment_plan plan;
    uint8_t *window;
    uint64_t start, drawn;

    if (!o->known[k])
        return 0;
    start = time_cpu_ns();
    augment_draw(&o->pipelines[k], draw, &o->ratios, &plan);
    drawn = time_cpu_ns() - start;
    window = augment_window(o->augment, &plan, o->side, o->side);
    if (!window)
        return 0;
    memcpy(window, planes, (size_t)o->side * o->side * 3);
    start = time_cpu_ns();
    augment_finish(o->augment, &plan, o->side, o->side, store, dst);
    return drawn + time_cpu_ns() - start;
}

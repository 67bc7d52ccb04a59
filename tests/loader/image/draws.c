/* SPDX-License-Identifier: MIT */
/* draws.c - prints the drawn steps of samples, for test_policies.py.
 *
 *     draws PIPELINE SEED COUNT
 *
 * prints a line for each of the positions 0 ... COUNT - 1. A line has the steps of the sample, each
 * followed by ";": name and number, and for a map also the six numbers of its matrix, whether it is
 * bilinear, and its fill. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/image/ops/augment.h"

static const char *const names[PIPELINE_OPS] = {
    [PIPELINE_BRIGHTNESS] = "Brightness",
    [PIPELINE_CONTRAST] = "Contrast",
    [PIPELINE_SATURATION] = "Color",
    [PIPELINE_SHARPNESS] = "Sharpness",
    [PIPELINE_GRAYSCALE] = "Grayscale",
    [PIPELINE_INVERT] = "Invert",
    [PIPELINE_EQUALIZE] = "Equalize",
    [PIPELINE_AUTOCONTRAST] = "AutoContrast",
    [PIPELINE_SOLARIZE] = "Solarize",
    [PIPELINE_SOLARIZE_ADD] = "SolarizeAdd",
    [PIPELINE_POSTERIZE] = "Posterize",
    [PIPELINE_AFFINE] = "Map",
    [PIPELINE_BLUR] = "Blur",
    [PIPELINE_MIX_BEGIN] = "Begin",
    [PIPELINE_MIX_NEXT] = "Next",
    [PIPELINE_MIX_END] = "End",
};

static void print_step(const struct augment_step *step)
{
    const struct affine *map = &step->map;
    bool moves = step->kind == PIPELINE_AFFINE;

    printf("%s %" PRIu32, names[step->kind] ? names[step->kind] : "?", moves ? 0 : step->number);
    if (moves)
        printf(" %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %d",
               map->x[0], map->x[1], map->x[2], map->y[0], map->y[1], map->y[2], map->bilinear,
               map->fill[0]);
    (void)putchar(';');
}

int main(int argc, char **argv)
{
    static struct augment_plan plan;
    struct crop_tables tables = {0};
    struct plenum_error err;
    struct pipeline p;

    if (argc != 4 || pipeline_parse(argv[1], &p, &err) < 0) {
        fprintf(stderr, "draws: %s\n", argc == 4 ? err.text : "PIPELINE SEED COUNT are needed");
        return 1;
    }
    for (uint32_t i = 0; i < strtoul(argv[3], NULL, 10); i++) {
        const struct image_draw draw = {.seed = strtoull(argv[2], NULL, 10), .position = i};

        augment_draw(&p, &draw, &tables, &plan);
        for (uint32_t k = 0; k < plan.count; k++)
            print_step(&plan.steps[k]);
        (void)putchar('\n');
    }
    return 0;
}

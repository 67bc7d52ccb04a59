/* SPDX-License-Identifier: MIT */
/* scene.h - paints procedural photographs of several kinds of things. All of them differ. */
#ifndef LOADER_CTL_SCENE_H
#define LOADER_CTL_SCENE_H

#include <stdint.h>

enum { SCENE_KINDS = 8 };

/** Returns the name of a kind ("bricks", "clouds", ...). The names are in byte order. */
const char *scene_name(uint32_t kind);

/**
 * Paint picture `number` of a kind into `pixels` [height][width][3] RGB.
 *
 * The result depends only on the arguments, and is the same on every machine: the code uses only
 * operations that IEEE 754 defines to the last bit (no libm), and is compiled without contraction.
 */
void scene_paint(uint32_t kind, uint64_t seed, uint32_t number, uint32_t width, uint32_t height,
                 uint8_t *pixels);

#endif

/* SPDX-License-Identifier: MIT */
/* builtin.h - the small JPEGs that image_self_test() renders. */
#ifndef LOADER_IMAGE_BUILTIN_H
#define LOADER_IMAGE_BUILTIN_H

#include <stddef.h>
#include <stdint.h>

struct builtin_image {
    const char *name;
    const uint8_t *bytes;
    size_t len;
};

extern const struct builtin_image builtin_images[];
extern const size_t builtin_images_count;

#endif

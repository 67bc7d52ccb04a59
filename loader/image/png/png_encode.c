/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/encode.h"

#include <errno.h>
#include <stdlib.h>

#include <png.h>

int encode_png(const struct encode_options *options, uint8_t **ret, size_t *ret_len)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = options->width,
                       .height = options->height,
                       .format = options->grey    ? PNG_FORMAT_GRAY
                                 : options->alpha ? PNG_FORMAT_RGBA
                                                  : PNG_FORMAT_RGB};
    png_alloc_size_t size;
    uint8_t *bytes;

    size = PNG_IMAGE_PNG_SIZE_MAX(image);
    bytes = malloc(size);
    if (!bytes)
        return -ENOMEM;
    if (!png_image_write_to_memory(&image, bytes, &size, 0, options->pixels, 0, NULL)) {
        free(bytes);
        return -EINVAL;
    }
    *ret = bytes;
    *ret_len = size;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* fuzz_picture_size.c - reads arbitrary bytes as the beginning of an image. Width and height are
 * either both found or both 0. */
#include "config.h"

#include <stdlib.h>

#include "loader/dataset/picture_size.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct picture_size found = picture_size_find(data, size);

    if ((found.width == 0) != (found.height == 0))
        abort();
    return 0;
}

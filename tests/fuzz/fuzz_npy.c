/* SPDX-License-Identifier: MIT */
/* fuzz_npy.c - reads arbitrary bytes as an array in NumPy's format. The result is the shape of an
 * array that a field can have and whose bytes are the rest of the file, or an error message. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "loader/dataset/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plenum_error err = {""};
    struct field_shape shape;
    size_t at = 0;
    int r = npy_parse(data, size, &shape, &at, &err);

    if (r < 0 ? r != -EBADMSG || !err.text[0]
              : !field_shape_is_valid(&shape) || field_varies(&shape) || at + shape.room != size)
        abort();
    return 0;
}

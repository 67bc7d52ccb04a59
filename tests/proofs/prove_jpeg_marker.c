/* SPDX-License-Identifier: MIT */
/* prove_jpeg_marker.c - walks the segments of any file, from any position. */
#include "__fc_builtin.h"

#include "loader/image/jpeg/jpeg_marker.h"

enum { FILE_BYTES = 100000 };

static uint8_t file[FILE_BYTES];

int main(void)
{
    struct jpeg_markers m = {
        .bytes = file,
        .len = FILE_BYTES,
        .at = Frama_C_unsigned_int_interval(0, FILE_BYTES),
    };

    Frama_C_make_unknown((char *)file, sizeof(file));
    while (jpeg_markers_next(&m))
        continue;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* forms.h - converts photographs to other forms, and decodes them with the formats' own libraries.
 *
 * All lossy forms have quality 90, so that each differs only in the property that names it. */
#ifndef BENCH_FORMS_H
#define BENCH_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/bench.h"

struct form {
    const char *name;
    const char *what;
    bool jpeg;
};

/** All forms; an element whose name is NULL follows the last one. */
extern const struct form forms[];

/** Convert a photograph to a form. The caller frees ret->bytes. Returns 0, -EOPNOTSUPP if this
 * build has no encoder for the form, -EBADMSG if the photograph cannot be decoded, or -ENOMEM. */
int form_make(const struct form *form, const struct bench_file *photograph, struct bench_file *ret);

/** Decode all of a JPEG, PNG, WebP or AVIF to RGB with libjpeg-turbo (accurate inverse DCT),
 * libpng, libwebp or libavif. `ret` is [height][width][3], or NULL to discard the pixels. CMYK
 * stays CMYK, and `ret` must then be NULL. Returns 0, -EBADMSG if the file cannot be decoded, or
 * -ENOMEM. */
int forms_full_decode(const struct bench_file *file, uint8_t *ret);

#endif

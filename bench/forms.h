/* SPDX-License-Identifier: MIT */
/* forms.h - converts photographs to other forms, and decodes them with the formats' own libraries.
 *
 * encode.h provides colour at quality 90, so that forms differ only in the property that names
 * them. */
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

/** Terminated by one whose name is NULL. */
extern const struct form forms[];

/** Convert a photograph to a form. Ownership: like a file of bench_files_load(). -EOPNOTSUPP: this
 * build has no encoder for it; -EBADMSG, -ENOMEM. */
int form_make(const struct form *form, const struct bench_file *photograph, struct bench_file *ret);

/** Decode all of a JPEG, PNG, WebP or AVIF to RGB with libjpeg-turbo (accurate inverse DCT),
 * libpng, libwebp or libavif; `ret` [height][width][3], or NULL: pixels are discarded. CMYK stays
 * CMYK, and `ret` must be NULL. -EBADMSG, -ENOMEM. */
int forms_full_decode(const struct bench_file *file, uint8_t *ret);

#endif

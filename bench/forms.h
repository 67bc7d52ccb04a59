/* SPDX-License-Identifier: MIT */
/* forms.h - photographs in other forms than they have, and how the formats' own libraries decode
 * them.
 *
 * Colour comes from encode.h at quality 90, so that forms differ in nothing but what they are
 * named after. */
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

/** Ends with one whose name is NULL. */
extern const struct form forms[];

/** A photograph in a form. Ownership: as a file of bench_files_load(). -EOPNOTSUPP: this build has
 * no encoder for it; -EBADMSG, -ENOMEM. */
int form_make(const struct form *form, const struct bench_file *photograph, struct bench_file *ret);

/** Decode all of a JPEG, PNG, WebP or AVIF to RGB by libjpeg-turbo (accurate inverse DCT), libpng,
 * libwebp or libavif; `ret` [height][width][3], or NULL: pixels are kept nowhere. CMYK stays CMYK,
 * and `ret` must be NULL. -EBADMSG, -ENOMEM. */
int forms_full_decode(const struct bench_file *file, uint8_t *ret);

#endif

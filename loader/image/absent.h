/* SPDX-License-Identifier: MIT */
/* absent.h - the reader for a format whose library this build lacks. It recognises such files, but
 * fails to open them, with -ENOTSUP. */
#ifndef LOADER_IMAGE_ABSENT_H
#define LOADER_IMAGE_ABSENT_H

#include "loader/image/reader.h"

struct absent_reader {
    struct image_reader base;
    struct image_reader_ops ops;
    const char *an, *library; /* such as "a WebP" and "libwebp" */
};

/** Create the reader. `knows` recognises the format. Returns 0 or -ENOMEM. */
int absent_reader_create(bool (*knows)(const uint8_t *bytes, size_t len), const char *an,
                         const char *library, struct image_reader **ret);

#endif

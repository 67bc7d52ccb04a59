/* SPDX-License-Identifier: MIT */
/* records.h - TFRecord files for tests, written by the published format and nothing of the reader's
 * but the CRC (which has known answers of its own). */
#ifndef TESTS_RECORDS_H
#define TESTS_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/tree.h"

/** Bytes that grow. Starts as zeros. */
struct bytes {
    uint8_t *p;
    size_t len;
};

void bytes_put(struct bytes *b, const void *p, size_t len);
void bytes_fini(struct bytes *b);

/** Features of an Example, one after the other. */
void example_put_bytes(struct bytes *features, const char *key, const void *value, size_t len);
void example_put_int(struct bytes *features, const char *key, int64_t value);
void example_put_float(struct bytes *features, const char *key, float value);
/** The Example of these features, framed as a record. */
void record_put(struct bytes *file, const struct bytes *features);
/** Any bytes framed as a record. */
void record_put_raw(struct bytes *file, const void *data, size_t len);
/** A record as TensorFlow's ImageNet script writes it. `name` may be NULL. */
void record_put_image(struct bytes *file, const void *image, size_t len, int64_t label,
                      const char *name);

void tree_write_bytes(const struct tree *tree, const char *name, const struct bytes *b);

#endif

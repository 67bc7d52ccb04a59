/* SPDX-License-Identifier: MIT */
/* records.h - writes TFRecord files for tests, from the published format. Only the CRC is shared
 * with the reader; it is tested against known answers. */
#ifndef TESTS_RECORDS_H
#define TESTS_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/tree.h"

/** A growing buffer. Zero-initialise it. */
struct bytes {
    uint8_t *p;
    size_t len;
};

void bytes_put(struct bytes *b, const void *p, size_t len);
void bytes_fini(struct bytes *b);

/** Append a feature to those of an Example. */
void example_put_bytes(struct bytes *features, const char *key, const void *value, size_t len);
void example_put_int(struct bytes *features, const char *key, int64_t value);
void example_put_float(struct bytes *features, const char *key, float value);
/** Append the Example with these features, framed as a record. */
void record_put(struct bytes *file, const struct bytes *features);
/** Append arbitrary bytes, framed as a record. */
void record_put_raw(struct bytes *file, const void *data, size_t len);
/** Append a record as written by TensorFlow's ImageNet script. `name` may be NULL. */
void record_put_image(struct bytes *file, const void *image, size_t len, int64_t label,
                      const char *name);

void tree_write_bytes(const struct tree *tree, const char *name, const struct bytes *b);

#endif

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/records.h"

#include <stdlib.h>
#include <string.h>

#include "common/data/crc32c.h"

void bytes_put(struct bytes *b, const void *p, size_t len)
{
    b->p = realloc(b->p, b->len + len + 1);
    if (!b->p)
        abort();
    if (len > 0) /* otherwise, `p` may be NULL */
        memcpy(b->p + b->len, p, len);
    b->len += len;
}

void bytes_fini(struct bytes *b)
{
    free(b->p);
    *b = (struct bytes){0};
}

static void put_varint(struct bytes *b, uint64_t v)
{
    uint8_t byte;

    do {
        byte = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
        bytes_put(b, &byte, 1);
        v >>= 7;
    } while (v);
}

/* Appends field `number` of a message, which holds bytes or another message. */
static void put_field(struct bytes *b, unsigned number, const void *p, size_t len)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, len);
    bytes_put(b, p, len);
}

/* Appends features.feature[key].KIND.value = value. */
static void put_feature(struct bytes *features, const char *key, unsigned kind, const void *value,
                        size_t len)
{
    struct bytes list = {0}, feature = {0}, entry = {0};

    put_field(&list, 1, value, len);
    put_field(&feature, kind, list.p, list.len);
    put_field(&entry, 1, key, strlen(key));
    put_field(&entry, 2, feature.p, feature.len);
    put_field(features, 1, entry.p, entry.len);
    bytes_fini(&list);
    bytes_fini(&feature);
    bytes_fini(&entry);
}

void example_put_bytes(struct bytes *features, const char *key, const void *value, size_t len)
{
    put_feature(features, key, 1, value, len);
}

void example_put_float(struct bytes *features, const char *key, float value)
{
    put_feature(features, key, 2, &value, sizeof(value)); /* packed */
}

void example_put_int(struct bytes *features, const char *key, int64_t value)
{
    struct bytes packed = {0};

    put_varint(&packed, (uint64_t)value);
    put_feature(features, key, 3, packed.p, packed.len);
    bytes_fini(&packed);
}

static void put_crc(struct bytes *b, const void *p, size_t len)
{
    uint32_t crc = crc32c_portable(0, p, len), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;

    bytes_put(b, &masked, 4);
}

void record_put_raw(struct bytes *file, const void *data, size_t len)
{
    uint64_t length = len;

    bytes_put(file, &length, 8);
    put_crc(file, &length, 8);
    bytes_put(file, data, len);
    put_crc(file, data, len);
}

void record_put(struct bytes *file, const struct bytes *features)
{
    struct bytes example = {0};

    put_field(&example, 1, features->p, features->len);
    record_put_raw(file, example.p, example.len);
    bytes_fini(&example);
}

void record_put_image(struct bytes *file, const void *image, size_t len, int64_t label,
                      const char *name)
{
    struct bytes f = {0};

    example_put_int(&f, "image/height", 64);
    example_put_int(&f, "image/class/label", label);
    if (name)
        example_put_bytes(&f, "image/filename", name, strlen(name));
    example_put_bytes(&f, "image/encoded", image, len);
    example_put_float(&f, "image/object/bbox/xmin", 0.25f);
    example_put_bytes(&f, "image/format", "JPEG", 4);
    record_put(file, &f);
    bytes_fini(&f);
}

void tree_write_bytes(const struct tree *tree, const char *name, const struct bytes *b)
{
    tree_write(tree, name, b->p, b->len);
}

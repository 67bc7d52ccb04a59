/* SPDX-License-Identifier: MIT */
/* thrift.h - reads untrusted bytes in Thrift's compact protocol, which Parquet uses for its
 * metadata.
 *
 * A struct is a sequence of fields; read it with thrift_next() until that returns false. For each
 * field call exactly one of the other functions. An error is sticky: `bad` is set, and from then on
 * all functions return zeros, so callers check it once, at the end. */
#ifndef LOADER_DATASET_THRIFT_H
#define LOADER_DATASET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thrift {
    const uint8_t *at, *end;
    bool bad; /* the bytes are not Thrift, or not of the expected types */
    bool cut; /* `bad`, because the bytes end too early */
};

enum thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT,
};

/** A field of a struct. Zero-initialise it before the first thrift_next() of that struct. */
struct thrift_field {
    int32_t id;
    enum thrift_type type;
};

/** Read the head of the next field. Returns false at the end of the struct, or after an error. */
bool thrift_next(struct thrift *t, struct thrift_field *f);
/** Returns the field's value, which must be an integer. */
int64_t thrift_int(struct thrift *t, const struct thrift_field *f);
/** Returns the field's value, which must be a boolean. */
bool thrift_bool(struct thrift *t, const struct thrift_field *f);
/** Set `*ret` to the field's value (borrowed), which must be a string or bytes, and return its
 * length. */
size_t thrift_binary(struct thrift *t, const struct thrift_field *f, const uint8_t **ret);
/** Check that the field's value is a struct, to be read with thrift_next(). Otherwise `bad` is
 * set. */
bool thrift_struct(struct thrift *t, const struct thrift_field *f);
/** Begin the field's value, which must be a list of elements of this type, and return their number.
 * Each element takes at least one byte, so the number is at most that of the remaining bytes. */
size_t thrift_list(struct thrift *t, const struct thrift_field *f, enum thrift_type type);
/** Skip a value of any type. */
void thrift_skip(struct thrift *t, enum thrift_type type);

#endif

/* SPDX-License-Identifier: MIT */
/* field_value.h - converts one field of one sample from its stored to its delivered form. */
#ifndef LOADER_DATASET_FIELD_VALUE_H
#define LOADER_DATASET_FIELD_VALUE_H

#include "common/data/fields.h"
#include "loader/dataset/field_table.h"

/** Maximum bytes of a stored field: numbers may be stored as text, and masks are PNGs. */
enum { FIELD_STORED_MAX = 4 * FIELD_BYTES_MAX };

/** A field as stored. Zero-initialised; reused from sample to sample. */
struct field_stored {
    enum field_state state;
    bool too_long;
    uint32_t count;     /* number of values, for features that are lists */
    bool exact;         /* stored as floats, so NaN and infinities are values */
    bool json;          /* the whole JSON is an array of numbers */
    const char *member; /* requested member of the JSON; NULL: all of it */
    struct dataset_buffer bytes;
    struct dataset_buffer picked;  /* the member in `bytes`, as text */
    struct dataset_buffer numbers; /* numbers, boxes, key points or outlines, parsed */
};

/** A field as delivered. */
struct field_piece {
    const void *bytes; /* [len], borrowed from the field_stored */
    uint32_t len;
    struct field_shape shape; /* for strings and bytes, shape.room is the length */
};

/** Free the buffers of `count` fields. */
void field_stored_fini(struct field_stored *all, uint32_t count);

/** Make room for `len` more bytes and the padding. Returns 0 or -ENOMEM. */
int field_reserve(struct dataset_buffer *buffer, size_t len);
/** Append bytes, followed by zeros, to a buffer. Returns 0 or -ENOMEM. The bytes may already be in
 * place. */
int field_append(struct dataset_buffer *buffer, const void *bytes, size_t len);

/** Returns whether the field is delivered as numbers; then a list of values becomes one array. */
bool field_is_numbers(const struct field_spec *spec);

/** Convert a stored field to its delivered form. Returns 0; -EBADMSG if the field is invalid (`err`
 * says why); or -ENOMEM. */
int field_make_piece(const struct field_spec *spec, struct field_stored *s, struct field_piece *ret,
                     struct plenum_error *err);

/** Check that each image has room for its key points. Returns 0, or -EBADMSG with `err` set. Other
 * shapes are accepted. */
int field_check_room(const struct field_shape *shape, struct plenum_error *err);

/** Describe a shape in `ret`, such as "float32 [3][4]". Returns `ret`. */
char *field_name_shape(const struct field_shape *shape, char *ret, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* field_value.h - one field of one sample: as it is stored, and as it is shown. */
#ifndef LOADER_DATASET_FIELD_VALUE_H
#define LOADER_DATASET_FIELD_VALUE_H

#include "common/fields.h"
#include "loader/dataset/fields.h"

/** Bytes of a field as it is stored, at most: numbers may be text, and masks are PNGs. */
enum { FIELD_STORED_MAX = 4 * FIELD_BYTES_MAX };

/** As it is stored. Starts as zeros; kept from sample to sample. */
struct field_stored {
    enum field_state state;
    bool too_long;
    uint32_t count;     /* values, of features that are lists */
    bool exact;         /* numbers as their writer has them, so NaN and infinities are meant */
    bool json;          /* numbers that all of a JSON holds */
    const char *member; /* of the JSON that it is, or NULL: all of it is wanted */
    struct dataset_buffer bytes;
    struct dataset_buffer picked;  /* of `bytes`: the member, as a text */
    struct dataset_buffer numbers; /* or boxes, made of them */
};

/** As it is shown. */
struct field_piece {
    const void *bytes; /* [len], of the field_stored */
    uint32_t len;
    struct field_shape shape; /* of texts and bytes, its room is their length */
};

/** Free `count` of them. */
void field_stored_fini(struct field_stored *all, uint32_t count);

/** Make room for `len` bytes more, and the padding: 0 or -ENOMEM. */
int field_reserve(struct dataset_buffer *buffer, size_t len);
/** Add bytes, and zeros behind, to a buffer: 0 or -ENOMEM. The bytes may lie in that room. */
int field_append(struct dataset_buffer *buffer, const void *bytes, size_t len);

/** Does it become numbers, of which a list of values is one array? */
bool field_is_numbers(const struct field_spec *spec);

/** From what is stored to what is shown: 0; -EBADMSG with a sentence, it cannot be; -ENOMEM. */
int field_make_piece(const struct field_spec *spec, struct field_stored *s, struct field_piece *ret,
                     struct plenum_error *err);

/** "float32 [3][4]": `ret`. */
char *field_name_shape(const struct field_shape *shape, char *ret, size_t size);

#endif

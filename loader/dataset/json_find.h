/* SPDX-License-Identifier: MIT */
/* json_find.h - values of an untrusted JSON text: RFC 8259, and what Python's json writes and reads
 * beside it.
 *
 * That is NaN, Infinity and -Infinity, numbers of any size, surrogates without their other half, as
 * escapes or as bytes, a byte order mark, and members with the same name, of which the last one
 * counts.
 *
 * The text is checked once. After that, values are found by reading on in it: nothing is copied and
 * no tree is made, so a text takes no memory beside its own bytes, whatever is in it. */
#ifndef LOADER_DATASET_JSON_FIND_H
#define LOADER_DATASET_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** A value of a text that json_parse() has checked. Borrowed from that text. */
struct json_at {
    const char *at, *end;
};

enum json_type {
    JSON_AT_OBJECT,
    JSON_AT_LIST,
    JSON_AT_TEXT,
    JSON_AT_NUMBER, /* also NaN, Infinity and -Infinity */
    JSON_AT_TRUE,
    JSON_AT_FALSE,
    JSON_AT_NULL,
};

/** Check all of a text: 0 with its value, or -EBADMSG with a sentence. Values may be nested 2048
 * deep. */
int json_parse(const char *text, size_t len, struct json_at *ret, struct plenum_error *err);

enum json_type json_type(struct json_at value);
/** "a text", "an object" and so on. */
const char *json_kind(struct json_at value);

/** A member of an object by its name; false: there is none, or it is no object. */
bool json_get(struct json_at value, const char *name, struct json_at *ret);
/** A member by names with dots between them: "meta.label"; a name may have dots, too. */
bool json_member(struct json_at value, const char *path, struct json_at *ret);

/** Begin to go through a list: json_next() returns its values. Of other values there are none. */
struct json_at json_begin(struct json_at list);
bool json_next(struct json_at *rest, struct json_at *ret);
/** As json_next(), with the values of lists in the list in their place. */
bool json_next_flat(struct json_at *rest, struct json_at *ret);

/** Write a text's UTF-8 into `ret`, if it is not NULL, and return how many bytes that are. Half a
 * surrogate becomes U+FFFD; `*is_sound`, if not NULL, is then false. */
size_t json_copy(struct json_at text, char *ret, bool *is_sound);

/** Is it an integer within int64, however it is spelled (number.h)? */
bool json_whole(struct json_at value, int64_t *ret);
/** Is it a number of at most 511 characters? Beyond float64 `*ret` is an infinity. */
bool json_double(struct json_at value, double *ret);

struct json_value {
    enum json_type type;
    char text[256]; /* of a text its UTF-8, of a number how it is spelled; NUL-terminated */
};

/**
 * Find a text or a number of the object that the text is. All of the text is checked.
 *
 * Errors: -EBADMSG it is no JSON, or a text or a number that does not fit, holds U+0000 or half a
 * surrogate; -ENOENT there is no such member. Each with a sentence.
 */
int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err);

#endif

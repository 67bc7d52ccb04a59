/* SPDX-License-Identifier: MIT */
/* json_find.h - values of an untrusted JSON text (RFC 8259), which jansson parses. */
#ifndef LOADER_DATASET_JSON_FIND_H
#define LOADER_DATASET_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <plenum/error.h>

enum json_type {
    JSON_FIND_NUMBER, /* a whole number within int64 */
    JSON_FIND_TEXT,
    JSON_FIND_OTHER, /* an object, list, fraction, true, false or null */
};

struct json_value {
    enum json_type type;
    int64_t number;
    char text[256]; /* UTF-8, NUL-terminated */
};

/**
 * Parse a text: `*ret` is for json_decref(). Of members with the same name the last one counts, as
 * with Python's json.
 *
 * Errors: -EBADMSG it is no JSON, or nested too deep (2048); -ENOMEM; each with a sentence.
 */
int json_parse(const char *text, size_t len, json_t **ret, struct plenum_error *err);

/** A member of an object, by names with dots between them: "meta.label"; a name may have dots, too.
 * Borrowed from `value`; NULL: there is none. */
json_t *json_member(const json_t *value, const char *path);

/** Is it a whole number within int64? One with a point or an exponent must be below 2^53. */
bool json_whole(const json_t *value, int64_t *ret);

/** "a text", "an object" and so on. */
const char *json_kind(const json_t *value);

/**
 * Find a member of the object that the text is. All of the text is checked.
 *
 * Errors: as json_parse(), and of a text that does not fit or holds U+0000; -ENOENT there is no
 * such member. Each with a sentence.
 */
int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* json_find.h - finds values in an untrusted JSON text: RFC 8259, and the extensions that Python's
 * json module writes and reads.
 *
 * These are NaN, Infinity and -Infinity, numbers of any size, lone surrogates, as escapes or as
 * bytes, a byte order mark, and duplicate member names, of which the last one counts.
 *
 * The text is validated once. After that, values are found by scanning it: nothing is copied and no
 * tree is built, so JSON takes no memory besides its own bytes, whatever it contains. */
#ifndef LOADER_DATASET_JSON_FIND_H
#define LOADER_DATASET_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** A value in JSON that json_parse() has checked. Borrowed from that JSON. */
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

/** Validate a whole text. Returns 0 with its value in `*ret`, or -EBADMSG with `err` set. Values
 * may be nested 2048 deep. */
int json_parse(const char *text, size_t len, struct json_at *ret, struct plenum_error *err);

enum json_type json_type(struct json_at value);
/** Returns "a string", "an object" and so on. */
const char *json_kind(struct json_at value);

/** Find a member of an object by its name. Returns false if there is none, or `value` is not an
 * object. */
bool json_get(struct json_at value, const char *name, struct json_at *ret);
/** Find a nested member by names separated by dots, "meta.label"; a name may itself contain
 * dots. */
bool json_member(struct json_at value, const char *path, struct json_at *ret);

/** Start to iterate over a list with json_next(). Other values are treated as empty lists. */
struct json_at json_begin(struct json_at list);
bool json_next(struct json_at *rest, struct json_at *ret);
/** Like json_next(), but returns the values of nested lists instead of these lists. */
bool json_next_flat(struct json_at *rest, struct json_at *ret);

/** Like json_begin() and json_next(), for the members of an object. */
struct json_at json_begin_members(struct json_at object);
bool json_next_member(struct json_at *rest, struct json_at *name, struct json_at *ret);

/** Write a string as UTF-8 to `ret`, unless `ret` is NULL. Returns its length in bytes. A lone
 * surrogate becomes U+FFFD; `*is_sound` (may be NULL) is then false. */
size_t json_copy(struct json_at text, char *ret, bool *is_sound);

/** Returns whether the value is this string. */
bool json_is_text(struct json_at value, const char *text);

/** Returns whether the value is an integer within int64, in any spelling (number.h). */
bool json_whole(struct json_at value, int64_t *ret);
/** Returns whether the value is true, false, 1 or 0 in any spelling, which Python treats alike. */
bool json_flag(struct json_at value, bool *ret);
/** Returns whether the value is a number of at most 511 characters. `*ret` is an infinity if
 * float64 overflows. */
bool json_double(struct json_at value, double *ret);

struct json_value {
    enum json_type type;
    char text[256]; /* a string as UTF-8, or a number as spelled; NUL-terminated */
};

/**
 * Find a value in the object that `text` holds. Validates all of the text. ret->text is set only
 * for strings and numbers.
 *
 * Errors: -EBADMSG the text is not JSON, or the value does not fit, contains U+0000, or contains a
 * lone surrogate; -ENOENT there is no such member. Both set `err`.
 */
int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* json_find.h - finds one value in an untrusted JSON text (RFC 8259). */
#ifndef LOADER_DATASET_JSON_FIND_H
#define LOADER_DATASET_JSON_FIND_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum json_type {
    JSON_NUMBER, /* a whole number within int64 */
    JSON_TEXT,
    JSON_OTHER, /* an object, list, fraction, true, false or null */
};

struct json_value {
    enum json_type type;
    int64_t number;
    char text[256]; /* UTF-8, NUL-terminated */
};

/**
 * Find a member of the object that the text is, by names with dots between them: "meta.label".
 *
 * All of the text is checked. Of members with the same name the last one counts, as with Python's
 * json.
 *
 * Errors: -EBADMSG it is no JSON, or nested more than 64 deep, or the member is a text that does
 * not fit or holds U+0000; -ENOENT there is no such member. Each with a sentence.
 */
int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* json.h - writes JSON. It adds commas and quotes; the caller is responsible for the structure. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH_MAX = 16 };

/** State of the writer. Initialise it with {.file = file}. */
struct json {
    FILE *file;
    unsigned depth;
    bool full[JSON_DEPTH_MAX]; /* does the object or array at each depth have a member? */
    bool flat[JSON_DEPTH_MAX]; /* is it written on one line? */
};

enum json_layout {
    JSON_LINES, /* each member on its own line */
    JSON_FLAT,  /* one line, including everything inside */
};

/** Begin an object. `key` NULL: it is an element of an array, or the top level. */
void json_begin_object(struct json *j, const char *key, enum json_layout layout);
void json_end_object(struct json *j);
void json_begin_array(struct json *j, const char *key, enum json_layout layout);
void json_end_array(struct json *j);
/** Write a string, or null if `text` is NULL. Invalid UTF-8 becomes U+FFFD. */
void json_text(struct json *j, const char *key, const char *text);
void json_number(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
/** Write a time in seconds, with nine decimals. */
void json_seconds(struct json *j, const char *key, uint64_t ns);
/** Write a number with `decimals` digits after the point; null if it is not finite. */
void json_real(struct json *j, const char *key, double value, int decimals);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

#endif

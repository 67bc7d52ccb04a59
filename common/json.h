/* SPDX-License-Identifier: MIT */
/* json.h - writes JSON: commas and quotes, no more. */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH_MAX = 16 };

/** Where the writer stands. {.file = file}: at the beginning. */
struct json {
    FILE *file;
    unsigned depth;
    bool full[JSON_DEPTH_MAX]; /* the object or array at each depth has a member already */
    bool flat[JSON_DEPTH_MAX]; /* it is written on one line */
};

/** `key` NULL: an element of an array, or the whole text. `flat` ones have no line breaks inside.
 */
void json_begin_object(struct json *j, const char *key, bool flat);
void json_end_object(struct json *j);
void json_begin_array(struct json *j, const char *key, bool flat);
void json_end_array(struct json *j);
/** `text` NULL: null. Bytes that are not UTF-8 become U+FFFD. */
void json_text(struct json *j, const char *key, const char *text);
void json_number(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
/** Seconds with nine digits behind the point. */
void json_seconds(struct json *j, const char *key, uint64_t ns);
/** `decimals` digits behind the point; what is no finite number becomes null. */
void json_real(struct json *j, const char *key, double value, int decimals);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

#endif

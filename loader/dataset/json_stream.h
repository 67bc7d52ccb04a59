/* SPDX-License-Identifier: MIT */
/* json_stream.h - reads a JSON file that may be too large for memory, value by value.
 *
 * The file holds one object. Its members are passed on one at a time, and those that are lists,
 * element by element. Only one such value is in memory at a time. All of the file is validated, by
 * the rules of json_find.h. */
#ifndef LOADER_DATASET_JSON_STREAM_H
#define LOADER_DATASET_JSON_STREAM_H

#include <stddef.h>

#include "loader/dataset/json_find.h"

struct index_memory;

/** Maximum bytes of one member, or of one element of a list. */
enum { JSON_STREAM_MAX = 64 << 20 };

/** Where the bytes come from. */
struct json_source {
    /** Read the next bytes. Returns their number, 0 at the end, or -errno. */
    int64_t (*read)(void *arg, void *bytes, size_t len);
    void *arg;
    struct index_memory *memory; /* charged with the memory for the values, or NULL */
};

/** A value of the file. Borrowed until the call returns. */
struct json_item {
    const char *member;   /* the member's name; "" if it has more than 63 bytes or a NUL */
    bool is_list;         /* the member is a list; `value` is NULL at its start */
    uint64_t number;      /* the element's number, from 0 */
    struct json_at value; /* the member, or an element of it */
    uint64_t at;          /* where the value begins in the file, in bytes */
};

/** Receives a value. Returns 0, or -errno with `err` set to stop. */
typedef int json_stream_call(void *arg, const struct json_item *item, struct plenum_error *err);

/**
 * Read the whole file.
 *
 * Errors: -EBADMSG with `err` set: it is not JSON, not an object, or a value is too long; those of
 * `call` and of the source (without `err`: its caller names the file); -ENOMEM.
 */
int json_stream_read(const struct json_source *source, json_stream_call *call, void *arg,
                     struct plenum_error *err);

#endif

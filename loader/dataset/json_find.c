/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/json_find.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* jansson does not say whether a text is no JSON or memory is short; the one makes its sample bad
 * with every loader, the other is this loader's. */
static _Thread_local bool memory_is_short;

static void *allocate(size_t bytes)
{
    void *p = malloc(bytes);

    memory_is_short = memory_is_short || !p;
    return p;
}

static void hear_of_memory(void)
{
    json_set_alloc_funcs(allocate, free);
}

int json_parse(const char *text, size_t len, json_t **ret, struct plenum_error *err)
{
    static pthread_once_t heard = PTHREAD_ONCE_INIT;
    size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t why;

    (void)pthread_once(&heard, hear_of_memory);
    memory_is_short = false;
    *ret = json_loadb(text, len, flags, &why);
    /* A whole number beyond int64, which may be one that nobody asks for. */
    if (!*ret && json_error_code(&why) == json_error_numeric_overflow)
        *ret = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &why);
    if (*ret)
        return 0;
    if (memory_is_short)
        return error_set(err, -ENOMEM, "out of memory");
    return error_set(err, -EBADMSG, "it is no JSON: %s, at byte %d", why.text, why.position);
}

json_t *json_member(const json_t *value, const char *path)
{
    json_t *found = json_object_get(value, path);

    for (const char *dot = strchr(path, '.'); dot && !found; dot = strchr(dot + 1, '.')) {
        json_t *inner = json_object_getn(value, path, (size_t)(dot - path));

        found = inner ? json_member(inner, dot + 1) : NULL;
    }
    return found;
}

bool json_whole(const json_t *value, int64_t *ret)
{
    static const double most = 9007199254740992.0; /* 2^53: doubles below it are exact */
    double real;

    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    real = json_real_value(value);
    if (!json_is_real(value) || !(fabs(real) < most) || real != trunc(real))
        return false;
    *ret = (int64_t)real;
    return true;
}

const char *json_kind(const json_t *value)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "a text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};

    return kinds[json_typeof(value)];
}

int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err)
{
    json_t *root, *value;
    int r = json_parse(text, len, &root, err);

    if (r < 0)
        return r;
    value = json_member(root, path);
    if (!value) {
        r = error_set(err, -ENOENT, "it has no member '%s'", path);
    } else if (json_is_string(value)) {
        size_t n = json_string_length(value);

        ret->type = JSON_FIND_TEXT;
        if (n >= sizeof(ret->text) || strlen(json_string_value(value)) != n)
            r = error_set(err, -EBADMSG, "a text of %zu bytes is too long, or holds U+0000", n);
        else
            memcpy(ret->text, json_string_value(value), n + 1);
    } else {
        ret->type = json_whole(value, &ret->number) ? JSON_FIND_NUMBER : JSON_FIND_OTHER;
    }
    json_decref(root);
    return r;
}

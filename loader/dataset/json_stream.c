/* SPDX-License-Identifier: MIT */
/* json_stream.c - finds the values of a JSON file in a window that moves over it. The window grows
 * until it holds all of a value, and json_parse() validates the value there. */
#include "config.h"

#include "loader/dataset/json_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "loader/dataset/index_builder.h"

enum { WINDOW = 1 << 20, NAME_MAX_BYTES = 64 };

struct json_window {
    const struct json_source *source;
    json_stream_call *call;
    void *arg;
    char *bytes; /* [cap]: the bytes from `at` to `len` are still to be parsed */
    size_t at, len, cap;
    uint64_t before; /* bytes of the file before bytes[0] */
    bool ended;
};

static int too_long(struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "a value in it has more than 64 MiB");
}

/* Read more of the file behind the window's bytes. Returns 1, 0 at the end, or -errno. */
static int fill(struct json_window *w, struct plenum_error *err)
{
    int64_t n;

    if (w->ended)
        return 0;
    if (w->at > 0 && w->cap - w->len < w->cap / 2) {
        memmove(w->bytes, w->bytes + w->at, w->len - w->at);
        w->before += w->at;
        w->len -= w->at;
        w->at = 0;
    }
    if (w->len == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : WINDOW;
        char *grown;

        if (cap > 2 * (size_t)JSON_STREAM_MAX)
            return too_long(err);
        grown = index_memory_charge(w->source->memory, cap - w->cap) < 0 ? NULL
                                                                         : realloc(w->bytes, cap);
        if (!grown)
            return error_set(err, -ENOMEM, "out of memory");
        w->bytes = grown;
        w->cap = cap;
    }
    n = w->source->read(w->source->arg, w->bytes + w->len, w->cap - w->len);
    if (n < 0)
        return (int)n;
    assert((size_t)n <= w->cap - w->len);
    w->len += (size_t)n;
    w->ended = n == 0;
    return n > 0;
}

MESSAGE static int fail(const struct json_window *w, const char *why, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "it is not JSON: %s, at byte %llu", why,
                     (unsigned long long)(w->before + w->at));
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Find the next character that is not a space, without consuming it. Returns 1, 0 at the end, or
 * -errno. */
static int peek(struct json_window *w, char *ret, struct plenum_error *err)
{
    for (;;) {
        int r = w->at == w->len ? fill(w, err) : 1;

        if (r <= 0)
            return r;
        *ret = w->bytes[w->at];
        if (!is_space(*ret))
            return 1;
        w->at++;
    }
}

/* Returns 1 and consumes the next character if it is `wanted`, 0 if it is another one, or -errno;
 * `why` is the error at the end of the file. */
MESSAGE static int take(struct json_window *w, char wanted, const char *why,
                        struct plenum_error *err)
{
    char c = '\0';
    int r = peek(w, &c, err);

    if (r == 0)
        return fail(w, why, err);
    if (r < 0 || c != wanted)
        return r < 0 ? r : 0;
    w->at++;
    return 1;
}

MESSAGE static int need(struct json_window *w, char wanted, const char *why,
                        struct plenum_error *err)
{
    int r = take(w, wanted, why, err);

    return r == 0 ? fail(w, why, err) : r < 0 ? r : 0;
}

/* The state in which a value's end is sought. */
struct extent {
    size_t depth;
    bool in_text, escaped;
};

/* Returns whether the value ends before this character, which is then not part of it. */
static bool ends_before(const struct extent *e, char c)
{
    return e->depth == 0 && !e->in_text && (is_space(c) || c == ',' || c == ']' || c == '}');
}

/* Returns whether the value ends with this character. */
static bool ends_with(struct extent *e, char c)
{
    if (e->in_text) {
        bool closes = c == '"' && !e->escaped;

        e->escaped = c == '\\' && !e->escaped;
        e->in_text = !closes;
        return closes && e->depth == 0;
    }
    if (c == '"')
        e->in_text = true;
    else if (c == '{' || c == '[')
        e->depth++;
    else if (c == '}' || c == ']')
        return --e->depth == 0;
    return false;
}

/* Returns where in the file a value begins that is in the window. */
static uint64_t place_of(const struct json_window *w, struct json_at value)
{
    return w->before + (uint64_t)(value.at - w->bytes);
}

/* Bring the next value into the window, and consume it. */
static int take_value(struct json_window *w, struct json_at *ret, struct plenum_error *err)
{
    struct extent e = {0};
    size_t n = 0, begin;
    int r;

    for (;; n++) {
        r = w->at + n == w->len ? fill(w, err) : 1;
        if (r < 0)
            return r;
        if (r == 0 || ends_before(&e, w->bytes[w->at + n]))
            break;
        if (ends_with(&e, w->bytes[w->at + n])) {
            n++;
            break;
        }
    }
    if (n > JSON_STREAM_MAX)
        return too_long(err);
    begin = w->at;
    r = json_parse(w->bytes + begin, n, ret, err);
    if (r < 0)
        return error_prefix(err, r, "the value that begins at byte %llu",
                            (unsigned long long)(w->before + begin));
    w->at += n;
    return 0;
}

/* Pass on the elements of a list, whose bracket has been consumed. */
static int read_list(struct json_window *w, struct json_item *item, struct plenum_error *err)
{
    static const char why[] = "a comma or a closing bracket is missing";
    int r = w->call(w->arg, item, err);

    if (r == 0)
        r = take(w, ']', why, err);
    if (r != 0)
        return r < 0 ? r : 0;
    for (;; item->number++) {
        char c = '\0';

        r = peek(w, &c, err);
        if (r >= 0)
            r = r == 0 ? fail(w, why, err) : take_value(w, &item->value, err);
        if (r == 0) {
            item->at = place_of(w, item->value);
            r = w->call(w->arg, item, err);
        }
        if (r == 0)
            r = take(w, ']', why, err);
        if (r != 0)
            return r < 0 ? r : 0;
        r = need(w, ',', why, err);
        if (r < 0)
            return r;
    }
}

/* Read the name of a member and its colon. */
static int read_name(struct json_window *w, char *name, size_t size, struct plenum_error *err)
{
    static const char why[] = "a string in double quotes is missing";
    struct json_at value;
    char c = '\0';
    size_t len;
    int r = peek(w, &c, err);

    if (r >= 0 && (r == 0 || c != '"'))
        return fail(w, why, err);
    if (r >= 0)
        r = take_value(w, &value, err);
    if (r < 0)
        return r;
    len = json_copy(value, NULL, NULL);
    name[0] = '\0'; /* longer names are not known ones */
    if (len < size) {
        (void)json_copy(value, name, NULL);
        name[memchr(name, '\0', len) ? 0 : len] = '\0';
    }
    return need(w, ':', "a colon is missing", err);
}

static int read_member(struct json_window *w, struct plenum_error *err)
{
    char name[NAME_MAX_BYTES];
    struct json_item item = {.member = name};
    int r = read_name(w, name, sizeof(name), err);

    if (r == 0)
        r = take(w, '[', "a value is missing", err);
    if (r < 0)
        return r;
    item.is_list = r == 1;
    if (item.is_list)
        return read_list(w, &item, err);
    r = take_value(w, &item.value, err);
    item.at = r == 0 ? place_of(w, item.value) : 0;
    return r == 0 ? w->call(w->arg, &item, err) : r;
}

static int read_object(struct json_window *w, struct plenum_error *err)
{
    static const char why[] = "a comma or a closing bracket is missing";
    int r = take(w, '}', why, err);

    while (r == 0) {
        r = read_member(w, err);
        if (r == 0)
            r = take(w, '}', why, err);
        if (r != 0)
            break;
        r = need(w, ',', why, err);
    }
    return r < 0 ? r : 0;
}

static int read_file(struct json_window *w, struct plenum_error *err)
{
    char c = '\0';
    int r = fill(w, err);

    while (r > 0 && w->len < 3)
        r = fill(w, err);
    if (r < 0)
        return r;
    if (w->len >= 3 && memcmp(w->bytes, "\xef\xbb\xbf", 3) == 0)
        w->at = 3;
    r = take(w, '{', "it is empty", err);
    if (r <= 0)
        return r < 0 ? r : error_set(err, -EBADMSG, "it is not a JSON object, in braces");
    r = read_object(w, err);
    if (r == 0)
        r = peek(w, &c, err);
    return r > 0 ? fail(w, "something follows the value", err) : r;
}

int json_stream_read(const struct json_source *source, json_stream_call *call, void *arg,
                     struct plenum_error *err)
{
    struct json_window w = {.source = source, .call = call, .arg = arg};
    int r = read_file(&w, err);

    index_memory_refund(source->memory, w.cap);
    free(w.bytes);
    return r;
}

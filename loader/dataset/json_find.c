/* SPDX-License-Identifier: MIT */
/* json_find.c - a strict recursive-descent parser. It reads the text once, keeps nothing, and
 * copies the wanted value when it comes to it. */
#include "config.h"

#include "loader/dataset/json_find.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/error.h"

enum { DEPTH_MAX = 64 };

struct reader {
    const char *begin, *p, *end;
    struct json_value *value;
    bool found;
    struct plenum_error *err;
};

static int broken(struct reader *r, const char *what)
{
    return error_set(r->err, -EBADMSG, "it is no JSON: %s at byte %zu", what,
                     (size_t)(r->p - r->begin));
}

static void skip_blanks(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

static bool accept(struct reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

/* A string that is being read; it is copied as far as there is room. */
struct text {
    char *to;
    size_t room, len; /* len: of all of it */
    bool zero;
};

static void put(struct text *t, unsigned char c)
{
    if (t->len < t->room)
        t->to[t->len] = (char)c;
    t->len++;
    t->zero = t->zero || c == 0;
}

static void put_code(struct text *t, uint32_t code)
{
    if (code < 0x80) {
        put(t, (unsigned char)code);
    } else if (code < 0x800) {
        put(t, (unsigned char)(0xC0 | code >> 6));
        put(t, (unsigned char)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        put(t, (unsigned char)(0xE0 | code >> 12));
        put(t, (unsigned char)(0x80 | (code >> 6 & 0x3F)));
        put(t, (unsigned char)(0x80 | (code & 0x3F)));
    } else {
        put(t, (unsigned char)(0xF0 | code >> 18));
        put(t, (unsigned char)(0x80 | (code >> 12 & 0x3F)));
        put(t, (unsigned char)(0x80 | (code >> 6 & 0x3F)));
        put(t, (unsigned char)(0x80 | (code & 0x3F)));
    }
}

static int parse_hex(struct reader *r, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        char c = r->p < r->end ? *r->p : 0;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;

        if (digit > 15)
            return broken(r, "four hexadecimal digits are missing");
        *ret = *ret << 4 | digit;
    }
    return 0;
}

/* Parse what follows "\u". */
static int parse_code(struct reader *r, struct text *t)
{
    uint32_t code, low;

    if (parse_hex(r, &code) < 0)
        return -EBADMSG;
    if (code >= 0xD800 && code < 0xDC00) {
        if (!accept(r, '\\') || !accept(r, 'u') || parse_hex(r, &low) < 0 || low < 0xDC00 ||
            low > 0xDFFF)
            return broken(r, "half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return broken(r, "half a surrogate pair");
    }
    put_code(t, code);
    return 0;
}

/* Parse what follows a backslash. */
static int parse_escape(struct reader *r, struct text *t)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found = r->p < r->end && *r->p ? strchr(letters, *r->p) : NULL;

    if (found) {
        put(t, (unsigned char)values[found - letters]);
        r->p++;
        return 0;
    }
    return accept(r, 'u') ? parse_code(r, t) : broken(r, "an unknown escape");
}

static int parse_text(struct reader *r, struct text *t)
{
    if (!accept(r, '"'))
        return broken(r, "a text is missing");
    while (r->p < r->end && *r->p != '"') {
        unsigned char c = (unsigned char)*r->p++;

        if (c < 0x20) {
            r->p--;
            return broken(r, "a control character in a text");
        }
        if (c != '\\')
            put(t, c);
        else if (parse_escape(r, t) < 0)
            return -EBADMSG;
    }
    return accept(r, '"') ? 0 : broken(r, "a text does not end");
}

static bool skip_digits(struct reader *r)
{
    const char *begin = r->p;

    while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
        r->p++;
    return r->p > begin;
}

static int parse_number(struct reader *r, struct json_value *v)
{
    const char *digits;
    bool negative = accept(r, '-'), whole = true;
    uint64_t value = 0;

    digits = r->p;
    if (!skip_digits(r) || (*digits == '0' && r->p - digits > 1))
        return broken(r, "no value");
    for (const char *p = digits; p < r->p; p++) {
        if (value > (INT64_MAX - 9) / 10)
            whole = false;
        else
            value = value * 10 + (uint64_t)(*p - '0');
    }
    if (accept(r, '.')) {
        whole = false;
        if (!skip_digits(r))
            return broken(r, "digits are missing");
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        whole = false;
        if (!accept(r, '+'))
            (void)accept(r, '-');
        if (!skip_digits(r))
            return broken(r, "digits are missing");
    }
    if (v && whole) {
        v->type = JSON_NUMBER;
        v->number = negative ? -(int64_t)value : (int64_t)value;
    }
    return 0;
}

static int parse_word(struct reader *r)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);

        if ((size_t)(r->end - r->p) >= len && memcmp(r->p, words[i], len) == 0) {
            r->p += len;
            return 0;
        }
    }
    return broken(r, "no value");
}

static int parse_value(struct reader *r, const char *path, unsigned depth);

/* The rest of a path behind a member's name: "" when nothing is left, NULL when the name
 * differs. */
static const char *path_behind(const char *path, const char *name, size_t len)
{
    if (!path || strncmp(path, name, len) != 0 || memchr(name, 0, len))
        return NULL;
    return path[len] == '.' ? path + len + 1 : path[len] == 0 ? path + len : NULL;
}

static int parse_object(struct reader *r, const char *path, unsigned depth)
{
    skip_blanks(r);
    if (accept(r, '}'))
        return 0;
    do {
        char name[256];
        struct text t = {.to = name, .room = sizeof(name)};

        skip_blanks(r);
        if (parse_text(r, &t) < 0)
            return -EBADMSG;
        skip_blanks(r);
        if (!accept(r, ':'))
            return broken(r, "a colon is missing");
        if (parse_value(r, t.len <= t.room ? path_behind(path, name, t.len) : NULL, depth) < 0)
            return -EBADMSG;
        skip_blanks(r);
    } while (accept(r, ','));
    return accept(r, '}') ? 0 : broken(r, "an object does not end");
}

static int parse_list(struct reader *r, unsigned depth)
{
    skip_blanks(r);
    if (accept(r, ']'))
        return 0;
    do {
        if (parse_value(r, NULL, depth) < 0)
            return -EBADMSG;
        skip_blanks(r);
    } while (accept(r, ','));
    return accept(r, ']') ? 0 : broken(r, "a list does not end");
}

/* The wanted value is a text. */
static int keep_text(struct reader *r)
{
    struct text t = {.to = r->value->text, .room = sizeof(r->value->text) - 1};

    if (parse_text(r, &t) < 0)
        return -EBADMSG;
    if (t.len > t.room || t.zero)
        return error_set(r->err, -EBADMSG, "a text of %zu bytes is too long, or holds U+0000",
                         t.len);
    r->value->text[t.len] = 0;
    r->value->type = JSON_TEXT;
    return 0;
}

/* `path` is the rest of the path: "" when this is the wanted value, NULL when it is elsewhere. */
static int parse_value(struct reader *r, const char *path, unsigned depth)
{
    bool wanted = path && !*path;
    struct text nowhere = {0};

    if (depth == DEPTH_MAX)
        return broken(r, "nested too deep");
    skip_blanks(r);
    if (wanted) {
        r->found = true;
        r->value->type = JSON_OTHER;
    }
    switch (r->p < r->end ? *r->p : 0) {
    case '{':
        r->p++;
        return parse_object(r, wanted ? NULL : path, depth + 1);
    case '[':
        r->p++;
        return parse_list(r, depth + 1);
    case '"':
        return wanted ? keep_text(r) : parse_text(r, &nowhere);
    case 't':
    case 'f':
    case 'n':
        return parse_word(r);
    default:
        return parse_number(r, wanted ? r->value : NULL);
    }
}

int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err)
{
    struct json_value value;
    struct reader r = {.begin = text, .p = text, .end = text + len, .value = &value, .err = err};

    if (parse_value(&r, path, 0) < 0)
        return -EBADMSG;
    skip_blanks(&r);
    if (r.p < r.end)
        return broken(&r, "something follows");
    if (!r.found)
        return error_set(err, -ENOENT, "it has no member '%s'", path);
    *ret = value;
    return 0;
}

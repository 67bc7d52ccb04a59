/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/json_find.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

enum { DEPTH_MAX = 2048 };

/* ---- validation ---- */

struct checker {
    const char *begin, *at, *end;
    const char *why;               /* the error at `at`, or NULL */
    size_t depth;                  /* number of open objects and lists */
    uint8_t object[DEPTH_MAX / 8]; /* one bit per level; 1: an object */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct checker *c)
{
    while (c->at < c->end && is_space(*c->at))
        c->at++;
}

MESSAGE static bool fail(struct checker *c, const char *why)
{
    c->why = why;
    return false;
}

static bool take(struct checker *c, char wanted)
{
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Check the rest of an escape, after the backslash. */
static bool check_escape(struct checker *c)
{
    if (c->at == c->end || !*c->at || !strchr("\"\\/bfnrtu", *c->at))
        return fail(c, "an unknown escape");
    if (*c->at++ != 'u')
        return true;
    for (int i = 0; i < 4; i++, c->at++)
        if (c->at == c->end || hex_value(*c->at) < 0)
            return fail(c, "\\u without four hexadecimal digits");
    return true;
}

/* Returns the length of the character at `at`; 0: invalid UTF-8. Accepts surrogates that are
 * encoded as bytes, which Python writes with "surrogatepass". */
static size_t character_length(const char *at, const char *end)
{
    uint8_t bytes[4] = {0};
    size_t n;

    memcpy(bytes, at, (size_t)min_u64((uint64_t)(end - at), sizeof(bytes)));
    if (bytes[0] == 0xed && bytes[1] >= 0xa0 && bytes[1] <= 0xbf && bytes[2] >= 0x80 &&
        bytes[2] <= 0xbf)
        return 3;
    n = text_utf8_length(bytes);
    return n <= (size_t)(end - at) ? n : 0;
}

static bool check_text(struct checker *c)
{
    size_t n;

    if (!take(c, '"'))
        return fail(c, "a string in double quotes is missing");
    while (c->at < c->end && *c->at != '"') {
        if ((unsigned char)*c->at < 0x20)
            return fail(c, "a control character in a string");
        if (take(c, '\\')) {
            if (!check_escape(c))
                return false;
            continue;
        }
        n = character_length(c->at, c->end);
        if (n == 0)
            return fail(c, "bytes that are not UTF-8");
        c->at += n;
    }
    return take(c, '"') || fail(c, "a string without its closing quote");
}

static bool take_digits(struct checker *c)
{
    const char *begin = c->at;

    while (c->at < c->end && number_is_digit(*c->at))
        c->at++;
    return c->at > begin;
}

static bool take_word(struct checker *c, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

static bool check_number(struct checker *c)
{
    (void)take(c, '-');
    if (take_word(c, "Infinity"))
        return true;
    if (!take(c, '0') && !take_digits(c))
        return fail(c, "a value is missing");
    if (take(c, '.') && !take_digits(c))
        return fail(c, "a digit is missing");
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '-'))
            (void)take(c, '+');
        if (!take_digits(c))
            return fail(c, "a digit is missing");
    }
    return true;
}

static bool open_level(struct checker *c, bool object)
{
    uint8_t bit;

    if (c->depth == DEPTH_MAX)
        return fail(c, "values are nested beyond a depth of 2048");
    bit = (uint8_t)(1 << c->depth % 8);
    c->object[c->depth / 8] =
        (uint8_t)(object ? c->object[c->depth / 8] | bit : c->object[c->depth / 8] & ~bit);
    c->depth++;
    return true;
}

static bool in_object(const struct checker *c)
{
    assert(c->depth > 0);
    return c->object[(c->depth - 1) / 8] >> (c->depth - 1) % 8 & 1;
}

/* Check the name of a member and its colon. */
static bool check_name(struct checker *c)
{
    skip_space(c);
    if (!check_text(c))
        return false;
    skip_space(c);
    if (!take(c, ':'))
        return fail(c, "a colon is missing");
    skip_space(c);
    return true;
}

/* Check a scalar, or the opening bracket of an object or a list; then `*opened` is true. */
static bool check_begin(struct checker *c, bool *opened)
{
    char first = c->at < c->end ? *c->at : '\0';

    *opened = first == '{' || first == '[';
    if (*opened) {
        c->at++;
        return open_level(c, first == '{');
    }
    if (first == '"')
        return check_text(c);
    return take_word(c, "true") || take_word(c, "false") || take_word(c, "null") ||
           take_word(c, "NaN") || check_number(c);
}

/* Close the objects and lists that end after a value. Sets `*more` if another value follows. */
static bool check_end(struct checker *c, bool *more)
{
    *more = false;
    while (c->depth > 0) {
        skip_space(c);
        if (take(c, ',')) {
            *more = true;
            skip_space(c);
            return !in_object(c) || check_name(c);
        }
        if (!take(c, in_object(c) ? '}' : ']'))
            return fail(c, "a comma or a closing bracket is missing");
        c->depth--;
    }
    return true;
}

/* Check what follows an opening bracket. Sets `*empty` if it is the closing one. */
static bool check_first(struct checker *c, bool *empty)
{
    skip_space(c);
    *empty = take(c, in_object(c) ? '}' : ']');
    if (*empty)
        c->depth--;
    return *empty || !in_object(c) || check_name(c);
}

static bool check_all(struct checker *c)
{
    bool more = true, opened, empty;

    while (more) {
        if (!check_begin(c, &opened))
            return false;
        empty = false;
        if (opened && !check_first(c, &empty))
            return false;
        if ((!opened || empty) && !check_end(c, &more))
            return false;
    }
    skip_space(c);
    return c->at == c->end || fail(c, "something follows the value");
}

int json_parse(const char *text, size_t len, struct json_at *ret, struct plenum_error *err)
{
    struct checker c = {.begin = text, .at = text, .end = text + len};

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        c.at += 3;
    skip_space(&c);
    *ret = (struct json_at){.at = c.at};
    if (!check_all(&c))
        return error_set(err, -EBADMSG, "it is not JSON: %s, at byte %zu", c.why,
                         (size_t)(c.at - c.begin));
    ret->end = c.end;
    while (is_space(ret->end[-1]))
        ret->end--;
    assert(c.depth == 0 && ret->at < ret->end);
    return 0;
}

/* ---- iteration over valid JSON ---- */

static const char *past_space(const char *at)
{
    while (is_space(*at))
        at++;
    return at;
}

static const char *past_text(const char *at)
{
    assert(*at == '"');
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Returns the end of the value at `at`, which is not beyond `end`. */
static const char *past_value(const char *at, const char *end)
{
    size_t depth = 0;

    do {
        if (*at == '"') {
            at = past_text(at);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            assert(depth > 0);
            depth--;
            at++;
        } else if (depth > 0) {
            at++;
        } else {
            while (at < end && !strchr(",]} \t\r\n", *at))
                at++;
        }
    } while (depth > 0);
    assert(at <= end);
    return at;
}

enum json_type json_type(struct json_at value)
{
    switch (*value.at) {
    case '{':
        return JSON_AT_OBJECT;
    case '[':
        return JSON_AT_LIST;
    case '"':
        return JSON_AT_TEXT;
    case 't':
        return JSON_AT_TRUE;
    case 'f':
        return JSON_AT_FALSE;
    case 'n':
        return JSON_AT_NULL;
    default:
        return JSON_AT_NUMBER;
    }
}

const char *json_kind(struct json_at value)
{
    static const char *const kinds[] = {
        [JSON_AT_OBJECT] = "an object", [JSON_AT_LIST] = "a list", [JSON_AT_TEXT] = "a string",
        [JSON_AT_NUMBER] = "a number",  [JSON_AT_TRUE] = "true",   [JSON_AT_FALSE] = "false",
        [JSON_AT_NULL] = "null"};

    return kinds[json_type(value)];
}

static uint32_t hex_quad(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        assert(hex_value(at[i]) >= 0); /* ensured by check_escape() */
        value = value << 4 | (uint32_t)hex_value(at[i]);
    }
    return value;
}

static bool is_surrogate(uint32_t code)
{
    return code >= 0xd800 && code < 0xe000;
}

/* Decode the character after "\u". A pair of surrogates is one character. */
static uint32_t take_unicode(const char **at)
{
    uint32_t code = hex_quad(*at), low;

    *at += 4;
    if (code < 0xd800 || code >= 0xdc00 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return code;
    low = hex_quad(*at + 2);
    if (low < 0xdc00 || low >= 0xe000)
        return code;
    *at += 6;
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

/* Decode the next character of a string, before its closing quote, into `ret` [4]. */
static size_t take_character(const char **at, char *ret, bool *is_sound)
{
    static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *letter;
    uint32_t code;
    size_t n;

    if (**at != '\\') {
        uint8_t first = (uint8_t) * *at; /* in valid UTF-8, it determines the length */

        n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        memcpy(ret, *at, n);
        *at += n;
        if (n == 3 && (uint8_t)ret[0] == 0xed && (uint8_t)ret[1] >= 0xa0) {
            *is_sound = false;
            return text_put_utf8(0xfffd, ret);
        }
        return n;
    }
    (*at)++;
    letter = strchr(letters, **at);
    if (**at != 'u') {
        *ret = letter ? meant[letter - letters] : **at;
        (*at)++;
        return 1;
    }
    (*at)++;
    code = take_unicode(at);
    if (is_surrogate(code)) {
        *is_sound = false;
        code = 0xfffd;
    }
    return text_put_utf8(code, ret);
}

size_t json_copy(struct json_at text, char *ret, bool *is_sound)
{
    const char *at = text.at + 1;
    bool sound = true;
    size_t len = 0;
    char bytes[4];

    assert(json_type(text) == JSON_AT_TEXT);
    while (*at != '"') {
        size_t n = take_character(&at, bytes, &sound);

        if (ret)
            memcpy(ret + len, bytes, n);
        len += n;
    }
    if (is_sound)
        *is_sound = sound;
    return len;
}

/* Returns whether a string begins with these bytes. Sets `*whole` if it is equal to them. */
static bool begins_with(const char *text, const char *name, size_t len, bool *whole)
{
    const char *at = text + 1;
    bool sound = true;
    size_t have = 0;
    char bytes[4];

    while (*at != '"' && have < len) {
        size_t n = take_character(&at, bytes, &sound);

        if (n > len - have || memcmp(bytes, name + have, n) != 0)
            return false;
        have += n;
    }
    *whole = *at == '"';
    return have == len && sound;
}

bool json_is_text(struct json_at value, const char *text)
{
    bool whole;

    return json_type(value) == JSON_AT_TEXT && begins_with(value.at, text, strlen(text), &whole) &&
           whole;
}

bool json_next_member(struct json_at *rest, struct json_at *name, struct json_at *ret)
{
    const char *at = rest->at;

    if (at == rest->end)
        return false;
    *name = (struct json_at){at, past_text(at)};
    at = past_space(name->end) + 1; /* the colon */
    ret->at = past_space(at);
    ret->end = past_value(ret->at, rest->end);
    at = past_space(ret->end);
    rest->at = *at == ',' ? past_space(at + 1) : rest->end;
    return true;
}

/* Returns the characters between the brackets of an object or a list. */
static struct json_at inside(struct json_at value)
{
    struct json_at rest = {past_space(value.at + 1), value.end - 1};

    return rest;
}

struct json_at json_begin_members(struct json_at object)
{
    return json_type(object) == JSON_AT_OBJECT ? inside(object)
                                               : (struct json_at){object.end, object.end};
}

static bool get(struct json_at value, const char *name, size_t len, struct json_at *ret)
{
    struct json_at rest = json_begin_members(value), key, each;
    bool found = false, whole;

    while (json_next_member(&rest, &key, &each))
        if (begins_with(key.at, name, len, &whole) && whole) {
            *ret = each;
            found = true;
        }
    return found;
}

bool json_get(struct json_at value, const char *name, struct json_at *ret)
{
    return get(value, name, strlen(name), ret);
}

bool json_member(struct json_at value, const char *path, struct json_at *ret)
{
    struct json_at inner;

    if (get(value, path, strlen(path), ret))
        return true;
    for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.'))
        if (get(value, path, (size_t)(dot - path), &inner) && json_member(inner, dot + 1, ret))
            return true;
    return false;
}

struct json_at json_begin(struct json_at list)
{
    return json_type(list) == JSON_AT_LIST ? inside(list) : (struct json_at){list.end, list.end};
}

bool json_next(struct json_at *rest, struct json_at *ret)
{
    const char *at;

    if (rest->at == rest->end)
        return false;
    ret->at = rest->at;
    ret->end = past_value(ret->at, rest->end);
    at = past_space(ret->end);
    rest->at = *at == ',' ? past_space(at + 1) : rest->end;
    return true;
}

/* Returns the next value, and skips brackets and commas between values, which have been
 * validated. */
bool json_next_flat(struct json_at *rest, struct json_at *ret)
{
    while (rest->at < rest->end && (is_space(*rest->at) || strchr(",[]", *rest->at)))
        rest->at++;
    if (rest->at == rest->end)
        return false;
    ret->at = rest->at;
    ret->end = rest->at = past_value(rest->at, rest->end);
    return true;
}

bool json_whole(struct json_at value, int64_t *ret)
{
    return json_type(value) == JSON_AT_NUMBER &&
           number_parse(value.at, (size_t)(value.end - value.at), ret) == NUMBER_INTEGER;
}

bool json_flag(struct json_at value, bool *ret)
{
    enum json_type type = json_type(value);
    int64_t number = type == JSON_AT_TRUE;

    if (type != JSON_AT_TRUE && type != JSON_AT_FALSE &&
        (!json_whole(value, &number) || number < 0 || number > 1))
        return false;
    *ret = number == 1;
    return true;
}

bool json_double(struct json_at value, double *ret)
{
    char text[512];
    size_t len = (size_t)(value.end - value.at);

    if (json_type(value) != JSON_AT_NUMBER || len >= sizeof(text))
        return false;
    memcpy(text, value.at, len);
    text[len] = '\0';
    *ret = strtod(text, NULL);
    return true;
}

int json_find(const char *text, size_t len, const char *path, struct json_value *ret,
              struct plenum_error *err)
{
    struct json_at root, value;
    bool is_sound = true;
    size_t n;
    int r = json_parse(text, len, &root, err);

    if (r < 0)
        return r;
    if (!json_member(root, path, &value))
        return error_set(err, -ENOENT, "it has no member '%s'", path);
    *ret = (struct json_value){.type = json_type(value)};
    if (ret->type == JSON_AT_NUMBER) {
        n = (size_t)(value.end - value.at);
        if (n >= sizeof(ret->text))
            return error_set(err, -EBADMSG, "a number of %zu digits is too long", n);
        memcpy(ret->text, value.at, n);
    } else if (ret->type == JSON_AT_TEXT) {
        n = json_copy(value, NULL, &is_sound);
        if (n >= sizeof(ret->text))
            return error_set(err, -EBADMSG, "a string of %zu bytes is too long", n);
        (void)json_copy(value, ret->text, NULL);
        if (strlen(ret->text) != n)
            return error_set(err, -EBADMSG, "a string contains U+0000");
        if (!is_sound)
            return error_set(err, -EBADMSG, "a string contains half of a surrogate pair");
    }
    return 0;
}

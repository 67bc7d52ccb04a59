/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/yolo_yaml.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

/* A part of the text. */
struct yaml_span {
    const char *at, *end;
};

struct yaml_reader {
    const char *next, *end; /* what follows the current line */
    struct yaml_span
        line; /* the current line, without indentation, comment and spaces at its end */
    size_t number, indent;
    bool ended;
    struct yolo_yaml *ret;
};

MESSAGE static int fail(const struct yaml_reader *y, const char *why, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "line %zu: %s", y->number, why);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Returns the end of a quoted string that begins at `at`, after its closing quote; NULL: it has
 * none on this line. */
static const char *past_quoted(const char *at, const char *end)
{
    char quote = *at;

    for (at++; at < end; at++) {
        if (*at == '\\' && quote == '"')
            at++;
        else if (*at == quote && quote == '\'' && at + 1 < end && at[1] == quote)
            at++;
        else if (*at == quote)
            return at + 1;
    }
    return NULL;
}

/* Returns where the comment of a line begins, or `end`. A quote inside a plain string is a
 * letter. */
static const char *find_comment(const char *at, const char *end)
{
    bool begins = true; /* a string may begin here */

    for (const char *from = at; at < end;) {
        const char *past = begins && (*at == '"' || *at == '\'') ? past_quoted(at, end) : NULL;

        if (*at == '#' && (at == from || is_blank(at[-1])))
            return at;
        begins = !past && (strchr("[{,:-", *at) || (begins && is_blank(*at)));
        at = past ? past : at + 1;
    }
    return end;
}

/* Returns the end of the line that begins at `at`: that of a Unix, Windows or old Macintosh
 * system. */
static const char *end_of_line(const char *at, const char *end)
{
    while (at < end && *at != '\n' && *at != '\r')
        at++;
    return at;
}

/* Returns the beginning of the line after the one that ends here. */
static const char *past_line(const char *at, const char *end)
{
    size_t len = end - at > 1 && at[0] == '\r' && at[1] == '\n' ? 2 : 1;

    return at < end ? at + len : end;
}

/* Go to the next line that is not empty. At the end of the text, `ended` is set. */
static int next_line(struct yaml_reader *y, struct plenum_error *err)
{
    while (y->next < y->end) {
        const char *at = y->next, *end = end_of_line(at, y->end);

        y->next = past_line(end, y->end);
        y->number++;
        y->indent = 0;
        for (; at < end && *at == ' '; at++)
            y->indent++;
        if (memchr(at, '\0', (size_t)(end - at)))
            return fail(y, "it contains a zero byte", err);
        end = find_comment(at, end);
        while (end > at && is_blank(end[-1]))
            end--;
        if (at == end)
            continue;
        if (*at == '\t')
            return fail(y, "it is indented with a tab, which YAML does not allow", err);
        y->line = (struct yaml_span){at, end};
        return 0;
    }
    y->ended = true;
    return 0;
}

/* Returns whether the line is a marker of YAML, `---` or `...`, by itself or before a value. */
static bool is_marker(const struct yaml_reader *y, const char *marker)
{
    const char *at = y->line.at;

    return !y->ended && y->indent == 0 && y->line.end - at >= 3 && memcmp(at, marker, 3) == 0 &&
           (at + 3 == y->line.end || is_blank(at[3]));
}

static bool is_any_marker(const struct yaml_reader *y)
{
    return is_marker(y, "---") || is_marker(y, "...");
}

static struct yaml_span trim(struct yaml_span s)
{
    while (s.at < s.end && is_blank(*s.at))
        s.at++;
    while (s.end > s.at && is_blank(s.end[-1]))
        s.end--;
    return s;
}

/* Copy a quoted string without its quotes. */
static int unquote(const struct yaml_reader *y, struct yaml_span s, char *ret,
                   struct plenum_error *err)
{
    char quote = *s.at;

    for (const char *at = s.at + 1; at < s.end - 1; at++) {
        if (*at == '\\' && quote == '"' && at[1] != '"' && at[1] != '\\')
            return fail(y, "this escape in a string is not supported: use single quotes", err);
        at += (*at == '\\' && quote == '"') || (*at == '\'' && quote == '\'');
        *ret++ = *at;
    }
    *ret = '\0';
    return 0;
}

/* Copy a plain or quoted string (malloc). "", ~ and null become NULL. */
static int take_scalar(const struct yaml_reader *y, struct yaml_span s, char **ret,
                       struct plenum_error *err)
{
    size_t len = (size_t)(s.end - s.at);
    int r = 0;

    *ret = NULL;
    if (len == 0 || (len == 1 && *s.at == '~') || (len == 4 && memcmp(s.at, "null", 4) == 0))
        return 0;
    *ret = strndup(s.at, len);
    if (!*ret)
        return error_set(err, -ENOMEM, "out of memory");
    if (*s.at == '"' || *s.at == '\'')
        r = past_quoted(s.at, s.end) == s.end
                ? unquote(y, s, *ret, err)
                : fail(y, "a string in quotes must end on its line, and nothing may follow it",
                       err);
    else if (strchr("&*!|>@`%?[]{}#,", *s.at) || (*s.at == '-' && len > 1 && is_blank(s.at[1])))
        r = fail(y, "this kind of value is not supported: write a string, a list or a mapping",
                 err);
    else if (strstr(*ret, ": ") || (*ret)[len - 1] == ':')
        r = fail(y, "a value with a colon must be in quotes", err);
    if (r < 0) {
        free(*ret);
        *ret = NULL;
    }
    return r;
}

/* Split "KEY: VALUE". Returns false if it is not of this form. */
static bool split_pair(struct yaml_span s, struct yaml_span *key, struct yaml_span *value)
{
    const char *at = s.at;

    if (at < s.end && (*at == '"' || *at == '\'')) {
        at = past_quoted(at, s.end);
        if (!at)
            return false;
    }
    for (; at < s.end; at++)
        if (*at == ':' && (at + 1 == s.end || is_blank(at[1]))) {
            *key = trim((struct yaml_span){s.at, at});
            *value = trim((struct yaml_span){at + 1, s.end});
            if (key->end - key->at >= 2 && strchr("\"'", *key->at) && key->end[-1] == *key->at)
                *key = (struct yaml_span){key->at + 1, key->end - 1};
            return key->at < key->end;
        }
    return false;
}

/* ---- members ---- */

static int add_text(struct yolo_texts *t, char *text)
{
    if (array_grow(&t->all, &t->cap, t->count, sizeof(*t->all)) < 0) {
        free(text);
        return -ENOMEM;
    }
    t->all[t->count++] = text;
    return 0;
}

/* Set the name of class `key`, which is a number. */
static int set_name(const struct yaml_reader *y, struct yaml_span key, char *name,
                    struct plenum_error *err)
{
    struct yolo_texts *names = &y->ret->names;
    int64_t at = -1;

    if (number_parse(key.at, (size_t)(key.end - key.at), &at) != NUMBER_INTEGER || at < 0 ||
        at >= YOLO_CLASSES_MAX) {
        free(name);
        return fail(y, "the keys of names must be class numbers, from 0 to 65535", err);
    }
    while (names->count <= (size_t)at)
        if (add_text(names, NULL) < 0) {
            free(name);
            return error_set(err, -ENOMEM, "out of memory");
        }
    if (names->all[at]) {
        free(name);
        return fail(y, "this class has two names", err);
    }
    names->all[at] = name;
    return 0;
}

/* The members that are used. Others are skipped. */
static const char *const members[] = {"train", "val", "test", "names", "path", "nc", "kpt_shape"};

enum yaml_member { TRAIN, VAL, TEST, NAMES, PATH, NC, POINTS, MEMBERS };

_Static_assert(TEST == (int)YOLO_TEST, "splits come first");

_Static_assert(ARRAY_LEN(members) == MEMBERS, "a name per member");

static enum yaml_member member_of(struct yaml_span key)
{
    size_t len = (size_t)(key.end - key.at);

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (strlen(members[i]) == len && memcmp(members[i], key.at, len) == 0)
            return (enum yaml_member)i;
    return MEMBERS;
}

/* Add an element of a list, or with `key` of a mapping. */
static int add_item(const struct yaml_reader *y, enum yaml_member member,
                    const struct yaml_span *key, struct yaml_span value, struct plenum_error *err)
{
    struct yolo_texts *to = &y->ret->names;
    char *text;
    int r;

    if (member == PATH || member == NC)
        return fail(y, "this must be a single value", err);
    if (key && member != NAMES)
        return fail(y, "this must not be a mapping", err);
    if (member != NAMES)
        to = member == POINTS ? &y->ret->points : &y->ret->splits[member];
    r = take_scalar(y, value, &text, err);
    if (r == 0 && !text)
        return fail(y, "an element is empty", err);
    if (r < 0 || key)
        return r < 0 ? r : set_name(y, *key, text, err);
    if (to->count >= YOLO_CLASSES_MAX) {
        free(text);
        return fail(y, "it has more than 65536 elements", err);
    }
    return add_text(to, text) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

/* Set a member with a single value. */
static int set_value(const struct yaml_reader *y, enum yaml_member member, struct yaml_span value,
                     struct plenum_error *err)
{
    char *text;
    int r = take_scalar(y, value, &text, err);

    if (r < 0 || !text)
        return r;
    if (member <= TEST)
        return add_text(&y->ret->splits[member], text) < 0
                   ? error_set(err, -ENOMEM, "out of memory")
                   : 0;
    if (member == PATH) {
        y->ret->path = text;
        return 0;
    }
    if (member != NC || number_parse(text, strlen(text), &y->ret->nc) != NUMBER_INTEGER ||
        y->ret->nc < 0 || y->ret->nc > YOLO_CLASSES_MAX)
        r = fail(y,
                 member == NC ? "nc must be a number of classes, at most 65536"
                              : "this must be a list",
                 err);
    free(text);
    return r;
}

/* ---- values ---- */

/* A value in brackets, while it is parsed. */
struct yaml_flow {
    enum yaml_member member;
    char closing;
    bool closed;
    bool separated; /* an element may follow: it is the first, or a comma precedes it */
};

/* Parse an element between brackets. */
static int add_flow_item(const struct yaml_reader *y, const struct yaml_flow *f,
                         struct yaml_span item, struct plenum_error *err)
{
    struct yaml_span key, value;

    if (!f->separated)
        return fail(y, "a comma is missing before this element", err);
    if (f->closing == ']')
        return add_item(y, f->member, NULL, item, err);
    if (!split_pair(item, &key, &value))
        return fail(y, "a mapping needs KEY: VALUE", err);
    return add_item(y, f->member, &key, value, err);
}

/* Returns the end of the element that begins at `at`. */
static const char *past_flow_item(const struct yaml_flow *f, struct yaml_span s)
{
    bool begins = true; /* a string in quotes may begin here */

    while (s.at < s.end && *s.at != ',' && *s.at != f->closing) {
        const char *past =
            begins && (*s.at == '"' || *s.at == '\'') ? past_quoted(s.at, s.end) : NULL;

        begins = is_blank(*s.at) && !past;
        s.at = past ? past : s.at + 1;
    }
    return s.at;
}

/* Parse the elements that are on this line. */
static int add_flow_line(const struct yaml_reader *y, struct yaml_flow *f, struct yaml_span s,
                         struct plenum_error *err)
{
    while (!f->closed && s.at < s.end) {
        const char *end = past_flow_item(f, s);
        struct yaml_span item = trim((struct yaml_span){s.at, end});
        bool comma = end < s.end && *end == ',';
        int r = 0;

        if (item.at < item.end)
            r = add_flow_item(y, f, item, err);
        else if (comma && f->separated)
            r = fail(y, "an element is empty", err);
        if (r < 0)
            return r;
        f->closed = end < s.end && !comma;
        f->separated = comma || (f->separated && item.at == item.end);
        s.at = end < s.end ? end + 1 : s.end;
    }
    return trim(s).at < s.end ? fail(y, "something follows the closing bracket", err) : 0;
}

/* Parse a value in brackets, which may continue on further lines, and go to the line after it. */
static int take_flow(struct yaml_reader *y, enum yaml_member member, struct yaml_span value,
                     struct plenum_error *err)
{
    struct yaml_flow f = {
        .member = member, .closing = *value.at == '[' ? ']' : '}', .separated = true};
    int r = add_flow_line(y, &f, (struct yaml_span){value.at + 1, value.end}, err);

    while (r == 0 && !f.closed) {
        r = next_line(y, err);
        if (r == 0 && (y->ended || is_any_marker(y)))
            return fail(y, "a closing bracket is missing", err);
        if (r == 0)
            r = add_flow_line(y, &f, y->line, err);
    }
    return r < 0 ? r : next_line(y, err);
}

/* Returns whether a value is in brackets. */
static bool is_bracket(struct yaml_span value)
{
    return value.at < value.end && (*value.at == '[' || *value.at == '{');
}

/* Returns whether this is "- ELEMENT". */
static bool is_element(const char *at, const char *end)
{
    return *at == '-' && (at + 1 == end || strchr(" \t\r\n", at[1]));
}

/* Parse the elements of a block; the current line is after its key. */
static int take_block(struct yaml_reader *y, enum yaml_member member, struct plenum_error *err)
{
    size_t indent = y->indent;
    int r = 0;

    while (r == 0 && !y->ended) {
        bool dash = is_element(y->line.at, y->line.end);
        struct yaml_span key, value;

        if (y->indent == 0 && !dash)
            return 0;
        if (y->indent != indent)
            return fail(y, "it is indented differently from the line before it", err);
        if (dash)
            r = add_item(y, member, NULL, trim((struct yaml_span){y->line.at + 1, y->line.end}),
                         err);
        else if (split_pair(y->line, &key, &value))
            r = add_item(y, member, &key, value, err);
        else
            r = fail(y, "this is neither - ELEMENT nor KEY: VALUE", err);
        if (r == 0)
            r = next_line(y, err);
    }
    return r;
}

/* Skip the rest of a member that is not used. */
static int skip_block(struct yaml_reader *y, struct plenum_error *err)
{
    const char *at;
    int r = 0;

    do { /* lines of a long string need not be YAML */
        at = y->next;
        y->number++;
        while (at < y->end && *at == ' ')
            at++;
        if (at == y->end || (at == y->next && !strchr("\n\r#", *at) && !is_element(at, y->end)))
            break;
        y->next = past_line(end_of_line(y->next, y->end), y->end);
    } while (y->next < y->end);
    y->number--;
    r = next_line(y, err);
    return r;
}

/* Set a member with a single value. The current line is the one after it. */
static int take_value(struct yaml_reader *y, enum yaml_member member, struct yaml_span value,
                      struct plenum_error *err)
{
    int r = set_value(y, member, value, err);

    return r == 0 && !y->ended && y->indent > 0
               ? fail(y, "it continues a value that is complete", err)
               : r;
}

/* Take a value that begins on the current line, the one after its key. */
static int take_lines(struct yaml_reader *y, enum yaml_member member, struct plenum_error *err)
{
    struct yaml_span key, value = y->line;
    int r;

    if (y->ended || y->indent == 0 || is_element(value.at, value.end))
        return take_block(y, member, err);
    if (is_bracket(value))
        return take_flow(y, member, value, err);
    if (split_pair(value, &key, &value))
        return take_block(y, member, err);
    r = next_line(y, err);
    return r == 0 ? take_value(y, member, value, err) : r;
}

static int take_member(struct yaml_reader *y, unsigned *seen, struct plenum_error *err)
{
    struct yaml_span key, value;
    enum yaml_member member;
    int r;

    if (y->indent > 0 || !split_pair(y->line, &key, &value))
        return fail(y, "this is not KEY: VALUE", err);
    if (key.end - key.at == 2 && memcmp(key.at, "<<", 2) == 0)
        return fail(y, "this kind of value is not supported: write a string, a list or a mapping",
                    err);
    member = member_of(key);
    if (member == MEMBERS)
        return skip_block(y, err);
    if (*seen & 1u << member)
        return fail(y, "this key is given twice", err);
    *seen |= 1u << member;
    if (is_bracket(value))
        return take_flow(y, member, value, err);
    r = next_line(y, err);
    if (r < 0)
        return r;
    return value.at < value.end ? take_value(y, member, value, err) : take_lines(y, member, err);
}

/* Go to the first member: skip directives, and the marker of the beginning. */
static int begin_document(struct yaml_reader *y, struct plenum_error *err)
{
    bool directed = false;
    int r = next_line(y, err);

    for (; r == 0 && !y->ended && y->indent == 0 && *y->line.at == '%'; r = next_line(y, err))
        directed = true;
    if (r < 0)
        return r;
    if (!is_marker(y, "---"))
        return directed ? fail(y, "a line --- must follow those that begin with %", err) : 0;
    if (y->line.end - y->line.at > 3)
        return fail(y, "nothing may follow --- on its line", err);
    return next_line(y, err);
}

/* Check that nothing follows the last member. */
static int end_document(struct yaml_reader *y, struct plenum_error *err)
{
    int r = 0;

    while (r == 0 && is_marker(y, "...") && y->line.end - y->line.at == 3)
        r = next_line(y, err);
    return r == 0 && !y->ended
               ? fail(y, "another document begins here, but a file must have only one", err)
               : r;
}

/* Check the number of classes, and name those without names. */
static int settle_names(struct yolo_yaml *ret, struct plenum_error *err)
{
    struct yolo_texts *names = &ret->names;

    for (size_t i = 0; i < names->count; i++)
        if (!names->all[i])
            return error_set(err, -EBADMSG, "names has no class %zu, but %zu classes", i,
                             names->count);
    if (names->count == 0 && ret->nc < 0)
        return error_set(err, -EBADMSG, "it has no class names: add names, or their number nc");
    if (names->count > 0 && ret->nc >= 0 && (size_t)ret->nc != names->count)
        return error_set(err, -EBADMSG, "nc is %lld, but names has %zu classes", (long long)ret->nc,
                         names->count);
    while ((int64_t)names->count < ret->nc) {
        char *name = str_format("class_%zu", names->count);

        if (!name || add_text(names, name) < 0)
            return error_set(err, -ENOMEM, "out of memory");
    }
    return 0;
}

static int settle_points(struct yolo_yaml *ret, struct plenum_error *err)
{
    const struct yolo_texts *t = &ret->points;
    int64_t v[2];

    if (t->count == 0)
        return 0;
    if (t->count != 2 || number_parse(t->all[0], strlen(t->all[0]), &v[0]) != NUMBER_INTEGER ||
        number_parse(t->all[1], strlen(t->all[1]), &v[1]) != NUMBER_INTEGER || v[0] < 1 ||
        v[0] > YOLO_POINTS_MAX || v[1] < 2 || v[1] > 3)
        return error_set(err, -EBADMSG,
                         "kpt_shape must be [N, 2] or [N, 3], with N key points, at most 1024");
    ret->num_points = (uint32_t)v[0];
    ret->point_values = (uint32_t)v[1];
    return 0;
}

int yolo_yaml_parse(const char *text, size_t len, struct yolo_yaml *ret, struct plenum_error *err)
{
    struct yaml_reader y = {.next = text, .end = text + len, .ret = ret};
    unsigned seen = 0;
    int r;

    ret->nc = -1;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        y.next += 3;
    r = begin_document(&y, err);
    while (r == 0 && !y.ended && !is_any_marker(&y))
        r = take_member(&y, &seen, err);
    if (r == 0)
        r = end_document(&y, err);
    if (r == 0)
        r = settle_names(ret, err);
    return r == 0 ? settle_points(ret, err) : r;
}

static void free_texts(struct yolo_texts *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->all[i]);
    free(t->all);
}

void yolo_yaml_fini(struct yolo_yaml *y)
{
    free(y->path);
    for (int i = 0; i < YOLO_SPLITS; i++)
        free_texts(&y->splits[i]);
    free_texts(&y->names);
    free_texts(&y->points);
}

/* SPDX-License-Identifier: MIT */
/* Tests json_find.c, which finds one value in a JSON document. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/json_find.h"

struct json_case {
    char text[100], path[20],
        want[60]; /* want: "number", "'text'", a kind, or a part of a message */
    int code;
};

ParameterizedTestParameters(json_find, values)
{
    static struct json_case cases[] = {
        {"{\"a\":1}", "a", "1", 0},
        {" { \"b\" : [1, {\"a\": 2}] , \"a\" : -17 } ", "a", "-17", 0},
        {"{\"a\":{\"b\":{\"c\":3}}}", "a.b.c", "3", 0},
        {"{\"a.b\":4}", "a.b", "4", 0},
        {"{\"a\":1,\"a\":2}", "a", "2", 0},
        {"{\"a\":\"x y\"}", "a", "'x y'", 0},
        {"{\"a\":\"\\u00fc\\n\\\"\\ud83d\\ude00\"}", "a", "'\xC3\xBC\n\"\xF0\x9F\x98\x80'", 0},
        {"{\"\\u0061\":1}", "a", "1", 0},
        {"{\"a\":true}", "a", "true", 0},
        {"{\"a\":null}", "a", "null", 0},
        {"{\"a\":1.0}", "a", "1.0", 0},
        {"{\"a\":1.5}", "a", "1.5", 0},
        {"{\"a\":9007199254740992.0}", "a", "9007199254740992.0", 0},
        {"{\"a\":1e3}", "a", "1e3", 0},
        {"{\"a\":[1]}", "a", "a list", 0},
        {"{\"a\":{\"b\":1}}", "a", "an object", 0},
        {"{\"a\":9223372036854775807}", "a", "9223372036854775807", 0},
        {"{\"a\":9223372036854775808}", "a", "9223372036854775808", 0},
        {"{\"b\":9223372036854775808,\"a\":3}", "a", "3", 0},
        {"{\"b\":9223372036854775808,\"a\":9007199254740993}", "a", "9007199254740993", 0},
        {"{\"a\":{\"x\":1},\"a.b\":2}", "a.b", "2", 0},
        /* Documents that Python's json writes and reads. */
        {"{\"a\":1e999}", "a", "1e999", 0},
        {"{\"b\":NaN,\"a\":7}", "a", "7", 0},
        {"{\"b\":[Infinity,-Infinity],\"a\":7}", "a", "7", 0},
        {"{\"a\":NaN}", "a", "NaN", 0},
        {"{\"a\":-Infinity}", "a", "-Infinity", 0},
        {"{\"b\":\"\\ud800\",\"a\":7}", "a", "7", 0},
        {"{\"b\":\"\xed\xa0\x80\",\"a\":7}", "a", "7", 0},
        {"\xef\xbb\xbf{\"a\":7}", "a", "7", 0},
        {" \xef\xbb\xbf{\"a\":7}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":-NaN}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":nan}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":\"\xff\"}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":{\"b\":1},\"a\":{\"b\":2,\"b\":3}}", "a.b", "3", 0},
        {"{\"a\":[{},{\"x\":\"}\\\"]\"}],\"b\":4}", "b", "4", 0},
        {"{\"a\":922337203685477579}", "a", "922337203685477579", 0},
        {"{}", "a", "no member 'a'", -ENOENT},
        {"{\"ab\":1}", "a", "no member 'a'", -ENOENT},
        {"{\"a\":{\"c\":1}}", "a.b", "no member 'a.b'", -ENOENT},
        {"[{\"a\":1}]", "a", "no member 'a'", -ENOENT},
        {"", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":1", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":1}x", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":01}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":+1}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":1.}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":\"x}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":\"\\x\"}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":\"\\u12g4\"}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":\"\\ud800\"}", "a", "contains half of a surrogate pair", -EBADMSG},
        {"{\"a\":\"\\udc00\"}", "a", "contains half of a surrogate pair", -EBADMSG},
        {"{\"a\":\"\\u0000\"}", "a", "contains U+0000", -EBADMSG},
        {"{\"a\":\"\n\"}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\" 1}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":1,}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":tru}", "a", "it is not JSON: ", -EBADMSG},
        {"{\"a\":[1,]}", "a", "it is not JSON: ", -EBADMSG},
    };
    return cr_make_param_array(struct json_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct json_case *c, json_find, values)
{
    size_t len = strlen(c->text);
    char *exact = malloc(len + !len), got[400];
    struct plenum_error err = {""};
    struct json_value v;
    int r;

    memcpy(exact, c->text, len); /* without a NUL after it, so that a sanitizer detects more */
    r = json_find(exact, len, c->path, &v, &err);
    cr_expect(eq(int, r, c->code), "%s: %s", c->text, err.text);
    if (r < 0) {
        cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "'%s' lacks '%s'", err.text,
                  c->want);
    } else {
        static const char *const kinds[] = {
            [JSON_AT_OBJECT] = "an object", [JSON_AT_LIST] = "a list", [JSON_AT_TEXT] = "'",
            [JSON_AT_NUMBER] = "",          [JSON_AT_TRUE] = "true",   [JSON_AT_FALSE] = "false",
            [JSON_AT_NULL] = "null"};

        (void)snprintf(got, sizeof(got), "%s%s%s", kinds[v.type], v.text,
                       v.type == JSON_AT_TEXT ? "'" : "");
        cr_expect(eq(str, got, c->want));
    }
    free(exact);
}

Test(json_find, depth_and_length_have_limits)
{
    struct plenum_error err = {""};
    struct json_value v;
    char text[1000], deep[10000];

    memset(deep, '[', sizeof(deep));
    memset(deep + sizeof(deep) / 2, ']', sizeof(deep) / 2);
    cr_expect(eq(int, json_find(deep, sizeof(deep), "a", &v, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "depth"), NULL), "%s", err.text);
    memset(text, 'x', sizeof(text));
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + 6 + 255, "\"}", 2);
    cr_expect(eq(int, json_find(text, 6 + 255 + 2, "a", &v, &err), 0));
    cr_expect(eq(sz, strlen(v.text), 255));
    memset(text + 6 + 255, 'x', 2);
    memcpy(text + 6 + 256, "\"}", 2);
    cr_expect(eq(int, json_find(text, 6 + 256 + 2, "a", &v, &err), -EBADMSG));
}

/* Millions of empty objects: a tree of them would take 75 times the text. The text takes all the
 * memory, so hardly any is left for a tree. */
Test(json_find, takes_no_memory_besides_the_text)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("sanitizers reserve address space of their own");
#endif
    static const char begin[] = "{\"x\":[{}", end[] = "],\"label\":\"7\"}";
    enum { COUNT = 1400000 };
    char *text = malloc(COUNT * 3 + sizeof(begin) + sizeof(end)), *at = text;
    struct plenum_error err = {""};
    struct rlimit limit;
    struct json_value v;

    at = stpcpy(at, begin);
    for (int i = 0; i < COUNT; i++)
        at = mempcpy(at, ",{}", 3);
    at = stpcpy(at, end);
    cr_assert(eq(int, getrlimit(RLIMIT_AS, &limit), 0));
    limit.rlim_cur = 1 << 20; /* existing mappings stay, but no more can be created */
    cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
    cr_expect(eq(int, json_find(text, (size_t)(at - text), "label", &v, &err), 0), "%s", err.text);
    limit.rlim_cur = limit.rlim_max;
    cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
    cr_expect(eq(str, v.text, "7"));
    free(text);
}

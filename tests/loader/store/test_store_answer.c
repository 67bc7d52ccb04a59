/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "loader/store/store_answer.h"

static struct store_answer answer_of(const char *const *lines)
{
    struct store_answer a = {0};

    for (; *lines; lines++)
        answer_add_line(&a, *lines, strlen(*lines));
    return a;
}

/* An answer to a request for bytes 100-199 of an object of 1,000 bytes with the ETag "v1". */
struct range_case {
    char why[40], lines[4][64];
    int code;
    uint64_t skip;
};

ParameterizedTestParameters(answer, ranges)
{
    static struct range_case cases[] = {
        {"right",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "ETag: \"v1\"",
          "Content-Length: 100"},
         0,
         0},
        {"200 with the range",
         {"HTTP/1.1 200 OK", "content-range: bytes 100-199/1000", "etag: \"v1\"",
          "content-length: 100"},
         0,
         0},
        {"chunked", {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "ETag: \"v1\""}, 0, 0},
        {"unknown total",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/*", "ETag: \"v1\""},
         0,
         0},
        {"whole", {"HTTP/1.1 200 OK", "Content-Length: 1000", "ETag: \"v1\""}, 0, 100},
        {"whole, changed", {"HTTP/1.1 200 OK", "Content-Length: 1000", "ETag: \"v2\""}, -ESTALE, 0},
        {"whole, longer", {"HTTP/1.1 200 OK", "Content-Length: 1001", "ETag: \"v1\""}, -ESTALE, 0},
        {"whole, unknown length", {"HTTP/1.1 200 OK", "ETag: \"v1\""}, -EOPNOTSUPP, 0},
        {"no range", {"HTTP/1.1 206 OK", "Content-Length: 100", "ETag: \"v1\""}, -EPROTO, 0},
        {"other range",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 101-200/1000", "ETag: \"v1\""},
         -EPROTO,
         0},
        {"shorter range",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-198/1000", "ETag: \"v1\""},
         -EPROTO,
         0},
        {"longer range",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-299/1000", "ETag: \"v1\""},
         -EPROTO,
         0},
        {"malformed range",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 199-100/1000", "ETag: \"v1\""},
         -EPROTO,
         0},
        {"wrong length",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "ETag: \"v1\"",
          "Content-Length: 99"},
         -EPROTO,
         0},
        {"changed",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "ETag: \"v2\""},
         -ESTALE,
         0},
        {"weak",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "ETag: W/\"v1\""},
         -ESTALE,
         0},
        {"other size",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/999", "ETag: \"v1\""},
         -ESTALE,
         0},
        {"encoded",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000", "Content-Encoding: gzip"},
         -EOPNOTSUPP,
         0},
        {"another status", {"HTTP/1.1 204 OK", "Content-Range: bytes 100-199/1000"}, -EPROTO, 0},
        {"no ETag, same time",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000",
          "Last-Modified: Thu, 01 Jan 1970 00:01:40 GMT"},
         0,
         0},
        {"no ETag, other time",
         {"HTTP/1.1 206 OK", "Content-Range: bytes 100-199/1000",
          "Last-Modified: Thu, 01 Jan 1970 00:01:41 GMT"},
         -ESTALE,
         0},
    };
    return cr_make_param_array(struct range_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct range_case *c, answer, ranges)
{
    const struct object_facts facts = {.size = 1000, .etag = "v1", .mtime_s = 100};
    const struct wanted_range want = {.offset = 100, .len = 100, .facts = &facts};
    const char *lines[] = {c->lines[0], c->lines[1], c->lines[2], c->lines[3], NULL};
    struct store_answer a = answer_of(lines);
    struct plenum_error err = {""};
    uint64_t skip = 0;

    cr_expect(eq(int, answer_check_range(&a, &want, &skip, &err), c->code), "%s", c->why);
    cr_expect(eq(u64, skip, c->skip), "%s", c->why);
    cr_expect(eq(int, err.text[0] != '\0', c->code < 0), "%s", c->why);
}

Test(answer, whole_objects_are_not_read_for_a_range_far_inside)
{
    const struct object_facts facts = {.size = 1 << 30, .etag = "v"};
    const struct wanted_range want = {.offset = 1 << 29, .len = 1, .facts = &facts};
    struct store_answer a = answer_of((const char *const[]){
        "HTTP/1.1 200 OK", "Content-Length: 1073741824", "ETag: \"v\"", NULL});
    uint64_t skip;

    cr_expect(eq(int, answer_check_range(&a, &want, &skip, NULL), -EOPNOTSUPP));
}

Test(answer, a_status_line_starts_over)
{
    struct store_answer a = answer_of(
        (const char *const[]){"HTTP/1.1 200 Connection established", "ETag: \"proxy\"", "",
                              "HTTP/1.1 503 Slow Down\r\n", "Retry-After: 999999", NULL});

    cr_expect(eq(u32, a.status, 503));
    cr_expect(eq(str, a.facts.etag, ""));
    cr_expect(eq(u64, a.retry_after_s, 300)); /* longer times are cut to this */
}

Test(answer, times)
{
    cr_expect(eq(u64, answer_parse_time("Mon, 12 Oct 2009 17:50:00 GMT"), 1255369800));
    cr_expect(eq(u64, answer_parse_time("2009-10-12T17:50:00.000Z"), 1255369800));
    cr_expect(eq(u64, answer_parse_time("2009-10-12T17:50:00Z"), 1255369800));
    cr_expect(eq(u64, answer_parse_time("yesterday"), 0));
    cr_expect(eq(u64, answer_parse_time(""), 0));
}

struct class_case {
    char code[32];
    unsigned status;
    enum answer_class class;
};

ParameterizedTestParameters(answer, classes)
{
    static struct class_case cases[] = {
        {"", 500, ANSWER_RETRY},
        {"", 502, ANSWER_RETRY},
        {"", 504, ANSWER_RETRY},
        {"", 408, ANSWER_RETRY},
        {"RequestTimeout", 400, ANSWER_RETRY},
        {"", 503, ANSWER_SLOW},
        {"", 429, ANSWER_SLOW},
        {"SlowDown", 200, ANSWER_SLOW},
        {"ExpiredToken", 400, ANSWER_REFRESH},
        {"RequestTimeTooSkewed", 403, ANSWER_CLOCK},
        {"AuthorizationHeaderMalformed", 400, ANSWER_REGION},
        {"", 302, ANSWER_MOVED},
        {"", 412, ANSWER_CHANGED},
        {"", 416, ANSWER_CHANGED},
        {"", 404, ANSWER_ABSENT},
        {"NoSuchBucket", 404, ANSWER_ABSENT},
        {"AccessDenied", 403, ANSWER_REFUSED},
        {"", 401, ANSWER_REFUSED},
        {"InvalidArgument", 400, ANSWER_WRONG},
    };
    return cr_make_param_array(struct class_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct class_case *c, answer, classes)
{
    struct store_answer a = {.status = c->status};

    cr_expect(eq(int, (int)answer_classify(&a, c->code), (int)c->class), "%u %s", c->status,
              c->code);
}

Test(answer, racy_times)
{
    struct object_facts facts = {.size = 5, .mtime_s = 1000};

    object_judge_time(&facts, 1000);
    cr_expect(facts.racy);
    object_judge_time(&facts, 1001);
    cr_expect(facts.racy);
    object_judge_time(&facts, 1002);
    cr_expect(not(facts.racy));
    object_judge_time(&facts, 0);
    cr_expect(facts.racy, "the store does not tell the time");
    (void)strcpy(facts.etag, "v1");
    object_judge_time(&facts, 1000);
    cr_expect(not(facts.racy));
}

Test(answer, versions)
{
    struct object_facts now = {.size = 5, .mtime_s = 1000, .etag = "v1"}, known = now;

    cr_expect(object_is_same(&now, &known));
    known = (struct object_facts){.size = 5, .version = object_version(&now)};
    cr_expect(object_is_same(&now, &known), "the ETag's hash is the same");
    (void)strcpy(now.etag, "v2");
    cr_expect(not(object_is_same(&now, &known)));
    now.etag[0] = '\0';
    cr_expect(not(object_is_same(&now, &known)));
    known.version = object_version(&now);
    cr_expect(object_is_same(&now, &known), "by its time");
    now.mtime_s++;
    cr_expect(not(object_is_same(&now, &known)));
    now = (struct object_facts){.size = 5};
    known.version = object_version(&now);
    cr_expect(object_is_same(&now, &known), "the store gives neither an ETag nor a time");
    now.size++;
    cr_expect(not(object_is_same(&now, &known)));
}

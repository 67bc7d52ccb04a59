/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/store_answer.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum {
    SKIP_MAX = 8 << 20,    /* at most this many bytes before a range are read and dropped */
    RETRY_AFTER_MAX = 300, /* seconds */
    RACY_S = 2,            /* the resolution of Last-Modified, and of the coarsest file system */
};

uint64_t object_version(const struct object_facts *facts)
{
    assert(facts->version == 0);
    if (facts->etag[0])
        return max_u64(XXH3_64bits(facts->etag, strlen(facts->etag)), 1);
    return facts->mtime_s;
}

bool object_is_same(const struct object_facts *now, const struct object_facts *known)
{
    if (now->size != known->size)
        return false;
    if (known->version)
        return object_version(now) == known->version;
    if (now->etag[0] || known->etag[0])
        return strcmp(now->etag, known->etag) == 0;
    return now->mtime_s == known->mtime_s;
}

void object_judge_time(struct object_facts *facts, uint64_t date_s)
{
    facts->racy = !facts->etag[0] && (date_s == 0 || facts->mtime_s + RACY_S > date_s);
}

/* ---- times ---- */

static int month_of(const char *name)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (int i = 0; i < 12; i++)
        if (strncmp(name, names + 3 * (size_t)i, 3) == 0)
            return i;
    return -1;
}

/* Parse a number and the character after it, and advance. */
static bool next_number(const char **at, char end, uint64_t max, int *ret)
{
    uint64_t value;

    if (parse_next_u64(at, max, &value) < 0 || **at != end)
        return false;
    *at += end != '\0';
    *ret = (int)value;
    return true;
}

static bool parse_clock(const char **at, char end, struct tm *tm)
{
    return next_number(at, ':', 23, &tm->tm_hour) && next_number(at, ':', 59, &tm->tm_min) &&
           next_number(at, end, 60, &tm->tm_sec);
}

static bool parse_http_date(const char *text, struct tm *tm)
{
    const char *at = strstr(text, ", ");

    if (!at)
        return false;
    at += 2;
    if (!next_number(&at, ' ', 31, &tm->tm_mday))
        return false;
    tm->tm_mon = month_of(at);
    if (tm->tm_mon < 0 || at[3] != ' ')
        return false;
    at += 4;
    return next_number(&at, ' ', 9999, &tm->tm_year) && parse_clock(&at, ' ', tm);
}

static bool parse_iso_time(const char *text, struct tm *tm)
{
    const char *at = text;

    if (!next_number(&at, '-', 9999, &tm->tm_year) || !next_number(&at, '-', 12, &tm->tm_mon) ||
        !next_number(&at, 'T', 31, &tm->tm_mday))
        return false;
    tm->tm_mon--;
    return parse_clock(&at, strchr(at, '.') ? '.' : 'Z', tm);
}

uint64_t answer_parse_time(const char *text)
{
    struct tm tm = {0};
    time_t t;

    if (!parse_http_date(text, &tm) && !parse_iso_time(text, &tm))
        return 0;
    tm.tm_year -= 1900;
    t = timegm(&tm);
    return t > 0 ? (uint64_t)t : 0;
}

/* ---- lines of a header ---- */

void answer_copy_etag(const char *text, size_t len, char *ret, size_t size)
{
    bool weak = len >= 2 && strncasecmp(text, "W/", 2) == 0;
    int n;

    ret[0] = '\0';
    if (weak) {
        text += 2;
        len -= 2;
    }
    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= 0x20 || text[i] == '"' || text[i] == 0x7f)
            return;
    n = snprintf(ret, size, "%s%.*s", weak ? "W/" : "", (int)min_u64(len, size), text);
    if (n < 0 || (size_t)n >= size)
        ret[0] = '\0'; /* a truncated ETag would not identify a version */
}

static void copy_text(const char *text, size_t len, char *ret, size_t size)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return;
    if (len < size)
        (void)snprintf(ret, size, "%.*s", (int)len, text);
}

/* Parse Content-Range: "bytes 0-99/1000", "bytes 0-99/STAR", "bytes STAR/1000" (STAR is an
 * asterisk). */
static void add_range(struct store_answer *a, const char *value)
{
    const char *at = str_after(value, "bytes ");
    uint64_t first, last;

    a->has_range = a->has_total = false;
    if (!at)
        return;
    if (*at == '*') {
        at++;
    } else {
        if (parse_next_u64(&at, UINT64_MAX - 1, &first) < 0 || *at++ != '-' ||
            parse_next_u64(&at, UINT64_MAX - 1, &last) < 0 || last < first)
            return;
        a->first = first;
        a->last = last;
        a->has_range = true;
    }
    if (*at++ != '/')
        a->has_range = false;
    else
        a->has_total = parse_u64(at, UINT64_MAX - 1, &a->total) == 0;
}

static void add_number(const char *value, uint64_t *ret, bool *has)
{
    *has = parse_u64(value, UINT64_MAX - 1, ret) == 0;
}

static void add_field(struct store_answer *a, const char *name, const char *value)
{
    size_t len = strlen(value);
    bool ignored;

    if (strcasecmp(name, "content-length") == 0)
        add_number(value, &a->length, &a->has_length);
    else if (strcasecmp(name, "content-range") == 0)
        add_range(a, value);
    else if (strcasecmp(name, "etag") == 0)
        answer_copy_etag(value, len, a->facts.etag, sizeof(a->facts.etag));
    else if (strcasecmp(name, "last-modified") == 0)
        a->facts.mtime_s = answer_parse_time(value);
    else if (strcasecmp(name, "date") == 0)
        a->date_s = answer_parse_time(value);
    else if (strcasecmp(name, "retry-after") == 0)
        add_number(value, &a->retry_after_s, &ignored);
    else if (strcasecmp(name, "x-amz-request-id") == 0 || strcasecmp(name, "x-request-id") == 0)
        copy_text(value, len, a->request_id, sizeof(a->request_id));
    else if (strcasecmp(name, "x-amz-bucket-region") == 0)
        copy_text(value, len, a->region, sizeof(a->region));
    else if (strcasecmp(name, "location") == 0)
        copy_text(value, len, a->location, sizeof(a->location));
    else if (strcasecmp(name, "content-encoding") == 0 && strcasecmp(value, "identity") != 0 &&
             strcasecmp(value, "aws-chunked") != 0) /* some stores keep "aws-chunked" from an
                                                     * upload */
        (void)snprintf(a->encoding, sizeof(a->encoding), "%.31s", value);
}

void answer_add_line(struct store_answer *a, const char *line, size_t len)
{
    char text[4096], *value;
    uint64_t status;

    while (len > 0 && isspace((unsigned char)line[len - 1]))
        len--;
    if (len >= sizeof(text) || memchr(line, '\0', len))
        return;
    memcpy(text, line, len);
    text[len] = '\0';
    if (strncmp(text, "HTTP/", 5) == 0) {
        const char *at = text + strcspn(text, " ");

        *a = (struct store_answer){0};
        at += strspn(at, " ");
        if (parse_next_u64(&at, 999, &status) == 0)
            a->status = (unsigned)status;
        return;
    }
    value = strchr(text, ':');
    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    add_field(a, text, value);
    a->retry_after_s = min_u64(a->retry_after_s, RETRY_AFTER_MAX);
}

/* ---- ranges ---- */

/* Returns whether the answer is the known version. */
static bool is_version(const struct store_answer *a, uint64_t total,
                       const struct object_facts *facts)
{
    struct object_facts now = a->facts;

    now.size = total;
    if (facts->etag[0] && !now.etag[0] && facts->mtime_s == now.mtime_s)
        return facts->size == total; /* this answer has no ETag */
    return object_is_same(&now, facts);
}

/* Check an answer that is the whole object, with status 200, instead of a range. */
static int check_whole(const struct store_answer *a, const struct wanted_range *want,
                       uint64_t *skip, struct plenum_error *err)
{
    uint64_t end = want->offset + want->len;

    if (!a->has_length)
        return error_set(err, -EOPNOTSUPP,
                         "the server answered a range request without giving a length");
    if (want->facts && !is_version(a, a->length, want->facts))
        return error_set(err, -ESTALE, "it has changed");
    if (a->length == 0 && !want->facts)
        return 0; /* the object is empty; store_stat() accepts that */
    if (a->length < end)
        return error_set(err, -EPROTO, "the server answered a range request with %llu bytes",
                         (unsigned long long)a->length);
    if (want->offset > SKIP_MAX)
        return error_set(err, -EOPNOTSUPP,
                         "the server ignores ranges, and sends the whole object each time: serve "
                         "it with a server that supports them");
    *skip = want->offset;
    return 0;
}

int answer_check_range(const struct store_answer *a, const struct wanted_range *want,
                       uint64_t *skip, struct plenum_error *err)
{
    assert(want->len > 0 && want->offset <= UINT64_MAX - want->len);
    if (a->encoding[0])
        return error_set(err, -EOPNOTSUPP,
                         "it is stored with 'Content-Encoding: %s': store it without", a->encoding);
    if (a->status != 200 && a->status != 206)
        return error_set(err, -EPROTO, "the server answered with status %u", a->status);
    if (!a->has_range)
        return a->status == 200 ? check_whole(a, want, skip, err)
                                : error_set(err, -EPROTO, "the answer has no Content-Range");
    if (want->facts && a->has_total && !is_version(a, a->total, want->facts))
        return error_set(err, -ESTALE, "it has changed");
    if (a->first != want->offset || a->last - a->first != want->len - 1)
        return error_set(
            err, -EPROTO, "bytes %llu-%llu were requested, but the server sent %llu-%llu",
            (unsigned long long)want->offset, (unsigned long long)(want->offset + want->len - 1),
            (unsigned long long)a->first, (unsigned long long)a->last);
    if (a->has_length && a->length != want->len)
        return error_set(err, -EPROTO, "the server announced %llu bytes instead of %llu",
                         (unsigned long long)a->length, (unsigned long long)want->len);
    if (want->facts && !a->has_total && !is_version(a, want->facts->size, want->facts))
        return error_set(err, -ESTALE, "it has changed");
    *skip = 0;
    return 0;
}

/* ---- other answers ---- */

enum answer_class answer_classify(const struct store_answer *a, const char *code)
{
    static const struct {
        const char *code;
        enum answer_class class;
    } codes[] = {
        {"SlowDown", ANSWER_SLOW},
        {"RequestTimeTooSkewed", ANSWER_CLOCK},
        {"ExpiredToken", ANSWER_REFRESH},
        {"ExpiredTokenException", ANSWER_REFRESH},
        {"TokenRefreshRequired", ANSWER_REFRESH},
        {"PreconditionFailed", ANSWER_CHANGED},
        {"InvalidRange", ANSWER_CHANGED},
        {"RequestTimeout", ANSWER_RETRY},
        {"InternalError", ANSWER_RETRY},
        {"AuthorizationHeaderMalformed", ANSWER_REGION},
        {"PermanentRedirect", ANSWER_REGION},
        {"NoSuchBucket", ANSWER_ABSENT},
        {"NoSuchKey", ANSWER_ABSENT},
    };
    unsigned status = a->status;

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (strcmp(code, codes[i].code) == 0)
            return codes[i].class;
    if (status == 429 || status == 503)
        return ANSWER_SLOW;
    if (status >= 500 || status == 408)
        return ANSWER_RETRY;
    if (status >= 300 && status < 400)
        return a->region[0] ? ANSWER_REGION : ANSWER_MOVED;
    if (status == 404 || status == 410)
        return ANSWER_ABSENT;
    if (status == 401 || status == 403)
        return ANSWER_REFUSED;
    if (status == 412 || status == 416)
        return ANSWER_CHANGED;
    return ANSWER_WRONG;
}

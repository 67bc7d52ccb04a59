/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/json.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "common/util/text.h"
#include "common/util/util.h"

static void put_quoted(FILE *file, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    (void)fputc('"', file);
    while (*p) {
        size_t len = text_utf8_length(p);

        if (len == 0)
            (void)fputs("\\ufffd", file);
        else if (*p < 0x20 || *p == 0x7f)
            (void)fprintf(file, "\\u%04x", *p);
        else if (*p == 0xc2 && p[1] < 0xa0) /* C1 control characters, which could harm a terminal */
            (void)fprintf(file, "\\u%04x", p[1]);
        else if (*p == '"' || *p == '\\')
            (void)fprintf(file, "\\%c", *p);
        else
            (void)fwrite(p, 1, len, file);
        p += len ? len : 1;
    }
    (void)fputc('"', file);
}

/* Write everything before a value: comma, line break, key. */
static void lead_in(struct json *j, const char *key)
{
    assert(j->depth <= JSON_DEPTH_MAX);
    assert(!key || (j->depth > 0));
    if (j->depth > 0) {
        unsigned d = j->depth - 1;

        if (j->full[d])
            (void)fputs(j->flat[d] ? ", " : ",", j->file);
        if (!j->flat[d])
            (void)fprintf(j->file, "\n%*s", (int)j->depth * 2, "");
        j->full[d] = true;
    }
    if (key) {
        put_quoted(j->file, key);
        (void)fputs(": ", j->file);
    }
}

static void begin(struct json *j, const char *key, char bracket, enum json_layout layout)
{
    bool inside_flat = j->depth > 0 && j->flat[j->depth - 1];

    assert(j->depth < JSON_DEPTH_MAX); /* callers nest to a fixed depth */
    lead_in(j, key);
    (void)fputc(bracket, j->file);
    j->full[j->depth] = false;
    j->flat[j->depth++] = layout == JSON_FLAT || inside_flat;
}

static void end(struct json *j, char bracket)
{
    assert(j->depth > 0);
    j->depth--;
    if (j->full[j->depth] && !j->flat[j->depth])
        (void)fprintf(j->file, "\n%*s", (int)j->depth * 2, "");
    (void)fputc(bracket, j->file);
    if (j->depth == 0)
        (void)fputc('\n', j->file);
}

void json_begin_object(struct json *j, const char *key, enum json_layout layout)
{
    begin(j, key, '{', layout);
}

void json_end_object(struct json *j)
{
    end(j, '}');
}

void json_begin_array(struct json *j, const char *key, enum json_layout layout)
{
    begin(j, key, '[', layout);
}

void json_end_array(struct json *j)
{
    end(j, ']');
}

void json_text(struct json *j, const char *key, const char *text)
{
    lead_in(j, key);
    if (text)
        put_quoted(j->file, text);
    else
        (void)fputs("null", j->file);
}

void json_number(struct json *j, const char *key, uint64_t value)
{
    lead_in(j, key);
    (void)fprintf(j->file, "%llu", (unsigned long long)value);
}

void json_signed(struct json *j, const char *key, int64_t value)
{
    lead_in(j, key);
    (void)fprintf(j->file, "%lld", (long long)value);
}

void json_seconds(struct json *j, const char *key, uint64_t ns)
{
    lead_in(j, key);
    (void)fprintf(j->file, "%llu.%09llu", (unsigned long long)(ns / NS_PER_SEC),
                  (unsigned long long)(ns % NS_PER_SEC));
}

void json_real(struct json *j, const char *key, double value, int decimals)
{
    assert(decimals >= 0);
    lead_in(j, key);
    if (isfinite(value))
        (void)fprintf(j->file, "%.*f", decimals, value);
    else
        (void)fputs("null", j->file);
}

void json_bool(struct json *j, const char *key, bool value)
{
    lead_in(j, key);
    (void)fputs(value ? "true" : "false", j->file);
}

void json_null(struct json *j, const char *key)
{
    json_text(j, key, NULL);
}

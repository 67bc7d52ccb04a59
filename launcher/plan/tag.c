/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/plan/tag.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

/* Format the template's field after a '%'. Returns snprintf()'s result, or -1. */
static int format_field(const struct tag_fields *fields, char field, char *ret, size_t size)
{
    struct tm tm;

    switch (field) {
    case 'i':
        return snprintf(ret, size, "%u", fields->instance);
    case 'h':
        return snprintf(ret, size, "%s", fields->host);
    case 'p':
        return snprintf(ret, size, "%d", (int)fields->pid);
    case 's':
        return snprintf(ret, size, "%s", fields->stream);
    case 't':
        (void)localtime_r(&fields->now.tv_sec, &tm);
        return snprintf(ret, size, "%02d:%02d:%02d.%03d", tm.tm_hour, tm.tm_min, tm.tm_sec,
                        (int)(fields->now.tv_nsec / 1000000));
    case '%':
        return snprintf(ret, size, "%%");
    default:
        return -1;
    }
}

size_t tag_format(const char *tag, const struct tag_fields *fields, char ret[TAG_MAX])
{
    size_t len = 0;

    for (const char *p = tag; *p && len < TAG_MAX - 2; p++) {
        int n = 1;

        if (*p == '%' && p[1])
            n = format_field(fields, *++p, ret + len, TAG_MAX - 1 - len);
        else
            ret[len] = *p;
        if (n > 0)
            len = min_u64(len + (size_t)n, TAG_MAX - 2);
    }
    if (len > 0 && ret[len - 1] != ' ' && ret[len - 1] != '\t')
        ret[len++] = ' ';
    assert(len < TAG_MAX);
    return len;
}

int tag_check(const char *tag, struct plenum_error *err)
{
    const struct tag_fields fields = {.host = "", .stream = ""};
    char text[64];

    for (const char *p = tag; *p; p++) {
        if (*p != '%')
            continue;
        if (!p[1] || format_field(&fields, p[1], text, sizeof(text)) < 0)
            return error_set(err, -EINVAL, "'%.2s' in '%s' is not one of %%i %%h %%p %%s %%t %%%%",
                             p, tag);
        p++;
    }
    return 0;
}

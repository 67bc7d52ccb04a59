/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/values/ranges.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static int get_number(const char **p, uint64_t *ret)
{
    char digits[16];
    size_t len = strspn(*p, "0123456789");

    if (len == 0 || len >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, *p, len);
    digits[len] = '\0';
    *p += len;
    return parse_u64(digits, UINT64_MAX, ret);
}

int ranges_parse(const char *text, unsigned long *words, size_t count, struct plenum_error *err)
{
    const char *p = text;

    while (*p) {
        uint64_t first, last;

        if (get_number(&p, &first) < 0)
            goto malformed;
        last = first;
        if (*p == '-') {
            p++;
            if (get_number(&p, &last) < 0 || last < first)
                goto malformed;
        }
        if (last >= count)
            return error_set(err, -ERANGE, "%llu in '%s' is too high: the last is %zu",
                             (unsigned long long)last, text, count - 1);
        assert(first <= last && last < count);
        for (uint64_t n = first; n <= last; n++)
            ranges_add(words, n);
        if (*p == ',' && p[1])
            p++;
        else if (*p)
            goto malformed;
    }
    return 0;

malformed:
    return error_set(err, -EINVAL, "'%s' is not a list of numbers and ranges like 0-3,8", text);
}

char *ranges_format(const unsigned long *words, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (size_t n = 0; n < count; n++) {
        size_t first = n;

        if (!ranges_has(words, n))
            continue;
        while (n + 1 < count && ranges_has(words, n + 1))
            n++;
        assert(first <= n && n < count);
        (void)fprintf(f, "%s%zu", ftell(f) > 0 ? "," : "", first);
        if (n > first)
            (void)fprintf(f, "-%zu", n);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

size_t ranges_count(const unsigned long *words, size_t count)
{
    size_t sum = 0;

    for (size_t i = 0; i < RANGES_WORDS(count); i++)
        sum += (size_t)__builtin_popcountl(words[i]);
    return sum;
}

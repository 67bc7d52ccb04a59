/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util/util.h"
#include "launcher/values/ranges.h"

enum { BITS = 200 };

struct ranges_case {
    char text[40];
    int want;
    char shortest[40];
    size_t count;
};

ParameterizedTestParameters(ranges, parse)
{
    static struct ranges_case cases[] = {
        {"", 0, "", 0},
        {"0", 0, "0", 1},
        {"3,1,2", 0, "1-3", 3},
        {"0-3,8-11", 0, "0-3,8-11", 8},
        {"5-5", 0, "5", 1},
        {"60-70,63", 0, "60-70", 11},
        {"199", 0, "199", 1},
        {"200", -ERANGE, "", 0},
        {"198-200", -ERANGE, "", 0},
        {"3-1", -EINVAL, "", 0},
        {"1,,2", -EINVAL, "", 0},
        {"1,", -EINVAL, "", 0},
        {"-1", -EINVAL, "", 0},
        {"1-", -EINVAL, "", 0},
        {"a", -EINVAL, "", 0},
        {"1 2", -EINVAL, "", 0},
        {"99999999999999999999", -EINVAL, "", 0},
    };
    return cr_make_param_array(struct ranges_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct ranges_case *c, ranges, parse)
{
    unsigned long words[RANGES_WORDS(BITS)] = {0};
    struct plenum_error err = {""};
    char *text;

    cr_expect(eq(int, ranges_parse(c->text, words, BITS, &err), c->want), "'%s'", c->text);
    if (c->want < 0) {
        cr_expect(ne(int, err.text[0], 0), "'%s': there must be a message", c->text);
        return;
    }
    text = ranges_format(words, BITS);
    cr_expect(eq(str, text, c->shortest), "'%s'", c->text);
    cr_expect(eq(sz, ranges_count(words, BITS), c->count), "'%s'", c->text);
    free(text);
}

/* SPDX-License-Identifier: MIT */
/* Tests the rule that says which texts are numbers. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/number.h"

struct number_case {
    char text[64];
    enum number_kind kind;
    int64_t value;
};

ParameterizedTestParameters(number, kinds)
{
    static struct number_case cases[] = {
        {"1", NUMBER_INTEGER, 1},
        {"+1", NUMBER_INTEGER, 1},
        {"01", NUMBER_INTEGER, 1},
        {" 1\r\n", NUMBER_INTEGER, 1},
        {"1.", NUMBER_INTEGER, 1},
        {"1.0", NUMBER_INTEGER, 1},
        {"1e0", NUMBER_INTEGER, 1},
        {"1.0e+00", NUMBER_INTEGER, 1},
        {"10E-1", NUMBER_INTEGER, 1},
        {"0.001e3", NUMBER_INTEGER, 1},
        {"-1.0", NUMBER_INTEGER, -1},
        {"-0.0", NUMBER_INTEGER, 0},
        {"0e99999999999999999999", NUMBER_INTEGER, 0},
        {".0", NUMBER_INTEGER, 0},
        {"9007199254740993.0", NUMBER_INTEGER, INT64_C(9007199254740993)},
        {"9223372036854775807", NUMBER_INTEGER, INT64_MAX},
        {"-9223372036854775808", NUMBER_INTEGER, INT64_MIN},
        {"9223372036854775808", NUMBER_HUGE, 0},
        {"-9223372036854775809", NUMBER_HUGE, 0},
        {"1e400", NUMBER_HUGE, 0},
        {"1e99999999999999999999", NUMBER_HUGE, 0},
        {"1.5", NUMBER_FRACTION, 0},
        {".5", NUMBER_FRACTION, 0},
        {"1e-1", NUMBER_FRACTION, 0},
        {"1e-99999999999999999999", NUMBER_FRACTION, 0},
        {"nan", NUMBER_ODD, 0},
        {"-NaN", NUMBER_ODD, 0},
        {"inf", NUMBER_ODD, 0},
        {"+Infinity", NUMBER_ODD, 0},
        {"0x10", NUMBER_ODD, 0},
        {"-0X1p-3", NUMBER_ODD, 0},
        {"0b101", NUMBER_ODD, 0},
        {"0o17", NUMBER_ODD, 0},
        {"1,000", NUMBER_ODD, 0},
        {"1,5", NUMBER_ODD, 0},
        {"1_000", NUMBER_ODD, 0},
        {"1'000", NUMBER_ODD, 0},
        {"1 000", NUMBER_ODD, 0},
        {"1\xc2\xa0"
         "000",
         NUMBER_ODD, 0},
        {"1.000.000", NUMBER_ODD, 0},
        {"1.000,5", NUMBER_ODD, 0},
        {"2^40", NUMBER_ODD, 0},
        {"50%", NUMBER_ODD, 0},
        {"--1", NUMBER_ODD, 0},
        {"- 1", NUMBER_ODD, 0},
        {"\xe2\x88\x92"
         "1",
         NUMBER_ODD, 0},
        {"\xd9\xa1\xd9\xa2", NUMBER_ODD, 0},          /* Arabic-Indic 12 */
        {"-\xdb\xb1\xd9\xab\xdb\xb5", NUMBER_ODD, 0}, /* Persian -1.5 */
        {"\xef\xbc\x91\xef\xbc\x90", NUMBER_ODD, 0},  /* fullwidth 10 */
        {"\xe0\xa5\xa7,\xe0\xa5\xa6", NUMBER_ODD, 0}, /* Devanagari 1,0 */
        {"1\xe0\xb9\x90", NUMBER_ODD, 0},             /* 1, and a Thai 0 */
        {"\xf0\x9d\x9f\x8f", NUMBER_ODD, 0},          /* a mathematical bold 1 */
        {"\xef\xbc\x8b\xef\xbc\x91", NUMBER_ODD, 0},  /* fullwidth +1 */
        {"\xd9\xa1\xd9\xaa", NUMBER_ODD, 0},          /* 1% */
        {"caf\xc3\xa9", NUMBER_NONE, 0},              /* a name */
        {"\xe7\xac\xac\xef\xbc\x91", NUMBER_NONE, 0}, /* "the 1st", a name */
        {"\xef\xbc\x8d", NUMBER_NONE, 0},             /* a dash alone */
        {"\xd9\xa1\xff", NUMBER_NONE, 0},             /* not UTF-8 */
        {"cat", NUMBER_NONE, 0},
        {"n01440764", NUMBER_NONE, 0},
        {"3d", NUMBER_NONE, 0},
        {"1st", NUMBER_NONE, 0},
        {"e5", NUMBER_NONE, 0},
        {"1e", NUMBER_NONE, 0},
        {"-", NUMBER_NONE, 0},
        {".", NUMBER_NONE, 0},
        {"2001-01-31", NUMBER_NONE, 0},
        {"1.2.3", NUMBER_NONE, 0},
        {"nano", NUMBER_NONE, 0},
        {"infant", NUMBER_NONE, 0},
        {"0xyz", NUMBER_NONE, 0},
        {"none", NUMBER_NONE, 0},
        {"na", NUMBER_NONE, 0},
        {"(unknown)", NUMBER_NONE, 0},
        {"[cat]", NUMBER_NONE, 0},
        {"b'cat'", NUMBER_NONE, 0},
        {"tensor(cat)", NUMBER_NONE, 0},
        {"tensor()", NUMBER_NONE, 0},
        {"<a.tensor(numpy=)", NUMBER_NONE, 0},
        {"point(3)", NUMBER_NONE, 0},
        {"Audi (2008)", NUMBER_NONE, 0},
        {"3f", NUMBER_NONE, 0},
        {"65+", NUMBER_NONE, 0},
        {"<30", NUMBER_NONE, 0},
        {">=30", NUMBER_NONE, 0},
        {"16:9", NUMBER_NONE, 0},
        {"4-6", NUMBER_NONE, 0},
        {"(0, 2)", NUMBER_NONE, 0},
        {"31/01/2001", NUMBER_NONE, 0},
        {"#", NUMBER_NONE, 0},
        {"---", NUMBER_NONE, 0},
        {"()", NUMBER_NONE, 0},
        {"\xe2\x82\xac", NUMBER_NONE, 0}, /* a euro sign */
        {"\xef\xbb\xbf"
         "cat",
         NUMBER_NONE, 0},
        {"5\xc2\xb0"
         "C",
         NUMBER_NONE, 0},
        {"=cat", NUMBER_NONE, 0},
        {"#REF", NUMBER_NONE, 0},
        {"\xe2\x88\x9e cats", NUMBER_NONE, 0},
        {"", NUMBER_MISSING, 0},
        {" \t", NUMBER_MISSING, 0},
        {"\\N", NUMBER_MISSING, 0},
        {"#REF!", NUMBER_MISSING, 0},
        {"#DIV/0!", NUMBER_MISSING, 0},
        {"None", NUMBER_MISSING, 0},
        {"null", NUMBER_MISSING, 0},
        {"NULL", NUMBER_MISSING, 0},
        {"NA", NUMBER_MISSING, 0},
        {" N/A ", NUMBER_MISSING, 0},
        {"<NA>", NUMBER_MISSING, 0},
        {"#N/A", NUMBER_MISSING, 0},
        {"'None'", NUMBER_MISSING, 0},
        {"[None]", NUMBER_MISSING, 0},
        {"=3", NUMBER_ODD, 0},
        {"=\"3\"", NUMBER_ODD, 0}, /* a cell with text, of a spreadsheet */
        {"~3", NUMBER_ODD, 0},
        {"1.#INF", NUMBER_ODD, 0},
        {"-1.#IND", NUMBER_ODD, 0},
        {"\xc2\xbd", NUMBER_ODD, 0}, /* one half */
        {"3\xc2\xbd", NUMBER_ODD, 0},
        {"\xe2\x85\xa3", NUMBER_ODD, 0},  /* Roman 4, one character */
        {"-\xe2\x88\x9e", NUMBER_ODD, 0}, /* minus infinity */
        {"tensor(3)", NUMBER_ODD, 0},
        {"tensor([3])", NUMBER_ODD, 0},
        {"tensor(3, device='cuda:0')", NUMBER_ODD, 0},
        {"tensor([3.], dtype=torch.float64)", NUMBER_ODD, 0},
        {"<tf.Tensor: shape=(), dtype=int32, numpy=3>", NUMBER_ODD, 0},
        {"tf.Tensor(3, shape=(), dtype=int64)", NUMBER_ODD, 0},
        {"np.int64(3)", NUMBER_ODD, 0},
        {"uint8(3)", NUMBER_ODD, 0},
        {"array(-3)", NUMBER_ODD, 0},
        {"Array(3, dtype=int32)", NUMBER_ODD, 0},
        {"Decimal('3')", NUMBER_ODD, 0},
        {"[3]", NUMBER_ODD, 0},
        {"(3)", NUMBER_ODD, 0},
        {"(3,)", NUMBER_ODD, 0},
        {"{3}", NUMBER_ODD, 0},
        {"<3>", NUMBER_ODD, 0},
        {"b'3'", NUMBER_ODD, 0},
        {"[b\"3\"]", NUMBER_ODD, 0},
        {"'3'", NUMBER_ODD, 0},
        {"\"3\"", NUMBER_ODD, 0},
        {"`3`", NUMBER_ODD, 0},
        {"(nan)", NUMBER_ODD, 0},
        {"[0x10]", NUMBER_ODD, 0},
        {"3;", NUMBER_ODD, 0},
        {"3:", NUMBER_ODD, 0},
        {"3,", NUMBER_ODD, 0},
        {"3-", NUMBER_ODD, 0},
        {"3_", NUMBER_ODD, 0},
        {"_3", NUMBER_ODD, 0},
        {"#3", NUMBER_ODD, 0},
        {"# 3", NUMBER_ODD, 0},
        {"$3", NUMBER_ODD, 0},
        {"@3", NUMBER_ODD, 0},
        {"*3", NUMBER_ODD, 0},
        {"3*", NUMBER_ODD, 0},
        {"\xe2\x82\xac"
         "3",
         NUMBER_ODD, 0},              /* 3 euros */
        {"3\xc2\xb0", NUMBER_ODD, 0}, /* 3 degrees */
        {"\xe2\x84\x96"
         "3",
         NUMBER_ODD, 0}, /* No. 3 */
        {"3L", NUMBER_ODD, 0},
        {"3l", NUMBER_ODD, 0},
        {"3u", NUMBER_ODD, 0},
        {"3UL", NUMBER_ODD, 0},
        {"-3ll", NUMBER_ODD, 0},
        {"3.0f", NUMBER_ODD, 0},
        {"3.F", NUMBER_ODD, 0},
        {"3e0d", NUMBER_ODD, 0},
        {"3/2", NUMBER_ODD, 0},
        {"3.0/2", NUMBER_ODD, 0},
        {"3\xe2\x81\x84"
         "2",
         NUMBER_ODD, 0},                  /* a fraction slash */
        {"\xc2\xb3", NUMBER_ODD, 0},      /* superscript 3 */
        {"1\xe2\x81\xb0", NUMBER_ODD, 0}, /* superscript 0 */
        {"\xe2\x82\x83", NUMBER_ODD, 0},  /* subscript 3 */
        {"\xe2\x91\xa2", NUMBER_ODD, 0},  /* 3 in a circle */
        {"3\xe2\x80\x8b", NUMBER_ODD, 0}, /* with a zero-width space */
        {"\xef\xbb\xbf"
         "3",
         NUMBER_ODD, 0}, /* with a byte order mark */
        {"\xe2\x80\xaa"
         "3\xe2\x80\xac",
         NUMBER_ODD, 0},                   /* with directions of writing */
        {"3\xc2\xa0", NUMBER_ODD, 0},      /* with a no-break space */
        {"[\xef\xbc\x93]", NUMBER_ODD, 0}, /* fullwidth 3 in brackets */
        {"\xef\xbc\x88"
         "3\xef\xbc\x89",
         NUMBER_ODD, 0}, /* in fullwidth brackets */
    };
    return cr_make_param_array(struct number_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct number_case *c, number, kinds)
{
    int64_t value = 0;

    cr_expect(eq(int, number_parse(c->text, strlen(c->text), &value), c->kind), "%s", c->text);
    cr_expect(eq(i64, value, c->value), "%s", c->text);
}

/* Spell a number like "%d", with its point moved `places` to the left and an exponent that moves it
 * back, zeros at both ends, and a sign. */
static void spell(int64_t value, unsigned draw, char *ret, size_t size)
{
    char digits[64], moved[96];
    unsigned places = draw % 7, zeros = draw / 7 % 4, behind = draw / 28 % 4;
    size_t len;

    (void)snprintf(digits, sizeof(digits), "%.*s%" PRId64, (int)zeros, "000",
                   value < 0 ? -value : value);
    while (strlen(digits) <= places) {
        memmove(digits + 1, digits, strlen(digits) + 1);
        digits[0] = '0';
    }
    len = strlen(digits) - places;
    (void)snprintf(moved, sizeof(moved), "%.*s.%s%.*s", (int)len, digits, digits + len, (int)behind,
                   "000");
    (void)snprintf(ret, size, "%s%s%s%u",
                   value < 0  ? "-"
                   : draw & 1 ? "+"
                              : "",
                   moved, draw & 2 ? "e" : "E+0", places);
}

/* Tries random integers in random spellings; NUMBERS sets how many. */
Test(number, integers_have_their_value_however_they_are_spelled)
{
    const char *text = getenv("NUMBERS");
    unsigned count = text ? (unsigned)atoi(text) : 20000;
    uint64_t state = 1;

    for (unsigned i = 0; i < count; i++) {
        int64_t want, got = 0;
        char spelled[160];

        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        want = (int64_t)(state >> 16) >> state % 47;
        if (state & 64)
            want = -want;
        spell(want, (unsigned)(state >> 40), spelled, sizeof(spelled));
        cr_assert(eq(int, number_parse(spelled, strlen(spelled), &got), NUMBER_INTEGER), "%s",
                  spelled);
        cr_assert(eq(i64, got, want), "%s", spelled);
        spelled[strcspn(spelled, "eE")] = '\0'; /* without the exponent, it may be a fraction */
        if (strspn(strchr(spelled, '.') + 1, "0") != strlen(strchr(spelled, '.') + 1))
            cr_assert(eq(int, number_parse(spelled, strlen(spelled), &got), NUMBER_FRACTION), "%s",
                      spelled);
    }
}

Test(number, floats_are_decimal_and_within_float32)
{
    static const struct {
        const char *text;
        int code;
        float value;
    } cases[] = {{"1", 0, 1},           {"-1.5e1", 0, -15},    {" 3.4028234e38 ", 0, 3.4028234e38f},
                 {"1e-50", 0, 0},       {"1e39", -ERANGE, 7},  {"-1e39", -ERANGE, 7},
                 {"1e400", -ERANGE, 7}, {"nan", -EINVAL, 7},   {"inf", -EINVAL, 7},
                 {"0x10", -EINVAL, 7},  {"1,000", -EINVAL, 7}, {"", -EINVAL, 7},
                 {"1_0", -EINVAL, 7},   {"1f", -EINVAL, 7}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        float got = 7;

        cr_expect(
            eq(int, number_to_float(cases[i].text, strlen(cases[i].text), &got), cases[i].code),
            "%s", cases[i].text);
        cr_expect(eq(flt, got, cases[i].value), "%s", cases[i].text);
    }
}

/* All ten digits of each script (from Python's unicodedata, Unicode 14), alone and behind an ASCII
 * one. */
Test(number, digits_of_every_script_look_like_numbers)
{
    static const char *const zeros[] = {
        "\xd9\xa0",         "\xdb\xb0",         "\xdf\x80",         "\xe0\xa5\xa6",
        "\xe0\xa7\xa6",     "\xe0\xa9\xa6",     "\xe0\xab\xa6",     "\xe0\xad\xa6",
        "\xe0\xaf\xa6",     "\xe0\xb1\xa6",     "\xe0\xb3\xa6",     "\xe0\xb5\xa6",
        "\xe0\xb7\xa6",     "\xe0\xb9\x90",     "\xe0\xbb\x90",     "\xe0\xbc\xa0",
        "\xe1\x81\x80",     "\xe1\x82\x90",     "\xe1\x9f\xa0",     "\xe1\xa0\x90",
        "\xe1\xa5\x86",     "\xe1\xa7\x90",     "\xe1\xaa\x80",     "\xe1\xaa\x90",
        "\xe1\xad\x90",     "\xe1\xae\xb0",     "\xe1\xb1\x80",     "\xe1\xb1\x90",
        "\xea\x98\xa0",     "\xea\xa3\x90",     "\xea\xa4\x80",     "\xea\xa7\x90",
        "\xea\xa7\xb0",     "\xea\xa9\x90",     "\xea\xaf\xb0",     "\xef\xbc\x90",
        "\xf0\x90\x92\xa0", "\xf0\x90\xb4\xb0", "\xf0\x91\x81\xa6", "\xf0\x91\x83\xb0",
        "\xf0\x91\x84\xb6", "\xf0\x91\x87\x90", "\xf0\x91\x8b\xb0", "\xf0\x91\x91\x90",
        "\xf0\x91\x93\x90", "\xf0\x91\x99\x90", "\xf0\x91\x9b\x80", "\xf0\x91\x9c\xb0",
        "\xf0\x91\xa3\xa0", "\xf0\x91\xa5\x90", "\xf0\x91\xb1\x90", "\xf0\x91\xb5\x90",
        "\xf0\x91\xb6\xa0", "\xf0\x96\xa9\xa0", "\xf0\x96\xab\x80", "\xf0\x96\xad\x90",
        "\xf0\x9d\x9f\x8e", "\xf0\x9d\x9f\x98", "\xf0\x9d\x9f\xa2", "\xf0\x9d\x9f\xac",
        "\xf0\x9d\x9f\xb6", "\xf0\x9e\x85\x80", "\xf0\x9e\x8b\xb0", "\xf0\x9e\xa5\x90",
        "\xf0\x9f\xaf\xb0"};
    char text[64];
    int64_t ignored;

    for (size_t i = 0; i < ARRAY_LEN(zeros); i++)
        for (unsigned char digit = 0; digit < 10; digit++) {
            size_t len = strlen(zeros[i]);

            (void)snprintf(text, sizeof(text), "1%s", zeros[i]);
            if ((unsigned char)text[len] + digit > 0xbf) /* carry into the previous byte */
                text[len - 1]++;
            text[len] = (char)(((unsigned char)text[len] - 0x80 + digit) % 64 + 0x80);
            cr_expect(eq(int, number_parse(text, len + 1, &ignored), NUMBER_ODD), "%s", text);
            cr_expect(eq(int, number_parse(text + 1, len, &ignored), NUMBER_ODD), "%s", text);
        }
}

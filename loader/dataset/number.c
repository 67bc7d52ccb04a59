/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util.h"

enum { EXPONENT_MAX = 1 << 30, DIGITS_MAX = 19 }; /* an int64 has at most 19 digits */

static const char blanks[] = " \t\r\n\v\f";

static bool is_blank(char c)
{
    return c && strchr(blanks, c);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && is_blank(**text)) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && is_blank((*text)[*len - 1]))
        (*len)--;
}

/* A decimal number, taken apart. */
struct decimal {
    bool negative;
    const char *digits; /* [len]: digits, and at most one point among them */
    size_t len;
    size_t fraction; /* digits behind the point */
    int64_t exponent;
};

/* The exponent at `at`, if there is one: behind it, or NULL where the text is malformed. */
static const char *read_exponent(const char *at, const char *end, int64_t *ret)
{
    bool negative;

    *ret = 0;
    if (at == end || (*at != 'e' && *at != 'E'))
        return at;
    at++;
    negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return NULL;
    for (; at < end && is_digit(*at); at++)
        if (*ret < EXPONENT_MAX)
            *ret = *ret * 10 + (*at - '0');
    if (negative)
        *ret = -*ret;
    return at;
}

static bool read_decimal(const char *text, size_t len, struct decimal *ret)
{
    const char *at = text, *end = text + len, *point = NULL;
    size_t digits = 0;

    *ret = (struct decimal){.negative = len > 0 && *at == '-'};
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    ret->digits = at;
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.')
            point = at;
        else
            digits++;
    }
    ret->len = (size_t)(at - ret->digits);
    ret->fraction = point ? (size_t)(at - point) - 1 : 0;
    at = digits ? read_exponent(at, end, &ret->exponent) : NULL;
    return at == end;
}

/* The exact value of a decimal number: its digits without the zeros at both ends, times a power of
 * ten. */
static enum number_kind evaluate(const struct decimal *d, int64_t *ret)
{
    int64_t scale = d->exponent - (int64_t)d->fraction;
    uint64_t value = 0, most = d->negative ? UINT64_C(1) << 63 : INT64_MAX;
    size_t significant = 0, zeros = 0;
    bool huge = false;

    for (size_t i = 0; i < d->len; i++) {
        if (d->digits[i] == '.' || (d->digits[i] == '0' && significant == 0))
            continue;
        significant++;
        zeros = d->digits[i] == '0' ? zeros + 1 : 0;
    }
    if (significant == 0) {
        *ret = 0;
        return NUMBER_INTEGER;
    }
    scale += (int64_t)zeros;
    significant -= zeros;
    if (scale < 0)
        return NUMBER_FRACTION;
    if (significant > DIGITS_MAX || scale > DIGITS_MAX)
        return NUMBER_HUGE;
    for (size_t i = 0, taken = 0; taken < significant; i++) {
        if (d->digits[i] == '.' || (d->digits[i] == '0' && taken == 0))
            continue;
        huge = huge || __builtin_mul_overflow(value, 10, &value) ||
               __builtin_add_overflow(value, (uint64_t)(d->digits[i] - '0'), &value);
        taken++;
    }
    for (int64_t i = 0; i < scale; i++)
        huge = huge || __builtin_mul_overflow(value, 10, &value);
    if (huge || value > most)
        return NUMBER_HUGE;
    *ret = (int64_t)(d->negative ? 0 - value : value);
    return NUMBER_INTEGER;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

/* 0x1f, 0x1p-3, 0b101, 0o17 */
static bool has_prefix(const char *text, size_t len)
{
    static const struct {
        char letter;
        const char *digits;
    } bases[] = {{'x', "0123456789abcdefABCDEF_.pP+-"}, {'b', "01_"}, {'o', "01234567_"}};

    for (size_t i = 0; len > 2 && text[0] == '0' && i < ARRAY_LEN(bases); i++) {
        size_t n = 2;

        while (n < len && text[n] && strchr(bases[i].digits, text[n]))
            n++;
        if (tolower((unsigned char)text[1]) == bases[i].letter && n == len)
            return true;
    }
    return false;
}

/* The length of what people write between digits, or 0: a comma, an apostrophe, a blank ... */
static size_t separator_length(const char *text, size_t len)
{
    static const char *const separators[] = {
        ",", "_", "'", "^", " ", "\t", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89", "\xe2\x80\x99"};

    for (size_t i = 0; i < ARRAY_LEN(separators); i++)
        if (len >= strlen(separators[i]) && memcmp(text, separators[i], strlen(separators[i])) == 0)
            return strlen(separators[i]);
    return 0;
}

/* Digits with points, at least two of them, that group thousands: 1.000.000. Others, such as
 * 1.2.3, are names of versions and the like. */
static bool points_group_thousands(const char *text, size_t len)
{
    size_t groups = 0, digits = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '.') {
            digits++;
            continue;
        }
        if (digits == 0 || digits > 3 || (groups > 0 && digits != 3))
            return false;
        groups++;
        digits = 0;
    }
    return groups > 2;
}

/* Digits with separators between them, and a percent sign or an exponent behind or none: 1,000;
 * 1_000; 1'000; 1 000; 1,5; 2^40; 50%; -3,0e2. */
static bool has_separators(const char *text, size_t len)
{
    size_t points = 0, separators = 0, at = 0;
    int64_t ignored;

    if (len > 0 && text[len - 1] == '%') {
        separators++;
        len--;
    }
    if (len == 0 || !is_digit(text[0] == '.' && len > 1 ? text[1] : text[0]))
        return false;
    while (at < len && text[at] != 'e' && text[at] != 'E') {
        size_t n = separator_length(text + at, len - at);

        if (n == 0 && !is_digit(text[at]) && text[at] != '.')
            return false;
        separators += n > 0;
        points += text[at] == '.';
        at += n > 0 ? n : 1;
    }
    if (at < len && read_exponent(text + at, text + len, &ignored) != text + len)
        return false;
    return separators > 0 ? points <= 1 : at == len && points_group_thousands(text, len);
}

/* Would a person, or another program, take it for a number? */
static bool looks_odd(const char *text, size_t len)
{
    static const char minus[] = "\xe2\x88\x92"; /* U+2212 */
    struct decimal d;
    bool sign = false;

    while (len > 0) {
        size_t n = *text == '+' || *text == '-' || is_blank(*text) ? 1
                   : len >= 3 && memcmp(text, minus, 3) == 0       ? 3
                                                                   : 0;

        if (n == 0)
            break;
        sign = true;
        text += n;
        len -= n;
    }
    if (sign && read_decimal(text, len, &d)) /* - 1, --1 */
        return true;
    return is_word(text, len, "nan") || is_word(text, len, "inf") ||
           is_word(text, len, "infinity") || has_prefix(text, len) || has_separators(text, len);
}

enum number_kind number_parse(const char *text, size_t len, int64_t *ret)
{
    struct decimal d;

    trim(&text, &len);
    if (read_decimal(text, len, &d))
        return evaluate(&d, ret);
    return looks_odd(text, len) ? NUMBER_ODD : NUMBER_NONE;
}

bool number_is_decimal(enum number_kind kind)
{
    return kind == NUMBER_INTEGER || kind == NUMBER_HUGE || kind == NUMBER_FRACTION;
}

int number_to_float(const char *text, size_t len, float *ret)
{
    char small[128], *copy = small;
    struct decimal d;
    float value;

    trim(&text, &len);
    if (!read_decimal(text, len, &d))
        return -EINVAL;
    if (len >= sizeof(small)) {
        copy = malloc(len + 1);
        if (!copy)
            return -ENOMEM;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    value = strtof(copy, NULL);
    if (copy != small)
        free(copy);
    if (!isfinite(value))
        return -ERANGE;
    *ret = value;
    return 0;
}

bool number_is_special(const char *text, size_t len, float *ret)
{
    static const struct {
        const char *text;
        float value;
    } known[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strlen(known[i].text) == len && memcmp(known[i].text, text, len) == 0) {
            *ret = known[i].value;
            return true;
        }
    return false;
}

const char *number_why_no_integer(enum number_kind kind)
{
    switch (kind) {
    case NUMBER_HUGE:
        return "is beyond 64 bits";
    case NUMBER_FRACTION:
        return "is not an integer";
    case NUMBER_ODD:
        return "looks like a number but is not written as an integer, such as 1000, 1000.0 or 1e3";
    case NUMBER_NONE:
    case NUMBER_INTEGER:
        break;
    }
    return "is not a number";
}

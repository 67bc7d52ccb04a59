/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text.h"
#include "common/util.h"

enum {
    EXPONENT_MAX = 1 << 30,
    DIGITS_MAX = 19,  /* an int64 has no more */
    FOLDED_MAX = 128, /* bytes of a text with foreign digits: a longer one is cut */
};

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

/* The zeros of all scripts with decimal digits (Unicode 16); the other nine follow each. */
static const uint32_t zeros[] = {
    0x0660,  0x06f0,  0x07c0,  0x0966,  0x09e6,  0x0a66,  0x0ae6,  0x0b66,  0x0be6,  0x0c66,
    0x0ce6,  0x0d66,  0x0de6,  0x0e50,  0x0ed0,  0x0f20,  0x1040,  0x1090,  0x17e0,  0x1810,
    0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,
    0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x10d40, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da,
    0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0,
    0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0,
    0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0};

/* What stands between these digits or before them, and its ASCII. */
static const struct {
    uint32_t code;
    char ascii;
} signs[] = {{0x066a, '%'}, {0x066b, '.'}, {0x066c, ','}, {0x2212, '-'}, {0xff05, '%'},
             {0xff0b, '+'}, {0xff0c, ','}, {0xff0d, '-'}, {0xff0e, '.'}};

/* The ASCII of a digit or sign of another script, or 0. */
static char fold(uint32_t code, bool *digit)
{
    for (size_t i = 0; i < ARRAY_LEN(zeros); i++)
        if (code - zeros[i] < 10) {
            *digit = true;
            return (char)('0' + (code - zeros[i]));
        }
    for (size_t i = 0; i < ARRAY_LEN(signs); i++)
        if (code == signs[i].code)
            return signs[i].ascii;
    return 0;
}

/* The character at `at`, which has `len` bytes of UTF-8. */
static uint32_t code_of(const unsigned char *at, size_t len)
{
    uint32_t code = len == 1 ? *at : *at & (0x7fU >> len);

    for (size_t i = 1; i < len; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* Is it a number in digits of other scripts? It is not read as one: labels are written by programs,
 * which write ASCII, so such a text is more likely an error. */
static bool is_foreign_number(const char *text, size_t len)
{
    char folded[FOLDED_MAX];
    bool foreign = false;
    struct decimal d;
    size_t count = 0;

    for (size_t at = 0, n; at < len && count < FOLDED_MAX; at += n) {
        unsigned char next[5] = {0};

        memcpy(next, text + at, min_u64(len - at, 4));
        n = text_utf8_length(next);
        if (n == 0)
            return false;
        folded[count] = n == 1 ? text[at] : fold(code_of(next, n), &foreign);
        if (folded[count++] == 0)
            return false;
    }
    return foreign && (read_decimal(folded, count, &d) || looks_odd(folded, count));
}

enum number_kind number_parse(const char *text, size_t len, int64_t *ret)
{
    struct decimal d;

    trim(&text, &len);
    if (read_decimal(text, len, &d))
        return evaluate(&d, ret);
    return looks_odd(text, len) || is_foreign_number(text, len) ? NUMBER_ODD : NUMBER_NONE;
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

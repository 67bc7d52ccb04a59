/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/number.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/text.h"
#include "common/util/util.h"

enum {
    EXPONENT_MAX = 1 << 30,
    DIGITS_MAX = 19, /* an int64 has at most 19 digits */
    INVISIBLE = 1,
    FOLDED_MAX = 128, /* bytes of a string with foreign digits; longer ones are truncated */
};

static const char blanks[] = " \t\r\n\v\f";

static bool is_blank(char c)
{
    return c && strchr(blanks, c);
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

/* The parts of a decimal number. */
struct decimal {
    bool negative;
    const char *digits; /* [len]: digits, and at most one point among them */
    size_t len;
    size_t fraction; /* digits after the point */
    int64_t exponent;
};

/* Read the exponent at `at`, if there is one. Returns its end, or NULL if the text is malformed. */
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
    for (; at < end && number_is_digit(*at); at++)
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
    for (; at < end && (number_is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.')
            point = at;
        else
            digits++;
    }
    ret->len = (size_t)(at - ret->digits);
    ret->fraction = point ? (size_t)(at - point) - 1 : 0;
    at = digits ? read_exponent(at, end, &ret->exponent) : NULL;
    assert(ret->fraction <= ret->len);
    return at == end;
}

/* Compute the exact value of a decimal number: its digits without leading and trailing zeros, times
 * a power of ten. */
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
    assert(significant > zeros); /* the first significant digit is not 0 */
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

/* Returns whether the text begins like 0x1f, 0x1p-3, 0b101 or 0o17. */
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

/* Returns the length of a separator between digits (a comma, an apostrophe, a space ...), or 0. */
static size_t separator_length(const char *text, size_t len)
{
    static const char *const separators[] = {
        ",", "_", "'", "^", " ", "\t", "\xc2\xa0", "\xe2\x80\xaf", "\xe2\x80\x89", "\xe2\x80\x99"};

    for (size_t i = 0; i < ARRAY_LEN(separators); i++)
        if (len >= strlen(separators[i]) && memcmp(text, separators[i], strlen(separators[i])) == 0)
            return strlen(separators[i]);
    return 0;
}

/* Returns whether at least two points group thousands: 1.000.000. Other texts with several points,
 * such as 1.2.3, may be version numbers. */
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

/* Returns whether there are digits with separators between them, and optionally a percent sign or
 * an exponent after them: 1,000; 1_000; 1'000; 1 000; 1,5; 2^40; 50%; -3,0e2. */
static bool has_separators(const char *text, size_t len)
{
    size_t points = 0, separators = 0, at = 0;
    int64_t ignored;

    if (len > 0 && text[len - 1] == '%') {
        separators++;
        len--;
    }
    if (len == 0 || !number_is_digit(text[0] == '.' && len > 1 ? text[1] : text[0]))
        return false;
    while (at < len && text[at] != 'e' && text[at] != 'E') {
        size_t n = separator_length(text + at, len - at);

        if (n == 0 && !number_is_digit(text[at]) && text[at] != '.')
            return false;
        separators += n > 0;
        points += text[at] == '.';
        at += n > 0 ? n : 1;
    }
    if (at < len && read_exponent(text + at, text + len, &ignored) != text + len)
        return false;
    return separators > 0 ? points <= 1 : at == len && points_group_thousands(text, len);
}

/* Returns whether a person or another program would read the text as a number. */
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
    if (len > 3 && memcmp(text, "1.#", 3) == 0) /* 1.#INF, 1.#QNAN, -1.#IND of Windows */
        return true;
    return is_word(text, len, "nan") || is_word(text, len, "inf") ||
           is_word(text, len, "infinity") || has_prefix(text, len) || has_separators(text, len);
}

/* The zeros of all scripts with decimal digits (Unicode 16). The other nine digits follow each of
 * them. */
static const uint32_t zeros[] = {
    0x0660,  0x06f0,  0x07c0,  0x0966,  0x09e6,  0x0a66,  0x0ae6,  0x0b66,  0x0be6,  0x0c66,
    0x0ce6,  0x0d66,  0x0de6,  0x0e50,  0x0ed0,  0x0f20,  0x1040,  0x1090,  0x17e0,  0x1810,
    0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,  0xa8d0,
    0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x10d40, 0x11066,
    0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da,
    0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0,
    0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0,
    0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0};

/* Characters between or before these digits, and their ASCII equivalents. */
static const struct {
    uint32_t code;
    char ascii;
} signs[] = {{0x066a, '%'}, {0x066b, '.'}, {0x066c, ','}, {0x2212, '-'}, {0xff05, '%'},
             {0xff0b, '+'}, {0xff0c, ','}, {0xff0d, '-'}, {0xff0e, '.'}};

/* Other digits: superscripts, subscripts, circled, in brackets, or with a point. Fractions, Roman
 * numerals and infinity also become digits, so that they look odd: class numbers are not written
 * that way. */
static const struct {
    uint32_t first, last;
    char ascii; /* that of the first character; the others follow it */
} forms[] = {
    {0x00b2, 0x00b3, '2'}, {0x00b9, 0x00b9, '1'}, {0x2070, 0x2070, '0'}, {0x2074, 0x2079, '4'},
    {0x2080, 0x2089, '0'}, {0x2460, 0x2468, '1'}, {0x2474, 0x247c, '1'}, {0x2488, 0x2490, '1'},
    {0x24ea, 0x24ea, '0'}, {0x2776, 0x277e, '1'}, {0x2780, 0x2788, '1'}, {0x278a, 0x2792, '1'},
    {0x00bc, 0x00be, '1'}, {0x2150, 0x2158, '1'}, {0x2159, 0x215f, '1'}, {0x2160, 0x2168, '1'},
    {0x2170, 0x2178, '1'}, {0x2189, 0x2189, '0'}, {0x221e, 0x221e, '1'}};

/* Blanks, invisible characters, and punctuation outside ASCII. */
static const struct {
    uint32_t first, last;
    char ascii; /* INVISIBLE: it has none */
} others[] = {{0x00a0, 0x00a0, ' '},       {0x00ad, 0x00ad, INVISIBLE}, {0x00a1, 0x00a9, '#'},
              {0x00ab, 0x00b1, '#'},       {0x00b4, 0x00b8, '#'},       {0x061c, 0x061c, INVISIBLE},
              {0x180e, 0x180e, INVISIBLE}, {0x2000, 0x200a, ' '},       {0x200b, 0x200f, INVISIBLE},
              {0x2010, 0x2015, '-'},       {0x2016, 0x2027, '#'},       {0x2028, 0x2029, ' '},
              {0x202a, 0x202e, INVISIBLE}, {0x202f, 0x202f, ' '},       {0x2030, 0x2043, '#'},
              {0x2044, 0x2044, '/'},       {0x205f, 0x205f, ' '},       {0x2060, 0x206f, INVISIBLE},
              {0x20a0, 0x20cf, '#'},       {0x20e3, 0x20e3, INVISIBLE}, {0x2116, 0x2116, '#'},
              {0x3000, 0x3000, ' '},       {0x3001, 0x3003, '#'},       {0x3008, 0x3020, '#'},
              {0xfe00, 0xfe0f, INVISIBLE}, {0xfeff, 0xfeff, INVISIBLE}, {0xff01, 0xff0f, '#'},
              {0xff1a, 0xff1b, '#'},       {0xff3b, 0xff40, '#'},       {0xff5b, 0xff65, '#'}};

/* Returns the ASCII equivalent of a digit of another script or form, or 0. */
static char fold_digit(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_LEN(zeros); i++)
        if (code - zeros[i] < 10)
            return (char)('0' + (code - zeros[i]));
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (code >= forms[i].first && code <= forms[i].last)
            return (char)(forms[i].ascii + (char)(code - forms[i].first));
    return 0;
}

/* Returns the ASCII equivalent of a character, INVISIBLE if it is to be dropped, or 0 if it does
 * not occur in numbers. */
static char fold(uint32_t code)
{
    char digit = fold_digit(code);

    for (size_t i = 0; !digit && i < ARRAY_LEN(signs); i++)
        if (code == signs[i].code)
            return signs[i].ascii;
    for (size_t i = 0; !digit && i < ARRAY_LEN(others); i++)
        if (code >= others[i].first && code <= others[i].last)
            return others[i].ascii;
    return digit;
}

/* Returns the code point that is encoded at `at` in `len` bytes of UTF-8. */
static uint32_t code_of(const unsigned char *at, size_t len)
{
    uint32_t code = len == 1 ? *at : *at & (0x7fU >> len);

    assert(len >= 1 && len <= 4);
    for (size_t i = 1; i < len; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* Convert a string to ASCII, as far as it fits. Returns the length, or 0 if it contains letters of
 * other scripts.
 */
static size_t fold_text(const char *text, size_t len, char *ret)
{
    size_t count = 0;

    for (size_t at = 0, n; at < len && count < FOLDED_MAX; at += n) {
        unsigned char next[5] = {0};
        char c;

        memcpy(next, text + at, min_u64(len - at, 4));
        n = text_utf8_length(next);
        if (n == 0)
            return 0;
        c = n == 1 ? text[at] : fold(code_of(next, n));
        if (c == 0)
            return 0;
        if (c != INVISIBLE)
            ret[count++] = c;
    }
    return count;
}

/* Skip `count` bytes at the beginning. */
static void skip(const char **text, size_t *len, size_t count)
{
    assert(count <= *len);
    *text += count;
    *len -= count;
}

/* Returns the length of the type name in tensor(3), np.int64(3), Decimal('3'), torch.Tensor(3); or
 * 0. */
static size_t type_length(const char *text, size_t len)
{
    static const char *const words[] = {"tensor",      "eagertensor", "array",    "ndarray",
                                        "devicearray", "decimal",     "fraction", "variable",
                                        "scalar",      "int",         "uint",     "float",
                                        "bfloat",      "bool",        "double",   "long"};
    const char *bracket = memchr(text, '(', len), *begin = text;
    size_t n;

    if (!bracket || text[len - 1] != ')')
        return 0;
    for (const char *c = text; c < bracket; c++)
        if (*c == '.')
            begin = c + 1;
    for (n = (size_t)(bracket - begin);
         n > 0 && (number_is_digit(begin[n - 1]) || begin[n - 1] == '_');)
        n--;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (is_word(begin, n, words[i]))
            return (size_t)(bracket - text);
    return 0;
}

/* Strip a program's decoration from a number: a type, as in tensor(3, device='cuda:0'), or the
 * letter of b'3'. */
static void unwrap_repr(const char **text, size_t *len)
{
    const char *comma, *value = memmem(*text, *len, "numpy=", 6);
    size_t n;

    if (value && (*text)[0] == '<') { /* <tf.Tensor: shape=(), dtype=int32, numpy=3> */
        skip(text, len, (size_t)(value + 6 - *text));
        *len -= *len > 0 && (*text)[*len - 1] == '>';
    }
    n = type_length(*text, *len);
    skip(text, len, n);
    comma = n > 0 ? memchr(*text, ',', *len) : NULL;
    if (comma)
        *len = (size_t)(comma - *text);
    while (*len > 0 && ((*text)[0] == '(' || (*text)[0] == '['))
        skip(text, len, 1);
    if (*len > 2 && (*text)[0] && strchr("bBuUrR", (*text)[0]) &&
        ((*text)[1] == '\'' || (*text)[1] == '"'))
        skip(text, len, 1);
}

/* Strip punctuation from both ends, unless it changes the meaning: <3, >3, 3+. */
static void unwrap(const char **text, size_t *len)
{
    static const char around[] = "\"'`()[]{};:,#$*!?@|\\/&_-.%^=~ \t\r\n\v\f";

    unwrap_repr(text, len);
    if (*len > 2 && (*text)[0] == '<' && (*text)[*len - 1] == '>') {
        skip(text, len, 1);
        (*len)--;
    }
    while (*len > 0 && ((*text)[0] == '+' || ((*text)[0] && strchr(around, (*text)[0]))))
        skip(text, len, 1);
    while (*len > 0 && (*text)[*len - 1] && strchr(around, (*text)[*len - 1]))
        (*len)--;
}

/* Returns whether the text is a ratio, such as 3/2. */
static bool is_ratio(const char *text, size_t len)
{
    const char *slash = memchr(text, '/', len);
    struct decimal d;

    return slash && read_decimal(text, (size_t)(slash - text), &d) &&
           read_decimal(slash + 1, len - (size_t)(slash + 1 - text), &d);
}

/* Returns whether the text is a number with a suffix of a programming language (3L, 3u, 3UL, 3.0f,
 * 1e3d), but not 3d, which can be a name. */
static bool has_suffix(const char *text, size_t len)
{
    size_t n = len;
    struct decimal d;

    if (n > 1 && strchr("fFdD", text[n - 1]) && text[n - 1])
        return read_decimal(text, n - 1, &d) &&
               (memchr(text, '.', n) || memchr(text, 'e', n) || memchr(text, 'E', n));
    while (n > 1 && len - n < 3 && text[n - 1] && strchr("lLuU", text[n - 1]))
        n--;
    return n < len && read_decimal(text, n, &d);
}

/* Returns whether programs write this text for a missing value. Names such as none, or na for a
 * country, differ in case. \N is MySQL's; texts that begin with # are errors of spreadsheets. */
static bool is_missing(const char *text, size_t len)
{
    static const char *const words[] = {"None",  "null",    "NULL",   "Null",   "NA",
                                        "N/A",   "n/a",     "NaT",    "\\N",    "#REF!",
                                        "#NUM!", "#VALUE!", "#NAME?", "#NULL!", "#DIV/0!"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
            return true;
    return false;
}

/* Classify a string that is not a decimal number. Programs write labels as plain ASCII numbers, so
 * other forms of numbers are more likely a mistake than the name of a class. */
static enum number_kind classify_odd(const char *text, size_t len)
{
    char folded[FOLDED_MAX];
    const char *at = folded;
    struct decimal d;

    if (len == 0)
        return NUMBER_MISSING;
    if (looks_odd(text, len))
        return NUMBER_ODD;
    len = fold_text(text, len, folded);
    trim(&at, &len);
    if (read_decimal(at, len, &d) || looks_odd(at, len))
        return NUMBER_ODD;
    if (is_missing(at, len))
        return NUMBER_MISSING;
    unwrap(&at, &len);
    if (is_missing(at, len))
        return NUMBER_MISSING;
    if (read_decimal(at, len, &d) || is_ratio(at, len) || has_suffix(at, len) ||
        (looks_odd(at, len) && !memchr(at, ' ', len)))
        return NUMBER_ODD;
    return NUMBER_NONE;
}

enum number_kind number_parse(const char *text, size_t len, int64_t *ret)
{
    struct decimal d;

    trim(&text, &len);
    return read_decimal(text, len, &d) ? evaluate(&d, ret) : classify_odd(text, len);
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

size_t number_print(double value, int digits, char *ret, size_t size)
{
    int n = isnan(value)   ? snprintf(ret, size, "NaN")
            : isinf(value) ? snprintf(ret, size, value < 0 ? "-Infinity" : "Infinity")
                           : snprintf(ret, size, "%.*g", digits, value);

    return (size_t)n;
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
    case NUMBER_MISSING:
        return "means a missing value";
    case NUMBER_NONE:
    case NUMBER_INTEGER:
        break;
    }
    return "is not a number";
}

/* SPDX-License-Identifier: MIT */
/* pipeline_text.c - words and numbers in a pipeline's text. */
#include "config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/error_set.h"

__extension__ typedef unsigned __int128 u128;

/* The largest term of a fraction. */
#define TERM_MAX 1000000
/* Significant digits after the point: more than a double has. */
#define DECIMALS_MAX 18

void parser_skip_space(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

int parser_error(struct parser *p, const char *what)
{
    size_t len = strcspn(p->stage, ")");

    if (p->stage[len] == ')')
        len++;
    if (len > 80)
        len = 80;
    return error_set(p->err, -EINVAL, "pipeline: %s, in '%.*s' (character %zu)", what, (int)len,
                     p->stage, (size_t)(p->at - p->text) + 1);
}

bool parser_char(struct parser *p, char c)
{
    parser_skip_space(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

bool parser_word(struct parser *p, const char *word)
{
    size_t len = strlen(word);

    parser_skip_space(p);
    if (strncmp(p->at, word, len) != 0 || isalnum((unsigned char)p->at[len]) || p->at[len] == '_' ||
        p->at[len] == '-')
        return false;
    p->at += len;
    return true;
}

bool parser_key(struct parser *p, const char *key)
{
    const char *start;

    parser_skip_space(p);
    start = p->at;
    if (parser_word(p, key) && parser_char(p, '='))
        return true;
    p->at = start;
    return false;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

int rational_make(uint64_t num, uint64_t den, struct rational *ret)
{
    uint64_t g = gcd(num, den);

    if (g > 1) {
        num /= g;
        den /= g;
    }
    if (num > TERM_MAX || den > TERM_MAX)
        return -ERANGE;
    *ret = (struct rational){(uint32_t)num, (uint32_t)den};
    return 0;
}

static u128 distance(u128 num, uint64_t den, struct rational v)
{
    u128 a = num * v.den, b = (u128)v.num * den;

    return a > b ? a - b : b - a;
}

/* Returns the fraction with terms up to TERM_MAX that is nearest to num / den; ties go to the
 * smaller denominator. Such a fraction therefore stays unchanged, and 1.3333333333333333 is 4/3.
 * Uses continued fractions: once the next convergent has larger terms, the answer is the last one,
 * or the last intermediate fraction before it. */
static struct rational nearest(u128 num, uint64_t den)
{
    struct rational before = {0, 1}, last = {1, 0};
    u128 n = num, d = den;

    while (d) {
        u128 whole = n / d, rest = n % d, steps = whole;
        struct rational next;

        if (last.num && steps > (TERM_MAX - before.num) / last.num)
            steps = (TERM_MAX - before.num) / last.num;
        if (last.den && steps > (TERM_MAX - before.den) / last.den)
            steps = (TERM_MAX - before.den) / last.den;
        next = (struct rational){before.num + (uint32_t)steps * last.num,
                                 before.den + (uint32_t)steps * last.den};
        if (steps < whole) {
            u128 a = distance(num, den, next) * last.den, b = distance(num, den, last) * next.den;

            return last.den == 0 || (next.den && (a < b || (a == b && next.den < last.den))) ? next
                                                                                             : last;
        }
        assert(next.num <= TERM_MAX && next.den <= TERM_MAX);
        before = last;
        last = next;
        n = d;
        d = rest;
    }
    return last;
}

static int parse_denominator(struct parser *p, uint64_t num, struct rational *ret)
{
    uint64_t den = 0;
    const char *start;

    parser_skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if ((den = den * 10 + (uint64_t)(*p->at - '0')) > TERM_MAX)
            return parser_error(p, "a number is too large");
    if (p->at == start || den == 0)
        return parser_error(p, "a fraction needs a denominator of at least 1");
    return rational_make(num, den, ret); /* both are small enough */
}

/* Parse "3", "0.08" or "3/4", without floating point. Other decimals are rounded to the nearest
 * fraction with small terms. */
int parser_rational(struct parser *p, struct rational *ret)
{
    u128 num = 0;
    uint64_t den = 1;
    unsigned decimals = 0;
    const char *start;

    parser_skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if ((num = num * 10 + (unsigned)(*p->at - '0')) > TERM_MAX)
            return parser_error(p, "a number is too large");
    if (*p->at == '.') {
        for (p->at++; isdigit((unsigned char)*p->at); p->at++)
            if (decimals++ < DECIMALS_MAX) {
                num = num * 10 + (unsigned)(*p->at - '0');
                den *= 10;
            }
    }
    if (p->at == start || (p->at == start + 1 && *start == '.'))
        return parser_error(p, "a number is missing here: write 0.25 or 1/4, without a name if it "
                               "is one of the first arguments");
    if (*p->at == 'e' || *p->at == 'E' || *p->at == '%')
        return parser_error(p,
                            "write a number as 0.25 or 1/4, without an exponent or a percent sign");
    if (*start != '.' && p->at[-1] != '.' && decimals == 0 && parser_char(p, '/'))
        return parse_denominator(p, (uint64_t)num, ret);
    *ret = nearest(num, den);
    return 0;
}

struct rational rational_nearest(uint64_t num, uint64_t den)
{
    return nearest(num, den);
}

int parser_signed(struct parser *p, struct rational_signed *ret)
{
    bool negative = parser_char(p, '-');
    struct rational size;
    int r = parser_rational(p, &size);

    if (r < 0)
        return r;
    *ret = (struct rational_signed){negative ? -(int32_t)size.num : (int32_t)size.num, size.den};
    return 0;
}

int parser_probability(struct parser *p, struct rational *ret)
{
    int r = parser_rational(p, ret);

    if (r < 0)
        return r;
    if (ret->num > ret->den)
        return parser_error(p, "a probability must be from 0 to 1");
    return 0;
}

int parser_number(struct parser *p, uint32_t min, uint32_t max, const char *takes, uint32_t *ret)
{
    struct rational value;
    int r = parser_rational(p, &value);

    if (r < 0)
        return r;
    if (value.den != 1 || value.num < min || value.num > max)
        return parser_error(p, takes);
    *ret = value.num;
    return 0;
}

int parser_range(struct parser *p, struct rational *low, struct rational *high)
{
    int r;

    parser_skip_space(p);
    if (*p->at == '(' || *p->at == '[')
        return parser_error(p, "write a range as low:high, without brackets");
    r = parser_rational(p, low);
    if (r < 0)
        return r;
    if (!parser_char(p, ':'))
        return parser_error(p, "write a range as low:high");
    return parser_rational(p, high);
}

int parser_close(struct parser *p, const char *takes)
{
    if (parser_char(p, ')'))
        return 0;
    return parser_error(p, *p->at ? takes : "a ')' is missing");
}

bool rational_less(struct rational a, struct rational b)
{
    return (uint64_t)a.num * b.den < (uint64_t)b.num * a.den;
}

bool rational_signed_less(struct rational_signed a, struct rational_signed b)
{
    return (int64_t)a.num * b.den < (int64_t)b.num * a.den;
}

void rational_write(FILE *f, struct rational v)
{
    (void)fprintf(f, "%u", v.num);
    if (v.den != 1)
        (void)fprintf(f, "/%u", v.den);
}

void rational_write_range(FILE *f, struct rational low, struct rational high)
{
    rational_write(f, low);
    (void)fputc(':', f);
    rational_write(f, high);
}

static void write_signed(FILE *f, struct rational_signed v)
{
    (void)fprintf(f, "%d", v.num);
    if (v.den != 1)
        (void)fprintf(f, "/%u", v.den);
}

void rational_signed_write_range(FILE *f, struct rational_signed low, struct rational_signed high)
{
    write_signed(f, low);
    (void)fputc(':', f);
    write_signed(f, high);
}

void pipeline_write_shape(FILE *f, const struct pipeline_shape *shape)
{
    (void)fputs(",scale=", f);
    rational_write_range(f, shape->scale_min, shape->scale_max);
    (void)fputs(",ratio=", f);
    rational_write_range(f, shape->ratio_min, shape->ratio_max);
}

int parser_shape(struct parser *p, struct pipeline_shape *ret)
{
    if (parser_key(p, "scale"))
        return parser_range(p, &ret->scale_min, &ret->scale_max);
    if (parser_key(p, "ratio"))
        return parser_range(p, &ret->ratio_min, &ret->ratio_max);
    return -ENOENT;
}

int parser_check_shape(struct parser *p, const struct pipeline_shape *shape)
{
    const struct rational one = {1, 1}, hundred = {100, 1}, hundredth = {1, 100};

    if (shape->scale_min.num == 0 || rational_less(shape->scale_max, shape->scale_min) ||
        rational_less(one, shape->scale_max))
        return parser_error(p, "scale must be low:high with 0 < low <= high <= 1");
    if (rational_less(shape->ratio_min, hundredth) ||
        rational_less(shape->ratio_max, shape->ratio_min) ||
        rational_less(hundred, shape->ratio_max))
        return parser_error(p, "ratio must be low:high with 1/100 <= low <= high <= 100");
    return 0;
}

/* Read an integer of at most nine digits at `*at`, and advance it. Returns false if there is
 * none. */
static bool read_number(const char **at, uint32_t *ret)
{
    size_t n = strspn(*at, "0123456789");

    *ret = 0;
    if (n == 0 || n > 9)
        return false;
    for (; n > 0; n--)
        *ret = 10 * *ret + (uint32_t)(*(*at)++ - '0');
    return true;
}

/* Write the fraction at `*at` as a decimal, and advance `*at`. Returns false if it needs more than
 * four decimals. */
static bool make_decimal(const char **at, char digits[24])
{
    const char *end = *at;
    uint32_t num, den;
    size_t len;

    if (!read_number(&end, &num) || *end++ != '/' || !read_number(&end, &den) || den == 0 ||
        num % den * UINT64_C(10000) % den != 0)
        return false;
    (void)snprintf(digits, 24, "%u.%04u", num / den, (unsigned)(num % den * UINT64_C(10000) / den));
    for (len = strlen(digits); digits[len - 1] == '0'; len--)
        digits[len - 1] = '\0';
    if (digits[len - 1] == '.')
        digits[len - 1] = '\0';
    *at = end;
    return true;
}

void pipeline_write_decimals(const char *text, char *ret, size_t size)
{
    const char *at = text;
    bool inside = false; /* inside a number or a word */
    size_t len = 0;

    assert(size > 0);
    while (*at && len + 24 < size) {
        bool was_inside = inside;

        inside = isalnum((unsigned char)*at) || *at == '_' || *at == '.' || *at == '/';
        if (inside && !was_inside && make_decimal(&at, ret + len))
            len += strlen(ret + len);
        else
            ret[len++] = *at++;
    }
    ret[len] = '\0';
    if (*at) /* it does not fit: write the fractions instead */
        (void)snprintf(ret, size, "%s", text);
}

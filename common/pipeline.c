/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

__extension__ typedef unsigned __int128 u128;

/* Terms of fractions. */
#define TERM_MAX 1000000
/* Digits behind the point that are looked at: more than a double has. */
#define DECIMALS_MAX 18

/* Where in the text we are. Stages look like name or name(value, key=value, ...). */
struct parser {
    const char *text;
    const char *at;
    const char *stage; /* start of the stage that is being read */
    struct plenum_error *err;
};

static void skip_space(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

/* The stage in question, for a message, up to its closing parenthesis; and how far it was
 * understood. */
static int stage_error(struct parser *p, const char *what)
{
    size_t len = strcspn(p->stage, ")");

    if (p->stage[len] == ')')
        len++;
    if (len > 80)
        len = 80;
    return error_set(p->err, -EINVAL, "pipeline: %s, in '%.*s' (character %zu)", what, (int)len,
                     p->stage, (size_t)(p->at - p->text) + 1);
}

static bool accept_char(struct parser *p, char c)
{
    skip_space(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bool accept_word(struct parser *p, const char *word)
{
    size_t len = strlen(word);

    skip_space(p);
    if (strncmp(p->at, word, len) != 0 || isalnum((unsigned char)p->at[len]) || p->at[len] == '_' ||
        p->at[len] == '-')
        return false;
    p->at += len;
    return true;
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

static int make_rational(uint64_t num, uint64_t den, struct rational *ret)
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

/* The fraction with terms up to TERM_MAX that is nearest to num / den, and of two equally near the
 * one with the smaller denominator: so what is such a fraction stays what it is,
 * and 1.3333333333333333 is 4/3. By continued fractions: where the next convergent has larger
 * terms, the answer is the last one, or the last intermediate fraction before it. */
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

    skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if ((den = den * 10 + (uint64_t)(*p->at - '0')) > TERM_MAX)
            return stage_error(p, "a number is too large");
    if (p->at == start || den == 0)
        return stage_error(p, "a fraction needs a denominator of at least 1");
    return make_rational(num, den, ret); /* both are small enough */
}

/* "3", "0.08" or "3/4"; never through floating point. A decimal that is no fraction of small terms
 * is rounded to the nearest one. */
static int parse_rational(struct parser *p, struct rational *ret)
{
    u128 num = 0;
    uint64_t den = 1;
    unsigned decimals = 0;
    const char *start;

    skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if ((num = num * 10 + (unsigned)(*p->at - '0')) > TERM_MAX)
            return stage_error(p, "a number is too large");
    if (*p->at == '.') {
        for (p->at++; isdigit((unsigned char)*p->at); p->at++)
            if (decimals++ < DECIMALS_MAX) {
                num = num * 10 + (unsigned)(*p->at - '0');
                den *= 10;
            }
    }
    if (p->at == start || (p->at == start + 1 && *start == '.'))
        return stage_error(p, "a number is missing: write 0.25 or 1/4");
    if (*p->at == 'e' || *p->at == 'E' || *p->at == '%')
        return stage_error(p,
                           "a number is written as 0.25 or 1/4, without exponent or percent sign");
    if (*start != '.' && p->at[-1] != '.' && decimals == 0 && accept_char(p, '/'))
        return parse_denominator(p, (uint64_t)num, ret);
    *ret = nearest(num, den);
    return 0;
}

static int parse_range(struct parser *p, struct rational *low, struct rational *high)
{
    int r;

    skip_space(p);
    if (*p->at == '(' || *p->at == '[')
        return stage_error(p, "a range is written low:high, without brackets");
    r = parse_rational(p, low);
    if (r < 0)
        return r;
    if (!accept_char(p, ':'))
        return stage_error(p, "a range is written low:high");
    return parse_rational(p, high);
}

/* Two sizes, as "224x160", "224, 160" or "(224, 160)". */
static bool is_pair(const struct parser *p)
{
    const char *at = p->at;

    while (isspace((unsigned char)*at))
        at++;
    if (*at == '(' || *at == '[')
        return true;
    if (!*at || !strchr("xX*,", *at))
        return false;
    for (at++; isspace((unsigned char)*at);)
        at++;
    return isdigit((unsigned char)*at);
}

static int parse_side(struct parser *p, uint32_t *ret)
{
    uint64_t value = 0;
    const char *start;

    skip_space(p);
    start = p->at;
    for (; isdigit((unsigned char)*p->at) && value <= PIPELINE_SIDE_MAX; p->at++)
        value = value * 10 + (uint64_t)(*p->at - '0');
    if (is_pair(p))
        return stage_error(
            p, "images are square: one size in pixels, as in rrc(224), is all there is");
    if (p->at == start)
        return stage_error(p, "a size in pixels is missing");
    if (value == 0 || value > PIPELINE_SIDE_MAX)
        return stage_error(p, "a size must be 1 to 8192 pixels");
    *ret = (uint32_t)value;
    return 0;
}

static const char *const filter_names[PIPELINE_FILTERS] = {
    [PIPELINE_BILINEAR] = "bilinear", [PIPELINE_BICUBIC] = "bicubic",
    [PIPELINE_LANCZOS] = "lanczos",   [PIPELINE_NEAREST] = "nearest",
    [PIPELINE_RANDOM] = "random",
};

/* Behind "interpolation=". */
static int parse_filter(struct parser *p, enum pipeline_filter *ret)
{
    for (int i = 0; i < PIPELINE_FILTERS; i++) {
        if (!accept_word(p, filter_names[i]))
            continue;
        *ret = (enum pipeline_filter)i;
        return 0;
    }
    return stage_error(p, "interpolation is one of bilinear, bicubic, lanczos, nearest and random "
                          "(bilinear or bicubic, drawn for each sample)");
}

/* The closing parenthesis; `takes` says what may stand before it. */
static int close_stage(struct parser *p, const char *takes)
{
    if (accept_char(p, ')'))
        return 0;
    return stage_error(p, *p->at ? takes : "a ')' is missing");
}

static bool less(struct rational a, struct rational b)
{
    return (uint64_t)a.num * b.den < (uint64_t)b.num * a.den;
}

static int parse_rrc(struct parser *p, struct pipeline *ret)
{
    static const char takes[] =
        "rrc takes a size, scale=low:high, ratio=low:high and interpolation=NAME";
    const struct rational one = {1, 1}, hundred = {100, 1}, hundredth = {1, 100};
    int r;

    ret->crop = PIPELINE_RRC;
    ret->scale_min = (struct rational){2, 25};
    ret->scale_max = one;
    ret->ratio_min = (struct rational){3, 4};
    ret->ratio_max = (struct rational){4, 3};
    if (!accept_char(p, '('))
        return stage_error(p, "rrc needs a size, as in rrc(224)");
    r = parse_side(p, &ret->side);
    if (r < 0)
        return r;
    while (accept_char(p, ',')) {
        if (accept_word(p, "scale") && accept_char(p, '='))
            r = parse_range(p, &ret->scale_min, &ret->scale_max);
        else if (accept_word(p, "ratio") && accept_char(p, '='))
            r = parse_range(p, &ret->ratio_min, &ret->ratio_max);
        else if (accept_word(p, "interpolation") && accept_char(p, '='))
            r = parse_filter(p, &ret->filter);
        else
            r = stage_error(p, takes);
        if (r < 0)
            return r;
    }
    r = close_stage(p, takes);
    if (r < 0)
        return r;
    if (ret->scale_min.num == 0 || less(ret->scale_max, ret->scale_min) ||
        less(one, ret->scale_max))
        return stage_error(p, "scale must lie in 0 < low <= high <= 1");
    if (less(ret->ratio_min, hundredth) || less(ret->ratio_max, ret->ratio_min) ||
        less(hundred, ret->ratio_max))
        return stage_error(p, "ratio must lie in 1/100 <= low <= high <= 100");
    return 0;
}

static int parse_center(struct parser *p, struct pipeline *ret)
{
    static const char takes[] = "resize takes a size and interpolation=NAME";
    const char *after;
    int r;

    ret->crop = PIPELINE_CENTER;
    if (!accept_char(p, '('))
        return stage_error(p, "resize needs a size, as in resize(256)");
    r = parse_side(p, &ret->resize);
    if (r < 0)
        return r;
    while (accept_char(p, ',')) {
        if (accept_word(p, "interpolation") && accept_char(p, '='))
            r = parse_filter(p, &ret->filter);
        else
            r = stage_error(p, takes);
        if (r < 0)
            return r;
    }
    r = close_stage(p, takes);
    if (r < 0)
        return r;
    skip_space(p);
    after = p->at;
    if (!accept_word(p, "center_crop") || !accept_char(p, '('))
        return stage_error(p, "resize(S) must be followed by center_crop(C), so that all images "
                              "get one shape");
    p->stage = after;
    r = parse_side(p, &ret->side);
    if (r < 0)
        return r;
    r = close_stage(p, "center_crop takes a size alone");
    if (r < 0)
        return r;
    if (ret->side > ret->resize)
        return stage_error(p, "center_crop must not be larger than resize");
    return 0;
}

static int parse_flip(struct parser *p, struct pipeline *ret)
{
    int r;

    if (!accept_char(p, '('))
        return stage_error(p, "flip needs a probability, as in flip(0.5)");
    r = parse_rational(p, &ret->flip);
    if (r < 0)
        return r;
    r = close_stage(p, "flip takes a probability, as in flip(0.5)");
    if (r < 0)
        return r;
    if (ret->flip.num > ret->flip.den)
        return stage_error(p, "a probability must lie in 0 ... 1");
    return 0;
}

static void write_rational(struct rational v, char *text, size_t size)
{
    (void)(v.den == 1 ? snprintf(text, size, "%u", v.num)
                      : snprintf(text, size, "%u/%u", v.num, v.den));
}

static const char *const version_names[PIPELINE_VERSIONS] = {
    [PIPELINE_V1] = "v1",
};

const char *pipeline_version_name(enum pipeline_version version)
{
    return version_names[version];
}

static void write_canonical(struct pipeline *p)
{
    char a[24], b[24], c[24], d[24], crop[160], filter[32] = "", flip[40] = "";

    if (p->filter != PIPELINE_BILINEAR)
        (void)snprintf(filter, sizeof(filter), ",interpolation=%s", filter_names[p->filter]);
    if (p->crop == PIPELINE_RRC) {
        write_rational(p->scale_min, a, sizeof(a));
        write_rational(p->scale_max, b, sizeof(b));
        write_rational(p->ratio_min, c, sizeof(c));
        write_rational(p->ratio_max, d, sizeof(d));
        (void)snprintf(crop, sizeof(crop), "rrc(%u,scale=%s:%s,ratio=%s:%s%s)", p->side, a, b, c, d,
                       filter);
    } else {
        (void)snprintf(crop, sizeof(crop), "resize(%u%s) center_crop(%u)", p->resize, filter,
                       p->side);
    }
    if (p->flip.num > 0) {
        write_rational(p->flip, a, sizeof(a));
        (void)snprintf(flip, sizeof(flip), " flip(%s)", a);
    }
    (void)snprintf(p->text, sizeof(p->text), "%s%s %s%s", pipeline_version_name(p->version),
                   p->exif ? " exif" : "", crop, flip);
}

static const char *const presets[][2] = {
    {"train", "rrc(224) flip(0.5)"},
    {"eval", "resize(256) center_crop(224)"},
};

int pipeline_parse(const char *text, struct pipeline *ret, struct plenum_error *err)
{
    struct pipeline made = {.version = PIPELINE_V1, .flip = {0, 1}};
    struct parser p = {.text = text, .at = text, .stage = text, .err = err};
    int r;

    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (accept_word(&p, version_names[i])) {
            made.version = (enum pipeline_version)i;
            break;
        }
    if (accept_word(&p, "fast-v1"))
        return error_set(err, -EINVAL,
                         "pipeline: fast-v1 is no longer there, as v1 is the faster one: leave the "
                         "word out");
    made.exif = accept_word(&p, "exif");
    skip_space(&p);
    p.stage = p.at;
    for (int i = 0; i < PIPELINE_VERSIONS; i++)
        if (accept_word(&p, version_names[i]))
            return stage_error(&p, "the version comes first, as in 'v1 exif train'");
    for (size_t i = 0; i < ARRAY_LEN(presets); i++) {
        if (!accept_word(&p, presets[i][0]))
            continue;
        skip_space(&p);
        if (*p.at)
            return error_set(
                err, -EINVAL,
                "pipeline: %s stands for '%s' and takes no further stages: write them out",
                presets[i][0], presets[i][1]);
        p.text = p.at = presets[i][1];
        break;
    }
    p.stage = p.at;
    if (accept_word(&p, "rrc"))
        r = parse_rrc(&p, &made);
    else if (accept_word(&p, "resize"))
        r = parse_center(&p, &made);
    else
        r = stage_error(&p, *p.at ? "it must begin with rrc(S), resize(S) center_crop(C), train or "
                                    "eval"
                                  : "it is empty; try train or eval");
    if (r < 0)
        return r;
    skip_space(&p);
    p.stage = p.at;
    if (accept_word(&p, "flip")) {
        r = parse_flip(&p, &made);
        if (r < 0)
            return r;
    }
    skip_space(&p);
    p.stage = p.at;
    if (*p.at)
        return stage_error(&p, "this is not understood here (after the crop only flip(p) follows)");
    write_canonical(&made);
    *ret = made;
    return 0;
}

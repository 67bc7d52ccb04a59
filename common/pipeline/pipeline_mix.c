/* SPDX-License-Identifier: MIT */
/* pipeline_mix.c - the last word of a pipeline: mixup(alpha), cutmix(alpha), or mix() of both. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "common/pipeline/pipeline_priv.h"

static const char takes_alpha[] =
    "mixup and cutmix take alpha, as in mixup(0.2), and p=PROBABILITY; for both write "
    "mix(mixup=0.8, cutmix=1)";
static const char takes_both[] =
    "mix takes mixup=ALPHA, cutmix=ALPHA, p=PROBABILITY and switch=PROBABILITY (of cutmix), as in "
    "mix(mixup=0.8, cutmix=1)";

static int parse_alpha(struct parser *p, struct rational *ret)
{
    const struct rational least = {1, 100}, most = {PIPELINE_ALPHA_MAX, 1};
    int r = parser_rational(p, ret);

    if (r < 0)
        return r;
    if (rational_less(*ret, least) || rational_less(most, *ret))
        return parser_error(p, "alpha must be from 0.01 to 10");
    return 0;
}

/* Parse mixup(alpha, p=) and cutmix(alpha, p=). */
static int parse_one(struct parser *p, struct rational *alpha, struct rational *chance)
{
    int r;

    if (!parser_char(p, '(') || isalpha((unsigned char)*p->at))
        return parser_error(p, takes_alpha);
    r = parse_alpha(p, alpha);
    while (r == 0 && parser_char(p, ','))
        r = parser_key(p, "p") ? parser_probability(p, chance) : parser_error(p, takes_alpha);
    return r < 0 ? r : parser_close(p, takes_alpha);
}

static int parse_both(struct parser *p, struct pipeline_mix *mix)
{
    int r;

    if (!parser_char(p, '('))
        return parser_error(p, takes_both);
    do {
        if (parser_key(p, "mixup"))
            r = parse_alpha(p, &mix->mixup);
        else if (parser_key(p, "cutmix"))
            r = parse_alpha(p, &mix->cutmix);
        else if (parser_key(p, "p"))
            r = parser_probability(p, &mix->p);
        else if (parser_key(p, "switch"))
            r = parser_probability(p, &mix->cut);
        else
            r = parser_error(p, takes_both);
        if (r < 0)
            return r;
    } while (parser_char(p, ','));
    if (mix->mixup.num == 0 && mix->cutmix.num == 0)
        return parser_error(p, "mix needs mixup=ALPHA or cutmix=ALPHA, as in mix(mixup=0.8, "
                               "cutmix=1)");
    return parser_close(p, takes_both);
}

/* Reduce equivalent forms to one. */
static void simplify(struct pipeline_mix *mix)
{
    const struct rational never = {0, 1}, always = {1, 1};

    if (mix->p.num == 0) {
        *mix = (struct pipeline_mix){.p = never};
        return;
    }
    if (mix->cutmix.num == 0)
        mix->cut = never;
    else if (mix->mixup.num == 0)
        mix->cut = always;
    if (mix->cut.num == 0)
        mix->cutmix = never;
    else if (mix->cut.num == mix->cut.den)
        mix->mixup = never;
}

int pipeline_parse_mix(struct parser *p, struct pipeline_mix *ret)
{
    struct pipeline_mix mix = {.p = {1, 1}, .mixup = {0, 1}, .cutmix = {0, 1}, .cut = {1, 2}};
    int r;

    if (parser_word(p, "mixup"))
        r = parse_one(p, &mix.mixup, &mix.p);
    else if (parser_word(p, "cutmix"))
        r = parse_one(p, &mix.cutmix, &mix.p);
    else if (parser_word(p, "mix"))
        r = parse_both(p, &mix);
    else
        return -ENOENT;
    if (r < 0)
        return r;
    simplify(&mix);
    *ret = mix;
    return 0;
}

void pipeline_write_mix(FILE *f, const struct pipeline_mix *mix)
{
    bool both = mix->mixup.num > 0 && mix->cutmix.num > 0;

    if (both) {
        (void)fputs(" mix(mixup=", f);
        rational_write(f, mix->mixup);
        (void)fputs(",cutmix=", f);
        rational_write(f, mix->cutmix);
    } else {
        (void)fputs(mix->mixup.num > 0 ? " mixup(" : " cutmix(", f);
        rational_write(f, mix->mixup.num > 0 ? mix->mixup : mix->cutmix);
    }
    if (mix->p.num != mix->p.den) {
        (void)fputs(",p=", f);
        rational_write(f, mix->p);
    }
    if (both) {
        (void)fputs(",switch=", f);
        rational_write(f, mix->cut);
    }
    (void)fputc(')', f);
}

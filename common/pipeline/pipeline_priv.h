/* SPDX-License-Identifier: MIT */
/* pipeline_priv.h - shared by the parts of the pipeline's parser: stages (pipeline.c), words and
 * numbers (pipeline_text.c), the crop (pipeline_crop.c), operations after it (pipeline_ops.c,
 * pipeline_map.c, pipeline_policy.c), mixing (pipeline_mix.c), and views (views.c). */
#ifndef COMMON_PIPELINE_PRIV_H
#define COMMON_PIPELINE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/pipeline/pipeline.h"
#include "common/util/util.h"

/** The parser's position in the text. Stages have the form name or name(value, key=value, ...). */
struct parser {
    const char *text;
    const char *at;
    const char *stage; /* start of the current stage */
    const char *takes; /* the message if the arguments of the current operation cannot be parsed */
    struct plenum_error *err;
};

void parser_skip_space(struct parser *p);
/** Skip spaces. If `c` comes next, skip it too and return true. */
bool parser_char(struct parser *p, char c);
/** Like parser_char(), for a whole word. */
bool parser_word(struct parser *p, const char *word);
/** Like parser_char(), for "key=", all of it or nothing. */
bool parser_key(struct parser *p, const char *key);

/** Parse the words before the first stage, `exif` and `junk`, in any order. */
void parser_head(struct parser *p, bool *exif, bool *junk);

/** Set an error that quotes the current stage up to its closing parenthesis, and shows how far it
 * was understood. Returns -EINVAL. */
int parser_error(struct parser *p, const char *what);
/** Parse the closing parenthesis; `takes` describes what may precede it. */
int parser_close(struct parser *p, const char *takes);

/** Parse "3", "0.08" or "3/4", never through floating point. Other decimals are rounded to the
 *  nearest fraction of small terms. */
int parser_rational(struct parser *p, struct rational *ret);
/** Like parser_rational(), with an optional minus sign. */
int parser_signed(struct parser *p, struct rational_signed *ret);
/** Parse one level, or "red:green:blue". */
int parser_levels(struct parser *p, uint8_t ret[3]);
/** Parse "low:high". */
int parser_range(struct parser *p, struct rational *low, struct rational *high);

/** Parse "scale=low:high" or "ratio=low:high" of a rectangle. Returns 0, -ENOENT if it is neither,
 * or -EINVAL. */
int parser_shape(struct parser *p, struct pipeline_shape *ret);
/** Check that scale and ratio lie within their bounds. Returns 0 or -EINVAL. */
int parser_check_shape(struct parser *p, const struct pipeline_shape *shape);

/** Returns the nearest fraction whose terms are small enough for the canonical text, as it is found
 * for decimals. */
struct rational rational_nearest(uint64_t num, uint64_t den);
/** Reduce to lowest terms. Returns 0, or -ERANGE. */
int rational_make(uint64_t num, uint64_t den, struct rational *ret);
bool rational_less(struct rational a, struct rational b);
void rational_write(FILE *f, struct rational v);
bool rational_signed_less(struct rational_signed a, struct rational_signed b);
/** Write "low:high". */
void rational_signed_write_range(FILE *f, struct rational_signed low, struct rational_signed high);
/** Write "low:high". */
void rational_write_range(FILE *f, struct rational low, struct rational high);

/** Parse the digits of a number between two bounds; `takes` is the message for anything else. */
int parser_number(struct parser *p, uint32_t min, uint32_t max, const char *takes, uint32_t *ret);

/** Parse the first stage, the crop. Returns 0 or -EINVAL. */
int pipeline_parse_crop(struct parser *p, struct pipeline *ret);
/** Write the crop's canonical text, preceded by a space. */
void pipeline_write_crop(FILE *f, const struct pipeline *p);

/** Parse "fill=LEVEL" or "fill=R:G:B". Returns 0, -ENOENT if it is another word, or -EINVAL. */
int parser_fill(struct parser *p, uint8_t ret[3]);
/** Write ",fill=LEVEL" or ",fill=R:G:B". */
void pipeline_write_fill(FILE *f, const uint8_t fill[3]);

/** Parse zoom_out(...) and iou_crop(...) if they come next. Returns 0 or -EINVAL. */
int pipeline_parse_zoom(struct parser *p, struct pipeline *ret);
/** Write the canonical texts of zoom_out and iou_crop, if there are any, each preceded by a
 * space. */
void pipeline_write_zoom(FILE *f, const struct pipeline *p);

/** Parse one operation. Returns 0, -ENOENT if the next word is not an operation, or -EINVAL. */
int pipeline_parse_op(struct parser *p, struct pipeline_op *ret);

/** Parse a policy's parameters, without ")". Returns 0, or -EINVAL. */
int pipeline_parse_policy(struct parser *p, struct pipeline_op *op);
/** Parse the word after interpolation=: nearest or bilinear. */
int parser_map_interpolation(struct parser *p, bool *bilinear);
void pipeline_default_policy(struct pipeline_op *op);
/** Returns whether a policy may be written without parentheses. */
bool pipeline_policy_is_bare(enum pipeline_op_kind kind);
/** Returns whether a policy's canonical text has no parameters, apart from a probability. */
bool pipeline_policy_is_empty(const struct pipeline_op *op);
void pipeline_write_policy(FILE *f, const struct pipeline_op *op);

/** Parse "one_of(...)" or "three_augment", and add it and its members to `ret`. Returns 0, -ENOENT
 * if it is neither, or -EINVAL. */
int pipeline_parse_one_of(struct parser *p, struct pipeline *ret);
/** Add an operation. Returns 0, or -EINVAL if there are too many. */
int pipeline_add_op(struct parser *p, struct pipeline *ret, const struct pipeline_op *op);
/** Report that no operation begins here. Returns -EINVAL, with the allowed words and a similar
 * one. */
int pipeline_refuse_op(struct parser *p);
/** Parse the parameters of an operation that moves pixels. */
int pipeline_parse_map(struct parser *p, struct pipeline_op *op);
void pipeline_write_map(FILE *f, const struct pipeline_op *op);
/** Compare with an operation's name in pipelines, and with its names in other libraries. */
void pipeline_try_name(struct str_nearest *near, const char *name);
/** Compare with all words that may follow the crop, to suggest the nearest one. */
void pipeline_try_ops(struct str_nearest *near);
/** Parse mixup, cutmix or mix. Returns 0, -ENOENT if the next word is none of these, or -EINVAL. */
int pipeline_parse_mix(struct parser *p, struct pipeline_mix *ret);
/** Write the canonical text of mixing, preceded by a space. */
void pipeline_write_mix(FILE *f, const struct pipeline_mix *mix);
/** Parse a probability. */
int parser_probability(struct parser *p, struct rational *ret);
/** Write ",scale=low:high,ratio=low:high". */
void pipeline_write_shape(FILE *f, const struct pipeline_shape *shape);
/** Write the canonical text of the first of these operations and of its members. Returns the number
 *  of operations written. */
uint32_t pipeline_write_op(FILE *f, const struct pipeline_op *ops);

#endif

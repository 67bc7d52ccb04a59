/* SPDX-License-Identifier: MIT */
/* pipeline_priv.h - what the parts of the pipeline's parser share: reading words and numbers of a
 * text (pipeline_text.c), the crop (pipeline_crop.c), operations behind it (pipeline_ops.c), and
 * mixing (pipeline_mix.c). */
#ifndef COMMON_PIPELINE_PRIV_H
#define COMMON_PIPELINE_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/pipeline.h"
#include "common/util.h"

/** Where in the text we are. Stages look like name or name(value, key=value, ...). */
struct parser {
    const char *text;
    const char *at;
    const char *stage; /* start of the stage that is being read */
    struct plenum_error *err;
};

void parser_skip_space(struct parser *p);
/** Skips spaces; true, and behind it, when `c` comes next. */
bool parser_char(struct parser *p, char c);
/** The same with a whole word. */
bool parser_word(struct parser *p, const char *word);
/** The same with "key=", all of it or nothing. */
bool parser_key(struct parser *p, const char *key);

/** The words before the first stage, `exif` and `junk`, in any order. */
void parser_head(struct parser *p, bool *exif, bool *junk);

/** -EINVAL with the stage in question, for a message, up to its closing parenthesis; and how far
 * it was understood. */
int parser_error(struct parser *p, const char *what);
/** The closing parenthesis; `takes` says what may stand before it. */
int parser_close(struct parser *p, const char *takes);

/** "3", "0.08" or "3/4"; never through floating point. A decimal that is no fraction of small terms
 * is rounded to the nearest one. */
int parser_rational(struct parser *p, struct rational *ret);
/** The same with a minus sign before it, perhaps. */
int parser_signed(struct parser *p, struct rational_signed *ret);
/** One level, or "red:green:blue". */
int parser_levels(struct parser *p, uint8_t ret[3]);
/** "low:high". */
int parser_range(struct parser *p, struct rational *low, struct rational *high);

/** "scale=low:high" or "ratio=low:high" of a rectangle: 0, -ENOENT it is neither, -EINVAL. */
int parser_shape(struct parser *p, struct pipeline_shape *ret);
/** Do both lie in their bounds? 0 or -EINVAL. */
int parser_check_shape(struct parser *p, const struct pipeline_shape *shape);

/** The nearest fraction that can be written, as of a decimal. */
struct rational rational_nearest(uint64_t num, uint64_t den);
/** In lowest terms: 0, or -ERANGE. */
int rational_make(uint64_t num, uint64_t den, struct rational *ret);
bool rational_less(struct rational a, struct rational b);
void rational_write(FILE *f, struct rational v);
bool rational_signed_less(struct rational_signed a, struct rational_signed b);
/** "low:high". */
void rational_signed_write_range(FILE *f, struct rational_signed low, struct rational_signed high);
/** "low:high". */
void rational_write_range(FILE *f, struct rational low, struct rational high);

/** The digits of a number between two bounds; `takes` is the sentence for all else. */
int parser_number(struct parser *p, uint32_t min, uint32_t max, const char *takes, uint32_t *ret);

/** Read what comes first, the crop: 0 or -EINVAL. */
int pipeline_parse_crop(struct parser *p, struct pipeline *ret);
/** Its canonical text, with a space before it. */
void pipeline_write_crop(FILE *f, const struct pipeline *p);

/** Read one operation where one begins: 0, -ENOENT it is no word of an operation, -EINVAL. */
int pipeline_parse_op(struct parser *p, struct pipeline_op *ret);

/** What stands between the parentheses of a policy, without ")": 0, or -EINVAL with `takes`. */
int pipeline_parse_policy(struct parser *p, const char *takes, struct pipeline_op *op);
/** The word behind interpolation=: nearest or bilinear. */
int parser_map_interpolation(struct parser *p, bool *bilinear);
void pipeline_default_policy(struct pipeline_op *op);
/** May it stand without parentheses? */
bool pipeline_policy_is_bare(enum pipeline_op_kind kind);
/** Has it nothing to say but a probability? */
bool pipeline_policy_is_empty(const struct pipeline_op *op);
void pipeline_write_policy(FILE *f, const struct pipeline_op *op);

/** Read "one_of(...)" or "three_augment", and add it and its members to `ret`: 0, -ENOENT it is
 * neither, -EINVAL. */
int pipeline_parse_one_of(struct parser *p, struct pipeline *ret);
/** Add an operation: 0, or -EINVAL there are too many. */
int pipeline_add_op(struct parser *p, struct pipeline *ret, const struct pipeline_op *op);
/** No operation begins here: -EINVAL says what may, and what is nearly so. */
int pipeline_refuse_op(struct parser *p);
/** What stands between the parentheses of one that moves pixels. */
int pipeline_parse_map(struct parser *p, const char *takes, struct pipeline_op *op);
void pipeline_write_map(FILE *f, const struct pipeline_op *op);
/** A word of a text, and what it is called elsewhere. */
void pipeline_try_name(struct str_nearest *near, const char *name);
/** All words that may stand behind the crop. */
void pipeline_try_ops(struct str_nearest *near);
/** Read mixup, cutmix or mix where one begins: 0, -ENOENT it is another word, -EINVAL. */
int pipeline_parse_mix(struct parser *p, struct pipeline_mix *ret);
/** Its canonical text, with a space before it. */
void pipeline_write_mix(FILE *f, const struct pipeline_mix *mix);
/** A probability. */
int parser_probability(struct parser *p, struct rational *ret);
/** ",scale=low:high,ratio=low:high". */
void pipeline_write_shape(FILE *f, const struct pipeline_shape *shape);
/** The canonical text of the first of these operations, and of its members. Returns how many it
 * were. */
uint32_t pipeline_write_op(FILE *f, const struct pipeline_op *ops);

#endif

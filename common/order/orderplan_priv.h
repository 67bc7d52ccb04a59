/* SPDX-License-Identifier: MIT */
/* orderplan_priv.h - the parser of plans, shared by orderplan.c (lines and the canonical form),
 * orderplan_words.c (words of a line), orderplan_pieces.c (weights of sets, at, ramp),
 * orderplan_set.c (the line of a set, and weights) and orderplan_amend.c. */
#ifndef COMMON_ORDERPLAN_PRIV_H
#define COMMON_ORDERPLAN_PRIV_H

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/message.h"

enum { PLAN_WORD_MAX = 4096 };

/** A weight as a reduced fraction. */
struct plan_fraction {
    uint64_t up, down;
};

/** The state of the parser. */
struct plan_parser {
    struct orderplan *plan;
    const char *folder;
    const char *at;  /* where the parser is in the current line */
    const char *end; /* end of the line */
    unsigned line;
    bool labels_given;
    struct plan_fraction weights[MIXTURE_SETS_MAX]; /* weights in the lines of the sets */
    size_t len;                                     /* length of the canonical text */
    struct plenum_error *err;
};

/** Insert the line's number before the message; returns `r`. */
int plan_line_error(const struct plan_parser *p, int r);
/** Set the error for the current line; returns -EINVAL. */
MESSAGE_FORMAT(2, 3)
int plan_fail(const struct plan_parser *p, const char *format, ...);

/* ---- orderplan_words.c ---- */

bool plan_is_blank(char c);
void plan_skip_blanks(struct plan_parser *p);
/** Read the next word into `ret` [PLAN_WORD_MAX]. Between double quotes, spaces are part of the
 *  word, and a backslash escapes the next character. Returns the word's length, 0 at the end of the
 *  line, or -EINVAL. */
int plan_next_word(struct plan_parser *p, char *ret);
/** Read a word that must not be missing; the error calls it `what`. Like the functions below,
 *  returns 0 or -EINVAL. */
int plan_need_word(struct plan_parser *p, const char *what, char *ret);
int plan_need_number(struct plan_parser *p, const char *what, uint64_t most, uint64_t *ret);
int plan_need_end(struct plan_parser *p);

/* ---- orderplan_pieces.c ---- */

/** Parse a weight such as "7", "0.25" or "1/3". Returns 0, or -EINVAL with a message. */
int plan_parse_weight(struct plan_parser *p, const char *word, struct plan_fraction *ret);
/** Reduce the weights of all sets to the smallest integers with the same proportions. */
int plan_reduce(struct plan_parser *p, const struct plan_fraction *from, uint32_t *ret);
/** Append a piece, whose weights the caller then fills in. */
int plan_add_piece(struct plan_parser *p, uint64_t start, uint32_t **ret);
int plan_parse_at(struct plan_parser *p);
int plan_parse_ramp(struct plan_parser *p);

/* ---- orderplan_set.c ---- */

int plan_parse_set(struct plan_parser *p);
/** Parse "weights PASS NAME RULE", after the first word. */
int plan_parse_reweigh(struct plan_parser *p);

#endif

/* SPDX-License-Identifier: MIT */
/* orderplan.h - plans: text that defines which samples a stream shows, and how often.
 *
 * A plan replaces the name of a data set. It has a line for each data set and one for each setting;
 * docs/sampling.md describes them for users:
 *
 *     set NAME WEIGHT [KEY=VALUE ...] DATASET
 *     at POSITION NAME WEIGHT [NAME WEIGHT ...]
 *     ramp FROM TO STEPS NAME WEIGHT [NAME WEIGHT ...]
 *     block K
 *     epoch N or NAME
 *     labels names, numbers or stack
 *     skip FROM TO
 *     stratify label or set
 *     balance label [classes=P each=K]
 *     weights PASS NAME RULE */
#ifndef COMMON_ORDERPLAN_H
#define COMMON_ORDERPLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/order/mixture.h"
#include "common/order/order.h"

enum {
    ORDERPLAN_TEXT_MAX = 16384, /* bytes of a plan with its NUL */
    ORDERPLAN_NAME_MAX = 64,    /* bytes of a set's name with its NUL */
    ORDERPLAN_SKIPS_MAX = 64,
    ORDERPLAN_REWEIGHS_MAX = 256,
};

/** How a plan numbers the classes of its sets. */
enum orderplan_labels {
    ORDERPLAN_NAMES, /* classes with equal names are one class; numbers stay */
    ORDERPLAN_NUMBERS,
    ORDERPLAN_STACK, /* each set's classes follow those of the previous set */
};

/** Whether each set has its own order. */
enum orderplan_order {
    ORDERPLAN_MIX,          /* yes, and they are mixed by weight; or there is one set */
    ORDERPLAN_STRATA_LABEL, /* one order of all samples, in which classes have their shares */
    ORDERPLAN_STRATA_SET,   /* one order of all samples, in which sets have their shares */
    ORDERPLAN_BALANCE,      /* one order of all samples, in which classes are equal */
};

/** One data set. */
struct orderplan_set {
    char name[ORDERPLAN_NAME_MAX];
    char *dataset;  /* its name, with absolute paths */
    char *select;   /* which samples; NULL: all; paths are absolute */
    char *weights;  /* the rule that weighs samples, or NULL; paths are absolute */
    char *relabel;  /* the absolute path of a file of new classes, or NULL */
    bool drawn;     /* samples are drawn independently by weight */
    uint32_t epoch; /* positions per pass with weights; 0: the rule decides */
    enum order_shuffle shuffle;
    uint32_t block;  /* ORDER_BLOCK */
    uint32_t repeat; /* at least 1 */
};

/** New weights of a set's samples, starting at one of its passes. */
struct orderplan_reweigh {
    uint32_t set;
    uint32_t pass; /* at least 1 */
    char *weights; /* a rule, like that of the set */
};

/** A parsed plan. */
struct orderplan {
    char text[ORDERPLAN_TEXT_MAX]; /* in canonical form */
    struct orderplan_set sets[MIXTURE_SETS_MAX];
    uint32_t num_sets;
    uint32_t block; /* K */
    bool block_given;
    uint32_t epoch;     /* positions, or 0 */
    uint32_t epoch_set; /* the set that an epoch shows, or UINT32_MAX */
    enum orderplan_labels labels;
    enum orderplan_order order;
    uint32_t classes, each; /* BALANCE: classes in a block and samples of each, or 0 */
    struct mixture_piece pieces[MIXTURE_PIECES_MAX]; /* they point into `weights` */
    uint32_t num_pieces;
    struct order_gap skips[ORDERPLAN_SKIPS_MAX]; /* global positions that are not shown */
    uint32_t num_skips;
    struct orderplan_reweigh reweighs[ORDERPLAN_REWEIGHS_MAX]; /* by set and pass, ascending */
    uint32_t num_reweighs;
    uint32_t weights[MIXTURE_WEIGHTS_MAX]; /* [pieces][sets] */
};

/** Returns whether this is the text of a plan, and not the name of a data set: it has a line feed,
 * and its first word has neither '/' nor ':'. */
bool orderplan_is(const char *text);

/**
 * Read the plan's text if `name` is "@FILE"; copy any other name. The caller frees it. Errors, each
 * with a message: -EINVAL: it is longer than a plan may be, or contains a zero byte; -ENOMEM; or
 * another -errno of the file system.
 */
int orderplan_read(const char *name, char **ret, struct plenum_error *err);

/**
 * Parse a plan. Relative paths are made absolute below `folder`; NULL: relative paths are rejected.
 * The result is freed with orderplan_free(). Errors: -EINVAL with a message that names the line;
 * -ENOMEM.
 */
int orderplan_parse(const char *text, const char *folder, struct orderplan **ret,
                    struct plenum_error *err);
/** NULL is ignored. */
void orderplan_free(struct orderplan *plan);

/**
 * Change a plan by `lines` that begin with "at", "ramp" or "weights". Lines with "at" and "ramp"
 * replace all changes from the first of their positions on. `ret_from` is that position, or
 * UINT64_MAX if there are no such lines; it is also set if the new plan is refused. Lines with
 * "weights" replace the weights of their set's samples from the first of their passes on. For
 * `folder` and errors, see orderplan_parse().
 */
int orderplan_amend(const struct orderplan *plan, const char *lines, const char *folder,
                    struct orderplan **ret, uint64_t *ret_from, struct plenum_error *err);

/** Make every data set "generated:" instead of reading it (PLENUM_SOURCE=generated). */
int orderplan_generate(struct orderplan *plan, struct plenum_error *err);

/** Write a short name for messages and logs, such as "mixture of photos, art, web" or "plan of
 * photos". Returns `ret`. */
char *orderplan_describe(const struct orderplan *plan, char *ret, size_t size);

/** Returns the start of the last piece that begins before global position g; 0 if there is none. */
static inline unsigned long long orderplan_last_start(const struct orderplan *plan, uint64_t g)
{
    unsigned long long start = 0;

    for (uint32_t j = 0; j < plan->num_pieces && plan->pieces[j].start < g; j++)
        start = plan->pieces[j].start;
    return start;
}

/** Read the next word of a selection into `ret`, which is as large as the text. Spaces in 'single
 * quotes' are part of a word. Returns the text after the word and any spaces; `open` says whether a
 * closing quote is missing. */
const char *orderplan_select_word(const char *at, char *ret, bool *open);

/** Returns how often the samples of a set get new weights. */
static inline uint32_t orderplan_count_reweighs(const struct orderplan *plan, uint32_t set)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->num_reweighs; i++)
        count += plan->reweighs[i].set == set;
    return count;
}

/** Returns the number of the set with this name, or UINT32_MAX. */
uint32_t orderplan_find(const struct orderplan *plan, const char *name, size_t len);

#endif

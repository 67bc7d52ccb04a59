/* SPDX-License-Identifier: MIT */
/* fair_queue.h - fair queueing: of the flows that want a turn, the one that has used least is
 * next. */
#ifndef LOADER_SERVE_FAIR_QUEUE_H
#define LOADER_SERVE_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_LEVELS = 3 }; /* below the root: users, their jobs, their streams */

/**
 * A flow that takes turns with others, in a tree: at each level all children have equal shares,
 * whatever is below them. Shares are of the cost of turns (CPU time). A flow that is idle for a
 * while neither loses nor saves up anything.
 *
 * Turns may also be held (by threads that read). No child holds more than its share of them at a
 * time while others want some.
 */
struct flow {
    struct flow *parent;     /* NULL: the root */
    struct flow *next, **at; /* in the parent's list of backlogged children; at NULL: not there */
    struct flow *backlogged; /* children that want turns */
    uint64_t start_tag;      /* virtual start time of its next turn */
    uint64_t virtual_time;   /* of its children: the start tag of the turn being served */
    unsigned held;           /* turns that are held now */
    unsigned active;         /* children that want or hold turns */
    bool counted;            /* it is one of the parent's active children */
};

/** One turn of a leaf. */
struct flow_turn {
    /* start tags of the leaf and of the flows above it when the turn began; the user's last */
    uint64_t start_tags[FLOW_LEVELS];
    uint64_t cost; /* as far as it is known */
};

/** A child of `parent` (NULL: a root). It begins at `start_tag`, or at the parent's virtual time if
 * that is later. */
void flow_init(struct flow *f, struct flow *parent, uint64_t start_tag);

/** A leaf wants turns now, or does not. */
void flow_set_backlogged(struct flow *leaf, bool wants);

/** The leaf that is next, or NULL when no leaf may take a turn. At most `limit` turns may be held;
 * a leaf is next only where its share of them, and that of each flow above it, is not used up. */
struct flow *flow_pick(const struct flow *root, unsigned limit);

/** Charge a leaf for a turn, by an estimate of its cost. */
void flow_charge(struct flow *leaf, uint64_t cost, struct flow_turn *ret);
/** The turn is being served: virtual time goes on to its start tag. */
void flow_serve(struct flow *leaf, const struct flow_turn *turn);
/** Correct the estimate. */
void flow_settle(struct flow *leaf, struct flow_turn *turn, uint64_t cost);

/** May the leaf hold one more turn, by the same rule as flow_pick()? */
bool flow_may_hold(const struct flow *leaf, unsigned limit);
void flow_hold(struct flow *leaf);
void flow_release(struct flow *leaf);

#endif

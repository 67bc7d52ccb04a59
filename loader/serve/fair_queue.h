/* SPDX-License-Identifier: MIT */
/* fair_queue.h - implements fair queueing: the next turn goes to the flow that has used the
 * least. */
#ifndef LOADER_SERVE_FAIR_QUEUE_H
#define LOADER_SERVE_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { FLOW_LEVELS = 3 }; /* below the root: users, their jobs, the jobs' streams */

/**
 * A flow that takes turns with others, in a tree. At each level all children have equal shares, no
 * matter how many flows are below them. A share is measured in the cost of turns (CPU time). An
 * idle flow neither loses nor saves up any share.
 *
 * Turns can also be held for a time (by reading threads). While others want turns, no child holds
 * more than its share of them.
 */
struct flow {
    struct flow *parent; /* NULL: the root */
    /* Links of the parent's list of backlogged children. `at` is NULL outside the list. */
    struct flow *next, **at;
    struct flow *backlogged; /* children that want turns */
    uint64_t start_tag;      /* virtual start time of its next turn */
    uint64_t virtual_time;   /* start tag of the turn being served among its children */
    unsigned held;           /* turns held now */
    unsigned active;         /* children that want or hold turns */
    bool counted;            /* counted among the parent's active children */
};

/** One turn of a leaf. */
struct flow_turn {
    /* Start tags of the leaf and of the flows above it when the turn began; the user's is last. */
    uint64_t start_tags[FLOW_LEVELS];
    uint64_t cost; /* estimated until flow_settle() */
};

/** Add a child to `parent` (NULL: create a root). It starts at `start_tag`, or at the parent's
 * virtual time if that is later. */
void flow_init(struct flow *f, struct flow *parent, uint64_t start_tag);

/** Set whether a leaf wants turns. */
void flow_set_backlogged(struct flow *leaf, bool wants);

/** Returns the leaf whose turn is next, or NULL if no leaf may take a turn. At most `limit` turns
 * may be held at a time. A leaf may take one only if it, and each flow above it, holds fewer turns
 * than its share. */
struct flow *flow_pick(const struct flow *root, unsigned limit);

/** Charge a leaf for a turn, using an estimate of its cost. */
void flow_charge(struct flow *leaf, uint64_t cost, struct flow_turn *ret);
/** Advance virtual time to the start tag of a turn that is being served. */
void flow_serve(struct flow *leaf, const struct flow_turn *turn);
/** Correct the estimate of flow_charge(). */
void flow_settle(struct flow *leaf, struct flow_turn *turn, uint64_t cost);

/** Returns whether the leaf may hold one more turn, by the same rule as in flow_pick(). */
bool flow_may_hold(const struct flow *leaf, unsigned limit);
void flow_hold(struct flow *leaf);
void flow_release(struct flow *leaf);

#endif

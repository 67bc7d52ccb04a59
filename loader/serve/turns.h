/* SPDX-License-Identifier: MIT */
/* turns.h - whose turn it is: of those who want one, theirs who have had least. */
#ifndef LOADER_SERVE_TURNS_H
#define LOADER_SERVE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

enum { TURNS_LEVELS = 3 }; /* below the root: users, their jobs, their streams */

/**
 * One who takes turns with others, in a tree: at each level shares are equal, whatever each child
 * has below it. Shares are of what turns cost (CPU time). Who wants none for a while loses nothing
 * and saves nothing up.
 *
 * Turns may also be held (by threads that read): of these no child has more than its share at a
 * time while others want some.
 */
struct turns {
    struct turns *parent;     /* NULL: the root */
    struct turns *next, **at; /* among the parent's children that want; at NULL: it is none */
    struct turns *wanting;    /* children that want */
    uint64_t had;             /* cost of its turns, counted from the floor where it came */
    uint64_t floor;           /* where children begin that come: what the one served last had */
    unsigned held;            /* turns that are held now */
    unsigned active;          /* children that want or hold turns */
    bool counted;             /* among the parent's active ones */
};

/** One turn that was taken. */
struct turn {
    /* what the leaf and those above it had before it; the user's last */
    uint64_t tags[TURNS_LEVELS];
    uint64_t cost; /* as it is known so far */
};

/** A child of `parent` (NULL: a root) that has had `had`, or the parent's floor if that is more. */
void turns_init(struct turns *t, struct turns *parent, uint64_t had);

/** A leaf wants turns, or none (any more). */
void turns_want(struct turns *leaf, bool wants);

/** The leaf whose turn it is, or NULL: nobody may take one. At most `limit` turns may be held; a
 * leaf gets one only where its share of them, and of each above it, is not used up. */
struct turns *turns_next(const struct turns *root, unsigned limit);

/** A leaf takes a turn that is thought to cost so much. */
void turns_take(struct turns *leaf, uint64_t cost, struct turn *ret);
/** The turn is being served: who comes from now on begins with what its owner had before it. */
void turns_serve(struct turns *leaf, const struct turn *turn);
/** What it has cost really. */
void turns_settle(struct turns *leaf, struct turn *turn, uint64_t cost);

/** May it hold one more, by the same rule? */
bool turns_may_hold(const struct turns *leaf, unsigned limit);
void turns_hold(struct turns *leaf);
void turns_release(struct turns *leaf);

#endif

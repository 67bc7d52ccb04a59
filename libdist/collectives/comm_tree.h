/* SPDX-License-Identifier: MIT */
/* comm_tree.h - the tree of combine.h when its leaves are on several hosts. A host combines the
 * largest subtrees whose leaves it has, and others combine those. */
#ifndef LIBDIST_COLLECTIVES_COMM_TREE_H
#define LIBDIST_COLLECTIVES_COMM_TREE_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** A subtree on one host: leaves first ... last - 1. */
struct comm_subtree {
    uint32_t first, last, host;
    unsigned char *data; /* its values, for comm_tree_finish() */
};

struct comm_tree {
    uint32_t instances, count;
    struct comm_subtree *subtrees; /* [count], in order */
};

/** Divide the tree. @param first  [hosts + 1]: the first instance on each host, and their number.
 * Returns 0 or -ENOMEM. */
int comm_tree_create(const uint32_t *first, uint32_t hosts, struct comm_tree *ret);
void comm_tree_destroy(struct comm_tree *tree);

/** Combine all subtrees' data, which is overwritten; a mean is divided. Values of wide sums
 * (combine_is_wide()) are float32, and stay so. Returns the result. */
unsigned char *comm_tree_finish(const struct comm_tree *tree, size_t count, enum plenum_type type,
                                enum plenum_op op);

#endif

/* SPDX-License-Identifier: MIT */
/* treap.h - an intrusive ordered set: the nodes are members of the objects, as in list.h.
 *
 * A treap is a search tree whose shape depends only on its keys: the hash of a node's key is larger
 * than those of the nodes below it. All functions take logarithmic time on average. Keys are
 * unique. Threads: the caller's lock protects everything. */
#ifndef LOADER_SERVE_TREAP_H
#define LOADER_SERVE_TREAP_H

#include <stdint.h>

struct treap_node {
    struct treap_node *left, *right;
    uint64_t key;
};

/** NULL: the set is empty. */
struct treap {
    struct treap_node *root;
};

/** Add a node, whose key is set and not in the set yet. */
void treap_add(struct treap *treap, struct treap_node *node);
/** Remove a node, which must be in the set. */
void treap_remove(struct treap *treap, struct treap_node *node);

/** These return the node with this key, the smallest or the largest key, or NULL. */
struct treap_node *treap_find(const struct treap *treap, uint64_t key);
struct treap_node *treap_first(const struct treap *treap);
struct treap_node *treap_last(const struct treap *treap);

#endif

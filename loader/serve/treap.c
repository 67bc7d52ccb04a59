/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/treap.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

static uint64_t hash(uint64_t key)
{
    key = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
    key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9;
    return key ^ key >> 32;
}

static bool is_above(const struct treap_node *a, const struct treap_node *b)
{
    return hash(a->key) > hash(b->key);
}

/* Split a tree: nodes whose keys are less than `key` go to `less`, the others to `more`. */
static void split(struct treap_node *tree, uint64_t key, struct treap_node **less,
                  struct treap_node **more)
{
    while (tree) {
        if (tree->key < key) {
            *less = tree;
            less = &tree->right;
            tree = tree->right;
        } else {
            *more = tree;
            more = &tree->left;
            tree = tree->left;
        }
    }
    *less = *more = NULL;
}

/* Join two trees; all keys of `less` are smaller. */
static void join(struct treap_node *less, struct treap_node *more, struct treap_node **ret)
{
    while (less && more) {
        if (is_above(less, more)) {
            *ret = less;
            ret = &less->right;
            less = less->right;
        } else {
            *ret = more;
            ret = &more->left;
            more = more->left;
        }
    }
    *ret = less ? less : more;
}

void treap_add(struct treap *treap, struct treap_node *node)
{
    struct treap_node **at = &treap->root;

    while (*at && is_above(*at, node)) {
        assert((*at)->key != node->key);
        at = node->key < (*at)->key ? &(*at)->left : &(*at)->right;
    }
    split(*at, node->key, &node->left, &node->right);
    *at = node;
}

void treap_remove(struct treap *treap, struct treap_node *node)
{
    struct treap_node **at = &treap->root;

    while (*at != node) {
        assert(*at);
        at = node->key < (*at)->key ? &(*at)->left : &(*at)->right;
    }
    join(node->left, node->right, at);
    node->left = node->right = NULL;
}

struct treap_node *treap_find(const struct treap *treap, uint64_t key)
{
    struct treap_node *at = treap->root;

    while (at && at->key != key)
        at = key < at->key ? at->left : at->right;
    return at;
}

struct treap_node *treap_first(const struct treap *treap)
{
    struct treap_node *at = treap->root;

    while (at && at->left)
        at = at->left;
    return at;
}

struct treap_node *treap_last(const struct treap *treap)
{
    struct treap_node *at = treap->root;

    while (at && at->right)
        at = at->right;
    return at;
}

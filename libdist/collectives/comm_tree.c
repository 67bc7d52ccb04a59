/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/collectives/comm_tree.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "libdist/collectives/combine.h"

/* Where a tree of more than one leaf divides: after the largest power of two below its size. */
static uint32_t middle(uint32_t first, uint32_t last)
{
    uint32_t half = 1;

    while (half * 2 < last - first)
        half *= 2;
    return first + half;
}

static uint32_t host_of(const uint32_t *first, uint32_t instance)
{
    uint32_t host = 0;

    while (first[host + 1] <= instance)
        host++;
    return host;
}

static void divide(struct comm_tree *tree, const uint32_t *first, uint32_t from, uint32_t to)
{
    uint32_t host = host_of(first, from);

    if (to <= first[host + 1]) {
        tree->subtrees[tree->count++] =
            (struct comm_subtree){.first = from, .last = to, .host = host};
        return;
    }
    divide(tree, first, from, middle(from, to));
    divide(tree, first, middle(from, to), to);
}

int comm_tree_create(const uint32_t *first, uint32_t hosts, struct comm_tree *ret)
{
    *ret = (struct comm_tree){.instances = first[hosts]};
    ret->subtrees = calloc(first[hosts], sizeof(*ret->subtrees));
    if (!ret->subtrees)
        return -ENOMEM;
    divide(ret, first, 0, first[hosts]);
    return 0;
}

void comm_tree_destroy(struct comm_tree *tree)
{
    free(tree->subtrees);
    tree->subtrees = NULL;
}

/* The elements of a reduction. */
struct elements {
    size_t count;
    enum plenum_type type;
    enum plenum_op op;
};

/* Combine the tree of leaves `from` ... `to` - 1, whose first subtree is `*at`. */
static unsigned char *join(const struct elements *e, const struct comm_subtree **at, uint32_t from,
                           uint32_t to)
{
    const void *inputs[2];
    unsigned char *left;

    assert((*at)->first == from);
    if ((*at)->last == to)
        return (*at)++->data;
    left = join(e, at, from, middle(from, to));
    inputs[0] = left;
    inputs[1] = join(e, at, middle(from, to), to);
    combine_node(left, &(struct combine_inputs){.from = inputs, .inputs = 2}, e->count, e->type,
                 e->op);
    return left;
}

unsigned char *comm_tree_finish(const struct comm_tree *tree, size_t count, enum plenum_type type,
                                enum plenum_op op)
{
    const struct elements e = {count, combine_is_wide(type, op) ? PLENUM_FLOAT32 : type, op};
    const struct comm_subtree *at = tree->subtrees;
    unsigned char *all = join(&e, &at, 0, tree->instances);
    const void *input = all;

    if (op == PLENUM_MEAN)
        combine_node(
            all, &(struct combine_inputs){.from = &input, .inputs = 1, .divisor = tree->instances},
            count, e.type, op);
    return all;
}

/* SPDX-License-Identifier: MIT */
/* fair_queue.c - start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) in a tree.
 *
 * Each flow has a start tag: the sum of the costs of its turns. The backlogged flow with the
 * smallest start tag is next; within it, its child with the smallest start tag, and so on. The cost
 * of a turn is known only when the turn is over. So a flow is first charged an estimate, which is
 * then corrected.
 *
 * The virtual time of a parent is the start tag of the turn that is being served now. A flow that
 * becomes backlogged begins at the virtual time: it gets no credit for the time in which it was
 * idle. The start tag of a backlogged flow is at most one turn below the virtual time. So a flow
 * waits at most for the turns in progress and for one turn of each other flow. */
#include "config.h"

#include "loader/serve/fair_queue.h"

#include <assert.h>
#include <stddef.h>

#include "common/util/util.h"

void flow_init(struct flow *f, struct flow *parent, uint64_t start_tag)
{
    *f = (struct flow){.parent = parent,
                       .start_tag = parent ? max_u64(start_tag, parent->virtual_time) : 0};
}

/* Update the number of active flows. A flow is active while it is backlogged or holds turns; active
 * flows share the turns. */
static void count_active(struct flow *f, bool wants)
{
    bool active = wants || f->held > 0;

    if (!f->parent || active == f->counted)
        return;
    f->counted = active;
    assert(active || f->parent->active > 0);
    f->parent->active += active ? 1 : -1U;
}

void flow_set_backlogged(struct flow *leaf, bool wants)
{
    assert(!leaf->backlogged);
    for (struct flow *f = leaf; f->parent && wants != (f->at != NULL); f = f->parent) {
        struct flow *p = f->parent;
        bool others = p->backlogged != NULL;

        if (wants) {
            f->start_tag = max_u64(f->start_tag, p->virtual_time);
            f->next = p->backlogged;
            f->at = &p->backlogged;
            if (f->next)
                f->next->at = &f->next;
            p->backlogged = f;
        } else {
            assert(*f->at == f);
            *f->at = f->next;
            if (f->next)
                f->next->at = f->at;
            f->at = NULL;
            others = p->backlogged != NULL;
        }
        count_active(f, wants);
        if (others) /* the parent stays backlogged because of its other children */
            return;
    }
}

/* Returns the share of `limit` for each of `among` flows, rounded up: one thread too many is better
 * than an idle one. */
static unsigned share(unsigned limit, unsigned among)
{
    return among > 1 ? limit / among + (limit % among > 0) : limit;
}

struct flow *flow_pick(const struct flow *root, unsigned limit)
{
    unsigned each = share(limit, root->active);
    struct flow *leaf = NULL, *found;
    uint64_t least = 0;

    for (struct flow *f = root->backlogged; f; f = f->next) {
        if (f->held >= each || (leaf && f->start_tag >= least))
            continue;
        found = f->backlogged ? flow_pick(f, each) : f;
        if (found) {
            leaf = found;
            least = f->start_tag;
        }
    }
    return leaf;
}

void flow_charge(struct flow *leaf, uint64_t cost, struct flow_turn *ret)
{
    unsigned i = 0;

    *ret = (struct flow_turn){.cost = cost};
    for (struct flow *f = leaf; f->parent; f = f->parent) {
        assert(i < FLOW_LEVELS);
        ret->start_tags[i++] = f->start_tag;
        f->start_tag += cost;
    }
}

void flow_serve(struct flow *leaf, const struct flow_turn *turn)
{
    unsigned i = 0;

    for (struct flow *f = leaf; f->parent; f = f->parent, i++) {
        assert(i < FLOW_LEVELS);
        f->parent->virtual_time = max_u64(f->parent->virtual_time, turn->start_tags[i]);
    }
}

void flow_settle(struct flow *leaf, struct flow_turn *turn, uint64_t cost)
{
    for (struct flow *f = leaf; f->parent; f = f->parent) {
        assert(f->start_tag >= turn->cost);
        f->start_tag += cost - turn->cost;
    }
    turn->cost = cost;
}

static unsigned share_of(const struct flow *f, unsigned limit)
{
    return f->parent ? share(share_of(f->parent, limit), f->parent->active) : limit;
}

bool flow_may_hold(const struct flow *leaf, unsigned limit)
{
    for (const struct flow *f = leaf; f; f = f->parent)
        if (f->held >= share_of(f, limit))
            return false;
    return true;
}

void flow_hold(struct flow *leaf)
{
    for (struct flow *f = leaf; f; f = f->parent) {
        f->held++;
        count_active(f, f->at != NULL);
    }
}

void flow_release(struct flow *leaf)
{
    for (struct flow *f = leaf; f; f = f->parent) {
        assert(f->held > 0);
        f->held--;
        count_active(f, f->at != NULL);
    }
}

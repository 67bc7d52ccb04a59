/* SPDX-License-Identifier: MIT */
/* turns.c - start-time fair queueing in a tree.
 *
 * Each child counts what its turns have cost; of those that want one, the child with the least is
 * next, and of its children likewise. What a turn costs is known only when it is over, so it is
 * first charged as what it is thought to cost, and then settled.
 *
 * Who comes (back) begins at the floor: what the turn that is being served now was tagged with.
 * Nobody who wants a turn has less than that by more than one turn, so none waits for longer than
 * the others' turns that are under way and one of each. */
#include "config.h"

#include "loader/serve/turns.h"

#include <assert.h>
#include <stddef.h>

#include "common/util.h"

void turns_init(struct turns *t, struct turns *parent, uint64_t had)
{
    *t = (struct turns){.parent = parent, .had = parent ? max_u64(had, parent->floor) : 0};
}

/* Who wants turns or holds some counts when they are shared. */
static void count_active(struct turns *t, bool wants)
{
    bool active = wants || t->held > 0;

    if (!t->parent || active == t->counted)
        return;
    t->counted = active;
    t->parent->active += active ? 1 : -1U;
}

void turns_want(struct turns *leaf, bool wants)
{
    for (struct turns *t = leaf; t->parent && wants != (t->at != NULL); t = t->parent) {
        struct turns *p = t->parent;
        bool others = p->wanting != NULL;

        if (wants) {
            t->had = max_u64(t->had, p->floor);
            t->next = p->wanting;
            t->at = &p->wanting;
            if (t->next)
                t->next->at = &t->next;
            p->wanting = t;
        } else {
            *t->at = t->next;
            if (t->next)
                t->next->at = t->at;
            t->at = NULL;
            others = p->wanting != NULL;
        }
        count_active(t, wants);
        if (others) /* the parent wants anyway */
            return;
    }
}

/* The part of `limit` that each of so many has. It is rounded up: one thread too many is better
 * than one that idles. */
static unsigned share(unsigned limit, unsigned among)
{
    return among > 1 ? limit / among + (limit % among > 0) : limit;
}

struct turns *turns_next(const struct turns *root, unsigned limit)
{
    unsigned each = share(limit, root->active);
    struct turns *leaf = NULL, *found;
    uint64_t least = 0;

    for (struct turns *t = root->wanting; t; t = t->next) {
        if (t->held >= each || (leaf && t->had >= least))
            continue;
        found = t->wanting ? turns_next(t, each) : t;
        if (found) {
            leaf = found;
            least = t->had;
        }
    }
    return leaf;
}

void turns_take(struct turns *leaf, uint64_t cost, struct turn *ret)
{
    unsigned i = 0;

    *ret = (struct turn){.cost = cost};
    for (struct turns *t = leaf; t->parent; t = t->parent) {
        assert(i < TURNS_LEVELS);
        ret->tags[i++] = t->had;
        t->had += cost;
    }
}

void turns_serve(struct turns *leaf, const struct turn *turn)
{
    unsigned i = 0;

    for (struct turns *t = leaf; t->parent; t = t->parent, i++)
        t->parent->floor = max_u64(t->parent->floor, turn->tags[i]);
}

void turns_settle(struct turns *leaf, struct turn *turn, uint64_t cost)
{
    for (struct turns *t = leaf; t->parent; t = t->parent) {
        assert(t->had >= turn->cost);
        t->had += cost - turn->cost;
    }
    turn->cost = cost;
}

static unsigned share_of(const struct turns *t, unsigned limit)
{
    return t->parent ? share(share_of(t->parent, limit), t->parent->active) : limit;
}

bool turns_may_hold(const struct turns *leaf, unsigned limit)
{
    for (const struct turns *t = leaf; t; t = t->parent)
        if (t->held >= share_of(t, limit))
            return false;
    return true;
}

void turns_hold(struct turns *leaf)
{
    for (struct turns *t = leaf; t; t = t->parent) {
        t->held++;
        count_active(t, t->at != NULL);
    }
}

void turns_release(struct turns *leaf)
{
    for (struct turns *t = leaf; t; t = t->parent) {
        assert(t->held > 0);
        t->held--;
        count_active(t, t->at != NULL);
    }
}

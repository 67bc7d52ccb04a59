/* SPDX-License-Identifier: MIT */
/* renderings.c - decides which renderings are kept.
 *
 * All places of a group are on one axis: epoch * 2N + position. The positions from N on are the
 * padding of an epoch's last step. They show the pixels of the positions from 0 on, but an epoch
 * later, so they have renderings of their own. Positions from 2N on, which only steps larger than
 * an epoch have, are never kept, but use the renderings of the padding before them.
 *
 * A rendering is in its group's tree, where streams find it, and in the tree of the stream that
 * needs it next. A stream takes its renderings in ascending order, so its farthest one is the last
 * of its tree, and only these last ones are compared to find the rendering to drop.
 *
 * The next stream is chosen when the rendering is made or taken. Another stream may need it earlier
 * by the time it would be dropped, because it has just begun or is faster. So the choice is checked
 * again then. A stream that no longer needs a rendering has passed it: some of the first ones
 * of its tree are checked whenever it begins a position, and the rest by renderings_tidy(). */
#include "config.h"

#include "loader/serve/renderings.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/list.h"
#include "common/util/util.h"

enum {
    PACE_MEAN = 8,   /* steps */
    PASSED_MAX = 64, /* renderings of a jump that are passed at once */
    CHECKS_MAX = 64, /* renderings whose next stream is checked before one is dropped */
};

/* A user with groups. */
struct renderings_user {
    struct list link;
    unsigned groups, sharing; /* sharing: groups with several streams */
    uint64_t bytes;           /* of kept renderings */
    char name[];
};

/* An upper bound for the memory of a rendering beside its bytes. */
enum { OVERHEAD = sizeof(struct rendering) + 64 };

struct renderings_group {
    struct renderings *table;
    struct renderings_user *user;
    struct list link, readers;
    unsigned present;    /* readers that have not left */
    struct treap places; /* kept renderings */
    uint64_t members;    /* renderings that are kept or pinned */
    uint64_t positions, bytes;
    size_t key_len;
    char key[];
};

struct renderings_reader {
    struct renderings_group *group;
    struct list link;
    struct treap uses; /* renderings that it needs next */
    bool left;
    bool begun; /* it has begun a position, and was not forgotten since */
    uint32_t local;
    struct order_share share;
    struct order_place step;  /* the step that it has begun last */
    uint32_t index;           /* the first index of that step that it has not begun */
    uint64_t floor;           /* `step` on the axis */
    uint64_t ahead, whole;    /* positions of the epoch from `step` on, and of other epochs */
    uint64_t step_ns, now_ns; /* when it began the step, and its last position */
    double pace_ns;           /* mean time per position */
};

struct renderings {
    struct renderings_counts counts;
    struct list groups, users;
    struct rendering *dead;
};

static struct rendering *of_use(struct treap_node *node)
{
    return node ? container_of(node, struct rendering, use) : NULL;
}

static struct renderings_reader *reader_of(struct list *link)
{
    return container_of(link, struct renderings_reader, link);
}

static uint64_t axis(const struct renderings_group *g, struct order_place place)
{
    return place.epoch * 2 * g->positions + min_u64(place.position, 2 * g->positions - 1);
}

static struct order_place place_at(const struct renderings_group *g, uint64_t at)
{
    return (struct order_place){at / (2 * g->positions), at % (2 * g->positions)};
}

/* Returns whether the stream will begin this place, as far as known. */
static bool needs(const struct renderings_reader *r, uint64_t at)
{
    const struct order_steps *steps = &r->share.steps;
    struct order_place place = place_at(r->group, at);
    uint64_t base, in_step;
    uint32_t index;

    if (!r->begun || r->left || at < r->floor)
        return false;
    base = place.epoch == r->step.epoch ? r->step.position % steps->per_step : 0;
    if (place.position < base)
        return false;
    in_step = (place.position - base) % steps->per_step;
    place.position -= in_step;
    if (!order_place_has_step(steps, place))
        return false;
    index = order_undeal(steps->per_step, r->share.deal, (uint32_t)in_step) - r->share.offset;
    if (index >= r->local)
        return false;
    if (place.epoch > r->step.epoch || place.position > r->step.position)
        return true;
    return place.position == r->step.position && index >= r->index;
}

/* Returns the number of positions that the stream begins until a place, counted from its step. */
static uint64_t distance(const struct renderings_reader *r, struct order_place place)
{
    if (place.epoch > r->step.epoch)
        return r->ahead + (place.epoch - r->step.epoch - 1) * r->whole + place.position;
    if (place.epoch == r->step.epoch && place.position > r->step.position)
        return place.position - r->step.position;
    return 0;
}

/* Returns the expected time until the stream begins a place. A stream that has begun nothing for
 * longer than usual is assumed to be that slow from now on. */
static double wait_of(const struct renderings_reader *r, uint64_t at, uint64_t now_ns)
{
    double idle_ns = (double)(now_ns - r->now_ns) / r->share.steps.per_step;
    double pace_ns = r->pace_ns > idle_ns ? r->pace_ns : idle_ns;

    if (!r->begun || r->left)
        return DBL_MAX;
    return (double)distance(r, place_at(r->group, at)) * pace_ns;
}

double renderings_wait_ns(const struct renderings_reader *r, struct order_place place,
                          uint64_t now_ns)
{
    return wait_of(r, axis(r->group, place), now_ns);
}

/* Returns the stream that needs a place first, or NULL. */
static struct renderings_reader *find_next(const struct renderings_group *g, uint64_t at,
                                           uint64_t now_ns)
{
    struct renderings_reader *best = NULL;
    double least = 0;

    for (struct list *link = list_first(&g->readers); link; link = list_next(&g->readers, link)) {
        struct renderings_reader *r = reader_of(link);
        double wait;

        if (!needs(r, at))
            continue;
        wait = wait_of(r, at, now_ns);
        if (!best || wait < least) {
            best = r;
            least = wait;
        }
    }
    return best;
}

static void set_next(struct rendering *r, struct renderings_reader *next)
{
    if (r->next)
        treap_remove(&r->next->uses, &r->use);
    r->next = next;
    if (next)
        treap_add(&next->uses, &r->use);
}

static uint64_t size_of(const struct renderings_group *g)
{
    return g->bytes + OVERHEAD;
}

static void bury_if_unused(struct rendering *r)
{
    struct renderings *t = r->group->table;

    if (r->listed || r->pins > 0)
        return;
    r->group->members--;
    r->dead = t->dead;
    t->dead = r;
}

/* Stop keeping a rendering. Threads and tasks that have pinned it may still use it. */
static void unlist(struct rendering *r)
{
    struct renderings_group *g = r->group;

    if (!r->listed)
        return;
    set_next(r, NULL);
    treap_remove(&g->places, &r->place);
    r->listed = false;
    g->user->bytes -= size_of(g);
    g->table->counts.bytes -= size_of(g);
    g->table->counts.kept--;
    bury_if_unused(r);
}

/* Choose the stream that needs a kept rendering next, or drop the rendering. */
static void choose_next(struct rendering *r, uint64_t now_ns)
{
    struct renderings_reader *next = find_next(r->group, r->use.key, now_ns);

    if (next)
        set_next(r, next);
    else
        unlist(r);
}

/* ---- making room ---- */

/* Returns the user's rendering whose next use is farthest away, without checking its next stream;
 * or NULL. */
static struct rendering *farthest(const struct renderings *t, const struct renderings_user *user,
                                  uint64_t now_ns, double *wait)
{
    struct rendering *best = NULL;

    for (struct list *at = list_first(&t->groups); at; at = list_next(&t->groups, at)) {
        const struct renderings_group *g = container_of(at, struct renderings_group, link);

        if (g->user != user || !g->places.root)
            continue;
        for (struct list *to = list_first(&g->readers); to; to = list_next(&g->readers, to)) {
            struct rendering *last = of_use(treap_last(&reader_of(to)->uses));
            double its = last ? wait_of(last->next, last->use.key, now_ns) : 0;

            if (last && (!best || its > *wait)) {
                best = last;
                *wait = its;
            }
        }
    }
    return best;
}

/* Returns the user that gives up renderings to make room for `more` bytes of `user`: `user` itself
 * if they would exceed its share of the limit, otherwise the user that keeps the most bytes. */
static const struct renderings_user *find_payer(const struct renderings *t,
                                                const struct renderings_user *user, uint64_t more)
{
    const struct renderings_user *most = user;
    unsigned sharing = 0;

    for (struct list *at = list_first(&t->users); at; at = list_next(&t->users, at)) {
        const struct renderings_user *u = container_of(at, struct renderings_user, link);

        sharing += u->sharing > 0;
        if (u->bytes > most->bytes)
            most = u;
    }
    return user->bytes + more > t->counts.limit / max_u64(sharing, 1) ? user : most;
}

/* Drop a rendering, unless all that may be dropped are needed before the time `wait`. Returns
 * whether one was dropped. */
static bool drop_one(struct renderings *t, const struct renderings_user *user, uint64_t more,
                     double wait, uint64_t now_ns)
{
    const struct renderings_user *payer = find_payer(t, user, more);

    for (unsigned i = 0;; i++) {
        double its = 0;
        struct rendering *r = farthest(t, payer, now_ns, &its);

        if (!r || (payer == user && its <= wait))
            return false;
        if (i < CHECKS_MAX && find_next(r->group, r->use.key, now_ns) != r->next) {
            choose_next(r, now_ns);
            if (!r->listed)
                return true;
            continue;
        }
        unlist(r);
        t->counts.evicted++;
        return true;
    }
}

/* Make room for a rendering that `next` needs. Returns false if it must not be kept. */
static bool make_room(struct renderings_reader *next, uint64_t at, uint64_t now_ns)
{
    struct renderings *t = next->group->table;
    uint64_t more = size_of(next->group);
    double wait = wait_of(next, at, now_ns);

    if (more > t->counts.limit)
        return false;
    while (t->counts.bytes + more > t->counts.limit)
        if (!drop_one(t, next->group->user, more, wait, now_ns))
            return false;
    return true;
}

/* ---- streams ---- */

bool renderings_are_shared(const struct renderings_reader *r)
{
    return r->group->present > 1 || r->group->places.root;
}

/* Account for a step that begins, after the one at `r->step`. */
static void begin_step(struct renderings_reader *r, const struct order_share *share,
                       struct order_place step, uint64_t now_ns)
{
    const struct order_steps *steps = &share->steps;
    uint64_t passed = r->begun ? distance(r, step) : 0;
    double each;

    if (passed > 0) {
        each = (double)(now_ns - r->step_ns) / (double)passed;
        r->pace_ns = r->pace_ns > 0 ? (r->pace_ns * (PACE_MEAN - 1) + each) / PACE_MEAN : each;
    }
    r->step = step;
    r->floor = axis(r->group, step);
    r->ahead = order_steps_left(steps, step) * steps->per_step;
    r->whole = order_steps_whole(steps) * steps->per_step;
    r->step_ns = now_ns;
}

/* Returns whether the reader's first rendering is one that it does not need any more. */
static bool has_passed(const struct renderings_reader *r)
{
    const struct rendering *first = of_use(treap_first(&r->uses));

    return first && (r->left || !r->begun || first->use.key < r->floor);
}

/* A jump may pass any number of renderings: renderings_tidy() continues after PASSED_MAX. */
void renderings_begin(struct renderings_reader *r, const struct order_share *share,
                      struct order_place step, uint32_t index, uint64_t now_ns)
{
    bool same = r->step.epoch == step.epoch && r->step.position == step.position;

    assert(index < r->local && share->steps.num_gaps == 0);
    if (!r->begun || !same || !order_share_is_same(&r->share, share))
        begin_step(r, share, step, now_ns);
    r->begun = true;
    r->share = *share;
    r->index = index + 1;
    r->now_ns = now_ns;
    for (unsigned i = 0; i < PASSED_MAX && has_passed(r); i++)
        choose_next(of_use(treap_first(&r->uses)), now_ns);
}

/* Returns the kept rendering with a position's pixels, or NULL. */
static struct rendering *find(const struct renderings_group *g, struct order_place place)
{
    uint64_t n = g->positions;
    struct treap_node *found;

    if (place.position >= 2 * n)
        place.position = n + place.position % n;
    found = treap_find(&g->places, axis(g, place));
    return found ? container_of(found, struct rendering, place) : NULL;
}

bool renderings_has(const struct renderings_reader *r, struct order_place place)
{
    return find(r->group, place) != NULL;
}

/* Take a rendering that exists. */
static enum renderings_way join_in(struct renderings_reader *reader, struct rendering *r,
                                   uint64_t now_ns)
{
    r->pins++;
    if (r->next == reader)
        choose_next(r, now_ns);
    return r->ready ? RENDERINGS_COPY : RENDERINGS_WAIT;
}

enum renderings_way renderings_take(struct renderings_reader *reader, struct order_place place,
                                    uint64_t now_ns, struct rendering **ret)
{
    struct renderings_group *g = reader->group;
    struct renderings *t = g->table;
    struct rendering *r = find(g, place);
    struct renderings_reader *next;
    uint64_t at = axis(g, place);

    if (r) {
        *ret = r;
        return join_in(reader, r, now_ns);
    }
    next = place.position < 2 * g->positions ? find_next(g, at, now_ns) : NULL;
    if (!next)
        return RENDERINGS_ALONE;
    if (!make_room(next, at, now_ns)) {
        t->counts.refused++;
        return RENDERINGS_ALONE;
    }
    r = malloc(sizeof(*r));
    if (!r)
        return RENDERINGS_ALONE;
    *r = (struct rendering){.group = g, .pins = 1, .listed = true};
    r->place.key = r->use.key = at;
    treap_add(&g->places, &r->place);
    set_next(r, next);
    g->user->bytes += size_of(g);
    g->members++;
    t->counts.bytes += size_of(g);
    t->counts.kept++;
    *ret = r;
    return RENDERINGS_FILL;
}

/* ---- renderings ---- */

void renderings_publish(struct rendering *r)
{
    assert(r->pins > 0 && !r->ready);
    r->ready = true;
    r->group->table->counts.rendered++;
}

void renderings_abandon(struct rendering *r)
{
    assert(r->pins > 0 && !r->ready);
    unlist(r);
}

void renderings_count_copy(struct rendering *r)
{
    r->group->table->counts.shared++;
    r->group->table->counts.saved_ns += r->cost_ns;
}

struct rendering *renderings_reap(struct renderings *t)
{
    struct rendering *dead = t->dead;

    t->dead = NULL;
    return dead;
}

/* ---- groups ---- */

/* Find a user, or add it. Returns NULL when out of memory. */
static struct renderings_user *join_user(struct renderings *t, const char *name)
{
    size_t size = strlen(name) + 1;
    struct renderings_user *u;

    for (struct list *at = list_first(&t->users); at; at = list_next(&t->users, at)) {
        u = container_of(at, struct renderings_user, link);
        if (strcmp(u->name, name) == 0) {
            u->groups++;
            return u;
        }
    }
    u = calloc(1, sizeof(*u) + size);
    if (!u)
        return NULL;
    memcpy(u->name, name, size);
    u->groups = 1;
    list_add_last(&t->users, &u->link);
    return u;
}

static void leave_user(struct renderings_user *u)
{
    if (--u->groups > 0)
        return;
    assert(u->bytes == 0 && u->sharing == 0);
    list_remove(&u->link);
    free(u);
}

static struct renderings_group *add_group(struct renderings *t, const struct renderings_stream *s)
{
    struct renderings_group *g = calloc(1, sizeof(*g) + s->key_len);

    if (!g)
        return NULL;
    g->user = join_user(t, s->user);
    if (!g->user) {
        free(g);
        return NULL;
    }
    g->table = t;
    g->positions = s->positions;
    g->bytes = s->bytes;
    g->key_len = s->key_len;
    memcpy(g->key, s->key, s->key_len);
    list_init(&g->readers);
    list_add_last(&t->groups, &g->link);
    return g;
}

static struct renderings_group *find_group(const struct renderings *t,
                                           const struct renderings_stream *s)
{
    for (struct list *at = list_first(&t->groups); at; at = list_next(&t->groups, at)) {
        struct renderings_group *g = container_of(at, struct renderings_group, link);

        if (strcmp(g->user->name, s->user) == 0 && g->key_len == s->key_len &&
            g->bytes == s->bytes && g->positions == s->positions &&
            memcmp(g->key, s->key, s->key_len) == 0)
            return g;
    }
    return NULL;
}

/* Free a group without readers, once its last rendering is unpinned. */
static void free_if_empty(struct renderings_group *g)
{
    if (!list_is_empty(&g->readers) || g->members > 0)
        return;
    list_remove(&g->link);
    leave_user(g->user);
    free(g);
}

void renderings_unpin(struct rendering *r)
{
    struct renderings_group *g = r->group;

    assert(r->pins > 0);
    r->pins--;
    bury_if_unused(r);
    free_if_empty(g);
}

struct renderings_reader *renderings_join(struct renderings *t, const struct renderings_stream *s)
{
    struct renderings_group *g = find_group(t, s);
    struct renderings_reader *r;

    if (g && g->present >= RENDERINGS_READERS_MAX)
        return NULL;
    if (!g)
        g = add_group(t, s);
    if (!g)
        return NULL;
    r = calloc(1, sizeof(*r));
    if (!r) {
        free_if_empty(g);
        return NULL;
    }
    r->group = g;
    r->local = s->local;
    list_add_last(&g->readers, &r->link);
    g->user->sharing += ++g->present == 2;
    return r;
}

void renderings_leave(struct renderings_reader *r)
{
    if (!r)
        return;
    assert(!r->left && r->group->present > 0);
    r->left = true;
    r->group->user->sharing -= r->group->present-- == 2;
}

void renderings_expire(struct renderings *t, uint64_t now_ns)
{
    for (struct list *at = list_first(&t->groups); at; at = list_next(&t->groups, at)) {
        struct renderings_group *g = container_of(at, struct renderings_group, link);

        for (struct list *to = list_first(&g->readers); to; to = list_next(&g->readers, to)) {
            struct renderings_reader *r = reader_of(to);

            if (r->begun && now_ns - r->now_ns > RENDERINGS_FORGET_S * NS_PER_SEC) {
                r->begun = false;
                r->pace_ns = 0;
            }
        }
    }
}

/* Like renderings_tidy(), for one group, which may be freed. */
static unsigned tidy_group(struct renderings_group *g, unsigned most, uint64_t now_ns)
{
    struct list *next;
    unsigned done = 0;

    for (struct list *at = list_first(&g->readers); at && done < most; at = next) {
        struct renderings_reader *r = reader_of(at);

        next = list_next(&g->readers, at);
        for (; done < most && has_passed(r); done++)
            choose_next(of_use(treap_first(&r->uses)), now_ns);
        if (!r->left || r->uses.root)
            continue;
        list_remove(&r->link);
        free(r);
    }
    free_if_empty(g);
    return done;
}

bool renderings_tidy(struct renderings *t, unsigned most, uint64_t now_ns)
{
    struct list *next;
    unsigned done = 0;

    for (struct list *at = list_first(&t->groups); at && done < most; at = next) {
        next = list_next(&t->groups, at);
        done += tidy_group(container_of(at, struct renderings_group, link), most - done, now_ns);
    }
    return done == most;
}

struct renderings *renderings_create(uint64_t limit)
{
    struct renderings *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->counts.limit = limit;
    list_init(&t->groups);
    list_init(&t->users);
    return t;
}

void renderings_destroy(struct renderings *t)
{
    assert(!t || (list_is_empty(&t->groups) && list_is_empty(&t->users) && !t->dead));
    free(t);
}

void renderings_get_counts(const struct renderings *t, struct renderings_counts *ret)
{
    *ret = t->counts;
}

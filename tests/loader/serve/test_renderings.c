/* SPDX-License-Identifier: MIT */
/* Tests which renderings are kept, against a model that knows every stream's future place by
 * place. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/serve/renderings.h"

enum {
    N_MOST = 20, /* positions per epoch */
    EPOCHS = 3,
    LISTED = EPOCHS + 3, /* epochs that the model knows */
    PLACES = LISTED * 2 * N_MOST,
    GROUPS = 3,
    STREAMS = 8,
    BUSY = 8,
    SCHEDULES = 1000,
    TURNS = 300,
};

static const char *const users[GROUPS] = {"anna", "anna", "bert"};
static const char *const keys[GROUPS] = {"first", "other", "first"};

struct stream {
    struct renderings_reader *reader; /* or NULL: closed */
    unsigned group;
    struct order_share share;
    uint32_t local;
    struct order_place step; /* the next one to begin */
    uint32_t index;
    uint64_t turn_ns;
    /* Known to the table. */
    bool known;
    uint64_t known_ns, known_at;
    bool wants[PLACES];
};

/* A rendering that is under way, and the streams that wait for it. */
struct busy {
    struct rendering *r;
    unsigned group, waiting;
    uint32_t at;
};

static struct world {
    struct renderings *table;
    struct stream streams[STREAMS];
    struct busy busy[BUSY];
    bool kept[GROUPS][PLACES];
    uint32_t n; /* positions per epoch */
    uint64_t now, size, made, pads;
    unsigned schedule, random;
} w;

static void must(bool holds, const char *what)
{
    cr_assert(holds, "schedule %u: %s", w.schedule, what);
}

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&w.random) % n;
}

/* Padding shows the pixels of the positions from 0 on. */
static uint32_t pixels_of(unsigned group, uint32_t at)
{
    return (at / (2 * w.n) * w.n + at % w.n) * 31 + group * 7;
}

static void free_unused(void)
{
    struct rendering *next;

    for (struct rendering *r = renderings_reap(w.table); r; r = next) {
        next = r->dead;
        free(r->bytes);
        free(r);
    }
}

static void tidy(void)
{
    while (renderings_tidy(w.table, 1 + below(5), w.now))
        ;
    free_unused();
}

/* Places are numbered by epoch and position. An epoch has 2N positions that may be kept: its own,
 * and the padding of its last step. */
static struct order_place place_of(uint32_t at)
{
    return (struct order_place){at / (2 * w.n), at % (2 * w.n)};
}

/* Returns the number of the place whose rendering a position can use. */
static uint32_t number_of(uint64_t epoch, uint64_t position)
{
    return (uint32_t)(epoch * 2 * w.n + (position < 2 * w.n ? position : w.n + position % w.n));
}

/* List all places that a stream begins from now on, step by step. */
static void look_ahead(struct stream *s)
{
    struct order_place step = s->step;
    uint32_t index = s->index;

    memset(s->wants, 0, sizeof(s->wants));
    while (step.epoch < LISTED) {
        for (; index < s->local; index++) {
            uint64_t position = order_share_position(&s->share, step, index);

            if (position < 2 * w.n)
                s->wants[number_of(step.epoch, position)] = true;
        }
        index = 0;
        step = order_place_skip(&s->share.steps, step, 1);
    }
}

/* Returns the time until the first stream needs a place, or a negative number: none does. */
static double wait_of(unsigned group, uint32_t at)
{
    double least = -1;

    for (unsigned i = 0; i < STREAMS; i++) {
        const struct stream *s = &w.streams[i];
        double wait;

        if (!s->reader || s->group != group || !s->known || !s->wants[at])
            continue;
        wait = renderings_wait_ns(s->reader, place_of(at), w.now);
        if (least < 0 || wait < least)
            least = wait;
    }
    return least;
}

static bool is_user(unsigned group, unsigned other)
{
    return strcmp(users[group], users[other]) == 0;
}

static uint64_t count_kept(unsigned group_of_user)
{
    uint64_t count = 0;

    for (unsigned g = 0; g < GROUPS; g++)
        for (uint32_t at = 0; at < PLACES; at++)
            count += is_user(g, group_of_user) && w.kept[g][at];
    return count;
}

static unsigned count_streams(unsigned group)
{
    unsigned count = 0;

    for (unsigned i = 0; i < STREAMS; i++)
        count += w.streams[i].reader && w.streams[i].group == group;
    return count;
}

/* Returns a group of the user who has to make room for one more rendering of this group. */
static unsigned find_payer(unsigned group)
{
    unsigned other = is_user(group, 2) ? 0 : 2, sharing = 0;
    uint64_t limit, own = count_kept(group), theirs = count_kept(other);
    struct renderings_counts counts;

    renderings_get_counts(w.table, &counts);
    limit = counts.limit;
    sharing += count_streams(0) > 1 || count_streams(1) > 1;
    sharing += count_streams(2) > 1;
    if ((own + 1) * w.size > limit / (sharing ? sharing : 1))
        return group;
    return theirs > own ? other : group;
}

/* Returns the longest wait among a user's kept renderings, except the one at `but`. */
static double longest_wait(unsigned group_of_user, unsigned but_group, uint32_t but)
{
    double most = -1;

    for (unsigned g = 0; g < GROUPS; g++)
        for (uint32_t at = 0; at < PLACES; at++)
            if (is_user(g, group_of_user) && w.kept[g][at] && (g != but_group || at != but)) {
                double wait = wait_of(g, at);

                most = wait > most ? wait : most;
            }
    return most;
}

static struct renderings_reader *any_reader(unsigned group)
{
    for (unsigned i = 0; i < STREAMS; i++)
        if (w.streams[i].reader && w.streams[i].group == group)
            return w.streams[i].reader;
    return NULL;
}

/* Is the place in a step that a stream is in? If the stream has begun to share within that step,
 * the table may expect that it needs the step's first places, too. */
static bool is_in_step(unsigned group, uint32_t at)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        const struct stream *s = &w.streams[i];

        if (s->reader && s->group == group && s->known && at >= s->known_at &&
            at < s->known_at + s->share.steps.per_step)
            return true;
    }
    return false;
}

/* Forget the renderings that no stream needs, and check that the table has exactly the others,
 * apart from at most one that it has dropped to make room. Returns whether it has dropped one. */
static bool compare(unsigned *ret_group, uint32_t *ret_at)
{
    struct renderings_counts counts;
    unsigned dropped = 0;
    uint64_t kept = 0;

    for (unsigned g = 0; g < GROUPS; g++) {
        struct renderings_reader *reader = any_reader(g);

        for (uint32_t at = 0; at < PLACES; at++) {
            bool has = reader && renderings_has(reader, place_of(at));

            if (w.kept[g][at] && wait_of(g, at) < 0) {
                if (has && is_in_step(g, at)) {
                    kept++;
                    continue;
                }
                must(!has, "a rendering is kept that no stream needs");
                w.kept[g][at] = false;
            }
            must(!has || w.kept[g][at], "a rendering is kept that should not be");
            if (w.kept[g][at] && !has) {
                *ret_group = g;
                *ret_at = at;
                dropped++;
            }
            kept += has;
        }
    }
    renderings_get_counts(w.table, &counts);
    cr_assert(eq(u64, counts.kept, kept));
    cr_assert(eq(u64, counts.bytes, kept * w.size));
    must(counts.bytes <= counts.limit && dropped <= 1, "too many are kept or dropped");
    return dropped > 0;
}

static void must_not_drop(void)
{
    must(!compare(&(unsigned){0}, &(uint32_t){0}), "a rendering is dropped without need");
}

/* ---- what happens ---- */

static struct busy *find_busy(const struct rendering *r)
{
    for (unsigned i = 0; i < BUSY; i++)
        if (w.busy[i].r == r)
            return &w.busy[i];
    return NULL;
}

static void end_busy(struct busy *b)
{
    bool good = below(4) > 0, kept = b->r->listed;

    if (good) {
        b->r->result.sample = pixels_of(b->group, b->at);
        renderings_publish(b->r);
    } else {
        renderings_abandon(b->r);
        if (kept)
            w.kept[b->group][b->at] = false;
    }
    for (; b->waiting > 0; b->waiting--) {
        must(!good || b->r->result.sample == pixels_of(b->group, b->at), "wrong pixels");
        renderings_unpin(b->r);
    }
    renderings_unpin(b->r);
    b->r = NULL;
    free_unused();
}

/* A stream takes a place that the table has. */
static void check_taken(const struct stream *s, uint32_t at, enum renderings_way way,
                        struct rendering *r)
{
    if (way == RENDERINGS_COPY) {
        cr_assert(eq(u32, r->result.sample, pixels_of(s->group, at)));
        renderings_count_copy(r);
        renderings_unpin(r);
        return;
    }
    must(way == RENDERINGS_WAIT && find_busy(r), "nothing renders it");
    find_busy(r)->waiting++;
}

/* A stream takes a place that the table does not have. */
static void check_new(const struct stream *s, uint32_t at, enum renderings_way way,
                      struct rendering *r)
{
    unsigned payer = find_payer(s->group), from = 0;
    uint64_t before = count_kept(0) + count_kept(2);
    struct renderings_counts counts;
    double wait = wait_of(s->group, at);
    uint32_t victim = 0;

    renderings_get_counts(w.table, &counts);
    if (wait < 0 || way == RENDERINGS_ALONE) {
        must(way == RENDERINGS_ALONE, "a rendering is made for no other stream");
        must(wait < 0 || ((before + 1) * w.size > counts.limit && is_user(payer, s->group) &&
                          longest_wait(payer, GROUPS, 0) <= wait),
             "a rendering is refused although there is room");
        return;
    }
    must(way == RENDERINGS_FILL && !find_busy(r), "it is not new");
    w.kept[s->group][at] = true;
    *find_busy(NULL) = (struct busy){.r = r, .group = s->group, .at = at};
    if (!compare(&from, &victim))
        return;
    must((before + 1) * w.size > counts.limit && is_user(from, payer), "wrong user");
    must(wait_of(from, victim) >= longest_wait(payer, s->group, at),
         "another rendering is needed later than the one that was dropped");
    must(!is_user(payer, s->group) || wait_of(from, victim) > wait, "the new one is farther");
    w.kept[from][victim] = false;
}

static void take_turn(struct stream *s)
{
    uint64_t position = order_share_position(&s->share, s->step, s->index);
    uint32_t at = number_of(s->step.epoch, position), index = s->index++;
    struct order_place step = s->step;
    struct rendering *r = NULL;
    enum renderings_way way;
    bool had;

    if (s->index == s->local) {
        s->step = order_place_skip(&s->share.steps, s->step, 1);
        s->index = 0;
    }
    if (!renderings_are_shared(s->reader))
        return;
    w.now += below((unsigned)s->turn_ns);
    s->known = true;
    s->known_ns = w.now;
    s->known_at = number_of(step.epoch, step.position);
    look_ahead(s);
    renderings_begin(s->reader, &s->share, step, index, w.now);
    /* Streams that have moved on or jumped need fewer renderings. */
    must_not_drop();
    had = w.kept[s->group][at];
    way = renderings_take(s->reader, (struct order_place){step.epoch, position}, w.now, &r);
    w.made += way == RENDERINGS_FILL;
    w.pads += had && position >= w.n;
    if (had)
        check_taken(s, at, way, r);
    else if (position < 2 * w.n)
        check_new(s, at, way, r);
    else
        must(way == RENDERINGS_ALONE, "a position beyond 2N is kept");
    free_unused();
    must_not_drop();
}

static void open_stream(struct stream *s)
{
    uint32_t replicas = 1 + below(3), each = 1 + below(3), own = 1 + below(replicas);

    *s = (struct stream){.group = below(GROUPS), .local = own * each, .turn_ns = 1 + below(2000)};
    s->share = (struct order_share){
        .steps = {.n = w.n, .per_step = replicas * each, .last = below(2) ? ORDER_PAD : ORDER_DROP},
        .deal = below(3) == 0 ? each : 0,
        .offset = below(replicas - own + 1) * each};
    if (!order_has_steps(&s->share.steps))
        s->share.steps.last = ORDER_PAD;
    s->step = (struct order_place){below(EPOCHS), below(2) ? 0 : below(w.n)};
    s->step = order_place_settle(&s->share.steps, s->step);
    s->reader = renderings_join(w.table, &(struct renderings_stream){.user = users[s->group],
                                                                     .key = keys[s->group],
                                                                     .key_len = 5,
                                                                     .positions = w.n,
                                                                     .bytes = 1000,
                                                                     .local = s->local});
    must(s->reader != NULL, "a stream");
}

static void close_stream(struct stream *s)
{
    renderings_leave(s->reader);
    s->reader = NULL;
    tidy();
    must_not_drop();
}

/* All streams that have not begun anything for long are forgotten. */
static void pause_all(void)
{
    w.now += below(2) * 2 * RENDERINGS_FORGET_S * NS_PER_SEC;
    renderings_expire(w.table, w.now);
    for (unsigned i = 0; i < STREAMS; i++)
        if (w.now - w.streams[i].known_ns > RENDERINGS_FORGET_S * NS_PER_SEC)
            w.streams[i].known = false;
    tidy();
    must_not_drop();
}

static void act(void)
{
    struct stream *s = &w.streams[below(STREAMS)];
    struct busy *b = &w.busy[below(BUSY)];

    if ((b->r && below(2)) || !find_busy(NULL)) {
        end_busy(b->r ? b : &w.busy[0]);
    } else if (!s->reader) {
        if (below(8) == 0)
            open_stream(s);
    } else if (s->step.epoch >= EPOCHS || below(200) == 0) {
        close_stream(s);
    } else if (below(400) == 0) {
        s->step = order_place_skip(&s->share.steps, s->step, below(2 * w.n)); /* it jumps */
        s->index = 0;
    } else if (below(300) == 0) {
        pause_all();
    } else {
        take_turn(s);
    }
}

static uint64_t measure(void)
{
    struct renderings_stream stream = {
        .user = "u", .key = "k", .key_len = 1, .positions = 2, .bytes = 1000, .local = 1};
    const struct order_share share = {.steps = {.n = 2, .per_step = 1}};
    struct renderings *t = renderings_create(1 << 20);
    struct renderings_reader *one = renderings_join(t, &stream), *two = renderings_join(t, &stream);
    struct order_place second = {0, 1};
    struct renderings_counts counts;
    struct rendering *r;

    renderings_begin(one, &share, (struct order_place){0, 0}, 0, 0);
    renderings_begin(two, &share, second, 0, 0);
    cr_assert(eq(int, (int)renderings_take(two, second, 0, &r), RENDERINGS_FILL));
    renderings_get_counts(t, &counts);
    cr_assert(eq(u64, counts.kept, 1));
    renderings_abandon(r);
    renderings_unpin(r);
    renderings_leave(one);
    renderings_leave(two);
    must(!renderings_tidy(t, 9, 0), "all is tidy");
    free(renderings_reap(t));
    renderings_destroy(t);
    return counts.bytes;
}

static void end_schedule(void)
{
    for (unsigned i = 0; i < BUSY; i++)
        if (w.busy[i].r)
            end_busy(&w.busy[i]);
    for (unsigned i = 0; i < STREAMS; i++)
        if (w.streams[i].reader)
            close_stream(&w.streams[i]);
    tidy();
    renderings_destroy(w.table);
}

Test(renderings, keeps_what_the_model_keeps_on_random_schedules)
{
    uint64_t size = measure(), shared = 0, evicted = 0, refused = 0, pads = 0;

    for (unsigned i = 0; i < SCHEDULES; i++) {
        struct renderings_counts counts;

        w = (struct world){.schedule = i, .random = i + 1, .size = size};
        w.n = below(2) ? 3 + below(N_MOST - 3) : N_MOST; /* some smaller than a step */
        w.table = renderings_create(below(5) == 0 ? 1000 * size : below(25) * size + 1);
        for (unsigned k = 0; k < TURNS; k++)
            act();
        renderings_get_counts(w.table, &counts);
        shared += counts.shared;
        evicted += counts.evicted;
        refused += counts.refused;
        pads += w.pads;
        end_schedule();
    }
    cr_log_info("%u shared, %u of them padding, %u evicted, %u refused", (unsigned)shared,
                (unsigned)pads, (unsigned)evicted, (unsigned)refused);
    must(shared > SCHEDULES && evicted > SCHEDULES && refused > SCHEDULES && pads > SCHEDULES / 5,
         "too little happened");
}

Test(renderings, shares_the_padding_of_an_epoch)
{
    const struct renderings_stream stream = {
        .user = "u", .key = "k", .key_len = 1, .positions = 6, .bytes = 1000, .local = 4};
    const struct order_share share = {.steps = {.n = 6, .per_step = 4}};
    struct renderings_reader *readers[2];

    w = (struct world){.table = renderings_create(1 << 20)};
    for (unsigned i = 0; i < 2; i++)
        readers[i] = renderings_join(w.table, &stream);
    renderings_begin(readers[1], &share, (struct order_place){0, 0}, 0, 0);
    for (unsigned i = 0; i < 2; i++)
        for (uint32_t at = 1; at < 8; at++) { /* positions 6 and 7 are padding */
            struct rendering *r = NULL;
            enum renderings_way way;

            renderings_begin(readers[i], &share, (struct order_place){0, at / 4 * 4}, at % 4, at);
            way = renderings_take(readers[i], (struct order_place){0, at}, at, &r);
            cr_assert(eq(int, way, i == 0 ? RENDERINGS_FILL : RENDERINGS_COPY));
            if (i == 0)
                renderings_publish(r);
            renderings_unpin(r);
        }
    for (unsigned i = 0; i < 2; i++)
        renderings_leave(readers[i]);
    tidy();
    renderings_destroy(w.table);
}

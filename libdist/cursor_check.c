/* SPDX-License-Identifier: MIT */
/* cursor_check.c - compares a cursor with a stream, and finds out how they differ.
 *
 * A cursor has only hashes of what the run before it has shown. So a difference is found by
 * guessing: change one thing in a copy of the stream's plan, and compare the hashes again. */
#include "config.h"

#include "libdist/cursor_check.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/datasum.h"
#include "common/order/orderplan.h"
#include "common/pipeline/identity.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/stream_core.h"

enum {
    BLOCKS_TRIED = 4096,
    SETS_ORDERED = 16, /* other orders of more sets are not tried */
};

/* A plan that the cursor's run may have had. */
struct guess {
    const struct plenum_cursor *cursor;
    struct orderplan plan;
    struct wire_set sets[WIRE_SETS_MAX];
    struct wire_open open;
    struct identity_plan of;
    char words[200]; /* the difference, such as "without weights" */
};

/* Returns a guess that equals the stream, or NULL if there is no memory. A stream without a plan
 * becomes a plan of one set. */
static struct guess *guess_new(const struct plenum_stream *s, const struct plenum_cursor *cursor)
{
    struct guess *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->cursor = cursor;
    g->open = s->open;
    memcpy(g->sets, s->sets, sizeof(g->sets));
    if (s->plan)
        g->plan = *s->plan;
    else
        g->plan = (struct orderplan){.num_sets = 1, .block = MIXTURE_BLOCK};
    for (uint32_t j = 0; j < g->plan.num_pieces; j++)
        g->plan.pieces[j].weights = g->plan.weights + (size_t)j * g->plan.num_sets;
    g->of = (struct identity_plan){.plan = &g->plan,
                                   .sets = g->sets,
                                   .reweighs = s->reweighs,
                                   .positions = s->steps.n,
                                   .open = &g->open};
    return g;
}

/* Returns whether bytes [from, to) of the guess's identity are those of the cursor. */
static bool guess_is(const struct guess *g, size_t from, size_t to)
{
    uint8_t identity[16];

    assert(from < to && to <= sizeof(identity));
    identity_of_plan(&g->of, (struct order_place){g->cursor->epoch, g->cursor->position}, identity);
    return memcmp(g->cursor->identity + from, identity + from, to - from) == 0;
}

static void add_word(char *words, size_t size, const char *word)
{
    size_t len = strlen(words);

    (void)snprintf(words + len, size - len, "%s%s", len > 0 ? ", " : "", word);
}

/* Guess that the run had no plan: its data set had no select, weights or labels. With relabel,
 * stratify and balance, loaders do not report the sum that such a guess needs. */
static bool guess_plain(struct guess *g, const struct plenum_stream *s)
{
    struct orderplan_set *set = &g->plan.sets[0];
    uint64_t positions = (uint64_t)g->sets[0].samples * set->repeat;
    const struct {
        bool given;
        const char *word;
    } options[] = {{set->select, "select"},
                   {set->weights || g->plan.num_reweighs > 0, "weights"},
                   {g->plan.labels != ORDERPLAN_NAMES, "labels"}};
    char list[100] = "";

    if (g->plan.num_sets > 1 || positions == 0 || positions >= UINT32_MAX)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (options[i].given)
            add_word(list, sizeof(list), options[i].word);
    set->select = set->weights = NULL; /* borrowed */
    g->plan.labels = ORDERPLAN_NAMES;
    g->plan.num_reweighs = 0;
    g->of.positions = (uint32_t)positions;
    g->of.sum = &s->sum;
    (void)snprintf(g->words, sizeof(g->words), "without %s", list);
    return guess_is(g, 0, sizeof(g->cursor->identity));
}

/* Guess another block, or another order of all samples. */
static bool guess_order(struct guess *g, const struct plenum_stream *s)
{
    static const char *const words[] = {"without stratify and balance", "with stratify label",
                                        "with stratify set", "with balance label"};
    enum orderplan_order own = g->plan.order;
    uint32_t block = g->plan.block, classes = g->plan.classes, each = g->plan.each;

    for (int order = 0; order < (int)ARRAY_LEN(words); order++) {
        bool same = order == (int)own;

        g->plan.order = (enum orderplan_order)order;
        g->plan.classes = same ? classes : 0;
        g->plan.each = same ? each : 0;
        (void)snprintf(g->words, sizeof(g->words), "%s",
                       s->plan || order > 0 ? words[order] : "with select, relabel or weights");
        for (g->plan.block = 1; g->plan.block <= BLOCKS_TRIED; g->plan.block++) {
            if (!guess_is(g, 0, IDENTITY_WEIGHTS_AT))
                continue;
            if (s->plan && same)
                (void)snprintf(g->words, sizeof(g->words), "with block %u", g->plan.block);
            return true;
        }
    }
    g->plan.order = own;
    g->plan.block = block;
    g->plan.classes = classes;
    g->plan.each = each;
    return false;
}

static bool guess_settings(struct guess *g)
{
    static const char *const lasts[] = {"with last=pad", "with last=drop"};
    static const char *const labels[] = {"with labels names", "with labels numbers",
                                         "with labels stack"};
    enum orderplan_labels own_labels = g->plan.labels;
    enum order_last own_last = g->open.last;

    for (int i = 0; i < (int)ARRAY_LEN(lasts); i++) {
        g->open.last = (enum order_last)i;
        (void)snprintf(g->words, sizeof(g->words), "%s", lasts[i]);
        if (guess_is(g, 0, IDENTITY_WEIGHTS_AT))
            return true;
    }
    g->open.last = own_last;
    for (int i = 0; i < (int)ARRAY_LEN(labels); i++) {
        g->plan.labels = (enum orderplan_labels)i;
        (void)snprintf(g->words, sizeof(g->words), "%s", labels[i]);
        if (guess_is(g, 0, IDENTITY_WEIGHTS_AT))
            return true;
    }
    g->plan.labels = own_labels;
    return false;
}

/* Arrange the sets of the guess: set i becomes the stream's set from[i]. */
static void arrange(struct guess *g, const struct plenum_stream *s, const uint32_t *from)
{
    uint32_t n = g->plan.num_sets;

    for (uint32_t i = 0; i < n; i++)
        g->plan.sets[i] = s->plan->sets[from[i]];
    for (uint32_t j = 0; j < g->plan.num_pieces; j++)
        for (uint32_t i = 0; i < n; i++)
            g->plan.weights[(size_t)j * n + i] = s->plan->pieces[j].weights[from[i]];
}

/* Move one of n sets from place a to place b, or exchange two sets. */
static void move_set(uint32_t *from, uint32_t n, const uint32_t place[2], bool exchange)
{
    uint32_t a = place[0], b = place[1];

    for (uint32_t i = 0; i < n; i++)
        from[i] = i;
    if (exchange) {
        from[a] = b;
        from[b] = a;
        return;
    }
    for (; a < b; a++)
        from[a] = from[a + 1];
    for (; a > b; a--)
        from[a] = from[a - 1];
    from[b] = place[0];
}

/* Guess that the sets had another order. */
static bool guess_places(struct guess *g, const struct plenum_stream *s)
{
    uint32_t n = g->plan.num_sets, from[SETS_ORDERED];

    if (n > SETS_ORDERED)
        return false;
    for (uint32_t i = 0; i < 2 * n * n; i++) {
        move_set(from, n, (uint32_t[]){i / 2 / n, i / 2 % n}, i % 2);
        arrange(g, s, from);
        if (!guess_is(g, IDENTITY_WEIGHTS_AT, IDENTITY_SETS_AT))
            continue;
        g->words[0] = '\0';
        for (uint32_t k = 0; k < n; k++)
            add_word(g->words, sizeof(g->words), g->plan.sets[k].name);
        return true;
    }
    return false;
}

/* Refuse a cursor whose run had another pipeline, seed, length of an epoch or order. */
static int refuse_base(const struct plenum_stream *s, struct guess *g, struct plenum_error *err)
{
    g->plan.num_pieces = 0; /* they do not matter here */
    if (guess_settings(g) || guess_order(g, s) || guess_plain(g, s))
        return error_set(err, -ESTALE,
                         "this stream of %s cannot resume: the cursor was made %s; what was shown "
                         "before a cursor must stay the same",
                         s->open.dataset, g->words);
    return error_set(err, -ESTALE,
                     "this stream of %s cannot resume: the cursor was made with another pipeline, "
                     "seed, block, last, labels, stratify or balance, or with epochs of another "
                     "length (because of epoch, select, relabel, weights, repeat or other data "
                     "sets)",
                     s->open.dataset);
}

/* Refuse a cursor whose run had other sets or weights of sets. */
static int refuse_weights(const struct plenum_stream *s, struct guess *g, struct plenum_error *err)
{
    const struct plenum_cursor *cursor = g->cursor;
    unsigned long long at = cursor->epoch * s->steps.n + cursor->position;

    if (guess_is(g, IDENTITY_SETS_AT, sizeof(cursor->identity)))
        return error_set(err, -ESTALE,
                         "the weights from position %llu on are not those that the cursor at %llu "
                         "was made with: write the new ones as a piece that begins there",
                         orderplan_last_start(s->plan, at), at);
    if (guess_places(g, s))
        return error_set(err, -ESTALE,
                         "this stream of %s cannot resume: the cursor was made with the sets in "
                         "another order: %s",
                         s->open.dataset, g->words);
    return error_set(err, -ESTALE,
                     "this stream of %s cannot resume: before position %llu, the cursor's run "
                     "showed sets with other names or samples, in another order or with other "
                     "weights",
                     s->open.dataset, at);
}

/* Check that the stream of a plan shows the same samples before the cursor's position as the stream
 * that made the cursor. Returns 0 or -ESTALE. */
static int check_plan(const struct plenum_stream *s, struct guess *g, struct plenum_error *err)
{
    const struct plenum_cursor *cursor = g->cursor;

    /* Without the sum, as older versions and loaders compute it. */
    if (!guess_is(g, 0, IDENTITY_WEIGHTS_AT))
        return refuse_base(s, g, err);
    if (!guess_is(g, IDENTITY_WEIGHTS_AT, IDENTITY_SETS_AT))
        return refuse_weights(s, g, err);
    if (guess_is(g, IDENTITY_SETS_AT, sizeof(cursor->identity)))
        return 0;
    return error_set(err, -ESTALE,
                     "this stream of %s cannot resume: before position %llu, the cursor's run "
                     "showed a set with other samples, weights or classes, or with another list "
                     "of bad samples (plenumctl verify); give each version of a weights file its "
                     "own name",
                     s->open.dataset,
                     (unsigned long long)(cursor->epoch * s->steps.n + cursor->position));
}

/* Would the cursor be valid if no samples were known to be bad? */
static bool is_from_before_bad(const struct plenum_stream *s, const struct plenum_cursor *cursor)
{
    uint8_t fingerprint[16], identity[16];
    struct datasum sum = s->sum;

    if (sum.bad == 0)
        return false;
    sum.bad = 0;
    datasum_fingerprint(&sum, fingerprint);
    identity_of(fingerprint, s->num_samples, &s->open, identity);
    return memcmp(cursor->identity, identity, sizeof(identity)) == 0;
}

/* Refuse a cursor, in a stream without a plan. */
static int refuse_plain(const struct plenum_stream *s, struct guess *g, struct plenum_error *err)
{
    if (is_from_before_bad(s, g->cursor))
        return error_set(
            err, -ESTALE,
            "the cursor was made before samples of %s became known to be bad (plenumctl verify), "
            "so the rest of its epoch would differ: restart the epoch, or remove the list of bad "
            "samples (plenumctl index shows its path)",
            s->open.dataset);
    if (s->sum.heads != 0 && guess_order(g, s)) /* otherwise a plan without these differs, too */
        return error_set(err, -ESTALE,
                         "this stream of %s cannot resume: the cursor was made %s, which this "
                         "stream lacks",
                         s->open.dataset, g->words);
    return error_set(err, -ESTALE,
                     "this stream of %s cannot resume: the cursor was made with another data set, "
                     "pipeline, seed or order (shuffle, subset, repeat, last, select, weights, "
                     "balance and so on), or with another list of bad samples (plenumctl verify)",
                     s->open.dataset);
}

int cursor_check(const struct plenum_stream *s, const struct plenum_cursor *cursor,
                 struct plenum_error *err)
{
    uint8_t identity[16];
    struct guess *g;
    int r;

    stream_identity(s, (struct order_place){cursor->epoch, cursor->position}, identity);
    if (memcmp(cursor->identity, identity, sizeof(identity)) == 0)
        return 0;
    g = guess_new(s, cursor);
    if (!g)
        return error_set(err, -ENOMEM, "out of memory");
    r = s->plan ? check_plan(s, g, err) : refuse_plain(s, g, err);
    free(g);
    return r;
}

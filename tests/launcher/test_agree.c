/* SPDX-License-Identifier: MIT */
/* test_agree.c - explores all orders in which messages, programs and shims can act while a job
 * agrees on a step to stop at. The decisions (launcher/job/agree.c) and the page between a program
 * and its shim (common/job/stop_page.h) are the real ones; messages may be delayed forever, but on
 * one connection they arrive in order. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/new/assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/job/stop_page.h"
#include "launcher/job/agree.h"

enum { RANKS_MAX = 3, QUEUE = 8, DEPTH_MAX = 400, REPORTS = 1 };

enum kind { PROPOSE, DECIDE, ANSWER, STEP, EXITED };

/* Without padding, because states are compared byte by byte. */
struct message {
    uint64_t kind, promised, proposal, step;
};

struct queue {
    struct message items[QUEUE];
    uint32_t count;
};

enum program_state { READY, ENTERED, BUSY, HALTED, FINISHED };

struct rank {
    struct stop_page page;
    struct queue to, from; /* messages to and from its shim */
    bool promising;        /* the shim has set the limit, and not yet read the step */
    struct message proposed;
    uint64_t told; /* the last STEP that was sent */
    uint32_t reports;
    enum program_state state;
    uint64_t step, begun; /* begun: 1 + the last step that it began */
};

struct world {
    struct rank ranks[RANKS_MAX];
    struct agree_rank known[RANKS_MAX];
    struct agreement agreement;
};

/* The job to explore, and the mistakes that the model shall detect. */
static struct {
    uint32_t ranks;
    uint64_t totals[RANKS_MAX]; /* steps of each program */
    bool lockstep;              /* a step ends once all programs that have it have begun it */
    bool deaf;                  /* a mistake: refusals count as promises */
    bool hasty;                 /* a mistake: a program that waits begins its step */
} law;

/* Result. */
static uint64_t states, halts, completions;
static const char *wrong;

/* Hashes of states that were seen. */
static struct {
    uint64_t *slots;
    size_t cap, count;
} seen;

static bool add_hash(uint64_t *slots, size_t cap, uint64_t hash)
{
    size_t i = hash & (cap - 1);

    while (slots[i] != 0) {
        if (slots[i] == hash)
            return false;
        i = (i + 1) & (cap - 1);
    }
    slots[i] = hash;
    return true;
}

static bool is_new(const struct world *w)
{
    struct world copy;
    uint64_t hash;

    memcpy(&copy, w, sizeof(copy));
    copy.agreement.ranks = NULL;
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        atomic_store(&copy.ranks[i].page.changes, 0);
    hash = XXH3_64bits(&copy, sizeof(copy)) | 1;
    if (2 * seen.count >= seen.cap) {
        size_t cap = seen.cap ? 2 * seen.cap : 1 << 16;
        uint64_t *slots = calloc(cap, sizeof(*slots));

        cr_assert(slots != NULL);
        for (size_t i = 0; i < seen.cap; i++)
            if (seen.slots[i])
                (void)add_hash(slots, cap, seen.slots[i]);
        free(seen.slots);
        seen.slots = slots;
        seen.cap = cap;
    }
    if (!add_hash(seen.slots, seen.cap, hash))
        return false;
    seen.count++;
    return true;
}

static void push(struct queue *q, struct message m)
{
    cr_assert(q->count < QUEUE);
    q->items[q->count++] = m;
}

static struct message pop(struct queue *q)
{
    struct message m = q->items[0];

    memmove(&q->items[0], &q->items[1], (QUEUE - 1) * sizeof(m));
    memset(&q->items[QUEUE - 1], 0, sizeof(m));
    q->count--;
    return m;
}

/* ---- the program ---- */

static bool may_end_step(const struct world *w, uint32_t r)
{
    for (uint32_t i = 0; i < law.ranks && law.lockstep; i++)
        if (w->ranks[i].begun <= w->ranks[r].step && law.totals[i] > w->ranks[r].step)
            return false;
    return true;
}

static void leave(struct rank *rank, enum program_state how)
{
    rank->state = how;
    push(&rank->from, (struct message){.kind = EXITED, .step = atomic_load(&rank->page.asked)});
}

/* Each of these does one atomic thing if it can, and returns whether it has. */
static bool program_acts(struct world *w, uint32_t r)
{
    struct rank *rank = &w->ranks[r];

    switch (rank->state) {
    case READY:
        if (rank->step == law.totals[r]) {
            leave(rank, FINISHED);
            return true;
        }
        stop_page_enter(&rank->page, rank->step);
        rank->state = ENTERED;
        return true;
    case ENTERED: {
        enum stop_answer answer = stop_page_check(&rank->page, rank->step);

        if (answer == STOP_WAIT && !law.hasty)
            return false;
        if (answer == STOP_HALT) {
            leave(rank, HALTED);
            return true;
        }
        rank->begun = rank->step + 1;
        rank->state = BUSY;
        return true;
    }
    case BUSY:
        if (!may_end_step(w, r))
            return false;
        rank->step++;
        rank->state = READY;
        return true;
    default:
        return false;
    }
}

/* ---- the shim ---- */

static bool shim_acts(struct world *w, uint32_t r)
{
    struct rank *rank = &w->ranks[r];
    struct message m;

    if (rank->promising) {
        m = rank->proposed;
        rank->promising = false;
        memset(&rank->proposed, 0, sizeof(m));
        m.kind = ANSWER;
        m.promised = stop_page_keep(&rank->page, m.step, &m.step);
        push(&rank->from, m);
        return true;
    }
    if (rank->to.count == 0)
        return false;
    m = pop(&rank->to);
    if (m.kind == DECIDE) {
        stop_page_decide(&rank->page, m.step);
        return true;
    }
    rank->promising = true;
    rank->proposed = m;
    stop_page_set_limit(&rank->page, m.step);
    return true;
}

/* Reports a heartbeat, with the step at that moment. */
static bool shim_reports(struct world *w, uint32_t r)
{
    struct rank *rank = &w->ranks[r];
    uint64_t asked = stop_page_get_asked(&rank->page);

    if (rank->reports == REPORTS || asked == rank->told || rank->state >= HALTED)
        return false;
    rank->reports++;
    rank->told = asked;
    push(&rank->from, (struct message){.kind = STEP, .step = asked});
    return true;
}

/* ---- plenumrun ---- */

static void act(struct world *w, enum agree_action action)
{
    const struct agreement *a = &w->agreement;

    if (action == AGREE_NOTHING)
        return;
    for (uint32_t i = 0; i < law.ranks; i++)
        push(&w->ranks[i].to, (struct message){.kind = action == AGREE_DECIDE ? DECIDE : PROPOSE,
                                               .proposal = a->proposal,
                                               .step = a->step});
}

static bool job_reads(struct world *w, uint32_t r)
{
    struct agreement *a = &w->agreement;
    struct message m;

    if (w->ranks[r].from.count == 0)
        return false;
    m = pop(&w->ranks[r].from);
    if (m.kind == EXITED) {
        act(w, agree_finish(a, r, m.step));
        return true;
    }
    agree_note_step(a, r, m.step);
    if (m.kind == ANSWER)
        act(w, agree_answer(a, r, m.proposal, m.promised || law.deaf));
    return true;
}

static bool job_notices(struct world *w, uint32_t r)
{
    if (r > 0 || w->agreement.state != AGREE_IDLE || !agree_is_possible(&w->agreement))
        return false;
    act(w, agree_begin(&w->agreement));
    return true;
}

/* ---- what must hold ---- */

static const char *find_wrong(const struct world *w)
{
    const struct agreement *a = &w->agreement;

    for (uint32_t i = 0; i < law.ranks; i++) {
        const struct rank *rank = &w->ranks[i];

        if (a->state == AGREE_DECIDED && rank->begun > a->step)
            return "a program has begun a step that was decided not to begin";
        if (rank->state == HALTED && (a->state != AGREE_DECIDED || rank->step != a->step))
            return "a program has stopped at a step other than the decided one";
    }
    return NULL;
}

static const char *find_wrong_end(const struct world *w)
{
    bool halted = false;

    for (uint32_t i = 0; i < law.ranks; i++) {
        if (w->ranks[i].state < HALTED)
            return "a program waits for ever";
        halted |= w->ranks[i].state == HALTED;
    }
    for (uint32_t i = 0; i < law.ranks; i++)
        if (halted && w->ranks[i].state == FINISHED && law.totals[i] > w->agreement.step)
            return "a program has completed, but others stopped earlier";
    halts += halted;
    completions += !halted;
    return NULL;
}

static void explore(const struct world *w, uint32_t depth)
{
    static bool (*const all[])(struct world *, uint32_t) = {program_acts, shim_acts, shim_reports,
                                                            job_reads, job_notices};
    bool any = false;

    cr_assert(depth < DEPTH_MAX);
    if (wrong || !is_new(w))
        return;
    states++;
    wrong = find_wrong(w);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (uint32_t r = 0; r < law.ranks && !wrong; r++) {
            struct world next;

            memcpy(&next, w, sizeof(next)); /* the padding, too */
            next.agreement.ranks = next.known;
            if (!all[i](&next, r))
                continue;
            any = true;
            explore(&next, depth + 1);
        }
    }
    if (!any && !wrong)
        wrong = find_wrong_end(w);
}

/* Explore all orders, and set `wrong`. */
static void run(void)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    states = halts = completions = 0;
    wrong = NULL;
    w.agreement.ranks = w.known;
    w.agreement.count = law.ranks;
    for (uint32_t i = 0; i < law.ranks; i++)
        stop_page_set_limit(&w.ranks[i].page, STOP_NO_LIMIT);
    explore(&w, 0);
    free(seen.slots);
    memset(&seen, 0, sizeof(seen));
}

static void expect_agreement(const char *what)
{
    run();
    cr_expect(wrong == NULL, "%s: %s", what, wrong);
    cr_expect(states > 1000, "%s: only %llu states", what, (unsigned long long)states);
    /* Both ends must be reachable, or the model has shown nothing. */
    cr_expect(halts > 0, "%s: no order ends with a stop", what);
    cr_expect(completions > 0, "%s: no order completes", what);
    cr_log_info("%s: %llu states\n", what, (unsigned long long)states);
}

Test(agree, two_ranks_in_lockstep_stop_at_one_step, .timeout = 600)
{
    law.ranks = 2;
    law.lockstep = true;
    law.totals[0] = law.totals[1] = 4;
    expect_agreement("two ranks in lockstep");
}

Test(agree, two_ranks_of_unequal_speed_stop_at_one_step, .timeout = 600)
{
    law.ranks = 2;
    law.totals[0] = law.totals[1] = 4;
    expect_agreement("two ranks without lockstep");
}

Test(agree, three_ranks_in_lockstep_stop_at_one_step, .timeout = 600)
{
    law.ranks = 3;
    law.lockstep = true;
    law.totals[0] = law.totals[1] = law.totals[2] = 2;
    expect_agreement("three ranks in lockstep");
}

Test(agree, finished_ranks_promise_everything, .timeout = 600)
{
    law.ranks = 2;
    law.totals[0] = 1;
    law.totals[1] = 5;
    expect_agreement("one rank finishes early");
    law.lockstep = true;
    expect_agreement("one rank finishes early, in lockstep");
    law.totals[0] = 0; /* it asks about no step */
    expect_agreement("one rank never asks");
}

Test(agree, ignored_refusals_are_found, .timeout = 600)
{
    law.ranks = 2;
    law.totals[0] = law.totals[1] = 4;
    law.deaf = true;
    run();
    cr_assert(wrong != NULL);
}

Test(agree, broken_promises_are_found, .timeout = 600)
{
    law.ranks = 2;
    law.totals[0] = law.totals[1] = 4;
    law.hasty = true;
    run();
    cr_assert(wrong != NULL);
}

Test(agree, the_distance_doubles)
{
    struct agree_rank ranks[2] = {{0}, {0}};
    struct agreement a = {.ranks = ranks, .count = 2};

    cr_expect(not(agree_is_possible(&a)));
    agree_note_step(&a, 0, 11); /* about to begin step 10 */
    cr_assert(agree_is_possible(&a));
    for (uint64_t k = 1; k <= 8; k *= 2) {
        enum agree_action action = k == 1 ? agree_begin(&a) : agree_answer(&a, 1, a.proposal, true);

        cr_expect(eq(int, action, AGREE_PROPOSE));
        cr_expect(eq(u64, a.step, 11 + k - 1));
        cr_expect(eq(int, agree_answer(&a, 1, a.proposal - 1, true), AGREE_NOTHING));
        cr_expect(eq(int, agree_answer(&a, 0, a.proposal, k == 8), AGREE_NOTHING));
    }
    cr_expect(eq(int, agree_answer(&a, 1, a.proposal, true), AGREE_DECIDE));
    cr_expect(eq(int, a.state, AGREE_DECIDED));
    cr_expect(eq(u64, a.step, 18));
    cr_expect(eq(int, agree_answer(&a, 0, a.proposal, false), AGREE_NOTHING));
}

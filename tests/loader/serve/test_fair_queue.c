/* SPDX-License-Identifier: MIT */
/* Tests fair queueing on a simulated clock. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/serve/fair_queue.h"

enum { CLIENTS_MAX = 40, THREADS = 3, FOREVER = 1000000 };

/* A stream whose turns cost `cost`; its user and job identify it. */
struct client {
    unsigned user, job;
    uint64_t cost, thought;
    uint64_t from, to; /* it takes all turns that it gets between these moments; `to` 0: no end */
    struct flow flow;
    uint64_t got, waits_since, waited;
};

static struct world {
    struct flow root, users[CLIENTS_MAX], jobs[CLIENTS_MAX][CLIENTS_MAX];
    bool has_user[CLIENTS_MAX], has_job[CLIENTS_MAX][CLIENTS_MAX];
    struct client clients[CLIENTS_MAX];
    unsigned count;
    uint64_t now;
} w;

static void add(struct client client)
{
    struct client *c = &w.clients[w.count++];

    *c = client;
    if (!w.has_user[c->user])
        flow_init(&w.users[c->user], &w.root, 0);
    if (!w.has_job[c->user][c->job])
        flow_init(&w.jobs[c->user][c->job], &w.users[c->user], 0);
    w.has_user[c->user] = w.has_job[c->user][c->job] = true;
    flow_init(&c->flow, &w.jobs[c->user][c->job], 0);
    if (c->to == 0)
        c->to = UINT64_MAX;
    if (c->thought == 0)
        c->thought = c->cost;
}

/* Run threads that take turns until `end`; the first free thread takes the next turn. */
static void run(uint64_t end)
{
    static struct {
        uint64_t free_at;
        struct client *client;
        struct flow_turn turn;
    } threads[THREADS];

    memset(threads, 0, sizeof(threads));
    for (;;) {
        unsigned t = 0;
        struct flow *leaf;
        struct client *c;

        for (unsigned i = 1; i < THREADS; i++)
            t = threads[i].free_at < threads[t].free_at ? i : t;
        w.now = max_u64(w.now, threads[t].free_at);
        if ((c = threads[t].client)) {
            flow_settle(&c->flow, &threads[t].turn, c->cost);
            c->got += c->cost;
            threads[t].client = NULL;
        }
        if (w.now >= end)
            return;
        for (unsigned i = 0; i < w.count; i++) {
            bool wants = w.now >= w.clients[i].from && w.now < w.clients[i].to;

            if (wants && !w.clients[i].flow.at)
                w.clients[i].waits_since = w.now;
            flow_set_backlogged(&w.clients[i].flow, wants);
        }
        leaf = flow_pick(&w.root, UINT32_MAX);
        if (!leaf) {
            threads[t].free_at = w.now + 1;
            continue;
        }
        c = container_of(leaf, struct client, flow);
        c->waited = max_u64(c->waited, w.now - c->waits_since);
        c->waits_since = w.now;
        flow_charge(leaf, c->thought, &threads[t].turn);
        flow_serve(leaf, &threads[t].turn);
        threads[t].client = c;
        threads[t].free_at = w.now + c->cost;
    }
}

static uint64_t got_by(unsigned user, int job)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w.count; i++)
        if (w.clients[i].user == user && (job < 0 || w.clients[i].job == (unsigned)job))
            sum += w.clients[i].got;
    return sum;
}

static bool same(uint64_t a, uint64_t b, uint64_t slack)
{
    return (a > b ? a - b : b - a) <= slack;
}

Test(fair_queue, expensive_and_cheap_samples_get_equal_time)
{
    add((struct client){.user = 0, .cost = 1});
    add((struct client){.user = 1, .cost = 50});
    run(FOREVER);
    cr_assert(same(w.clients[0].got, w.clients[1].got, 2 * THREADS * 50), "%llu and %llu",
              (unsigned long long)w.clients[0].got, (unsigned long long)w.clients[1].got);
}

Test(fair_queue, shares_are_equal_when_costs_differ_from_the_estimates)
{
    add((struct client){.user = 0, .cost = 7, .thought = 90});
    add((struct client){.user = 1, .cost = 90, .thought = 1});
    run(FOREVER);
    cr_assert(same(w.clients[0].got, w.clients[1].got, 4 * THREADS * 90), "%llu and %llu",
              (unsigned long long)w.clients[0].got, (unsigned long long)w.clients[1].got);
}

/* A user must gain nothing from more job names or streams, which can be chosen freely. */
Test(fair_queue, a_users_share_does_not_grow_with_jobs_and_streams)
{
    for (unsigned i = 0; i < 20; i++)
        add((struct client){.user = 0, .job = i / 2, .cost = 5});
    add((struct client){.user = 1, .cost = 5});
    run(FOREVER);
    cr_assert(same(got_by(0, -1), got_by(1, -1), 100));
    for (int job = 1; job < 10; job++)
        cr_assert(same(got_by(0, 0), got_by(0, job), 100), "jobs of a user share its turns");
}

Test(fair_queue, unused_turns_are_not_saved_up)
{
    add((struct client){.user = 0, .cost = 10});
    add((struct client){.user = 1, .cost = 10, .from = FOREVER / 2});
    run(FOREVER);
    cr_assert(same(w.clients[1].got, THREADS * (uint64_t)FOREVER / 4, 200),
              "a late client gets half of the rest: %llu", (unsigned long long)w.clients[1].got);
}

Test(fair_queue, the_only_user_gets_all_turns)
{
    add((struct client){.user = 0, .cost = 10});
    add((struct client){.user = 1, .cost = 10, .to = 10});
    run(FOREVER);
    cr_assert(w.clients[0].got + w.clients[1].got >= THREADS * (uint64_t)FOREVER - 100);
}

/* With random numbers of users and random costs, shares are equal, and no stream waits longer than
 * two of the longest turns for each stream. */
Test(fair_queue, no_stream_starves)
{
    srand(1);
    for (unsigned round = 0; round < 200; round++) {
        unsigned n = 2 + (unsigned)rand() % 8;
        uint64_t dearest = 0;

        memset(&w, 0, sizeof(w));
        for (unsigned i = 0; i < n; i++) {
            uint64_t cost = 1 + (uint64_t)rand() % (rand() % 2 ? 10 : 1000);

            dearest = max_u64(dearest, cost);
            add((struct client){.user = i, .cost = cost});
        }
        run(100000);
        for (unsigned i = 0; i < n; i++) {
            cr_assert(w.clients[i].waited <= 2 * n * dearest, "round %u: %u waited for %llu", round,
                      i, (unsigned long long)w.clients[i].waited);
            cr_assert(same(w.clients[i].got, w.clients[0].got, 4 * THREADS * dearest));
        }
    }
}

/* Turns of unknown length, in which threads read from storage that hangs, are divided fairly,
 * too. */
Test(fair_queue, held_turns_are_divided_fairly)
{
    const unsigned limit = 6;
    unsigned held = 0;

    add((struct client){.user = 0, .cost = 1});
    add((struct client){.user = 1, .cost = 1, .job = 0});
    add((struct client){.user = 1, .cost = 1, .job = 1});
    for (unsigned i = 0; i < w.count; i++)
        flow_set_backlogged(&w.clients[i].flow, true);
    for (struct flow *leaf; held < 100 && (leaf = flow_pick(&w.root, limit)); held++)
        flow_hold(leaf);
    cr_assert(eq(u32, w.clients[0].flow.held, 3));
    cr_assert(eq(u32, w.clients[1].flow.held + w.clients[2].flow.held, 3));
    cr_assert(gt(u32, w.clients[1].flow.held, 0));
    cr_assert(gt(u32, w.clients[2].flow.held, 0));
    for (unsigned i = 1; i < 3; i++) {
        while (w.clients[i].flow.held > 0)
            flow_release(&w.clients[i].flow);
        flow_set_backlogged(&w.clients[i].flow, false);
    }
    for (held = 3; held < 100 && flow_pick(&w.root, limit); held++)
        flow_hold(&w.clients[0].flow);
    cr_assert(eq(u32, held, limit), "if no other client wants a turn, one client may hold all");
}

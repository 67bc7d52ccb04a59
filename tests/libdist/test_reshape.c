/* SPDX-License-Identifier: MIT */
/* Tests streams whose share of steps changes: whatever replicas come and go, the run shows each
 * sample once. It is compared with the same stream with one replica, which test_stream.c compares
 * with a rendering in one thread. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/util/util.h"
#include "tests/daemon.h"
#include "tests/libdist/streams.h"
#include "tests/tree.h"

static struct tree tree;
static char data[DATA_PATH_MAX], socket_a[128], socket_b[128];

enum { SAMPLES = 37, RANKS = 4, MICRO_BATCH = 3 };

static void setup(void)
{
    tree_init(&tree);
    write_data(&tree, SAMPLES, data);
    (void)snprintf(socket_a, sizeof(socket_a), "unix:%s/a.sock", tree.root);
    (void)snprintf(socket_b, sizeof(socket_b), "unix:%s/b.sock", tree.root);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(reshape, .init = setup, .fini = teardown, .timeout = 600);

static struct plenum_stream_options options_of(const char *loader)
{
    struct plenum_stream_options o = common_options(data, loader);

    o.epochs = 40;
    o.micro_batch = MICRO_BATCH;
    return o;
}

/* Returns a stream of one replica, `rank` of `size`. */
static struct plenum_stream *opened(const struct plenum_stream_options *o, uint32_t rank,
                                    uint32_t size)
{
    struct plenum_job_info info = {.num_instances = 1,
                                   .num_local_instances = 1,
                                   .num_replicas = size,
                                   .num_local_replicas = 1,
                                   .replica_offset = rank,
                                   .devices_per_replica = 1};

    return open_stream(&info, o);
}

static struct plenum_share share_of(uint32_t rank, uint32_t size)
{
    return (struct plenum_share){
        .replica_offset = rank, .num_local_replicas = 1, .num_replicas = size};
}

static void reshape(struct plenum_stream *s, uint32_t rank, uint32_t size,
                    const struct plenum_cursor *at)
{
    struct plenum_share share = share_of(rank, size);
    struct plenum_error err;

    cr_assert(eq(int, plenum_stream_reshape(s, &share, at, &err), 0), "%s", err.text);
}

/* Takes a step on each of `size` streams, and adds up its hashes. Returns false if the streams are
 * over. */
static bool step(struct plenum_stream **s, uint32_t size, uint64_t *hash)
{
    struct plenum_batch b;
    bool there = true;

    for (uint32_t i = 0; i < size; i++) {
        bool next = next_is_there(s[i], &b);

        cr_assert(i == 0 || next == there, "rank %u", i);
        there = next;
        if (next)
            *hash += plenum_batch_hash(&b);
        plenum_batch_release(&b);
    }
    return there;
}

static uint64_t whole(const struct plenum_stream_options *o)
{
    struct plenum_stream *s = opened(o, 0, 1);
    uint64_t hash = drain(s, UINT64_MAX);

    plenum_stream_destroy(s);
    return hash;
}

/* Changes the number of ranks at random until the streams are over, and returns the sum of all
 * hashes. New ranks continue from the cursor of an old one. */
static uint64_t run_with_changes(const struct plenum_stream_options *o, uint32_t *changes)
{
    struct plenum_stream *s[RANKS];
    struct plenum_cursor at;
    uint64_t hash = 0, state = 88172645463325252ULL;
    uint32_t size = RANKS;
    bool there = true;

    *changes = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        s[i] = opened(o, i, RANKS);
    while (there) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        for (uint32_t steps = 1 + state % 4; there && steps > 0; steps--)
            there = step(s, size, &hash);
        cr_assert(eq(int, plenum_stream_cursor(s[0], &at), 0));
        size = 1 + (uint32_t)(state >> 8) % RANKS;
        for (uint32_t i = 0; there && i < size; i++)
            reshape(s[i], i, size, &at);
        *changes += there;
    }
    for (uint32_t i = 0; i < RANKS; i++)
        plenum_stream_destroy(s[i]);
    return hash;
}

Test(reshape, ranks_come_and_go_and_each_sample_is_shown_once)
{
    static const char *const shuffles[] = {"global", "block:8", "none"};
    pid_t loader = daemon_start(socket_a, "2", NULL, NULL);
    struct plenum_stream_options o = options_of(socket_a);
    uint32_t changes;

    for (size_t i = 0; i < ARRAY_LEN(shuffles); i++) {
        o.shuffle = shuffles[i];
        o.deal = i == 1 ? PLENUM_DEAL_ROUND_ROBIN : PLENUM_DEAL_CONSECUTIVE;
        cr_expect(eq(u64, run_with_changes(&o, &changes), whole(&o)), "%s", shuffles[i]);
        cr_expect(changes > 50, "%u changes", changes);
    }
    (void)daemon_end(loader, SIGTERM);
}

/* An older loader does not know the new fields of a request, so the session is opened again. */
Test(reshape, an_older_loader_renders_the_new_share)
{
    const char *plenumd = getenv("PLENUM_PLENUMD");
    struct plenum_stream_options o = options_of(socket_a);
    char wrong[4096];
    uint32_t changes;
    pid_t loader;

    (void)snprintf(wrong, sizeof(wrong), "%.*s/tests/libdist/plenumd-wrong",
                   (int)(strrchr(plenumd, '/') - plenumd), plenumd);
    cr_assert(eq(int, setenv("PLENUM_PLENUMD", wrong, 1), 0));
    cr_assert(eq(int, setenv("PLENUM_WRONG_VERSION", "1.13", 1), 0));
    loader = daemon_start(socket_a, "2", NULL, NULL);
    o.epochs = 6;
    cr_expect(eq(u64, run_with_changes(&o, &changes), whole(&o)));
    cr_expect(changes > 5);
    (void)daemon_end(loader, SIGTERM);
}

Test(reshape, two_loaders_render_the_same)
{
    pid_t a = daemon_start(socket_a, "1", NULL, NULL), b = daemon_start(socket_b, "1", NULL, NULL);
    char both[300];
    struct plenum_stream_options o = options_of(both);
    uint32_t changes;

    (void)snprintf(both, sizeof(both), "%s,%s", socket_a, socket_b);
    o.epochs = 10;
    cr_expect(eq(u64, run_with_changes(&o, &changes), whole(&o)));
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

Test(reshape, it_equals_opening_and_seeking)
{
    pid_t loader = daemon_start(socket_a, "2", NULL, NULL);
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = opened(&o, 1, 3), *other;
    struct plenum_stream_info info, own;
    struct plenum_cursor at;

    (void)drain(s, 5);
    cr_assert(eq(int, plenum_stream_cursor(s, &at), 0));
    reshape(s, 0, 2, NULL);
    reshape(s, 2, 4, NULL); /* only the last counts */
    other = opened(&o, 2, 4);
    plenum_stream_get_info(s, &own);
    plenum_stream_get_info(other, &info);
    cr_expect(eq(u64, own.steps_per_epoch, info.steps_per_epoch));
    cr_expect(eq(u64, own.batches, info.batches));
    cr_assert(eq(int, plenum_stream_seek(other, &at, NULL), 0));
    for (int i = 0; i < 30; i++)
        cr_assert(eq(u64, drain(s, 1), drain(other, 1)), "batch %d", i);
    plenum_stream_destroy(s);
    plenum_stream_destroy(other);
    (void)daemon_end(loader, SIGTERM);
}

Test(reshape, leased_batches_stay_as_they_are)
{
    pid_t loader = daemon_start(socket_a, "2", NULL, NULL);
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = opened(&o, 0, 2);
    struct plenum_batch held, b;
    uint64_t hash, first;

    cr_assert(next_is_there(s, &held));
    hash = plenum_batch_hash(&held);
    first = held.positions[0];
    for (uint32_t i = 0; i < 20; i++) {
        reshape(s, i % 3, 3, NULL);
        cr_assert(next_is_there(s, &b));
        cr_expect(eq(u64, b.index, 0));
        plenum_batch_release(&b);
    }
    cr_expect(eq(u64, plenum_batch_hash(&held), hash));
    cr_expect(eq(u64, held.positions[0], first));
    plenum_batch_release(&held);
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

Test(reshape, an_impossible_share_is_refused_and_changes_nothing)
{
    static const struct {
        struct plenum_share share;
        uint64_t position;
        int code;
        const char *text;
    } cases[] = {
        {{3, 1, 3},
         0,
         -EINVAL,
         "invalid share: replica_offset 3, num_local_replicas 1, num_replicas 3"},
        {{0, 1, 0},
         0,
         -EINVAL,
         "invalid share: replica_offset 0, num_local_replicas 1, num_replicas 0"},
        {{0, 2, 4},
         0,
         -EINVAL,
         "has slots for 1 replicas of this instance and cannot continue with 2"},
        {{0, 1, UINT32_MAX}, 0, -EINVAL, "is too large"},
        {{0, 1, 13}, 0, -EINVAL, "an epoch of 37 samples is shorter than one step of 39"},
        {{0, 1, 2}, SAMPLES, -EINVAL, "the cursor is at position 37 of epoch 0"},
    };
    pid_t loader = daemon_start(socket_a, "2", NULL, NULL);
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s, *other;
    struct plenum_batch b;
    struct plenum_share half = share_of(0, 2);

    o.last = PLENUM_DROP;
    s = opened(&o, 0, 2);
    other = opened(&o, 0, 2);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plenum_error err = {""};
        struct plenum_cursor at;

        cr_assert(eq(int, plenum_stream_cursor_at(s, 0, cases[i].position, &at), 0));
        cr_expect(
            eq(int, plenum_stream_reshape(s, &cases[i].share, cases[i].position ? &at : NULL, &err),
               cases[i].code));
        cr_expect(strstr(err.text, cases[i].text) != NULL, "%s", err.text);
    }
    cr_expect(eq(u64, drain(s, 20), drain(other, 20)));
    plenum_stream_destroy(other);

    o.steps = 2;
    o.seed++;
    other = opened(&o, 0, 2);
    cr_assert(next_is_there(other, &b));
    cr_expect(eq(int, plenum_stream_reshape(other, &half, NULL, NULL), -EBUSY));
    plenum_batch_release(&b);
    cr_expect(eq(int, plenum_stream_reshape(other, &half, NULL, NULL), 0));
    plenum_stream_destroy(other);
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

Test(reshape, tags_are_equal_exactly_if_the_steps_were)
{
    pid_t loader = daemon_start(socket_a, "2", NULL, NULL);
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *a = opened(&o, 0, 2), *b = opened(&o, 1, 2);
    struct plenum_cursor at, other;
    uint64_t one = 0, two = 0;

    for (int i = 0; i < 9; i++) {
        (void)drain(a, 1);
        (void)drain(b, 1);
        cr_assert(eq(int, plenum_stream_tag(a, one, NULL, &one), 0));
        cr_assert(eq(int, plenum_stream_tag(b, two, NULL, &two), 0));
        cr_expect(eq(u64, one, two));
    }
    /* a takes two steps of 6 samples, b one of 12: both are at the same position. */
    for (int i = 0; i < 2; i++) {
        (void)drain(a, 1);
        cr_assert(eq(int, plenum_stream_tag(a, one, NULL, &one), 0));
    }
    reshape(b, 0, 4, NULL);
    (void)drain(b, 1);
    cr_assert(eq(int, plenum_stream_tag(b, two, NULL, &two), 0));
    reshape(b, 1, 2, NULL);
    cr_assert(eq(int, plenum_stream_cursor(a, &at), 0));
    cr_assert(eq(int, plenum_stream_cursor(b, &other), 0));
    cr_expect(eq(int, memcmp(&at, &other, sizeof(at)), 0));
    cr_expect(ne(u64, one, two));
    reshape(b, 0, 3, &at);
    cr_assert(eq(int, plenum_stream_tag(a, 5, &at, &one), 0));
    cr_assert(eq(int, plenum_stream_tag(b, 5, &at, &two), 0));
    cr_expect(ne(u64, one, two), "steps of another size must show other samples");
    plenum_stream_destroy(a);
    plenum_stream_destroy(b);
    (void)daemon_end(loader, SIGTERM);
}

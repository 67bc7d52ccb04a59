/* SPDX-License-Identifier: MIT */
/* Tests streams from several loaders at once, over sockets and TCP: whatever happens to the
 * loaders, a stream delivers the same as from a single loader. (test_stream.c tests that this is
 * right.) */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/net/address.h"
#include "common/net/frame.h"
#include "common/net/tls.h"
#include "common/net/wire.h"
#include "common/util/util.h"
#include "tests/daemon.h"
#include "tests/libdist/streams.h"
#include "tests/tree.h"

enum { SAMPLES = 53, LOADERS = 3 };

static struct tree tree;
static char data[DATA_PATH_MAX];
static struct place {
    char unix_socket[128]; /* each loader listens on a socket and on a port */
    char listen[64], tcp[64];
} at[LOADERS];

/* Prepares the addresses. All of 127.0.0.0/8 is this host: each test process has its own address,
 * so its ports are free. */
static void setup(void)
{
    unsigned me = (unsigned)getpid();

    tree_init(&tree);
    write_data(&tree, SAMPLES, data);
    for (unsigned i = 0; i < LOADERS; i++) {
        (void)snprintf(at[i].unix_socket, sizeof(at[i].unix_socket), "unix:%s/%u.sock", tree.root,
                       i);
        (void)snprintf(at[i].listen, sizeof(at[i].listen), "127.%u.%u.%u:%u", 1 + (me >> 16) % 250,
                       me >> 8 & 255, me & 255, 7000 + i);
        (void)snprintf(at[i].tcp, sizeof(at[i].tcp), "tcp:%s", at[i].listen);
    }
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(loaders, .init = setup, .fini = teardown, .timeout = 600);

static pid_t start_with_key(unsigned i, const char *key)
{
    const char *const args[] = {"--listen", at[i].listen, "--tls-key", key, NULL};

    return daemon_start_with(at[i].unix_socket, "1", args);
}

static pid_t start(unsigned i)
{
    const char *const args[] = {"--listen", at[i].listen, "--root", tree.root, NULL};

    return daemon_start_with(at[i].unix_socket, "1", args);
}

static struct plenum_stream_options options_of(const char *loader)
{
    struct plenum_stream_options o = common_options(data, loader);

    o.pipeline = "rrc(48) flip(0.5)";
    o.epochs = 4;
    return o;
}

static uint64_t hash_of(const struct plenum_stream_options *o, const char *loader)
{
    struct plenum_stream_options by = *o;
    struct plenum_stream *s;
    uint64_t hash;

    by.loader = loader;
    s = open_stream(NULL, &by);
    hash = drain(s, UINT64_MAX);
    plenum_stream_destroy(s);
    return hash;
}

static const char *list(unsigned count, bool tcp)
{
    static char text[1024];
    size_t n = 0;

    for (unsigned i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? "," : "",
                              tcp ? at[i].tcp : at[i].unix_socket);
    return text;
}

/* Returns the number of samples that a loader has rendered. */
static uint64_t rendered_by(unsigned i)
{
    struct wire_hello hello;
    struct wire_stats stats = {0};
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c;
    struct address a;

    cr_assert(eq(int, address_parse(at[i].unix_socket, &a, NULL), 0));
    cr_assert(eq(int, frame_conn_init(&c, address_connect(&a, 0), WIRE_MAX_PAYLOAD), 0));
    wire_hello_init(&hello, "test");
    (void)wire_put_hello(&c.tx, &hello);
    (void)wire_put_empty(&c.tx, WIRE_STATS, 1);
    (void)frame_conn_flush(&c);
    for (int tries = 0; tries < 5000; tries++) {
        (void)frame_conn_fill(&c);
        while (frame_conn_next(&c, &h, &r) == 1)
            if (h.type == WIRE_STATS) {
                cr_assert(eq(int, wire_get_stats(&r, &stats), 0));
                frame_conn_fini(&c);
                return stats.samples;
            }
        (void)usleep(1000);
    }
    cr_fatal("the loader did not answer");
    return 0;
}

Test(loaders, tcp_and_a_socket_deliver_the_same)
{
    static const struct {
        enum plenum_dtype dtype;
        enum plenum_layout layout;
        uint32_t channels, micro_batch, steps;
        const char *pipeline, *shuffle;
    } cases[] = {
        {PLENUM_INT8, PLENUM_NHWC, 3, 4, 1, "rrc(48) flip(0.5)", "global"},
        {PLENUM_UINT8, PLENUM_NCHW, 3, 1, 3, "rrc(31)", "none"},
        /* several MB: too much for a socket buffer */
        {PLENUM_INT8, PLENUM_NHWC, 4, 5, 7, "eval", "block:4"},
        {PLENUM_INT8, PLENUM_NHWC, 3, 64, 1, "rrc(8)", "global"},
        {PLENUM_INT8, PLENUM_NHWC, 3, 4, 1, "rrc(48) mixup(0.2)", "global"},
        {PLENUM_UINT8, PLENUM_NCHW, 4, 5, 7, "rrc(201) mix(mixup=0.8, cutmix=1)", "block:4"},
        /* sample numbers end 4 bytes before second labels begin */
        {PLENUM_UINT8, PLENUM_NHWC, 3, 3, 1, "rrc(7) cutmix(1, p=0.5)", "none"},
        {PLENUM_UINT8, PLENUM_NHWC, 3, 4, 1, "view(a,2,rrc(48)) view(b,3,rrc(7))", "global"},
        {PLENUM_INT8, PLENUM_NCHW, 4, 5, 3, "view(a,1,rrc(7x5)) view(b,4,eval)", "none"},
    };
    pid_t loader = start(0);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plenum_stream_options o = options_of(NULL);

        o.dtype = cases[i].dtype;
        o.layout = cases[i].layout;
        o.channels = cases[i].channels;
        o.micro_batch = cases[i].micro_batch;
        o.steps = cases[i].steps;
        o.pipeline = cases[i].pipeline;
        o.shuffle = cases[i].shuffle;
        cr_expect(eq(u64, hash_of(&o, at[0].tcp), hash_of(&o, at[0].unix_socket)), "case %zu", i);
    }
    (void)daemon_end(loader, SIGTERM);
}

Test(loaders, samples_have_the_same_labels_numbers_and_names_over_tcp)
{
    struct plenum_stream_options o = options_of(at[0].tcp);
    pid_t loader = start(0);
    struct plenum_stream *one, *two;
    struct plenum_batch a, b;
    struct plenum_mix mix_a, mix_b;

    o.pipeline = "rrc(48) flip(0.5) mixup(1)";
    one = open_stream(NULL, &o);
    o.loader = at[0].unix_socket;
    two = open_stream(NULL, &o);
    while (next_is_there(one, &a) && next_is_there(two, &b)) {
        char **name_a, **name_b;

        cr_assert(plenum_batch_get_mix(&a, &mix_a) == 1 && plenum_batch_get_mix(&b, &mix_b) == 1);
        for (uint32_t i = 0; i < a.count; i++) {
            cr_assert(eq(i64, a.labels[i], b.labels[i]));
            cr_assert(eq(u32, a.samples[i], b.samples[i]));
            cr_assert(eq(i64, mix_a.labels2[i], mix_b.labels2[i]));
            cr_assert(mix_a.weights[i] == mix_b.weights[i]);
        }
        cr_assert(eq(int, plenum_stream_sample_names(one, a.samples, a.count, &name_a, NULL), 0));
        cr_assert(eq(int, plenum_stream_sample_names(two, b.samples, b.count, &name_b, NULL), 0));
        for (uint32_t i = 0; i < a.count; i++)
            cr_assert(eq(str, name_a[i], name_b[i]));
        free(name_a);
        free(name_b);
        plenum_batch_release(&a);
        plenum_batch_release(&b);
        cr_assert(plenum_batch_get_mix(&a, &mix_a) == 0 && !mix_a.labels2 && !mix_a.weights);
    }
    plenum_stream_destroy(one);
    plenum_stream_destroy(two);
    (void)daemon_end(loader, SIGTERM);
}

/* Seeking cancels requests in flight, in every state that these may be in. */
Test(loaders, seeking_over_tcp_gives_the_same_batches)
{
    struct plenum_stream_options o = options_of(at[0].tcp);
    pid_t loader = start(0);
    struct plenum_stream *s;
    uint64_t want[12];

    o.epochs = 0;
    o.pipeline = "rrc(200)";
    s = open_stream(NULL, &o);
    for (int i = 0; i < 12; i++)
        want[i] = drain(s, 1);
    for (int round = 0; round < 40; round++) {
        unsigned step = (unsigned)(round * 7919) % 12;
        struct plenum_cursor cursor;

        plenum_stream_cursor(s, &cursor);
        cursor.epoch = 0;
        cursor.position = step * 4;
        cr_assert(eq(int, plenum_stream_seek(s, &cursor, NULL), 0));
        if (round % 3)
            (void)usleep((unsigned)round * 300); /* at any moment */
        for (unsigned i = step; i < 12 && i < step + 3; i++)
            cr_assert(eq(u64, drain(s, 1), want[i]), "round %d, step %u", round, i);
    }
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

static void all_are_used(bool tcp)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s;
    pid_t loaders[LOADERS];
    uint64_t want;

    o.epochs = 20;
    o.pipeline = tcp ? "rrc(48) flip(0.5) mixup(0.4)" : o.pipeline;
    for (unsigned i = 0; i < LOADERS; i++)
        loaders[i] = start(i);
    want = hash_of(&o, at[0].unix_socket);
    o.loader = list(LOADERS, tcp);
    s = open_stream(NULL, &o);
    wait_for_loaders(s, LOADERS);
    cr_expect(eq(u64, drain(s, UINT64_MAX), want));
    cr_expect(eq(u64, stats_of(s).incidents, 0));
    plenum_stream_destroy(s);
    for (unsigned i = 1; i < LOADERS; i++)
        cr_expect(gt(u64, rendered_by(i), 0), "loader %u must get requests", i);
    for (unsigned i = 0; i < LOADERS; i++)
        (void)daemon_end(loaders[i], SIGTERM);
}

Test(loaders, all_named_loaders_render)
{
    all_are_used(false);
}

Test(loaders, all_named_loaders_render_over_tcp)
{
    all_are_used(true);
}

Test(loaders, one_that_starts_later_is_used)
{
    struct plenum_stream_options o = options_of(list(2, true));
    pid_t a = start(0), b;
    struct plenum_stream *s;
    uint64_t begin;

    o.epochs = 0;
    s = open_stream(NULL, &o);
    (void)drain(s, 20);
    cr_expect(eq(u32, stats_of(s).loaders, 1));
    b = start(1);
    begin = time_now_ns();
    while (rendered_by(1) == 0 && time_now_ns() < begin + 60 * NS_PER_SEC)
        (void)drain(s, 10);
    cr_expect(gt(u64, rendered_by(1), 0));
    cr_expect(eq(u32, stats_of(s).loaders, 2));
    cr_expect(eq(u64, stats_of(s).incidents, 0), "no loader was lost");
    plenum_stream_destroy(s);
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

/* If one of several loaders reconnects but lacks memory for a while, this is reported once, and the
 * loader is used later. */
Test(loaders, one_that_lacks_memory_for_a_while_is_used_later)
{
    const char *const args[] = {"--ring-limit", "4K", NULL};
    struct plenum_stream_options o = options_of(list(2, false));
    pid_t a = start(0), b = start(1);
    struct plenum_error warning = {""};
    struct plenum_stream *s;
    unsigned told = 0;
    uint64_t begin;

    o.epochs = 0;
    s = open_stream(NULL, &o);
    wait_for_loaders(s, 2);
    (void)drain(s, 30);
    (void)daemon_end(b, SIGKILL);
    b = daemon_start_with(at[1].unix_socket, "1", args);
    begin = time_now_ns();
    while (time_now_ns() < begin + 2 * NS_PER_SEC) {
        (void)drain(s, 2);
        while (plenum_stream_take_warning(s, &warning))
            told += strstr(warning.text, "is not used for now") != NULL;
    }
    cr_expect(eq(u32, told, 1));
    cr_expect(eq(u32, stats_of(s).loaders, 1));
    (void)daemon_end(b, SIGKILL);
    b = start(1);
    wait_for_loaders(s, 2);
    plenum_stream_destroy(s);
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

Test(loaders, batches_of_one_that_dies_are_rendered_by_others)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct plenum_stream_options o = options_of(NULL);
        pid_t a = start(0), b = start(1);
        struct plenum_error warning;
        struct plenum_stream *s;
        uint64_t want, hash;

        o.epochs = 30;
        want = hash_of(&o, at[0].unix_socket);
        o.loader = list(2, tcp);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        hash = drain(s, 50);
        (void)daemon_end(b, SIGKILL);
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, want));
        cr_expect(eq(u64, stats_of(s).incidents, 1));
        cr_expect(eq(u64, stats_of(s).lost_ns, 0), "a loader was always available");
        cr_expect(eq(int, plenum_stream_take_warning(s, &warning), 1));
        cr_expect(strstr(warning.text, tcp ? at[1].tcp : at[1].unix_socket) != NULL, "%s",
                  warning.text);
        cr_expect(strstr(warning.text, "died") != NULL, "%s", warning.text);
        cr_expect(eq(int, plenum_stream_take_warning(s, &warning), 0),
                  "one warning per incident, not: %s", warning.text);
        plenum_stream_destroy(s);
        (void)daemon_end(a, SIGTERM);
    }
}

/* The requests must move to other loaders long before the silence timeout, which is longer than any
 * test runs. */
Test(loaders, batches_of_one_that_is_stopped_are_requested_from_others)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct plenum_stream_options o = options_of(NULL);
        pid_t a = start(0), b = start(1);
        struct plenum_stream *s;
        uint64_t want, hash;

        o.epochs = 60;
        o.silence_ns = 100000 * NS_PER_SEC;
        want = hash_of(&o, at[0].unix_socket);
        o.loader = list(2, tcp);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        hash = drain(s, 50);
        for (int round = 0; round < 3; round++) {
            (void)kill(round % 2 ? a : b, SIGSTOP);
            hash += drain(s, 150);
            (void)kill(round % 2 ? a : b, SIGCONT);
            hash += drain(s, 20);
        }
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, want));
        cr_expect(eq(u64, stats_of(s).incidents, 0));
        cr_expect(gt(u64, stats_of(s).hedged, 0));
        cr_expect(le(u64, stats_of(s).hedges_won, stats_of(s).hedged));
        plenum_stream_destroy(s);
        (void)daemon_end(a, SIGTERM);
        (void)daemon_end(b, SIGTERM);
    }
}

/* Every slot is leased when the loader that holds the next batch dies: another loader must have
 * room for that batch. */
Test(loaders, batches_of_a_lost_loader_always_find_room)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct plenum_stream_options o = options_of(list(2, tcp));
        pid_t a = start(0), b = start(1);
        struct plenum_batch held[32];
        struct plenum_stream_info info;
        struct plenum_stream *s;
        uint64_t hash = 0, want;
        uint32_t n = 0;

        o.epochs = 10;
        want = hash_of(&o, at[0].unix_socket);
        s = open_stream(NULL, &o);
        plenum_stream_get_info(s, &info);
        cr_expect(ge(u32, info.slots, 2 * 2 + 2), "two slots for each loader, and two more");
        for (; n < info.slots - 1; n++)
            cr_assert(next_is_there(s, &held[n]));
        (void)daemon_end(b, SIGKILL);
        cr_assert(next_is_there(s, &held[n]));
        n++;
        for (uint32_t i = 0; i < n; i++) {
            hash += plenum_batch_hash(&held[i]);
            plenum_batch_release(&held[i]);
        }
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, want));
        plenum_stream_destroy(s);
        (void)daemon_end(a, SIGTERM);
    }
}

static void no_more_slots(const char *loader)
{
    struct plenum_stream_options o = options_of(loader);
    struct plenum_batch held[64];
    struct plenum_stream *s;
    uint32_t n = 0;
    int r;

    o.epochs = 0;
    s = open_stream(NULL, &o);
    while ((r = plenum_stream_next(s, 60 * NS_PER_SEC, &held[n], NULL)) == 0 && n < 40)
        n++;
    cr_expect(eq(int, r, -ENOBUFS), "after %u", n);
    plenum_batch_release(&held[0]);
    cr_expect(next_is_there(s, &held[0]));
    for (uint32_t i = 0; i < n; i++)
        plenum_batch_release(&held[i]);
    plenum_stream_destroy(s);
}

Test(loaders, leasing_all_slots_is_an_error_and_does_not_hang)
{
    pid_t a = start(0), b = start(1);

    no_more_slots(list(1, true));
    no_more_slots(list(2, true));
    no_more_slots(list(2, false));
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

/* Kills, stops and continues loaders while a stream runs. */
struct chaos {
    pthread_t thread;
    atomic_bool stop;
    pid_t loaders[LOADERS];
    unsigned kills, stops;
};

static void *chaos_main(void *arg)
{
    struct chaos *c = arg;
    unsigned long long state = 88172645463325252ULL;

    for (unsigned i = 0; i < LOADERS; i++)
        c->loaders[i] = start(i);
    atomic_store(&c->stop, false);
    while (!atomic_load(&c->stop)) {
        unsigned i;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        i = (unsigned)(state >> 3) % LOADERS;
        (void)usleep((unsigned)(state >> 20) % 60000); /* at any moment */
        if (state >> 40 & 1) {
            (void)daemon_end(c->loaders[i], SIGKILL);
            (void)usleep((unsigned)(state >> 30) % 60000); /* a restart takes time */
            c->loaders[i] = start(i);
            c->kills++;
        } else {
            (void)kill(c->loaders[i], SIGSTOP);
            (void)usleep((unsigned)(state >> 30) % 900000); /* the duration of the stop */
            (void)kill(c->loaders[i], SIGCONT);
            c->stops++;
        }
    }
    for (unsigned i = 0; i < LOADERS; i++)
        (void)daemon_end(c->loaders[i], SIGTERM);
    return NULL;
}

static void chaos_changes_no_byte(bool tcp)
{
    struct plenum_stream_options o = options_of(NULL);
    struct chaos chaos = {.stop = true};
    struct plenum_stream *s;
    uint64_t want;
    pid_t first;

    o.epochs = 150;
    o.pipeline = "rrc(96)";
    o.silence_ns = 400 * NS_PER_MS;
    first = start(0);
    want = hash_of(&o, at[0].unix_socket);
    (void)daemon_end(first, SIGTERM);
    cr_assert(eq(int, pthread_create(&chaos.thread, NULL, chaos_main, &chaos), 0));
    while (atomic_load(&chaos.stop))
        (void)usleep(1000);
    o.loader = list(LOADERS, tcp);
    s = open_stream(NULL, &o);
    cr_expect(eq(u64, drain(s, UINT64_MAX), want));
    atomic_store(&chaos.stop, true);
    (void)pthread_join(chaos.thread, NULL);
    cr_expect(le(u64, stats_of(s).incidents, chaos.kills + chaos.stops + LOADERS));
    cr_expect(eq(u64, stats_of(s).batches, (150 * ((SAMPLES + 3) / 4))));
    plenum_stream_destroy(s);
}

Test(loaders, random_kills_and_stops_change_no_byte)
{
    chaos_changes_no_byte(false);
}

Test(loaders, random_kills_and_stops_change_no_byte_over_tcp)
{
    chaos_changes_no_byte(true);
}

/* Two loaders render the same batches: every batch is compared, and the stream delivers the usual
 * content. Either loader may be lost; the stream then does not wait for its answer. */
Test(loaders, verification_finds_no_false_differences)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct plenum_stream_options o = options_of(NULL);
        struct plenum_stream_stats stats;
        struct plenum_stream *s;
        pid_t a = start(0), b = start(1);
        uint64_t want, hash;

        o.epochs = 40;
        want = hash_of(&o, at[0].unix_socket);
        (void)setenv("PLENUM_VERIFY_BATCHES", "100%", 1);
        o.loader = list(2, tcp);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        hash = drain(s, 150);
        stats = stats_of(s);
        /* All of them, except batches requested before the second loader connected, or while one
         * was late. */
        cr_expect(gt(u64, stats.verified, 90), "%llu", (unsigned long long)stats.verified);
        (void)kill(b, SIGSTOP);
        hash += drain(s, 50);
        (void)kill(b, SIGCONT);
        hash += drain(s, 50);
        (void)daemon_end(b, SIGKILL);
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, want));
        plenum_stream_destroy(s);
        (void)unsetenv("PLENUM_VERIFY_BATCHES");
        (void)daemon_end(a, SIGTERM);
    }
}

static pid_t start_wrong(unsigned i)
{
    const char *right = getenv("PLENUM_PLENUMD");
    char wrong[512];

    (void)snprintf(wrong, sizeof(wrong), "%.*s/tests/libdist/plenumd-wrong",
                   (int)(strrchr(right, '/') - right), right);
    (void)setenv("PLENUM_PLENUMD", wrong, 1);
    return start(i);
}

/* Other loaders render what a loader with a broken disk cannot; without any other, the stream
 * reports the error. */
Test(loaders, one_that_cannot_read_gets_no_requests)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_error err = {""};
    struct plenum_stream *s;
    struct plenum_batch batch;
    pid_t a = start(0), b;
    uint64_t want;
    int r;

    o.epochs = 30;
    want = hash_of(&o, at[0].unix_socket);
    (void)setenv("PLENUM_WRONG_DISK", "1", 1);
    b = start_wrong(1);
    for (int tcp = 0; tcp < 2; tcp++) {
        o.loader = list(2, tcp);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        cr_expect(eq(u64, drain(s, UINT64_MAX), want));
        cr_expect(gt(u64, stats_of(s).moved, 0));
        cr_expect(eq(u64, stats_of(s).incidents, 0));
        cr_expect(eq(int, plenum_stream_take_warning(s, &err), 1));
        cr_expect(strstr(err.text, tcp ? at[1].tcp : at[1].unix_socket) != NULL, "%s", err.text);
        cr_expect(strstr(err.text, "the disk is broken") != NULL, "%s", err.text);
        cr_expect(eq(int, plenum_stream_take_warning(s, &err), 0), "said once: %s", err.text);
        plenum_stream_destroy(s);
    }
    o.loader = at[1].tcp;
    s = open_stream(NULL, &o);
    while ((r = plenum_stream_next(s, 60 * NS_PER_SEC, &batch, &err)) == 0)
        plenum_batch_release(&batch);
    cr_expect(eq(int, r, -EIO));
    cr_expect(strstr(err.text, "the disk is broken") != NULL, "%s", err.text);
    plenum_stream_destroy(s);
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

/* If the only loader that can render the batches is away for a moment, the stream waits for it as
 * long as for a single loader. */
Test(loaders, one_that_is_away_is_waited_for_if_no_other_can_help)
{
    struct plenum_stream_options o = options_of(NULL);
    pid_t a = start(0), b;
    char right[512];
    uint64_t want;

    o.epochs = 30;
    want = hash_of(&o, at[0].unix_socket);
    (void)snprintf(right, sizeof(right), "%s", getenv("PLENUM_PLENUMD"));
    (void)setenv("PLENUM_WRONG_DISK", "1", 1);
    b = start_wrong(1);
    (void)setenv("PLENUM_PLENUMD", right, 1);
    o.loader = list(2, false);
    for (int comes_back = 1; comes_back >= 0; comes_back--) {
        struct plenum_error err = {""};
        struct plenum_stream *s;
        struct plenum_batch batch;
        uint64_t hash;
        int r;

        o.loader_timeout_ns = (comes_back ? 60 : 1) * NS_PER_SEC;
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        hash = drain(s, 20);
        (void)daemon_end(a, SIGKILL);
        while ((r = plenum_stream_next(s, comes_back ? NS_PER_SEC : PLENUM_FOREVER, &batch,
                                       &err)) == 0) {
            hash += plenum_batch_hash(&batch);
            plenum_batch_release(&batch);
        }
        if (comes_back) {
            cr_expect(eq(int, r, -EAGAIN), "%s", err.text);
            a = start(0);
            cr_expect(eq(u64, hash + drain(s, UINT64_MAX), want));
        } else {
            cr_expect(eq(int, r, -EIO));
            cr_expect(strstr(err.text, "the disk is broken") != NULL, "%s", err.text);
        }
        plenum_stream_destroy(s);
    }
    (void)daemon_end(b, SIGTERM);
}

Test(loaders, wrong_pixels_are_found_and_both_loaders_named)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_error err = {""};
    struct plenum_stream *s;
    struct plenum_batch batch;
    pid_t a = start(0), c = start(2), b = start_wrong(1);
    int r;

    o.epochs = 0;
    o.shuffle = "none";
    for (int tcp = 0; tcp < 2; tcp++) {
        o.loader = list(2, tcp);
        (void)setenv("PLENUM_VERIFY_BATCHES", "100", 1);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        while ((r = plenum_stream_next(s, 60 * NS_PER_SEC, &batch, &err)) == 0)
            plenum_batch_release(&batch);
        cr_expect(eq(int, r, -EBADMSG));
        for (unsigned i = 0; i < 2; i++)
            cr_expect(strstr(err.text, tcp ? at[i].tcp : at[i].unix_socket) != NULL, "%s",
                      err.text);
        cr_expect(strstr(err.text, "sample 11 differently (") != NULL, "%s", err.text);
        cr_expect(strstr(err.text, "position 11)") != NULL, "%s", err.text);
        plenum_stream_destroy(s);
    }
    for (int tcp = 0; tcp < 2; tcp++) {
        const char *guilty = tcp ? at[1].tcp : at[1].unix_socket;
        char words[256];

        o.loader = list(3, tcp);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 3);
        /* Not every batch with that sample is requested from the faulty loader. */
        while ((r = plenum_stream_next(s, 60 * NS_PER_SEC, &batch, &err)) == 0)
            plenum_batch_release(&batch);
        cr_expect(eq(int, r, -EBADMSG));
        (void)snprintf(words, sizeof(words), "so %s, or its copy of the data, is broken", guilty);
        cr_expect(strstr(err.text, words) != NULL, "%s", err.text);
        plenum_stream_destroy(s);
    }
    (void)daemon_end(c, SIGTERM);
    for (int i = 0; i < 3; i++) {
        static const char *const nonsense[] = {"101", "-1%", "all"};

        (void)setenv("PLENUM_VERIFY_BATCHES", nonsense[i], 1);
        cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL), "%s", nonsense[i]);
        cr_expect(strstr(err.text, nonsense[i]) != NULL, "%s", err.text);
    }
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

Test(loaders, one_with_another_data_set_is_named_and_not_used)
{
    struct plenum_stream_options o = options_of(list(2, true));
    pid_t a = start(0), b = start(1);
    struct plenum_error warning = {""};
    struct plenum_stream *s;
    uint64_t before;

    o.epochs = 0;
    s = open_stream(NULL, &o);
    wait_for_loaders(s, 2);
    (void)drain(s, 30);
    (void)daemon_end(b, SIGKILL);
    cr_assert(eq(int, unlink(tree_path(&tree, "data/a/00.jpg")), 0)); /* sample 0 of class a */
    b = start(1);
    before = time_now_ns();
    for (bool told = false; !told && time_now_ns() < before + 300 * NS_PER_SEC;) {
        while (!told && plenum_stream_take_warning(s, &warning))
            told = strstr(warning.text, "is not used") != NULL;
        (void)usleep(10000);
    }
    cr_expect(strstr(warning.text, at[1].tcp) != NULL, "%s", warning.text);
    cr_expect(strstr(warning.text, "one has 53 samples, the other 52") != NULL, "%s", warning.text);
    cr_expect(eq(u32, stats_of(s).loaders, 1));
    cr_expect(eq(u64, rendered_by(1), 0));
    plenum_stream_destroy(s);
    (void)daemon_end(a, SIGTERM);
    (void)daemon_end(b, SIGTERM);
}

static const char *make_key(const char *name, const char *text)
{
#ifndef HAVE_TLS
    cr_skip_test("built without OpenSSL");
#endif
    static char paths[8][256];
    static unsigned count;
    char *path = paths[count++ % ARRAY_LEN(paths)];

    tree_write_text(&tree, name, text);
    (void)snprintf(path, sizeof(paths[0]), "%s", tree_path(&tree, name));
    cr_assert(eq(int, chmod(path, 0600), 0));
    return path;
}

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef"

/* Returns a client's key, derived from a loader's. */
static const char *make_client(const char *key, const char *name)
{
    struct tls_key loader, client;
    struct plenum_error err;
    char text[TLS_TEXT_MAX];

    cr_assert(eq(int, tls_key_read(key, &loader, &err), 0), "%s", err.text);
    cr_assert(eq(int, tls_key_of_client(&loader, name, &client, &err), 0), "%s", err.text);
    tls_key_format(&client, text);
    return make_key(name, text);
}

static int open_error(const struct plenum_stream_options *o, struct plenum_error *err)
{
    struct plenum_stream *s = NULL;
    int r = plenum_stream_open(NULL, o, &s, err);

    plenum_stream_destroy(s);
    return r;
}

/* Batches of several MB and of a few bytes come from several loaders, one of which is killed. */
Test(loaders, a_key_changes_no_byte)
{
    const char *key = make_key("key", SECRET "0\n");
    pid_t a = start_with_key(0, key), b = start_with_key(1, key);
    struct plenum_stream *s;
    uint64_t want, hash;

    (void)setenv("PLENUM_LOADER_KEY", make_client(key, "trainer"), 1);
    for (int big = 0; big < 2; big++) {
        struct plenum_stream_options o = options_of(NULL);

        if (big) {
            o.pipeline = "eval";
            o.micro_batch = 37;
        } else {
            o.epochs = 30;
        }
        want = hash_of(&o, at[0].unix_socket);
        cr_expect(eq(u64, hash_of(&o, at[0].tcp), want));
        o.loader = list(2, true);
        s = open_stream(NULL, &o);
        wait_for_loaders(s, 2);
        hash = drain(s, 3);
        if (big)
            (void)daemon_end(b, SIGKILL);
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, want));
        plenum_stream_destroy(s);
    }
    (void)daemon_end(a, SIGTERM);
}

/* TLS input is peeked at by recv(): the client's `blind`th peek finds nothing, as if the loader's
 * answer came in two segments. */
static atomic_int blind;

PLENUM_API ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    static ssize_t (*next)(int, void *, size_t, int);

    if (!next)
        next = (ssize_t(*)(int, void *, size_t, int))(intptr_t)dlsym(RTLD_NEXT, "recv");
    if (atomic_fetch_sub(&blind, 1) == 1) {
        errno = EAGAIN;
        return -1;
    }
    return next(fd, bytes, len, flags);
}

/* If the client missed the end of the handshake, nothing else would arrive to wake it. */
Test(loaders, a_handshake_that_ends_while_reading_continues)
{
    const char *key = make_key("key", SECRET "0");
    struct plenum_stream_options o = options_of(at[0].tcp);
    struct plenum_error err = {""};
    pid_t loader = start_with_key(0, key);

    (void)setenv("PLENUM_LOADER_KEY", make_client(key, "trainer"), 1);
    o.loader_timeout_ns = 20 * NS_PER_SEC;
    o.silence_ns = 3600 * NS_PER_SEC;
    for (int look = 1; look < 12; look++) {
        atomic_store(&blind, look);
        cr_expect(eq(int, open_error(&o, &err), 0), "look %d: %s", look, err.text);
        cr_expect(le(int, atomic_load(&blind), 0), "look %d was not reached", look);
    }
    (void)daemon_end(loader, SIGTERM);
}

Test(loaders, a_missing_or_wrong_key_is_rejected)
{
    const char *key = make_key("key", SECRET "0"), *other = make_key("other", SECRET "1");
    struct plenum_stream_options o = options_of(at[0].tcp);
    struct plenum_error err = {""};
    pid_t with = start_with_key(0, key), without = start(1);

    cr_expect(eq(int, open_error(&o, &err), -EACCES), "no key");
    cr_expect(strstr(err.text, "PLENUM_LOADER_KEY") != NULL, "%s", err.text);
    (void)setenv("PLENUM_LOADER_KEY", make_client(other, "another"), 1);
    cr_expect(eq(int, open_error(&o, &err), -EACCES), "another key: %s", err.text);
    cr_expect(strstr(err.text, "does not have the key") != NULL, "%s", err.text);
    (void)setenv("PLENUM_LOADER_KEY", key, 1);
    cr_expect(eq(int, open_error(&o, &err), -EINVAL), "the loader's own key must be rejected");
    cr_expect(strstr(err.text, "could act as a loader for others") != NULL, "%s", err.text);
    (void)setenv("PLENUM_LOADER_KEY", make_client(key, "trainer"), 1);
    cr_expect(eq(int, open_error(&o, &err), 0), "%s", err.text);
    o.loader = at[1].tcp;
    cr_expect(eq(int, open_error(&o, &err), -EACCES), "a loader without TLS must be rejected");
    cr_expect(strstr(err.text, "does not use TLS") != NULL, "%s", err.text);
    o.loader = at[1].unix_socket;
    cr_expect(eq(int, open_error(&o, &err), 0), "a key must affect only TCP: %s", err.text);
    (void)daemon_end(with, SIGTERM);
    (void)daemon_end(without, SIGTERM);
}

Test(loaders, a_key_that_others_can_read_is_rejected)
{
    struct plenum_stream_options o = options_of(at[0].tcp);
    const char *key = make_client(make_key("secret", SECRET "0"), "trainer");
    struct plenum_error err = {""};

    (void)setenv("PLENUM_LOADER_KEY", key, 1);
    (void)chmod(key, 0644);
    cr_expect(eq(int, open_error(&o, &err), -EACCES));
    cr_expect(strstr(err.text, "can be read by others") != NULL, "%s", err.text);
    (void)setenv("PLENUM_LOADER_KEY", make_key("words", "correct horse battery staple 123"), 1);
    cr_expect(eq(int, open_error(&o, &err), -EINVAL));
    cr_expect(strstr(err.text, "words contains no key") != NULL, "%s", err.text);
    (void)setenv("PLENUM_LOADER_KEY", tree_path(&tree, "nowhere"), 1);
    cr_expect(eq(int, open_error(&o, &err), -ENOENT));
    cr_expect(strstr(err.text, "nowhere") != NULL, "%s", err.text);
}

Test(loaders, an_unknown_name_does_not_stop_the_others)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_error warning = {""};
    struct plenum_stream *s;
    pid_t loader = start(0);
    char both[256];

    (void)snprintf(both, sizeof(both), "tcp:no-such-host.invalid:7,%s", at[0].tcp);
    o.loader = both;
    s = open_stream(NULL, &o);
    cr_expect(eq(u64, drain(s, UINT64_MAX), hash_of(&o, at[0].unix_socket)));
    cr_expect(eq(int, plenum_stream_take_warning(s, &warning), 1));
    cr_expect(strstr(warning.text, "no-such-host.invalid") != NULL, "%s", warning.text);
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

/* SPDX-License-Identifier: MIT */
/* Tests streams against a real plenumd: the delivered data, its order, and that no fault changes
 * it.
 *
 * The oracle is rendered in the test itself, position by position, in one thread, without a loader.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/net/address.h"
#include "common/net/frame.h"
#include "common/net/wire.h"
#include "common/pipeline/streamhash.h"
#include "common/util/util.h"
#include "libdist/ownloader.h"
#include "loader/render/render.h"
#include "tests/daemon.h"
#include "tests/libdist/streams.h"
#include "tests/tree.h"

static struct tree tree;
static char data[DATA_PATH_MAX], socket_a[128], socket_b[128];

enum { SAMPLES = 37 };

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

TestSuite(stream, .init = setup, .fini = teardown, .timeout = 600);

static pid_t start_loader(const char *address, const char *threads)
{
    return daemon_start(address, threads, NULL, NULL);
}

static void end_loader(pid_t pid, int signum)
{
    (void)daemon_end(pid, signum);
}

static struct plenum_stream_options options_of(const char *loader)
{
    struct plenum_stream_options o = common_options(data, loader);

    o.epochs = 3;
    return o;
}

static struct plenum_batch next_of(struct plenum_stream *s)
{
    struct plenum_batch b;
    struct plenum_error err;

    cr_assert(eq(int, plenum_stream_next(s, 60 * NS_PER_SEC, &b, &err), 0), "%s", err.text);
    return b;
}

/* Returns the reference, rendered in one thread: the sum of hashes of the valid positions [from,
 * to) of an epoch. */
static uint64_t oracle(const struct plenum_stream_options *o, uint64_t epoch, uint64_t from,
                       uint64_t to)
{
    static uint8_t pixels[256 * 256 * 3];
    struct render_spec spec = {.store = {PLENUM_UINT8, PLENUM_NHWC, 3}, .bad = o->bad};
    struct render_scratch scratch = {0};
    struct plenum_error err;
    uint64_t hash = 0;

    cr_assert(eq(int, dataset_open(o->dataset, NULL, &spec.dataset, &err), 0), "%s", err.text);
    cr_assert(eq(int, views_parse(o->pipeline, &spec.views, &err), 0), "%s", err.text);
    spec.order = (struct order){
        .seed = o->seed, .n = dataset_get_samples(spec.dataset), .repeat = o->repeat};
    (void)order_parse_shuffle(o->shuffle, &spec.order.shuffle, &spec.order.block, NULL);
    for (uint64_t p = from; p < to && p < order_positions(&spec.order); p++) {
        struct render_target target = render_target_in(&spec, pixels);
        struct streamhash_image images[VIEWS_MAX];
        struct render_result result;
        struct streamhash_mix mix;

        cr_assert(eq(int,
                     render_position(&spec, &scratch, (struct order_place){epoch, p}, pixels,
                                     &result, &err),
                     0),
                  "%s", err.text);
        for (uint32_t i = 0; i < spec.views.count; i++)
            images[i] = (struct streamhash_image){.pixels = target.view[i],
                                                  .count = spec.views.view[i].count,
                                                  .width = spec.views.view[i].pipeline.width,
                                                  .height = spec.views.view[i].pipeline.height,
                                                  .channels = 3,
                                                  .dtype = PLENUM_UINT8,
                                                  .layout = PLENUM_NHWC};
        mix = (struct streamhash_mix){.label2 = result.label2, .weight = result.weight};
        hash +=
            streamhash_of(&(struct streamhash_sample){.epoch = epoch,
                                                      .position = p,
                                                      .label = result.label,
                                                      .mix = views_mix(&spec.views) ? &mix : NULL,
                                                      .images = images,
                                                      .views = spec.views.count});
    }
    render_scratch_fini(&scratch);
    dataset_unref(spec.dataset);
    return hash;
}

static uint64_t oracle_epochs(const struct plenum_stream_options *o)
{
    uint64_t hash = 0;

    for (uint64_t e = 0; e < o->epochs; e++)
        hash += oracle(o, e, 0, UINT64_MAX);
    return hash;
}

/* Makes instance `index` of `count`, each with `local` replicas. */
static struct plenum_job_info instance(uint32_t index, uint32_t count, uint32_t local)
{
    return (struct plenum_job_info){.num_instances = count,
                                    .instance_index = index,
                                    .num_local_instances = count,
                                    .local_instance_index = index,
                                    .num_replicas = count * local,
                                    .num_local_replicas = local,
                                    .replica_offset = index * local,
                                    .devices_per_replica = 1};
}

Test(stream, the_hash_equals_the_oracles_for_all_ways_of_sharing)
{
    static const struct {
        uint32_t instances, local, m, s;
    } ways[] = {{1, 1, 16, 1}, {1, 4, 4, 1}, {1, 16, 1, 1}, {1, 3, 5, 1},  {2, 2, 4, 1},
                {4, 1, 3, 2},  {3, 1, 1, 7}, {1, 1, 64, 1}, {1, 1, 37, 2}, {1, 2, 50, 3}};
    pid_t loader = start_loader(socket_a, "4");
    struct plenum_stream_options o = options_of(socket_a);
    uint64_t want = oracle_epochs(&o);

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        uint64_t hash = 0;

        o.micro_batch = ways[i].m;
        o.steps = ways[i].s;
        for (uint32_t k = 0; k < ways[i].instances; k++) {
            struct plenum_job_info info = instance(k, ways[i].instances, ways[i].local);
            struct plenum_stream *s = open_stream(&info, &o);

            hash += drain(s, UINT64_MAX);
            plenum_stream_destroy(s);
        }
        cr_expect(eq(u64, hash, want), "I %u, local R %u, M %u, S %u", ways[i].instances,
                  ways[i].local, ways[i].m, ways[i].s);
    }
    end_loader(loader, SIGTERM);
}

/* DeiT's and torchvision's RASampler writes each sample of a permutation three times and gives rank
 * g of R the indices g, g + R, g + 2R, ...: with deal = round-robin a replica gets exactly these,
 * and no replica gets two copies of a sample. */
Test(stream, repeats_dealt_round_robin_are_those_of_a_repeated_augmentation_sampler)
{
    enum { R = 6, M = 2, S = 2, K = 3, STEPS = (SAMPLES * K + R * M - 1) / (R * M) };
    static const uint32_t owned[] = {1, 3, 2};
    static uint8_t on[2][STEPS][SAMPLES][R], shown[2][SAMPLES];
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    struct order order = {.seed = o.seed, .n = SAMPLES, .repeat = K};
    uint64_t hash = 0;
    uint32_t offset = 0;

    o.micro_batch = M;
    o.steps = S;
    o.epochs = 2;
    o.repeat = K;
    o.deal = PLENUM_DEAL_ROUND_ROBIN;
    for (uint32_t i = 0; i < ARRAY_LEN(owned); offset += owned[i++]) {
        struct plenum_job_info info = instance(i, 3, 1);
        struct plenum_stream *s;
        struct plenum_batch b;
        uint64_t step = 0;

        info.num_replicas = R;
        info.num_local_replicas = owned[i];
        info.replica_offset = offset;
        s = open_stream(&info, &o);
        for (; plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0; step += S) {
            hash += plenum_batch_hash(&b);
            for (uint32_t k = 0; k < b.count; k++) {
                uint32_t g = offset + k % (owned[i] * M) / M,
                         e = (uint32_t)b.epochs[k / (owned[i] * M)];
                uint64_t t = (step + k / (owned[i] * M)) % STEPS, j = t * M + k % M;

                cr_assert(eq(u64, b.positions[k], g + R * j));
                cr_assert(eq(u32, b.samples[k],
                             order_sample(&order, e, (uint32_t)(b.positions[k] % (SAMPLES * K)))));
                if (!b.valid[k])
                    continue;
                shown[e][b.samples[k]]++;
                cr_assert(eq(u8, on[e][t][b.samples[k]][g]++, 0),
                          "two copies in one step of a replica");
            }
            plenum_batch_release(&b);
        }
        plenum_stream_destroy(s);
    }
    for (int e = 0; e < 2; e++)
        for (int p = 0; p < SAMPLES; p++)
            cr_assert(eq(u8, shown[e][p], K), "sample %d of epoch %d", p, e);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    end_loader(loader, SIGTERM);
}

/* The instances own 1, 3 and 2 replicas. */
Test(stream, replicas_may_be_divided_unevenly)
{
    static const uint32_t owned[] = {1, 3, 2};
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    bool seen[3][SAMPLES] = {{false}};
    uint64_t hash = 0;
    uint32_t offset = 0;

    o.micro_batch = 2;
    o.steps = 2;
    for (uint32_t i = 0; i < 3; i++) {
        struct plenum_job_info info = instance(i, 3, 1);
        struct plenum_stream_info facts;
        struct plenum_stream *s;
        struct plenum_batch b;
        uint64_t batches = 0;

        info.num_replicas = 6;
        info.num_local_replicas = owned[i];
        info.replica_offset = offset;
        s = open_stream(&info, &o);
        plenum_stream_get_info(s, &facts);
        cr_expect(eq(u32, facts.replicas, owned[i]));
        cr_expect(eq(u64, facts.steps_per_epoch, 4),
                  "37 samples, 12 per step: the same in every instance");
        for (; plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0; batches++) {
            hash += plenum_batch_hash(&b);
            cr_assert(eq(u32, b.count, 2 * owned[i] * 2));
            for (uint32_t k = 0; k < b.count; k++) {
                uint64_t in_step = b.positions[k] % 12;

                cr_assert(in_step >= offset * 2 && in_step < (offset + owned[i]) * 2);
                if (b.valid[k]) {
                    cr_assert(not(seen[b.epochs[k / (owned[i] * 2)]][b.positions[k]]));
                    seen[b.epochs[k / (owned[i] * 2)]][b.positions[k]] = true;
                }
            }
            plenum_batch_release(&b);
        }
        cr_expect(eq(u64, batches, facts.batches));
        plenum_stream_destroy(s);
        offset += owned[i];
    }
    for (int e = 0; e < 3; e++)
        for (int p = 0; p < SAMPLES; p++)
            cr_assert(seen[e][p], "position %d of epoch %d", p, e);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    end_loader(loader, SIGTERM);
}

Test(stream, the_hash_equals_the_oracles_for_all_orders_stores_and_threads)
{
    static const char *const shuffles[] = {"global", "none", "block:5"};

    for (int threads = 1; threads <= 4; threads += 3) {
        char text[16];
        pid_t loader;

        (void)snprintf(text, sizeof(text), "%d", threads);
        loader = start_loader(socket_a, text);
        for (size_t i = 0; i < ARRAY_LEN(shuffles); i++)
            for (int store = 0; store < 8; store++) {
                struct plenum_stream_options o = options_of(socket_a);
                struct plenum_stream *s;

                o.epochs = 1;
                o.shuffle = shuffles[i];
                o.dtype = store & 1 ? PLENUM_UINT8 : PLENUM_INT8;
                o.layout = store & 2 ? PLENUM_NCHW : PLENUM_NHWC;
                o.channels = store & 4 ? 4 : 3;
                s = open_stream(NULL, &o);
                cr_expect(eq(u64, drain(s, UINT64_MAX), oracle_epochs(&o)), "%s, store %d",
                          shuffles[i], store);
                plenum_stream_destroy(s);
            }
        end_loader(loader, SIGTERM);
    }
}

/* Compares the arrays of a batch with their definition. */
static void expect_batch(const struct plenum_batch *b, const struct plenum_job_info *info,
                         const struct plenum_stream_options *o, uint64_t index)
{
    uint64_t per_step = (uint64_t)info->num_replicas * o->micro_batch;
    uint64_t steps_per_epoch =
        o->last == PLENUM_PAD ? (SAMPLES + per_step - 1) / per_step : SAMPLES / per_step;
    struct order order = {.seed = o->seed, .n = SAMPLES, .shuffle = ORDER_GLOBAL};
    uint32_t n = 0, valid = 0;

    cr_assert(eq(u64, b->index, index));
    for (uint32_t step = 0; step < o->steps; step++) {
        uint64_t k = index * o->steps + step, epoch = k / steps_per_epoch;

        cr_assert(eq(u64, b->epochs[step], epoch));
        for (uint32_t r = 0; r < info->num_local_replicas; r++)
            for (uint32_t m = 0; m < o->micro_batch; m++, n++) {
                uint64_t p = k % steps_per_epoch * per_step +
                             (info->replica_offset + r) * o->micro_batch + m;
                bool counts = epoch < o->epochs && p < SAMPLES;

                cr_assert(eq(u64, b->positions[n], p));
                cr_assert(eq(u8, b->valid[n], counts));
                cr_assert(eq(u32, b->samples[n],
                             order_sample(&order, (uint32_t)epoch, (uint32_t)(p % SAMPLES))));
                cr_assert(eq(i64, b->labels[n],
                             b->samples[n] < 13   ? 0
                             : b->samples[n] < 25 ? 1
                                                  : 2));
                valid += counts;
            }
    }
    cr_assert(eq(u32, b->count, n));
    cr_assert(eq(u32, b->num_valid, valid));
}

Test(stream, positions_labels_and_flags_follow_the_definition)
{
    pid_t loader = start_loader(socket_a, "2");
    static const struct {
        uint32_t instances, local, m, s;
        enum plenum_last last;
    } ways[] = {{1, 1, 4, 1, PLENUM_PAD},  {2, 2, 3, 1, PLENUM_PAD},  {3, 1, 2, 4, PLENUM_PAD},
                {1, 1, 50, 2, PLENUM_PAD}, {1, 2, 5, 3, PLENUM_DROP}, {2, 1, 8, 2, PLENUM_DROP}};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (uint32_t k = 0; k < ways[i].instances; k++) {
            struct plenum_stream_options o = options_of(socket_a);
            struct plenum_job_info info = instance(k, ways[i].instances, ways[i].local);
            struct plenum_stream_info facts;
            struct plenum_stream *s;
            struct plenum_batch b;
            uint64_t index = 0;

            o.micro_batch = ways[i].m;
            o.steps = ways[i].s;
            o.last = ways[i].last;
            s = open_stream(&info, &o);
            plenum_stream_get_info(s, &facts);
            for (; plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0; index++) {
                expect_batch(&b, &info, &o, index);
                plenum_batch_release(&b);
            }
            cr_expect(eq(u64, index, facts.batches), "way %zu, instance %u", i, k);
            cr_expect(
                eq(u64, facts.batches, (facts.steps_per_epoch * o.epochs + o.steps - 1) / o.steps));
            plenum_stream_destroy(s);
        }
    end_loader(loader, SIGTERM);
}

Test(stream, a_run_stopped_anywhere_and_resumed_is_the_same_run)
{
    static const char *const texts[] = {
        "rrc(24) flip(0.5) mix(mixup=0.8, cutmix=1)",
        "exif view(a, 2, rrc(24x20) flip(0.5)) view(b, 3, rrc(9, scale=0.05:0.3) hue(-0.2:0.2))",
    };
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream_info facts;
    struct plenum_stream *s;
    uint64_t want;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        o.pipeline = texts[i];
        want = oracle_epochs(&o);
        s = open_stream(NULL, &o);
        plenum_stream_get_info(s, &facts);
        plenum_stream_destroy(s);
        for (uint64_t cut = 0; cut <= facts.batches; cut++) {
            struct plenum_cursor cursor;
            uint64_t hash;

            s = open_stream(NULL, &o);
            hash = drain(s, cut);
            plenum_stream_cursor(s, &cursor);
            plenum_stream_destroy(s);
            s = open_stream(NULL, &o);
            cr_assert(eq(int, plenum_stream_seek(s, &cursor, NULL), 0));
            hash += drain(s, UINT64_MAX);
            plenum_stream_destroy(s);
            cr_assert(eq(u64, hash, want), "cut after batch %llu", (unsigned long long)cut);
        }
    }
    end_loader(loader, SIGTERM);
}

Test(stream, a_run_continues_with_another_number_of_replicas)
{
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    uint64_t want = oracle_epochs(&o);

    for (uint32_t a = 1; a <= 6; a++)
        for (uint32_t b = 1; b <= 6; b++) {
            struct plenum_job_info first = instance(0, 1, a), second = instance(0, 1, b);
            struct plenum_cursor cursor;
            struct plenum_stream *s = open_stream(&first, &o);
            uint64_t hash = drain(s, 5);

            plenum_stream_cursor(s, &cursor);
            plenum_stream_destroy(s);
            s = open_stream(&second, &o);
            cr_assert(eq(int, plenum_stream_seek(s, &cursor, NULL), 0));
            hash += drain(s, UINT64_MAX);
            plenum_stream_destroy(s);
            cr_assert(eq(u64, hash, want), "R %u, then R %u", a, b);
        }
    end_loader(loader, SIGTERM);
}

Test(stream, seeking_back_and_forth_gives_the_same_batches)
{
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s;
    struct plenum_cursor cursors[12];
    uint64_t hashes[12];

    o.epochs = 0;
    s = open_stream(NULL, &o);
    for (int i = 0; i < 12; i++) {
        plenum_stream_cursor(s, &cursors[i]);
        hashes[i] = drain(s, 1);
    }
    for (int i = 0; i < 60; i++) {
        int k = i * 7 % 12;

        cr_assert(eq(int, plenum_stream_seek(s, &cursors[k], NULL), 0));
        cr_assert(eq(u64, drain(s, 1), hashes[k]), "place %d", k);
    }
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

Test(stream, a_cursor_of_another_stream_is_refused)
{
    static const char *const others[] = {"v1 rrc(24)flip(1/2)", "rrc(24) flip(0.5) mixup(1, p=0)",
                                         "rrc(24) flip(0.5) mixup(0.2)",
                                         "rrc(24) flip(0.5) cutmix(0.2)"};
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = open_stream(NULL, &o), *other;
    struct plenum_cursor cursor;
    struct plenum_error err = {""};

    plenum_stream_cursor(s, &cursor);
    o.seed++;
    other = open_stream(NULL, &o);
    cr_expect(eq(int, plenum_stream_seek(other, &cursor, &err), -ESTALE));
    cr_expect(ne(ptr, (void *)strstr(err.text, "another data set, pipeline, seed or order"), NULL));
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        struct plenum_stream_options mixed = options_of(socket_a);
        struct plenum_stream *another;

        mixed.pipeline = others[i];
        another = open_stream(NULL, &mixed);
        cr_expect(eq(int, plenum_stream_seek(another, &cursor, NULL), i < 2 ? 0 : -ESTALE), "%s",
                  others[i]);
        plenum_stream_destroy(another);
    }
    cursor.position = SAMPLES;
    cr_expect(eq(int, plenum_stream_seek(s, &cursor, &err), -EINVAL));
    cursor.position = 0;
    cursor.epoch = UINT64_MAX;
    cr_expect(eq(int, plenum_stream_seek(s, &cursor, &err), -EINVAL));
    plenum_stream_destroy(other);
    o.seed--;
    o.micro_batch = 9; /* the identity does not depend on how samples are divided */
    o.dtype = PLENUM_UINT8;
    o.subset = "0:37"; /* nor on how the same order is written */
    cr_assert(eq(int, SAMPLES, 37));
    other = open_stream(NULL, &o);
    plenum_stream_cursor(s, &cursor);
    cr_expect(eq(int, plenum_stream_seek(other, &cursor, &err), 0), "%s", err.text);
    plenum_stream_destroy(other);
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

static const char *old_loader_versions = "v1";
static uint16_t old_loader_minor = WIRE_MINOR;

/* Plays a loader from another build, up to its HELLO. */
static void *old_loader_main(void *arg)
{
    struct pollfd listening = {.fd = *(int *)arg, .events = POLLIN};
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c;
    struct wire_hello m;
    int fd;

    (void)poll(&listening, 1, 10000);
    fd = accept(listening.fd, NULL, NULL);
    if (fd < 0 || frame_conn_init(&c, fd, WIRE_MAX_PAYLOAD) < 0)
        return NULL;
    while (frame_conn_next(&c, &h, &r) == 0) {
        struct pollfd p = {.fd = c.fd, .events = POLLIN};

        (void)poll(&p, 1, 10000);
        if (frame_conn_fill(&c) == -ECONNRESET)
            break;
    }
    wire_hello_init(&m, "an older loader");
    m.minor = old_loader_minor;
    (void)snprintf(m.versions, sizeof(m.versions), "%s", old_loader_versions);
    (void)wire_put_hello(&c.tx, &m);
    (void)frame_conn_flush(&c);
    while (frame_conn_fill(&c) != -ECONNRESET) { /* until the client disconnects */
        struct pollfd p = {.fd = c.fd, .events = POLLIN};

        (void)poll(&p, 1, 10000);
    }
    frame_conn_fini(&c);
    return NULL;
}

static void expect_old_loader_refused(const struct plenum_stream_options *o, const char *sentence)
{
    struct plenum_stream *s = NULL;
    struct plenum_error err = {""};
    struct address address;
    pthread_t thread;
    int fd;

    cr_assert(eq(int, address_parse(socket_a, &address, &err), 0), "%s", err.text);
    fd = address_listen(&address, 0600, &err);
    cr_assert(fd >= 0, "%s", err.text);
    cr_assert(eq(int, pthread_create(&thread, NULL, old_loader_main, &fd), 0));
    cr_expect(eq(int, plenum_stream_open(NULL, o, &s, &err), -EPROTONOSUPPORT));
    cr_expect(ne(ptr, (void *)strstr(err.text, sentence), NULL), "%s", err.text);
    (void)pthread_join(thread, NULL);
    (void)close(fd);
}

Test(stream, a_loader_that_does_not_know_the_pixels_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);

    old_loader_versions = "v0";
    expect_old_loader_refused(&o, "it renders pixel versions 'v0', but 'v1' was requested");
}

/* An older loader would ignore the field, and show each replica samples of other replicas. */
Test(stream, a_loader_that_cannot_deal_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);

    o.deal = PLENUM_DEAL_ROUND_ROBIN;
    old_loader_minor = WIRE_MINOR_DEAL - 1;
    expect_old_loader_refused(&o, "it is too old for deal = round-robin");
}

/* Its slots would have no room for second labels. */
Test(stream, a_loader_that_cannot_mix_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);

    o.pipeline = "rrc(16) mixup(0.2)";
    old_loader_minor = WIRE_MINOR_MIX - 1;
    expect_old_loader_refused(&o, "it is too old for mixup and cutmix");
}

/* Such a loader would reject the pipeline, or its text as too long. */
Test(stream, a_loader_that_does_not_know_views_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);

    o.pipeline = "view(a, 1, rrc(16))";
    old_loader_minor = WIRE_MINOR_VIEWS - 1;
    expect_old_loader_refused(&o, "it is too old for views");
}

/* Such a loader would reject the pipeline with a message about its stages. */
Test(stream, a_loader_that_does_not_know_junk_is_rejected)
{
    struct plenum_stream_options o = options_of(socket_a);

    o.pipeline = "junk rrc(16)";
    old_loader_minor = WIRE_MINOR_JUNK - 1;
    expect_old_loader_refused(&o, "it is too old for the word junk in pipelines");
}

/* Such a loader would mistake the width for the height. */
Test(stream, a_loader_that_knows_only_squares_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);

    o.pipeline = "rrc(16x8)";
    old_loader_minor = WIRE_MINOR_SHAPE - 1;
    expect_old_loader_refused(&o, "it is too old for images that are not square");
}

/* Kills the loader and starts another, again and again, while the test runs. */
struct chaos {
    pthread_t thread;
    atomic_bool stop;
    struct plenum_stream *stream;
    pid_t loader;
    unsigned kills;
};

static uint64_t batches_of(struct plenum_stream *s)
{
    struct plenum_stream_stats stats;

    plenum_stream_get_stats(s, &stats);
    return stats.batches;
}

static void *chaos_main(void *arg)
{
    struct chaos *c = arg;

    while (!atomic_load(&c->stop)) {
        uint64_t begin = batches_of(c->stream);

        /* Each loader delivers something, however slowly it starts on this host. */
        while (!atomic_load(&c->stop) && batches_of(c->stream) == begin)
            (void)usleep(1000);
        (void)usleep(c->kills * 7919 % 30000); /* at any moment */
        end_loader(c->loader, SIGKILL);
        (void)usleep(c->kills * 104729 % 20000); /* a restart takes time */
        c->loader = start_loader(socket_a, "2");
        c->kills++;
    }
    return NULL;
}

Test(stream, a_loader_killed_and_started_again_loses_and_repeats_nothing)
{
    struct plenum_stream_options o = options_of(socket_a);
    struct chaos chaos = {.loader = start_loader(socket_a, "2")};
    struct plenum_stream_stats stats;
    struct plenum_stream *s;
    struct plenum_error warning;

    o.pipeline = "rrc(24) flip(0.5) mixup(0.4)";
    o.epochs = 200;
    s = chaos.stream = open_stream(NULL, &o);
    cr_assert(eq(int, pthread_create(&chaos.thread, NULL, chaos_main, &chaos), 0));
    cr_expect(eq(u64, drain(s, UINT64_MAX), oracle_epochs(&o)));
    atomic_store(&chaos.stop, true);
    (void)pthread_join(chaos.thread, NULL);
    plenum_stream_get_stats(s, &stats);
    cr_expect(gt(u64, stats.incidents, 0), "the loader was killed %u times", chaos.kills);
    /* The last loader ended with the thread that started it. */
    cr_expect(le(u64, stats.incidents, chaos.kills + 1));
    cr_expect(gt(u64, stats.lost_ns, 0));
    cr_expect(eq(int, plenum_stream_take_warning(s, &warning), 1));
    cr_expect(ne(ptr, (void *)strstr(warning.text, "died"), NULL), "%s", warning.text);
    plenum_stream_destroy(s);
    end_loader(chaos.loader, SIGTERM);
}

/* Without a loader, the stream delivers the batches that are ready, and then returns -EAGAIN. It
 * resumes, and loses no batch, once a loader is available again. */
Test(stream, the_trainer_only_waits_while_there_is_no_loader)
{
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b;
    uint64_t hash = drain(s, 2);

    end_loader(loader, SIGKILL);
    while (plenum_stream_next(s, 100 * NS_PER_MS, &b, NULL) == 0) { /* batches that were ready */
        hash += plenum_batch_hash(&b);
        plenum_batch_release(&b);
    }
    cr_expect(eq(int, plenum_stream_next(s, 100 * NS_PER_MS, &b, NULL), -EAGAIN));
    loader = start_loader(socket_a, "1");
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

/* A loader that is stopped while it fills slots, abandoned, and continued later must not touch
 * delivered batches. */
Test(stream, a_loader_that_was_stopped_and_continued_changes_no_byte)
{
    struct plenum_stream_options o = options_of(socket_a);
    char both[300];
    pid_t a = start_loader(socket_a, "2"), b;

    b = start_loader(socket_b, "2");
    (void)snprintf(both, sizeof(both), "%s,%s", socket_a, socket_b);
    o.loader = both;
    o.silence_ns = 300 * NS_PER_MS;
    o.epochs = 60;
    o.pipeline = "rrc(96)"; /* takes long enough for the loader to be stopped while it renders */
    for (int round = 0; round < 3; round++) {
        struct plenum_stream *s = open_stream(NULL, &o);
        struct plenum_batch held[3];
        uint64_t before[3], hash = drain(s, 20);

        held[0] = next_of(s); /* from the ring that is about to be abandoned */
        cr_assert(child_stop(a));
        for (int i = 1; i < 3; i++)
            held[i] = next_of(s);
        for (int i = 0; i < 3; i++)
            hash += before[i] = plenum_batch_hash(&held[i]);
        hash += drain(s, 10); /* these come from the other loader */
        cr_assert(eq(int, kill(a, SIGCONT), 0));
        (void)usleep(200000); /* it resumes the requested work */
        for (int i = 0; i < 3; i++) {
            cr_expect(eq(u64, plenum_batch_hash(&held[i]), before[i]), "batch %d", i);
            plenum_batch_release(&held[i]);
        }
        hash += drain(s, UINT64_MAX);
        cr_expect(eq(u64, hash, oracle_epochs(&o)));
        plenum_stream_destroy(s);
    }
    end_loader(a, SIGTERM);
    end_loader(b, SIGTERM);
}

/* Gets the STATS over a separate connection. */
static struct wire_stats ask_stats(const char *address)
{
    struct wire_stats stats = {0};
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c;
    struct wire_hello hello;
    struct address a;

    cr_assert(eq(int, address_parse(address, &a, NULL), 0));
    cr_assert(eq(int, frame_conn_init(&c, address_connect(&a, 0), WIRE_MAX_PAYLOAD), 0));
    wire_hello_init(&hello, "test");
    (void)wire_put_hello(&c.tx, &hello);
    (void)wire_put_empty(&c.tx, WIRE_STATS, 1);
    (void)frame_conn_flush(&c);
    for (int i = 0; i < 5000; i++) {
        (void)frame_conn_fill(&c);
        while (frame_conn_next(&c, &h, &r) == 1)
            if (h.type == WIRE_STATS) {
                cr_assert(eq(int, wire_get_stats(&r, &stats), 0));
                frame_conn_fini(&c);
                return stats;
            }
        (void)usleep(1000);
    }
    cr_fatal("the loader did not answer");
    return stats;
}

static unsigned entries_of(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    unsigned n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (dir)
        (void)closedir(dir);
    return n;
}

Test(stream, a_killed_trainer_leaves_nothing)
{
    pid_t loader = start_loader(socket_a, "2");
    unsigned shm = entries_of("/dev/shm", "plenum"), tmp = entries_of("/tmp", "plenum-ring");
    uint64_t begin;
    pid_t trainer = fork();

    if (trainer == 0) {
        struct plenum_stream_options o = options_of(socket_a);
        struct plenum_stream *s;

        o.epochs = 0;
        o.pipeline = "rrc(256)";
        s = open_stream(NULL, &o);
        (void)drain(s, 5);
        for (;;) {
            struct plenum_batch b = next_of(s);

            plenum_batch_release(&b);
        }
    }
    for (int i = 0; i < 30000 && ask_stats(socket_a).samples < 40; i++)
        (void)usleep(10000);
    cr_assert(gt(u64, ask_stats(socket_a).ring_bytes, 0));
    end_loader(trainer, SIGKILL);
    begin = time_now_ns();
    while (ask_stats(socket_a).ring_bytes > 0 && time_now_ns() < begin + 300 * NS_PER_SEC)
        (void)usleep(1000);
    cr_expect(eq(u64, ask_stats(socket_a).ring_bytes, 0), "the ring must be freed");
    cr_expect(eq(u64, ask_stats(socket_a).queued, 0), "the queued work must be dropped");
    cr_expect(eq(u32, entries_of("/dev/shm", "plenum"), shm));
    cr_expect(eq(u32, entries_of("/tmp", "plenum-ring"), tmp));
    end_loader(loader, SIGTERM);
}

Test(stream, a_loader_that_ends_removes_its_socket)
{
    pid_t loader = start_loader(socket_a, "1");

    cr_expect(eq(int, access(socket_a + strlen("unix:"), F_OK), 0));
    end_loader(loader, SIGTERM);
    cr_expect(eq(int, access(socket_a + strlen("unix:"), F_OK), -1));
    /* A loader that was killed leaves its socket behind, and the next one takes it over. */
    loader = start_loader(socket_a, "1");
    end_loader(loader, SIGKILL);
    cr_expect(eq(int, access(socket_a + strlen("unix:"), F_OK), 0));
    loader = start_loader(socket_a, "1");
    end_loader(loader, SIGTERM);
}

Test(stream, without_a_given_loader_it_starts_one_and_ends_it)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_stream_stats stats;
    struct address address;

    cr_expect(eq(u64, drain(s, UINT64_MAX), oracle_epochs(&o)));
    plenum_stream_get_stats(s, &stats);
    cr_assert(eq(int, address_parse(stats.loader, &address, NULL), 0));
    plenum_stream_destroy(s);
    cr_expect(eq(int, address_connect(&address, 0), -ECONNREFUSED), "the loader must be gone");
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1), "no child may be left");
}

Test(stream, two_streams_at_once_share_a_loader)
{
    struct plenum_stream_options train = options_of(NULL), eval = options_of(NULL);
    struct plenum_stream *a, *b;
    uint64_t hash_a = 0, hash_b = 0;

    eval.pipeline = "resize(32) center_crop(24)";
    eval.shuffle = "none";
    eval.epochs = 2;
    a = open_stream(NULL, &train);
    b = open_stream(NULL, &eval);
    for (int i = 0; i < 10; i++) {
        hash_a += drain(a, 1);
        hash_b += drain(b, 1);
    }
    hash_b += drain(b, UINT64_MAX);
    plenum_stream_destroy(b);
    hash_a += drain(a, UINT64_MAX);
    cr_expect(eq(u64, hash_a, oracle_epochs(&train)));
    cr_expect(eq(u64, hash_b, oracle_epochs(&eval)));
    plenum_stream_destroy(a);
}

Test(stream, leasing_all_slots_is_an_error_and_does_not_hang)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_stream_info info;
    struct plenum_batch held[8], more = {.count = 77};
    struct plenum_error err = {""};

    plenum_stream_get_info(s, &info);
    cr_assert(eq(u32, info.slots, 5), "a depth of 3, and two more");
    for (uint32_t i = 0; i < info.slots; i++)
        held[i] = next_of(s);
    cr_expect(eq(int, plenum_stream_next(s, PLENUM_FOREVER, &more, &err), -ENOBUFS));
    cr_expect(ne(ptr, (void *)strstr(err.text, "all 5 slots"), NULL), "%s", err.text);
    cr_expect(eq(u32, more.count, 77), "a failure must not change the batch");
    for (uint32_t i = 0; i < info.slots; i++)
        for (uint32_t k = i + 1; k < info.slots; k++)
            cr_expect(ne(ptr, held[i].pixels, held[k].pixels), "each batch must have its own slot");
    plenum_batch_release(&held[2]);
    more = next_of(s);
    plenum_batch_release(&more);
    for (uint32_t i = 0; i < info.slots; i++)
        plenum_batch_release(&held[i]);
    plenum_batch_release(&held[0]); /* a second call has no effect */
    plenum_stream_destroy(s);
}

Test(stream, a_leased_batch_outlives_its_stream)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b = next_of(s);
    uint64_t hash = plenum_batch_hash(&b);

    plenum_stream_destroy(s);
    cr_expect(eq(u64, plenum_batch_hash(&b), hash));
    plenum_batch_release(&b);
    cr_expect(eq(ptr, b.pixels, NULL));
}

Test(stream, polling_and_time_limits)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s;
    struct plenum_batch b;
    uint64_t begin;
    int r;

    s = open_stream(NULL, &o);
    while ((r = plenum_stream_next(s, 0, &b, NULL)) == -EAGAIN)
        (void)usleep(1000);
    cr_assert(eq(int, r, 0));
    plenum_batch_release(&b);
    (void)drain(s, UINT64_MAX);
    cr_expect(eq(int, plenum_stream_next(s, 0, &b, NULL), -ENODATA));
    cr_expect(eq(int, plenum_stream_next(s, PLENUM_FOREVER, &b, NULL), -ENODATA),
              "the end must be reported again");
    plenum_stream_destroy(s);

    o.loader = socket_a; /* no loader listens there */
    o.loader_timeout_ns = 300 * NS_PER_MS;
    begin = time_now_ns();
    {
        struct plenum_error err = {""};

        cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -ECONNRESET));
        cr_expect(ne(ptr, (void *)strstr(err.text, socket_a), NULL), "%s", err.text);
        cr_expect(ne(ptr, (void *)strstr(err.text, "is plenumd running?"), NULL), "%s", err.text);
    }
    cr_expect(ge(u64, time_now_ns() - begin, 300 * NS_PER_MS));
}

Test(stream, a_long_time_without_loaders_is_reported_with_addresses)
{
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream *s;
    struct plenum_batch b;
    struct plenum_error err = {""};
    int r;

    o.epochs = 0;
    o.loader_timeout_ns = 500 * NS_PER_MS;
    s = open_stream(NULL, &o);
    (void)drain(s, 3);
    end_loader(loader, SIGKILL);
    for (int i = 0; i < 10 && (r = plenum_stream_next(s, PLENUM_FOREVER, &b, &err)) == 0; i++)
        plenum_batch_release(&b); /* batches that were ready are still delivered */
    cr_expect(eq(int, r, -ECONNRESET));
    cr_expect(ne(ptr, (void *)strstr(err.text, socket_a), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_stream_next(s, PLENUM_FOREVER, &b, NULL), -ECONNRESET));
    plenum_stream_destroy(s);
}

Test(stream, another_data_set_under_the_same_name_is_refused)
{
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream *s;
    struct plenum_batch b;
    struct plenum_error err = {""};
    int r;

    o.epochs = 0;
    s = open_stream(NULL, &o);
    (void)drain(s, 3);
    end_loader(loader, SIGKILL);
    cr_assert(eq(int, unlink(tree_path(&tree, "data/a/00.jpg")), 0));
    loader = start_loader(socket_a, "1");
    for (int i = 0; i < 10 && (r = plenum_stream_next(s, PLENUM_FOREVER, &b, &err)) == 0; i++)
        plenum_batch_release(&b);
    cr_expect(eq(int, r, -ESTALE), "%s", err.text);
    cr_expect(ne(ptr, (void *)strstr(err.text, "one has 37 samples, the other 36"), NULL), "%s",
              err.text);
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

Test(stream, bad_samples_are_substituted_and_counted_or_fail)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s;
    struct plenum_stream_stats stats;
    struct plenum_batch b;
    struct plenum_error err = {""};
    uint64_t counted = 0, hash = 0;
    int r;

    tree_write_text(&tree, "data/a/00.jpg", "this is not JPEG");
    tree_write_text(&tree, "data/b/01.jpg", "");
    s = open_stream(NULL, &o);
    while (plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0) {
        hash += plenum_batch_hash(&b);
        counted += b.num_substituted;
        for (uint32_t i = 0; i < b.count; i++)
            cr_expect(b.samples[i] != 0 && b.samples[i] != 13, "bad samples must not be shown");
        plenum_batch_release(&b);
    }
    plenum_stream_get_stats(s, &stats);
    cr_expect(eq(int, plenum_stream_take_warning(s, &err), 1),
              "the program must receive a warning");
    cr_expect(ne(ptr, (void *)strstr(err.text, "bad samples of batch"), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_stream_take_warning(s, &err), 0), "once");
    plenum_stream_destroy(s);
    cr_expect(eq(u64, counted, 6), "two samples in each of three epochs");
    cr_expect(eq(u64, stats.substituted, 6));
    cr_expect(eq(u64, hash, oracle_epochs(&o)), "every loader must find the same substitutes");

    o.bad = PLENUM_BAD_FAIL;
    s = open_stream(NULL, &o);
    while ((r = plenum_stream_next(s, PLENUM_FOREVER, &b, &err)) == 0)
        plenum_batch_release(&b);
    cr_expect(eq(int, r, -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "/data/"), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_stream_next(s, 0, &b, NULL), -EBADMSG),
              "the error must be reported again");
    plenum_stream_destroy(s);
}

Test(stream, a_data_set_of_only_bad_samples_fails)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s;
    struct plenum_batch b;
    struct plenum_error err = {""};

    tree_write_text(&tree, "bad/a/1.jpg", "x");
    tree_write_text(&tree, "bad/a/2.jpg", "y");
    o.dataset = tree_path(&tree, "bad");
    s = open_stream(NULL, &o);
    cr_expect(eq(int, plenum_stream_next(s, PLENUM_FOREVER, &b, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "no substitute"), NULL), "%s", err.text);
    plenum_stream_destroy(s);
}

Test(stream, streams_that_cannot_be_opened_give_a_message)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s = NULL;
    struct plenum_error err = {""};

    o.dataset = tree_path(&tree, "nowhere");
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -ENOENT));
    cr_expect(ne(ptr, (void *)strstr(err.text, "nowhere"), NULL), "%s", err.text);
    tree_write_text(&tree, "void/a/readme.txt", "no image");
    o.dataset = tree_path(&tree, "void");
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "contains no images"), NULL), "%s", err.text);
    o = options_of(NULL);
    o.pipeline = "rrc(0)";
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL));
    o = options_of(NULL);
    o.last = PLENUM_DROP;
    o.micro_batch = SAMPLES + 1;
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "no step is left"), NULL), "%s", err.text);
    o = options_of(NULL);
    o.micro_batch = 1 << 27;
    cr_expect(lt(int, plenum_stream_open(NULL, &o, &s, &err), 0),
              "half a petabyte of slots must be refused");
    o = options_of(NULL);
    o.size--;
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL));
    o = options_of("tcp:host");
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "tcp:host"), NULL), "%s", err.text);
    o = options_of("tcp:no-such-host.invalid:1");
    cr_expect(lt(int, plenum_stream_open(NULL, &o, &s, &err), 0));
    cr_expect(ne(ptr, (void *)strstr(err.text, "no-such-host.invalid"), NULL), "%s", err.text);
    cr_expect(eq(ptr, s, NULL));
}

Test(stream, a_forked_child_gets_an_error_and_harms_nothing)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b = next_of(s), mine;
    uint64_t hash = plenum_batch_hash(&b);
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct plenum_cursor cursor = {.position = 1};
        struct plenum_stream_stats stats = {.batches = 1};
        struct plenum_ring ring = {.bytes = 1};
        struct plenum_place place;
        struct plenum_error err;
        uint32_t sample = 0;
        char **names;
        int ok = plenum_stream_next(s, PLENUM_FOREVER, &mine, NULL) == -ECHILD;

        ok = ok && plenum_stream_seek(s, &cursor, NULL) == -ECHILD;
        ok = ok && plenum_stream_get_fd(s, NULL) == -ECHILD;
        ok = ok && plenum_stream_sample_names(s, &sample, 1, &names, NULL) == -ECHILD;
        ok = ok && plenum_stream_take_warning(s, &err) == 0;
        ok = ok && plenum_stream_cursor(s, &cursor) == -ECHILD;
        ok = ok && plenum_stream_get_place(s, &place) == -ECHILD;
        plenum_stream_get_stats(s, &stats);
        plenum_stream_get_ring(s, &ring);
        ok = ok && cursor.position == 0 && stats.batches == 0 && ring.bytes == 0;
        plenum_batch_release(&b);
        plenum_stream_destroy(s);
        /* The child may open its own streams. */
        ok = ok && plenum_stream_open(NULL, &o, &s, NULL) == 0;
        ok = ok && drain(s, UINT64_MAX) == oracle_epochs(&o);
        plenum_stream_destroy(s);
        _exit(ok ? 0 : 1);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, status, 0));
    plenum_batch_release(&b);
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    plenum_stream_destroy(s);
}

/* A loader must not mistake a surviving forked child for the program. */
Test(stream, a_child_that_outlives_the_program_holds_nothing_open)
{
    pid_t loader = start_loader(socket_a, "1");
    int pipes[2];
    pid_t program, child = 0;

    cr_assert(eq(int, pipe(pipes), 0));
    program = fork();
    if (program == 0) {
        struct plenum_stream_options o = options_of(socket_a);
        struct plenum_stream *s = open_stream(NULL, &o);

        (void)drain(s, 1);
        child = fork();
        if (child == 0) {
            (void)sleep(30);
            _exit(0);
        }
        (void)!write(pipes[1], &child, sizeof(child));
        (void)pause();
    }
    cr_assert(eq(i64, read(pipes[0], &child, sizeof(child)), sizeof(child)));
    cr_assert(gt(u64, ask_stats(socket_a).ring_bytes, 0));
    end_loader(program, SIGKILL);
    for (int i = 0; i < 30000 && ask_stats(socket_a).ring_bytes > 0; i++)
        (void)usleep(10000);
    cr_expect(eq(u64, ask_stats(socket_a).ring_bytes, 0));
    (void)kill(child, SIGKILL);
    end_loader(loader, SIGTERM);
}

static unsigned open_descriptors(void)
{
    return entries_of("/proc/self/fd", "");
}

static unsigned threads(void)
{
    return entries_of("/proc/self/task", "");
}

Test(stream, opening_and_closing_leaves_nothing_behind)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    unsigned descriptors = open_descriptors(), tasks = threads();

    for (int i = 0; i < 100; i++) {
        struct plenum_stream *s = open_stream(NULL, &o);

        (void)drain(s, (uint64_t)i % 4);
        plenum_stream_destroy(s);
    }
    cr_expect(eq(u32, open_descriptors(), descriptors));
    cr_expect(eq(u32, threads(), tasks), "the I/O thread must end with the last stream");
    plenum_stream_destroy(NULL);
    end_loader(loader, SIGTERM);
}

Test(stream, samples_have_names)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b = next_of(s);
    struct plenum_error err = {""};
    uint32_t all[20 * SAMPLES], none = SAMPLES;
    char want[256], **names = NULL;

    /* Classes a, b, c in order, each with its files in order: 13, 12 and 12 files. One request
     * cannot hold all names. */
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
        all[i] = i * 7 % SAMPLES;
    cr_assert(eq(int, plenum_stream_sample_names(s, all, ARRAY_LEN(all), &names, &err), 0), "%s",
              err.text);
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++) {
        uint32_t n = all[i], class = n < 13 ? 0 : n < 25 ? 1 : 2;
        uint32_t file = class + 3 * (n - (class ? 1 + 12 * class : 0));

        (void)snprintf(want, sizeof(want), "%s/%c/%02u.jpg", data, 'a' + (int)class, file);
        cr_assert(eq(str, names[i], want), "sample %u", n);
    }
    cr_expect(eq(ptr, names[ARRAY_LEN(all)], NULL));
    free(names);

    names = NULL;
    cr_expect(eq(int, plenum_stream_sample_names(s, &none, 1, &names, &err), -EINVAL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "no sample 37"), NULL), "%s", err.text);
    cr_expect(eq(ptr, names, NULL));
    cr_expect(eq(int, plenum_stream_sample_names(s, NULL, 0, &names, &err), 0));
    cr_expect(eq(ptr, names[0], NULL));
    free(names);

    /* The names stay available when a loader dies. */
    end_loader(loader, SIGKILL);
    loader = start_loader(socket_a, "1");
    cr_assert(eq(int, plenum_stream_sample_names(s, b.samples, b.count, &names, &err), 0), "%s",
              err.text);
    for (uint32_t i = 0; i < b.count; i++)
        cr_expect(eq(int, access(names[i], R_OK), 0), "%s", names[i]);
    free(names);
    plenum_batch_release(&b);
    end_loader(loader, SIGKILL);
    plenum_stream_destroy(s);
}

/* The names do not fit into one message, and some files are outside any class folder. */
Test(stream, classes_have_names)
{
    enum { CLASSES = 5000 };
    pid_t loader;
    struct plenum_stream_options o;
    struct plenum_stream *s;
    struct plenum_error err = {""};
    char want[128], path[512], **names = NULL;
    uint32_t count = 0;

    for (int i = 0; i < CLASSES; i++) {
        (void)snprintf(want, sizeof(want), "many/class-%05d/%s", i,
                       i == 0     ? "a.jpg"
                       : i % 2500 ? "b.jpg"
                                  : "c.gif");
        tree_write_jpeg(&tree, want, 16, 16, 0);
    }
    (void)snprintf(path, sizeof(path), "%s", tree_path(&tree, "many"));
    loader = start_loader(socket_a, "1");
    o = options_of(socket_a);
    o.dataset = path;
    s = open_stream(NULL, &o);
    cr_assert(eq(int, plenum_stream_take_warning(s, &err), 1));
    (void)snprintf(want, sizeof(want),
                   "1 image in other formats or with other extensions (1 .gif) is left out");
    cr_expect(ne(ptr, (void *)strstr(err.text, want), NULL), "%s", err.text);
    cr_expect(
        ne(ptr, (void *)strstr(err.text, "1 folder without other images counts as a class"), NULL),
        "%s", err.text);
    cr_expect(ne(ptr, (void *)strstr(err.text, "'class-02500'"), NULL), "%s", err.text);
    cr_expect(eq(int, plenum_stream_take_warning(s, &err), 0), "once");
    cr_assert(eq(int, plenum_stream_class_names(s, &names, &count, &err), 0), "%s", err.text);
    cr_assert(eq(u32, count, CLASSES));
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(want, sizeof(want), "class-%05u", i);
        cr_assert(eq(str, names[i], want));
    }
    cr_expect(eq(ptr, names[count], NULL));
    free(names);
    plenum_stream_destroy(s);

    names = (char **)&o; /* data with numeric labels has no class names */
    (void)snprintf(path, sizeof(path), "generated:100");
    s = open_stream(NULL, &o);
    cr_assert(eq(int, plenum_stream_class_names(s, &names, &count, &err), 0), "%s", err.text);
    cr_expect(eq(ptr, names, NULL));
    cr_expect(eq(u32, count, 0));
    plenum_stream_destroy(s);
    end_loader(loader, SIGKILL);
}

Test(stream, names_fail_with_the_stream)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s;
    struct plenum_error err = {""};
    uint32_t sample = 3;
    char **names = NULL;

    o.loader_timeout_ns = 300 * NS_PER_MS;
    s = open_stream(NULL, &o);
    end_loader(loader, SIGKILL);
    cr_expect(eq(int, plenum_stream_sample_names(s, &sample, 1, &names, &err), -ECONNRESET));
    cr_expect(ne(ptr, (void *)strstr(err.text, socket_a), NULL), "%s", err.text);
    plenum_stream_destroy(s);
}

/* Resources that a loader lacks while the stream runs become available later. */
Test(stream, temporary_refusals_do_not_end_a_running_stream)
{
    static const char *const none[] = {"--ring-limit", "4K", NULL}, *const all[] = {NULL};
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = daemon_start_with(socket_a, "1", all);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_error err = {""};
    struct plenum_batch b;
    uint64_t hash = drain(s, 2);
    int r;

    end_loader(loader, SIGKILL);
    loader = daemon_start_with(socket_a, "1", none);
    while ((r = plenum_stream_next(s, 1500 * NS_PER_MS, &b, &err)) ==
           0) { /* batches that were ready */
        hash += plenum_batch_hash(&b);
        plenum_batch_release(&b);
    }
    cr_assert(eq(int, r, -EAGAIN), "%s", err.text);
    end_loader(loader, SIGKILL);
    loader = daemon_start_with(socket_a, "1", all);
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    plenum_stream_destroy(s);

    /* A stream that has not begun gets the reason at once. */
    end_loader(loader, SIGKILL);
    loader = daemon_start_with(socket_a, "1", none);
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -ENOSPC));
    end_loader(loader, SIGTERM);
}

/* Starts a fake loader that sends every client one progress message and then rejects it with
 * `code`. `*count` counts the clients. */
static pid_t start_refusing(const char *text, int code, atomic_uint *count)
{
    struct address address;
    struct frame_buffer b = {0};
    struct wire_hello hello;
    const struct wire_progress progress = {.text = "reading folders", .done = 1};
    const struct wire_error error = {.code = code, .text = "something is short"};
    int listen_fd, fd;
    char bytes[4096];
    pid_t pid;

    cr_assert(eq(int, address_parse(text, &address, NULL), 0));
    listen_fd = address_listen(&address, 0600, NULL);
    cr_assert(ge(int, listen_fd, 0));
    pid = fork();
    if (pid > 0)
        (void)close(listen_fd);
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)fcntl(listen_fd, F_SETFL, 0); /* accept() waits */
    wire_hello_init(&hello, "a loader");
    (void)snprintf(hello.versions, sizeof(hello.versions), "v1");
    if (wire_put_hello(&b, &hello) < 0 || wire_put_progress(&b, 1, &progress) < 0 ||
        wire_put_error(&b, 1, &error) < 0)
        _exit(1);
    while ((fd = accept(listen_fd, NULL, NULL)) >= 0) {
        (void)!write(fd, b.bytes, b.len);
        while (read(fd, bytes, sizeof(bytes)) > 0)
            ;
        (void)close(fd);
        (void)atomic_fetch_add(count, 1);
    }
    _exit(1);
}

static atomic_uint *shared_count(void)
{
    void *p =
        mmap(NULL, sizeof(atomic_uint), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert(ne(ptr, p, MAP_FAILED));
    return p;
}

/* Streams also survive a loader that temporarily lacks anything else: clients, memory, descriptors,
 * threads. */
Test(stream, temporary_shortages_do_not_end_a_running_stream)
{
    static const int codes[] = {-EUSERS, -ENOMEM, -EMFILE, -ENFILE, -EAGAIN};
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream *s;
    atomic_uint *count = shared_count();
    struct plenum_error err = {""};
    struct plenum_batch b;
    uint64_t hash;

    o.epochs = 30;
    s = open_stream(NULL, &o);
    hash = drain(s, 1);
    for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        end_loader(loader, SIGKILL);
        atomic_store(count, 0);
        loader = start_refusing(socket_a, codes[i], count);
        while (atomic_load(count) < 3) {
            int r = plenum_stream_next(s, 100 * NS_PER_MS, &b, &err);

            cr_assert(r == 0 || r == -EAGAIN, "after %d: %s", codes[i], err.text);
            if (r == 0) {
                hash += plenum_batch_hash(&b);
                plenum_batch_release(&b);
            }
        }
        end_loader(loader, SIGKILL);
        loader = start_loader(socket_a, "1");
        hash += drain(s, 1);
    }
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    plenum_stream_destroy(s);

    /* A stream that has not begun gets the reason at once. */
    end_loader(loader, SIGKILL);
    loader = start_refusing(socket_a, -EAGAIN, count);
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EIO));
    cr_expect(ne(ptr, (void *)strstr(err.text, "something is short"), NULL), "%s", err.text);
    end_loader(loader, SIGKILL);
}

/* A lasting error is retried for as long as an absent loader is awaited, even though each attempt
 * makes progress. */
Test(stream, lasting_shortages_end_a_stream)
{
    struct plenum_stream_options o = options_of(socket_a);
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream *s;
    struct plenum_error err = {""};
    struct plenum_batch b;
    int r;

    o.loader_timeout_ns = 3 * NS_PER_SEC;
    s = open_stream(NULL, &o);
    (void)drain(s, 1);
    end_loader(loader, SIGKILL);
    loader = start_refusing(socket_a, -ENOMEM, shared_count());
    while ((r = plenum_stream_next(s, 30 * NS_PER_SEC, &b, &err)) == 0)
        plenum_batch_release(&b);
    cr_expect(eq(int, r, -ECONNRESET));
    cr_expect(ne(ptr, (void *)strstr(err.text, "something is short"), NULL), "%s", err.text);
    plenum_stream_destroy(s);
    end_loader(loader, SIGKILL);
}

/* Streams of a job's instance and of a standalone process use separate loaders. */
Test(stream, a_process_may_keep_several_loaders)
{
    struct plenum_job_info info = instance(0, 2, 1);
    struct plenum_stream_options o = options_of(NULL);
    char job[64];
    struct plenum_stream *s, *t;
    struct plenum_stream_stats of_s, of_t;

    (void)snprintf(job, sizeof(job), "test-%ld", (long)getpid());
    info.job_id = job;
    o.loader_timeout_ns = 20 * NS_PER_SEC;
    s = open_stream(&info, &o);
    t = open_stream(NULL, &o);
    (void)drain(s, 2);
    (void)drain(t, 2);
    plenum_stream_get_stats(s, &of_s);
    plenum_stream_get_stats(t, &of_t);
    cr_expect(ne(str, of_s.loader, of_t.loader));
    plenum_stream_destroy(s);
    cr_expect(eq(u64, drain(t, UINT64_MAX) != 0, 1));
    plenum_stream_destroy(t);
}

static struct address own_address(const char *job, unsigned turn)
{
    struct plenum_job_info info = {.num_instances = 2, .job_id = job};
    struct ownloader_key key;
    struct address ret;

    cr_assert(eq(int, ownloader_key(&info, &key, NULL), 0));
    ownloader_address(&key, turn, &ret);
    return ret;
}

/* Processes that may share a loader derive the same name; all others derive different ones. */
Test(stream, the_name_of_a_jobs_loader_is_its_own)
{
    static const char long_name[] = "a-host-with-a-long-name.in-a-rack.of-a-row.of-a-hall.of-a-"
                                    "cluster.of-an-institute.example.org-";
    char here[128], one[200], two[200];
    struct plenum_job_info alone = {.num_instances = 1, .job_id = "pid-1"};
    struct ownloader_key key, again;
    int status;
    pid_t child;

    (void)snprintf(here, sizeof(here), "%s", own_address("x", 0).text);
    cr_expect(eq(str, own_address("x", 0).text, here));
    cr_expect(ne(str, own_address("x", 1).text, here));
    (void)snprintf(one, sizeof(one), "%s29500", long_name);
    (void)snprintf(two, sizeof(two), "%s29501", long_name);
    cr_expect(ne(str, own_address(one, 0).text, own_address(two, 0).text));

    /* For a standalone process: all of its streams have the same name, and each process has a
     * different one. */
    cr_assert(eq(int, ownloader_key(&alone, &key, NULL), 0));
    cr_assert(eq(int, ownloader_key(&alone, &again, NULL), 0));
    cr_expect(eq(int, memcmp(&key, &again, sizeof(key)), 0));
    child = fork();
    if (child == 0) {
        int same = 0;

        (void)ownloader_key(&alone, &again, NULL);
        same |= memcmp(&key, &again, sizeof(key)) == 0;
        _exit(same);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, status, 0));
}

/* Gets the name that a process derives, without the user ID, when it has its own namespaces
 * or a different root folder. Returns false if the system refuses these. */
static bool name_elsewhere(int spaces, const char *root, char ret[64])
{
    int pipes[2];
    ssize_t n;
    pid_t child;

    cr_assert(eq(int, pipe(pipes), 0));
    child = fork();
    if (child == 0) {
        if ((spaces && unshare(spaces) < 0 && unshare(spaces | CLONE_NEWUSER) < 0) ||
            (root && chroot(root) < 0 && (unshare(CLONE_NEWUSER) < 0 || chroot(root) < 0)))
            _exit(1);
        child = fork(); /* the first in a new PID namespace */
        if (child == 0) {
            struct address found = own_address("x", 0);

            (void)!write(pipes[1], strrchr(found.text, '-'), strlen(strrchr(found.text, '-')));
            _exit(0);
        }
        _exit(waitpid(child, NULL, 0) != child);
    }
    (void)close(pipes[1]);
    n = read(pipes[0], ret, 63);
    (void)close(pipes[0]);
    cr_assert(eq(int, waitpid(child, NULL, 0), child));
    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static void expect_another_name(int spaces, const char *what)
{
    char here[64], there[64];

    cr_assert(name_elsewhere(0, NULL, here));
    cr_assert(name_elsewhere(0, NULL, there));
    cr_expect(eq(str, here, there));
    if (!name_elsewhere(spaces, NULL, there))
        cr_skip("a namespace of %s is refused here", what);
    cr_expect(ne(str, here, there));
}

Test(stream, other_mounts_mean_another_loader)
{
    expect_another_name(CLONE_NEWNS, "mounts");
}

Test(stream, another_pid_namespace_means_another_loader)
{
    expect_another_name(CLONE_NEWPID, "processes");
}

/* Neither root folder has a /proc. */
Test(stream, another_root_folder_means_another_loader)
{
    char here[64], there[64];

    if (!name_elsewhere(0, tree_path(&tree, "data/a"), here))
        cr_skip("another root folder is refused here");
    cr_assert(name_elsewhere(0, tree_path(&tree, "data/b"), there));
    cr_expect(ne(str, here, there));
}

/* Starts a process of another user that binds the name, and listens there or not, until killed. */
static pid_t start_stranger(const char *text, bool listens)
{
    struct address address;
    int pipes[2];
    char byte;
    pid_t pid;

    cr_assert(eq(int, address_parse(text, &address, NULL), 0));
    cr_assert(eq(int, pipe(pipes), 0));
    pid = fork();
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bool ok = setgid(65533) == 0 && setuid(65533) == 0 &&
                  bind(fd, (struct sockaddr *)&address.un, address.len) == 0 &&
                  (!listens || listen(fd, 5) == 0);

        (void)!write(pipes[1], ok ? "y" : "n", 1);
        (void)pause();
    }
    cr_assert(eq(i64, read(pipes[0], &byte, 1), 1));
    cr_assert(eq(chr, byte, 'y'));
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    return pid;
}

Test(stream, another_users_loader_is_not_trusted)
{
    struct plenum_stream_options o = options_of(NULL);
    struct plenum_job_info info = instance(0, 2, 1);
    struct plenum_stream_stats stats;
    struct plenum_error err = {""};
    struct plenum_stream *s = NULL;
    char job[64], text[128];
    pid_t strangers[2];

    if (geteuid() != 0)
        cr_skip("only root can play another user");
    (void)snprintf(job, sizeof(job), "test-%ld", (long)getpid());
    info.job_id = job;
    o.loader_timeout_ns = 30 * NS_PER_SEC;
    for (unsigned i = 0; i < 2; i++)
        strangers[i] = start_stranger(own_address(job, i).text, i == 0);
    s = open_stream(&info, &o);
    (void)drain(s, 2);
    plenum_stream_get_stats(s, &stats);
    cr_expect(eq(str, stats.loader, own_address(job, 2).text));
    plenum_stream_destroy(s);

    /* An explicit address is rejected. */
    (void)snprintf(text, sizeof(text), "%s", own_address(job, 0).text);
    o.loader = text;
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -EPERM));
    cr_expect(ne(ptr, (void *)strstr(err.text, "another user"), NULL), "%s", err.text);
    for (unsigned i = 0; i < 2; i++) {
        (void)kill(strangers[i], SIGKILL);
        (void)waitpid(strangers[i], NULL, 0);
    }
}

/* Returns a socket whose close() blocks for an hour, or until its peer closes. */
static int open_lingering(int *other_end)
{
    static const char bytes[65536];
    const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert(eq(int, bind(listener, (struct sockaddr *)&at, len), 0));
    cr_assert(eq(int, listen(listener, 1), 0));
    cr_assert(eq(int, getsockname(listener, (struct sockaddr *)&at, &len), 0));
    cr_assert(eq(int, connect(fd, (struct sockaddr *)&at, len), 0));
    *other_end = accept(listener, NULL, NULL);
    cr_assert(ge(int, *other_end, 0));
    (void)close(listener);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    cr_assert(eq(int, setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0));
    return fd;
}

static ssize_t send_fd(int to, const void *bytes, size_t len, int fd, int flags)
{
    union io_descriptor_room control;
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    io_attach_descriptor(&msg, &control, fd);
    return sendmsg(to, &msg, flags);
}

enum { WITH_ITS_HELLO, URGENT, IN_A_QUEUE, BEHIND_NONSENSE, HOSTILE_WAYS };

/* A loader that sends a stream a lingering socket. */
struct hostile {
    char address[128];
    int listener, fd, other_end;
};

static void listen_hostile(struct hostile *h, int way)
{
    struct address address;
    struct plenum_error err;

    (void)snprintf(h->address, sizeof(h->address), "unix:%s/hostile%d", tree.root, way);
    cr_assert(eq(int, address_parse(h->address, &address, NULL), 0));
    h->listener = address_listen(&address, 0600, &err);
    cr_assert(h->listener >= 0, "%s", err.text);
}

/* Sends the sockets while the stream is stopped, so that only the socket buffer holds their
 * descriptors. */
static void send_hostile(struct hostile *h, int way, pid_t client)
{
    static const char nonsense[4096];
    struct pollfd ready = {.fd = h->listener, .events = POLLIN};
    int slow = open_lingering(&h->other_end), queue[2] = {-1, -1};
    struct frame_buffer b = {0};
    struct wire_hello m;

    (void)poll(&ready, 1, 60000);
    h->fd = accept(h->listener, NULL, NULL);
    cr_assert(ge(int, h->fd, 0));
    cr_assert(child_stop(client));
    if (way == IN_A_QUEUE) {
        cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, queue), 0));
        cr_assert(eq(i64, send_fd(queue[0], "x", 1, slow, 0), 1));
        (void)close(queue[0]);
    }
    wire_hello_init(&m, "a hostile loader");
    (void)wire_put_hello(&b, &m);
    if (way == BEHIND_NONSENSE)
        (void)send(h->fd, nonsense, sizeof(nonsense), MSG_NOSIGNAL);
    if (way == URGENT && send_fd(h->fd, b.bytes, 1, slow, MSG_OOB) == 1)
        (void)send(h->fd, b.bytes + 1, b.len - 1, MSG_NOSIGNAL);
    else
        cr_assert(gt(
            i64, send_fd(h->fd, b.bytes, b.len, way == IN_A_QUEUE ? queue[1] : slow, MSG_NOSIGNAL),
            0));
    frame_buffer_fini(&b);
    if (way == IN_A_QUEUE)
        (void)close(queue[1]);
    (void)close(slow);
    (void)kill(client, SIGCONT);
}

static void end_hostile(struct hostile *h)
{
    (void)close(h->fd);
    (void)close(h->other_end);
    (void)close(h->listener);
}

/* The client process: streams while its loaders' sockets linger, forks, closes the stream, and
 * waits for its descriptors to close. Returns 0, or the number of the failed step. */
static int stream_hostile(const char *loaders, uint64_t want, int told, int tell)
{
    struct plenum_stream_options o = options_of(loaders);
    struct plenum_stream *s = NULL;
    unsigned before = open_descriptors();
    uint64_t hash;
    char byte;
    pid_t child;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (plenum_stream_open(NULL, &o, &s, NULL) < 0 || read(told, &byte, 1) != 1)
        return 2;
    child = fork();
    if (child == 0)
        _exit(0);
    if (waitpid(child, NULL, 0) != child)
        return 3;
    hash = drain(s, UINT64_MAX);
    plenum_stream_destroy(s);
    if (write(tell, "x", 1) != 1)
        return 4;
    for (unsigned i = 0; i < 6000 && open_descriptors() > before; i++)
        (void)usleep(10000);
    return hash != want ? 5 : open_descriptors() > before ? 6 : 0;
}

/* A call that waits for the data of lingering sockets would block until the test times out. */
Test(stream, descriptors_sent_by_loaders_delay_nothing)
{
    struct hostile hostile[HOSTILE_WAYS];
    pid_t loader = start_loader(socket_b, "2"), client;
    char all[1024], byte;
    struct plenum_stream_options o = options_of(all);
    int to[2], from[2], status;
    uint64_t want = oracle_epochs(&o);

    (void)snprintf(all, sizeof(all), "%s", socket_b);
    for (int i = 0; i < HOSTILE_WAYS; i++) {
        listen_hostile(&hostile[i], i);
        (void)snprintf(all + strlen(all), sizeof(all) - strlen(all), ",%s", hostile[i].address);
    }
    cr_assert(pipe(to) == 0 && pipe(from) == 0);
    client = fork();
    if (client == 0)
        _exit(stream_hostile(all, want, to[0], from[1]));
    (void)close(to[0]);
    (void)close(from[1]);
    for (int i = 0; i < HOSTILE_WAYS; i++)
        send_hostile(&hostile[i], i, client);
    for (int i = 0; i < HOSTILE_WAYS; i++)
        while (read(hostile[i].fd, &byte, 1) > 0) /* until the client disconnects */
            ;
    cr_assert(eq(i64, write(to[1], "x", 1), 1));
    cr_assert(eq(i64, read(from[0], &byte, 1), 1));
    for (int i = 0; i < HOSTILE_WAYS; i++)
        end_hostile(&hostile[i]);
    cr_assert(eq(int, waitpid(client, &status, 0), client));
    cr_expect(eq(int, status, 0));
    (void)close(to[1]);
    (void)close(from[0]);
    end_loader(loader, SIGTERM);
}

/* The error is reported if there is no other loader. */
Test(stream, a_loader_that_sends_a_descriptor_is_rejected)
{
    struct plenum_stream_options o;
    struct hostile hostile;
    struct plenum_error err = {""};
    struct plenum_stream *s;
    int status;
    pid_t client;

    listen_hostile(&hostile, 0);
    o = options_of(hostile.address);
    client = fork();
    if (client == 0) {
        int r = plenum_stream_open(NULL, &o, &s, &err);

        _exit(r == -EPROTO && strstr(err.text, "sent a file descriptor, which loaders never do")
                  ? 0
                  : 1);
    }
    send_hostile(&hostile, WITH_ITS_HELLO, client);
    cr_assert(eq(int, waitpid(client, &status, 0), client));
    cr_expect(eq(int, status, 0));
    end_hostile(&hostile);
}

static unsigned rings_of(pid_t pid)
{
    char path[64], line[512];
    unsigned count = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%ld/maps", (long)pid);
    f = fopen(path, "r");
    cr_assert(ne(ptr, f, NULL));
    while (fgets(line, sizeof(line), f))
        count += strstr(line, "plenum-ring") != NULL;
    (void)fclose(f);
    return count;
}

/* A surviving worker does not keep the memory of streams that the program has ended. */
Test(stream, a_forked_child_keeps_only_rings_of_held_batches)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = open_stream(NULL, &o);

    for (int held = 0; held < 2; held++) {
        struct plenum_batch b = next_of(s);
        uint64_t hash = plenum_batch_hash(&b);
        int status;
        pid_t child;

        if (!held)
            plenum_batch_release(&b);
        child = fork();
        if (child == 0)
            _exit(rings_of(getpid()) == (unsigned)held && (!held || plenum_batch_hash(&b) == hash)
                      ? 0
                      : 1);
        cr_assert(eq(int, waitpid(child, &status, 0), child));
        cr_expect(eq(int, status, 0), "held: %d", held);
        plenum_batch_release(&b);
    }
    cr_expect(gt(u32, rings_of(getpid()), 0));
    (void)drain(s, UINT64_MAX);
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

/* A call in another thread that waits for the loader. */
struct waiter {
    struct plenum_stream *s;
    bool for_names;
    atomic_bool began;
    int code;
    pthread_t thread;
};

static void *waiter_main(void *arg)
{
    struct waiter *w = arg;
    struct plenum_batch b;
    uint32_t sample = 3;
    char **names;

    atomic_store(&w->began, true);
    for (;;) { /* batches that were ready are delivered first */
        w->code = w->for_names ? plenum_stream_sample_names(w->s, &sample, 1, &names, NULL)
                               : plenum_stream_next(w->s, PLENUM_FOREVER, &b, NULL);
        if (w->code < 0)
            return NULL;
        if (w->for_names)
            free(names);
        else
            plenum_batch_release(&b);
    }
}

static void begin_to_wait(struct waiter *w)
{
    cr_assert(eq(int, pthread_create(&w->thread, NULL, waiter_main, w), 0));
    while (!atomic_load(&w->began))
        (void)usleep(1000);
    (void)usleep(50000); /* now the call most likely waits */
}

/* Checks that every call that waits in a stream returns when another thread ends the stream, and
 * touches nothing later. */
static void expect_end_by_another_thread(bool destroy)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct waiter waiters[] = {{.for_names = false}, {.for_names = true}};
    struct plenum_stream *s;
    struct plenum_batch b;
    char **names;
    uint32_t sample = 3;

    o.silence_ns = o.loader_timeout_ns = PLENUM_FOREVER;
    s = open_stream(NULL, &o);
    cr_assert(child_stop(loader));
    for (size_t i = 0; i < ARRAY_LEN(waiters); i++) {
        waiters[i].s = s;
        begin_to_wait(&waiters[i]);
    }
    if (destroy)
        plenum_stream_destroy(s);
    else
        plenum_stream_shutdown(s);
    for (size_t i = 0; i < ARRAY_LEN(waiters); i++) {
        cr_assert(eq(int, pthread_join(waiters[i].thread, NULL), 0));
        cr_expect(eq(int, waiters[i].code, -EBADF));
    }
    if (!destroy) {
        struct plenum_cursor cursor = {.position = 0};

        cr_expect(eq(int, plenum_stream_next(s, 0, &b, NULL), -EBADF));
        cr_expect(eq(int, plenum_stream_sample_names(s, &sample, 1, &names, NULL), -EBADF));
        cr_expect(eq(int, plenum_stream_get_fd(s, NULL), -EBADF));
        cr_expect(eq(int, plenum_stream_cursor(s, &cursor), 0));
        cr_expect(eq(int, plenum_stream_seek(s, &cursor, NULL), -EBADF));
        plenum_stream_shutdown(s);
        plenum_stream_destroy(s);
    }
    (void)kill(loader, SIGCONT);
    end_loader(loader, SIGTERM);
}

Test(stream, calls_waiting_in_a_stream_that_is_shut_down_return)
{
    expect_end_by_another_thread(false);
}

Test(stream, calls_waiting_in_a_destroyed_stream_return)
{
    expect_end_by_another_thread(true);
}

/* A held batch, the descriptor and the statistics remain usable when another thread ends the
 * stream. */
Test(stream, batches_outlive_the_shutdown_of_their_stream)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b = next_of(s);
    uint64_t hash = plenum_batch_hash(&b);
    struct plenum_stream_stats before, last, later;
    int fd;

    cr_expect(child_stop(loader));
    fd = plenum_stream_get_fd(s, NULL);
    plenum_stream_get_stats(s, &before);
    plenum_stream_shutdown(s);
    plenum_stream_get_stats(s, &last);
    (void)usleep(1000);
    plenum_stream_get_stats(s, &later);
    cr_expect(ge(u64, last.elapsed_ns, before.elapsed_ns));
    cr_expect(eq(u64, later.elapsed_ns, last.elapsed_ns)); /* the time does not advance */
    cr_expect(eq(u64, last.batches, 1));
    cr_expect(eq(u64, last.samples, before.samples));
    cr_expect(eq(u32, last.ready + last.in_flight + last.loaders, 0));
    cr_expect(eq(int, poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 10000), 1));
    cr_expect(eq(u64, plenum_batch_hash(&b), hash));
    plenum_stream_destroy(s);
    cr_expect(eq(u64, plenum_batch_hash(&b), hash));
    plenum_batch_release(&b);
    (void)kill(loader, SIGCONT);
    end_loader(loader, SIGTERM);
}

Test(stream, infinite_time_limits_never_expire)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream_stats stats;
    struct plenum_stream *s;
    uint64_t hash;

    o.loader_timeout_ns = o.silence_ns = PLENUM_FOREVER;
    s = open_stream(NULL, &o);
    hash = drain(s, 2);
    end_loader(loader, SIGKILL);
    loader = start_loader(socket_a, "1");
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    plenum_stream_get_stats(s, &stats);
    cr_expect(le(u64, stats.incidents, 1));
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);
}

/* Returns whether the stream's descriptor becomes readable within this many ms. */
static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

Test(stream, a_descriptor_shows_when_a_batch_is_ready)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct plenum_stream *s = open_stream(NULL, &o);
    struct plenum_batch b, held[5];
    uint64_t hash = 0;
    unsigned descriptors;
    int fd = plenum_stream_get_fd(s, NULL), r;

    cr_assert(ge(int, fd, 0));
    descriptors = open_descriptors();
    cr_expect(eq(int, plenum_stream_get_fd(s, NULL), fd), "the descriptor must stay the same");
    cr_expect(eq(u32, open_descriptors(), descriptors));
    /* Up to the end, without ever waiting in plenum_stream_next(): readable means that a result is
     * ready. */
    do {
        cr_assert(readable(fd, 60000));
        r = plenum_stream_next(s, 0, &b, NULL);
        cr_assert(r == 0 || r == -ENODATA, "%d", r);
        if (r == 0) {
            hash += plenum_batch_hash(&b);
            plenum_batch_release(&b);
        }
    } while (r == 0);
    cr_expect(eq(u64, hash, oracle_epochs(&o)));
    cr_expect(readable(fd, 0), "the end must be reported again and again");
    plenum_stream_destroy(s);

    o.epochs = 0;
    s = open_stream(NULL, &o);
    fd = plenum_stream_get_fd(s, NULL);
    for (int i = 0; i < 5; i++) {
        cr_assert(readable(fd, 60000));
        cr_assert(eq(int, plenum_stream_next(s, 0, &held[i], NULL), 0));
    }
    cr_expect(readable(fd, 60000), "an error because all slots are leased is also a result");
    cr_expect(eq(int, plenum_stream_next(s, 0, &b, NULL), -ENOBUFS));
    cr_assert(child_stop(loader));
    plenum_batch_release(&held[0]);
    cr_expect(not(readable(fd, 50)), "nothing must come from a stopped loader");
    cr_expect(eq(int, plenum_stream_next(s, 0, &b, NULL), -EAGAIN));
    cr_assert(eq(int, kill(loader, SIGCONT), 0));
    cr_expect(readable(fd, 60000));
    for (int i = 1; i < 5; i++)
        plenum_batch_release(&held[i]);
    plenum_stream_destroy(s);
    end_loader(loader, SIGTERM);

    o = options_of(socket_a);
    loader = start_loader(socket_a, "1");
    o.epochs = 0;
    o.loader_timeout_ns = 2000 * NS_PER_MS;
    s = open_stream(NULL, &o);
    fd = plenum_stream_get_fd(s, NULL);
    end_loader(loader, SIGKILL);
    for (r = 0; r == 0;) {
        cr_assert(readable(fd, 60000), "a failure is also a result");
        r = plenum_stream_next(s, 0, &b, NULL);
        if (r == 0)
            plenum_batch_release(&b);
    }
    cr_expect(eq(int, r, -ECONNRESET));
    plenum_stream_destroy(s);
}

/* The rings of which the program was notified. */
struct told {
    struct plenum_ring rings[8]; /* rings that exist now */
    unsigned count, comings, goings;
};

static void on_ring(void *arg, void *base, size_t bytes, int present)
{
    struct told *t = arg;

    /* The ring must be mapped both when it is added and when it is removed. */
    ((volatile uint8_t *)base)[bytes - 1] |= 0;
    if (present) {
        t->comings++;
        t->rings[t->count++] = (struct plenum_ring){base, bytes};
        return;
    }
    t->goings++;
    for (unsigned i = 0; i < t->count; i++)
        if (t->rings[i].base == base) {
            cr_expect(eq(sz, t->rings[i].bytes, bytes));
            t->rings[i] = t->rings[--t->count];
            return;
        }
    cr_fail("a ring was removed that had not been added");
}

static bool within(const struct told *t, const struct plenum_batch *b)
{
    const uint8_t *pixels = b->pixels;
    size_t bytes = (size_t)b->count * b->height * b->width * b->channels;

    for (unsigned i = 0; i < t->count; i++) {
        const uint8_t *base = t->rings[i].base;

        if (pixels >= base && pixels + bytes <= base + t->rings[i].bytes)
            return true;
    }
    return false;
}

Test(stream, programs_are_notified_of_rings)
{
    pid_t loader = start_loader(socket_a, "1");
    struct plenum_stream_options o = options_of(socket_a);
    struct told told = {.count = 0};
    struct plenum_stream *s;
    struct plenum_batch b, held;
    struct plenum_ring ring;

    o.epochs = 0;
    o.on_ring = on_ring;
    o.on_ring_arg = &told;
    s = open_stream(NULL, &o);
    cr_expect(eq(u32, told.comings, 0), "no ring before its first batch");
    held = next_of(s);
    cr_expect(eq(u32, told.comings, 1));
    cr_expect(within(&told, &held));
    plenum_stream_get_ring(s, &ring);
    cr_expect(eq(ptr, ring.base, told.rings[0].base));
    cr_expect(eq(sz, ring.bytes, told.rings[0].bytes));

    for (int life = 2; life < 5; life++) { /* each loader has its own ring */
        end_loader(loader, SIGKILL);
        loader = start_loader(socket_a, "1");
        for (int i = 0; i < 20; i++) {
            b = next_of(s);
            cr_assert(within(&told, &b), "life %d, batch %d", life, i);
            plenum_batch_release(&b);
        }
        cr_expect(eq(u32, told.comings, (unsigned)life));
        cr_expect(eq(u32, told.goings, (unsigned)life - 2), "a batch must keep the first ring");
        cr_expect(within(&told, &held));
    }
    b = next_of(s);
    plenum_stream_destroy(s);
    cr_expect(eq(u32, told.count, 2), "leased batches must keep two rings");
    plenum_batch_release(&held);
    cr_expect(eq(u32, told.count, 1));
    cr_expect(within(&told, &b));
    plenum_batch_release(&b);
    cr_expect(eq(u32, told.count, 0));
    cr_expect(eq(u32, told.goings, told.comings));
    end_loader(loader, SIGTERM);
}

/* The law of evaluation: whatever the number of samples, instances, replicas and the size of
 * micro-batches, each sample is valid exactly once. */
TestSuite(evaluation, .init = setup, .fini = teardown, .timeout = 600);

Test(evaluation, counts_every_sample_exactly_once)
{
    pid_t loader = start_loader(socket_a, "2");
    struct plenum_stream_options o = options_of(socket_a);
    char small[160], link_name[64];

    tree_write_jpeg(&tree, "pixel.jpg", 8, 8, 1);
    (void)snprintf(small, sizeof(small), "%s/small", tree.root);
    o.dataset = small;
    o.pipeline = "resize(8) center_crop(8)";
    o.shuffle = "none";
    o.epochs = 1;
    for (uint32_t n = 1; n <= 200; n++) {
        /* Only the first has its own label: folders that do not change are faster to index. */
        (void)snprintf(link_name, sizeof(link_name), "small/%c/%03u.jpg", n == 1 ? 'a' : 'b', n);
        if (n <= 2)
            tree_write_jpeg(&tree, link_name, 8, 8, 1);
        else
            cr_assert(eq(int, link(tree_path(&tree, "pixel.jpg"), tree_path(&tree, link_name)), 0));
        for (uint32_t instances = 1; instances <= 5; instances++) {
            unsigned times[200] = {0};
            uint64_t counted = 0, steps = 0;

            o.micro_batch = 1 + (n * 7 + instances) % 9;
            o.steps = 1 + (n + instances) % 3;
            for (uint32_t k = 0; k < instances; k++) {
                struct plenum_job_info info = instance(k, instances, 1 + n % 2);
                struct plenum_stream *s = open_stream(&info, &o);
                struct plenum_stream_info facts;
                struct plenum_batch b;

                plenum_stream_get_info(s, &facts);
                cr_assert(eq(u64, facts.num_samples, n));
                cr_assert(steps == 0 || facts.steps_per_epoch == steps,
                          "every instance must have the same number of steps");
                steps = facts.steps_per_epoch;
                while (plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0) {
                    for (uint32_t i = 0; i < b.count; i++)
                        if (b.valid[i]) {
                            counted++;
                            times[b.samples[i]]++;
                        }
                    plenum_batch_release(&b);
                }
                plenum_stream_destroy(s);
            }
            cr_assert(eq(u64, counted, n), "%u instances", instances);
            for (uint32_t i = 0; i < n; i++)
                cr_assert(eq(u32, times[i], 1), "sample %u of %u, %u instances", i, n, instances);
        }
    }
    end_loader(loader, SIGTERM);
}

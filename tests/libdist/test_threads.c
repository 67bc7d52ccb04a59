/* SPDX-License-Identifier: MIT */
/* Tests streams used from many threads at once: several streams, batches released by other threads
 * than took them, with concurrent statistics, names and seeks, rings that appear and disappear, the
 * I/O thread starting and ending, and a loader that dies. This is a plain program, for
 * ThreadSanitizer. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "common/util/util.h"
#include "tests/daemon.h"
#include "tests/tap.h"
#include "tests/tree.h"

enum { CONSUMERS = 3, EPOCHS = 20 };

static struct tree tree;
static char data[128], address[128];
static atomic_bool stop;
static atomic_int rings; /* existing rings of which the program was notified */

static void on_ring(void *arg, void *base, size_t bytes, int present)
{
    (void)arg;
    ((volatile unsigned char *)base)[bytes - 1] |= 0;
    (void)atomic_fetch_add(&rings, present ? 1 : -1);
}

static struct plenum_stream_options options_of(uint64_t seed)
{
    struct plenum_stream_options o;

    plenum_stream_options_init(&o);
    o.dataset = data;
    o.pipeline = "rrc(16) flip(0.5)";
    o.loader = address;
    o.seed = seed;
    o.epochs = EPOCHS;
    o.micro_batch = 4;
    o.on_ring = on_ring;
    return o;
}

static struct plenum_stream *opened(uint64_t seed)
{
    struct plenum_stream_options o = options_of(seed);
    struct plenum_stream *s = NULL;
    struct plenum_error err;

    if (plenum_stream_open(NULL, &o, &s, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return s;
}

/* Batches on their way from the thread that took them to the one that releases them. */
struct belt {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct plenum_batch batches[8];
    unsigned count;
    bool end;
};

struct consumer {
    uint64_t seed, hash;
    struct belt belt;
    struct plenum_stream *stream;
    pthread_t taker, giver;
};

static void *give_back(void *arg)
{
    struct belt *b = arg;

    (void)pthread_mutex_lock(&b->mu);
    while (b->count || !b->end) {
        struct plenum_batch batch;

        if (!b->count) {
            (void)pthread_cond_wait(&b->changed, &b->mu);
            continue;
        }
        batch = b->batches[--b->count];
        (void)pthread_cond_signal(&b->changed);
        (void)pthread_mutex_unlock(&b->mu);
        plenum_batch_release(&batch);
        (void)pthread_mutex_lock(&b->mu);
    }
    (void)pthread_mutex_unlock(&b->mu);
    return NULL;
}

static void put(struct belt *b, const struct plenum_batch *batch)
{
    (void)pthread_mutex_lock(&b->mu);
    while (b->count == 3)
        (void)pthread_cond_wait(&b->changed, &b->mu);
    b->batches[b->count++] = *batch;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->mu);
}

static void *take(void *arg)
{
    struct consumer *c = arg;
    struct plenum_cursor cursor;
    struct plenum_batch batch;
    struct plenum_error err;
    int r;

    for (unsigned i = 0; (r = plenum_stream_next(c->stream, PLENUM_FOREVER, &batch, &err)) == 0;
         i++) {
        c->hash += plenum_batch_hash(&batch);
        put(&c->belt, &batch);
        if (i % 10 == 9) { /* a seek to the current position requests prefetched batches again */
            plenum_stream_cursor(c->stream, &cursor);
            (void)plenum_stream_seek(c->stream, &cursor, NULL);
        }
    }
    if (r != -ENODATA)
        fprintf(stderr, "%s\n", err.text);
    (void)pthread_mutex_lock(&c->belt.mu);
    c->belt.end = true;
    (void)pthread_cond_broadcast(&c->belt.changed);
    (void)pthread_mutex_unlock(&c->belt.mu);
    return NULL;
}

static void *watch(void *arg)
{
    struct consumer *c = arg;
    struct plenum_stream_stats stats;
    struct plenum_stream_info info;
    struct plenum_cursor cursor;
    struct plenum_place place;
    struct plenum_ring ring;
    struct plenum_error warning;
    const uint32_t samples[] = {0, 22, 7};
    char **names;

    while (!atomic_load(&stop)) {
        for (int i = 0; i < CONSUMERS; i++) {
            plenum_stream_get_stats(c[i].stream, &stats);
            plenum_stream_get_info(c[i].stream, &info);
            plenum_stream_cursor(c[i].stream, &cursor);
            plenum_stream_get_place(c[i].stream, &place);
            plenum_stream_get_ring(c[i].stream, &ring);
            if (plenum_stream_sample_names(c[i].stream, samples, 3, &names, NULL) < 0 ||
                !strstr(names[1], "/data/"))
                abort();
            free(names);
            (void)poll(
                &(struct pollfd){.fd = plenum_stream_get_fd(c[i].stream, NULL), .events = POLLIN},
                1, 0);
            while (plenum_stream_take_warning(c[i].stream, &warning))
                ;
        }
        (void)usleep(500);
    }
    return NULL;
}

static uint64_t alone(uint64_t seed)
{
    struct plenum_stream *s = opened(seed);
    struct plenum_batch batch;
    uint64_t hash = 0;

    while (plenum_stream_next(s, PLENUM_FOREVER, &batch, NULL) == 0) {
        hash += plenum_batch_hash(&batch);
        plenum_batch_release(&batch);
    }
    plenum_stream_destroy(s);
    return hash;
}

static void many_threads(pid_t *loader, bool kill_it)
{
    struct consumer c[CONSUMERS];
    pthread_t watcher;
    bool right = true;

    memset(c, 0, sizeof(c));
    for (uint64_t i = 0; i < CONSUMERS; i++) {
        c[i].seed = i;
        c[i].stream = opened(i);
        (void)pthread_mutex_init(&c[i].belt.mu, NULL);
        (void)pthread_cond_init(&c[i].belt.changed, NULL);
    }
    atomic_store(&stop, false);
    (void)pthread_create(&watcher, NULL, watch, c);
    for (int i = 0; i < CONSUMERS; i++) {
        (void)pthread_create(&c[i].taker, NULL, take, &c[i]);
        (void)pthread_create(&c[i].giver, NULL, give_back, &c[i].belt);
    }
    for (int i = 0; kill_it && i < 3; i++) {
        (void)usleep(20000); /* at any moment */
        (void)daemon_end(*loader, SIGKILL);
        *loader = daemon_start(address, "3", NULL, NULL);
    }
    for (int i = 0; i < CONSUMERS; i++) {
        (void)pthread_join(c[i].taker, NULL);
        (void)pthread_join(c[i].giver, NULL);
    }
    atomic_store(&stop, true);
    (void)pthread_join(watcher, NULL);
    for (int i = 0; i < CONSUMERS; i++) {
        plenum_stream_destroy(c[i].stream);
        right &= c[i].hash == alone(c[i].seed);
        (void)pthread_cond_destroy(&c[i].belt.changed);
        (void)pthread_mutex_destroy(&c[i].belt.mu);
    }
    tap_ok(right, "streams of several threads have the hashes of streams that run alone%s",
           kill_it ? ", even if their loader dies" : "");
}

static void *open_and_close(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;

    for (int i = 0; i < 15; i++) {
        struct plenum_stream *s = opened(seed);
        struct plenum_batch held[2];

        for (int k = 0; k < 2; k++)
            if (plenum_stream_next(s, PLENUM_FOREVER, &held[k], NULL) < 0)
                abort();
        plenum_batch_release(&held[0]);
        plenum_stream_destroy(s);
        plenum_batch_release(&held[1]); /* the batch outlives its stream */
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    char name[32];
    pid_t loader;

    tree_init(&tree);
    for (unsigned i = 0; i < 23; i++) {
        (void)snprintf(name, sizeof(name), "data/%c/%02u.jpg", 'a' + (int)(i % 3), i);
        tree_write_jpeg(&tree, name, 40, 30, i);
    }
    (void)snprintf(data, sizeof(data), "%s/data", tree.root);
    (void)snprintf(address, sizeof(address), "unix:%s/sock", tree.root);
    loader = daemon_start(address, "3", NULL, NULL);
    many_threads(&loader, false);
    many_threads(&loader, true);
    for (uintptr_t i = 0; i < 4; i++)
        (void)pthread_create(&threads[i], NULL, open_and_close, (void *)i);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    tap_ok(true, "several threads open and close streams at once");
    tap_ok(atomic_load(&rings) == 0, "every ring that was added has been removed");
    tap_ok(daemon_end(loader, SIGTERM) == 0, "the loader ends normally");
    tree_fini(&tree);
    return tap_end();
}

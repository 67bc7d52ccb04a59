/* SPDX-License-Identifier: MIT */
/* queue_priv.h - the queue and its streams, shared by the files that implement them:
 *
 *     queue.c        requests, items and threads
 *     queue_begin.c  chooses the samples that a thread reads next
 *     queue_item.c   reads and renders the samples of one item
 *     queue_users.c  streams, and the users and jobs that take turns
 *     readahead.c    announces the next samples to the kernel
 *     sharing.c      shares renderings among streams */
#ifndef LOADER_SERVE_QUEUE_PRIV_H
#define LOADER_SERVE_QUEUE_PRIV_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/list.h"
#include "common/util/lock.h"
#include "loader/serve/fair_queue.h"
#include "loader/serve/queue.h"
#include "loader/serve/token_bucket.h"

enum {
    LEFT_TAGS = 256,
    SPARE_MAX = 64,    /* extra I/O threads, started while others hang */
    SPARE_OF_USER = 8, /* the most of these for one user */
};

struct item;
struct node_queue;
struct thread;

/* A position in the sequence of a stream's samples, batch after batch. */
struct walk {
    struct order_place step;
    uint32_t index;   /* the sample's index in its step, less than the stream's local count */
    uint64_t ordinal; /* samples since the walk began */
};

/* A user, or one of its jobs. Protected by the queue's lock, and freed with its last stream. */
struct owner {
    struct list link; /* in the queue's users, or the user's jobs */
    struct list jobs; /* the jobs, if this is a user */
    struct flow flow;
    unsigned members;  /* jobs of a user, streams of a job */
    unsigned fetching; /* the user's streams that read from a store now (readahead.c) */
    char name[];
};

struct queue_stream {
    /* Constant. */
    struct queue *queue;
    struct owner *user, *job;
    const struct render_spec *spec;
    const struct wire_open *open;
    const struct wire_slot *layout;
    struct ring *ring;
    unsigned node;
    void *owner;
    /* For queue_submit() and queue_stream_close() only. */
    struct course_stream *course; /* the stream in the cache of samples, or NULL */
    /* Under the queue's lock. */
    struct list requests; /* unfinished, oldest first */
    struct list link;     /* in the queue's streams */
    struct flow flow;
    struct list retries;           /* samples that need a substitute to be read */
    uint64_t waiting;              /* samples that no thread has begun, including retries */
    uint64_t cost_ns;              /* mean CPU time of a sample */
    unsigned announcing;           /* threads that are announcing a sample of this stream */
    bool closed;                   /* free it when `announcing` reaches 0 */
    bool starved;                  /* it has had no I/O thread since the last beat */
    uint64_t reads, reads_at_beat; /* finished reads, now and at the last beat */
    /* Set if it holds I/O threads, and none of its storage calls has returned since the last
     * beat. */
    bool hangs;
    struct order_share share;    /* share of the last request; written by queue_submit() */
    struct walk ahead;           /* the next sample to announce */
    struct order_place expected; /* position of the next request if it follows the last one */
    uint64_t asked;              /* samples requested since the walk began */
    uint64_t taken;              /* those of them that I/O threads have begun */
    uint64_t read_ns;            /* mean time of a read */
    struct queue_totals totals;
    uint64_t slow_until; /* announce until `taken` reaches this */
    /* Renderings that it shares with other streams (sharing.c); NULL: it shares none. */
    struct renderings_reader *reader;
    struct render_spec *planes; /* `spec` in the format of shared renderings */
    struct list parked;         /* samples that another stream renders now */
};

struct queue {
    /* Constant. */
    struct queue_options options;
    struct item *items;
    unsigned num_items;
    struct thread *threads; /* workers, then I/O threads */
    unsigned started;
    unsigned readers;      /* the number of I/O threads; protected by mu */
    unsigned idle_readers; /* I/O threads without work; protected by mu */
    struct node_queue *node_queues;
    unsigned num_nodes;
    /* Any thread. */
    atomic_uint ready; /* items in all node queues */
    /* Any thread, holding mu. */
    struct lock mu;
    /* I/O threads wait here for a task and a free item, for a sample to announce, or for `stop`. */
    pthread_cond_t to_read;
    struct list users, streams;
    struct flow flow; /* the root: users are its children */
    /* Start tags of users that have left, by a hash of their names. */
    uint64_t left_tags[LEFT_TAGS];
    struct list free;     /* items */
    struct list finished; /* requests */
    struct queue_counters counters;
    pthread_cond_t rested; /* workers that rest (for CPU time) wait here for `stop` */
    bool stop;
    struct renderings *renderings; /* those that streams share; NULL: they share none */
    struct sharing_spare *spares;  /* memory for renderings */
    uint64_t spare_bytes;
    struct token_bucket cpu; /* any thread */
};

/** Change the number of a stream's waiting samples. The caller holds the lock. */
static inline void queue_add_waiting(struct queue_stream *s, int64_t more)
{
    struct queue *q = s->queue;

    assert(lock_is_held(&q->mu));
    assert(more >= 0 || s->waiting >= (uint64_t)-more);
    s->waiting += (uint64_t)more;
    q->counters.queued += (uint64_t)more;
    assert(q->counters.queued >= s->waiting);
    flow_set_backlogged(&s->flow, s->waiting > 0 && !s->hangs);
}

#endif

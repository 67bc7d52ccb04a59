/* SPDX-License-Identifier: MIT */
/* queue.h - the loader's work queue. It splits requested batches into samples, which its threads
 * read and render. */
#ifndef LOADER_SERVE_QUEUE_H
#define LOADER_SERVE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/list.h"
#include "common/net/ring.h"
#include "common/net/wire.h"
#include "loader/serve/histogram.h"
#include "loader/serve/renderings.h"
#include "loader/render/render.h"

/** The threads and the work waiting for them. Opaque. */
struct queue;

/** State shared by all requests of a stream. The stream's owner closes it with
 * queue_stream_close(). */
struct queue_stream;

struct queue_options {
    unsigned workers;        /* decoding threads, at least 1 */
    unsigned io_threads;     /* reading threads, at least 1 */
    uint32_t cpu_millicores; /* CPU time that the process may use; 0: no limit */
    uint64_t fetch_memory;   /* bytes fetched from stores in advance and not read yet */
    uint64_t share_memory;   /* bytes of renderings kept for other streams; 0: share none */
    unsigned nodes;          /* NUMA nodes that have workers; 0: one */
    /** Returns the node of a worker. NULL: every worker is on the first node. */
    unsigned (*worker_node)(void *arg, unsigned worker);
    /** Called on each worker when it starts (to bind it to a core). May be NULL. */
    void (*worker_start)(void *arg, unsigned worker);
    /** Called when a request has finished; collect it with queue_pop_finished(). Called from any
     * thread, with no lock held. */
    void (*wake)(void *arg);
    void *arg;
};

/** One RENDER message, from its arrival to its answer. queue_submit() creates it; the caller of
 * queue_pop_finished() frees it. */
struct queue_request {
    uint64_t id;
    struct queue_stream *stream;
    void *owner; /* queue_stream_options.owner of its stream */
    struct wire_done done;
    bool cancelled;   /* answer CANCELLED, not DONE */
    struct list link; /* for the caller of queue_pop_finished() */
    /* Private to the queue, under its lock. */
    uint64_t arrived_ns;
    uint64_t rested_ns; /* of all threads until then */
    struct order_share share;
    struct order_place place; /* the step that contains the next sample to start */
    uint32_t slot;
    uint32_t count, next, left;
};

/** Totals for one stream, or for all streams since the start. */
struct queue_totals {
    uint64_t samples, substituted; /* samples rendered; those that replaced bad ones */
    uint64_t batches, failed;      /* batches finished and not cancelled; those that failed */
    uint64_t read_ns, render_ns;   /* thread time, summed over samples */
    uint64_t cpu_ns;               /* CPU time used for reading and rendering */
    uint64_t queue_ns;  /* from RENDER to the start of the first sample, summed over batches */
    uint64_t rested_ns; /* time that workers waited for CPU tokens; 0 for one stream */
};

struct queue_counters {
    struct queue_totals all;
    uint64_t queued; /* samples waiting now */
    /* Time to read a sample, time to render one, and time from a RENDER to its first sample. */
    struct histogram read, render, queue;
};

int queue_create(const struct queue_options *options, struct queue **ret);
/** Stop the threads. All streams must be closed first. */
void queue_destroy(struct queue *queue);

struct queue_stream_options {
    /** Users take turns, and so do the jobs of each user. Any names are allowed. */
    const char *user, *job;
    /** Borrowed until queue_stream_close(). */
    const struct render_spec *spec;
    const struct wire_open *open;
    const struct wire_slot *layout; /* the layout of `open` */
    struct ring *ring;
    unsigned node; /* NUMA node of the ring's memory */
    void *owner;   /* becomes the owner of its requests */
};

/** Returns 0 or -ENOMEM. */
int queue_stream_open(struct queue *queue, const struct queue_stream_options *options,
                      struct queue_stream **ret);

/** Close a stream. All of its requests must have been popped first. NULL is ignored. */
void queue_stream_close(struct queue_stream *stream);

/** Request a batch: this share of each of its steps is rendered into a slot. Returns 0 or
 * -ENOMEM. */
int queue_submit(struct queue_stream *stream, uint64_t id, const struct wire_render *render,
                 const struct order_share *share);

/** Returns whether an unfinished request uses this id, or writes to this slot. */
bool queue_stream_has(struct queue_stream *stream, uint64_t id, uint32_t slot);

/** Cancel one request, or all requests of the stream. A request finishes when its last task has
 * stopped. Unknown ids are ignored. */
void queue_cancel(struct queue_stream *stream, uint64_t id);
void queue_cancel_all(struct queue_stream *stream);

/** Returns the oldest finished request, which the caller must free(), or NULL. */
struct queue_request *queue_pop_finished(struct queue *queue);

/** Call this about once a second. Marks streams whose storage hangs. If a stream has no I/O thread
 * because all of them are busy, starts another one, up to a limit. Forgets renderings that are not
 * needed any more. */
void queue_beat(struct queue *queue);

void queue_get_counters(struct queue *queue, struct queue_counters *ret);
/** Get the counts of renderings that streams share; zeros if they share none. */
void queue_get_shared(struct queue *queue, struct renderings_counts *ret);

/** Returns the NUMA node of the stream's ring. */
unsigned queue_stream_node(const struct queue_stream *stream);

void queue_stream_get_totals(struct queue_stream *stream, struct queue_totals *ret);

#endif

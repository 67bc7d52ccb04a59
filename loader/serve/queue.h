/* SPDX-License-Identifier: MIT */
/* queue.h - the loader's work: requests for batches, cut into samples, done by threads. */
#ifndef LOADER_SERVE_QUEUE_H
#define LOADER_SERVE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "common/ring.h"
#include "common/wire.h"
#include "loader/serve/histogram.h"
#include "loader/render/render.h"

/** The threads and what waits for them. Opaque. */
struct queue;

/** What is the same for all requests of a stream. The queue borrows it until the stream is closed.
 */
struct queue_stream;

struct queue_options {
    unsigned workers;        /* threads that decode, at least 1 */
    unsigned io_threads;     /* threads that read, at least 1 */
    uint32_t cpu_millicores; /* CPU time that the process may use; 0: as much as there is */
    unsigned nodes;          /* NUMA nodes with workers; 0: one */
    /** The node of each worker; NULL: the first. */
    unsigned (*worker_node)(void *arg, unsigned worker);
    /** Called on each worker when it starts (to bind it to a core). May be NULL. */
    void (*worker_start)(void *arg, unsigned worker);
    /** A request has finished: see queue_pop_finished(). Called from any thread, holding no
     * lock. */
    void (*wake)(void *arg);
    void *arg;
};

/** One RENDER, from its arrival to its answer. Made by queue_submit(), freed by who gets it from
 * queue_pop_finished(). */
struct queue_request {
    uint64_t id;
    struct queue_stream *stream;
    void *owner; /* of the stream: queue_stream_open() */
    struct wire_done done;
    bool cancelled;   /* CANCELLED is the answer, not DONE */
    struct list link; /* for use by who got it from queue_pop_finished() */
    /* The queue's own, under its lock. */
    uint64_t arrived_ns;
    struct order_place place; /* of the step whose samples are begun now */
    uint32_t slot;
    uint32_t count, next, left;
};

/** Of one stream, or of all streams since the start. */
struct queue_totals {
    uint64_t samples, substituted; /* rendered; of them, shown in place of bad ones */
    uint64_t batches, failed;      /* finished and not cancelled; of them, with an error */
    uint64_t read_ns, render_ns;   /* summed over samples, of the threads' time */
    uint64_t cpu_ns;               /* that reading and rendering took of CPUs */
    uint64_t queue_ns;  /* summed over batches: from RENDER until the first sample is begun */
    uint64_t rested_ns; /* time that workers waited for CPU tokens; 0 for one stream */
};

struct queue_counters {
    struct queue_totals all;
    uint64_t queued; /* samples that wait now */
    /* Times to read a sample, to render one, and of a batch until its first sample is begun. */
    struct histogram read, render, queue;
};

int queue_create(const struct queue_options *options, struct queue **ret);
/** Ends the threads. All streams must have been closed. */
void queue_destroy(struct queue *queue);

struct queue_stream_options {
    /** Users take turns, and so do the jobs of a user. Any names. */
    const char *user, *job;
    /** Borrowed until queue_stream_close(). */
    const struct render_spec *spec;
    const struct wire_open *open;
    const struct wire_slot *layout;  /* of `open` */
    const struct order_steps *steps; /* likewise */
    struct ring *ring;
    unsigned node; /* NUMA node of the ring's memory */
    void *owner;   /* of its requests */
};

/** 0 or -ENOMEM. */
int queue_stream_open(struct queue *queue, const struct queue_stream_options *options,
                      struct queue_stream **ret);

/** All its requests must have been popped. NULL is nothing. */
void queue_stream_close(struct queue_stream *stream);

/** Render a batch into a slot: 0 or -ENOMEM. */
int queue_submit(struct queue_stream *stream, uint64_t id, const struct wire_render *render);

/** Does a request that is under way use this id, or write to this slot? */
bool queue_stream_has(struct queue_stream *stream, uint64_t id, uint32_t slot);

/** Cancel a request (or all of the stream): it is finished when its last task has stopped. An
 * unknown id does nothing. */
void queue_cancel(struct queue_stream *stream, uint64_t id);
void queue_cancel_all(struct queue_stream *stream);

/** The oldest finished request, owned by the caller (free()), or NULL. */
struct queue_request *queue_pop_finished(struct queue *queue);

/** Call this about once a second. Where all I/O threads wait for storage, and a stream has none
 * for that reason, it starts another, up to a limit. */
void queue_beat(struct queue *queue);

void queue_get_counters(struct queue *queue, struct queue_counters *ret);

/** The NUMA node of the stream's ring. */
unsigned queue_stream_node(const struct queue_stream *stream);

void queue_stream_get_totals(struct queue_stream *stream, struct queue_totals *ret);

#endif

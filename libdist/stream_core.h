/* SPDX-License-Identifier: MIT */
/* stream_core.h - the stream itself, for the files that work on it: constants, the data set,
 * results, the lock, references, the error and warnings. Written by stream.c and stream_options.c;
 * loaders.c and amend.c write what loaders report about the data set and the plan. */
#ifndef LIBDIST_STREAM_CORE_H
#define LIBDIST_STREAM_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <plenum/stream.h>

#include "common/net/ring.h"
#include "common/net/tls.h"
#include "common/net/wire.h"
#include "common/order/order.h"
#include "common/pipeline/views.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/message.h"
#include "libdist/batch_trace.h"

enum { WARNINGS_MAX = 8 };

/** The functions that the core calls in stream.c. */
struct stream_calls {
    /** Would plenum_stream_next() return without waiting? */
    bool (*would_return)(struct plenum_stream *s);
    /** The last reference is gone: free the members that the core does not know. */
    void (*free)(struct plenum_stream *s);
};

struct plenum_stream {
    /* Constant once the stream is complete. */
    const struct stream_calls *calls;
    pid_t pid;
    struct plenum_job_info info;
    struct wire_open open;
    struct wire_slot layout; /* layout of its slots */
    struct views views;
    struct fields fields;         /* names of the fields in open.field */
    struct orderplan *first_plan; /* the plan with which the stream was opened, or NULL; owned */
    uint64_t epochs;
    uint32_t depth;
    uint64_t loader_timeout_ns, silence_ns;
    uint64_t opened_ns;
    enum plenum_split split;
    uint8_t choices[16]; /* the identity without the data set and anything that a part changes */
    /* share of batches that two loaders render and that must be equal: 0 to 1 */
    double verify_share;
    /* PLENUM_SOURCE=synthetic: slots are ready at once and always have the same contents */
    bool synthetic;
    char name[WIRE_NAME_MAX]; /* our name for the loader's log */
    char job[WIRE_NAME_MAX];  /* the job's id, by which loaders share their capacity; or empty */

    atomic_uint refs; /* held by the program's handle, leases, and look-ups */

    /* Any thread, holding mu. The I/O thread's lock (io.c) is taken before it. */
    struct lock mu;
    pthread_cond_t changed; /* an entry is ready, the stream is open, or an error has occurred */

    /* Delivery. */
    bool opened;            /* the first OPENED has arrived: the data set is known */
    struct orderplan *plan; /* open.plan, parsed: first_plan, or a later one, owned; NULL: none */
    bool amended;           /* no loader has opened the plan since plenum_stream_amend() */
    struct plenum_error *amend_error; /* amend.c's: set if all loaders refuse the plan; or NULL */
    int amend_code;
    bool held; /* nothing is requested yet: plenum_stream_open_all() is in progress */
    struct order order;
    struct order_steps steps;
    uint32_t num_samples, num_classes;   /* in the data set */
    uint32_t num_class_names;            /* number of classes with names: all or 0 */
    struct wire_set sets[WIRE_SETS_MAX]; /* sets of the plan, as the first loader described them */
    struct wire_reweigh
        reweighs[WIRE_REWEIGHS_MAX]; /* new weights of the plan; unknown ones never start */
    uint8_t fingerprint[16], identity[16];
    uint8_t fields_hash[16]; /* once open.num_fields is known */
    struct datasum sum;
    struct order_place cursor; /* place after the last batch returned, not settled */
    uint64_t next_index;
    unsigned leased;
    uint64_t waiting_ns; /* since when the program has waited for a batch; 0: it is not waiting */
    int error_code;      /* the stream has failed */
    struct plenum_error error;
    struct plenum_stream_stats stats;
    struct trace *trace; /* or NULL */
    struct plenum_error warnings[WARNINGS_MAX];
    unsigned num_warnings;
    uint64_t next_request;

    /* For event loops and pinned memory. */
    int ready_fd; /* an eventfd, or -1 until it is requested */
    bool ready_fd_set;
    plenum_ring_call on_ring; /* constant */
    void *on_ring_arg;        /* constant */
    struct slot_set *shown;   /* rings that the program knows, the newest first */
    bool closed;              /* plenum_stream_shutdown() was called */
    uint64_t closed_ns;       /* when it was called */
    unsigned inside;          /* calls that plenum_stream_destroy() must wait for */

    struct tls *tls;              /* for loaders over TCP, or NULL; constant */
    struct loader_table *loaders; /* loaders.c; constant */
    struct schedule *schedule;    /* schedule.c; constant */
};

/** Returns a stream of zeros, with one reference; NULL: out of memory. */
struct plenum_stream *stream_new(const struct stream_calls *calls);
/** Drop a reference; the last one frees the stream. The caller must not hold the stream's lock. */
void stream_unref(struct plenum_stream *s);
/** Write the identity of a cursor at this place. The caller holds the lock, once the stream is
 * opened. */
void stream_identity(const struct plenum_stream *s, struct order_place place, uint8_t ret[16]);
/** Fail the stream permanently, and wake waiting calls; the first error counts. The caller holds
 * the lock. */
MESSAGE void stream_fail(struct plenum_stream *s, int code, const char *text);
/** Returns the error of a stream that has failed or was closed, with its message. Hold the lock. */
int stream_over(const struct plenum_stream *s, struct plenum_error *err);
/** Update the descriptor, and wake plenum_stream_next() and other waiting calls, after a change of
 * state. The caller holds the lock. */
void stream_changed(struct plenum_stream *s);
/** Make the descriptor readable if plenum_stream_next() would not wait, and otherwise not readable.
 * The caller holds the lock. */
void stream_update_fd(struct plenum_stream *s);
/** Queue one message for plenum_stream_take_warning(). If the queue is full, the oldest is dropped.
 * The caller holds the lock. */
MESSAGE_FORMAT(2, 3)
void stream_warn(struct plenum_stream *s, const char *format, ...);

#endif

/* SPDX-License-Identifier: MIT */
/* stream_priv.h - a stream, for those who make its batches: what is constant, what is known of the
 * data set, and what has come. Written by stream.c, but for what loaders.c learns of the data
 * set. */
#ifndef LIBDIST_STREAM_PRIV_H
#define LIBDIST_STREAM_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <plenum/stream.h>

#include "common/error.h"
#include "common/lock.h"
#include "common/order.h"
#include "common/views.h"
#include "common/ring.h"
#include "common/tls.h"
#include "common/wire.h"
#include "libdist/trace.h"

enum { WARNINGS_MAX = 8 };

struct plenum_stream {
    /* Constant once the stream is made. */
    pid_t pid;
    struct plenum_job_info info;
    struct wire_open open;
    struct views views;
    struct fields fields; /* names of open.field */
    uint64_t epochs;
    uint32_t depth;
    uint64_t loader_timeout_ns, silence_ns;
    uint64_t opened_ns;
    enum plenum_split split;
    uint8_t choices[16]; /* the identity without the data set, and without what a part changes */
    double verify_share; /* share of batches that two loaders make and that must be equal: 0 to 1 */
    bool synthetic; /* PLENUM_SOURCE=synthetic: slots are ready at once, and hold always the same */
    char name[WIRE_NAME_MAX]; /* ours, for the loader's log */
    char job[WIRE_NAME_MAX]; /* what all instances call the job, by which loaders share; or empty */

    atomic_uint refs; /* the program's handle, the I/O thread's list, leases */

    /* Any thread, holding mu. The I/O thread's lock (io.c) comes before it. */
    struct lock mu;
    pthread_cond_t changed; /* an entry is ready, the stream is open, or an error has come */

    /* Delivery. */
    bool opened; /* a first OPENED has come: the data set is known */
    bool held;   /* nothing is asked for yet: plenum_stream_open_all() is not done */
    struct order order;
    struct order_steps steps;
    uint32_t num_samples, num_classes; /* of the data set */
    uint32_t num_class_names;          /* of the classes: all or 0 */
    uint8_t fingerprint[16], identity[16];
    uint8_t fields_hash[16]; /* once open.num_fields is known */
    struct datasum sum;
    struct order_place cursor; /* behind the last batch that was handed out, not settled */
    uint64_t next_index;
    unsigned leased;
    uint64_t waiting_ns; /* since when the program has waited for a batch; 0: it does not */
    int error_code;      /* nothing more will come */
    struct plenum_error error;
    struct plenum_stream_stats stats;
    struct trace *trace; /* or NULL */
    struct plenum_error warnings[WARNINGS_MAX];
    unsigned num_warnings;
    uint64_t next_request;

    /* For event loops and pinned memory. */
    int ready_fd; /* an eventfd, or -1 until it is asked for */
    bool ready_fd_set;
    plenum_ring_call on_ring; /* constant */
    void *on_ring_arg;        /* constant */
    struct slot_set *shown;   /* rings that the program was told of, the newest first */
    bool closed;              /* plenum_stream_shutdown(): nothing more comes */
    uint64_t closed_ns;       /* when it was */
    unsigned inside;          /* calls that plenum_stream_destroy() has to wait for */

    struct tls *tls;           /* for loaders by TCP, or NULL; constant */
    struct loaders *loaders;   /* loaders.c; constant */
    struct schedule *schedule; /* schedule.c; constant */
};

#endif

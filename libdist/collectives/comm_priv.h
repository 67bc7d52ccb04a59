/* SPDX-License-Identifier: MIT */
/* comm_priv.h - the interface between libplenum and the carriers of its collectives
 * (libplenum-mpi.so, comm_local.c). */
#ifndef LIBDIST_COLLECTIVES_COMM_PRIV_H
#define LIBDIST_COLLECTIVES_COMM_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

#include "common/util/util.h"

/** Version of this table. A library of another version is rejected. */
enum { COMM_BACKEND_VERSION = 7 };

/** A transfer in which each instance has bytes for each: `bytes` at `send + i * send_step` go to
 * instance i, and those of instance i arrive at `recv + i * recv_step`. */
struct comm_exchange {
    const char *what; /* the collective, for messages */
    const unsigned char *send;
    size_t send_step;
    unsigned char *recv;
    size_t recv_step;
    size_t bytes;
    uint64_t timeout_ns;
};

/** A sum, minimum, maximum or mean over all instances. */
struct comm_reduction {
    const unsigned char *send; /* allreduce: [count]; reduce-scatter: [instances][count] */
    unsigned char *recv;       /* [count] */
    size_t count;
    enum plenum_type type;
    enum plenum_op op;
    uint64_t timeout_ns;
};

struct comm_backend {
    uint32_t version;
    /** Wait for all instances, join the world and compare it with the job. Returns -ENOTSUP if it
     * differs. */
    int (*open)(uint32_t instances, uint32_t index, uint64_t timeout_ns, struct plenum_error *err);
    /** Leave the world. `broken`: a collective never finished, so do not wait for the others. */
    void (*close)(bool broken);
    /** Acquire what a collective of `bytes` bytes needs in this instance, before it begins. May be
     * NULL. */
    int (*prepare)(const char *what, size_t bytes, struct plenum_error *err);
    /**
     * Give all instances the bytes of each, like allgather; this is the first step of every
     * collective. Returns -EIO, naming the instance, as soon as one has ended without arriving.
     *
     * @param what   the collective, for messages
     * @param bytes  equal in every call
     */
    int (*meet)(const char *what, const void *mine, size_t bytes, void *all, uint64_t timeout_ns,
                struct plenum_error *err);
    /** Moves data once all instances have made the same call. Has no barrier, and its allreduce is
     * never called. */
    struct plenum_carrier carrier;
    /** Moves data, too. */
    int (*exchange)(const struct comm_exchange *x, struct plenum_error *err);
    /** Reductions, in place or not; NULL: comm_moved.c makes them from the functions above. */
    int (*allreduce)(const struct comm_reduction *x, struct plenum_error *err);
    int (*reduce_scatter)(const struct comm_reduction *x, struct plenum_error *err);
    /** Call leave() when the program calls MPI_Finalize(). No effect unless the program has
     * initialised MPI. NULL: this is not MPI. */
    int (*watch_finalize)(void (*leave)(void), struct plenum_error *err);
};

/**
 * Run plenum_allgather() on small data of the library itself. Returns all of it, [num_instances],
 * for the caller to free; NULL on an error, described by `*code` and `err`. The buffers of an
 * unfinished collective are never freed.
 *
 * @param name  the function that the program called
 */
void *comm_gather(struct plenum_job *job, const char *name, const void *mine, size_t bytes,
                  int *code, struct plenum_error *err);

/** Returns the time that is left until a deadline, in the form that carriers take: at least 1 ns,
 * because 0 means no limit. A deadline of 0 means no limit, too. */
static inline uint64_t comm_time_left(uint64_t deadline_ns)
{
    uint64_t now = time_now_ns();

    if (deadline_ns == 0)
        return 0;
    return deadline_ns > now ? deadline_ns - now : 1;
}

/** The carrier between instances that plenumrun started itself, on one host. Used if
 * MEETING_VARIABLE is set. */
extern const struct comm_backend comm_local;

/** The carrier between hosts over TCP. Used if MEETING_HOSTS_VARIABLE is set, too. */
extern const struct comm_backend comm_hosts;

/** If the program uses MPI itself, call leave() when it finalises it. It has initialised it by now.
 * Returns 0, or -errno with a message. */
int comm_watch_mpi(void (*leave)(void), struct plenum_error *err);
/** Returns the error of a collective after that. */
int comm_finalised(struct plenum_error *err);

/** The module of the MPI carrier, and the only symbol that it exports. */
#define COMM_BACKEND_FILE "libplenum-mpi.so"
#define COMM_BACKEND_SYMBOL "plenum_mpi_backend"

#endif

/* comm_priv.h - between libplenum and what carries its collectives (libplenum-mpi.so). */
#ifndef LIBDIST_COMM_PRIV_H
#define LIBDIST_COMM_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** Version of this table: a library of another build is refused. */
enum { COMM_BACKEND_VERSION = 2 };

/**
 * What a carrier does. Each call blocks, sleeping, until it is done or `deadline_ns`
 * (CLOCK_MONOTONIC; 0: none) has passed, and returns 0, -ETIMEDOUT or -EIO with a sentence.
 */
struct comm_backend {
    uint32_t version;
    /** Join the world and compare: -ENOTSUP when it is not this job's. */
    int (*open)(uint32_t instances, uint32_t index, struct plenum_error *err);
    /** Leave it; `broken`: a collective never came to its end, so nobody may wait for the others.
     */
    void (*close)(bool broken);
    int (*broadcast)(void *buffer, size_t bytes, uint32_t root, uint64_t deadline_ns,
                     struct plenum_error *err);
    int (*allreduce)(void *buffer, size_t count, enum plenum_type type, enum plenum_op op,
                     uint64_t deadline_ns, struct plenum_error *err);
    int (*allgather)(const void *send, size_t bytes, void *recv, uint64_t deadline_ns,
                     struct plenum_error *err);
    int (*barrier)(uint64_t deadline_ns, struct plenum_error *err);
};

/** The one symbol that libplenum-mpi.so exports. */
#define COMM_BACKEND_SYMBOL "plenum_mpi_backend"

/** End what the collectives of this job have started. */
void plenum__comm_close(struct plenum_job *job);

/** The same for the job that is open when the process exits, if any. */
void plenum__comm_close_at_exit(void);

#endif

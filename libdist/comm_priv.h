/* SPDX-License-Identifier: MIT */
/* comm_priv.h - between libplenum and what carries its collectives (libplenum-mpi.so,
 * comm_local.c). */
#ifndef LIBDIST_COMM_PRIV_H
#define LIBDIST_COMM_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/comm.h>

/** Version of this table: a library of another build is refused. */
enum { COMM_BACKEND_VERSION = 5 };

struct comm_backend {
    uint32_t version;
    /** Wait for all instances, join the world and compare: -ENOTSUP when it is not this job's. */
    int (*open)(uint32_t instances, uint32_t index, uint64_t timeout_ns, struct plenum_error *err);
    /** Leave it; `broken`: a collective never came to its end, so nobody may wait for the others.
     */
    void (*close)(bool broken);
    /**
     * How every collective begins: give all instances the bytes of each, like allgather. Returns
     * -EIO, naming the instance, as soon as one has ended that has not come.
     *
     * @param what  the collective, for sentences
     * @param bytes  the same number in every call
     */
    int (*meet)(const char *what, const void *mine, size_t bytes, void *all, uint64_t timeout_ns,
                struct plenum_error *err);
    /** Moves data when all have met, and have called the same. There is no barrier. */
    struct plenum_carrier carrier;
};

/**
 * plenum_allgather() of small things of the library's own: all of them, [num_instances], which is
 * the caller's to free; NULL on an error, which `*code` and `err` tell. What a collective that came
 * to no end was given is kept for ever.
 *
 * @param name  the function that the program has called
 */
void *comm_gather(struct plenum_job *job, const char *name, const void *mine, size_t bytes,
                  int *code, struct plenum_error *err);

/** Between instances that plenumrun itself has started, on one host: where MEETING_VARIABLE is
 * set. */
extern const struct comm_backend comm_local;

/** The one symbol that libplenum-mpi.so exports. */
#define COMM_BACKEND_SYMBOL "plenum_mpi_backend"

#endif

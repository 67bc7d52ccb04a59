/* SPDX-License-Identifier: MIT */
/* comm.h - collectives: seeds, weights, sums and barriers across all instances of a job.
 *
 * Every instance of the job calls the same functions in the same order with the same sizes. Before
 * any data moves, the instances compare their calls. If the calls differ, all instances return
 * -EIO, no buffer has changed, and the next call is compared again.
 *
 * Collectives read and write the caller's memory directly, whatever its size. In a job of one
 * instance they return success at once. In a single-host job that plenumrun started, unless with
 * --starter mpirun, they use memory shared by the instances; PLENUM_COLLECTIVES in the environment
 * names the socket that hands it out. With plenumrun --collectives tcp, such memory is used on each
 * of several hosts, and TCP between them. Otherwise they use MPI through libplenum-mpi.so, which is
 * loaded at the first call. A program that uses MPI itself must initialise it before that (with
 * MPI_THREAD_SERIALIZED, or MPI_THREAD_FUNNELED and calls from its main thread), and finalises it
 * itself. Otherwise plenum initialises MPI at the first collective and finalises it when the
 * process exits.
 *
 * An instance that waits for the others sleeps, which leaves its cores to the loader. In shared
 * memory it first spins for at most 50 microseconds if each instance has its own core;
 * PLENUM_COLLECTIVES_WAIT in the environment ("spin", "yield" or "sleep") changes that.
 *
 * Errors of all collectives:
 *   -ENOTSUP          the job has several instances, but MPI is not available, MPI's world is not
 *                     this job (under torchrun every process is MPI's "rank 0 of 1": use
 *                     torch.distributed there, or start the job with plenumrun), or the program
 *                     initialised MPI with too low a thread level; or the memory that
 *                     PLENUM_COLLECTIVES names does not exist, belongs to another user or job, or
 *                     is used by another process of the instance; or this process has used
 *                     collectives as another instance, or with another number of instances;
 *   -ETIMEDOUT        some instances did not arrive within the time limit
 *                     (plenum_job_set_timeout()); the message names the missing ones;
 *   -ENOTRECOVERABLE  an earlier collective timed out or an instance ended: MPI may still write to
 *                     the buffers, so no further collective can be trusted. End the process;
 *   -EINVAL           invalid root, type or operation, or a size that no memory can have;
 *   -ECHILD           this process was forked from the one that opened the job;
 *   -EIO              another instance's program has ended or called a different collective (the
 *                     message names it), or MPI reported an error (the message quotes it);
 *   -ENOMEM.
 *
 * Threads: one collective at a time per process. Calls from several threads wait for each other and
 * must be made in the same order in every instance. They block: keep them off event loops. */
#ifndef PLENUM_COMM_H
#define PLENUM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>
#include <plenum/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Element types of plenum_allreduce() and plenum_reduce_scatter(). */
enum plenum_type {
    PLENUM_INT32,
    PLENUM_INT64,
    PLENUM_FLOAT32,
    PLENUM_FLOAT64,
    PLENUM_FLOAT16,  /**< Added as float32, and rounded once. */
    PLENUM_BFLOAT16, /**< Added as float32, and rounded once. */
};

enum plenum_op {
    PLENUM_SUM,  /**< Integers wrap modulo 2^32 or 2^64. */
    PLENUM_MIN,  /**< Floats: NaN if any value is NaN; -0 is less than +0. */
    PLENUM_MAX,  /**< Floats: NaN if any value is NaN; -0 is less than +0. */
    PLENUM_MEAN, /**< The sum divided by the number of instances; integers round towards zero. */
};

/**
 * Copy the buffer of instance `root` to every instance.
 *
 * @param buffer  [bytes]; read in `root`, written in the others. May have any size, even above
 *                2^31.
 */
PLENUM_API int plenum_broadcast(struct plenum_job *job, void *buffer, size_t bytes, uint32_t root,
                                struct plenum_error *err);

/**
 * Combine the buffers of all instances element by element. Every instance gets the result.
 *
 * The result has the same bits in every run with the same number of instances, whatever the number
 * of elements and hosts, and whether memory or MPI carries it: the order of the additions depends
 * only on the number of instances.
 *
 * @param buffer  [count] elements of `type`; read and written. On an error its content is
 *                undefined.
 */
PLENUM_API int plenum_allreduce(struct plenum_job *job, void *buffer, size_t count,
                                enum plenum_type type, enum plenum_op op, struct plenum_error *err);

/**
 * Combine the buffers of all instances element by element, like plenum_allreduce(). Each instance
 * gets its own part of the result.
 *
 * @param send  [num_instances][count] elements of `type`.
 * @param recv  [count] elements, written: those of this instance's part. It must not overlap
 *              `send`, but may be this instance's part of it.
 */
PLENUM_API int plenum_reduce_scatter(struct plenum_job *job, const void *send, void *recv,
                                     size_t count, enum plenum_type type, enum plenum_op op,
                                     struct plenum_error *err);

/**
 * Collect the bytes of all instances, ordered by instance index. Every instance gets the result.
 *
 * @param send  [bytes] from this instance.
 * @param recv  [num_instances][bytes], written. It must not overlap `send`, except that `send` may
 *              be this instance's part of it.
 */
PLENUM_API int plenum_allgather(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                                struct plenum_error *err);

/**
 * Send bytes from every instance to every instance.
 *
 * @param send  [num_instances][bytes]: for each instance, ordered by instance index.
 * @param recv  [num_instances][bytes], written: from each instance. Must not overlap `send`.
 */
PLENUM_API int plenum_alltoall(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                               struct plenum_error *err);

/** Wait until every instance has called this function. */
PLENUM_API int plenum_barrier(struct plenum_job *job, struct plenum_error *err);

/**
 * Describe the next collective that this thread calls. Instances whose descriptions differ get
 * -EIO, as if they had called different functions. This is for language bindings, which know more
 * about the data than its size.
 *
 * @param name  the function that the user called, at most 31 bytes
 * @param what  its data, such as "float32 (2, 3)", at most 55 bytes
 */
PLENUM_API void plenum_job_describe(struct plenum_job *job, const char *name, const char *what);

/**
 * Check that all instances have the same bytes, for example that weights have not drifted apart.
 * Compares hashes (XXH3-128), so it costs one read of the bytes, and 256 bytes of traffic per
 * instance.
 *
 * @param bytes  [size] in this instance. Sizes may differ between instances; that counts as a
 *               difference.
 *
 * Returns 0 if all instances have the same bytes. Returns -EBADMSG if they differ; the message
 * names the instances whose bytes differ from the majority's (or from instance 0's if there is no
 * majority). Otherwise returns an error that any collective can return.
 */
PLENUM_API int plenum_same(struct plenum_job *job, const void *bytes, size_t size,
                           struct plenum_error *err);

/**
 * Agree on one seed for the whole job: `*seed` of instance 0 or, if that is 0, a number from the
 * system's random source.
 *
 * @param seed  read in instance 0, written in every instance; never 0 afterwards.
 */
PLENUM_API int plenum_broadcast_seed(struct plenum_job *job, uint64_t *seed,
                                     struct plenum_error *err);

/**
 * Derive a replica's seed from the job's seed with Philox. Every replica gets its own seed, which
 * does not depend on the instance that runs it. Not a collective.
 */
PLENUM_API uint64_t plenum_replica_seed(uint64_t seed, uint32_t replica);

/**
 * Run a function in one instance of each host, for example to prepare data on a local disk. This is
 * a collective of the whole job: it returns once all hosts are done.
 *
 * @param prepare  called in the instance with local index 0 on each host. Returns 0, or a negative
 *                 errno and a message, which then become the result in every instance of the job.
 */
PLENUM_API int plenum_once_per_host(struct plenum_job *job,
                                    int (*prepare)(void *arg, struct plenum_error *err), void *arg,
                                    struct plenum_error *err);

/**
 * A carrier: functions that move the data of collectives without MPI, for example through
 * torch.distributed under torchrun. Plain data.
 *
 * Each function does what the plenum_*() function with its name does, for all instances, within
 * `timeout_ns` nanoseconds (0: no limit). It returns 0, or -ETIMEDOUT or -EIO with a message in
 * `err`, which is never NULL. Plenum calls one function at a time, in the thread that called the
 * collective, and never with 0 bytes or elements. Every collective begins with an allgather() of
 * 256 bytes, in which the instances compare their calls. A collective of at most 128 bytes needs no
 * other call. allreduce() is only called for integers. Floats are gathered, and Plenum adds them,
 * so that their sum does not depend on the carrier.
 */
struct plenum_carrier {
    void *arg; /**< Passed to each function. */
    int (*broadcast)(void *arg, void *buffer, size_t bytes, uint32_t root, uint64_t timeout_ns,
                     struct plenum_error *err);
    int (*allreduce)(void *arg, void *buffer, size_t count, enum plenum_type type,
                     enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err);
    int (*allgather)(void *arg, const void *send, size_t bytes, void *recv, uint64_t timeout_ns,
                     struct plenum_error *err);
    /** Never called, because comparing the calls is already a barrier. May be NULL. */
    int (*barrier)(void *arg, uint64_t timeout_ns, struct plenum_error *err);
};

/**
 * Use `carrier` instead of MPI for all further collectives of this process. Every instance must
 * call this before its first collective.
 *
 * @param carrier  copied; the memory that its `arg` points to must stay valid until the process
 *                 ends.
 *
 * Errors: -EBUSY a collective has already run without this carrier. Threads: any.
 */
PLENUM_API int plenum_job_set_carrier(struct plenum_job *job, const struct plenum_carrier *carrier,
                                      struct plenum_error *err);

/**
 * Set how long one collective may take before it returns -ETIMEDOUT, in nanoseconds. 0, the
 * default, means no limit.
 */
PLENUM_API void plenum_job_set_timeout(struct plenum_job *job, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif

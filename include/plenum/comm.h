/* SPDX-License-Identifier: MIT */
/* comm.h - what all instances of a job do together: seeds, weights, sums, waiting for each other.
 *
 * Collectives: every instance of the job calls the same functions in the same order, with the same
 * sizes. Before any data moves the instances compare what they call: if the calls differ, all of
 * them return -EIO, no buffer has changed, and the next call is compared again.
 *
 * They work in place on the caller's memory, of any size. In a job of one instance they succeed at
 * once. In a job that plenumrun has started without mpirun, all of it on one host, they go through
 * memory that the instances share; PLENUM_COLLECTIVES in the environment says at which socket it is
 * had. Otherwise they use MPI through libplenum-mpi.so, which is loaded at the first
 * call: a program that uses MPI itself initialises it before that (with MPI_THREAD_SERIALIZED, or
 * MPI_THREAD_FUNNELED and calls from its main thread) and finalises it itself; else plenum
 * initialises MPI at the first collective and finalises it when the process exits.
 *
 * Waiting sleeps: an instance that waits for the others leaves its cores to the loader.
 *
 * Errors of all of them:
 *   -ENOTSUP          the job has several instances but MPI is not there, its world is not the job
 *                     (under torchrun every process is MPI's "rank 0 of 1": use torch.distributed
 *                     there, or start the job with plenumrun), or the program initialised it with
 *                     too low a thread level; or the memory that PLENUM_COLLECTIVES names is not
 *                     there, is not this user's or this job's, or belongs to another process of the
 *                     instance;
 *   -ETIMEDOUT        the others did not come within the time limit (plenum_job_set_timeout());
 *                     the sentence names those that are missing;
 *   -ENOTRECOVERABLE  an earlier collective timed out, or an instance had ended: memory may still
 *                     be written to by MPI, and no further collective can be trusted. End the
 *                     process;
 *   -EINVAL           a root, type or operation that does not exist;
 *   -ECHILD           this process was forked from the one that opened the job;
 *   -EIO              the program of another instance has ended, or calls something else; the
 *                     sentence names it. Or MPI reported an error; the sentence holds its text;
 *   -ENOMEM.
 *
 * Threads: one collective at a time per process; calls from several threads wait for each other,
 * and must come in the same order everywhere. They block: keep them off event loops. */
#ifndef PLENUM_COMM_H
#define PLENUM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>
#include <plenum/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Types that can be added up. */
enum plenum_type {
    PLENUM_INT32,
    PLENUM_INT64,
    PLENUM_FLOAT32,
    PLENUM_FLOAT64,
};

enum plenum_op {
    PLENUM_SUM,  /**< Integers wrap modulo 2^32 or 2^64. */
    PLENUM_MIN,  /**< Floats: NaN if any is NaN; -0 is less than +0. */
    PLENUM_MAX,  /**< Floats: NaN if any is NaN; -0 is less than +0. */
    PLENUM_MEAN, /**< The sum divided by the number of instances; integers: towards zero. */
};

/**
 * Give every instance the bytes of instance `root`.
 *
 * @param buffer  [bytes]; read in `root`, written elsewhere. Any size, also above 2^31.
 */
PLENUM_API int plenum_broadcast(struct plenum_job *job, void *buffer, size_t bytes, uint32_t root,
                                struct plenum_error *err);

/**
 * Combine `buffer` of all instances, element by element; every instance has the result.
 *
 * @param buffer  [count] elements of `type`; read and written. On an error its content is
 *                undefined.
 */
PLENUM_API int plenum_allreduce(struct plenum_job *job, void *buffer, size_t count,
                                enum plenum_type type, enum plenum_op op, struct plenum_error *err);

/**
 * Give every instance the bytes of all instances, in the order of their indices.
 *
 * @param send  [bytes] of this instance.
 * @param recv  [num_instances][bytes], written. Must not overlap `send`.
 */
PLENUM_API int plenum_allgather(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                                struct plenum_error *err);

/** Return when every instance has called it. */
PLENUM_API int plenum_barrier(struct plenum_job *job, struct plenum_error *err);

/**
 * Describe the next collective that this thread calls. Instances whose descriptions differ get
 * -EIO, as if they had called different functions. For bindings that know more than bytes.
 *
 * @param name  the function that the user has called, at most 31 bytes
 * @param what  its data, such as "float32 (2, 3)", at most 55 bytes
 */
PLENUM_API void plenum_job_describe(struct plenum_job *job, const char *name, const char *what);

/**
 * Do all instances hold the same bytes? Compares hashes (XXH3-128), so it costs the reading of the
 * bytes and a few bytes of traffic: weights that have drifted apart are found, not suffered.
 *
 * @param bytes  [size] of this instance; sizes may differ, which is a difference.
 *
 * Returns 0 when they do, -EBADMSG when they do not: the sentence names the instances whose bytes
 * differ from the majority's (or, where there is none, from instance 0's); or an error of all
 * collectives.
 */
PLENUM_API int plenum_same(struct plenum_job *job, const void *bytes, size_t size,
                           struct plenum_error *err);

/**
 * One seed for the whole job: `*seed` of instance 0, or a number from the system's randomness where
 * that is 0.
 *
 * @param seed  read in instance 0, written everywhere; never 0 afterwards.
 */
PLENUM_API int plenum_broadcast_seed(struct plenum_job *job, uint64_t *seed,
                                     struct plenum_error *err);

/**
 * A seed for one replica, derived from the job's by Philox: different for each replica, the same
 * for a replica whichever instance it lives in. Not a collective.
 */
PLENUM_API uint64_t plenum_replica_seed(uint64_t seed, uint32_t replica);

/**
 * Have one instance of each host do something that the others of that host need done, such as
 * preparing data on a local disk. A collective of the whole job: it returns when all hosts are
 * ready.
 *
 * @param prepare  called in the instance with local index 0 of each host: 0, or a negative errno
 *                 with a sentence, which then is the result in every instance of the job.
 */
PLENUM_API int plenum_once_per_host(struct plenum_job *job,
                                    int (*prepare)(void *arg, struct plenum_error *err), void *arg,
                                    struct plenum_error *err);

/**
 * What carries collectives where MPI does not, such as torch.distributed under torchrun. Plain
 * data.
 *
 * Each function does what the plenum_*() function of its name does, for all instances, within
 * `timeout_ns` nanoseconds (0: no limit), and returns 0, -ETIMEDOUT or -EIO with a sentence in
 * `err`, which is not NULL. One is called at a time, in the thread that called the collective, and
 * never with 0 bytes or elements. Every collective begins with an allgather() of 256 bytes, in
 * which the instances compare what they call; one that moves at most 128 bytes is then over.
 */
struct plenum_carrier {
    void *arg; /**< Handed to each function. */
    int (*broadcast)(void *arg, void *buffer, size_t bytes, uint32_t root, uint64_t timeout_ns,
                     struct plenum_error *err);
    int (*allreduce)(void *arg, void *buffer, size_t count, enum plenum_type type,
                     enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err);
    int (*allgather)(void *arg, const void *send, size_t bytes, void *recv, uint64_t timeout_ns,
                     struct plenum_error *err);
    /** Not called: a barrier is over when the calls were compared. May be NULL. */
    int (*barrier)(void *arg, uint64_t timeout_ns, struct plenum_error *err);
};

/**
 * Have the collectives of this process carried by `carrier` from now on instead of MPI. Every
 * instance must do so, before its first collective.
 *
 * @param carrier  copied; what its `arg` points to must stay until the process ends.
 *
 * Errors: -EBUSY a collective has been carried by something else already. Threads: any.
 */
PLENUM_API int plenum_job_set_carrier(struct plenum_job *job, const struct plenum_carrier *carrier,
                                      struct plenum_error *err);

/**
 * How long one collective may take before it answers -ETIMEDOUT, in nanoseconds; 0, which is the
 * default, waits for ever.
 */
PLENUM_API void plenum_job_set_timeout(struct plenum_job *job, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* job.h - this process's rank and world size in the training job. */
#ifndef PLENUM_JOB_H
#define PLENUM_JOB_H

#include <stdint.h>

#include <plenum/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The job that this process belongs to. Opaque; one reference-counted object per process. */
struct plenum_job;

/** Where the process's rank comes from. */
enum plenum_launcher {
    PLENUM_LAUNCHER_NONE,   /**< No launcher: a job of one instance. */
    PLENUM_LAUNCHER_PLENUM, /**< plenumrun: PLENUM_* variables. */
    PLENUM_LAUNCHER_TORCH,  /**< torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE. */
    /** An MPI's mpirun: OMPI_COMM_WORLD_* (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Intel MPI and
     *  others), MV2_* and MVP_COMM_WORLD_* (MVAPICH). */
    PLENUM_LAUNCHER_MPI,
    PLENUM_LAUNCHER_SLURM,   /**< srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID. */
    PLENUM_LAUNCHER_PROGRAM, /**< The program itself, through plenum_job_open_as(). */
};

/**
 * One instance's (process's) position in its job. Plain data: may be copied and changed, for
 * example to act as another instance in a test.
 */
struct plenum_job_info {
    uint32_t num_instances;        /**< Processes in the job, at least 1. */
    uint32_t instance_index;       /**< This process's index: 0 ... num_instances - 1. */
    uint32_t num_local_instances;  /**< Processes of the job on this host. */
    uint32_t local_instance_index; /**< This process's index on this host. */
    uint32_t num_replicas;         /**< Copies of the model in the job, at least num_instances. */
    uint32_t num_local_replicas;   /**< Replicas in this instance, at least 1. */
    uint32_t replica_offset;      /**< Index of this instance's first replica; the others follow. */
    uint32_t devices_per_replica; /**< Accelerators that one replica uses; defaults to 1. */
    uint32_t restart_count;       /**< How many times plenumrun has restarted the job. */
    enum plenum_launcher launcher; /**< Where these numbers come from. */
    /** Identifies the job: the same in all its instances, and unique among the jobs on its hosts.
     *  Borrowed from the job. */
    const char *job_id;
    /** Loader addresses (PLENUM_LOADER), or NULL if there are none. Borrowed from the job. */
    const char *loader;
};

/**
 * Read this process's rank and world size from the environment.
 *
 * The first complete set of variables wins, in this order: plenumrun's, torchrun's, an MPI's,
 * Slurm's (in a step started by srun). Without any of these variables, the job has one instance. A
 * process that knows the job's size but not its own rank is rejected. So is a process whose
 * launchers disagree because one was started inside the other. Two cases are allowed: torchrun
 * inside plenumrun's only instance, and one torchrun in each process of another launcher, all in
 * the same torchrun job. Calling this function again returns the same object and adds a reference;
 * the environment is read once. A forked child has its own job.
 *
 * Programs that an instance starts inherit its variables. In a job of several instances,
 * plenum_stream_open() therefore fails with -EBUSY if a running process already uses this process's
 * rank. A process claims its rank when it opens its first stream, and keeps it until it ends.
 *
 * Ownership: call plenum_job_close() once for each successful call.
 * Errors:
 *   -EINVAL   variables contradict each other, are not numbers, or are incomplete; the message
 *             names the variable;
 *   -ENOMEM.
 * Threads: any.
 */
PLENUM_API int plenum_job_open(struct plenum_job **ret, struct plenum_error *err);

/**
 * Set this process's rank and world size, for programs that do not get them from the environment.
 * plenum_job_open() returns this job from then on.
 *
 * @param info  Copied. Its `launcher`, `job_id` and `loader` are ignored: the launcher becomes
 *              PLENUM_LAUNCHER_PROGRAM, and the other two are found as in plenum_job_open().
 *
 * Ownership: as in plenum_job_open().
 * Errors:
 *   -EINVAL   numbers contradict each other;
 *   -EBUSY    the job is already open with different numbers;
 *   -ENOMEM.
 * Threads: any.
 */
PLENUM_API int plenum_job_open_as(const struct plenum_job_info *info, struct plenum_job **ret,
                                  struct plenum_error *err);

/**
 * Release one reference to the job. NULL is ignored. The job can be opened again.
 *
 * If plenum's collectives initialised MPI, it is finalised when the process ends. A process that
 * exits with status 0 first waits up to 30 s for the other instances to exit, too. A process that
 * failed does not wait, so that its launcher notices the failure at once.
 *
 * Threads: any.
 */
PLENUM_API void plenum_job_close(struct plenum_job *job);

/** This process's position in the job. Borrowed: valid until the job's last close. Threads: any. */
PLENUM_API const struct plenum_job_info *plenum_job_get_info(const struct plenum_job *job);

/**
 * Find out whether the program should stop before this step, so that it can continue later. Call
 * this once per step, before the step begins:
 *
 *     for (uint64_t step = first; step < steps; step++) {
 *         if (plenum_job_should_stop(job, step, &err) != 0)
 *             break;
 *         ...
 *     }
 *     save a checkpoint, exit with status 0
 *
 * Under plenumrun, it returns 1 for the same step in all instances, after plenumrun has been asked
 * to stop the job: by SIGTERM or SIGUSR1, by its --stop-command, or by plenumctl job stop or grow.
 * The first call changes the effect of the two signals: until then, plenumrun passes them on to the
 * programs. All instances must therefore call this function, for the same steps in the same order,
 * but not after their last step. Steps may be skipped if all instances skip the same ones. When all
 * programs have ended with status 0, plenumrun exits with status 75, or, after plenumctl job grow,
 * starts them again.
 *
 * A process without plenumrun that is the only instance of its job stops at its next call after it
 * has received SIGTERM or SIGUSR1.
 *
 * The first call handles SIGUSR1 (without plenumrun, also SIGTERM) if the program has neither
 * handled nor ignored it. A handler that the program installs itself remains, and this function
 * then does not learn of that signal.
 *
 * Cost: a few nanoseconds, to write the step to memory shared with plenumrun's process on this
 * host, and to read a word from it. It waits only while the programs agree on a step to stop at,
 * and only before that step. The wait takes as long as a message to each host and back, and at most
 * plenumrun's --stop-timeout.
 *
 * @param step  0 ... 2^62 - 1. The step that is about to begin.
 *
 * Returns 1: stop; every later call returns 1, too. 0: continue.
 * Errors:
 *   -EINVAL   the step is above 2^62 - 1;
 *   -ENOTSUP  the job has several instances, and cannot agree on a step: plenumrun has not started
 *             it, or its memory cannot be reached from this process;
 *   -EBUSY    another running process of this instance calls this function;
 *   -ECHILD   this process has inherited the job from its parent: open it again.
 * Threads: any, but only one at a time.
 */
PLENUM_API int plenum_job_should_stop(struct plenum_job *job, uint64_t step,
                                      struct plenum_error *err);

#ifdef __cplusplus
}
#endif

#endif

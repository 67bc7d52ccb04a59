/* SPDX-License-Identifier: MIT */
/* job.h - who is this process in the training job? */
#ifndef PLENUM_JOB_H
#define PLENUM_JOB_H

#include <stdint.h>

#include <plenum/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The job that this process belongs to. Opaque; one object a process, counted. */
struct plenum_job;

/** What the process was told by. */
enum plenum_launcher {
    PLENUM_LAUNCHER_NONE,   /**< Nobody: a job of one instance. */
    PLENUM_LAUNCHER_PLENUM, /**< plenumrun: PLENUM_* variables. */
    PLENUM_LAUNCHER_TORCH,  /**< torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE. */
    /** mpirun of an MPI: OMPI_COMM_WORLD_* (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Intel MPI and
     *  others), MV2_* and MVP_COMM_WORLD_* (MVAPICH). */
    PLENUM_LAUNCHER_MPI,
    PLENUM_LAUNCHER_SLURM,   /**< srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID. */
    PLENUM_LAUNCHER_PROGRAM, /**< The program itself, by plenum_job_open_as(). */
};

/**
 * The place of one instance (process) in its job. Plain data: may be copied and altered, for
 * example to play another instance in a test.
 */
struct plenum_job_info {
    uint32_t num_instances;        /**< Processes of the job, at least 1. */
    uint32_t instance_index;       /**< Of this process: 0 ... num_instances - 1. */
    uint32_t num_local_instances;  /**< Processes of the job on this host. */
    uint32_t local_instance_index; /**< Of this process on this host. */
    uint32_t num_replicas;         /**< Copies of the model in the job, at least num_instances. */
    uint32_t num_local_replicas;   /**< Of them in this instance, at least 1. */
    uint32_t replica_offset;       /**< The first of them; they are consecutive. */
    uint32_t devices_per_replica;  /**< Accelerators that one replica uses; 1 unless told. */
    uint32_t restart_count;        /**< How often plenumrun has started the job again. */
    enum plenum_launcher launcher; /**< Who told. */
    /** The same text in all instances of the job, unique among the jobs of its hosts. Borrowed from
     *  the job. */
    const char *job_id;
    /** Addresses of loaders (PLENUM_LOADER), or NULL when none is named. Borrowed from the job. */
    const char *loader;
};

/**
 * Find out who this process is, from the environment.
 *
 * The first of these that is there counts: plenumrun's variables, torchrun's, an MPI's, Slurm's
 * (of a step started by srun); none of them makes a job of one instance. A process that is told of
 * others, but not which of them it is, is refused, and so is one where two launchers disagree: one
 * was started within the other. (torchrun's variables count within plenumrun's only instance, and
 * where each process of another launcher has started one torchrun of a job.) Calling it again gives
 * the same object and counts; the environment is read once. A forked child has a job of its own.
 *
 * Variables are inherited by programs that an instance starts. plenum_stream_open() therefore fails
 * with -EBUSY in a process that has the place of a running one among several. A process takes its
 * place when it opens its first stream, and keeps it until it ends.
 *
 * Ownership: close each successful open once, with plenum_job_close().
 * Errors:
 *   -EINVAL   variables contradict each other, are not numbers, or say only half: `err` names the
 *             variable;
 *   -ENOMEM.
 * Threads: any.
 */
PLENUM_API int plenum_job_open(struct plenum_job **ret, struct plenum_error *err);

/**
 * Say who this process is, for programs that learn it from something else than the environment.
 * From then on plenum_job_open() gives this job.
 *
 * @param info  Copied. Its `launcher`, `job_id` and `loader` are not looked at: the launcher
 *              becomes PLENUM_LAUNCHER_PROGRAM, the others are found as by plenum_job_open().
 *
 * Ownership: as of plenum_job_open().
 * Errors:
 *   -EINVAL   numbers contradict each other;
 *   -EBUSY    the job is open, and this process another in it;
 *   -ENOMEM.
 * Threads: any.
 */
PLENUM_API int plenum_job_open_as(const struct plenum_job_info *info, struct plenum_job **ret,
                                  struct plenum_error *err);

/**
 * Give the job up. NULL is nothing. It may be opened again.
 *
 * MPI, if plenum's collectives started it, ends with the process: one that exits with status 0
 * waits for the other instances to do the same, 30 s at most; one that has failed waits for nobody,
 * so that its launcher sees the failure at once.
 *
 * Threads: any.
 */
PLENUM_API void plenum_job_close(struct plenum_job *job);

/** The process's place. Borrowed: valid until the job's last close. Threads: any. */
PLENUM_API const struct plenum_job_info *plenum_job_get_info(const struct plenum_job *job);

#ifdef __cplusplus
}
#endif

#endif

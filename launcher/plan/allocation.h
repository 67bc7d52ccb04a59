/* SPDX-License-Identifier: MIT */
/* allocation.h - the hosts that a batch system has allocated to this job. */
#ifndef LAUNCHER_ALLOCATION_H
#define LAUNCHER_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"

/** The batch system's name and its hosts, from the environment. */
struct allocation {
    const char *name; /* "Slurm", "PBS", "SGE", "OAR", "Cobalt", "LSF"; NULL: none */
    struct hostlist hosts;
    uint32_t tasks; /* number of requested tasks, if less than all slots; otherwise 0 */
};

/**
 * Read SLURM_JOB_NODELIST (and SLURM_TASKS_PER_NODE, if tasks were requested), or PBS_NODEFILE,
 * PE_HOSTFILE, OAR_NODEFILE, COBALT_NODEFILE, or LSB_MCPU_HOSTS. Programs of the batch system are
 * not run, so Flux's hosts are unknown: a warning explains how to name them. Heterogeneous Slurm
 * jobs are refused.
 *
 * Errors: -EINVAL with a message that names the variable; -errno from reading a file.
 */
int allocation_read(struct allocation *ret, struct plenum_error *err);
/** Read the file of PBS, SGE, OAR or Cobalt again, which may have changed. Returns 0, or a negative
 * errno with a message; -ENODATA without a message if none of them has named a file. */
int allocation_read_again(struct allocation *ret, struct plenum_error *err);
void allocation_fini(struct allocation *allocation);

/** Append hosts in Slurm's format, "n[1-3],m". `tasks` gives their slots, "2(x3),1"; NULL: none. */
int allocation_add_slurm(struct hostlist *list, const char *nodes, const char *tasks,
                         struct plenum_error *err);
/** Append hosts in LSF's format: "a 4 b 2". */
int allocation_add_lsf(struct hostlist *list, const char *text, struct plenum_error *err);
/** Append the hosts of a file named by `variable`: one line per slot, as written by PBS, OAR and
 * Cobalt, or, if `counted`, "HOST SLOTS ...", as written by SGE. */
int allocation_add_file(struct hostlist *list, const char *variable, const char *path, bool counted,
                        struct plenum_error *err);

#endif

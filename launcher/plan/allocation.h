/* SPDX-License-Identifier: MIT */
/* allocation.h - the hosts that a batch system has given to this job. */
#ifndef LAUNCHER_ALLOCATION_H
#define LAUNCHER_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"

/** The batch system's name and its hosts, from the environment. */
struct allocation {
    const char *name; /* "Slurm", "PBS", "SGE", "OAR", "Cobalt", "LSF"; NULL: none */
    struct hostlist hosts;
    uint32_t tasks; /* that were asked for, where these are fewer than all slots; else 0 */
};

/**
 * Read SLURM_JOB_NODELIST (and SLURM_TASKS_PER_NODE, where tasks were asked for), or PBS_NODEFILE,
 * PE_HOSTFILE, OAR_NODEFILE, COBALT_NODEFILE, or LSB_MCPU_HOSTS. No program of the batch system is
 * run, so Flux's hosts are unknown: a warning says how to name them. Heterogeneous jobs of Slurm
 * are refused.
 *
 * Errors: -EINVAL with a sentence that names the variable; -errno of reading a file.
 */
int allocation_read(struct allocation *ret, struct plenum_error *err);
void allocation_fini(struct allocation *allocation);

/** Append hosts as Slurm writes them, "n[1-3],m", with "2(x3),1" tasks each (NULL: nobody said). */
int allocation_add_slurm(struct hostlist *list, const char *nodes, const char *tasks,
                         struct plenum_error *err);
/** Append hosts as LSF writes them: "a 4 b 2". */
int allocation_add_lsf(struct hostlist *list, const char *text, struct plenum_error *err);
/** Append the hosts of a file that `variable` names: one line a slot, as PBS, OAR and Cobalt write
 * it, or if `counted` "HOST SLOTS ..." as SGE does. */
int allocation_add_file(struct hostlist *list, const char *variable, const char *path, bool counted,
                        struct plenum_error *err);

#endif

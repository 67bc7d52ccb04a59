/* SPDX-License-Identifier: MIT */
/* environ.h - changes to an environment, for a process that is started on another host. */
#ifndef LAUNCHER_ENVIRON_H
#define LAUNCHER_ENVIRON_H

#include <stdbool.h>
#include <stddef.h>

/** Settings of Open MPI for a job on one host, whatever a scheduler's variables say. */
#define ENVIRON_ONE_HOST_PLM "isolated"
#define ENVIRON_ONE_HOST_RAS "^slurm,tm,pbs,lsf,gridengine,alps,flux"

enum environ_how {
    ENVIRON_SET,    /* set the variable, replacing any value */
    ENVIRON_SET_IF, /* set the variable only if it is not set */
    ENVIRON_UNSET,
    ENVIRON_HOWS
};

struct environ_entry {
    char *name, *value; /* owned by the list */
    enum environ_how how;
};

/** Changes to an environment, at most one per name. Empty if zero-initialised. */
struct environ_list {
    struct environ_entry *entries;
    size_t count, cap;
};

void environ_list_fini(struct environ_list *list);
/** Add a change, replacing an earlier one of that name. Returns 0 or -ENOMEM. */
int environ_list_put(struct environ_list *list, enum environ_how how, const char *name,
                     const char *value);

bool environ_list_has(const struct environ_list *list, const char *name);

/** Returns a changed copy of `environment`, an array for execve(2). The caller frees it
 * (environ_free()). NULL if out of memory. */
char **environ_apply(char *const *environment, const struct environ_list *list);
void environ_free(char **environment);
/** Apply the changes to our own environment. Returns 0 or -ENOMEM. */
int environ_adopt(const struct environ_list *list);

/** If mpirun or an MPI program started us, remove the variables that it set for us, and those that
 * another plenumrun set for that mpirun. Otherwise our own mpirun would refuse to start, and
 * instances would consider themselves processes of the outer job. */
void environ_leave_outer(void);

#endif

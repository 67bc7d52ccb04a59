/* mpirun.h - Open MPI's mpirun, which starts the shims: its command line, its settings, its end. */
#ifndef LAUNCHER_MPIRUN_H
#define LAUNCHER_MPIRUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/cmdline.h"
#include "launcher/plan.h"

/** What a shim reads from its environment. */
#define MPIRUN_ENV_CONTROL "PLENUM_SHIM_CONTROL" /* addresses, for dial_connect() */
#define MPIRUN_ENV_TOKEN "PLENUM_SHIM_TOKEN"
#define MPIRUN_ENV_JOB "PLENUM_SHIM_JOB"
#define MPIRUN_ENV_LOADER "PLENUM_SHIM_LOADER" /* "1": the host's first shim keeps a loader */
#define MPIRUN_ENV_GRACE "PLENUM_SHIM_GRACE"   /* milliseconds */
#define MPIRUN_ENV_IGNORED "PLENUM_SHIM_IGNORED" /* signals_get_ignored() of plenumrun */

/* Only here, where limits are inherited; "0" where it is not known. */
#define MPIRUN_ENV_DESCRIPTORS "PLENUM_SHIM_DESCRIPTORS" /* soft limit, before plenumrun raised its own */

/** The argument by which plenumrun knows that it is a shim. */
#define MPIRUN_SHIM_ARGUMENT "--shim"

/** Which mpirun is there? Open MPI 4 has daemons of its own; from 5 on they are PRRTE's. */
struct mpirun_program {
    char path[4096];
    unsigned major; /* of Open MPI's version, 4 at least */
};

struct mpirun_job {
    const struct mpirun_program *program;
    const char *id, *token, *control;
    bool keep_loader;
    /* Networks, "10.1.0.0/16", or interfaces for Open MPI's own messages and for those of programs;
     * NULL: it may choose. Interfaces that it must not choose, "docker0,virbr0"; NULL: none. */
    const char *daemon_include, *program_include, *excluded;
    uint64_t ignored;     /* signals (signals.h), by programs */
    uint64_t descriptors; /* the soft limit of programs here; 0: as it is */
};

/** A running mpirun. */
struct mpirun {
    pid_t guard;   /* our child, whose child is mpirun; 0: none */
    pid_t pid;     /* mpirun's; 0: not known yet */
    bool orphaned; /* the guard was killed, and could not clean up behind it */
    int status_fd; /* read by mpirun_read_status(); owned; -1: no more */
    int text_fd;   /* what mpirun and shims without a connection print; owned */
};

enum { MPIRUN_FILES_MAX = 16 };

/** Words of a command line or an environment, ended by NULL. */
struct mpirun_words {
    char **words;
    size_t count, cap;
    bool failed; /* memory was short */
    int files[MPIRUN_FILES_MAX]; /* that they name, with their place here; owned */
    size_t num_files;
};

void mpirun_words_fini(struct mpirun_words *words);

/** Look for it in PATH and ask it. 0, or a negative errno with a sentence: there is none, or it is another
 * MPI's. */
int mpirun_find(struct mpirun_program *ret, struct plenum_error *err);

/** mpirun's command line, to start `self` as the shim of each instance. */
int mpirun_arguments(const struct plan *plan, const struct cmdline *options, const char *self,
                     struct mpirun_words *ret);

/** Do these instances take several applications of mpirun's, as some have arguments of their own? */
bool mpirun_has_several(const struct plan *plan, const struct cmdline *options);

/** mpirun's environment: ours, with Open MPI settings that nobody has set otherwise. */
int mpirun_environment(const struct plan *plan, const struct cmdline *options,
                       const struct mpirun_job *job, char *const *environment,
                       struct mpirun_words *ret);

/** Start it. */
int mpirun_start(const struct plan *plan, const struct cmdline *options,
                 const struct mpirun_job *job, struct mpirun *ret, struct plenum_error *err);

/** Ask it to end: SIGTERM, again, SIGKILL, and then the rest of its family; mpirun_reap() tells
 * when. */
void mpirun_end(const struct mpirun *mpirun);

/** When status_fd is readable: 1 when mpirun has ended, with its wait status; else 0. */
int mpirun_read_status(struct mpirun *mpirun, int *ret_status);

/** Continue it, and its guard, in case that somebody has stopped them. */
void mpirun_wake(const struct mpirun *mpirun);

/** Has all of it ended? Never blocks. */
bool mpirun_reap(struct mpirun *mpirun);

/** Kill the guard, when it does not end. */
void mpirun_abandon(struct mpirun *mpirun);

/** Also does what a guard that was killed could not do. */
void mpirun_fini(struct mpirun *mpirun);

#endif

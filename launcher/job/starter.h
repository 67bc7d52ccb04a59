/* SPDX-License-Identifier: MIT */
/* starter.h - starts the shims: with Open MPI's mpirun, or with plenumrun itself if all instances
 * are on this host and there is no mpirun or --starter says so. */
#ifndef LAUNCHER_STARTER_H
#define LAUNCHER_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/job_settings.h"
#include "launcher/remote/agent.h"

struct mpirun_program;

/** What a starter needs to know. Borrowed. */
struct starter_job {
    const struct mpirun_program *mpirun; /* NULL: plenumrun itself starts the shims, on this host */
    const struct mpi_settings *mpi;
    const struct agent_settings *agent;
    const char *id, *token, *control;
    bool keep_loader;
    uint32_t status_port; /* the status page's port, 0: any; SETTINGS_NO_PORT: no page */
    uint64_t grace_ns;
    /* Networks ("10.1.0.0/16") or interfaces for the messages of Open MPI's daemons, and for those
     * of programs; NULL: Open MPI chooses. `excluded`: interfaces that it must not choose
     * ("docker0,virbr0"), or NULL. */
    const char *daemon_include, *program_include, *excluded;
    /* Ports on which Open MPI may listen; `control` uses one of them. */
    const struct ports *ports;
    const struct ports *place_ports; /* ports for the programs' collectives; NULL: none needed */
    uint64_t ignored;                /* signals (signals.h) that programs ignore */
    uint64_t descriptors;            /* the soft limit of programs here; 0: unchanged */
};

/** A running starter. */
struct starter {
    pid_t guard;   /* our child, and the starter's parent; 0: none */
    pid_t pid;     /* the starter's process id; 0: not known yet */
    bool orphaned; /* the guard was killed and could not clean up */
    int status_fd; /* read by starter_read_status(); owned; -1: finished */
    int gate;      /* limits the logins (agent.h), open while they are made; owned; -1: none */
    int text_fd;   /* output of the starter, and of shims without a connection; owned */
};

enum { STARTER_FILES_MAX = 16, STARTER_FILES_FD = 5 };

/** Words of a command line or an environment, terminated by NULL. */
struct starter_words {
    char **words;
    size_t count, cap;
    bool failed; /* out of memory */
    /* Files that the words refer to: file i is descriptor STARTER_FILES_FD + i in the starter.
     * Owned. */
    int files[STARTER_FILES_MAX];
    size_t num_files;
};

void starter_words_fini(struct starter_words *words);
/** Add `word`, which is owned from now on; NULL means that allocating it failed. */
void starter_words_take(struct starter_words *words, char *word);
void starter_words_add(struct starter_words *words, const char *word);
/** Move the words to `ret`. Returns 0, or -ENOMEM with everything freed. */
int starter_words_finish(struct starter_words *words, struct starter_words *ret);
/** Add what shims read from their environment. */
void starter_add_shim(struct starter_words *words, const struct starter_job *job);

/** Start the starter under its guard. Returns 0 or -errno with a message. */
int starter_start(const struct plan *plan, const struct starter_job *job, struct starter *ret,
                  struct plenum_error *err);

/** End the starter: SIGTERM, SIGTERM again, SIGKILL, and then the rest of its process tree.
 * starter_reap() reports when it has ended. */
void starter_end(const struct starter *starter);

/** Call when status_fd is readable. Returns 1 if the starter has ended, with its wait status;
 * otherwise 0. */
int starter_read_status(struct starter *starter, int *ret_status);

/** Continue the starter and its guard, in case they were stopped. */
void starter_wake(const struct starter *starter);

/** Reap the guard. Returns whether it has ended. Unless it was killed, all processes of the starter
 * have then ended, too. Never blocks. */
bool starter_reap(struct starter *starter);

/** Kill a guard that does not end. */
void starter_abandon(struct starter *starter);

/** Free the starter. Also cleans up for a guard that was killed. */
void starter_fini(struct starter *starter);

#endif

/* SPDX-License-Identifier: MIT */
/* starter.h - what starts the shims: Open MPI's mpirun or, where there is none and all instances
 * are on this host, plenumrun itself. */
#ifndef LAUNCHER_STARTER_H
#define LAUNCHER_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/plan/plan.h"
#include "launcher/plan/settings.h"
#include "launcher/remote/agent.h"

struct mpirun_program;

/** Borrowed. */
struct starter_job {
    const struct mpirun_program *mpirun; /* NULL: plenumrun starts them itself, on this host */
    const struct mpi_settings *mpi;
    const struct agent_settings *agent;
    const char *id, *token, *control;
    bool keep_loader;
    uint32_t status_port; /* of its status page, 0: any; SETTINGS_NO_PORT: it has none */
    uint64_t grace_ns;
    /* Networks, "10.1.0.0/16", or interfaces for Open MPI's own messages and for those of programs;
     * NULL: it may choose. Interfaces that it must not choose, "docker0,virbr0"; NULL: none. */
    const char *daemon_include, *program_include, *excluded;
    const struct ports *ports; /* on which Open MPI may listen; `control` has one of them */
    uint64_t ignored;          /* signals (signals.h), by programs */
    uint64_t descriptors;      /* the soft limit of programs here; 0: as it is */
};

/** A running one. */
struct starter {
    pid_t guard;   /* our child, whose child it is; 0: none */
    pid_t pid;     /* its own; 0: not known yet */
    bool orphaned; /* the guard was killed, and could not clean up behind it */
    int status_fd; /* read by starter_read_status(); owned; -1: no more */
    int text_fd;   /* what it and shims without a connection print; owned */
};

enum { STARTER_FILES_MAX = 16, STARTER_FILES_FD = 5 };

/** Words of a command line or an environment, ended by NULL. */
struct starter_words {
    char **words;
    size_t count, cap;
    bool failed; /* memory was short */
    /* Files that the words name: file i is descriptor STARTER_FILES_FD + i there. Owned. */
    int files[STARTER_FILES_MAX];
    size_t num_files;
};

void starter_words_fini(struct starter_words *words);
/** Take `word`; NULL means that memory was short when it was made. */
void starter_words_take(struct starter_words *words, char *word);
void starter_words_add(struct starter_words *words, const char *word);
/** 0, or -ENOMEM with nothing left. */
int starter_words_finish(struct starter_words *words, struct starter_words *ret);
/** What shims read from their environment. */
void starter_add_shim(struct starter_words *words, const struct starter_job *job);

/** Start it. */
int starter_start(const struct plan *plan, const struct starter_job *job, struct starter *ret,
                  struct plenum_error *err);

/** Ask it to end: SIGTERM, again, SIGKILL, and then the rest of its process tree;
 * starter_reap() tells when. */
void starter_end(const struct starter *starter);

/** When status_fd is readable: 1 when it has ended, with its wait status; else 0. */
int starter_read_status(struct starter *starter, int *ret_status);

/** Continue it, and its guard, in case that somebody has stopped them. */
void starter_wake(const struct starter *starter);

/** Has all of it ended? Never blocks. */
bool starter_reap(struct starter *starter);

/** Kill the guard, when it does not end. */
void starter_abandon(struct starter *starter);

/** Also does what a guard that was killed could not do. */
void starter_fini(struct starter *starter);

#endif

/* SPDX-License-Identifier: MIT */
/* supervise.h - runs a planned job and watches over it to its end. */
#ifndef LAUNCHER_SUPERVISE_H
#define LAUNCHER_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/job/mpirun.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/settings.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/ready.h"

enum { SUPERVISE_REASON_MAX = 240 };

/** Borrowed. */
struct supervise_job {
    /* What the person asks for. */
    char *const *program; /* with its arguments, ended by NULL */
    const struct limits *limits;
    const struct output_settings *output;
    const struct mpi_settings *mpi;
    const struct agent_settings *agent;
    const struct texts *exports; /* NAME, NAME=value or PREFIX* */
    const char *verify;          /* a percentage of batches; NULL: what the environment says */
    bool strict_binding;

    struct plan *plan; /* hosts that are not known yet become known */
    const struct ready *ready;
    const struct ports *ports; /* on which the job listens to other hosts */
    /* NULL: plenumrun starts all of them itself, on this host */
    const struct mpirun_program *mpirun;
    const char *directory; /* where the programs run */
    const char *loader;    /* "auto", "none" or addresses */
    uint32_t status_port;  /* of its status page; SETTINGS_NO_PORT: it has none */
    const char *id;        /* a name of the job, the same for all its restarts */
    uint32_t restart_count;
    uint32_t attempts;    /* so far, also of a starter that could not start it */
    uint64_t begun_ns;    /* when the person began to wait */
    uint64_t attempt_ns;  /* the same for this start of the job */
    uint64_t descriptors; /* the soft limit with which plenumrun was started; 0: not known */
    mode_t umask;         /* with which plenumrun was started */
    bool may_replace;     /* may plenumrun's own starter take mpirun's place? */
    char *why_not;        /* [SUPERVISE_REASON_MAX]: set where it must, nothing having started */
    bool *again;          /* set: an end from which a job may be started again */
    bool *ran;            /* set: did its programs start? */
};

/**
 * Start the job, wait for its end, tell what went wrong: plenumrun's exit status.
 *
 * Threads: starts one (output.c). Blocks the signals that it takes by descriptor.
 */
int supervise_run(const struct supervise_job *job);

/** Can --result be written? A file of an earlier job is removed: it would be taken for this one's,
 * should the job not come to its end. 0, or -errno with a sentence. */
int result_prepare(const char *path, struct plenum_error *err);

/** Write --result for a job that was not started, whose exit status this is, with a sentence. */
void supervise_not_started(const struct supervise_job *job, int status, const char *why);

#endif

/* SPDX-License-Identifier: MIT */
/* supervise.h - runs a planned job and supervises it to its end. */
#ifndef LAUNCHER_SUPERVISE_H
#define LAUNCHER_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control/control.h"
#include "launcher/job/mpirun.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/job_settings.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/ready.h"

struct elastic;
struct job_socket;
struct stop_command;

enum { SUPERVISE_REASON_MAX = 240 };

/** Borrowed. */
struct supervise_job {
    /* From the user's command line. */
    char *const *program; /* program and arguments, terminated by NULL */
    const struct limits *limits;
    const struct stop_settings *stop;
    const struct output_settings *output;
    const struct mpi_settings *mpi;
    const struct agent_settings *agent;
    const struct texts *exports; /* NAME, NAME=value or PREFIX* */
    const char *verify;          /* percentage of batches; NULL: use the environment's */
    bool strict_binding;
    bool elastic;                        /* a restart may use other hosts */
    struct elastic *hosts;               /* of an elastic job */
    const struct ready_request *request; /* what the job needs of its hosts */

    struct plan *plan; /* unknown hosts are filled in, and lost ones marked */
    const struct ready *ready;
    const struct ports *ports; /* ports on which the job listens to other hosts */
    /* NULL: plenumrun itself starts all instances, on this host */
    const struct mpirun_program *mpirun;
    const char *directory; /* the programs' working directory */
    const char *loader;    /* "auto", "none" or addresses */
    uint32_t status_port;  /* the status page's port; SETTINGS_NO_PORT: no page */
    const char *id;        /* name of the job, the same for all its restarts */
    uint32_t restart_count;
    uint32_t attempts;         /* number so far, including failed attempts to start it */
    uint64_t begun_ns;         /* when the user began to wait */
    uint64_t attempt_ns;       /* when this attempt began */
    uint64_t descriptors;      /* the soft limit that plenumrun was started with; 0: not known */
    mode_t umask;              /* the umask that plenumrun was started with */
    struct job_socket *socket; /* for plenumctl job, with its clients; NULL: none */
    struct stop_command *stop_command; /* in the same way; NULL: none */
    bool may_replace;                  /* may plenumrun's own starter replace mpirun? */
    bool through_mpi; /* the user has chosen mpirun: collectives use MPI on any host */
};

struct supervise_result {
    bool again;                 /* the job may be restarted */
    bool grows;                 /* it has stopped only to continue on more hosts */
    bool ran;                   /* its programs started */
    bool asked;                 /* one of them has called plenum_job_should_stop() */
    uint64_t step;              /* 1 + the step that it has reached; 0: none is known */
    char why[CONTROL_TEXT_MAX]; /* what ended it; "": nothing is known about that */
    /* Not empty: mpirun ended before anything had started, for this reason, and plenumrun's own
     * starter may replace it. */
    char why_not[SUPERVISE_REASON_MAX];
};

/**
 * Start the job, wait for its end, report what went wrong. Returns plenumrun's exit status, and
 * sets `ret`, which is zero-initialised.
 *
 * Threads: starts those of output.c and input.c. Blocks the signals that it reads from a
 * descriptor.
 */
int supervise_run(const struct supervise_job *job, struct supervise_result *ret);

/** Check that --result can be written. Removes an earlier job's file, which would otherwise be
 * taken for this one's if this job does not finish. Returns 0, or -errno with an error. */
int result_prepare(const char *path, struct plenum_error *err);

/** Write --result for a job that did not start, with its exit status and the reason. */
void supervise_not_started(const struct supervise_job *job, int status, const char *why);

#endif

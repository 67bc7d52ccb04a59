/* supervise.h - runs a planned job and watches over it to its end. */
#ifndef LAUNCHER_SUPERVISE_H
#define LAUNCHER_SUPERVISE_H

#include "launcher/cmdline.h"
#include "launcher/plan.h"

struct supervise_job {
    const struct cmdline *options;
    struct plan *plan;     /* hosts that are not known yet become known */
    const char *directory; /* where the programs run */
    const char *loader;    /* "auto", "none" or addresses */
};

/**
 * Start the job, wait for its end, tell what went wrong: plenumrun's exit status.
 *
 * Threads: starts one (output.c). Blocks the signals that it takes by descriptor.
 */
int supervise_run(const struct supervise_job *job);

#endif

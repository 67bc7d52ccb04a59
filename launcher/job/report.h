/* SPDX-License-Identifier: MIT */
/* report.h - why did the job end, in an exit status and in sentences? */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <plenum/error.h>

#include "launcher/control.h"
#include "launcher/plan/plan.h"

/** What ended the job: the first thing that went wrong, never a consequence of it. */
enum report_kind {
    REPORT_SUCCESS,
    REPORT_EXITED, /* an instance, with a status that is not 0 */
    REPORT_FAILED, /* an instance's program did not start */
    REPORT_LOST,   /* an instance's shim is gone or silent */
    REPORT_MPIRUN, /* mpirun has ended, or wanted to */
    REPORT_LATE,   /* not all have started in time */
    REPORT_TIMED_OUT,
    REPORT_CLOSED, /* nobody reads our output: `text` is which */
    REPORT_OTHER,  /* `text` says it */
};

struct report {
    enum report_kind kind;
    uint32_t instance;            /* EXITED, FAILED, LOST */
    struct control_exited exited; /* EXITED */
    struct control_failed failed; /* FAILED */
    bool explained;               /* MPIRUN: `text` is the cause; no host need be asked */
    bool by_traceback;            /* EXITED: it failed first, though `ended` was the first to end */
    uint32_t ended;               /* whose is `exited` then */
    int signal;                   /* by which somebody ended the job before that; 0: nobody */
    uint64_t limit_ns;            /* LATE, TIMED_OUT */
    char text[CONTROL_TEXT_MAX];  /* OTHER, LOST, MPIRUN, LATE: the sentence; TIMED_OUT: more */
};

int report_exit_status(const struct report *report);

/**
 * The last line: what was the cause. "" when there is nothing to say.
 *
 * @param program  as the person wrote it
 */
void report_sentence(const struct report *report, const struct plan *plan, const char *program,
                     const char *directory, char *ret, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* report.h - explains why the job ended, by an exit status and by messages. */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <plenum/error.h>

#include "launcher/control/control.h"
#include "launcher/plan/plan.h"

/** What ended the job: the first failure, never a consequence of it. */
enum report_kind {
    REPORT_SUCCESS,
    REPORT_EXITED, /* an instance's program ended with a status other than 0, or by a signal */
    REPORT_FAILED, /* an instance's program did not start */
    REPORT_LOST,   /* an instance's shim has disappeared or is silent */
    REPORT_MPIRUN, /* the starter (mpirun or our own) exited, was killed, or ended the job */
    REPORT_LATE,   /* not all have started in time */
    REPORT_TIMED_OUT,
    REPORT_HUNG,      /* an instance has made no progress; `text` says for how long */
    REPORT_UNSTOPPED, /* programs did not stop at the same step in time */
    REPORT_CLOSED,    /* our output has no reader: `text` names the stream */
    REPORT_OTHER,     /* described by `text` */
};

struct report {
    enum report_kind kind;
    uint32_t instance;            /* EXITED, FAILED, LOST, HUNG */
    struct control_exited exited; /* EXITED */
    struct control_failed failed; /* FAILED */
    bool explained;               /* MPIRUN: `text` is the cause; no host needs to be queried */
    bool by_traceback;            /* EXITED: `instance` failed first, though `ended` ended first */
    uint32_t ended;               /* if by_traceback: the instance that `exited` describes */
    int signal;                   /* signal with which the user ended the job before; 0: none */
    uint64_t limit_ns;            /* LATE, TIMED_OUT, UNSTOPPED */
    /* OTHER, LOST, HUNG, MPIRUN, LATE, UNSTOPPED: the message; TIMED_OUT: details; CLOSED: the
     * stream */
    char text[CONTROL_TEXT_MAX];
};

int report_exit_status(const struct report *report);

/**
 * Write the last line, which names the cause; "" if there is nothing to report.
 *
 * @param program  the program as the user wrote it
 */
void report_sentence(const struct report *report, const struct plan *plan, const char *program,
                     const char *directory, char *ret, size_t size);

#endif

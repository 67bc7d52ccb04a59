/* SPDX-License-Identifier: MIT */
/* exit_status.h - plenumrun's exit statuses. */
#ifndef LAUNCHER_EXIT_STATUS_H
#define LAUNCHER_EXIT_STATUS_H

#include "common/job/waitstatus.h" /* provides status_describe() */

/** Exit statuses that are plenumrun's own. The manual page lists them. */
enum {
    STATUS_USAGE = 2,
    STATUS_STOPPED = 75, /* EX_TEMPFAIL: the programs stopped as requested, and can continue */
    STATUS_STUCK = 93,   /* several starts made no progress */
    STATUS_HOSTS = 96,   /* too few hosts are ready */
    STATUS_OUTPUT = 123, /* the job succeeded, but some output could not be written */
    STATUS_TIMEOUT = 124,
    STATUS_LAUNCH = 125, /* could not start, or lost a part of its machinery */
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128, /* plus the number of the signal */
};

#endif

/* SPDX-License-Identifier: MIT */
/* child.h - starts the user's program, and owns its pipes. */
#ifndef LAUNCHER_CHILD_H
#define LAUNCHER_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control/control.h"
#include "launcher/shim/bind.h"

struct child_options {
    char *const *argv, *const *environment;
    const char *directory;
    const struct bind_request *bind;
    bool strict;          /* a binding failure is a failure to start */
    bool input;           /* standard input is a pipe; otherwise /dev/null */
    uint64_t ignored;     /* signals that the program ignores (signals.h) */
    int inherit;          /* a descriptor that the program inherits from us; 0: none */
    uint64_t descriptors; /* the program's soft limit on descriptors; 0: unchanged */
    mode_t umask;
};

/** The child's report about its start. */
struct child_report {
    struct control_failed failed; /* valid if its `error` is not 0 */
    struct bind_result bind;
};

struct child {
    pid_t pid;     /* the program's process and process group */
    int input;     /* the program's standard input: a pipe (non-blocking, owned); -1: closed */
    int output[2]; /* the program's standard output and standard error, also pipes */
    int report_fd; /* -1 when the report is complete */
    struct child_report report;
    bool reported;              /* has anything been written to `report`? */
    struct child_report coming; /* the next report, as much of it as has arrived */
    size_t coming_len;
};

/** Start the program. Returns 0, or -errno with nothing started. */
int child_start(const struct child_options *options, struct child *ret);

/**
 * Read what has arrived on report_fd. Returns 1 if child->report is complete (the program is
 * running, or has failed to start), 0 if more will follow, -ESRCH if the child died without a
 * report, or the -errno from reading it.
 */
int child_read_report(struct child *child);

/** Send a signal to the program's process group. */
void child_signal(const struct child *child, int signal);

void child_close(struct child *child);

#endif

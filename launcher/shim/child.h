/* SPDX-License-Identifier: MIT */
/* child.h - the user's program: its start and its pipes. */
#ifndef LAUNCHER_CHILD_H
#define LAUNCHER_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control.h"
#include "launcher/shim/bind.h"

struct child_options {
    char *const *argv, *const *environment;
    const char *directory;
    const struct bind_request *bind;
    bool strict;          /* a binding that fails is a failure */
    bool input;           /* a pipe to its standard input, else /dev/null */
    uint64_t ignored;     /* signals (signals.h) */
    int inherit;          /* this descriptor of ours; 0: none */
    uint64_t descriptors; /* its soft limit; 0: as it is */
    mode_t umask;
};

/** What the child tells of its start. */
struct child_report {
    enum control_step step; /* that failed, when `error` is not 0 */
    int error;              /* -errno */
    struct bind_result bind;
};

struct child {
    pid_t pid;     /* also its process group */
    int input;     /* pipes, non-blocking; owned; -1 when closed */
    int output[2]; /* its standard output and standard error */
    int report_fd; /* -1 when the report is complete */
    struct child_report report;
    bool reported;              /* is there something in `report`? */
    struct child_report coming; /* the next one, as far as it is here */
    size_t coming_len;
};

/** Fork. 0, or -errno with nothing started. */
int child_start(const struct child_options *options, struct child *ret);

/**
 * Read what has come in on report_fd: 1 when child->report is complete (the program runs, or has
 * failed to start), 0 when more will come, -ESRCH when the child died without a word, or the -errno
 * with which it could not be read.
 */
int child_read_report(struct child *child);

/** A signal to the program's process group. */
void child_signal(const struct child *child, int signal);

void child_close(struct child *child);

#endif

/* SPDX-License-Identifier: MIT */
/* guard.h - waits for one process and sees to it that its whole tree ends with it. */
#ifndef LAUNCHER_GUARD_H
#define LAUNCHER_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** A signal to the child, so long after it was to end. */
struct guard_step {
    uint64_t after_ns;
    int signal;
};

struct guard_options {
    pid_t child;  /* the child that is guarded */
    pid_t parent; /* of the guard */
    /* What is done to end the child: when the guard is told to (SIGTERM), when its parent is gone.
     * Ended by a signal of 0. */
    const struct guard_step *told, *orphaned;
    /* How long descendants of the child may go on after it ended by itself, to end in order. */
    uint64_t linger_ns;
    bool hand_on;  /* SIGUSR1 and SIGUSR2, to the child: they are meant for the program */
    int status_fd; /* the child's wait status is written here when it ends; -1: nowhere */
};

/** The signal by which guards and shims ask to be told of their parent's end. */
#define GUARD_PARENT_SIGNAL SIGRTMIN

/** By which the child tells its guard to leave, with status 0, while the child stays. Ignored from
 * others. */
#define GUARD_LEAVE_SIGNAL (SIGRTMIN + 2)

/** Block the signals that guard_run() waits for; to be called before the child is forked. A guard
 * itself ignores the others (signals.h). */
void guard_block_signals(sigset_t *before);

/**
 * Wait until the child and all of its descendants have ended, ending them where needed.
 *
 * Returns the child's wait status; 0 after GUARD_LEAVE_SIGNAL. Never waits for ever: descendants
 * that even SIGKILL does not end within some seconds are left behind.
 */
int guard_run(const struct guard_options *options);

#endif

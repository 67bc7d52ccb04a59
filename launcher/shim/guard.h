/* SPDX-License-Identifier: MIT */
/* guard.h - waits for one process and ensures that its whole tree ends with it. */
#ifndef LAUNCHER_GUARD_H
#define LAUNCHER_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** A signal to the child, and when to send it after the request to end. */
struct guard_step {
    uint64_t after_ns;
    int signal;
};

struct guard_options {
    pid_t child;  /* the child that is guarded */
    pid_t parent; /* the guard's parent */
    /* Steps that end the child, terminated by a signal of 0. */
    const struct guard_step *told;     /* when the guard receives SIGTERM, SIGINT or SIGHUP */
    const struct guard_step *orphaned; /* when the guard's parent is gone */
    uint64_t linger_ns; /* how long descendants may continue after the child has ended by itself */
    bool hand_on;  /* forward SIGUSR1 and SIGUSR2, which are meant for the program, to the child */
    int status_fd; /* receives the child's wait status when it ends; -1: none */
};

/** The signal that guards and shims ask the kernel to send when their parent ends. */
#define GUARD_PARENT_SIGNAL SIGRTMIN

/** The child sends this to make its guard leave with status 0 while the child stays. Ignored from
 * other senders. */
#define GUARD_LEAVE_SIGNAL (SIGRTMIN + 2)

/** Block the signals that guard_run() waits for. Call this before forking the child. A guard
 * ignores the other signals (signals.h). */
void guard_block_signals(sigset_t *before);

/**
 * Wait until the child and all of its descendants have ended, ending them where necessary.
 *
 * Returns the child's wait status; 0 after GUARD_LEAVE_SIGNAL. Never waits for ever: descendants
 * that survive even SIGKILL for several seconds are left behind.
 */
int guard_run(const struct guard_options *options);

#endif

/* SPDX-License-Identifier: MIT */
/* daemon.h - a plenumd for a test. */
#ifndef TESTS_DAEMON_H
#define TESTS_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Start $PLENUM_PLENUMD at an address, with an option and its value or NULLs; it dies with the
 * thread that started it. Returns when it listens; ends the program with a message when it does not
 * come up.
 */
pid_t daemon_start(const char *address, const char *threads, const char *option, const char *value);

/** The same with any arguments, ended by NULL. */
pid_t daemon_start_with(const char *address, const char *threads, const char *const *args);

/** Stop a child process, and wait: kill(2) alone returns before all its threads have stopped. */
bool child_stop(pid_t pid);

/** Send a signal that ends it, and wait; returns the wait status. */
int daemon_end(pid_t pid, int signum);

#endif

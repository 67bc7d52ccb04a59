/* SPDX-License-Identifier: MIT */
/* daemon.h - starts and ends a plenumd for a test. */
#ifndef TESTS_DAEMON_H
#define TESTS_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Start $PLENUM_PLENUMD at an address, with a NULL-terminated list of options and values. It dies
 * with the thread that started it. Returns when the loader listens; ends the program with a message
 * if it does not start.
 */
pid_t daemon_start(const char *address, const char *threads, const char *option, const char *value);

/** Like daemon_start(), with any arguments, terminated by NULL. */
pid_t daemon_start_with(const char *address, const char *threads, const char *const *args);

/** Stop a child process and wait: kill(2) alone returns before all its threads have stopped. */
bool child_stop(pid_t pid);

/** Send a signal that ends the process, and wait for it. Returns the wait status. */
int daemon_end(pid_t pid, int signum);

#endif

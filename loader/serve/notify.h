/* SPDX-License-Identifier: MIT */
/* notify.h - sends messages to a service manager, and takes the socket that it handed over:
 * sd_notify(3) and sd_listen_fds(3). Without a manager nothing is sent. Threads: one. */
#ifndef LOADER_SERVE_NOTIFY_H
#define LOADER_SERVE_NOTIFY_H

#include <stdint.h>

#include <plenum/error.h>

/**
 * Returns the listening socket that a service manager handed over (LISTEN_PID, LISTEN_FDS), made
 * close-on-exec, or -1 if there is none. Fails with -EINVAL and a message unless exactly one
 * listening unix stream socket was handed over. The variables are removed, so that no child process
 * uses them.
 */
int notify_get_socket(struct plenum_error *err);

/** Remember where the manager listens (NOTIFY_SOCKET) and how often it expects a message
 * (WATCHDOG_USEC), and remove the variables. */
void notify_init(void);

/** Returns the time in ns after which the manager ends a loader that sends no message; 0: no
 * watchdog. */
uint64_t notify_watchdog_ns(void);

/** Send lines of VARIABLE=value. A manager that does not listen is not an error. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

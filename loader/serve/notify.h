/* SPDX-License-Identifier: MIT */
/* notify.h - messages to a service manager, and the socket that it handed over: sd_notify(3) and
 * sd_listen_fds(3). Without a manager nothing is sent. Threads: one. */
#ifndef LOADER_SERVE_NOTIFY_H
#define LOADER_SERVE_NOTIFY_H

#include <stdint.h>

#include <plenum/error.h>

/**
 * The listening socket that a service manager handed over (LISTEN_PID, LISTEN_FDS), made
 * close-on-exec; -1 when there is none. -EINVAL with a sentence when what was handed over is not
 * one listening unix stream socket. The variables are removed, so that no child process uses them.
 */
int notify_get_socket(struct plenum_error *err);

/** Remember where the manager listens (NOTIFY_SOCKET) and how often it wants to hear from us
 * (WATCHDOG_USEC), and remove the variables. */
void notify_init(void);

/** Nanoseconds without a word after which the manager ends us; 0: it does not watch. */
uint64_t notify_watchdog_ns(void);

/** Send lines of VARIABLE=value. It is no error when the manager does not listen. */
void notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

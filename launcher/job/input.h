/* SPDX-License-Identifier: MIT */
/* input.h - reads our standard input without ever blocking. */
#ifndef LAUNCHER_INPUT_H
#define LAUNCHER_INPUT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { INPUT_FDS = 2 };

/** Fill in what poll(2) must watch if up to `most` bytes are wanted; nothing if that is less than
 * one read may return (16 KiB). */
void input_poll(size_t most, struct pollfd fds[INPUT_FDS]);

/**
 * Read after poll(2). Returns the number of bytes; 0 at the end, or if no thread can be started;
 * -EAGAIN if nothing has arrived yet.
 *
 * Threads: the first call starts a thread that runs until the process exits.
 */
ssize_t input_read(const struct pollfd fds[INPUT_FDS], char *ret, size_t most);

#endif

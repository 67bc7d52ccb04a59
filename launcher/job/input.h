/* SPDX-License-Identifier: MIT */
/* input.h - our standard input, read without ever waiting for it. */
#ifndef LAUNCHER_INPUT_H
#define LAUNCHER_INPUT_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { INPUT_FDS = 2 };

/** What poll(2) must watch when up to `most` bytes are wanted; 0: nothing now. */
void input_poll(size_t most, struct pollfd fds[INPUT_FDS]);

/**
 * What has come, after poll(2): a number of bytes, 0 at the end, -EAGAIN when there is nothing yet.
 *
 * Threads: starts one at the first call, which stays.
 */
ssize_t input_read(const struct pollfd fds[INPUT_FDS], char *ret, size_t most);

#endif

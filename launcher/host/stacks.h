/* SPDX-License-Identifier: MIT */
/* stacks.h - shows what the threads of a program are doing. */
#ifndef LAUNCHER_STACKS_H
#define LAUNCHER_STACKS_H

#include <stdint.h>
#include <sys/types.h>

#include "launcher/host/capture.h"

enum { STACKS_LIMIT_MS = 20000, STACKS_TOOL_MS = 8000 };

/**
 * Begin to describe a process and its first children: the state of their threads, where these are
 * in the kernel, and the program's own stacks if py-spy or gdb is installed. The text is complete
 * when capture_poll() returns true. Returns 0 or -errno.
 */
int stacks_begin(struct capture *capture, const pid_t *pid);

#endif

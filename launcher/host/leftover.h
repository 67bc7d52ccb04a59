/* SPDX-License-Identifier: MIT */
/* leftover.h - ends processes that an earlier start of a job has left behind on this host. */
#ifndef LAUNCHER_LEFTOVER_H
#define LAUNCHER_LEFTOVER_H

#include <stdint.h>

/**
 * Kill all processes on this host, except the calling one, that have PLENUM_JOB_ID=`job` in the
 * environment with which they were started, and wait at most `limit_ns` until they are gone.
 *
 * Returns the number still there, -ENOMEM, or another -errno if /proc cannot be read.
 */
int leftover_kill(const char *job, uint64_t limit_ns);

#endif

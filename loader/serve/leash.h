/* SPDX-License-Identifier: MIT */
/* leash.h - a loader ends with its keeper, and says with what its start is busy.
 *
 * The loop watches the keeper's descriptor (--leash-fd), too, but the loop runs late, and may be
 * held up. So a thread watches it from the beginning of main() on. */
#ifndef LOADER_SERVE_LEASH_H
#define LOADER_SERVE_LEASH_H

#include "common/jobloader.h"

/**
 * Start the thread. It ends the process when the keeper has gone: at once before leash_serves(),
 * after some seconds later, which the loop may use to end in order. Where no thread can be started,
 * the kernel goes on to watch `start_fd`.
 *
 * @param lifeline_fd  end of file: the keeper has gone. -1: none; then the thread only logs
 * @param start_fd     the kernel kills this process when its other end is closed (jobspawn.c),
 *                     until leash_serves(); or -1
 */
void leash_init(int lifeline_fd, int start_fd);

/** What is begun now. A start that takes seconds is logged, and the keeper is told. Any thread. */
void leash_phase(enum jobloader_phase phase);

/** The loop runs from now on. */
void leash_serves(void);

#endif

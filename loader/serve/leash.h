/* SPDX-License-Identifier: MIT */
/* leash.h - ends the loader when its keeper ends, and reports the phases of startup.
 *
 * The loop also watches the keeper's descriptor (--leash-fd), but the loop starts late and may be
 * blocked. So a thread watches it from the beginning of main(). */
#ifndef LOADER_SERVE_LEASH_H
#define LOADER_SERVE_LEASH_H

#include "common/job/jobloader.h"

/**
 * Start the thread. It ends the process when the keeper has gone. Before leash_serves() it does so
 * at once; afterwards it waits for a few seconds, so that the loop can shut down in order. If no
 * thread can be started, the kernel keeps watching `start_fd`.
 *
 * @param lifeline_fd end of file means that the keeper has gone. -1: none; then the thread only
 * logs @param start_fd the kernel kills this process when its other end is closed (jobspawn.c),
 *                     until leash_serves(); or -1
 */
void leash_init(int lifeline_fd, int start_fd);

/** Record that a phase begins. A phase that takes seconds is logged and reported to the keeper.
 * Threads: any. */
void leash_phase(enum jobloader_phase phase);

/** Startup is over: the loop is running. */
void leash_serves(void);

#endif

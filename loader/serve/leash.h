/* SPDX-License-Identifier: MIT */
/* leash.h - ends the loader when its keeper ends, and reports the phases of startup.
 *
 * The loop also watches the keeper's descriptor (--leash-fd), but the loop starts late and may be
 * blocked. So a thread watches it from the beginning of main(). */
#ifndef LOADER_SERVE_LEASH_H
#define LOADER_SERVE_LEASH_H

#include "common/job/jobloader.h"

/**
 * Start the thread, which ends the process when the keeper has gone: at once before leash_serves();
 * afterwards a few seconds later, so that the loop can shut down in order. If no thread can be
 * started, the kernel keeps watching `start_fd`.
 *
 * @param lifeline_fd  End of file on it means that the keeper has gone. -1: there is no keeper, and
 *                     the thread only logs.
 * @param start_fd     Until leash_serves(), the kernel kills this process when the other end is
 *                     closed (jobspawn.c). -1: none.
 */
void leash_init(int lifeline_fd, int start_fd);

/** Record that a phase begins, and report it to the keeper. While startup takes seconds, its phase
 * is logged. Has no effect after leash_serves(). Threads: any. */
void leash_phase(enum jobloader_phase phase);

/** Record that startup is over, and the loop is running. */
void leash_serves(void);

#endif

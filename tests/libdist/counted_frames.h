/* SPDX-License-Identifier: MIT */
/* counted_frames.h - frames that a program has understood, counted where it reads them. Linked with
 * --wrap=frame_conn_next to a program under test; what is sent and never read does not count. */
#ifndef TESTS_COUNTED_FRAMES_H
#define TESTS_COUNTED_FRAMES_H

#include <stdatomic.h>
#include <stdbool.h>

/** So far, by all threads but those that play the other side. Of another process when the file that
 * PLENUM_COUNTED_FRAMES names is that process's, too. */
extern atomic_ulong *counted_frames;

/** This thread is the other side. */
extern _Thread_local bool counted_not;

#endif

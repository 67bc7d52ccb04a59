/* SPDX-License-Identifier: MIT */
/* counted_frames.h - counts the frames that a program has parsed, at the point where it reads them.
 * Linked into the program under test with --wrap=frame_conn_next; frames that are sent but never
 * read do not count. */
#ifndef TESTS_COUNTED_FRAMES_H
#define TESTS_COUNTED_FRAMES_H

#include <stdatomic.h>
#include <stdbool.h>

/** The count so far, over all threads except those that play the other side. If the file named by
 * PLENUM_COUNTED_FRAMES is shared with another process, that process's frames are included. */
extern atomic_ulong *counted_frames;

/** Marks this thread as the other side. */
extern _Thread_local bool counted_not;

#endif

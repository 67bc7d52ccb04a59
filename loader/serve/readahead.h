/* SPDX-License-Identifier: MIT */
/* readahead.h - announces the next samples of slow streams to the kernel, and marks streams whose
 * storage hangs. Call everything with the queue's lock held, unless noted otherwise. */
#ifndef LOADER_SERVE_READAHEAD_H
#define LOADER_SERVE_READAHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/order/order.h"
#include "loader/serve/queue.h"

enum { AHEAD_TIME_NS = 50000000 }; /* longest time that a thread announces between reads */

/** Returns whether a new request is so far from the last one that the announced samples will not be
 * read. Called without the lock, by the thread that submits requests. */
bool readahead_leaves(const struct queue_stream *s, const struct queue_request *r);
/** Account for a new request of `count` samples. If it does not follow the last one, announcing
 * restarts at its position. */
void readahead_track_request(struct queue_stream *s, const struct queue_request *r);
/** Account for a finished read, which took `read_ns` per sample. */
void readahead_track_reading(struct queue_stream *s, uint64_t read_ns);
/** Set whether a stream's storage hangs. A hanging stream gets no more I/O threads, because these
 * would hang, too. */
void readahead_set_hangs(struct queue_stream *s, bool hangs);
/** Announce one sample, if there is one. Returns how long it took, or 0. The lock is released
 * during the call into the kernel. */
uint64_t readahead_announce(struct queue *q);

#endif

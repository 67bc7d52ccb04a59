/* SPDX-License-Identifier: MIT */
/* queue_users.h - manages the streams of a queue, and the users and jobs that they belong to. */
#ifndef LOADER_SERVE_QUEUE_USERS_H
#define LOADER_SERVE_QUEUE_USERS_H

#include <stdbool.h>

#include "loader/serve/queue.h"

/** Announce to the cache of samples which samples the stream will use with this share. */
void queue_users_follow(struct queue_stream *s, const struct order_share *share);

/** Free the stream if it is closed and no thread is announcing its samples. Call it with the
 * queue's lock held. */
void queue_users_maybe_free(struct queue_stream *s);

/** Returns whether the stream has waited without an I/O thread since the last beat, while all of
 * them were busy, and its user may have another thread. Call it once per beat, with the queue's
 * lock held. */
bool queue_users_is_starved(const struct queue *q, struct queue_stream *s);

#endif

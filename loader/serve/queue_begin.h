/* SPDX-License-Identifier: MIT */
/* queue_begin.h - chooses the samples that a thread reads next. */
#ifndef LOADER_SERVE_QUEUE_BEGIN_H
#define LOADER_SERVE_QUEUE_BEGIN_H

#include <stdint.h>

struct item;
struct queue_stream;

/** Put the next samples of a stream that has waiting ones into an item. Returns the number of
 * samples that do not wait any more: those of the item, and those that another stream renders now
 * (sharing.h). Call it with the queue's lock held. */
uint32_t queue_begin_samples(struct queue_stream *s, struct item *item);

#endif

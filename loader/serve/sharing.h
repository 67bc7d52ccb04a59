/* SPDX-License-Identifier: MIT */
/* sharing.h - streams with the same pixels render each position once. Call everything with the
 * queue's lock held, unless noted otherwise. */
#ifndef LOADER_SERVE_SHARING_H
#define LOADER_SERVE_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/serve/queue_item.h"

/** Let a stream share renderings, if it may. */
void sharing_open(struct queue_stream *s);
void sharing_close(struct queue_stream *s);

/** Decide how a stream gets the sample that it begins: the `in_step`-th of its samples in the step
 * at r->place. Returns a hold, which sharing_end() ends. */
struct hold sharing_begin(struct queue_stream *s, const struct queue_request *r, uint32_t in_step,
                          uint64_t position);

/** Park a sample that another stream renders now. When that ends, sharing_end() takes it. Returns
 * false when out of memory; the hold is then ended. */
bool sharing_park(struct queue_request *r, const struct render_try *try, const struct hold *hold);

/** Remove a request's parked samples. Returns their number. */
uint32_t sharing_drop_parked(struct queue_request *r);

/** End a hold, whether its sample was rendered or not. Parked samples of other requests that the
 * caller is to copy, with queue_item_copy(), are added to `copies`. */
void sharing_end(struct queue *q, struct hold *hold, struct list *copies);

/** Returns whether this sample of the stream is already rendered or being rendered. */
bool sharing_has(const struct queue_stream *s, struct order_place place);

/** Render a sample that other streams need, or copy it, into job->dst. Threads: the worker's,
 * without the lock. */
int sharing_render(const struct render_job *job, const struct queue_stream *s, struct hold *hold,
                   struct render_result *ret, struct plenum_error *err);

/** Returns renderings that are not needed any more, for sharing_free(). */
struct rendering *sharing_reap(struct queue *q);
/** Free what sharing_reap() has returned. Call it without the lock, because it may take long. */
void sharing_free(struct rendering *unused);
/** Call this about once a second, and at the end, without the lock. */
void sharing_beat(struct queue *q);

#endif

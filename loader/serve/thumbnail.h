/* SPDX-License-Identifier: MIT */
/* thumbnail.h - renders one image of a stream again, in a thread that may block. */
#ifndef LOADER_SERVE_THUMBNAIL_H
#define LOADER_SERVE_THUMBNAIL_H

#include <stddef.h>
#include <stdint.h>

#include "loader/serve/blocking.h"
#include "loader/serve/session_facts.h"

struct thumbnail;

/** Create a thumbnail of one sample of the view's batch. Takes ownership of the view's data set,
 * even on failure. `ready` is called once, from any thread, when thumbnail_get() has a result.
 * Returns NULL when out of memory. */
struct thumbnail *thumbnail_create(const struct session_view *view, uint32_t index,
                                   struct blocking *blocking, void (*ready)(void *arg), void *arg);
/** Start rendering. */
void thumbnail_begin(struct thumbnail *thumbnail);
/** Stop waiting for a thumbnail. Unless it is ready, its result is -ETIMEDOUT. When this returns,
 * ready() has been called. */
void thumbnail_give_up(struct thumbnail *thumbnail);
/** Get the result, a borrowed PNG, or -errno with a message. Call it only after ready(). */
int thumbnail_get(struct thumbnail *thumbnail, const void **png, size_t *len,
                  const char **sentence);
/** Free a thumbnail that was not begun. NULL is ignored. */
void thumbnail_abandon(struct thumbnail *thumbnail);
/** Drop the creator's reference, after thumbnail_begin(). */
void thumbnail_forget(struct thumbnail *thumbnail);

#endif

/* SPDX-License-Identifier: MIT */
/* thumbnail.h - renders one image of a stream again, in a thread that may block. */
#ifndef LOADER_SERVE_THUMBNAIL_H
#define LOADER_SERVE_THUMBNAIL_H

#include <stddef.h>
#include <stdint.h>

#include "loader/serve/blocking.h"
#include "loader/serve/session.h"

struct thumbnail;

/** A thumbnail of one sample of the view's batch. Takes the view's data set, also where it fails.
 * `ready` is called once, from any thread, when thumbnail_get() has a result. NULL: out of
 * memory. */
struct thumbnail *thumbnail_create(const struct session_view *view, uint32_t index,
                                   struct blocking *blocking, void (*ready)(void *arg), void *arg);
/** Begin to make it. */
void thumbnail_begin(struct thumbnail *thumbnail);
/** Stop waiting: unless it is ready, its result is -ETIMEDOUT. When this returns, ready() has been
 * called. */
void thumbnail_give_up(struct thumbnail *thumbnail);
/** The result, a PNG, or -errno with a sentence; borrowed. Not before ready(). */
int thumbnail_get(struct thumbnail *thumbnail, const void **png, size_t *len,
                  const char **sentence);
/** Free one that was not begun. NULL is nothing. */
void thumbnail_abandon(struct thumbnail *thumbnail);
/** Drop the creator's reference, after thumbnail_begin(). */
void thumbnail_forget(struct thumbnail *thumbnail);

#endif

/* SPDX-License-Identifier: MIT */
/* thumbnail.h - one image of what a stream is being fed, made by a thread that may hang. */
#ifndef LOADER_SERVE_THUMBNAIL_H
#define LOADER_SERVE_THUMBNAIL_H

#include <stddef.h>
#include <stdint.h>

#include "loader/serve/blocking.h"
#include "loader/serve/session.h"

struct thumbnail;

/** Of that sample of the view's batch, whose data set is taken (also where it fails). `ready` is
 * called once, from any thread, when thumbnail_get() has something to say; NULL: no memory. */
struct thumbnail *thumbnail_create(const struct session_view *view, uint32_t index,
                                   struct blocking *blocking, void (*ready)(void *arg), void *arg);
/** Begin to make it. */
void thumbnail_begin(struct thumbnail *thumbnail);
/** Nobody waits any longer: unless it is ready, that is what it says. When this returns, ready()
 * has been called. */
void thumbnail_give_up(struct thumbnail *thumbnail);
/** What was made, a PNG, or -errno with a sentence; borrowed. Not before ready(). */
int thumbnail_get(struct thumbnail *thumbnail, const void **png, size_t *len,
                  const char **sentence);
/** It was not begun and will not be. NULL is nothing. */
void thumbnail_abandon(struct thumbnail *thumbnail);
/** The one who created it forgets it, after thumbnail_begin(). */
void thumbnail_forget(struct thumbnail *thumbnail);

#endif

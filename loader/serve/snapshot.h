/* SPDX-License-Identifier: MIT */
/* snapshot.h - the status of the loader and of all its streams at one moment, ready to be sent.
 *
 * All clients that request it within a short time get the same snapshot, so STATUS costs the loop
 * little, no matter how many clients request it or how often. Everything runs on the loop's
 * thread. */
#ifndef LOADER_SERVE_SNAPSHOT_H
#define LOADER_SERVE_SNAPSHOT_H

#include "common/net/frame.h"

struct server;

/** Reference-counted, constant. Opaque. */
struct snapshot;

/** The client that requests the status. A user sees only its own streams. */
struct snapshot_viewer {
    bool all;   /* sees every stream */
    bool known; /* `uid` is known; otherwise the viewer sees only its own session's stream */
    uint32_t uid;
    uint64_t id; /* id of the viewer's session */
};

/** Returns the latest snapshot, or a new one, with a reference for the caller, or NULL if memory
 * runs out. */
struct snapshot *snapshot_get(struct server *server);
/** Make the next call of snapshot_get() take a new snapshot, because a stream has begun. */
void snapshot_forget(struct server *server);
/** Drop a reference. NULL is ignored. */
void snapshot_unref(struct snapshot *snapshot);

/** Append STATUS, which contains the number of streams that follow. Returns 0 or -ENOMEM. */
int snapshot_put_loader(const struct snapshot *snapshot, const struct snapshot_viewer *viewer,
                        uint64_t request, struct frame_buffer *b);

/** Append the next stream that the viewer may see; `*next` starts at 0. Returns 1, 0 after the last
 * stream, or -ENOMEM. */
int snapshot_put_stream(const struct snapshot *snapshot, const struct snapshot_viewer *viewer,
                        uint64_t request, size_t *next, struct frame_buffer *b);

#endif

/* SPDX-License-Identifier: MIT */
/* snapshot.h - the status of the loader and of all its streams at one moment, ready to be sent.
 *
 * All clients that ask within a while get the same snapshot, so that STATUS costs the loop little,
 * however many ask and however often. All on the loop's thread. */
#ifndef LOADER_SERVE_SNAPSHOT_H
#define LOADER_SERVE_SNAPSHOT_H

#include "common/frame.h"
#include "loader/serve/session.h"

/** Counted, constant. Opaque. */
struct snapshot;

/** Who asks: a user sees only its own streams. */
struct snapshot_viewer {
    bool all;   /* every stream */
    bool known; /* uid is; else it sees its own session's stream alone */
    uint32_t uid;
    uint64_t id; /* of its session */
};

/** The latest one, or a new one; a reference of the caller's. NULL: out of memory. */
struct snapshot *snapshot_get(struct server *server);
/** A stream has begun: the next snapshot must have it. */
void snapshot_forget(struct server *server);
/** NULL is nothing. */
void snapshot_unref(struct snapshot *snapshot);

/** Append STATUS, which tells how many streams follow: 0 or -ENOMEM. */
int snapshot_put_loader(const struct snapshot *snapshot, const struct snapshot_viewer *viewer,
                        uint64_t request, struct frame_buffer *b);

/** Append the next stream that the viewer may see; `*next` begins with 0. 1, 0 when there is none
 * any more, or -ENOMEM. */
int snapshot_put_stream(const struct snapshot *snapshot, const struct snapshot_viewer *viewer,
                        uint64_t request, size_t *next, struct frame_buffer *b);

#endif

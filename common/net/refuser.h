/* SPDX-License-Identifier: MIT */
/* refuser.h - answers clients that connect over TLS with the reason why no loader serves them.
 *
 * They trust only programs that have the loader's key, so each gets a handshake and one frame. */
#ifndef COMMON_REFUSER_H
#define COMMON_REFUSER_H

#include "common/net/frame.h"
#include "common/net/tls.h"

/** Connections that are being answered. Opaque. Threads: one at a time. */
struct refuser;

/** Create a refuser. `tls`, a loader's key, is borrowed. Returns 0 or -errno. */
int refuser_create(struct tls *tls, struct refuser **ret);
/** Close all connections and free the refuser. NULL is ignored. */
void refuser_destroy(struct refuser *refuser);

/** Returns a descriptor that becomes readable when refuser_dispatch() has work to do. Borrowed. */
int refuser_get_fd(const struct refuser *refuser);

/** Take a connection, and send it the frame in `b`, which is copied. A client that does not
 * complete the handshake is dropped after a few seconds, or earlier if many others connect. */
void refuser_take(struct refuser *refuser, int fd, const struct frame_buffer *b);

/** Advance all connections, and drop those that have taken too long. Never blocks. */
void refuser_dispatch(struct refuser *refuser);

#endif

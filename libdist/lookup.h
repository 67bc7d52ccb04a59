/* SPDX-License-Identifier: MIT */
/* lookup.h - loaders behind a host name. Callers hold the stream's lock. */
#ifndef LIBDIST_LOOKUP_H
#define LIBDIST_LOOKUP_H

#include <stdint.h>

#include <plenum/stream.h>

/** Look up the names, and create a session for each address. Names that cannot be resolved cause
 *  warnings. Returns 0, or -errno with a message if there is no session, or no memory. */
int lookup_first(struct plenum_stream *s, struct plenum_error *err);
/** Start a look-up of all names if any is due, and end idle sessions with loaders that no name
 *  resolves to. Returns when to call this again. */
uint64_t lookup_tick(struct plenum_stream *s, uint64_t now_ns);
/** Look-up interval; a test shortens it. */
extern uint64_t lookup_every_ns;

#endif

/* SPDX-License-Identifier: MIT */
/* io.h - the library's one thread, which talks to loaders for all streams of the process. */
#ifndef LIBDIST_IO_H
#define LIBDIST_IO_H

#include <stdbool.h>

#include <plenum/stream.h>

/** Let the thread (started with the first stream) serve the stream: 0 or -errno. */
int io_add(struct plenum_stream *s, struct plenum_error *err);
/** Afterwards the thread does not touch it any more. Not with the stream's lock held. */
void io_remove(struct plenum_stream *s);
/** Have loaders_tick() called soon. With the stream's lock held or not. */
void io_poke(void);
/** Has the program closed the thread's descriptors? With the lock of a stream that is served. */
bool io_is_closed(void);
/** The sentence for that. */
extern const char io_closed_sentence[];
/** Have loaders_ready() called with `tag`, a loader, when something can be read or, if `write`,
 * written. With the stream's lock held. 0 or -errno. */
int io_watch(int fd, void *tag, bool write);
/** For a connection that is not closed here: it would be told of for ever. */
void io_unwatch(int fd);

#endif

/* SPDX-License-Identifier: MIT */
/* io.h - the library's only thread, which talks to loaders for all streams of the process. */
#ifndef LIBDIST_IO_H
#define LIBDIST_IO_H

#include <stdbool.h>

#include <plenum/stream.h>

/** Make the thread (started with the first stream) serve this stream: 0 or -errno. */
int io_add(struct plenum_stream *s, struct plenum_error *err);
/** Make the thread stop serving it: it no longer touches the stream on return. Do not hold the
 *  stream's lock. */
void io_remove(struct plenum_stream *s);
/** Have loaders_tick() called soon. The stream's lock may be held. */
void io_poke(void);
/** Has the program closed the thread's descriptors? Hold the lock of a stream being served. */
bool io_is_closed(void);
/** The error message for that. */
extern const char io_closed_sentence[];
/** Have loaders_ready() called with `tag`, a loader, when `fd` is readable or, if `write`,
 *  writable. Hold the stream's lock. 0 or -errno. */
int io_watch(int fd, void *tag, bool write);
/** Stop watching a descriptor that stays open, which would otherwise be reported for ever. */
void io_unwatch(int fd);

#endif

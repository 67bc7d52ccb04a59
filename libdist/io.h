/* SPDX-License-Identifier: MIT */
/* io.h - the library's only thread, which talks to loaders for all streams of the process. */
#ifndef LIBDIST_IO_H
#define LIBDIST_IO_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/util/lock.h"

/** What the thread calls, holding the stream's lock. */
struct io_calls {
    /** Do pending work; `jumped`: this process was stopped. Returns the time of the next call
     *  (CLOCK_MONOTONIC, ns). */
    uint64_t (*tick)(struct plenum_stream *s, bool jumped);
    /** A watched descriptor is ready. Returns false if `tag` does not belong to this stream. */
    bool (*ready)(struct plenum_stream *s, const void *tag);
    /** The program has closed the thread's descriptors: nothing arrives any more. */
    void (*cut_off)(struct plenum_stream *s);
    /** The stream is no longer served. */
    void (*end)(struct plenum_stream *s);
    /** In a forked child: close connections and unmap memory. */
    void (*leave)(struct plenum_stream *s);
};

/** Make the thread (started with the first stream) serve this stream. Returns 0, or -errno with a
 * message. */
int io_add(struct plenum_stream *s, struct lock *lock, const struct io_calls *calls,
           struct plenum_error *err);
/** Make the thread stop serving a stream; after that, it no longer touches the stream. The thread
 * ends with the last stream. Do not hold the stream's lock. */
void io_remove(struct plenum_stream *s);
/** Keep a loader at this address until the last stream ends; call it in tick(). `all_cpus`: other
 * processes use the loader, too. Returns 0, even if this process already keeps it; -EADDRINUSE if
 * another process has bound the address; or another error. */
int io_keep_loader(const char *address, bool all_cpus, struct plenum_error *err);
/** Have tick() called soon. The stream's lock may be held. */
void io_poke(void);
/** Returns whether the program has closed the thread's descriptors; it may have opened others with
 * the same numbers. The caller holds the lock of a stream being served. */
bool io_is_closed(void);
/** The message of streams after the program has closed the thread's descriptors. */
extern const char io_closed_sentence[];
/** Have ready() called with `tag` when `fd` is readable or, if `write`, writable. The caller
 *  holds the stream's lock. Returns 0 or -errno. */
int io_watch(int fd, void *tag, bool write);
/** Stop watching a descriptor that stays open, which would otherwise be reported for ever. */
void io_unwatch(int fd);

#endif

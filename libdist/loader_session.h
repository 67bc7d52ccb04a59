/* SPDX-License-Identifier: MIT */
/* loader_session.h - the connection to one loader: bytes, frames, handshake, and reconnecting.
 *
 * A session knows nothing about batches, except which request fills which slot. It reports events
 * to its owner. Call everything with the stream's lock held. */
#ifndef LIBDIST_LOADER_SESSION_H
#define LIBDIST_LOADER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/net/address.h"
#include "common/net/tls.h"
#include "common/net/wire.h"
#include "common/order/order.h"
#include "common/util/lock.h"
#include "libdist/slot.h"

struct loader;
struct loader_session;

/** What a session reports to its owner, holding the lock. */
struct session_events {
    /** Connecting failed. */
    void (*unreached)(struct loader *l, int code);
    /** The peer could not be authenticated. Returns whether there is another address to try now. */
    bool (*unauthenticated)(struct loader *l);
    /** A loader has reported the shapes of the stream's fields. Returns 0; -ESTALE if they differ
     * from those of another loader; -EINVAL if a batch would be too large. */
    int (*fields)(struct loader *l, const struct wire_fields *m, struct plenum_error *err);
    /** A loader has said HELLO and can serve `open`. Returns the ring that it will fill, with a
     *  reference. Any error is one of this process. */
    int (*greeted)(struct loader *l, const struct wire_open *open, struct slot_set **ret,
                   struct plenum_error *err);
    /** The loader's keeper reports that the loader is still starting, and its progress. */
    void (*starting)(struct loader *l, const char *text);
    /** This process lacks memory or descriptors, and no other loader can help. Returns true if the
     * lack is temporary; otherwise the stream has failed. */
    bool (*out_of)(struct loader *l, int code, const char *text);
    /** The loader has described the data set. Returns 0, or an error if the description is not
     * acceptable. */
    int (*described)(struct loader *l, const struct wire_opened *m, struct plenum_error *err);
    /** The session is open: assign work to it. */
    void (*opened)(struct loader *l, const struct wire_opened *m);
    /** The loader rejects the stream. Returns true if the reason is temporary. */
    bool (*refused)(struct loader *l, int code, const char *text);
    /** The loader is alive. */
    void (*alive)(struct loader *l, uint64_t now_ns);
    /** The loader has answered for a slot (FILLING) and will not touch it again; NULL: it has
     *  confirmed a cancellation. */
    void (*done)(struct loader *l, struct plenum_lease *slot, const struct wire_done *done);
    /** A name has arrived. Returns 0, or -EPROTO if it was not requested. */
    int (*named)(struct loader *l, uint64_t request, const struct wire_name *m);
    /** Pending requests of this loader will not be answered. */
    void (*released)(struct loader *l);
    /** The session is down, and has been useless since `since_ns`; `ran`: it was open.
     *  session_error() has the reason. */
    void (*lost)(struct loader *l, bool ran, uint64_t since_ns);
};

/** What all sessions of a stream share. */
struct session_setup {
    const struct session_events *events;
    struct lock *lock;
    uint64_t *requests; /* number of the last request */
    /* Constant, except for `span`, and `per_step` and `offset` if session_is_bound(); when these
     * change, sessions are reopened. */
    const struct wire_open *open;
    const char *version; /* version of the pixels */
    const char *name;    /* our name for the loader's log */
    const char *job;     /* the job's id, by which loaders share their capacity; or empty */
    enum plenum_split split;
    struct tls *tls; /* for sessions over TCP, or NULL */
    uint64_t silence_ns;
    bool own_loader; /* the loader was started for this job */
    bool mute;       /* nothing is requested: slots are ready at once */
};

/** Create a session that is down and connects at the first tick; NULL: out of memory. The caller
 *  may change what `address` points to. */
struct loader_session *session_create(const struct session_setup *setup, struct loader *loader,
                                      const struct address *address);
/** Free a closed session. NULL is ignored. */
void session_destroy(struct loader_session *se);
/** End the connection without reporting it; `bye`: notify the loader. */
void session_close(struct loader_session *se, bool bye);
/** In a forked child: close its copy of the connection. */
void session_leave(struct loader_session *se);

/** Connect, ping, give up; returns the time of the next call. `others`: there are other loaders to
 *  use. */
uint64_t session_tick(struct loader_session *se, uint64_t now_ns, bool others);
/** The session must be down. Connect at the first tick at or after `when_ns`, even if the loader
 * rejected an earlier request. */
void session_retry_at(struct loader_session *se, uint64_t when_ns);
/** Handle a connection that is readable, writable or broken. */
void session_ready(struct loader_session *se);
/** Send buffered output. */
int session_flush(struct loader_session *se);
/** Restart the session's timers, because this process was stopped and could not hear the loader. */
void session_forgive(struct loader_session *se, uint64_t now_ns);

/** Request a batch into a free slot of the session. Returns 0 or -ENOMEM. `waited_ns`: how long the
 *  program has waited for batches so far. */
int session_render(struct loader_session *se, struct order_place place, uint64_t waited_ns,
                   struct plenum_lease *slot);
/** Cancel the request that fills a slot. The slot is free once the loader has confirmed, or at once
 *  if the loader cannot write to it. */
void session_cancel(struct plenum_lease *slot);
/** Complete a slot that was not requested from a loader (`mute`). */
void session_answer(struct plenum_lease *slot);
/** Request the name of a sample or a class. Returns 0; -ENOTSUP with a message if the loader is too
 *  old to report it; or -ENOMEM. */
int session_ask_name(struct loader_session *se, uint64_t request, const struct wire_ask_name *m,
                     struct plenum_error *err);

bool session_is_down(const struct loader_session *se);
bool session_has_greeted(const struct loader_session *se);
/** Returns whether the loader is so old that it renders only the share of steps that OPEN named. */
bool session_is_bound(const struct loader_session *se);
bool session_is_open(const struct loader_session *se);
/** Returns whether the loader has been silent for so long that others should be used. */
bool session_is_silent(const struct loader_session *se, uint64_t now_ns);
/** Returns whether the loader has answered every request. */
bool session_is_idle(const struct loader_session *se);
/** Returns whether the session is connected or may still (re)connect. It gets as much time as the
 * session of a sole loader; each failed attempt is reported by lost(). */
bool session_may_come(const struct loader_session *se, uint64_t now_ns, uint64_t timeout_ns);
/** Returns a free slot that the session can fill, or NULL. */
struct plenum_lease *session_free_slot(const struct loader_session *se);
/** Returns the number of slots that the loader has been asked to fill. */
unsigned session_filling(const struct loader_session *se);
/** Returns the ring that the loader fills; NULL if the session is not open. */
struct slot_set *session_set(const struct loader_session *se);
struct loader *session_loader(const struct loader_session *se);
/** Returns the error with which the loader rejects the stream, or 0. */
int session_refusal(const struct loader_session *se);
/** Returns the last error message, or "". */
const char *session_error(const struct loader_session *se);

#endif

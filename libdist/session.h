/* SPDX-License-Identifier: MIT */
/* session.h - the connection to one loader: bytes, frames, handshake, and how it comes back.
 *
 * It knows nothing of batches, but which slot is to be filled by which request. What it tells goes
 * to loaders.h. All is called with the stream's lock held. */
#ifndef LIBDIST_SESSION_H
#define LIBDIST_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/address.h"
#include "common/lock.h"
#include "common/order.h"
#include "common/tls.h"
#include "common/wire.h"
#include "libdist/slot.h"

struct loader;
struct session;

/** What the sessions of a stream have in common. */
struct session_setup {
    struct lock *lock;
    uint64_t *requests; /* the number of the last one */
    /* Constant, but for the span of what is asked for: then sessions are opened anew. */
    const struct wire_open *open;
    const char *version; /* of pixels */
    const char *name;    /* ours, for the loader's log */
    const char *job;     /* what all instances call the job, by which loaders share; or empty */
    enum plenum_split split;
    struct tls *tls; /* for those by TCP, or NULL */
    uint64_t silence_ns;
    bool own_loader; /* it was started for this job */
    bool mute;       /* nothing is asked for: slots are ready at once */
};

/** One that is down, and connects at the first tick; NULL: out of memory. `address` may become
 * another. */
struct session *session_create(const struct session_setup *setup, struct loader *loader,
                               const struct address *address);
/** Free what is closed. NULL is nothing. */
void session_destroy(struct session *se);
/** End the connection without telling anybody; `bye`: but the loader. */
void session_close(struct session *se, bool bye);
/** In a forked child: close its copy. */
void session_leave(struct session *se);

/** Connect, ping, give up; returns when to be called next. `others`: there are other loaders to
 * turn to. */
uint64_t session_tick(struct session *se, uint64_t now_ns, bool others);
/** Of one that is down: connect at the next tick after this moment. */
void session_retry_at(struct session *se, uint64_t when_ns);
/** The connection is readable or writable, or broken. */
void session_ready(struct session *se);
/** Send what was put into its buffer. */
int session_flush(struct session *se);
/** This process was stopped: forgive the loader that it was silent meanwhile. */
void session_forgive(struct session *se, uint64_t now_ns);

/** Have a free slot of the session's filled with a batch: 0 or -ENOMEM. `waited_ns`: how long the
 * program has waited for batches so far. */
int session_render(struct session *se, struct order_place place, uint64_t waited_ns,
                   struct plenum_lease *slot);
/** Call back what is being rendered into a slot. The slot is free again when the loader has
 * answered, or at once where the loader has no hand in it. */
void session_cancel(struct plenum_lease *slot);
/** A slot is full that nobody was asked to fill (`mute`). */
void session_answer(struct plenum_lease *slot);
/** Ask for a name: 0, or -ENOTSUP with a sentence, or -ENOMEM. */
int session_ask_name(struct session *se, uint64_t request, const struct wire_ask_name *m,
                     struct plenum_error *err);

bool session_is_down(const struct session *se);
bool session_has_greeted(const struct session *se);
bool session_is_open(const struct session *se);
/** Has it been silent for so long that others should be asked? */
bool session_is_silent(const struct session *se, uint64_t now_ns);
/** Has it answered all that it was asked? */
bool session_is_idle(const struct session *se);
/** Is it there, or may it come (back) yet? It is waited for as long as if it were the only one;
 * each try to reach it that fails asks again (loaders_lost()). */
bool session_may_come(const struct session *se, uint64_t now_ns, uint64_t timeout_ns);
/** A free slot that it may be asked to fill, or NULL. */
struct plenum_lease *session_free_slot(const struct session *se);
/** Slots that it was asked to fill. */
unsigned session_filling(const struct session *se);
/** The ring that it fills; NULL: it is not open. */
struct slot_set *session_set(const struct session *se);
struct loader *session_loader(const struct session *se);
/** It will not serve us, and this is why; 0: it may. */
int session_refusal(const struct session *se);
/** What went wrong last, or "". */
const char *session_error(const struct session *se);

#endif

/* SPDX-License-Identifier: MIT */
/* loaders_priv.h - the loaders of a stream, for those who keep account of them: loaders.c,
 * schedule.c (which is asked for which batch), lookup.c (names that stand for loaders), names.c
 * (names of samples). Nobody else sees this. */
#ifndef LIBDIST_LOADERS_PRIV_H
#define LIBDIST_LOADERS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/address.h"
#include "common/error.h"
#include "common/order.h"
#include "libdist/names.h"
#include "libdist/ownloader.h"
#include "libdist/session.h"
#include "libdist/stream.h"
#include "libdist/stream_priv.h"

/* Of a stream: a name may stand for many. */
enum { LOADERS_MAX = 32 };

/** An address as the user wrote it: one loader, or a name that stands for several (lookup.c). */
struct named {
    struct address address;    /* the own loader's may become another, under mu */
    bool is_name;              /* constant: it is looked up, again and again */
    bool both;                 /* it has addresses of two families, */
    unsigned turn;             /* and which are taken */
    uint64_t looked_ns;        /* when it was looked up last */
    struct plenum_error error; /* why it was of no avail, "" when it was */
};

/** One that may be asked. */
struct loader {
    struct plenum_stream *stream;
    struct session *session;       /* NULL: no loader's, all else is void */
    const struct address *address; /* of what was named, or `own` */
    struct address own;            /* where a name stands for it */
    int of;                        /* what was named for it */
    bool unlisted; /* the name stands for it no more: it is asked only where no other can be */
    uint32_t bit;  /* of it among the stream's */
    uint32_t threads, io_threads;
    uint64_t alone_ns;  /* the stream's, when its connection was begun */
    bool told_starting; /* the program knows that it takes long to start */
    /* Kept by schedule.c. */
    uint64_t since_ns;     /* when it answered last, or began to have work */
    uint64_t service_ns;   /* time that it takes for a batch while it has work; 0: not known */
    uint64_t avoid_ns;     /* it has failed to make a batch: ask others until then, */
    uint64_t avoid_for_ns; /* which is so long */
    bool warned;           /* the program knows that it refuses, or that it fails to make batches */
};

struct loaders {
    /* Constant. */
    struct session_setup setup;
    struct named named[ADDRESS_LIST_MAX];
    int num_named;
    bool several; /* there are several loaders, or may be: a name stands for as many as it likes */
    /* none was named: the one address is the job's own, kept by one of its processes, */
    bool own;
    struct ownloader_key own_key; /* at one of the addresses that this gives, */

    /* Holding the stream's lock. */
    unsigned own_turn;              /* this one */
    unsigned own_taken;             /* times in a row that it was bound, and nobody listened */
    bool told_waiting;              /* that none has said a word yet */
    bool wants_keeper;              /* nobody listens there: io.c is to see to it */
    struct loader all[LOADERS_MAX]; /* FOR_LOADERS */
    bool looking;                   /* names are being looked up (lookup.c) */
    bool told_full;                 /* that a name stands for more than there is room for */
    bool over;                      /* loaders_fini() */
    struct slot_set *remote;        /* of all sessions by TCP, or NULL */
    uint64_t alone_ns;              /* since when no loader has answered; 0: one does */
    uint64_t lost_ns;               /* since when a stream that ran has stood; 0: it runs */
    char lost_text[700];            /* why */
    struct names names;
    uint64_t incidents, stood_ns; /* for plenum_stream_get_stats() */
};

/** The loader at `from` or behind it; NULL: there is none. */
struct loader *loaders_from(struct plenum_stream *s, struct loader *from);
#define FOR_LOADERS(l, s) \
    for (struct loader *l = loaders_from(s, (s)->loaders->all); l; l = loaders_from(s, l + 1))

/** A loader more, of what was named at `of`. `own`: its address, or NULL for that which was named.
 * 0, -ENOSPC (there is room for no more) or -ENOMEM. */
int loaders_add(struct plenum_stream *s, int of, const struct address *own);
/** How many are open. */
unsigned loaders_count_open(struct plenum_stream *s);
/** This one is not asked any more. */
void loaders_end(struct loader *l);
/** The loader that is most likely to deliver, or NULL when none is open. */
struct loader *loaders_first(struct plenum_stream *s);

/* lookup.c */

/** Look up the names, and make the sessions: 0, or -errno when there is not one. With the lock
 * held, which nobody else wants yet: the stream is not anybody else's. */
int lookup_first(struct plenum_stream *s, struct plenum_error *err);
/** Have those looked up whose time has come, and end sessions of loaders that they do not stand for
 * any more. Returns when to be called next. With the lock held. */
uint64_t lookup_tick(struct plenum_stream *s, uint64_t now_ns);
/** How often; a test shortens it. */
extern uint64_t lookup_every_ns;

#endif

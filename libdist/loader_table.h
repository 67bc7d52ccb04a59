/* SPDX-License-Identifier: MIT */
/* loader_table.h - the loaders of a stream, one entry each, only for loaders.c, schedule.c (assigns
 * batches to loaders), lookup.c (names that resolve to loaders) and names.c (names of samples).
 * Call everything with the stream's lock held. */
#ifndef LIBDIST_LOADER_TABLE_H
#define LIBDIST_LOADER_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/list.h"
#include "libdist/loader_session.h"
#include "libdist/ownloader.h"
#include "libdist/stream_core.h"

/* Loaders per stream: a name can resolve to many. */
enum { LOADERS_MAX = 32 };

/** An address as the user wrote it: one loader, or a name that resolves to several (lookup.c). */
struct loader_name {
    struct address address;    /* the own loader's can change, under mu */
    bool is_name;              /* constant: it is looked up repeatedly */
    bool both;                 /* the name has addresses of both families */
    unsigned turn;             /* selects the family; see address_lookup() */
    uint64_t looked_ns;        /* time of the last look-up */
    struct plenum_error error; /* why the last look-up failed, "" if it did not */
};

/** One loader of the stream. */
struct loader {
    struct plenum_stream *stream;
    struct loader_session *session; /* NULL: unused entry, all other fields are undefined */
    const struct address *address;  /* its entry in `named`, or `own` */
    struct address own;             /* its address, if a name resolved to it */
    int of;                         /* index of its entry in `named` */
    bool unlisted; /* no longer among the name's addresses: used only if no other loader can */
    uint32_t bit;  /* its bit in the stream's masks */
    uint32_t threads, io_threads;
    uint64_t alone_ns;  /* the stream's alone_ns when this connection was begun */
    bool told_starting; /* the program has been warned that this loader starts slowly */
    /* Written by schedule.c. */
    uint64_t since_ns;     /* time of its last answer, or when it began to have work */
    uint64_t service_ns;   /* time per batch while it has work; 0: unknown */
    uint64_t avoid_ns;     /* until when other loaders are preferred, because it failed */
    uint64_t avoid_for_ns; /* length of that period */
    bool warned;           /* the program was warned that this loader rejects or fails requests */
};

struct loader_table {
    /* Constant. */
    struct session_setup setup;
    struct loader_name named[ADDRESS_LIST_MAX];
    int num_named;
    bool several; /* there are several loaders, or a name that can resolve to several */
    /* No loader was named: the only address is that of the job's own loader, run by one of its
     * processes. */
    bool own;
    struct ownloader_key own_key; /* determines the addresses to try */

    /* Holding the stream's lock. */
    unsigned own_turn;  /* number of the own loader's current address */
    unsigned own_taken; /* consecutive failed attempts at that address, although it was bound */
    bool told_waiting;  /* the program has been warned that no loader has answered yet */
    bool wants_keeper;  /* there is no listener: this process must keep a loader */
    struct loader all[LOADERS_MAX]; /* FOR_LOADERS */
    bool looking;                   /* a look-up is in progress (lookup.c) */
    bool told_full; /* the program has been warned that a name resolves to too many loaders */
    bool over;      /* after loaders_fini() */
    struct slot_set *remote; /* shared by all sessions over TCP, or NULL */
    uint64_t alone_ns;       /* since when no loader has answered; 0: one does */
    uint64_t lost_ns;        /* since when a running stream has stalled; 0: it runs */
    char lost_text[700];     /* the reason */
    /* Written by names.c. */
    struct loader *names_asked;   /* the loader with pending requests for names, or NULL */
    struct list name_asks;        /* requests for names, in order */
    uint64_t incidents, stood_ns; /* for plenum_stream_get_stats() */
};

/** Returns the first loader at or after `from`, or NULL if there is none. */
struct loader *loader_from(struct plenum_stream *s, struct loader *from);
#define FOR_LOADERS(l, s) \
    for (struct loader *l = loader_from(s, (s)->loaders->all); l; l = loader_from(s, l + 1))

/** Add a loader for entry `of` of `named`. `own`: its address, or NULL for the named one. Returns
 * 0, -ENOSPC (the table is full) or -ENOMEM. */
int loader_add(struct plenum_stream *s, int of, const struct address *own, struct loader **ret);
/** End this loader's session and remove its entry. */
void loader_end(struct loader *l);
/** Returns an open loader, preferably one on this host; NULL if none is open. */
struct loader *loader_first(struct plenum_stream *s);

#endif

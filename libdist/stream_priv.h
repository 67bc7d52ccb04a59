/* SPDX-License-Identifier: MIT */
/* stream_priv.h - what the parts of a stream share: stream.c (the program's side), loaders.c (which
 * loader makes which batch), session.c (the connection to one), io.c (the thread between them). */
#ifndef LIBDIST_STREAM_PRIV_H
#define LIBDIST_STREAM_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <plenum/stream.h>

#include "common/address.h"
#include "common/error.h"
#include "common/frame.h"
#include "common/order.h"
#include "common/pipeline.h"
#include "common/ring.h"
#include "common/tls.h"
#include "common/wire.h"
#include "libdist/ownloader.h"
#include "libdist/trace.h"

enum { WARNINGS_MAX = 8, DEPTH_MAX = 64, EXTRA_SLOTS = 2, HEDGE_SLOTS = 2 };
/* Sessions of a stream: a name may stand for many loaders. */
enum { SESSIONS_MAX = 32 };
/* Where batches are verified, a second for each that is under way, and a third for one. */
enum { SLOTS_MAX = DEPTH_MAX + EXTRA_SLOTS + DEPTH_MAX + 1 };

enum slot_state {
    SLOT_FREE,
    SLOT_FILLING,    /* asked for */
    SLOT_CANCELLING, /* given up, but its loader may still write */
    SLOT_CHECKING, /* filled, and to be compared with what another loader makes */
    SLOT_READY,
    SLOT_LEASED,
};

/** Room for one batch, and what the client itself knows of it. A lease is a pointer to one. */
struct plenum_lease {
    struct slot_set *set;
    uint32_t index;
    enum slot_state state;
    struct session *session; /* FILLING, CANCELLING, CHECKING: whose work it is */
    uint64_t request;        /* of the last RENDER */
    struct trace_batch times;
    uint64_t *positions; /* [S * local], */
    uint8_t *valid;      /* [S * local], */
    uint64_t *epochs;    /* [S]: filled when the batch is handed out */
};

/** A ring with its slots: one for each session on this host, and one for all others together, which
 * never write into it themselves. It lives as long as a session or a lease or a ready batch needs
 * it. */
struct slot_set {
    struct plenum_stream *stream;
    struct ring *ring;
    uint32_t num_slots;
    /* Under the stream's lock. */
    unsigned refs; /* sessions, each READY and LEASED slot, the list of those shown, s->remote */
    bool shown;
    struct slot_set *next_shown;
    struct plenum_lease slots[];
};

/** A batch that has been decided on, in the order of delivery. */
struct entry {
    struct order_place place;  /* of its first step */
    struct order_place after;  /* behind its last step that counts */
    struct plenum_lease *slot; /* NULL: not asked for (again) */
    struct plenum_lease *hedge; /* asked for a second time, of another loader, as it was late, or to be
                                   compared */
    bool verify;                /* both must have come */
    struct plenum_lease *third; /* asked of one more loader, as these two are not alike; or NULL */
    uint64_t differs;           /* in this sample of the batch */
    bool ready;
    uint32_t failed; /* loaders that could not make it, a bit each: SESSIONS_MAX */
    int code; /* of a batch that failed; then with a sentence. Not ready: what the last loader said */
    uint32_t substituted;
    struct plenum_error err;
    struct entry *next;
};

/** Names of samples or classes that somebody waits for. */
struct name_ask {
    enum wire_named of;
    const uint32_t *samples; /* [count]; NULL: all classes in their order */
    char **names;            /* [count]: those below `have` are there */
    uint32_t count, sent, have;
    uint64_t base; /* request of the first sample */
    int code;      /* < 0: it has failed, and why */
    bool over;     /* all are there, or it has failed: it is in no list any more */
    struct plenum_error err;
    struct name_ask *next;
};

enum session_state {
    SESSION_DOWN,    /* no connection; the next try at retry_ns */
    SESSION_HELLO,   /* HELLO sent */
    SESSION_OPENING, /* OPEN sent */
    SESSION_OPEN,
};

/** Mean and mean deviation of times, of the last dozen or so. */
struct spread {
    uint64_t mean_ns, dev_ns;
};

/** What a person named: one loader, or a name that stands for one or several (lookup.c). */
struct named {
    struct address address; /* the own loader's may become another, under mu */
    bool is_name;           /* constant: it is looked up, again and again */
    bool both;              /* it has addresses of two families, */
    unsigned turn;          /* and which are taken */
    uint64_t looked_ns;     /* when it was looked up last */
    struct plenum_error error; /* why it was of no avail, "" when it was */
};

/** The connection to one loader. */
struct session {
    struct plenum_stream *stream;
    const struct address *address; /* of what was named, or `own`; NULL: no loader's, all else is void */
    struct address own;            /* where a name stands for it */
    int of;                        /* what was named for it */
    bool unlisted; /* the name stands for it no more: it is asked only where no other can be */
    uint32_t bit; /* of it among the stream's */
    enum session_state state;
    struct frame_conn conn; /* fd -1 when SESSION_DOWN */
    struct slot_set *set;   /* or NULL */
    char loader_name[WIRE_NAME_MAX];
    uint16_t loader_minor; /* of the protocol */
    uint32_t threads, io_threads;
    bool wants_write;
    bool sent_fds; /* descriptors, which a loader never does: it is not tried again */
    int broken; /* what made it useless, which the next tick ends it for; or 0 */
    uint64_t alone_ns;  /* the stream's, when this connection was begun */
    uint64_t heard_ns;  /* the last byte that came */
    uint64_t asked_ns;  /* the last time we began to wait for something */
    uint64_t pinged_ns; /* the last STATS sent, */
    uint64_t ping;      /* its request; 0: it was answered */
    struct spread pong; /* how long an answer to it takes, */
    unsigned odd_pongs; /* and how many of the last were so late that they did not count */

    /* Work. */
    unsigned filling;     /* slots that it was asked to fill */
    unsigned cancelling;  /* that it was asked to leave alone */
    uint64_t since_ns;    /* when it answered last, or began to have work */
    uint64_t service_ns;  /* time that it takes for a batch while it has work; 0: not known */
    uint64_t avoid_ns;    /* it has failed to make a batch: ask others until then, */
    uint64_t avoid_for_ns; /* which is so long */

    /* A batch whose bytes are coming. */
    struct plenum_lease *receiving; /* or NULL */
    uint64_t received;
    struct wire_done done;
    uint64_t discard; /* bytes that come of a batch which nobody wants any more */

    /* By TCP: requests that were called back and not answered. Their slots are others' already. */
    uint64_t cancelled[SLOTS_MAX];

    /* How it gets another connection. */
    uint64_t away_ns;  /* since when it is not open, where it is not */
    unsigned turn;     /* among the addresses of its host */
    uint64_t retry_ns; /* SESSION_DOWN: when to try again */
    uint64_t retry_delay_ns;
    struct plenum_error error; /* the last, "" when none */
    int refused;               /* it will not serve us, and this is why; 0: it may */
    bool warned;               /* and the program knows, or that it fails to make batches */
    unsigned failed_openings;  /* in a row: HELLO came, OPENED did not */
};

struct plenum_stream {
    /* Constant once the stream is made. */
    pid_t pid;
    struct plenum_job_info info;
    struct wire_open open;
    struct pipeline pipeline;
    struct named named[ADDRESS_LIST_MAX];
    int num_named;
    bool several; /* there are several loaders, or may be: a name stands for as many as it likes */
    bool own_loader; /* none was named: the one address is the job's own, kept by one of its
                        processes, */
    struct ownloader_key own_key; /* at one of the addresses that this gives, */
    unsigned own_turn;            /* this one; under mu */
    unsigned own_taken;           /* times in a row that it was bound, and nobody listened; under mu */
    uint64_t epochs;
    uint32_t depth;
    uint64_t loader_timeout_ns, silence_ns;
    uint64_t opened_ns;
    enum plenum_split split;
    uint8_t choices[16]; /* the identity without the data set, and without what a part changes */
    double verify_share; /* of batches that two loaders are asked for, which must agree: 0 to 1 */
    bool synthetic; /* PLENUM_SOURCE=synthetic: slots are ready at once, and hold always the same */
    char name[WIRE_NAME_MAX]; /* ours, for the loader's log */
    char job[WIRE_NAME_MAX]; /* what all instances call the job, by which loaders share; or empty */

    atomic_uint refs; /* the program's handle, the I/O thread's list, leases */

    /* Any thread, holding mu. The I/O thread's lock (io.c) comes before it. */
    pthread_mutex_t mu;
    pthread_cond_t changed; /* an entry is ready, the stream is open, or an error has come */

    /* Delivery. */
    bool opened; /* a first OPENED has come: the data set is known */
    bool held; /* nothing is asked for yet: plenum_stream_open_all() is not done */
    struct order order;
    struct order_steps steps;
    uint32_t num_samples, num_classes; /* of the data set */
    uint32_t num_class_names;          /* of the classes: all or 0 */
    uint8_t fingerprint[16], identity[16];
    struct datasum sum;
    struct entry *first, *last;    /* oldest first */
    struct order_place next_place; /* of the entry that is made next, settled */
    struct order_place cursor;     /* behind the last batch that was handed out, not settled */
    uint64_t next_index;
    unsigned leased;
    uint64_t waiting_ns; /* since when the program has waited for a batch; 0: it does not */
    int error_code; /* nothing more will come */
    struct plenum_error error;
    struct plenum_stream_stats stats;
    struct trace *trace; /* or NULL */
    struct plenum_error warnings[WARNINGS_MAX];
    unsigned num_warnings;
    uint64_t next_request;
    struct name_ask *asks; /* the first is asked of the loader; then the next */

    /* For event loops and pinned memory. */
    int ready_fd; /* an eventfd, or -1 until it is asked for */
    bool ready_fd_set;
    plenum_ring_call on_ring; /* constant */
    void *on_ring_arg;        /* constant */
    struct slot_set *shown;   /* rings that the program was told of, the newest first */
    bool closed;              /* plenum_stream_shutdown(): nothing more comes */
    uint64_t closed_ns;       /* when it was */
    unsigned inside;          /* calls that plenum_stream_destroy() has to wait for */

    /* Loaders. */
    struct session sessions[SESSIONS_MAX]; /* FOR_SESSIONS */
    bool looking;                          /* names are being looked up (lookup.c) */
    bool told_full;                        /* that a name stands for more than there is room for */
    bool over;                             /* loaders_fini() */
    struct tls *tls;                           /* for those by TCP, or NULL */
    struct slot_set *remote;                   /* of all sessions by TCP, or NULL */
    struct session *names;                     /* who is asked for names, or NULL */
    uint64_t alone_ns;                         /* since when no loader has answered; 0: one does */
    uint64_t lost_ns;      /* since when a stream that ran has stood; 0: it runs */
    char lost_text[700];   /* why */
    struct spread latency; /* of batches, from RENDER to their being here */
    uint64_t latencies;    /* that it is made of */
    bool wants_keeper;     /* nobody listens at the job's own address: io.c is to see to it */
};

/* loaders.c: all are called with the stream's lock held. */

/** The session of a loader, at `from` or behind it; NULL: there is none. */
struct session *loaders_from(struct plenum_stream *s, struct session *from);
#define FOR_SESSIONS(se, s)                                                                        \
    for (struct session *se = loaders_from(s, (s)->sessions); se; se = loaders_from(s, se + 1))

/** A loader more, of what was named at `of`; NULL: there is room for no more. `own`: its address, or NULL
 * for that which was named. */
struct session *loaders_add(struct plenum_stream *s, int of, const struct address *own);
/** Ask for as many batches as there are free slots and depth allows. */
void loaders_pump(struct plenum_stream *s);
/** Ask for the names that are waited for. */
void loaders_ask_names(struct plenum_stream *s);
/** An entry is of no interest any more: call back what is being rendered for it. */
void loaders_forget(struct entry *e);
/** What time brings: connect, ping, hedge, give up. Returns when to be called next
 * (CLOCK_MONOTONIC, ns). */
uint64_t loaders_tick(struct plenum_stream *s, uint64_t now_ns);
/** The clock jumped (the process was stopped): what was silent meanwhile is not at fault. */
void loaders_forgive(struct plenum_stream *s, uint64_t now_ns);
/** Is every slot in the program's hands, so that waiting would be for ever? */
bool loaders_starved(struct plenum_stream *s);
/** The session that most may be expected of, or NULL when none is open. */
struct session *loaders_first(struct plenum_stream *s);
/** Have loaders opened anew, since `open` has changed. */
void loaders_reopen(struct plenum_stream *s);
/** End all connections for good. */
void loaders_fini(struct plenum_stream *s);
/** Nothing more will come of this stream, for this reason; the first one counts. */
void stream_fail(struct plenum_stream *s, int code, const char *text);

/* What a session tells. */

/** It is open: give it work. */
void loaders_opened(struct session *se);
/** It is DOWN, after it was of no use from `since_ns` on; `ran`: it was open. Its error says why. */
void loaders_lost(struct session *se, bool ran, uint64_t since_ns);
/** It has answered for a slot (FILLING) and let go of it. */
void loaders_done(struct session *se, struct plenum_lease *slot, const struct wire_done *done);

/* session.c: likewise. */

/** Connect, ping, give up; returns when to be called next. `others`: there are other loaders to turn
 * to. */
uint64_t session_tick(struct session *se, uint64_t now_ns, bool others);
/** The connection is readable or writable, or broken. */
void session_ready(struct session *se);
/** Have a free slot of the session's filled with a batch: 0 or -ENOMEM. */
int session_render(struct session *se, struct order_place place, struct plenum_lease *slot);
/** Call back what is being rendered into a slot. The slot is free again when the loader has
 * answered, or at once where the loader has no hand in it. */
void session_cancel(struct plenum_lease *slot);
/** Has it not answered for so long that others should be asked? */
bool session_is_silent(const struct session *se, uint64_t now_ns);
/** Send what was put into its buffer. */
int session_flush(struct session *se);
/** The own loader's address was bound, or its queue full, and nobody could be met there: it is
 * believed to be taken when that happens again and again. */
void session_own_is_taken(struct plenum_stream *s);
/** End the connection without telling anybody; `bye`: but the loader. */
void session_close(struct session *se, bool bye);
/** The same, because the loader did something that it must not. */
void session_lose(struct session *se, const char *text);
/** A time in a spread. */
void spread_add(struct spread *s, uint64_t ns);
/** Drop one reference of a slot set. */
void slot_set_unref(struct slot_set *set);
/** In a forked child: let go of the memory of rings, which would stay after the program's end; but for
 * those of which the program holds batches. */
void slot_sets_leave(struct plenum_stream *s);

/* lookup.c */

/** Look up the names, and make the sessions: 0, or -errno when there is not one. Without the lock, before the
 * stream is anybody else's. */
int lookup_first(struct plenum_stream *s, struct plenum_error *err);
/** Have those looked up whose time has come, and end sessions of loaders that they do not stand for any more.
 * Returns when to be called next. With the lock held. */
uint64_t lookup_tick(struct plenum_stream *s, uint64_t now_ns);
/** How often; a test shortens it. */
extern uint64_t lookup_every_ns;

/* io.c */

/** Let the I/O thread (started with the first stream) serve the stream: 0 or -errno. */
int io_add(struct plenum_stream *s, struct plenum_error *err);
/** Afterwards the I/O thread does not touch it any more. Not with the stream's lock held. */
void io_remove(struct plenum_stream *s);
/** Have loaders_tick() called soon. With the stream's lock held or not. */
void io_poke(void);
/** Watch, or stop watching, a connection. With the stream's lock held. */
int io_watch(struct session *se, bool write);
/** For a connection that is not closed here: it would be told of for ever. */
void io_unwatch(int fd);

/* stream.c */

/** As plenum_stream_open(); `held`: nothing is asked for until stream_release(). */
int stream_open(const struct plenum_job_info *info, const struct plenum_stream_options *options,
                bool held, struct plenum_stream **ret, struct plenum_error *err);
/** Begin to prefetch; with `span` steps of split = file that the instances have agreed on. */
void stream_release(struct plenum_stream *s, uint64_t span);

/** Something that plenum_stream_next() or another call may be waiting for has changed. With the
 * lock held. */
void stream_changed(struct plenum_stream *s);
/** Drop one reference; the last one frees. Without the stream's lock. */
void stream_unref(struct plenum_stream *s);
/** Remember one sentence for plenum_stream_take_warning(). With the lock held. */
void stream_warn(struct plenum_stream *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

/* SPDX-License-Identifier: MIT */
/* loader_session_core.h - a session, only for loader_session.c and loader_session_input.c. Call
 * everything with the stream's lock held. */
#ifndef LIBDIST_LOADER_SESSION_CORE_H
#define LIBDIST_LOADER_SESSION_CORE_H

#include "common/net/frame.h"
#include "common/util/message.h"
#include "common/util/state.h"
#include "libdist/loader_session.h"
#include "libdist/rtt.h"

enum session_state {
    SESSION_DOWN,    /* no connection; next attempt at retry_ns */
    SESSION_HELLO,   /* HELLO sent */
    SESSION_FIELDS,  /* FIELDS sent, if the stream has fields */
    SESSION_OPENING, /* OPEN sent */
    SESSION_OPEN,
};

struct loader_session {
    const struct session_setup *setup;
    struct loader *loader; /* receives our events */
    const struct address *address;
    enum session_state state;
    struct frame_conn conn; /* fd -1 when SESSION_DOWN */
    struct slot_set *set;   /* or NULL */
    char loader_name[WIRE_NAME_MAX];
    uint16_t loader_minor; /* minor version of its protocol */
    bool wants_write;
    bool sent_fds;      /* the peer sent descriptors, which no loader does: do not reconnect */
    int broken;         /* error after which the next tick closes the connection; or 0 */
    uint64_t heard_ns;  /* time of the last byte received */
    uint64_t asked_ns;  /* time when we last began to wait for something */
    uint64_t pinged_ns; /* time of the last STATS sent */
    uint64_t ping;      /* request number of the pending STATS; 0: answered */
    struct rtt pong;    /* time that the loader takes to answer STATS */
    unsigned odd_pongs; /* consecutive outliers, which the estimate leaves out */

    /* Requests that the loader has not answered. */
    unsigned filling;    /* slots to fill */
    unsigned cancelling; /* slots whose requests were cancelled */
    unsigned naming;     /* names */

    uint64_t batch_bytes; /* size of each batch that the loader renders */

    /* The batch whose bytes are arriving. */
    struct plenum_lease *receiving; /* or NULL */
    uint64_t received;
    struct wire_done done;
    uint64_t discard; /* remaining bytes of a batch that is no longer needed */

    /* Over TCP: cancelled requests without an answer. Their slots have already been reused. */
    uint64_t cancelled[SLOTS_MAX];

    /* For reconnecting. */
    uint64_t away_ns;  /* since when the session has not been open */
    unsigned turn;     /* index of the host's address to try */
    uint64_t retry_ns; /* SESSION_DOWN: time of the next attempt */
    uint64_t retry_delay_ns;
    struct plenum_error error; /* the last error, "" if none */
    int refused;               /* error with which the loader rejects the stream; 0: none */
    unsigned failed_openings;  /* consecutive openings in which HELLO arrived, but OPENED did not */
};

/** Change a session's state. No other function writes it. */
void session_move(struct loader_session *se, enum session_state to);
/** Record that the loader has accepted the stream. */
void session_opened(struct loader_session *se);
/** Record that the loader has answered STATS. */
void session_pong(struct loader_session *se, uint64_t request);

/** End a lost connection. `text` is the reason. */
MESSAGE void session_lose(struct loader_session *se, const char *text);
/** Like session_lose(), after reading or writing has failed with `r`. */
void session_lose_connection(struct loader_session *se, int r);
/** Record that the loader rejects this stream. */
MESSAGE void session_refuse(struct loader_session *se, int code, const char *text);
/** Handle a lack of memory or descriptors in this process, where no other loader can help. */
MESSAGE void session_lack(struct loader_session *se, int code, const char *text);
/** Translate a loader's error code. Codes that plenum_stream_next() uses for the stream's own state
 *  become -EIO, because a program would take them for "not yet" or "all epochs have ended". Numbers
 *  that are not error codes become -EPROTO. */
int session_code(int code);

#endif

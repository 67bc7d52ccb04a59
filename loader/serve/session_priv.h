/* SPDX-License-Identifier: MIT */
/* session_priv.h - one client's connection, shared by the files that implement it:
 *
 *     session_events.c  what happens to it, from accept() to the last task
 *     session_frames.c  handles messages from the client
 *     session_open.c    handles OPEN up to OPENED, and FIELDS
 *     session_send.c    sends answers
 *     session_peer.c    authenticates the client, and probes whether it is alive
 *     session_refuse.c  rejects a client, and logs it
 *     session.c         its states and its end
 *     session_facts.c   what the rest of the loader sees of it
 *
 * Each file calls only files below it. */
#ifndef LOADER_SERVE_SESSION_PRIV_H
#define LOADER_SERVE_SESSION_PRIV_H

#include <uv.h>

#include "common/net/frame.h"
#include "common/util/list.h"
#include "common/util/log.h"
#include "loader/serve/openings.h"
#include "loader/serve/session.h"
#include "loader/serve/session_facts.h"
#include "loader/serve/snapshot.h"
#include "loader/serve/window.h"

enum {
    SEND_LIMIT_MS = 60000,    /* a remote client must receive some of its pixels within this time */
    SLOTS_MAX = 4096,         /* the limit that wire_open_check() enforces */
    ANSWERS_PIECE = 64 << 10, /* produce no more answers while this many bytes wait to be sent */
    ROOM_EVERY_MS = 100,
};

#define NO_SLOT UINT32_MAX

enum client_state { STATE_HELLO, STATE_IDLE, STATE_OPENING, STATE_OPEN, STATE_CLOSING };

struct session {
    struct server *server;
    struct list link; /* link in the server's sessions */
    struct frame_conn conn;
    char name[WIRE_NAME_MAX];     /* from HELLO */
    char user[160];               /* struct session_facts */
    char job[WIRE_NAME_MAX + 24]; /* from HELLO: the streams of a job share its turns */
    struct peer peer;
    enum client_state state; /* only session_move() writes it */
    uint64_t id;
    bool remote;
    bool more; /* frames have arrived that are not handled yet */

    uv_poll_cb on_poll; /* the callback of `poll` */
    /* libuv handles: the session is freed after they are closed. */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles; /* open handles */

    /* The stream. */
    uint64_t open_request;
    struct wire_open open;
    struct wire_slot layout;  /* the layout of `open` */
    struct order_steps steps; /* the steps of `open`, once the data set is open */
    struct render_spec spec;
    struct ring *ring;
    uint64_t ring_bytes; /* this stream's part of server->ring_bytes */
    int ring_fd;         /* the client's descriptor until the ring is created; or -1 */
    uint64_t room_ns;    /* when it began to wait for memory; 0: not waiting */
    struct queue_stream *stream;
    uint64_t opened_ns;
    struct wire_render asked; /* the most recent request */
    bool has_asked;
    uint64_t waited_ns; /* as last reported by the client */
    struct window window;
    unsigned under_way; /* submitted requests that have not finished */
    bool draining;      /* the loader is shutting down */
    bool told;          /* the client has been notified */

    /* A STATUS being answered as fast as the client reads. */
    struct snapshot *status; /* or NULL */
    size_t status_next;
    uint64_t status_request, status_ns;

    /* Remote sessions only: finished requests waiting to be sent, oldest first. */
    struct list answers;
    uint32_t sending;     /* the slot whose pixels are being sent, or NO_SLOT */
    bool busy[SLOTS_MAX]; /* slots in use, from RENDER until the last byte is sent */
    uint64_t sent_ns;     /* when the client last received some of its pixels */
    uint64_t asked_ns;    /* when probing began; 0: not probing */
    uint64_t looked_ns;   /* when session_any_ends_soon() last checked */
    bool may_end;         /* the result of that check */

    struct opening_waiter waiter; /* used in STATE_OPENING */
    bool kept_out;                /* some roots may not be read by this client */
    struct dataset *dataset;
};

/* session.c */

/** Change the state. The table in session.c lists the allowed transitions. */
void session_move(struct session *s, enum client_state to);
/** Close a descriptor that a client has sent, in a thread, because that may block. `arg` is the
 * session. */
void session_close_fd(void *arg, int fd);
/** Like session_close_fd(), if `fd` is not negative. */
void session_drop_fd(struct session *s, int fd);
/** Stop waiting for memory. */
void session_wait_no_longer(struct session *s);
/** Count down the open handles. Callback of each closed handle. */
void session_on_handle_closed(uv_handle_t *handle);
/** In STATE_CLOSING, free the session if no task writes into its ring and no handle is open. */
void session_maybe_free(struct session *s);
/** In STATE_OPEN, record the stream's progress. */
void session_add_point(struct session *s, uint64_t now_ns);

/* session_refuse.c */

/** The fields of a log message about a session. */
struct session_about {
    struct log_field fields[5];
    char user[12], pid[12];
};

/** Fill in the fields of a log message about a session, in the caller's storage. */
const struct log_field *session_about(const struct session *s, struct session_about *a);
/** Write a description of the client into `text`: such as "train.py instance 3 of job 17 (pid
 * 4711)", followed by the address of a TCP client. Returns `text`. */
const char *session_describe(const struct session *s, char *text, size_t size);
/** Returns whether the session's user (or host) has used up its log lines of this minute; the
 * caller then drops the line, which counts as left out (log_limit.h). With --verbose twice, all
 * lines are logged. */
bool session_is_muted(struct session *s);
/** Returns whether a line of this level about a client may be logged now; if so, it is counted. */
bool session_may_log(struct session *s, enum log_level level);
/** Log what happened to a client, such as "refused", once a minute for each user and reason. */
MESSAGE void session_log_once(struct session *s, enum log_level level, const char *what,
                              const char *why);
/** In STATE_HELLO and STATE_IDLE, give the client ten seconds to open a stream, starting now. */
void session_limit_idle(struct session *s);
/** Log the reason, send it to the client, and close the session. */
MESSAGE void session_refuse(struct session *s, uint64_t request, int code, const char *text);
/** Notify a new client that it will not be served. The caller closes the connection. */
void session_refuse_peer(struct session *s, int code, const char *text);
/** Reject a peer that did not authenticate with the key. */
void session_refuse_unauthenticated(struct session *s);

/* session_peer.c */

/** Identify the peer that has connected, and check its quota. If there are too many clients, closes
 * those that have hung up, or the oldest one without a stream. Returns 0, -EACCES or -EUSERS
 * (reject the client), or another -errno. */
int session_check_peer(struct session *s, struct plenum_error *err);
/** Enable TCP keepalives and time limits, and send small messages at once. */
void session_watch_peer(int fd);
/** Returns whether a session of this user (NULL: of any user) will soon release its resources,
 * because it is ending, its client has hung up, or its host has been silent lately. Closes sessions
 * whose clients have hung up, and probes silent hosts. */
bool session_any_ends_soon(struct server *server, const char *user);
/** Called once a second: closes a session whose host did not answer a probe. */
void session_watch_silent(struct session *s, uint64_t now_ns);
/** Returns which streams this client may see. */
struct snapshot_viewer session_viewer(const struct session *s);

/* session_open.c */

/** Handle FIELDS: describe the fields of a data set. */
void session_handle_fields(struct session *s, uint64_t request, struct frame_reader *payload);
/** Handle OPEN. */
void session_handle_open(struct session *s, uint64_t request, struct frame_reader *payload);

/* session_send.c */

/** Wait for frames, once those that arrived are handled, and for space in the socket while bytes
 * are waiting. */
void session_poll(struct session *s);
/** Start to watch sending: close a remote session if its client does not receive the pixels sent to
 * it. */
void session_watch_sending(struct session *s);
/** Send the answer to a finished request, or keep it until earlier answers are sent. Takes
 * ownership of the request. Returns 0 or -ENOMEM. */
int session_answer(struct session *s, struct queue_request *request);
/** Drop the pixels of a cancelled request that has finished but was not sent yet. */
void session_forget_answer(struct session *s, uint64_t request);
/** Close a session whose client does not read its answers. */
void session_close_unread(struct session *s);
/** Send waiting data; if the socket is full, the rest is sent later. May close the session. */
void session_flush(struct session *s);
/** Returns whether an unsent answer has this id. */
bool session_is_being_sent(const struct session *s, uint64_t request);
/** Choose a slot for a batch of a remote client. Returns false if none is free, because the client
 * has requested more batches than it announced in OPEN. */
bool session_find_room(struct session *s, uint32_t *slot);

/* session_frames.c */

/** Handle the frames that have arrived. May close the session. */
void session_readable(struct session *s);

#endif

/* SPDX-License-Identifier: MIT */
/* session_priv.h - one client's connection, shared by the files that implement it:
 *
 *     session.c         its life: from accept() to the last task
 *     session_frames.c  handles messages of the client
 *     session_open.c    from OPEN to OPENED; and what FIELDS asks for
 *     session_send.c    sends answers
 *     session_peer.c    authenticates the client, and probes whether it is alive
 *     session_refuse.c  refuses a client, and logs that */
#ifndef LOADER_SERVE_SESSION_PRIV_H
#define LOADER_SERVE_SESSION_PRIV_H

#include "common/frame.h"
#include "common/log.h"
#include "loader/serve/session.h"
#include "loader/serve/snapshot.h"

enum {
    SEND_LIMIT_MS = 60000,    /* for a remote client to take some of its pixels */
    SLOTS_MAX = 4096,         /* as wire_open_check() has it */
    ANSWERS_PIECE = 64 << 10, /* when so many bytes wait to be sent, no more answers are made */
    ROOM_EVERY_MS = 100,
};

#define NO_SLOT UINT32_MAX

enum state { STATE_HELLO, STATE_IDLE, STATE_OPENING, STATE_OPEN, STATE_CLOSING, STATES };

struct session {
    struct server *server;
    struct list link; /* of the server's sessions */
    struct frame_conn conn;
    char name[WIRE_NAME_MAX];     /* from HELLO */
    char user[160];               /* session_user() */
    char job[WIRE_NAME_MAX + 24]; /* from HELLO: streams of one job share its turns */
    struct peer peer;
    enum state state; /* session_move() writes it */
    uint64_t id;
    bool remote;
    bool more; /* frames have come that are not handled yet */

    /* libuv's: the session is freed after they are closed. */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles; /* open ones */

    /* The stream. */
    uint64_t open_request;
    struct wire_open open;
    struct wire_slot layout;  /* of `open` */
    struct order_steps steps; /* likewise, once the data set is there */
    struct render_spec spec;
    struct ring *ring;
    uint64_t ring_bytes; /* counted in server->ring_bytes */
    int ring_fd;         /* the client's descriptor, until the ring is created; or -1 */
    uint64_t room_ns;    /* since when it waits for room; 0: it does not */
    struct queue_stream *stream;
    uint64_t opened_ns;
    struct wire_render asked; /* the last request */
    bool has_asked;
    uint64_t waited_ns; /* as the client told last */
    struct window window;
    unsigned under_way; /* requests submitted and not yet finished */
    bool draining;      /* the loader is about to end */
    bool told;          /* and the client has been told */

    /* A STATUS that is being answered, as fast as the client reads. */
    struct snapshot *status; /* or NULL */
    size_t status_next;
    uint64_t status_request, status_ns;

    /* Of a remote session: finished requests that wait to be sent, oldest first. */
    struct list answers;
    uint32_t sending;     /* the slot whose pixels are being sent, or NO_SLOT */
    bool busy[SLOTS_MAX]; /* slots from RENDER to the last byte sent */
    uint64_t sent_ns;     /* when the client last received some of it */
    uint64_t asked_ns;    /* since when it is probed; 0: it is not */
    uint64_t looked_ns;   /* when session_ask_if_there() looked last, */
    bool may_end;         /* and what it found */

    struct opening_waiter waiter; /* in STATE_OPENING */
    bool kept_out;                /* there are roots that this client may not read */
    struct dataset *dataset;
};

/* session.c */

/** The next state. The table in session.c says which may follow which. */
void session_move(struct session *s, enum state to);
/** Close a descriptor that a client has sent. */
void session_drop_fd(struct session *s, int fd);
/** The callback of `timer` in all states. */
void session_on_timer(uv_timer_t *timer);
/** In STATE_HELLO and STATE_IDLE: the client has ten seconds from now on. */
void session_limit_idle(struct session *s);
/** Poll for reading, and for writing while bytes wait. */
void session_poll(struct session *s);

/* session_refuse.c */

/** Fields of a message about a session. */
struct session_about {
    struct log_field fields[5];
    char user[12], pid[12];
};

/** The fields of messages about a session, in the caller's storage. */
const struct log_field *session_about(const struct session *s, struct session_about *a);
/** Write the client's name into `text`: "train.py instance 3 of job 17 (pid 4711)", for one by TCP
 * with its address behind it. Returns `text`. */
const char *session_describe(const struct session *s, char *text, size_t size);
/** Log what became of a client ("refused"), once a minute for each user and reason. */
MESSAGE void session_log_once(struct session *s, enum log_level level, const char *what,
                              const char *why);
/** Tell the client why, and close. */
MESSAGE void session_refuse(struct session *s, uint64_t request, int code, const char *text);
/** Tell a client that has just connected that it is not served. The caller closes it. */
void session_refuse_peer(struct session *s, int code, const char *text);
/** Refuse an unauthenticated peer: one without the key. */
void session_refuse_unauthenticated(struct session *s);

/* session_peer.c */

/** Find out who has connected, and check its quota: 0, -EACCES or -EUSERS (refuse it), or
 * -errno. */
int session_check_peer(struct session *s, struct plenum_error *err);
/** Enable TCP keepalives and time limits. */
void session_watch_peer(int fd);
/** Called once a second: closes a session whose host was probed and did not answer. */
void session_watch_silent(struct session *s, uint64_t now_ns);
/** Which streams it may see. */
struct snapshot_viewer session_viewer(const struct session *s);

/* session_open.c */

/** It does not wait for room any more. */
void session_wait_no_longer(struct session *s);
/** Create the ring, or wait for room; then open the data set. */
void session_await_room(struct session *s);
/** Handle FIELDS: describe those of a data set. */
void session_handle_fields(struct session *s, uint64_t request, struct frame_reader *payload);
/** Handle OPEN. */
void session_handle_open(struct session *s, uint64_t request, struct frame_reader *payload);

/* session_send.c */

/** Free answers that were not sent. */
void session_drop_answers(struct session *s);
/** Send the answer to a finished request, or keep it until those before it are sent. Takes the
 * request. -ENOMEM. */
int session_answer(struct session *s, struct queue_request *request);
/** A request was cancelled: if it is finished but not sent, do not send its pixels. */
void session_forget_answer(struct session *s, uint64_t request);
/** Close a session whose client does not read its answers. */
void session_close_unread(struct session *s);
/** Send what waits; later, if the socket is full. May close the session. */
void session_flush(struct session *s);
/** Does an answer that is not sent yet use this id? */
bool session_is_being_sent(const struct session *s, uint64_t request);
/** Choose a slot for a batch of a remote client: false when none is free, because it has requested
 * more than it said in OPEN. */
bool session_find_room(struct session *s, uint32_t *slot);

/* session_frames.c */

/** Handle frames that have come. May close the session. */
void session_readable(struct session *s);

#endif

/* SPDX-License-Identifier: MIT */
/* session_priv.h - one client's connection, for the files that make it up:
 *
 *     session.c         its life: from accept() to the last task
 *     session_frames.c  what the client says
 *     session_open.c    from OPEN to OPENED
 *     session_send.c    what the client is sent
 *     session_peer.c    who the client is, and whether it is there
 *     session_refuse.c  what is said to it and to the log when it is not served */
#ifndef LOADER_SERVE_SESSION_PRIV_H
#define LOADER_SERVE_SESSION_PRIV_H

#include "common/frame.h"
#include "common/log.h"
#include "loader/serve/session.h"
#include "loader/serve/snapshot.h"

enum {
    SEND_LIMIT_MS = 60000,    /* for a remote client to take some of its pixels */
    SLOTS_MAX = 4096,         /* as wire_open_check() has it */
    ANSWERS_PIECE = 64 << 10, /* of answers that wait: then no more are made */
    ROOM_EVERY_MS = 100,
};

#define NO_SLOT UINT32_MAX

enum state { STATE_HELLO, STATE_IDLE, STATE_OPENING, STATE_OPEN, STATE_CLOSING, STATES };

struct session {
    struct server *server;
    struct list link; /* of the server's sessions */
    struct frame_conn conn;
    char name[WIRE_NAME_MAX];     /* the client's own word for itself */
    char user[160];               /* who that is, or whose host: as all that is shared goes by */
    char job[WIRE_NAME_MAX + 24]; /* the client's word: whose streams share the user's turns */
    struct peer peer;
    enum state state; /* session_move() writes it */
    uint64_t id;
    bool remote;
    bool more; /* has sent more than was looked at in this turn */

    /* libuv's; memory lives until all of them are closed. */
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
    int ring_fd;         /* the client's, until there is room for it; or -1 */
    uint64_t room_ns;    /* since when it waits for that; 0: it does not */
    struct queue_stream *stream;
    uint64_t opened_ns;
    struct wire_render asked; /* the last request */
    bool has_asked;
    uint64_t waited_ns; /* what the client told last */
    struct window window;
    unsigned under_way; /* requests submitted and not yet finished */
    bool draining;      /* the loader is about to end */
    bool told;          /* and the client has been told */

    /* A STATUS that is being answered, as fast as the client reads. */
    struct snapshot *status; /* or NULL */
    size_t status_next;
    uint64_t status_request, status_ns;

    /* Of a remote one: finished requests that wait to be sent, oldest first. */
    struct list answers;
    uint32_t sending;     /* the slot whose pixels are on their way, or NO_SLOT */
    bool busy[SLOTS_MAX]; /* slots from RENDER to the last byte sent */
    uint64_t sent_ns;     /* when some of it was taken last */
    uint64_t asked_ns;    /* since when it is being asked whether it is there; 0: it is not */
    uint64_t looked_ns;   /* when session_ask_if_there() looked last, */
    bool may_end;         /* and what it found */

    struct opening_waiter waiter; /* in STATE_OPENING */
    bool kept_out;                /* there are roots that are not this client's */
    struct dataset *dataset;
};

/* session.c */

/** The next state. The table in session.c says which may follow which. */
void session_move(struct session *s, enum state to);
/** Close a descriptor that a client has sent. */
void session_drop_fd(struct session *s, int fd);
/** Of `timer`, which is the session's in all states. */
void session_on_timer(uv_timer_t *timer);
/** Watch for what we wait for: to read, and to write while something waits. */
void session_poll(struct session *s);

/* session_refuse.c */

/** Fields of a message about a session. */
struct session_about {
    struct log_field fields[5];
    char user[12], pid[12];
};

/** What messages about a session carry besides their text, in the caller's storage. */
const struct log_field *session_about(const struct session *s, struct session_about *a);
/** Who that is, for people, into `text`: "job 17 instance 3 (pid 4711)", or with its address. */
const char *session_describe(const struct session *s, char *text, size_t size);
/** Say in the log what became of a client ("refused"), once a minute for all of its user. */
MESSAGE void session_log_once(struct session *s, enum log_level level, const char *what,
                              const char *why);
/** Tell the client why, and close. */
MESSAGE void session_refuse(struct session *s, uint64_t request, int code, const char *text);
/** Tell a client that has just come that it is not served. The caller closes. */
void session_refuse_peer(struct session *s, int code, const char *text);
/** The same of one that has no key, or another. */
void session_refuse_unauthenticated(struct session *s);

/* session_peer.c */

/** Who has connected, and is there room for it? 0, -EACCES or -EUSERS (turn it away), or -errno. */
int session_check_peer(struct session *s, struct plenum_error *err);
/** Have the kernel ask whether the other host is there, as long as nothing is on its way to it. */
void session_watch_peer(int fd);
/** A second has passed: close one that was asked whether it is there, and did not answer. */
void session_watch_silent(struct session *s, uint64_t now_ns);
/** Whose streams it may see. */
struct snapshot_viewer session_viewer(const struct session *s);

/* session_open.c */

/** It is over before there was room. */
void session_wait_no_longer(struct session *s);
/** Take room for the ring, or wait for it; and go on to the data set. */
void session_await_room(struct session *s);
/** OPEN has come. */
void session_handle_open(struct session *s, uint64_t request, struct frame_reader *payload);

/* session_send.c */

/** Free what was not sent. */
void session_drop_answers(struct session *s);
/** Send what has come of a request, or keep it until those before it are sent: takes it.
 * -ENOMEM. */
int session_answer(struct session *s, struct queue_request *request);
/** What is done but not sent yet need not be sent. */
void session_forget_answer(struct session *s, uint64_t request);
/** Close one that does not read its answers. */
void session_close_unread(struct session *s);
/** Send what waits; on the loop's next turn if the socket is full. May close the session. */
void session_flush(struct session *s);
/** Does an answer that is not sent yet use this id? */
bool session_is_being_sent(const struct session *s, uint64_t request);
/** A slot for a remote client's batch: false when it has asked for more at a time than it said. */
bool session_find_room(struct session *s, uint32_t *slot);

/* session_frames.c */

/** Something has come, or more is there than had its turn. May close the session. */
void session_readable(struct session *s);

#endif

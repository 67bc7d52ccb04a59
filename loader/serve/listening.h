/* SPDX-License-Identifier: MIT */
/* listening.h - the sockets that accept the loader's clients. Everything here runs on the loop's
 * thread. */
#ifndef LOADER_SERVE_LISTENING_H
#define LOADER_SERVE_LISTENING_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include <plenum/error.h>

#include "common/net/address.h"
#include "loader/serve/server.h"
#include "loader/serve/users.h"

struct server;

/** A socket that accepts clients. */
struct listener {
    struct listening *all;
    int fd;
    bool remote; /* a TCP socket */
    bool open;   /* the handle is open */
    uv_poll_t poll;
};

/** All sockets of a loader. */
struct listening {
    struct server *server;
    struct listener local, tcp;
    struct address address; /* our socket file, which is removed at the end */
    bool owns_path;
    uv_timer_t pause;       /* while it runs, no client is accepted */
    uint64_t held_until_ns; /* set by listening_hold() */
    int spare_fd;           /* closed for a moment when descriptors run out: accept_and_close() */
};

/** Start without sockets. */
void listening_init(struct listening *l, struct server *server);
/** Attach the listeners to the server's loop, and detach them. */
void listening_attach(struct listening *l);
void listening_detach(struct listening *l);

/** Check the options for TCP. Without a key, TCP peers are not authenticated, so all served data
 * must be open to any peer that can connect. Returns 0, or -EPERM with a message. */
int listening_check(const struct server_options *o, struct plenum_error *err);

/** Open the local socket, or use the one that was handed over. If the options name a user, the
 * socket file is given to `user`. Returns 0, or -errno with a message. */
int listening_open(struct listening *l, const struct user *user, struct plenum_error *err);
/** Read the key and open the TCP socket, if the options name them. Returns 0, or -errno with a
 * message. */
int listening_open_tcp(struct listening *l, struct plenum_error *err);
/** Accept clients from now on. Returns 0 or -errno. */
int listening_start(struct listening *l);

/** Stop accepting clients until listening_resume(), or for `ns` at most. Clients wait in the
 * backlog. */
void listening_hold(struct listening *l, uint64_t ns);
void listening_resume(struct listening *l);

/** Stop accepting clients, close the TCP socket, and remove the socket file. */
void listening_close(struct listening *l);
/** Close the sockets. Call it when the loop has ended. */
void listening_fini(struct listening *l);

#endif

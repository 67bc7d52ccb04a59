/* SPDX-License-Identifier: MIT */
/* comm_tcp.h - the connections between instances of equal local index on different hosts. */
#ifndef LIBDIST_COLLECTIVES_COMM_TCP_H
#define LIBDIST_COLLECTIVES_COMM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { COMM_TCP_MOVES = 4 /* in flight at once, at most */ };

/** Whom to connect with. */
struct comm_tcp_world {
    uint32_t instances;    /* of the job */
    uint32_t hosts, host;  /* number of hosts, and ours */
    const uint32_t *peers; /* [hosts]: the instance on each; ours on our own */
    const char *const
        *addresses; /* [hosts]: where each listens, like those of address_parse_list() */
    const unsigned char *secret; /* [TLS_KEY_BYTES]; NULL: do not encrypt */
    bool (*look)(uint32_t *who); /* has something else failed? Called while waiting */
};

/** Data to send to, and to receive from, the instance on one host. */
struct comm_tcp_part {
    const void *send;
    size_t sent;
    void *recv;
    size_t received;
};

/**
 * Connect with all, and encrypt the connections.
 *
 * Returns 0; -ETIMEDOUT; -ECANCELED: an instance has ended, `*who`; or, with a message, another
 * -errno: we cannot listen.
 */
int comm_tcp_open(const struct comm_tcp_world *world, uint64_t deadline_ns, uint32_t *who,
                  struct plenum_error *err);

/** Is the instance on this host connected? */
bool comm_tcp_has_come(uint32_t host);

/** Begin a collective: its number, from 1. */
void comm_tcp_begin(uint64_t number);

/**
 * Begin to send to each host's instance, and to receive from each, all at once, and do not wait.
 * Both sides know how many bytes there are.
 *
 * Several such moves can be in flight. They finish in the order in which they began, which is the
 * same in all instances.
 *
 * @param parts  [hosts]; ours is ignored. Borrowed, with the data, until the move has finished
 *
 * Errors: those of comm_tcp_finish() except -ETIMEDOUT.
 */
int comm_tcp_start(const struct comm_tcp_part *parts, uint32_t *who);

/**
 * Wait until the oldest move has finished, and continue the others meanwhile.
 *
 * Returns 0; -ETIMEDOUT; or -ECANCELED, with `*who` set: an instance has ended; -EPROTO: instance
 * `*who` has sent other data than it must; or another -errno of its connection.
 */
int comm_tcp_finish(uint64_t deadline_ns, uint32_t *who);

/** Has an instance ended that has not reached this collective? Reads what has arrived. */
bool comm_tcp_look(uint32_t *who);

/** Tell the others that this instance enters no further collectives, because instance `who` has
 * ended; UINT32_MAX: because its program ends. Waits only for a short time. */
void comm_tcp_leave(uint32_t who);

/** Close all connections. */
void comm_tcp_close(void);

#endif

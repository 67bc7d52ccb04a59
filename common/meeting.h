/* SPDX-License-Identifier: MIT */
/* meeting.h - memory that the instances of a job on one host share: they wait for each other there,
 * and pass bytes. Whoever starts the instances makes it; each program joins it. */
#ifndef COMMON_MEETING_H
#define COMMON_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

/** Where a program finds its job's: "unix:@NAME", a socket of whoever started it. */
#define MEETING_VARIABLE "PLENUM_COLLECTIVES"

enum {
    MEETING_ADDRESS_MAX = 96,
    MEETING_ROOM_BYTES = 512 << 10, /* of an instance, twice; memory is taken when it is written */
};

/** What a program has. Opaque. */
struct meeting;
/** What whoever starts the instances has. Opaque. */
struct meeting_server;

/* ---- whoever starts the instances ---- */

/**
 * Programs can join from now on, while meeting_server_dispatch() is called. The memory is made for
 * the first that does.
 *
 * @param name  of the socket, which is to be of no other
 * @param job  what they call the job
 * @param address  the value of MEETING_VARIABLE
 */
int meeting_server_create(const char *name, const char *job, uint32_t instances,
                          struct meeting_server **ret, char address[MEETING_ADDRESS_MAX],
                          struct plenum_error *err);

/** A descriptor that becomes readable when meeting_server_dispatch() has something to do; -1 when
 * `server` is NULL. Borrowed. */
int meeting_server_get_fd(const struct meeting_server *server);

/** Let those in that come, and note which processes have ended. Never blocks; nothing when `server`
 * is NULL. */
void meeting_server_dispatch(struct meeting_server *server);

/** The program of an instance has ended: nobody is to wait for it. Nothing if `server` is NULL. */
void meeting_server_note_end(struct meeting_server *server, uint32_t instance);

void meeting_server_destroy(struct meeting_server *server);

/* ---- a program ---- */

/**
 * Be this instance until the process ends. Only one process of an instance can be. It keeps no
 * descriptor.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 *
 * Errors: -ENOTSUP with a sentence: it is not there, not this user's, or not this job's;
 * -ETIMEDOUT: whoever started the program does not answer.
 */
int meeting_join(const char *address, const char *job, uint32_t instances, uint32_t index,
                 uint64_t deadline_ns, struct meeting **ret, struct plenum_error *err);

/** Free it. The process can join again. */
void meeting_destroy(struct meeting *meeting);

/**
 * Come to the next round, and wait, sleeping, until all have. What an instance wrote before it
 * came, all see afterwards.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 * @param who  written on these errors:
 *
 * -ETIMEDOUT; -EPIPE: the program of instance `who` has ended, and will not come; -EPROTO: instance
 * `who` belongs to another run of the program.
 */
int meeting_come(struct meeting *meeting, uint64_t deadline_ns, uint32_t *who);

/** Has it come to the round that the last meeting_come() was for? */
bool meeting_has_come(const struct meeting *meeting, uint32_t instance);

/**
 * The rooms of a turn, [instances][MEETING_ROOM_BYTES]; each instance writes its own.
 *
 * A turn has one round or more. Its rooms may be read until this instance comes to the first round
 * of the next turn: the one after that has the same.
 */
unsigned char *meeting_next_rooms(struct meeting *meeting);

#endif

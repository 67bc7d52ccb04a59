/* SPDX-License-Identifier: MIT */
/* meeting.h - memory shared by a job's instances on one host, in which they wait for each other and
 * exchange bytes. The launcher creates it, and each program joins it. */
#ifndef COMMON_MEETING_H
#define COMMON_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** Address of the job's server for its programs: "unix:@NAME", a socket of the launcher. */
#define MEETING_VARIABLE "PLENUM_COLLECTIVES"

enum {
    MEETING_ADDRESS_MAX = 96,
    /* per instance and turn (two turns); pages are allocated when written */
    MEETING_ROOM_BYTES = 512 << 10,
};

/** A program's membership. Opaque. */
struct meeting;
/** The launcher's end. Opaque. */
struct meeting_server;

/* ---- the launcher ---- */

/**
 * Let programs join, for as long as meeting_server_dispatch() is called. The memory is created when
 * the first one joins.
 *
 * @param name     the socket's name, unique on this host
 * @param job      id of the job that programs must name
 * @param address  receives the value of MEETING_VARIABLE
 */
int meeting_server_create(const char *name, const char *job, uint32_t instances,
                          struct meeting_server **ret, char address[MEETING_ADDRESS_MAX],
                          struct plenum_error *err);

/** Returns a descriptor that becomes readable when meeting_server_dispatch() has work to do; -1 if
 *  `server` is NULL. Borrowed. */
int meeting_server_get_fd(const struct meeting_server *server);

/** Admit programs that join, and record processes that have ended. Never blocks; no effect if
 *  `server` is NULL. */
void meeting_server_dispatch(struct meeting_server *server);

/** Record that an instance's program has ended, so that others do not wait for it. Ignored if
 * `server` is NULL. */
void meeting_server_note_end(struct meeting_server *server, uint32_t instance);

void meeting_server_destroy(struct meeting_server *server);

/* ---- a program ---- */

/** How a program joins. */
struct meeting_member {
    const char *address; /* the value of MEETING_VARIABLE */
    const char *job;
    uint32_t instances, index;
};

/**
 * Join as this instance until the process ends. Only one process per instance can join. No
 * descriptor stays open.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 *
 * Errors: -ENOTSUP with a message: the memory does not exist, or belongs to another user or job;
 * -ETIMEDOUT: the launcher does not answer.
 */
int meeting_join(const struct meeting_member *self, uint64_t deadline_ns, struct meeting **ret,
                 struct plenum_error *err);

/** Free the membership. The process can join again. */
void meeting_destroy(struct meeting *meeting);

/**
 * Enter the next round, and sleep until all instances have entered it. Writes of an instance before
 * it entered are then visible to all.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 * @param who          written on the errors below
 *
 * -ETIMEDOUT; -EPIPE: the program of instance `who` has ended before entering; -EPROTO: instance
 * `who` belongs to another run of the program.
 */
int meeting_come(struct meeting *meeting, uint64_t deadline_ns, uint32_t *who);

/** Has an instance entered the round of the last meeting_come()? */
bool meeting_has_come(const struct meeting *meeting, uint32_t instance);

/**
 * Returns the rooms of the next turn, [instances][MEETING_ROOM_BYTES]. Each instance writes its
 * own.
 *
 * A turn has one or more rounds. Its rooms may be read until this instance enters the first round
 * of the next turn: the turn after that reuses them.
 */
unsigned char *meeting_next_rooms(struct meeting *meeting);

/**
 * Allocate memory for the first `bytes` of this instance's room of the turn. Without it, writing
 * there could end the process by SIGBUS. Returns 0 or -ENOMEM.
 */
int meeting_reserve(struct meeting *meeting, size_t bytes);

#endif

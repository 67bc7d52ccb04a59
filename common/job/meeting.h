/* SPDX-License-Identifier: MIT */
/* meeting.h - memory shared by a job's instances on one host, in which they wait for each other and
 * exchange bytes. The launcher creates it, and each program joins it. */
#ifndef COMMON_MEETING_H
#define COMMON_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

/** Address of the job's server for its programs: "unix:@NAME", a socket of the launcher. */
#define MEETING_VARIABLE "PLENUM_COLLECTIVES"

/** Set if the job has several hosts that use memory and TCP: the number of instances of each host,
 * in rank order, and the addresses of those with our local index, as in
 * "2=tcp:10.1.0.1:4000;3=tcp:10.1.0.2:4000". */
#define MEETING_HOSTS_VARIABLE "PLENUM_COLLECTIVES_HOSTS"

/** Variable that says how instances wait for each other: "spin", "yield" or "sleep". If it is not
 * set, that depends on the number of cores. */
#define MEETING_WAIT_VARIABLE "PLENUM_COLLECTIVES_WAIT"

enum {
    MEETING_ADDRESS_MAX = 96,
    MEETING_SAID_BYTES = 256, /* maximum bytes in a call of meeting_meet() */
    MEETING_ROOMS = 8,        /* per instance; pages are allocated when written */
    MEETING_ROOM_BYTES = 256 << 10,
    MEETING_CPUS = 1024,
    MEETING_SECRET_BYTES = 32,
};

/** A program's membership. Opaque. */
struct meeting;
/** The launcher's end. Opaque. */
struct meeting_server;

/* ---- the launcher ---- */

/** Write the address of the server with this name. */
void meeting_server_address(const char *name, char ret[MEETING_ADDRESS_MAX]);

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

/** Give the programs that join this secret of the job, too. */
void meeting_server_set_secret(struct meeting_server *server,
                               const unsigned char secret[MEETING_SECRET_BYTES]);

/** Returns a descriptor that becomes readable when meeting_server_dispatch() has work to do; -1 if
 *  `server` is NULL. Borrowed. */
int meeting_server_get_fd(const struct meeting_server *server);

/** Admit programs that join, and record processes that have ended. Never blocks; no effect if
 *  `server` is NULL. */
void meeting_server_dispatch(struct meeting_server *server);

/** Record that an instance's program has ended, so that others do not wait for it. Ignored if
 * `server` is NULL. */
void meeting_server_note_end(struct meeting_server *server, uint32_t instance);

/**
 * Returns when the process that had joined for this instance was seen to have ended
 * (CLOCK_MONOTONIC). Ends are seen in their order. 0: it is running, was never seen, or `server` is
 * NULL.
 *
 * @param ret_pid  receives the process; 0 if the result is 0
 */
uint64_t meeting_server_get_end(const struct meeting_server *server, uint32_t instance,
                                pid_t *ret_pid);

void meeting_server_destroy(struct meeting_server *server);

/* ---- a program ---- */

/** How a program joins. */
struct meeting_member {
    const char *address; /* the value of MEETING_VARIABLE */
    const char *job;
    uint32_t instances, index;
    bool patient;          /* the server may not have been created yet */
    unsigned char *secret; /* [MEETING_SECRET_BYTES], for the job's secret; or NULL */
};

/**
 * Join as this instance until the process ends. Only one process per instance can join. No
 * descriptor stays open.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 *
 * Errors, each with a message: -ENOTSUP: the memory does not exist, belongs to another user or job,
 * or is used by another process of this instance; -ETIMEDOUT: the launcher does not answer;
 * -ENOMEM.
 */
int meeting_join(const struct meeting_member *self, uint64_t deadline_ns, struct meeting **ret,
                 struct plenum_error *err);

/** Let the others know that this process enters no more rounds, as if it had ended. */
void meeting_leave(struct meeting *meeting);

/** Free the membership. The process can join again. */
void meeting_destroy(struct meeting *meeting);

/**
 * Also end waits if something outside of this memory fails: `look` is called from time to time
 * while this process waits, and returns true after it has set `*who`. The wait then returns
 * -ECANCELED with that number.
 */
void meeting_set_look(struct meeting *meeting, bool (*look)(uint32_t *who));

/** Announce that this process enters no further rounds, because of `who`. The others' waits for it
 * return -ECANCELED with that number. */
void meeting_give_up(struct meeting *meeting, uint32_t who);

/** Check, without waiting, whether a wait in the present collective would fail. Returns 0, -EPIPE
 * or -ECANCELED. */
int meeting_check(const struct meeting *meeting, uint32_t *who);

/**
 * Enter the next round, and wait until all instances have entered it. Writes of an instance before
 * it entered are then visible to all.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 * @param who          written on the errors below
 *
 * -ETIMEDOUT; -EPIPE: the program of instance `who` has ended before entering; -EPROTO: instance
 * `who` belongs to another run of the program; -ECANCELED: see meeting_give_up().
 */
int meeting_come(struct meeting *meeting, uint64_t deadline_ns, uint32_t *who);

/**
 * Enter the next round with a few bytes for the others, wait like meeting_come(), and read the
 * bytes of all. Every collective begins with this call. When it returns, all instances have ended
 * their earlier collectives, and no room is in use.
 *
 * @param mine  [bytes], at most MEETING_SAID_BYTES; as many in all instances
 * @param all   [instances][bytes]
 */
int meeting_meet(struct meeting *meeting, const void *mine, size_t bytes, void *all,
                 uint64_t deadline_ns, uint32_t *who);

/**
 * Begin to move bytes, after meeting_meet(): every instance enters `rounds` more rounds with
 * meeting_enter(), which does not wait. Rounds are counted from 1 here.
 */
void meeting_begin(struct meeting *meeting, uint64_t rounds);

/** Enter the next round. What was written before is then visible to those that await the round. */
void meeting_enter(struct meeting *meeting);

/** Wait until an instance has entered a round of this collective. Returns like meeting_come(). */
int meeting_await(struct meeting *meeting, uint32_t instance, uint64_t round, uint64_t deadline_ns,
                  uint32_t *who);

/** Returns whether the instance has entered the round that this process last waited for. */
bool meeting_has_come(const struct meeting *meeting, uint32_t instance);

/** Returns the bytes of a room that are used: a share of the processor's cache, at most
 * MEETING_ROOM_BYTES and a multiple of 4096. The same in all instances. */
size_t meeting_room_bytes(const struct meeting *meeting);

/** Returns one of an instance's MEETING_ROOMS rooms. Only that instance writes to
 * them. */
unsigned char *meeting_room(const struct meeting *meeting, uint32_t instance, unsigned room);

/**
 * Allocate memory for this instance's first `rooms` rooms, and for `bytes` of each. Without it,
 * writing there could end the process by SIGBUS. Returns 0 or -ENOMEM.
 */
int meeting_reserve(struct meeting *meeting, unsigned rooms, size_t bytes);

#endif

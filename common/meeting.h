/* SPDX-License-Identifier: MIT */
/* meeting.h - memory that the instances of a job on one host share: they wait for each other there, and
 * pass bytes. Whoever starts the instances makes it; each program joins it. */
#ifndef COMMON_MEETING_H
#define COMMON_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** Where a program finds its job's: a path that means something on this host, to this user, while its
 * maker lives. */
#define MEETING_VARIABLE "PLENUM_COLLECTIVES"

enum {
    MEETING_PATH_MAX = 48,
    MEETING_ROOM_BYTES = 512 << 10, /* of an instance, twice; memory is taken when it is written */
};

struct meeting;

/** Whoever does not say the same at a round does something else there. */
struct meeting_topic {
    uint64_t what, detail, bytes;
};

/* ---- whoever starts the instances ---- */

/** `job` is the job's name, `path` the value of MEETING_VARIABLE. 0 or -errno. */
int meeting_create(const char *job, uint32_t instances, struct meeting **ret,
                   char path[MEETING_PATH_MAX]);
/** The program of an instance has ended: nobody is to wait for it. Nothing when `meeting` is NULL. */
void meeting_note_end(struct meeting *meeting, uint32_t instance);
/** Also ends what meeting_join() began, which a process can do again then. */
void meeting_destroy(struct meeting *meeting);

/* ---- a program ---- */

/**
 * Be this instance until the process ends. Only one process of an instance can be.
 *
 * Errors: -ENOTSUP with a sentence: it is not there, not this user's, or not this job's.
 */
int meeting_join(const char *path, const char *job, uint32_t instances, uint32_t index,
                 struct meeting **ret, struct plenum_error *err);

/**
 * Come to the next round, and wait, sleeping, until all have. What an instance wrote before it came, all
 * see afterwards.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 * @param who  written on these errors:
 *
 * -ETIMEDOUT; -EPIPE: the program of instance `who` has ended, and will not come; -EPROTO: instance `who` came
 * with another topic, or belongs to another run of the program.
 */
int meeting_come(struct meeting *meeting, const struct meeting_topic *topic, uint64_t deadline_ns,
                 uint32_t *who);

/** Has it come to the round that the last meeting_come() was for? */
bool meeting_has_come(const struct meeting *meeting, uint32_t instance);
/** What instance `who` came with, after -EPROTO. */
struct meeting_topic meeting_get_topic(const struct meeting *meeting, uint32_t who);

/**
 * The rooms of a turn, [instances][MEETING_ROOM_BYTES]; each instance writes its own.
 *
 * A turn has one round or more. Its rooms may be read until this instance comes to the first round of the
 * next turn: the one after that has the same.
 */
unsigned char *meeting_take_turn(struct meeting *meeting);

#endif

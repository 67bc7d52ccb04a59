/* SPDX-License-Identifier: MIT */
/* meeting_priv.h - layout of the shared memory, and the messages to get it: shared by meeting.c
 * (programs) and meeting_server.c (the launcher). */
#ifndef COMMON_MEETING_PRIV_H
#define COMMON_MEETING_PRIV_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/meeting.h"
#include "common/util/util.h"

/* Version of the layout and the messages. */
enum { MEETING_LAYOUT = 3, MEETING_UNIT_BYTES = 4096, MEETING_JOB_MAX = 64 };

static const char meeting_magic[8] = {'p', 'l', 'n', 'm', 'm', 'e', 'e', 't'};

struct meeting_slot {
    _Atomic uint64_t came;    /* number of rounds entered */
    _Atomic uint32_t ended;   /* the program started for this instance has ended */
    _Atomic uint32_t present; /* a process has joined and not ended */
    uint64_t first[2];        /* the process's first round; written in even and odd rounds */
};

struct meeting_shared {
    _Atomic uint32_t woken; /* futex that waiters sleep on */
    uint32_t unused[15];
    struct meeting_slot slots[];
};

/* A question and its answer are one datagram each. The answer carries the memory, or the reason why
 * there is none. Fields up to `version` never change. */
struct meeting_question {
    char magic[8];
    uint32_t version, instances, index;
    char job[MEETING_JOB_MAX];
};

enum meeting_refusal { MEETING_OTHER_USER, MEETING_OTHER_JOB, MEETING_TAKEN, MEETING_NO_MEMORY };

struct meeting_answer {
    char magic[8];
    uint32_t version;
    uint32_t refusal; /* enum meeting_refusal, if there is no memory */
    uint32_t pid;     /* MEETING_TAKEN: the process that has joined */
    int32_t error;    /* MEETING_NO_MEMORY: errno */
};

static inline size_t meeting_slots_bytes(uint32_t instances)
{
    return align_up(sizeof(struct meeting_shared) + instances * sizeof(struct meeting_slot),
                    MEETING_UNIT_BYTES);
}

static inline size_t meeting_bytes(uint32_t instances)
{
    return meeting_slots_bytes(instances) + 2 * (size_t)instances * MEETING_ROOM_BYTES;
}

/** Wake the waiters, so that they check again. */
void meeting_wake(struct meeting_shared *shared);

#endif

/* SPDX-License-Identifier: MIT */
/* meeting_priv.h - layout of the shared memory, and the messages to get it: shared by meeting.c,
 * meeting_rounds.c and meeting_wait.c (programs) and meeting_server.c (the launcher). */
#ifndef COMMON_MEETING_PRIV_H
#define COMMON_MEETING_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/job/meeting.h"
#include "common/util/util.h"

/* Version of the layout and the messages. */
enum { MEETING_LAYOUT = 5, MEETING_UNIT_BYTES = 4096, MEETING_JOB_MAX = 64, MEETING_LINE = 64 };

static const char meeting_magic[8] = {'p', 'l', 'n', 'm', 'm', 'e', 'e', 't'};

/* What an instance says when a collective begins. */
struct meeting_said {
    _Alignas(MEETING_LINE) uint64_t first, round; /* the process's first round, and this one */
    unsigned char bytes[MEETING_SAID_BYTES];
};

/* An instance's part, in its own cache lines. Others write nothing to it but `sleepers`; the
 * launcher writes `ended` and `present`; the instance clears `present` if it leaves early. */
struct meeting_slot {
    _Alignas(MEETING_LINE) _Atomic uint64_t came; /* number of rounds entered; a futex */
    _Atomic uint32_t sleepers;                    /* instances that sleep until `came` changes */
    _Atomic uint32_t culprit; /* 1 + the instance whose end this one has noticed; 0: none */
    _Atomic uint32_t gave_up; /* 1 + the number given to meeting_give_up(); 0: it was not called */
    _Alignas(MEETING_LINE) _Atomic uint32_t ended; /* the instance's program has ended */
    _Atomic uint32_t present;                      /* a process has joined and not ended */
    uint64_t turn;                                 /* number of calls of meeting_meet() */
    _Alignas(MEETING_LINE) uint64_t cpus[MEETING_CPUS / 64]; /* those that the process may use */
    uint32_t quota;                                          /* and how many of them at a time */
    struct meeting_said said[2];                             /* in odd and even turns */
};

struct meeting_shared {
    _Alignas(MEETING_LINE) uint32_t room_bytes; /* chosen by the launcher */
    struct meeting_slot slots[];
};

/* A program's membership. */
struct meeting {
    struct meeting_shared *shared;
    size_t bytes;
    uint32_t instances, index;
    uint64_t first, round; /* this process's first and current round */
    uint64_t base, last;   /* of the collective: the round before its first, and its last */
    uint64_t awaited;      /* the round that was last waited for */
    uint64_t turn;
    bool (*look)(uint32_t *who);    /* meeting_set_look(); or NULL */
    size_t reserved[MEETING_ROOMS]; /* bytes of our rooms that have memory */
    /* How to wait (meeting_wait.c). */
    uint64_t awake_ns; /* before sleeping; 0: sleep at once */
    bool yields;
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
    uint32_t refusal;                           /* enum meeting_refusal, if there is no memory */
    uint32_t pid;                               /* MEETING_TAKEN: the process that has joined */
    int32_t error;                              /* MEETING_NO_MEMORY: errno */
    unsigned char secret[MEETING_SECRET_BYTES]; /* with the memory; zeros: there is none */
};

static inline size_t meeting_slots_bytes(uint32_t instances)
{
    return align_up(sizeof(struct meeting_shared) + instances * sizeof(struct meeting_slot),
                    MEETING_UNIT_BYTES);
}

static inline size_t meeting_bytes(uint32_t instances)
{
    return meeting_slots_bytes(instances) + (size_t)instances * MEETING_ROOMS * MEETING_ROOM_BYTES;
}

/** Has an instance entered this round? */
static inline bool meeting_has(const struct meeting_slot *slot, uint64_t round)
{
    return atomic_load_explicit(&slot->came, memory_order_acquire) >= round;
}

/** Tell the other instances which CPUs this process may use. */
void meeting_wait_publish(struct meeting_slot *own);

/** Choose how to wait, once all instances have published their CPUs. */
void meeting_wait_choose(struct meeting *meeting);

/** Wait without sleeping, as long as that may be worth it. Returns whether the round was
 * entered. */
bool meeting_wait_awake(struct meeting *meeting, const struct meeting_slot *slot, uint64_t round);

/** Wake all waiters, so that they check again. */
void meeting_wake(struct meeting_shared *shared, uint32_t instances);

#endif

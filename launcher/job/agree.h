/* SPDX-License-Identifier: MIT */
/* agree.h - how all instances of a job agree on the step at which they stop. Pure: no messages, no
 * time.
 *
 * plenumrun proposes a step that no instance is known to have begun. The shim of each instance
 * answers at once: either it promises that its program does not begin this step or a later one
 * before there is a decision, or it refuses, because the program has begun such a step. When all
 * have promised, the step is decided. If one has refused, a later step is proposed.
 *
 *   Agreement: a decision needs the promise of every instance, and a program stops only at a
 *   decided step. Proposals are numbered, and an answer counts only for the proposal that it names.
 *   No deadlock: a program waits only at the proposed step. All others can still reach it, because
 *   the steps below need only programs that have not passed it. After a refusal, the next proposal
 *   frees the programs that wait.
 *   Termination: the distance to the proposed step doubles with each refusal, so it soon exceeds
 *   what programs do within a round trip. */
#ifndef LAUNCHER_AGREE_H
#define LAUNCHER_AGREE_H

#include <stdbool.h>
#include <stdint.h>

enum agree_state { AGREE_IDLE, AGREE_PROPOSED, AGREE_DECIDED };

/** What to do after an event. */
enum agree_action {
    AGREE_NOTHING,
    AGREE_PROPOSE, /* send `proposal` and `step` to all instances */
    AGREE_DECIDE   /* send `step` to them as decided */
};

struct agree_rank {
    uint64_t asked; /* 1 + the last step that it is known to have asked about; 0: none */
    bool answered;  /* the current proposal */
    bool finished;  /* its program has ended, so it begins no more steps */
};

struct agreement {
    enum agree_state state;
    struct agree_rank *ranks; /* [count]; borrowed, zero-initialised */
    uint32_t count;
    uint64_t proposal; /* number of the current proposal, from 1 */
    uint64_t step;     /* the first step that must not begin */
    uint64_t margin;   /* distance to the latest step */
    /* Counts over the ranks, so that an answer takes constant time. */
    uint32_t waiting; /* have not answered the current proposal */
    uint32_t refused; /* have refused it */
};

/** Note that an instance is about to begin a step (`asked` is 1 + its number). */
void agree_note_step(struct agreement *a, uint32_t rank, uint64_t asked);

/** Returns 1 + the latest step that any instance is known to have asked about; 0: none. */
uint64_t agree_get_latest(const struct agreement *a);

/** Has any instance asked about a step? Otherwise, there is nothing to agree on. */
bool agree_is_possible(const struct agreement *a);

/** Begin: make the first proposal. Only if idle, and possible. */
enum agree_action agree_begin(struct agreement *a);

/** Note that an instance has accepted or refused the proposal with this number. Answers to earlier
 * proposals are ignored. */
enum agree_action agree_answer(struct agreement *a, uint32_t rank, uint64_t proposal,
                               bool promised);

/** Note that an instance's program has ended. It has then refused the current proposal if it has
 * begun that step, and otherwise accepted it; later proposals need no answer from it. */
enum agree_action agree_finish(struct agreement *a, uint32_t rank, uint64_t asked);

#endif

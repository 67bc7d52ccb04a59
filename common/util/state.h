/* SPDX-License-Identifier: MIT */
/* state.h - a state machine as a table: which states follow which, and what holds in each.
 *
 * The object keeps its state in its own enum, which debuggers print by name. One function
 * writes that member, and reports each move here:
 *
 *     static const struct state_row door_states[] = {
 *         [DOOR_CLOSED] = {"closed", STATE(DOOR_OPEN) | STATE(DOOR_LOCKED)},
 *         [DOOR_OPEN] = {"open", STATE(DOOR_CLOSED)},
 *         [DOOR_LOCKED] = {"locked", STATE(DOOR_CLOSED)},
 *     };
 *     static const struct state_machine door_machine = {
 *         .name = "door", .states = door_states, .count = ARRAY_LEN(door_states)};
 *
 *     static void door_move(struct door *door, enum door_state to)
 *     {
 *         enum door_state from = door->state;
 *
 *         door->state = to;
 *         state_moved(&door_machine, door, door->number, from, to);
 *     }
 *
 * A move that is not in the table is a bug in Plenum, so the checks are assertions. A move that
 * another process or a user can request has to be rejected before it gets here. */
#ifndef COMMON_STATE_H
#define COMMON_STATE_H

#include <stdbool.h>

/** The bit of a state in `next`. */
#define STATE(state) (1U << (state))

struct state_row {
    const char *name;
    unsigned next; /* the states that may follow; 0: this is the last one */
};

struct state_machine {
    const char *name; /* the kind of object, such as "instance" */
    const struct state_row *states;
    unsigned count; /* number of states, at most 32 */
    /** Is the object consistent with its state? Called after each move. NULL: always. */
    bool (*holds)(const void *object);
    /** Returns whether this thread holds the lock that guards the state. NULL: one thread owns the
     * object. */
    bool (*is_locked)(const void *object);
    /** Writes one line per move, such as state_log(). NULL: moves are not traced. */
    void (*trace)(const char *machine, unsigned number, const char *from, const char *to);
};

/** May `to` follow `from`? */
bool state_may_follow(const struct state_machine *machine, unsigned from, unsigned to);

/** Check that the object with this number was allowed to move, and trace the move. */
void state_moved(const struct state_machine *machine, const void *object, unsigned number,
                 unsigned from, unsigned to);

/** A trace() function that writes a line to the log, at the level debug. */
void state_log(const char *machine, unsigned number, const char *from, const char *to);

#endif

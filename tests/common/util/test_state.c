/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <signal.h>
#include <stdio.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/state.h"
#include "common/util/util.h"

enum door_state { DOOR_CLOSED, DOOR_OPEN, DOOR_LOCKED, DOOR_STATES };

struct door {
    enum door_state state;
    bool has_key_turned; /* set if and only if the door is locked */
    bool is_watched;     /* does this thread hold the door's lock? */
};

static char traced[64];

static void trace(const char *machine, unsigned number, const char *from, const char *to)
{
    (void)snprintf(traced, sizeof(traced), "%s %u: %s to %s", machine, number, from, to);
}

static bool holds(const void *object)
{
    const struct door *door = object;

    return door->has_key_turned == (door->state == DOOR_LOCKED);
}

static bool is_locked(const void *object)
{
    return ((const struct door *)object)->is_watched;
}

static const struct state_row states[] = {
    [DOOR_CLOSED] = {"closed", STATE(DOOR_OPEN) | STATE(DOOR_LOCKED)},
    [DOOR_OPEN] = {"open", STATE(DOOR_CLOSED)},
    [DOOR_LOCKED] = {"locked", STATE(DOOR_CLOSED)},
};

static const struct state_machine machine = {.name = "door",
                                             .states = states,
                                             .count = ARRAY_LEN(states),
                                             .holds = holds,
                                             .is_locked = is_locked,
                                             .trace = trace};

static void move(struct door *door, enum door_state to)
{
    enum door_state from = door->state;

    door->state = to;
    state_moved(&machine, door, 7, from, to);
}

Test(state, a_move_follows_the_table)
{
    const bool want[DOOR_STATES][DOOR_STATES] = {{0, 1, 1}, {1, 0, 0}, {1, 0, 0}};

    for (unsigned from = 0; from < DOOR_STATES; from++)
        for (unsigned to = 0; to < DOOR_STATES; to++)
            cr_expect(eq(int, state_may_follow(&machine, from, to), want[from][to]), "%s to %s",
                      states[from].name, states[to].name);
}

Test(state, a_move_is_traced)
{
    struct door door = {.is_watched = true};

    move(&door, DOOR_OPEN);
    cr_expect(eq(str, traced, "door 7: closed to open"));
    move(&door, DOOR_CLOSED);
    door.has_key_turned = true;
    move(&door, DOOR_LOCKED);
    cr_expect(eq(str, traced, "door 7: closed to locked"));
}

Test(state, a_machine_without_functions_only_has_its_table)
{
    const struct state_machine plain = {.name = "door", .states = states, .count = DOOR_STATES};

    traced[0] = '\0';
    state_moved(&plain, NULL, 0, DOOR_CLOSED, DOOR_LOCKED);
    cr_expect(eq(str, traced, ""));
}

/* These are bugs in the program, which abort it in builds with assertions. */

Test(state, a_move_that_the_table_lacks_aborts, .signal = SIGABRT)
{
    struct door door = {.state = DOOR_OPEN, .has_key_turned = true, .is_watched = true};

    move(&door, DOOR_LOCKED);
}

Test(state, a_move_that_breaks_the_invariant_aborts, .signal = SIGABRT)
{
    struct door door = {.is_watched = true};

    move(&door, DOOR_LOCKED);
}

Test(state, a_move_without_the_lock_aborts, .signal = SIGABRT)
{
    struct door door = {.state = DOOR_CLOSED};

    move(&door, DOOR_OPEN);
}

Test(state, an_unknown_state_aborts, .signal = SIGABRT)
{
    (void)state_may_follow(&machine, DOOR_CLOSED, DOOR_STATES);
}

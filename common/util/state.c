/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/state.h"

#include <assert.h>
#include <limits.h>

#include "common/util/log.h"

bool state_may_follow(const struct state_machine *machine, unsigned from, unsigned to)
{
    assert(machine->count <= sizeof(machine->states->next) * CHAR_BIT);
    assert(from < machine->count && to < machine->count);
    return machine->states[from].next & STATE(to);
}

void state_moved(const struct state_machine *machine, const void *object, unsigned number,
                 unsigned from, unsigned to)
{
    bool allowed = state_may_follow(machine, from, to);

    assert(!machine->is_locked || machine->is_locked(object));
    if (machine->trace) /* before the assertion, so that a wrong move is in the log, too */
        machine->trace(machine->name, number, machine->states[from].name, machine->states[to].name);
    assert(allowed);
    assert(!machine->holds || machine->holds(object));
    (void)allowed;
    (void)object;
}

void state_log(const char *machine, unsigned number, const char *from, const char *to)
{
    log_debug("%s %u: %s, was %s", machine, number, to, from);
}

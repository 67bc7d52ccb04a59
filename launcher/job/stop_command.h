/* SPDX-License-Identifier: MIT */
/* stop_command.h - the command that is run repeatedly to find out whether the job must stop, for
 * example because a spot instance is about to be taken away. */
#ifndef LAUNCHER_STOP_COMMAND_H
#define LAUNCHER_STOP_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Set `text` and `poll_ns`; the rest is zero-initialised. */
struct stop_command {
    const char *text; /* for sh(1); borrowed; NULL: there is no command */
    uint64_t poll_ns; /* minimum time between two starts */
    pid_t pid;        /* its guard's process; 0: not running */
    uint64_t next_at; /* when to start it again */
    bool warned;
};

/** Start the command if it is due, and check whether it has ended. Returns true if it ended with
 * status 0, which means that the job must stop. */
bool stop_command_poll(struct stop_command *command, uint64_t now);
/** Returns when to call stop_command_poll() even if no child has ended; UINT64_MAX: never. */
uint64_t stop_command_due(const struct stop_command *command);
/** Take over a command, which may be running. The previous owner keeps its settings. */
struct stop_command stop_command_take(struct stop_command *command);
/** If the command is running, kill it and all that it has started, and wait for their end. */
void stop_command_end(struct stop_command *command);

#endif

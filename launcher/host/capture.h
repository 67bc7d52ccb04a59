/* SPDX-License-Identifier: MIT */
/* capture.h - runs a command or a function in a separate process, for a limited time, and keeps
 * what it prints. */
#ifndef LAUNCHER_CAPTURE_H
#define LAUNCHER_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { CAPTURE_MAX = 65536 };

/** A run, in progress or over. If zero-initialised, it counts as over. */
struct capture {
    pid_t pid; /* the command's guard, which leads its own session; 0: over */
    int fd;    /* the command's output; -1: closed */
    uint64_t until_ns;
    bool late;  /* the command was killed because its time was over */
    int status; /* the command's wait status, unless `late` */
    size_t len; /* bytes of `text`; what exceeds CAPTURE_MAX is dropped */
    char *text; /* standard output and standard error, with a NUL; NULL: nothing */
};

/** Start a program, searched for in PATH. Returns 0 or -errno. When this process or the program
 * ends, the program and all that it has started are killed, in whatever session. If it cannot be
 * executed, its status is 127. */
int capture_command(struct capture *c, char *const *words, uint64_t limit_ns);
/** Like capture_command(), but calls a function in the new process, which has no descriptors except
 * the standard ones. Its result is the exit status. */
int capture_call(struct capture *c, int (*call)(const void *arg), const void *arg,
                 uint64_t limit_ns);

/** Read new output, and kill the command if its time is over. Returns whether the run is over. */
bool capture_poll(struct capture *c, uint64_t now);
/** Wait until all runs in the list are over. */
void capture_wait(struct capture *list, size_t count);

/** Returns whether the command ended in time, with this exit status. The run must be over. */
bool capture_has_exited(const struct capture *c, int status);
/** Returns the last line of output that is not empty, or "". Borrowed; shortens the text. */
const char *capture_last_line(struct capture *c);

/** Kill the command if it is running, and free the text. */
void capture_fini(struct capture *c);

#endif

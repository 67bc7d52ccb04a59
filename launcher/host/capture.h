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

/** Zero-initialised: not started, which counts as over. */
struct capture {
    pid_t pid; /* its guard, which leads its own session; 0: over */
    int fd;    /* readable while it prints */
    uint64_t until_ns;
    bool late;  /* it was killed when its time was over */
    int status; /* its wait status, unless it is late */
    size_t len; /* bytes of `text`; what exceeds CAPTURE_MAX is dropped */
    char *text; /* standard output and standard error, with a NUL; NULL: nothing */
};

/** Start a program, which is found in PATH: 0 or -errno. It is killed when this process ends, with
 * all that it has started in its process group. If it cannot be executed, its status is 127. */
int capture_command(struct capture *c, char *const *words, uint64_t limit_ns);
/** Call a function, whose standard output is captured and whose result is the exit status. It has
 * no other descriptors. */
int capture_call(struct capture *c, int (*call)(const void *arg), const void *arg,
                 uint64_t limit_ns);

/** Read what it has printed so far, and kill it if its time is over: returns whether it is over. */
bool capture_poll(struct capture *c, uint64_t now);
/** Wait until all of these are over. */
void capture_wait(struct capture *list, size_t count);

/** Has it ended with this exit status? */
bool capture_has_exited(const struct capture *c, int status);
/** Returns its last line that is not empty, or "". Shortens the text; borrowed from it. */
const char *capture_last_line(struct capture *c);

/** Kill it if it is running, and free its text. */
void capture_fini(struct capture *c);

#endif

/* SPDX-License-Identifier: MIT */
/* jobloader.h - a loader of the job's own: bound early, started when somebody connects, replaced
 * when it dies or hangs. */
#ifndef COMMON_JOBLOADER_H
#define COMMON_JOBLOADER_H

#include <stddef.h>
#include <sys/types.h>

#include <plenum/error.h>

/** One loader process and the socket that outlives it. Opaque. Threads: one at a time. */
struct jobloader;

/** With what a loader is busy while it starts: it says so by bytes. */
enum jobloader_phase {
    JOBLOADER_SERVES,
    JOBLOADER_UNKNOWN, /* it has not said yet */
    JOBLOADER_SETTINGS,
    JOBLOADER_PIXELS,
    JOBLOADER_ROOTS,
    JOBLOADER_TOPOLOGY,
    JOBLOADER_THREADS,
    JOBLOADER_SOCKETS,
    JOBLOADER_PHASES,
};

/** "reads its settings": what "the loader" does then. */
const char *jobloader_describe_phase(enum jobloader_phase phase);

/** Why no loader comes, or comes late: one sentence. */
typedef void jobloader_report(void *arg, const char *text);

struct jobloader_options {
    const char *plenumd;      /* the program; NULL: jobloader_find_program() */
    const char *address;      /* "unix:@name", or HOST:PORT (an IP address; port 0: any): all who
                                connect there are served by this loader */
    const char *page_address; /* of the status page, HOST:PORT as above; NULL: there is none */
    const char *const *args;  /* further arguments of plenumd, ended by NULL; may be NULL */
    jobloader_report *report; /* NULL: only clients are told, those of a socket of this host */
    void *report_arg;
};

/** Where this user's loader of a job listens on this host, "unix:@plenum-UID-JOB": this form is
 * what plenumctl status looks for. Without a job, "", how all of them begin. Returns `text`. */
char *jobloader_form_address(const char *job, char *text, size_t size);

/**
 * Bind and listen. No process is started yet: that happens in jobloader_dispatch() when the first
 * client has connected. -EADDRINUSE means that another process of this host keeps the job's loader.
 */
int jobloader_create(const struct jobloader_options *options, struct jobloader **ret,
                     struct plenum_error *err);

/** A descriptor that becomes readable when jobloader_dispatch() has something to do. Borrowed. */
int jobloader_get_fd(const struct jobloader *loader);

/** Where it listens, if that is TCP, "tcp:10.1.2.3:40001". Returns `text`. */
char *jobloader_get_address(const struct jobloader *loader, char *text, size_t size);

/** Where its status page is, "http://127.0.0.1:40001/", or "" where it has none. Returns `text`. */
char *jobloader_get_page(const struct jobloader *loader, char *text, size_t size);

/** Start the loader with these variables ("NAME=VALUE" ... NULL) from now on, instead of this
 * process's own; PLENUM_PLENUMD among them names the program. Borrowed; NULL: this process's
 * own. */
void jobloader_set_environment(struct jobloader *loader, char *const *environment);

/** The running loader, 0 when there is none: for a caller that ends all its other children. */
pid_t jobloader_get_pid(const struct jobloader *loader);

/** Start, watch, replace, and answer clients where no loader comes. Never blocks, but for the time
 * that the kernel takes to begin another program. */
void jobloader_dispatch(struct jobloader *loader);

/** End the loader (asked, then killed after `grace_ms` milliseconds) and close the socket. It takes
 * a second more at the most. */
void jobloader_destroy(struct jobloader *loader, int grace_ms);

/** In a forked child: close what was inherited and leave the process alone. */
void jobloader_forget(struct jobloader *loader);

/**
 * Where plenumd lies: $PLENUM_PLENUMD, beside libplenum, beside this program, in the folder that
 * was configured, in $PATH.
 *
 * 0, -ENAMETOOLONG or -ENOENT.
 */
int jobloader_find_program(char *ret, size_t size, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* jobloader.h - a job's own loader: its socket is bound early, and its process is started when a
 * client connects and replaced when it dies or hangs. */
#ifndef COMMON_JOBLOADER_H
#define COMMON_JOBLOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <plenum/error.h>

struct tls;

/** One loader process, and the socket that outlives it. Opaque. Threads: one at a time. */
struct jobloader;

/** Progress of a starting loader, which it reports as bytes. */
enum jobloader_phase {
    JOBLOADER_SERVES,
    JOBLOADER_UNKNOWN, /* nothing reported yet */
    JOBLOADER_SETTINGS,
    JOBLOADER_PIXELS,
    JOBLOADER_ROOTS,
    JOBLOADER_TOPOLOGY,
    JOBLOADER_THREADS,
    JOBLOADER_SOCKETS,
    JOBLOADER_PHASES,
};

/** Returns a clause for use after "the loader", such as "is reading its settings". */
const char *jobloader_describe_phase(enum jobloader_phase phase);

/** Reports why the loader is missing or late. */
typedef void jobloader_report(void *arg, const char *text);

struct jobloader_options {
    const char *plenumd;      /* path of the program; NULL: jobloader_find_program() */
    const char *address;      /* "unix:@name", or HOST:PORT (an IP address; port 0: any) */
    const char *page_address; /* the status page's HOST:PORT, as above; NULL: no page */
    const char *const *args;  /* additional arguments for plenumd, ended by NULL; may be NULL */
    /* The loader's key, borrowed, to answer TCP clients. NULL: their connections are closed. */
    struct tls *tls;
    const char *host; /* this host's name, for messages that are read on other hosts; or NULL */
    /* NULL: report only to clients */
    jobloader_report *report;
    void *report_arg;
    /* Also report why a loader that is being restarted has ended. Costs one more process. */
    bool reports_ends;
};

/** Returns the address of this user's loader for a job on this host, "unix:@plenum-UID-JOB", which
 *  plenumctl status looks for. With an empty job, writes the prefix that all of them share. Returns
 *  `text`. */
char *jobloader_form_address(const char *job, char *text, size_t size);

/**
 * Bind and listen, without starting a process: jobloader_dispatch() does that when the first client
 * connects. -EADDRINUSE means that another process on this host runs the job's loader.
 */
int jobloader_create(const struct jobloader_options *options, struct jobloader **ret,
                     struct plenum_error *err);

/** Returns a descriptor that becomes readable when jobloader_dispatch() has work to do.
 * Borrowed. */
int jobloader_get_fd(const struct jobloader *loader);

/** Write the loader's address "tcp:10.1.2.3:40001", if it uses TCP. Returns `text`. */
char *jobloader_get_address(const struct jobloader *loader, char *text, size_t size);

/** Write the address of the loader's status page, "http://127.0.0.1:40001/", or "" if it has none.
 * Returns `text`. */
char *jobloader_get_page(const struct jobloader *loader, char *text, size_t size);

/** From now on, start the loader with these variables ("NAME=VALUE" ... NULL) instead of this
 * process's own. If PLENUM_PLENUMD is among them, it names the program. Borrowed. NULL: this
 * process's own variables. */
void jobloader_set_environment(struct jobloader *loader, char *const *environment);

/** Returns the process id of the running loader, or 0 if there is none. For callers that kill all
 * other children. */
pid_t jobloader_get_pid(const struct jobloader *loader);

/** Start, watch and replace the loader, and answer clients if it does not start. Blocks only while
 * the kernel starts a program. */
void jobloader_dispatch(struct jobloader *loader);

/** End the loader (SIGTERM, then SIGKILL after `grace_ms` milliseconds) and close the socket. May
 * take a second longer than that. */
void jobloader_destroy(struct jobloader *loader, int grace_ms);

/** In a forked child: close the inherited descriptors and leave the process alone. */
void jobloader_forget(struct jobloader *loader);

/**
 * Find plenumd: $PLENUM_PLENUMD, next to libplenum, next to this program, in the configured folder,
 * in $PATH.
 *
 * Returns 0; -ENAMETOOLONG if the path does not fit; -ENOENT; or -ENOEXEC if PLENUM_PLENUMD names a
 * script that cannot be run.
 */
int jobloader_find_program(char *ret, size_t size, struct plenum_error *err);

#endif

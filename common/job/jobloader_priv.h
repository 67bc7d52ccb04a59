/* SPDX-License-Identifier: MIT */
/* jobloader_priv.h - a job's loader, shared by jobloader.c (its process) and jobloader_clients.c
 * (clients that wait for it). */
#ifndef COMMON_JOBLOADER_PRIV_H
#define COMMON_JOBLOADER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/job/jobloader.h"
#include "common/job/jobspawn.h"
#include "common/net/refuser.h"
#include "common/net/wire.h"

enum { JOBLOADER_ARGS_MAX = 32 };

struct jobloader {
    char *plenumd;
    char *args[JOBLOADER_ARGS_MAX + 5]; /* plenumd's arguments, including argv[0] */
    char host[65];                      /* this host's name in messages; "": not named */
    char *const *environment;           /* borrowed; NULL: this process's */
    jobloader_report *report;           /* or NULL */
    void *report_arg;
    size_t num_args; /* number of permanent arguments, which precede those of one start */
    int listen_fd;
    bool tcp;                /* clients there use TLS */
    struct refuser *refuser; /* answers TCP clients; NULL: their connections are closed */
    bool reports_ends;
    int page_fd;   /* listens for the status page; -1: none */
    int client_fd; /* an accepted client that waits for the starting loader; -1: none */
    int epoll_fd;
    int timer_fd;
    int spare_fd;    /* closed briefly to answer a client when no descriptor is left */
    int lifeline;    /* our end, while a loader runs; otherwise -1 */
    int leash;       /* our end, while a loader starts: closing it kills the loader; otherwise -1 */
    pid_t pid;       /* process ID of the running loader; 0 if there is none */
    int pidfd;       /* pidfd of the running loader; -1 if there is none, or no pidfd */
    int dying;       /* pidfd of a killed loader that is not gone yet; or -1 */
    pid_t gone;      /* its process ID, if we are process 1 without pidfds; or 0 */
    bool beats;      /* the loader is serving */
    bool hung;       /* it is being killed because it hangs */
    unsigned silent; /* seconds of our own time without a heartbeat, or since the start */
    enum jobloader_phase phase;
    /* While the loader's end is observed: */
    struct jobspawn_observer *observer; /* or NULL */
    bool ended;     /* the loader has ended; its wait status is about to arrive */
    int text_fd;    /* the loader's standard error; -1: it uses ours */
    char last[256]; /* last line of the loader's standard error */
    size_t last_len;
    bool last_complete;
    uint64_t started_ns;
    unsigned strikes;
    char failure[WIRE_TEXT_MAX]; /* why the last start failed; "": clients get no error */
    uint64_t retry_ns;           /* no start before this time */
    int backoff_ms;
};

/* ---- jobloader_clients.c ---- */

/** Returns whether a client may be waiting for a loader. Accepts the first client of this user or
 * root into client_fd, and closes connections of other users. Does not accept TCP clients, because
 * only the loader itself checks whether they have the key. */
bool jobloader_find_client(struct jobloader *l);
/** Answer all waiting clients on the loader's behalf, with this error. */
void jobloader_answer_clients(struct jobloader *l, int code, const char *text);

#endif

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
    size_t num_args; /* number of permanent ones, before those of one start */
    int listen_fd;
    bool tcp;                /* clients there use TLS */
    struct refuser *refuser; /* answers TCP clients; NULL: their connections are closed */
    bool reports_ends;
    int page_fd;   /* listens for the status page; -1: none */
    int client_fd; /* an accepted client that waits for the starting loader; -1: none */
    int epoll_fd;
    int timer_fd;
    int spare_fd;    /* closed briefly to answer a client when no descriptor is left */
    int lifeline;    /* to the running loader; -1 if there is none */
    int leash;       /* to a starting loader, which dies when this is closed; -1 if there is none */
    pid_t pid;       /* of the running loader; 0 if there is none */
    int pidfd;       /* of the running loader; -1 if there is none, or the kernel has none */
    int dying;       /* pidfd of a killed loader that is not gone yet; or -1 */
    pid_t gone;      /* its pid if there are no pidfds and we are process 1; or 0 */
    bool beats;      /* the loader is serving */
    bool hung;       /* it is being killed because it hangs */
    unsigned silent; /* seconds of our own time without a heartbeat, or since the start */
    enum jobloader_phase phase;
    /* While its end is observed: */
    struct jobspawn_observer *observer; /* or NULL */
    bool ended;                         /* it has ended; its wait status is about to arrive */
    int text_fd;                        /* its standard error; -1: not observed, it uses ours */
    char last[256];                     /* last line of that */
    size_t last_len;
    bool last_complete;
    uint64_t started_ns;
    unsigned strikes;
    char failure[WIRE_TEXT_MAX]; /* of the last start; "": clients get no error */
    uint64_t retry_ns;           /* no start before this time */
    int backoff_ms;
};

/* ---- jobloader_clients.c ---- */

/** Is a client waiting for a loader? Other users' connections are closed and start none. TCP
 * clients prove that they have the key, but only to the loader itself. */
bool jobloader_find_client(struct jobloader *l);
/** Answer all waiting clients on the loader's behalf, with this error. */
void jobloader_answer_clients(struct jobloader *l, int code, const char *text);

#endif

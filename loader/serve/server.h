/* SPDX-License-Identifier: MIT */
/* server.h - plenumd without its command line: listens, talks, answers. */
#ifndef LOADER_SERVE_SERVER_H
#define LOADER_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"
#include "loader/serve/pin.h"

enum { SERVER_ROOTS_MAX = 64 };

struct server_options {
    const char *socket;       /* "unix:PATH"; NULL when listen_fd is given */
    unsigned socket_mode;     /* of the socket's file; above 0777: 0600, or 0660 with a group */
    const char *socket_group; /* of the socket's file, by name or number; NULL: the process's */
    const char *user;   /* become that user when all sockets are there; NULL: stay who started it */
    const char *listen; /* HOST:PORT or PORT, for clients of TCP; NULL: none */
    /* file of the key that these must have; NULL: none, and this host alone */
    const char *tls_key;
    int listen_fd;       /* a socket that listens already, taken; or -1 */
    int lifeline_fd;     /* its end of file ends the loader, taken; or -1 */
    uint32_t threads;    /* that decode; 0: one a CPU */
    uint32_t io_threads; /* that read; 0: chosen from threads */
    enum pin_policy pin;
    enum image_jpeg jpeg;                /* who decodes JPEGs */
    bool all_cpus;                       /* widen the affinity that was inherited */
    bool own_uid_only;                   /* serve nobody but this process's user */
    const char *roots[SERVER_ROOTS_MAX]; /* serve only what lies below these; roots_create() */
    unsigned num_roots;
    const char *cache_dir;   /* NULL: the default */
    bool no_tiles;           /* keep no notes of where tiles of JPEGs begin */
    uint64_t ring_limit;     /* bytes of all rings together */
    uint64_t memory_budget;  /* bytes of them and of what the loader holds itself; 0: no limit */
    uint32_t cpu_millicores; /* CPU time that may be used; 0: as much as there is */
    uint32_t max_clients;    /* 0: as many as come */
    uint64_t
        drain_ns; /* how long SIGTERM lets batches that are under way be finished; 0: not at all */
    const char *http_address; /* of the status page; NULL: 127.0.0.1 */
    uint32_t http_port;       /* 0: no status page */
    bool no_thumbnails;       /* none on it */
    /** Called on SIGHUP (which is left alone when this is NULL), in a thread, as it may wait for
     * storage: read the settings again. 0, or -errno when they have a fault, which it has logged:
     * then all stays as it was. What `ret` points to must last until the next call. */
    int (*reload)(void *arg, struct server_options *ret);
    void (*reloaded)(void *arg); /* on the loop: what was read last holds from now on */
    void *reload_arg;
};

/* What is read anew on SIGHUP: roots, own_uid_only, ring_limit, memory_budget, max_clients,
 * drain_ns. */

/** Serve until SIGTERM (drained), SIGINT or the lifeline's end: 0, or -errno with a sentence when
 * serving could not begin. */
int server_run(const struct server_options *options, struct plenum_error *err);

#endif

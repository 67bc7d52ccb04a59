/* SPDX-License-Identifier: MIT */
/* server.h - plenumd without its command line: listens, talks, answers. */
#ifndef LOADER_SERVE_SERVER_H
#define LOADER_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"
#include "loader/dataset/dataset.h"
#include "loader/serve/pin.h"

enum { SERVER_ROOTS_MAX = 64 };

struct server_options {
    const char *socket;       /* "unix:PATH"; NULL when listen_fd is given */
    unsigned socket_mode;     /* of the socket's file; above 0777: 0600, or 0660 with a group */
    const char *socket_group; /* of the socket's file, by name or number; NULL: the process's */
    const char *user;         /* become that user when all sockets are there; NULL: do not */
    const char *listen;       /* HOST:PORT or PORT, for clients of TCP; NULL: none */
    /* file of the key that these clients must have; NULL: none, for this host alone */
    const char *tls_key;
    int listen_fd;       /* a socket that listens already, owned by the server; or -1 */
    int http_fd;         /* the same for the status page, instead of http_port; or -1 */
    int client_fd;       /* a client that was accepted there already, owned likewise; or -1 */
    int lifeline_fd;     /* end of file on it ends the loader; owned by the server; or -1 */
    uint32_t threads;    /* that decode; 0: one a CPU */
    uint32_t io_threads; /* that read; 0: chosen from threads */
    enum pin_policy pin;
    enum image_jpeg jpeg;                /* who decodes JPEGs */
    bool all_cpus;                       /* widen the affinity that was inherited */
    bool own_uid_only;                   /* serve nobody but this process's user */
    const char *roots[SERVER_ROOTS_MAX]; /* serve only what lies below these; roots_create() */
    unsigned num_roots;
    const char *cache_dir; /* NULL: the default */
    /* Of that folder; UINT64_MAX: the default. */
    struct dataset_cache_limits cache_limits;
    bool no_tiles;           /* keep no hints of where tiles of JPEGs begin */
    uint64_t ring_limit;     /* bytes of all rings together */
    uint64_t memory_budget;  /* bytes of them and of what the loader holds itself; 0: no limit */
    uint32_t cpu_millicores; /* CPU time that may be used; 0: as much as there is */
    uint32_t max_clients;    /* 0: as many as come */
    uint64_t
        drain_ns; /* how long SIGTERM lets batches that are under way be finished; 0: not at all */
    const char *http_address; /* of the status page; NULL: 127.0.0.1 */
    uint32_t http_port;       /* 0: no status page */
    bool no_thumbnails;       /* none on it */
    /** Read the settings again: called on SIGHUP (which is not handled when this is NULL), in a
     * thread, because storage may hang. 0, or -errno when they have an error, which it has logged:
     * then the old ones stay. What `ret` points to must last until the next call. */
    int (*reload)(void *arg, struct server_options *ret);
    void (*reloaded)(void *arg); /* on the loop: the settings read last are in force now */
    void *reload_arg;
};

/* SIGHUP changes: roots, own_uid_only, ring_limit, memory_budget, max_clients, drain_ns. */

/** Serve until SIGTERM (after draining), SIGINT or the end of the lifeline: 0, or -errno with a
 * sentence when serving could not begin. */
int server_run(const struct server_options *options, struct plenum_error *err);

#endif

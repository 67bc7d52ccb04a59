/* SPDX-License-Identifier: MIT */
/* server.h - plenumd without its command line: listens for clients and serves them. */
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
    unsigned socket_mode;     /* mode of the socket file; above 0777: 0600, or 0660 with a group */
    const char *socket_group; /* group of the socket file, by name or number; NULL: the process's */
    const char *user;         /* user to switch to once all sockets are open; NULL: none */
    const char *listen;       /* HOST:PORT or PORT for TCP clients; NULL: none */
    /* File with the key that TCP clients must have. NULL: no key, so only this host may connect. */
    const char *tls_key;
    int listen_fd;    /* a listening socket, owned by the server; or -1 */
    int http_fd;      /* a listening socket for the status page, used instead of http_port; or -1 */
    int client_fd;    /* a client already accepted on listen_fd, owned by the server; or -1 */
    int lifeline_fd;  /* end of file on it ends the loader; owned by the server; or -1 */
    uint32_t threads; /* decoding threads; 0: one per CPU */
    uint32_t io_threads; /* reading threads; 0: chosen from `threads` */
    enum pin_policy pin;
    enum image_jpeg jpeg;                /* which JPEG decoder to use */
    bool all_cpus;                       /* widen the inherited CPU affinity */
    bool own_uid_only;                   /* serve only the user that runs this process */
    const char *roots[SERVER_ROOTS_MAX]; /* serve only files below these; see roots_create() */
    unsigned num_roots;
    bool any_store;        /* without roots, data sets in any store may be opened */
    const char *cache_dir; /* NULL: the default folder */
    /* Limits of the cache folder; UINT64_MAX: the default. */
    struct dataset_cache_limits cache_limits;
    /* Bytes of samples from stores that are kept on the disk, or in memory; 0: none. */
    uint64_t cache_size, cache_memory;
    bool no_tiles;            /* do not store hints about where JPEG tiles begin */
    uint64_t ring_limit;      /* bytes of all rings together */
    uint64_t memory_budget;   /* bytes of rings and of the loader's own memory; 0: no limit */
    uint32_t cpu_millicores;  /* CPU time that may be used; 0: no limit */
    uint32_t max_clients;     /* 0: no limit */
    uint64_t fetch_memory;    /* bytes fetched from stores in advance and not read yet */
    uint64_t share_memory;    /* bytes of renderings kept for other streams; 0: none */
    uint64_t drain_ns;        /* longest time that SIGTERM waits for batches in progress */
    const char *http_address; /* address of the status page; NULL: 127.0.0.1 */
    uint32_t http_port;       /* 0: no status page */
    bool no_thumbnails;       /* show no thumbnails on the page */
    /** Read the settings again. Called on SIGHUP (which is not handled if this is NULL), in a
     * thread, because storage may hang. Returns 0; or -errno if the settings have an error, which
     * it has logged, and the old settings stay in force. Memory to which `ret` points must stay
     * valid until the next call. */
    int (*reload)(void *arg, struct server_options *ret);
    void (*reloaded)(void *arg); /* called on the loop when the new settings have taken effect */
    void *reload_arg;
};

/* SIGHUP changes these: roots, own_uid_only, ring_limit, memory_budget, max_clients, drain_ns. */

/** Serve until SIGTERM (after draining), SIGINT or the end of the lifeline. Returns 0, or -errno
 * with a message if serving could not start. */
int server_run(const struct server_options *options, struct plenum_error *err);

#endif

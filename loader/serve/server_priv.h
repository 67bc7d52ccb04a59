/* SPDX-License-Identifier: MIT */
/* server_priv.h - the state that all files of the loop's thread share. */
#ifndef LOADER_SERVE_SERVER_PRIV_H
#define LOADER_SERVE_SERVER_PRIV_H

#include <uv.h>

#include "common/net/tls.h"
#include "common/util/list.h"
#include "loader/serve/histogram.h"
#include "loader/serve/log_limit.h"
#include "loader/serve/openings.h"
#include "loader/serve/queue.h"
#include "loader/serve/roots.h"
#include "loader/serve/server.h"
#include "loader/serve/window.h"

/** State that all sessions share. Owned by server.c. */
struct server {
    const struct server_options *options;
    struct roots *roots;
    uv_loop_t loop;
    struct queue *queue;
    struct blocking *blocking;
    struct openings *openings;
    struct pin *pin;
    struct tls *tls;      /* TLS for TCP clients, or NULL */
    struct list sessions; /* newest first: see session_first() */
    unsigned num_sessions;
    unsigned waiting_for_room; /* sessions whose OPEN waits for room */
    uint64_t started_ns;
    uint64_t ring_bytes;        /* size of all sessions' rings */
    uint64_t own_bytes;         /* see monitor_own_bytes() */
    uint64_t last_id;           /* the id of the newest session */
    uint64_t refused;           /* clients that were rejected */
    struct log_limit log_limit; /* for messages about rejected clients */
    struct log_limit failures;  /* for messages about failed batches */
    struct log_budget lines;    /* for all messages about clients */
    struct snapshot *snapshot;  /* the latest snapshot, or NULL */
    struct histogram waits;     /* times that programs waited for a batch */
    struct window window;
    unsigned threads, io_threads;    /* decoding threads, reading threads */
    uint64_t fetch_memory;           /* limit of the bytes fetched in advance */
    bool renders[PIPELINE_VERSIONS]; /* the pixel definitions that this machine reproduces */
    bool stopping;
    void (*session_gone)(struct server *server);
};

#endif

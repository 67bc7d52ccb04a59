/* SPDX-License-Identifier: MIT */
/* openings.h - opens data sets for clients. All functions except openings_release() must be called
 * on the loop's thread. */
#ifndef LOADER_SERVE_OPENINGS_H
#define LOADER_SERVE_OPENINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include <plenum/error.h>

#include "common/net/wire.h"
#include "loader/dataset/dataset.h"
#include "loader/serve/blocking.h"
#include "loader/serve/roots.h"

/** All openings of a loader. */
struct openings;
/** A data set that is being opened, for all clients that wait for it. */
struct opening;

struct openings_options {
    uv_loop_t *loop;
    /* Its threads open data sets. Borrowed; it must be destroyed before the openings. */
    struct blocking *blocking;
    const char *cache_dir;
    struct dataset_cache_limits cache_limits;
    const uint64_t *memory_budget; /* the loader's budget; NULL or 0: no limit. Read on the loop */
    bool hints;
    bool only_files;    /* without roots, open nothing in stores */
    uint64_t silent_ns; /* an opening fails if storage does not answer for this long */
};

/** A waiting client. Do not move or free it until done() or openings_leave() is called. */
struct opening_waiter {
    /** Called on the loop, with a reference to the data set, which the waiter then owns; or with
     * NULL, -errno and a message. */
    void (*done)(struct opening_waiter *waiter, struct dataset *dataset, int code,
                 const struct plenum_error *err);
    /* Private. */
    struct opening *opening;
    struct list link; /* link in the opening's waiters */
    uint32_t heard;
};

struct opening_request {
    const char *dataset;
    const char *fields;   /* requested fields, or "" */
    bool junk;            /* the pipeline has the word "junk" */
    const char *user;     /* the user whose limit of threads applies */
    struct roots *roots;  /* the current roots */
    const char **allowed; /* [num_allowed] of the roots' paths (malloc); openings_ask() takes it */
    unsigned num_allowed;
};

int openings_create(const struct openings_options *options, struct openings **ret);
/** Cancel all openings, because the loop is about to end. */
void openings_close(struct openings *openings);
/** Free everything. All threads must have ended. */
void openings_destroy(struct openings *openings);

/** Open a data set, or join an opening of the same one. Returns 0 or -ENOMEM; done() is called
 * later. */
int openings_ask(struct openings *openings, const struct opening_request *request,
                 struct opening_waiter *waiter);
/** Stop waiting. An opening without waiters is cancelled. */
void openings_leave(struct opening_waiter *waiter);
/** Get the progress. Returns false if there is nothing new since the last call. */
bool openings_get_progress(struct opening_waiter *waiter, struct wire_progress *ret);

/** Drop a reference. The last one is dropped in a thread, because closing files may wait for
 * storage. Threads: any. NULL is ignored. */
void openings_release(struct blocking *blocking, const char *user, struct dataset *dataset);

#endif

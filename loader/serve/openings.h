/* SPDX-License-Identifier: MIT */
/* openings.h - data sets being opened for clients. All calls are the loop's. */
#ifndef LOADER_SERVE_OPENINGS_H
#define LOADER_SERVE_OPENINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include <plenum/error.h>

#include "common/wire.h"
#include "loader/dataset/dataset.h"
#include "loader/serve/blocking.h"
#include "loader/serve/roots.h"

/** All of a loader. */
struct openings;
/** One data set that is being opened, for all who wait for it. */
struct opening;

struct openings_options {
    uv_loop_t *loop;
    struct blocking *blocking; /* whose threads open: borrowed, and destroyed before the openings */
    const char *cache_dir;
    bool notes;
    uint64_t silent_ns; /* how long storage may say nothing */
};

/** Who waits. It stays where it is until done() is called or openings_leave(). */
struct opening_waiter {
    /** On the loop: the data set, a reference of the waiter's, or NULL with -errno and a
     * sentence. */
    void (*done)(struct opening_waiter *waiter, struct dataset *dataset, int code,
                 const struct plenum_error *err);
    /* Theirs. */
    struct opening *opening;
    struct list link; /* of the opening's waiters */
    uint32_t heard;
};

struct opening_request {
    const char *dataset;
    const char *user;     /* whose threads open it */
    struct roots *roots;  /* that hold */
    const char **allowed; /* [num_allowed] of them, malloc; taken */
    unsigned num_allowed;
};

int openings_create(const struct openings_options *options, struct openings **ret);
/** The loop is about to end: nobody waits any more, and what is under way is called off. */
void openings_close(struct openings *openings);
/** No thread may be at work any more. */
void openings_destroy(struct openings *openings);

/** Open a data set, or wait for the one of that name that is being opened: 0 or -ENOMEM. done()
 * comes later. */
int openings_ask(struct openings *openings, const struct opening_request *request,
                 struct opening_waiter *waiter);
/** Stop waiting. An opening that nobody waits for is called off. */
void openings_leave(struct opening_waiter *waiter);
/** What has become of it; false when that has been told. */
bool openings_get_progress(struct opening_waiter *waiter, struct wire_progress *ret);

/** Drop a reference, the last one in a thread: closing files may wait for storage, too. Threads:
 * any. NULL is nothing. */
void openings_release(struct blocking *blocking, const char *user, struct dataset *dataset);

#endif

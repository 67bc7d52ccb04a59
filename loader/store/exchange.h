/* SPDX-License-Identifier: MIT */
/* exchange.h - sends one HTTP request and receives its answer, without retries. A request for a
 * range may be sent once more if it is late (hedge.h): the first good answer is used. */
#ifndef LOADER_STORE_EXCHANGE_H
#define LOADER_STORE_EXCHANGE_H

#include "loader/store/backend.h"
#include "loader/store/bucket.h"

enum { EXCHANGE_BODY_MAX = 8 << 20 }; /* bytes of a listing, an error or credentials */

/** Zero-initialised except for the request. It must stay at its address until it has ended. */
struct exchange {
    /* The request. Everything is borrowed. */
    struct transfer transfer;          /* method, url, headers, times */
    const struct wanted_range *want;   /* NULL: no range */
    uint8_t *dst;                      /* [want->len], or NULL: only the header is of interest */
    struct bucket *bucket;             /* counts the request until it ends; or NULL */
    void (*ended)(struct exchange *x); /* runs in the module's thread; NULL: exchange_run() */
    /** Called when the request is late: returns whether it may be sent again, with memory for a
     * second answer. Runs in the module's thread. Needs `bucket` and `dst`. NULL: the request is
     * never sent again. */
    bool (*may_repeat)(struct exchange *x);

    /* The answer. */
    int code; /* 0; or -errno with `why` set: transfer.done(), answer_check_range() */
    struct store_answer answer;
    char *body; /* [body_len], owned, NUL-terminated: the body, unless it is the range */
    size_t body_len;
    struct plenum_error why;
    bool repeated; /* may_repeat() has allowed it */

    /* Private to exchange.c. */
    size_t body_cap;
    uint64_t skip, got; /* bytes received before the range, and in it */
    bool checked;
    void *waiter;
    struct exchange *first;           /* in the second request: the first one; otherwise NULL */
    _Atomic(struct exchange *) again; /* the second request; owned, or NULL */
    unsigned flying;                  /* how many of the two are running; module's thread only */
};

/** Start an exchange. Returns 0 if `ended` will be called. Otherwise returns -errno; then `ended`
 * is not called, and the exchange is still in the bucket. */
int exchange_start(struct exchange *x, struct plenum_error *err);

/** Run an exchange and wait for its end. `cancel` may be NULL; once it is true, the exchange ends
 * with code -ECANCELED. */
void exchange_run(struct exchange *x, const atomic_bool *cancel);

/** Returns whether the request has succeeded: with a success status and, if it has `dst`, the whole
 * range. */
bool exchange_is_success(const struct exchange *x);

void exchange_fini(struct exchange *x);

#endif

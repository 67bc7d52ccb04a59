/* SPDX-License-Identifier: MIT */
/* exchange.h - one HTTP request and its answer, without retries. A request for a range may be sent
 * once more if it is late (hedge.h): the first good answer wins. */
#ifndef LOADER_STORE_EXCHANGE_H
#define LOADER_STORE_EXCHANGE_H

#include "loader/store/backend.h"
#include "loader/store/bucket.h"

enum { EXCHANGE_BODY_MAX = 8 << 20 }; /* bytes of a listing, an error or credentials */

/** Zero-initialised except for the request. It must not move until it has ended. */
struct exchange {
    /* The request. Everything is borrowed. */
    struct transfer transfer;          /* method, url, headers, times */
    const struct wanted_range *want;   /* or NULL */
    uint8_t *dst;                      /* [want->len], or NULL: only the header is of interest */
    struct bucket *bucket;             /* the request is in it until it ends; or NULL */
    void (*ended)(struct exchange *x); /* runs in the module's thread; NULL: exchange_run() */
    /** Called when the request is late: returns whether memory for the range may be allocated once
     * more. Runs in the module's thread. Only with `bucket` and `dst`; NULL: the request is never
     * sent again. */
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
    struct exchange *first;           /* of the second request */
    _Atomic(struct exchange *) again; /* the second request; owned, or NULL */
    unsigned flying;                  /* of the two, how many are running; module's thread only */
};

/** Start an exchange. Returns 0 if `ended` will be called. Otherwise returns -errno; then `ended`
 * is not called, and the exchange is still in the bucket. */
int exchange_start(struct exchange *x, struct plenum_error *err);

/** Run an exchange and wait for its end. `cancel` may be NULL; once it is true, the exchange ends
 * with code -ECANCELED. */
void exchange_run(struct exchange *x, const atomic_bool *cancel);

/** Has the requested range arrived, or the status of a request without a range? */
bool exchange_is_success(const struct exchange *x);

void exchange_fini(struct exchange *x);

#endif

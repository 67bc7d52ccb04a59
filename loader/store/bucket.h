/* SPDX-License-Identifier: MIT */
/* bucket.h - a bucket, or a server behind HTTP: the address of its requests, and the limits for
 * requests in flight and for retries. Threads: any. */
#ifndef LOADER_STORE_BUCKET_H
#define LOADER_STORE_BUCKET_H

#include <stdatomic.h>

#include "loader/store/store_answer.h"
#include "loader/store/credentials.h"
#include "loader/store/endpoint.h"
#include "loader/store/store_place.h"

/** Opaque; lives as long as the process. */
struct bucket;

/** Get the bucket or host of a place. Errors: those of aws_config_read() and endpoint_find();
 * -EINVAL the host's name is too long; -ENOMEM. */
int bucket_get(const struct store_place *place, struct bucket **ret, struct plenum_error *err);

/** Returns whether this is a bucket of S3, and not a server behind HTTP. */
bool bucket_is_s3(const struct bucket *bucket);
/** Copy the bucket's current endpoint. */
void bucket_get_endpoint(struct bucket *bucket, struct endpoint *ret);
/** Switch to another region, and on AWS to its endpoint. Returns false if the region is invalid, or
 * already in use. */
bool bucket_move(struct bucket *bucket, const char *region);
/** Correct the time used in signatures by the server's clock. Returns false if the correction would
 * hardly change. */
bool bucket_set_clock(struct bucket *bucket, uint64_t server_s);

/* ---- limits of requests ---- */

/** Wait until a request may start. Returns 0, or -ECANCELED once `cancel` (may be NULL) is true.
 * Requests that a thread waits for come before those of the look-ahead. */
int bucket_enter(struct bucket *bucket, const atomic_bool *cancel);
/** Like bucket_enter(), for the look-ahead, but returns false instead of waiting. */
bool bucket_try_enter(struct bucket *bucket);

enum bucket_outcome { BUCKET_SUCCESS, BUCKET_FAILURE, BUCKET_SLOW };

/** Record that a request has ended. BUCKET_SLOW: the server asked for fewer requests. */
void bucket_leave(struct bucket *bucket, enum bucket_outcome outcome);

/** Returns the time after which a request for `len` bytes is late (hedge.h); 0: unknown. */
uint64_t bucket_late_ns(struct bucket *bucket, uint64_t len);
/** Record that a request for `len` bytes has succeeded after `ns`. */
void bucket_note_time(struct bucket *bucket, uint64_t len, uint64_t ns);
/** Returns whether a late request may be sent again now. If so, the second request is counted, as
 * by bucket_try_enter(). Returns false while the server asks for fewer requests. */
bool bucket_try_hedge(struct bucket *bucket);

/** Returns a random pause before try number `tries` + 1, and takes one retry from the budget. When
 * the budget is used up, pauses are longer, so that a failing server gets only a few more requests
 * than a working one. */
uint64_t bucket_backoff_ns(struct bucket *bucket, unsigned tries);

/* ---- requests ---- */

/** A request as it is sent. Zero-initialised. */
struct bucket_request {
    char *url;
    const char *headers[8]; /* ends with NULL; the strings are owned */
    unsigned num_headers;
    bool any_address;
    const struct credentials *credentials; /* what it was signed with, or NULL */
};

/** What to request. */
struct bucket_query {
    const char *key;                 /* not encoded */
    const char *query;               /* encoded, in the order of names; "" */
    const struct wanted_range *want; /* NULL: no range */
    const struct credentials *bad;   /* see credentials_get() */
    const void *upload;              /* [upload_len]: a PUT request with this body; or NULL */
    size_t upload_len;
    bool at_once; /* fail with -EAGAIN instead of finding or renewing credentials */
};

/** Build and sign a request. Errors: those of credentials_get(); -EAGAIN (only with `at_once`);
 * -ENOTSUP the module is not installed; -ENOMEM. */
int bucket_sign(struct bucket *bucket, const struct bucket_query *query, struct bucket_request *ret,
                struct plenum_error *err);
/** Build a GET request for a URL that is used as it is, without a signature. Returns 0 or
 * -ENOMEM. */
int bucket_request_url(const char *url, const struct wanted_range *want, struct bucket_request *ret,
                       struct plenum_error *err);
void bucket_request_fini(struct bucket_request *request);

/** Time limits: PLENUM_STORE_TIMEOUT, PLENUM_STORE_RETRY. */
struct bucket_times {
    uint64_t connect_ns, stall_ns;
    uint64_t give_up_ns; /* a request is repeated for at least this long */
};
const struct bucket_times *bucket_times(void);

#endif

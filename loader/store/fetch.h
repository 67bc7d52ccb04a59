/* SPDX-License-Identifier: MIT */
/* fetch.h - repeats a request until it succeeds or another try cannot help. */
#ifndef LOADER_STORE_FETCH_H
#define LOADER_STORE_FETCH_H

#include "common/util/lock.h"
#include "loader/store/bucket.h"
#include "loader/store/exchange.h"

/** The names that may be opened. Borrowed; constant. */
struct store_policy {
    const char *const *prefixes; /* [count]: canonical names or paths, without a final slash */
    unsigned count;
    bool anything;             /* allow every name, not only those below a prefix */
    const atomic_bool *cancel; /* true: requests end with -ECANCELED; or NULL */
};

/** Returns whether the object with this canonical name may be opened. */
bool store_policy_allows(const struct store_policy *policy, const char *name);

/** The URL that a server redirects requests for one object to. Threads: any. */
struct fetch_moved {
    struct lock mu;
    char *url; /* holding mu; owned, or NULL */
    uint64_t until_ns;
};

/** One request. The caller sets the first group; all other fields are 0 at first. */
struct fetch {
    struct bucket *bucket;
    const char *name, *key, *query;
    const struct wanted_range *want; /* NULL: no range; the answer's body is kept in `body` */
    uint8_t *dst;                    /* NULL, with `want`: only the header is of interest */
    const void *upload;              /* [upload_len]: what to write to the object; NULL: read it */
    size_t upload_len;
    const struct store_policy *policy;
    struct fetch_moved *moved; /* or NULL */

    struct store_answer answer; /* the last answer */
    char *body;                 /* owned */
    size_t body_len;
};

/**
 * Run a request, and repeat it if necessary. Returns 0, with the bytes in `dst` or in `body`.
 *
 * Errors: -ENOENT there is no such object or bucket; -EACCES access is denied; -ESTALE the object
 * has another version; -ERANGE (only without facts) the object is empty; -EOPNOTSUPP the server
 * cannot serve ranges; -EREMOTEIO no try succeeded in time; -EKEYREJECTED the server's certificate
 * is not valid; -EINVAL the server rejects the request; -ELOOP it redirects too often; -EFBIG its
 * answer is too long; -ECANCELED; those of bucket_sign(), such as -ENOKEY; -ENOMEM. `err` names the
 * object and says what to do.
 */
int fetch_run(struct fetch *fetch, struct plenum_error *err);
void fetch_fini(struct fetch *fetch);

/** Copy the URL to which requests for this object are redirected at present (malloc). Returns NULL
 * if there is none. */
char *fetch_moved_url(struct fetch_moved *moved);

#endif

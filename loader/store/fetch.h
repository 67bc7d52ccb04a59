/* SPDX-License-Identifier: MIT */
/* fetch.h - repeats a request, usually GET, until it succeeds, or until another try cannot help. */
#ifndef LOADER_STORE_FETCH_H
#define LOADER_STORE_FETCH_H

#include "common/util/lock.h"
#include "loader/store/bucket.h"
#include "loader/store/exchange.h"

/** Which names may be opened. Borrowed; constant. */
struct store_policy {
    const char *const *prefixes; /* canonical names without a final slash; also paths of files */
    unsigned count;
    bool anything;             /* allow every name, not only those below a prefix */
    const atomic_bool *cancel; /* or NULL */
};

/** May a canonical name be opened? */
bool store_policy_allows(const struct store_policy *policy, const char *name);

/** The URL that a server redirects requests for one object to. Threads: any. */
struct fetch_moved {
    struct lock mu;
    char *url; /* holding mu; owned, or NULL */
    uint64_t until_ns;
};

/** One request. The caller sets the first group; the rest starts as zeros. */
struct fetch {
    struct bucket *bucket;
    const char *name, *key, *query;
    const struct wanted_range *want; /* or NULL: the body is kept in `body` */
    uint8_t *dst;                    /* NULL, with `want`: only the header is of interest */
    const void *upload;              /* [upload_len]: write the object; otherwise NULL */
    size_t upload_len;
    const struct store_policy *policy;
    struct fetch_moved *moved; /* or NULL */

    struct store_answer answer; /* the last answer */
    char *body;                 /* owned */
    size_t body_len;
};

/**
 * Run a request. Returns 0, with the bytes in `dst` or in `body`.
 *
 * Errors: -ENOENT there is no such object or bucket; -EACCES it may not be read; -ESTALE it is
 * another version; -ERANGE (only without facts) the range is beyond its end; -EOPNOTSUPP the server
 * cannot serve ranges; -EREMOTEIO it did not succeed in time; -EKEYREJECTED its certificate is not
 * valid; -ECANCELED; -ENOKEY there are no credentials; -ENOMEM. `err` names the object and says
 * what to do.
 */
int fetch_run(struct fetch *fetch, struct plenum_error *err);
void fetch_fini(struct fetch *fetch);

/** Copy the URL to which requests for this object are redirected at present (malloc). Returns NULL
 * if there is none. */
char *fetch_moved_url(struct fetch_moved *moved);

#endif

/* SPDX-License-Identifier: MIT */
/* log_limit.h - a rate limit for messages about clients: those that are refused, and batches that
 * fail.
 *
 * Each reason of each peer is logged once a minute at the most, so that no peer can fill the
 * log. */
#ifndef LOADER_SERVE_LOG_LIMIT_H
#define LOADER_SERVE_LOG_LIMIT_H

#include <stdint.h>

enum { LOG_LIMIT_MAX = 256 };

/** {0}: empty. One thread at a time. */
struct log_limit {
    struct {
        uint64_t key;        /* hash of peer and reason */
        uint64_t logged_ns;  /* 0: the entry is free */
        uint32_t suppressed; /* messages since then */
    } entries[LOG_LIMIT_MAX];
    uint64_t overflow_ns; /* when the overflow was last logged, or 0 */
};

enum log_limit_verdict {
    LOG_LIMIT_DROP, /* the same was logged within the last minute */
    LOG_LIMIT_LOG,
    LOG_LIMIT_LOG_OVERFLOW, /* log that there are too many peers and reasons to name */
};

/**
 * A client was refused, or has a batch that failed: what is to be logged? `*suppressed` is the
 * number of messages of this peer and reason that were dropped since the last one was logged.
 */
enum log_limit_verdict log_limit_check(struct log_limit *limit, const char *who, const char *why,
                                       uint64_t now_ns, uint32_t *suppressed);

#endif

/* SPDX-License-Identifier: MIT */
/* log_limit.h - a rate limit for messages about clients that are rejected and batches that fail.
 *
 * Each pair of peer and reason is logged at most once a minute, so that no peer can fill the
 * log. */
#ifndef LOADER_SERVE_LOG_LIMIT_H
#define LOADER_SERVE_LOG_LIMIT_H

#include <stdint.h>

enum { LOG_LIMIT_MAX = 256 };

/** {0} is an empty one. Only one thread at a time may use it. */
struct log_limit {
    struct {
        uint64_t key;        /* hash of peer and reason */
        uint64_t logged_ns;  /* 0: the entry is free */
        uint32_t suppressed; /* messages dropped since then */
    } entries[LOG_LIMIT_MAX];
    uint64_t overflow_ns; /* when the overflow was last logged, or 0 */
};

enum log_limit_verdict {
    LOG_LIMIT_DROP, /* the same message was logged within the last minute */
    LOG_LIMIT_LOG,
    LOG_LIMIT_LOG_OVERFLOW, /* log that there are too many peers and reasons to name */
};

/**
 * Decides what to log when a client was rejected or one of its batches failed. `*suppressed` is set
 * to the number of messages with this peer and reason that were dropped since one was last logged.
 */
enum log_limit_verdict log_limit_check(struct log_limit *limit, const char *who, const char *why,
                                       uint64_t now_ns, uint32_t *suppressed);

#endif

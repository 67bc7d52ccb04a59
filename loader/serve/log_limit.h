/* SPDX-License-Identifier: MIT */
/* log_limit.h - rate limits for messages about clients, so that no peer can fill the log.
 *
 * Each pair of peer and reason is logged at most once a minute, and of each peer at most
 * LOG_BUDGET_LINES lines in a minute, whatever they say. */
#ifndef LOADER_SERVE_LOG_LIMIT_H
#define LOADER_SERVE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOG_LIMIT_MAX = 256,
    LOG_BUDGET_LINES = 60,
    LOG_BUDGET_PEERS = 256,
    LOG_BUDGET_NAME = 160,
};

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

/** Lines of each peer. {0} is an empty one. Only one thread at a time may use it. */
struct log_budget {
    struct log_budget_peer {
        char name[LOG_BUDGET_NAME]; /* "": the entry is free */
        uint64_t begun_ns;          /* start of its minute */
        uint32_t written, left_out; /* lines since then */
    } peers[LOG_BUDGET_PEERS];
    struct log_budget_peer others; /* peers that find no free entry, counted as one */
};

/** Has this peer had all its lines? Then a line about it is counted as omitted. */
bool log_budget_refuses(struct log_budget *budget, const char *who, uint64_t now_ns);
/** A line about this peer is written. */
void log_budget_spend(struct log_budget *budget, const char *who, uint64_t now_ns);

/** Forget minutes that have passed, and call `report` for each peer whose lines were omitted, with
 * their number. Peers that found no entry have the name "". With UINT64_MAX as the time: all. */
void log_budget_settle(struct log_budget *budget, uint64_t now_ns,
                       void (*report)(const char *who, uint32_t left_out));

#endif

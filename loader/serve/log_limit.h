/* SPDX-License-Identifier: MIT */
/* log_limit.h - limits the rate of messages about clients, so that no peer can fill the log.
 *
 * Messages with one peer and reason are logged at most once a minute, and each peer causes at most
 * LOG_BUDGET_LINES lines per minute. */
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

/** {0} is empty. Only one thread at a time may use it. */
struct log_limit {
    struct {
        uint64_t key;        /* hash of peer and reason */
        uint64_t logged_ns;  /* 0: the entry is free */
        uint32_t suppressed; /* messages dropped since logged_ns */
    } entries[LOG_LIMIT_MAX];
    uint64_t overflow_ns; /* when the overflow was last logged; 0: never */
};

enum log_limit_verdict {
    LOG_LIMIT_DROP, /* the same message was logged within the last minute */
    LOG_LIMIT_LOG,
    LOG_LIMIT_LOG_OVERFLOW, /* log that there are too many peers and reasons to name */
};

/**
 * Decide what to log when a client was rejected or one of its batches failed. Sets `*suppressed` to
 * the number of messages with this peer and reason that were dropped since the last logged one.
 */
enum log_limit_verdict log_limit_check(struct log_limit *limit, const char *who, const char *why,
                                       uint64_t now_ns, uint32_t *suppressed);

/** The lines logged about each peer. {0} is empty. Only one thread at a time may use it. */
struct log_budget {
    struct log_budget_peer {
        char name[LOG_BUDGET_NAME]; /* "": the entry is free */
        uint64_t begun_ns;          /* start of its minute */
        uint32_t written, left_out; /* lines since begun_ns */
    } peers[LOG_BUDGET_PEERS];
    struct log_budget_peer others; /* peers that find no free entry, counted as one */
};

/** Returns whether this peer's lines are used up. If so, the caller drops the line, which counts as
 * left out. */
bool log_budget_refuses(struct log_budget *budget, const char *who, uint64_t now_ns);
/** Count a line about this peer. */
void log_budget_spend(struct log_budget *budget, const char *who, uint64_t now_ns);

/** Start a new minute for peers whose minute has passed, and call `report` with the number of lines
 * left out, if any. Peers without an entry share the name "". UINT64_MAX as the time ends all
 * minutes. */
void log_budget_settle(struct log_budget *budget, uint64_t now_ns,
                       void (*report)(const char *who, uint32_t left_out));

#endif

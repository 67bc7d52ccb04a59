/* SPDX-License-Identifier: MIT */
/* roster.h - the hosts that a job may use, and the choice of those for its next start. */
#ifndef LAUNCHER_ROSTER_H
#define LAUNCHER_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"
#include "common/util/message.h"
#include "launcher/plan/plan.h"

enum { ROSTER_WHY_MAX = 400 };

struct roster_host {
    struct plan_host at;      /* only name, user, port and `local` are set; owned */
    uint32_t slots;           /* instances that may run there; 0: not specified */
    uint32_t failures;        /* how often the host went from working to failed */
    bool listed;              /* the user's current list has this host */
    bool used;                /* the last start put instances there */
    bool blamed;              /* the host failed during the last start */
    bool failed;              /* the host has failed, and has not passed a check since */
    bool ready;               /* the host has passed the check before the next start */
    uint64_t dead_ns;         /* when its programs will have ended, even if it is unreachable */
    char why[ROSTER_WHY_MAX]; /* reason of the last failure; "": none */
};

struct roster_limits {
    uint32_t num_hosts;    /* maximum number of hosts for a start; 0: all */
    uint32_t min_hosts;    /* minimum number of hosts; at least 1 */
    uint32_t max_failures; /* a host with this many failures is excluded; at least 1 */
};

/** Empty if zero-initialised, except for the limits. */
struct roster {
    struct roster_host *hosts; /* in the order of their first mention */
    size_t count, cap;
    struct roster_limits limits;
};

void roster_fini(struct roster *roster);

/**
 * Update the roster from the user's list of hosts. Hosts that were listed earlier keep their
 * history. `local` is like that of struct plan_request.
 *
 * Errors: -ENOMEM.
 */
int roster_set(struct roster *roster, const struct hostlist *list, const bool *local);

/** Forget how often hosts have failed: those that were left out are checked again. */
void roster_pardon(struct roster *roster);

/** May the job use this host: is it listed, and has it not failed too often? */
bool roster_allows(const struct roster *roster, const struct roster_host *host);

/** Begin a check: no host is ready until the caller sets its `ready`. Failures: roster_fail(). */
void roster_begin_check(struct roster *roster);
/** End a check: hosts that are ready have recovered. */
void roster_end_check(struct roster *roster);
/**
 * Record that a host has failed a check, or has failed during a start. Further failures are not
 * counted until the host passes a check, so that a host that is away for long is not excluded.
 *
 * Returns whether it is excluded from now on.
 */
MESSAGE_FORMAT(3, 4)
bool roster_fail(const struct roster *roster, struct roster_host *host, const char *format, ...);

/** Like roster_fail(), but nothing shows that the host is at fault, so its failures are not
 * counted. */
MESSAGE void roster_set_aside(struct roster_host *host, const char *why);

/**
 * Record the hosts that were lost during a start (`lost`, one per host of the roster). If several
 * were lost, and more than half of those in use, something that they share (such as the network)
 * counts as the cause: they must pass a check, but no failure is counted.
 *
 * Returns whether failures were counted.
 */
bool roster_lose(struct roster *roster, const bool *lost, const char *why);

/**
 * Choose hosts for the next start among those that are ready:
 *
 *     1. those of the last start that have not failed, so that as little as possible changes;
 *     2. spares and hosts that have returned, those with the fewest failures first;
 *     3. those that failed during the last start, even if they have passed the check since.
 *
 * Hosts of equal rank are taken in the order of the list. Writes their indices to `ret`, which has
 * room for all hosts, in the order of the list. Returns their number, or 0 if they are too few, or
 * if out of memory.
 */
size_t roster_choose(const struct roster *roster, uint32_t *ret);
/** Record that a start begins on the chosen hosts. */
void roster_start(struct roster *roster, const uint32_t *chosen, size_t count);

/** List the chosen hosts for struct plan_request. Names are borrowed: free only `hosts`. Returns 0
 * or -ENOMEM. */
int roster_list(const struct roster *roster, const uint32_t *chosen, size_t count,
                struct hostlist *ret, bool *ret_local);

/** Returns the number of hosts on which the last start put instances. */
size_t roster_count_used(const struct roster *roster);
/** Returns the number of hosts that are ready and that the job may use. */
size_t roster_count_ready(const struct roster *roster);
/** Describe the hosts that are not ready, such as "a: Connection refused; b: ...". */
void roster_describe_lack(const struct roster *roster, char *ret, size_t size);

#endif

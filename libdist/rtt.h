/* SPDX-License-Identifier: MIT */
/* rtt.h - smoothed round-trip time and its variation, as in RFC 6298, section 2. */
#ifndef LIBDIST_RTT_H
#define LIBDIST_RTT_H

#include <stdint.h>

struct rtt {
    uint64_t smoothed_ns, variation_ns; /* SRTT and RTTVAR; 0 before the first measurement */
};

static inline void rtt_update(struct rtt *rtt, uint64_t ns)
{
    uint64_t off = ns > rtt->smoothed_ns ? ns - rtt->smoothed_ns : rtt->smoothed_ns - ns;

    if (rtt->smoothed_ns == 0) {
        *rtt = (struct rtt){.smoothed_ns = ns, .variation_ns = ns / 2};
        return;
    }
    rtt->smoothed_ns = (rtt->smoothed_ns * 7 + ns) / 8;
    rtt->variation_ns = (rtt->variation_ns * 3 + off) / 4;
}

/** Returns the time after which an answer is late: twice the timeout (RTO) of RFC 6298. */
static inline uint64_t rtt_late(const struct rtt *rtt)
{
    return 2 * (rtt->smoothed_ns + 4 * rtt->variation_ns);
}

#endif

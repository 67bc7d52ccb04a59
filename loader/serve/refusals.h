/* SPDX-License-Identifier: MIT */
/* refusals.h - who was refused lately, and why: so that whoever asks again and again is in the log
 * once a minute, and nobody can fill it. */
#ifndef LOADER_SERVE_REFUSALS_H
#define LOADER_SERVE_REFUSALS_H

#include <stdint.h>

enum { REFUSALS_MAX = 256 };

/** {0}: nobody. One thread at a time. */
struct refusals {
    struct {
        uint64_t who_why; /* a hash of both */
        uint64_t said_ns; /* 0: free */
        uint32_t untold;  /* times since then */
    } recent[REFUSALS_MAX];
    uint64_t crowd_ns; /* when it was said that there are too many to name, or 0 */
};

enum refusals_what {
    REFUSALS_SILENT, /* it was said lately */
    REFUSALS_SAY,
    REFUSALS_CROWD, /* say that there are too many to name each */
};

/**
 * One more was refused: what is to be said of it? `*untold`: so many times it was not said since it
 * was the last time.
 */
enum refusals_what refusals_add(struct refusals *r, const char *who, const char *why,
                                uint64_t now_ns, uint32_t *untold);

#endif

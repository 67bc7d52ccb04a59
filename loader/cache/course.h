/* SPDX-License-Identifier: MIT */
/* course.h - computes when the open streams of one order use each sample of a data set next.
 *
 * Streams of one order, such as those of a job's instances on this host, share a course. A use is
 * counted in positions on the course's axis: `epoch * stride + position`. Threads: the caller's
 * lock protects everything. */
#ifndef LOADER_CACHE_COURSE_H
#define LOADER_CACHE_COURSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/order/order.h"
#include "common/util/list.h"

enum { COURSE_EPOCHS = 64 }; /* a use in a later epoch counts as one in the last of these */

/** No stream of the course ever uses the sample. */
#define COURSE_NEVER UINT64_MAX

/** What the streams of one course have in common. */
struct course_order {
    uint64_t set;       /* a hash of the data set */
    struct order order; /* not a mixture: its order has no inverse */
    struct order_steps steps;
    uint32_t deal; /* as in struct wire_open */
    bool mix;      /* each position also reads the sample of its partner */
};

/** One stream. It uses the indices [offset, offset + local) of each step. */
struct course_stream {
    struct course *course;
    struct list link; /* in the course's streams */
    uint32_t offset, local;
    uint64_t at; /* the first position that it has not requested yet */
};

/** Zero-initialised. */
struct course {
    struct course_order order;
    struct list streams;
    uint64_t stride;
    uint64_t at, at_ns; /* where the stream that is farthest ahead is, and when it got there */
    /* Two positions in the past, from which the rate is computed. */
    struct course_mark {
        uint64_t at, ns;
    } mark[2];
};

void course_init(struct course *course, const struct course_order *order, uint64_t now_ns);
bool course_has_order(const struct course *course, const struct course_order *order);

/** Add a stream that has not requested anything yet. */
void course_add(struct course *course, struct course_stream *stream);
/** Remove a stream. Returns whether it was the course's last one. */
bool course_remove(struct course_stream *stream);

/** Record that the stream has requested everything from `begin` to `end`, exclusive. */
void course_advance(struct course_stream *stream, struct order_place begin, struct order_place end,
                    uint64_t now_ns);

/** Returns the next use of a sample by a stream of the course, not counting uses that were already
 * requested: at most COURSE_EPOCHS epochs ahead, or COURSE_NEVER. Takes constant time per epoch, so
 * the result is an estimate if a sample is repeated more than 64 times. */
uint64_t course_next(const struct course *course, uint32_t sample);

/** Returns whether the stream that is farthest ahead passed this use long ago without requesting
 * it, because the stream has jumped ahead or also uses another loader. */
bool course_is_overdue(const struct course *course, uint64_t use);

/** Returns the nanoseconds until a use is expected. */
double course_wait_ns(const struct course *course, uint64_t use, uint64_t now_ns);

#endif

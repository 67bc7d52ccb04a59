/* SPDX-License-Identifier: MIT */
/* rendezvous.h - have all instances come to their first collective? Asked before MPI is. */
#ifndef LIBDIST_RENDEZVOUS_H
#define LIBDIST_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Wait, sleeping, until all instances of the job have called it.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none.
 * @param came  [instances], written when it returns -ETIMEDOUT: who has called it.
 *
 * @param is_one_gone  asked now and then: has an instance ended that has not come?
 *
 * Returns 0 when all have come; -ETIMEDOUT; -EPIPE when one is gone; or -ENOTSUP when there is
 * nobody to ask (no PMIx, or one that knows another job than this one): then only MPI knows.
 */
int rendezvous(uint32_t instances, uint32_t index, uint64_t deadline_ns, bool *came,
               bool (*is_one_gone)(uint32_t instances));

/**
 * The two halves of it for an MPI that must be the first in PMIx, while MPI_Init() waits in another
 * thread: tell the others that we have come, and see at the end who has.
 *
 * rendezvous_mark() returns 0; -EAGAIN while MPI has not joined PMIx; or -ENOTSUP as above.
 */
int rendezvous_mark(uint32_t instances, uint32_t index);
void rendezvous_look(uint32_t instances, bool *came);

/** Leave PMIx, after MPI has or while it is in it; nothing when there was no rendezvous. */
void rendezvous_end(void);

#endif

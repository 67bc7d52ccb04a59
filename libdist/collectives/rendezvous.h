/* SPDX-License-Identifier: MIT */
/* rendezvous.h - finds out whether all instances have reached their first collective, before MPI is
 * called. */
#ifndef LIBDIST_COLLECTIVES_RENDEZVOUS_H
#define LIBDIST_COLLECTIVES_RENDEZVOUS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Wait, sleeping, until all instances of the job have called this.
 *
 * @param deadline_ns  CLOCK_MONOTONIC; 0: none
 * @param came         [instances], written with -ETIMEDOUT: which have called it
 * @param is_one_gone  polled: has an instance ended without arriving?
 *
 * Returns 0 once all have arrived; -ETIMEDOUT; -EPIPE if one is gone; or -ENOTSUP if PMIx is
 * missing or belongs to another job: then only MPI knows.
 */
int rendezvous(uint32_t instances, uint32_t index, uint64_t deadline_ns, bool *came,
               bool (*is_one_gone)(uint32_t instances));

/**
 * The two halves of rendezvous(), for an MPI that must be the first to use PMIx, while MPI_Init()
 * waits in another thread. They announce to the others that we have arrived, and at the end find
 * out which instances have arrived.
 *
 * rendezvous_mark() returns 0; -EAGAIN while MPI has not joined PMIx; or -ENOTSUP as above.
 */
int rendezvous_mark(uint32_t instances, uint32_t index);
void rendezvous_look(uint32_t instances, bool *came);

/** Leave PMIx, after MPI has left it or while MPI still uses it. No effect without a rendezvous. */
void rendezvous_end(void);

#endif

/* SPDX-License-Identifier: MIT */
/* missing.h - messages about instances that are missing from a collective, for all carriers. */
#ifndef LIBDIST_COLLECTIVES_MISSING_H
#define LIBDIST_COLLECTIVES_MISSING_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

/** Returns -ETIMEDOUT, with a message that names the missing instances; `what` is the
 * collective. */
int missing_in_time(const char *what, const bool *came, uint32_t instances,
                    struct plenum_error *err);

/** Returns -EIO, with a message that names the instance whose program has ended. */
int missing_ended(const char *what, uint32_t instance, struct plenum_error *err);

#endif

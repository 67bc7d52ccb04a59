/* SPDX-License-Identifier: MIT */
/* race.h - runs one request for a range, and sends it once more if it is late (hedge.h). */
#ifndef LOADER_STORE_RACE_H
#define LOADER_STORE_RACE_H

#include "loader/store/bucket.h"
#include "loader/store/exchange.h"

/** Like exchange_run(), for an exchange with `dst` whose request has entered `bucket`. `x` gets the
 * first successful answer. */
void race_run(struct exchange *x, struct bucket *bucket, const atomic_bool *cancel);

#endif

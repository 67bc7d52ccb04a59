/* SPDX-License-Identifier: MIT */
/* identity.h - what must be equal for a cursor of one run to mean the same in another. */
#ifndef COMMON_IDENTITY_H
#define COMMON_IDENTITY_H

#include <stdint.h>

#include "common/wire.h"

/**
 * XXH3-128 of the data set's fingerprint, the pipeline's canonical text, the seed and the order
 * options (shuffle, block, last, subset, repeat). Not of how the samples are shared out (R, M, S,
 * I) nor of how pixels are stored.
 *
 * Options that give the same order have one identity: a subset of all and none, and all blocks of
 * which only one fits. That takes the number of samples; 0 where it is not known yet, and then
 * options count as they were written.
 */
void identity_of(const uint8_t fingerprint[16], uint32_t samples, const struct wire_open *open,
                 uint8_t ret[16]);

#endif

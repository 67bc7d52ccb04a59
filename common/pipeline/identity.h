/* SPDX-License-Identifier: MIT */
/* identity.h - everything that must be equal for a cursor of one run to mean the same in
 * another. */
#ifndef COMMON_IDENTITY_H
#define COMMON_IDENTITY_H

#include <stdint.h>

#include "common/net/wire.h"

/**
 * XXH3-128 of the data set's fingerprint, the pipeline's canonical text, the seed and the order
 * options (shuffle, block, last, subset, repeat). How the samples are distributed (R, M, S, I) and
 * how pixels are stored do not matter.
 *
 * Options with the same effect have the same identity: a subset of all samples and none, and all
 * block sizes of which only one block fits. That requires the number of samples; pass 0 while it is
 * unknown, and options count as written.
 */
void identity_of(const uint8_t fingerprint[16], uint32_t samples, const struct wire_open *open,
                 uint8_t ret[16]);

#endif

/* SPDX-License-Identifier: MIT */
/* agree.h - the real renderer and the oracle side by side. */
#ifndef TESTS_LOADER_IMAGE_AGREE_H
#define TESTS_LOADER_IMAGE_AGREE_H

#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

/**
 * Render with both and compare: the decision, all bytes, and that nothing is written behind them;
 * with every set of loops that this processor can use, the best one last.
 *
 * @param why  What differs, for a message; [200].
 * @param ret  The decision of image_render() and its sentence; may be NULL.
 */
bool oracle_agrees(struct image_decoder *decoder, const struct pipeline *pipeline,
                   const struct image_draw *draw, const struct image_store *store,
                   const uint8_t *bytes, size_t len, char *why, int *ret, struct plenum_error *err);

/** Whether both accept a file and agree on it in all these pipelines (their texts, and then NULL),
 * in turn, for so many draws of a seed. `why` [300]. */
bool oracle_agrees_in_all(struct image_decoder *decoder, const char *const *pipelines,
                          uint32_t draws, uint64_t seed, const struct made *file, char *why);

#endif

/* SPDX-License-Identifier: MIT */
/* agree.h - the real renderer and the oracle side by side. */
#ifndef TESTS_LOADER_IMAGE_AGREE_H
#define TESTS_LOADER_IMAGE_AGREE_H

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

#endif

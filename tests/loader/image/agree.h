/* SPDX-License-Identifier: MIT */
/* agree.h - compares the real renderer with the oracle. */
#ifndef TESTS_LOADER_IMAGE_AGREE_H
#define TESTS_LOADER_IMAGE_AGREE_H

#include "tests/loader/image/made.h"
#include "tests/loader/image/oracle.h"

/** One view of a file. */
struct rendering {
    const struct pipeline *pipeline;
    const struct image_draw *draw;
    const struct image_store *store;
    const uint8_t *bytes;
    size_t len;
};

/**
 * Render with both and compare the decisions and all bytes, and check that nothing is written past
 * the end. This is done with every set of loops that this processor can use, the best one last.
 *
 * @param why  What differs, for a message; [200].
 * @param ret Receives what image_render() returned, and `err` its message; both may be NULL.
 */
bool oracle_agrees(struct image_decoder *decoder, const struct rendering *of, char *why, int *ret,
                   struct plenum_error *err);

/** Random changes of single bytes of a file. */
struct damage {
    const struct pipeline *pipeline;
    const struct made *file;
    uint32_t key, count;    /* key of the random numbers, and number of changes */
    uint32_t head, head_of; /* one in `head_of` changes is in the first `head` bytes; 0: any byte */
    uint32_t good, bad;     /* number of changed files that were good, and bad */
};

/** Returns whether both agree after each change. Large images are skipped. `why` [300]. */
bool oracle_agrees_on_damage(struct image_decoder *decoder, struct damage *d, char *why);

/** Returns whether both accept a file and agree on it in each of these pipelines (texts, NULL at
 * the end), for `draws` positions of a seed. `why` [300]. */
bool oracle_agrees_in_all(struct image_decoder *decoder, const char *const *pipelines,
                          uint32_t draws, uint64_t seed, const struct made *file, char *why);

#endif

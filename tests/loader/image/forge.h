/* SPDX-License-Identifier: MIT */
/* forge.h - makes and checks packed files that are forged to deceive a reader. */
#ifndef TESTS_LOADER_IMAGE_FORGE_H
#define TESTS_LOADER_IMAGE_FORGE_H

#include "loader/image/reader.h"
#include "tests/loader/image/oracle.h"

/** Returns where the first APP9 segment with Plenum's name begins, or 0 if there is none. Accepts
 * any bytes. */
size_t forge_find(const uint8_t *bytes, size_t len);

/** Correct the checksum in a file's APP9 segment. Returns false if there is none, or no space for
 * a checksum in it. */
bool forge_sign(uint8_t *bytes, size_t len);

/** Decode a whole JPEG to RGB and ignore libjpeg's warnings, as other programs do. Returns 0,
 * -EBADMSG, or -EOPNOTSUPP if it has four components or is very large. */
int forge_decode(const uint8_t *bytes, size_t len, struct oracle_image *ret);

/** Returns the pixels of a region as the reader delivers them, as RGB; the caller frees them.
 * Returns NULL if the file is bad. `whole`: as in struct image_reader. */
uint8_t *forge_read(struct image_reader *reader, bool whole, const uint8_t *bytes, size_t len,
                    struct rect region);

/**
 * Check what must hold for any file, forged or not: either the file is bad, or a region has the
 * pixels that it has in a decode of the whole file that ignores damage elsewhere. If the whole file
 * is good, so is the region.
 *
 * @param why    What does not hold, for a message; [200].
 * @param shown  Whether the region was good.
 */
bool forge_agrees(struct image_reader *reader, const uint8_t *bytes, size_t len, struct rect region,
                  char *why, bool *shown);

#endif

/* SPDX-License-Identifier: MIT */
/* forge.h - packed files that were made to deceive. */
#ifndef TESTS_LOADER_IMAGE_FORGE_H
#define TESTS_LOADER_IMAGE_FORGE_H

#include "loader/image/reader.h"
#include "tests/loader/image/oracle.h"

/** Where the first APP9 segment with Plenum's name begins, or 0; for any bytes. */
size_t forge_find(const uint8_t *bytes, size_t len);

/** Make the checksum of a file with such a segment right. false: there is no room for one. */
bool forge_sign(uint8_t *bytes, size_t len);

/** All of a JPEG as RGB, whatever libjpeg warns of: what other programs show. 0; -EBADMSG;
 * -EOPNOTSUPP four components, or very large. */
int forge_decode(const uint8_t *bytes, size_t len, struct oracle_image *ret);

/** The pixels of a region as RGB, as a reader delivers them at this scale; malloc. NULL when it is
 * bad. */
uint8_t *forge_read(struct image_reader *reader, bool whole, const uint8_t *bytes, size_t len,
                    struct rect region);

/**
 * The law for any file, made up or not: what a region shows is what everybody sees there who
 * decodes the whole file and ignores damage elsewhere, or the file is bad. If all of it is good, so
 * is the region.
 *
 * @param why    What is not so, for a message; [200].
 * @param shown  Whether it was good.
 */
bool forge_agrees(struct image_reader *reader, const uint8_t *bytes, size_t len, struct rect region,
                  char *why, bool *shown);

#endif

/* forge.h - packed files that were made to deceive. */
#ifndef TESTS_LOADER_IMAGE_FORGE_H
#define TESTS_LOADER_IMAGE_FORGE_H

#include "tests/loader/image/oracle.h"

/** Where the first APP9 segment with Plenum's name begins, or 0; for any bytes. */
size_t forge_find(const uint8_t *bytes, size_t len);

/** Make the checksum of a file with such a segment right. false: there is no room for one. */
bool forge_sign(uint8_t *bytes, size_t len);

/** All of a JPEG as RGB, whatever libjpeg warns of: what other programs show. 0, or -EBADMSG. */
int forge_decode(const uint8_t *bytes, size_t len, struct oracle_image *ret);

#endif

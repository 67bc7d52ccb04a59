/* SPDX-License-Identifier: MIT */
/* avif_scan.h - measures in advance how much work an AVIF causes in libavif and dav1d. */
#ifndef LOADER_IMAGE_AVIF_SCAN_H
#define LOADER_IMAGE_AVIF_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** Scan the whole file: its lists, and the AV1 data of all of its items. `*pixels` receives the
 * largest number of pixels that a frame may have. Returns 0, or -EBADMSG if the file is over a
 * limit (limits.h); damaged data is left to libavif. */
int avif_scan(const uint8_t *bytes, size_t len, uint32_t *pixels, struct plenum_error *err);

/** Scan bytes that may be AV1: an item, a frame of a sequence, or the beginning of one. Returns 0
 * or -EBADMSG, like avif_scan(). */
int avif_scan_sample(const uint8_t *bytes, size_t len, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* avif_scan.h - what an AVIF asks of libavif and dav1d, before they do it. */
#ifndef LOADER_IMAGE_AVIF_SCAN_H
#define LOADER_IMAGE_AVIF_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** The whole file: its lists, and the AV1 of all of its items. `*pixels` is how many a frame
 * may have. 0, or -EBADMSG where it is over a limit (limits.h); what is damaged is left to libavif.
 */
int avif_scan(const uint8_t *bytes, size_t len, uint32_t *pixels, struct plenum_error *err);

/** Bytes that may be AV1, one item or frame of a sequence or what begins one: as avif_scan(). */
int avif_scan_sample(const uint8_t *bytes, size_t len, struct plenum_error *err);

#endif

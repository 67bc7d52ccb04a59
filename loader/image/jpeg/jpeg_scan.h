/* SPDX-License-Identifier: MIT */
/* jpeg_scan.h - reads the entropy-coded data of a JPEG, for our own decoder.
 *
 * Several thousand bytes at a time are unstuffed into a buffer, which has some padding after the
 * last byte. So the loops over coefficients need no checks: only between two MCUs, the decoder
 * checks that there are enough bytes for another MCU, and that the last MCU did not read beyond the
 * bytes. An MCU that did is dropped. */
#ifndef LOADER_IMAGE_JPEG_SCAN_H
#define LOADER_IMAGE_JPEG_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/image.h"
#include "loader/image/jpeg/jpeg_huff.h"

/** A position between two MCUs: the next bit, and the DC predictions. */
struct jpeg_tile {
    uint32_t at; /* byte of the file * 8 + bit, from the highest bit */
    int16_t dc[JPEG_COMPONENTS];
};

enum {
    /* Upper bound for an MCU: ten blocks of 64 symbols, each with at most 16 bits of code and 16 of
     * value. */
    JPEG_MCU_BYTES = 2560,
    JPEG_SCAN_CHUNK = 12 << 10,
    JPEG_SCAN_LEAD = 32,
    JPEG_SCAN_ROOM = JPEG_SCAN_LEAD + JPEG_SCAN_CHUNK + JPEG_MCU_BYTES + 128,
};

struct jpeg_scan {
    struct jpeg_bits bits;
    const uint8_t *limit;        /* if bits.at is beyond this, call jpeg_scan_more() */
    int32_t dc[JPEG_COMPONENTS]; /* DC predictions */

    const uint8_t *bytes; /* the file */
    size_t from, len;     /* bytes from ... len - 1 are not unstuffed yet */
    uint32_t margin;      /* bytes before `len` that must not be used */
    const uint8_t *end;   /* end of the unstuffed bytes */
    bool ended;     /* everything is unstuffed, up to the next marker or the end of the file */
    uint8_t marker; /* the marker after the data; 0: the end of the file */

    uint32_t restart; /* MCUs between restart markers; 0: no markers */
    uint32_t left;    /* MCUs until the next restart marker */
    uint32_t number;  /* number of the next restart marker, 0 ... 7 */

    bool telling;        /* jpeg_scan_tell() will be called */
    const uint8_t *told; /* an unstuffed byte whose position is known */
    size_t told_at;      /* the position of that byte in the file */
    uint8_t room[JPEG_SCAN_ROOM];
};

/** Begin with MCU `mcu` of the scan, at `tile`. `telling`: jpeg_scan_tell() may be called. */
void jpeg_scan_begin(struct jpeg_scan *scan, const struct image_file *file,
                     const struct jpeg_tile *tile, uint32_t restart, uint32_t mcu, bool telling);

/** Like jpeg_scan_begin(), but only up to the tile `end`. */
void jpeg_scan_begin_until(struct jpeg_scan *scan, const struct image_file *file,
                           const struct jpeg_tile *tile, const struct jpeg_tile *end,
                           uint32_t restart, uint32_t mcu);

/** Begin with the first MCU of a scan whose entropy-coded data begins at byte `from`. */
void jpeg_scan_begin_whole(struct jpeg_scan *scan, const struct image_file *file, size_t from,
                           uint32_t restart);

/** Get the current position. Call it between two MCUs. */
void jpeg_scan_tell(struct jpeg_scan *scan, struct jpeg_tile *ret);

/** Returns whether the scan is at the position of `tile`, with its DC predictions. Call it between
 * two MCUs, after jpeg_scan_begin_until(). */
bool jpeg_scan_is_at(const struct jpeg_scan *scan, const struct jpeg_tile *tile);

/** Unstuff more bytes. Call it between two MCUs. Returns false if more bytes were read than there
 * are. */
bool jpeg_scan_more(struct jpeg_scan *scan);

/** Skip the restart marker that must be here. Call it between two MCUs. Returns false if the marker
 * is missing. */
bool jpeg_scan_restart(struct jpeg_scan *scan);

/** Begin with the restart interval after the one that `before` is about to read. Returns false if
 * the end of that interval is not in the buffer yet, or if the expected restart marker does not
 * follow it. */
bool jpeg_scan_begin_next(struct jpeg_scan *scan, const struct jpeg_scan *before);

/** Returns whether the whole entropy-coded segment was read and nothing beyond it, and the expected
 * restart marker follows. */
bool jpeg_scan_complete(const struct jpeg_scan *scan);

/** Unstuff the rest, and return whether all of a scan was read, up to a marker, whose position
 * `*ret` receives. Call it after the scan's last MCU. */
bool jpeg_scan_end(struct jpeg_scan *scan, size_t *ret);

/** Make sure that there are enough bytes for an MCU. Call it between two MCUs of a segment. Returns
 * false to give up. */
static inline bool jpeg_scan_ready(struct jpeg_scan *scan)
{
    return scan->bits.at <= scan->limit || jpeg_scan_more(scan);
}

/** Prepare for an MCU. Returns false to give up. */
static inline bool jpeg_scan_mcu(struct jpeg_scan *scan)
{
    if (scan->restart > 0) {
        if (scan->left == 0 && !jpeg_scan_restart(scan))
            return false;
        scan->left--;
    }
    return jpeg_scan_ready(scan);
}

#endif

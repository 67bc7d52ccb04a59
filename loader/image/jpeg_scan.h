/* SPDX-License-Identifier: MIT */
/* jpeg_scan.h - the entropy-coded data of a JPEG, for the decoder of our own.
 *
 * Bytes are unstuffed some thousands at a time into room of our own, which goes on behind the last
 * one, so that the loops over coefficients ask nothing: they look only between two MCUs whether
 * there is enough for another one, or whether the one before had more than there was. Then it is
 * dropped, whatever it read there. */
#ifndef LOADER_IMAGE_JPEG_SCAN_H
#define LOADER_IMAGE_JPEG_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/image/jpeg_huff.h"

/** Between two MCUs: where the data go on, and what DC coefficients are differences from. */
struct jpeg_tile {
    uint32_t at; /* byte of the file * 8 + bit, from the top */
    int16_t dc[JPEG_COMPONENTS];
};

enum {
    /* More bytes than an MCU can have: ten blocks of 64 symbols, of 16 bits and 15 of value. */
    JPEG_MCU_BYTES = 2560,
    JPEG_SCAN_CHUNK = 12 << 10,
    JPEG_SCAN_LEAD = 32,
    JPEG_SCAN_ROOM = JPEG_SCAN_LEAD + JPEG_SCAN_CHUNK + JPEG_MCU_BYTES + 128,
};

struct jpeg_scan {
    struct jpeg_bits bits;
    const uint8_t *limit;        /* when bits.at is beyond it, jpeg_scan_more() is to be called */
    int32_t dc[JPEG_COMPONENTS]; /* the DC coefficients before */

    const uint8_t *bytes; /* of the file */
    size_t from, len;     /* what is not unstuffed yet */
    uint32_t margin;      /* bytes before `len` that are not believed */
    const uint8_t *end;   /* of what is unstuffed */
    bool ended;           /* up to the next marker, or the end of the file */
    uint8_t marker;       /* the one that it ended with; 0: the file's end */

    uint32_t restart; /* MCUs between restart markers, or 0 */
    uint32_t left;    /* of them, to the next one */
    uint32_t number;  /* of that */

    bool telling;        /* jpeg_scan_tell() will be called */
    const uint8_t *told; /* a byte that is unstuffed, */
    size_t told_at;      /* and where it is in the file */
    uint8_t room[JPEG_SCAN_ROOM];
};

/** Begin with MCU `mcu` of the scan, at `tile`. `telling`: jpeg_scan_tell() may be called. */
void jpeg_scan_begin(struct jpeg_scan *scan, const uint8_t *bytes, size_t len,
                     const struct jpeg_tile *tile, uint32_t restart, uint32_t mcu, bool telling);

/** The same with as much as is before another tile. */
void jpeg_scan_begin_until(struct jpeg_scan *scan, const uint8_t *bytes, size_t len,
                           const struct jpeg_tile *tile, const struct jpeg_tile *end,
                           uint32_t restart, uint32_t mcu);

/** Between two MCUs: where it is. */
void jpeg_scan_tell(struct jpeg_scan *scan, struct jpeg_tile *ret);

/** Between two MCUs of such a part: whether it is there. */
bool jpeg_scan_is_at(const struct jpeg_scan *scan, const struct jpeg_tile *tile);

/** Between two MCUs: unstuff more. false: more was read than there is. */
bool jpeg_scan_more(struct jpeg_scan *scan);

/** Between two MCUs: go over the restart marker that must be here. false: it is not. */
bool jpeg_scan_restart(struct jpeg_scan *scan);

/** Begin another scan with the segment behind the one at whose beginning `before` is. false: where
 * that segment ends is not known yet, or a restart marker is not what it ends with. */
bool jpeg_scan_begin_next(struct jpeg_scan *scan, const struct jpeg_scan *before);

/** Whether all of the segment was read, and nothing behind it. */
bool jpeg_scan_complete(const struct jpeg_scan *scan);

/** Between two MCUs of a segment: have enough for one. false: this is nothing for us. */
static inline bool jpeg_scan_ready(struct jpeg_scan *scan)
{
    return scan->bits.at <= scan->limit || jpeg_scan_more(scan);
}

/** Make ready for an MCU. false: this is nothing for us. */
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

/* SPDX-License-Identifier: MIT */
/* jpeg_marker.h - iterates over the segments of a JPEG's header. */
#ifndef LOADER_IMAGE_JPEG_MARKER_H
#define LOADER_IMAGE_JPEG_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Returns the position of the code of the next marker, from `at` on; `len` if there is none.
 *
 * Bytes that belong to no segment are skipped and counted in `junk`, as libjpeg does
 * (next_marker()): everything up to an FF followed by a byte that is neither 00 nor FF. Fill bytes
 * (FF) do not count.
 */
static inline size_t jpeg_marker_find(const uint8_t *bytes, size_t len, size_t at, size_t *junk)
{
    for (;;) {
        for (; at < len && bytes[at] != 0xFF; at++)
            ++*junk;
        while (at < len && bytes[at] == 0xFF)
            at++;
        if (at >= len || bytes[at] != 0)
            return at;
        *junk += 2; /* FF 00 */
        at++;
    }
}

/** An iterator; starts as {bytes, len, .at = 2}, after SOI. */
struct jpeg_markers {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    size_t junk; /* bytes found so far that belong to no segment */
    /* The segment that was found: */
    uint8_t code; /* second byte of its marker */
    const uint8_t *data;
    size_t size; /* size of its data, without the length */
};

/** Returns whether the segment is a frame header, SOFn. (DHT, JPG and DAC have codes in the same
 * range.) */
static inline bool jpeg_markers_at_frame(const struct jpeg_markers *m)
{
    return (m->code & 0xF0) == 0xC0 && m->code != 0xC4 && m->code != 0xC8 && m->code != 0xCC;
}

/** Find the next segment before the first scan; a length below 2 counts as 2. Returns false after
 * the last segment, at a further SOI or an EOI, or if a segment is cut off. */
static inline bool jpeg_markers_next(struct jpeg_markers *m)
{
    for (;;) {
        size_t at = jpeg_marker_find(m->bytes, m->len, m->at, &m->junk), size;

        if (at >= m->len)
            return false;
        m->code = m->bytes[at];
        m->at = at + 1;
        if (m->code == 0x01 || (m->code >= 0xD0 && m->code <= 0xD7)) /* TEM, RSTn: no length */
            continue;
        if (m->code == 0xD8 || m->code == 0xD9 || m->code == 0xDA) /* SOI, EOI, SOS */
            return false;
        if (m->len - m->at < 2)
            return false;
        size = (size_t)m->bytes[m->at] << 8 | m->bytes[m->at + 1];
        if (size < 2) /* libjpeg accepts this when it skips a segment, but not elsewhere */
            size = 2;
        if (size > m->len - m->at)
            return false;
        m->data = m->bytes + m->at + 2;
        m->size = size - 2;
        m->at += size;
        return true;
    }
}

#endif

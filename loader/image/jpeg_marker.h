/* SPDX-License-Identifier: MIT */
/* jpeg_marker.h - the segments of a JPEG's header, one after the other. */
#ifndef LOADER_IMAGE_JPEG_MARKER_H
#define LOADER_IMAGE_JPEG_MARKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A walk; begins with {bytes, len, .at = 2}, behind SOI. */
struct jpeg_markers {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    /* The segment that was found: */
    uint8_t code; /* of its marker */
    const uint8_t *data;
    size_t size; /* of its data, without the length */
};

/** The next segment before the first scan; false behind the last one, and where there is none. */
static inline bool jpeg_markers_next(struct jpeg_markers *m)
{
    while (m->len >= 4 && m->at <= m->len - 4) {
        const uint8_t *p = m->bytes + m->at;
        size_t size = (size_t)p[2] << 8 | p[3];

        if (p[0] != 0xFF)
            return false;
        m->code = p[1];
        if (m->code == 0xFF) { /* a byte that fills up */
            m->at++;
            continue;
        }
        if (m->code == 0x01 || (m->code >= 0xD0 && m->code <= 0xD7)) { /* TEM, RSTn: no length */
            m->at += 2;
            continue;
        }
        if (m->code == 0xD8 || m->code == 0xD9 || m->code == 0xDA) /* SOI, EOI, SOS */
            return false;
        if (size < 2 || size > m->len - m->at - 2)
            return false;
        m->data = p + 4;
        m->size = size - 2;
        m->at += 2 + size;
        return true;
    }
    return false;
}

#endif

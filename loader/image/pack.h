/* pack.h - packed JPEGs: ordinary files of which only the part under a crop is entropy-decoded.
 *
 * A packed file is a baseline JPEG with restart markers, and an APP9 segment that says where the
 * intervals between them lie. docs/packed.md has its layout and says what is guaranteed. */
#ifndef LOADER_IMAGE_PACK_H
#define LOADER_IMAGE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"

/** Where everything lies in a packed file. Offsets are from its first byte. */
struct pack_layout {
    uint32_t width, height;         /* of the image, pixels */
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t interval;              /* MCUs from one restart marker to the next */
    uint32_t across, down;          /* intervals in a row of MCUs; rows of MCUs */
    size_t segment, segment_end;    /* the APP9 segment */
    size_t size_at;                 /* height and width in the frame header, 2 bytes each */
    size_t data;                    /* the first entropy-coded byte */
    size_t lengths;                 /* of the intervals: see pack_length() */
};

/**
 * Look whether a file is packed and intact.
 *
 * All of it is read once, for its checksum. What a layout says has been checked against the
 * header, and the lengths of the intervals add up to the file's.
 *
 * 1 it is; 0 it is some other file; -EBADMSG it claims to be packed, but is not as it was when it
 * was packed: it is to be decoded like any other file.
 */
int pack_read(const uint8_t *bytes, size_t len, struct pack_layout *ret, struct plenum_error *err);

/** Bytes of one interval with the marker behind it, from `*at` on, which moves on. Only for lengths
 * that pack_read() has seen. */
static inline uint32_t pack_length(const uint8_t *bytes, size_t *at)
{
    uint32_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = bytes[(*at)++];

        value |= (uint32_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

/** What image_pack() did with a file. */
enum pack_outcome {
    PACK_BASELINE,        /* packed; it was a JPEG with one scan */
    PACK_CONVERTED,       /* packed; it was progressive, or had several scans */
    PACK_KEPT_PACKED,     /* kept as it is: it is packed already */
    PACK_KEPT_PNG,        /* ... it is no JPEG */
    PACK_KEPT_CMYK,       /* ... it has four components */
    PACK_KEPT_ARITHMETIC, /* ... it is arithmetic coded */
    PACK_KEPT_ODD,        /* ... it has a form that a packed file cannot have */
    PACK_KEPT_BAD,        /* ... it is bad: it does not decode without a warning */
    PACK_OUTCOMES
};

struct pack_result {
    enum pack_outcome outcome;
    uint8_t *bytes;  /* packed: the file; malloc, for the caller to free. Else NULL */
    size_t len;      /* of it */
    uint32_t across; /* packed: intervals in a row of MCUs; 1: the row is one interval */
};

/**
 * Pack a file, if it can be packed without changing a pixel of any crop.
 *
 * Everything is proved for each file: that it decodes whole without a warning, that the packed one
 * has the same coefficients and quantisation tables, and the same pixels.
 *
 * 0, or -ENOMEM. When a file is kept as it is, `err` says why.
 */
int image_pack(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
               struct pack_result *ret, struct plenum_error *err);

/**
 * Compare some regions of a packed file, drawn by `seed`, decoded in part and decoded as of any
 * other JPEG.
 *
 * 0: they are equal, or the file is not packed; -EBADMSG: they are not, or pack_read() refuses it;
 * -ENOMEM.
 */
int pack_prove(struct image_decoder *decoder, const uint8_t *bytes, size_t len, uint64_t seed,
               uint32_t crops, struct plenum_error *err);

/* Of pack.c and jpeg_pack.c, for each other. */

/** The restart interval for an image of `mcus` MCUs a row and `rows` rows, in MCUs; `bytes` of
 * compressed data. It divides the row. */
uint32_t pack_interval(uint32_t mcus, uint32_t rows, size_t bytes);

/** The same coefficients as a baseline JPEG with restart markers, and orientation. */
struct jpeg_transcoded {
    uint8_t *bytes; /* malloc */
    size_t len;
    bool converted; /* it was progressive, or had several scans */
};

/** 0; -ENOMEM; or -EOPNOTSUPP, with the outcome and a sentence, where it is kept as it is. */
int jpeg_transcode(const uint8_t *bytes, size_t len, uint8_t orientation,
                   struct jpeg_transcoded *ret, enum pack_outcome *outcome,
                   struct plenum_error *err);

#endif

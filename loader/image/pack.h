/* SPDX-License-Identifier: MIT */
/* pack.h - packed JPEGs: ordinary files of which only the part under a crop is entropy-decoded.
 *
 * A packed file is a baseline JPEG with restart markers, whose intervals between two markers divide
 * the rows of MCUs evenly, and an APP9 segment with a checksum of it. docs/packed.md has the layout
 * and says what is guaranteed. */
#ifndef LOADER_IMAGE_PACK_H
#define LOADER_IMAGE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"
#include "loader/image/pack_resize.h"
#include "loader/image/scratch.h"

/** Where everything lies in a packed file. Offsets are from its first byte. */
struct pack_layout {
    uint32_t width, height;         /* of the image, pixels */
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t interval;              /* MCUs from one restart marker to the next */
    uint32_t across, down;          /* intervals in a row of MCUs; rows of MCUs */
    size_t segment, segment_end;    /* the APP9 segment */
    size_t size_at;                 /* height and width in the frame header, 2 bytes each */
    size_t data;                    /* the first entropy-coded byte */
    /* Where each interval ends, its marker included; [across * down]. In the scratch that was given
     * to pack_read(), as long as that is not used otherwise. */
    const uint32_t *ends;
};

/**
 * Look whether a file is packed and intact.
 *
 * All of it is read, for its checksum and its markers. What the layout says is taken from the
 * file's own header and markers, so that it cannot say anything else than what a decoder of the
 * whole file meets.
 *
 * 1 it is; 0 it is some other file; -EBADMSG it claims to be packed, but is not as it was when it
 * was packed: it is to be decoded like any other file; -ENOMEM.
 */
int pack_read(const uint8_t *bytes, size_t len, struct scratch *scratch, struct pack_layout *ret,
              struct plenum_error *err);

/** What image_pack() did with a file. */
enum pack_outcome {
    PACK_BASELINE,        /* packed; it was a JPEG with one scan */
    PACK_CONVERTED,       /* packed; it was progressive, or had several scans */
    PACK_RESIZED,         /* packed; it was made smaller before */
    PACK_RAW,             /* raw pixels, those of the file */
    PACK_RAW_RESIZED,     /* raw pixels; it was made smaller before */
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
    uint8_t *bytes; /* packed or raw: the file; malloc, for the caller to free. Else NULL */
    size_t len;     /* of it */
    bool whole_row; /* packed, but an interval is a whole row of MCUs: their number has no divisor
                       that would do */
};

/**
 * Pack a file, if it can be packed without changing a pixel of any crop.
 *
 * Everything is proved for each file: that it decodes whole without a warning, that the packed one
 * has the same coefficients, quantisation tables and pixels, and all that pack_prove() proves. A
 * file with junk (struct image_info) is bad.
 *
 * 0, or -ENOMEM. When a file is kept as it is, `err` says why.
 */
int image_pack(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
               struct pack_result *ret, struct plenum_error *err);

/**
 * The same with files that `resize` makes smaller first, where it does: of these nothing is kept
 * but the orientation. Others are packed as image_pack() does, and so are all if it is NULL. And
 * -ENOTSUP, with a sentence, where this build has no decoder for the file.
 */
int image_pack_resized(struct image_decoder *decoder, const struct pack_resize *resize,
                       const uint8_t *bytes, size_t len, struct pack_result *ret,
                       struct plenum_error *err);

enum { PACK_RAW_MAX = 256 << 20 }; /* bytes of a file of raw pixels */

/**
 * The same for samples that become raw pixels: a PPM of the image that image_pack_resized() would
 * encode, or of all its pixels where it is not made smaller. What would be too large for a sample
 * is packed as by image_pack_resized().
 *
 * It is proved that the PPM, read again, has these pixels and the orientation.
 */
int image_pack_raw(struct image_decoder *decoder, const struct pack_resize *resize,
                   const uint8_t *bytes, size_t len, struct pack_result *ret,
                   struct plenum_error *err);

/**
 * Prove that the intervals of a packed file can be decoded alone: that parts, spliced as for a
 * crop, have the same coefficients as the whole file there. Each interval is in one of the parts.
 *
 * 1: they can; 0: the file is not packed; -EBADMSG: they cannot, or pack_read() refuses the file;
 * -ENOMEM.
 */
int pack_prove(const uint8_t *bytes, size_t len, struct plenum_error *err);

/** The name of an outcome, for programs: "baseline", "kept-png". */
const char *pack_outcome_name(enum pack_outcome outcome);

/* Shared by pack.c and jpeg_pack.c. */

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

/** A part of a JPEG, as a JPEG of its own, and where it lies in the whole. */
struct jpeg_part {
    const uint8_t *bytes;
    size_t len;
    uint32_t left, top; /* MCUs */
};

/** Check that each part has the coefficients, quantisation tables and colours of the whole file
 * there, and decodes without a warning: 0; -ENOMEM; or -EBADMSG with a sentence. */
int jpeg_compare_parts(const uint8_t *bytes, size_t len, const struct jpeg_part *parts,
                       size_t count, struct plenum_error *err);

#endif

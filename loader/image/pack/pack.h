/* SPDX-License-Identifier: MIT */
/* pack.h - reads and writes packed JPEGs: ordinary files in which only the part under a crop has to
 * be entropy-decoded.
 *
 * A packed file is a baseline JPEG with restart markers, whose restart intervals divide the rows of
 * MCUs evenly, and an APP9 segment with the file's checksum. docs/packed.md describes the layout
 * and the guarantees. */
#ifndef LOADER_IMAGE_PACK_H
#define LOADER_IMAGE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/image/image.h"
#include "loader/image/pack/pack_resize.h"
#include "loader/image/scratch.h"

/** The positions of everything in a packed file. Offsets are from its first byte. */
struct pack_layout {
    uint32_t width, height;         /* size of the image in pixels */
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t interval;              /* MCUs from one restart marker to the next */
    uint32_t across, down;          /* intervals in a row of MCUs; rows of MCUs */
    size_t segment, segment_end;    /* the APP9 segment */
    size_t size_at;                 /* offset of the height and the width in the frame header, 2
                                     * bytes each */
    size_t data;                    /* offset of the first entropy-coded byte */
    /* [across * down]: the end of each interval, including its marker. Borrowed from the scratch
     * memory that was passed to pack_read(). */
    const uint32_t *ends;
};

/**
 * Check whether a file is packed and intact.
 *
 * The whole file is read, for its checksum and its markers. The layout is taken from the file's own
 * header and markers, so that it always agrees with what a decoder of the whole file finds.
 *
 * Returns 1 if it is packed; 0 for any other file; -EBADMSG if it claims to be packed but has
 * changed since: decode it like any other file; -ENOMEM.
 */
int pack_read(const uint8_t *bytes, size_t len, struct scratch *scratch, struct pack_layout *ret,
              struct plenum_error *err);

/** The result of image_pack() for a file. */
enum pack_outcome {
    PACK_BASELINE,    /* packed; the original was a JPEG with one scan */
    PACK_CONVERTED,   /* packed; the original was progressive, or had several scans */
    PACK_RESIZED,     /* packed; the image was resized first */
    PACK_RAW,         /* raw pixels of the original size */
    PACK_RAW_RESIZED, /* raw pixels; the image was resized first */
    /* The file is kept unchanged, because: */
    PACK_KEPT_PACKED,     /* it is already packed */
    PACK_KEPT_PNG,        /* it is not a JPEG */
    PACK_KEPT_CMYK,       /* it has four components */
    PACK_KEPT_ARITHMETIC, /* it is arithmetic coded */
    PACK_KEPT_ODD,        /* a packed file cannot have its form, or the proof failed */
    PACK_KEPT_BAD,        /* it does not decode without a warning, or not at all */
    PACK_OUTCOMES
};

struct pack_result {
    enum pack_outcome outcome;
    uint8_t *bytes; /* the packed or raw file; malloc, for the caller to free. NULL: kept */
    size_t len;     /* length of `bytes` */
    /* Packed, but an interval is a whole row of MCUs, because their number has no suitable
     * divisor. */
    bool whole_row;
};

/**
 * Pack a file, if that is possible without changing a pixel of any crop.
 *
 * For each packed file, this proves that the original decodes completely without a warning, that
 * the packed file has the same coefficients, quantisation tables and pixels, and what pack_prove()
 * proves. A file with junk (struct image_info) is bad.
 *
 * Returns 0 or -ENOMEM. If a file is kept unchanged, `err` has the reason.
 */
int image_pack(struct image_decoder *decoder, const struct image_file *file,
               struct pack_result *ret, struct plenum_error *err);

/**
 * Like image_pack(), but first resizes the files that `resize` selects; of their metadata, only the
 * orientation is kept. Other files are packed as by image_pack(), and so are all files if `resize`
 * is NULL. Also returns -ENOTSUP, with a message, if `resize` selects by size and this build has no
 * decoder for the file.
 */
int image_pack_resized(struct image_decoder *decoder, const struct pack_resize *resize,
                       const struct image_file *file, struct pack_result *ret,
                       struct plenum_error *err);

enum { PACK_RAW_MAX = 256 << 20 }; /* bytes of a file of raw pixels */

/**
 * Like image_pack_resized(), for samples that become raw pixels: a PPM of the image that would be
 * encoded, or of all pixels if the image is not resized. If that would be too large for a sample,
 * the file is packed as by image_pack_resized().
 *
 * This proves that the PPM, read back, has these pixels and the orientation.
 */
int image_pack_raw(struct image_decoder *decoder, const struct pack_resize *resize,
                   const struct image_file *file, struct pack_result *ret,
                   struct plenum_error *err);

/**
 * Prove that the intervals of a packed file can be decoded alone: parts that are spliced as for a
 * crop have the coefficients that the whole file has there. These parts cover all intervals.
 *
 * Returns 1 if they can; 0 if the file is not packed; -EBADMSG if they cannot, or if pack_read()
 * rejects the file; -ENOMEM.
 */
int pack_prove(const uint8_t *bytes, size_t len, struct plenum_error *err);

/** Returns the name of an outcome, for programs, such as "baseline" or "kept-png". */
const char *pack_outcome_name(enum pack_outcome outcome);

/* Shared by pack.c and jpeg_pack.c. */

/** Returns the restart interval, in MCUs, for an image of `mcus` MCUs per row, `rows` rows and
 * `bytes` of compressed data. It divides `mcus`; it is `mcus` itself if no shorter interval leaves
 * enough bytes in each. */
uint32_t pack_interval(uint32_t mcus, uint32_t rows, size_t bytes);

/** The result of jpeg_transcode(): a baseline JPEG with restart markers, and with the original's
 * coefficients and orientation. */
struct jpeg_transcoded {
    uint8_t *bytes; /* the caller frees it */
    size_t len;
    bool converted; /* the original was progressive, or had several scans */
};

/** Convert a JPEG. Returns 0; -ENOMEM; or -EOPNOTSUPP, with the outcome and a message, if the file
 * is kept unchanged. */
int jpeg_transcode(const uint8_t *bytes, size_t len, uint8_t orientation,
                   struct jpeg_transcoded *ret, enum pack_outcome *outcome,
                   struct plenum_error *err);

/** A part of a JPEG as a separate JPEG, and its position in the whole. */
struct jpeg_part {
    const uint8_t *bytes;
    size_t len;
    uint32_t left, top; /* position in MCUs */
};

/** Check that each part has the whole file's coefficients at its position, and its quantisation
 * tables and colours, and decodes without a warning. Returns 0; -ENOMEM; or -EBADMSG with a
 * message. */
int jpeg_compare_parts(const uint8_t *bytes, size_t len, const struct jpeg_part *parts,
                       size_t count, struct plenum_error *err);

#endif

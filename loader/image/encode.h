/* SPDX-License-Identifier: MIT */
/* encode.h - encodes pixels as image files, for contact sheets, prepared data, sample data and
 * tests. */
#ifndef LOADER_IMAGE_ENCODE_H
#define LOADER_IMAGE_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum encode_subsampling {
    ENCODE_420,
    ENCODE_422,
    ENCODE_444,
    ENCODE_440,
    ENCODE_411,
};

/** The pixels and the format to write. Starts as zeros: colour, 4:2:0, baseline. */
struct encode_options {
    const uint8_t *pixels; /* [height][width][3] RGB, or [height][width][1] when grey, or
                              [height][width][4] when cmyk or alpha */
    uint32_t width, height;
    int quality; /* JPEG: 1 ... 100; 0: 90 */
    enum encode_subsampling subsampling;
    bool grey;
    bool cmyk;  /* JPEG: CMYK, inverted as in files written by Adobe programs */
    bool alpha; /* PNG: RGB and opacity */
    bool progressive;
    bool optimize;    /* build Huffman tables for this image */
    unsigned restart; /* MCU rows between restart markers; 0: none */
};

/** Encode a JPEG into memory that the caller frees. Returns 0, -ENOMEM, or -EINVAL if the library
 * rejects the options. */
int encode_jpeg(const struct encode_options *options, uint8_t **ret, size_t *ret_len);

/** Encode a PNG into memory that the caller frees. Returns 0, -ENOMEM, or -EINVAL if the library
 * rejects the options. */
int encode_png(const struct encode_options *options, uint8_t **ret, size_t *ret_len);

#endif

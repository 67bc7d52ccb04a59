/* SPDX-License-Identifier: MIT */
/* jpeg_frame.h - what the header of a JPEG says, for the decoder of our own.
 *
 * Strict: a header of which libjpeg would say a word, or that asks for what our decoder does not
 * do, is not ours. libjpeg then decides what becomes of the file. */
#ifndef LOADER_IMAGE_JPEG_FRAME_H
#define LOADER_IMAGE_JPEG_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_BLOCK = 8,       /* samples of a block, across and down */
    JPEG_COMPONENTS = 3,  /* at most */
    JPEG_TABLES = 4,      /* of each sort */
    JPEG_MCU_BLOCKS = 10, /* at most */
};

/** How one of a component's axes is brought to the size of the image. */
enum jpeg_stretch {
    JPEG_SAME,   /* it has it */
    JPEG_FANCY,  /* twice, each sample weighted with its neighbours */
    JPEG_REPEAT, /* each sample `across` or `down` times */
};

struct jpeg_component {
    uint8_t id;
    uint8_t h, v;          /* blocks of an MCU, across and down */
    uint8_t quant, dc, ac; /* tables */
    uint8_t across, down;  /* pixels of a sample */
    enum jpeg_stretch stretch_across, stretch_down;
    uint32_t width, height; /* samples that the image covers */
};

/** A Huffman table as it lies in the file, borrowed; NULL: none. */
struct jpeg_huff_spec {
    const uint8_t *bytes; /* how many codes have 1 ... 16 bits, then their symbols */
    uint32_t count;       /* of symbols */
};

struct jpeg_frame {
    uint32_t width, height; /* of the image, pixels */
    uint32_t count;         /* of components: 1, or 3 in one scan */
    bool ycc;               /* three components are YCbCr, not RGB */
    bool context;           /* rows are mixed with those of the next MCU row */
    struct jpeg_component component[JPEG_COMPONENTS];
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t mcus, rows;            /* MCUs in a row; rows of MCUs */
    uint32_t group;                 /* rows of pixels that libjpeg makes at once */
    uint32_t strip;                 /* rows of pixels that it reads at once; whole rows of MCUs */
    uint32_t restart;               /* MCUs between restart markers; 0: there are none */
    size_t data;                    /* the first entropy-coded byte */
    int16_t quant[JPEG_TABLES][64]; /* in natural order, modulo 2^16 */
    struct jpeg_huff_spec dc[JPEG_TABLES], ac[JPEG_TABLES];
};

/** The natural place of the coefficients in the order in which they are sent. */
extern const uint8_t jpeg_zigzag[64];

/** Whether the file is one for our decoder. */
bool jpeg_frame_parse(const uint8_t *bytes, size_t len, struct jpeg_frame *ret);

#endif

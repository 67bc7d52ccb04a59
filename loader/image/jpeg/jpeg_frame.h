/* SPDX-License-Identifier: MIT */
/* jpeg_frame.h - parses the header of a JPEG for our own decoder.
 *
 * The parser is strict: it rejects a header that libjpeg would warn about, or that our decoder does
 * not support. libjpeg then decodes the file. */
#ifndef LOADER_IMAGE_JPEG_FRAME_H
#define LOADER_IMAGE_JPEG_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JPEG_BLOCK = 8,       /* samples in a block, across and down */
    JPEG_COMPONENTS = 4,  /* maximum number of components */
    JPEG_TABLES = 4,      /* tables of each kind */
    JPEG_MCU_BLOCKS = 10, /* maximum number of blocks in an MCU */
};

/** How a component is upsampled along one axis. */
enum jpeg_stretch {
    JPEG_SAME,   /* the component has the size of the image */
    JPEG_FANCY,  /* "fancy", by 2: each sample is weighted with its neighbours */
    JPEG_REPEAT, /* each sample is repeated `across` or `down` times */
};

struct jpeg_component {
    uint8_t id;
    uint8_t h, v;          /* blocks per MCU, across and down */
    uint8_t quant, dc, ac; /* tables */
    uint8_t across, down;  /* pixels per sample */
    enum jpeg_stretch stretch_across, stretch_down;
    uint32_t width, height; /* samples that the image covers */
};

/** A Huffman table as stored in the file, borrowed; NULL: none. */
struct jpeg_huff_spec {
    const uint8_t *bytes; /* the number of codes with 1 ... 16 bits, then their symbols */
    uint32_t count;       /* number of symbols */
};

/** The contents of one scan: coefficients `first` ... `last` of some components, in zigzag order.
 * `low` is the lowest bit that it sends; if `high` is not 0, earlier scans have sent the higher
 * bits. */
struct jpeg_scan_spec {
    uint32_t count; /* number of components */
    uint8_t component[JPEG_COMPONENTS];
    uint8_t first, last, high, low;
};

struct jpeg_frame {
    uint32_t width, height; /* size of the image in pixels */
    uint32_t count;         /* number of components: 1, 3 or 4 */
    bool progressive;
    bool several; /* the file may have several scans */
    bool ycc;     /* the first three components are YCbCr, not RGB or CMY */
    bool context; /* upsampling needs rows of the next MCU row */
    struct jpeg_component component[JPEG_COMPONENTS];
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t mcus, rows;            /* MCUs in a row; rows of MCUs */
    uint32_t group;                 /* rows of pixels that libjpeg produces at a time */
    uint32_t strip;   /* rows of pixels that libjpeg reads at a time; whole rows of MCUs */
    uint32_t restart; /* MCUs between restart markers; 0: no markers */
    uint32_t blocks;  /* blocks of all components, without those that pad MCUs */
    struct jpeg_scan_spec scan; /* the first scan; later the one that jpeg_frame_next() found */
    size_t data;                /* offset of the scan's first entropy-coded byte */
    int8_t sent[JPEG_COMPONENTS][64]; /* the lowest bit sent so far of each coefficient; -1: none */
    uint32_t quant_defined;           /* one bit for each table */
    int16_t quant[JPEG_TABLES][64];   /* in natural order, modulo 2^16 */
    struct jpeg_huff_spec dc[JPEG_TABLES], ac[JPEG_TABLES];
};

/** Returns the number of blocks that this number of samples spans. */
static inline uint32_t jpeg_blocks(uint32_t samples)
{
    return (samples + JPEG_BLOCK - 1) / JPEG_BLOCK;
}

/** The natural index of each coefficient in zigzag order. */
extern const uint8_t jpeg_zigzag[64];

/** Parse the header. Returns false if our decoder does not support the file. `junk`: skip bytes
 * between the header's segments. */
bool jpeg_frame_parse(const uint8_t *bytes, size_t len, bool junk, struct jpeg_frame *ret);

/** Parse up to the next scan of a frame with several scans, starting at `at`, after a scan. Sets
 * frame->scan, `data`, `sent`, `restart` and the Huffman tables to those of that scan, or sets
 * `*end`. Returns false if our decoder does not support the file. */
bool jpeg_frame_next(struct jpeg_frame *frame, const uint8_t *bytes, size_t len, size_t at,
                     bool *end);

#endif

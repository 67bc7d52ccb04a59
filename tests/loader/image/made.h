/* SPDX-License-Identifier: MIT */
/* made.h - images made up on the spot: every form of JPEG and PNG that the tests need.
 *
 * The encoders are libjpeg's and libpng's; the pixels are stripes, blobs and noise, so that every
 * chroma sample differs from its neighbours and a shift by one shows. */
#ifndef TESTS_LOADER_IMAGE_MADE_H
#define TESTS_LOADER_IMAGE_MADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct made {
    uint8_t *bytes; /* malloc */
    size_t len;
};

enum made_colour { MADE_GREY, MADE_COLOUR, MADE_RGB, MADE_CMYK, MADE_YCCK, MADE_TWO };

struct made_jpeg {
    char name[24];
    uint32_t width, height;
    enum made_colour colour;
    /* Sampling factors as digits, one pair a component: "22 11 11"; "" is 4:2:0. */
    char sampling[16];
    int quality; /* 0: 85 */
    int restart; /* MCUs between restart markers */
    bool progressive, arithmetic;
    bool separate;    /* one scan a component, not progressive */
    bool unfinished;  /* progressive, without the scans that complete it */
    bool wide_tables; /* quantisation tables of 16 bits */
    bool optimised;   /* Huffman tables made for the file */
    bool no_jfif;     /* no segment says that it is YCbCr */
    int orientation;  /* an APP1 with it; 0: none */
    uint32_t seed;
};

struct made_png {
    char name[24];
    uint32_t width, height;
    int colour_type, depth; /* libpng's numbers */
    bool interlaced;
    bool transparent; /* a tRNS chunk */
    int orientation;  /* an eXIf chunk with it; 0: none */
};

/** Every kind of JPEG once; width and height are left to the test. */
extern const struct made_jpeg made_kinds[];
extern const size_t made_kinds_count;

/** Encode; ends the program when that fails, as it is the test that is wrong then. */
struct made make_jpeg(const struct made_jpeg *spec);
/** A baseline JPEG of coefficients and quantisation tables that no encoder makes of pixels: of all
 * magnitudes, up to the largest. `width`, `height`, `sampling`, `colour` and `seed` count. */
struct made make_wild_jpeg(const struct made_jpeg *spec);
struct made make_png(const struct made_png *spec);

/** The bytes of row y as they are handed to libpng. */
void made_png_row(const struct made_png *spec, uint32_t y, uint8_t *row);

/** A file's bytes; {NULL, 0} when it cannot be read. */
struct made read_file(const char *path);

#endif

/* SPDX-License-Identifier: MIT */
/* made.h - images made up on the spot: every form of file that the tests need.
 *
 * The encoders are libjpeg's, libpng's, libwebp's and libavif's; the pixels are stripes, blobs and
 * noise, so that every chroma sample differs from its neighbours and a shift by one shows. */
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
    uint32_t script;  /* 0, or the number of a random list of scans, which may be unfinished, too */
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
    /* How libpng compresses it; 0: as it does by itself. */
    int filters;  /* PNG_FILTER_UP and so on */
    int level;    /* zlib's, 1 ... 9; -1: it is stored */
    int strategy; /* zlib's: 2 no matches, 3 only such as repeat a byte, 4 fixed codes */
    bool flat;    /* of few colours, so that there is much to match */
};

struct made_webp {
    char name[32];
    uint32_t width, height; /* of the image, or of the first frame */
    bool lossless;
    bool alpha;
    int quality; /* 0: 75 */
    /* Of a lossy one, as libwebp has them. */
    int filter;          /* 0 none, 1 simple, 2 complex */
    int sharpness;       /* of the filter, 0 ... 7 */
    int partitions;      /* 0 ... 3 */
    int orientation;     /* an EXIF chunk with it; 0: none */
    bool exif_has_mark;  /* which begins as a JPEG's segment does */
    bool animated;       /* with a second frame of one pixel */
    uint32_t left, top;  /* of its first frame, even */
    uint32_t more_right; /* of the canvas beyond the frame */
    uint32_t more_below;
    uint32_t seed;
};

struct made_avif {
    char name[32];
    uint32_t width, height;
    uint32_t depth;    /* 0: 8 */
    uint32_t sampling; /* 444, 422 or 400; 0: 4:2:0 */
    bool limited;      /* levels as in video */
    uint32_t matrix;   /* of H.273; 0: BT.601 */
    bool identity;     /* the planes are G, B and R */
    bool lossless;     /* the planes come out as they went in */
    bool alpha, premultiplied;
    uint32_t turn;              /* quarters of a turn against the clock */
    uint32_t mirror;            /* 1: top and bottom exchanged, 2: left and right */
    uint32_t cut_left, cut_top; /* outside of a clean aperture */
    uint32_t cut_right, cut_below;
    int orientation;        /* EXIF's, which counts for nothing; 0: none */
    uint32_t columns, rows; /* of a grid; 0: none */
    bool animated;          /* with a second frame */
    uint32_t seed;
};

struct made_ppm {
    char name[24];
    uint32_t width, height;
    bool grey;       /* a PGM */
    int orientation; /* in a comment, as plenumctl pack writes it; 0: none */
    bool others;     /* a header as other programs write it */
};

/** Every kind of JPEG once; width and height are left to the test. */
extern const struct made_jpeg made_kinds[];
extern const size_t made_kinds_count;

/** Encode; ends the program when that fails, as it is the test that is wrong then. */
struct made make_jpeg(const struct made_jpeg *spec);
/** A JPEG of coefficients and quantisation tables that no encoder makes of pixels: of all
 * magnitudes, up to the largest. It is baseline, or has the scans of `script`; `width`, `height`,
 * `sampling`, `colour` and `seed` count, and `restart` where there is a script. */
struct made make_wild_jpeg(const struct made_jpeg *spec);
struct made make_png(const struct made_png *spec);

/** Where there is libwebp. */
struct made make_webp(const struct made_webp *spec);
/** Every kind of WebP once; width and height are left to the test. */
extern const struct made_webp made_webps[];
extern const size_t made_webps_count;
/** The pixel at (x, y) of the image, R G B A, as it is handed to libwebp. */
void made_webp_pixel(const struct made_webp *spec, uint32_t x, uint32_t y, uint8_t rgba[4]);

/** Where there is libavif, and an encoder behind it. */
struct made make_avif(const struct made_avif *spec);
/** Every kind of AVIF once; width and height are left to the test. */
extern const struct made_avif made_avifs[];
extern const size_t made_avifs_count;
/** A sample of plane 0 to 2, as it is handed to libavif. */
uint32_t made_avif_sample(const struct made_avif *spec, uint32_t plane, uint32_t x, uint32_t y);

/** Raw pixels. */
struct made make_ppm(const struct made_ppm *spec);
/** Every kind once; width and height are left to the test. */
extern const struct made_ppm made_ppms[];
extern const size_t made_ppms_count;

/** The bytes of row y as they are handed to libpng. */
void made_png_row(const struct made_png *spec, uint32_t y, uint8_t *row);

/** A file's bytes; {NULL, 0} when it cannot be read. */
struct made read_file(const char *path);

#endif

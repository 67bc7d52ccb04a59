/* SPDX-License-Identifier: MIT */
/* made.h - synthetic images in every file format and variant that the tests need.
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
    /* Sampling factors as digits, a pair for each component ("22 11 11"); "" means 4:2:0. */
    char sampling[16];
    int quality; /* 0: 85 */
    int restart; /* MCUs between restart markers */
    bool progressive, arithmetic;
    bool separate;    /* one scan for each component, not progressive */
    bool unfinished;  /* progressive, without the scans that complete it */
    uint32_t script;  /* 0, or the number of a random list of scans, which may be incomplete */
    bool wide_tables; /* quantisation tables of 16 bits */
    bool optimised;   /* Huffman tables made for the file */
    bool no_jfif;     /* without the segment that marks it as YCbCr */
    int orientation;  /* stored in an APP1 segment; 0: none */
    uint32_t seed;
};

struct made_png {
    char name[24];
    uint32_t width, height;
    int colour_type, depth; /* libpng's numbers */
    bool interlaced;
    bool transparent; /* a tRNS chunk */
    int orientation;  /* stored in an eXIf chunk; 0: none */
    /* How libpng compresses it; 0: its default. */
    int filters;  /* PNG_FILTER_UP and so on */
    int level;    /* zlib's, 1 ... 9; -1: stored, not compressed */
    int strategy; /* zlib's: 2 no matches, 3 only matches that repeat a byte, 4 fixed codes */
    bool flat;    /* few colours, so that there are many matches */
};

struct made_webp {
    char name[32];
    uint32_t width, height; /* size of the image, or of the first frame */
    bool lossless;
    bool alpha;
    int quality; /* 0: 75 */
    /* Options of lossy files, as in libwebp. */
    int filter;          /* 0 none, 1 simple, 2 complex */
    int sharpness;       /* sharpness of the filter, 0 ... 7 */
    int partitions;      /* 0 ... 3 */
    int orientation;     /* stored in an EXIF chunk; 0: none */
    bool exif_has_mark;  /* the EXIF chunk begins with "Exif\0\0", like a JPEG's segment */
    bool animated;       /* with a second frame of one pixel */
    uint32_t left, top;  /* position of the first frame, even */
    uint32_t more_right; /* columns of the canvas to the right of the frame */
    uint32_t more_below;
    uint32_t seed;
};

struct made_avif {
    char name[32];
    uint32_t width, height;
    uint32_t depth;    /* 0: 8 */
    uint32_t sampling; /* 444, 422 or 400; 0: 4:2:0 */
    bool limited;      /* levels as in video */
    uint32_t matrix;   /* its number in H.273; 0: BT.601 */
    bool identity;     /* the planes are G, B and R */
    bool lossless;     /* the planes are stored without loss */
    bool alpha, premultiplied;
    uint32_t turn;              /* quarters of a turn, anticlockwise */
    uint32_t mirror;            /* 1: top and bottom exchanged, 2: left and right */
    uint32_t cut_left, cut_top; /* pixels outside of a clean aperture */
    uint32_t cut_right, cut_below;
    int orientation;        /* EXIF's, which readers ignore; 0: none */
    uint32_t columns, rows; /* tiles of a grid; 0: no grid */
    bool animated;          /* with a second frame */
    uint32_t seed;
};

struct made_ppm {
    char name[24];
    uint32_t width, height;
    bool grey;       /* a PGM */
    int orientation; /* in a comment, like plenumctl pack writes it; 0: none */
    bool others;     /* with a header like those of other programs */
};

/** One of every kind of JPEG; tests set width and height. */
extern const struct made_jpeg made_kinds[];
extern const size_t made_kinds_count;

/** These encode an image, and end the program on failure, which is an error in the test. */
struct made make_jpeg(const struct made_jpeg *spec);
/** Make a JPEG with coefficients and quantisation tables that no encoder produces from pixels: of
 * all magnitudes, up to the largest. It is baseline, or has the scans of `script`. It uses `width`,
 * `height`, `sampling`, `colour` and `seed`, and `restart` if there is a script. */
struct made make_wild_jpeg(const struct made_jpeg *spec);
struct made make_png(const struct made_png *spec);

/** Make a WebP. Only in builds with libwebp. */
struct made make_webp(const struct made_webp *spec);
/** One of every kind of WebP; tests set width and height. */
extern const struct made_webp made_webps[];
extern const size_t made_webps_count;
/** Get the pixel at (x, y) of the image, R G B A, as it is passed to libwebp. */
void made_webp_pixel(const struct made_webp *spec, uint32_t x, uint32_t y, uint8_t rgba[4]);

/** Make an AVIF. Only in builds with a libavif that has an encoder. */
struct made make_avif(const struct made_avif *spec);
/** One of every kind of AVIF; tests set width and height. */
extern const struct made_avif made_avifs[];
extern const size_t made_avifs_count;
/** Returns a sample of plane 0 to 2, as it is passed to libavif. */
uint32_t made_avif_sample(const struct made_avif *spec, uint32_t plane, uint32_t x, uint32_t y);

/** Make a file of raw pixels. */
struct made make_ppm(const struct made_ppm *spec);
/** One of every kind of PPM and PGM; tests set width and height. */
extern const struct made_ppm made_ppms[];
extern const size_t made_ppms_count;

/** Get the bytes of row y as they are passed to libpng. */
void made_png_row(const struct made_png *spec, uint32_t y, uint8_t *row);

/** Returns a file's bytes, or {NULL, 0} if it cannot be read. */
struct made read_file(const char *path);

#endif

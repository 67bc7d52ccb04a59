/* SPDX-License-Identifier: MIT */
/* limits.h - limits beyond which an image is bad.
 *
 * A file of a few hundred bytes can cause gigabytes of memory or minutes of work to be used. An
 * image over one of these limits is a bad sample. Since bad samples are replaced by others, the
 * limits are part of the definition of pixels (docs/pixels.md) and never depend on the machine.
 * They are far above any photograph: the largest image of ImageNet has 61 million pixels. */
#ifndef LOADER_IMAGE_LIMITS_H
#define LOADER_IMAGE_LIMITS_H

enum {
    /* Pixels per side. This is the maximum of libjpeg, and plenty for PNG. */
    IMAGE_SIDE_MAX = 65500,
    /* Width times height, in pixels. */
    IMAGE_PIXELS_MAX = 1 << 27,
    /* Bytes before the compressed data: profiles, previews, comments. */
    IMAGE_HEADER_MAX = 16 << 20,
    /* Images of an AVIF sequence. Only the first is shown, but each takes memory. */
    IMAGE_FRAMES_MAX = 1 << 16,
    /* Bytes of an AVIF's boxes that list items and chunks (avif_scan.c): about 1,300 tiles. libavif
     * searches for each item among all others, and has a decoder of 400 KiB for each tile. */
    IMAGE_LISTS_MAX = 1 << 16,
    /* Boxes of an AVIF that libavif reads: a few, plus some properties of each tile in a grid. */
    IMAGE_BOXES_MAX = 1 << 16,
    /* Bytes by which all items of an AVIF together may exceed the file: identical tiles, such as
     * opaque alpha, may be stored once. */
    IMAGE_SHARED_MAX = 16 << 20,
    /* Pixels of one tile of an AVIF, times the number of tiles: the pixels of the image, and those
     * of a grid that lie outside the image. */
    IMAGE_TILES_PIXELS_MAX = 1 << 29,
    /* Frames of an AVIF's items beyond the first of each (avif_scan.c). Layered images have three
     * in the image and three in its alpha; each may be as large as an image, and is decoded. */
    IMAGE_HIDDEN_FRAMES_MAX = 8,
    /* OBUs of an AVIF's items: a few per item, and up to 4096 per frame if AV1's tiles are
     * separate. */
    IMAGE_OBUS_MAX = 1 << 16,
    /* OBUs of unknown types in an AVIF's items: dav1d logs a line for each. */
    IMAGE_UNKNOWN_OBUS_MAX = 16,
    /* Extents of an AVIF's items beyond the first of each. An empty extent takes no bytes in the
     * file, but 16 in memory. Layered images have as many extents as layers. */
    IMAGE_EXTENTS_MAX = 1 << 10,
    /* Scans of a JPEG. Encoders write 1 to 20; each scan may visit the whole image. */
    IMAGE_SCANS_MAX = 100,
    /* 8x8 blocks of all components of a JPEG with several scans. libjpeg stores 128 bytes for each
     * block (512 MiB) until the last scan is read; our own decoder does so only for blocks of the
     * region, and stores 10 bytes for every block. */
    IMAGE_BLOCKS_MAX = 1 << 22,
    /* Blocks times scans of a JPEG with several scans: a few seconds of work. */
    IMAGE_BLOCK_VISITS_MAX = 1 << 28,
};

#endif

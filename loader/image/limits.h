/* SPDX-License-Identifier: MIT */
/* limits.h - how large an image may be before it is bad.
 *
 * A few hundred bytes can ask for gigabytes of memory or minutes of work. An image over one of
 * these limits is a bad sample; whether a sample is bad decides what is shown in its place, so the
 * limits are part of the definition of pixels (docs/pixels.md) and never depend on the machine.
 * They lie far above any photograph: the largest image of ImageNet has 61 million pixels. */
#ifndef LOADER_IMAGE_LIMITS_H
#define LOADER_IMAGE_LIMITS_H

enum {
    /* Of a side, pixels. What libjpeg can do, and plenty for PNG. */
    IMAGE_SIDE_MAX = 65500,
    /* Of width times height. */
    IMAGE_PIXELS_MAX = 1 << 27,
    /* Bytes in front of the compressed data: profiles, previews, comments. */
    IMAGE_HEADER_MAX = 16 << 20,
    /* Images of an AVIF that is a sequence; the first is shown, and each takes up memory. */
    IMAGE_FRAMES_MAX = 1 << 16,
    /* Bytes of an AVIF's boxes that list items and chunks (avif_scan.c): some 1,300 tiles. libavif
     * looks for each item among all others, and has a decoder for each tile, of 400 KiB. */
    IMAGE_LISTS_MAX = 1 << 16,
    /* Boxes of an AVIF that libavif reads: a few, and of a grid some properties of each tile. */
    IMAGE_BOXES_MAX = 1 << 16,
    /* Bytes of all items of an AVIF beyond those of the file: tiles that are the same, as of alpha
     * where all is opaque, may be written once. */
    IMAGE_SHARED_MAX = 16 << 20,
    /* Pixels of an AVIF's tile times all of its tiles: those of the image, what they have beyond
     * its edges, and those of its alpha. Fewer, if an image has a side of less than 64: no tile of
     * a grid may. */
    IMAGE_TILES_PIXELS_MAX = 1 << 29,
    /* Frames of an AVIF's items beyond the first of each (avif_scan.c). Images of layers have three
     * in the image and three in its alpha; each may be as large as an image, and is decoded. */
    IMAGE_HIDDEN_FRAMES_MAX = 8,
    /* OBUs of an AVIF's items: a few an item, and with AV1's tiles apart up to 4096 a frame. */
    IMAGE_OBUS_MAX = 1 << 16,
    /* Those of them that dav1d writes a line about. */
    IMAGE_UNKNOWN_OBUS_MAX = 16,
    /* Extents of an AVIF's items beyond the first of each: one of no bytes takes none in the file
     * and 16 in memory. Images of layers have as many as layers. */
    IMAGE_EXTENTS_MAX = 1 << 10,
    /* Scans of a JPEG. Encoders write 1 to 20; each may visit all of the image. */
    IMAGE_SCANS_MAX = 100,
    /* 8x8 blocks of all components of a JPEG with several scans: they are kept until the last one
     * is read, 128 bytes each (512 MiB); our own decoder keeps those of the region, and 10 bytes of
     * each. */
    IMAGE_BLOCKS_MAX = 1 << 22,
    /* Blocks times scans of such a JPEG: some seconds of work. */
    IMAGE_BLOCK_VISITS_MAX = 1 << 28,
};

#endif

/* image.h - encoded bytes in, pixels of a training sample out.
 *
 * A pure library: no threads, sockets, clocks or files. What comes out is a function of the
 * arguments alone, in integer arithmetic, the same on every machine. The rules ("version 1") are in
 * docs/architecture.md. */
#ifndef LOADER_IMAGE_IMAGE_H
#define LOADER_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/pipeline.h"

/** What one thread needs to render image after image without allocating. Opaque. Threads: one at a
 * time. */
struct image_decoder;

/** How a sample's pixels are stored: [H][W][C] or [C][H][W], C = 3, or 4 with a plane of zero
 * points. */
struct image_store {
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    uint32_t channels;
};

/** The numbers that decide what is drawn for a sample: see common/philox.h. */
struct image_draw {
    uint64_t seed;
    uint32_t epoch;
    uint32_t position;
};

int image_decoder_create(struct image_decoder **ret);
void image_decoder_destroy(struct image_decoder *decoder);

/**
 * Render one sample: find the crop, decode what lies under it, resize, mirror, store.
 *
 * @param bytes  [len] a whole JPEG or PNG file, told apart by its first bytes, whatever it is
 * called.
 * @param dst    pipeline->side^2 * store->channels bytes; completely written on success, undefined
 * on failure.
 *
 * Errors: -EBADMSG the image is bad: unreadable, of an unknown kind, over a limit, or an error or
 * warning of the decoder in the rows from the top to the last one needed (`err` says what);
 * -ENOMEM.
 */
int image_render(struct image_decoder *decoder, const struct pipeline *pipeline,
                 const struct image_draw *draw, const struct image_store *store,
                 const uint8_t *bytes, size_t len, void *dst, struct plenum_error *err);

/**
 * Render the built-in images and compare with the golden hashes of `version`.
 *
 * -EPROTO when they differ: the JPEG library here gives other pixels than the definition, and this
 * machine must not serve it.
 */
int image_self_test(enum pipeline_version version, struct plenum_error *err);

#endif

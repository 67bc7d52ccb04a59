/* SPDX-License-Identifier: MIT */
/* selftest.c - checks that this machine's JPEG library and Plenum's decoder give the pixels of the
 * definition.
 *
 * The definition uses only integers, including libjpeg-turbo's accurate inverse DCT and fancy
 * upsampling. A different libjpeg, or one that was built differently, may produce different pixels;
 * a loader that serves them would break the promise that a batch is a pure function. So each loader
 * renders these images when it starts. tests/loader/image/make_builtin.c created the images; the
 * hashes are XXH3-64 of all their renderings as uint8 NHWC. */
#include "config.h"

#include "loader/image/image.h"

#include <errno.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/builtin.h"

enum { SIDE = 32, DRAWS = 6 };

enum { IMAGES = 7 };

static const struct {
    const char *pipelines[4]; /* ends with NULL */
    uint64_t golden[IMAGES];  /* for builtin_images[], in the same order */
} definitions[PIPELINE_VERSIONS] = {
    [PIPELINE_V1] = {{"v1 rrc(32) flip(0.5)", "v1 resize(40) center_crop(32)"},
                     {0xe20d40e5981fb5ef, 0x80a20cd99c763e1c, 0x028d8b19ff641ad6,
                      0xcb16095ebc23249d, 0xb24c734ffe3eac34, 0xb17fc19c926dae45,
                      0x523a269d3b15380e}},
};

/* Compute the hash of all renderings of one image. */
static int hash_renderings(struct image_decoder *decoder, enum pipeline_version version,
                           const struct builtin_image *image, uint64_t *ret,
                           struct plenum_error *err)
{
    const char *const *pipelines = definitions[version].pipelines;
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    uint8_t pixels[SIDE * SIDE * 3];
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; pipelines[i]; i++) {
        struct pipeline pipeline;
        int r = pipeline_parse(pipelines[i], &pipeline, err);

        if (r < 0)
            return r;
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            struct image_draw d = {.seed = 2022, .epoch = 1, .position = draw};

            r = image_render(decoder,
                             &(struct image_view){.pipeline = &pipeline, .draw = d, .dst = pixels},
                             &store, &(struct image_file){image->bytes, image->len}, err);
            if (r < 0)
                return r;
            (void)XXH3_64bits_update(&state, pixels, (size_t)pipeline.width * pipeline.height * 3);
        }
    }
    *ret = XXH3_64bits_digest(&state);
    return 0;
}

static int test_image(struct image_decoder *decoder, enum pipeline_version version, size_t index,
                      const char *suspect, struct plenum_error *err)
{
    const struct builtin_image *image = &builtin_images[index];
    const char *name = pipeline_version_name(version);
    uint64_t hash, golden = definitions[version].golden[index];
    int r;

    r = hash_renderings(decoder, version, image, &hash, err);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return error_prefix(err, -EPROTO, "pixels %s: the built-in image '%s' cannot be decoded",
                            name, image->name);
    if (hash != golden)
        return error_set(err, -EPROTO,
                         "pixels %s: the built-in image '%s' has hash %016llx instead of %016llx: "
                         "%s does not produce the pixels that are defined",
                         name, image->name, (unsigned long long)hash, (unsigned long long)golden,
                         suspect);
    return 0;
}

static int test_images(struct image_decoder *decoder, enum pipeline_version version,
                       enum image_jpeg jpeg, const char *suspect, struct plenum_error *err)
{
    image_decoder_use_jpeg(decoder, jpeg);
    for (size_t i = 0; i < builtin_images_count; i++) {
        int r = test_image(decoder, version, i, suspect, err);

        if (r < 0)
            return r;
    }
    return 0;
}

int image_self_test(enum pipeline_version version, struct plenum_error *err)
{
    struct image_decoder *decoder;
    int r;

    if (version >= PIPELINE_VERSIONS)
        return error_set(err, -EPROTO, "this build does not support pixels of version %d",
                         (int)version);
    r = image_decoder_create(&decoder);
    if (r < 0)
        return error_set(err, r, "out of memory");
    r = test_images(decoder, version, IMAGE_JPEG_LIBJPEG,
                    "the JPEG library of this machine (libjpeg)", err);
    if (r >= 0)
        r = test_images(decoder, version, IMAGE_JPEG_PLENUM,
                        "Plenum's own JPEG decoder on this processor", err);
    image_decoder_destroy(decoder);
    return r;
}

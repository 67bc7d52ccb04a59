/* SPDX-License-Identifier: MIT */
/* fuzz_image.c - passes any bytes through the renderer and the oracle, which must not crash and
 * must make the same decision and give the same pixels.
 *
 * The first four bytes select pipeline, draw and store; the rest is the file. Images of more than
 * 2^18 pixels are skipped to save time; limits are tested elsewhere. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/image.h"
#include "tests/loader/image/agree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pipelines[] = {
    "rrc(16) flip(0.5)",
    "rrc(9,scale=0.0001:0.1,ratio=1/9:9) flip(0.5)",
    "resize(17) center_crop(12)",
    "exif rrc(16) flip(0.5)",
    "exif resize(17) center_crop(12)",
    "rrc(5) flip(0.5)",
    "exif rrc(2,ratio=1/9:9) flip(0.5)",
    "exif resize(7) center_crop(4)",
    "exif junk rrc(12) flip(0.5)",
    "rrc(16,interpolation=random) flip(0.5)",
    "exif resize(17,interpolation=lanczos) center_crop(12)",
    "resize(7,interpolation=nearest) center_crop(4)",
    "exif rrc(9x16) flip(0.5)",
    "exif letterbox(16x11,fill=9) flip(0.5)",
    "pad(4,reflect) random_crop(13x17) flip(0.5)",
    "exif scale_jitter(16x11,0.1:3,fill=9:5:1) flip(0.5)",
    "exif zoom_out(1:5,fill=9:5:1) resize(16x11) flip(0.5)",
    "zoom_out(1:5,p=1) letterbox(9x16) flip(0.5)",
    "zoom_out(1:5) iou_crop resize(9x16) flip(0.5)",
    "rrc(16) flip(0.5) color_jitter(0.4, 0.4, 0.4, p=0.8) grayscale(0.2) solarize(128, p=0.2)",
    "rrc(16) vertical_flip(0.5) erase(0.5, value=pixel) flip(0.5) erase(0.3, value=random) "
    "cutout(5, p=0.5)",
    "rrc(16) blur(23, 0.1:2, p=0.8) blur(31, 0.01:100, p=0.2) blur(3, 0.1:5, p=0.2)",
    "rrc(16) color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8) hue(-0.5:0.5, p=0.5)",
    "rrc(16) hsv(0.5, 2, 2, p=0.9)",
    "rrc(16) affine(50,translate=0.2:0.1,scale=0.5:2,shear=-10:20:-30:0,p=0.8) "
    "perspective(0.7,fill=9)",
    "rrc(16) flip(0.5) rotate(-90:20,interpolation=bilinear) translate(0.2,0.3) shear(20) "
    "flip(0.5)",
    "rrc(16) vertical_flip(0.5) sharpness(0:2, p=0.5) equalize(0.5) autocontrast(0.5) erase(0.5)",
    "rrc(16) vertical_flip(0.5) rand_augment(2, 9) trivial_augment_wide flip(0.5)",
    "rrc(16) rand_augment(3, 9, mstd=0.5, inc=1) auto_augment(cifar10) augmix(p=0.5)",
    "rrc(16) one_of(grayscale(1) | solarize(99) flip(1) | invert(0), p=0.9) posterize(3, p=0.5)",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image_decoder *decoder;
    static struct pipeline parsed[ARRAY_LEN(pipelines)];
    struct plenum_error err = {""};
    struct image_store store;
    struct image_draw draw;
    struct image_info info;
    uint32_t width, height;
    uint8_t orientation;
    char why[200];

    if (!decoder) {
        if (image_decoder_create(&decoder) < 0)
            abort();
        for (size_t i = 0; i < ARRAY_LEN(pipelines); i++)
            if (pipeline_parse(pipelines[i], &parsed[i], NULL) < 0)
                abort();
    }
    if (size < 4)
        return 0;
    store.dtype = data[2] & 1 ? PLENUM_INT8 : PLENUM_UINT8;
    store.layout = data[2] & 2 ? PLENUM_NCHW : PLENUM_NHWC;
    store.channels = data[2] & 4 ? 4 : 3;
    draw = (struct image_draw){.seed = data[1], .position = data[3]};
    if (oracle_header(data + 4, size - 4, &width, &height, &orientation) == 0 &&
        (uint64_t)width * height > 1 << 18)
        return 0;
    if (!oracle_agrees(decoder,
                       &(struct rendering){&parsed[data[0] % ARRAY_LEN(pipelines)], &draw, &store,
                                           data + 4, size - 4},
                       why, NULL, &err)) {
        if (strstr(err.text, "more than 100 scans") ||
            strstr(err.text, "the AVIF has more than ") || strstr(err.text, "the AVIF's "))
            return 0; /* the oracle does not have these limits */
        fprintf(stderr, "the oracle disagrees: %s\n", why);
        abort();
    }
    (void)image_verify(decoder, &(struct image_file){data + 4, size - 4}, &info, NULL);
    return 0;
}

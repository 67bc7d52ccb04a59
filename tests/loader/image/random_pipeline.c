/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/random_pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util/util.h"

/* A capital letter is replaced by an argument: see write_argument(). */
static const char *const crops[] = {
    "rrc(W)",
    "rrc(WxW, scale=0.3:1, interpolation=random)",
    "rrc(W, interpolation=bicubic)",
    "exif rrc(W, ratio=1/3:3)",
    "resize(60) center_crop(W)",
    "resize(41, interpolation=lanczos) center_crop(W)",
    "exif resize(50, interpolation=nearest) center_crop(WxW)",
    "resize(WxW, interpolation=bicubic)",
    "letterbox(WxW, fill=L)",
    "scale_jitter(WxW, 1/4:3, fill=L)",
    "zoom_out(1:3, fill=L:L:L) resize(WxW)",
    "zoom_out(1:3, fill=L) letterbox(WxW)",
    "pad(4, reflect) random_crop(W)",
    "pad(12, edge) random_crop(WxW)",
    "exif resize(44) pad(3, symmetric) random_crop(W)",
    "pad(7, fill=L) random_crop(W)",
};

static const char *const operations[] = {
    "flip(P)",
    "vertical_flip(P)",
    "color_jitter(S, S, S, p=P)",
    "color_jitter(S, F, S, H, p=P)",
    "brightness(F, p=P)",
    "contrast(F, p=P)",
    "saturation(F, p=P)",
    "hue(N, p=P)",
    "hsv(H, S, S, p=P)",
    "sharpness(F, p=P)",
    "grayscale(P)",
    "invert(P)",
    "equalize(P)",
    "autocontrast(P)",
    "solarize(T, p=P)",
    "posterize(B, p=P)",
    "blur(23, 0.1:2, p=P)",
    "erase(P, value=L)",
    "erase(P, value=L:L:L)",
    "erase(P, value=random)",
    "erase(P, value=pixel)",
    "cutout(W, p=P)",
    "rotate(D, p=P)",
    "translate(U, U, fill=L:L:L, p=P)",
    "shear(K:K, interpolation=bilinear, p=P)",
    "affine(D, translate=U:U, scale=1/3:3, shear=K, p=P)",
    "affine(D, scale=1/4:1, interpolation=bilinear, fill=L, p=P)",
    "perspective(U, p=P)",
    "perspective(U, interpolation=nearest, fill=L, p=P)",
    "rand_augment(2, 9, p=P)",
    "rand_augment(3, 9, mstd=1/2, inc=1, p=P)",
    "rand_augment(2, 5, mstd=2, p=P)",
    "trivial_augment_wide(p=P)",
    "trivial_augment_wide(interpolation=bilinear)",
    "rand_augment(3, 20, interpolation=bilinear, p=P)",
    "rand_augment(2, 9, mstd=1/2, inc=1, interpolation=nearest)",
    "auto_augment(cifar10, interpolation=bilinear)",
    "augmix(width=2, interpolation=nearest)",
    "auto_augment(imagenet, p=P)",
    "auto_augment(svhn)",
    "augmix(p=P)",
    "augmix(severity=10, width=5, depth=3)",
    "one_of(X | X X | X, p=P)",
};

struct random {
    uint64_t state;
    char *at, *end;
};

/* Returns a random number below n, by SplitMix64 (Steele, Lea and Flood). */
static uint32_t below(struct random *r, uint32_t n)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (uint32_t)((z ^ (z >> 31)) % n);
}

static void write(struct random *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write(struct random *r, const char *format, ...)
{
    size_t room = (size_t)(r->end - r->at);
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(r->at, room, format, args);
    va_end(args);
    r->at += (size_t)n < room ? (size_t)n : room - 1;
}

static void write_range(struct random *r, uint32_t most, uint32_t den)
{
    uint32_t low = below(r, most + 1);

    write(r, "%u/%u:%u/%u", low, den, low + below(r, most - low + 1), den);
}

static void write_template(struct random *r, const char *text);

static void write_argument(struct random *r, char letter)
{
    switch (letter) {
    case 'W': /* a side */
        write(r, "%u", 12 + below(r, 29));
        break;
    case 'P': /* a probability */
        write(r, "%u/10", 1 + below(r, 10));
        break;
    case 'S': /* a spread */
        write(r, "%u/10", below(r, 12));
        break;
    case 'F': /* a range of factors */
        write_range(r, 30, 10);
        break;
    case 'H': /* a spread of the hue */
        write(r, "%u/20", below(r, 11));
        break;
    case 'N': /* a range of the hue */
        write(r, "-%u/20:%u/20", below(r, 11), below(r, 11));
        break;
    case 'T':
        write(r, "%u", below(r, 257));
        break;
    case 'B': /* bits */
        write(r, "%u", below(r, 9));
        break;
    case 'L': /* a level */
        write(r, "%u", below(r, 256));
        break;
    case 'D': /* a range of degrees */
        write(r, "-%u/2:%u/2", below(r, 721), below(r, 721));
        break;
    case 'K': /* a range of a shear */
        write(r, "-%u:%u", below(r, 60), below(r, 60));
        break;
    case 'U': /* a fraction */
        write(r, "%u/20", below(r, 21));
        break;
    case 'X': /* an operation, but not the last one of the table, which contains others */
        write_template(r, operations[below(r, ARRAY_LEN(operations) - 1)]);
        break;
    default:
        write(r, "%c", letter);
    }
}

static void write_template(struct random *r, const char *text)
{
    for (; *text; text++)
        write_argument(r, *text);
}

void random_pipeline(uint64_t number, char ret[RANDOM_PIPELINE_MAX])
{
    struct random r = {number * 0xD1342543DE82EF95, ret, ret + RANDOM_PIPELINE_MAX};
    uint32_t count = below(&r, 9);

    write_template(&r, crops[below(&r, ARRAY_LEN(crops))]);
    for (uint32_t i = 0; i < count; i++) {
        write(&r, " ");
        write_template(&r, operations[below(&r, ARRAY_LEN(operations))]);
    }
}

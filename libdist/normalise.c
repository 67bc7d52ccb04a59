/* SPDX-License-Identifier: MIT */
/* normalise.c - plenum_normalise(): converts pixels to floats.
 *
 * A channel value is one of 256 levels, so the result is defined by a table, computed once per
 * call. The portable loops look values up in it. The AVX2 loops (normalise_avx2.c) compute the same
 * values, which is faster than a look-up: one multiplication and one addition are rounded in the
 * same way everywhere. (A fused multiply-add does not exist everywhere, and would change the last
 * bits.)
 *
 * The loops receive runs of pixels that are contiguous in memory: one image each, or all of them if
 * the pixel order does not change. Not here: threads. */
#include "config.h"

#include "libdist/normalise_loops.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/util/error_set.h"

const struct normalise_loops *const normalise_loops[] = {
#ifdef __x86_64__
    &normalise_avx2,
#endif
    &normalise_portable,
    NULL,
};

static const struct normalise_loops *best_loops(void)
{
    const struct normalise_loops *const *loops = normalise_loops;

    while (!(*loops)->usable())
        loops++;
    return *loops;
}

/* Returns level * scale + bias, rounded like float operations. A double holds the exact product,
 * and enough of the sum that rounding it again changes nothing (53 >= 2 * 24 + 2 bits: Figueroa,
 * "When is double rounding innocuous?", 1995). Written in doubles because a compiler may fuse the
 * two operations on floats. */
static float value_of(uint32_t level, float scale, float bias)
{
    float product = (float)((double)level * (double)scale);

    return (float)((double)product + (double)bias);
}

static uint16_t bfloat16_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t float16_of(float value)
{
    uint32_t bits, sign, size;
    float f;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    size = bits & 0x7fffffff;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) /* 2^-14, the smallest normal half, or more */
        return (uint16_t)(sign | (size - (112U << 23) + 0xfff + (size >> 13 & 1)) >> 13);
    /* The last bit of a float from 0.5 to 1 is 2^-24, and so is that of a half this small. So the
     * addition rounds to a half. */
    memcpy(&f, &size, sizeof(f));
    f += 0.5f;
    memcpy(&size, &f, sizeof(size));
    return (uint16_t)(sign | (size - 0x3f000000));
}

static void make_table(struct normalise_values *v)
{
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            float value = value_of(byte ^ v->flip, v->scale[c], v->bias[c]);

            if (v->type == PLENUM_TO_FLOAT32)
                v->table.f32[c][byte] = value;
            else
                v->table.half[c][byte] =
                    v->type == PLENUM_TO_FLOAT16 ? float16_of(value) : bfloat16_of(value);
        }
    v->tabled = true;
}

/* Convert pixels by the table. Instantiated once per distance, so that compilers see it as a
 * constant. */
static inline __attribute__((always_inline)) void look_up(const struct normalise_values *v,
                                                          const struct normalise_run *r,
                                                          size_t begin, size_t end,
                                                          size_t from_step, size_t to_step)
{
    if (v->type == PLENUM_TO_FLOAT32) {
        float *to0 = (float *)(void *)r->to[0], *to1 = (float *)(void *)r->to[1];
        float *to2 = (float *)(void *)r->to[2];

        for (size_t i = begin; i < end; i++) {
            to0[i * to_step] = v->table.f32[0][r->from[0][i * from_step]];
            to1[i * to_step] = v->table.f32[1][r->from[1][i * from_step]];
            to2[i * to_step] = v->table.f32[2][r->from[2][i * from_step]];
        }
    } else {
        uint16_t *to0 = (uint16_t *)(void *)r->to[0], *to1 = (uint16_t *)(void *)r->to[1];
        uint16_t *to2 = (uint16_t *)(void *)r->to[2];

        for (size_t i = begin; i < end; i++) {
            to0[i * to_step] = v->table.half[0][r->from[0][i * from_step]];
            to1[i * to_step] = v->table.half[1][r->from[1][i * from_step]];
            to2[i * to_step] = v->table.half[2][r->from[2][i * from_step]];
        }
    }
}

void normalise_by_table(struct normalise_values *values, const struct normalise_run *run,
                        size_t begin, size_t end)
{
    assert(run->from_step == 1 || run->from_step == 3 || run->from_step == 4);
    assert(run->to_step == 1 || run->to_step == 3);
    if (begin == end)
        return;
    if (!values->tabled)
        make_table(values);
    if (run->to_step == 1) {
        if (run->from_step == 1)
            look_up(values, run, begin, end, 1, 1);
        else if (run->from_step == 3)
            look_up(values, run, begin, end, 3, 1);
        else
            look_up(values, run, begin, end, 4, 1);
    } else {
        if (run->from_step == 1)
            look_up(values, run, begin, end, 1, 3);
        else if (run->from_step == 3)
            look_up(values, run, begin, end, 3, 3);
        else
            look_up(values, run, begin, end, 4, 3);
    }
}

static bool usable(void)
{
    return true;
}

static void run_portable(struct normalise_values *values, const struct normalise_run *run,
                         bool past)
{
    (void)past;
    normalise_by_table(values, run, 0, run->count);
}

const struct normalise_loops normalise_portable = {
    .name = "portable",
    .usable = usable,
    .run = run_portable,
};

static int set_values(struct normalise_values *v, const double *mean, const double *std,
                      struct plenum_error *err)
{
    for (uint32_t c = 0; c < 3; c++) {
        if (!isfinite(mean[c]))
            return error_set(err, -EINVAL, "mean[%u] is %g: it must be a finite number", c,
                             mean[c]);
        if (!isfinite(std[c]) || std[c] <= 0)
            return error_set(err, -EINVAL, "std[%u] is %g: it must be a finite number above 0", c,
                             std[c]);
        v->scale[c] = (float)(1 / (255 * std[c]));
        v->bias[c] = (float)(-mean[c] / std[c]);
        if (!isfinite(v->bias[c]) || !isfinite(value_of(255, v->scale[c], v->bias[c])))
            return error_set(err, -EINVAL,
                             "with mean[%u] %g and std[%u] %g the floats would be infinite", c,
                             mean[c], c, std[c]);
    }
    return 0;
}

static int check_images(const struct plenum_images *from, enum plenum_float type,
                        enum plenum_layout layout, struct plenum_error *err)
{
    if (from->size != sizeof(*from))
        return error_set(
            err, -EINVAL,
            "the images' 'size' is %zu: set it to sizeof(struct plenum_images), which is %zu",
            from->size, sizeof(*from));
    if ((uint32_t)from->dtype > PLENUM_UINT8)
        return error_set(err, -EINVAL, "pixel type %d does not exist", (int)from->dtype);
    if ((uint32_t)from->layout > PLENUM_NCHW || (uint32_t)layout > PLENUM_NCHW)
        return error_set(err, -EINVAL, "layout %d does not exist",
                         (int)((uint32_t)layout > PLENUM_NCHW ? layout : from->layout));
    if ((uint32_t)type > PLENUM_TO_BFLOAT16)
        return error_set(err, -EINVAL, "float type %d does not exist", (int)type);
    if (from->channels != 3 && from->channels != 4)
        return error_set(err, -EINVAL, "the images have %u channels, not 3 or 4", from->channels);
    if (from->height == 0 || from->width == 0)
        return error_set(err, -EINVAL, "the images are %ux%u: both must be 1 or more", from->height,
                         from->width);
    return 0;
}

/* Compute the number of pixels, and the bytes of all floats. */
static int count_bytes(const struct plenum_images *from, enum plenum_float type, size_t *pixels,
                       size_t *floats, struct plenum_error *err)
{
    size_t image = (size_t)from->height * from->width, all;

    if (__builtin_mul_overflow(image, (size_t)from->count, &all) ||
        __builtin_mul_overflow(all, (size_t)from->channels, pixels) ||
        __builtin_mul_overflow(all, 3 * normalise_float_bytes(type), floats) ||
        *pixels > PTRDIFF_MAX || *floats > PTRDIFF_MAX)
        return error_set(err, -EOVERFLOW,
                         "%llu images of %ux%u pixels do not fit into the address space",
                         (unsigned long long)from->count, from->height, from->width);
    return 0;
}

static void run_all(const struct normalise_loops *loops, struct normalise_values *v,
                    const struct plenum_images *from, uint8_t *to, enum plenum_layout layout,
                    bool past)
{
    size_t one = normalise_float_bytes(v->type);
    size_t image = (size_t)from->height * from->width, images = from->count;
    bool from_planes = from->layout == PLENUM_NCHW, to_planes = layout == PLENUM_NCHW;
    struct normalise_run run = {.from_step = from_planes ? 1 : from->channels,
                                .to_step = to_planes ? 1 : 3,
                                .count = image};

    if (!from_planes && !to_planes) { /* all pixels are equally far apart */
        run.count = image * images;
        images = 1;
    }
    for (size_t i = 0; i < images; i++) {
        const uint8_t *pixels = (const uint8_t *)from->pixels + i * image * from->channels;
        uint8_t *floats = to + i * image * 3 * one;

        for (uint32_t c = 0; c < 3; c++) {
            run.from[c] = pixels + (from_planes ? c * image : c);
            run.to[c] = floats + (to_planes ? c * image : c) * one;
        }
        loops->run(v, &run, past);
    }
}

int normalise_with(const struct normalise_loops *loops, size_t past_cache,
                   const struct normalise_job *job, struct plenum_error *err)
{
    const struct plenum_images *from = job->from;
    struct normalise_values values;
    size_t pixels, floats;
    uintptr_t begin, floats_begin;
    int r;

    if (!from || !job->mean || !job->std)
        return error_set(err, -EINVAL, "images, mean and std are needed: one of them is NULL");
    r = check_images(from, job->type, job->layout, err);
    if (r < 0)
        return r;
    values.type = job->type;
    values.tabled = false;
    values.flip = from->dtype == PLENUM_INT8 ? 0x80 : 0;
    r = set_values(&values, job->mean, job->std, err);
    if (r < 0)
        return r;
    r = count_bytes(from, job->type, &pixels, &floats, err);
    if (r < 0)
        return r;
    if (from->count == 0)
        return 0;
    if (!from->pixels || !job->to)
        return error_set(err, -EINVAL,
                         "pixels and a buffer for floats are needed: one of them is NULL");
    begin = (uintptr_t)from->pixels;
    floats_begin = (uintptr_t)job->to;
    if (floats_begin % normalise_float_bytes(job->type) != 0)
        return error_set(err, -EINVAL, "the address of the floats must be a multiple of %zu bytes",
                         normalise_float_bytes(job->type));
    if (begin < floats_begin + floats && floats_begin < begin + pixels)
        return error_set(err, -EINVAL,
                         "the floats would overlap the pixels that they are computed from");
    run_all(loops ? loops : best_loops(), &values, from, job->to, job->layout,
            floats >= past_cache);
    return 0;
}

PLENUM_API int plenum_normalise(const struct plenum_images *from, const double mean[3],
                                const double std[3], void *to, enum plenum_float type,
                                enum plenum_layout layout, struct plenum_error *err)
{
    return normalise_with(
        NULL, NORMALISE_PAST_CACHE,
        &(struct normalise_job){
            .from = from, .mean = mean, .std = std, .to = to, .type = type, .layout = layout},
        err);
}

/* SPDX-License-Identifier: MIT */
/* cmd_make_sample.c - plenumctl make-sample: generates a data set to experiment with.
 *
 * The result is a folder tree of procedural photographs that a small network can learn to tell
 * apart, with the sizes, shapes and file types of real data sets: mostly 4:2:0 JPEGs, but also
 * grey, progressive and CMYK ones, other samplings, restart markers, and a few PNGs. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/order/philox.h"
#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/scene.h"
#include "loader/image/encode.h"

struct make_sample_arguments {
    uint32_t classes, images, size;
    uint64_t seed;
};

#define AT(field) offsetof(struct make_sample_arguments, field)

static const struct option_def defs[] = {
    {"classes", 'c', "N", OPTION_U32, AT(classes), 1, SCENE_KINDS,
     .help = "number of classes (default 8)"},
    {"images", 'n', "N", OPTION_U32, AT(images), 1, 1000000,
     .help = "images per class (default 40)"},
    {"size", 0, "PIXELS", OPTION_U32, AT(size), 16, 4096,
     .help = "average length of the shorter side (default 320); it varies by a third"},
    {"seed", 's', "N", OPTION_U64, AT(seed),
     .help = "a different seed gives different images (default 0)"},
};

static const struct options_program program = {
    .name = "plenumctl make-sample",
    .usage = "DIR [options]",
    .summary = "Create a sample data set: a folder of procedural photographs with one sub-folder "
               "per class. DIR must be new or empty; existing files are never changed.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

struct sample_job {
    const struct make_sample_arguments *args;
    const char *dir;
    struct plenum_error err; /* error from creating the folders */
};

/* Choose how an image is encoded. Returns true for a PNG. */
static bool choose_encoding(const struct philox_block *dice, struct encode_options *e)
{
    uint32_t kind = philox_below(dice->word[2], 100);

    e->quality = 75 + (int)philox_below(dice->word[3], 21);
    e->subsampling = ENCODE_420;
    if (kind < 4)
        e->grey = true;
    else if (kind < 8)
        e->progressive = true;
    else if (kind < 11)
        e->subsampling = ENCODE_444;
    else if (kind < 14)
        e->subsampling = ENCODE_422;
    else if (kind < 16)
        e->cmyk = true;
    else if (kind < 18)
        e->restart = 1;
    else if (kind < 20)
        return true; /* a PNG */
    e->optimize = kind % 2;
    return false;
}

/* Convert RGB to grey, in place, or to CMYK, in `wide`. */
static void convert(const struct encode_options *e, uint8_t *rgb, uint8_t *wide)
{
    size_t count = (size_t)e->width * e->height;

    assert(e->grey != e->cmyk); /* one channel, or four */
    for (size_t i = 0; i < count; i++) {
        const uint8_t *p = rgb + i * 3;

        if (e->grey) {
            rgb[i] = (uint8_t)((p[0] * 299 + p[1] * 587 + p[2] * 114 + 500) / 1000);
        } else { /* Adobe inverts CMYK; without black, C, M and Y then equal R, G and B */
            memcpy(wide + i * 4, p, 3);
            wide[i * 4 + 3] = 255;
        }
    }
}

static int make_image(const struct sample_job *job, uint32_t kind, uint32_t number,
                      struct plenum_error *err)
{
    struct philox_block dice = philox_draw(job->args->seed, number, kind, DRAW_SAMPLE_SET, 1);
    uint32_t side = job->args->size * (67 + philox_below(dice.word[0], 67)) / 100;
    uint32_t other = side * (100 + philox_below(dice.word[1], 78)) / 100;
    bool tall = dice.word[1] & 1;
    struct encode_options e = {.width = tall ? side : other, .height = tall ? other : side};
    size_t count = (size_t)e.width * e.height, len = 0;
    uint8_t *pixels = malloc(count * 7), *bytes = NULL;
    char *path = NULL;
    bool png;
    int r;

    if (!pixels)
        return error_set(err, -ENOMEM, "out of memory");
    png = choose_encoding(&dice, &e);
    e.pixels = e.cmyk ? pixels + count * 3 : pixels;
    scene_paint(kind, job->args->seed, number, e.width, e.height, pixels);
    if (e.grey || e.cmyk)
        convert(&e, pixels, pixels + count * 3);
    r = png ? encode_png(&e, &bytes, &len) : encode_jpeg(&e, &bytes, &len);
    if (r < 0) {
        (void)error_set(err, r, "an image could not be encoded: %s", strerror(-r));
        goto out;
    }
    path = str_format("%s/%s/%s-%05u.%s", job->dir, scene_name(kind), scene_name(kind), number,
                      png ? "png" : "jpg");
    r = path ? ctl_write_file(path, bytes, len, err) : error_set(err, -ENOMEM, "out of memory");

out:
    free(path);
    free(bytes);
    free(pixels);
    return r;
}

static int turn(void *arg, uint64_t index, unsigned thread)
{
    struct sample_job *job = arg;
    struct plenum_error err;
    int r = make_image(job, (uint32_t)(index / job->args->images),
                       (uint32_t)(index % job->args->images), &err);

    (void)thread;
    if (r < 0)
        fprintf(stderr, "plenumctl make-sample: %s\n", err.text);
    return r;
}

static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    ctl_show_progress(arg, "images", done, total);
}

static int make_folders(const struct sample_job *job, struct plenum_error *err)
{
    if (mkdir(job->dir, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, "cannot make the folder %s: %s", job->dir, strerror(errno));
    for (uint32_t kind = 0; kind < job->args->classes; kind++) {
        char *path = str_format("%s/%s", job->dir, scene_name(kind));
        int r = path && mkdir(path, 0777) == 0 ? 0 : -errno;

        free(path);
        if (r < 0)
            return error_set(err, r, "cannot make the folder %s/%s: %s%s", job->dir,
                             scene_name(kind), strerror(-r),
                             r == -EEXIST ? "; remove it, or name another folder" : "");
    }
    return 0;
}

static int run(int argc, char **argv)
{
    struct make_sample_arguments a = {.classes = SCENE_KINDS, .images = 40, .size = 320};
    struct sample_job job = {.args = &a};
    struct parallel loop = {.turn = turn, .progress = show_progress, .arg = &job};
    int r;

    r = ctl_start(&program, &a, argc, argv, 1, "one folder to create is");
    if (r >= 0)
        return r;
    job.dir = argv[1];
    if (make_folders(&job, &job.err) < 0)
        return ctl_fail("make-sample", &job.err);
    loop.count = (uint64_t)a.classes * a.images;
    r = parallel_run(&loop);
    ctl_end_progress();
    if (r < 0)
        return 1;
    printf("%s: %llu images in %u classes\n", job.dir, (unsigned long long)loop.count, a.classes);
    return 0;
}

const struct ctl_command ctl_make_sample = {
    .name = "make-sample",
    .summary = "create a sample data set of procedural photographs",
    .run = run,
};

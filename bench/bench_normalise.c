/* SPDX-License-Identifier: MIT */
/* bench_normalise.c - bench/normalise: compares plenum_normalise() with memcpy(), which
 * writes the same number of bytes.
 *
 * A row is a pixel layout, a float layout and a float type. A round visits all rows, each
 * immediately after a memcpy() of as many bytes as its floats have, to the same destination. The
 * result is the ratio of the two: 1 means the same number of bytes written per second. The times
 * are CPU times of one thread, and all memory was written to before. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <plenum/plenum.h>

#include "bench/bench.h"
#include "common/options/options.h"
#include "common/util/util.h"
#include "libdist/normalise_loops.h"

enum { ROWS = 18, ROUNDS_MAX = 1000, ALIGN = 4096, WORK_BYTES = 32 << 20 };

struct bench_normalise_arguments {
    uint32_t images, side, rounds;
    const char *loops;
    bool json;
};

#define AT(field) offsetof(struct bench_normalise_arguments, field)

static const struct option_def defs[] = {
    {"images", 'n', "N", OPTION_U32, AT(images), 1, 65536, .help = "images per batch (default 64)"},
    {"side", 's', "PIXELS", OPTION_U32, AT(side), 1, 4096,
     .help = "side of an image (default 224)"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, ROUNDS_MAX, .help = "rounds (default 11)"},
    {"loops", 0, "NAME", OPTION_TEXT, AT(loops), 0, 0,
     .help = "avx2 or portable (default: the best for this processor)"},
    {"json", 0, NULL, OPTION_FLAG, AT(json), 0, 0, .help = "print JSON"},
};

static const struct options_program program = {
    .name = "bench/normalise",
    .usage = "[options]",
    .summary = "Compare the conversion of pixels to floats with copying as many bytes.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
static const char *const type_names[] = {"float32", "float16", "bfloat16"};
static const char *const layout_names[] = {"nhwc", "nchw"};
static const struct {
    const char *name;
    enum plenum_layout layout;
    uint32_t channels;
} sources[] = {
    {"nhwc", PLENUM_NHWC, 3}, {"nhwc, 4 channels", PLENUM_NHWC, 4}, {"nchw", PLENUM_NCHW, 3}};

/* A row's parameters and its results. */
struct normalise_row {
    uint32_t source;
    enum plenum_layout layout;
    enum plenum_float type;
    /* ratios to memcpy(); rates in bytes of floats per ns */
    double ratios[ROUNDS_MAX], rates[ROUNDS_MAX];
};

static struct normalise_row rows[ROWS];

/* Allocate memory and write to it, so that its pages exist. */
static void *room(size_t bytes)
{
    void *p = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);

    if (!p)
        bench_die(&program, "out of memory");
    memset(p, 0x5a, bytes);
    return p;
}

/* The memory that the loops read and write. */
struct buffers {
    uint8_t *pixels, *copied, *floats;
};

static void measure(const struct bench_normalise_arguments *a, const struct normalise_loops *loops,
                    struct normalise_row *row, uint32_t round, const struct buffers *b)
{
    struct plenum_images images = {.size = sizeof(images),
                                   .pixels = b->pixels,
                                   .count = a->images,
                                   .height = a->side,
                                   .width = a->side,
                                   .channels = sources[row->source].channels,
                                   .dtype = PLENUM_INT8,
                                   .layout = sources[row->source].layout};
    const struct normalise_job job = {.from = &images,
                                      .mean = mean,
                                      .std = std,
                                      .to = b->floats,
                                      .type = row->type,
                                      .layout = row->layout};
    size_t bytes = (size_t)a->images * a->side * a->side * 3 * normalise_float_bytes(row->type);
    uint32_t times = (uint32_t)(1 + WORK_BYTES / bytes);
    struct plenum_error err;
    uint64_t begin, middle, end;

    begin = time_cpu_ns();
    for (uint32_t i = 0; i < times; i++) {
        memcpy(b->floats, b->copied, bytes);
        __asm__ volatile("" : : "r"(b->floats) : "memory"); /* keeps compilers from omitting it */
    }
    middle = time_cpu_ns();
    for (uint32_t i = 0; i < times; i++)
        if (normalise_with(loops, NORMALISE_PAST_CACHE, &job, &err) < 0)
            bench_die(&program, err.text);
    end = time_cpu_ns();
    row->ratios[round] = (double)(middle - begin) / (double)(end - middle);
    row->rates[round] = (double)bytes * times / (double)(end - middle);
}

static void report(const struct bench_normalise_arguments *a)
{
    struct json j = {.file = stdout};

    if (a->json) {
        bench_json_begin(&j, "normalise");
        json_number(&j, "images", a->images);
        json_number(&j, "side", a->side);
        json_begin_array(&j, "rows", JSON_LINES);
    } else {
        printf("%u images of %ux%u pixels, %u rounds; bytes written per second, divided by "
               "memcpy()'s\n\n",
               a->images, a->side, a->side, a->rounds);
        printf("%-18s %-5s %-9s %7s %7s %7s %8s\n", "pixels", "to", "", "min", "median", "max",
               "GB/s");
    }
    for (size_t i = 0; i < ROWS; i++) {
        struct normalise_row *row = &rows[i];
        struct bench_spread ratio = bench_spread_of(row->ratios, a->rounds);
        struct bench_spread rate = bench_spread_of(row->rates, a->rounds);

        if (!a->json) {
            printf("%-18s %-5s %-9s %7.2f %7.2f %7.2f %8.2f\n", sources[row->source].name,
                   layout_names[row->layout], type_names[row->type], ratio.min, ratio.median,
                   ratio.max, rate.median);
            continue;
        }
        json_begin_object(&j, NULL, JSON_FLAT);
        json_text(&j, "pixels", sources[row->source].name);
        json_text(&j, "to", layout_names[row->layout]);
        json_text(&j, "type", type_names[row->type]);
        bench_json_spread(&j, &ratio, 3);
        json_real(&j, "gigabytes_per_s", rate.median, 2);
        json_end_object(&j);
    }
    if (a->json) {
        json_end_array(&j);
        json_end_object(&j);
    }
}

int main(int argc, char **argv)
{
    struct bench_normalise_arguments a = {.images = 64, .side = 224, .rounds = 11};
    const struct normalise_loops *loops = NULL;
    struct buffers b;
    size_t all;
    int operands, r = options_start(&program, &a, argc, argv, &operands);

    if (r >= 0)
        return r;
    if (operands != 0)
        bench_die(&program, "it takes no operands");
    for (size_t i = 0; a.loops && normalise_loops[i]; i++)
        if (strcmp(normalise_loops[i]->name, a.loops) == 0 && normalise_loops[i]->usable())
            loops = normalise_loops[i];
    if (a.loops && !loops)
        bench_die(&program, "--loops: there is no such set of loops for this processor");
    all = (size_t)a.images * a.side * a.side;
    b.pixels = room(4 * all);
    for (size_t i = 0; i < 4 * all; i++)
        b.pixels[i] = (uint8_t)(i * 2654435761U >> 13);
    b.copied = room(all * 3 * sizeof(float));
    b.floats = room(all * 3 * sizeof(float));
    for (uint32_t i = 0; i < ROWS; i++) {
        rows[i].source = i / 6;
        rows[i].layout = i / 3 % 2 ? PLENUM_NCHW : PLENUM_NHWC;
        rows[i].type = (enum plenum_float)(i % 3);
    }
    for (uint32_t round = 0; round < a.rounds; round++)
        for (uint32_t i = 0; i < ROWS; i++) /* start with a different row in each round */
            measure(&a, loops, &rows[(i + round * 7) % ROWS], round, &b);
    report(&a);
    free(b.floats);
    free(b.copied);
    free(b.pixels);
    return 0;
}

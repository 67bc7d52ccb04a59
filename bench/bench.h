/* SPDX-License-Identifier: MIT */
/* bench.h - what the benchmarks of the image room share: photographs in memory, numbers.
 *
 * A benchmark compares several ways ("rows") of doing the same work. Machines are noisy: a round
 * visits all rows, in small blocks of images and in another order each time, so that whatever else
 * the machine does falls on all rows alike; what counts is CPU time, and the median of the rounds.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/json.h"
#include "common/options.h"

/** options_start() for a benchmark that needs --images DIR and no operands: -1 to go on, or the
 * exit status. `images` is the field of `target` that the option sets. */
int bench_start(const struct options_program *program, void *target, const char *const *images,
                int argc, char **argv);

/** Say what is wrong, and end with 1. */
_Noreturn void bench_die(const struct options_program *program, const char *what);

/** Loaders' stage: a folder of its own for their sockets and indices, whose path is returned
 * (static), and ./plenumd, unless PLENUM_PLENUMD names another. */
const char *bench_stage_open(const struct options_program *program);
/** Remove it: 0, or 1 as an exit status. */
int bench_stage_close(void);

struct bench_file {
    char *path;
    uint8_t *bytes;
    size_t len;
    uint32_t width, height; /* of the header */
};

struct bench_files {
    struct bench_file *files;
    size_t count;
    size_t refused; /* found, but no image that can be decoded whole */
    size_t bytes;
};

/** Read all JPEGs below a folder, in byte order of their paths, at most `limit` (0: all). -errno
 * with a sentence. */
int bench_files_load(const char *folder, uint32_t limit, struct bench_files *ret,
                     struct plenum_error *err);
void bench_files_free(struct bench_files *files);

/** Least, middle and greatest of some numbers. */
struct bench_spread {
    double min, median, max;
};

/** `values` are put in order. */
struct bench_spread bench_spread_of(double *values, size_t count);

/** "Intel(R) Xeon(R) ..." of the first processor, into `text`. */
void bench_cpu_name(char *text, size_t size);

/** Begin the report of a benchmark: an object that stays open, with its name and the processor. */
void bench_json_begin(struct json *j, const char *name);

/** "min", "median" and "max" of the object that is open. */
void bench_json_spread(struct json *j, const struct bench_spread *s, int decimals);

#endif

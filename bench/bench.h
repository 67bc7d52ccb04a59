/* SPDX-License-Identifier: MIT */
/* bench.h - what the benchmarks share: photographs in memory, statistics, reports.
 *
 * A benchmark compares several ways ("rows") of doing the same work. Machines are noisy: a round
 * visits all rows, in small blocks of images and in a different order each time, so that other load
 * on the machine affects all rows equally. Results are medians of the rounds, in CPU time. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/options/options.h"
#include "common/util/json.h"

/** Does what options_start() does, for a benchmark that needs --images DIR and no operands. Returns
 * -1 to continue, or the exit status. `images` is the field of `target` that the option sets. */
int bench_start(const struct options_program *program, void *target, const char *const *images,
                int argc, char **argv);

/** Print `what` as an error, and exit with status 1. */
_Noreturn void bench_die(const struct options_program *program, const char *what);

/** Prepare for loaders: create a folder for their sockets and indices, and select ./plenumd unless
 * PLENUM_PLENUMD names another loader. Exits on failure. Returns the folder's path (static). */
const char *bench_stage_open(const struct options_program *program);
/** Remove the folder. Returns an exit status, 0 or 1. */
int bench_stage_close(void);

struct bench_file {
    char *path;
    uint8_t *bytes;
    size_t len;
    uint32_t width, height; /* from the header */
};

struct bench_files {
    struct bench_file *files;
    size_t count;
    size_t refused; /* found, but left out: no JPEG, or not all rows can decode it */
    size_t bytes;
};

/** Read at most `limit` (0: all) JPEGs below a folder, in byte order of their paths. Returns 0, or
 * -errno with a message. */
int bench_files_load(const char *folder, uint32_t limit, struct bench_files *ret,
                     struct plenum_error *err);
void bench_files_free(struct bench_files *files);

/** Minimum, median and maximum of a set of numbers. */
struct bench_spread {
    double min, median, max;
};

/** Compute the spread of `values`, and sort them. */
struct bench_spread bench_spread_of(double *values, size_t count);

/** Get the name of the first processor, "Intel(R) Xeon(R) ...". */
void bench_cpu_name(char *text, size_t size);

/** Begin a benchmark's report: an object that stays open, with the benchmark's name and the
 * processor. */
void bench_json_begin(struct json *j, const char *name);

/** Add "min", "median" and "max" to the open object. */
void bench_json_spread(struct json *j, const struct bench_spread *s, int decimals);

#endif

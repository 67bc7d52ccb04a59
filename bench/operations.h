/* SPDX-License-Identifier: MIT */
/* operations.h - times the operations after the crop, one by one, for bench/stages. */
#ifndef BENCH_OPERATIONS_H
#define BENCH_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "loader/image/image.h"

enum { BENCH_OPERATIONS = 21 };

/** The timed operations. The first one only stores the window. */
extern const char *const bench_operations[BENCH_OPERATIONS];

struct bench_operations;

/** Create the operations with the loops named `kernels` (NULL: the best). Returns 0 or -ENOMEM. */
int bench_operations_create(struct bench_operations **ret, uint32_t side, const char *kernels);
void bench_operations_destroy(struct bench_operations *o);

/** Run operation k on a copy of planes[3][side][side], and store the result in `dst`.
 *
 * Returns its CPU time in ns, or 0 if this build does not support it or memory ran out.
 */
uint64_t bench_operations_run(struct bench_operations *o, size_t k, const struct image_draw *draw,
                              const uint8_t *planes, const struct image_store *store, uint8_t *dst);

#endif

/* SPDX-License-Identifier: MIT */
/* npy.h - parses the header of an array in NumPy's format (NEP 1: versions 1.0 to 3.0). */
#ifndef LOADER_DATASET_NPY_H
#define LOADER_DATASET_NPY_H

#include <stddef.h>

#include "common/data/fields.h"

/**
 * Parse the header of an array: its type and shape, its length in bytes (as `room`), and the offset
 * of its data.
 *
 * Errors, with `err` set: -EBADMSG it is damaged or truncated, or an array that cannot be a field
 * (objects, strings, complex numbers, big-endian, Fortran order, empty, with too many dimensions,
 * or over FIELD_BYTES_MAX).
 */
int npy_parse(const void *bytes, size_t len, struct field_shape *ret, size_t *ret_at,
              struct plenum_error *err);

/** Like npy_parse(), for arrays of up to `most` bytes. */
int npy_parse_most(const void *bytes, size_t len, uint32_t most, struct field_shape *ret,
                   size_t *ret_at, struct plenum_error *err);

#endif

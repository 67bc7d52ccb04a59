/* SPDX-License-Identifier: MIT */
/* npy.h - the header of an array in NumPy's format (NEP 1: versions 1.0 to 3.0). */
#ifndef LOADER_DATASET_NPY_H
#define LOADER_DATASET_NPY_H

#include <stddef.h>

#include "common/fields.h"

/**
 * What array the bytes hold: its type and shape, its bytes as `room`, and where they begin.
 *
 * Errors: -EBADMSG with a sentence: it is damaged or cut, or an array that no field can be
 * (objects, texts, complex numbers, big-endian, in Fortran's order, over FIELD_BYTES_MAX).
 */
int npy_parse(const void *bytes, size_t len, struct field_shape *ret, size_t *ret_at,
              struct plenum_error *err);

#endif

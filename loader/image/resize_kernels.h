/* resize_kernels.h - the sets of loops that resize.c chooses from, one file each. */
#ifndef LOADER_IMAGE_RESIZE_KERNELS_H
#define LOADER_IMAGE_RESIZE_KERNELS_H

#include "loader/image/resize.h"

extern const struct resize_kernels resize_portable;

#endif

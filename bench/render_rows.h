/* SPDX-License-Identifier: MIT */
/* render_rows.h - bench/render's rows: the ways of rendering that it compares. */
#ifndef BENCH_RENDER_ROWS_H
#define BENCH_RENDER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/bench.h"
#include "common/pipeline/views.h"
#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "loader/image/resize/crop.h"

/* The entry points of one file. */
struct hint {
    uint8_t *bytes; /* NULL: none */
    size_t len;
};

/* State shared by the rows. */
struct render_context {
    struct pipeline pipeline;
    struct image_decoder *decoder;
    struct crop_tables tables;
    uint8_t *dst;               /* [height][width][3] */
    struct pack_result *packed; /* the files, packed */
    size_t num_packed;
    struct hint *hints; /* one per file */
    size_t num_hints;
    uint32_t seed;
#ifdef HAVE_FFCV_WAY
    struct ffcv_way *ffcv;
#endif
};

/* One way of rendering training images. */
struct render_row {
    const char *name;
    const char *what;
    /* Prepares one more file, untimed. Returns 0, or an error that excludes the file. May be
     * NULL. */
    int (*add)(struct render_context *c, const struct bench_file *file, size_t index);
    int (*run)(struct render_context *c, const struct render_row *row,
               const struct bench_file *file, size_t index, uint32_t round);
    const char *missing; /* why the row is left out; NULL: it is available */
    bool off;            /* not requested */
    const char *recipe;  /* for run_recipe() and run_apart() */
    struct views views;  /* also for these two */
    bool indexed;        /* also for these two: entry points are known */
    /* For run_other(). */
    struct image_decoder *decoder;
};

#define FFCV_ROW "ffcv-way" /* the reference for the other rows */
#define FULL_ROW "full-decode"
#define WHOLE_ROW "plenum-decode"
#define LIBJPEG_ROW "plain-libjpeg"
#define PLAIN_ROW "plain"
#define INDEXED_ROW "plain-indexed"
#define FORM_ROWS /* for --forms */ \
    FULL_ROW "," WHOLE_ROW "," LIBJPEG_ROW "," PLAIN_ROW "," INDEXED_ROW

enum { ROWS = 21, KERNEL_ROWS = 2, BLOCK = 25 };

/** The last KERNEL_ROWS have no name until render_rows_init() gives them one. */
extern struct render_row render_rows[];

/** Returns whether the row is available and requested. */
bool render_rows_shown(const struct render_row *row);

/**
 * Parse the rows' recipes, create their decoders, and select the rows in a comma-separated list
 * (NULL: all). `kernels` adds rows for the other sets of loops.
 *
 * @param ret_room bytes of the pixels of the largest recipe
 *
 * Returns 0; or, with a message, -EINVAL if the list names no row, or -ENOMEM.
 */
int render_rows_init(const char *list, bool kernels, size_t *ret_room, struct plenum_error *err);
void render_rows_fini(void);

/** Returns the size of the hints relative to the files; 0 if there are none. */
double render_hints_size(const struct render_context *c, const struct bench_files *files);
/** Returns the size of packed files relative to the originals; 0 if none was packed. */
double render_packed_size(const struct render_context *c, const struct bench_files *files);

#endif

/* SPDX-License-Identifier: MIT */
/* render.h - renders samples. Their bytes depend only on the data set, the pipeline, the seed, the
 * epoch and the positions. */
#ifndef LOADER_RENDER_RENDER_H
#define LOADER_RENDER_RENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/order/order.h"
#include "common/pipeline/views.h"
#include "loader/dataset/dataset.h"
#include "loader/image/image.h"
#include "loader/image/scratch.h"

/** The constants of a stream, shared by all its samples. Do not change them during use. Threads:
 * any. */
struct render_spec {
    struct dataset *dataset; /* borrowed */
    struct views views;
    struct order order;
    struct image_store store;
    enum plenum_bad bad;
    enum image_jpeg jpeg; /* which decoder to use; it does not affect pixels */
    uint32_t run;         /* positions that one decode may serve (render_run()); 0 means 1 */
    bool masks;           /* some fields are masks or instances; for render_working_bytes() */
};

/* Pictures of a position: four of its mosaic, and four of its partner's. */
enum { RENDER_PICTURES_MAX = 8 };

/** A sample's file and its fields. */
struct render_file {
    struct dataset_buffer image, fields;
};

/** The bytes that a position needs: those of its own sample and of its mosaic's others, and from
 * the fifth file on those of its partner if it is mixed. The fields of others are read only if some
 * follow the pixels. Starts as zeros. */
struct render_files {
    struct render_file of[RENDER_PICTURES_MAX];
};

/** Returns the number of bytes. */
uint64_t render_files_bytes(const struct render_files *files);

/** Forget the bytes, but keep the memory. */
void render_files_clear(struct render_files *files);

/** Free the buffers that hold more than `keep` bytes. */
void render_files_trim(struct render_files *files, size_t keep);

/** Scratch memory of one thread. Starts as zeros; the decoder is created on first use. */
struct render_scratch {
    struct image_decoder *decoder;
    struct render_files files;
    struct dataset_buffer hint;
    struct scratch masks; /* for instance_masks_show() */
    uint8_t *pair;        /* [2][render_bytes()]: a sample and its partner before they are mixed */
    uint64_t pair_bytes;
    struct mosaic *mosaic; /* created on first use */
};

void render_scratch_fini(struct render_scratch *scratch);

/** The result of rendering. */
struct render_result {
    int64_t label;
    uint32_t sample;  /* the sample that is shown */
    bool substituted; /* the sample replaces a bad one that the order names */
    int64_t label2;   /* the partner's label, or `label` if nothing is mixed in */
    float weight;     /* the share of the sample itself; the partner's is 1 - weight */
};

/** Returns the sample that the order shows at `position` of `epoch`. Positions from N on start
 * over. */
static inline uint32_t render_sample_at(const struct render_spec *spec, uint64_t epoch,
                                        uint64_t position)
{
    return order_sample(&spec->order, (uint32_t)epoch,
                        (uint32_t)(position % order_positions(&spec->order)));
}

/** Returns what determines a position's random draws: seed, epoch and position. */
static inline struct image_draw render_draw(const struct render_spec *spec, uint64_t epoch,
                                            uint64_t position)
{
    return (struct image_draw){
        .seed = spec->order.seed,
        .epoch = (uint32_t)epoch,
        .position = (uint32_t)(position % order_positions(&spec->order)),
    };
}

/** Returns the pipeline of the first view, which is the only pipeline of a stream without views. */
static inline const struct pipeline *render_pipeline(const struct render_spec *spec)
{
    return &spec->views.view[0].pipeline;
}

/** Returns the size in bytes of one sample's pixels, in all its views. */
static inline uint64_t render_bytes(const struct render_spec *spec)
{
    return views_pixels(&spec->views) * spec->store.channels;
}

/** Returns the shape of the i-th field in a batch (views_shape_fields()). */
static inline struct field_shape render_field_shape(const struct render_spec *spec, uint32_t i)
{
    struct field_shape shape = dataset_get_fields(spec->dataset)->shape[i];

    field_shape_repeat(&shape, views_pictures(&spec->views));
    return shape;
}

/** Returns the size in bytes of one image of a view. */
static inline uint64_t render_view_bytes(const struct render_spec *spec, uint32_t view)
{
    const struct pipeline *pipeline = &spec->views.view[view].pipeline;

    return (uint64_t)pipeline->width * pipeline->height * spec->store.channels;
}

/** Check that the data set has the images that the views need. Returns 0, or -EINVAL with a
 * message. */
int render_check_images(const struct dataset *dataset, const struct views *views,
                        struct plenum_error *err);

/** Check that there are enough samples for the pipeline. Returns 0, or -EINVAL with a message. */
int render_check_samples(const struct render_spec *spec, struct plenum_error *err);

/** Where a sample's pixels are written: for each view, its images one after the other. */
struct render_target {
    uint8_t *view[VIEWS_MAX];
    /* Where to write the sample's geometry (plenum_batch_get_geometry()); all NULL if it is not
     * requested. */
    float *boxes;   /* [images][4] */
    uint32_t *size; /* height, width */
    uint8_t *flips; /* [images] */
    /* Where to write each field, and the length of each field whose length varies; NULL if it does
     * not vary. All NULL if no fields are requested. */
    uint8_t *field[FIELDS_MAX];
    uint32_t *length[FIELDS_MAX];
};

/** Returns a target in one block of render_bytes(): view after view. */
struct render_target render_target_in(const struct render_spec *spec, void *bytes);

/** Returns the bytes of all fields of one sample, as they are shown. */
uint64_t render_field_bytes(const struct render_spec *spec);

/** Make a target write a sample's fields to `room` [render_field_bytes()], one after the other.
 * `lengths` [FIELDS_MAX] receives the size of each field in bytes; the size of text is known only
 * after rendering. The target borrows both. */
void render_target_fields(const struct render_spec *spec, uint8_t *room, uint32_t *lengths,
                          struct render_target *target);

/** Returns why no other stream can use what this one renders, as a clause for messages, such as
 * "the data set is generated"; NULL: another one can. */
const char *render_cannot_share(const struct render_spec *spec);

/**
 * Returns the number of positions from this one on, at most `most` and spec->run, that one decode
 * can serve: positions that repeat a sample, if nothing is mixed. At least 1.
 */
uint32_t render_run(const struct render_spec *spec, uint64_t position, uint32_t most);

/** Returns the memory that a thread needs for mixing, mosaics, masks and augmentations while it
 * renders a sample. It does not depend on the sample's file. The order need not exist yet. */
uint64_t render_working_bytes(const struct render_spec *spec);

/** A position, and the number of bad samples that were tried for each of its pictures, its own one
 * first. The others are those of other positions, with their own tries. */
struct render_try {
    uint64_t epoch, position;
    uint8_t bad[RENDER_PICTURES_MAX];
    uint32_t at; /* the picture that was processed last */
    /* The result of render_candidate() for bad[0] = found - 1. `found` is 0: none yet. */
    uint32_t sample, found;
};

/** Returns the sample to try next: that of the order, or the next substitute. It is computed once,
 * because the order costs as much as the pixels of a very small image. */
uint32_t render_candidate(const struct render_spec *spec, struct render_try *try);

/** Read the files of a try, and set try->at. Returns 0, or an error of dataset_read() or
 * dataset_read_fields(). */
int render_read(const struct render_spec *spec, struct render_try *try, struct render_files *files,
                struct plenum_error *err);

/** Handle a try that has returned `code`. Returns true if its sample is bad and a substitute is to
 * be tried; `try` is then the next try. Returns false if `code` is the final result for the
 * position. After too many tries, `err` says so. */
bool render_goes_on(const struct render_spec *spec, struct render_try *try, int code,
                    struct plenum_error *err);

/** One decode: a try at a position, or at the first position of a run. render_read() has read its
 * files. */
struct render_job {
    const struct render_spec *spec;
    struct render_scratch *scratch;
    struct render_try *try;
    const struct render_files *files;
    uint32_t count;                  /* positions of the run, at least 1 */
    const struct render_target *dst; /* [count] */
};

/**
 * Render one try, or the first tries of a run of positions, and set try->at. Reads no file
 * except a hint, may add a hint, and writes each byte of job->dst once. The result is the same for
 * all positions. A run is bad if one of its positions is: the caller must then render each position
 * alone.
 *
 * Errors: -EBADMSG a bad sample; -ENOTSUP this build cannot decode its format (`err` names the
 * file); -ENOMEM.
 */
int render_bytes_of(const struct render_job *job, struct render_result *ret,
                    struct plenum_error *err);

/**
 * Read and render one position, with its fields if `dst` has room for them.
 *
 * Errors: -EBADMSG a bad sample if spec->bad makes it an error, or no substitute found in 100
 * tries; -ENOTSUP this build cannot decode its format; -ESTALE, -EIO and others: a file could not
 * be read. `err` names the file. -ENOMEM.
 */
int render_whole(const struct render_spec *spec, struct render_scratch *scratch,
                 struct order_place place, const struct render_target *dst,
                 struct render_result *ret, struct plenum_error *err);

/** Like render_whole(), but without fields, into `dst` [render_bytes()], view after view. */
int render_position(const struct render_spec *spec, struct render_scratch *scratch,
                    struct order_place place, void *dst, struct render_result *ret,
                    struct plenum_error *err);

#endif

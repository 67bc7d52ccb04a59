/* SPDX-License-Identifier: MIT */
/* render.h - the function that the design rests on: bytes = render(data set, pipeline, seed, epoch,
 * positions). */
#ifndef LOADER_RENDER_RENDER_H
#define LOADER_RENDER_RENDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/order.h"
#include "common/views.h"
#include "loader/dataset/dataset.h"
#include "loader/image/image.h"

/** What is the same for all samples of a stream. Constant while it is used. Threads: any. */
struct render_spec {
    struct dataset *dataset; /* borrowed */
    struct views views;
    struct order order;
    struct image_store store;
    enum plenum_bad bad;
    enum image_jpeg jpeg; /* which decoder; the pixels are the same */
    uint32_t run;         /* positions that one decode may serve (render_run()); 0 is 1 */
    bool masks;           /* there are some among the fields: for render_working_bytes() */
};

/** The files of a position: its own sample's, and, where it is mixed, its partner's; and its own
 * fields. Starts as zeros. */
struct render_files {
    struct dataset_buffer own, partner, fields;
};

/** Frees what holds more than `keep` bytes. */
void render_files_trim(struct render_files *files, size_t keep);

/** Scratch of one thread. Starts as zeros; the decoder is made at the first use. */
struct render_scratch {
    struct image_decoder *decoder;
    struct render_files files;
    struct dataset_buffer hint;
    uint8_t *pair; /* [2][render_bytes()]: a sample and its partner before they are mixed */
    uint64_t pair_bytes;
};

void render_scratch_fini(struct render_scratch *scratch);

/** What was rendered. */
struct render_result {
    int64_t label;
    uint32_t sample;  /* that is shown */
    bool substituted; /* it is not the one that the order names */
    int64_t label2;   /* its partner's; where nothing is mixed in, its own */
    float weight;     /* of the first label */
};

/** The sample that the order shows at `position` of `epoch`; positions at and beyond N begin again.
 */
static inline uint32_t render_sample_at(const struct render_spec *spec, uint64_t epoch,
                                        uint64_t position)
{
    return order_sample(&spec->order, (uint32_t)epoch,
                        (uint32_t)(position % order_positions(&spec->order)));
}

/** The numbers of a position's draws. */
static inline struct image_draw render_draw(const struct render_spec *spec, uint64_t epoch,
                                            uint64_t position)
{
    return (struct image_draw){
        .seed = spec->order.seed,
        .epoch = (uint32_t)epoch,
        .position = (uint32_t)(position % order_positions(&spec->order)),
    };
}

/** The pipeline of a data set without views, or that of the first one. */
static inline const struct pipeline *render_pipeline(const struct render_spec *spec)
{
    return &spec->views.view[0].pipeline;
}

/** Bytes of one sample's pixels, of all its views. */
static inline uint64_t render_bytes(const struct render_spec *spec)
{
    return views_pixels(&spec->views) * spec->store.channels;
}

/** Bytes of one image of a view. */
static inline uint64_t render_view_bytes(const struct render_spec *spec, uint32_t view)
{
    const struct pipeline *pipeline = &spec->views.view[view].pipeline;

    return (uint64_t)pipeline->width * pipeline->height * spec->store.channels;
}

/** Has the data set the images that the views want? 0 or -EINVAL with a sentence. */
int render_check_images(const struct dataset *dataset, const struct views *views,
                        struct plenum_error *err);

/** Where a sample's pixels go: of each view its images, one behind the other. */
struct render_target {
    uint8_t *view[VIEWS_MAX];
    /* Where its pixels come from (plenum_batch_get_geometry()); all NULL: nobody asks. */
    float *boxes;   /* [images][4] */
    uint32_t *size; /* height, width */
    uint8_t *flips; /* [images] */
    /* Its fields: of each its room, and the bytes in it where it varies, else NULL. All NULL:
     * nobody asks. */
    uint8_t *field[FIELDS_MAX];
    uint32_t *length[FIELDS_MAX];
};

/** In one piece of render_bytes(): view after view. */
struct render_target render_target_in(const struct render_spec *spec, void *bytes);

/**
 * Positions from this one on, at most `most` and spec->run, that one decode serves: those of a
 * repeated sample, where nothing is mixed. At least 1.
 */
uint32_t render_run(const struct render_spec *spec, uint64_t position, uint32_t most);

/** What a thread keeps beside these while it renders a sample, and whatever the file is like. The
 * order need not be there yet. */
uint64_t render_working_bytes(const struct render_spec *spec);

/** A position, and the number of samples that were tried there and are bad. A sample that is mixed
 * has a partner, of another position, with tries of its own. */
struct render_try {
    uint64_t epoch, position;
    uint32_t bad, partner_bad;
    bool at_partner; /* which of both was worked on last */
    /* What render_candidate() found, and 1 + the `bad` that it is for; 0: nothing yet. */
    uint32_t sample, found;
};

/** The sample to try next: that of the order, or the next substitute. It is computed once: the
 * order costs as much as the pixels of a very small image. */
uint32_t render_candidate(const struct render_spec *spec, struct render_try *try);

/** Read the files of a try. Errors as dataset_read(). */
int render_read(const struct render_spec *spec, struct render_try *try, struct render_files *files,
                struct plenum_error *err);

/** A try has returned `code`. True: a sample is bad, and `try` is now the next try. False: `code`
 * is the result for the position; when there are no more substitutes, `err` says so. */
bool render_goes_on(const struct render_spec *spec, struct render_try *try, int code,
                    struct plenum_error *err);

/**
 * Render one try, whose files render_read() has read, or the first tries of a run of so many
 * positions. Reads no file, and writes each byte of `dst` [count] once. What is returned is the
 * same for all. A run is bad when one of its positions is: then each is to be rendered alone.
 *
 * Errors: -EBADMSG a bad sample; -ENOMEM. `err` names the file.
 */
int render_bytes_of(const struct render_spec *spec, struct render_scratch *scratch,
                    struct render_try *try, uint32_t count, const struct render_files *files,
                    const struct render_target *dst, struct render_result *ret,
                    struct plenum_error *err);

/**
 * Read and render one position, with its fields where `dst` has room for them.
 *
 * Errors: -EBADMSG a bad sample where spec->bad says so, or no substitute found in 100 tries;
 * -ESTALE, -EIO and others: a file could not be read. `err` names the file. -ENOMEM.
 */
int render_whole(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch,
                 uint64_t position, const struct render_target *dst, struct render_result *ret,
                 struct plenum_error *err);

/** The pixels alone, into `dst` [render_bytes()], view after view. */
int render_position(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch,
                    uint64_t position, void *dst, struct render_result *ret,
                    struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* stream.h - the stream of batches of one instance.
 *
 * A batch is a pure function of (data set, pipeline, seed, epoch, positions): whatever happens to
 * loaders, threads and hosts in between, the same options give the same bytes in the same order.
 *
 *     struct plenum_stream_options options;
 *     plenum_stream_options_init(&options);
 *     options.dataset = "folder:/data/train";
 *     options.pipeline = "train";
 *     options.micro_batch = 16;
 *     options.epochs = 90;
 *     r = plenum_stream_open(plenum_job_get_info(job), &options, &stream, &err);
 *     while ((r = plenum_stream_next(stream, PLENUM_FOREVER, &batch, &err)) == 0) {
 *         train(batch.pixels, batch.labels, batch.valid);
 *         plenum_batch_release(&batch);
 *     }
 *     // here r is -ENODATA: all epochs are over
 *
 * PLENUM_VERIFY_BATCHES is a percentage of batches that two loaders are asked for and that are
 * compared. Where they differ the stream fails with -EBADMSG and names both. It takes two loaders.
 *
 * Two variables of the environment serve to find out what an unchanged program waits for; see
 * plenumctl(1). PLENUM_SOURCE is real, generated (pixels from a table instead of decoded ones) or
 * synthetic (one constant batch, no loader works). PLENUM_TRACE names a folder into which each
 * stream writes the way of its batches.
 */
#ifndef PLENUM_STREAM_H
#define PLENUM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>
#include <plenum/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A time limit that never comes. */
#define PLENUM_FOREVER UINT64_MAX

/** One stream of batches. Opaque. */
struct plenum_stream;

/** What a pixel's channel is stored as. */
enum plenum_dtype {
    PLENUM_INT8,  /**< Value - 128: -128 ... 127, signed. */
    PLENUM_UINT8, /**< 0 ... 255. */
};

enum plenum_layout {
    PLENUM_NHWC, /**< Channels of one pixel together. */
    PLENUM_NCHW, /**< One plane a channel. */
};

/** What is done with the positions that do not fill a whole step at the end of an epoch. */
enum plenum_last {
    PLENUM_PAD,  /**< The last step is filled up with samples that are marked not valid. */
    PLENUM_DROP, /**< They are left out. */
};

/** What is done with a sample that cannot be decoded. */
enum plenum_bad {
    /** Another sample, chosen by the seed, is shown in its place and counted. */
    PLENUM_BAD_SUBSTITUTE,
    /** The stream fails with -EBADMSG, naming file and reason. */
    PLENUM_BAD_FAIL,
};

/** How the instances of a job share a data set. */
enum plenum_split {
    /** All of it is there for all: each takes its share of every step. */
    PLENUM_SPLIT_SAMPLE,
    /** Each instance has an equal part of the data set's archives, which is a data set of its own:
     *  for data that lies on each host's own disks. Only with plenum_stream_open_all(). */
    PLENUM_SPLIT_FILE,
};

/** Which positions of a step a replica takes: of R * M, M. */
enum plenum_deal {
    /** Replica r takes M in a row, from r * M on. */
    PLENUM_DEAL_CONSECUTIVE,
    /** Replica r takes r, r + R, r + 2R, ...: with `repeat`, the copies of a sample go to
     *  different replicas. */
    PLENUM_DEAL_ROUND_ROBIN,
};

/**
 * Told of the memory that batches lie in, for programs that pin it (cudaHostRegister).
 *
 * @param present  1: batches from [base, base + bytes) will be handed out.
 *                 0: it is about to be unmapped; no batch of it is leased any more.
 *
 * A stream has one ring, and another one after each loss of a loader; the old one goes when its
 * last batch has been released.
 *
 * Threads: called in the thread that calls plenum_stream_next(), plenum_stream_shutdown() or
 *          plenum_stream_destroy(), or plenum_batch_release() for a stream that was ended before.
 *          It may call nothing of the stream's but plenum_stream_get_*().
 */
typedef void (*plenum_ring_call)(void *arg, void *base, size_t bytes, int present);

/** What to stream. Fill with plenum_stream_options_init(), then change what differs. */
struct plenum_stream_options {
    /** sizeof(struct plenum_stream_options): set by the init function. */
    size_t size;
    /** "FORMAT:PATH", or a plain path: see plenumctl(1). Copied. No default. */
    const char *dataset;
    /** "train", "eval", stages, or views: see plenum(7). Copied. Default "train". */
    const char *pipeline;
    /** "global", "none" or "block:B". Copied. Default "global". */
    const char *shuffle;
    /** Addresses of loaders, separated by commas, or NULL for the job's: unix:PATH, unix:@NAME,
     *  tcp:HOST:PORT, where a name stands for all its addresses. All that answer are used.
     *  Copied. */
    const char *loader;
    /** Keys every random number. Default 0. */
    uint64_t seed;
    /** The stream ends before this epoch (counted from 0); 0: never. */
    uint64_t epochs;
    /** M: samples that a replica takes in a step. Default 1. */
    uint32_t micro_batch;
    /** S: consecutive steps in one batch. Default 1. */
    uint32_t steps;
    /** Batches asked for ahead of time, 1 ... 64. Default 3; with several loaders at least two for
     *  each. */
    uint32_t prefetch_depth;
    /** Default PLENUM_INT8. */
    enum plenum_dtype dtype;
    /** Default PLENUM_NHWC. */
    enum plenum_layout layout;
    /** 3, or 4 with a last channel of zero points: what stands for 0.0, 0 as int8 and 128 as uint8.
     *  Default 3. */
    uint32_t channels;
    /** Default PLENUM_PAD. */
    enum plenum_last last;
    /** Default PLENUM_BAD_SUBSTITUTE. */
    enum plenum_bad bad;
    /** How long no loader may answer before the stream fails with -ECONNRESET; and how long one
     *  that is away is waited for when those that are there cannot make a batch. Default 60 s. */
    uint64_t loader_timeout_ns;
    /** A loader that says nothing for so long, though something was asked of it, is given up. Where
     *  there are others, these are asked long before. Default 5 s. */
    uint64_t silence_ns;
    /** "a:b": only samples a ... b - 1 of the data set; NULL: all. Copied. */
    const char *subset;
    /** Positions in a row that show a sample, each with a crop of its own. Default 1. */
    uint32_t repeat;
    /** Default PLENUM_SPLIT_SAMPLE. */
    enum plenum_split split;
    /** Default PLENUM_DEAL_CONSECUTIVE. */
    enum plenum_deal deal;
    /** Told of rings that come and go, or NULL, the default. */
    plenum_ring_call on_ring;
    /** Handed to it. */
    void *on_ring_arg;
    /** What else is wanted of each sample, "NAME[:SOURCE[:KIND]], ...": see
     *  plenum_batch_get_fields(). Copied. Default NULL: nothing. */
    const char *fields;
};

/** Constant facts of an open stream. */
struct plenum_stream_info {
    uint64_t num_samples;     /**< Samples that are shown: of the data set, or of the subset. */
    uint64_t num_positions;   /**< N, of an epoch: num_samples, each `repeat` times. */
    uint64_t steps_per_epoch; /**< The same in every instance. */
    uint64_t batches;         /**< Of the whole stream from epoch 0 on; 0 when it is endless. */
    uint32_t num_classes;     /**< Of the data set: labels are below it. */
    uint32_t height, width, channels;      /**< Of one image; of several views, of the first's. */
    uint32_t steps, replicas, micro_batch; /**< The shape of a batch: [S][local R][M]. */
    uint32_t slots;          /**< In the ring; one is taken by each batch that is not released. */
    uint64_t batch_bytes;    /**< Pixels of one batch, of all its views. */
    uint8_t fingerprint[16]; /**< Of the data set. */
    uint8_t identity[16];    /**< Of all that decides what a position shows: see plenum_cursor. */
};

/**
 * A leased batch. Plain data: read every field, write none.
 *
 * Arrays are [S][local R][M] unless said otherwise, S the slowest. They are borrowed from the
 * stream's ring until plenum_batch_release(), also beyond plenum_stream_destroy(). Until then they
 * are the program's: what they hold may be changed in place.
 */
struct plenum_batch {
    /** int8 or uint8, [S][R][M][H][W][C] or [S][R][M][C][H][W]; 4096-byte aligned. Where the
     *  pipeline has views, those of the first: see plenum_batch_get_views(). */
    void *pixels;
    int64_t *labels;          /**< Class indices. */
    uint32_t *samples;        /**< Index in the data set of the sample that is shown. */
    uint64_t *positions;      /**< Place in the epoch's order; >= N where valid is 0 at its end. */
    uint8_t *valid;           /**< 1: counts; 0: fills up the last step (or the last batch). */
    uint64_t *epochs;         /**< [S]: the epoch of each step; a batch may cross an epoch's end. */
    uint64_t index;           /**< Batches since the stream was opened or sought, from 0. */
    uint32_t count;           /**< S * local R * M. */
    uint32_t num_valid;       /**< Ones in valid. */
    uint32_t num_substituted; /**< Samples shown in place of bad ones. */
    uint32_t steps, replicas, micro_batch; /**< S, local R, M. */
    uint32_t height, width, channels;
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    struct plenum_lease *lease; /**< Private. */
};

/**
 * A place in the stream, to be kept in the program's checkpoint: 32 bytes, little-endian, meant to
 * be written as they are. Any number of replicas and any micro-batch can go on from it.
 */
struct plenum_cursor {
    /** Hash of data set, pipeline, seed and order: what must not have changed. */
    uint8_t identity[16];
    uint64_t epoch;    /**< Of the next step. */
    uint64_t position; /**< Of the next step, in its epoch's order. */
};

/** Where a stream stands, in terms of its epochs and steps. */
struct plenum_place {
    uint64_t epoch;      /**< Of the next step. */
    uint64_t position;   /**< Of the next step, in its epoch's order: below N. */
    uint64_t steps_left; /**< In that epoch from there on, at least 1; the same in all instances. */
};

/** Memory that batches lie in. */
struct plenum_ring {
    void *base;   /**< Page-aligned; NULL while there is no loader. */
    size_t bytes; /**< A multiple of the page size. */
};

/** What a stream has done so far. Times are in nanoseconds. */
struct plenum_stream_stats {
    uint64_t batches;     /**< Handed out. */
    uint64_t samples;     /**< Valid ones in them. */
    uint64_t substituted; /**< Shown in place of bad ones. */
    uint64_t wait_ns;     /**< Time that plenum_stream_next() has waited. */
    uint64_t elapsed_ns;  /**< Since the stream was opened, until it was ended. */
    uint64_t incidents;   /**< Loaders that died, went silent or were restarted. */
    uint64_t lost_ns;     /**< Time from losing a loader to having one again, summed. */
    uint64_t rendered;    /**< Samples that loaders have rendered, also those still prefetched. */
    /** Time that batches waited in a loader before the first of their samples was taken up, summed
     *  over batches. */
    uint64_t queue_ns;
    uint64_t read_ns;           /**< Time spent reading samples, summed over them. */
    uint64_t render_ns;         /**< From encoded bytes to pixels in place, summed over samples. */
    uint32_t loader_threads;    /**< Threads of the loaders in use that decode, and */
    uint32_t loader_io_threads; /**< that read. */
    uint32_t ready;             /**< Batches that could be had at once. */
    uint32_t in_flight;         /**< Batches that are being rendered. */
    /** Address of a loader in use, one of this host if there is one, or "". */
    char loader[128];
    uint32_t loaders; /**< In use. */
    /** Batches that were asked of another loader, as theirs was lost or could not make them. */
    uint64_t moved;
    uint64_t hedged;     /**< Batches that were asked of a second loader, as they were late, */
    uint64_t hedges_won; /**< and came from there. */
    uint64_t verified;   /**< Batches that two loaders made alike: see PLENUM_VERIFY_BATCHES. */
};

/** Write the defaults. */
PLENUM_API void plenum_stream_options_init(struct plenum_stream_options *options);

/**
 * Open a stream for one instance: connect to a loader, have the data set indexed if it is not yet,
 * and begin to prefetch from epoch 0.
 *
 * Where neither `options->loader` nor the job names a loader, the first instance of the job on this
 * host starts one (plenumd), which ends with it.
 *
 * @param info  Whose share to stream; NULL for a job of one instance. Copied.
 *
 * Ownership: `*ret` ends with plenum_stream_destroy().
 * Errors:
 *   -EINVAL                      an option, which is named, is out of range;
 *   -ENOENT                      no such data set;
 *   -EBADMSG                     it holds nothing usable;
 *   -EACCES                      it may not be read;
 *   -EBUSY                       another process of this host is the job's instance already;
 *   -ECONNREFUSED, -ECONNRESET   no loader answered within loader_timeout_ns; all are named;
 *   -EPROTONOSUPPORT             a loader of another major version;
 *   -ENOSPC, -ENOMEM             the ring cannot be reserved.
 * Threads: any. Blocks while an index is being built: minutes for millions of files, the first
 *          time. One thread of the library's own talks to loaders, for all streams of the process.
 */
PLENUM_API int plenum_stream_open(const struct plenum_job_info *info,
                                  const struct plenum_stream_options *options,
                                  struct plenum_stream **ret, struct plenum_error *err);

/**
 * Open a stream in all instances of a job, and see to it that they stream the same: a collective.
 *
 * As plenum_stream_open(). In addition, when one instance cannot open its stream, all get its
 * error; and when instances would show different samples (another data set under the same name,
 * another pipeline, seed or order), all are refused, with both and the first difference that can be
 * named.
 *
 * With PLENUM_SPLIT_FILE, instance i of I streams the i-th of I equal parts of the archives, in an
 * order of its own, and the instances agree on the number of steps: the largest of all parts'
 * (PLENUM_PAD) or the smallest (PLENUM_DROP). The name must list the archives
 * ("x-{000..146}.tar"), so that it means the same where only some of them lie; only an instance's
 * own need be there.
 * Cursors then count positions of a part, and are of use to the same instance of an equal job.
 *
 * Errors: as plenum_stream_open() and as all collectives, and
 *   -ESTALE   data sets differ;
 *   -EINVAL   options differ.
 */
PLENUM_API int plenum_stream_open_all(struct plenum_job *job,
                                      const struct plenum_stream_options *options,
                                      struct plenum_stream **ret, struct plenum_error *err);

/**
 * End a stream: its connections, its prefetching, and the loader that it started. Calls that are
 * under way in other threads return at once, and they and all later ones give -EBADF. Batches that
 * are still leased stay valid until released. A second time it does nothing. Threads: any.
 */
PLENUM_API void plenum_stream_shutdown(struct plenum_stream *stream);

/**
 * The same, and free the handle. NULL is nothing.
 *
 * Threads: any. Calls that are under way in other threads are ended and waited for; none may begin
 * any more. Where a thread that prefetches may just be about to call, use plenum_stream_shutdown(),
 * join it, then destroy. Not within a call of on_ring.
 */
PLENUM_API void plenum_stream_destroy(struct plenum_stream *stream);

/**
 * Lease the next batch, waiting at most `timeout_ns` nanoseconds (0 polls, PLENUM_FOREVER waits).
 *
 * Ownership: `*ret` borrows a slot of the ring until plenum_batch_release().
 * Errors: `*ret` is then untouched.
 *   -EAGAIN       none was ready in time;
 *   -ENODATA      the stream's epochs are over;
 *   -ENOBUFS      every slot of the ring is leased: release one first;
 *   -ECONNRESET   no loader answered for loader_timeout_ns;
 *   -EBADMSG      a bad sample under PLENUM_BAD_FAIL, or loaders that made different batches;
 *   -EIO          a file could not be read, or the program has closed descriptors of the library;
 *   -ENOTSUP      a WebP or AVIF image, and all loaders were built without its library;
 *   -ESTALE       the data set is another one than at open;
 *   -ECHILD       this process was forked from the one that opened the stream;
 *   -EBADF        another thread has shut the stream down.
 * After -EBADMSG, -EIO, -ENOTSUP, -ESTALE and -ECONNRESET every further call gives the same.
 * Threads: one at a time per stream; streams are independent. Blocks: keep it off event loops.
 */
PLENUM_API int plenum_stream_next(struct plenum_stream *stream, uint64_t timeout_ns,
                                  struct plenum_batch *ret, struct plenum_error *err);

/**
 * A descriptor for event loops (poll, epoll, select, asyncio): readable when plenum_stream_next()
 * would not answer -EAGAIN at once, be it with a batch, the end or an error.
 *
 * Ownership: the stream's. Do not read from it or close it; it goes with the stream and its leases.
 * Returns it, or -EMFILE, -ENFILE, -ENOMEM, -ECHILD, -EBADF. Threads: any.
 */
PLENUM_API int plenum_stream_get_fd(struct plenum_stream *stream, struct plenum_error *err);

/**
 * A ring that new batches come from. It becomes another one when a loader is lost, and there are
 * several when there are several loaders (one for each on this host, one for all others); batches
 * that are leased may lie in an older one. To be told, see plenum_stream_options.on_ring. Threads:
 * any.
 */
PLENUM_API void plenum_stream_get_ring(struct plenum_stream *stream, struct plenum_ring *ret);

/**
 * The names of samples, as their data set names them: of a folder, the paths of their files.
 *
 * @param samples  [count] indices in the data set, such as those of a batch.
 *
 * Ownership: `*ret` is [count] pointers and a NULL, one block: free() it.
 * Errors:    -EINVAL there is no such sample; -ENOTSUP the loader is too old; -ECHILD; -EBADF;
 *            -ENOMEM; or the stream's own error. `*ret` is then untouched.
 * Threads:   any. Blocks until the loader has answered: some microseconds a name.
 */
PLENUM_API int plenum_stream_sample_names(struct plenum_stream *stream, const uint32_t *samples,
                                          uint32_t count, char ***ret, struct plenum_error *err);

/**
 * The names of the data set's classes: `(*ret)[label]`.
 *
 * Ownership: `*ret` is [*ret_count] pointers and a NULL, one block: free() it; NULL, and a count of
 *            0, where labels are numbers and classes have no names. A class that nobody has named
 *            among others is "".
 * Errors:    -ENOTSUP the loader is too old; -ECHILD; -EBADF; -ENOMEM; or the stream's own error.
 *            `*ret` and `*ret_count` are then untouched.
 * Threads:   any. Blocks until the loader has answered: some microseconds a name.
 */
PLENUM_API int plenum_stream_class_names(struct plenum_stream *stream, char ***ret,
                                         uint32_t *ret_count, struct plenum_error *err);

/** What mixup and cutmix add to a batch. */
struct plenum_mix {
    int64_t *labels2; /**< [count]: of the sample that is mixed in. */
    float *weights;   /**< [count]: of the first label; that of the second is 1 - weight. */
};

/**
 * The second labels and the weights of a batch, where its pipeline ends with mixup, cutmix or mix.
 * A sample that is not mixed has the weight 1, and its own label twice.
 *
 * Ownership: as the batch's other arrays: until plenum_batch_release().
 * Returns 1, or 0 with `*ret` cleared: the pipeline does not mix. Threads: any.
 */
PLENUM_API int plenum_batch_get_mix(const struct plenum_batch *batch, struct plenum_mix *ret);

/** Views that a pipeline may have at most. */
#define PLENUM_VIEWS_MAX 4

/** One view of a batch: `count` images of each sample, made alike, with draws of their own. */
struct plenum_view {
    const char *name; /**< As the pipeline says, or "" where it has no views. */
    /** int8 or uint8, [S][R][M][count][H][W][C] or [S][R][M][count][C][H][W]; 64-byte aligned. */
    void *pixels;
    uint32_t count;         /**< Images of a sample. */
    uint32_t height, width; /**< Of one image. */
};

/**
 * The views of a batch whose pipeline is view(NAME, COUNT, STAGES) ..., in the order of the text.
 * Of a pipeline without views, one view of one image: the batch's pixels.
 *
 * Ownership: as the batch's other arrays: until plenum_batch_release().
 * Returns how many views there are; 0 of a batch that was released. Threads: any.
 */
PLENUM_API int plenum_batch_get_views(const struct plenum_batch *batch,
                                      struct plenum_view ret[PLENUM_VIEWS_MAX]);

/** Where the pixels of a batch come from, for masks, boxes and key points of the program's own. */
struct plenum_geometry {
    /** [S][R][M][images][4]: left, top, right and bottom of what an image shows, in pixels of the
     *  whole picture, as it is seen after EXIF where the pipeline says exif. Beyond the picture
     *  is padding. The image is this box, resized to its own size, then flipped. */
    float *boxes;
    uint32_t *sizes; /**< [S][R][M][2]: height and width of the whole picture. */
    /** [S][R][M][images]: bit 0, left and right are swapped; bit 1, top and bottom are. */
    uint8_t *flips;
};

/**
 * The crops and flips of a batch's images. Images are those of all views, in the order of the text;
 * without views there is one. Rotations and other operations that move pixels are not in it; of a
 * mixed sample it is that of the sample itself, and of a bad one that of what stands in for it.
 *
 * Ownership: as the batch's other arrays: until plenum_batch_release().
 * Returns the images of a sample; or 0 with `*ret` cleared: the batch was released, or comes from a
 * loader before version 1.9 of the protocol. Threads: any.
 */
PLENUM_API int plenum_batch_get_geometry(const struct plenum_batch *batch,
                                         struct plenum_geometry *ret);

/** Fields that a stream may have at most, and dimensions of an array among them. */
#define PLENUM_FIELDS_MAX 16
#define PLENUM_FIELD_DIMS_MAX 4

/** What a field is: a text, bytes, or an array of numbers (little-endian, C order). */
enum plenum_field_type {
    PLENUM_FIELD_TEXT, /**< UTF-8 without zero bytes. */
    PLENUM_FIELD_BYTES,
    PLENUM_FIELD_BOOL, /**< A byte each, 0 or 1. */
    PLENUM_FIELD_INT8,
    PLENUM_FIELD_UINT8,
    PLENUM_FIELD_INT16,
    PLENUM_FIELD_UINT16,
    PLENUM_FIELD_INT32,
    PLENUM_FIELD_UINT32,
    PLENUM_FIELD_INT64,
    PLENUM_FIELD_UINT64,
    PLENUM_FIELD_FLOAT16,
    PLENUM_FIELD_FLOAT32,
    PLENUM_FIELD_FLOAT64,
    PLENUM_FIELD_BOXES, /**< struct plenum_boxes. */
    PLENUM_FIELD_TYPES, /**< How many types there are; none of them. */
};

/** One box in an image: its edges in pixels from the image's left and top edge, from 0 to its width
 * or height, after crop, resize and flips; what lies outside of the image is cut off. */
struct plenum_box {
    float left, top, right, bottom;
    int64_t class_id; /**< As the data set has it. */
    int64_t id;       /**< The object's, or its number in the data set's list. */
};

/** The boxes of one image: this, and behind it as many struct plenum_box as there is room for, of
 * which those behind the last are zeros. */
struct plenum_boxes {
    uint64_t count; /**< How many there are. */
};

/** One field of a batch. */
struct plenum_field {
    const char *name; /**< As plenum_stream_options.fields says. */
    enum plenum_field_type type;
    /** Of arrays: dimensions of one sample's array; 0 is one number. Of boxes 1: how many an image
     *  has room for, in shape[0]. */
    uint32_t dims;
    uint32_t shape[PLENUM_FIELD_DIMS_MAX]; /**< Their sizes. */
    /** 1: a mask: [H][W] of uint8 or uint16, [images][H][W] where views have several images of one
     *  size, or, with views of several sizes, one dimension with those of all images, in the order
     *  of the text. */
    uint32_t mask;
    /** Bytes of each sample: of texts and bytes, of the longest in the data set; of boxes, those of
     *  all images of all views, in the order of the text, each struct plenum_boxes with as many as
     *  the sample that has most: 8 + 32 · shape[0] bytes. */
    uint64_t room;
    /** [S][R][M][room]: an array, or as many bytes as `lengths` says and zeros behind. */
    void *values;
    uint32_t *lengths; /**< [S][R][M]: bytes of a text; else NULL. */
};

/**
 * The fields that plenum_stream_options.fields asks for, in its order. Each is NAME:SOURCE:KIND.
 * NAME (letters, digits, _) is what the program calls it. SOURCE is where the data set has it: of
 * tar: and folder: the extension of a member or file beside the image ("txt", "seg.png"), or a
 * member of its JSON ("json.caption", "json.meta.size"), of tfrecord: a feature, of list: a column,
 * by its name or, in a list that names none, its number, where bytes, npy and mask are paths; the
 * same as NAME where it is left out. KIND is
 *
 *     text      (unless told) UTF-8
 *     line      one line of such a text that is not blank, drawn for each position
 *     bytes     as they are
 *     npy       an array in NumPy's format, of the same type and shape in all samples
 *     int64     whole numbers, the same count in all samples: features, or text with blanks,
 *     float32   or other numbers    commas or brackets between; one is a number, more an array
 *     mask      a PNG of indices or grey levels, of the image's size: cropped and flipped as each
 *               of its images is, by the nearest pixel; 255 (of 16 bits 65535) where these show
 *               padding. Not with pipelines that move pixels otherwise, or mix samples
 *     boxes     JSON: a list of objects with "bbox" ([x, y, width, height], as of COCO) or "bndbox"
 *               (as of Pascal VOC), with "category_id" and perhaps "id"; or an object with such a
 *               list as "annotations" or "objects"; or one with "boxes" ([left, top, right,
 *               bottom]) and "labels". Cropped and flipped as each of its images is; those of which
 *               it shows nothing are left out, with boxes:VISIBLE (0 to 1) those of which it shows
 *               a smaller share. docs/datasets.md, section 4, has the rules
 *
 * A sample that lacks a field, or whose field is damaged, longer than 1 MiB (a mask's file: 4 MiB)
 * or of another shape than the first one's, is a bad sample: see plenum_bad. The first opening with
 * such fields reads those of all samples once, and keeps what was found beside the index.
 *
 * Ownership: as the batch's other arrays: until plenum_batch_release().
 * Returns how many fields there are. Threads: any.
 */
PLENUM_API int plenum_batch_get_fields(const struct plenum_batch *batch,
                                       struct plenum_field ret[PLENUM_FIELDS_MAX]);

/** Give a batch's slot back and clear `*batch`; a cleared one is nothing. Threads: any. */
PLENUM_API void plenum_batch_release(struct plenum_batch *batch);

/** Constant facts of the stream. Threads: any. */
PLENUM_API void plenum_stream_get_info(const struct plenum_stream *stream,
                                       struct plenum_stream_info *ret);

/**
 * The place behind the last batch that plenum_stream_next() gave.
 *
 * Returns 0, or -ECHILD with `*ret` cleared. Threads: any.
 */
PLENUM_API int plenum_stream_cursor(struct plenum_stream *stream, struct plenum_cursor *ret);

/**
 * The same place as the next step sees it: at the end of an epoch, the begin of the next.
 *
 * Returns 0, or -ECHILD with `*ret` cleared. Threads: any.
 */
PLENUM_API int plenum_stream_get_place(struct plenum_stream *stream, struct plenum_place *ret);

/**
 * Go on from `cursor`: the next batch begins there. Leased batches stay; prefetched ones are
 * dropped.
 *
 * Errors:
 *   -ESTALE            the cursor was made with another data set, pipeline, seed or order;
 *   -EINVAL            it lies outside the data set;
 *   -ECHILD, -EBADF    as plenum_stream_next().
 * Threads: as plenum_stream_next().
 */
PLENUM_API int plenum_stream_seek(struct plenum_stream *stream, const struct plenum_cursor *cursor,
                                  struct plenum_error *err);

/**
 * How it has gone so far; of a stream that plenum_stream_shutdown() has ended, until then.
 * Threads: any.
 */
PLENUM_API void plenum_stream_get_stats(struct plenum_stream *stream,
                                        struct plenum_stream_stats *ret);

/**
 * Take the oldest warning that has not been taken: one sentence an incident, such as a loader that
 * was lost and the time that it cost.
 *
 * Returns 1 and fills `*ret`, or 0 when there is none. Threads: any.
 */
PLENUM_API int plenum_stream_take_warning(struct plenum_stream *stream, struct plenum_error *ret);

/**
 * The sum modulo 2^64 of the hashes of the batch's valid samples; sums of batches, instances and
 * parts of a run add up to the hash of the stream, which `plenumctl hash` computes on one thread.
 *
 * Per sample: XXH3-64 over u64 epoch, u64 position, i64 label (little-endian), where the pipeline
 * mixes i64 second label and f32 weight, the pixels of all images as u8 RGB NHWC, and of each field
 * u64 length and bytes. Threads: any.
 */
PLENUM_API uint64_t plenum_batch_hash(const struct plenum_batch *batch);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* stream.h - one instance's stream of batches.
 *
 * A batch is a pure function of (data set, pipeline, seed, epoch, positions): the same options give
 * the same bytes in the same order, even if loaders, threads or hosts fail.
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
 *     // here r is -ENODATA: all epochs have ended
 *
 * PLENUM_VERIFY_BATCHES in the environment is a percentage of the batches. Each of these batches is
 * requested from two loaders, if the stream has two. If the results differ, the stream fails with
 * -EBADMSG and names both loaders. If one is lost or late, the other's batch is used unchecked.
 *
 * Two environment variables help to find out what an unchanged program waits for; see plenumctl(1).
 * PLENUM_SOURCE is real, generated (pixels from a table instead of decoded images) or synthetic
 * (one constant batch, without any loader). PLENUM_TRACE names a folder into which each stream
 * writes a trace of its batches.
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

/** A timeout that never expires. */
#define PLENUM_FOREVER UINT64_MAX

/** One stream of batches. Opaque. */
struct plenum_stream;

/** How a pixel's channel is stored. */
enum plenum_dtype {
    PLENUM_INT8,  /**< Value - 128: -128 ... 127, signed. */
    PLENUM_UINT8, /**< 0 ... 255. */
};

enum plenum_layout {
    PLENUM_NHWC, /**< The channels of a pixel are adjacent. */
    PLENUM_NCHW, /**< One plane per channel. */
};

/** What happens to the positions at the end of an epoch that do not fill a whole step. */
enum plenum_last {
    PLENUM_PAD,  /**< The last step is padded with samples that are marked not valid. */
    PLENUM_DROP, /**< These positions are dropped. */
};

/** What happens to a sample that cannot be decoded. */
enum plenum_bad {
    /** It is counted, and a different sample, chosen by the seed, replaces it. */
    PLENUM_BAD_SUBSTITUTE,
    /** The stream fails with -EBADMSG and names the file and the reason. */
    PLENUM_BAD_FAIL,
};

/** How the instances of a job share a data set. */
enum plenum_split {
    /** Every instance can read the whole data set and takes its share of each step. */
    PLENUM_SPLIT_SAMPLE,
    /** Each instance reads an equal part of the data set's archives as its own data set. This is
     *  for data on each host's local disks. Only with plenum_stream_open_all(). */
    PLENUM_SPLIT_FILE,
};

/** Which M of a step's R * M positions a replica takes. */
enum plenum_deal {
    /** Replica r takes M consecutive positions, starting at r * M. */
    PLENUM_DEAL_CONSECUTIVE,
    /** Replica r takes r, r + R, r + 2R, ...: with `repeat`, the copies of a sample go to
     *  different replicas. */
    PLENUM_DEAL_ROUND_ROBIN,
};

/**
 * Called when memory for batches is mapped or unmapped, for programs that pin it
 * (cudaHostRegister).
 *
 * @param present  1: batches in [base, base + bytes) will be handed out.
 *                 0: the memory is about to be unmapped; no batch in it is leased.
 *
 * A stream has a ring for each loader on this host and one ring for all remote loaders. If a loader
 * is lost, its ring is replaced; the old ring is unmapped when its last batch has been released.
 *
 * Threads: called in the thread that calls plenum_stream_next(), plenum_stream_shutdown() or
 *          plenum_stream_destroy(), or plenum_batch_release() for a stream that has already ended.
 *          The only functions that it may call on the stream are plenum_stream_get_*().
 */
typedef void (*plenum_ring_call)(void *arg, void *base, size_t bytes, int present);

/** What to stream. plenum_stream_options_init() fills in the defaults; change fields after that. */
struct plenum_stream_options {
    /** sizeof(struct plenum_stream_options): set by the init function. */
    size_t size;
    /** "FORMAT:PATH", or a plain path: see plenumctl(1). Copied. No default. */
    const char *dataset;
    /** "train", "eval", stages, or views: see plenum(7). Copied. Default "train". */
    const char *pipeline;
    /** "global", "none" or "block:B". Copied. Default "global". */
    const char *shuffle;
    /** Loader addresses, separated by commas, or NULL for the job's addresses: unix:PATH,
     *  unix:@NAME, tcp:HOST:PORT. Each address that a host name resolves to is a loader. The stream
     *  uses every loader that answers. Copied. */
    const char *loader;
    /** Key of all random numbers. Default 0. */
    uint64_t seed;
    /** The stream ends before this epoch (counted from 0); 0: never. */
    uint64_t epochs;
    /** M: samples that a replica takes in a step. Default 1. */
    uint32_t micro_batch;
    /** S: consecutive steps in one batch. Default 1. */
    uint32_t steps;
    /** Batches requested in advance, 1 ... 64. Default 3; with several loaders at least two for
     *  each. */
    uint32_t prefetch_depth;
    /** Default PLENUM_INT8. */
    enum plenum_dtype dtype;
    /** Default PLENUM_NHWC. */
    enum plenum_layout layout;
    /** 3, or 4, which adds a channel that has the value of 0.0: 0 as int8, 128 as uint8. Default 3.
     *  */
    uint32_t channels;
    /** Default PLENUM_PAD. */
    enum plenum_last last;
    /** Default PLENUM_BAD_SUBSTITUTE. */
    enum plenum_bad bad;
    /** Time without any loader before the stream fails with -ECONNRESET; also how long to wait for
     *  an absent loader when the others cannot render a batch. Default 60 s. */
    uint64_t loader_timeout_ns;
    /** If a loader has a pending request and sends nothing for this long, the stream abandons it.
     * Other loaders, if there are any, get its batches much earlier. Default 5 s. */
    uint64_t silence_ns;
    /** "a:b": only samples a ... b - 1 of the data set; NULL: all. Copied. */
    const char *subset;
    /** Show each sample this many times in a row, each time with a different crop. Default 1. */
    uint32_t repeat;
    /** Default PLENUM_SPLIT_SAMPLE. */
    enum plenum_split split;
    /** Default PLENUM_DEAL_CONSECUTIVE. */
    enum plenum_deal deal;
    /** Called when rings are mapped and unmapped; or NULL, the default. */
    plenum_ring_call on_ring;
    /** Passed to on_ring. */
    void *on_ring_arg;
    /** Further fields of each sample to deliver, "NAME[:SOURCE[:KIND]], ...": see
     *  plenum_batch_get_fields(). Copied. Default NULL: none. */
    const char *fields;
};

/** Constant properties of an open stream. */
struct plenum_stream_info {
    uint64_t num_samples;     /**< Samples in the data set, or in the subset. */
    uint64_t num_positions;   /**< N: per epoch; without a plan, num_samples * repeat. */
    uint64_t steps_per_epoch; /**< The same in all instances, if nothing is skipped. */
    uint64_t batches;         /**< In the whole stream, starting at epoch 0; 0 if endless. */
    uint32_t num_classes;     /**< Classes in the data set; each label is below this number. */
    /** Size of one image; with several views, the first view's. */
    uint32_t height, width, channels;
    uint32_t steps, replicas, micro_batch; /**< The shape of a batch: [S][local R][M]. */
    uint32_t slots;          /**< Slots of a ring; each batch that is not yet released takes one. */
    uint64_t batch_bytes;    /**< Size of one batch's pixels, including all its views. */
    uint8_t fingerprint[16]; /**< Identifies the data set. */
    uint8_t identity[16];    /**< Hash of all that determines the samples: see plenum_cursor. */
};

/**
 * A leased batch. Plain data: read every field, write none.
 *
 * Arrays have the shape [S][local R][M] unless noted otherwise; S is the slowest dimension. They
 * are borrowed from the stream's ring until plenum_batch_release(), even after
 * plenum_stream_destroy(). Until then the program owns their contents and may change them.
 */
struct plenum_batch {
    /** int8 or uint8, [S][R][M][H][W][C] or [S][R][M][C][H][W]; 4096-byte aligned. If the pipeline
     *  has views, these are the first view's pixels: see plenum_batch_get_views(). */
    void *pixels;
    int64_t *labels;          /**< Class indices. */
    uint32_t *samples;        /**< The sample's index in the data set. */
    uint64_t *positions;      /**< Position in the epoch's order; >= N for padding. */
    uint8_t *valid;           /**< 1: the sample counts; 0: it pads the last step (or batch). */
    uint64_t *epochs;         /**< [S]: the epoch of each step; a batch can span two epochs. */
    uint64_t index;           /**< Number of the batch since open, seek or reshape, from 0. */
    uint32_t count;           /**< S * local R * M. */
    uint32_t num_valid;       /**< Number of ones in `valid`. */
    uint32_t num_substituted; /**< Samples that replace bad ones. */
    uint32_t steps, replicas, micro_batch; /**< S, local R, M. */
    uint32_t height, width, channels;
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    struct plenum_lease *lease; /**< Private. */
};

/**
 * A position in the stream, for the program's checkpoint. It is 32 bytes, little-endian, and can be
 * stored as it is. A run with any number of replicas and any micro-batch can resume from it.
 */
struct plenum_cursor {
    /** Hash of data set, pipeline, seed and order, none of which may change. */
    uint8_t identity[16];
    uint64_t epoch;    /**< The next step's epoch. */
    uint64_t position; /**< The next step's position in its epoch's order. */
};

/** A position in the stream, in terms of epochs and steps. */
struct plenum_place {
    uint64_t epoch;      /**< The next step's epoch. */
    uint64_t position;   /**< The next step's position in its epoch's order: below N. */
    uint64_t steps_left; /**< Steps left in that epoch, at least 1; the same in all instances. */
};

/** The replicas of an instance, out of all that share a stream: see plenum_job_info. */
struct plenum_share {
    uint32_t replica_offset, num_local_replicas, num_replicas;
};

/** Memory that holds batches. */
struct plenum_ring {
    void *base;   /**< Page-aligned; NULL while there is no loader. */
    size_t bytes; /**< A multiple of the page size. */
};

/** What a stream has done so far. Times are in nanoseconds. */
struct plenum_stream_stats {
    uint64_t batches;     /**< Batches returned. */
    uint64_t samples;     /**< Valid samples in them. */
    uint64_t substituted; /**< Samples that replaced bad ones. */
    uint64_t wait_ns;     /**< Time spent waiting in plenum_stream_next(). */
    uint64_t elapsed_ns;  /**< Time since the stream was opened, or until it ended. */
    uint64_t incidents;   /**< Loaders that died, went silent or were restarted. */
    uint64_t lost_ns;     /**< Total time from losing a loader to having a loader again. */
    uint64_t rendered;    /**< Samples that loaders have rendered, including prefetched ones. */
    /** Time that batches waited in a loader before it started on their first sample, summed over
     *  batches. */
    uint64_t queue_ns;
    uint64_t read_ns;           /**< Time spent reading, summed over samples. */
    uint64_t render_ns;         /**< From encoded bytes to finished pixels, summed over samples. */
    uint32_t loader_threads;    /**< Decoder threads of the loaders in use. */
    uint32_t loader_io_threads; /**< Reader threads of the loaders in use. */
    uint32_t ready;             /**< Batches available at once. */
    uint32_t in_flight;         /**< Batches being rendered. */
    /** Address of a loader in use, preferably one on this host, or "". */
    char loader[128];
    uint32_t loaders; /**< Loaders in use. */
    /** Batches requested again from another loader, because their own loader was lost or could not
     *  render them. */
    uint64_t moved;
    uint64_t hedged;     /**< Late batches that were also requested from a second loader. */
    uint64_t hedges_won; /**< Hedged batches that the second loader delivered first. */
    uint64_t verified;   /**< Batches that two loaders rendered alike: see PLENUM_VERIFY_BATCHES. */
};

/** Fill in the defaults. */
PLENUM_API void plenum_stream_options_init(struct plenum_stream_options *options);

/**
 * Open a stream for one instance: connect to a loader, build the data set's index if there is none
 * yet, and start prefetching from epoch 0.
 *
 * If neither `options->loader` nor the job names a loader, the job's first instance on this host
 * starts one (plenumd), which ends with that instance.
 *
 * @param info  The instance whose share to stream; NULL for a job of one instance. Copied.
 *
 * Ownership: destroy `*ret` with plenum_stream_destroy().
 * Errors:
 *   -EINVAL                      an option is out of range; the message names it;
 *   -ENOENT                      the data set does not exist;
 *   -EBADMSG                     the data set contains nothing usable;
 *   -EACCES                      the data set may not be read;
 *   -EBUSY                       another process on this host already acts as this instance;
 *   -ECONNREFUSED, -ECONNRESET   no loader answered within loader_timeout_ns; all are named;
 *   -EPROTONOSUPPORT             a loader has a different major version of the protocol;
 *   -ENOSPC, -ENOMEM             the ring cannot be allocated.
 * Threads: any. Blocks while an index is being built, which takes minutes the first time for
 *          millions of files. One thread of the library talks to loaders for all streams of the
 *          process.
 */
PLENUM_API int plenum_stream_open(const struct plenum_job_info *info,
                                  const struct plenum_stream_options *options,
                                  struct plenum_stream **ret, struct plenum_error *err);

/**
 * Open a stream in all instances of a job and check that they stream the same data. This is a
 * collective.
 *
 * Works like plenum_stream_open(), with two further checks. If one instance cannot open its stream,
 * all return its error. If instances would show different samples (because data set, pipeline, seed
 * or order differ), all fail, and the message names two instances and their first difference.
 *
 * With PLENUM_SPLIT_FILE, instance i of I streams the i-th of I equal parts of the archives, in its
 * own order. The instances agree on a number of steps: that of the largest part (PLENUM_PAD) or of
 * the smallest (PLENUM_DROP). The data set's name must list the archives ("x-{000..146}.tar"), so
 * that it means the same on hosts that have only some of them; an instance needs only the archives
 * of its own part. Cursors then count positions within a part, and only the same instance of a job
 * of the same size can resume from them.
 *
 * Errors: those of plenum_stream_open(), those of all collectives, and
 *   -ESTALE   the instances' data sets differ;
 *   -EINVAL   the instances' options differ.
 */
PLENUM_API int plenum_stream_open_all(struct plenum_job *job,
                                      const struct plenum_stream_options *options,
                                      struct plenum_stream **ret, struct plenum_error *err);

/**
 * End a stream: close its connections, stop prefetching, and stop the loader that it started. Calls
 * in progress in other threads return at once; they and all later calls return -EBADF. Leased
 * batches stay valid until released. A second call has no effect. Threads: any.
 */
PLENUM_API void plenum_stream_shutdown(struct plenum_stream *stream);

/**
 * Shut the stream down and free the handle. NULL is ignored.
 *
 * Threads: any. Ends calls in progress in other threads and waits for them; no new call may begin.
 * If a prefetching thread might begin a call, use plenum_stream_shutdown(), join the thread, and
 * then destroy the stream. Must not be called from on_ring.
 */
PLENUM_API void plenum_stream_destroy(struct plenum_stream *stream);

/**
 * Lease the next batch, waiting at most `timeout_ns` nanoseconds (0 polls, PLENUM_FOREVER waits).
 *
 * Ownership: `*ret` borrows a slot of the ring until plenum_batch_release().
 * Errors: `*ret` is unchanged.
 *   -EAGAIN       no batch was ready in time;
 *   -ENODATA      the stream's epochs have ended;
 *   -ENOBUFS      every slot of the ring is leased: release one first;
 *   -ECONNRESET   no loader answered for loader_timeout_ns;
 *   -EBADMSG      a sample is bad (with PLENUM_BAD_FAIL), or two loaders rendered a batch
 *                 differently;
 *   -EIO          a file could not be read, or the program closed the library's descriptors;
 *   -ENOTSUP      the batch has a WebP or AVIF image, and no loader was built with support for it;
 *   -ESTALE       the data set has changed since it was opened;
 *   -ECHILD       this process was forked from the one that opened the stream;
 *   -EBADF        another thread has shut the stream down.
 * After -EBADMSG, -EIO, -ENOTSUP, -ESTALE and -ECONNRESET, every further call returns that error.
 * Threads: one at a time per stream; streams are independent. Blocks: keep it off event loops.
 */
PLENUM_API int plenum_stream_next(struct plenum_stream *stream, uint64_t timeout_ns,
                                  struct plenum_batch *ret, struct plenum_error *err);

/**
 * Get a descriptor for event loops (poll, epoll, select, asyncio). It is readable when
 * plenum_stream_next() would at once return a batch, the end or an error, and not -EAGAIN.
 *
 * Ownership: the stream's. Do not read from it or close it; it is closed when the stream and the
 * last of its leases have ended. Returns the descriptor; -EMFILE, -ENFILE or -ENOMEM if none can be
 * created; -ECHILD in a forked process; or -EBADF if the stream is closed. Threads: any.
 */
PLENUM_API int plenum_stream_get_fd(struct plenum_stream *stream, struct plenum_error *err);

/**
 * Get a ring that new batches come from. There is one for each loader on this host and one for all
 * remote loaders. If a loader is lost, its ring is replaced, and leased batches may still be in the
 * old one. To follow these changes, use plenum_stream_options.on_ring. Threads: any.
 */
PLENUM_API void plenum_stream_get_ring(struct plenum_stream *stream, struct plenum_ring *ret);

/**
 * Get the names that the data set has for samples: in a folder, the paths of the files.
 *
 * @param samples  [count] indices in the data set, such as those of a batch.
 *
 * Ownership: `*ret` is [count] pointers followed by NULL, in one block: free() it.
 * Errors:    -EINVAL no such sample; -ENOTSUP the loader is too old; -ECHILD; -EBADF; -ENOMEM; or
 *            the stream's own error. `*ret` is unchanged.
 * Threads:   any. Blocks until the loader has answered: a few microseconds per name.
 */
PLENUM_API int plenum_stream_sample_names(struct plenum_stream *stream, const uint32_t *samples,
                                          uint32_t count, char ***ret, struct plenum_error *err);

/**
 * Get the names of the data set's classes: `(*ret)[label]`.
 *
 * Ownership: `*ret` is [*ret_count] pointers followed by NULL, in one block: free() it. It is NULL,
 *            and the count 0, if labels are numbers and classes have no names. If only some classes
 *            have names, the name of the others is "".
 * Errors:    -ENOTSUP the loader is too old; -ECHILD; -EBADF; -ENOMEM; or the stream's own error.
 *            `*ret` and `*ret_count` are unchanged.
 * Threads:   any. Blocks until the loader has answered: a few microseconds per name.
 */
PLENUM_API int plenum_stream_class_names(struct plenum_stream *stream, char ***ret,
                                         uint32_t *ret_count, struct plenum_error *err);

/** What mixup and cutmix add to a batch. */
struct plenum_mix {
    int64_t *labels2; /**< [count]: label of the sample that is mixed in. */
    float *weights;   /**< [count]: weight of the first label; the second's is 1 - weight. */
};

/**
 * Get the second labels and the weights of a batch whose pipeline ends with mixup, cutmix or mix.
 * A sample that is not mixed has the weight 1 and its own label twice.
 *
 * Ownership: borrowed until plenum_batch_release(), like the batch's other arrays.
 * Returns 1, or 0 with `*ret` cleared if the pipeline does not mix. Threads: any.
 */
PLENUM_API int plenum_batch_get_mix(const struct plenum_batch *batch, struct plenum_mix *ret);

/** The most data sets that a plan can have. */
#define PLENUM_SETS_MAX 64

/**
 * Write the set that each sample of a batch belongs to: its number in the order of the plan's
 * lines.
 *
 * @param ret  uint8 [count]; filled in only if the stream has a plan.
 * Returns the number of sets, or 0 without a plan. Threads: any.
 */
PLENUM_API int plenum_batch_get_sets(const struct plenum_batch *batch, uint8_t *ret);

/** The most views that a pipeline can have. */
#define PLENUM_VIEWS_MAX 4

/** One view of a batch: `count` images of each sample, from the same stages with different random
 *  numbers. */
struct plenum_view {
    const char *name; /**< From the pipeline, or "" if it has no views. */
    /** int8 or uint8, [S][R][M][count][H][W][C] or [S][R][M][count][C][H][W]; 64-byte aligned. */
    void *pixels;
    uint32_t count;         /**< Images per sample. */
    uint32_t height, width; /**< Size of one image. */
};

/**
 * Get the views of a batch whose pipeline is view(NAME, COUNT, STAGES) ..., in the pipeline's
 * order. A pipeline without views has one view of one image: the batch's pixels.
 *
 * Ownership: borrowed until plenum_batch_release(), like the batch's other arrays.
 * Returns the number of views; 0 if the batch has been released. Threads: any.
 */
PLENUM_API int plenum_batch_get_views(const struct plenum_batch *batch,
                                      struct plenum_view ret[PLENUM_VIEWS_MAX]);

/** Which part of the pictures a batch's pixels show, for masks, boxes and key points that the
 *  program handles itself. */
struct plenum_geometry {
    /** [S][R][M][images][4]: left, top, right and bottom of the crop, in pixels of the whole
     *  picture (rotated by EXIF if the pipeline has exif). A crop may extend beyond the picture;
     *  the part beyond it is padding. The image is this crop, resized to its own size, then
     *  flipped. */
    float *boxes;
    uint32_t *sizes; /**< [S][R][M][2]: height and width of the whole picture. */
    /** [S][R][M][images]: bit 0: left and right are swapped; bit 1: top and bottom are. */
    uint8_t *flips;
};

/**
 * Get the crops and flips of a batch's images: the images of all views, in the pipeline's order;
 * without views a sample has one image. Rotations and other operations that move pixels are not
 * included. A mixed sample has the geometry of the sample itself, and a bad sample has the geometry
 * of its substitute.
 *
 * Ownership: borrowed until plenum_batch_release(), like the batch's other arrays.
 * Returns the number of images per sample; or 0 with `*ret` cleared if the batch has been released
 * or its loader is older than version 1.9 of the protocol. Threads: any.
 */
PLENUM_API int plenum_batch_get_geometry(const struct plenum_batch *batch,
                                         struct plenum_geometry *ret);

/** The most fields that a stream can have. */
#define PLENUM_FIELDS_MAX 16
/** The most dimensions that an array field can have. */
#define PLENUM_FIELD_DIMS_MAX 4

/** Type of a field: text, bytes, or an array of numbers (little-endian, C order). */
enum plenum_field_type {
    PLENUM_FIELD_TEXT, /**< UTF-8 without zero bytes. */
    PLENUM_FIELD_BYTES,
    PLENUM_FIELD_BOOL, /**< One byte each, 0 or 1. */
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
    PLENUM_FIELD_BOXES,     /**< struct plenum_boxes. */
    PLENUM_FIELD_KEYPOINTS, /**< struct plenum_poses. */
    PLENUM_FIELD_INSTANCES, /**< struct plenum_instances. */
    PLENUM_FIELD_TYPES,     /**< The number of types; not a type itself. */
};

/** One box in an image: its edges in pixels from the image's left and top edge, from 0 to its width
 *  or height, after crop, resize and flips, clipped to the image. */
struct plenum_box {
    float left, top, right, bottom;
    int64_t class_id; /**< The class in the data set. */
    int64_t id;       /**< The object's id, or its index in the data set's list. */
};

/** The boxes of one image: this header, followed by a fixed number of struct plenum_box. All boxes
 *  after the first `count` are zeros. */
struct plenum_boxes {
    uint64_t count; /**< Number of boxes. */
};

/** One key point in an image: pixels from the image's left and top edge, from 0 to its width or
 *  height, after crop, resize, flips and other moves. */
struct plenum_keypoint {
    float x, y;
    /** 0: not labelled, or not in the image (x and y are then 0); 1: labelled, but hidden in the
     *  picture or by an erased rectangle; 2: visible. */
    float visibility;
};

/** The key points of one object: this header, followed by plenum_field.shape[1] struct
 *  plenum_keypoint, and zeros up to a multiple of 8 bytes. */
struct plenum_pose {
    int64_t class_id; /**< The object's class in the data set. */
    int64_t id;       /**< The object's id, or its index in the data set's list. */
};

/** The key points of one image: this header, followed by plenum_field.shape[0] objects. All objects
 *  after the first `count` are zeros. */
struct plenum_poses {
    uint64_t count; /**< Number of objects. */
};

/** One object in an image: this header, followed by its mask. The pixel in row y and column x is
 *  bit i = y * width + x of the mask, (bytes[i / 8] >> i % 8) & 1. The mask ends with zeros up to
 *  a multiple of 8 bytes. */
struct plenum_instance {
    int64_t class_id; /**< The object's class in the data set. */
    int64_t id;       /**< The object's id, or its index in the data set's list. */
};

/** The objects of one image: this header, followed by plenum_field.shape[0] objects. All objects
 *  after the first `count` are zeros. */
struct plenum_instances {
    uint64_t count; /**< Number of objects. */
};

/** One field of a batch. */
struct plenum_field {
    const char *name; /**< From plenum_stream_options.fields. */
    enum plenum_field_type type;
    /** Arrays: dimensions of one sample's array; 0 is a single number. Boxes: 1, and shape[0] is
     *  the number of boxes that an image has room for. Key points: 2; shape[0] is the number of
     *  objects that an image has room for, and shape[1] the number of points of each. Instances: 1,
     *  and shape[0] is the number of objects that an image has room for. */
    uint32_t dims;
    uint32_t shape[PLENUM_FIELD_DIMS_MAX]; /**< Size of each dimension. */
    /** 1: a mask of uint8 or uint16: [H][W]; [images][H][W] if views have several images of one
     *  size; or, if views differ in size, one dimension with all images in the pipeline's order. */
    uint32_t mask;
    /** Bytes per sample. Text and bytes: the length of the longest in the data set. Boxes: one
     *  struct plenum_boxes for each image of all views, in the pipeline's order, each with room for
     *  as many boxes as any sample has: 8 + 32 * shape[0] bytes. Key points: one struct
     *  plenum_poses for each image in the same way; an object has 16 + 12 * shape[1] bytes, rounded
     *  up to a multiple of 8. Instances: one struct plenum_instances for each image in the same
     *  way; an object has 16 bytes and one bit per pixel, rounded up to a multiple of 8 bytes. */
    uint64_t room;
    /** [S][R][M][room]: an array, or the first lengths[i] bytes followed by zeros. */
    void *values;
    uint32_t *lengths; /**< [S][R][M]: length in bytes of text and bytes; otherwise NULL. */
};

/**
 * Get the fields that plenum_stream_options.fields lists, in its order. Each field is
 * NAME:SOURCE:KIND.
 *
 * NAME (letters, digits, _) is the program's name for the field.
 *
 * SOURCE is the field's place in the data set, and defaults to NAME:
 *
 *     tar:, folder:  the extension of a member or file beside the image ("txt", "seg.png"), or a
 *                    member of its JSON ("json.caption", "json.meta.size")
 *     tfrecord:      a feature
 *     parquet:, mds: a column; "image.path" is the member of a struct
 *     list:          a column, by its name, or by its number if the list has no header; for bytes,
 *                    npy and mask the column holds paths
 *
 * KIND is
 *
 *     text      UTF-8; the default
 *     line      one non-blank line of such a string, drawn for each position
 *     bytes     as they are
 *     npy       an array in NumPy's format, of the same type and shape in all samples
 *     int64     integers, the same count in all samples: features, or text separated by whitespace,
 *               commas, semicolons or brackets; one integer is a number, several are an array
 *     float32   numbers, in the same way
 *     mask      a PNG of indices or grey levels, of the image's size: cropped and moved like each
 *               of its images, with nearest-neighbour sampling; 255 (65535 with 16 bits) where the
 *               image shows padding or an operation's fill. Not with augmix, mixup or cutmix
 *     boxes     JSON: a list of objects with "bbox" ([x, y, width, height], as in COCO) or "bndbox"
 *               (as in Pascal VOC), with "category_id" and optionally "id"; or an object with such
 *               a list as "annotations" or "objects"; or one with "boxes" ([left, top, right,
 *               bottom]) and "labels". Cropped and moved like each of its images. Boxes that lie
 *               outside an image are dropped; boxes:VISIBLE (0 to 1) also drops those of which less
 *               than this fraction is visible. docs/datasets.md, section 4, has the rules
 *     keypoints JSON: a list of objects with "keypoints" ([x1, y1, v1, x2, y2, v2, ...], as in
 *               COCO), or an object with such a list as "annotations" or "objects"; one with
 *               "keypoints" ([[x, y, v], ...] for each object) and optionally "labels"; or the
 *               numbers of one object. Cropped and moved like each of its images. Objects are kept;
 *               points outside an image become (0, 0, 0). keypoints:PAIRS names left and right
 *               points that are swapped in mirror images: "1-2 3-4", numbers from 0, or "coco" for
 *               COCO's 17 points
 *     instances JSON: a list of objects as for boxes, each with "segmentation" (polygons, or a mask
 *               in COCO's run-length encoding). Each of a sample's images has a mask of each object
 *               whose box is not dropped, in the order of the boxes; instances:VISIBLE is like
 *               boxes:VISIBLE
 *
 * A sample is bad (see plenum_bad) if it lacks a field, or if a field is damaged, longer than 1 MiB
 * (a mask's file, and the outlines of instances: 4 MiB), or has a different shape than in the first
 * sample. When fields are first requested, the loader reads those fields of all samples once, and
 * caches the result in the index's folder.
 *
 * Ownership: borrowed until plenum_batch_release(), like the batch's other arrays.
 * Returns the number of fields. Threads: any.
 */
PLENUM_API int plenum_batch_get_fields(const struct plenum_batch *batch,
                                       struct plenum_field ret[PLENUM_FIELDS_MAX]);

/** Release a batch's slot and clear `*batch`. A cleared batch is ignored. Threads: any. */
PLENUM_API void plenum_batch_release(struct plenum_batch *batch);

/** Get the stream's properties, which are constant, apart from the numbers of steps and batches:
 *  plenum_stream_reshape() changes these. Threads: any. */
PLENUM_API void plenum_stream_get_info(const struct plenum_stream *stream,
                                       struct plenum_stream_info *ret);

/**
 * Get the name of the data set that the stream opened, with absolute paths. With PLENUM_SPLIT_FILE,
 * it is limited to this instance's part. It names the same files even after the program has changed
 * its working directory.
 *
 * The string belongs to the stream and is valid until plenum_stream_destroy(). Threads: any.
 */
PLENUM_API const char *plenum_stream_get_dataset(const struct plenum_stream *stream);

/** A data set of a plan. */
struct plenum_set {
    const char *name;     /**< Its name in the plan; borrowed until plenum_stream_destroy(). */
    uint64_t first;       /**< Index of its first sample among the samples of all sets. */
    uint64_t num_samples; /**< Number of its samples. */
};

/**
 * List the data sets of the stream's plan, in the order of its lines. docs/sampling.md describes
 * plans, which are passed as options.dataset.
 *
 * @param ret  [PLENUM_SETS_MAX]
 * Returns the number of sets, or 0 if the stream has no plan. Threads: any.
 */
PLENUM_API uint32_t plenum_stream_get_sets(const struct plenum_stream *stream,
                                           struct plenum_set ret[PLENUM_SETS_MAX]);

/**
 * Get the cursor of any position of this stream, for plenum_stream_seek(). A step should begin
 * there.
 *
 * Returns 0, or -ECHILD. Threads: any.
 */
PLENUM_API int plenum_stream_cursor_at(struct plenum_stream *stream, uint64_t epoch,
                                       uint64_t position, struct plenum_cursor *ret);

/**
 * Get the position after the last batch that plenum_stream_next() returned.
 *
 * Returns 0, or -ECHILD with `*ret` cleared. Threads: any.
 */
PLENUM_API int plenum_stream_cursor(struct plenum_stream *stream, struct plenum_cursor *ret);

/**
 * Like plenum_stream_cursor(), but in terms of the next step. At the end of an epoch, this is the
 * start of the next epoch.
 *
 * Returns 0, or -ECHILD with `*ret` cleared. Threads: any.
 */
PLENUM_API int plenum_stream_get_place(struct plenum_stream *stream, struct plenum_place *ret);

/**
 * Continue from `cursor`: the next batch begins there. Leased batches stay valid; prefetched
 * batches are dropped.
 *
 * Errors:
 *   -ESTALE            the cursor comes from a different data set, pipeline, seed or order;
 *   -EINVAL            the cursor lies outside the data set;
 *   -ECHILD, -EBADF    as in plenum_stream_next().
 * Threads: as in plenum_stream_next().
 */
PLENUM_API int plenum_stream_seek(struct plenum_stream *stream, const struct plenum_cursor *cursor,
                                  struct plenum_error *err);

/**
 * Continue with another share of each step, because replicas have come or gone. The next batch
 * begins at `at` or, if that is NULL, after the last batch that plenum_stream_next() returned. The
 * rest of the epoch is divided into steps of the new size. If all instances continue from the same
 * position, no sample is lost or shown twice.
 *
 * This call contacts no other instance, so it cannot hang, even if others are unreachable. It takes
 * as long as rendering one batch. Leased batches stay valid; prefetched batches are dropped.
 *
 * Errors, after which the old share still holds:
 *   -EINVAL            these replicas do not exist; num_local_replicas has changed (open another
 *                      stream, and seek); with last = drop, no step of this size is left; or the
 *                      cursor lies outside the data set;
 *   -ENOTSUP           split = file: each instance has its own data;
 *   -EBUSY             a batch of several steps is leased, and `at` is NULL;
 *   -ESTALE            as in plenum_stream_seek();
 *   -ECHILD, -EBADF    as in plenum_stream_next().
 * Threads: as in plenum_stream_next().
 */
PLENUM_API int plenum_stream_reshape(struct plenum_stream *stream, const struct plenum_share *share,
                                     const struct plenum_cursor *at, struct plenum_error *err);

/**
 * Hash the tag before the last step, the position after that step (`at`, or NULL: after the last
 * batch that plenum_stream_next() returned), and the size of a step. Instances that call this after
 * every step, with the previous result, have equal tags if and only if they have taken the same
 * steps (apart from collisions of a 64-bit hash). Equal positions with different tags mean
 * different weights: take over another instance's state. Compare tags as integers.
 *
 * @param previous  The result for the step before, or 0.
 * Returns 0, or -ECHILD with `*ret` cleared. Threads: any.
 */
PLENUM_API int plenum_stream_tag(struct plenum_stream *stream, uint64_t previous,
                                 const struct plenum_cursor *at, uint64_t *ret);

/**
 * Change the weights of the stream's plan, for weights that the program computes. New weights of
 * sets take effect at a position that has not been shown yet, new weights of a set's samples at a
 * pass that has not begun. Changes that the plan already has from the first of these positions on
 * are dropped, and so are changes for the samples of the same set from the first of these passes
 * on. Prefetched batches are dropped, too; leased ones stay valid.
 *
 * Returns once a loader has opened the changed plan. If all loaders refuse it, the stream continues
 * with the old plan. All instances must make the same call between the same two batches. Cursors
 * fit any stream whose plan has the same weights before their position; plenum_stream_get_dataset()
 * returns the plan with the changes.
 *
 * @param lines  lines of a plan that begin with "at", "ramp" or "weights": "at 128000 photos 5 art
 *               2", "weights 3 photos file:w3.npy"
 * Errors:
 *   -EINVAL            the stream has no plan, a line is not understood, or the position or pass
 *                      has begun;
 *   -ESTALE            a data set or weights of samples have changed since the stream was opened;
 *   -EBUSY             another thread is in this call;
 *   -ENOMEM, and those of the file system and of loaders; -ECHILD, -EBADF as in
 *   plenum_stream_next().
 * Threads: as in plenum_stream_next().
 */
PLENUM_API int plenum_stream_amend(struct plenum_stream *stream, const char *lines,
                                   struct plenum_error *err);

/**
 * Get the stream's statistics so far. After plenum_stream_shutdown(), they are those at its end.
 * Threads: any.
 */
PLENUM_API void plenum_stream_get_stats(struct plenum_stream *stream,
                                        struct plenum_stream_stats *ret);

/**
 * Take the oldest pending warning. Each incident, such as a lost loader, causes one warning, which
 * also reports the lost time.
 *
 * Returns 1 and fills `*ret`, or 0 if there is none. Threads: any.
 */
PLENUM_API int plenum_stream_take_warning(struct plenum_stream *stream, struct plenum_error *ret);

/**
 * Hash a batch: the sum modulo 2^64 of the hashes of its valid samples. The sums of all batches of
 * all instances add up to the hash of the stream, which `plenumctl hash` computes on one thread.
 *
 * The hash of a sample is XXH3-64 over u64 epoch, u64 position and i64 label (little-endian); i64
 * second label and f32 weight if the pipeline mixes samples; the pixels of all images as u8 RGB
 * NHWC; and u64 length and bytes of each field. Threads: any.
 */
PLENUM_API uint64_t plenum_batch_hash(const struct plenum_batch *batch);

#ifdef __cplusplus
}
#endif

#endif

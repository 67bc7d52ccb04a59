/* SPDX-License-Identifier: MIT */
/* wire.h - the protocol between a training program and a loader: messages, versions, bounds.
 *
 * docs/protocol.md describes it for authors of other clients. Both sides use only the functions of
 * this file, so they cannot disagree about a field.
 *
 *     client                                       loader
 *     HELLO (version, name)              ->
 *                                        <-        HELLO (version, pixel versions, name)
 *     FIELDS (data set, names)           ->       since 1.10, if the stream has fields
 *                                        <-        FIELDS (their shapes)   PROGRESS before it
 *     OPEN (what to render; the ring)    ->
 *                                        <-        PROGRESS ...   while an index is being built
 *                                        <-        OPENED (samples, fingerprint)   or ERROR
 *     RENDER (request, epoch, position, slot) ->   any number in flight, one per free slot
 *                                        <-        DONE (request, status, timings); over TCP, with
 *                                                  status 0, the batch's bytes: those of a slot,
 *                                                  to wire_slot.end
 *     CANCEL (request)                   ->
 *                                        <-        CANCELLED (request)   its last task has stopped
 *     NAME (sample or class)             ->       since 1.1, classes since 1.6
 *                                        <-        NAME (the sample's file, or the class's name)
 *     STATS                              ->
 *                                        <-        STATS (counters)      also: "are you there?"
 *     STATUS                             ->       since 1.3
 *                                        <-        STATUS (the loader), STATUS_STREAM ...
 *     BYE                                ->
 *
 * A session carries one stream. A different major version, or a pixel version that the loader
 * lacks, is rejected. A newer minor version may add fields at the end of a message, which an older
 * reader skips. */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/data/datasum.h"
#include "common/data/fields.h"
#include "common/net/frame.h"
#include "common/order/order.h"
#include "common/pipeline/views.h"

enum {
    WIRE_MAJOR = 1,
    WIRE_MINOR = 20,
    WIRE_MAX_PAYLOAD = 64 * 1024,
    WIRE_DATASET_MAX = 4096,            /* bytes of a string with its NUL */
    WIRE_PIPELINE_MAX = VIEWS_TEXT_MAX, /* 512 before 1.9 */
    WIRE_NAME_MAX = 256,
    WIRE_PLAN_MAX = 16384, /* bytes of a plan with its NUL */
    WIRE_SETS_MAX = 64,
    WIRE_REWEIGHS_MAX = 256,
    WIRE_TEXT_MAX = 512,
};

#define WIRE_UNKNOWN UINT64_MAX

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_OPEN,
    WIRE_OPENED,
    WIRE_RENDER,
    WIRE_DONE,
    WIRE_CANCEL,
    WIRE_CANCELLED,
    WIRE_STATS,
    WIRE_ERROR,
    WIRE_BYE,
    WIRE_PROGRESS,
    WIRE_NAME,   /* for loaders of at least minor version WIRE_MINOR_NAME */
    WIRE_STATUS, /* for loaders of at least minor version WIRE_MINOR_STATUS */
    WIRE_STATUS_STREAM,
    WIRE_FIELDS, /* for loaders of at least minor version WIRE_MINOR_FIELDS */
};

/* Minor versions that introduced a feature. */
enum {
    WIRE_MINOR_NAME = 1,
    WIRE_MINOR_SUBSET = 2,     /* subset, repeat and span of OPEN; sum of OPENED */
    WIRE_MINOR_STATUS = 3,     /* STATUS; waited_ns of RENDER */
    WIRE_MINOR_JOB = 4,        /* job of HELLO */
    WIRE_MINOR_DEAL = 5,       /* deal of OPEN */
    WIRE_MINOR_TCP = 4,        /* over TCP, OPEN carries no ring, and a batch follows its DONE */
    WIRE_MINOR_LOOPS = 7,      /* loops of STATUS */
    WIRE_MINOR_MIX = 8,        /* mix of OPEN */
    WIRE_MINOR_SHAPE = 8,      /* height of OPEN: images that are not square */
    WIRE_MINOR_VIEWS = 9,      /* views and geometry of OPEN */
    WIRE_MINOR_FIELDS = 10,    /* FIELDS; fields of OPEN */
    WIRE_MINOR_BOXES = 11,     /* boxes and members of JSON as fields; streams without images */
    WIRE_MINOR_JUNK = 12,      /* junk in pipelines */
    WIRE_MINOR_PLAN = 13,      /* plan of OPEN and FIELDS; positions and sets of OPENED */
    WIRE_MINOR_RESHAPE = 14,   /* per_step and offset of RENDER */
    WIRE_MINOR_CACHE = 14,     /* cache of STATUS */
    WIRE_MINOR_REWEIGH = 15,   /* reweighs of OPENED */
    WIRE_MINOR_REST = 16,      /* rest_ns of DONE */
    WIRE_MINOR_SHARED = 17,    /* shared of STATUS */
    WIRE_MINOR_MOVES = 18,     /* masks and boxes in pipelines that move pixels */
    WIRE_MINOR_KEYPOINTS = 19, /* key points as fields */
    WIRE_MINOR_INSTANCES = 20, /* masks of objects as fields */
    WIRE_MINOR_CLASSES = 6,    /* class_names and warning of OPENED; names of classes */
};

struct wire_hello {
    char magic[8]; /* "plenum" and NULs */
    uint16_t major, minor;
    char versions[WIRE_NAME_MAX]; /* pixel versions, separated by spaces; empty from a client */
    char name[WIRE_NAME_MAX]; /* for logs and status: "train.py instance 3 of job 17 (pid 4711)" */
    /* since 1.4, from clients: the job's id; jobs share a loader equally; empty: its own job */
    char job[WIRE_NAME_MAX];
};

/** Layout of a batch in a slot; filled by wire_slot_init(), the same on both sides. */
struct wire_slot {
    /* For each view, int8 or uint8 [count][images of the view][...]; the first one at 0. */
    uint64_t pixels_at[VIEWS_MAX];
    uint64_t labels_at; /* int64 [count] */
    /* uint32 [count]: the sample shown, which differs from the requested one if that was bad */
    uint64_t samples_at;
    /* If the pipeline mixes samples, int64 [count] and float32 [count]; otherwise 0. */
    uint64_t labels2_at, weights_at;
    /* If requested, float [count][images][4], uint32 [count][2] and uint8 [count][images];
     * otherwise 0. */
    uint64_t boxes_at, sizes_at, flips_at;
    /* For each field, uint8 [count][room], preceded by uint32 [count] if its length varies. */
    uint64_t fields_at[FIELDS_MAX], lengths_at[FIELDS_MAX];
    uint64_t end;   /* end of the data; the rest of the last page is padding */
    uint64_t bytes; /* size of the whole slot, a multiple of the page size */
};

/** One view of a sample: a number of images of one size. */
struct wire_view {
    uint32_t count, height, width;
};

/** The definition of a stream: everything that render() needs apart from the position. */
struct wire_open {
    char dataset[WIRE_DATASET_MAX];
    char pipeline[WIRE_PIPELINE_MAX]; /* in canonical form */
    uint64_t seed;
    enum order_shuffle shuffle;
    uint32_t block;
    enum order_last last;
    enum plenum_bad bad;
    uint32_t per_step; /* R * M: positions per step */
    uint32_t offset;   /* first position in a step that this instance takes */
    uint32_t local;    /* number of positions that this instance takes: local R * M */
    uint32_t steps;    /* S: steps per batch */
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    uint32_t channels; /* 3, or 4 with a zero-point channel */
    uint32_t width;    /* in pixels; must match the pipeline, as must height */
    uint32_t slots;
    uint64_t slot_bytes; /* must match wire_slot_init() */
    struct order_subset subset;
    uint32_t repeat; /* positions per sample; 0 means 1 */
    uint64_t span;   /* see struct order_steps; 0 if all instances share the data set */
    uint32_t height; /* since 1.8, in pixels; for older clients it equals the width */
    uint32_t deal;   /* since 1.5: order_deal(): 0, or M if positions are dealt in turn */
    bool mix; /* since 1.8: the pipeline mixes samples, and slots have room for the results */
    /* Since 1.9: number of views in the pipeline; width and height are those of the first view. 0:
     * no views; a sample is one image of width x height. */
    uint32_t views;
    struct wire_view view[VIEWS_MAX];
    bool geometry; /* since 1.9: slots have room for the geometry */
    /* Since 1.10: fields, as for fields_parse(), and their shapes as reported by the loader. */
    char fields[FIELDS_TEXT_MAX];
    uint32_t num_fields;
    struct field_shape field[FIELDS_MAX];
    /* Since 1.13: a plan in canonical form; `dataset` is then only its description. "": no plan. */
    char plan[WIRE_PLAN_MAX];
};

/** Which fields to describe. */
struct wire_ask_fields {
    char dataset[WIRE_DATASET_MAX];
    char fields[FIELDS_TEXT_MAX];
    char plan[WIRE_PLAN_MAX]; /* since 1.13, like that of OPEN */
};

/** The shapes of a data set's fields. */
struct wire_fields {
    uint32_t count;
    struct field_shape field[FIELDS_MAX];
    uint8_t hash[16]; /* hash of all fields of all samples; the same from every loader */
};

/** A data set of a plan. */
struct wire_set {
    uint32_t samples;
    uint8_t hash[16]; /* hash of its fingerprint and of all that determines its order */
};

/** New weights of the samples of a plan's set. */
struct wire_reweigh {
    uint64_t start; /* the global position from which on they may be shown; UINT64_MAX: never */
    uint64_t hash;  /* hash of the resulting order */
};

struct wire_opened {
    uint32_t samples; /* N */
    uint32_t classes;
    uint32_t threads, io_threads; /* the loader's decoder threads and reader threads */
    uint8_t fingerprint[16];
    struct datasum sum;   /* what the fingerprint is computed from */
    uint32_t class_names; /* since 1.6: number of classes with names: all, or none */
    /* since 1.6: a warning about what the data set lacks; empty: nothing known */
    char warning[WIRE_TEXT_MAX];
    /* since 1.13, with a plan: the positions of an epoch; the number of sets, in the text's
     * order */
    uint32_t positions, sets;
    struct wire_set set[WIRE_SETS_MAX];
    /* since 1.15, with a plan: the new weights of its sets' samples, in the text's order */
    uint32_t reweighs;
    struct wire_reweigh reweigh[WIRE_REWEIGHS_MAX];
};

struct wire_render {
    uint64_t epoch, position; /* epoch and position of the batch's first step */
    uint32_t slot;
    /* since 1.3: the program's total waiting time for batches; WIRE_UNKNOWN from older clients */
    uint64_t waited_ns;
    /* since 1.14: these replace OPEN's values, starting at this batch; 0 from older clients */
    uint32_t per_step, offset;
};

struct wire_done {
    /* 0, or a negative errno with a message; an empty message is replaced by the errno's text */
    int32_t status;
    uint32_t substituted; /* samples that replace bad ones */
    uint64_t queue_ns;    /* from RENDER's arrival to the start of the first sample */
    uint64_t read_ns;     /* summed over samples */
    uint64_t render_ns;   /* from decoding to stored pixels, summed over samples */
    uint64_t total_ns;    /* from RENDER's arrival to the completion of the last sample */
    char text[WIRE_TEXT_MAX];
    /* since 1.16: within that time, what a decoder thread waited for the loader's CPU budget */
    uint64_t rest_ns;
};

struct wire_stats {
    uint64_t uptime_ns;
    uint64_t sessions;
    uint64_t samples;     /* rendered since the start */
    uint64_t substituted; /* of these, samples that replace bad ones */
    uint64_t queued;      /* samples waiting now */
    uint64_t ring_bytes;  /* currently mapped */
    uint64_t threads;     /* decoder threads */
};

/** What limits a stream's rate. */
enum wire_bound {
    WIRE_BOUND_IDLE,      /* nothing has been requested recently */
    WIRE_BOUND_TRAINER,   /* the program does not need more */
    WIRE_BOUND_STORAGE,   /* reading samples is too slow */
    WIRE_BOUND_DECODE,    /* the loader's threads have their cores and are fully busy */
    WIRE_BOUND_CPU,       /* the loader's threads want more CPU time than they get */
    WIRE_BOUND_TRANSPORT, /* the loader has time left, but the program waits for batches */
    WIRE_BOUND_COUNT,
};

enum { WIRE_LANES_MAX = 64, WIRE_SET_NAME_MAX = 64 };

/** The loader's cache of ranges of objects, on its disk or in its memory
 * (loader/cache/sample_cache.h). Most ranges are samples. */
struct wire_cache {
    bool open, in_memory, paused; /* paused: its disk or memory is full, fails or is slow */
    uint64_t samples, known;      /* ranges now; of these, samples whose next use is known */
    uint64_t bytes, limit;        /* bytes used by the ranges, and their limit */
    uint64_t hits, hit_bytes;     /* since the start: ranges read from the cache */
    uint64_t misses, miss_bytes;  /* ranges fetched from their store */
    uint64_t writes, write_bytes;
    uint64_t evicted; /* ranges removed for others */
    uint64_t dropped; /* ranges not written because the disk was too slow */
    uint64_t damaged; /* ranges whose bytes were wrong */
};

/** The renderings that streams of the loader share (loader/serve/renderings.h). */
struct wire_shared {
    uint64_t kept, bytes, limit; /* renderings now; limit 0: streams share none */
    uint64_t rendered;           /* since the start: positions rendered for several streams */
    uint64_t copied;             /* positions that were copied instead of rendered */
    uint64_t evicted;            /* renderings dropped to make room */
    uint64_t refused;            /* renderings not kept, because those kept are needed sooner */
    uint64_t saved_ns;           /* CPU time of the renderings that were copied */
};

/** The loader as a whole. Shares are in millionths, rates in thousandths per second, both over the
 *  last ten seconds. */
struct wire_status {
    char version[WIRE_NAME_MAX], host[WIRE_NAME_MAX];
    uint32_t pid, uid;
    uint64_t uptime_ns;
    uint32_t threads, io_threads, sessions;
    uint32_t streams; /* number of STATUS_STREAM messages that follow */
    uint64_t samples, substituted, batches, failed, refused; /* since the start */
    uint64_t queued;                                         /* samples waiting now */
    uint64_t rate;                                           /* samples rendered */
    uint64_t ring_bytes, ring_limit;
    uint64_t render_busy, read_busy; /* share of the threads' time */
    uint64_t memory_bytes;           /* resident memory of the process */
    uint32_t descriptors;
    bool stopping;
    uint32_t lanes; /* NUMA nodes with decoder threads */
    struct wire_lane {
        uint32_t threads, streams;
        uint64_t ring_bytes;
    } lane[WIRE_LANES_MAX];
    char loops[WIRE_NAME_MAX]; /* since 1.7: vector instructions and JPEG decoder in use */
    struct wire_cache cache;   /* since 1.14 */
    struct wire_shared shared; /* since 1.17 */
};

/** How many samples of a plan's set a run has shown before its stream's position, in all replicas
 * together. */
struct wire_status_set {
    char name[WIRE_SET_NAME_MAX];
    uint64_t shown;      /* since the beginning of the run */
    uint64_t last_epoch; /* in the last complete epoch; 0 in the first one */
};

/** One stream. */
struct wire_status_stream {
    uint64_t id; /* the session's id, never reused by this process */
    uint32_t pid, uid;
    char client[WIRE_NAME_MAX];
    char dataset[WIRE_DATASET_MAX];
    char pipeline[WIRE_PIPELINE_MAX];
    uint64_t age_ns;
    uint64_t samples, substituted, batches, failed;
    uint64_t epoch, position, epoch_samples; /* current position, and samples per epoch */
    uint64_t batch_samples, ring_bytes;
    uint32_t slots, in_flight, lane;
    uint64_t rate;   /* samples, in thousandths per second */
    uint64_t waited; /* share of time that the program waited, in millionths, or WIRE_UNKNOWN */
    uint64_t read_ns, render_ns, cpu_ns; /* mean per sample */
    uint64_t queue_ns;                   /* mean wait of a batch for its turn */
    enum wire_bound bound;
    uint64_t cores; /* thousandths of cores with which the program never waits, or WIRE_UNKNOWN */
    /* Since 1.13; 0 without a plan, or if all sets have one order. */
    uint32_t num_sets;
    struct wire_status_set sets[WIRE_SETS_MAX];
};

struct wire_error {
    int32_t code;             /* negative errno */
    char text[WIRE_TEXT_MAX]; /* in a received message, never empty: at least the errno's text */
};

enum wire_named {
    WIRE_NAMED_SAMPLE,
    WIRE_NAMED_CLASS, /* since 1.6 */
    WIRE_NAMED_COUNT,
};

struct wire_ask_name {
    uint32_t number; /* index of the sample or class */
    enum wire_named of;
};

struct wire_name {
    char text[WIRE_DATASET_MAX]; /* empty: no such sample or class */
};

struct wire_progress {
    uint64_t done, total; /* total 0: unknown */
    char text[WIRE_TEXT_MAX];
};

/** Compute the layout of a slot for this stream. Returns 0, or -EOVERFLOW if a batch exceeds 2^40
 * bytes. */
int wire_slot_init(const struct wire_open *open, struct wire_slot *ret);

/** Get the views of a sample (one if the pipeline has none) and return their number. */
uint32_t wire_get_views(const struct wire_open *open, struct wire_view ret[VIEWS_MAX]);

/** Returns the number of images per sample, in all views together. */
uint32_t wire_images(const struct wire_open *open);

/** Fill in an OPEN's fields that depend on the pipeline: text, sizes, views, and whether it
 *  mixes. */
void wire_open_set_views(struct wire_open *open, const struct views *views);

/** Returns the size of one image of a view. */
static inline uint64_t wire_image_bytes(const struct wire_open *open, const struct wire_view *view)
{
    return (uint64_t)open->channels * view->width * view->height;
}

/** Returns a field's bytes per sample in a slot. */
uint64_t wire_field_bytes(const struct wire_open *open, const struct field_shape *field);

/** Returns the bytes of all pixels of one sample. */
uint64_t wire_sample_bytes(const struct wire_open *open);

/** Returns the number of samples in a batch: S * local R * M. */
static inline uint64_t wire_batch_count(const struct wire_open *open)
{
    return (uint64_t)open->steps * open->local;
}

/** Returns the distance of this client's i-th position in a step from the step's first position. */
static inline uint32_t wire_step_distance(const struct wire_open *open, uint32_t i)
{
    return order_deal(open->per_step, open->deal, open->offset + i);
}

/** Returns this client's i-th position in the step at `place`. */
static inline uint64_t wire_step_position(const struct wire_open *open,
                                          const struct order_steps *steps, struct order_place place,
                                          uint32_t i)
{
    return order_step_position(steps, place, wire_step_distance(open, i));
}

/** Get the order and the steps of a stream, for a data set with this many samples. Returns 0 or
 *  -EINVAL. With a plan, `samples` are the positions of an epoch, and the order lacks its
 *  mixture. */
int wire_order(const struct wire_open *open, uint32_t samples, struct order *order,
               struct order_steps *steps, struct plenum_error *err);

/** Returns the text that OPEN or FIELDS opens: the plan if there is one, otherwise the data set's
 * name. */
static inline const char *wire_dataset(const char *dataset, const char *plan)
{
    return plan[0] ? plan : dataset;
}

/** Check that steps of this size have `open->local` indices starting at `offset`, for this client.
 * */
int wire_open_check_share(const struct wire_open *open, uint32_t per_step, uint32_t offset,
                          struct plenum_error *err);
/** Check that every field is within its bounds, and that the fields agree. Returns 0, or a negative
 * errno with a message about the first error. */
int wire_open_check(const struct wire_open *open, struct plenum_error *err);

/* Each function appends one frame, and returns 0 or -ENOMEM. */
int wire_put_hello(struct frame_buffer *b, const struct wire_hello *m);
int wire_put_open(struct frame_buffer *b, uint64_t request, const struct wire_open *m);
int wire_put_opened(struct frame_buffer *b, uint64_t request, const struct wire_opened *m);
int wire_put_render(struct frame_buffer *b, uint64_t request, const struct wire_render *m);
int wire_put_done(struct frame_buffer *b, uint64_t request, const struct wire_done *m);
int wire_put_stats(struct frame_buffer *b, uint64_t request, const struct wire_stats *m);
int wire_put_error(struct frame_buffer *b, uint64_t request, const struct wire_error *m);
int wire_put_progress(struct frame_buffer *b, uint64_t request, const struct wire_progress *m);
int wire_put_status(struct frame_buffer *b, uint64_t request, const struct wire_status *m);
int wire_put_status_stream(struct frame_buffer *b, uint64_t request,
                           const struct wire_status_stream *m);
int wire_put_ask_name(struct frame_buffer *b, uint64_t request, const struct wire_ask_name *m);
int wire_put_name(struct frame_buffer *b, uint64_t request, const struct wire_name *m);
int wire_put_ask_fields(struct frame_buffer *b, uint64_t request, const struct wire_ask_fields *m);
int wire_put_fields(struct frame_buffer *b, uint64_t request, const struct wire_fields *m);
/** For frames without a payload: CANCEL, CANCELLED, BYE, a client's STATS and STATUS. */
int wire_put_empty(struct frame_buffer *b, enum wire_type type, uint64_t request);

/* Each function reads one payload, and returns 0 or -EPROTO (truncated, or a field out of
 * bounds). */
int wire_get_hello(struct frame_reader *r, struct wire_hello *ret);
int wire_get_open(struct frame_reader *r, struct wire_open *ret);
int wire_get_opened(struct frame_reader *r, struct wire_opened *ret);
int wire_get_render(struct frame_reader *r, struct wire_render *ret);
int wire_get_done(struct frame_reader *r, struct wire_done *ret);
int wire_get_stats(struct frame_reader *r, struct wire_stats *ret);
int wire_get_error(struct frame_reader *r, struct wire_error *ret);
int wire_get_ask_fields(struct frame_reader *r, struct wire_ask_fields *ret);
int wire_get_fields(struct frame_reader *r, struct wire_fields *ret);
int wire_get_progress(struct frame_reader *r, struct wire_progress *ret);
int wire_get_status(struct frame_reader *r, struct wire_status *ret);
int wire_get_status_stream(struct frame_reader *r, struct wire_status_stream *ret);
int wire_get_ask_name(struct frame_reader *r, struct wire_ask_name *ret);
int wire_get_name(struct frame_reader *r, struct wire_name *ret);

/** Fill in this build's HELLO. */
void wire_hello_init(struct wire_hello *m, const char *name);

/** Check that we can talk to the sender of this HELLO. Returns 0, or -EPROTONOSUPPORT with a
 * message. */
int wire_hello_check(const struct wire_hello *m, struct plenum_error *err);

/** Does the list of pixel versions in a loader's HELLO contain `version`? */
bool wire_hello_has_version(const struct wire_hello *m, const char *version);

#endif

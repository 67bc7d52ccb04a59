/* SPDX-License-Identifier: MIT */
/* wire.h - the protocol between a training program and a loader: messages, versions, bounds.
 *
 * docs/protocol.md describes it for those who write a client of their own. Both sides use the
 * functions of this file and nothing else, so the two cannot disagree about a field.
 *
 *     client                                       loader
 *     HELLO (version, name)              ->
 *                                        <-        HELLO (version, pixel versions, who it is)
 *     FIELDS (data set, names)           ->       since 1.10, where fields are wanted
 *                                        <-        FIELDS (their shapes)   PROGRESS before it
 *     OPEN (what to render; the ring)    ->
 *                                        <-        PROGRESS ...   while an index is being built
 *                                        <-        OPENED (samples, fingerprint)   or ERROR
 *     RENDER (request, epoch, position, slot) ->   any number in flight, one a free slot
 *                                        <-        DONE (request, status, timings); over TCP, with
 *                                                  status 0, the batch's bytes: those of a slot,
 *                                                  to wire_slot.end
 *     CANCEL (request)                   ->
 *                                        <-        CANCELLED (request)   its last task has stopped
 *     NAME (sample or class)             ->       since 1.1, of classes since 1.6
 *                                        <-        NAME (its file, or it, as users name it)
 *     STATS                              ->
 *                                        <-        STATS (counters)      also: "are you there?"
 *     STATUS                             ->       since 1.3
 *                                        <-        STATUS (the loader), STATUS_STREAM ...
 *     BYE                                ->
 *
 * A session carries one stream. Versions: another major, or a pixel version that the loader lacks,
 * is refused; a newer minor may add fields at the end of a message, which an older reader skips. */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/stream.h>

#include "common/datasum.h"
#include "common/fields.h"
#include "common/frame.h"
#include "common/order.h"
#include "common/views.h"

enum {
    WIRE_MAJOR = 1,
    WIRE_MINOR = 12,
    WIRE_MAX_PAYLOAD = 64 * 1024,
    WIRE_DATASET_MAX = 4096,            /* bytes of a text with its NUL */
    WIRE_PIPELINE_MAX = VIEWS_TEXT_MAX, /* before 1.9: 512 */
    WIRE_NAME_MAX = 256,
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
    WIRE_NAME,   /* of a loader whose minor version is at least WIRE_MINOR_NAME */
    WIRE_STATUS, /* likewise, WIRE_MINOR_STATUS */
    WIRE_STATUS_STREAM,
    WIRE_FIELDS, /* likewise, WIRE_MINOR_FIELDS */
};

/* Minor versions from which on something is known. */
enum {
    WIRE_MINOR_NAME = 1,
    WIRE_MINOR_SUBSET = 2, /* subset, repeat and span of OPEN; sum of OPENED */
    WIRE_MINOR_STATUS = 3, /* STATUS; waited_ns of RENDER */
    WIRE_MINOR_JOB = 4,    /* job of HELLO */
    WIRE_MINOR_DEAL = 5,   /* deal of OPEN */
    WIRE_MINOR_TCP = 4,    /* over TCP no ring goes along with OPEN, and a batch follows its DONE */
    WIRE_MINOR_LOOPS = 7,  /* loops of STATUS */
    WIRE_MINOR_MIX = 8,    /* mix of OPEN */
    WIRE_MINOR_SHAPE = 8,  /* height of OPEN: images that are not square */
    WIRE_MINOR_VIEWS = 9,  /* views and geometry of OPEN */
    WIRE_MINOR_FIELDS = 10, /* FIELDS; fields of OPEN */
    WIRE_MINOR_BOXES = 11,  /* boxes and members of JSON among fields; streams without images */
    WIRE_MINOR_JUNK = 12,   /* junk of pipelines */
    WIRE_MINOR_CLASSES = 6, /* class_names and warning of OPENED; names of classes */
};

struct wire_hello {
    char magic[8]; /* "plenum" and NULs */
    uint16_t major, minor;
    char versions[WIRE_NAME_MAX]; /* pixel versions, separated by spaces; empty from a client */
    char name[WIRE_NAME_MAX];     /* for logs and status: "job 17 instance 3", "host pid 4711" */
    char job[WIRE_NAME_MAX];      /* since 1.4: of a client, what all instances of its job call it:
                                     jobs share a loader equally. Empty: it is a job by itself */
};

/** How the bytes of a batch lie in a slot; filled by wire_slot_init(), the same on both sides. */
struct wire_slot {
    /* Of each view, int8 or uint8 [count][images of the view][...]; the first at 0. */
    uint64_t pixels_at[VIEWS_MAX];
    uint64_t labels_at; /* int64 [count] */
    uint64_t
        samples_at; /* uint32 [count]: the sample shown, not the one asked for if that was bad */
    /* Where the pipeline mixes samples, else 0: int64 [count] and float32 [count] */
    uint64_t labels2_at, weights_at;
    /* Where asked for, else 0: float [count][images][4], uint32 [count][2],
     * uint8 [count][images] */
    uint64_t boxes_at, sizes_at, flips_at;
    /* Of each field, uint8 [count][room]; before it, of those that vary, uint32 [count] */
    uint64_t fields_at[FIELDS_MAX], lengths_at[FIELDS_MAX];
    uint64_t end;   /* of what means something: behind it the last page is filled up */
    uint64_t bytes; /* of the whole slot, a multiple of the page size */
};

/** One view of a sample: so many images of a size. */
struct wire_view {
    uint32_t count, height, width;
};

/** What a stream asks for; everything that render() needs apart from the position. */
struct wire_open {
    char dataset[WIRE_DATASET_MAX];
    char pipeline[WIRE_PIPELINE_MAX]; /* canonical text */
    uint64_t seed;
    enum order_shuffle shuffle;
    uint32_t block;
    enum order_last last;
    enum plenum_bad bad;
    uint32_t per_step; /* R * M: positions of one step */
    uint32_t offset;   /* first position of a step that this instance takes */
    uint32_t local;    /* how many it takes: local R * M */
    uint32_t steps;    /* S: steps in a batch */
    enum plenum_dtype dtype;
    enum plenum_layout layout;
    uint32_t channels; /* 3, or 4 with a channel of the zero point */
    uint32_t width;    /* pixels: must be what the pipeline says, as must height */
    uint32_t slots;
    uint64_t slot_bytes; /* must be what wire_slot_init() says */
    struct order_subset subset;
    uint32_t repeat; /* positions that show a sample; 0 is 1 */
    uint64_t span;   /* struct order_steps; 0 where the data set is everybody's */
    uint32_t height; /* since 1.8, pixels; of an older client it is the width */
    uint32_t deal;   /* since 1.5: order_deal(): 0, or M, where positions are dealt in turn */
    bool mix;        /* since 1.8: the pipeline mixes samples, and slots have room for it */
    /* Since 1.9: views of the pipeline; 0: it has none, and a sample is one image of width x
     * height. Of the first view these are the size, too. */
    uint32_t views;
    struct wire_view view[VIEWS_MAX];
    bool geometry; /* since 1.9: slots have room for where pixels come from */
    /* Since 1.10: fields, as fields_parse() reads them, and their shapes as the loader has told. */
    char fields[FIELDS_TEXT_MAX];
    uint32_t num_fields;
    struct field_shape field[FIELDS_MAX];
};

/** What fields are to be described. */
struct wire_ask_fields {
    char dataset[WIRE_DATASET_MAX];
    char fields[FIELDS_TEXT_MAX];
};

/** The shapes of a data set's fields. */
struct wire_fields {
    uint32_t count;
    struct field_shape field[FIELDS_MAX];
    uint8_t hash[16]; /* of all fields of all samples: the same from every loader */
};

struct wire_opened {
    uint32_t samples; /* N */
    uint32_t classes;
    uint32_t threads, io_threads; /* of the loader: that decode, that read */
    uint8_t fingerprint[16];
    struct datasum sum;          /* what the fingerprint is of */
    uint32_t class_names;        /* since 1.6: classes that have names: all of them, or none */
    char warning[WIRE_TEXT_MAX]; /* since 1.6: what is not in the data set, though somebody may
                                    think so; empty: nothing that is known */
};

struct wire_render {
    uint64_t epoch, position; /* of the batch's first step */
    uint32_t slot;
    uint64_t waited_ns; /* since 1.3: how long the program has waited for batches so far;
                           WIRE_UNKNOWN from an older client */
};

struct wire_done {
    /* 0 or a negative errno, then with a text, as received at least the errno's */
    int32_t status;
    uint32_t substituted; /* samples shown in place of bad ones */
    uint64_t queue_ns;    /* from RENDER's arrival to the first sample being taken up */
    uint64_t read_ns;     /* summed over samples */
    uint64_t render_ns;   /* decoding to stored pixels, summed over samples */
    uint64_t total_ns;    /* from RENDER's arrival to the last sample in place */
    char text[WIRE_TEXT_MAX];
};

struct wire_stats {
    uint64_t uptime_ns;
    uint64_t sessions;
    uint64_t samples;     /* rendered since the start */
    uint64_t substituted; /* of them */
    uint64_t queued;      /* samples that wait now */
    uint64_t ring_bytes;  /* mapped now */
    uint64_t threads;     /* that decode */
};

/** What bounds a stream's rate. */
enum wire_bound {
    WIRE_BOUND_IDLE,      /* nothing was asked for lately */
    WIRE_BOUND_TRAINER,   /* the program takes no more */
    WIRE_BOUND_STORAGE,   /* reading */
    WIRE_BOUND_DECODE,    /* the loader's threads have their cores, and no time left */
    WIRE_BOUND_CPU,       /* the loader's threads want more of CPUs than they get */
    WIRE_BOUND_TRANSPORT, /* the loader has time left, and yet batches are waited for */
    WIRE_BOUND_COUNT,
};

enum { WIRE_LANES_MAX = 64 };

/** The loader as a whole. Shares are in millionths, rates in thousandths a second, of the last ten
 * seconds. */
struct wire_status {
    char version[WIRE_NAME_MAX], host[WIRE_NAME_MAX];
    uint32_t pid, uid;
    uint64_t uptime_ns;
    uint32_t threads, io_threads, sessions;
    uint32_t streams;                                        /* so many STATUS_STREAM follow */
    uint64_t samples, substituted, batches, failed, refused; /* since the start */
    uint64_t queued;                                         /* samples that wait now */
    uint64_t rate;                                           /* samples */
    uint64_t ring_bytes, ring_limit;
    uint64_t render_busy, read_busy; /* shares of the threads' time */
    uint64_t memory_bytes;           /* of the process, resident */
    uint32_t descriptors;
    bool stopping;
    uint32_t lanes; /* NUMA nodes with threads that decode */
    struct wire_lane {
        uint32_t threads, streams;
        uint64_t ring_bytes;
    } lane[WIRE_LANES_MAX];
    char loops[WIRE_NAME_MAX]; /* since 1.7: who makes pixels here */
};

/** One stream. */
struct wire_status_stream {
    uint64_t id; /* of the session, never used again by this process */
    uint32_t pid, uid;
    char client[WIRE_NAME_MAX];
    char dataset[WIRE_DATASET_MAX];
    char pipeline[WIRE_PIPELINE_MAX];
    uint64_t age_ns;
    uint64_t samples, substituted, batches, failed;
    uint64_t epoch, position, epoch_samples; /* where it stands, of how many */
    uint64_t batch_samples, ring_bytes;
    uint32_t slots, in_flight, lane;
    uint64_t rate;   /* samples, thousandths a second */
    uint64_t waited; /* share of time that the program waited, millionths; WIRE_UNKNOWN */
    uint64_t read_ns, render_ns, cpu_ns; /* mean of a sample */
    uint64_t queue_ns;                   /* mean of a batch, until its turn */
    enum wire_bound bound;
    uint64_t
        cores; /* that would be enough for the program never to wait, thousandths; WIRE_UNKNOWN */
};

struct wire_error {
    int32_t code;             /* negative errno */
    char text[WIRE_TEXT_MAX]; /* as received at least the errno's */
};

enum wire_named {
    WIRE_NAMED_SAMPLE,
    WIRE_NAMED_CLASS, /* since 1.6 */
    WIRE_NAMED_COUNT,
};

struct wire_ask_name {
    uint32_t number; /* of a sample or class */
    enum wire_named of;
};

struct wire_name {
    char text[WIRE_DATASET_MAX]; /* empty: there is no such sample or class */
};

struct wire_progress {
    uint64_t done, total; /* total 0: not known yet */
    char text[WIRE_TEXT_MAX];
};

/** The layout of a slot for this stream: 0, or -EOVERFLOW when a batch exceeds 2^40 bytes. */
int wire_slot_init(const struct wire_open *open, struct wire_slot *ret);

/** Views of a sample, one where the pipeline has none, and what they are. */
uint32_t wire_get_views(const struct wire_open *open, struct wire_view ret[VIEWS_MAX]);

/** Images of a sample, of all views. */
uint32_t wire_images(const struct wire_open *open);

/** What OPEN says of a pipeline: its text, sizes, views, and whether it mixes. */
void wire_open_set_views(struct wire_open *open, const struct views *views);

/** Bytes of one image of a view. */
static inline uint64_t wire_image_bytes(const struct wire_open *open, const struct wire_view *view)
{
    return (uint64_t)open->channels * view->width * view->height;
}

/** Bytes of a field in each sample's place of a slot. */
uint64_t wire_field_bytes(const struct wire_open *open, const struct field_shape *field);

/** Bytes of all of one sample's pixels. */
uint64_t wire_sample_bytes(const struct wire_open *open);

/** Samples in a batch: S * local R * M. */
static inline uint64_t wire_batch_count(const struct wire_open *open)
{
    return (uint64_t)open->steps * open->local;
}

/** Which of a step's positions, counted from its first, is this client's i-th of `local`. */
static inline uint32_t wire_step_position(const struct wire_open *open, uint32_t i)
{
    return order_deal(open->per_step, open->deal, open->offset + i);
}

/** The order and the steps that are asked for, of a data set of so many samples: 0 or -EINVAL. */
int wire_order(const struct wire_open *open, uint32_t samples, struct order *order,
               struct order_steps *steps, struct plenum_error *err);

/** Is every field within its bounds? The sentence names the first that is not. */
int wire_open_check(const struct wire_open *open, struct plenum_error *err);

/* Each appends one frame: 0 or -ENOMEM. */
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
/** A frame without a payload: CANCEL, CANCELLED, BYE, a client's STATS and STATUS. */
int wire_put_empty(struct frame_buffer *b, enum wire_type type, uint64_t request);

/* Each reads one payload: 0 or -EPROTO (cut short, or a field out of its bounds). */
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

/** Fill a HELLO of this build. */
void wire_hello_init(struct wire_hello *m, const char *name);

/** May we talk to the sender of this HELLO? 0, or -EPROTONOSUPPORT with a sentence. */
int wire_hello_check(const struct wire_hello *m, struct plenum_error *err);

/** Does the list of pixel versions in a loader's HELLO hold `version`? */
bool wire_hello_has_version(const struct wire_hello *m, const char *version);

#endif

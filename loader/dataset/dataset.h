/* SPDX-License-Identifier: MIT */
/* dataset.h - reads the bytes of samples, without decoding them. */
#ifndef LOADER_DATASET_DATASET_H
#define LOADER_DATASET_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/data/datasum.h"
#include "common/data/fields.h"
#include "common/order/order.h"

/** An open data set with its index. Opaque, reference counted, constant once open. Threads: any. */
struct dataset;

/** Bytes of one sample, in memory that is reused from sample to sample. Zero-initialised. */
struct dataset_buffer {
    uint8_t *bytes; /* owned; followed by DATASET_PADDING zero bytes */
    size_t len;
    size_t cap;
};

enum {
    DATASET_PADDING = 64,
    DATASET_SAMPLE_MAX = 256 << 20, /* larger samples are bad */
};

/** What dataset_open() does when there is no fresh index. */
enum dataset_how {
    DATASET_INDEX,      /* build one, or wait for a process that is building it */
    DATASET_IF_FRESH,   /* fail with -EINPROGRESS */
    DATASET_NO_WAITING, /* build one; -EALREADY while another process is building it */
};

/** Limits of the cache folder; 0: no limit. */
struct dataset_cache_limits {
    uint64_t bytes;      /* of all indices and field tables */
    uint64_t user_bytes; /* of those that were built for one user */
    uint64_t age_ns;     /* since their last use */
};

struct dataset_options {
    const char *cache_dir; /* folder of indices; NULL: dataset_default_cache() */
    unsigned threads;      /* threads that build the index; 0: one per CPU */
    bool rebuild;          /* rebuild the index even if it is fresh */
    bool again;            /* check whether an open data set has changed by scanning it again */
    bool forget_bad;       /* ignore the list of bad samples */
    bool junk;             /* ignore the list's entries that pipelines with `junk` show */
    bool hints;            /* keep a cache of hints beside the index (hint_cache.h), if possible */
    /** Paths without links, and canonical names in stores ("s3://bucket/prefix"). Only files and
     * objects below one of these may be read; none: any. */
    const char *const *roots;
    unsigned num_roots;
    bool only_files; /* without roots: any file may be read, but no object in a store */
    /** Called in the calling thread while an index is being built. `what` names the things that are
     * counted; `total` is 0 as long as it is unknown. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *progress_arg;
    enum dataset_how how;
    /** Set it from another thread to make dataset_open() return soon with -ECANCELED. May be
     * NULL. */
    const atomic_bool *cancel;
    uint64_t memory; /* bytes that building an index may use; 0: no limit */
    struct dataset_cache_limits limits;
    const char *user;   /* the user charged for the cache; NULL: none */
    const char *fields; /* the fields to read, in the syntax of fields_parse(); NULL: none */
};

/**
 * Open FORMAT[,KEY=VALUE...]:WHERE, or a plain path whose format is detected. Builds the index
 * first unless a fresh one exists. docs/datasets.md describes formats and settings. The text of a
 * plan (common/order/orderplan.h) opens all its data sets as one.
 *
 * Errors: -EINVAL no such format or setting, or fields that this format does not have; -ENOENT,
 * -EACCES, -ENOTDIR from the file system; -EINPROGRESS, -EALREADY, -ECANCELED see above; -EACCES it
 * is below none of the roots; -EBADMSG it has no images, or too many, or an archive or list is
 * damaged; -ESTALE it is being written; -ELOOP a cycle of links; -ENOMEM out of memory, or the
 * index would exceed options->memory; -EIO.
 */
int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err);
struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);
/** Drop a reference unless it is the last one; dropping that closes files and may block on storage.
 * False: the caller still holds it. */
bool dataset_unref_unless_last(struct dataset *dataset);

/** The canonical name, e.g. "folder:/data/train" with an absolute path. Borrowed. */
const char *dataset_get_name(const struct dataset *dataset);
uint32_t dataset_get_samples(const struct dataset *dataset);
uint32_t dataset_get_classes(const struct dataset *dataset);
const uint8_t *dataset_get_fingerprint(const struct dataset *dataset); /* [16] */
/** The sum whose hash is the fingerprint. Borrowed. */
const struct datasum *dataset_get_sum(const struct dataset *dataset);
/** Bytes of all samples as stored. */
uint64_t dataset_get_bytes(const struct dataset *dataset);
/** Number of files skipped because their extensions are not those of images. */
uint64_t dataset_get_skipped(const struct dataset *dataset);
/** The extensions of images, as patterns; they depend on the build: "*.jpg, *.jpeg, *.png, *.webp,
 * *.avif, *.ppm and *.pnm". */
const char *dataset_image_names(void);
/** Returns whether an extension (".webp") is that of an image. Ignores case. */
bool dataset_is_image_extension(const char *extension);
/** A warning about files that were left out, or "": clauses without a full stop, safe to print on a
 * terminal. Borrowed. */
const char *dataset_get_warning(const struct dataset *dataset);
/** Number of classes with names: all, or 0 if labels are numbers. */
uint32_t dataset_get_class_names(const struct dataset *dataset);
/** Path of the index, or NULL if it is kept in memory because the cache folder is not writable. */
const char *dataset_get_index_path(const struct dataset *dataset);

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample);
/** Name of a class, or "" beyond the last. Borrowed. */
const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label);
/** Bytes of one sample as stored. */
uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample);
/** Number of archives, folders or lists that samples come from. */
uint32_t dataset_get_containers(const struct dataset *dataset);
/** The number of a sample's container. */
uint32_t dataset_get_container(const struct dataset *dataset, uint32_t sample);
struct orderplan;
struct sampler_table;

/** One data set of a plan. */
struct dataset_set {
    const char *name;                  /* borrowed */
    const struct dataset *dataset;     /* borrowed */
    uint32_t first;                    /* the number of its first sample among those of all sets */
    uint32_t positions;                /* of one pass of its own order */
    const struct sampler_table *table; /* of its own order; borrowed */
    uint8_t hash[16]; /* of its fingerprint and everything that its order depends on */
};

/** List the data sets of a plan in `ret` [MIXTURE_SETS_MAX] and return their number, or 0. */
uint32_t dataset_get_sets(const struct dataset *dataset, struct dataset_set *ret);
/** The plan, or NULL if the data set is none. Borrowed. */
const struct orderplan *dataset_get_plan(const struct dataset *dataset);
/** The table of all samples if a plan has one order for them (stratify, balance); otherwise NULL.
 * Borrowed. */
const struct sampler_table *dataset_get_joined(const struct dataset *dataset);
/** Returns the data set of a plan that a sample belongs to; `*sample` becomes its number there.
 *  Without a plan, returns `dataset`. */
const struct dataset *dataset_find_set(const struct dataset *dataset, uint32_t *sample);
/** Get the ranges of global positions that a plan skips, borrowed, and return their number. */
uint32_t dataset_get_skips(const struct dataset *dataset, const struct order_gap **ret);
/** Set a seeded order's positions and `mixture` from the plan; the data set owns the mixture.
 *  Without a plan, the order is unchanged. Returns 0 or -errno with `err` set. */
int dataset_set_order(const struct dataset *dataset, struct order *order, struct plenum_error *err);
/** Returns whether the data set has no files, and its pixels are generated (generated:). */
bool dataset_is_generated(const struct dataset *dataset);
/** Returns whether it, or a set of a plan, is in a store, so that samples that are needed soon should
 *  be announced. */
bool dataset_is_remote(const struct dataset *dataset);
/** Identifies the numbering of samples for streams of the disk cache (loader/cache/diskcache.h);
 * UINT32_MAX: its samples are not cached, or it is a plan. */
uint32_t dataset_get_cached_set(const struct dataset *dataset);
/** Returns whether samples have images, or only fields (image=none). */
bool dataset_has_images(const struct dataset *dataset);
/** Set the error for a request for images of a data set without images. Returns -EINVAL. */
int dataset_refuse_images(const struct dataset *dataset, struct plenum_error *err);
/** Write the name of the sample's file, for messages, to `ret`; returns `ret`. */
char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/** Write the sample's path within the data set ("class/file.jpg"), its name in the archive, or its
 * path in the list to `ret`; its number, if the format has none of these. Returns `ret`. */
char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/**
 * Read one sample's bytes. Transient errors are retried a few times.
 *
 * Errors: -EBADMSG the sample itself is bad (its file is empty, or over DATASET_SAMPLE_MAX);
 * -ESTALE the file has changed since it was indexed; -EINVAL the data set has no images; another
 * -errno of the file system. `err` names the file.
 */
int dataset_read(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                 struct plenum_error *err);
/** Receives one field of a sample: `value` may be any bytes. `exact`: it was stored as a
 * floating-point number, not as text, so "NaN", "Infinity" and "-Infinity" are values. */
typedef void dataset_field(void *arg, const char *key, const void *value, size_t len, bool exact);

/**
 * The fields of a sample besides image and label: the other columns of a list, the other features
 * of a TFRecord. Calls `field` for each in order; some formats have none. Errors: those of
 * dataset_read().
 */
int dataset_fields(const struct dataset *dataset, uint32_t sample, dataset_field *field, void *arg,
                   struct plenum_error *err);
/** The fields that the data set was opened with, and their shapes. Borrowed. */
const struct fields *dataset_get_fields(const struct dataset *dataset);
/** A hash of all fields of all samples: [16], zeros without fields. */
const uint8_t *dataset_get_fields_hash(const struct dataset *dataset);
/** Bytes of a sample's fields, as returned by dataset_read_fields(). */
size_t dataset_get_record_bytes(const struct dataset *dataset);
/** Upper bound of the memory that `threads` threads use while each of them reads a sample or its
 * fields, with decompressed pages and shards; samples themselves do not count. */
uint64_t dataset_get_read_memory(const struct dataset *dataset, unsigned threads);

/**
 * Read the fields of one sample: uint32 [fields], the length of each, then each field, padded with
 * zeros to its size in fields->stored; masks are PNGs. Errors: those of dataset_read(); also
 * -EBADMSG if a field is missing or damaged.
 */
int dataset_read_fields(const struct dataset *dataset, uint32_t sample,
                        struct dataset_buffer *buffer, struct plenum_error *err);

/** The `content` of a bad sample whose bytes could not be read: an empty file, a wrong checksum. */
#define DATASET_NO_BYTES UINT64_MAX

/** A known bad sample. */
struct dataset_bad {
    uint32_t sample;
    const char *reason; /* one line */
    bool junk;          /* pipelines with `junk` show it */
    uint64_t content;   /* stamp_hash_bytes() of the sample, or DATASET_NO_BYTES; 0: not known */
};

/** The result of dataset_keep_bad(). */
struct dataset_kept {
    uint8_t fingerprint[16]; /* the data set's new one */
    bool changed;            /* it differs from the previous one */
};

/**
 * Write the list of bad samples to the cache folder. From the next dataset_open() on, these samples
 * are rejected without being read, and the fingerprint covers them. An empty list removes the file.
 *
 * @param bad  [count], in the order of samples. The data set must have been opened with forget_bad.
 * Errors: -EROFS there is no cache folder; another -errno of the file system.
 */
int dataset_keep_bad(const struct dataset *dataset, const struct dataset_bad *bad, uint32_t count,
                     struct dataset_kept *ret, struct plenum_error *err);
/** The path of that list, whether or not it exists; NULL without a cache folder. */
const char *dataset_get_bad_path(const struct dataset *dataset);
/** The number of known bad samples. */
uint32_t dataset_get_known_bad(const struct dataset *dataset);
/** The reason why a sample is bad, one line; NULL: it is not known to be bad. Borrowed. */
const char *dataset_get_why_bad(const struct dataset *dataset, uint32_t sample);

/**
 * Compare a data set with the index file at `index_path`, from another host for example. Writes a
 * clause about the first difference to `ret`, safe to print on a terminal, or "".
 */
int dataset_compare(const struct dataset *dataset, const char *index_path, char *ret, size_t size,
                    struct plenum_error *err);
/** Advise the kernel that a sample will be read soon. May have no effect; errors are reported by
 * the read.
 */
void dataset_announce(const struct dataset *dataset, uint32_t sample);
/** Announced samples will not be read, because their stream has moved or ended. Other streams that
 *  share this object may have to fetch theirs again. */
void dataset_forget_announced(const struct dataset *dataset);
void dataset_buffer_fini(struct dataset_buffer *buffer);

/** The data set's hint cache, or NULL if it has none; each set of a plan has its own. Borrowed.
 * Threads: any. */
struct hint_cache;
struct hint_cache *dataset_get_hints(const struct dataset *dataset);
/** The reason why there is no hint cache although options.hints was set; 0: there is one. */
int dataset_get_hints_code(const struct dataset *dataset);

/** The default folder for indices: $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or ~/.cache/plenum. 0,
 * or -ENOENT if none of them is known. */
int dataset_default_cache(char *ret, size_t size);

#endif

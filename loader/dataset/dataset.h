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

/** An open data set with its index. Opaque, reference-counted, and constant once open. Threads:
 * any. */
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

/** What dataset_open() does if there is no fresh index. */
enum dataset_how {
    DATASET_INDEX,    /* build one, or wait for a process that is building it */
    DATASET_IF_FRESH, /* fail with -EINPROGRESS */
    /* build one, but fail with -EALREADY while another process is building it */
    DATASET_NO_WAITING,
};

/** Limits of the cache folder; 0: no limit. */
struct dataset_cache_limits {
    uint64_t bytes;      /* size of all indices and field tables */
    uint64_t user_bytes; /* size of those that were built for one user */
    uint64_t age_ns;     /* time since their last use */
};

struct dataset_options {
    const char *cache_dir; /* folder of indices; NULL: dataset_default_cache() */
    unsigned threads;      /* threads that build the index; 0: one per CPU */
    bool rebuild;          /* rebuild the index even if it is fresh */
    bool again;            /* scan again, to check whether an open data set has changed */
    bool forget_bad;       /* ignore the list of bad samples */
    bool junk;             /* ignore the entries of that list that pipelines with `junk` show */
    bool hints;            /* keep a cache of hints beside the index (hint_cache.h), if possible */
    /** Paths without links, and canonical names in stores ("s3://bucket/prefix"). Only files and
     * objects below one of these may be read. Without any, all may be read. */
    const char *const *roots;
    unsigned num_roots;
    bool only_files; /* without roots: any file may be read, but no object in a store */
    /** Called in dataset_open()'s thread while an index is being built. `what` names the things
     * that are counted; `total` is 0 while it is unknown. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *progress_arg;
    enum dataset_how how;
    /** If another thread sets it, dataset_open() soon returns -ECANCELED. May be NULL. */
    const atomic_bool *cancel;
    uint64_t memory; /* bytes that building an index may use; 0: no limit */
    struct dataset_cache_limits limits;
    const char *user;   /* the user to whom cache files are charged; NULL: none */
    const char *fields; /* the fields to read, in the syntax of fields_parse(); NULL: none */
    bool own_fields;    /* without `fields`, read the objects of a detection data set */
    bool outlines;      /* dataset_fields() gives objects with their outlines */
};

/**
 * Open FORMAT[,KEY=VALUE...]:WHERE, or a plain path whose format is detected. Builds the index
 * first unless a fresh one exists. docs/datasets.md describes formats and settings. The text of a
 * plan (common/order/orderplan.h) opens all its data sets as one.
 *
 * Errors: -EINVAL no such format or setting, or fields that this format does not have; -ENOENT,
 * -EACCES, -ENOTDIR from the file system; -EACCES also if it is not below a root; -EINPROGRESS,
 * -EALREADY, -ECANCELED see above; -EBADMSG it has no images, or too many, or an archive or list is
 * damaged; -EOPNOTSUPP it is compressed in a way that cannot be read; -EFBIG a list is too long;
 * -E2BIG too many files; -ESTALE it is being written; -ELOOP a cycle of links; those of
 * store_list() and store_stat(); -ENOMEM out of memory, or the index would exceed options->memory;
 * -EIO.
 */
int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err);
struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);
/** Drop a reference, unless it is the last one: dropping the last one closes files and may block on
 * storage. Returns false if the caller still holds the reference. */
bool dataset_unref_unless_last(struct dataset *dataset);

/** Returns the canonical name, e.g. "folder:/data/train" with an absolute path. Borrowed. */
const char *dataset_get_name(const struct dataset *dataset);
uint32_t dataset_get_samples(const struct dataset *dataset);
uint32_t dataset_get_classes(const struct dataset *dataset);
const uint8_t *dataset_get_fingerprint(const struct dataset *dataset); /* [16] */
/** Returns the checksum (common/data/datasum.h) whose hash is the fingerprint. Borrowed. */
const struct datasum *dataset_get_sum(const struct dataset *dataset);
/** Returns the size in bytes of all samples as stored. */
uint64_t dataset_get_bytes(const struct dataset *dataset);
/** Returns the number of files skipped because they have no image extension. */
uint64_t dataset_get_skipped(const struct dataset *dataset);
/** Returns the extensions of images, as patterns that depend on the build, such as "*.jpg, *.jpeg,
 * *.png, *.webp, *.avif, *.ppm and *.pnm". */
const char *dataset_image_names(void);
/** Returns whether an extension, such as ".webp", is that of an image. Ignores case. */
bool dataset_is_image_extension(const char *extension);
/** Returns a warning about files that were left out, or "": clauses without a full stop, safe to
 * print on a terminal. Borrowed. */
const char *dataset_get_warning(const struct dataset *dataset);
/** Returns the number of classes with names: all, or 0 if labels are numbers. */
uint32_t dataset_get_class_names(const struct dataset *dataset);
/** Returns the path of the index, or NULL if there is no such file, because the cache folder is not
 * writable or the data set is generated or a plan's. */
const char *dataset_get_index_path(const struct dataset *dataset);

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample);
/** Returns the name of a class, or "" beyond the last. Borrowed. */
const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label);
/** Returns whether the classes are those of objects in the images (coco:, yolo:, voc:), so that all
 * labels are 0. */
bool dataset_has_object_classes(const struct dataset *dataset);
/** Returns the size in bytes of one sample as stored. */
uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample);
/** Returns the number of archives, folders or lists that samples come from. */
uint32_t dataset_get_containers(const struct dataset *dataset);
/** Returns the number of a sample's container. */
uint32_t dataset_get_container(const struct dataset *dataset, uint32_t sample);
struct orderplan;
struct sampler_table;

/** One data set of a plan. */
struct dataset_set {
    const char *name;                  /* borrowed */
    const struct dataset *dataset;     /* borrowed */
    uint32_t first;                    /* the number of its first sample among those of all sets */
    uint32_t positions;                /* positions in one pass through its own order */
    const struct sampler_table *table; /* the table of its own order; borrowed */
    uint8_t hash[16]; /* hash of its fingerprint and of everything that its order depends on */
};

/** New weights of the samples of a plan's set. */
struct dataset_reweigh {
    uint64_t start; /* see mixture_pass_start() */
    uint64_t hash;  /* hash of the resulting order */
};

/** List the new weights of the plan's samples in `ret` [ORDERPLAN_REWEIGHS_MAX], for an order that
 * dataset_set_order() has completed. Returns their number. */
uint32_t dataset_get_reweighs(const struct dataset *dataset, const struct order *order,
                              struct dataset_reweigh *ret);

/** List the data sets of a plan in `ret` [MIXTURE_SETS_MAX] and return their number, or 0. */
uint32_t dataset_get_sets(const struct dataset *dataset, struct dataset_set *ret);
/** Returns the plan, or NULL if the data set is not a plan's. Borrowed. */
const struct orderplan *dataset_get_plan(const struct dataset *dataset);
/** Returns the table of all samples if a plan has one order for them (stratify, balance); otherwise
 * NULL. Borrowed. */
const struct sampler_table *dataset_get_joined(const struct dataset *dataset);
/** Returns the data set of a plan that a sample belongs to; `*sample` becomes its number there.
 *  Without a plan, returns `dataset`. */
const struct dataset *dataset_find_set(const struct dataset *dataset, uint32_t *sample);
/** Set `*ret` to the ranges of global positions that a plan skips (borrowed), and return their
 * number. */
uint32_t dataset_get_skips(const struct dataset *dataset, const struct order_gap **ret);
/** Complete an order that has a seed: set its positions and `mixture` from the plan. The data set
 * owns the mixture. Without a plan, the order is unchanged. Returns 0 or -errno with `err` set. */
int dataset_set_order(const struct dataset *dataset, struct order *order, struct plenum_error *err);
/** Returns whether the data set is generated (generated:), and has no files. */
bool dataset_is_generated(const struct dataset *dataset);
/** Returns whether the data set, or a set of a plan, is in a store; if so, samples that are needed
 * soon should be announced. */
bool dataset_is_remote(const struct dataset *dataset);
/** Returns the set in the cache of samples (loader/cache/sample_cache.h) to which the data set's
 * samples belong; KEEP_NO_SET: they are not cached, or the data set is a plan's. */
uint64_t dataset_get_cached_set(const struct dataset *dataset);
/** Returns a checksum of the index, or of those of a plan's sets, which covers names, sizes, labels
 * and stamps of all samples. 0: it is not known, or the data set is generated. */
uint64_t dataset_get_checksum(const struct dataset *dataset);
/** Returns whether samples have images, or only fields (image=none). */
bool dataset_has_images(const struct dataset *dataset);
/** Set the error for a request for images from a data set without images. Returns -EINVAL. */
int dataset_refuse_images(const struct dataset *dataset, struct plenum_error *err);
/** Write the name of the sample's file, for messages, to `ret`; returns `ret`. */
char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/** Write the sample's path within the data set ("class/file.jpg"), its name in the archive, or its
 * path in the list to `ret`. If the format has none of these, write its number. Returns `ret`. */
char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/**
 * Read one sample's bytes. Transient errors are retried a few times. If the data set has changed,
 * the next dataset_open() indexes it again. Reads nothing if the sample is generated.
 *
 * Errors: -EBADMSG the sample itself is bad (empty, over DATASET_SAMPLE_MAX, damaged, or in the
 * list of bad samples); -ESTALE the file has changed since it was indexed; -EINVAL the data set has
 * no images; another -errno of the file system. `err` names the file.
 */
int dataset_read(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                 struct plenum_error *err);
/** Receives one field of a sample. `value` may be any bytes. `exact`: the field was stored as a
 * floating-point number, not as text, so "NaN", "Infinity" and "-Infinity" are numbers. */
typedef void dataset_field(void *arg, const char *key, const void *value, size_t len, bool exact);

/**
 * Call `field` for each field of a sample besides image and label, in order: the other columns of a
 * list, the other features of a TFRecord. Some formats have none. Errors: those of dataset_read().
 */
int dataset_fields(const struct dataset *dataset, uint32_t sample, dataset_field *field, void *arg,
                   struct plenum_error *err);
/** Returns the fields that the data set was opened with, and their shapes. Borrowed. */
const struct fields *dataset_get_fields(const struct dataset *dataset);
/** Returns a hash [16] of all fields of all samples; zeros if there are no fields. */
const uint8_t *dataset_get_fields_hash(const struct dataset *dataset);
/** Returns the size in bytes of what dataset_read_fields() returns for a sample. */
size_t dataset_get_record_bytes(const struct dataset *dataset);
/** Returns an upper bound of the memory that `threads` threads use while each of them reads a
 * sample or its fields. It includes decompressed pages and shards, but not the samples
 * themselves. */
uint64_t dataset_get_read_memory(const struct dataset *dataset, unsigned threads);

/**
 * Read the fields of one sample into `buffer`: the length of each as uint32 [fields], then each
 * field, padded with zeros to its size in fields->stored. Masks are PNGs. Errors: those of
 * dataset_read(); -EBADMSG also if a field is missing or damaged.
 */
int dataset_read_fields(const struct dataset *dataset, uint32_t sample,
                        struct dataset_buffer *buffer, struct plenum_error *err);

enum { DATASET_NO_SAMPLE = UINT32_MAX };

/** Receives a fault: a sentence about a sample, or about a file that belongs to none
 * (DATASET_NO_SAMPLE). Returns 0 or -ENOMEM. */
typedef int dataset_fault(void *arg, uint32_t sample, const char *sentence);

/** Pass on each fault in the annotations of a detection data set that reading its samples does not
 * detect, such as ids that are used twice. Returns 0, or -errno with `err` set. */
int dataset_check(const struct dataset *dataset, dataset_fault *fault, void *arg,
                  struct plenum_error *err);

/** Write the width and height that a sample's annotations give for its picture, as stored or after
 * EXIF orientation, to `ret` [2]; zeros if they give none. */
void dataset_get_stated_size(const struct dataset *dataset, uint32_t sample, uint32_t *ret);

/** Write a clause to `ret`, or "": pictures that EXIF turns have annotations for turned pictures,
 * but the pipeline lacks `exif`, or the reverse. `exif` is whether the pipeline has it. Returns
 * `ret`. */
char *dataset_warn_of_exif(const struct dataset *dataset, bool exif, char *ret, size_t size);

/** The `content` of a bad sample whose bytes could not be read, such as an empty file or one with a
 * wrong checksum. */
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
    bool changed;            /* the new fingerprint differs from the previous one */
};

/**
 * Write a list of bad samples to the cache folder. From the next dataset_open() on, these samples
 * are rejected without being read, and the fingerprint covers the list. An empty list removes the
 * file.
 *
 * @param bad  [count], in the order of samples. The data set must have been opened with forget_bad.
 * Errors: -EROFS there is no cache folder; another -errno of the file system.
 */
int dataset_keep_bad(const struct dataset *dataset, const struct dataset_bad *bad, uint32_t count,
                     struct dataset_kept *ret, struct plenum_error *err);
/** Returns the path of the list of bad samples, whether or not the file exists; NULL without a
 * cache folder. */
const char *dataset_get_bad_path(const struct dataset *dataset);
/** Returns the number of known bad samples. */
uint32_t dataset_get_known_bad(const struct dataset *dataset);
/** Returns the reason why a sample is bad, one line; NULL: it is not known to be bad. Borrowed. */
const char *dataset_get_why_bad(const struct dataset *dataset, uint32_t sample);

/**
 * Compare a data set with the index file at `index_path`, for example one from another host. Writes
 * a clause about the first difference to `ret`, safe to print on a terminal, or "" if there is
 * none. Errors: -EINVAL the data set is generated; -EBADMSG the file is not a valid index; another
 * -errno of the file system.
 */
int dataset_compare(const struct dataset *dataset, const char *index_path, char *ret, size_t size,
                    struct plenum_error *err);
/** Advise the kernel that a sample will be read soon. This may have no effect; errors are reported
 * when the sample is read.
 */
void dataset_announce(const struct dataset *dataset, uint32_t sample);
/** Note that announced samples will not be read, because their stream has moved or ended. Other
 * streams of this data set may have to fetch theirs again. */
void dataset_forget_announced(const struct dataset *dataset);
void dataset_buffer_fini(struct dataset_buffer *buffer);

/** Returns the data set's hint cache, or NULL if it has none. Each set of a plan has its own.
 * Borrowed. Threads: any. */
struct hint_cache;
struct hint_cache *dataset_get_hints(const struct dataset *dataset);
/** If options.hints was set but there is no hint cache, returns the reason, -errno. Otherwise
 * returns 0. */
int dataset_get_hints_code(const struct dataset *dataset);

/** Write the default folder for indices to `ret`: $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or
 * ~/.cache/plenum. Returns 0; -ENOENT if none of these variables is set; or -ENAMETOOLONG. */
int dataset_default_cache(char *ret, size_t size);

#endif

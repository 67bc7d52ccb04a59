/* SPDX-License-Identifier: MIT */
/* dataset.h - reads the bytes of samples. Nothing here knows about pixels. */
#ifndef LOADER_DATASET_DATASET_H
#define LOADER_DATASET_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/datasum.h"
#include "common/fields.h"

/** One data set with its index. Opaque, counted, constant once open. Threads: any. */
struct dataset;

/** Bytes of one sample, in memory that is kept from sample to sample. Starts as zeros. */
struct dataset_buffer {
    uint8_t *bytes; /* owned; followed by DATASET_PADDING zero bytes */
    size_t len;
    size_t cap;
};

enum {
    DATASET_PADDING = 64,
    DATASET_SAMPLE_MAX = 256 << 20, /* a sample with a larger file is bad */
};

/** What to do where there is no fresh index. */
enum dataset_how {
    DATASET_INDEX,      /* make one, or wait for another process that does */
    DATASET_IF_FRESH,   /* do nothing: -EINPROGRESS */
    DATASET_NO_WAITING, /* make one; -EALREADY while another process does */
};

/** Of the cache folder; 0: no limit. */
struct dataset_cache_limits {
    uint64_t bytes;      /* of all indices and tables of fields, */
    uint64_t user_bytes; /* and of those that were made for one user */
    uint64_t age_ns;     /* since they were last used */
};

struct dataset_options {
    const char *cache_dir; /* where indices are kept; NULL: dataset_default_cache() */
    unsigned threads;      /* that build an index; 0: one a CPU */
    bool rebuild;          /* build the index even if there is a fresh one */
    bool again;            /* what is open already is scanned once more, to see if it changed */
    bool forget_bad;       /* ignore the list of bad samples */
    bool junk;             /* take from it what pipelines with `junk` show */
    bool hints;            /* keep a cache of hints beside the index (hint_cache.h), if possible */
    /** Folders below which all that is read must lie, without links; none: anywhere. */
    const char *const *roots;
    unsigned num_roots;
    /** Called while an index is being built, in the calling thread: `done` of `total` things, which
     * `what` names; `total` 0: not known yet. */
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *progress_arg;
    enum dataset_how how;
    /** When another thread sets it, the opening ends soon with -ECANCELED. May be NULL. */
    const atomic_bool *cancel;
    uint64_t memory; /* bytes that making an index may take; 0: no limit */
    struct dataset_cache_limits limits;
    const char *user;   /* for whom it is opened; NULL: nobody's share is counted */
    const char *fields; /* that are wanted, as fields_parse() reads them; NULL: none */
};

/**
 * Open FORMAT[,KEY=VALUE...]:WHERE, or a plain path whose format shows; index it first if there is
 * no fresh index of it. docs/datasets.md describes formats and settings.
 *
 * Errors: -EINVAL no such format or setting, or fields that it cannot have; -ENOENT, -EACCES,
 * -ENOTDIR as the file system says;
 * -EINPROGRESS, -EALREADY, -ECANCELED see above; -EACCES it lies below none of the roots; -EBADMSG
 * there are no images in it, or too many, or an archive or list is damaged; -ESTALE it is being
 * written; -ELOOP links that go in a circle;
 * -ENOMEM its index would take more memory than it may, or there is none; -EIO.
 */
int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err);
struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);
/** Drop a reference unless it is the last, whose drop closes files and may wait for storage. False:
 * the caller still has it. */
bool dataset_unref_unless_last(struct dataset *dataset);

/** Name as canonical text, e.g. "folder:/data/train" with an absolute path. Borrowed. */
const char *dataset_get_name(const struct dataset *dataset);
uint32_t dataset_get_samples(const struct dataset *dataset);
uint32_t dataset_get_classes(const struct dataset *dataset);
const uint8_t *dataset_get_fingerprint(const struct dataset *dataset); /* [16] */
/** The sum that the fingerprint is a hash of. Borrowed. */
const struct datasum *dataset_get_sum(const struct dataset *dataset);
/** Bytes of all samples' files. */
uint64_t dataset_get_bytes(const struct dataset *dataset);
/** Files that were skipped because their names are not those of images. */
uint64_t dataset_get_skipped(const struct dataset *dataset);
/** Those names, which depend on the build: "*.jpg, *.jpeg, *.png, *.webp, *.avif, *.ppm and *.pnm".
 */
const char *dataset_image_names(void);
/** Is ".webp", say, an extension of one of them? In any case. */
bool dataset_is_image_extension(const char *extension);
/** A warning about what was left out: clauses without a full stop, fit for a terminal, or "".
 * Borrowed. */
const char *dataset_get_warning(const struct dataset *dataset);
/** How many classes have names: all, or 0 where labels are numbers. */
uint32_t dataset_get_class_names(const struct dataset *dataset);
/** Where the index lies, or NULL when it is kept in memory because the cache folder cannot be
 * written. */
const char *dataset_get_index_path(const struct dataset *dataset);

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample);
/** Name of a class, or "" beyond the last. Borrowed. */
const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label);
/** Bytes of one sample as it is stored. */
uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample);
/** Archives, or folders, or the list, that samples come from. */
uint32_t dataset_get_containers(const struct dataset *dataset);
/** Which of them holds a sample. */
uint32_t dataset_get_container(const struct dataset *dataset, uint32_t sample);
/** Is it a data set without files, whose pixels are generated (generated:)? */
bool dataset_is_generated(const struct dataset *dataset);
/** Have its samples images, and not fields alone (image=none)? */
bool dataset_has_images(const struct dataset *dataset);
/** The sentence for who wants images of one that has none: -EINVAL. */
int dataset_refuse_images(const struct dataset *dataset, struct plenum_error *err);
/** The name of the sample's file for messages, into `ret`; returns `ret`. */
char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/** Its path within the data set, "class/file.jpg", or its name in the archive, into `ret`; returns
 * `ret`. */
char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size);

/**
 * Read one sample's bytes. A transient error is tried again a few times.
 *
 * Errors: -EBADMSG the sample itself is bad (its file is empty, or over DATASET_SAMPLE_MAX);
 * -ESTALE the file is not what was indexed; -EINVAL the data set has no images; another -errno of
 * the file system. The sentence names the file.
 */
int dataset_read(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                 struct plenum_error *err);
/** A field beside a sample's image: `value` may be any bytes. `exact`: it was stored as a number of
 * floating point, not as a text, so "NaN", "Infinity" and "-Infinity" are meant. */
typedef void dataset_field(void *arg, const char *key, const void *value, size_t len, bool exact);

/**
 * The fields of a sample besides image and label: the other columns of a list, the other features
 * of a TFRecord. `field` is called for each in order; some formats have none. Errors as
 * dataset_read().
 */
int dataset_fields(const struct dataset *dataset, uint32_t sample, dataset_field *field, void *arg,
                   struct plenum_error *err);
/** The fields that it was opened with, and their shapes. Borrowed. */
const struct fields *dataset_get_fields(const struct dataset *dataset);
/** A hash of all fields of all samples: [16], zeros where there are none. */
const uint8_t *dataset_get_fields_hash(const struct dataset *dataset);
/** Bytes of a sample's fields, as dataset_read_fields() gives them. */
size_t dataset_get_record_bytes(const struct dataset *dataset);
/** Memory that so many threads take at most while each reads the fields of a sample; 0: there are
 * no fields. */
uint64_t dataset_get_field_memory(const struct dataset *dataset, unsigned threads);

/**
 * The fields of one sample: uint32 [fields], the bytes of each, then each in as many bytes as
 * fields->stored says, filled up with zeros; masks are PNGs. Errors as dataset_read(); -EBADMSG
 * also where one is missing or damaged.
 */
int dataset_read_fields(const struct dataset *dataset, uint32_t sample,
                        struct dataset_buffer *buffer, struct plenum_error *err);

/** The content of a bad sample whose bytes could not be read: an empty file, a wrong checksum. */
#define DATASET_NO_BYTES UINT64_MAX

/** A sample that is known to be bad. */
struct dataset_bad {
    uint32_t sample;
    const char *reason; /* a line */
    bool junk;          /* pipelines with `junk` show it */
    uint64_t content;   /* stamp_hash_bytes() of the sample, or DATASET_NO_BYTES; 0: not known */
};

/** The result of dataset_keep_bad(). */
struct dataset_kept {
    uint8_t fingerprint[16]; /* the data set's, from now on */
    bool changed;            /* the fingerprint was different before */
};

/**
 * Write the list of bad samples to the cache folder: from the next opening on these samples are
 * refused without being read, and they are part of the fingerprint. None: the file is removed.
 *
 * @param bad  [count], in the order of samples. The data set must have been opened with forget_bad.
 * Errors: -EROFS there is no cache folder; another -errno of the file system.
 */
int dataset_keep_bad(const struct dataset *dataset, const struct dataset_bad *bad, uint32_t count,
                     struct dataset_kept *ret, struct plenum_error *err);
/** The path of that list, whether it exists or not; NULL where there is no cache folder. */
const char *dataset_get_bad_path(const struct dataset *dataset);
/** How many samples are known to be bad. */
uint32_t dataset_get_known_bad(const struct dataset *dataset);
/** Why a sample is known to be bad, a line; NULL: it is not. Borrowed. */
const char *dataset_get_why_bad(const struct dataset *dataset, uint32_t sample);

/**
 * How a data set differs from one whose index file lies at `index_path` (of another host, say): a
 * clause about the first difference into `ret`, fit for a terminal, or "".
 */
int dataset_compare(const struct dataset *dataset, const char *index_path, char *ret, size_t size,
                    struct plenum_error *err);
/** Tell the kernel that a sample will be read soon. It may do nothing; errors show when it is read.
 */
void dataset_announce(const struct dataset *dataset, uint32_t sample);
void dataset_buffer_fini(struct dataset_buffer *buffer);

/** Its hint cache, borrowed, or NULL: it has none. Threads: any. */
struct hint_cache;
struct hint_cache *dataset_get_hints(const struct dataset *dataset);
/** Why it has none although options.hints was set; 0: it has one. */
int dataset_get_hints_code(const struct dataset *dataset);

/** The folder for indices: $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or ~/.cache/plenum; 0, or
 * -ENOENT when there is none. */
int dataset_default_cache(char *ret, size_t size);

#endif

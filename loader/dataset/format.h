/* SPDX-License-Identifier: MIT */
/* format.h - the interface of a data set format; the table in formats.c lists them all. */
#ifndef LOADER_DATASET_FORMAT_H
#define LOADER_DATASET_FORMAT_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "common/util/util.h"
#include "loader/dataset/badlist.h"
#include "loader/dataset/class_list.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/field_table.h"
#include "loader/dataset/index_builder.h"
#include "loader/dataset/label.h"
#include "loader/dataset/mixed.h"
#include "loader/dataset/pattern.h"
#include "loader/dataset/scope.h"
#include "loader/dataset/skipped.h"

enum {
    DATASET_SETTINGS_MAX = 16,
    FINGERPRINT_SAMPLES = 256,     /* samples whose first bytes the fingerprint covers */
    FINGERPRINT_BYTES = 64 * 1024, /* bytes of each of them that it covers */
};

/** One ",key=value" of a data set's name. */
struct dataset_setting {
    char *key, *value;
};

struct dataset {
    const struct format *format;
    char *name;  /* canonical: "folder:/abs/path", settings sorted by key */
    char *where; /* the part after the colon, canonical */
    struct dataset_setting settings[DATASET_SETTINGS_MAX];
    unsigned num_settings;
    bool no_images;                     /* image=none: its samples have only fields */
    struct scope scope;                 /* opens all files, relative to the data set's folder */
    struct pattern_list files;          /* archives, relative to the folder, in order */
    struct archive_fds *fds;            /* descriptors of archives that are kept open */
    atomic_uint_fast64_t list_ctime_ns; /* the list's ctime when it was last found unchanged */
    struct remote *remote;              /* archives in a store, or NULL (remote.h) */
    void *state;                        /* private to the format */
    char *subject;                      /* identifies the indexed data */
    char *sidecar;                      /* `subject` of an uploaded index, or NULL */
    char warning[512];                  /* a message about files that were left out, or "" */
    char *index_path;                   /* the index's path, or NULL */
    struct label_rule labels;           /* label-offset and classes */
    struct class_list *classes;         /* during dataset_open(): from classes=, or NULL */
    struct index index;                 /* without samples if the data set is generated */
    char *bad_path;                     /* the list of bad samples, or NULL */
    struct badlist bad;                 /* samples that are rejected without being read */
    struct checksums *checksums;        /* checksums of samples that are files, or NULL */
    struct hint_cache *hints;           /* the hint cache, or NULL */
    int hints_code;                     /* -errno: why there is no hint cache */
    struct datasum sum;                 /* the index's checksum, with bad samples and fields */
    uint8_t fingerprint[16];            /* hash of sum */
    struct index_header generated;      /* index.header of a generated data set points to this */
    bool has_remote_sets;               /* whether a set of a plan is in a store */
    struct dataset *inner; /* if it is generated, the data set that labels come from, or NULL */
    struct mixed *mixed;   /* the data sets of a plan (format is NULL), or NULL */
    struct fields fields;  /* requested when it was opened */
    bool outlines;         /* dataset_options.outlines */
    struct field_table *field_table; /* the table of these fields, or NULL */
    int index_hold, table_hold;      /* from cache_hold(), or -1 */
    atomic_uint refs;
};

/** The setting that all formats with classes have. */
#define CLASSES_SETTING                                                             \
    {                                                                               \
        "classes", "a file of class names, a folder of class folders, or 'numbers'" \
    }

/** A plain path, and the file or folder there; for struct format's recognise. */
struct path_probe {
    const char *path;
    struct stat st;
    const uint8_t *head; /* [head_len]: the first bytes, if it is a regular file */
    size_t head_len;
};

/** A setting that a format understands. */
struct format_setting {
    const char *key;
    const char *help; /* a description of its value, for a message */
};

/**
 * One format. Functions that it does not need are NULL; for generated samples, these are all except
 * locate.
 */
struct format {
    const char *name; /* before the colon */
    const struct format_setting *settings;
    unsigned num_settings;
    /** Patterns of file names, by which a folder of such files is detected. */
    const char *const *patterns;
    unsigned num_patterns;
    bool remote; /* the files may be in a store */
    /** Returns whether the path has this format. */
    bool (*recognise)(const struct path_probe *probe);
    /** Resolve `where` and the settings: set the scope's folder, the files, and the canonical
     * `where`, with as few file system accesses as possible. */
    int (*locate)(struct dataset *dataset, const struct dataset_options *options,
                  struct plenum_error *err);
    /** Free `state`; called even after locate() has failed. */
    void (*release)(struct dataset *dataset);
    /** Add all samples to `b`, in order. */
    int (*scan)(const struct dataset *dataset, const struct dataset_options *options,
                struct index_builder *b, struct plenum_error *err);
    /** Each sample is a separate file, which dataset_read_file() reads. */
    bool whole_files;
    /** With whole_files, write the sample's path to `ret`, absolute or relative to the folder. */
    void (*file)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                 size_t size);
    /** Returns whether the open index is still up to date. Must be fast. */
    bool (*fresh)(const struct dataset *dataset);
    /** Like dataset_read(), but without retries. */
    int (*read)(const struct dataset *dataset, const struct index_sample *sample,
                struct dataset_buffer *buffer, struct plenum_error *err);
    /** Whether `read` accepts a sample with a shorter `len`, and reads only that part. */
    bool reads_part;
    /** Make the kernel start reading the sample's bytes, without waiting for them. */
    void (*announce)(const struct dataset *dataset, const struct index_sample *sample);
    /** Write the sample's path within the data set, such as "class/file.jpg", to `ret`. NULL:
     * samples have none. */
    void (*path)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                 size_t size);
    /** Write the name of the sample's file, for messages, to `ret`. */
    void (*describe)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                     size_t size);
    /** Set the places of the fields in dataset->fields; `places` [samples][fields] is all zeros.
     * NULL: fields() finds the fields. Returns 0, or -errno with `err` set. */
    int (*find_fields)(const struct dataset *dataset, const struct dataset_options *options,
                       struct field_place *places, struct plenum_error *err);
    /** Like `read`, but reads the bytes at a field's place. */
    int (*read_field)(const struct dataset *dataset, const struct index_sample *sample,
                      const struct field_place *place, struct dataset_buffer *buffer,
                      struct plenum_error *err);
    /** Write the path of the file that holds a sample's field with this source to `ret`. NULL:
     * fields are not files, or fields() returns paths (lists, if a field is npy, bytes or a
     * mask). */
    void (*field_path)(const struct dataset *dataset, const struct index_sample *sample,
                       const char *source, char *ret, size_t size);
    /** Like dataset_fields(). NULL: the format has no fields. Raises `memory` to the memory that it
     * used, unless `memory` is NULL. */
    int (*fields)(const struct dataset *dataset, const struct index_sample *sample,
                  dataset_field *field, void *arg, struct field_memory *memory,
                  struct plenum_error *err);
    /** Write the width and height that a sample's annotations give for its picture to `ret` [2];
     * zeros: they give none. NULL: annotations have no sizes. */
    void (*stated_size)(const struct dataset *dataset, const struct index_sample *sample,
                        uint32_t *ret);
    /** The fields that plenumctl verify checks if no others are requested, or NULL. */
    const char *own_fields;
    /** Pass on each fault in the annotations that reading a single sample does not detect. NULL:
     * there are none. */
    int (*check)(const struct dataset *dataset, dataset_fault *fault, void *arg,
                 struct plenum_error *err);
    /** Returns the most memory that decompressed blocks take. NULL: the format has no blocks. */
    uint64_t (*block_bytes)(const struct dataset *dataset);
};

extern const struct format format_coco, format_folder, format_generated, format_list, format_mds,
    format_parquet, format_tar, format_tfrecord, format_voc, format_yolo;

/** Make room for `len` bytes and the padding after them, which is zeroed. Returns 0 or -ENOMEM. */
int dataset_buffer_reserve(struct dataset_buffer *buffer, size_t len);

/**
 * Call `attempt`, and retry it a few times after a transient error. If it returns -ESTALE, -ENOENT
 * or -ENOTDIR, the next dataset_open() indexes the data set again.
 */
int dataset_try(const struct dataset *dataset, int (*attempt)(void *arg, struct plenum_error *err),
                void *arg, struct plenum_error *err);

/** Returns whether a name has the extension of a supported image (.jpg, .jpeg, .png, .ppm, .pnm,
 * and .webp and .avif if the build decodes them). Ignores case. */
bool dataset_is_image_name(const char *name);

/** Reject the setting "classes", for data sets without labels. Returns 0, or -EINVAL with `err`
 * set. */
int dataset_refuse_classes(const struct dataset *dataset, struct plenum_error *err);

/** Returns whether the file name matches one of the format's patterns. */
bool format_has_name(const struct format *format, const char *name);

/** Returns a setting's value, or `absent` if it is not set. */
const char *dataset_setting(const struct dataset *dataset, const char *key, const char *absent);
/** Get a setting's value as an integer between -2^31 and 2^31. Returns 0, or -EINVAL with `err`
 * set. */
int dataset_setting_number(const struct dataset *dataset, const char *key, int64_t absent,
                           int64_t *ret, struct plenum_error *err);

/** Reject any value of the setting "image" except "none". Returns 0, or -EINVAL with `err` set. */
int dataset_check_image_setting(const struct dataset *dataset, struct plenum_error *err);
/** Reject any value of the setting "image" except the extension of an image. */
int dataset_check_image_extension(const struct dataset *dataset, struct plenum_error *err);

/** Returns whether a file with this extension (including the dot) is an image of the data set. With
 * the setting "image", only files with that extension are. */
bool dataset_takes_extension(const struct dataset *dataset, const char *extension);
/** Like dataset_takes_extension(), for a file's name, which may contain further dots. */
bool dataset_takes_name(const struct dataset *dataset, const char *name);
/** Describe the files that are images of the data set in `ret`, for messages. Returns `ret`. */
char *dataset_describe_images(const struct dataset *dataset, char *ret, size_t size);

/** Make `path` the scope's folder. Returns 0, or -errno with `err` set. */
int dataset_enter(struct dataset *dataset, const char *path, struct plenum_error *err);

/** Returns -ECANCELED if the opening was cancelled, otherwise 0. Called in the loops of a scan. */
static inline int dataset_check_cancel(const struct dataset_options *options)
{
    return options->cancel && atomic_load_explicit(options->cancel, memory_order_relaxed)
               ? -ECANCELED
               : 0;
}

static inline uint64_t dataset_mtime(const struct stat *st)
{
    return stamp_time(&st->st_mtim);
}

enum { DATASET_PATH_MAX = 8192 };

/** Like struct format's read(), for a sample that is a separate file. A local file's size must be
 * sample->len. If a hash was recorded at the first read after indexing, the bytes must match it;
 * otherwise the mtime must be sample->where. */
int dataset_read_file(const struct dataset *dataset, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct plenum_error *err);
/** Check, without reading it, that a sample's file or archive has not changed since it was indexed.
 * Returns 0, or -ESTALE or another -errno with `err` set. */
int dataset_check_unchanged(const struct dataset *dataset, const struct index_sample *sample,
                            struct plenum_error *err);
/** Read the first FINGERPRINT_BYTES of a sample that is a file, and set `*ret` to its stamp, with
 * the hash of these bytes. Reads nothing of a bad sample. Returns 0; or -ESTALE (its size has
 * changed) or another -errno with `err` set. */
int dataset_read_head(const struct dataset *dataset, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct stamp *ret, struct plenum_error *err);
/** Find a file that holds a field, and write its size and mtime to `ret`. A missing file is not an
 * error. */
int dataset_find_field(const struct dataset *dataset, const char *path, struct field_place *ret,
                       struct plenum_error *err);
/** Read a sample's file that dataset_find_field() has found. Returns 0; or -ESTALE (it has changed)
 * or another -errno with `err` set. */
int dataset_read_field(const struct dataset *dataset, uint32_t sample, const char *path,
                       const struct field_place *place, struct dataset_buffer *buffer,
                       struct plenum_error *err);
/** Check that a file that was missing or too long still is. Returns 0, or -ESTALE or another -errno
 * with `err` set. */
int dataset_check_field(const struct dataset *dataset, const char *path,
                        const struct field_place *place, struct plenum_error *err);
/** Like struct format's announce. */
void dataset_announce_file(const struct dataset *dataset, const struct index_sample *sample);

/** Set the error for a file that has changed since it was indexed. Returns -ESTALE. */
int dataset_has_changed(const struct dataset *dataset, const char *path, struct plenum_error *err);

#endif

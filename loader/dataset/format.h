/* SPDX-License-Identifier: MIT */
/* format.h - the interface of a format of data sets; each is an entry of the table in formats.c. */
#ifndef LOADER_DATASET_FORMAT_H
#define LOADER_DATASET_FORMAT_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "common/util.h"
#include "loader/dataset/badlist.h"
#include "loader/dataset/class_list.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/fields.h"
#include "loader/dataset/index.h"
#include "loader/dataset/label.h"
#include "loader/dataset/pattern.h"
#include "loader/dataset/scope.h"
#include "loader/dataset/skipped.h"

enum {
    DATASET_SETTINGS_MAX = 16,
    FINGERPRINT_SAMPLES = 256,     /* whose first bytes are part of the fingerprint, */
    FINGERPRINT_BYTES = 64 * 1024, /* this many of each */
};

/** One ",key=value" of a data set's name. */
struct dataset_setting {
    char *key, *value;
};

struct dataset {
    const struct format *format;
    char *name;  /* canonical: "folder:/abs/path", settings in the order of their keys */
    char *where; /* what follows the colon, canonical */
    struct dataset_setting settings[DATASET_SETTINGS_MAX];
    unsigned num_settings;
    bool no_images;                     /* image=none: its samples have fields alone */
    struct scope scope;                 /* opens all files, relative to its folder */
    struct pattern_list files;          /* of archives: relative to the folder, in their order */
    struct archive_fds *fds;            /* of archives: the descriptors that are kept open */
    atomic_uint_fast64_t list_ctime_ns; /* a list's, when its text was last found to be the same */
    void *state;                        /* the format's own */
    char *subject;                      /* what the index is of */
    char warning[512];                  /* a sentence about what is not in the data set, or "" */
    char *index_path;                   /* or NULL */
    struct label_rule labels;           /* label-offset and classes */
    struct class_list *classes;         /* while it is being opened: those of classes=, or NULL */
    struct index index;                 /* without samples where they are generated */
    char *bad_path;                     /* of the list of bad samples, or NULL */
    struct badlist bad;                 /* known before anything is read */
    struct checksums *checksums;        /* of samples that are files, or NULL */
    struct hint_cache *hints;           /* or NULL; */
    int hints_code;                     /* then why there is none */
    struct datasum sum;                 /* the index's, with these */
    uint8_t fingerprint[16];            /* of sum */
    struct index_header generated;      /* generated: what index.header points to */
    struct dataset *inner;              /* generated: whose labels these are, or NULL */
    struct fields fields;               /* that it was opened with */
    struct field_table *field_table;    /* or NULL */
    int index_hold, table_hold;         /* cache_hold(); or -1 */
    atomic_uint refs;
};

/** The setting of all formats that number classes. */
#define CLASSES_SETTING                                                             \
    {                                                                               \
        "classes", "a file of class names, a folder of class folders, or 'numbers'" \
    }

/** What was found at a plain path, for formats to recognise. */
struct path_probe {
    const char *path;
    struct stat st;
    const uint8_t *head; /* [head_len]: first bytes of a regular file */
    size_t head_len;
};

/** A setting that a format understands. */
struct format_setting {
    const char *key;
    const char *help; /* what it is, for a message */
};

/**
 * An entry may leave out what it does not need (NULL): recognise, scan and all below it where
 * samples are generated.
 */
struct format {
    const char *name; /* before the colon */
    const struct format_setting *settings;
    unsigned num_settings;
    /** Patterns of its files' names, by which a folder of them is recognised. */
    const char *const *patterns;
    unsigned num_patterns;
    /** Does this format read what was found at the path? */
    bool (*recognise)(const struct path_probe *probe);
    /** Find the scope's folder, the files and the canonical `where` from `where` and the settings;
     * accesses the file system only as far as that needs. */
    int (*locate)(struct dataset *dataset, const struct dataset_options *options,
                  struct plenum_error *err);
    /** Free state; also after locate() has failed. */
    void (*release)(struct dataset *dataset);
    /** Fill `b` with all samples in their order. */
    int (*scan)(const struct dataset *dataset, const struct dataset_options *options,
                struct index_builder *b, struct plenum_error *err);
    /** Each sample is a file of its own, read by dataset_read_file(). */
    bool whole_files;
    /** Then its path, relative to the folder unless absolute. */
    void (*file)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                 size_t size);
    /** Is the opened index still true? Must be fast. */
    bool (*fresh)(const struct dataset *dataset);
    /** Read the bytes of an indexed sample; no retries here. As dataset_read(). */
    int (*read)(const struct dataset *dataset, const struct index_sample *sample,
                struct dataset_buffer *buffer, struct plenum_error *err);
    /** Have the kernel begin to read the sample's bytes, without waiting for them. */
    void (*announce)(const struct dataset *dataset, const struct index_sample *sample);
    /** The sample's path within the data set: "class/file.jpg". NULL: it has none. */
    void (*path)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                 size_t size);
    /** The sample's file for messages. */
    void (*describe)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                     size_t size);
    /** Where the fields lie that dataset->fields asks for: `places` is [samples][fields] of zeros.
     * NULL: fields() finds them. 0 or -errno with a sentence. */
    int (*find_fields)(const struct dataset *dataset, const struct dataset_options *options,
                       struct field_place *places, struct plenum_error *err);
    /** Bytes at such a place, as read. */
    int (*read_field)(const struct dataset *dataset, const struct index_sample *sample,
                      const struct field_place *place, struct dataset_buffer *buffer,
                      struct plenum_error *err);
    /** The path of the file that is a sample's field, by its source; NULL: fields are no files, or
     * fields() tells paths (of lists, where a field is npy, bytes or a mask). */
    void (*field_path)(const struct dataset *dataset, const struct index_sample *sample,
                       const char *source, char *ret, size_t size);
    /** The sample's further fields; NULL where there are none. As dataset_fields(). `memory` (or
     * NULL) is raised to what it took. */
    int (*fields)(const struct dataset *dataset, const struct index_sample *sample,
                  dataset_field *field, void *arg, struct field_memory *memory,
                  struct plenum_error *err);
};

extern const struct format format_folder, format_generated, format_list, format_tar,
    format_tfrecord;

/** Room for `len` bytes and the padding behind them, which is zeroed: 0 or -ENOMEM. */
int dataset_buffer_reserve(struct dataset_buffer *buffer, size_t len);

/**
 * Call `attempt` until it does not fail in a way that may pass after a moment, some times at most.
 * -ESTALE: the next opening indexes the data set again.
 */
int dataset_try(const struct dataset *dataset, int (*attempt)(void *arg, struct plenum_error *err),
                void *arg, struct plenum_error *err);

/** Has a name the extension of an image that is taken (.jpg, .jpeg, .png, .ppm, .pnm, and .webp
 * and .avif where the build decodes them, in any case)? */
bool dataset_is_image_name(const char *name);

/** For data sets without labels: -EINVAL with a sentence where there is the setting "classes"; 0.
 */
int dataset_refuse_classes(const struct dataset *dataset, struct plenum_error *err);

/** Has a file with this name the name of one of the format's archives? */
bool format_has_name(const struct format *format, const char *name);

/** A setting's value, or `absent`. */
const char *dataset_setting(const struct dataset *dataset, const char *key, const char *absent);
/** The same as a whole number between -2^31 and 2^31: 0, or -EINVAL with a sentence. */
int dataset_setting_number(const struct dataset *dataset, const char *key, int64_t absent,
                           int64_t *ret, struct plenum_error *err);

/** -EINVAL with a sentence, where the setting "image" is another than "none"; 0. */
int dataset_check_image_setting(const struct dataset *dataset, struct plenum_error *err);
/** The same where it is another than the extension of an image. */
int dataset_check_image_extension(const struct dataset *dataset, struct plenum_error *err);

/** Is a file with this extension (with its dot) an image of the data set? Where there is the
 * setting "image", only files with that extension are. */
bool dataset_takes_extension(const struct dataset *dataset, const char *extension);
/** The same of a file's name, which may have further dots. */
bool dataset_takes_name(const struct dataset *dataset, const char *name);
/** Which files these are, for messages: `ret`. */
char *dataset_describe_images(const struct dataset *dataset, char *ret, size_t size);

/** Make `path` the scope's folder: 0 or -errno with a sentence. */
int dataset_enter(struct dataset *dataset, const char *path, struct plenum_error *err);

/** 0, or -ECANCELED: for the loops of a scan. */
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

/** Read a sample that is a file: its size must be sample->len, its mtime sample->where, and its
 * bytes those that were first read since it was indexed; with the latter, the mtime may differ. As
 * struct format's read. */
int dataset_read_file(const struct dataset *dataset, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct plenum_error *err);
/** Check without reading it that what a sample lies in, its file or its archive, is what was
 * indexed: 0, -ESTALE or another -errno with a sentence. */
int dataset_check_unchanged(const struct dataset *dataset, const struct index_sample *sample,
                            struct plenum_error *err);
/** Read the first FINGERPRINT_BYTES of a sample that is a file, and its stamp with their hash; of a
 * bad sample nothing is read. 0; -ESTALE it has another size; or another -errno with a sentence. */
int dataset_read_head(const struct dataset *dataset, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct stamp *ret, struct plenum_error *err);
/** Of a file that is a field: its size and time, into `ret`; 0, also where there is none. */
int dataset_find_field(const struct dataset *dataset, const char *path, struct field_place *ret,
                       struct plenum_error *err);
/** Its bytes; -ESTALE it is not what was found, another -errno with a sentence. */
int dataset_read_field(const struct dataset *dataset, const char *path,
                       const struct field_place *place, struct dataset_buffer *buffer,
                       struct plenum_error *err);
/** Check of one whose bytes cannot be used, since it is missing or too long, that it still is: 0,
 * -ESTALE or another -errno with a sentence. */
int dataset_check_field(const struct dataset *dataset, const char *path,
                        const struct field_place *place, struct plenum_error *err);
/** As struct format's announce. */
void dataset_announce_file(const struct dataset *dataset, const struct index_sample *sample);

/** The sentence for a file that is not what was indexed. */
int dataset_has_changed(const struct dataset *dataset, const char *path, struct plenum_error *err);

#endif

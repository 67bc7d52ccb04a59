/* format.h - what a format of data sets must be able to do; one table entry a format (dataset.c).
 */
#ifndef LOADER_DATASET_FORMAT_H
#define LOADER_DATASET_FORMAT_H

#include <stdatomic.h>
#include <sys/stat.h>

#include "loader/dataset/dataset.h"
#include "loader/dataset/index.h"

struct dataset {
    const struct format *format;
    char *name;       /* canonical: "folder:/abs/path" */
    char *root;       /* absolute path of a folder, without links */
    int root_fd;      /* of it: opened once, files are opened relative to it */
    void *state;      /* the format's own */
    char *index_path; /* or NULL */
    struct index index;
    atomic_uint refs;
};

struct format {
    const char *name; /* before the colon, or before a comma and options */
    /** Is what lies at this plain path ours? */
    bool (*recognise)(const char *path);
    /** Find what a name stands for, and set name, root, root_fd and state. `text`: its options, or
     * NULL. The sentence leaves the name to the caller. */
    int (*resolve)(struct dataset *dataset, const char *text, const char *path,
                   const struct dataset_options *options, struct plenum_error *err);
    /** Free state; also after resolve() has failed. May be NULL. */
    void (*release)(struct dataset *dataset);
    /** Fill `b` with all samples in their order; `dataset` has name and root. */
    int (*scan)(const struct dataset *dataset, const struct dataset_options *options,
                struct index_builder *b, struct plenum_error *err);
    /** Is the index that was opened still what lies there? Must be fast. */
    bool (*fresh)(const struct dataset *dataset);
    /** Read the bytes of an indexed sample; no retries here. As dataset_read(). */
    int (*read)(const struct dataset *dataset, const struct index_sample *sample,
                struct dataset_buffer *buffer, struct plenum_error *err);
    /** Have the kernel begin to read the sample's bytes, without waiting for them. */
    void (*announce)(const struct dataset *dataset, const struct index_sample *sample);
    /** The sample's path within the data set: "class/file.jpg". */
    void (*path)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                 size_t size);
    /** The sample's file for messages. */
    void (*describe)(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                     size_t size);
};

extern const struct format format_folder, format_tar;

/** Room for `len` bytes and the padding behind them, which is zeroed: 0 or -ENOMEM. */
int dataset_buffer_reserve(struct dataset_buffer *buffer, size_t len);

uint64_t dataset_mtime_ns(const struct stat *st);
/** Would a change that is made from now on give another mtime? Not within the grain of the file
 * system's clock. */
bool dataset_mtime_settled(uint64_t mtime_ns);

/** Does a name end as an image's does (.jpg, .jpeg, .png, in any case)? */
bool dataset_is_image_name(const char *name);

#endif

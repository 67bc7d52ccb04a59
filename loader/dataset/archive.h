/* SPDX-License-Identifier: MIT */
/* archive.h - shared by data sets of archives (tar:, tfrecord:, parquet:, mds:): finds files by
 * patterns, indexes several archives in parallel, and reads by offset. */
#ifndef LOADER_DATASET_ARCHIVE_H
#define LOADER_DATASET_ARCHIVE_H

#include "common/util/message.h"
#include "loader/dataset/format.h"
#include "loader/dataset/source.h"

/** The settings common to all archive formats, for the format's table. */
#define ARCHIVE_SETTINGS                                                              \
    CLASSES_SETTING, {"part", "i/k: the i-th of k equal parts of the files, from 0"}, \
    {                                                                                 \
        "label-offset", "a whole number to add to every label"                        \
    }

/** One archive while one thread scans it. */
struct archive {
    void *arg;     /* archive_work.arg */
    size_t number; /* index among the archives */
    const struct dataset *dataset;
    const struct dataset_options *options;
    const char *name; /* relative to the root */
    char *path;       /* for messages */
    struct source source;
    uint64_t size;
    struct index_builder builder;   /* of this archive only; its samples have container 0 */
    atomic_uint_fast64_t *progress; /* bytes scanned in all archives; add to it */
    struct plenum_error err;
};

/** struct format's locate: expands the name, selects the part, enters the common folder. */
int archive_locate(struct dataset *dataset, const struct dataset_options *options,
                   struct plenum_error *err);

/** The two steps of archive_locate(), for a format whose archives are listed in the files that its
 * name expands to. archive_find() expands the name: sets `files`, as full paths, and the canonical
 * name. archive_enter() selects the part of `files`, whose first one was number `*first`, and
 * enters their common folder. 0 or -errno with `err` set. */
int archive_find(struct dataset *dataset, const struct dataset_options *options,
                 struct plenum_error *err);
int archive_enter(struct dataset *dataset, uint32_t *first, struct plenum_error *err);

/** How a format indexes archives. */
struct archive_work {
    /** Fill archive->builder: 0, or -errno with archive->err set. Called from several threads. */
    int (*scan)(struct archive *archive);
    /** Merge all archives into one index: 0, or -errno with `err` set. */
    int (*merge)(struct archive *archives, size_t count, struct index_builder *b,
                 struct plenum_error *err);
    void *arg; /* archive->arg */
};

/** struct format's scan: calls `scan` for each archive, then `merge`. Fails if an archive changes
 * meanwhile. */
int archive_scan(const struct dataset *dataset, const struct dataset_options *options,
                 const struct archive_work *work, struct index_builder *b,
                 struct plenum_error *err);

/** Does a data set of rows have labels? Not if label=none, or with image=none and no label=. */
bool archive_has_labels(const struct dataset *dataset);

/** For `merge`: append all archives to `b`, in order. 0 or -errno with `err` set. */
int archive_append(struct archive *archives, size_t count, struct index_builder *b,
                   struct plenum_error *err);

/** struct format's fresh and announce. Containers after the archives are other files that the index
 * was built from. */
bool archive_fresh(const struct dataset *dataset);
void archive_announce(const struct dataset *dataset, const struct index_sample *sample);
/** Like archive_announce(), for these bytes of the sample's archive. */
void archive_announce_range(const struct dataset *dataset, const struct index_sample *sample,
                            uint64_t offset, uint64_t len);

/** The number of a sample among those of its archive. */
uint64_t archive_number(const struct dataset *dataset, const struct index_sample *sample);
/** Write the path of the sample's archive to `ret`; returns the bytes written. */
size_t archive_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                    size_t size);

/**
 * Open the sample's archive, which has not changed since it was indexed; an object is compared when
 * it is read. Release it with archive_close(). 0, or -ESTALE or another -errno with `err` set.
 */
int archive_open(const struct dataset *dataset, const struct index_sample *sample,
                 struct source *ret, struct plenum_error *err);
void archive_close(const struct dataset *dataset, const struct index_sample *sample,
                   const struct source *source);
/** Set the error for a failed read of an archive: `shorter` is a clause for -ENODATA, which becomes
 * -ESTALE. An object's error is set already. */
MESSAGE int archive_read_failed(const struct dataset *dataset, const struct index_sample *sample,
                                int code, const char *shorter, struct plenum_error *err);
/** Prefix a message with the archive's path, unless it begins with it, as an object's error does.
 */
int archive_prefix(struct archive *archive, int code);
/** Like archive_name_error(), when a sample is read. */
int archive_prefix_read(const struct dataset *dataset, const struct index_sample *sample, int code,
                        struct plenum_error *err);
/** Threads that scan archives. */
unsigned archive_threads(const struct dataset *dataset, const struct dataset_options *options);
/** Close all descriptors that are kept open. Called when the data set is destroyed. */
void archive_forget(struct dataset *dataset);

/** Like struct format's read, for bytes at `offset` of the sample's archive. */
int archive_read(const struct dataset *dataset, const struct index_sample *sample, uint64_t offset,
                 struct dataset_buffer *buffer, struct plenum_error *err);
/** Like archive_read(), for bytes of another length, such as those of a field. */
int archive_read_range(const struct dataset *dataset, const struct index_sample *sample,
                       uint64_t offset, uint32_t len, struct dataset_buffer *buffer,
                       struct plenum_error *err);

#endif

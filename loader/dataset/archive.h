/* SPDX-License-Identifier: MIT */
/* archive.h - the code that the formats with archives share (tar:, tfrecord:, parquet:, mds:). It
 * finds files by patterns, indexes several archives in parallel, and reads by offset. */
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
    struct index_builder builder;   /* indexes only this archive; its samples have container 0 */
    atomic_uint_fast64_t *progress; /* bytes scanned in all archives; the scan adds to it */
    struct plenum_error err;
};

/** Implements struct format's locate: expands the name, selects the part, and enters the common
 * folder. */
int archive_locate(struct dataset *dataset, const struct dataset_options *options,
                   struct plenum_error *err);

/** The two steps of archive_locate(), for a format whose name expands to files that list its
 * archives. archive_find() expands the name, and sets `files`, as full paths, and the canonical
 * name. archive_enter() reduces `files` to the part, sets `*first` to the part's first index, and
 * enters the common folder. Both return 0, or -errno with `err` set. */
int archive_find(struct dataset *dataset, const struct dataset_options *options,
                 struct plenum_error *err);
int archive_enter(struct dataset *dataset, uint32_t *first, struct plenum_error *err);

/** How a format indexes archives. */
struct archive_work {
    /** Fill archive->builder. Returns 0, or -errno with archive->err set. Called from several
     * threads. */
    int (*scan)(struct archive *archive);
    /** Merge all archives into one index. Returns 0, or -errno with `err` set. */
    int (*merge)(struct archive *archives, size_t count, struct index_builder *b,
                 struct plenum_error *err);
    void *arg; /* archive->arg */
};

/** Implements struct format's scan: calls work->scan for each archive, then work->merge. Fails if
 * an archive changes in the meantime. */
int archive_scan(const struct dataset *dataset, const struct dataset_options *options,
                 const struct archive_work *work, struct index_builder *b,
                 struct plenum_error *err);

/** Returns whether a data set of rows has labels: not with label=none, and with image=none only if
 * label= is set. */
bool archive_has_labels(const struct dataset *dataset);

/** Append all archives to `b`, in order; for work->merge. Returns 0, or -errno with `err` set. */
int archive_append(struct archive *archives, size_t count, struct index_builder *b,
                   struct plenum_error *err);

/** These two implement struct format's fresh and announce. Containers after the archives are other
 * files from which the index was built. */
bool archive_fresh(const struct dataset *dataset);
void archive_announce(const struct dataset *dataset, const struct index_sample *sample);
/** Like archive_announce(), for a range of the sample's archive. */
void archive_announce_range(const struct dataset *dataset, const struct index_sample *sample,
                            uint64_t offset, uint64_t len);

/** Returns the number of a sample among those of its archive. */
uint64_t archive_number(const struct dataset *dataset, const struct index_sample *sample);
/** Write the path of the sample's archive to `ret`; returns the bytes written. */
size_t archive_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                    size_t size);

/**
 * Open the sample's archive, and check that it has not changed since it was indexed. (An object in
 * a store is checked when it is read.) Release it with archive_close(). Returns 0, or -ESTALE or
 * another -errno with `err` set.
 */
int archive_open(const struct dataset *dataset, const struct index_sample *sample,
                 struct source *ret, struct plenum_error *err);
void archive_close(const struct dataset *dataset, const struct index_sample *sample,
                   const struct source *source);
/** Set the error for a failed read of an archive. -ENODATA becomes -ESTALE, with the clause
 * `shorter`. The error of an object in a store is already set. */
MESSAGE int archive_read_failed(const struct dataset *dataset, const struct index_sample *sample,
                                int code, const char *shorter, struct plenum_error *err);
/** Prefix archive->err with the archive's path, unless the message already begins with that path,
 * as those about objects do. Returns `code`.
 */
int archive_prefix(struct archive *archive, int code);
/** Like archive_prefix(), for an error of reading a sample. */
int archive_prefix_read(const struct dataset *dataset, const struct index_sample *sample, int code,
                        struct plenum_error *err);
/** Returns the number of threads that scan archives; 0: one per CPU. */
unsigned archive_threads(const struct dataset *dataset, const struct dataset_options *options);
/** Close all descriptors that were kept open. Called when the data set is destroyed. */
void archive_forget(struct dataset *dataset);

/** Like struct format's read: reads the sample's bytes at `offset` of its archive. */
int archive_read(const struct dataset *dataset, const struct index_sample *sample, uint64_t offset,
                 struct dataset_buffer *buffer, struct plenum_error *err);
/** Like archive_read(), but for a range of any length, such as a field. */
int archive_read_range(const struct dataset *dataset, const struct index_sample *sample,
                       uint64_t offset, uint32_t len, struct dataset_buffer *buffer,
                       struct plenum_error *err);

#endif

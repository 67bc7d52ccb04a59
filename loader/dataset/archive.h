/* SPDX-License-Identifier: MIT */
/* archive.h - what data sets of archives (tar:, tfrecord:) share: they find files by patterns,
 * index several archives at once, and read by offset. */
#ifndef LOADER_DATASET_ARCHIVE_H
#define LOADER_DATASET_ARCHIVE_H

#include "loader/dataset/format.h"

/** The settings of all archives: for the format's table. */
#define ARCHIVE_SETTINGS                                                              \
    CLASSES_SETTING, {"part", "i/k: the i-th of k equal parts of the files, from 0"}, \
    {                                                                                 \
        "label-offset", "a whole number that is added to every label"                 \
    }

/** One archive while it is scanned, by one thread. */
struct archive {
    void *arg;     /* archive_scan()'s */
    size_t number; /* among the archives */
    const struct dataset *dataset;
    const struct dataset_options *options;
    const char *name; /* relative to the root */
    char *path;       /* for messages */
    int fd;
    uint64_t size;
    struct index_builder builder;   /* of this archive alone; its samples' container is 0 */
    atomic_uint_fast64_t *progress; /* scanned bytes of all archives: add to it */
    struct plenum_error err;
};

/** struct format's locate: expands the name, selects the part, enters the common folder. */
int archive_locate(struct dataset *dataset, const struct dataset_options *options,
                   struct plenum_error *err);

/** How a format indexes archives. */
struct archive_work {
    /** Fill archive->builder, several archives at once: 0, or -errno with a sentence in
     * archive->err. */
    int (*scan)(struct archive *archive);
    /** Make one index of all archives: 0, or -errno with a sentence. */
    int (*merge)(struct archive *archives, size_t count, struct index_builder *b,
                 struct plenum_error *err);
    void *arg; /* archive->arg */
};

/** struct format's scan: `scan` for each archive, then `merge`. An archive that changes meanwhile
 * is an error. */
int archive_scan(const struct dataset *dataset, const struct dataset_options *options,
                 const struct archive_work *work, struct index_builder *b,
                 struct plenum_error *err);

/** struct format's fresh and announce. Containers behind the archives are other files that the
 * index was made of. */
bool archive_fresh(const struct dataset *dataset);
void archive_announce(const struct dataset *dataset, const struct index_sample *sample);

/** Path of the archive that a sample lies in, into `ret`; returns the bytes it took. */
size_t archive_path(const struct dataset *dataset, const struct index_sample *sample, char *ret,
                    size_t size);

/**
 * A descriptor of the sample's archive, which is known to be what was indexed. Give it back with
 * archive_close(). -ESTALE or another -errno with a sentence.
 */
int archive_open(const struct dataset *dataset, const struct index_sample *sample,
                 struct plenum_error *err);
void archive_close(const struct dataset *dataset, const struct index_sample *sample, int fd);
/** Close those that are kept: the data set is about to end. */
void archive_forget(struct dataset *dataset);

/** Bytes of an archive at `offset` into the buffer, as struct format's read. */
int archive_read(const struct dataset *dataset, const struct index_sample *sample, uint64_t offset,
                 struct dataset_buffer *buffer, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* index.h - reads and writes the file that records where each sample of a data set is stored. */
#ifndef LOADER_DATASET_INDEX_H
#define LOADER_DATASET_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/datasum.h"
#include "loader/dataset/stamp.h"

enum index_flag {
    INDEX_BAD = 1, /* the scan found the sample damaged */
};

/** One sample, as stored in the file. */
struct index_sample {
    uint64_t where;     /* the file's mtime in ns, or the offset of the sample's bytes in the
                         * archive */
    uint64_t name : 48; /* offset of the sample's name in the names */
    uint64_t flags : 16;
    uint32_t len;       /* bytes */
    uint32_t container; /* number of its folder, archive or list */
    int32_t label;
    uint32_t extra; /* private to the format */
};

/** A folder, archive, list or other file from which the index was built. If it changes, the index
 * is stale. */
struct index_container {
    uint64_t name; /* offset of its path, relative to the root, in the names */
    struct stamp stamp;
};

/** A sample that is a separate file, and whose first bytes the fingerprint covers. */
struct index_head {
    uint64_t sample;
    struct stamp stamp; /* its `content` is the hash of the first bytes */
};

/** The header of an index file. */
struct index_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t checksum;       /* XXH3-64 of the file with this field zero */
    uint8_t fingerprint[16]; /* hash of `sum` */
    uint32_t samples, classes, containers;
    uint32_t class_names; /* equal to classes, or 0 */
    uint64_t heads;
    uint64_t samples_at, containers_at, heads_at, classes_at, names_at, names_bytes;
    uint64_t made_ns; /* identifies this build of the index for the files beside it */
    uint64_t subject; /* offset in the names: index_subject() */
    uint64_t warning; /* offset in the names: index_warning() */
    uint64_t bytes;   /* size of all samples */
    uint64_t skipped; /* files that are not images */
    struct index_checked {
        uint32_t deep;      /* 16-bit PNGs */
        uint32_t turned;    /* JPEGs that EXIF turns, but those below */
        uint32_t as_stored; /* of these, those whose annotations give the size as stored */
        uint32_t unused;
    } checked; /* numbers of images among the samples read for the sum */
    struct datasum sum;
};

/** An index in memory: mapped from a file, or built and not yet written. Constant. */
struct index {
    const struct index_header *header;
    const struct index_sample *samples;
    const struct index_container *containers;
    const struct index_head *heads;
    const uint64_t *classes; /* offsets of class names, if any */
    const char *names;       /* NUL-terminated strings */
    size_t bytes;
    bool mapped;
};

static inline const char *index_name(const struct index *index, uint64_t at)
{
    return index->names + at;
}

struct index_builder;

/** Build the index, with room for `heads` heads. Free it with index_close(). Returns 0 or
 * -ENOMEM. */
int index_build(const struct index_builder *b, size_t heads, struct index *ret);

/** Store the checksum, the fingerprint and the numbers of images in an index from index_build(). */
void index_set_sum(struct index *index, const struct datasum *sum,
                   const struct index_checked *checked);
/** Store head `i` in an index from index_build(), before index_set_sum(). Threads: any, for
 * different heads. */
void index_set_head(struct index *index, uint64_t i, const struct index_head *head);

/** Returns whether a new index has the same samples as an older one, in the same places and with
 * the same labels. Stamps may differ. Labels of samples that are now damaged (INDEX_BAD) are
 * unknown, and are not compared. */
bool index_is_alike(const struct index *now, const struct index *index);

/** Copy the index, with another subject, to `*ret` [*len] (malloc), in the form of a file. Returns
 * 0 or -ENOMEM. */
int index_copy_as(const struct index *index, const char *subject, void **ret, size_t *len);

/** Write the index to the cache folder atomically. Returns 0 or -errno. */
int index_write(const struct index *index, const char *path);

/** Map an index file of ours, or read it if it cannot be mapped safely (cache_may_map()). Returns
 * 0; -ENOENT; -EPERM if other users can write to it; -EBADMSG if it is truncated, damaged or has
 * another version; or another -errno. */
int index_open(const char *path, struct index *ret);
/** Like index_open(), but always reads the file, which may belong to any user. */
int index_read(const char *path, struct index *ret);
/** Remove the file at `path` if it is this index, not a newer one. */
void index_remove(const struct index *index, const char *path);
/** index_subject() returns the string of index_builder_set_subject(), index_warning() the warning
 * about files that were left out, or "". Borrowed. */
const char *index_subject(const struct index *index);
const char *index_warning(const struct index *index);
void index_close(struct index *index);

#endif

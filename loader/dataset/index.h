/* SPDX-License-Identifier: MIT */
/* index.h - the file that says where each sample of a data set lies. */
#ifndef LOADER_DATASET_INDEX_H
#define LOADER_DATASET_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/datasum.h"
#include "loader/dataset/label.h"
#include "loader/dataset/stamp.h"

enum index_flag {
    INDEX_BAD = 1, /* of a sample: what was read while scanning is known to be damaged */
};

/** One sample, as it lies in the file. */
struct index_sample {
    uint64_t where;     /* of its own file: mtime in ns; within an archive: offset of its bytes */
    uint64_t name : 48; /* offset of its name in the names */
    uint64_t flags : 16;
    uint32_t len;       /* bytes */
    uint32_t container; /* the folder, archive or list that it comes from */
    int32_t label;
    uint32_t extra; /* the format's own */
};

/** A folder, archive or list, whose change makes the index stale. */
struct index_container {
    uint64_t name; /* offset of its path, relative to the root, in the names */
    struct stamp stamp;
};

/** A sample that is a file of its own, and whose first bytes are part of the fingerprint. */
struct index_head {
    uint64_t sample;
    struct stamp stamp; /* with the hash of these bytes as its content */
};

/** Of the index as a whole. */
struct index_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t checksum;       /* XXH3-64 of the file with this field zero */
    uint8_t fingerprint[16]; /* of `sum` */
    uint32_t samples, classes, containers;
    uint32_t class_names; /* as many as classes, or none */
    uint64_t heads;
    uint64_t samples_at, containers_at, heads_at, classes_at, names_at, names_bytes;
    uint64_t made_ns; /* so that what is kept beside the index belongs to this one alone */
    uint64_t subject; /* offset in the names of what was indexed: index_subject() */
    uint64_t warning; /* likewise: a sentence about what is not in it, or "" */
    uint64_t bytes;   /* of all samples */
    uint64_t skipped; /* files that are no images */
    uint64_t deep;    /* PNGs of 16 bits among the samples that the sum has read */
    struct datasum sum;
};

/** An index in memory: mapped from a file, or made and not (yet) written. Constant. */
struct index {
    const struct index_header *header;
    const struct index_sample *samples;
    const struct index_container *containers;
    const struct index_head *heads;
    const uint64_t *classes; /* offsets of their names, if they have any */
    const char *names;       /* NUL-terminated texts */
    size_t bytes;
    bool mapped;
};

static inline const char *index_name(const struct index *index, uint64_t at)
{
    return index->names + at;
}

/** Memory that is used to make an index, by several threads together. */
struct index_memory {
    atomic_size_t held;
    size_t limit;     /* 0: none */
    atomic_bool over; /* more was wanted */
};

/** Charge so many bytes more: 0, or -ENOMEM beyond the limit. NULL has no limit. */
int index_memory_charge(struct index_memory *memory, size_t bytes);
void index_memory_refund(struct index_memory *memory, size_t bytes);
/** array_grow(), whose memory counts. */
int index_memory_grow(struct index_memory *memory, void *array, size_t *cap, size_t count,
                      size_t size);

/** A label as it was written, before labels are settled to be numbers or names. */
struct index_label {
    uint64_t text;      /* offset in the names */
    uint64_t first;     /* the first sample that has it */
    struct label label; /* its class, once settled */
};

enum { FOREIGN_KINDS = 13 };

/**
 * What an index is made from, in the order of samples. Starts as zeros.
 *
 * Labels are either added as classes (folders: a class is known before its samples), or as texts by
 * index_builder_add_label(); the latter are numbers of no meaning until
 * index_builder_settle_labels() makes class numbers of them.
 */
struct index_builder {
    struct index_sample *samples;
    size_t num_samples, cap_samples;
    struct index_container *containers;
    size_t num_containers, cap_containers;
    uint64_t *classes;
    size_t num_classes, cap_classes;
    bool unnamed; /* num_classes counts classes that have no names */
    char *names;
    size_t names_bytes, cap_names;
    struct index_label *labels;
    size_t num_labels, cap_labels;
    uint32_t *label_slots; /* hash table of numbers + 1 of labels */
    size_t num_label_slots;
    uint64_t bytes, skipped;
    uint64_t foreign[FOREIGN_KINDS]; /* of skipped: images of other formats or names */
    uint64_t dotted;                 /* samples whose images' names have a further dot */
    char dotted_name[128];           /* the first of them, */
    char dotted_extension[64];       /* and their extension; "": they have several */
    uint64_t empty_classes;          /* folders of classes without an image */
    char empty_names[256];           /* the first of them: "'a', 'b'" */
    char spellings[400];             /* about labels that are one number, or "" */
    uint64_t subject, warning;       /* offsets in the names; 0: none was set */
    struct index_memory *memory;     /* borrowed, or NULL */
    const struct label_rule *rule;   /* of its labels; borrowed, or NULL: there are no settings */
};

void index_builder_fini(struct index_builder *b);
/** Each: the number of what was added, or -ENOMEM, or -EOVERFLOW beyond 2^31 - 1 classes or
 * containers. */
int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len);
int64_t index_builder_add_class(struct index_builder *b, const char *name);
/** A class with a name that another has already. */
int64_t index_builder_add_class_again(struct index_builder *b, uint32_t other);
int64_t index_builder_add_container(struct index_builder *b, const char *path,
                                    const struct stamp *stamp);
/** `sample` with its name filled in here ("": samples without names share one). -EOVERFLOW at
 * 2^32 - 1 samples. */
int64_t index_builder_add_sample(struct index_builder *b, const struct index_sample *sample,
                                 const char *name);
/**
 * Read a label by b->rule: the number that identifies its text until labels are settled, for the
 * next sample's `label`.
 *
 * Errors: -EBADMSG with a sentence that begins with the label: label_read() rejects it, or it is a
 * name where another label is a number, or the reverse; -ENOMEM and -EOVERFLOW without a sentence.
 */
int64_t index_builder_add_label(struct index_builder *b, enum label_source source, const char *text,
                                size_t len, struct plenum_error *err);

/** All of `part` behind what `b` holds: 0, -ENOMEM or -EOVERFLOW. */
int index_builder_append(struct index_builder *b, const struct index_builder *part);

/**
 * Make class numbers of all labels: names that no list numbers are numbered in their byte order.
 * Samples without a label (-1) get class 0.
 *
 * 0; -EBADMSG with a sentence that names a sample: numbers and names are mixed; -EINVAL an offset
 * for names; -ENOMEM.
 */
int index_builder_settle_labels(struct index_builder *b, struct plenum_error *err);

/** Add the classes that b->rule lists, or, with classes=numbers, those from 0 to `highest`; nothing
 * without a list. 0 or -ENOMEM. */
int index_builder_add_listed(struct index_builder *b, int64_t highest);

/** What the index is of: any text, by which one under a wrong name is told. 0 or -ENOMEM. */
int index_builder_set_subject(struct index_builder *b, const char *text);

/** A file is passed over: is it an image of a format that is not decoded, by its name? */
void index_builder_count_foreign(struct index_builder *b, const char *name);
/** A sample has no image, but for one whose name has more dots than that of its extension. */
void index_builder_count_dotted(struct index_builder *b, const char *name, const char *extension);
/** All that a part has passed over. */
void index_builder_add_skipped(struct index_builder *b, const struct index_builder *part);
/** A class has no images. */
void index_builder_count_empty(struct index_builder *b, const char *class);
/** "8 images of other formats or names (6 .webp, 2 .jfif)", or "": `ret`. */
char *index_builder_describe_foreign(const struct index_builder *b, char *ret, size_t size);
/** What to do about these: "convert them". */
const char *index_builder_advise_foreign(const struct index_builder *b);
/** "is" of one, "are" of several. */
const char *index_builder_foreign_verb(const struct index_builder *b);
/** Add the sentence about what was left out, from these counts. 0 or -ENOMEM. */
int index_builder_set_warning(struct index_builder *b);

/** Make the index, with room for so many heads. The caller frees it with index_close(). 0 or
 * -ENOMEM. */
int index_build(const struct index_builder *b, size_t heads, struct index *ret);

/** Write sum, fingerprint and the number of PNGs of 16 bits into an index that was built. */
void index_set_sum(struct index *index, const struct datasum *sum, uint32_t deep);
/** Write head number `i` of an index that was built; before index_set_sum(). Threads: any, for
 * different heads. */
void index_set_head(struct index *index, uint64_t i, const struct index_head *head);

/** Has an index that was made now the samples of an older one at the same places, with the same
 * labels? Stamps may differ, and samples may be damaged now (INDEX_BAD), whose labels are unknown.
 */
bool index_is_alike(const struct index *now, const struct index *index);

/** Write it into the cache folder, as a whole: 0 or -errno. */
int index_write(const struct index *index, const char *path);

/** Map a file of ours, or read it where it cannot be mapped safely (cache_may_map()): 0; -ENOENT;
 * -EPERM others could have written it; -EBADMSG it is cut short, damaged or of another version; or
 * another -errno. */
int index_open(const char *path, struct index *ret);
/** Read a file that may be anybody's. */
int index_read(const char *path, struct index *ret);
/** Remove the file at `path` if it holds this index, and not one that was made since. */
void index_remove(const struct index *index, const char *path);
/** What the index was said to be of, and the sentence about what was left out. Borrowed. */
const char *index_subject(const struct index *index);
const char *index_warning(const struct index *index);
void index_close(struct index *index);

#endif

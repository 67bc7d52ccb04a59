/* SPDX-License-Identifier: MIT */
/* index_builder.h - collects the contents of an index while a data set is being scanned. */
#ifndef LOADER_DATASET_INDEX_BUILDER_H
#define LOADER_DATASET_INDEX_BUILDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/index.h"
#include "loader/dataset/label.h"

/** The memory that all threads together use to build an index. */
struct index_memory {
    atomic_size_t held;
    size_t limit;     /* 0: none */
    atomic_bool over; /* a charge exceeded the limit */
};

/** Charge `bytes` more. Returns 0, or -ENOMEM if that exceeds the limit. NULL has no limit. */
int index_memory_charge(struct index_memory *memory, size_t bytes);
void index_memory_refund(struct index_memory *memory, size_t bytes);
/** Like array_grow(), but charges `memory`. */
int index_memory_grow(struct index_memory *memory, void *array, size_t *cap, size_t count,
                      size_t size);

/** A label as it was written, before it is known whether labels are numbers or names. */
struct index_label {
    uint64_t text;      /* offset in the names */
    uint64_t first;     /* the first sample with this label */
    struct label label; /* its class, once settled */
};

enum { FOREIGN_KINDS = 13 };

/**
 * Collects the contents of an index, in the order of samples. Zero-initialised.
 *
 * Labels are added in one of two ways: as classes, by formats that know a class before its samples
 * (folders), or as text, by index_builder_add_label(), which returns temporary numbers.
 * index_builder_settle_labels() replaces these with class numbers.
 */
struct index_builder {
    struct index_sample *samples;
    size_t num_samples, cap_samples;
    struct index_container *containers;
    size_t num_containers, cap_containers;
    uint64_t *classes;
    size_t num_classes, cap_classes;
    bool unnamed; /* classes have no names, and num_classes only counts them */
    char *names;
    size_t names_bytes, cap_names;
    struct index_label *labels;
    size_t num_labels, cap_labels;
    uint32_t *label_slots; /* hash table: numbers of labels, plus 1 */
    size_t num_label_slots;
    uint64_t bytes, skipped;
    uint64_t foreign
        [FOREIGN_KINDS];   /* images with other formats or extensions, which `skipped` includes */
    uint64_t dotted;       /* samples whose image's name has another dot before the extension */
    char dotted_name[128]; /* the first of these names */
    char dotted_extension[64];     /* their extension; "" if they have several */
    uint64_t empty_classes;        /* class folders without an image */
    char empty_names[256];         /* the names of the first ones: "'a', 'b'" */
    uint64_t packed;               /* samples in compressed blocks */
    uint64_t packed_bytes;         /* bytes that are decompressed to read each of these once */
    char about_labels[600];        /* clauses about surprising labels, or "" */
    uint64_t subject, warning;     /* offsets in the names; 0: not set */
    struct index_memory *memory;   /* borrowed, or NULL */
    const struct label_rule *rule; /* how to read labels; borrowed; NULL: default settings */
};

void index_builder_fini(struct index_builder *b);
/** The functions up to index_builder_add_sample() return the number of the added item (of a name:
 * its offset); -ENOMEM; or -EOVERFLOW beyond 2^31 - 1 classes or containers. */
int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len);
int64_t index_builder_add_class(struct index_builder *b, const char *name);
/** Add a class with the name of another one. */
int64_t index_builder_add_class_again(struct index_builder *b, uint32_t other);
int64_t index_builder_add_container(struct index_builder *b, const char *path,
                                    const struct stamp *stamp);
/** Add `sample` and set its name. Consecutive samples without a name ("") share one entry.
 * -EOVERFLOW beyond 2^32 - 2 samples. */
int64_t index_builder_add_sample(struct index_builder *b, const struct index_sample *sample,
                                 const char *name);
/**
 * Read a label by b->rule. Returns a number that identifies its text until labels are settled. The
 * caller stores that number as the next sample's `label`.
 *
 * Errors: -EBADMSG label_read() rejects it, or it is a name while another label is a number, or the
 * reverse; `err` begins with the label. -ENOMEM and -EOVERFLOW do not set `err`.
 */
int64_t index_builder_add_label(struct index_builder *b, enum label_source source, const char *text,
                                size_t len, struct plenum_error *err);

/** Name the classes 0 ... count - 1 when labels are numbers; further classes have no name, which
 * the warning says. Returns 0, -ENOMEM, or -EOVERFLOW (too many classes for an index). */
int index_builder_name_classes(struct index_builder *b, const char *const *names, uint32_t count);

/** Append everything in `part` to `b`. Returns 0, -ENOMEM, or -EOVERFLOW (too many samples for an
 * index). */
int index_builder_append(struct index_builder *b, const struct index_builder *part);

/**
 * Turn all labels into class numbers. Without a class list, names are numbered in byte order.
 * Samples without a label (-1) get class 0.
 *
 * Returns 0; -EBADMSG if numbers and names are mixed (`err` names a sample); -EINVAL if there is a
 * label offset, but labels are names; or -ENOMEM.
 */
int index_builder_settle_labels(struct index_builder *b, struct plenum_error *err);

/** Add the classes that b->rule lists, or those from 0 to `highest` with classes=numbers. Without a
 * list, adds none. Returns 0 or -ENOMEM. */
int index_builder_add_listed(struct index_builder *b, int64_t highest);

/** Set a string that identifies the indexed data, by which an index under a wrong name is detected.
 * Returns 0 or -ENOMEM. */
int index_builder_set_subject(struct index_builder *b, const char *text);

/** Count a skipped file. If its name is that of an image that we do not decode, count it as
 * foreign, too. */
void index_builder_count_foreign(struct index_builder *b, const char *name);
/** Count a sample whose only image has further dots in its name before the extension. */
void index_builder_count_dotted(struct index_builder *b, const char *name, const char *extension);
/** Add the counts of the files that `part` skipped. */
void index_builder_add_skipped(struct index_builder *b, const struct index_builder *part);
/** Count a class without images. */
void index_builder_count_empty(struct index_builder *b, const char *class);
/** Write a phrase such as "8 images in other formats or with other extensions (6 .webp, 2 .jfif)",
 * or "", to `ret`. Returns `ret`. */
char *index_builder_describe_foreign(const struct index_builder *b, char *ret, size_t size);
/** Returns advice about foreign images, such as "convert them". */
const char *index_builder_advise_foreign(const struct index_builder *b);
/** Returns "is" for one foreign image, "are" for several. */
const char *index_builder_foreign_verb(const struct index_builder *b);
/** Set the warning about files that were left out, from these counts. Returns 0 or -ENOMEM. */
int index_builder_set_warning(struct index_builder *b);

#endif

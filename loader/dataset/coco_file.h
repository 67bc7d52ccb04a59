/* SPDX-License-Identifier: MIT */
/* coco_file.h - reads a file of annotations in COCO's format (cocodataset.org, "Data format"): the
 * lists "images", "annotations" and "categories". */
#ifndef LOADER_DATASET_COCO_FILE_H
#define LOADER_DATASET_COCO_FILE_H

#include "loader/dataset/index_builder.h"
#include "loader/dataset/json_stream.h"

/** An image, category or annotation of the file. Texts are offsets in `text`. */
struct coco_image {
    int64_t id;
    uint64_t name;          /* file_name */
    uint32_t width, height; /* 0: missing, or not a size */
};

struct coco_category {
    int64_t id;
    uint64_t name;
};

struct coco_object {
    int64_t image, category, id;
    uint64_t text; /* the members of its JSON object that are kept, except its category */
    /* The outline is not kept, only its place in the file, and a hash of its bytes; a length of 0:
     * there is none. */
    uint64_t outline;
    uint32_t outline_len, outline_hash;
};

/** The contents of a file. Zero-initialised, except `memory`. */
struct coco_file {
    struct coco_image *images; /* by id */
    size_t num_images, cap_images;
    struct coco_category *categories; /* by id */
    size_t num_categories, cap_categories;
    struct coco_object *objects; /* by image, then as in the file */
    size_t num_objects, cap_objects;
    char *text;
    size_t text_bytes, cap_text;
    unsigned lists;              /* lists that were found, for coco_file.c */
    struct index_memory *memory; /* borrowed, or NULL */
};

/** Read all of the file. Errors: those of json_stream_read(); -EBADMSG with `err` set: a list or a
 * member is missing, an id is used twice, or an annotation belongs to no image or category. */
int coco_file_read(struct coco_file *f, const struct json_source *source, struct plenum_error *err);
void coco_file_fini(struct coco_file *f);

/** Returns the index of a category, or -1. */
int64_t coco_file_category(const struct coco_file *f, int64_t id);

#endif

/* SPDX-License-Identifier: MIT */
/* yolo_yaml.h - reads the data.yaml of a YOLO data set.
 *
 * This is a small part of YAML: members of the outermost mapping whose values are plain or quoted
 * strings on one line, and lists and mappings of these, in blocks or in brackets. Everything else
 * is rejected, except in members that are not used. */
#ifndef LOADER_DATASET_YOLO_YAML_H
#define LOADER_DATASET_YOLO_YAML_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum yolo_split { YOLO_TRAIN, YOLO_VAL, YOLO_TEST, YOLO_SPLITS };

enum {
    YOLO_CLASSES_MAX = 1 << 16,
    YOLO_POINTS_MAX = 1 << 10, /* key points of an object */
};

/** Strings, in order. */
struct yolo_texts {
    char **all; /* [count], malloc */
    size_t count, cap;
};

/** The contents of the file. Zero-initialised. */
struct yolo_yaml {
    char *path;                            /* the root of the folders, or NULL */
    struct yolo_texts splits[YOLO_SPLITS]; /* folders and lists */
    struct yolo_texts names;               /* of classes; [i] NULL: none, during parsing */
    int64_t nc;                            /* number of classes; -1: not given */
    struct yolo_texts points;              /* kpt_shape */
    uint32_t num_points, point_values; /* key points of an object, and numbers of each: 2 or 3 */
};

/** Parse a file. Returns 0; -EBADMSG with `err` set, which names the line; or -ENOMEM. Without
 * names, classes are called class_0, class_1 ... */
int yolo_yaml_parse(const char *text, size_t len, struct yolo_yaml *ret, struct plenum_error *err);
void yolo_yaml_fini(struct yolo_yaml *y);

#endif

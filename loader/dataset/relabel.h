/* SPDX-License-Identifier: MIT */
/* relabel.h - replaces a data set's classes with those that a file lists (a plan's
 * relabel=FILE). */
#ifndef LOADER_DATASET_RELABEL_H
#define LOADER_DATASET_RELABEL_H

#include <stdint.h>

#include "loader/dataset/dataset.h"

/** Opaque and constant. Threads: any. */
struct relabel;

/**
 * Read the file: each line has a class, a tab or a comma, and the class's new name or number.
 * Classes that the file does not name are left out.
 *
 * Errors: -EINVAL a line is malformed, or the data set has no such class; -ENOENT, -EACCES and
 * others of the file system; -ENOMEM.
 */
int relabel_open(const struct dataset *dataset, const char *path, struct relabel **ret,
                 struct plenum_error *err);
/** NULL is ignored. */
void relabel_close(struct relabel *relabel);

/** Returns the number of classes that are left out. */
uint32_t relabel_left_out(const struct relabel *relabel);

/** Like dataset_get_label() and similar functions, but with the new classes or, if `relabel` is
 * NULL, with the data set's own. The label of a class that is left out is -1. */
int64_t relabel_get_label(const struct relabel *relabel, const struct dataset *dataset,
                          uint32_t sample);
uint32_t relabel_get_classes(const struct relabel *relabel, const struct dataset *dataset);
uint32_t relabel_get_class_names(const struct relabel *relabel, const struct dataset *dataset);
const char *relabel_get_class_name(const struct relabel *relabel, const struct dataset *dataset,
                                   uint32_t label);

/** Returns a hash of each old class's new class, and of the new classes' names. */
uint64_t relabel_hash(const struct relabel *relabel);

#endif

/* SPDX-License-Identifier: MIT */
/* remote.h - data sets whose files are objects in a store: finds them, and keeps what the store
 * says about them. */
#ifndef LOADER_DATASET_REMOTE_H
#define LOADER_DATASET_REMOTE_H

#include "loader/dataset/format.h"
#include "loader/dataset/source.h"

/** A data set's part of this file; NULL for local files. */
struct remote;

/** Threads that wait for answers of a store at the same time. */
enum { REMOTE_THREADS = 64 };

/** Prepare dataset->remote: 0 or -errno with `err` set. */
int remote_create(struct dataset *dataset, const struct dataset_options *options,
                  struct plenum_error *err);
void remote_destroy(struct dataset *dataset);
/** dataset_open() has ended, and with it the time in which it can be cancelled. */
void remote_end_opening(struct dataset *dataset);

/**
 * Find the archives that dataset->where names: their canonical names, in order, in dataset->files,
 * and the canonical form of `where`. What the store says about them is kept.
 */
int remote_find(struct dataset *dataset, struct plenum_error *err);

/** Create the objects of dataset->files, whose names become relative to their common folder
 * `folder`. */
int remote_enter(struct dataset *dataset, const char *folder, struct plenum_error *err);

/**
 * Learn sizes and versions of the objects with these canonical names, by a listing if they have one
 * prefix.
 *
 * @param optional  ignore names without an object: remote_facts() then returns NULL for them
 */
int remote_learn(const struct dataset *dataset, const struct pattern_list *names, bool optional,
                 struct plenum_error *err);
/** The facts that were learned about a name, or NULL. Borrowed until remote_end_finding(). */
const struct object_facts *remote_facts(const struct dataset *dataset, const char *name);
/** Forget all that was learned about names. */
void remote_end_finding(const struct dataset *dataset);

/** The canonical name, malloc, of an object by its path: a name in a store, or a path that is not
 * encoded and begins in `folder`. 0 or -errno with `err` set. */
int remote_join(const char *folder, const char *path, char **ret, struct plenum_error *err);

/** The object of a file: its number in dataset->files. */
const struct store_object *remote_object(const struct dataset *dataset, size_t number);

/** Announce a range of a sample to the store. */
void remote_announce_range(const struct dataset *dataset, const struct source *source,
                           uint64_t offset, uint64_t len);
/** The data set's samples are known: from now on the disk cache, if there is one, keeps them, and
 * knows each of them. */
void remote_begin_caching(struct dataset *dataset);
/** The number of its set (diskcache_get_set()). KEEP_NONE: it is not cached. */
uint32_t remote_get_set(const struct dataset *dataset);

/** A stamp of what the store says. */
struct stamp remote_stamp(const struct object_facts *facts);
/** Do they belong to the same version? */
bool remote_stamp_is(const struct stamp *stamp, const struct object_facts *facts);

/** What the store says about an object by its path from the scope's folder: 0, -ENOENT or another
 * -errno with `err` set. */
int remote_stat(const struct dataset *dataset, const char *path, struct object_facts *ret,
                struct plenum_error *err);
/** Read all of an object of this size and object_version() into `dst`: 0 or -errno with `err`
 * set. */
int remote_read(const struct dataset *dataset, const char *path, const struct object_facts *facts,
                uint8_t *dst, struct plenum_error *err);
/** Fetch an object soon, for remote_read(). */
void remote_announce(const struct dataset *dataset, const char *path,
                     const struct object_facts *facts);
/** What was announced will not be read. Has no effect on a data set that is not remote. */
void remote_forget_announced(const struct dataset *dataset);

/** Has another object beside the archives, such as classes.txt, still this stamp? */
bool remote_holds(const struct dataset *dataset, const char *name, const struct stamp *stamp);

/** Read a whole object of at most `most` bytes, by its name or below the folder: 0 with its text,
 * malloc and NUL-terminated; with NULL if there is none; or -errno with `err` set. */
int remote_read_whole(const struct dataset *dataset, const char *name, uint64_t most, char **ret,
                      struct stamp *stamp, struct plenum_error *err);

/** Write an object below the folder: 0 with its whole name, malloc, in `*ret`; or an error of
 * store_write(). */
int remote_write(const struct dataset *dataset, const char *name, const void *bytes, size_t len,
                 char **ret, struct plenum_error *err);

#endif

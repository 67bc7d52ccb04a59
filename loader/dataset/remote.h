/* SPDX-License-Identifier: MIT */
/* remote.h - opens data sets whose files are objects in a store: finds the objects, and keeps the
 * store's facts about them. */
#ifndef LOADER_DATASET_REMOTE_H
#define LOADER_DATASET_REMOTE_H

#include "loader/dataset/format.h"
#include "loader/dataset/source.h"

/** The state of a data set in a store; NULL for local files. */
struct remote;

/** The number of threads that wait for answers of a store at the same time. */
enum { REMOTE_THREADS = 64 };

/** Prepare dataset->remote, and replace a name on the Hugging Face Hub in dataset->where by its
 * URL. Returns 0, or -errno with `err` set. */
int remote_create(struct dataset *dataset, const struct dataset_options *options,
                  struct plenum_error *err);
void remote_destroy(struct dataset *dataset);
/** Note that dataset_open() has ended, and can no longer be cancelled. */
void remote_end_opening(struct dataset *dataset);

/**
 * Find the archives that dataset->where names. Sets dataset->files to their canonical names, in
 * order, and `where` to its canonical form. The store's facts about them are kept.
 */
int remote_find(struct dataset *dataset, struct plenum_error *err);

/** Create the objects of dataset->files, whose names become relative to their common folder
 * `folder`, the scope's folder. Frees the facts that were learned about names. */
int remote_enter(struct dataset *dataset, const char *folder, struct plenum_error *err);

/**
 * Learn the sizes and versions of the objects with these canonical names, from a listing if they
 * have one prefix.
 *
 * @param optional  ignore names without an object: remote_facts() then returns NULL for them
 */
int remote_learn(const struct dataset *dataset, const struct pattern_list *names, bool optional,
                 struct plenum_error *err);
/** Returns the facts that were learned about a name, or NULL. Borrowed until
 * remote_end_finding(). */
const struct object_facts *remote_facts(const struct dataset *dataset, const char *name);
/** Free the facts that were learned about names. */
void remote_end_finding(const struct dataset *dataset);

/** Set `*ret` to the canonical name (malloc) of an object. `path` is a name in a store, or a path
 * that is not encoded and is relative to `folder`. Returns 0, or -errno with `err` set. */
int remote_join(const char *folder, const char *path, char **ret, struct plenum_error *err);

/** Returns the object of a file, by its number in dataset->files. */
const struct store_object *remote_object(const struct dataset *dataset, size_t number);

/** Start to keep the samples of the open data set in the cache of samples, if there is one. */
void remote_begin_caching(struct dataset *dataset);
/** Returns the set of the data set's samples in the cache of samples. KEEP_NO_SET: they are not
 * cached. */
uint64_t remote_get_set(const struct dataset *dataset);

/** Returns a stamp with the store's facts. */
struct stamp remote_stamp(const struct object_facts *facts);
/** Returns whether a stamp and the store's facts belong to the same version of an object. */
bool remote_stamp_is(const struct stamp *stamp, const struct object_facts *facts);

/** Get the store's facts about an object, by its path from the scope's folder. Returns 0, or
 * -ENOENT or another -errno with `err` set. */
int remote_stat(const struct dataset *dataset, const char *path, struct object_facts *ret,
                struct plenum_error *err);
/** Read all of a sample's object, with this size and object_version(), into `dst`. Returns 0, or
 * -errno with `err` set. */
int remote_read(const struct dataset *dataset, const char *path, const struct object_facts *facts,
                uint32_t sample, uint8_t *dst, struct plenum_error *err);
/** Start to fetch an object for a later remote_read(). */
void remote_announce(const struct dataset *dataset, const char *path,
                     const struct object_facts *facts);
/** Note that announced objects will not be read. Has no effect on a data set that is not remote. */
void remote_forget_announced(const struct dataset *dataset);

/** Returns whether an object that is not an archive, such as classes.txt, still has this stamp. */
bool remote_holds(const struct dataset *dataset, const char *name, const struct stamp *stamp);

/** Read a whole object of at most `most` bytes, by its name or its path below the folder, into
 * `*ret` (malloc, NUL-terminated). Returns 0, with NULL if there is no such object or access is
 * denied; or -errno with `err` set. */
int remote_read_whole(const struct dataset *dataset, const char *name, uint64_t most, char **ret,
                      struct stamp *stamp, struct plenum_error *err);

/** Write an object below the folder. Returns 0 with its full name (malloc) in `*ret`, or an error
 * of store_write(). */
int remote_write(const struct dataset *dataset, const char *name, const void *bytes, size_t len,
                 char **ret, struct plenum_error *err);

#endif

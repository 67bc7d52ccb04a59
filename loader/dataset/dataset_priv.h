/* SPDX-License-Identifier: MIT */
/* dataset_priv.h - shared by the files that open a data set, in this order: name.c and formats.c
 * parse its name and find its format, indexing.c and fingerprint.c find or build its index, and
 * known_bad.c reads the list of bad samples. */
#ifndef LOADER_DATASET_DATASET_PRIV_H
#define LOADER_DATASET_DATASET_PRIV_H

#include "common/util/message.h"
#include "loader/dataset/format.h"

/* formats.c */

/** Returns the format with this name, or NULL. */
const struct format *format_find(const char *name, size_t len);
/** Write "folder:, tar:" and so on to `ret`, for a message. */
void format_names(char *ret, size_t size);
/** Detect the format of a plain path, or of the first file that it matches as a pattern. Returns 0
 * or -errno. */
int format_recognise(const struct scope *p, const char *name, const struct format **ret,
                     struct plenum_error *err);

/** Like format_recognise(), for a name in a store. Only its last part is examined. */
int format_recognise_remote(const char *name, const struct format **ret, struct plenum_error *err);

/* detection_hint.c */

/** Warn if a folder that is read as a folder of classes is arranged like a detection data set. */
void detection_hint_folder(struct dataset *d, const char *folder);
/** Returns that warning and those after it, or NULL if there is no such warning. Borrowed. */
const char *detection_find_hint(const struct dataset *d);
/** Reject a file of annotations whose format is not named. Returns 0, or -EINVAL with `err` set. */
int detection_refuse_file(const struct path_probe *probe, struct plenum_error *err);

/* name.c */

/** Check that the path is below a root, or would be if it existed. Call this before any other
 * access. */
int name_check_scope(const struct scope *p, const char *name, struct plenum_error *err);
/** Returns the canonical name, "format,key=value:where" (malloc). */
char *name_canonical(const struct dataset *d);
/** Read the settings about labels, including classes=. Returns 0, or -errno with `err` set. */
int name_read_labels(struct dataset *d, struct plenum_error *err);
/** Parse a name into format, settings and location. Returns 0, or -errno with `err` set. */
int name_parse(struct dataset *d, const char *name, struct plenum_error *err);

/* indexing.c */

/** Take the lock for writing beside the index. Returns 0 with the lock in `*ret`, or with -1 if the
 * file system has no locks; -EALREADY if another process still holds the lock after `tries`
 * attempts (UINT_MAX: wait until it is free); or -ECANCELED. */
int indexing_lock(const struct dataset *d, const struct dataset_options *options, unsigned tries,
                  int *ret);
/** Find or build the data set's index. Returns 0, or -errno with `err` set. */
int indexing_open(struct dataset *d, const struct dataset_options *options,
                  struct plenum_error *err);

/* fingerprint.c */

/** Returns the number of heads of the index: samples that are separate files, and whose first bytes
 * the fingerprint covers. */
size_t fingerprint_heads(const struct dataset *d, size_t samples);
/** Compute the checksum of the index in parts, set its heads, and count images of some kinds among
 * the samples that this reads. Returns 0, or -errno with `err` set. */
int fingerprint_sum(struct dataset *d, const struct dataset_options *options, struct datasum *sum,
                    struct index_checked *checked, struct plenum_error *err);
/** Returns whether the bytes of the index's heads are unchanged. Reads the heads whose stamps
 * differ. */
bool fingerprint_holds(const struct dataset *d);

/* known_bad.c */

/** Read the list of bad samples, and compute the fingerprint with it. Returns 0, or -errno with
 * `err` set. */
int known_bad_load(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err);

/** Returns a sample's entry in the list, or NULL. Borrowed. */
const struct dataset_bad *known_bad_find(const struct dataset *d, uint32_t sample);
/** Remove a sample from the list in the cache folder, if that is writable. */
void known_bad_forget(const struct dataset *d, uint32_t sample);

/* dataset.c */

/** Append a clause to the warning: `what`, followed by `more`. */
MESSAGE void dataset_add_warning(struct dataset *d, const char *what, const char *more);

#endif

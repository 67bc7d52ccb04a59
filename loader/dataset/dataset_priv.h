/* SPDX-License-Identifier: MIT */
/* dataset_priv.h - shared by the files that open a data set. They do that in this order: name.c and
 * formats.c parse its name and find its format, indexing.c and fingerprint.c find or make its
 * index, known_bad.c reads the list of bad samples. */
#ifndef LOADER_DATASET_DATASET_PRIV_H
#define LOADER_DATASET_DATASET_PRIV_H

#include "common/message.h"
#include "loader/dataset/format.h"

/* formats.c */

/** The format of this name, or NULL. */
const struct format *format_find(const char *name, size_t len);
/** "folder:, tar:" and so on, for a message. */
void format_names(char *ret, size_t size);
/** The format of a plain path, or of the first file that it matches: 0 or -errno. */
int format_recognise(const struct scope *p, const char *name, const struct format **ret,
                     struct plenum_error *err);

/* name.c */

/** Check, before anything else, that the path lies below a root, or would if it existed. */
int name_check_scope(const struct scope *p, const char *name, struct plenum_error *err);
/** The canonical name, "format,key=value:where". malloc. */
char *name_canonical(const struct dataset *d);
/** Read what the settings say of labels, classes= among them: 0 or -errno with a sentence. */
int name_read_labels(struct dataset *d, struct plenum_error *err);
/** Parse a name into format, settings and location: 0 or -errno with a sentence. */
int name_parse(struct dataset *d, const char *name, struct plenum_error *err);

/* indexing.c */

/** Take the lock for writing beside the index: 0 and the lock, or -1 where the file system has no
 * locks. Tries so many times while another process holds it (UINT_MAX: until it is free).
 * -EALREADY: another process still holds it. -ECANCELED. */
int indexing_lock(const struct dataset *d, const struct dataset_options *options, unsigned tries,
                  int *ret);
/** Find the data set's index, or make one: 0 or -errno with a sentence. */
int indexing_open(struct dataset *d, const struct dataset_options *options,
                  struct plenum_error *err);

/* fingerprint.c */

/** How many samples are files of their own whose first bytes are part of the fingerprint: heads of
 * the index. */
size_t fingerprint_heads(const struct dataset *d, size_t samples);
/** Compute the sum of the index, in parts, fill its heads, and count the PNGs of 16 bits among the
 * samples that it reads: 0 or -errno with a sentence. */
int fingerprint_sum(struct dataset *d, const struct dataset_options *options, struct datasum *sum,
                    uint32_t *deep, struct plenum_error *err);
/** Have the index's heads still the bytes that they had? Reads those whose stamps differ. */
bool fingerprint_holds(const struct dataset *d);

/* known_bad.c */

/** Read the list of bad samples, and compute the fingerprint with it: 0 or -errno with a
 * sentence. */
int known_bad_load(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err);

/** The entry of a sample on the list, or NULL. Borrowed. */
const struct dataset_bad *known_bad_find(const struct dataset *d, uint32_t sample);
/** Remove a sample from the list in the cache folder, as far as that can be written. */
void known_bad_forget(const struct dataset *d, uint32_t sample);

/* dataset.c */

/** Append a clause to the warning: `what` and `more`. */
MESSAGE void dataset_add_warning(struct dataset *d, const char *what, const char *more);

#endif

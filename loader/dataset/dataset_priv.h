/* SPDX-License-Identifier: MIT */
/* dataset_priv.h - opening a data set, for the files that do it, in this order: name.c and
 * formats.c say what it is, indexing.c and fingerprint.c what is in it, known_bad.c what of that is
 * bad. */
#ifndef LOADER_DATASET_DATASET_PRIV_H
#define LOADER_DATASET_DATASET_PRIV_H

#include "common/message.h"
#include "loader/dataset/format.h"

/* formats.c */

/** The format of this name, or NULL. */
const struct format *format_find(const char *name, size_t len);
/** "folder:, tar:" and so on, for a message. */
void format_names(char *ret, size_t size);
/** The format of a plain path, or of the first of the files that it stands for: 0 or -errno. */
int format_recognise(const struct scope *p, const char *name, const struct format **ret,
                     struct plenum_error *err);

/* name.c */

/** Before anything is looked at: does it lie below a root, or would it if it were there? */
int name_check_scope(const struct scope *p, const char *name, struct plenum_error *err);
/** "format,key=value:where" of what is known by now. malloc. */
char *name_canonical(const struct dataset *d);
/** Format, settings and place of a name, into the data set: 0 or -errno with a sentence. */
int name_parse(struct dataset *d, const char *name, struct plenum_error *err);

/* indexing.c */

/** Be the one that writes beside the index: 0, and the lock, or -1 where there can be none. Another
 * that indexes is waited for so many times, or until it is done (UINT_MAX). -EALREADY: it goes on.
 * -ECANCELED. */
int indexing_lock(const struct dataset *d, const struct dataset_options *options, unsigned tries,
                  int *ret);
/** Find the data set's index, or make one: 0 or -errno with a sentence. */
int indexing_open(struct dataset *d, const struct dataset_options *options,
                  struct plenum_error *err);

/* fingerprint.c */

/** What the index is of, in parts: 0 or -errno with a sentence. */
int fingerprint_sum(const struct dataset *d, const struct dataset_options *options,
                    struct datasum *sum, struct plenum_error *err);

/* known_bad.c */

/** Read the list of bad samples, and make the fingerprint with it: 0 or -errno with a sentence. */
int known_bad_load(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err);

/* dataset.c */

/** One more clause of the warning: `what` and `more`, which may hold names of others. */
MESSAGE void dataset_add_warning(struct dataset *d, const char *what, const char *more);

#endif

/* SPDX-License-Identifier: MIT */
/* cache.h - the folder in which indices, notes and lists of bad samples are kept, and its files.
 *
 * It may be a folder that others write to, too. So nothing in it is believed but what is ours or
 * root's and cannot be written by anybody else, and what we write is ours alone. */
#ifndef LOADER_DATASET_CACHE_H
#define LOADER_DATASET_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** The folder: `given`, or the default one (dataset_default_cache()), which is made if it is not
 * there. 0 or -errno. */
int cache_folder(const char *given, char *ret, size_t size);

/** Whose files are in that folder: root's are those of the folder's owner, so that root can work
 * for a service or a user. Names of files hold this, so that users of one folder do not meet. */
uid_t cache_owner(const char *folder);

/** Open a file for reading, or for both: a descriptor; -EPERM: it is another's, or others may write
 * to it; or another -errno. */
int cache_open(const char *path, bool write);
/** The same of a file that is made if it is not there, for flock(). */
int cache_open_lock(const char *path);

/** May a file on this file system be mapped? Across a network it may be replaced or cut by another
 * host, and looking at its pages ends the process (SIGBUS). */
bool cache_may_map(int fd);

/** Write a file as a whole, readable for its owner alone: 0 or -errno. */
int cache_write(const char *path, const void *bytes, size_t len);
int cache_remove(const char *path);
/** Remove, now, what a killed cache_write() has left of this file and of those whose names begin
 * like it: by who holds a lock that keeps others from writing it. */
void cache_remove_leftovers(const char *path);

#endif

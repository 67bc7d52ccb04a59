/* SPDX-License-Identifier: MIT */
/* cache.h - the folder of indices, hints, checksums and lists of bad samples, and its files.
 *
 * Others may write to the folder, too. So we trust only files that belong to us or to root and that
 * nobody else can write; and nobody else can write our files. */
#ifndef LOADER_DATASET_CACHE_H
#define LOADER_DATASET_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/** The folder: `given`, or the default one (dataset_default_cache()), which is made if it is not
 * there. 0 or -errno. */
int cache_folder(const char *given, char *ret, size_t size);

/** The user whose files are used in that folder: the effective user, but for root the owner of the
 * folder, so that root can work for a service or a user. Names of files hold this uid, so that
 * users of one folder have different files. */
uid_t cache_owner(const char *folder);

/** Open a file for reading, or for reading and writing: a descriptor; -EPERM: it belongs to another
 * user, or others may write to it; or another -errno. */
int cache_open(const char *path, bool write);
/** The same for a file that is created if it is missing, for flock(). */
int cache_open_lock(const char *path);

/** May a file on this file system be mapped? On a network file system another host may replace or
 * cut it, and reading its pages then ends the process (SIGBUS). */
bool cache_may_map(int fd);

/** Write a file as a whole, readable for its owner alone: 0 or -errno. */
int cache_write(const char *path, const void *bytes, size_t len);
/** All `len` bytes of a file, mapped or read: 0; -EBADMSG it has another length; or -errno. */
int cache_load(int fd, size_t len, bool map, void **ret);
/** What cache_load() gave; NULL is nothing. */
void cache_unload(void *bytes, size_t len, bool mapped);
int cache_remove(const char *path);
/** Remove the temporary files that a killed cache_write() has left of this file, and of those whose
 * names begin like it. The caller holds a lock that keeps others from writing it. */
void cache_remove_leftovers(const char *path);

#endif

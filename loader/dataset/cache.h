/* SPDX-License-Identifier: MIT */
/* cache.h - the cache folder, which holds indices and the files beside them, such as tables of
 * fields, hints, checksums and lists of bad samples.
 *
 * Other users may be able to write to the folder. So we trust only files that belong to us or to
 * root and that no other user can write, and we create our files that way. */
#ifndef LOADER_DATASET_CACHE_H
#define LOADER_DATASET_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Write the folder's path to `ret`: `given`, or if it is NULL the default
 * (dataset_default_cache()). A missing folder is created. Returns 0 or -errno. */
int cache_folder(const char *given, char *ret, size_t size);

/** Returns the user whose files are used in that folder: the effective user, or, for root, the
 * owner of the folder, so that root can act for a service or a user. File names contain this uid,
 * so users who share a folder have different files. */
uid_t cache_owner(const char *folder);

/** Open a file for reading. Returns a descriptor; -EPERM if the file is neither ours nor root's, or
 * other users can write to it; or another -errno. */
int cache_open(const char *path);
/** Like cache_open(), for reading and writing. */
int cache_open_writable(const char *path);
/** Like cache_open(), for a lock file, which is created if missing. */
int cache_open_lock(const char *path);

/** Returns whether a file on this file system may be mapped. On a network file system, another host
 * can replace or truncate it, and reading its pages would then raise SIGBUS. */
bool cache_may_map(int fd);

/** Write a file atomically, readable only by its owner. Returns 0 or -errno. */
int cache_write(const char *path, const void *bytes, size_t len);
/** Returns the XXH3-64 of a file's bytes, with zeros instead of the checksum that is stored at
 * offset `at`. */
uint64_t cache_checksum(const void *bytes, size_t len, size_t at);
/** Map or read all `len` bytes of a file. Returns 0; -EBADMSG if its length differs; or another
 * -errno. */
int cache_load(int fd, size_t len, bool map, void **ret);
/** Free the result of cache_load(). NULL is ignored. */
void cache_unload(void *bytes, size_t len, bool mapped);
int cache_remove(const char *path);
/** Remove temporary files left by a killed cache_write() of this file, or of a file whose name
 * begins with this one's. The caller holds a lock, so that no process is writing them. */
void cache_remove_leftovers(const char *path);

#endif

/* SPDX-License-Identifier: MIT */
/* shelf.h - reads and writes the files of the cache, on the disk or in memory. Threads: any number
 * may read; only one may write and erase. */
#ifndef LOADER_CACHE_SHELF_H
#define LOADER_CACHE_SHELF_H

#include <stdint.h>

#include <plenum/error.h>

#include "loader/cache/keep.h"

/** Opaque. */
struct shelf;

enum {
    SHELF_RECORD_MAX = 16 << 20, /* bytes of a record */
    SHELF_ROWS = 16384,          /* records in a file */
    SHELF_FILES = 4096,
};

/** Receives what the files say about a record. `bytes` is NULL if there is no such record. The
 * result matters only to shelf_load(). */
typedef bool shelf_found(void *arg, uint32_t number, const struct keep_bytes *bytes);

/**
 * Open the files in `folder`, which is created if missing, to read the records of the process that
 * uses them. If `folder` is NULL, the files are in memory, which is freed with the process.
 *
 * Errors: -EPERM another user owns the folder or can write to it; -ENOMEM; others of the file
 * system.
 */
int shelf_attach(const char *folder, struct shelf **ret, struct plenum_error *err);
/** Report all records, and all numbers without a record, of the process that uses the files.
 * Returns 0 or -errno. */
int shelf_follow(struct shelf *shelf, shelf_found *found, void *arg);

/** Lock the files against other processes. Has no effect on files in memory. Errors: -EBUSY another
 * process uses them; -EPERM as for shelf_attach(); others of the file system. */
int shelf_take(struct shelf *shelf, struct plenum_error *err);
/**
 * Report the records of the process that used the files before. Damaged ones, and those for which
 * `found` returns false, are erased, and files in another format are removed. shelf_write() and
 * shelf_erase() may be called afterwards. After an error, the files are no longer locked.
 *
 * Errors: -ENOMEM; others of the file system.
 */
int shelf_load(struct shelf *shelf, shelf_found *found, void *arg, struct plenum_error *err);
void shelf_close(struct shelf *shelf);

/** Returns the checksum of a record's bytes. */
uint64_t shelf_hash(const struct keep_key *key, const void *bytes, uint32_t len);

/** Write a record. Returns 0, or -errno, after which it must be erased. -ENOSPC: the disk is nearly
 * full. */
int shelf_write(struct shelf *shelf, uint32_t number, const struct keep_bytes *bytes,
                const void *content);
/** Read a record. Returns 0; -EBADMSG if it is damaged or is being erased; or another -errno. */
int shelf_read(const struct shelf *shelf, uint32_t number, const struct keep_bytes *bytes,
               void *dst);
/** Advise the kernel that a record will be read soon. */
void shelf_announce(const struct shelf *shelf, uint32_t number, uint32_t len);
/** Erase a record and free its space. Returns 0 or -errno. */
int shelf_erase(struct shelf *shelf, uint32_t number);

#endif

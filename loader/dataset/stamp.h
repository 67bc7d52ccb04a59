/* SPDX-License-Identifier: MIT */
/* stamp.h - what tells that a file or folder is still the one that was indexed.
 *
 * Anybody can set the mtime back (tar, rsync -a, unzip and cp -a do), but only the kernel writes
 * the ctime. So equal mtimes prove nothing where the ctime or the inode differs: then the content
 * decides, which is the names and types of a folder's entries, or a file's bytes. Some file systems
 * have no ctime of their own (FUSE, squashfs, FAT): there the entries of folders are compared every
 * time. */
#ifndef LOADER_DATASET_STAMP_H
#define LOADER_DATASET_STAMP_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct scope;

enum stamp_flag {
    /** It had not changed just before it was looked at, so a later change shows in its times. */
    STAMP_SETTLED = 1,
    /** There was nothing at this path, and there must still be nothing. */
    STAMP_ABSENT = 2,
    /** Its file system is not known to keep ctimes. */
    STAMP_NO_CTIME = 4,
    /** Its inode number may change by itself. */
    STAMP_NO_INODE = 8,
    /** Only its type must stay the same: a link was skipped for what it leads to. */
    STAMP_TYPE = 16,
};

/** As it lies in an index. */
struct stamp {
    uint64_t mtime_ns;
    uint64_t ctime_ns;
    uint64_t inode;
    uint64_t size;    /* 0 for folders */
    uint64_t content; /* hash of a file's bytes, sum of stamp_hash_entry(), or type; 0: unknown */
    uint64_t flags;   /* enum stamp_flag */
};

/** How a stamp and what lies at its path now differ. */
enum stamp_match {
    STAMP_SAME,
    STAMP_MAYBE, /* mtime and size are the same, but the content must be compared */
    STAMP_DIFFERS,
};

/** The time as one number; earlier than 1970 wraps around. */
uint64_t stamp_time(const struct timespec *time);

/**
 * The stamp of what is open as `fd` (-1: unknown file system) and has this `st`. The content is not
 * filled in. The content must be read afterwards: a change after that shows, unless the stamp is
 * not settled. Waits for the next tick of the kernel's clock where the ctime is of this one.
 */
struct stamp stamp_of(int fd, const struct stat *st);
/** The stamp of a path where nothing is. */
struct stamp stamp_absent(void);
/** The stamp of a path where something of this type is: a file that becomes a folder shows. */
struct stamp stamp_type(const struct stat *st);

/** Compares a stamp with what was found now; `st` is NULL where nothing was found. */
enum stamp_match stamp_compare(const struct stamp *stamp, const struct stat *st);

/** Part of the content of a folder open as `fd`: the sum over its entries, but for "." and "..".
 * Hashes the name and the type, and looks at the entry only where readdir() did not give its type.
 * A link has a type of its own, whatever it leads to. */
uint64_t stamp_hash_entry(int fd, const struct dirent *entry);
/** The content of a file that was read; never 0. */
uint64_t stamp_hash_bytes(const void *bytes, size_t len);

/** Is what lies at this path of the scope what it was? Reads it only where the times leave it open
 * and the stamp has a content. */
bool stamp_holds(const struct scope *scope, const char *path, const struct stamp *stamp);

#endif

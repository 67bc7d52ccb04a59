/* SPDX-License-Identifier: MIT */
/* stamp.h - detects whether a file or folder has changed since it was indexed.
 *
 * Any program can set an mtime back (tar, rsync -a, unzip and cp -a do), but only the kernel sets
 * the ctime. So if the ctime or the inode differs, equal mtimes prove nothing and the content
 * decides: the names and types of a folder's entries, or a file's bytes. Some file systems do not
 * keep a ctime (FUSE, squashfs, FAT): there, the entries of folders are compared every time. */
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
    /** It had not changed just before the stamp was taken, so any later change alters its times. */
    STAMP_SETTLED = 1,
    /** Nothing existed at this path, and nothing may exist there now. */
    STAMP_ABSENT = 2,
    /** Its file system is not known to keep ctimes. */
    STAMP_NO_CTIME = 4,
    /** Its inode number may change by itself. */
    STAMP_NO_INODE = 8,
    /** Only its type must stay the same: a link was skipped because of the type of its target. */
    STAMP_TYPE = 16,
};

/** A stamp as stored in an index. */
struct stamp {
    uint64_t mtime_ns;
    uint64_t ctime_ns;
    uint64_t inode;
    uint64_t size;    /* 0 for folders */
    uint64_t content; /* hash of a file's bytes, sum of stamp_hash_entry(), or type; 0: unknown */
    uint64_t flags;   /* enum stamp_flag */
};

/** The result of comparing a stamp with its path now. */
enum stamp_match {
    STAMP_SAME,
    STAMP_MAYBE, /* same mtime and size, but the content must be compared */
    STAMP_DIFFERS,
};

/** Returns the time in ns; times before 1970 wrap around. */
uint64_t stamp_time(const struct timespec *time);

/**
 * Returns the stamp of the file or folder open as `fd` (-1: unknown file system) with this `st`,
 * without its content. Read the content afterwards: later changes are then detected, unless the
 * stamp is not settled. If the ctime is in the current tick of the kernel's clock, waits for the
 * next one.
 */
struct stamp stamp_of(int fd, const struct stat *st);
/** Returns the stamp of a path where nothing exists. */
struct stamp stamp_absent(void);
/** Returns a stamp of the type alone, to detect a file that has become a folder. */
struct stamp stamp_type(const struct stat *st);

/** Compare a stamp with the current `st`, or NULL if nothing exists there. */
enum stamp_match stamp_compare(const struct stamp *stamp, const struct stat *st);

/** Returns one summand of the content of the folder open as `fd`, which is the sum over its entries
 * except "." and "..". Hashes the name and the type, and stats the entry only if readdir() did not
 * return its type. Links are not followed. */
uint64_t stamp_hash_entry(int fd, const struct dirent *entry);
/** Returns the content of a file with these bytes; never 0. */
uint64_t stamp_hash_bytes(const void *bytes, size_t len);

/** Read all of an open file with this `st`, NUL-terminated, malloc; sets its stamp with its
 * content. 0, -ENOMEM, -ENODATA it has become shorter, or another -errno. */
int stamp_read(int fd, const struct stat *st, char **text, struct stamp *ret);

/** Returns whether the file or folder at this path of the scope is unchanged. Reads it only if its
 * times do not show that and the stamp has a content. */
bool stamp_holds(const struct scope *scope, const char *path, const struct stamp *stamp);

#endif

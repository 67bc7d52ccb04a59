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
    /** The file had not changed just before the stamp was taken, so any later change alters its
     * times. */
    STAMP_SETTLED = 1,
    /** Nothing existed at this path; the stamp holds as long as nothing does. */
    STAMP_ABSENT = 2,
    /** Its file system is not known to keep ctimes. */
    STAMP_NO_CTIME = 4,
    /** Its inode number may change by itself. */
    STAMP_NO_INODE = 8,
    /** Only the type must stay the same: a link was skipped because of its target's type. */
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

/** The result of comparing a stamp with the present file. */
enum stamp_match {
    STAMP_SAME,
    STAMP_MAYBE, /* mtime and size are equal, but the content must be compared */
    STAMP_DIFFERS,
};

/** Returns the time in ns; times before 1970 wrap around. */
uint64_t stamp_time(const struct timespec *time);

/**
 * Returns the stamp, without content, of the file or folder that is open as `fd` (-1: unknown file
 * system) and has this `st`. Read the content afterwards, so that changes during that are detected,
 * unless the stamp is not settled. If the ctime is in the current tick of the kernel's clock, waits
 * for the next tick.
 */
struct stamp stamp_of(int fd, const struct stat *st);
/** Returns the stamp of a path where nothing exists. */
struct stamp stamp_absent(void);
/** Returns a stamp of only the type, to detect a file that has become a folder. */
struct stamp stamp_type(const struct stat *st);

/** Compare a stamp with the current `st`; NULL: nothing exists there. */
enum stamp_match stamp_compare(const struct stamp *stamp, const struct stat *st);

/** Returns an entry's hash. The content of a folder is the sum over its entries except "." and
 * "..". The hash covers the name and the type; the entry is only stat'ed if readdir() did not
 * return its type. Links are not followed. */
uint64_t stamp_hash_entry(int fd, const struct dirent *entry);
/** Returns the content of a file with these bytes; never 0. */
uint64_t stamp_hash_bytes(const void *bytes, size_t len);

/** Read all of an open file with this `st` into `*text` (malloc, NUL-terminated), and set its
 * stamp, with content. Returns 0; -ENOMEM; -ENODATA if the file has become shorter; or another
 * -errno. */
int stamp_read(int fd, const struct stat *st, char **text, struct stamp *ret);

/** Returns whether the file or folder at this path of the scope is unchanged. Reads it only if its
 * times do not decide that. A file then counts as changed if the stamp has no content. */
bool stamp_holds(const struct scope *scope, const char *path, const struct stamp *stamp);

#endif

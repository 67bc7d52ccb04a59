/* SPDX-License-Identifier: MIT */
/* place.h - the one door through which everything is opened that the name of a data set leads to.
 *
 * A loader serves what lies below its roots, and each client what lies below those that it may
 * read. So whatever a data set names (itself, files, links, lists, patterns) is opened, listed and
 * looked at by these functions and by nothing else, while it is indexed and whenever it is read. A
 * test sees to it that no other file of this room opens anything of a data set. */
#ifndef LOADER_DATASET_PLACE_H
#define LOADER_DATASET_PLACE_H

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include <plenum/error.h>

/** What a data set may see, and the folder that its relative paths begin in. Constant once it has
 * been entered and opened. Threads: any. */
struct place {
    char **roots; /* owned: folders without links; none: all may be seen */
    unsigned num_roots;
    char *folder; /* owned: absolute, without links; NULL: the working directory */
    int fd;       /* of the folder */
    /** While the data set is being opened, or NULL: once it is true, all are -ECANCELED. Patterns
     * and links can have it look at more folders than there is time for. */
    const atomic_bool *cancel;
};

/** 0 or -ENOMEM. */
int place_init(struct place *place, const char *const *roots, unsigned num_roots);
void place_fini(struct place *place);

/** Make `path` the folder: 0 or -errno. */
int place_enter(struct place *place, const char *path);

/**
 * Open for reading: a descriptor, or -errno. O_CLOEXEC and O_NONBLOCK are added: it may be a pipe
 * by now. `flags`: O_DIRECTORY, O_PATH, or 0.
 *
 * -EXDEV: it lies below none of the roots, or the way to it leads back from what does not. This is
 * the answer whatever lies there, and whether anything does. Any other error is of what lies
 * inside.
 */
int place_open(const struct place *place, const char *path, int flags);
int place_open_folder(const struct place *place, const char *path, DIR **ret);
int place_stat(const struct place *place, const char *path, struct stat *ret);
/** The same of an entry of `folder`, which is open as `fd`: one system call if it is no link. */
int place_stat_entry(const struct place *place, int fd, const char *folder, const char *name,
                     struct stat *ret);
/** The path without links, malloc. */
int place_resolve(const struct place *place, const char *path, char **ret);

enum { PLACE_NAME_MAX = 8192 };

/** How people are told of `path`: with the folder before it, unless it is absolute. Returns
 * `ret`. */
char *place_name(const struct place *place, const char *path, char *ret, size_t size);

/** The sentence for what place_open() and its like returned of `path`; returns the code to pass on:
 * -EACCES for -EXDEV, else `code`. */
int place_error(const struct place *place, struct plenum_error *err, int code, const char *path);

/* As error_set(). */
#define place_error(place, err, code, path)                     \
    __extension__({                                             \
        int place_code_ = (code);                               \
        (void)place_error((place), (err), place_code_, (path)); \
        place_code_ == -EXDEV ? -EACCES : place_code_;          \
    })

#endif

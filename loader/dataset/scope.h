/* SPDX-License-Identifier: MIT */
/* scope.h - opens all paths that a data set names, within the roots that its client may read.
 *
 * A loader serves only files below its roots, and to each client only files below the roots that it
 * may read. So only these functions open, list and stat the paths that a data set names (the data
 * set itself, files, links, lists, patterns), when it is indexed and when it is read.
 * tests/loader/dataset/test_opens.sh checks that there are no other calls. */
#ifndef LOADER_DATASET_SCOPE_H
#define LOADER_DATASET_SCOPE_H

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <plenum/error.h>

/** The roots that a data set is confined to, and the folder of its relative paths. Constant once
 * the data set is open. Threads: any. */
struct scope {
    char **roots; /* owned: paths without links; without any, all files may be opened */
    unsigned num_roots;
    char *folder; /* owned: absolute, without links; NULL: the working directory */
    int fd;       /* the open folder */
    /** Set while the data set is being opened, otherwise NULL. Once it is true, all calls return
     * -ECANCELED, because patterns and links can lead to too many folders to wait for. */
    const atomic_bool *cancel;
};

/** Initialise a scope, whose folder is the working directory. Returns 0 or -ENOMEM. */
int scope_init(struct scope *scope, const char *const *roots, unsigned num_roots);
void scope_fini(struct scope *scope);

/** Make `path` the folder. Returns 0 or -errno. */
int scope_enter(struct scope *scope, const char *path);

/**
 * Open a path for reading. Returns a descriptor or -errno. O_CLOEXEC is added, and O_NONBLOCK,
 * because the path may have become a pipe. `flags`: O_DIRECTORY, O_PATH, or 0.
 *
 * -EXDEV: the path is not below a root, or leaves the roots and returns by "..". This result does
 * not depend on which files exist there. Any other error is about a path below a root.
 */
int scope_open(const struct scope *scope, const char *path, int flags);
int scope_open_folder(const struct scope *scope, const char *path, DIR **ret);
int scope_stat(const struct scope *scope, const char *path, struct stat *ret);
/** Stat an entry of `folder`, which is open as `fd`. This takes one system call, unless the entry
 * is a link. */
int scope_stat_entry(const struct scope *scope, int fd, const char *folder, const char *name,
                     struct stat *ret);
/** Returns the type (DT_REG, DT_DIR, ...) of an entry of the folder open as `fd`. Does not follow
 * links. */
unsigned scope_entry_type(int fd, const struct dirent *entry);
/** Returns whether a path, without a slash at its end, is a symbolic link. */
bool scope_is_link(const struct scope *scope, const char *path);
/** Resolve a path to one without links, in `*ret` (malloc). */
int scope_resolve(const struct scope *scope, const char *path, char **ret);

enum { SCOPE_NAME_MAX = 8192 };

/** Write `path` as shown in messages to `ret`: prefixed with the folder unless absolute. Returns
 * `ret`. */
char *scope_name(const struct scope *scope, const char *path, char *ret, size_t size);

/** Set `err` for an error of one of these functions. Returns the code that the caller should
 * return: -EACCES for -EXDEV, otherwise `code`. */
int scope_error(const struct scope *scope, struct plenum_error *err, int code, const char *path);

/* A macro like error_set(). */
#define scope_error(scope, err, code, path)                     \
    __extension__({                                             \
        int scope_code_ = (code);                               \
        (void)scope_error((scope), (err), scope_code_, (path)); \
        scope_code_ == -EXDEV ? -EACCES : scope_code_;          \
    })

#endif

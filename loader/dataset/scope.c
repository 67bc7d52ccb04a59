/* SPDX-License-Identifier: MIT */
/* scope.c - opens the paths that a data set names, if they are below the roots that its client may
 * read.
 *
 * It is not enough to check a path and then open it by name: it may be replaced in between (a
 * time-of-check-to-time-of-use race). So the check is part of opening:
 *
 * - A path beneath the data set's own folder is opened by openat2() with RESOLVE_BENEATH. In this
 *   one system call the kernel makes sure that no link and no ".." leads out of the folder.
 * - Any other path (a link to another root, an absolute path, a kernel without openat2) is walked
 * from "/": each folder is opened relative to the previous one, and never through a link; links are
 * read and followed here. The names of these folders form the path without links, which must turn
 * out to be below a root.
 *
 * A walk may pass through folders outside the roots (one of the operator's links may lead through
 * them), but must not reveal anything about them: a walk that fails or ends there always returns
 * the same error. A walk may not leave a folder outside by "..": success would reveal that the
 * folder before the ".." exists. Folders above a root are an exception, because it is known that
 * they exist. */
#include "config.h"

#include "loader/dataset/scope.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

enum { TURNS_MAX = 256 }; /* links and ".." in one path */

/* ---- roots ---- */

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    assert(len > 0);
    return strncmp(path, root, len) == 0 &&
           (path[len] == '/' || path[len] == '\0' || root[len - 1] == '/');
}

static bool is_inside(const struct scope *scope, const char *path)
{
    for (unsigned i = 0; i < scope->num_roots; i++)
        if (is_below(path, scope->roots[i]))
            return true;
    return false;
}

/* Returns whether the path is inside a root, or above one. */
static bool is_known(const struct scope *scope, const char *path)
{
    for (unsigned i = 0; i < scope->num_roots; i++)
        if (is_below(scope->roots[i], path))
            return true;
    return is_inside(scope, path);
}

/* ---- the walk ---- */

struct scope_walk {
    const struct scope *scope;
    char todo[PATH_MAX]; /* the absolute path to walk, from "/" */
    char done[PATH_MAX]; /* the path so far, without links; "" is "/" */
    int fd, up;          /* the folder `done`, and its parent; O_PATH */
};

static const char *done_of(const struct scope_walk *w)
{
    return *w->done ? w->done : "/";
}

/* Returns the error that the client may see for an error in the current folder. */
static int visible_error(const struct scope_walk *w, int r)
{
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) /* errors of the loader itself */
        return r;
    return is_inside(w->scope, done_of(w)) ? r : -EXDEV;
}

/* Restart the walk from "/" with `first`, then `rest`. Returns 1 or -errno. */
static int restart(struct scope_walk *w, const char *first, const char *rest)
{
    char *todo = str_format("/%s/%s", first, rest);
    size_t len = todo ? strlen(todo) : 0;
    int r = !todo ? -ENOMEM : len >= sizeof(w->todo) ? visible_error(w, -ENAMETOOLONG) : 1;

    if (r > 0)
        memcpy(w->todo, todo, len + 1);
    free(todo);
    return r;
}

static int walk_up(struct scope_walk *w, const char *rest)
{
    char *slash = strrchr(w->done, '/');

    if (!is_known(w->scope, done_of(w)))
        return -EXDEV;
    if (slash)
        *slash = '\0';
    return restart(w, w->done, rest);
}

/* Follow the link that is open as `link`, in the current folder. */
static int walk_link(struct scope_walk *w, int link, const char *rest)
{
    char target[PATH_MAX], whole[2 * PATH_MAX + 1];
    ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);

    if (n < 0)
        return visible_error(w, -errno);
    target[n] = '\0';
    if (target[0] == '/')
        return restart(w, target, rest);
    (void)snprintf(whole, sizeof(whole), "%s/%s", w->done, target);
    return restart(w, whole, rest);
}

/* Open an entry of the current folder. Returns 1 if the entry is a link, and the walk must
 * restart. */
static int walk_into(struct scope_walk *w, const char *name, const char *rest)
{
    size_t len = strlen(w->done);
    struct stat st;
    int fd, r;

    assert(w->fd >= 0 && !strchr(name, '/'));
    if (len + strlen(name) + 2 > sizeof(w->done))
        return visible_error(w, -ENAMETOOLONG);
    fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        r = visible_error(w, -errno);
        io_close(&fd);
        return r;
    }
    if (S_ISLNK(st.st_mode)) {
        r = walk_link(w, fd, rest);
        (void)close(fd);
        return r;
    }
    io_close(&w->up);
    w->up = w->fd;
    w->fd = fd;
    w->done[len] = '/';
    (void)strcpy(w->done + len + 1, name);
    return 0;
}

/* Walk from "/". Returns 0 at the end of the path, or 1 at the first link or "..", after which the
 * walk must restart. */
static int walk_down(struct scope_walk *w)
{
    const char *at = w->todo;
    char name[NAME_MAX + 1];
    int r = 0;

    io_close(&w->fd);
    w->done[0] = '\0';
    w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->fd < 0)
        return -errno;
    while (r == 0 && *(at += strspn(at, "/"))) {
        size_t len = strcspn(at, "/");

        if (len > NAME_MAX)
            return visible_error(w, -ENAMETOOLONG);
        memcpy(name, at, len);
        name[len] = '\0';
        at += len;
        if (strcmp(name, "..") == 0)
            r = walk_up(w, at);
        else if (strcmp(name, ".") != 0)
            r = walk_into(w, name, at);
    }
    return r;
}

/* Open the end of the walk with `flags`. */
static int walk_open(struct scope_walk *w, int flags)
{
    struct stat st;
    int fd = w->fd;

    if (fstat(fd, &st) < 0)
        return -errno;
    if ((flags & O_DIRECTORY) && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (flags & O_PATH) {
        w->fd = -1;
        return fd;
    }
    assert(w->up >= 0 || S_ISDIR(st.st_mode)); /* "/" is a folder */
    if (S_ISDIR(st.st_mode))
        fd = openat(w->fd, ".", flags);
    else
        fd = openat(w->up, strrchr(w->done, '/') + 1, flags | O_NOFOLLOW);
    if (fd < 0)
        return errno == ELOOP ? -EAGAIN : -errno; /* a link has just replaced it */
    return fd;
}

/* Like scope_open(), for an absolute path. Sets `*real`, unless `real` is NULL, to the path without
 * links. */
static int walk(const struct scope *scope, const char *path, int flags, char **real)
{
    struct scope_walk *w = malloc(sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    *w = (struct scope_walk){.scope = scope, .fd = -1, .up = -1};
    r = restart(w, path, "");
    for (int i = 0; i < TURNS_MAX && r == 1; i++)
        r = walk_down(w);
    if (r == 1)
        r = visible_error(w, -ELOOP);
    if (r < 0)
        goto out;
    if (!is_inside(scope, done_of(w))) {
        r = -EXDEV;
        goto out;
    }
    r = walk_open(w, flags);
    if (r < 0 || !real)
        goto out;
    *real = strdup(done_of(w));
    if (!*real) {
        (void)close(r);
        r = -ENOMEM;
    }

out:
    io_close(&w->fd);
    io_close(&w->up);
    free(w);
    return r;
}

/* Like walk(), for a path that may be relative. */
static int walk_from(const struct scope *scope, const char *path, int flags, char **real)
{
    char here[PATH_MAX], *whole;
    int r;

    if (path[0] == '/')
        return walk(scope, path, flags, real);
    if (!scope->folder && !getcwd(here, sizeof(here)))
        return -errno;
    whole = str_format("%s/%s", scope->folder ? scope->folder : here, path);
    r = whole ? walk(scope, whole, flags, real) : -ENOMEM;
    free(whole);
    return r;
}

/* ---- openat2() ---- */

/* The type struct open_how of <linux/openat2.h>, which older systems lack. */
struct how {
    uint64_t flags, mode, resolve;
};

enum { NO_MAGIC_LINKS = 0x02, BENEATH = 0x08 };

/* Open a path beneath the folder. Returns -EXDEV if it may be elsewhere. */
static int open_beneath(const struct scope *scope, const char *path, int flags)
{
#ifdef SYS_openat2
    struct how how = {.flags = (uint64_t)flags, .resolve = NO_MAGIC_LINKS | BENEATH};
    long fd = syscall(SYS_openat2, scope->fd, path, &how, sizeof(how));

    if (fd >= 0)
        return (int)fd;
    /* These errors are about a path beneath the folder. */
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG ||
        errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO || errno == ESTALE)
        return -errno;
#else
    (void)scope;
    (void)path;
    (void)flags;
#endif
    return -EXDEV;
}

/* ---- public functions ---- */

int scope_init(struct scope *scope, const char *const *roots, unsigned num_roots)
{
    *scope = (struct scope){.fd = -1};
    if (num_roots == 0)
        return 0;
    scope->roots = calloc(num_roots, sizeof(*scope->roots));
    if (!scope->roots)
        return -ENOMEM;
    for (; scope->num_roots < num_roots; scope->num_roots++) {
        scope->roots[scope->num_roots] = strdup(roots[scope->num_roots]);
        if (!scope->roots[scope->num_roots])
            return -ENOMEM;
    }
    return 0;
}

void scope_fini(struct scope *scope)
{
    for (unsigned i = 0; i < scope->num_roots; i++)
        free(scope->roots[i]);
    free(scope->roots);
    free(scope->folder);
    io_close(&scope->fd);
    *scope = (struct scope){.fd = -1};
}

/* Open a path, and find the path without links in the same walk. */
static int open_resolved(const struct scope *scope, const char *path, int flags, char **real)
{
    char *whole;
    int fd;

    if (scope->num_roots > 0)
        return walk_from(scope, path, flags | O_CLOEXEC, real);
    whole =
        scope->folder && path[0] != '/' ? str_format("%s/%s", scope->folder, path) : strdup(path);
    *real = whole ? realpath(whole, NULL) : NULL;
    fd = *real ? open(*real, flags | O_CLOEXEC) : -1;
    if (fd < 0) {
        fd = whole ? -errno : -ENOMEM;
        free(*real);
        *real = NULL;
    }
    free(whole);
    return fd;
}

int scope_enter(struct scope *scope, const char *path)
{
    char *real = NULL;
    int fd = open_resolved(scope, path, O_RDONLY | O_DIRECTORY, &real);

    if (fd < 0)
        return fd;
    free(scope->folder);
    io_close(&scope->fd);
    scope->folder = real;
    scope->fd = fd;
    return 0;
}

int scope_resolve(const struct scope *scope, const char *path, char **ret)
{
    int fd = open_resolved(scope, path, O_PATH, ret);

    if (fd < 0)
        return fd;
    (void)close(fd);
    return 0;
}

static bool is_cancelled(const struct scope *scope)
{
    return scope->cancel && atomic_load_explicit(scope->cancel, memory_order_relaxed);
}

int scope_open(const struct scope *scope, const char *path, int flags)
{
    int fd;

    if (is_cancelled(scope))
        return -ECANCELED;
    flags |= O_CLOEXEC | (flags & O_PATH ? 0 : O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (scope->num_roots == 0) {
        fd = openat(scope->folder ? scope->fd : AT_FDCWD, path, flags);
        return fd < 0 ? -errno : fd;
    }
    if (scope->folder && path[0] != '/') {
        fd = open_beneath(scope, path, flags);
        if (fd != -EXDEV)
            return fd;
    }
    return walk_from(scope, path, flags, NULL);
}

int scope_open_folder(const struct scope *scope, const char *path, DIR **ret)
{
    int fd = scope_open(scope, path, O_DIRECTORY), r;

    if (fd < 0)
        return fd;
    *ret = fdopendir(fd);
    if (*ret)
        return 0;
    r = -errno;
    (void)close(fd);
    return r;
}

int scope_stat(const struct scope *scope, const char *path, struct stat *ret)
{
    int fd, r;

    if (is_cancelled(scope))
        return -ECANCELED;
    if (scope->num_roots == 0)
        return fstatat(scope->folder ? scope->fd : AT_FDCWD, path, ret, 0) < 0 ? -errno : 0;
    fd = scope_open(scope, path, O_PATH);
    if (fd < 0)
        return fd;
    r = fstat(fd, ret) < 0 ? -errno : 0;
    (void)close(fd);
    return r;
}

int scope_stat_entry(const struct scope *scope, int fd, const char *folder, const char *name,
                     struct stat *ret)
{
    char *path;
    int r;

    if (fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISLNK(ret->st_mode))
        return 0;
    path = str_format("%s/%s", folder, name);
    r = path ? scope_stat(scope, path, ret) : -ENOMEM;
    free(path);
    return r;
}

bool scope_is_link(const struct scope *scope, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? str_format("%.*s", (int)(slash - path) + 1, path) : strdup(".");
    int fd = folder ? scope_open(scope, folder, O_DIRECTORY | O_PATH) : -ENOMEM;
    struct stat st;
    bool ret = fd >= 0 && fstatat(fd, slash ? slash + 1 : path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISLNK(st.st_mode);

    free(folder);
    if (fd >= 0)
        (void)close(fd);
    return ret;
}

unsigned scope_entry_type(int fd, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return entry->d_type;
    return IFTODT(st.st_mode);
}

char *scope_name(const struct scope *scope, const char *path, char *ret, size_t size)
{
    if (scope->folder && path[0] != '/' && !dataname_is_remote(path))
        (void)snprintf(ret, size, "%s/%s", scope->folder, path);
    else
        (void)snprintf(ret, size, "%s", path);
    return ret;
}

int(scope_error)(const struct scope *scope, struct plenum_error *err, int code, const char *path)
{
    char name[SCOPE_NAME_MAX];

    (void)scope_name(scope, path, name, sizeof(name));
    if (code == -EXDEV)
        return error_set(err, -EACCES, "%s is not below a --root of this loader", name);
    return error_set(err, code, "%s: %s", name, strerror(-code));
}

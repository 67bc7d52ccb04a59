/* SPDX-License-Identifier: MIT */
/* place.c - opening what a data set names, below the roots that its client may read.
 *
 * Checking a path and then opening it by name proves nothing: whoever may write there exchanges it
 * in between. So the check is part of the opening:
 *
 * - What lies beneath the data set's own folder is opened by openat2() with RESOLVE_BENEATH: one
 *   system call, by which the kernel itself sees to it that no link and no ".." leads out.
 * - All else (a link to another root, an absolute path, a kernel without openat2) is walked down
 *   from "/", one folder after the other, each opened within the one before and never through a
 *   link. Links are read and followed here. The names of these folders are then the path without
 *   links, which must lie below a root in the end.
 *
 * What lies outside is walked through (roots may be reached by a link of the operator's) but never
 * told of: a walk that fails there, or ends there, has one answer. Nor does it come back from there
 * by "..", as it would tell by its success that the folder before ".." exists; only folders that
 * lie above a root are known to be there anyway. */
#include "config.h"

#include "loader/dataset/place.h"

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

#include "common/error.h"
#include "common/util.h"

enum { TURNS_MAX = 256 }; /* links and ".." in one path */

/* ---- what lies where ---- */

static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 &&
           (path[len] == '/' || path[len] == '\0' || root[len - 1] == '/');
}

static bool is_inside(const struct place *p, const char *path)
{
    for (unsigned i = 0; i < p->num_roots; i++)
        if (is_below(path, p->roots[i]))
            return true;
    return false;
}

/* In a root, or above one? */
static bool is_known(const struct place *p, const char *path)
{
    for (unsigned i = 0; i < p->num_roots; i++)
        if (is_below(p->roots[i], path))
            return true;
    return is_inside(p, path);
}

/* ---- the walk ---- */

struct walk {
    const struct place *place;
    char todo[PATH_MAX]; /* absolute: what is to be walked, from "/" */
    char done[PATH_MAX]; /* what has been: folders and files that are no links; "" is "/" */
    int fd, up;          /* of `done` and of the folder that it lies in, O_PATH */
};

static const char *done_of(const struct walk *w)
{
    return *w->done ? w->done : "/";
}

/* What an error in the folder that was reached says to the client. */
static int told(const struct walk *w, int r)
{
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) /* our own */
        return r;
    return is_inside(w->place, done_of(w)) ? r : -EXDEV;
}

/* Walk `first`, then `rest`, from "/": 1. */
static int walk_anew(struct walk *w, const char *first, const char *rest)
{
    char *todo = str_format("/%s/%s", first, rest);
    size_t len = todo ? strlen(todo) : 0;
    int r = !todo ? -ENOMEM : len >= sizeof(w->todo) ? told(w, -ENAMETOOLONG) : 1;

    if (r > 0)
        memcpy(w->todo, todo, len + 1);
    free(todo);
    return r;
}

static int walk_up(struct walk *w, const char *rest)
{
    char *slash = strrchr(w->done, '/');

    if (!is_known(w->place, done_of(w)))
        return -EXDEV;
    if (slash)
        *slash = '\0';
    return walk_anew(w, w->done, rest);
}

/* The link that is open as `link`, in the folder that was reached. */
static int walk_link(struct walk *w, int link, const char *rest)
{
    char target[PATH_MAX], whole[2 * PATH_MAX + 1];
    ssize_t n = readlinkat(link, "", target, sizeof(target) - 1);

    if (n < 0)
        return told(w, -errno);
    target[n] = '\0';
    if (target[0] == '/')
        return walk_anew(w, target, rest);
    (void)snprintf(whole, sizeof(whole), "%s/%s", w->done, target);
    return walk_anew(w, whole, rest);
}

/* Into an entry of the folder that was reached; 1: it is a link, to be walked instead. */
static int walk_into(struct walk *w, const char *name, const char *rest)
{
    size_t len = strlen(w->done);
    struct stat st;
    int fd, r;

    if (len + strlen(name) + 2 > sizeof(w->done))
        return told(w, -ENAMETOOLONG);
    fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        r = told(w, -errno);
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

/* From "/" to the end, or to the first link or "..": 1, with what is to be walked instead. */
static int walk_down(struct walk *w)
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
            return told(w, -ENAMETOOLONG);
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

/* Open for `flags` what has been reached. */
static int walk_open(struct walk *w, int flags)
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
    if (S_ISDIR(st.st_mode))
        fd = openat(w->fd, ".", flags);
    else
        fd = openat(w->up, strrchr(w->done, '/') + 1, flags | O_NOFOLLOW);
    if (fd < 0)
        return errno == ELOOP ? -EAGAIN : -errno; /* it has become a link just now */
    return fd;
}

/* place_open() of an absolute path, and its path without links into `*real`, if that is asked for.
 */
static int walk(const struct place *p, const char *path, int flags, char **real)
{
    struct walk *w = malloc(sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    *w = (struct walk){.place = p, .fd = -1, .up = -1};
    r = walk_anew(w, path, "");
    for (int i = 0; i < TURNS_MAX && r == 1; i++)
        r = walk_down(w);
    if (r == 1)
        r = told(w, -ELOOP);
    if (r == 0 && !is_inside(p, done_of(w)))
        r = -EXDEV;
    if (r == 0)
        r = walk_open(w, flags);
    if (r >= 0 && real) {
        *real = strdup(done_of(w));
        if (!*real) {
            (void)close(r);
            r = -ENOMEM;
        }
    }
    io_close(&w->fd);
    io_close(&w->up);
    free(w);
    return r;
}

/* The same of a path that may be relative. */
static int walk_from(const struct place *p, const char *path, int flags, char **real)
{
    char here[PATH_MAX], *whole;
    int r;

    if (path[0] == '/')
        return walk(p, path, flags, real);
    if (!p->folder && !getcwd(here, sizeof(here)))
        return -errno;
    whole = str_format("%s/%s", p->folder ? p->folder : here, path);
    r = whole ? walk(p, whole, flags, real) : -ENOMEM;
    free(whole);
    return r;
}

/* ---- by the kernel ---- */

/* As <linux/openat2.h> has it, which older systems lack. */
struct how {
    uint64_t flags, mode, resolve;
};

enum { NO_MAGIC_LINKS = 0x02, BENEATH = 0x08 };

/* Open what lies beneath the folder; -EXDEV: that is not certain. */
static int open_beneath(const struct place *p, const char *path, int flags)
{
#ifdef SYS_openat2
    struct how how = {.flags = (uint64_t)flags, .resolve = NO_MAGIC_LINKS | BENEATH};
    long fd = syscall(SYS_openat2, p->fd, path, &how, sizeof(how));

    if (fd >= 0)
        return (int)fd;
    /* These are what the file system says of what lies beneath. */
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG ||
        errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EIO || errno == ESTALE)
        return -errno;
#else
    (void)p;
    (void)path;
    (void)flags;
#endif
    return -EXDEV;
}

/* ---- what others use ---- */

int place_init(struct place *p, const char *const *roots, unsigned num_roots)
{
    *p = (struct place){.fd = -1};
    if (num_roots == 0)
        return 0;
    p->roots = calloc(num_roots, sizeof(*p->roots));
    if (!p->roots)
        return -ENOMEM;
    for (; p->num_roots < num_roots; p->num_roots++) {
        p->roots[p->num_roots] = strdup(roots[p->num_roots]);
        if (!p->roots[p->num_roots])
            return -ENOMEM;
    }
    return 0;
}

void place_fini(struct place *p)
{
    for (unsigned i = 0; i < p->num_roots; i++)
        free(p->roots[i]);
    free(p->roots);
    free(p->folder);
    io_close(&p->fd);
    *p = (struct place){.fd = -1};
}

/* With the path without links, which is taken in the same walk. */
static int open_resolved(const struct place *p, const char *path, int flags, char **real)
{
    char *whole;
    int fd;

    if (p->num_roots > 0)
        return walk_from(p, path, flags | O_CLOEXEC, real);
    whole = p->folder && path[0] != '/' ? str_format("%s/%s", p->folder, path) : strdup(path);
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

int place_enter(struct place *p, const char *path)
{
    char *real = NULL;
    int fd = open_resolved(p, path, O_RDONLY | O_DIRECTORY, &real);

    if (fd < 0)
        return fd;
    free(p->folder);
    io_close(&p->fd);
    p->folder = real;
    p->fd = fd;
    return 0;
}

int place_resolve(const struct place *p, const char *path, char **ret)
{
    int fd = open_resolved(p, path, O_PATH, ret);

    if (fd < 0)
        return fd;
    (void)close(fd);
    return 0;
}

static bool is_cancelled(const struct place *p)
{
    return p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed);
}

int place_open(const struct place *p, const char *path, int flags)
{
    int fd;

    if (is_cancelled(p))
        return -ECANCELED;
    flags |= O_CLOEXEC | (flags & O_PATH ? 0 : O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (p->num_roots == 0) {
        fd = openat(p->folder ? p->fd : AT_FDCWD, path, flags);
        return fd < 0 ? -errno : fd;
    }
    if (p->folder && path[0] != '/') {
        fd = open_beneath(p, path, flags);
        if (fd != -EXDEV)
            return fd;
    }
    return walk_from(p, path, flags, NULL);
}

int place_open_folder(const struct place *p, const char *path, DIR **ret)
{
    int fd = place_open(p, path, O_DIRECTORY), r;

    if (fd < 0)
        return fd;
    *ret = fdopendir(fd);
    if (*ret)
        return 0;
    r = -errno;
    (void)close(fd);
    return r;
}

int place_stat(const struct place *p, const char *path, struct stat *ret)
{
    int fd, r;

    if (is_cancelled(p))
        return -ECANCELED;
    if (p->num_roots == 0)
        return fstatat(p->folder ? p->fd : AT_FDCWD, path, ret, 0) < 0 ? -errno : 0;
    fd = place_open(p, path, O_PATH);
    if (fd < 0)
        return fd;
    r = fstat(fd, ret) < 0 ? -errno : 0;
    (void)close(fd);
    return r;
}

int place_stat_entry(const struct place *p, int fd, const char *folder, const char *name,
                     struct stat *ret)
{
    char *path;
    int r;

    if (fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISLNK(ret->st_mode))
        return 0;
    path = str_format("%s/%s", folder, name);
    r = path ? place_stat(p, path, ret) : -ENOMEM;
    free(path);
    return r;
}

char *place_name(const struct place *p, const char *path, char *ret, size_t size)
{
    if (p->folder && path[0] != '/')
        (void)snprintf(ret, size, "%s/%s", p->folder, path);
    else
        (void)snprintf(ret, size, "%s", path);
    return ret;
}

int(place_error)(const struct place *p, struct plenum_error *err, int code, const char *path)
{
    char name[PLACE_NAME_MAX];

    (void)place_name(p, path, name, sizeof(name));
    if (code == -EXDEV)
        return error_set(err, -EACCES, "%s does not lie below a --root of this loader", name);
    return error_set(err, code, "%s: %s", name, strerror(-code));
}

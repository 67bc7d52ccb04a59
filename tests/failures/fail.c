/* SPDX-License-Identifier: MIT */
/* fail.c - a preloaded library that makes the n-th call of a kind fail, once, in whichever of the
 * watched processes makes the call.
 *
 *     PLENUM_FAIL=KIND:ERROR   what fails, and how: "malloc:ENOMEM", "read:EINTR", "read:short";
 *                              "all:none" only counts
 *     PLENUM_FAIL_AT=N         the N-th call fails, counted from 1
 *     PLENUM_FAIL_IN=NAME      only programs of this name (the last part of argv[0]'s path)
 *     PLENUM_FAIL_STATE=FILE   a page that all processes share: how many calls have failed, and how
 *                              many were made of each kind
 *     PLENUM_FAIL_TRACE=1      show on standard error which call failed, as addresses for addr2line
 *
 * Only calls made by this project's code count: the program itself and its libplenum*.so. Calls
 * that other libraries make are not tested. The caller is identified by its return address. So the
 * C library's functions that allocate, open or read for their caller (strdup(), fopen()) are calls
 * of that kind themselves.
 *
 * Calls after the failed one succeed again. SQLite's anomaly tests do the same with malloc(). */
#include "config.h"

/* Without the checked variants of the functions defined here. */
#undef _FORTIFY_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- which call to fail ---- */

enum { SHORT = -1 };

static const struct {
    const char *name;
    int code;
} errors[] = {
    {"none", 0},
    {"short", SHORT},
    {"EACCES", EACCES},
    {"EAGAIN", EAGAIN},
    {"ECONNREFUSED", ECONNREFUSED},
    {"ECONNRESET", ECONNRESET},
    {"EINTR", EINTR},
    {"EIO", EIO},
    {"EMFILE", EMFILE},
    {"ENOENT", ENOENT},
    {"ENOMEM", ENOMEM},
    {"ENOSPC", ENOSPC},
    {"EPIPE", EPIPE},
};

/* The order is that of the driver's table. */
static const char *const kinds[] = {"malloc", "mmap",   "open", "read",    "write",  "send",
                                    "recv",   "socket", "bind", "connect", "pipe",   "eventfd",
                                    "memfd",  "dup",    "fork", "pthread", "rename", "unlink",
                                    "fsync",  "stat",   "poll"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct state {
    _Atomic uint64_t failed, calls[KINDS];
};

static struct {
    unsigned kind; /* KINDS: none */
    int code;
    uint64_t at;
    struct state *state; /* NULL: this process is not watched */
} plan;

/* ---- callers: the memory ranges of code ---- */

enum { RANGES_MAX = 256 };

static struct {
    uintptr_t begin, end;
    bool ours;
} ranges[RANGES_MAX];
static _Atomic unsigned num_ranges;
static pthread_mutex_t ranges_mu = PTHREAD_MUTEX_INITIALIZER;

static bool is_ours(const char *path)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    /* the program itself has an empty name here */
    return !*path || strncmp(name, "libplenum", strlen("libplenum")) == 0;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    unsigned *n = arg;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum && *n < RANGES_MAX; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        ranges[*n].begin = info->dlpi_addr + p->p_vaddr;
        ranges[*n].end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
        ranges[*n].ours = is_ours(info->dlpi_name);
        ++*n;
    }
    return 0;
}

/* Returns 1 for an address in this project's code, 0 for other code, -1 if it is in no known
 * object. */
static int look_up(uintptr_t at)
{
    unsigned n = num_ranges;

    for (unsigned i = 0; i < n; i++)
        if (at >= ranges[i].begin && at < ranges[i].end)
            return ranges[i].ours;
    return -1;
}

static _Thread_local volatile int within; /* within this file, calls do not count */

static bool called_by_us(const void *caller)
{
    int r = look_up((uintptr_t)caller);

    if (r < 0) { /* something has been loaded since */
        unsigned n = 0;

        within++;
        (void)pthread_mutex_lock(&ranges_mu);
        (void)dl_iterate_phdr(note_object, &n);
        num_ranges = n;
        (void)pthread_mutex_unlock(&ranges_mu);
        within--;
        r = look_up((uintptr_t)caller);
    }
    return r > 0;
}

static unsigned kind_of(const char *name, size_t len)
{
    unsigned i;

    for (i = 0; i < KINDS && (strlen(kinds[i]) != len || memcmp(kinds[i], name, len) != 0); i++)
        ;
    return i;
}

static void show_trace(void)
{
    void *frames[24];

    within++;
    backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
    within--;
}

/* Returns whether this call should fail; if so, errno is set. For SHORT, see `plan.code`. */
static bool fails(const char *kind, const void *caller)
{
    unsigned i;

    if (!plan.state || within || !called_by_us(caller))
        return false;
    i = kind_of(kind, strlen(kind));
    if (atomic_fetch_add(&plan.state->calls[i], 1) + 1 != plan.at || i != plan.kind)
        return false;
    (void)atomic_fetch_add(&plan.state->failed, 1);
    if (getenv("PLENUM_FAIL_TRACE"))
        show_trace();
    if (plan.code != SHORT)
        errno = plan.code;
    return true;
}

/* Returns whether this is an eventfd, which neither fails nor takes half a number: it can only be
 * interrupted. */
static bool is_sound(int fd)
{
    char link[32], what[32] = "";

    if (plan.code == EINTR || !plan.state)
        return false;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, what, sizeof(what) - 1) > 0 && strstr(what, "[eventfd]");
}

#define FAILS(kind) fails(kind, __builtin_return_address(0))

static int code_of(const char *name)
{
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (strcmp(errors[i].name, name) == 0)
            return errors[i].code;
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("PLENUM_FAIL"), *in = getenv("PLENUM_FAIL_IN"),
               *at = getenv("PLENUM_FAIL_AT");
    const char *path = getenv("PLENUM_FAIL_STATE"), *colon = what ? strchr(what, ':') : NULL;
    void *map;
    int fd;

    if (!colon || !in || !at || !path || strcmp(program_invocation_short_name, in) != 0)
        return;
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    map = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return;
    plan.kind = kind_of(what, (size_t)(colon - what));
    plan.code = code_of(colon + 1);
    plan.at = strtoull(at, NULL, 10);
    plan.state = map;
}

/* ---- the functions ---- */

/* Returns the next object's function of that name. dlsym() itself may allocate, so malloc's family
 * is looked up differently. */
static void *next(_Atomic(void *) *kept, const char *name)
{
    void *f = *kept;

    if (!f) {
        within++;
        f = dlsym(RTLD_NEXT, name);
        within--;
        *kept = f;
    }
    return f;
}

#define EXPORT __attribute__((visibility("default")))

/* WRAP(type, name, kind, failed, (parameters), (arguments)): fails with `failed` and errno. */
#define WRAP(type, name, kind, failed, parameters, arguments)                   \
    EXPORT type name parameters;                                                \
    EXPORT type name parameters                                                 \
    {                                                                           \
        static _Atomic(void *) kept;                                            \
        type(*f) parameters = (type(*) parameters)(intptr_t)next(&kept, #name); \
                                                                                \
        if (FAILS(kind))                                                        \
            return failed;                                                      \
        return f arguments;                                                     \
    }

/* Like WRAP, for a call that transfers `len` bytes: with "short" it transfers one byte. */
#define WRAP_IO(name, kind, parameters, len, arguments)                               \
    EXPORT ssize_t name parameters;                                                   \
    EXPORT ssize_t name parameters                                                    \
    {                                                                                 \
        static _Atomic(void *) kept;                                                  \
        ssize_t(*f) parameters = (ssize_t(*) parameters)(intptr_t)next(&kept, #name); \
                                                                                      \
        if (!is_sound(fd) && FAILS(kind)) {                                           \
            if (plan.code != SHORT)                                                   \
                return -1;                                                            \
            len = len > 1 ? 1 : len;                                                  \
        }                                                                             \
        return f arguments;                                                           \
    }

WRAP_IO(read, "read", (int fd, void *p, size_t n), n, (fd, p, n))
WRAP_IO(__read_chk, "read", (int fd, void *p, size_t n, size_t room), n, (fd, p, n, room))
WRAP_IO(pread, "read", (int fd, void *p, size_t n, off_t at), n, (fd, p, n, at))
WRAP_IO(pread64, "read", (int fd, void *p, size_t n, off64_t at), n, (fd, p, n, at))
WRAP_IO(__pread_chk, "read", (int fd, void *p, size_t n, off_t at, size_t room), n,
        (fd, p, n, at, room))
WRAP_IO(__pread64_chk, "read", (int fd, void *p, size_t n, off64_t at, size_t room), n,
        (fd, p, n, at, room))
WRAP_IO(write, "write", (int fd, const void *p, size_t n), n, (fd, p, n))
WRAP_IO(pwrite, "write", (int fd, const void *p, size_t n, off_t at), n, (fd, p, n, at))
WRAP_IO(pwrite64, "write", (int fd, const void *p, size_t n, off64_t at), n, (fd, p, n, at))
WRAP_IO(send, "send", (int fd, const void *p, size_t n, int flags), n, (fd, p, n, flags))
WRAP_IO(recv, "recv", (int fd, void *p, size_t n, int flags), n, (fd, p, n, flags))
WRAP_IO(__recv_chk, "recv", (int fd, void *p, size_t n, size_t room, int flags), n,
        (fd, p, n, room, flags))

/* A call with a short count transfers only the first part of a message, and every caller must be
 * able to continue from there. */
#define WRAP_MSG(name, kind, message)                                           \
    EXPORT ssize_t name(int fd, message *m, int flags);                         \
    EXPORT ssize_t name(int fd, message *m, int flags)                          \
    {                                                                           \
        static _Atomic(void *) kept;                                            \
        ssize_t (*f)(int, message *, int) =                                     \
            (ssize_t(*)(int, message *, int))(intptr_t)next(&kept, #name);      \
        struct iovec one;                                                       \
        struct msghdr less = *m;                                                \
        ssize_t r;                                                              \
                                                                                \
        if (!FAILS(kind))                                                       \
            return f(fd, m, flags);                                             \
        if (plan.code != SHORT)                                                 \
            return -1;                                                          \
        if (m->msg_iovlen == 0 || m->msg_iov[0].iov_len == 0)                   \
            return f(fd, m, flags);                                             \
        one = (struct iovec){.iov_base = m->msg_iov[0].iov_base, .iov_len = 1}; \
        less.msg_iov = &one;                                                    \
        less.msg_iovlen = 1;                                                    \
        r = f(fd, &less, flags);                                                \
        copy_back(m, &less);                                                    \
        return r;                                                               \
    }

static void copy_control(struct msghdr *to, const struct msghdr *from)
{
    to->msg_controllen = from->msg_controllen;
    to->msg_flags = from->msg_flags;
    to->msg_namelen = from->msg_namelen;
}
#define copy_back(to, from) copy_control(to, from)
WRAP_MSG(recvmsg, "recv", struct msghdr)
#undef copy_back
#define copy_back(to, from) ((void)(from))
WRAP_MSG(sendmsg, "send", const struct msghdr)
#undef copy_back

static size_t one_part(const struct iovec *parts, int n, struct iovec *one)
{
    if (n <= 0 || parts[0].iov_len == 0)
        return 0;
    *one = (struct iovec){.iov_base = parts[0].iov_base, .iov_len = 1};
    return 1;
}

#define WRAP_VECTOR(name, kind)                                                       \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int n);                    \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int n)                     \
    {                                                                                 \
        static _Atomic(void *) kept;                                                  \
        ssize_t (*f)(int, const struct iovec *, int) =                                \
            (ssize_t(*)(int, const struct iovec *, int))(intptr_t)next(&kept, #name); \
        struct iovec one;                                                             \
                                                                                      \
        if (!FAILS(kind))                                                             \
            return f(fd, parts, n);                                                   \
        if (plan.code != SHORT)                                                       \
            return -1;                                                                \
        return one_part(parts, n, &one) ? f(fd, &one, 1) : f(fd, parts, n);           \
    }

WRAP_VECTOR(readv, "read")
WRAP_VECTOR(writev, "write")

WRAP(void *, mmap, "mmap", MAP_FAILED, (void *p, size_t n, int prot, int flags, int fd, off_t at),
     (p, n, prot, flags, fd, at))
WRAP(void *, mmap64, "mmap", MAP_FAILED,
     (void *p, size_t n, int prot, int flags, int fd, off64_t at), (p, n, prot, flags, fd, at))
WRAP(int, socket, "socket", -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, socketpair, "socket", -1, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds))
WRAP(int, accept4, "socket", -1, (int fd, struct sockaddr *a, socklen_t *len, int flags),
     (fd, a, len, flags))
WRAP(int, bind, "bind", -1, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, listen, "bind", -1, (int fd, int backlog), (fd, backlog))
WRAP(int, connect, "connect", -1, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
WRAP(int, pipe, "pipe", -1, (int fds[2]), (fds))
WRAP(int, pipe2, "pipe", -1, (int fds[2], int flags), (fds, flags))
WRAP(int, eventfd, "eventfd", -1, (unsigned value, int flags), (value, flags))
WRAP(int, epoll_create1, "eventfd", -1, (int flags), (flags))
WRAP(int, timerfd_create, "eventfd", -1, (int clock, int flags), (clock, flags))
WRAP(int, signalfd, "eventfd", -1, (int fd, const sigset_t *set, int flags), (fd, set, flags))
WRAP(int, epoll_ctl, "eventfd", -1, (int ep, int op, int fd, struct epoll_event *e),
     (ep, op, fd, e))
WRAP(int, memfd_create, "memfd", -1, (const char *name, unsigned flags), (name, flags))
WRAP(int, ftruncate, "memfd", -1, (int fd, off_t n), (fd, n))
WRAP(int, ftruncate64, "memfd", -1, (int fd, off64_t n), (fd, n))
WRAP(int, fallocate, "memfd", -1, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
WRAP(int, fallocate64, "memfd", -1, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
WRAP(int, dup, "dup", -1, (int fd), (fd))
WRAP(int, dup2, "dup", -1, (int fd, int to), (fd, to))
WRAP(int, dup3, "dup", -1, (int fd, int to, int flags), (fd, to, flags))
WRAP(pid_t, fork, "fork", -1, (void), ())
WRAP(int, rename, "rename", -1, (const char *from, const char *to), (from, to))
WRAP(int, renameat, "rename", -1, (int a, const char *from, int b, const char *to),
     (a, from, b, to))
WRAP(int, link, "rename", -1, (const char *from, const char *to), (from, to))
WRAP(int, linkat, "rename", -1, (int a, const char *from, int b, const char *to, int flags),
     (a, from, b, to, flags))
WRAP(int, unlink, "unlink", -1, (const char *path), (path))
WRAP(int, unlinkat, "unlink", -1, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, mkdir, "unlink", -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, fsync, "fsync", -1, (int fd), (fd))
WRAP(int, fdatasync, "fsync", -1, (int fd), (fd))
WRAP(int, stat, "stat", -1, (const char *path, struct stat *s), (path, s))
WRAP(int, lstat, "stat", -1, (const char *path, struct stat *s), (path, s))
WRAP(int, fstat, "stat", -1, (int fd, struct stat *s), (fd, s))
WRAP(int, fstatat, "stat", -1, (int at, const char *path, struct stat *s, int flags),
     (at, path, s, flags))
WRAP(int, stat64, "stat", -1, (const char *path, struct stat64 *s), (path, s))
WRAP(int, lstat64, "stat", -1, (const char *path, struct stat64 *s), (path, s))
WRAP(int, fstat64, "stat", -1, (int fd, struct stat64 *s), (fd, s))
WRAP(int, fstatat64, "stat", -1, (int at, const char *path, struct stat64 *s, int flags),
     (at, path, s, flags))
WRAP(int, poll, "poll", -1, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
WRAP(int, __poll_chk, "poll", -1, (struct pollfd * p, nfds_t n, int ms, size_t room),
     (p, n, ms, room))
WRAP(int, epoll_wait, "poll", -1, (int ep, struct epoll_event *e, int n, int ms), (ep, e, n, ms))
WRAP(FILE *, fopen, "open", NULL, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fopen64, "open", NULL, (const char *path, const char *mode), (path, mode))
WRAP(DIR *, opendir, "open", NULL, (const char *path), (path))
WRAP(FILE *, fdopen, "malloc", NULL, (int fd, const char *mode), (fd, mode))
WRAP(FILE *, open_memstream, "malloc", NULL, (char **p, size_t *n), (p, n))
WRAP(DIR *, fdopendir, "malloc", NULL, (int fd), (fd))
WRAP(char *, strdup, "malloc", NULL, (const char *s), (s))
WRAP(char *, strndup, "malloc", NULL, (const char *s, size_t n), (s, n))
WRAP(char *, realpath, "open", NULL, (const char *path, char *to), (path, to))

/* These return their error code. */
WRAP(int, pthread_create, "pthread", plan.code,
     (pthread_t * t, const pthread_attr_t *a, void *(*run)(void *), void *arg), (t, a, run, arg))
WRAP(int, posix_spawn, "fork", plan.code,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *fa,
      const posix_spawnattr_t *at, char *const argv[], char *const env[]),
     (pid, path, fa, at, argv, env))
WRAP(int, posix_spawnp, "fork", plan.code,
     (pid_t * pid, const char *path, const posix_spawn_file_actions_t *fa,
      const posix_spawnattr_t *at, char *const argv[], char *const env[]),
     (pid, path, fa, at, argv, env))
WRAP(int, posix_fallocate, "memfd", plan.code, (int fd, off_t at, off_t n), (fd, at, n))
WRAP(int, posix_fallocate64, "memfd", plan.code, (int fd, off64_t at, off64_t n), (fd, at, n))

/* Functions that open a file have a mode only if they may create it; it is always passed on. */
#define WRAP_OPEN(name, before, names)                                \
    EXPORT int name before;                                           \
    EXPORT int name before                                            \
    {                                                                 \
        static _Atomic(void *) kept;                                  \
        int(*f) before = (int(*) before)(intptr_t)next(&kept, #name); \
        va_list ap;                                                   \
        unsigned mode;                                                \
                                                                      \
        va_start(ap, flags);                                          \
        mode = va_arg(ap, unsigned);                                  \
        va_end(ap);                                                   \
        return FAILS("open") ? -1 : f names;                          \
    }
WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRAP(int, __open_2, "open", -1, (const char *path, int flags), (path, flags))
WRAP(int, __open64_2, "open", -1, (const char *path, int flags), (path, flags))
WRAP(int, __openat_2, "open", -1, (int at, const char *path, int flags), (at, path, flags))
WRAP(int, __openat64_2, "open", -1, (int at, const char *path, int flags), (at, path, flags))

static int print_to(char **ret, const char *format, va_list ap)
{
    int r;

    within++;
    r = vasprintf(ret, format, ap);
    within--;
    return r;
}

#define WRAP_PRINT(name, before, flag) \
    EXPORT int name before;            \
    EXPORT int name before             \
    {                                  \
        va_list ap;                    \
        int r;                         \
                                       \
        flag;                          \
        if (FAILS("malloc"))           \
            return -1;                 \
        va_start(ap, format);          \
        r = print_to(ret, format, ap); \
        va_end(ap);                    \
        return r;                      \
    }
WRAP_PRINT(asprintf, (char **ret, const char *format, ...), (void)0)
WRAP_PRINT(__asprintf_chk, (char **ret, int flag, const char *format, ...), (void)flag)
EXPORT int __vasprintf_chk(char **ret, int flag, const char *format, va_list ap);
EXPORT int __vasprintf_chk(char **ret, int flag, const char *format, va_list ap)
{
    (void)flag;
    return FAILS("malloc") ? -1 : print_to(ret, format, ap);
}

/* ---- memory ----
 *
 * dlsym() may allocate before it has found the function that allocates: such pieces come from an
 * array and stay. */
static char early[65536] __attribute__((aligned(64)));
static _Atomic size_t early_used;
static _Thread_local volatile int looking_up; /* volatile: dlsym() is said never to call back */

static bool is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static void *early_piece(size_t n)
{
    size_t at = atomic_fetch_add(&early_used, (n + 63) / 64 * 64 + 64);

    return at + n <= sizeof(early) ? early + at : NULL;
}

static void *next_allocator(_Atomic(void *) *kept, const char *name)
{
    void *f = *kept;

    if (!f && !looking_up) {
        looking_up++;
        f = next(kept, name);
        looking_up--;
    }
    return f;
}

#define WRAP_MEMORY(name, parameters, arguments, bytes)                                     \
    EXPORT void *name parameters;                                                           \
    EXPORT void *name parameters                                                            \
    {                                                                                       \
        static _Atomic(void *) kept;                                                        \
        void *(*f)parameters = (void *(*)parameters)(intptr_t)next_allocator(&kept, #name); \
                                                                                            \
        if (!f)                                                                             \
            return early_piece(bytes);                                                      \
        return FAILS("malloc") ? NULL : f arguments;                                        \
    }
WRAP_MEMORY(malloc, (size_t n), (n), n)
WRAP_MEMORY(calloc, (size_t n, size_t size), (n, size), n *size)
WRAP_MEMORY(aligned_alloc, (size_t align, size_t n), (align, n), n)

EXPORT void *realloc(void *p, size_t n);
EXPORT void *realloc(void *p, size_t n)
{
    static _Atomic(void *) kept;
    void *(*f)(void *, size_t) =
        (void *(*)(void *, size_t))(intptr_t)next_allocator(&kept, "realloc");

    if (!f || is_early(p)) {
        void *q = early_piece(n);

        return q && p ? memcpy(q, p, n) : q; /* perhaps beyond a smaller piece, within the array */
    }
    return FAILS("malloc") ? NULL : f(p, n);
}

EXPORT int posix_memalign(void **ret, size_t align, size_t n);
EXPORT int posix_memalign(void **ret, size_t align, size_t n)
{
    static _Atomic(void *) kept;
    int (*f)(void **, size_t, size_t) =
        (int (*)(void **, size_t, size_t))(intptr_t)next_allocator(&kept, "posix_memalign");

    return FAILS("malloc") ? ENOMEM : f(ret, align, n);
}

EXPORT void free(void *p);
EXPORT void free(void *p)
{
    static _Atomic(void *) kept;
    void (*f)(void *) = (void (*)(void *))(intptr_t)next_allocator(&kept, "free");

    if (f && !is_early(p))
        f(p);
}

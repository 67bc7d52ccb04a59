/* SPDX-License-Identifier: MIT */
/* jobloader.c - keeps one plenumd for a job, for the shim of plenumrun and for libplenum alike.
 *
 * The keeper binds an abstract socket named after the job: binding elects the keeper among a
 * host's processes, and nothing is left in a file system. (On a host that only lends its cores it
 * is a TCP socket.) plenumd is started when the first client connects (until then it would only
 * take memory from the training program) and inherits the socket. Clients that connect while it is
 * away wait in the socket's backlog: nobody is refused.
 *
 * A socket pair ("lifeline") ties the two processes: the loader ends when it reads end-of-file from
 * it, so it cannot outlive its keeper. (PR_SET_PDEATHSIG would follow the thread that forked, not
 * the process.) After a first byte from the keeper the loader sends one byte a second. When these
 * cease, the loader hangs: it is killed and replaced like one that has died. Time in which the
 * keeper itself did not run does not count.
 *
 * The loader is nobody's child but process 1's (or a subreaper's): the program that libplenum is
 * part of waits for its own children in its own ways. It is held by a pidfd, never by its number,
 * which may be another process's by then. Of the program's descriptors it inherits none but its
 * standard error.
 */
#include "config.h"

#include "common/jobloader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/address.h"
#include "common/error.h"
#include "common/module.h"
#include "common/util.h"

enum {
    LISTEN_FD = 3, /* in the loader */
    LIFELINE_FD = 4,
    ARGS_MAX = 32,
    BACKOFF_FIRST_MS =
        50, /* between a loader's death and its restart, doubled for each early death */
    BACKOFF_LAST_MS = 5000,
    SETTLED_MS = 10000, /* a loader that lived so long was not a failed start */
    SILENT_MAX = 10,    /* seconds without a beat: it hangs. Longer than clients wait for a word */
    KILLED_MS = 1000,   /* that jobloader_destroy() waits for a killed loader, which may hang */
    BETWEEN_STACK = 64 << 10,
    EVENTS = 8, /* of one turn: no more than there are descriptors */
};

#ifndef P_PIDFD /* glibc 2.36 */
#define P_PIDFD ((idtype_t)3)
#endif

struct jobloader {
    char *plenumd;
    char *args[ARGS_MAX + 1]; /* plenumd's own: argv[0] first */
    char *const *environment; /* borrowed; NULL: this process's */
    int listen_fd;
    int epoll_fd;
    int timer_fd;
    int lifeline;    /* to the running loader; -1 when there is none */
    pid_t pid;       /* of the running loader; 0 when there is none */
    int pidfd;       /* likewise; -1 */
    int dying;       /* pidfd of one that is being replaced, and is not gone yet; or -1 */
    bool beats;      /* while it runs: it has said a word, */
    unsigned silent; /* and then none in so many of our own seconds */
    uint64_t started_ns;
    int backoff_ms;
};

char *jobloader_form_address(const char *job, char *text, size_t size)
{
    (void)snprintf(text, size, "unix:@plenum-%u-%s", (unsigned)geteuid(), job);
    return text;
}

/* Is it in a folder, `len` characters long? Then it is what is returned. */
static bool find_in(const char *folder, size_t len, char *ret, size_t size)
{
    int n = snprintf(ret, size, "%.*s/plenumd", (int)len, folder);

    return len > 0 && n > 0 && n < (int)size && access(ret, X_OK) == 0;
}

int jobloader_find_program(char *ret, size_t size, struct plenum_error *err)
{
    const char *named = getenv("PLENUM_PLENUMD"), *path = getenv("PATH"), *slash;
    char self[4096];
    bool library;
    size_t len;
    ssize_t n;

    if (named && *named) {
        if (access(named, X_OK) < 0)
            return error_set(err, -ENOENT, "PLENUM_PLENUMD names '%s': %s", named, strerror(errno));
        return snprintf(ret, size, "%s", named) < (int)size ? 0 : -ENAMETOOLONG;
    }
    /* The library's own before the program's: a Python of the system knows nothing of the Plenum of
     * a virtual environment, but may lie beside another one. */
    len = module_own_folder(self, sizeof(self), &library);
    if (library && find_in(self, len, ret, size))
        return 0;
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash && find_in(self, (size_t)(slash - self), ret, size))
        return 0;
    if (find_in(PLENUM_BINDIR, strlen(PLENUM_BINDIR), ret, size))
        return 0;
    while (path && *path) {
        len = strcspn(path, ":");
        if (find_in(path, len, ret, size))
            return 0;
        path += len;
        path += *path == ':';
    }
    return error_set(err, -ENOENT,
                     "the loader program plenumd was not found: not beside libplenum, not beside "
                     "this program, not "
                     "in %s, not in PATH; install it or set PLENUM_PLENUMD",
                     PLENUM_BINDIR);
}

static int watch(struct jobloader *l, int fd, bool wanted)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(l->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) < 0)
        return -errno;
    return 0;
}

static int copy_args(struct jobloader *l, const char *const *args)
{
    static const char *const own[] = {"plenumd", "--job", "--listen-fd", "3", "--leash-fd", "4"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (!(l->args[n++] = strdup(own[i])))
            return -ENOMEM;
    for (size_t i = 0; args && args[i]; i++) {
        if (n == ARGS_MAX)
            return -E2BIG;
        if (!(l->args[n++] = strdup(args[i])))
            return -ENOMEM;
    }
    return 0;
}

int jobloader_create(const struct jobloader_options *options, struct jobloader **ret,
                     struct plenum_error *err)
{
    struct jobloader *l;
    struct address address;
    char program[1024];
    int r;

    r = strncmp(options->address, "unix:", 5) == 0
            ? address_parse(options->address, &address, err)
            : address_parse_listen(options->address, &address, err);
    if (r < 0)
        return r;
    if (!options->plenumd) {
        r = jobloader_find_program(program, sizeof(program), err);
        if (r < 0)
            return r;
    }
    l = malloc(sizeof(*l));
    if (!l)
        return error_set(err, -ENOMEM, "out of memory");
    *l = (struct jobloader){.listen_fd = -1,
                            .epoll_fd = -1,
                            .timer_fd = -1,
                            .lifeline = -1,
                            .pidfd = -1,
                            .dying = -1,
                            .backoff_ms = BACKOFF_FIRST_MS};
    l->plenumd = strdup(options->plenumd ? options->plenumd : program);
    r = l->plenumd ? copy_args(l, options->args) : -ENOMEM;
    if (r < 0) {
        (void)error_set(err, r, "cannot keep the loader's arguments: %s", strerror(-r));
        goto fail;
    }
    l->listen_fd = address_listen(&address, 0600, err);
    if (l->listen_fd < 0) {
        r = l->listen_fd;
        goto fail;
    }
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (l->epoll_fd < 0 || l->timer_fd < 0) {
        r = -errno;
        (void)error_set(err, r, "cannot watch the loader: %s", strerror(-r));
        goto fail;
    }
    r = watch(l, l->listen_fd, true);
    if (r < 0 || (r = watch(l, l->timer_fd, true)) < 0) {
        (void)error_set(err, r, "cannot watch the loader: %s", strerror(-r));
        goto fail;
    }
    *ret = l;
    return 0;

fail:
    jobloader_destroy(l, 0);
    return r;
}

int jobloader_get_fd(const struct jobloader *loader)
{
    return loader->epoll_fd;
}

char *jobloader_get_address(const struct jobloader *loader, char *text, size_t size)
{
    return address_of_socket(loader->listen_fd, false, text, size);
}

void jobloader_set_environment(struct jobloader *loader, char *const *environment)
{
    loader->environment = environment;
}

pid_t jobloader_get_pid(const struct jobloader *loader)
{
    return loader->pid;
}

/* A copy above the numbers that the loader expects, so that dup2() cannot tread on it. */
static int move_up(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 16);
}

/* A process that is to be started. */
struct spawn {
    const struct jobloader *loader;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int r;
    pid_t pid;
    int pidfd;
};

/* The intermediate process of a double fork: it shares our memory and descriptors and ends at once,
 * so that the loader is not our child. While it lives the loader's process id cannot be reused,
 * because a dead loader stays its zombie: SIGCHLD is set to SIG_DFL, as the program may ignore it.
 * (By the system call itself: a library that wraps sigaction() would take this for the program's
 * setting.) */
static int between(void *arg)
{
    static const unsigned long nothing[8]; /* SIG_DFL, no flags, no mask */
    struct spawn *b = arg;
    const struct jobloader *l = b->loader;

    (void)syscall(SYS_rt_sigaction, SIGCHLD, nothing, NULL, NSIG / 8);
    b->r = -posix_spawn(&b->pid, l->plenumd, &b->actions, &b->attr, l->args,
                        l->environment ? l->environment : environ);
    if (b->r < 0)
        return 0;
    b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0);
    if (b->pidfd < 0) /* it ends by its lifeline */
        b->r = -errno;
    return 0;
}

/* For kernels without such a clone(): qemu's user mode knows only children with memory of their own
 * and SIGCHLD. The child sends the loader's process id and lives until we hold a pidfd. The program
 * may see the child come and go. */
static int spawn_by_fork(struct spawn *b)
{
    int pair[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    child = _Fork();
    if (child == 0) {
        (void)close(pair[0]);
        (void)between(b);
        (void)send(pair[1], b, sizeof(*b), MSG_NOSIGNAL);
        (void)!recv(pair[1], b, 1, 0);
        _exit(0);
    }
    b->r = child < 0 ? -errno : -EIO;
    (void)close(pair[1]);
    if (child > 0 && recv(pair[0], b, sizeof(*b), 0) == (ssize_t)sizeof(*b) && b->r == 0) {
        b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0);
        if (b->pidfd < 0)
            b->r = -errno;
    }
    (void)close(pair[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return b->r;
}

/* The child sends no signal when it ends, and only __WCLONE waits for it, so the program does not
 * see it. */
static int spawn_by_clone(struct spawn *b)
{
    char *stack = malloc(BETWEEN_STACK);
    sigset_t all, old;
    pid_t pid;

    if (!stack)
        return -ENOMEM;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(between, stack + BETWEEN_STACK, CLONE_VM | CLONE_VFORK | CLONE_FILES, b);
    if (pid < 0)
        b->r = -errno;
    while (pid > 0 && waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
        ;
    if (b->r == -EINVAL && pid < 0)
        b->r = spawn_by_fork(b);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    free(stack);
    return b->r;
}

/* With these two descriptors and no others. */
static int spawn_with(struct spawn *b, int listen_fd, int lifeline_fd)
{
    sigset_t none, all;
    int r;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&b->actions);
    (void)posix_spawn_file_actions_adddup2(&b->actions, listen_fd, LISTEN_FD);
    (void)posix_spawn_file_actions_adddup2(&b->actions, lifeline_fd, LIFELINE_FD);
    (void)posix_spawn_file_actions_addclosefrom_np(&b->actions, LIFELINE_FD + 1);
    (void)posix_spawn_file_actions_addopen(&b->actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&b->actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawnattr_init(&b->attr);
    (void)posix_spawnattr_setsigmask(&b->attr, &none);
    (void)posix_spawnattr_setsigdefault(&b->attr, &all);
    /* Its own session: Ctrl-C at the terminal is for the training program; the lifeline ends the
     * loader. */
    (void)posix_spawnattr_setflags(&b->attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETSID);
    r = spawn_by_clone(b);
    (void)posix_spawnattr_destroy(&b->attr);
    (void)posix_spawn_file_actions_destroy(&b->actions);
    return r;
}

static void set_timer(struct jobloader *l, unsigned first_ms, unsigned every_ms)
{
    struct itimerspec t = {
        .it_value = {.tv_sec = first_ms / 1000, .tv_nsec = (long)(first_ms % 1000) * 1000000},
        .it_interval = {.tv_sec = every_ms / 1000, .tv_nsec = (long)(every_ms % 1000) * 1000000}};

    (void)timerfd_settime(l->timer_fd, 0, &t, NULL);
}

static int spawn(struct jobloader *l)
{
    struct spawn b = {.loader = l, .pidfd = -1};
    int pair[2], listen_fd, lifeline_fd, r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    listen_fd = move_up(l->listen_fd);
    lifeline_fd = move_up(pair[1]);
    r = listen_fd < 0 || lifeline_fd < 0 ? -EMFILE : spawn_with(&b, listen_fd, lifeline_fd);
    io_close(&listen_fd);
    io_close(&lifeline_fd);
    (void)close(pair[1]);
    if (r < 0) {
        (void)close(pair[0]);
        return r;
    }
    l->lifeline = pair[0];
    l->pid = b.pid;
    l->pidfd = b.pidfd;
    l->beats = false;
    l->silent = 0;
    l->started_ns = time_now_ns();
    (void)send(l->lifeline, "", 1, MSG_NOSIGNAL); /* asks for beats */
    (void)watch(l, l->lifeline, true);
    (void)watch(l, l->pidfd, true);
    set_timer(l, 1000, 1000);
    return 0;
}

/* The next try, when somebody still waits for a loader then. */
static void retry_later(struct jobloader *l)
{
    set_timer(l, (unsigned)l->backoff_ms, 0);
    l->backoff_ms = l->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : l->backoff_ms * 2;
}

/* Somebody waits for a loader. (Who waits for one that is being started is told of once more where
 * watching could not be ended.) */
static void start(struct jobloader *l)
{
    if (l->pid != 0)
        return;
    (void)watch(l, l->listen_fd, false);
    if (spawn(l) < 0)
        retry_later(l);
}

/* One that was killed is gone, or is not waited for any more. */
static void bury(struct jobloader *l)
{
    siginfo_t info;

    if (l->dying < 0)
        return;
    (void)waitid(P_PIDFD, (id_t)l->dying, &info, WEXITED | WNOHANG); /* where it fell to us */
    (void)watch(l, l->dying, false);
    io_close(&l->dying);
}

/* The loader has ended, or shall: another one is to be started. */
static void lose(struct jobloader *l)
{
    bury(l);
    (void)watch(l, l->lifeline, false);
    io_close(&l->lifeline);
    (void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
    l->dying = l->pidfd; /* still watched: it becomes readable when the process is gone */
    l->pidfd = -1;
    l->pid = 0;
    if (time_now_ns() - l->started_ns > SETTLED_MS * NS_PER_MS)
        l->backoff_ms = BACKOFF_FIRST_MS;
    retry_later(l);
}

static void hear(struct jobloader *l)
{
    char bytes[64];
    ssize_t n = recv(l->lifeline, bytes, sizeof(bytes), 0);

    if (n > 0) {
        l->beats = true;
        l->silent = 0;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        lose(l);
    }
}

/* A second of a loader's life has passed, or the pause after a death. One that has not said a word
 * yet may take long to be loaded from a file server. Seconds in which we did not run ourselves (a
 * job that is frozen as a whole) come as one. */
static void tick(struct jobloader *l)
{
    uint64_t ticks;

    (void)!read(l->timer_fd, &ticks, sizeof(ticks));
    if (l->pid == 0) {
        (void)watch(l, l->listen_fd, true);
        return;
    }
    if (l->beats && ++l->silent > SILENT_MAX)
        lose(l);
}

void jobloader_dispatch(struct jobloader *loader)
{
    struct epoll_event ev;

    for (int i = 0; i < EVENTS && epoll_wait(loader->epoll_fd, &ev, 1, 0) == 1; i++) {
        if (ev.data.fd == loader->listen_fd)
            start(loader);
        else if (ev.data.fd == loader->timer_fd)
            tick(loader);
        else if (ev.data.fd == loader->lifeline)
            hear(loader);
        else if (ev.data.fd == loader->pidfd)
            lose(loader);
        else
            bury(loader);
    }
}

void jobloader_forget(struct jobloader *loader)
{
    io_close(&loader->listen_fd);
    io_close(&loader->epoll_fd);
    io_close(&loader->timer_fd);
    io_close(&loader->lifeline);
    io_close(&loader->pidfd);
    io_close(&loader->dying);
    loader->pid = 0;
}

static bool is_gone_within(int pidfd, int timeout_ms)
{
    uint64_t end = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS, now;
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};

    while ((now = time_now_ns()) < end)
        if (poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1) == 1)
            return true;
    return false;
}

static void end_process(struct jobloader *l, int grace_ms)
{
    siginfo_t info;

    bury(l);
    if (l->pid == 0)
        return;
    (void)shutdown(l->lifeline, SHUT_WR);
    if (!is_gone_within(l->pidfd, grace_ms)) {
        (void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0);
        (void)is_gone_within(l->pidfd, KILLED_MS);
    }
    (void)waitid(P_PIDFD, (id_t)l->pidfd, &info, WEXITED | WNOHANG);
}

void jobloader_destroy(struct jobloader *loader, int grace_ms)
{
    if (!loader)
        return;
    end_process(loader, grace_ms);
    jobloader_forget(loader);
    for (size_t i = 0; loader->args[i]; i++)
        free(loader->args[i]);
    free(loader->plenumd);
    free(loader);
}

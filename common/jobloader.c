/* jobloader.c - keeps one plenumd for a job, for the shim of plenumrun and for libplenum alike.
 *
 * The keeper binds an abstract socket named after the job: binding elects the keeper among a
 * host's processes, and nothing is left in a file system. (On a host that only lends its cores it is
 * a TCP socket.) plenumd is started when the first client connects (until then it would only take
 * memory from the training program) and inherits the socket. Clients that connect while it is away
 * wait in the socket's backlog: nobody is refused.
 *
 * A socket pair ("leash") ties the two processes: the loader ends when its end reads end-of-file,
 * so it cannot outlive its keeper however that dies, and the keeper learns the same way that the
 * loader is gone. (PR_SET_PDEATHSIG would do for a process, but it follows the thread that forked.)
 * A byte that the keeper writes to it asks the loader for beats: a byte each second while its loop
 * turns. */
#include "config.h"

#include "common/jobloader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/address.h"
#include "common/error.h"
#include "common/util.h"

extern char **environ;

enum {
    LISTEN_FD = 3, /* in the loader */
    LEASH_FD = 4,
    ARGS_MAX = 32,
    BACKOFF_FIRST_MS =
        50, /* between a loader's death and its restart, doubled for each early death */
    BACKOFF_LAST_MS = 5000,
    SETTLED_MS = 10000, /* a loader that lived so long was not a failed start */
};

struct jobloader {
    char *plenumd;
    char *args[ARGS_MAX + 1]; /* plenumd's own: argv[0] first */
    char *const *environment; /* borrowed; NULL: this process's */
    int listen_fd;
    int epoll_fd;
    int timer_fd;
    int leash; /* to the running loader; -1 when there is none */
    pid_t pid; /* of the running loader; 0 when there is none */
    uint64_t started_ns;
    int backoff_ms;
};

int jobloader_find_program(char *ret, size_t size, struct plenum_error *err)
{
    static const char name[] = "plenumd";
    const char *named = getenv("PLENUM_PLENUMD"), *path = getenv("PATH");
    char self[1024];
    ssize_t n;

    if (named && *named) {
        if (access(named, X_OK) < 0)
            return error_set(err, -ENOENT, "PLENUM_PLENUMD names '%s': %s", named, strerror(errno));
        return snprintf(ret, size, "%s", named) < (int)size ? 0 : -ENAMETOOLONG;
    }
    n = readlink("/proc/self/exe", self, sizeof(self) - sizeof(name));
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');

        if (slash) {
            memcpy(slash + 1, name, sizeof(name));
            if (access(self, X_OK) == 0)
                return snprintf(ret, size, "%s", self) < (int)size ? 0 : -ENAMETOOLONG;
        }
    }
    if (snprintf(ret, size, "%s/%s", PLENUM_BINDIR, name) < (int)size && access(ret, X_OK) == 0)
        return 0;
    while (path && *path) {
        size_t len = strcspn(path, ":");

        if (len > 0 && snprintf(ret, size, "%.*s/%s", (int)len, path, name) < (int)size &&
            access(ret, X_OK) == 0)
            return 0;
        path += len;
        path += *path == ':';
    }
    return error_set(
        err, -ENOENT,
        "the loader program plenumd was not found: not beside this program, not in %s, "
        "not in PATH; install it or set PLENUM_PLENUMD",
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
                            .leash = -1,
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
    if (r == 0)
        r = watch(l, l->timer_fd, true);
    if (r < 0) {
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

static int spawn(struct jobloader *l)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int pair[2], listen_fd, leash_fd, r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    listen_fd = move_up(l->listen_fd);
    leash_fd = move_up(pair[1]);
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, listen_fd, LISTEN_FD);
    (void)posix_spawn_file_actions_adddup2(&actions, leash_fd, LEASH_FD);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &all);
    /* Its own session: Ctrl-C at the terminal is for the training program; the leash ends the
     * loader. */
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETSID);
    r = listen_fd < 0 || leash_fd < 0
            ? -EMFILE
            : -posix_spawn(&l->pid, l->plenumd, &actions, &attr, l->args,
                           l->environment ? l->environment : environ);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    io_close(&listen_fd);
    io_close(&leash_fd);
    (void)close(pair[1]);
    if (r < 0) {
        l->pid = 0;
        (void)close(pair[0]);
        return r;
    }
    l->leash = pair[0];
    (void)send(l->leash, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    l->started_ns = time_now_ns();
    (void)watch(l, l->leash, true);
    return 0;
}

/* The next try, when somebody still waits for a loader then. */
static void retry_later(struct jobloader *l)
{
    struct itimerspec t = {.it_value = {.tv_sec = l->backoff_ms / 1000,
                                        .tv_nsec = (long)(l->backoff_ms % 1000) * 1000000}};

    (void)timerfd_settime(l->timer_fd, 0, &t, NULL);
    l->backoff_ms = l->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : l->backoff_ms * 2;
}

static void start(struct jobloader *l)
{
    (void)watch(l, l->listen_fd, false);
    if (spawn(l) < 0)
        retry_later(l);
}

static void reap(struct jobloader *l)
{
    int status;

    (void)watch(l, l->leash, false);
    io_close(&l->leash);
    /* The leash breaks when the process exits; it is a zombie within the same moment. */
    (void)kill(l->pid, SIGKILL);
    (void)waitpid(l->pid, &status, 0);
    l->pid = 0;
    if (time_now_ns() - l->started_ns > SETTLED_MS * NS_PER_MS)
        l->backoff_ms = BACKOFF_FIRST_MS;
    retry_later(l);
}

/* Something came from the loader: false when that is its end. */
static bool take_beats(struct jobloader *l)
{
    char bytes[64];
    ssize_t n = recv(l->leash, bytes, sizeof(bytes), MSG_DONTWAIT);

    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void jobloader_dispatch(struct jobloader *loader)
{
    struct epoll_event ev;
    uint64_t ticks;

    while (epoll_wait(loader->epoll_fd, &ev, 1, 0) == 1) {
        if (ev.data.fd == loader->listen_fd) {
            start(loader);
        } else if (ev.data.fd == loader->timer_fd) {
            (void)!read(loader->timer_fd, &ticks, sizeof(ticks));
            if (loader->pid == 0)
                (void)watch(loader, loader->listen_fd, true);
        } else if (!take_beats(loader)) {
            reap(loader);
        }
    }
}

void jobloader_forget(struct jobloader *loader)
{
    io_close(&loader->listen_fd);
    io_close(&loader->epoll_fd);
    io_close(&loader->timer_fd);
    io_close(&loader->leash);
    loader->pid = 0;
}

static void end_process(struct jobloader *l, int grace_ms)
{
    int status;

    if (l->pid == 0)
        return;
    (void)shutdown(l->leash, SHUT_WR);
    for (int waited = 0; waited < grace_ms; waited += 5) {
        if (waitpid(l->pid, &status, WNOHANG) != 0)
            return; /* reaped here, or by somebody else */
        (void)usleep(5000);
    }
    (void)kill(l->pid, SIGKILL);
    (void)waitpid(l->pid, &status, 0);
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

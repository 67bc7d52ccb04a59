/* SPDX-License-Identifier: MIT */
/* jobspawn.c - see jobspawn.h.
 *
 * The loader is a child of process 1 (or of a subreaper), because the program that uses libplenum
 * may wait for its own children in any way. It is therefore started by an intermediate process,
 * which shares our memory and descriptors and ends at once:
 *
 *     keeper ──clone(VM, VFORK, FILES)── between ──posix_spawn()── plenumd
 *
 * The leash is a socket pair: one end belongs to the loader, the other to the keeper. `between` has
 * the kernel send SIGKILL to the loader when the keeper's end is closed (F_SETSIG, F_SETOWN,
 * O_ASYNC). This needs no cooperation of the loader, which may hang in its dynamic linker.
 * (PR_SET_PDEATHSIG follows the thread that forked, not the process, and `between` has ended by
 * then.) A loader that serves ends in order instead, through its lifeline, and drops the leash.
 *
 * Only a parent learns how a process ended. For an observed loader, `between` therefore stays until
 * the loader ends. So does the thread that cloned it, because both use that thread's thread-local
 * memory. That thread dies only with the process, so PR_SET_PDEATHSIG is right for this
 * `between`. */
#include "config.h"

#include "common/job/jobspawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    FIRST_FREE_FD = JOBSPAWN_FIRST_FD + JOBSPAWN_FDS,
    BETWEEN_STACK = 64 << 10,
};

/* A process to start. */
struct spawn {
    const struct jobspawn_request *request;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int leash_fd; /* the loader's end */
    int r;
    pid_t pid;
    int pidfd;
    pid_t keeper;    /* this process */
    int observer_fd; /* receives the report of the loader's end; -1: not observed */
};

/* The report that an observer receives. */
struct spawn_report {
    bool ended;
    int r; /* result of the start */
    struct jobspawn_process process;
    int wait_status; /* wait status at the end */
};

struct jobspawn_observer {
    pthread_t thread;
    struct spawn spawn;
    int fds[2]; /* our end, the thread's end */
};

/* Returns a copy of a descriptor, above the numbers that the loader expects, so that dup2() cannot
 * overwrite it. */
static int move_up(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
}

/* Make the kernel kill the loader when the keeper ends. If the keeper has already ended, the kernel
 * sends no signal, so kill the loader now. */
static void put_on_leash(const struct spawn *b)
{
    struct pollfd fd = {.fd = b->leash_fd};

    (void)fcntl(b->leash_fd, F_SETSIG, SIGKILL);
    (void)fcntl(b->leash_fd, F_SETOWN, b->pid);
    (void)fcntl(b->leash_fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLHUP))
        (void)kill(b->pid, SIGKILL); /* our child, or its zombie */
}

/* Start the loader in the intermediate process. While this process lives, the loader's process id
 * cannot be reused, because a dead loader stays its zombie. SIGCHLD is set to SIG_DFL for that,
 * because the program may ignore it. (The system call is used directly, because a library that
 * wraps sigaction() would take this for the program's setting.) */
static int between(void *arg)
{
    static const unsigned long nothing[8]; /* SIG_DFL, no flags, no mask */
    struct spawn *b = arg;
    const struct jobspawn_request *q = b->request;

    (void)syscall(SYS_rt_sigaction, SIGCHLD, nothing, NULL, NSIG / 8);
    b->r = -posix_spawn(&b->pid, q->program, &b->actions, &b->attr, q->args,
                        q->environment ? q->environment : environ);
    if (b->r < 0)
        return 0;
    put_on_leash(b);
    b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0); /* fails before Linux 5.3, or by seccomp */
    return 0;
}

/* Start the loader where clone_between() fails: qemu's user mode only supports children with their
 * own memory and SIGCHLD. The child sends the loader's process id and lives until we hold a pidfd.
 * The program may notice this child. */
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
    if (child > 0 && recv(pair[0], b, sizeof(*b), 0) == (ssize_t)sizeof(*b) && b->r == 0)
        b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0);
    (void)close(pair[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return b->r;
}

/* Run the intermediate process, and wait for its end. Returns 0 or -errno. It sends no signal when
 * it ends, and only __WCLONE waits for it, so the program does not see it. */
static int clone_between(int (*run)(void *), struct spawn *b)
{
    char *stack = malloc(BETWEEN_STACK);
    sigset_t all, old;
    pid_t pid;
    int r;

    if (!stack)
        return -ENOMEM;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(run, stack + BETWEEN_STACK, CLONE_VM | CLONE_VFORK | CLONE_FILES, b);
    r = pid < 0 ? -errno : 0;
    while (pid > 0 && waitpid(pid, NULL, (int)__WCLONE) < 0 && errno == EINTR)
        ;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    free(stack);
    return r;
}

static int spawn_by_clone(struct spawn *b)
{
    int r = clone_between(between, b);

    return r == -EINVAL ? spawn_by_fork(b) : r < 0 ? r : b->r;
}

/* Set up the start of the loader with these descriptors and no others. */
static void spawn_init(struct spawn *b, const struct jobspawn_request *request,
                       const struct jobspawn_request *moved)
{
    sigset_t none, all;

    *b = (struct spawn){.request = request,
                        .leash_fd = moved->fds[JOBSPAWN_LEASH],
                        .pidfd = -1,
                        .keeper = getpid(),
                        .observer_fd = -1};
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&b->actions);
    if (moved->stderr_fd >= 0)
        (void)posix_spawn_file_actions_adddup2(&b->actions, moved->stderr_fd, STDERR_FILENO);
    for (int i = 0; i < JOBSPAWN_FDS; i++) {
        if (moved->fds[i] >= 0)
            (void)posix_spawn_file_actions_adddup2(&b->actions, moved->fds[i],
                                                   JOBSPAWN_FIRST_FD + i);
        else
            (void)posix_spawn_file_actions_addclose(&b->actions, JOBSPAWN_FIRST_FD + i);
    }
    (void)posix_spawn_file_actions_addclosefrom_np(&b->actions, FIRST_FREE_FD);
    (void)posix_spawn_file_actions_addopen(&b->actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&b->actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawnattr_init(&b->attr);
    (void)posix_spawnattr_setsigmask(&b->attr, &none);
    (void)posix_spawnattr_setsigdefault(&b->attr, &all);
    /* A separate session: Ctrl-C at the terminal is for the training program, and the lifeline ends
     * the loader. */
    (void)posix_spawnattr_setflags(&b->attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETSID);
}

static void spawn_fini(struct spawn *b)
{
    (void)posix_spawnattr_destroy(&b->attr);
    (void)posix_spawn_file_actions_destroy(&b->actions);
}

static void close_moved(struct jobspawn_request *moved)
{
    for (int i = 0; i < JOBSPAWN_FDS; i++)
        io_close(&moved->fds[i]);
    io_close(&moved->stderr_fd);
}

/* Copy descriptors to numbers above those that the loader uses. Returns 0 or -EMFILE. */
static int move_all(const struct jobspawn_request *request, struct jobspawn_request *ret)
{
    bool complete = true;

    *ret = (struct jobspawn_request){.stderr_fd = -1};
    for (int i = 0; i < JOBSPAWN_FDS; i++) {
        ret->fds[i] = request->fds[i] < 0 ? -1 : move_up(request->fds[i]);
        complete &= ret->fds[i] >= 0 || request->fds[i] < 0;
    }
    if (request->stderr_fd >= 0)
        ret->stderr_fd = move_up(request->stderr_fd);
    if (complete && (ret->stderr_fd >= 0 || request->stderr_fd < 0))
        return 0;
    close_moved(ret);
    return -EMFILE;
}

int jobspawn_start(const struct jobspawn_request *request, struct jobspawn_process *ret)
{
    struct jobspawn_request moved;
    struct spawn b;
    int r = move_all(request, &moved);

    if (r < 0)
        return r;
    spawn_init(&b, request, &moved);
    r = spawn_by_clone(&b);
    spawn_fini(&b);
    close_moved(&moved);
    if (r < 0)
        return r;
    *ret = (struct jobspawn_process){.pid = b.pid, .pidfd = b.pidfd};
    return 0;
}

/* Wait for the loader's end, or until the keeper stops observing. */
static void wait_for_end(const struct spawn *b, struct spawn_report *report)
{
    struct pollfd fds[] = {{.fd = b->observer_fd}, {.events = POLLIN}};
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD); /* blocked, like all signals: clone_between() */
    fds[1].fd = signalfd(-1, &child, SFD_CLOEXEC);
    while (fds[1].fd >= 0 && !report->ended && !(fds[0].revents & POLLHUP)) {
        struct signalfd_siginfo info;

        if (waitpid(b->pid, &report->wait_status, WNOHANG) == b->pid)
            report->ended = true;
        else if (poll(fds, ARRAY_LEN(fds), -1) > 0 && fds[1].revents)
            (void)!read(fds[1].fd, &info, sizeof(info));
    }
    io_close(&fds[1].fd);
}

/* Start and observe the loader in the intermediate process. Sends two reports. */
static int between_observing(void *arg)
{
    struct spawn *b = arg;
    struct spawn_report report = {0};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->keeper)
        return 0;
    (void)between(b);
    report.r = b->r;
    report.process = (struct jobspawn_process){.pid = b->pid, .pidfd = b->pidfd};
    (void)send(b->observer_fd, &report, sizeof(report), MSG_NOSIGNAL);
    if (b->r < 0)
        return 0;
    wait_for_end(b, &report);
    if (report.ended)
        (void)send(b->observer_fd, &report, sizeof(report), MSG_NOSIGNAL);
    return 0;
}

static void *observe_main(void *arg)
{
    struct spawn *b = arg;
    struct spawn_report report = {.r = clone_between(between_observing, b)};

    if (report.r < 0)
        (void)send(b->observer_fd, &report, sizeof(report), MSG_NOSIGNAL);
    (void)shutdown(b->observer_fd, SHUT_RDWR);
    return NULL;
}

static void observer_free(struct jobspawn_observer *o)
{
    io_close(&o->fds[0]);
    io_close(&o->fds[1]);
    free(o);
}

/* Start the thread that observes, and wait for its first report. */
static int begin_observing(struct jobspawn_observer *o, struct spawn_report *ret)
{
    int r;

    o->spawn.observer_fd = o->fds[1];
    r = thread_start(&o->thread, observe_main, &o->spawn);
    if (r < 0)
        return -ENOTSUP;
    if (recv(o->fds[0], ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
        ret->r = -EIO;
    if (ret->r < 0)
        (void)pthread_join(o->thread, NULL);
    return ret->r == -EINVAL ? -ENOTSUP : ret->r;
}

int jobspawn_observe(const struct jobspawn_request *request, struct jobspawn_process *ret,
                     struct jobspawn_observer **ret_observer)
{
    struct jobspawn_observer *o = malloc(sizeof(*o));
    struct jobspawn_request moved;
    struct spawn_report report;
    int r;

    if (!o)
        return -ENOMEM;
    *o = (struct jobspawn_observer){.fds = {-1, -1}};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, o->fds) < 0) {
        r = -errno;
        goto fail;
    }
    r = move_all(request, &moved);
    if (r < 0)
        goto fail;
    spawn_init(&o->spawn, request, &moved);
    r = begin_observing(o, &report);
    spawn_fini(&o->spawn);
    close_moved(&moved);
    if (r < 0)
        goto fail;
    *ret = report.process;
    *ret_observer = o;
    return 0;

fail:
    observer_free(o);
    return r;
}

int jobspawn_observer_fd(const struct jobspawn_observer *observer)
{
    return observer->fds[0];
}

int jobspawn_get_status(struct jobspawn_observer *observer, int *ret_wait_status)
{
    struct spawn_report report;
    ssize_t n = recv(observer->fds[0], &report, sizeof(report), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    if (n != (ssize_t)sizeof(report))
        return -EIO;
    *ret_wait_status = report.wait_status;
    return 0;
}

void jobspawn_unobserve(struct jobspawn_observer *observer)
{
    if (!observer)
        return;
    (void)shutdown(observer->fds[0], SHUT_RDWR);
    (void)pthread_join(observer->thread, NULL);
    observer_free(observer);
}

void jobspawn_forget(struct jobspawn_observer *observer)
{
    if (!observer)
        return;
    io_close(&observer->fds[0]);
    io_close(&observer->fds[1]);
}

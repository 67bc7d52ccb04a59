/* SPDX-License-Identifier: MIT */
/* Tests of a job's own loader, as its keeper manages it: its parent, what it inherits, and what
 * happens when it dies or hangs. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/job/jobloader.h"
#include "common/net/address.h"
#include "common/util/util.h"

/* While set, the started process has exited before its process id is checked. */
static bool ends_first;

int __real_posix_spawn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const *, char *const *);
int __wrap_posix_spawn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const *, char *const *);

int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const *argv, char *const *environment)
{
    int r = __real_posix_spawn(pid, path, actions, attr, argv, environment);
    siginfo_t info;

    if (r == 0 && ends_first)
        (void)waitid(P_PID, (id_t)*pid, &info, WEXITED | WNOWAIT);
    return r;
}

/* How many pidfd calls succeeded, and how many failed. */
static unsigned pidfds[2];
/* While set, pidfd calls fail as on an old kernel. */
static bool no_pidfd;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long r = -1;

    errno = ENOSYS;
    if (number != SYS_pidfd_open || !no_pidfd)
        r = __real_syscall(number, a, b, c, d, e, f);
    if (number == SYS_pidfd_open)
        pidfds[r < 0]++;
    return r;
}

/* While set, clone() fails as under qemu's user mode: no child can be hidden from the program. */
static bool no_clone;
/* Whether clone() has failed. */
static bool clone_refused;

int __real_clone(int (*)(void *), void *, int, void *);
int __wrap_clone(int (*)(void *), void *, int, void *);

int __wrap_clone(int (*function)(void *), void *stack, int flags, void *arg)
{
    int r = -1;

    errno = EINVAL;
    if (!no_clone)
        r = __real_clone(function, stack, flags, arg);
    clone_refused |= r < 0;
    return r;
}

static unsigned heartbeats;

ssize_t __real_recv(int, void *, size_t, int);
ssize_t __wrap_recv(int, void *, size_t, int);

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    ssize_t n = __real_recv(fd, buf, len, flags);

    for (ssize_t i = 0; i < n; i++)
        heartbeats += ((const char *)buf)[i] == JOBLOADER_SERVES;
    return n;
}

static struct jobloader *loader;
static struct address address;
static atomic_uint children_ended;

static void on_child(int signum)
{
    (void)signum;
    atomic_fetch_add(&children_ended, 1);
}

static void setup(void)
{
    char text[64];
    struct jobloader_options options = {.address = text};
    struct plenum_error err = {""};

    (void)snprintf(text, sizeof(text), "unix:@plenum-test-jobloader-%ld", (long)getpid());
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    cr_assert(eq(int, jobloader_create(&options, &loader, &err), 0), "%s", err.text);
    (void)signal(SIGCHLD, on_child);
}

static void teardown(void)
{
    jobloader_destroy(loader, 1000);
}

TestSuite(jobloader, .init = setup, .fini = teardown, .timeout = 600);

/* Do a keeper's work until a process other than `not` serves. */
static pid_t served_by_another(pid_t not )
{
    while (jobloader_get_pid(loader) == 0 || jobloader_get_pid(loader) == not ) {
        struct pollfd fd = {.fd = jobloader_get_fd(loader), .events = POLLIN};

        (void)poll(&fd, 1, 1000);
        jobloader_dispatch(loader);
    }
    return jobloader_get_pid(loader);
}

/* Do a keeper's work until the loader has sent `count` more heartbeats. */
static void keep_for_heartbeats(unsigned count)
{
    unsigned end = heartbeats + count;

    while (heartbeats < end) {
        struct pollfd fd = {.fd = jobloader_get_fd(loader), .events = POLLIN};

        (void)poll(&fd, 1, 1000);
        jobloader_dispatch(loader);
    }
}

static void keep_for(int ms)
{
    uint64_t end = time_now_ns() + (uint64_t)ms * NS_PER_MS, now;

    while ((now = time_now_ns()) < end) {
        struct pollfd fd = {.fd = jobloader_get_fd(loader), .events = POLLIN};

        (void)poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1);
        jobloader_dispatch(loader);
    }
}

/* Returns whether the process has a descriptor of this file. */
static bool has_open(pid_t pid, const struct stat *file)
{
    char path[64];
    struct dirent *e;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
    dir = opendir(path);
    cr_assert(ne(ptr, dir, NULL));
    while ((e = readdir(dir))) {
        struct stat st;

        if (fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
            found |= st.st_dev == file->st_dev && st.st_ino == file->st_ino;
    }
    (void)closedir(dir);
    return found;
}

/* Returns the state letter of a process or thread: X if there is none. */
static char state_of(pid_t process, const char *thread)
{
    char path[384], state = 'X';
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%s/stat", (long)process, thread);
    f = fopen(path, "r");
    if (f) {
        (void)!fscanf(f, "%*d %*s %c", &state);
        (void)fclose(f);
    }
    return state;
}

static bool runs(pid_t pid)
{
    char thread[16];
    char state;

    (void)snprintf(thread, sizeof(thread), "%ld", (long)pid);
    state = state_of(pid, thread);
    return state != 'X' && state != 'Z';
}

/* Returns whether all threads have stopped. */
static bool is_stopped(pid_t pid)
{
    char path[64];
    struct dirent *e;
    bool stopped = true;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    dir = opendir(path);
    cr_assert(ne(ptr, dir, NULL));
    while ((e = readdir(dir)))
        stopped &= e->d_name[0] == '.' || state_of(pid, e->d_name) == 'T';
    (void)closedir(dir);
    return stopped;
}

/* Stop a process, whose threads may still do something, such as accept a connection, until the
 * signal reaches each of them. */
static void stop(pid_t pid)
{
    cr_assert(eq(int, kill(pid, SIGSTOP), 0));
    while (!is_stopped(pid))
        (void)usleep(1000);
}

static void expect_end(pid_t pid)
{
    for (int i = 0; i < 6000 && runs(pid); i++)
        (void)usleep(10000);
    cr_expect(not(runs(pid)));
}

/* plenumd must not be a child of the program: a program may wait for all of its children, or have a
 * handler for them. */
Test(jobloader, is_no_child_of_the_program)
{
    int connection = address_connect(&address, 0);
    pid_t pid = served_by_another(0);

    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    cr_expect(eq(int, errno, ECHILD));
    cr_expect(eq(int, kill(pid, SIGKILL), 0));
    pid = served_by_another(pid);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    jobloader_destroy(loader, 1000);
    loader = NULL;
    expect_end(pid);
    if (!clone_refused)
        cr_expect(eq(u32, atomic_load(&children_ended), 0));
    (void)close(connection);
}

Test(jobloader, inherits_no_descriptor_of_the_program)
{
    int fds[2], connection = address_connect(&address, 0);
    struct stat st;
    pid_t pid;

    cr_assert(eq(int, pipe(fds), 0));
    cr_assert(eq(int, dup2(fds[1], 200), 200));
    cr_assert(eq(int, dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO));
    cr_assert(eq(int, fstat(fds[1], &st), 0));
    pid = served_by_another(0);
    /* Give plenumd time to start. */
    keep_for(500);
    cr_expect(not(has_open(pid, &st)));
    (void)close(connection);
}

/* Without clone(), too, the program has no child to reap. */
Test(jobloader, is_no_child_without_clone)
{
    int connection = address_connect(&address, 0);
    pid_t pid, before;

    no_clone = true;
    pid = served_by_another(0);
    cr_expect(clone_refused);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    cr_expect(eq(int, errno, ECHILD));
    (void)signal(SIGCHLD, SIG_IGN); /* the kernel reaps children */
    before = pid;
    cr_expect(eq(int, kill(before, SIGKILL), 0));
    pid = served_by_another(before);
    expect_end(before);
    cr_expect(runs(pid));
    jobloader_destroy(loader, 1000);
    loader = NULL;
    expect_end(pid);
    (void)close(connection);
}

/* A start that fails must not leave a child to wait for. */
Test(jobloader, that_cannot_start_is_reported_without_clone)
{
    char text[64];
    struct jobloader_options options = {.address = text, .plenumd = "/nonexistent/plenumd"};
    struct plenum_error err = {""};
    int connection;

    jobloader_destroy(loader, 1000);
    (void)snprintf(text, sizeof(text), "unix:@plenum-test-jobloader-none-%ld", (long)getpid());
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    cr_assert(eq(int, jobloader_create(&options, &loader, &err), 0), "%s", err.text);
    connection = address_connect(&address, 0);
    no_clone = true;
    jobloader_dispatch(loader);
    cr_expect(clone_refused);
    cr_expect(eq(int, waitpid(-1, NULL, WNOHANG), -1));
    cr_expect(eq(int, errno, ECHILD));
    keep_for(200);
    cr_expect(eq(int, jobloader_get_pid(loader), 0));
    (void)close(connection);
}

/* The program has the kernel reap its children, too. */
Test(jobloader, is_replaced_when_it_dies)
{
    int connection = address_connect(&address, 0);
    pid_t pid = served_by_another(0);

    (void)signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        pid_t before = pid;

        cr_expect(eq(int, kill(pid, SIGKILL), 0));
        pid = served_by_another(before);
        expect_end(before);
        (void)close(connection);
        connection = address_connect(&address, 0);
    }
    (void)close(connection);
}

/* The loader's process ID is not used once it may belong to another process. */
Test(jobloader, is_known_even_if_it_ends_at_once)
{
    char text[64];
    struct jobloader_options options = {.address = text, .plenumd = "/bin/true"};
    struct plenum_error err = {""};
    int connection;

    jobloader_destroy(loader, 1000);
    (void)snprintf(text, sizeof(text), "unix:@plenum-test-jobloader-true-%ld", (long)getpid());
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    cr_assert(eq(int, jobloader_create(&options, &loader, &err), 0), "%s", err.text);
    connection = address_connect(&address, 0);
    (void)signal(SIGCHLD, SIG_IGN);
    ends_first = true;
    jobloader_dispatch(loader); /* starts a loader, because a client waits */
    cr_expect(pidfds[0] > 0 && pidfds[1] == 0);
    cr_expect(signal(SIGCHLD, SIG_IGN) == SIG_IGN, "the program's own handler must stay");
    (void)close(connection);
}

static char reported[512];

static void on_report(void *arg, const char *text)
{
    (void)arg;
    (void)snprintf(reported, sizeof(reported), "%s", text);
}

/* Over TCP, clients trust only a loader with the key: the keeper reports why none has started. */
Test(jobloader, that_does_not_start_is_reported)
{
    char text[64];
    struct jobloader_options options = {
        .address = "127.0.0.1:0", .plenumd = "/bin/false", .report = on_report};
    struct plenum_error err = {""};

    jobloader_destroy(loader, 1000);
    cr_assert(eq(int, jobloader_create(&options, &loader, &err), 0), "%s", err.text);
    (void)jobloader_get_address(loader, text, sizeof(text));
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    while (!reported[0]) {
        struct pollfd fd = {.fd = jobloader_get_fd(loader), .events = POLLIN};
        int connection = address_connect(&address, 0);

        (void)poll(&fd, 1, 100);
        jobloader_dispatch(loader);
        (void)close(connection);
    }
    cr_expect(eq(str, reported, "the loader /bin/false exited with code 1 while it was starting"));
}

/* Runs as process 1 of a container. Returns 0 if no child is left, dead or alive. */
static int start_as_process_1(void)
{
    struct jobloader_options options = {
        .address = "127.0.0.1:0", .plenumd = "/bin/false", .report = on_report};
    struct plenum_error err = {""};
    siginfo_t info;
    char text[64];

    if (getpid() != 1 || jobloader_create(&options, &loader, &err) < 0 ||
        address_parse(jobloader_get_address(loader, text, sizeof(text)), &address, &err) < 0)
        return 2;
    for (int i = 0; i < 600; i++) {
        int connection = address_connect(&address, 0);

        keep_for(100);
        (void)close(connection);
        if (reported[0] && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
            return 0;
    }
    return 1;
}

Test(jobloader, leaves_no_zombie_to_process_1_without_pidfds)
{
    int status = 0;
    pid_t pid;

    jobloader_destroy(loader, 1000);
    loader = NULL;
    no_pidfd = true;
    if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        cr_skip_test("PID namespaces cannot be created here");
    pid = fork();
    if (pid == 0)
        _exit(start_as_process_1());
    cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
    cr_expect(eq(int, status, 0));
}

/* A shim learns its program's variables only after it has bound the loader's address. */
Test(jobloader, is_the_one_that_its_environment_names)
{
    static char named[] = "PLENUM_PLENUMD=/nonexistent/plenumd";
    static char *environment[] = {named, NULL};
    char text[64];
    struct jobloader_options options = {.address = text, .report = on_report};
    struct plenum_error err = {""};
    int connection;

    jobloader_destroy(loader, 1000);
    (void)snprintf(text, sizeof(text), "unix:@plenum-test-jobloader-named-%ld", (long)getpid());
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    cr_assert(eq(int, jobloader_create(&options, &loader, &err), 0), "%s", err.text);
    jobloader_set_environment(loader, environment);
    connection = address_connect(&address, 0);
    while (!reported[0])
        keep_for(100);
    cr_expect(strstr(reported, "/nonexistent/plenumd") != NULL, "%s", reported);
    (void)close(connection);
}

Test(jobloader, is_replaced_when_it_hangs)
{
    int connection = address_connect(&address, 0);
    pid_t pid = served_by_another(0), other;

    keep_for_heartbeats(2);
    cr_expect(eq(int, jobloader_get_pid(loader), pid));
    stop(pid);
    (void)close(connection);
    connection = address_connect(&address, 0); /* waits for another loader */
    other = served_by_another(pid);
    expect_end(pid);
    cr_expect(runs(other));
    (void)close(connection);
}

/* A job that is frozen as a whole continues with its existing loader. */
Test(jobloader, is_not_to_blame_when_the_keeper_was_stopped)
{
    int connection = address_connect(&address, 0);
    pid_t pid = served_by_another(0);

    keep_for_heartbeats(2);
    stop(pid);
    (void)sleep(14); /* the keeper does not run */
    keep_for(100);
    cr_assert(eq(int, kill(pid, SIGCONT), 0));
    keep_for(1500);
    cr_expect(eq(int, jobloader_get_pid(loader), pid));
    (void)close(connection);
}

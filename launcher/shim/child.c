/* SPDX-License-Identifier: MIT */
/* child.c - starts the program, from fork() to exec().
 *
 * The child binds itself, so that the program has its CPUs and memory from its first instruction.
 * It reports through a pipe: once before exec(), with the binding that the kernel reports, and
 * again if a step failed. A successful exec() closes the pipe, so its end after the first report
 * alone means that the program is running. */
#include "config.h"

#include "launcher/shim/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/host/script.h"
#include "launcher/host/signals.h"

/* The child's ends of the pipes. */
struct ends {
    int input, output, error, report;
};

static void close_ends(struct ends *e)
{
    io_close(&e->input);
    io_close(&e->output);
    io_close(&e->error);
    io_close(&e->report);
}

static _Noreturn void give_up(int report, enum control_step step, int error, struct child_report *r)
{
    r->failed.step = step;
    r->failed.error = error;
    (void)io_write_all(report, r, sizeof(*r));
    _exit(step == CONTROL_STEP_EXEC && error == -ENOENT ? 127 : 126);
}

/* Lower the limit on open files: plenumrun's own limit, which mpirun and the shims inherit, may be
 * higher than the user's. */
static void lower_descriptors(uint64_t most)
{
    struct rlimit limit;

    if (most == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= most)
        return;
    limit.rlim_cur = most;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static const char *find_path(char *const *environment)
{
    const char *value;

    for (; *environment; environment++)
        if ((value = str_after(*environment, "PATH=")))
            return value;
    return NULL;
}

/* Check that the program can be executed. Returns 0 if no fault is known, or -errno with a message.
 * execvp() would report less, and would let a shell run files that are not programs. */
static int check_program(const struct child_options *o, char text[CONTROL_TEXT_MAX])
{
    struct plenum_error err;
    int r = script_find(o->argv[0], find_path(o->environment), &err);

    if (r < 0)
        (void)snprintf(text, CONTROL_TEXT_MAX, "%s", err.text);
    return r;
}

static _Noreturn void become_program(const struct child_options *o, const struct ends *e,
                                     pid_t parent)
{
    static struct child_report r; /* too large for some stacks */
    int error;

    (void)setpgid(0, 0);
    if (proctree_follow(parent, SIGKILL) < 0)
        _exit(126);
    if (dup2(e->input, STDIN_FILENO) < 0 || dup2(e->output, STDOUT_FILENO) < 0 ||
        dup2(e->error, STDERR_FILENO) < 0)
        give_up(e->report, CONTROL_STEP_FORK, -errno, &r);
    if (chdir(o->directory) < 0)
        give_up(e->report, CONTROL_STEP_DIRECTORY, -errno, &r);
    bind_apply(o->bind, &r.bind);
    error = o->strict ? bind_check(o->bind, &r.bind) : 0;
    if (error < 0)
        give_up(e->report,
                bind_check_cpus(o->bind, &r.bind) < 0 ? CONTROL_STEP_BIND_CPUS
                                                      : CONTROL_STEP_BIND_MEMORY,
                error, &r);
    error = check_program(o, r.failed.text);
    if (error < 0)
        give_up(e->report, CONTROL_STEP_EXEC, error, &r);
    if (io_write_all(e->report, &r, sizeof(r)) < 0)
        _exit(126);
    if (o->inherit)
        (void)fcntl(o->inherit, F_SETFD, 0);
    signals_reset(o->ignored);
    lower_descriptors(o->descriptors);
    (void)umask(o->umask);
    environ = (char **)o->environment;
    (void)execvp(o->argv[0], o->argv);
    error = -errno;
    if (error == -ENOENT) /* the file itself has been found */
        (void)snprintf(r.failed.text, sizeof(r.failed.text),
                       "program '%s' needs an interpreter or a dynamic loader that is missing",
                       o->argv[0]);
    give_up(e->report, CONTROL_STEP_EXEC, error, &r);
}

static int make_pipe(int *ours, int *theirs, bool we_read)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ours = fds[we_read ? 0 : 1];
    *theirs = fds[we_read ? 1 : 0];
    return io_set_nonblock(*ours);
}

int child_start(const struct child_options *options, struct child *ret)
{
    struct child c = {.input = -1, .output = {-1, -1}, .report_fd = -1};
    struct ends e = {-1, -1, -1, -1};
    pid_t parent = getpid();
    int r;

    assert(options->argv[0] && options->directory);
    if (options->input) {
        r = make_pipe(&c.input, &e.input, false);
    } else {
        e.input = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = e.input < 0 ? -errno : 0;
    }
    if (r < 0 || (r = make_pipe(&c.output[0], &e.output, true)) < 0 ||
        (r = make_pipe(&c.output[1], &e.error, true)) < 0 ||
        (r = make_pipe(&c.report_fd, &e.report, true)) < 0)
        goto fail;
    c.pid = fork();
    if (c.pid < 0) {
        r = -errno;
        goto fail;
    }
    if (c.pid == 0)
        become_program(options, &e, parent);
    /* The child does this, too; here it ensures that the group exists before a signal is sent. */
    (void)setpgid(c.pid, c.pid);
    close_ends(&e);
    assert(c.pid > 0 && c.report_fd >= 0);
    *ret = c;
    return 0;

fail:
    close_ends(&e);
    child_close(&c);
    return r;
}

int child_read_report(struct child *child)
{
    int r;
    ssize_t n;

    assert(child->coming_len < sizeof(child->coming));
    do {
        n = read(child->report_fd, (char *)&child->coming + child->coming_len,
                 sizeof(child->coming) - child->coming_len);
        if (n > 0)
            child->coming_len += (size_t)n;
        if (child->coming_len == sizeof(child->coming)) {
            child->report = child->coming;
            child->reported = true;
            child->coming_len = 0;
        }
    } while (n > 0 || (n < 0 && errno == EINTR));
    r = n < 0 ? -errno : 0;
    if (r == -EAGAIN)
        return 0;
    io_close(&child->report_fd);
    if (r < 0)
        return r; /* the child's state is not known */
    return child->reported ? 1 : -ESRCH;
}

void child_signal(const struct child *child, int signal)
{
    assert(signal > 0);
    if (child->pid > 0)
        (void)kill(-child->pid, signal);
}

void child_close(struct child *child)
{
    io_close(&child->input);
    io_close(&child->output[0]);
    io_close(&child->output[1]);
    io_close(&child->report_fd);
}

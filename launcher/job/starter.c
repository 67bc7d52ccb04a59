/* SPDX-License-Identifier: MIT */
/* starter.c - the process that starts the shims: its start, its guard, its end.
 *
 *     plenumrun ── guard ──┬── mpirun (── ssh ── its daemon) ── outer shims on any hosts: mpirun.c
 *                          └── plenumrun --start ── outer shims on this host: local.c
 *
 * The two differ in their command line and environment. Everything else is the same for both, here
 * and in the shims: a starter passes SIGTERM on to its shims, and the kernel notifies the shims
 * when the starter is gone. */
#include "config.h"

#include "launcher/job/starter.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/job/local.h"
#include "launcher/job/mpirun.h"
#include "launcher/host/proctree.h"
#include "launcher/shim/guard.h"
#include "launcher/host/sweep.h"
#include "launcher/host/signals.h"
#include "launcher/values/ports.h"

enum { STATUS_FD = 3, TEXT_FD = 4 }; /* descriptors of the guard */
enum { ORPHAN_MS = 1000 };

void starter_words_fini(struct starter_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->words[i]);
    for (size_t i = 0; i < words->num_files; i++)
        (void)close(words->files[i]);
    free(words->words);
    *words = (struct starter_words){0};
}

/* Add `word`, which is owned from now on; NULL means that allocating it failed. */
void starter_words_take(struct starter_words *w, char *word)
{
    /* Room for the word and the terminating NULL. */
    w->failed |= !word || array_grow(&w->words, &w->cap, w->count, sizeof(*w->words)) < 0 ||
                 array_grow(&w->words, &w->cap, w->count + 1, sizeof(*w->words)) < 0;
    if (w->failed) {
        free(word);
        return;
    }
    assert(w->count + 1 < w->cap);
    w->words[w->count++] = word;
    w->words[w->count] = NULL;
}

void starter_words_add(struct starter_words *w, const char *word)
{
    starter_words_take(w, strdup(word));
}

int starter_words_finish(struct starter_words *w, struct starter_words *ret)
{
    if (w->failed) {
        starter_words_fini(w);
        return -ENOMEM;
    }
    *ret = *w;
    return 0;
}

void starter_add_shim(struct starter_words *w, const struct starter_job *job)
{
    uint64_t grace_ms = job->grace_ns / NS_PER_MS;

    starter_words_take(w, str_format(SHIM_ENV_CONTROL "=%s", job->control));
    starter_words_take(w, str_format(SHIM_ENV_TOKEN "=%s", job->token));
    starter_words_take(w, str_format(SHIM_ENV_JOB "=%s", job->id));
    starter_words_take(w, str_format(SHIM_ENV_LOADER "=%d", job->keep_loader));
    starter_words_take(w, job->status_port == SETTINGS_NO_PORT
                              ? strdup(SHIM_ENV_STATUS "=none")
                              : str_format(SHIM_ENV_STATUS "=%u", job->status_port));
    starter_words_take(w, str_format(SHIM_ENV_GRACE "=%llu", (unsigned long long)grace_ms));
    starter_words_take(w, str_format(SHIM_ENV_IGNORED "=%llu", (unsigned long long)job->ignored));
    starter_words_take(
        w, str_format(SHIM_ENV_DESCRIPTORS "=%llu", (unsigned long long)job->descriptors));
    if (job->place_ports)
        starter_words_take(w, str_format(SHIM_ENV_PORTS "=%u-%u", job->place_ports->first,
                                         job->place_ports->last));
}

/* What the guard needs. Prepared before fork(). */
struct guard_start {
    const char *program;
    struct starter_words arguments, environment;
    int status[2], text[2], null;
    sigset_t before;
    pid_t parent;
    uint64_t grace_ns;
};

static void become_starter(const struct guard_start *s, pid_t guard)
{
    assert(guard > 0);
    /* The starter must die at once if its guard does. */
    if (proctree_follow(guard, SIGKILL) < 0)
        _exit(125);
    signals_reset(0);
    (void)execve(s->program, s->arguments.words, s->environment.words);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", s->program, strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Copy a descriptor to a number above those that dup2() is about to use. */
static int move_up(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, STARTER_FILES_FD + STARTER_FILES_MAX);
}

static void become_guard(const struct guard_start *s)
{
    /* The first makes mpirun end its job; the second (within five seconds) makes it exit. */
    const struct guard_step told[] = {
        {0, SIGTERM}, {1500 * NS_PER_MS, SIGTERM}, {2500 * NS_PER_MS, SIGKILL}, {0, 0}};
    /* The shims see their connection close, and end their programs normally. */
    const uint64_t patience = s->grace_ns + 5 * NS_PER_SEC;
    const struct guard_step orphaned[] = {{patience, SIGTERM},
                                          {patience + 1500 * NS_PER_MS, SIGTERM},
                                          {patience + 2500 * NS_PER_MS, SIGKILL},
                                          {0, 0}};
    struct guard_options options = {.parent = s->parent,
                                    .told = told,
                                    .orphaned = orphaned,
                                    .linger_ns = patience,
                                    .status_fd = STATUS_FD};
    pid_t self;
    int status_fd, text_fd, files[STARTER_FILES_MAX];

    /* A separate session, because plenumrun interprets Ctrl-C at the terminal. */
    (void)setsid();
    signals_ignore_strays();
    (void)dup2(s->null, STDIN_FILENO);
    (void)dup2(s->text[1], STDOUT_FILENO);
    (void)dup2(s->text[1], STDERR_FILENO);
    /* Close all other descriptors of plenumrun's, because its connections must break when it
     * dies. */
    assert(s->arguments.num_files <= STARTER_FILES_MAX);
    status_fd = move_up(s->status[1]);
    text_fd = move_up(s->text[0]);
    for (size_t i = 0; i < s->arguments.num_files; i++)
        files[i] = move_up(s->arguments.files[i]);
    (void)dup2(status_fd, STATUS_FD);
    /* Keep the reading end of mpirun's output open: mpirun hangs when it has no reader. */
    (void)dup2(text_fd, TEXT_FD);
    for (size_t i = 0; i < s->arguments.num_files; i++)
        (void)dup2(files[i], STARTER_FILES_FD + (int)i);
    closefrom(STARTER_FILES_FD + (int)s->arguments.num_files);
    (void)io_set_cloexec(STATUS_FD);
    (void)io_set_cloexec(TEXT_FD);
    if (proctree_adopt() < 0 || proctree_follow(s->parent, GUARD_PARENT_SIGNAL) < 0)
        _exit(125);
    self = getpid();
    options.child = fork();
    if (options.child < 0)
        _exit(125);
    if (options.child == 0)
        become_starter(s, self);
    (void)!write(STATUS_FD, &options.child, sizeof(options.child));
    (void)dup2(STDIN_FILENO, STDOUT_FILENO);
    (void)dup2(STDIN_FILENO, STDERR_FILENO);
    (void)guard_run(&options);
    sweep_after_mpirun(options.child);
    _exit(0);
}

/* Limit the number of logins that are made at once. */
static int add_gate(const struct plan *plan, const struct starter_job *job, int *gate,
                    struct starter_words *environment)
{
    char path[64];

    if (!job->mpirun || !agent_gives_secret(job->agent, plan))
        return 0;
    *gate = agent_make_gate(path, sizeof(path));
    if (*gate < 0)
        return *gate;
    starter_words_take(environment, str_format(AGENT_ENV_GATE "=%s", path));
    return environment->failed ? -ENOMEM : 0;
}

int starter_start(const struct plan *plan, const struct starter_job *job, struct starter *ret,
                  struct plenum_error *err)
{
    struct guard_start s = {.status = {-1, -1},
                            .text = {-1, -1},
                            .null = -1,
                            .parent = getpid(),
                            .grace_ns = job->grace_ns};
    char self[4096];
    pid_t guard;
    int r, gate = -1;

    r = host_get_self(self, sizeof(self), err);
    if (r < 0)
        return r;
    s.program = job->mpirun ? job->mpirun->path : self;
    r = job->mpirun ? mpirun_arguments(plan, job, self, &s.arguments)
                    : local_arguments(plan, &s.arguments);
    if (r == 0)
        r = job->mpirun ? mpirun_environment(plan, job, environ, &s.environment)
                        : local_environment(plan, job, environ, &s.environment);
    if (r == 0)
        r = add_gate(plan, job, &gate, &s.environment);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto out;
    }
    s.null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s.null < 0 || pipe2(s.status, O_CLOEXEC) < 0 || pipe2(s.text, O_CLOEXEC) < 0) {
        r = -errno;
        (void)error_set(err, r, "cannot start the instances: %s", strerror(-r));
        goto out;
    }
    guard_block_signals(&s.before);
    guard = fork();
    r = guard < 0 ? -errno : 0;
    if (guard == 0)
        become_guard(&s);
    (void)sigprocmask(SIG_SETMASK, &s.before, NULL);
    if (r < 0) {
        (void)error_set(err, r, "cannot start the instances: %s", strerror(-r));
        goto out;
    }
    assert(guard > 0);
    *ret = (struct starter){
        .guard = guard, .gate = gate, .status_fd = s.status[0], .text_fd = s.text[0]};
    gate = -1;
    (void)io_set_nonblock(ret->status_fd);
    (void)io_set_nonblock(ret->text_fd);
    s.status[0] = s.text[0] = -1;
out:
    for (int i = 0; i < 2; i++) {
        io_close(&s.status[i]);
        io_close(&s.text[i]);
    }
    io_close(&s.null);
    io_close(&gate);
    starter_words_fini(&s.arguments);
    starter_words_fini(&s.environment);
    return r;
}

int starter_read_status(struct starter *starter, int *ret_status)
{
    int number;

    for (;;) { /* the pipe carries two numbers: the process, and its wait status */
        ssize_t n = read(starter->status_fd, &number, sizeof(number));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n == (ssize_t)sizeof(number) && starter->pid == 0) {
            starter->pid = number;
            continue;
        }
        io_close(&starter->status_fd);
        if (n == (ssize_t)sizeof(number))
            *ret_status = number;
        return n == (ssize_t)sizeof(number);
    }
}

void starter_wake(const struct starter *starter)
{
    if (starter->guard > 0)
        (void)kill(starter->guard, SIGCONT);
    /* While the starter's status has not arrived, its process number cannot be reused. */
    if (starter->pid > 0 && starter->status_fd >= 0)
        (void)kill(starter->pid, SIGCONT);
}

void starter_end(const struct starter *starter)
{
    if (starter->guard > 0)
        (void)kill(starter->guard, SIGTERM);
    starter_wake(starter);
}

bool starter_reap(struct starter *starter)
{
    int status = 0;

    if (starter->guard > 0 && waitpid(starter->guard, &status, WNOHANG) != 0) {
        starter->guard = 0;
        starter->orphaned = WIFSIGNALED(status);
    }
    return starter->guard == 0;
}

void starter_abandon(struct starter *starter)
{
    if (starter->guard > 0)
        (void)kill(starter->guard, SIGKILL);
}

void starter_fini(struct starter *starter)
{
    int status;

    if (starter->orphaned) {
        if (starter->pid == 0 && starter->status_fd >= 0)
            (void)starter_read_status(starter, &status);
        /* The starter dies with its guard, but not immediately. */
        for (int i = 0; starter->pid > 0 && i < ORPHAN_MS && kill(starter->pid, 0) == 0; i++)
            (void)usleep(1000);
        if (starter->pid > 0)
            sweep_after_mpirun(starter->pid);
    }
    io_close(&starter->status_fd);
    io_close(&starter->text_fd);
    io_close(&starter->gate);
}

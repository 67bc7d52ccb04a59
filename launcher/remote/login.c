/* SPDX-License-Identifier: MIT */
/* login.c - keeps Open MPI's daemon on another host only for as long as its login lasts.
 *
 *     mpirun ── plenumrun --agent ── ssh ── (sshd) ── plenumrun --login ── its daemon
 *
 * When ssh ends, sshd leaves the daemon alone. A daemon that has connected to mpirun then notices
 * mpirun's end, but one whose connection is still being made would wait until the kernel gives up,
 * which takes minutes. With any agent and login shell, the login's end also closes the pipe that is
 * our standard output, so we watch that. If a signal ends the daemon while it starts, its session
 * folder remains; we remove it. */
#include "config.h"

#include "launcher/remote/login.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/control/exit_status.h"
#include "launcher/host/sweep.h"

enum {
    ALONE_MS = 3000, /* time for a connected daemon to end by itself and remove its files */
    KILL_MS = 5000,  /* time between SIGTERM and SIGKILL */
    LOOK_MS = 20,    /* between checks of processes that the shell has left behind */
};

static _Noreturn void become_command(char **argv, pid_t parent, const sigset_t *before)
{
    int error;

    (void)setpgid(0, 0);
    if (proctree_follow(parent, SIGTERM) < 0)
        _exit(STATUS_LAUNCH);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    (void)execvp(argv[0], argv);
    error = errno;
    fprintf(stderr, "plenumrun: cannot execute %s: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

/* Has a signal arrived that asks us to end? (SIGCHLD does not.) */
static bool is_asked_to_end(int signal_fd)
{
    struct signalfd_siginfo info;
    bool asked = false;

    while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        asked |= info.ssi_signo != SIGCHLD;
    return asked;
}

/* Send a signal to a process, or to the group -pid. */
static void signal_awake(pid_t pid, int signal)
{
    (void)kill(pid, signal);
    (void)kill(pid, SIGCONT); /* a stopped process cannot end */
}

/* After the shell has ended, wait for the other processes of its group, and kill them if they take
 * too long: they are now our children, and have received SIGTERM. (The daemon's children have their
 * own groups.) */
static void end_group(pid_t group, const char *command)
{
    int left_ms = KILL_MS;
    pid_t pid;

    while ((pid = waitpid(-group, NULL, WNOHANG)) >= 0 && left_ms > -KILL_MS) {
        if (pid > 0) {
            sweep_after_daemon(pid, command);
            continue;
        }
        if (left_ms == 0)
            signal_awake(-group, SIGKILL);
        left_ms -= LOOK_MS;
        (void)usleep(LOOK_MS * 1000);
    }
}

static bool has_ended(pid_t child)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Wait for the command. Send it SIGTERM some time after the login has ended, or as soon as a signal
 * asks us to end, and then SIGKILL. If the shell has not replaced itself by the daemon, the shell
 * must end first, because otherwise it would reap the daemon, and we would not know the daemon's
 * process id, which is part of its folder's name. Returns the shell's wait status. */
static int watch(pid_t child, int signal_fd, const char *command)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    int next = SIGTERM, wait_ms = -1, status = 0, n;
    bool lost = false;

    while (!has_ended(child)) {
        n = poll(fds, ARRAY_LEN(fds), wait_ms);
        if (n > 0 && fds[1].revents) {
            lost = !(fds[1].revents & POLLNVAL);
            wait_ms = lost ? ALONE_MS : wait_ms;
            fds[1].fd = -1; /* it stays broken, or closed */
        }
        if (n > 0 && is_asked_to_end(signal_fd))
            next = SIGTERM;
        else if (n != 0)
            continue;
        signal_awake(child, next);
        next = SIGKILL;
        wait_ms = KILL_MS;
    }
    lost |= next == SIGKILL;
    if (lost) /* before the shell is reaped, after which another group could get its number */
        signal_awake(-child, SIGTERM);
    (void)waitpid(child, &status, 0);
    sweep_after_daemon(child, command);
    if (lost)
        end_group(child, command);
    return status;
}

int login_main(char **argv)
{
    static const int ending[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    const char *command = argv[2];
    pid_t parent = getpid(), child;
    sigset_t set, before;
    int signal_fd, status;

    for (char **word = argv + 2; *word; word++)
        command = *word; /* the last word, as in: sh -c COMMAND */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        (void)sigaddset(&set, ending[i]);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)proctree_adopt(); /* adopt what the shell leaves behind */
    child = signal_fd < 0 ? -1 : fork();
    if (child == 0) {
        (void)signal(SIGPIPE, SIG_DFL);
        become_command(argv + 2, parent, &before);
    }
    if (child > 0)
        (void)setpgid(child, child);
    if (child < 0) {
        fprintf(stderr, "plenumrun: cannot start Open MPI's daemon: %s\n", strerror(errno));
        return STATUS_LAUNCH;
    }
    status = watch(child, signal_fd, command);
    (void)close(signal_fd);
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

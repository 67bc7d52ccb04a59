/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/stop_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/message.h"
#include "common/util/util.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* exit statuses of sh(1) */

/* Report the first failure only: the command is run again and again. */
MESSAGE static void warn(struct stop_command *command, const char *why)
{
    if (!command->warned)
        log_warn("--stop-command '%s' cannot be run, and so cannot report that the job must stop: "
                 "%s",
                 command->text, why);
    command->warned = true;
}

/* Signals are blocked here, and some are ignored. */
static int set_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    int r;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGKILL);
    (void)sigdelset(&all, SIGSTOP);
    r = posix_spawnattr_setsigmask(attr, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(attr, &all);
    if (r == 0)
        r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
    return r;
}

static void start(struct stop_command *command)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)command->text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int r;

    if (posix_spawnattr_init(&attr) != 0 || posix_spawn_file_actions_init(&files) != 0)
        return; /* never fails on Linux */
    r = set_signals(&attr);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (r == 0)
        r = posix_spawn(&command->pid, "/bin/sh", &files, &attr, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    if (r == 0)
        return;
    command->pid = 0;
    warn(command, strerror(r));
}

/* Returns whether the command has ended with status 0. */
static bool has_succeeded(struct stop_command *command)
{
    int status;

    if (command->pid <= 0 || waitpid(command->pid, &status, WNOHANG) != command->pid)
        return false;
    command->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        warn(command, "there is no such program (status 127)");
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_EXECUTABLE)
        warn(command, "it is not executable (status 126)");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool stop_command_poll(struct stop_command *command, uint64_t now)
{
    if (!command->text)
        return false;
    if (has_succeeded(command))
        return true;
    if (command->pid == 0 && now >= command->next_at) {
        command->next_at = now + command->poll_ns;
        start(command);
    }
    return false;
}

uint64_t stop_command_due(const struct stop_command *command)
{
    return command->text && command->pid == 0 ? command->next_at : UINT64_MAX;
}

void stop_command_end(struct stop_command *command)
{
    if (command->pid <= 0)
        return;
    (void)kill(-command->pid, SIGKILL);
    (void)waitpid(command->pid, NULL, 0);
    command->pid = 0;
}

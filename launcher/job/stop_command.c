/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/stop_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/message.h"
#include "common/util/util.h"
#include "launcher/host/proctree.h"
#include "launcher/host/signals.h"
#include "launcher/shim/guard.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* exit statuses of sh(1) */

/* Report the first failure only, because the command is run again and again. */
MESSAGE static void warn(struct stop_command *command, const char *why)
{
    if (!command->warned)
        log_warn("--stop-command '%s' cannot be run, and so cannot report that the job must stop: "
                 "%s",
                 command->text, why);
    command->warned = true;
}

static void become_command(const struct stop_command *command, pid_t guard)
{
    if (proctree_follow(guard, SIGKILL) < 0)
        _exit(NOT_EXECUTABLE);
    signals_reset(0);
    (void)execl("/bin/sh", "sh", "-c", command->text, (char *)NULL);
    _exit(NOT_FOUND);
}

/* Run the command, and end all that it has started when it ends or plenumrun does. */
static void become_guard(const struct stop_command *command, pid_t parent)
{
    static const struct guard_step kill_it[] = {{0, SIGKILL}, {0, 0}};
    struct guard_options options = {
        .parent = parent, .told = kill_it, .orphaned = kill_it, .status_fd = -1};
    int null = open("/dev/null", O_RDWR), status;
    pid_t self = getpid();

    (void)setpgid(0, 0); /* Ctrl-C is not meant for it */
    signals_ignore_strays();
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        proctree_adopt() < 0 || proctree_follow(parent, GUARD_PARENT_SIGNAL) < 0)
        _exit(NOT_EXECUTABLE);
    closefrom(STDERR_FILENO + 1);
    options.child = fork();
    if (options.child < 0)
        _exit(NOT_EXECUTABLE);
    if (options.child == 0)
        become_command(command, self);
    status = guard_run(&options);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void start(struct stop_command *command)
{
    pid_t parent = getpid();
    sigset_t before;

    guard_block_signals(&before);
    command->pid = fork();
    if (command->pid == 0)
        become_guard(command, parent);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (command->pid > 0)
        return;
    command->pid = 0;
    warn(command, strerror(errno));
}

/* Reap the command if it has ended. Returns whether its status was 0. Warns if it was not found, or
 * cannot be executed. */
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

struct stop_command stop_command_take(struct stop_command *command)
{
    struct stop_command taken = *command;

    command->pid = 0;
    return taken;
}

void stop_command_end(struct stop_command *command)
{
    if (command->pid <= 0)
        return;
    (void)kill(command->pid, SIGTERM);
    (void)kill(command->pid, SIGCONT);
    (void)waitpid(command->pid, NULL, 0);
    command->pid = 0;
}

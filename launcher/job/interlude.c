/* SPDX-License-Identifier: MIT */
/* interlude.c - the job's plenumrun while no programs run. It uses the code of a running job for
 * plenumctl job (job_socket.c), with a supervisor whose instances have not started. */
#include "config.h"

#include "launcher/job/interlude.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/signals.h"
#include "launcher/job/supervise_priv.h"

enum { FD_SIGNAL, FD_SOCKET, FDS = FD_SOCKET + 1 + JOB_CLIENTS_MAX };

static struct {
    struct supervisor s;
    uint32_t instances; /* for which `s` has memory */
    int signal_fd;
    enum interlude_notices notices;
    int signal; /* what has ended the job; 0: nothing */
    char reason[48];
} here = {.signal_fd = -1, .s = {.socket = {.listener = -1}}};

int interlude_open(const struct supervise_job *job)
{
    here.signal_fd = signals_open();
    if (here.signal_fd < 0)
        return here.signal_fd;
    if (!job)
        return 0;
    here.s = (struct supervisor){
        .job = job,
        .plan = job->plan,
        .phase = JOB_RESTING,
        .socket = {.listener = job_socket_open(job->id)},
        .stop.command = {.text = job->stop->command, .poll_ns = job->stop->poll_ns}};
    return 0;
}

void interlude_close(void)
{
    job_socket_drop_clients(&here.s);
    stop_command_end(&here.s.stop.command);
    io_close(&here.s.socket.listener);
    io_close(&here.signal_fd);
    free(here.s.instances);
    free(here.s.stop.agreement.ranks);
    here.s.instances = NULL;
    here.s.stop.agreement.ranks = NULL;
    here.instances = 0;
}

struct job_socket *interlude_get_socket(void)
{
    return &here.s.socket;
}

struct stop_command *interlude_get_stop_command(void)
{
    return &here.s.stop.command;
}

void interlude_set_notices(enum interlude_notices notices)
{
    here.notices = notices;
}

const char *interlude_get_reason(void)
{
    return here.reason;
}

void interlude_end(int signal, const char *reason)
{
    if (here.signal)
        return;
    here.signal = signal;
    if (reason)
        (void)snprintf(here.reason, sizeof(here.reason), "%s", reason);
    else
        (void)snprintf(here.reason, sizeof(here.reason), "SIG%s", sigabbrev_np(signal));
}

static void take_signals(void)
{
    struct signalfd_siginfo info;

    while (read(here.signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signal = (int)info.ssi_signo;

        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT ||
            (signal == SIGUSR1 && here.notices == INTERLUDE_OBEYS))
            interlude_end(signal, NULL);
        else if (signal == SIGTSTP)
            (void)raise(SIGSTOP);
    }
}

/* Make room for the instances of the next start, which may be more than those of the last one.
 * Returns 0 or -ENOMEM. */
static int make_room(void)
{
    uint32_t count = here.s.plan->num_instances;

    here.s.stop.agreement.count = count;
    if (count <= here.instances)
        return 0;
    free(here.s.instances);
    free(here.s.stop.agreement.ranks);
    here.s.instances = calloc(count, sizeof(*here.s.instances));
    here.s.stop.agreement.ranks = calloc(count, sizeof(*here.s.stop.agreement.ranks));
    here.instances = here.s.instances && here.s.stop.agreement.ranks ? count : 0;
    return here.instances ? 0 : -ENOMEM;
}

/* Wait at most this long for a signal or a client, and handle what has arrived. */
static void turn(uint64_t wait_ns)
{
    struct pollfd fds[FDS];
    bool answers = here.s.socket.listener >= 0 && make_room() == 0;

    fds[FD_SIGNAL] = (struct pollfd){.fd = here.signal_fd, .events = POLLIN};
    if (answers)
        job_socket_fill(&here.s, &fds[FD_SOCKET]);
    if (poll(fds, answers ? FDS : 1, (int)min_u64(wait_ns / NS_PER_MS, SUPERVISE_BEAT_MS)) < 0)
        return;
    take_signals();
    if (answers)
        job_socket_dispatch(&here.s, &fds[FD_SOCKET]);
    if (here.s.stop.noticed)
        interlude_end(SIGTERM, "plenumctl job stop");
}

int interlude_look(void)
{
    if (here.signal == 0 && here.signal_fd >= 0)
        turn(0);
    return here.signal;
}

int interlude_wait(uint64_t end_ns)
{
    struct stop_command *command = &here.s.stop.command;
    uint64_t now;

    while (interlude_look() == 0 && (now = time_now_ns()) < end_ns) {
        if (stop_command_poll(command, now))
            interlude_end(SIGTERM, "--stop-command");
        else
            turn(min_u64(end_ns, stop_command_due(command)) - now + NS_PER_MS);
    }
    return here.signal;
}

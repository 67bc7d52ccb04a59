/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launcher/handover.h"
#include "launcher/host.h"
#include "launcher/job/launch.h"
#include "launcher/job/local.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/keeper.h"
#include "launcher/remote/probe.h"
#include "launcher/shim/shim.h"
#include "launcher/status.h"

/* Whoever started us with a standard descriptor closed shall not find a socket of ours there. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

/* Said by a shim or a keeper of a loader, before all else. */
static bool has_proc(void)
{
    struct plenum_error err;

    if (host_check_proc(&err) == 0)
        return true;
    fprintf(stderr, "plenumrun: %s\n", err.text);
    return false;
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored nobody can be waited for */
    if (argc > 1 && strcmp(argv[1], SHIM_ARGUMENT) == 0)
        return has_proc() ? shim_main() : STATUS_LAUNCH;
    if (argc == 3 && strcmp(argv[1], LOCAL_ARGUMENT) == 0)
        return local_main(argv[2]);
    if (argc > 1 && strcmp(argv[1], AGENT_ARGUMENT) == 0)
        return agent_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], PROBE_ARGUMENT) == 0)
        return probe_answer(argc, argv);
    if (argc == 2 && strcmp(argv[1], KEEPER_ARGUMENT) == 0)
        return has_proc() ? keeper_main() : STATUS_LAUNCH;
    return launch_main(argc, argv);
}

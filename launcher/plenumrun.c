/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "common/util/util.h"
#include "launcher/control/exit_status.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/job/launch.h"
#include "launcher/job/local.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/keeper.h"
#include "launcher/remote/login.h"
#include "launcher/remote/probe.h"
#include "launcher/shim/shim.h"

/* With a smaller stack, mpirun or plenumrun would die of SIGSEGV without a message. Programs
 * inherit the limit, so it is not raised. */
enum { STACK_LEAST_KIB = 256 };

static bool has_stack(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= STACK_LEAST_KIB << 10)
        return true;
    fprintf(stderr,
            "plenumrun: error: the stack of a process is limited to %llu KiB here (ulimit -s), but "
            "%d KiB is needed\n",
            (unsigned long long)limit.rlim_cur >> 10, STACK_LEAST_KIB);
    return false;
}

/* Returns whether processes can be found and adopted here (host_check_proc()); otherwise prints why
 * not. A shim or a loader's keeper checks this before anything else. */
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
    io_fill_standard(O_RDWR);
    if (!has_stack())
        return STATUS_LAUNCH;
    (void)signal(SIGCHLD, SIG_DFL); /* if it is ignored, waiting for children does not work */
    if (argc > 1 && strcmp(argv[1], SHIM_ARGUMENT) == 0)
        return has_proc() ? shim_main() : STATUS_LAUNCH;
    if (argc == 3 && strcmp(argv[1], LOCAL_ARGUMENT) == 0)
        return local_main(argv[2]);
    if (argc > 1 && strcmp(argv[1], AGENT_ARGUMENT) == 0)
        return agent_main(argc, argv);
    if (argc > 2 && strcmp(argv[1], LOGIN_ARGUMENT) == 0)
        return login_main(argv);
    if (argc > 1 && strcmp(argv[1], PROBE_ARGUMENT) == 0)
        return probe_answer(argc, argv);
    if (argc == 2 && strcmp(argv[1], KEEPER_ARGUMENT) == 0)
        return has_proc() ? keeper_main() : STATUS_LAUNCH;
    return launch_main(argc, argv);
}

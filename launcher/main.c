#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "launcher/agent.h"
#include "launcher/launch.h"
#include "launcher/lend.h"
#include "launcher/mpirun.h"
#include "launcher/probe.h"
#include "launcher/shim.h"

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

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored nobody can be waited for */
    if (argc > 1 && strcmp(argv[1], MPIRUN_SHIM_ARGUMENT) == 0)
        return shim_main();
    if (argc > 1 && strcmp(argv[1], AGENT_ARGUMENT) == 0)
        return agent_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], PROBE_ARGUMENT) == 0)
        return probe_answer(argc, argv);
    if (argc == 2 && strcmp(argv[1], LEND_ARGUMENT) == 0)
        return lend_main();
    return launch_main(argc, argv);
}

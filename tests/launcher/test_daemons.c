/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/job/daemons.h"

/* What mpirun, srun and the agent print, and the resulting message. */
struct said {
    const char lines[800], wants[200];
};

#define OTHERS                                                   \
    "srun: launch/slurm: _step_signal: Terminating StepId=5.0\n" \
    "(null): Forwarding signal 18 to job\n"                      \
    "srun: error: n3: task 1: Exited with exit code 1\n"         \
    "srun: error: n4: task 2: Terminated\n"                      \
    "srun: Force Terminated StepId=5.0\n"

ParameterizedTestParameters(daemons, are_blamed)
{
    static struct said cases[] = {
        {"srun: cluster configuration lacks support for cpu binding\n"
         "slurmstepd-n2: error: execve(): /usr/bin/orted: Permission denied\n"
         "srun: error: n2: task 0: Exited with exit code 13\n" OTHERS,
         "Open MPI's daemon cannot be executed on host n2 (/usr/bin/orted: Permission denied): "},
        {"slurmstepd: error: execve(): orted: No such file or directory\n"
         "slurmstepd: error: execve(): orted: No such file or directory\n"
         "srun: error: n[2-3,7]: tasks 0-1,5: Exited with exit code 2\n" OTHERS,
         "Open MPI's daemon cannot be executed on host n[2-3,7] (orted: No such file or "
         "directory): "},
        {"/usr/bin/orted: error while loading shared libraries: libopen-rte.so.40: cannot open "
         "shared object file: No such file or directory\n"
         "srun: error: n2.rack: task 0: Exited with exit code 127\n" OTHERS,
         "Open MPI's daemon cannot be executed on host n2.rack (/usr/bin/orted: error while "
         "loading shared libraries: libopen-rte.so.40: "},
        {"srun: error: n2: task 0: Exited with exit code 127\n"
         "srun: launch/slurm: _step_signal: Terminating StepId=5.0\n"
         "/usr/bin/orted: error while loading shared libraries: libopen-rte.so.40: file too short\n"
         "srun: error: n3: task 1: Exited with exit code 1\n",
         "Open MPI's daemon cannot be executed on host n2 (/usr/bin/orted: error while loading "
         "shared libraries: libopen-rte.so.40: file too short): "},
        {"It looks like opal_init failed for some reason; your parallel process is\n"
         "srun: error: n2: task 0: Exited with exit code 255\n" OTHERS,
         "Open MPI's daemon on host n2 ended before it connected to mpirun (srun: Exited with "
         "exit code 255); "},
        {"srun: error: n2: task 0: Segmentation fault (core dumped)\n" OTHERS,
         "Open MPI's daemon on host n2 ended before it connected to mpirun (srun: "
         "Segmentation fault (core dumped)); "},
        {"bash: line 1: orted: command not found\n"
         "plenumrun: Open MPI's daemon cannot be executed on host n2 (status 127): install\n"
         "srun: error: n3: task 0: Exited with exit code 1\n",
         "Open MPI's daemon cannot be executed on host n2 (status 127): install"},
        /* None of these is a daemon's end. */
        {"srun: error: Unable to create step for job 5: Invalid job id specified\n"
         "srun: error: \nsrun: error: : task 0: x\nsrun: error: n2\nsrun: error: n2: task\n"
         "srun: error: n2: task 0:\nsrun: error: n2 n3: task 0: Killed\n"
         "xsrun: error: n2: task 0: Killed\nsrun: error: Task launch failed: task 0: x\n",
         ""},
    };
    return cr_make_param_array(struct said, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct said *c, daemons, are_blamed)
{
    struct daemon_failure failure = {.text = ""};
    char lines[sizeof(c->lines)];
    int completed = 0;

    strcpy(lines, c->lines);
    for (char *save, *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        completed += daemons_read_line(&failure, line);
    cr_expect(eq(int, completed, c->wants[0] != '\0'), "%s", failure.text);
    cr_expect(eq(int, strncmp(failure.text, c->wants, strlen(c->wants)), 0), "%s", failure.text);
    cr_expect(eq(int, failure.text[0] != '\0', c->wants[0] != '\0'), "%s", failure.text);
}

Test(daemons, failures_are_those_of_the_hosts_that_are_named)
{
    struct daemon_failure slurm = {.text = ""}, agent = {.text = ""}, none = {.text = ""};

    (void)daemons_read_line(&slurm, "srun: error: n[2-3,7]: tasks 0-1,5: Exited with exit code 2");
    cr_expect(daemons_names_host(&slurm, "n3"));
    cr_expect(daemons_names_host(&slurm, "N7"));
    cr_expect(not(daemons_names_host(&slurm, "n4")));
    (void)daemons_read_line(
        &agent, "plenumrun: Open MPI's daemon cannot be executed on host n2 (status 127): install");
    cr_expect(daemons_names_host(&agent, "n2"));
    cr_expect(not(daemons_names_host(&agent, "n")));
    cr_expect(not(daemons_names_host(&none, "n2")));
}

/* The lines may contain anything. */
Test(daemons, long_lines_are_cut)
{
    struct daemon_failure failure = {.text = ""};
    char line[2000];

    (void)snprintf(line, sizeof(line), "slurmstepd: error: execve(): %01500d: no", 0);
    cr_expect(not(daemons_read_line(&failure, line)));
    (void)snprintf(line, sizeof(line), "srun: error: %01500d: task 0: Killed", 1);
    cr_expect(not(daemons_read_line(&failure, line)));
    cr_expect(daemons_read_line(&failure, "srun: error: n2: task 0: Killed"));
    cr_expect(strstr(failure.text, "on host n2 (0000") != NULL);
    cr_expect(strstr(failure.text, "leave the host out (--exclude n2)") != NULL);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/job/mpirun.h"
#include "launcher/job/starter.h"
#include "launcher/plan/cmdline.h"
#include "launcher/remote/agent.h"

static struct plan_host hosts[] = {{.name = (char *)"n2", .first = 0, .count = 2},
                                   {.name = (char *)"n1", .first = 2, .count = 1}};
static struct plan_instance instances[] = {{.host = 0}, {.host = 0}, {.host = 1}};
static const struct plan several = {
    .hosts = hosts, .num_hosts = 2, .instances = instances, .num_instances = 3};
static struct plan_host here[] = {{.name = (char *)"here", .local = true, .count = 3}};
static const struct plan local = {
    .hosts = here, .num_hosts = 1, .instances = instances, .num_instances = 3};
static const struct starter_job job = {.id = "J", .token = "SECRET", .control = "unix:@c"};

static const struct agent_settings *agent_for(const struct cmdline *options)
{
    static struct agent_settings agent;

    agent = (struct agent_settings){.mpi_args = &options->mpi.global_args,
                                    .start_timeout_ns = options->limits.start_timeout_ns,
                                    .heartbeat_timeout_ns = options->limits.heartbeat_timeout_ns};
    return &agent;
}

/* Returns the job, built from these options. */
static struct starter_job job_for(const struct cmdline *options, const struct starter_job *base)
{
    struct starter_job made = *base;

    made.mpi = &options->mpi;
    made.agent = agent_for(options);
    made.grace_ns = options->limits.grace_ns;
    return made;
}

static int arguments_for(const struct plan *plan, const struct cmdline *options, const char *self,
                         struct starter_words *ret)
{
    struct starter_job made = job_for(options, &job);

    return mpirun_arguments(plan, &made, self, ret);
}

static int environment_for(const struct plan *plan, const struct cmdline *options,
                           const struct starter_job *base, char *const *environment,
                           struct starter_words *ret)
{
    struct starter_job made = job_for(options, base);

    return mpirun_environment(plan, &made, environment, ret);
}

static char *joined(const struct starter_words *w)
{
    static char text[4096];

    text[0] = '\0';
    for (size_t i = 0; i < w->count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, w->words[i]);
    }
    return text;
}

static const char *value_of(const struct starter_words *w, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < w->count; i++) {
        size_t len = strlen(name);

        if (strncmp(w->words[i], name, len) != 0 || w->words[i][len] != '=')
            continue;
        cr_expect(value == NULL, "%s must be set only once", name);
        value = w->words[i] + len + 1;
    }
    return value;
}

static uint64_t number_behind(const char *text, const char *name)
{
    const char *at = text ? strstr(text, name) : NULL;

    cr_assert(at != NULL, "no %s in '%s'", name, text);
    return strtoull(at + strlen(name), NULL, 10);
}

Test(mpirun, arguments)
{
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    cr_assert(eq(int, arguments_for(&local, &options, "/bin/plenumrun", &w), 0));
    cr_expect(strstr(joined(&w), "--bind-to none --stdin none --host localhost:") != NULL, "%s",
              joined(&w));
    cr_expect(ge(u64, number_behind(joined(&w), "--host localhost:"), 3));
    cr_expect(strstr(joined(&w), " /bin/plenumrun --shim") != NULL, "%s", joined(&w));
    cr_expect(strstr(joined(&w), "root") == NULL, "%s", joined(&w));
    starter_words_fini(&w);

    options.mpi.allow_root = true;
    cr_assert(eq(int, arguments_for(&several, &options, "/bin/plenumrun", &w), 0));
    cr_expect(strstr(joined(&w), "--allow-run-as-root") != NULL, "%s", joined(&w));
    cr_expect(strstr(joined(&w),
                     "--map-by seq --stdin none --leave-session-attached --host n2,n2,n1 -n 3 ") !=
                  NULL,
              "instances in the order of the plan: %s", joined(&w));
    cr_expect(strstr(joined(&w), "SECRET") == NULL, "the token must not be visible");
    cr_expect(strstr(joined(&w), SHIM_ENV_TOKEN) == NULL, "Open MPI must not send the token");
    starter_words_fini(&w);

    setenv("SLURM_JOB_ID", "1", 1);
    cr_assert(eq(int, arguments_for(&several, &options, "/bin/plenumrun", &w), 0));
    cr_expect(strstr(joined(&w), "-x " SHIM_ENV_TOKEN " ") != NULL,
              "without a login, Open MPI must send the token");
    starter_words_fini(&w);
    unsetenv("SLURM_JOB_ID");
    cmdline_fini(&options);
}

/* Our agent calls the user's agent, and passes the secret on. */
Test(mpirun, the_agent_carries_the_secret)
{
    static char *before[] = {(char *)"OMPI_MCA_plm_rsh_no_tree_spawn=0", NULL};
    char *argv[] = {(char *)"plenumrun", (char *)"--mpi-global-args",
                    (char *)"--mca plm_rsh_agent '/opt/ssh -F c' --mca a b", (char *)"prog", NULL};
    struct cmdline options;
    struct starter_words w;
    int operands;

    unsetenv("OMPI_MCA_plm_rsh_agent");
    cmdline_init(&options);
    cr_assert(eq(int, options_parse(&cmdline_program, &options, 4, argv, &operands, NULL), 0));
    cr_assert(eq(int, arguments_for(&several, &options, "/p", &w), 0));
    cr_expect(strstr(joined(&w), "plm_rsh_agent") == NULL, "%s", joined(&w));
    cr_expect(strstr(joined(&w), " --mca a b ") != NULL, "%s", joined(&w));
    starter_words_fini(&w);
    cr_assert(eq(int, environment_for(&several, &options, &job, before, &w), 0));
    cr_expect(strstr(value_of(&w, "OMPI_MCA_plm_rsh_agent"), " --agent") != NULL);
    cr_expect(eq(str, (char *)value_of(&w, AGENT_ENV_WORDS), (char *)"/opt/ssh -F c"));
    cr_expect(eq(str, (char *)value_of(&w, AGENT_ENV_HOSTS "0"), (char *)"n2,n1"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_plm_rsh_no_tree_spawn"), (char *)"1"));
    starter_words_fini(&w);
    cr_assert(eq(int, arguments_for(&local, &options, "/p", &w), 0));
    cr_expect(strstr(joined(&w), "plm_rsh_agent") != NULL,
              "for one host, the user's agent is passed on unchanged");
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* The kernel rejects an argument of 128 KiB. */
Test(mpirun, long_lists_of_hosts_are_passed_in_files)
{
    enum { MANY = 8192 };
    static struct plan_instance all[MANY];
    static struct plan_host host = {.name = (char *)"ip-10-0-12-100.us-west-2.compute.internal",
                                    .count = MANY};
    const struct plan plan = {
        .hosts = &host, .num_hosts = 1, .instances = all, .num_instances = MANY};
    char line[64], *text = NULL;
    struct cmdline options;
    struct starter_words w;
    size_t lines = 0;
    FILE *f;

    cmdline_init(&options);
    cr_assert(eq(int, arguments_for(&plan, &options, "/p", &w), 0));
    for (size_t i = 0; i < w.count; i++) {
        cr_expect(lt(sz, strlen(w.words[i]), 131072));
        if (strcmp(w.words[i], "--hostfile") == 0)
            text = w.words[i + 1];
    }
    cr_assert(text != NULL);
    cr_expect(eq(str, text, (char *)"/proc/self/fd/5"),
              "the file must be the descriptor that the guard passes on");
    cr_assert(eq(sz, w.num_files, 1));
    f = fdopen(dup(w.files[0]), "r");
    rewind(f);
    while (fgets(line, sizeof(line), f))
        lines += strcmp(line, "ip-10-0-12-100.us-west-2.compute.internal\n") == 0;
    (void)fclose(f);
    cr_expect(eq(sz, lines, MANY));
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* The kernel also rejects an environment string of that size. */
Test(mpirun, long_lists_of_hosts_fill_several_variables)
{
    enum { MANY = 16384 };
    static struct plan_instance all[MANY];
    static struct plan_host many[MANY];
    static char *before[] = {NULL};
    static char names[MANY][64];
    const struct plan plan = {
        .hosts = many, .num_hosts = MANY, .instances = all, .num_instances = MANY};
    char variable[64], *save = NULL;
    struct cmdline options;
    struct starter_words w;
    uint32_t found = 0;
    const char *list;

    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "ip-10-%u.us-west-2.compute.internal",
                       20000 + i);
        many[i] = (struct plan_host){.name = names[i], .first = i, .count = 1};
        all[i].host = i;
    }
    cmdline_init(&options);
    cr_assert(eq(int, environment_for(&plan, &options, &job, before, &w), 0));
    for (size_t i = 0; i < w.count; i++)
        cr_expect(lt(sz, strlen(w.words[i]), 131072));
    for (unsigned i = 0; snprintf(variable, sizeof(variable), AGENT_ENV_HOSTS "%u", i) > 0 &&
                         (list = value_of(&w, variable));
         i++)
        for (char *name = strtok_r((char *)list, ",", &save); name;
             name = strtok_r(NULL, ",", &save))
            cr_expect(eq(str, name, names[found++]));
    cr_expect(eq(u32, found, MANY));
    starter_words_fini(&w);
    cmdline_fini(&options);
}

Test(mpirun, the_users_arguments)
{
    char *argv[] = {(char *)"plenumrun",
                    (char *)"--mpi-global-args",
                    (char *)"--mca a 'b c'",
                    (char *)"--mpi-local-args",
                    (char *)"--report-uri -",
                    (char *)"prog",
                    NULL};
    struct cmdline options;
    struct starter_words w;
    int operands;

    cmdline_init(&options);
    cr_assert(eq(int, options_parse(&cmdline_program, &options, 6, argv, &operands, NULL), 0));
    cr_assert(eq(int, arguments_for(&local, &options, "/bin/plenumrun", &w), 0));
    cr_expect(strstr(joined(&w), " --mca a b c --host localhost:3 -n 3 ") != NULL, "%s",
              joined(&w));
    cr_expect(strstr(joined(&w), " --report-uri - /bin/plenumrun") != NULL, "%s", joined(&w));
    cr_expect(strstr(joined(&w), "prog") == NULL,
              "the program must not be on mpirun's command line");
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* Returns the command line for mpirun when an instance has its own arguments, twice. */
static const char *told_of(const char *first, const char *second)
{
    char *argv[] = {(char *)"plenumrun",
                    (char *)"--instance-mpi-local-args",
                    (char *)first,
                    (char *)"--instance-mpi-local-args",
                    (char *)second,
                    (char *)"prog",
                    NULL};
    struct cmdline options;
    struct starter_words w;
    const char *text;
    int operands;

    cmdline_init(&options);
    cr_assert(eq(int, options_parse(&cmdline_program, &options, 6, argv, &operands, NULL), 0));
    cr_assert(eq(int, arguments_for(&several, &options, "/p", &w), 0));
    text = joined(&w);
    starter_words_fini(&w);
    cmdline_fini(&options);
    return text;
}

Test(mpirun, arguments_of_one_instance)
{
    const char *text = told_of("1:--a b", "1:--c");

    cr_expect(strstr(text, "--host n2 -n 1 ") != NULL, "%s", text);
    cr_expect(strstr(text, "/p --shim : --host n2 -n 1 ") != NULL, "%s", text);
    cr_expect(strstr(text, " --a b --c /p --shim : --host n1 -n 1 ") != NULL, "%s", text);
}

/* Open MPI 5.0 crashes with several applications. Variables need none. */
Test(mpirun, variables_of_one_instance_need_no_arguments)
{
    const char *text = told_of("1:-x A=1 -x B", "2:-x A=1 --c");

    cr_expect(strstr(text, "--host n2,n2 -n 2 ") != NULL, "%s", text);
    cr_expect(strstr(text, "/p --shim : --host n1 -n 1 ") != NULL, "%s", text);
    cr_expect(strstr(text, " -x A=1 --c /p --shim") != NULL, "%s", text);
}

/* PRRTE, which starts the processes of Open MPI 5, has its own names for variables. */
Test(mpirun, settings_of_open_mpi_5)
{
    static const struct mpirun_program program = {.major = 5};
    static char *nothing[] = {NULL};
    static char *older[] = {(char *)"OMPI_MCA_plm=rsh", (char *)"OMPI_MCA_oob_tcp_keepalive_time=7",
                            (char *)"OMPI_MCA_plm_rsh_args=-q", NULL};
    static char *newer[] = {(char *)"PRTE_MCA_plm_ssh_agent=/opt/agent",
                            (char *)"PRTE_MCA_prte_if_exclude=eth9", (char *)"OMPI_MCA_pml=ucx",
                            NULL};
    struct starter_job with = job;
    struct cmdline options;
    struct starter_words w;

    (void)unsetenv("OMPI_MCA_plm_rsh_agent");
    cmdline_init(&options);
    with.mpirun = &program;
    cr_assert(eq(int, environment_for(&local, &options, &with, nothing, &w), 0));
    cr_expect(strstr(joined(&w), "oob_") == NULL, "Open MPI 5 finds lo by itself: %s", joined(&w));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_if_include"), (char *)"lo"));
    cr_expect(eq(str, (char *)value_of(&w, "PMIX_MCA_ptl_base_if_include"), (char *)"lo"));
    starter_words_fini(&w);

    with.daemon_include = with.program_include = "10.1.0.0/16";
    cr_assert(eq(int, environment_for(&several, &options, &with, older, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_disable_family"), (char *)"6"));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_oob_tcp_if_include"), (char *)"10.1.0.0/16"));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_oob_tcp_keepalive_time"), (char *)"7"));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_plm"), (char *)"ssh"));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_plm_ssh_args"), (char *)"-q"));
    cr_expect(strstr(value_of(&w, "PRTE_MCA_plm_ssh_agent"), " --agent") != NULL);
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_plm_ssh_no_tree_spawn"), (char *)"1"));
    cr_expect(strstr(joined(&w), "OMPI_MCA_plm") == NULL, "%s", joined(&w));
    cr_expect(strstr(joined(&w), "OMPI_MCA_oob") == NULL, "%s", joined(&w));
    starter_words_fini(&w);

    setenv("PRTE_MCA_plm_ssh_agent", "/opt/agent", 1);
    cr_assert(eq(int, environment_for(&several, &options, &with, newer, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, AGENT_ENV_WORDS), (char *)"/opt/agent"));
    cr_expect(strstr(value_of(&w, "PRTE_MCA_plm_ssh_agent"), " --agent") != NULL);
    cr_expect(value_of(&w, "PRTE_MCA_plm_ssh_args") == NULL,
              "another agent must not get arguments of ssh");
    cr_expect(value_of(&w, "PRTE_MCA_oob_tcp_if_include") == NULL, "the user's choice must stay");
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_oob_tcp_if_exclude"), (char *)"eth9"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_pml"), (char *)"ucx"));
    starter_words_fini(&w);
    unsetenv("PRTE_MCA_plm_ssh_agent");
    cmdline_fini(&options);
}

/* Open MPI would shorten both n1.rack-a and n1.rack-b to n1. */
Test(mpirun, names_of_hosts_stay_whole)
{
    static const struct mpirun_program program = {.major = 5};
    static char *cut[] = {(char *)"OMPI_MCA_orte_keep_fqdn_hostnames=0",
                          (char *)"PRTE_MCA_prte_keep_fqdn_hostnames=0", NULL};
    static struct plan_host mixed[] = {
        {.name = (char *)"fd00::1", .local = true, .first = 0, .count = 2},
        {.name = (char *)"n1.rack-b.lan", .first = 2, .count = 1}};
    static const struct plan plan = {
        .hosts = mixed, .num_hosts = 2, .instances = instances, .num_instances = 3};
    char name[AGENT_NAME_MAX], want[3 * AGENT_NAME_MAX];
    struct starter_job with = job;
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    cr_assert(eq(int, environment_for(&several, &options, &job, cut, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_orte_keep_fqdn_hostnames"), (char *)"1"));
    starter_words_fini(&w);
    with.mpirun = &program;
    cr_assert(eq(int, environment_for(&several, &options, &with, cut, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_prte_keep_fqdn_hostnames"), (char *)"1"));
    starter_words_fini(&w);

    host_get_name(name, sizeof(name));
    (void)snprintf(want, sizeof(want), "--host %s,%s,n1.rack-b.lan -n 3 ", name, name);
    cr_assert(eq(int, arguments_for(&plan, &options, "/p", &w), 0));
    cr_expect(strstr(joined(&w), want) != NULL, "not '%s': %s", want, joined(&w));
    starter_words_fini(&w);
    cmdline_fini(&options);
}

Test(mpirun, networks)
{
    static char *before[] = {(char *)"OMPI_MCA_btl_tcp_if_exclude=x", NULL};
    static char *nothing[] = {NULL};
    struct starter_job with = job;
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    with.daemon_include = "10.1.0.0/16";
    with.excluded = "docker0";
    cr_assert(eq(int, environment_for(&several, &options, &with, nothing, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_oob_tcp_if_include"), (char *)"10.1.0.0/16"));
    cr_expect(value_of(&w, "OMPI_MCA_oob_tcp_if_exclude") == NULL, "both were set");
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_if_exclude"), (char *)"lo,docker0"));
    starter_words_fini(&w);
    with.program_include = "10.2.0.0/16";
    cr_assert(eq(int, environment_for(&several, &options, &with, before, &w), 0));
    cr_expect(value_of(&w, "OMPI_MCA_btl_tcp_if_include") == NULL, "the user's choice must stay");
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* Open MPI listens only on ports in the range, and not on plenumrun's own. */
Test(mpirun, ports)
{
    static const struct mpirun_program program = {.major = 5};
    static char *nothing[] = {NULL};
    struct ports ports;
    struct starter_job with = job;
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    cr_assert(eq(int, environment_for(&several, &options, &with, nothing, &w), 0));
    cr_expect(value_of(&w, "OMPI_MCA_oob_tcp_dynamic_ipv4_ports") == NULL);
    cr_expect(value_of(&w, "OMPI_MCA_btl_tcp_port_min_v4") == NULL);
    starter_words_fini(&w);
    cr_assert(eq(int, ports_parse("20000-20099", &ports, NULL), 0));
    with.ports = &ports;
    with.control = "tcp:10.1.2.3:20044,tcp:[fd00::1]:20044";
    cr_assert(eq(int, environment_for(&several, &options, &with, nothing, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_oob_tcp_dynamic_ipv4_ports"),
                 (char *)"20045-20047"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_port_min_v4"), (char *)"20048"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_port_range_v6"), (char *)"52"));
    cr_expect(value_of(&w, SHIM_ENV_PORTS) == NULL);
    starter_words_fini(&w);
    with.place_ports = &ports;
    cr_assert(eq(int, environment_for(&several, &options, &with, nothing, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, SHIM_ENV_PORTS), (char *)"20000-20099"));
    starter_words_fini(&w);
    with.place_ports = NULL;
    with.mpirun = &program;
    cr_assert(eq(int, environment_for(&several, &options, &with, nothing, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "PRTE_MCA_oob_tcp_dynamic_ipv4_ports"),
                 (char *)"20045-20047"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_btl_tcp_port_min_v4"), (char *)"20048"));
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* For a host that mpirun cannot name or log in to, plenumrun acts as the agent. */
Test(mpirun, hosts_with_users_and_ports)
{
    static struct plan_host odd[] = {
        {.name = (char *)"b", .user = (char *)"me", .port = 2222, .first = 0, .count = 1},
        {.name = (char *)"fd00::7", .first = 1, .count = 1},
        {.name = (char *)"b", .user = (char *)"you", .first = 2, .count = 1}};
    static struct plan_instance each[] = {{.host = 0}, {.host = 1}, {.host = 2}};
    static const struct plan plan = {
        .hosts = odd, .num_hosts = 3, .instances = each, .num_instances = 3};
    static char *before[] = {(char *)"OMPI_MCA_plm_rsh_agent=/opt/ssh -F c", NULL};
    char *words[AGENT_WORDS_MAX + 1], *text;
    struct cmdline options;
    struct starter_words w;

    setenv("OMPI_MCA_plm_rsh_agent", "/opt/ssh -F c", 1);
    cmdline_init(&options);
    options.limits.start_timeout_ns = 30 * NS_PER_SEC;
    cr_assert(eq(int, arguments_for(&plan, &options, "/p", &w), 0));
    cr_expect(strstr(joined(&w), "--host b,240.0.0.1,240.0.0.2 -n 3") != NULL, "%s", joined(&w));
    starter_words_fini(&w);
    cr_assert(eq(int, environment_for(&plan, &options, &job, before, &w), 0));
    cr_expect(strstr(value_of(&w, "OMPI_MCA_plm_rsh_agent"), " --agent") != NULL);
    cr_expect(eq(str, (char *)value_of(&w, AGENT_ENV_WORDS), (char *)"/opt/ssh -F c"));
    cr_expect(eq(str, (char *)value_of(&w, AGENT_ENV_HOSTS "0"),
                 (char *)"b|b|2222|me,240.0.0.1|fd00::7|0|,240.0.0.2|b|0|you"));
    starter_words_fini(&w);

    cr_assert(eq(int, agent_make_command(agent_for(&options), &odd[0], "script", &text, words), 0));
    w = (struct starter_words){.words = words};
    while (words[w.count])
        w.count++;
    cr_expect(eq(str, joined(&w),
                 (char *)"/opt/ssh -F c -o BatchMode=yes -o ConnectTimeout=5 -o "
                         "ConnectionAttempts=2 -o ServerAliveInterval=16 -o ServerAliveCountMax=3 "
                         "-p 2222 -l me b script"));
    free(text);
    cmdline_fini(&options);
}

Test(mpirun, settings_have_defaults)
{
    static char *before[] = {(char *)"HOME=/h", (char *)"PLENUM_SHIM_TOKEN=old", NULL};
    struct cmdline options;
    struct starter_words w;

    (void)unsetenv("OMPI_MCA_plm_rsh_agent");
    cmdline_init(&options);
    cr_assert(eq(int, environment_for(&local, &options, &job, before, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "HOME"), (char *)"/h"));
    cr_expect(eq(str, (char *)value_of(&w, SHIM_ENV_TOKEN), (char *)"SECRET"));
    cr_expect(eq(str, (char *)value_of(&w, SHIM_ENV_GRACE), (char *)"10000"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_mpi_yield_when_idle"), (char *)"1"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_oob_tcp_if_include"), (char *)"lo"));
    cr_expect(value_of(&w, "OMPI_MCA_plm_rsh_args") == NULL);
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_plm"), (char *)"isolated"), "no ssh");
    cr_expect(strstr(value_of(&w, "OMPI_MCA_ras"), "slurm") != NULL,
              "the allocation must not be used");
    starter_words_fini(&w);

    cr_assert(eq(int, environment_for(&several, &options, &job, before, &w), 0));
    cr_expect(value_of(&w, "OMPI_MCA_oob_tcp_if_include") == NULL,
              "other hosts cannot be reached over lo");
    cr_expect(value_of(&w, "OMPI_MCA_plm") == NULL);
    cr_expect(strstr(value_of(&w, "OMPI_MCA_plm_rsh_args"), "BatchMode=yes") != NULL);
    starter_words_fini(&w);
    cmdline_fini(&options);
}

/* Three probes, the first of which may be due at once, must always take longer than the heartbeat's
 * limit. */
Test(mpirun, keepalives_outlast_the_heartbeat)
{
    static const uint64_t seconds[] = {1, 4, 29, 30, 31, 120, 3600};
    static char *before[] = {NULL};
    struct cmdline options;
    struct starter_words w;

    (void)unsetenv("OMPI_MCA_plm_rsh_agent");
    for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
        cmdline_init(&options);
        options.limits.heartbeat_timeout_ns = seconds[i] * NS_PER_SEC;
        cr_assert(eq(int, environment_for(&several, &options, &job, before, &w), 0));
        const char *ssh = value_of(&w, "OMPI_MCA_plm_rsh_args");
        uint64_t own = number_behind(value_of(&w, "OMPI_MCA_oob_tcp_keepalive_intvl"), "") *
                       number_behind(value_of(&w, "OMPI_MCA_oob_tcp_keepalive_probes"), "");

        cr_expect(gt(u64, own, seconds[i]), "Open MPI's");
        cr_expect(gt(u64,
                     number_behind(ssh, "ServerAliveInterval=") *
                         number_behind(ssh, "ServerAliveCountMax="),
                     seconds[i]),
                  "ssh's");
        starter_words_fini(&w);
        cmdline_fini(&options);
    }
}

Test(mpirun, the_users_settings_stay)
{
    static char *before[] = {(char *)"OMPI_MCA_pml=ucx", (char *)"OMPI_MCA_plm_rsh_args=-q",
                             (char *)"OMPI_MCA_mpi_yield_when_idle=0", NULL};
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    cr_assert(eq(int, environment_for(&several, &options, &job, before, &w), 0));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_pml"), (char *)"ucx"));
    cr_expect(value_of(&w, "OMPI_MCA_btl") == NULL, "settings of another pml must not change");
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_plm_rsh_args"), (char *)"-q"));
    cr_expect(eq(str, (char *)value_of(&w, "OMPI_MCA_mpi_yield_when_idle"), (char *)"0"));
    starter_words_fini(&w);
    cmdline_fini(&options);
}

Test(mpirun, another_agent_gets_no_arguments_of_ssh)
{
    static char *before[] = {NULL};
    static const struct {
        const char *agent;
        bool ssh;
    } cases[] = {{"ssh -F config", true},
                 {"/usr/bin/ssh", true},
                 {"/opt/agent", false},
                 {"rsh", false},
                 {"/x/ssh-agent", false}};
    struct cmdline options;
    struct starter_words w;

    cmdline_init(&options);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("OMPI_MCA_plm_rsh_agent", cases[i].agent, 1);
        cr_assert(eq(int, environment_for(&several, &options, &job, before, &w), 0));
        cr_expect(eq(int, value_of(&w, "OMPI_MCA_plm_rsh_args") != NULL, cases[i].ssh), "%s",
                  cases[i].agent);
        starter_words_fini(&w);
    }
    cmdline_fini(&options);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/job/variables.h"
#include "launcher/plan/cmdline.h"
#include "tests/launcher/environment.h"

/* Two hosts, three instances (two on the first), six replicas. */
static struct plan_host hosts[] = {{.name = (char *)"a", .first = 0, .count = 2},
                                   {.name = (char *)"b", .first = 2, .count = 1}};
static struct plan_instance instances[] = {
    {.host = 0, .local_index = 0, .replica_offset = 0, .num_replicas = 2, .cores = 4},
    {.host = 0, .local_index = 1, .replica_offset = 2, .num_replicas = 2, .cores = 4},
    {.host = 1, .local_index = 0, .replica_offset = 4, .num_replicas = 2, .cores = 16},
};
static const struct plan plan = {.hosts = hosts,
                                 .num_hosts = 2,
                                 .instances = instances,
                                 .num_instances = 3,
                                 .num_replicas = 6,
                                 .devices_per_replica = 2};
static const struct variables_job job = {
    .id = "j1", .master_address = "a", .master_port = 1234, .restart_count = 0};

static char **environment_of(uint32_t index, const struct cmdline *options, const char *loader)
{
    static char *none[] = {NULL};
    struct variables_job made = job;
    struct environ_list list;
    char **e;

    made.exports = &options->exports;
    made.mpi = &options->mpi;
    made.verify = options->verify;
    cr_assert(eq(int, variables_of_instance(&made, &plan, index, loader, &list), 0));
    e = environ_apply(none, &list);
    environ_list_fini(&list);
    return e;
}

Test(variables, identity_of_the_instance)
{
    struct cmdline options;
    char **e;

    cmdline_init(&options);
    unsetenv("OMP_NUM_THREADS");
    e = environment_of(2, &options, "unix:@x");
    expect(e, "PLENUM_NUM_INSTANCES", "3");
    expect(e, "PLENUM_INSTANCE_INDEX", "2");
    expect(e, "PLENUM_LOCAL_INSTANCE_INDEX", "0");
    expect(e, "PLENUM_NUM_LOCAL_INSTANCES", "1");
    expect(e, "PLENUM_NUM_REPLICAS", "6");
    expect(e, "PLENUM_NUM_LOCAL_REPLICAS", "2");
    expect(e, "PLENUM_REPLICA_OFFSET", "4");
    expect(e, "PLENUM_DEVICES_PER_REPLICA", "2");
    expect(e, "PLENUM_LOADER", "unix:@x");
    expect(e, "PLENUM_JOB_ID", "j1");
    expect(e, "PLENUM_RESTART_COUNT", "0");
    expect(e, "PLENUM_GENERATION", "1");
    expect(e, "RANK", "2");
    expect(e, "WORLD_SIZE", "3");
    expect(e, "LOCAL_RANK", "0");
    expect(e, "LOCAL_WORLD_SIZE", "1");
    expect(e, "GROUP_RANK", "1");
    expect(e, "MASTER_ADDR", "a");
    expect(e, "MASTER_PORT", "1234");
    expect(e, "OMP_NUM_THREADS", "16");
    expect(e, "PATH", getenv("PATH"));
    environ_free(e);
    e = environment_of(1, &options, NULL);
    expect(e, "LOCAL_RANK", "1");
    expect(e, "LOCAL_WORLD_SIZE", "2");
    expect(e, "PLENUM_LOADER", NULL);
    environ_free(e);
    cmdline_fini(&options);
}

Test(variables, exports)
{
    char *argv[] = {(char *)"plenumrun", (char *)"-x",
                    (char *)"HERE",      (char *)"-x",
                    (char *)"NOT_HERE",  (char *)"-x",
                    (char *)"A=b=c",     (char *)"-xRANK=77",
                    (char *)"-x",        (char *)"MASTER_PORT=1",
                    (char *)"-x",        (char *)"OMP_NUM_THREADS=3",
                    (char *)"prog",      NULL};
    struct cmdline options;
    int operands;
    char **e;

    setenv("HERE", "h", 1);
    unsetenv("NOT_HERE");
    cmdline_init(&options);
    cr_assert(eq(int,
                 options_parse(&cmdline_program, &options,
                               (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv, &operands, NULL),
                 0));
    e = environment_of(0, &options, NULL);
    expect(e, "HERE", "h");
    expect(e, "NOT_HERE", NULL);
    expect(e, "A", "b=c");
    expect(e, "RANK", "0");
    expect(e, "MASTER_PORT", "1");
    expect(e, "OMP_NUM_THREADS", "3");
    environ_free(e);
    cmdline_fini(&options);
}

Test(variables, the_users_number_of_threads_is_forwarded)
{
    struct cmdline options;
    char **e;

    cmdline_init(&options);
    setenv("OMP_NUM_THREADS", "5", 1);
    e = environment_of(0, &options, NULL);
    expect(e, "OMP_NUM_THREADS", "5");
    environ_free(e);
    cmdline_fini(&options);
}

/* Instances on other hosts run the library and the loader that were named here. */
Test(variables, variables_of_plenum_are_forwarded)
{
    static const char *const names[] = {"PATH",
                                        "LD_LIBRARY_PATH",
                                        "PYTHONPATH",
                                        "VIRTUAL_ENV",
                                        "PLENUM_CACHE_DIR",
                                        "PLENUM_DECODER",
                                        "PLENUM_SOURCE",
                                        "PLENUM_TRACE",
                                        "PLENUM_VERIFY_BATCHES",
                                        "PLENUM_LOADER_KEY",
                                        "PLENUM_LIBRARY",
                                        "PLENUM_PLENUMD"};
    struct cmdline options;
    char **e;

    cmdline_init(&options);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        setenv(names[i], names[i], 1);
    e = environment_of(2, &options, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        expect(e, names[i], names[i]);
    environ_free(e);
    cmdline_fini(&options);
}

static void expect_interfaces(const char *interface, const char *gloo, const char *nccl)
{
    struct variables_job made = job;
    static char *none[] = {NULL};
    struct environ_list list;
    struct cmdline options;
    char **e;

    cmdline_init(&options);
    made.exports = &options.exports;
    made.mpi = &options.mpi;
    made.interface = interface;
    cr_assert(eq(int, variables_of_instance(&made, &plan, 0, NULL, &list), 0));
    e = environ_apply(none, &list);
    expect(e, "GLOO_SOCKET_IFNAME", gloo);
    expect(e, "TP_SOCKET_IFNAME", gloo);
    expect(e, "NCCL_SOCKET_IFNAME", nccl);
    environ_free(e);
    environ_list_fini(&list);
    cmdline_fini(&options);
}

/* NCCL treats a name as a prefix, unless it starts with '='. */
Test(variables, the_interface_is_exact_for_nccl)
{
    static const char *const own[] = {"=eth0", "^docker0", "=eth0,eth1", "^=docker0", "ib", ""};

    unsetenv("NCCL_SOCKET_IFNAME");
    expect_interfaces("eth0", "eth0", "=eth0");
    expect_interfaces("abcdefghijklmno", "abcdefghijklmno", "=abcdefghijklmno");
    expect_interfaces("lo", "lo", NULL);
    expect_interfaces(NULL, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        setenv("NCCL_SOCKET_IFNAME", own[i], 1);
        expect_interfaces("eth0", "eth0", own[i]);
    }
}

/* -x NAME==eth0 gives NAME the value "=eth0". */
Test(variables, exported_values_may_begin_with_an_equals_sign)
{
    struct cmdline options;
    char **e;

    cmdline_init(&options);
    cr_assert(eq(int, texts_add(&options.exports, "NCCL_SOCKET_IFNAME==eth0", 24), 0));
    e = environment_of(0, &options, NULL);
    expect(e, "NCCL_SOCKET_IFNAME", "=eth0");
    environ_free(e);
    cmdline_fini(&options);
}

/* SPDX-License-Identifier: MIT */
/* Tests how a job's hosts are found in the variables that batch systems set. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/plan/allocation.h"

/* Format a list: "a:2 b". */
static char *show(const struct hostlist *list)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    for (size_t i = 0; i < list->count; i++) {
        fprintf(f, "%s%s", i ? " " : "", list->hosts[i].name);
        if (list->hosts[i].slots)
            fprintf(f, ":%u", list->hosts[i].slots);
    }
    fclose(f);
    return text;
}

struct slurm_case {
    char nodes[60], tasks[40]; /* "": not set */
    char want[100];            /* hosts; or, after '!', words of the error message */
};

ParameterizedTestParameters(allocation, slurm)
{
    static struct slurm_case cases[] = {
        {"n1", "", "n1"},
        {"n[1-3]", "2(x3)", "n1:2 n2:2 n3:2"},
        {"n[1-3],m", "2(x2),1,4", "n1:2 n2:2 n3:1 m:4"},
        {"gpu[08-10]", "8(x3)", "gpu08:8 gpu09:8 gpu10:8"},
        {"n[1-3]", "2(x2)", "!describes 2 hosts"},
        {"n[1-2]", "2(x3)", "!describes 3 hosts"},
        {"n1", "0", "!'0' is not like"},
        {"n1", "2(x", "!'2(x' is not like"},
        {"n1", "2(x1", "!is not like"},
        {"n1", "2;", "!is not like"},
        {"n1", "1(x99999999)", "!is not like"},
        {"n[1-", "1", "!SLURM_JOB_NODELIST: host"},
    };
    return cr_make_param_array(struct slurm_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct slurm_case *c, allocation, slurm)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};
    int r = allocation_add_slurm(&list, c->nodes, *c->tasks ? c->tasks : NULL, &err);

    if (c->want[0] == '!') {
        cr_expect(eq(int, r, -EINVAL), "%s %s", c->nodes, c->tasks);
        cr_expect(strstr(err.text, c->want + 1) != NULL, "'%s'", err.text);
    } else {
        char *got = show(&list);

        cr_expect(eq(int, r, 0), "%s", err.text);
        cr_expect(eq(str, got, c->want));
        free(got);
    }
    hostlist_fini(&list);
}

static void forget_all(void)
{
    static const char *const names[] = {
        "SLURM_JOB_NODELIST", "SLURM_NTASKS",     "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
        "PBS_NODEFILE",       "LSB_MCPU_HOSTS",   "SLURM_STEP_ID",         "SLURM_STEP_NUM_TASKS",
        "SLURM_PROCID",       "SLURM_HET_SIZE",   "PE_HOSTFILE",           "OAR_NODEFILE",
        "OAR_NODE_FILE",      "OAR_FILE_NODES",   "COBALT_NODEFILE",       "FLUX_JOB_ID",
        "FLUX_JOB_SIZE",      "FLUX_ENCLOSING_ID"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        unsetenv(names[i]);
}

static void expect_hosts(const char *name, const char *want)
{
    struct allocation a;
    struct plenum_error err = {""};
    char *got;

    cr_assert(eq(int, allocation_read(&a, &err), 0), "%s", err.text);
    if (name)
        cr_expect(eq(str, (char *)a.name, (char *)name));
    else
        cr_expect(a.name == NULL);
    got = show(&a.hosts);
    cr_expect(eq(str, got, (char *)want));
    free(got);
    allocation_fini(&a);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert(f != NULL);
    fputs(text, f);
    fclose(f);
}

/* Read each scheduler's host file, found through each of its variables. */
Test(allocation, files_of_hosts)
{
    static const struct {
        const char *variable, *name, *text, *want;
    } cases[] = {
        {"PE_HOSTFILE", "SGE",
         "a.lan 4 all.q@a.lan UNDEFINED\nb 2 all.q@b 0,0:0,1\n\na.lan 1 other.q@a.lan <NULL>\n",
         "a.lan:5 b:2"},
        {"OAR_NODEFILE", "OAR", "a\na\nb\n", "a:2 b:1"},
        {"OAR_NODE_FILE", "OAR", "a\n", "a:1"},
        {"OAR_FILE_NODES", "OAR", "a\r\nb\r\n", "a:1 b:1"},
        {"COBALT_NODEFILE", "Cobalt", "nid00012\nnid00013\n", "nid00012:1 nid00013:1"},
        {"PBS_NODEFILE", "PBS", "a\n\na", "a:2"},
    };
    char path[] = "/tmp/plenum-allocation-XXXXXX";
    struct plenum_error err = {""};
    struct allocation a;

    close(mkstemp(path));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        forget_all();
        write_text(path, cases[i].text);
        setenv(cases[i].variable, path, 1);
        expect_hosts(cases[i].name, cases[i].want);
        write_text(path, "");
        cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
        cr_expect(strstr(err.text, cases[i].variable) && strstr(err.text, "lists no hosts"), "%s",
                  err.text);
        setenv(cases[i].variable, "/nonexistent/file", 1);
        cr_expect(eq(int, allocation_read(&a, &err), -ENOENT));
        cr_expect(strstr(err.text, cases[i].variable) && strstr(err.text, "--host"), "%s",
                  err.text);
    }
    forget_all();
    setenv("PE_HOSTFILE", path, 1);
    write_text(path, "a four all.q\n");
    cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
    cr_expect(strstr(err.text, "host 'a' has no number of slots") != NULL, "%s", err.text);
    unlink(path);
}

/* Flux has no file of hosts, so none are found. Several copies of plenumrun are rejected. */
Test(allocation, flux)
{
    struct plenum_error err = {""};
    struct allocation a;

    forget_all();
    setenv("FLUX_JOB_ID", "ƒ2ND", 1);
    expect_hosts(NULL, "");
    setenv("FLUX_JOB_SIZE", "1", 1);
    expect_hosts(NULL, "");
    setenv("FLUX_JOB_SIZE", "4", 1);
    cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
    cr_expect(strstr(err.text, "flux has started plenumrun 4 times") != NULL, "%s", err.text);
}

Test(allocation, the_environment_decides)
{
    char path[] = "/tmp/plenum-allocation-XXXXXX";
    int fd = mkstemp(path);
    struct allocation a;
    struct plenum_error err = {""};

    cr_assert(fd >= 0);
    cr_assert(eq(int, io_write_all(fd, "a\nb\na\n\nb\nb\n", 11), 0));
    close(fd);
    forget_all();
    expect_hosts(NULL, "");
    setenv("LSB_MCPU_HOSTS", "x 4 y 2", 1);
    expect_hosts("LSF", "x:4 y:2");
    setenv("PBS_NODEFILE", path, 1);
    expect_hosts("PBS", "a:2 b:3");
    setenv("SLURM_JOB_NODELIST", "n[1-2]", 1);
    setenv("SLURM_TASKS_PER_NODE", "64(x2)", 1);
    expect_hosts("Slurm", "n1 n2"); /* CPUs: no tasks were requested */
    setenv("SLURM_NTASKS", "128", 1);
    expect_hosts("Slurm", "n1:64 n2:64");
    setenv("SLURM_NTASKS", "100", 1);
    cr_assert(eq(int, allocation_read(&a, &err), 0));
    cr_expect(eq(u32, a.tasks, 100), "100 tasks were requested, fewer than there is room for");
    allocation_fini(&a);
    setenv("SLURM_STEP_ID", "0", 1); /* in a step, which specifies its tasks */
    setenv("SLURM_TASKS_PER_NODE", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    expect_hosts("Slurm", "n1 n2");
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
    cr_expect(strstr(err.text, "srun has started plenumrun 4 times") != NULL, "%s", err.text);

    forget_all();
    setenv("SLURM_JOB_NODELIST", "n1", 1); /* the first of three parts */
    setenv("SLURM_HET_SIZE", "2", 1);
    setenv("SLURM_JOB_NODELIST_HET_GROUP_0", "n1", 1);
    setenv("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]", 1);
    cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
    cr_expect(strstr(err.text, "SLURM_HET_SIZE=2) with the hosts n1 and n[2-3] ") != NULL, "%s",
              err.text);
    setenv("SLURM_HET_SIZE", "1", 1);
    expect_hosts("Slurm", "n1");

    forget_all();
    setenv("LSB_MCPU_HOSTS", "x 4 y", 1);
    cr_expect(eq(int, allocation_read(&a, &err), -EINVAL));
    cr_expect(strstr(err.text, "'y' has no number") != NULL, "%s", err.text);
    unlink(path);
    setenv("PBS_NODEFILE", path, 1);
    cr_expect(eq(int, allocation_read(&a, &err), -ENOENT));
    cr_expect(strstr(err.text, path) != NULL, "%s", err.text);
}

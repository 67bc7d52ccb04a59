/* SPDX-License-Identifier: MIT */
/* Tests control groups as containers and batch systems present them, in file trees of the same
 * shape; and a real group, where one can be created. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/cgroup.h"
#include "common/util/memory.h"
#include "common/util/util.h"
#include "tests/tree.h"

/* While set, all allocations fail, in the C library too. (Sanitizers have their own malloc().) */
static bool no_memory;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    errno = ENOMEM;
    return no_memory ? NULL : __libc_malloc(size);
}

void *realloc(void *old, size_t size)
{
    errno = ENOMEM;
    return no_memory ? NULL : __libc_realloc(old, size);
}
#endif

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
    cgroup_top = tree.root;
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(cgroup, .init = setup, .fini = teardown);

static void file(const char *name, const char *text)
{
    tree_write_text(&tree, name, text);
}

static void hosts(const char *groups, const char *mounts)
{
    file("proc/self/cgroup", groups);
    file("proc/self/mountinfo", mounts);
}

static uint64_t room(struct memory_limit *ret)
{
    *ret = (struct memory_limit){.bytes = 0};
    memory_available(ret);
    return ret->bytes;
}

#define V2 "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define NOISE                                                                                   \
    "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n24 23 0:30 / /my\\040disk rw shared:2 - tmpfs tmpfs " \
    "rw\n"

Test(cgroup, without_groups_nothing_is_limited)
{
    struct memory_limit m;

    cr_expect(eq(u32, cgroup_cpu_millicores(), 0));
    cr_expect(gt(u64, room(&m), 0));
    cr_expect(eq(str, m.what, "the machine"));
    hosts("0::/\n", NOISE); /* no hierarchy is mounted */
    file("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 0));
}

Test(cgroup, the_smallest_limit_of_nested_groups_applies)
{
    struct memory_limit m;

    hosts("0::/jobs/17/step\n", NOISE V2);
    file("sys/fs/cgroup/jobs/17/step/cpu.max", "max 100000\n");
    file("sys/fs/cgroup/jobs/17/cpu.max", "250000 100000\n");
    file("sys/fs/cgroup/jobs/cpu.max", "1600000 100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 2500));
    file("sys/fs/cgroup/jobs/17/step/memory.max", "max\n");
    file("sys/fs/cgroup/jobs/17/step/memory.current", "3000\n");
    file("sys/fs/cgroup/jobs/17/memory.max", "10000\n");
    file("sys/fs/cgroup/jobs/17/memory.current", "4000\n");
    file("sys/fs/cgroup/jobs/17/memory.stat", "anon 1000\ninactive_file 1500\n");
    cr_expect(eq(u64, room(&m), 7500));
    cr_expect(eq(str, m.what, "the control group /jobs/17"));
}

/* A process that has used up its memory must still find its limit. */
Test(cgroup, limits_are_found_without_memory)
{
    struct memory_limit m = {.bytes = 0};
    uint32_t millicores;

    hosts("0::/jobs/17\n", NOISE V2);
    file("sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
    file("sys/fs/cgroup/jobs/memory.max", "10000\n");
    file("sys/fs/cgroup/jobs/memory.current", "4000\n");
    no_memory = true;
    millicores = cgroup_cpu_millicores();
    memory_available(&m);
    no_memory = false;
    cr_expect(eq(u32, millicores, 2500));
    cr_expect(eq(u64, m.bytes, 6000));
}

/* The line of an overlay mount lists many folders, none of which is the group's. */
Test(cgroup, lines_of_any_length_may_precede_ours)
{
    size_t len = 3 << 20;
    char *mounts = malloc(len + sizeof(NOISE V2));

    memset(mounts, 'x', len);
    mounts[len - 1] = '\n';
    strcpy(mounts + len, NOISE V2);
    hosts("0::/jobs\n", mounts);
    free(mounts);
    file("sys/fs/cgroup/jobs/cpu.max", "250000 100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 2500));
}

/* Docker, Podman and Kubernetes with version 2 use a separate namespace, whose root is mounted. */
Test(cgroup, a_container_with_its_own_namespace_in_version_2)
{
    hosts("0::/\n", "900 800 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
    file("sys/fs/cgroup/cpu.max", "50000 100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 500));
}

/* With version 1, or 2 without a namespace, the group's name is the host's, but only the
 * container's own part is mounted. */
Test(cgroup, part_of_the_hosts_hierarchy)
{
    struct memory_limit m;

    hosts("5:memory:/docker/abc/sub\n4:cpu,cpuacct:/docker/abc/sub\n0::/docker/abc\n",
          "900 800 0:26 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
          "901 800 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    file("sys/fs/cgroup/cpu,cpuacct/sub/cpu.cfs_quota_us", "150000\n");
    file("sys/fs/cgroup/cpu,cpuacct/sub/cpu.cfs_period_us", "100000\n");
    file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 1500));
    file("sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n");
    file("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
    file("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
    /* the limit of another group: a container inside this one */
    file("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1\n");
    file("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1\n");
    cr_expect(eq(u64, room(&m), 4000));
    cr_expect(eq(str, m.what, "the control group /docker/abc"));
}

/* The host's whole hierarchy is mounted in a container with its own namespace. */
Test(cgroup, paths_above_the_namespace_begin_with_dots)
{
    hosts("0::/\n", "900 800 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    file("sys/fs/cgroup/cpu.max", "300000 100000\n"); /* of a group above this one */
    cr_expect(eq(u32, cgroup_cpu_millicores(), 3000));
    hosts("0::/../other/job\n", "900 800 0:26 /.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    file("sys/fs/cgroup/other/job/cpu.max", "200000 100000\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 2000));
    hosts("0::/../../other\n", V2); /* this group is outside the mounted part */
    cr_expect(eq(u32, cgroup_cpu_millicores(), 0), "another group's limit must not apply");
    hosts("0::/a\n", "900 800 0:26 /b /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 0));
    hosts("0::/ab\n", "900 800 0:26 /a /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 0));
}

/* There may be controllers of version 1 beside a version 2 hierarchy without any, and mounts at
 * other places. */
Test(cgroup, both_versions_at_once)
{
    hosts("3:cpu:/j\n2:cpuset:/j\n0::/j\n",
          "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
          "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
          "33 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
          "32 31 0:29 / /groups\\040of/cpu rw - cgroup cgroup rw,cpu\n");
    file("groups of/cpu/j/cpu.cfs_quota_us", "70000\n");
    file("groups of/cpu/j/cpu.cfs_period_us", "20000\n");
    file("sys/fs/cgroup/unified/j/cgroup.procs", "1\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 3500));
}

Test(cgroup, malformed_limits_are_ignored)
{
    static const char *const texts[] = {"",          "max",      "max max",
                                        "-1 100000", "0 100000", "100000 0",
                                        "x",         "100000",   "99999999999999999999 100000"};

    hosts("0::/\n", V2);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        file("sys/fs/cgroup/cpu.max", texts[i]);
        cr_expect(eq(u32, cgroup_cpu_millicores(), 0), "'%s'", texts[i]);
    }
    hosts("\n:\n0\n0:\n::\n4:cpu\n",
          "\n - \n1 2 3 4 - cgroup2 cgroup rw\n - cgroup2 cgroup rw\n1 2 0:1 / /x rw -\n");
    cr_expect(eq(u32, cgroup_cpu_millicores(), 0));
}

static bool put(const char *folder, const char *name, const char *text)
{
    char path[400];
    FILE *f;
    bool ok;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "we");
    ok = f && fputs(text, f) >= 0;
    return f ? fclose(f) == 0 && ok : false;
}

/* With the kernel's own files: create a group with a quota, and read it from a process in the
 * group. */
Test(cgroup, a_real_group)
{
    bool one = access("/sys/fs/cgroup/cpu/cpu.shares", F_OK) == 0 ||
               access("/sys/fs/cgroup/cpu/cgroup.procs", F_OK) == 0;
    char folder[200], pid[16];
    int status = 0;
    pid_t child;

    cgroup_top = "";
    (void)snprintf(folder, sizeof(folder), "/sys/fs/cgroup/%splenum-test-%d", one ? "cpu/" : "",
                   (int)getpid());
    if (mkdir(folder, 0755) < 0)
        cr_skip("no control group can be created here");
    if (!(one ? put(folder, "cpu.cfs_period_us", "100000") &&
                    put(folder, "cpu.cfs_quota_us", "130000")
              : put(folder, "cpu.max", "130000 100000"))) {
        (void)rmdir(folder);
        cr_skip("a control group cannot have a quota here");
    }
    child = fork();
    if (child == 0) {
        (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
        _exit(!put(folder, "cgroup.procs", pid) ? 2 : cgroup_cpu_millicores() == 1300 ? 0 : 1);
    }
    cr_expect(eq(int, waitpid(child, &status, 0), child));
    cr_expect(eq(int, rmdir(folder), 0));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        cr_skip("no process can be moved into a control group here");
    cr_expect(eq(int, status, 0), "the quota of 1.3 CPUs was not seen");
}

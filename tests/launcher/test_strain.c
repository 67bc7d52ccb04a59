/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/cgroup.h"
#include "common/util/util.h"
#include "launcher/host/strain.h"

/* A machine's /proc and /sys, in a folder. */
static char top[] = "/tmp/plenum-strain-XXXXXX";

static void put(const char *file, const char *format, ...)
{
    char path[512];
    va_list args;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", top, file);
    for (char *at = path + sizeof(top); (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    f = fopen(path, "w");
    cr_assert(ne(ptr, f, NULL), "%s", path);
    va_start(args, format);
    (void)vfprintf(f, format, args);
    va_end(args);
    cr_assert(eq(int, fclose(f), 0));
}

static void put_pressure(const char *file, unsigned long long us)
{
    put(file, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%llu\nfull avg10=0.00 total=9\n", us);
}

static void put_stat(unsigned busy, unsigned steal)
{
    put("proc/stat", "cpu  %u 0 0 5000 100 0 0 %u 0 0\ncpu0 1 2 3\n", busy, steal);
}

static void begin(void)
{
    cr_assert(ne(ptr, mkdtemp(top), NULL));
    cgroup_top = top;
    put("proc/self/cgroup", "0::/jobs/7\n");
    put("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
}

static void end(void)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -rf %s", top);
    cr_assert(eq(int, system(command), 0));
}

Test(strain, shares_are_those_since_the_last_call, .init = begin, .fini = end)
{
    uint8_t share[STRAIN_KINDS];
    struct strain *strain;

    put("sys/fs/cgroup/jobs/7/cpu.stat", "usage_usec 5\nthrottled_usec 1000\n");
    put("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nthrottled_usec 500000\n");
    put_pressure("sys/fs/cgroup/jobs/7/memory.pressure", 100);
    put_pressure("proc/pressure/memory", 0);
    put_pressure("proc/pressure/cpu", 7);
    put_pressure("proc/pressure/io", 7);
    put_stat(1000, 500);
    cr_assert(eq(int, strain_create(true, &strain), 0));
    strain_read(strain, 5 * NS_PER_SEC, share);
    for (unsigned i = 0; i < STRAIN_KINDS; i++)
        cr_expect(eq(u8, share[i], 0), "%u", i);
    put("sys/fs/cgroup/jobs/7/cpu.stat", "usage_usec 5\nthrottled_usec 301000\n");
    put("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nthrottled_usec 600000\n");
    put_pressure("sys/fs/cgroup/jobs/7/memory.pressure", 1000100);
    put_pressure("proc/pressure/memory", 2000000);
    put_pressure("proc/pressure/cpu", 200007);
    put_pressure("proc/pressure/io", 5000000);
    put_stat(1075, 525);
    strain_read(strain, 7 * NS_PER_SEC, share);
    cr_expect(eq(u8, share[STRAIN_THROTTLED], 15), "the largest share of all groups must count");
    cr_expect(eq(u8, share[STRAIN_MEMORY], 50), "the group's share must count, not the host's");
    cr_expect(eq(u8, share[STRAIN_CPU], 10));
    cr_expect(eq(u8, share[STRAIN_IO], 100), "at most all of the time");
    cr_expect(eq(u8, share[STRAIN_STOLEN], 25));
    strain_read(strain, 8 * NS_PER_SEC, share);
    for (unsigned i = 0; i < STRAIN_KINDS; i++)
        cr_expect(eq(u8, share[i], 0), "%u", i);
    strain_destroy(strain);
}

Test(strain, missing_and_strange_files_are_no_strain, .init = begin, .fini = end)
{
    uint8_t share[STRAIN_KINDS];
    struct strain *strain;

    put("proc/stat", "cpu  1 2 three\n");
    put("proc/pressure/cpu", "some total=many\n");
    put("sys/fs/cgroup/jobs/7/cpu.stat", "usage_usec 5\n");
    cr_assert(eq(int, strain_create(true, &strain), 0));
    for (uint64_t s = 1; s < 4; s++) {
        strain_read(strain, s * NS_PER_SEC, share);
        for (unsigned i = 0; i < STRAIN_KINDS; i++)
            cr_expect(eq(u8, share[i], 0), "%u", i);
    }
    strain_destroy(strain);
    cgroup_top = "/nonexistent";
    cr_assert(eq(int, strain_create(true, &strain), 0));
    strain_read(strain, NS_PER_SEC, share);
    strain_destroy(strain);
}

Test(strain, other_instances_leave_the_host_to_the_first, .init = begin, .fini = end)
{
    uint8_t share[STRAIN_KINDS];
    struct strain *strain;

    put_pressure("proc/pressure/cpu", 0);
    put_stat(1000, 500);
    cr_assert(eq(int, strain_create(false, &strain), 0));
    strain_read(strain, 1 * NS_PER_SEC, share);
    put_pressure("proc/pressure/cpu", 1000000);
    put_stat(1010, 600);
    strain_read(strain, 2 * NS_PER_SEC, share);
    cr_expect(eq(u8, share[STRAIN_CPU], 0));
    cr_expect(eq(u8, share[STRAIN_STOLEN], 0));
    strain_destroy(strain);
}

/* SPDX-License-Identifier: MIT */
/* bind.c - calls sched_setaffinity(2) and set_mempolicy(2), and reads what the kernel did.
 *
 * hwloc is not used here: plenumrun sends the shim OS indices, so the shim need not load a
 * topology; and binding happens between fork() and exec(), where a library that allocates must not
 * be called. The C library has no wrappers for the memory system calls, so the kernel's numbers and
 * names are used. */
#include "config.h"

#include "launcher/shim/bind.h"

#include <assert.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/util.h"

int bind_request_parse(const char *cpus, const char *nodes, bool bind_cpus, enum numa_policy memory,
                       struct bind_request *ret, struct plenum_error *err)
{
    struct bind_request request = {.cpus = bind_cpus, .memory = memory};
    int r;

    r = ranges_parse(cpus, request.sets.cpus, NUMA_CPUS_MAX, err);
    if (r < 0)
        return r;
    r = ranges_parse(nodes, request.sets.nodes, NUMA_NODES_MAX, err);
    if (r < 0)
        return r;
    *ret = request;
    return 0;
}

/* MPOL_PREFERRED_MANY, of Linux 5.15; the headers may be older. */
#define PREFERRED_MANY 5

static const struct {
    int mode;
    enum numa_policy policy;
} modes[] = {
    {MPOL_BIND, NUMA_BIND},           {PREFERRED_MANY, NUMA_PREFERRED},
    {MPOL_PREFERRED, NUMA_PREFERRED}, {MPOL_INTERLEAVE, NUMA_INTERLEAVE},
    {MPOL_LOCAL, NUMA_LOCAL},
};

static void read_back(struct bind_result *result)
{
    int mode = MPOL_DEFAULT;

    result->memory = NUMA_DEFAULT;
    (void)sched_getaffinity(0, sizeof(result->sets.cpus), (cpu_set_t *)result->sets.cpus);
    if (syscall(SYS_get_mempolicy, &mode, result->sets.nodes, (unsigned long)NUMA_NODES_MAX, NULL,
                0) < 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        if (modes[i].mode == mode)
            result->memory = modes[i].policy;
    if (result->memory == NUMA_DEFAULT || result->memory == NUMA_LOCAL)
        memset(result->sets.nodes, 0, sizeof(result->sets.nodes));
}

/* Set the memory policy. The kernel uses one bit less than the number passed to it. */
static int set_policy(int mode, const unsigned long *nodes)
{
    return syscall(SYS_set_mempolicy, mode, nodes, nodes ? (unsigned long)NUMA_NODES_MAX + 1 : 0) <
                   0
               ? -errno
               : 0;
}

static int set_memory(const struct bind_request *request)
{
    int r;

    switch (request->memory) {
    case NUMA_BIND:
        return set_policy(MPOL_BIND, request->sets.nodes);
    case NUMA_PREFERRED:
        r = set_policy(PREFERRED_MANY, request->sets.nodes);
        /* An older kernel prefers only one node, the first of the set. */
        return r == -EINVAL ? set_policy(MPOL_PREFERRED, request->sets.nodes) : r;
    case NUMA_INTERLEAVE:
        return set_policy(MPOL_INTERLEAVE, request->sets.nodes);
    case NUMA_LOCAL:
        return set_policy(MPOL_LOCAL, NULL);
    case NUMA_POLICIES:
    case NUMA_DEFAULT:
        break;
    }
    return 0;
}

void bind_apply(const struct bind_request *request, struct bind_result *ret)
{
    assert(request->memory < NUMA_POLICIES);
    *ret = (struct bind_result){0};
    if (request->cpus &&
        sched_setaffinity(0, sizeof(request->sets.cpus), (const cpu_set_t *)request->sets.cpus) < 0)
        ret->cpus_error = -errno;
    ret->memory_error = set_memory(request);
    read_back(ret);
}

int bind_check_cpus(const struct bind_request *request, const struct bind_result *result)
{
    if (result->cpus_error)
        return result->cpus_error;
    return request->cpus &&
                   memcmp(request->sets.cpus, result->sets.cpus, sizeof(request->sets.cpus)) != 0
               ? -EXDEV
               : 0;
}

int bind_check(const struct bind_request *request, const struct bind_result *result)
{
    int r = bind_check_cpus(request, result);

    if (r < 0)
        return r;
    if (result->memory_error)
        return result->memory_error;
    /* For NUMA_PREFERRED, nodes are not compared: an older kernel prefers only one. */
    if (request->memory != NUMA_DEFAULT && request->memory != result->memory)
        return -EXDEV;
    if ((request->memory == NUMA_BIND || request->memory == NUMA_INTERLEAVE) &&
        memcmp(request->sets.nodes, result->sets.nodes, sizeof(request->sets.nodes)) != 0)
        return -EXDEV;
    return 0;
}

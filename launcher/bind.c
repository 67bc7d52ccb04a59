/* bind.c - sched_setaffinity(2) and set_mempolicy(2), and what the kernel made of them.
 *
 * Not by hwloc: the shim is told OS indices by plenumrun, so that it need not load a topology, and
 * must bind between fork() and exec(), where a library that allocates has no business. The system
 * calls for memory have no wrapper in the C library; their numbers and names are the kernel's. */
#include "config.h"

#include "launcher/bind.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int bind_request_parse(const char *cpus, const char *nodes, bool bind_cpus, bool bind_memory,
                       struct bind_request *ret, struct plenum_error *err)
{
    struct bind_request request = {.cpus = bind_cpus, .memory = bind_memory};
    int r;

    r = ranges_parse(cpus, request.sets.cpus, BIND_CPUS, err);
    if (r < 0)
        return r;
    r = ranges_parse(nodes, request.sets.nodes, BIND_NODES, err);
    if (r < 0)
        return r;
    *ret = request;
    return 0;
}

static void read_back(struct bind_result *result)
{
    int mode = MPOL_DEFAULT;

    (void)sched_getaffinity(0, sizeof(result->sets.cpus), (cpu_set_t *)result->sets.cpus);
    if (syscall(SYS_get_mempolicy, &mode, result->sets.nodes, (unsigned long)BIND_NODES, NULL, 0) <
        0)
        return;
    result->memory = mode == MPOL_BIND;
    if (!result->memory)
        memset(result->sets.nodes, 0, sizeof(result->sets.nodes));
}

void bind_apply(const struct bind_request *request, struct bind_result *ret)
{
    *ret = (struct bind_result){0};
    if (request->cpus &&
        sched_setaffinity(0, sizeof(request->sets.cpus), (const cpu_set_t *)request->sets.cpus) < 0)
        ret->cpus_error = -errno;
    /* The kernel counts one bit less than it is told. */
    if (request->memory && syscall(SYS_set_mempolicy, MPOL_BIND, request->sets.nodes,
                                   (unsigned long)BIND_NODES + 1) < 0)
        ret->memory_error = -errno;
    read_back(ret);
}

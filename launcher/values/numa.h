/* SPDX-License-Identifier: MIT */
/* numa.h - memory policies, and the sizes of sets of CPUs and nodes, shared by the planner and the
 * shim. */
#ifndef LAUNCHER_NUMA_H
#define LAUNCHER_NUMA_H

#include <plenum/error.h>

enum {
    NUMA_CPUS_MAX = 8192, /* the maximum of any Linux kernel */
    NUMA_NODES_MAX = 1024,
};

/** Where a process's memory comes from. */
enum numa_policy {
    NUMA_BIND,       /* only the nodes of the instance's CPUs */
    NUMA_PREFERRED,  /* these nodes as long as they have free memory */
    NUMA_INTERLEAVE, /* these nodes in turn */
    NUMA_LOCAL,      /* the node of the requesting thread, regardless of what was inherited */
    NUMA_DEFAULT,    /* nothing is set */
    NUMA_POLICIES
};

/** Returns the policy's name on the command line; "default" for NUMA_DEFAULT. */
const char *numa_policy_name(enum numa_policy policy);
/** Parse a policy's name. Returns 0, or -EINVAL with an error that lists the names. NUMA_DEFAULT
 * has no name. */
int numa_policy_parse(const char *name, enum numa_policy *ret, struct plenum_error *err);

#endif

/* SPDX-License-Identifier: MIT */
/* numa.h - the words for CPUs and memory that the planner and the shim share. */
#ifndef LAUNCHER_NUMA_H
#define LAUNCHER_NUMA_H

#include <plenum/error.h>

enum {
    NUMA_CPUS_MAX = 8192, /* as many as any Linux kernel is built for */
    NUMA_NODES_MAX = 1024,
};

/** Where the memory of a process comes from. */
enum numa_policy {
    NUMA_BIND,       /* only from the nodes of the instance's CPUs */
    NUMA_PREFERRED,  /* from these as long as they have some */
    NUMA_INTERLEAVE, /* from these in turn */
    NUMA_LOCAL,      /* from where the thread runs that asks, whatever was inherited */
    NUMA_DEFAULT,    /* nothing is set */
    NUMA_POLICIES
};

/** The policy's name on the command line; "default" for NUMA_DEFAULT. */
const char *numa_policy_name(enum numa_policy policy);
/** 0, or -EINVAL with a sentence that lists the names. NUMA_DEFAULT has none. */
int numa_policy_parse(const char *name, enum numa_policy *ret, struct plenum_error *err);

#endif

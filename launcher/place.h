/* place.h - which CPUs and which memory does an instance get? A pure function. */
#ifndef LAUNCHER_PLACE_H
#define LAUNCHER_PLACE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

enum place_policy {
    PLACE_SPREADNUMA, /* the host's NUMA nodes are divided among its instances */
    PLACE_COMPACT,    /* its cores are, in order, wherever the borders of nodes lie */
    PLACE_DISABLED,   /* nothing is bound */
};

/** What one instance gets. place_fini() frees it. */
struct place {
    hwloc_bitmap_t cpus;  /* OS indices */
    hwloc_bitmap_t nodes; /* NUMA nodes of these CPUs, OS indices */
    uint32_t cores;       /* how many threads make sense: at least 1 */
    bool bind_cpus;
    bool bind_memory;    /* false when there is no memory elsewhere */
    bool oversubscribed; /* another instance has some of these cores too */
};

/** What a host has, for tables. */
struct place_host {
    uint32_t numa_nodes, cores, cpus;
    uint64_t memory_bytes;
};

/**
 * The place of instance `index` of `count` on the host of `topology`.
 *
 * Depends on nothing but its arguments, so that a table printed beforehand, for a saved or made-up
 * host too, shows what will be done. Memory that no CPU is near to, and CPUs that no memory is near
 * to, are known: the former is given to nobody, the latter are a group of their own.
 *
 * Errors: -EINVAL the topology has no CPU; -ENOMEM.
 */
int place_compute(hwloc_topology_t topology, uint32_t index, uint32_t count,
                  enum place_policy policy, struct place *ret, struct plenum_error *err);
void place_fini(struct place *place);

void place_describe_host(hwloc_topology_t topology, struct place_host *ret);

/** The policy's name on the command line. */
const char *place_policy_name(enum place_policy policy);
/** 0, or -EINVAL with a sentence that lists the names. */
int place_policy_parse(const char *name, enum place_policy *ret, struct plenum_error *err);

#endif

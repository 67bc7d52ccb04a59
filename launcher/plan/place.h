/* SPDX-License-Identifier: MIT */
/* place.h - which CPUs and which memory do the instances of a host get? A pure function. */
#ifndef LAUNCHER_PLACE_H
#define LAUNCHER_PLACE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/numa.h"

enum place_policy {
    PLACE_SPREADNUMA, /* the host's NUMA nodes are divided among its instances */
    PLACE_COMPACT,    /* its cores are, in order, wherever the borders of nodes lie */
    PLACE_CORE,       /* one core each, spread over the NUMA nodes */
    PLACE_SOCKET,     /* its sockets are divided */
    PLACE_DEVICE,     /* NUMA nodes next to each instance's accelerators */
    PLACE_DISABLED,   /* nothing is bound */
};

/** Numbers of accelerators, in the order of their addresses on the host. */
struct place_devices {
    const uint32_t *list;
    uint32_t count;
};

struct place_request {
    uint32_t count; /* instances */
    enum place_policy policy;
    enum numa_policy memory;
    const char *cpus;                    /* only these, "0-7,16-23"; NULL: all */
    bool first_threads;                  /* of each core only the first hardware thread */
    uint32_t reserve_cores;              /* for the loader */
    const struct place_devices *devices; /* [count], for PLACE_DEVICE; else NULL */
};

/** What one instance gets. */
struct place {
    hwloc_bitmap_t cpus;  /* OS indices */
    hwloc_bitmap_t nodes; /* NUMA nodes of these CPUs, OS indices */
    uint32_t cores;       /* how many threads make sense: at least 1 */
    bool bind_cpus;
    enum numa_policy memory; /* DEFAULT also where there is no choice of memory */
    bool oversubscribed;     /* another instance has some of these cores too */
};

struct places {
    struct place *list;
    uint32_t count;
    hwloc_bitmap_t loader; /* the loader's CPUs: those reserved, else all that may be used */
    uint32_t loader_cores; /* that are reserved */
    bool blind; /* PLACE_DEVICE: it is not known where the accelerators are; done as spreadnuma */
};

/** What a host has, for tables. */
struct place_host {
    uint32_t numa_nodes, cores, cpus;
    uint64_t memory_bytes;
    uint32_t quota_millicores; /* of CPU time, by its control group; 0: none */
};

/**
 * Divide the host of `topology` among request->count instances.
 *
 * Depends on nothing but its arguments, so that a table printed beforehand, for a saved or made-up
 * host too, shows what will be done. Memory that no CPU is near to, and CPUs that no memory is near
 * to, are known: the former is given to nobody, the latter are a group of their own.
 *
 * Errors: -EINVAL with a sentence (no CPU, --cpus names some that are not there, nothing is left
 * beside the loader's); -ENOMEM. `*ret` is owned: places_fini().
 */
int place_host(hwloc_topology_t topology, const struct place_request *request, struct places *ret,
               struct plenum_error *err);
void places_fini(struct places *places);

void place_describe_host(hwloc_topology_t topology, struct place_host *ret);

/** The policy's name on the command line. */
const char *place_policy_name(enum place_policy policy);
/** 0, or -EINVAL with a sentence that lists the names. */
int place_policy_parse(const char *name, enum place_policy *ret, struct plenum_error *err);

#endif

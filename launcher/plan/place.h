/* SPDX-License-Identifier: MIT */
/* place.h - decides which CPUs and which memory each instance of a host gets. A pure function. */
#ifndef LAUNCHER_PLACE_H
#define LAUNCHER_PLACE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/values/numa.h"

enum place_policy {
    PLACE_SPREADNUMA, /* the host's NUMA nodes are divided among its instances */
    PLACE_COMPACT,    /* the host's cores are divided in order, regardless of node boundaries */
    PLACE_CORE,       /* each instance gets one core; these are spread over the NUMA nodes */
    PLACE_SOCKET,     /* the host's sockets are divided */
    PLACE_DEVICE,     /* each instance gets the NUMA nodes next to its accelerators */
    PLACE_DISABLED,   /* nothing is bound */
};

/** An instance's accelerators, numbered by their bus addresses on the host. */
struct place_devices {
    const uint32_t *list;
    uint32_t count;
};

struct place_request {
    uint32_t count; /* number of instances */
    enum place_policy policy;
    enum numa_policy memory;
    const char *cpus;                    /* use only these CPUs, "0-7,16-23"; NULL: all */
    bool first_threads;                  /* use only the first hardware thread of each core */
    uint32_t reserve_cores;              /* number of cores reserved for the loader */
    const struct place_devices *devices; /* [count], for PLACE_DEVICE; otherwise NULL */
};

/** What one instance gets. */
struct place {
    hwloc_bitmap_t cpus;  /* OS indices */
    hwloc_bitmap_t nodes; /* NUMA nodes of these CPUs, OS indices */
    uint32_t cores;       /* sensible number of threads: at least 1 */
    bool bind_cpus;
    enum numa_policy memory; /* NUMA_DEFAULT if there is no choice of memory */
    bool oversubscribed;     /* shares cores, or has less than one core's CPU time */
};

struct places {
    struct place *list;
    uint32_t count;
    hwloc_bitmap_t loader; /* the loader's CPUs: the reserved ones, otherwise all usable ones */
    uint32_t loader_cores; /* number of reserved cores */
    bool blind;            /* PLACE_DEVICE: accelerator locality unknown; fell back to spreadnuma */
};

/** A host's resources, for tables. */
struct place_host {
    uint32_t numa_nodes, cores, cpus;
    uint64_t memory_bytes;
    uint32_t quota_millicores; /* CPU time limit of its control group; 0: none */
};

/**
 * Divide the host of `topology` among request->count instances.
 *
 * Depends on nothing but its arguments, so that a table printed in advance, even for a saved or
 * made-up host, shows what will happen. Memory without nearby CPUs, and CPUs without nearby memory,
 * are handled: the memory is not assigned, the CPUs form a group of their own.
 *
 * Errors: -EINVAL with a message (no CPU, --cpus names unusable ones, no core is left
 * besides the loader's); -ENOMEM. `*ret` is owned: places_fini().
 */
int place_host(hwloc_topology_t topology, const struct place_request *request, struct places *ret,
               struct plenum_error *err);
void places_fini(struct places *places);

/** Count the resources of the host of `topology`. */
void place_describe_host(hwloc_topology_t topology, struct place_host *ret);

/** Returns the policy's name on the command line. */
const char *place_policy_name(enum place_policy policy);
/** Parse a policy's name. Returns 0, or -EINVAL with a message that lists the names. */
int place_policy_parse(const char *name, enum place_policy *ret, struct plenum_error *err);

#endif

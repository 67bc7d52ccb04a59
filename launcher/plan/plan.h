/* SPDX-License-Identifier: MIT */
/* plan.h - what runs where: hosts → instances → replicas, and what each is bound to. */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/place.h"

struct plan_host {
    char *name;              /* as the user wrote it, without user and port */
    char *user;              /* to log in as; NULL: ssh's default */
    uint16_t port;           /* port of its ssh server; 0: ssh's default */
    bool local;              /* this machine */
    char *interface;         /* for the job's connections, "eth0 10.1.2.3"; NULL: not known */
    uint32_t first, count;   /* its instances are first ... first + count - 1 */
    bool known;              /* plan_place_host() has set `real` ... `blind` */
    bool real;               /* the topology is the machine's own, so binding is possible */
    struct place_host shape; /* NUMA nodes, cores, CPUs, memory */
    char *loader_cpus;       /* the loader's CPUs; "" or NULL: any */
    uint32_t loader_cores;   /* reserved for the loader */
    bool blind;              /* accelerator locality was requested but is unknown */
    bool lost;               /* the job lost the host, and the host is to blame */
    uint64_t dead_ns;        /* when its programs will have ended, even if it is unreachable */
};

/** Copy a host from a list. Returns 0 or -ENOMEM. Call plan_host_fini() in either case. */
int plan_host_init(struct plan_host *host, const struct hostlist_host *named, bool local);
void plan_host_fini(struct plan_host *host);
/** Is this the host that the list names, with the same user and port? */
bool plan_host_is(const struct plan_host *host, const struct hostlist_host *named);

struct plan_instance {
    uint32_t host; /* index in the plan's hosts */
    uint32_t local_index;
    uint32_t replica_offset, num_replicas;
    uint32_t first_device, num_devices; /* positions in the host's pool */
    char *devices;                      /* "2,3"; "": none are named */
    /* Set by plan_place_host(). */
    char *cpus;              /* OS indices, "0-3,8-11" */
    char *nodes;             /* NUMA nodes, in the same format */
    uint32_t cores;          /* sensible number of threads */
    bool bind_cpus;          /* otherwise the instance may run outside `cpus`, too */
    enum numa_policy memory; /* policy for `nodes` */
    bool oversubscribed;     /* shares cores, or has less than one core's CPU time */
};

struct plan {
    struct plan_host *hosts;
    uint32_t num_hosts;
    struct plan_host *loader_hosts; /* hosts that run a loader and no instances */
    uint32_t num_loader_hosts;
    struct plan_instance *instances;
    uint32_t num_instances;
    uint32_t num_replicas;
    uint32_t devices_per_replica;
    const char *device_variable; /* makes an instance's devices visible; NULL: none; borrowed */
    const char *device_prefix;
    struct place_request place; /* without the number of instances and their devices */
    const struct device_pool *pool;
};

/** A request for a plan. A number that the user did not give is 0. The plan borrows the request. */
struct plan_request {
    const struct hostlist *hosts; /* empty: this host */
    const bool *local;            /* [hosts->count]: is it this machine? NULL: none is */
    const struct hostlist *loader_hosts;
    const bool *loader_local; /* like `local`, for the loader hosts */
    const char *this_host;    /* this host's name, used if no host is given */
    uint32_t num_instances, num_replicas, devices_per_replica;
    uint32_t replicas_per_host;     /* instead of num_replicas */
    bool allow_uneven;              /* replicas need not divide evenly */
    struct place_request place;     /* policy and related settings */
    const struct device_pool *pool; /* NULL: devices are not assigned */
};

/**
 * Split instances over hosts and replicas over instances.
 *
 * Instances are consecutive on a host; each host gets one, then each a second, until all are
 * placed, but no host gets more than its slots. Replicas are consecutive in an instance; if uneven
 * numbers are allowed, they differ by at most one (on each host, with `replicas_per_host`), and the
 * first instances have more. A host's devices are assigned in the order of its replicas.
 *
 * Errors: -EINVAL with a message (not enough slots or devices, replicas do not divide evenly);
 * -ENOMEM.
 */
int plan_create(const struct plan_request *request, struct plan *ret, struct plenum_error *err);
void plan_fini(struct plan *plan);

/**
 * Choose CPUs and memory for the instances of host number `host`, which has this topology.
 *
 * @param real  the topology is the machine's own; otherwise, the plan is only for the table.
 *
 * Returns 0, or a negative errno with a message (place_host()).
 */
int plan_place_host(struct plan *plan, uint32_t host, hwloc_topology_t topology, bool real,
                    struct plenum_error *err);

/** Returns whether all instances run on this machine, so that no network is needed. */
bool plan_is_local(const struct plan *plan);

#endif

/* plan.h - who runs where: hosts → instances → replicas, and what each is bound to. */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"
#include "launcher/place.h"

struct plan_host {
    char *name;              /* as the person wrote it */
    bool local;              /* this machine */
    uint32_t first, count;   /* its instances are first ... first + count - 1 */
    bool known;              /* is the rest filled, by plan_place_host()? */
    bool real;               /* that of the machine, which can be bound on */
    struct place_host shape; /* NUMA nodes, cores, CPUs, memory */
};

struct plan_instance {
    uint32_t host; /* index in the plan's hosts */
    uint32_t local_index;
    uint32_t replica_offset, num_replicas;
    /* Filled by plan_place_host(). */
    char *cpus;          /* OS indices, "0-3,8-11" */
    char *nodes;         /* NUMA nodes, likewise */
    uint32_t cores;      /* threads that make sense */
    bool bind_cpus;      /* else anywhere in `cpus` and beyond */
    bool bind_memory;    /* to `nodes` */
    bool oversubscribed; /* shares cores with another instance */
};

struct plan {
    struct plan_host *hosts;
    uint32_t num_hosts;
    struct plan_instance *instances;
    uint32_t num_instances;
    uint32_t num_replicas;
    uint32_t devices_per_replica;
    enum place_policy policy;
};

/** What was asked for; a number of 0 was not. */
struct plan_request {
    const struct hostlist *hosts; /* empty: this host */
    const char *this_host;        /* its name, where none is given */
    uint32_t num_instances, num_replicas, devices_per_replica;
    enum place_policy policy;
};

/**
 * Split instances over hosts and replicas over instances.
 *
 * Instances are consecutive on a host; each host gets one, then each a second, until all have a
 * place, but none more than its slots. Replicas are consecutive in an instance.
 *
 * Errors: -EINVAL with a sentence (slots do not suffice, replicas do not divide); -ENOMEM.
 */
int plan_create(const struct plan_request *request, struct plan *ret, struct plenum_error *err);
void plan_fini(struct plan *plan);

/**
 * Bind the instances of host number `host`, whose topology this is.
 *
 * @param real  is it the machine's own? Else the plan is for the table only.
 */
int plan_place_host(struct plan *plan, uint32_t host, hwloc_topology_t topology, bool real,
                    struct plenum_error *err);

/** Do all instances run on this machine? Then no network is needed. */
bool plan_is_local(const struct plan *plan);

#endif

/* SPDX-License-Identifier: MIT */
/* plan.h - who runs where: hosts → instances → replicas, and what each is bound to. */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/place.h"

struct plan_host {
    char *name;              /* as the person wrote it, without user and port */
    char *user;              /* to log in as; NULL: whoever ssh takes */
    uint16_t port;           /* of its ssh server; 0: ssh's choice */
    bool local;              /* this machine */
    char *interface;         /* that the job talks over, "eth0 10.1.2.3"; NULL: not known */
    uint32_t first, count;   /* its instances are first ... first + count - 1 */
    bool known;              /* is the rest filled, by plan_place_host()? */
    bool real;               /* that of the machine, which can be bound on */
    struct place_host shape; /* NUMA nodes, cores, CPUs, memory */
    char *loader_cpus;       /* that the loader may use; "" or NULL: any */
    uint32_t loader_cores;   /* reserved for it */
    bool blind;              /* where its accelerators are is not known, though it was asked for */
};

struct plan_instance {
    uint32_t host; /* index in the plan's hosts */
    uint32_t local_index;
    uint32_t replica_offset, num_replicas;
    uint32_t first_device, num_devices; /* places in the host's pool */
    char *devices;                      /* "2,3"; "": none are named */
    /* Filled by plan_place_host(). */
    char *cpus;              /* OS indices, "0-3,8-11" */
    char *nodes;             /* NUMA nodes, likewise */
    uint32_t cores;          /* threads that make sense */
    bool bind_cpus;          /* else anywhere in `cpus` and beyond */
    enum numa_policy memory; /* from `nodes` */
    bool oversubscribed;     /* shares cores with another instance */
};

struct plan {
    struct plan_host *hosts;
    uint32_t num_hosts;
    struct plan_host *loader_hosts; /* that run no instance, but a loader: how to reach them */
    uint32_t num_loader_hosts;
    struct plan_instance *instances;
    uint32_t num_instances;
    uint32_t num_replicas;
    uint32_t devices_per_replica;
    const char *device_variable; /* that shows an instance its devices; NULL: none; borrowed */
    const char *device_prefix;
    struct place_request place; /* but for the number of instances and their devices */
    const struct device_pool *pool;
};

/** What was asked for; a number of 0 was not. Borrowed for the plan's life. */
struct plan_request {
    const struct hostlist *hosts; /* empty: this host */
    const bool *local;            /* [hosts->count]: is it this machine? NULL: none is */
    const struct hostlist *loader_hosts;
    const bool *loader_local; /* likewise */
    const char *this_host;    /* its name, where none is given */
    uint32_t num_instances, num_replicas, devices_per_replica;
    bool allow_uneven;              /* replicas need not divide evenly */
    struct place_request place;     /* policy and the like */
    const struct device_pool *pool; /* NULL: devices are nobody's business */
};

/**
 * Split instances over hosts and replicas over instances.
 *
 * Instances are consecutive on a host; each host gets one, then each a second, until all have a
 * place, but none more than its slots. Replicas are consecutive in an instance; uneven ones, where
 * they are allowed, differ by one, the first instances having more. Devices of a host are given in
 * the order of its replicas.
 *
 * Errors: -EINVAL with a sentence (slots or devices do not suffice, replicas do not divide);
 * -ENOMEM.
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

/* SPDX-License-Identifier: MIT */
/* plan.c - plans a job in two pure steps: the split needs only numbers; placing needs topologies.
 *
 * They are separate because another host's topology is known only after its first shim has sent it,
 * whereas the split must be known before anything can be started there. */
#include "config.h"

#include "launcher/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "launcher/values/ranges.h"

void plan_host_fini(struct plan_host *host)
{
    free(host->name);
    free(host->user);
    free(host->interface);
    free(host->loader_cpus);
}

void plan_fini(struct plan *plan)
{
    for (uint32_t i = 0; plan->hosts && i < plan->num_hosts; i++)
        plan_host_fini(&plan->hosts[i]);
    for (uint32_t i = 0; plan->loader_hosts && i < plan->num_loader_hosts; i++)
        plan_host_fini(&plan->loader_hosts[i]);
    for (uint32_t i = 0; plan->instances && i < plan->num_instances; i++) {
        free(plan->instances[i].cpus);
        free(plan->instances[i].nodes);
        free(plan->instances[i].devices);
    }
    free(plan->hosts);
    free(plan->loader_hosts);
    free(plan->instances);
    *plan = (struct plan){0};
}

int plan_host_init(struct plan_host *host, const struct hostlist_host *named, bool local)
{
    *host = (struct plan_host){.local = local,
                               .port = named->port,
                               .name = strdup(named->name),
                               .user = named->user ? strdup(named->user) : NULL};
    return host->name && (host->user || !named->user) ? 0 : -ENOMEM;
}

bool plan_host_is(const struct plan_host *host, const struct hostlist_host *named)
{
    return strcasecmp(host->name, named->name) == 0 && host->port == named->port &&
           (host->user && named->user ? strcmp(host->user, named->user) == 0
                                      : host->user == named->user);
}

static int copy_hosts(const struct hostlist *list, const bool *local, struct plan_host **ret,
                      uint32_t *num)
{
    *ret = calloc(list->count, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    *num = (uint32_t)list->count;
    for (uint32_t i = 0; i < *num; i++)
        if (plan_host_init(&(*ret)[i], &list->hosts[i], local && local[i]) < 0)
            return -ENOMEM;
    return 0;
}

static int add_hosts(struct plan *plan, const struct plan_request *request)
{
    struct hostlist_host here = {.name = (char *)request->this_host};
    const struct hostlist alone = {.hosts = &here, .count = 1};
    const bool yes = true;
    int r = request->hosts->count
                ? copy_hosts(request->hosts, request->local, &plan->hosts, &plan->num_hosts)
                : copy_hosts(&alone, &yes, &plan->hosts, &plan->num_hosts);

    if (r < 0 || !request->loader_hosts || request->loader_hosts->count == 0)
        return r;
    return copy_hosts(request->loader_hosts, request->loader_local, &plan->loader_hosts,
                      &plan->num_loader_hosts);
}

/* Reject loader hosts with instances, because a host with instances already has a loader. */
static int check_loader_hosts(const struct plan *plan, struct plenum_error *err)
{
    for (uint32_t i = 0; i < plan->num_loader_hosts; i++)
        for (uint32_t h = 0; h < plan->num_hosts; h++)
            if ((plan->loader_hosts[i].local && plan->hosts[h].local) ||
                strcasecmp(plan->loader_hosts[i].name, plan->hosts[h].name) == 0)
                return error_set(err, -EINVAL,
                                 "--loader-host %s: instances run there, so it has a loader of its "
                                 "own: leave it out, or --exclude it from the instances",
                                 plan->loader_hosts[i].name);
    return 0;
}

static uint32_t slots_of(const struct hostlist *list, uint32_t host)
{
    return list->count ? list->hosts[host].slots : 0;
}

/* Give one instance to each host in turn, until all are placed. */
static int split_instances(struct plan *plan, const struct plan_request *request,
                           struct plenum_error *err)
{
    uint32_t total = request->num_instances, placed = 0;

    if (total == 0)
        for (uint32_t h = 0; h < plan->num_hosts; h++)
            total += slots_of(request->hosts, h) ? slots_of(request->hosts, h) : 1;
    while (placed < total) {
        uint32_t before = placed;

        for (uint32_t h = 0; h < plan->num_hosts && placed < total; h++) {
            uint32_t slots = slots_of(request->hosts, h);

            if (slots > 0 && plan->hosts[h].count == slots)
                continue;
            plan->hosts[h].count++;
            placed++;
        }
        if (placed == before)
            return error_set(
                err, -EINVAL,
                "%u instances do not fit on the hosts, which have %u slots: raise them "
                "(--host %s:%u) or lower --num-instances",
                total, placed, plan->hosts[0].name, plan->hosts[0].count + total - placed);
    }
    assert(placed == total);
    plan->num_instances = total;
    return 0;
}

static int add_instances(struct plan *plan)
{
    uint32_t index = 0;

    plan->instances = calloc(plan->num_instances, sizeof(*plan->instances));
    if (!plan->instances)
        return -ENOMEM;
    for (uint32_t h = 0; h < plan->num_hosts; h++) {
        plan->hosts[h].first = index;
        for (uint32_t i = 0; i < plan->hosts[h].count; i++, index++)
            plan->instances[index] = (struct plan_instance){.host = h, .local_index = i};
    }
    assert(index == plan->num_instances);
    return 0;
}

/* Check that `total` replicas can be divided over `count` instances, on one host or all. */
static int check_replicas(const struct plan_request *request, uint32_t total, uint32_t count,
                          struct plenum_error *err)
{
    const char *option = request->replicas_per_host ? "--replicas-per-host" : "--num-replicas";
    const char *where = request->replicas_per_host ? " of a host" : "";

    if (total < count)
        return error_set(err, -EINVAL,
                         "%u replicas are fewer than %u instances%s, each of which needs one: "
                         "raise %s or lower --num-instances",
                         total, count, where, option);
    if (total % count != 0 && !request->allow_uneven)
        return error_set(err, -EINVAL,
                         "%u replicas cannot be split evenly over %u instances%s: make %s a "
                         "multiple of %s, or use --allow-uneven",
                         total, count, where, option,
                         request->replicas_per_host ? "that" : "--num-instances");
    return 0;
}

/* Divide `total` replicas over instances `first` ... `first + count - 1`. */
static void divide_replicas(struct plan *plan, uint32_t first, uint32_t count, uint32_t total)
{
    for (uint32_t i = 0; i < count; i++) {
        plan->instances[first + i].num_replicas = total / count + (i < total % count);
        plan->instances[first + i].replica_offset = plan->num_replicas;
        plan->num_replicas += plan->instances[first + i].num_replicas;
    }
}

/* Give each host the same number of replicas. */
static int split_replicas_by_host(struct plan *plan, const struct plan_request *request,
                                  struct plenum_error *err)
{
    uint32_t each = request->replicas_per_host;

    for (uint32_t h = 0; h < plan->num_hosts; h++) {
        const struct plan_host *host = &plan->hosts[h];
        int r = check_replicas(request, each, host->count, err);

        if (r < 0)
            return r;
        if (host->count != plan->hosts[0].count && !request->allow_uneven)
            return error_set(err, -EINVAL,
                             "--replicas-per-host: hosts %s and %s have %u and %u instances, whose "
                             "numbers of replicas would differ: give the hosts the same number of "
                             "slots, or use --allow-uneven",
                             plan->hosts[0].name, host->name, plan->hosts[0].count, host->count);
        divide_replicas(plan, host->first, host->count, each);
    }
    return 0;
}

static int split_replicas(struct plan *plan, const struct plan_request *request,
                          struct plenum_error *err)
{
    uint32_t count = plan->num_instances;
    uint32_t total = request->num_replicas ? request->num_replicas : count;
    int r;

    assert(plan->num_replicas == 0);
    if (request->num_replicas && request->replicas_per_host)
        return error_set(err, -EINVAL,
                         "--num-replicas and --replicas-per-host contradict each other: leave one "
                         "of them out");
    if (request->replicas_per_host)
        return split_replicas_by_host(plan, request, err);
    r = check_replicas(request, total, count, err);
    if (r < 0)
        return r;
    divide_replicas(plan, 0, count, total);
    assert(plan->num_replicas == total);
    return 0;
}

/* Assign devices in the order of replicas, from 0 on each host. */
static int split_devices(struct plan *plan, const struct plan_request *request,
                         struct plenum_error *err)
{
    static const struct device_pool none;
    const struct device_pool *pool = request->pool ? request->pool : &none;
    bool counted = request->pool || request->place.policy == PLACE_DEVICE;

    for (uint32_t h = 0; h < plan->num_hosts; h++) {
        struct plan_host *host = &plan->hosts[h];
        uint64_t next = 0;

        for (uint32_t i = host->first; i < host->first + host->count; i++) {
            struct plan_instance *instance = &plan->instances[i];
            uint64_t wanted = (uint64_t)instance->num_replicas * plan->devices_per_replica;

            if (counted && wanted + next > DEVICES_MAX)
                return error_set(err, -EINVAL, "host %s would need more than %d devices",
                                 host->name, DEVICES_MAX);
            if (!device_pool_suffices(pool, wanted + next))
                return error_set(err, -EINVAL,
                                 "host %s: %u replicas of %u devices are more than the %u that %s "
                                 "names",
                                 host->name,
                                 plan->instances[host->first + host->count - 1].replica_offset +
                                     plan->instances[host->first + host->count - 1].num_replicas -
                                     plan->instances[host->first].replica_offset,
                                 plan->devices_per_replica, pool->count,
                                 pool->variable ? pool->variable : "nobody");
            instance->first_device = (uint32_t)next;
            instance->num_devices = (uint32_t)wanted;
            next += wanted;
            instance->devices =
                request->pool ? device_pool_format(pool, instance->first_device, (uint32_t)wanted)
                              : strdup("");
            if (!instance->devices)
                return error_set(err, -ENOMEM, "out of memory");
        }
    }
    return 0;
}

/* Remove hosts without instances, which are not part of the job. */
static void drop_idle_hosts(struct plan *plan)
{
    uint32_t kept = 0;

    for (uint32_t h = 0; h < plan->num_hosts; h++) {
        if (plan->hosts[h].count > 0)
            plan->hosts[kept++] = plan->hosts[h];
        else
            plan_host_fini(&plan->hosts[h]);
    }
    assert(kept > 0); /* there is an instance */
    plan->num_hosts = kept;
}

int plan_create(const struct plan_request *request, struct plan *ret, struct plenum_error *err)
{
    struct plan plan = {
        .devices_per_replica = request->devices_per_replica ? request->devices_per_replica : 1,
        .device_variable = request->pool ? request->pool->variable : NULL,
        .device_prefix = request->pool ? request->pool->prefix : "",
        .place = request->place,
        .pool = request->pool,
    };
    int r;

    r = add_hosts(&plan, request);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    r = split_instances(&plan, request, err);
    if (r < 0)
        goto fail;
    drop_idle_hosts(&plan);
    r = check_loader_hosts(&plan, err);
    if (r < 0)
        goto fail;
    r = add_instances(&plan);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    r = split_replicas(&plan, request, err);
    if (r < 0)
        goto fail;
    r = split_devices(&plan, request, err);
    if (r < 0)
        goto fail;
    *ret = plan;
    return 0;

fail:
    plan_fini(&plan);
    return r;
}

/* Format a set as "0-3,8" (malloc), or return NULL. hwloc's own text has other forms. */
static char *format_set(hwloc_const_bitmap_t set)
{
    int last = hwloc_bitmap_last(set);
    size_t count = last < 0 ? 1 : (size_t)last + 1;
    unsigned long *words = calloc(RANGES_WORDS(count), sizeof(*words));
    char *text;

    if (!words)
        return NULL;
    for (int n = hwloc_bitmap_first(set); n >= 0; n = hwloc_bitmap_next(set, n))
        ranges_add(words, (size_t)n);
    text = ranges_format(words, count);
    free(words);
    return text;
}

/* Returns the accelerators of each of a host's instances, in one allocation that the caller frees;
 * NULL if out of memory. */
static struct place_devices *list_devices(const struct plan *plan, const struct plan_host *h)
{
    static const struct device_pool none;
    const struct device_pool *pool = plan->pool ? plan->pool : &none;
    const struct plan_instance *last = &plan->instances[h->first + h->count - 1];
    size_t total = (size_t)last->first_device + last->num_devices;
    struct place_devices *ret = calloc(1, h->count * sizeof(*ret) + total * sizeof(uint32_t));
    uint32_t *numbers = (uint32_t *)(ret + h->count);

    if (!ret)
        return NULL;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct plan_instance *instance = &plan->instances[h->first + i];

        ret[i] = (struct place_devices){.list = numbers + instance->first_device,
                                        .count = instance->num_devices};
    }
    for (size_t n = 0; n < total; n++)
        numbers[n] = device_pool_number(pool, (uint32_t)n);
    return ret;
}

static int copy_places(struct plan *plan, struct plan_host *h, const struct places *places)
{
    assert(places->count == h->count);
    for (uint32_t i = 0; i < h->count; i++) {
        struct plan_instance *instance = &plan->instances[h->first + i];
        const struct place *place = &places->list[i];

        free(instance->cpus);
        free(instance->nodes);
        instance->cpus = format_set(place->cpus);
        instance->nodes = format_set(place->nodes);
        instance->cores = place->cores;
        instance->bind_cpus = place->bind_cpus;
        instance->memory = place->memory;
        instance->oversubscribed = place->oversubscribed;
        if (!instance->cpus || !instance->nodes)
            return -ENOMEM;
    }
    free(h->loader_cpus);
    h->loader_cpus =
        places->loader_cores > 0 || plan->place.cpus ? format_set(places->loader) : strdup("");
    h->loader_cores = places->loader_cores;
    h->blind = places->blind;
    return h->loader_cpus ? 0 : -ENOMEM;
}

int plan_place_host(struct plan *plan, uint32_t host, hwloc_topology_t topology, bool real,
                    struct plenum_error *err)
{
    struct plan_host *h = &plan->hosts[host];
    struct place_request request = plan->place;
    struct place_devices *devices = NULL;
    struct places places;
    int r;

    assert(host < plan->num_hosts);
    request.count = h->count;
    if (request.policy == PLACE_DEVICE) {
        devices = list_devices(plan, h);
        if (!devices)
            return error_set(err, -ENOMEM, "out of memory");
        request.devices = devices;
    }
    r = place_host(topology, &request, &places, err);
    free(devices);
    if (r < 0)
        return error_prefix(err, r, "host %s", h->name);
    r = copy_places(plan, h, &places);
    places_fini(&places);
    if (r < 0)
        return error_set(err, r, "out of memory");
    place_describe_host(topology, &h->shape);
    h->real = real;
    h->known = true;
    return 0;
}

bool plan_is_local(const struct plan *plan)
{
    return plan->num_hosts == 1 && plan->hosts[0].local;
}

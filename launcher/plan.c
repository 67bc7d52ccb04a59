/* plan.c - two pure steps: the split needs only numbers, the placing needs a host's topology.
 *
 * They are apart because the topology of another host is known only when its first shim has told
 * it; the split must be known before, to start anything there. */
#include "config.h"

#include "launcher/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "launcher/host.h"
#include "launcher/ranges.h"

void plan_fini(struct plan *plan)
{
    for (uint32_t i = 0; plan->hosts && i < plan->num_hosts; i++)
        free(plan->hosts[i].name);
    for (uint32_t i = 0; plan->instances && i < plan->num_instances; i++) {
        free(plan->instances[i].cpus);
        free(plan->instances[i].nodes);
    }
    free(plan->hosts);
    free(plan->instances);
    *plan = (struct plan){0};
}

/* Hosts with their names and slots (kept in `count` until the split has used them). */
static int add_hosts(struct plan *plan, const struct plan_request *request)
{
    const struct hostlist *list = request->hosts;
    uint32_t n = list->count ? (uint32_t)list->count : 1;

    plan->hosts = calloc(n, sizeof(*plan->hosts));
    if (!plan->hosts)
        return -ENOMEM;
    plan->num_hosts = n;
    for (uint32_t i = 0; i < n; i++) {
        struct plan_host *host = &plan->hosts[i];

        host->name = strdup(list->count ? list->hosts[i].name : request->this_host);
        if (!host->name)
            return -ENOMEM;
        host->local = list->count ? host_is_this(host->name) : true;
    }
    return 0;
}

static uint32_t slots_of(const struct hostlist *list, uint32_t host)
{
    return list->count ? list->hosts[host].slots : 0;
}

/* One to each host in turn, until all have a place. */
static int split_instances(struct plan *plan, const struct plan_request *request,
                           struct plenum_error *err)
{
    uint32_t total = request->num_instances, placed = 0, round;

    if (total == 0)
        for (uint32_t h = 0; h < plan->num_hosts; h++)
            total += slots_of(request->hosts, h) ? slots_of(request->hosts, h) : 1;
    for (round = 1; placed < total; round++) {
        uint32_t before = placed;

        for (uint32_t h = 0; h < plan->num_hosts && placed < total; h++) {
            uint32_t slots = slots_of(request->hosts, h);

            if (slots > 0 && plan->hosts[h].count == slots)
                continue;
            plan->hosts[h].count++;
            placed++;
        }
        if (placed == before)
            return error_set(err, -EINVAL,
                             "%u instances do not fit on the hosts, which have %u slots: raise the "
                             "slots or lower --num-instances",
                             total, placed);
    }
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
    return 0;
}

static int split_replicas(struct plan *plan, uint32_t wanted, struct plenum_error *err)
{
    uint32_t total = wanted ? wanted : plan->num_instances;

    if (total % plan->num_instances != 0)
        return error_set(err, -EINVAL,
                         "%u replicas cannot be split evenly over %u instances: let --num-replicas "
                         "be a multiple of --num-instances",
                         total, plan->num_instances);
    plan->num_replicas = total;
    for (uint32_t i = 0; i < plan->num_instances; i++) {
        plan->instances[i].num_replicas = total / plan->num_instances;
        plan->instances[i].replica_offset = i * (total / plan->num_instances);
    }
    return 0;
}

/* Hosts that got no instance are no part of the job. */
static void drop_idle_hosts(struct plan *plan)
{
    uint32_t kept = 0;

    for (uint32_t h = 0; h < plan->num_hosts; h++) {
        if (plan->hosts[h].count > 0)
            plan->hosts[kept++] = plan->hosts[h];
        else
            free(plan->hosts[h].name);
    }
    plan->num_hosts = kept;
}

int plan_create(const struct plan_request *request, struct plan *ret, struct plenum_error *err)
{
    struct plan plan = {
        .devices_per_replica = request->devices_per_replica ? request->devices_per_replica : 1,
        .policy = request->policy,
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
    r = add_instances(&plan);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    r = split_replicas(&plan, request->num_replicas, err);
    if (r < 0)
        goto fail;
    *ret = plan;
    return 0;

fail:
    plan_fini(&plan);
    return r;
}

/* An hwloc set in the words that everybody else uses. hwloc's own text has other forms. */
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

int plan_place_host(struct plan *plan, uint32_t host, hwloc_topology_t topology, bool real,
                    struct plenum_error *err)
{
    struct plan_host *h = &plan->hosts[host];

    for (uint32_t i = 0; i < h->count; i++) {
        struct plan_instance *instance = &plan->instances[h->first + i];
        struct place place;
        int r = place_compute(topology, i, h->count, plan->policy, &place, err);

        if (r < 0)
            return error_prefix(err, r, "host %s", h->name);
        free(instance->cpus);
        free(instance->nodes);
        instance->cpus = format_set(place.cpus);
        instance->nodes = format_set(place.nodes);
        instance->cores = place.cores;
        instance->bind_cpus = place.bind_cpus;
        instance->bind_memory = place.bind_memory;
        instance->oversubscribed = place.oversubscribed;
        place_fini(&place);
        if (!instance->cpus || !instance->nodes)
            return error_set(err, -ENOMEM, "out of memory");
    }
    place_describe_host(topology, &h->shape);
    h->real = real;
    h->known = true;
    return 0;
}

bool plan_is_local(const struct plan *plan)
{
    return plan->num_hosts == 1 && plan->hosts[0].local;
}

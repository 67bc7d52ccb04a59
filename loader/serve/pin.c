/* SPDX-License-Identifier: MIT */
/* pin.c - assigns workers to the CPUs and NUMA nodes that this process may use.
 *
 * A binding is the set of CPUs of one worker: one CPU (core), or those of one node (node). Bindings
 * are sorted so that the first n are the best n: they alternate between nodes, and within a node
 * the first hyperthreads of all cores come before the second ones. */
#include "config.h"

#include "loader/serve/pin.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "common/util/error_set.h"
#include "common/util/log.h"

struct binding {
    hwloc_bitmap_t cpus;
    unsigned node; /* index in pin->nodes */
};

struct pin {
    hwloc_topology_t topology;
    enum pin_policy policy;
    hwloc_bitmap_t allowed;
    unsigned cpus;
    hwloc_obj_t *nodes; /* [num_nodes]: nodes with CPUs that we may use */
    unsigned num_nodes;
    struct binding *bindings; /* [num_bindings] of the workers, in order */
    unsigned num_bindings;
};

/* List the NUMA nodes. On a machine with several kinds of memory (HBM beside DRAM), several nodes
 * have the same CPUs; only the first of these is listed. */
static int list_nodes(struct pin *pin)
{
    int count = hwloc_get_nbobjs_by_type(pin->topology, HWLOC_OBJ_NUMANODE);

    pin->nodes = calloc(count > 0 ? (size_t)count : 1, sizeof(*pin->nodes));
    if (!pin->nodes)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(pin->topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        bool usable;

        assert(node); /* index is below `count` */
        usable = hwloc_bitmap_intersects(node->cpuset, pin->allowed);
        for (unsigned k = 0; k < pin->num_nodes; k++)
            usable &= !hwloc_bitmap_intersects(pin->nodes[k]->cpuset, node->cpuset);
        if (usable)
            pin->nodes[pin->num_nodes++] = node;
    }
    return pin->num_nodes > 0 ? 0 : -ENODEV;
}

static int add_binding(struct pin *pin, hwloc_const_bitmap_t cpus, unsigned node)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();

    if (!set || hwloc_bitmap_and(set, cpus, pin->allowed) < 0) {
        hwloc_bitmap_free(set);
        return -ENOMEM;
    }
    pin->bindings[pin->num_bindings++] = (struct binding){set, node};
    return 0;
}

/* Returns the number of this hyperthread within its core. */
static unsigned thread_rank(hwloc_obj_t cpu)
{
    return cpu->parent && cpu->parent->type == HWLOC_OBJ_CORE ? cpu->sibling_rank : 0;
}

static int by_rank(const void *a, const void *b)
{
    hwloc_obj_t x = *(const hwloc_obj_t *)a, y = *(const hwloc_obj_t *)b;

    if (thread_rank(x) != thread_rank(y))
        return thread_rank(x) < thread_rank(y) ? -1 : 1;
    return (x->logical_index > y->logical_index) - (x->logical_index < y->logical_index);
}

/* List the CPUs of one node that we may use, best first. Returns their number. */
static unsigned list_cpus(const struct pin *pin, unsigned node, hwloc_obj_t *ret)
{
    hwloc_obj_t cpu = NULL;
    unsigned n = 0;

    while ((cpu = hwloc_get_next_obj_inside_cpuset_by_type(pin->topology, pin->nodes[node]->cpuset,
                                                           HWLOC_OBJ_PU, cpu)))
        if (hwloc_bitmap_isset(pin->allowed, cpu->os_index))
            ret[n++] = cpu;
    if (n > 1)
        qsort(ret, n, sizeof(*ret), by_rank);
    return n;
}

/* Bind each worker to a CPU, alternating between nodes. */
static int bind_to_cpus(struct pin *pin)
{
    hwloc_obj_t *cpus = calloc((size_t)pin->num_nodes * pin->cpus, sizeof(*cpus));
    unsigned *count = calloc(pin->num_nodes, sizeof(*count));
    int r = 0;

    if (!cpus || !count) {
        r = -ENOMEM;
        goto out;
    }
    for (unsigned n = 0; n < pin->num_nodes; n++)
        count[n] = list_cpus(pin, n, cpus + (size_t)n * pin->cpus);
    for (unsigned k = 0; k < pin->cpus; k++)
        for (unsigned n = 0; n < pin->num_nodes; n++) {
            if (k >= count[n])
                continue;
            r = add_binding(pin, cpus[(size_t)n * pin->cpus + k]->cpuset, n);
            if (r < 0)
                goto out;
        }

out:
    free(cpus);
    free(count);
    return r;
}

static int bind_to_nodes(struct pin *pin)
{
    for (unsigned n = 0; n < pin->num_nodes; n++) {
        int r = add_binding(pin, pin->nodes[n]->cpuset, n);

        if (r < 0)
            return r;
    }
    return 0;
}

static int find_allowed(struct pin *pin)
{
    hwloc_const_bitmap_t all = hwloc_topology_get_allowed_cpuset(pin->topology);
    int n;

    pin->allowed = hwloc_bitmap_alloc();
    if (!pin->allowed)
        return -ENOMEM;
    if (hwloc_get_cpubind(pin->topology, pin->allowed, HWLOC_CPUBIND_PROCESS) < 0 ||
        !hwloc_bitmap_intersects(pin->allowed, all))
        (void)hwloc_bitmap_copy(pin->allowed, all);
    (void)hwloc_bitmap_and(pin->allowed, pin->allowed, all);
    n = hwloc_bitmap_weight(pin->allowed);
    pin->cpus = n > 0 ? (unsigned)n : 1;
    return 0;
}

static int load(struct pin *pin)
{
    int r;

    if (hwloc_topology_init(&pin->topology) < 0)
        return -ENOMEM;
    if (hwloc_topology_load(pin->topology) < 0)
        return -EIO;
    r = find_allowed(pin);
    if (r < 0)
        return r;
    r = list_nodes(pin);
    if (r < 0)
        return r;
    pin->bindings = calloc(pin->cpus + pin->num_nodes, sizeof(*pin->bindings));
    if (!pin->bindings)
        return -ENOMEM;
    if (pin->policy == PIN_CORE)
        return bind_to_cpus(pin);
    return pin->policy == PIN_NODE ? bind_to_nodes(pin) : 0;
}

int pin_create(enum pin_policy policy, struct pin **ret, struct plenum_error *err)
{
    struct pin *pin = calloc(1, sizeof(*pin));
    int r;

    if (!pin)
        return error_set(err, -ENOMEM, "out of memory");
    pin->policy = policy;
    r = load(pin);
    if (r < 0) {
        pin_destroy(pin);
        return error_set(err, r, "cannot read this machine's topology: %s", strerror(-r));
    }
    *ret = pin;
    return 0;
}

void pin_destroy(struct pin *pin)
{
    if (!pin)
        return;
    for (unsigned i = 0; i < pin->num_bindings; i++)
        hwloc_bitmap_free(pin->bindings[i].cpus);
    free(pin->bindings);
    free(pin->nodes);
    hwloc_bitmap_free(pin->allowed);
    if (pin->topology)
        hwloc_topology_destroy(pin->topology);
    free(pin);
}

unsigned pin_cpus(const struct pin *pin)
{
    return pin->cpus;
}

unsigned pin_count_nodes(const struct pin *pin)
{
    return pin->policy == PIN_NONE ? 1 : pin->num_nodes;
}

unsigned pin_node_of_worker(const struct pin *pin, unsigned index)
{
    return pin->num_bindings > 0 ? pin->bindings[index % pin->num_bindings].node : 0;
}

/* Returns the node of the page at this address, or num_nodes if it is not known. */
static unsigned node_of_page(const struct pin *pin, const volatile uint8_t *at, hwloc_bitmap_t set)
{
    (void)*at; /* touch it: the kernel knows only pages that this process has used */
    if (hwloc_get_area_memlocation(pin->topology, (const void *)(uintptr_t)at, 1, set,
                                   HWLOC_MEMBIND_BYNODESET) < 0)
        return pin->num_nodes;
    for (unsigned n = 0; n < pin->num_nodes; n++)
        if (hwloc_bitmap_isset(set, pin->nodes[n]->os_index))
            return n;
    return pin->num_nodes;
}

unsigned pin_node_of_memory(const struct pin *pin, const void *base, size_t bytes)
{
    enum { PAGES = 16 };
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    unsigned votes[PAGES] = {0}, best = 0;

    if (!set || pin->num_nodes == 1) {
        hwloc_bitmap_free(set);
        return 0;
    }
    for (size_t i = 0; i < PAGES; i++) {
        unsigned node = node_of_page(pin, (const uint8_t *)base + (bytes - 1) / PAGES * i, set);

        if (node < PAGES && node < pin->num_nodes)
            votes[node]++;
    }
    hwloc_bitmap_free(set);
    for (unsigned n = 1; n < PAGES; n++)
        if (votes[n] > votes[best])
            best = n;
    return best;
}

void pin_worker(const struct pin *pin, unsigned index)
{
    if (pin->num_bindings > 0 &&
        hwloc_set_cpubind(pin->topology, pin->bindings[index % pin->num_bindings].cpus,
                          HWLOC_CPUBIND_THREAD) < 0)
        log_debug("worker %u could not be bound to its CPUs: %s", index, strerror(errno));
}

void pin_widen(void)
{
    unsigned char all[8192]; /* 65536 CPUs; the kernel removes those outside the control group */

    memset(all, 0xff, sizeof(all));
    (void)sched_setaffinity(0, sizeof(all), (cpu_set_t *)(void *)all);
}

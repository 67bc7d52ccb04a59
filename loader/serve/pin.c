#include "config.h"

#include "loader/serve/pin.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

#include "common/error.h"
#include "common/log.h"

struct pin {
    hwloc_topology_t topology;
    enum pin_policy policy;
    unsigned cpus;
    hwloc_bitmap_t allowed;
    hwloc_bitmap_t *places; /* of workers, in turn */
    unsigned num_places;
};

static int add_place(struct pin *pin, hwloc_const_bitmap_t set)
{
    hwloc_bitmap_t copy = hwloc_bitmap_alloc();

    if (!copy || hwloc_bitmap_and(copy, set, pin->allowed) < 0) {
        hwloc_bitmap_free(copy);
        return -ENOMEM;
    }
    if (hwloc_bitmap_iszero(copy)) {
        hwloc_bitmap_free(copy);
        return 0;
    }
    pin->places[pin->num_places++] = copy;
    return 0;
}

/* The CPU sets of the NUMA nodes that have CPUs. Several kinds of memory (HBM beside DRAM) are
 * nodes with the same CPUs: these count once. */
static int list_nodes(struct pin *pin)
{
    int nodes = hwloc_get_nbobjs_by_type(pin->topology, HWLOC_OBJ_NUMANODE);
    int r = 0;

    for (int i = 0; i < nodes && r == 0; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(pin->topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        bool known = false;

        for (unsigned k = 0; k < pin->num_places; k++)
            known |= hwloc_bitmap_intersects(pin->places[k], node->cpuset);
        if (!known)
            r = add_place(pin, node->cpuset);
    }
    return r;
}

/* CPU number `rank` of core number `core` of a node, or NULL. */
static hwloc_obj_t cpu_of(struct pin *pin, hwloc_const_bitmap_t node, unsigned core, unsigned rank)
{
    hwloc_obj_t c = hwloc_get_obj_inside_cpuset_by_type(pin->topology, node, HWLOC_OBJ_CORE, core);

    if (c)
        return hwloc_get_obj_inside_cpuset_by_type(pin->topology, c->cpuset, HWLOC_OBJ_PU, rank);
    /* A machine whose cores are unknown (some containers): CPUs as they come. */
    if (hwloc_get_nbobjs_inside_cpuset_by_type(pin->topology, node, HWLOC_OBJ_CORE) > 0 || rank > 0)
        return NULL;
    return hwloc_get_obj_inside_cpuset_by_type(pin->topology, node, HWLOC_OBJ_PU, core);
}

/* The first thread of every core before the second of any; within that, the nodes in turn. */
static int list_cpus(struct pin *pin)
{
    hwloc_bitmap_t *nodes = pin->places;
    unsigned num_nodes, pus = (unsigned)hwloc_get_nbobjs_by_type(pin->topology, HWLOC_OBJ_PU);
    int r = list_nodes(pin);

    num_nodes = pin->num_places;
    pin->num_places = 0;
    pin->places = calloc(pus + 1, sizeof(*pin->places));
    if (!pin->places)
        r = -ENOMEM;
    for (unsigned rank = 0; rank < pus && r == 0; rank++)
        for (unsigned core = 0; core < pus && r == 0; core++)
            for (unsigned n = 0; n < num_nodes && r == 0; n++) {
                hwloc_obj_t pu = cpu_of(pin, nodes[n], core, rank);

                if (pu)
                    r = add_place(pin, pu->cpuset);
            }
    for (unsigned n = 0; n < num_nodes; n++)
        hwloc_bitmap_free(nodes[n]);
    free(nodes);
    return r;
}

static int load(struct pin *pin)
{
    int pus;

    if (hwloc_topology_init(&pin->topology) < 0)
        return -ENOMEM;
    if (hwloc_topology_load(pin->topology) < 0)
        return -EIO;
    pin->allowed = hwloc_bitmap_alloc();
    if (!pin->allowed)
        return -ENOMEM;
    if (hwloc_get_cpubind(pin->topology, pin->allowed, HWLOC_CPUBIND_PROCESS) < 0 ||
        hwloc_bitmap_iszero(pin->allowed))
        (void)hwloc_bitmap_copy(pin->allowed, hwloc_topology_get_allowed_cpuset(pin->topology));
    (void)hwloc_bitmap_and(pin->allowed, pin->allowed,
                           hwloc_topology_get_allowed_cpuset(pin->topology));
    pus = hwloc_bitmap_weight(pin->allowed);
    pin->cpus = pus > 0 ? (unsigned)pus : 1;
    pus = hwloc_get_nbobjs_by_type(pin->topology, HWLOC_OBJ_NUMANODE);
    pin->places = calloc((size_t)pus + 1, sizeof(*pin->places));
    if (!pin->places)
        return -ENOMEM;
    if (pin->policy == PIN_CORE)
        return list_cpus(pin);
    return pin->policy == PIN_NODE ? list_nodes(pin) : 0;
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
    for (unsigned i = 0; i < pin->num_places; i++)
        hwloc_bitmap_free(pin->places[i]);
    free(pin->places);
    hwloc_bitmap_free(pin->allowed);
    if (pin->topology)
        hwloc_topology_destroy(pin->topology);
    free(pin);
}

unsigned pin_cpus(const struct pin *pin)
{
    return pin->cpus;
}

void pin_worker(const struct pin *pin, unsigned index)
{
    if (pin->num_places > 0 &&
        hwloc_set_cpubind(pin->topology, pin->places[index % pin->num_places],
                          HWLOC_CPUBIND_THREAD) < 0)
        log_debug("worker %u could not be bound to its CPUs: %s", index, strerror(errno));
}

void pin_widen(void)
{
    unsigned char
        all[8192]; /* 65536 CPUs; the kernel cuts it down to what the control group allows */

    memset(all, 0xff, sizeof(all));
    (void)sched_setaffinity(0, sizeof(all), (cpu_set_t *)(void *)all);
}

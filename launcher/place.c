/* place.c - divides a host's cores among its instances.
 *
 * A host is seen as groups of cores: for each set of CPUs that has memory of its own, one group.
 * (Several kinds of memory may be near the same CPUs; the first one counts, which is the ordinary
 * DRAM. Memory near to all CPUs, or to none, makes no group.) spreadnuma divides so:
 *
 *     fewer instances than groups   each takes consecutive groups:      [0 0][1 1]  2 on 4 nodes
 *     more                          consecutive instances share a group, by disjoint cores, the
 *                                   larger groups taking more:          [0|1][2|3]  4 on 2 nodes
 *     more than cores               cores are shared, and the instances are marked
 *
 * compact is the same with all cores as one group. An instance gets whole cores, with all of a
 * core's hardware threads: two programs on the two threads of one core are no gain for training.
 *
 * Not here: what is done with the result (bind.c), how a topology is had (topology.c). */
#include "config.h"

#include "launcher/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

static const char *const policy_names[] = {
    [PLACE_SPREADNUMA] = "spreadnuma",
    [PLACE_COMPACT] = "compact",
    [PLACE_DISABLED] = "disabled",
};

/* Cores that belong together. The bitmaps are borrowed from the topology or owned by the list. */
struct group {
    hwloc_const_bitmap_t cpus;
    int node; /* OS index; -1 when no memory is near */
    uint32_t cores;
};

struct groups {
    struct group *list;
    uint32_t count;
    hwloc_bitmap_t rest; /* CPUs without memory near */
    hwloc_obj_type_t unit;
};

const char *place_policy_name(enum place_policy policy)
{
    return policy_names[policy];
}

int place_policy_parse(const char *name, enum place_policy *ret, struct plenum_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(policy_names); i++) {
        if (strcmp(name, policy_names[i]) == 0) {
            *ret = (enum place_policy)i;
            return 0;
        }
    }
    return error_set(err, -EINVAL, "'%s' is not one of spreadnuma, compact, disabled", name);
}

/* Cores, or hardware threads where the topology tells nothing of cores. */
static hwloc_obj_type_t unit_of(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static uint32_t count_units(hwloc_topology_t topology, hwloc_const_bitmap_t cpus,
                            hwloc_obj_type_t unit)
{
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, cpus, unit);

    return n > 0 ? (uint32_t)n : 0;
}

static void groups_fini(struct groups *groups)
{
    hwloc_bitmap_free(groups->rest);
    free(groups->list);
}

static void add_group(hwloc_topology_t topology, struct groups *g, hwloc_const_bitmap_t cpus,
                      int node)
{
    g->list[g->count++] =
        (struct group){.cpus = cpus, .node = node, .cores = count_units(topology, cpus, g->unit)};
}

/* Small sets of CPUs first, so that memory near to many CPUs does not hide the nodes inside. */
static int by_weight(const void *a, const void *b)
{
    const hwloc_obj_t x = *(const hwloc_obj_t *)a, y = *(const hwloc_obj_t *)b;
    int wx = hwloc_bitmap_weight(x->cpuset), wy = hwloc_bitmap_weight(y->cpuset);

    if (wx != wy)
        return wx < wy ? -1 : 1;
    return x->logical_index < y->logical_index ? -1 : 1;
}

static int by_first_cpu(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return hwloc_bitmap_compare_first(x->cpus, y->cpus);
}

/* The groups of the host: by memory for spreadnuma, else one of all cores. */
static int find_groups(hwloc_topology_t topology, enum place_policy policy, struct groups *ret)
{
    int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    struct groups g = {.unit = unit_of(topology)};
    hwloc_obj_t *objects;

    nodes = nodes > 0 ? nodes : 0;
    g.list = calloc((size_t)nodes + 1, sizeof(*g.list));
    g.rest = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(topology));
    objects = calloc((size_t)nodes + 1, sizeof(hwloc_obj_t));
    if (!g.list || !g.rest || !objects) {
        groups_fini(&g);
        free(objects);
        return -ENOMEM;
    }
    if (policy == PLACE_SPREADNUMA) {
        for (int i = 0; i < nodes; i++)
            objects[i] = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        qsort(objects, (size_t)nodes, sizeof(hwloc_obj_t), by_weight);
        for (int i = 0; i < nodes; i++) {
            hwloc_const_bitmap_t cpus = objects[i]->cpuset;

            if (hwloc_bitmap_iszero(cpus) || !hwloc_bitmap_isincluded(cpus, g.rest) ||
                count_units(topology, cpus, g.unit) == 0)
                continue;
            add_group(topology, &g, cpus, (int)objects[i]->os_index);
            (void)hwloc_bitmap_andnot(g.rest, g.rest, cpus);
        }
        qsort(g.list, g.count, sizeof(*g.list), by_first_cpu);
    }
    free(objects);
    if (count_units(topology, g.rest, g.unit) > 0)
        add_group(topology, &g, g.rest, -1);
    *ret = g;
    return 0;
}

/*
 * Which group does instance `index` share, as which of how many? Every group gets one instance;
 * each further one goes where the most cores fall to an instance.
 */
static int find_share(const struct groups *g, uint32_t index, uint32_t count, uint32_t *group,
                      uint32_t *place, uint32_t *of)
{
    uint32_t *shares = calloc(g->count, sizeof(*shares)), best, i;

    if (!shares)
        return -ENOMEM;
    for (i = 0; i < g->count; i++)
        shares[i] = 1;
    for (uint32_t given = g->count; given < count; given++) {
        best = 0;
        for (i = 1; i < g->count; i++) /* cores[i] / (shares[i] + 1) > that of the best */
            if ((uint64_t)g->list[i].cores * (shares[best] + 1) >
                (uint64_t)g->list[best].cores * (shares[i] + 1))
                best = i;
        shares[best]++;
    }
    for (i = 0; index >= shares[i]; i++)
        index -= shares[i];
    *group = i;
    *place = index;
    *of = shares[i];
    free(shares);
    return 0;
}

/* Cores first ... last - 1 of a group. */
static void take_cores(hwloc_topology_t topology, const struct groups *g, const struct group *group,
                       uint32_t first, uint32_t last, struct place *ret)
{
    for (uint32_t i = first; i < last; i++) {
        hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(topology, group->cpus, g->unit, i);

        if (core)
            (void)hwloc_bitmap_or(ret->cpus, ret->cpus, core->cpuset);
    }
    ret->cores += last - first;
    if (group->node >= 0)
        (void)hwloc_bitmap_set(ret->nodes, (unsigned)group->node);
}

static uint32_t portion(uint32_t total, uint32_t part, uint32_t parts)
{
    return (uint32_t)((uint64_t)total * part / parts);
}

static int divide(hwloc_topology_t topology, const struct groups *g, uint32_t index, uint32_t count,
                  struct place *ret)
{
    uint32_t group, place, of, cores;
    int r;

    if (count <= g->count) {
        for (uint32_t i = portion(g->count, index, count); i < portion(g->count, index + 1, count);
             i++)
            take_cores(topology, g, &g->list[i], 0, g->list[i].cores, ret);
        return 0;
    }
    r = find_share(g, index, count, &group, &place, &of);
    if (r < 0)
        return r;
    cores = g->list[group].cores;
    if (of <= cores) {
        take_cores(topology, g, &g->list[group], portion(cores, place, of),
                   portion(cores, place + 1, of), ret);
        return 0;
    }
    /* One core, which some neighbours have too. */
    uint32_t core = portion(cores, place, of);

    take_cores(topology, g, &g->list[group], core, core + 1, ret);
    ret->oversubscribed = (place > 0 && portion(cores, place - 1, of) == core) ||
                          (place + 1 < of && portion(cores, place + 1, of) == core);
    return 0;
}

/* Memory is near these CPUs: for policies that do not go by groups of memory. */
static void add_near_nodes(hwloc_topology_t topology, struct place *p)
{
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_intersects(node->cpuset, p->cpus))
            (void)hwloc_bitmap_set(p->nodes, node->os_index);
}

/* Is there memory near other CPUs only? Else there is nothing to bind. */
static bool has_other_nodes(hwloc_topology_t topology, const struct place *p)
{
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (!hwloc_bitmap_iszero(node->cpuset) && !hwloc_bitmap_intersects(node->cpuset, p->cpus))
            return true;
    return false;
}

int place_compute(hwloc_topology_t topology, uint32_t index, uint32_t count,
                  enum place_policy policy, struct place *ret, struct plenum_error *err)
{
    struct place p = {.cpus = hwloc_bitmap_alloc(), .nodes = hwloc_bitmap_alloc()};
    struct groups g = {0};
    int r = -ENOMEM;

    if (!p.cpus || !p.nodes) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    r = find_groups(topology, policy, &g);
    if (r < 0) {
        (void)error_set(err, r, "out of memory");
        goto fail;
    }
    if (g.count == 0) {
        r = error_set(err, -EINVAL, "the host's topology shows no CPU that may be used");
        goto fail;
    }
    if (policy == PLACE_DISABLED) {
        take_cores(topology, &g, &g.list[0], 0, g.list[0].cores, &p);
        p.oversubscribed = count > p.cores;
        p.cores = p.cores / count > 0 ? p.cores / count : 1;
    } else {
        r = divide(topology, &g, index, count, &p);
        if (r < 0) {
            (void)error_set(err, r, "out of memory");
            goto fail;
        }
        p.bind_cpus = true;
    }
    if (policy != PLACE_SPREADNUMA)
        add_near_nodes(topology, &p);
    p.bind_memory = p.bind_cpus && !hwloc_bitmap_iszero(p.nodes) && has_other_nodes(topology, &p);
    groups_fini(&g);
    *ret = p;
    return 0;

fail:
    groups_fini(&g);
    place_fini(&p);
    return r;
}

void place_fini(struct place *place)
{
    hwloc_bitmap_free(place->cpus);
    hwloc_bitmap_free(place->nodes);
    *place = (struct place){0};
}

void place_describe_host(hwloc_topology_t topology, struct place_host *ret)
{
    struct place_host h = {0};
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
        h.numa_nodes++;
        h.memory_bytes += node->attr->numanode.local_memory;
    }
    h.cores = (uint32_t)hwloc_get_nbobjs_by_type(topology, unit_of(topology));
    h.cpus = (uint32_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    *ret = h;
}

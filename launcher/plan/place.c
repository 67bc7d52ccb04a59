/* SPDX-License-Identifier: MIT */
/* place.c - divides a host's cores among its instances.
 *
 * A host is a list of cores, of which only the usable hardware threads count. Each core belongs to
 * one memory, the nearest. (If several kinds of memory are near the same CPUs, the first one, which
 * is ordinary DRAM, counts. Memory near the CPUs of other memories, or near none, belongs to no
 * core.) Policies differ in how they group cores:
 *
 *     spreadnuma, core, device   a group per memory
 *     socket                     a group per package
 *     compact, disabled          one group
 *
 * and in how the groups are divided among instances:
 *
 *     fewer instances than groups   each takes consecutive groups:      [0 0][1 1]  2 on 4 nodes
 *     more                          consecutive instances share a group, by disjoint cores, the
 *                                   larger groups taking more:          [0|1][2|3]  4 on 2 nodes
 *     device                        the groups next to its accelerators
 *     more instances than cores     share cores, and are marked as oversubscribed
 *
 * An instance gets whole cores: running two programs on the two threads of one core does not speed
 * up training. The cores reserved for the loader are removed first.
 *
 * Not here: applying the result (bind.c), obtaining a topology (topology.c). */
#include "config.h"

#include "launcher/plan/place.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/values/topology.h"

enum { NO_NODE = -1 };

static const char *const policy_names[] = {
    [PLACE_SPREADNUMA] = "spreadnuma", [PLACE_COMPACT] = "compact", [PLACE_CORE] = "core",
    [PLACE_SOCKET] = "socket",         [PLACE_DEVICE] = "device",   [PLACE_DISABLED] = "disabled",
};

struct core {
    hwloc_bitmap_t cpus; /* owned */
    uint32_t memory;     /* index in placement.nodes */
    uint32_t package;
    bool reserved; /* reserved for the loader */
};

/* The host while it is being divided. */
struct placement {
    hwloc_topology_t topology;
    const struct place_request *request;
    hwloc_obj_type_t unit; /* what counts as a core here */
    hwloc_bitmap_t usable;
    struct core *cores; /* in topology order */
    uint32_t num_cores;
    int *nodes;           /* OS index of each NUMA node; NO_NODE: for cores without one nearby */
    hwloc_bitmap_t *near; /* the CPUs near each NUMA node; owned */
    uint32_t num_nodes;
    /* Groups: group g has the cores members[first[g] ... first[g + 1] - 1]. */
    uint32_t *members, *first;
    uint32_t num_groups;
};

/* Part number `place` of a group whose cores are divided into `of` parts. */
struct share {
    uint32_t group, place, of;
};

const char *place_policy_name(enum place_policy policy)
{
    assert(policy < ARRAY_LEN(policy_names));
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
    return error_set(err, -EINVAL,
                     "'%s' is not one of spreadnuma, compact, core, socket, device, disabled",
                     name);
}

/* Returns the type of cores, or of hardware threads if the topology does not contain cores. */
static hwloc_obj_type_t unit_of(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static void placement_fini(struct placement *s)
{
    for (uint32_t i = 0; s->cores && i < s->num_cores; i++)
        hwloc_bitmap_free(s->cores[i].cpus);
    for (uint32_t i = 0; s->near && i < s->num_nodes; i++)
        hwloc_bitmap_free(s->near[i]);
    hwloc_bitmap_free(s->usable);
    free(s->cores);
    free(s->nodes);
    free(s->near);
    free(s->members);
    free(s->first);
}

/* ---- inventory ---- */

static int find_usable(struct placement *s, struct plenum_error *err)
{
    const char *cpus = s->request->cpus;
    hwloc_bitmap_t wanted, missing;
    int r = 0;

    s->usable = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(s->topology));
    if (!s->usable)
        return -ENOMEM;
    if (!cpus)
        return 0;
    wanted = hwloc_bitmap_alloc();
    missing = hwloc_bitmap_alloc();
    if (!wanted || !missing) {
        r = -ENOMEM;
    } else if (hwloc_bitmap_list_sscanf(wanted, cpus) < 0) {
        r = error_set(err, -EINVAL, "--cpus: '%s' is not a list like 0-3,8", cpus);
    } else {
        (void)hwloc_bitmap_andnot(missing, wanted, s->usable);
        if (!hwloc_bitmap_iszero(missing))
            r = error_set(err, -EINVAL, "--cpus %s: CPU %d does not exist, or may not be used",
                          cpus, hwloc_bitmap_first(missing));
        (void)hwloc_bitmap_and(s->usable, s->usable, wanted);
    }
    hwloc_bitmap_free(wanted);
    hwloc_bitmap_free(missing);
    return r;
}

/* Sort small sets of CPUs first, so that memory near many CPUs does not hide the nodes inside. */
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
    const hwloc_obj_t x = *(const hwloc_obj_t *)a, y = *(const hwloc_obj_t *)b;

    return hwloc_bitmap_compare_first(x->cpuset, y->cpuset);
}

static bool has_units(const struct placement *s, hwloc_const_bitmap_t cpus)
{
    return hwloc_get_nbobjs_inside_cpuset_by_type(s->topology, cpus, s->unit) > 0;
}

/* Find the memories: nodes with their own CPUs, ordered by these CPUs, and one more for the
 * remaining CPUs. */
static int find_memories(struct placement *s)
{
    int all = hwloc_get_nbobjs_by_type(s->topology, HWLOC_OBJ_NUMANODE);
    hwloc_bitmap_t rest = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(s->topology));
    hwloc_obj_t *objects;
    size_t count = all > 0 ? (size_t)all : 0, kept = 0;

    objects = calloc(count + 1, sizeof(hwloc_obj_t));
    s->nodes = calloc(count + 1, sizeof(*s->nodes));
    s->near = calloc(count + 1, sizeof(hwloc_bitmap_t));
    if (!rest || !objects || !s->nodes || !s->near)
        goto fail;
    for (size_t i = 0; i < count; i++)
        objects[i] = hwloc_get_obj_by_type(s->topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
    qsort(objects, count, sizeof(hwloc_obj_t), by_weight);
    for (size_t i = 0; i < count; i++) {
        hwloc_const_bitmap_t cpus = objects[i]->cpuset;

        if (hwloc_bitmap_iszero(cpus) || !hwloc_bitmap_isincluded(cpus, rest) ||
            !has_units(s, cpus))
            continue;
        objects[kept++] = objects[i];
        (void)hwloc_bitmap_andnot(rest, rest, cpus);
    }
    qsort(objects, kept, sizeof(hwloc_obj_t), by_first_cpu);
    for (size_t i = 0; i < kept; i++) {
        s->near[i] = hwloc_bitmap_dup(objects[i]->cpuset);
        s->nodes[i] = (int)objects[i]->os_index;
        s->num_nodes++;
        if (!s->near[i])
            goto fail;
    }
    assert(kept <= count && s->num_nodes == kept);
    s->nodes[kept] = NO_NODE;
    s->near[kept] = rest;
    s->num_nodes++;
    free(objects);
    return 0;

fail:
    hwloc_bitmap_free(rest);
    free(objects);
    return -ENOMEM;
}

static uint32_t memory_of(const struct placement *s, hwloc_const_bitmap_t cpus)
{
    assert(s->num_nodes > 0);
    for (uint32_t i = 0; i < s->num_nodes; i++)
        if (hwloc_bitmap_intersects(s->near[i], cpus))
            return i;
    return s->num_nodes - 1;
}

static int find_cores(struct placement *s, struct plenum_error *err)
{
    int all = hwloc_get_nbobjs_by_type(s->topology, s->unit);

    s->cores = calloc(all > 0 ? (size_t)all : 1, sizeof(*s->cores));
    if (!s->cores)
        return -ENOMEM;
    for (int i = 0; i < all; i++) {
        hwloc_obj_t obj = hwloc_get_obj_by_type(s->topology, s->unit, (unsigned)i), package;
        struct core *core = &s->cores[s->num_cores];

        assert(obj);
        package = hwloc_get_ancestor_obj_by_type(s->topology, HWLOC_OBJ_PACKAGE, obj);
        if (!hwloc_bitmap_intersects(obj->cpuset, s->usable))
            continue;
        *core = (struct core){.cpus = hwloc_bitmap_dup(obj->cpuset),
                              .memory = memory_of(s, obj->cpuset),
                              .package = package ? package->logical_index : 0};
        if (!core->cpus)
            return -ENOMEM;
        s->num_cores++;
        (void)hwloc_bitmap_and(core->cpus, core->cpus, s->usable);
        if (s->request->first_threads)
            (void)hwloc_bitmap_singlify(core->cpus);
    }
    if (s->num_cores == 0)
        return error_set(err, -EINVAL, "the host's topology shows no CPU that may be used");
    return 0;
}

/* Reserve the loader's cores, one at a time: the last core of the memory that has the most left. */
static int reserve_cores(struct placement *s, struct plenum_error *err)
{
    uint32_t wanted = s->request->reserve_cores, *left;

    if (wanted == 0)
        return 0;
    if (wanted >= s->num_cores)
        return error_set(err, -EINVAL, "--reserve-cores %u leaves nothing of the host's %u core%s",
                         wanted, s->num_cores, s->num_cores == 1 ? "" : "s");
    left = calloc(s->num_nodes, sizeof(*left));
    if (!left)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->num_cores; i++)
        left[s->cores[i].memory]++;
    for (; wanted > 0; wanted--) {
        uint32_t most = 0;

        for (uint32_t m = 1; m < s->num_nodes; m++)
            if (left[m] > left[most])
                most = m;
        assert(left[most] > 0); /* fewer are wanted than there are */
        left[most]--;
        for (uint32_t i = s->num_cores; i-- > 0;) {
            if (s->cores[i].memory == most && !s->cores[i].reserved) {
                s->cores[i].reserved = true;
                break;
            }
        }
    }
    free(left);
    return 0;
}

static uint32_t group_of(const struct placement *s, const struct core *core)
{
    switch (s->request->policy) {
    case PLACE_COMPACT:
    case PLACE_DISABLED:
        return 0;
    case PLACE_SOCKET:
        return core->package;
    default:
        return core->memory;
    }
}

/* Group the cores that are not reserved, leaving out empty groups. Returns 0 or -ENOMEM. */
static int make_groups(struct placement *s)
{
    uint32_t keys = s->num_nodes;

    for (uint32_t i = 0; i < s->num_cores; i++)
        keys = s->cores[i].package >= keys ? s->cores[i].package + 1 : keys;
    s->members = calloc(s->num_cores, sizeof(*s->members));
    s->first = calloc((size_t)keys + 1, sizeof(*s->first));
    if (!s->members || !s->first)
        return -ENOMEM;
    for (uint32_t key = 0, at = 0; key < keys; key++) {
        uint32_t before = at;

        for (uint32_t i = 0; i < s->num_cores; i++)
            if (!s->cores[i].reserved && group_of(s, &s->cores[i]) == key)
                s->members[at++] = i;
        assert(at <= s->num_cores && s->num_groups < keys);
        if (at > before)
            s->first[++s->num_groups] = at;
    }
    return 0;
}

/* ---- dividing ---- */

static uint32_t group_size(const struct placement *s, uint32_t group)
{
    assert(group < s->num_groups);
    assert(s->first[group] < s->first[group + 1]);
    return s->first[group + 1] - s->first[group];
}

static uint32_t portion(uint32_t total, uint32_t part, uint32_t parts)
{
    assert(parts > 0 && part <= parts);
    return (uint32_t)((uint64_t)total * part / parts);
}

/* Give an instance the nth core of a group, and that core's NUMA node. */
static void give_core(const struct placement *s, uint32_t group, uint32_t nth, struct place *p)
{
    const struct core *core = &s->cores[s->members[s->first[group] + nth]];

    assert(nth < group_size(s, group));
    (void)hwloc_bitmap_or(p->cpus, p->cpus, core->cpus);
    if (s->nodes[core->memory] != NO_NODE)
        (void)hwloc_bitmap_set(p->nodes, (unsigned)s->nodes[core->memory]);
    p->cores++;
}

static void give_share(const struct placement *s, const struct share *share, struct place *p)
{
    uint32_t cores = group_size(s, share->group), place = share->place, of = share->of, core;

    assert(place < of);
    if (of <= cores) {
        uint32_t last = portion(cores, place + 1, of);

        core = portion(cores, place, of);
        if (s->request->policy == PLACE_CORE)
            last = core + 1;
        for (; core < last; core++)
            give_core(s, share->group, core, p);
        return;
    }
    /* A single core, which the neighbouring shares may have, too. */
    core = portion(cores, place, of);
    give_core(s, share->group, core, p);
    p->oversubscribed |= (place > 0 && portion(cores, place - 1, of) == core) ||
                         (place + 1 < of && portion(cores, place + 1, of) == core);
}

/* Count the instances that share each group: each group gets one; each further instance joins the
 * group that then has the most cores per instance. */
static void count_shares(const struct placement *s, uint32_t count, uint32_t *shares)
{
    assert(s->num_groups > 0 && count > s->num_groups);
    for (uint32_t g = 0; g < s->num_groups; g++)
        shares[g] = 1;
    for (uint32_t given = s->num_groups; given < count; given++) {
        uint32_t best = 0;

        for (uint32_t g = 1; g < s->num_groups; g++) /* size[g] / (shares[g] + 1) > the best's? */
            if ((uint64_t)group_size(s, g) * (shares[best] + 1) >
                (uint64_t)group_size(s, best) * (shares[g] + 1))
                best = g;
        shares[best]++;
    }
}

static int divide_groups(const struct placement *s, struct places *ret)
{
    uint32_t count = ret->count, *shares, i = 0;

    assert(count > 0 && s->num_groups > 0);
    if (count <= s->num_groups) {
        for (i = 0; i < count; i++) {
            uint32_t g = portion(s->num_groups, i, count), end;

            end = s->request->policy == PLACE_CORE ? g + 1 : portion(s->num_groups, i + 1, count);
            for (; g < end; g++)
                give_share(s, &(struct share){.group = g, .of = 1}, &ret->list[i]);
        }
        return 0;
    }
    shares = calloc(s->num_groups, sizeof(*shares));
    if (!shares)
        return -ENOMEM;
    count_shares(s, count, shares);
    for (uint32_t g = 0; g < s->num_groups; g++)
        for (uint32_t place = 0; place < shares[g]; place++, i++)
            give_share(s, &(struct share){.group = g, .place = place, .of = shares[g]},
                       &ret->list[i]);
    assert(i == count);
    free(shares);
    return 0;
}

/* ---- accelerators ---- */

/* Returns whether a PCI device is an accelerator, by its class: a processing accelerator or a
 * display controller, except those of service processors. */
static bool is_accelerator(hwloc_obj_t obj)
{
    static const unsigned screens[] = {0x1a03 /* ASPEED */, 0x102b /* Matrox */};
    unsigned class = obj->attr->pcidev.class_id >> 8;

    for (size_t i = 0; i < ARRAY_LEN(screens); i++)
        if (obj->attr->pcidev.vendor_id == screens[i])
            return false;
    return class == 0x03 || class == 0x12;
}

static uint64_t pci_address(hwloc_obj_t obj)
{
    const struct hwloc_pcidev_attr_s *pci = &obj->attr->pcidev;

    return (uint64_t)pci->domain << 24 | (uint64_t)pci->bus << 16 | (uint64_t)pci->dev << 8 |
           pci->func;
}

/* Returns accelerator number `wanted`, in the order of bus addresses, or NULL if there are
 * fewer. */
static hwloc_obj_t find_device(hwloc_topology_t topology, uint32_t wanted)
{
    hwloc_obj_t obj = NULL, other;

    while ((obj = hwloc_get_next_pcidev(topology, obj))) {
        uint32_t before = 0;

        if (!is_accelerator(obj))
            continue;
        other = NULL;
        while ((other = hwloc_get_next_pcidev(topology, other)))
            before += is_accelerator(other) && pci_address(other) < pci_address(obj);
        if (before == wanted)
            return obj;
    }
    return NULL;
}

/* Set used[g] for the groups next to an accelerator. Returns false if its location does not help to
 * choose: it does not exist, is next to no group, or is next to all of several groups. */
static bool find_near_groups(const struct placement *s, uint32_t device, bool *used)
{
    hwloc_obj_t obj = find_device(s->topology, device);
    uint32_t found = 0;

    if (obj)
        obj = hwloc_get_non_io_ancestor_obj(s->topology, obj);
    if (!obj || !obj->cpuset)
        return false;
    for (uint32_t g = 0; g < s->num_groups; g++) {
        uint32_t memory = s->cores[s->members[s->first[g]]].memory;

        if (hwloc_bitmap_intersects(s->near[memory], obj->cpuset)) {
            used[g] = true;
            found++;
        }
    }
    return found > 0 && (found < s->num_groups || s->num_groups == 1);
}

/* Give each instance the groups next to its accelerators. A group next to the accelerators of
 * several instances is divided among these. Falls back to divide_groups(). */
static int divide_by_devices(const struct placement *s, struct places *ret)
{
    uint32_t count = ret->count, groups = s->num_groups;
    bool *used = calloc((size_t)count * groups, sizeof(*used));
    bool known = s->request->devices != NULL;

    if (!used)
        return -ENOMEM;
    for (uint32_t i = 0; known && i < count; i++) {
        const struct place_devices *d = &s->request->devices[i];

        known = d->count > 0;
        for (uint32_t k = 0; known && k < d->count; k++)
            known = find_near_groups(s, d->list[k], used + (size_t)i * groups);
    }
    for (uint32_t g = 0; known && g < groups; g++) {
        struct share share = {.group = g};

        for (uint32_t i = 0; i < count; i++)
            share.of += used[(size_t)i * groups + g];
        for (uint32_t i = 0; i < count; i++) {
            if (!used[(size_t)i * groups + g])
                continue;
            give_share(s, &share, &ret->list[i]);
            share.place++;
        }
    }
    free(used);
    ret->blind = !known;
    return known ? 0 : divide_groups(s, ret);
}

/* ---- the rest ---- */

/* Returns whether the host's cores have other nodes than the instance's. If not, there is no choice
 * of memory. */
static bool has_other_nodes(const struct placement *s, const struct place *p)
{
    for (uint32_t i = 0; i < s->num_nodes; i++)
        if (s->nodes[i] != NO_NODE && !hwloc_bitmap_isset(p->nodes, (unsigned)s->nodes[i]))
            return true;
    return false;
}

static enum numa_policy choose_memory(const struct placement *s, const struct place *p)
{
    switch (s->request->memory) {
    case NUMA_BIND:
    case NUMA_PREFERRED:
        return !hwloc_bitmap_iszero(p->nodes) && has_other_nodes(s, p) ? s->request->memory
                                                                       : NUMA_DEFAULT;
    case NUMA_INTERLEAVE:
        return hwloc_bitmap_weight(p->nodes) > 1 ? NUMA_INTERLEAVE : NUMA_DEFAULT;
    default:
        return s->request->memory;
    }
}

static void finish(const struct placement *s, struct places *ret)
{
    const struct place_request *q = s->request;
    uint32_t quota = topology_get_quota(s->topology), share = quota / ret->count / 1000;
    bool restricted = q->cpus || q->first_threads || q->reserve_cores > 0;

    assert(ret->count > 0);
    for (uint32_t i = 0; i < ret->count; i++) {
        struct place *p = &ret->list[i];

        p->bind_cpus = q->policy != PLACE_DISABLED || restricted;
        p->memory = q->policy == PLACE_DISABLED ? NUMA_DEFAULT : choose_memory(s, p);
        if (q->policy == PLACE_DISABLED) {
            p->oversubscribed = ret->count > p->cores;
            p->cores /= ret->count;
        }
        if (quota > 0) {
            p->cores = p->cores > share ? share : p->cores;
            p->oversubscribed |= quota < ret->count * 1000;
        }
        if (p->cores == 0)
            p->cores = 1;
    }
    for (uint32_t i = 0; i < s->num_cores; i++) {
        if (s->cores[i].reserved || q->reserve_cores == 0)
            (void)hwloc_bitmap_or(ret->loader, ret->loader, s->cores[i].cpus);
        ret->loader_cores += s->cores[i].reserved;
    }
}

static int alloc_places(uint32_t count, struct places *ret)
{
    *ret = (struct places){
        .list = calloc(count, sizeof(*ret->list)), .count = count, .loader = hwloc_bitmap_alloc()};
    if (!ret->list || !ret->loader)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        ret->list[i].cpus = hwloc_bitmap_alloc();
        ret->list[i].nodes = hwloc_bitmap_alloc();
        if (!ret->list[i].cpus || !ret->list[i].nodes)
            return -ENOMEM;
    }
    return 0;
}

static int divide(const struct placement *s, struct places *ret)
{
    switch (s->request->policy) {
    case PLACE_DISABLED:
        for (uint32_t i = 0; i < ret->count; i++)
            give_share(s, &(struct share){.of = 1}, &ret->list[i]);
        return 0;
    case PLACE_DEVICE:
        return divide_by_devices(s, ret);
    default:
        return divide_groups(s, ret);
    }
}

int place_host(hwloc_topology_t topology, const struct place_request *request, struct places *ret,
               struct plenum_error *err)
{
    struct placement s = {.topology = topology, .request = request, .unit = unit_of(topology)};
    struct places places = {0};
    int r;

    assert(request->count > 0);
    if ((r = alloc_places(request->count, &places)) < 0 || (r = find_usable(&s, err)) < 0 ||
        (r = find_memories(&s)) < 0 || (r = find_cores(&s, err)) < 0 ||
        (r = reserve_cores(&s, err)) < 0 || (r = make_groups(&s)) < 0 ||
        (r = divide(&s, &places)) < 0)
        goto fail;
    assert(s.num_groups > 0 && s.num_cores > 0);
    finish(&s, &places);
    placement_fini(&s);
    *ret = places;
    return 0;

fail:
    if (r == -ENOMEM)
        (void)error_set(err, r, "out of memory");
    places_fini(&places);
    placement_fini(&s);
    return r;
}

void places_fini(struct places *places)
{
    for (uint32_t i = 0; places->list && i < places->count; i++) {
        hwloc_bitmap_free(places->list[i].cpus);
        hwloc_bitmap_free(places->list[i].nodes);
    }
    hwloc_bitmap_free(places->loader);
    free(places->list);
    *places = (struct places){0};
}

void place_describe_host(hwloc_topology_t topology, struct place_host *ret)
{
    struct place_host h = {.quota_millicores = topology_get_quota(topology)};
    hwloc_obj_t node = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))) {
        h.numa_nodes++;
        h.memory_bytes += node->attr->numanode.local_memory;
    }
    h.cores = (uint32_t)hwloc_get_nbobjs_by_type(topology, unit_of(topology));
    h.cpus = (uint32_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    *ret = h;
}

/* Placement on made-up topologies: some rows to look at, and the laws that all results obey. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "launcher/place.h"
#include "launcher/topology.h"

static hwloc_topology_t synthetic(const char *text)
{
    hwloc_topology_t t;

    cr_assert(eq(int, hwloc_topology_init(&t), 0));
    cr_assert(eq(int, hwloc_topology_set_synthetic(t, text), 0), "%s", text);
    cr_assert(eq(int, hwloc_topology_load(t), 0), "%s", text);
    return t;
}

struct place_case {
    char why[60];
    char topology[80];
    enum place_policy policy;
    uint32_t count;
    char
        want[120]; /* per instance: cpus@nodes, '!' when oversubscribed, 'm' when memory is bound */
};

/* hwloc writes "0-3"; "0" for one CPU. */
static char *show(hwloc_topology_t t, enum place_policy policy, uint32_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    for (uint32_t i = 0; i < count; i++) {
        struct place p;
        char *cpus, *nodes;

        cr_assert(eq(int, place_compute(t, i, count, policy, &p, NULL), 0));
        hwloc_bitmap_list_asprintf(&cpus, p.cpus);
        hwloc_bitmap_list_asprintf(&nodes, p.nodes);
        fprintf(f, "%s%s@%s%s%s", i ? " " : "", cpus, nodes, p.bind_memory ? "m" : "",
                p.oversubscribed ? "!" : "");
        free(cpus);
        free(nodes);
        place_fini(&p);
    }
    fclose(f);
    return text;
}

ParameterizedTestParameters(place, rows)
{
    static struct place_case cases[] = {
        {"all of it", "package:1 [numa] core:4 pu:2", PLACE_SPREADNUMA, 1, "0-7@0"},
        {"a node each", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 2, "0-3@0m 4-7@1m"},
        {"two nodes each", "package:4 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2,
         "0-3@0-1m 4-7@2-3m"},
        {"nodes that do not divide", "package:3 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2,
         "0-1@0m 2-5@1-2m"},
        {"disjoint cores of shared nodes", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 4,
         "0-1@0m 2-3@0m 4-5@1m 6-7@1m"},
        {"three on two nodes", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 3,
         "0-1@0m 2-3@0m 4-7@1m"},
        {"both threads of a core stay together", "package:1 [numa] core:2 pu:2", PLACE_SPREADNUMA,
         2, "0-1@0 2-3@0"},
        {"more than cores", "package:1 [numa] core:2 pu:1", PLACE_SPREADNUMA, 3, "0@0! 0@0! 1@0"},
        {"compact minds no border", "package:2 [numa] core:3 pu:1", PLACE_COMPACT, 4,
         "0@0m 1-2@0m 3@1m 4-5@1m"},
        {"compact over a border", "package:2 [numa] core:3 pu:1", PLACE_COMPACT, 3,
         "0-1@0m 2-3@0-1 4-5@1m"},
        {"disabled", "package:2 [numa] core:2 pu:1", PLACE_DISABLED, 2, "0-3@0-1 0-3@0-1"},
        {"disabled, more than cores", "package:1 [numa] core:1 pu:1", PLACE_DISABLED, 2,
         "0@0! 0@0!"},
        {"two kinds of memory near the same cores", "package:2 [numa] [numa] core:2 pu:1",
         PLACE_SPREADNUMA, 2, "0-1@0m 2-3@2m"},
        {"memory near all cores is nobody's", "[numa] package:2 [numa] core:2 pu:1",
         PLACE_SPREADNUMA, 2, "0-1@0m 2-3@1m"},
        {"no cores, only threads", "package:1 [numa] pu:4", PLACE_SPREADNUMA, 2, "0-1@0 2-3@0"},
    };
    return cr_make_param_array(struct place_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct place_case *c, place, rows)
{
    hwloc_topology_t t = synthetic(c->topology);
    char *got = show(t, c->policy, c->count);

    cr_expect(eq(str, got, c->want), "%s", c->why);
    free(got);
    hwloc_topology_destroy(t);
}

static void check_laws(hwloc_topology_t t, enum place_policy policy, uint32_t count,
                       const char *what)
{
    hwloc_bitmap_t seen = hwloc_bitmap_alloc(), twice = hwloc_bitmap_alloc();
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc(), both = hwloc_bitmap_alloc();
    struct place places[64];
    uint32_t cores = 0, shared = 0;
    struct place_host host;

    place_describe_host(t, &host);
    for (uint32_t i = 0; i < count; i++) {
        struct place *p = &places[i];

        cr_assert(eq(int, place_compute(t, i, count, policy, p, NULL), 0));
        cr_assert(not(hwloc_bitmap_iszero(p->cpus)), "%s: instance %u has CPUs", what, i);
        cr_assert(ge(u32, p->cores, 1), "%s", what);
        hwloc_bitmap_and(both, seen, p->cpus);
        hwloc_bitmap_or(twice, twice, both);
        hwloc_bitmap_or(seen, seen, p->cpus);
        hwloc_bitmap_or(nodes, nodes, p->nodes);
        cores += p->cores;
        shared += p->oversubscribed;
        for (int n = hwloc_bitmap_first(p->nodes); n >= 0; n = hwloc_bitmap_next(p->nodes, n)) {
            hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(t, (unsigned)n);

            cr_assert(hwloc_bitmap_intersects(node->cpuset, p->cpus),
                      "%s: instance %u has memory where it has CPUs", what, i);
        }
        if (i > 0)
            cr_assert(ge(int, hwloc_bitmap_first(p->cpus), hwloc_bitmap_first(p[-1].cpus)),
                      "%s: in order", what);
    }
    for (uint32_t i = 0; i < count; i++) /* sharing is marked, and nothing else is */
        cr_assert(eq(int, hwloc_bitmap_intersects(places[i].cpus, twice), places[i].oversubscribed),
                  "%s: mark of instance %u of %u", what, i, count);
    if (shared == 0)
        cr_assert(eq(u32, cores, host.cores), "%s: every core is given", what);
    cr_assert(eq(int, hwloc_bitmap_weight(nodes), (int)host.numa_nodes), "%s: all nodes are used",
              what);
    for (uint32_t i = 0; i < count; i++)
        place_fini(&places[i]);
    hwloc_bitmap_free(seen);
    hwloc_bitmap_free(twice);
    hwloc_bitmap_free(nodes);
    hwloc_bitmap_free(both);
}

Test(place, laws)
{
    static const char *const topologies[] = {
        "package:1 [numa] core:1 pu:1", "package:1 [numa] core:6 pu:2",
        "package:2 [numa] core:4 pu:2", "package:2 numa:4 core:8 pu:2",
        "package:3 [numa] core:5 pu:1", "numa:5 core:1 pu:4",
        "package:8 [numa] core:3 pu:1",
    };

    for (size_t i = 0; i < ARRAY_LEN(topologies); i++) {
        hwloc_topology_t t = synthetic(topologies[i]);

        for (uint32_t count = 1; count <= 40; count++) {
            check_laws(t, PLACE_SPREADNUMA, count, topologies[i]);
            check_laws(t, PLACE_COMPACT, count, topologies[i]);
        }
        hwloc_topology_destroy(t);
    }
}

/* Keep CPUs 0 and 4-7 of two nodes with four each. */
Test(place, larger_nodes_take_more_instances)
{
    hwloc_topology_t t = synthetic("package:2 [numa] core:4 pu:1");
    hwloc_bitmap_t keep = hwloc_bitmap_alloc();
    char *got;

    hwloc_bitmap_list_sscanf(keep, "0,4-7");
    cr_assert(eq(int, hwloc_topology_restrict(t, keep, 0), 0));
    got = show(t, PLACE_SPREADNUMA, 4);
    cr_expect(eq(str, got, (char *)"0@0m 4@1m 5@1m 6-7@1m"));
    free(got);
    hwloc_bitmap_free(keep);
    hwloc_topology_destroy(t);
}

Test(place, a_saved_topology_gives_the_same)
{
    static const char *const topologies[] = {
        "package:2 numa:2 core:4 pu:2",
        "package:2 [numa] l3:2 core:4 pu:2",
        "package:2 l3:2 [numa] core:3 pu:1",
        "group:2 package:2 [numa] [numa] core:2 pu:1",
    };

    for (size_t i = 0; i < ARRAY_LEN(topologies); i++) {
        hwloc_topology_t t = synthetic(topologies[i]), u;
        struct plenum_error err = {""};
        char *xml, *a, *b;
        size_t len;

        cr_assert(eq(int, topology_export(t, &xml, &len, &err), 0), "%s", err.text);
        cr_assert(eq(int, topology_import(xml, len, &u, &err), 0), "%s", err.text);
        for (uint32_t count = 1; count <= 9; count++) {
            a = show(t, PLACE_SPREADNUMA, count);
            b = show(u, PLACE_SPREADNUMA, count);
            cr_expect(eq(str, a, b), "%s", topologies[i]);
            free(a);
            free(b);
        }
        cr_expect(eq(int, topology_import(xml, len / 2, &u, &err), -EINVAL));
        hwloc_free_xmlbuffer(t, xml);
        hwloc_topology_destroy(t);
        hwloc_topology_destroy(u);
    }
}

Test(place, policies_have_names)
{
    enum place_policy policy;

    for (int i = PLACE_SPREADNUMA; i <= PLACE_DISABLED; i++) {
        cr_assert(
            eq(int, place_policy_parse(place_policy_name((enum place_policy)i), &policy, NULL), 0));
        cr_expect(policy == (enum place_policy)i);
    }
    cr_expect(eq(int, place_policy_parse("", &policy, NULL), -EINVAL));
}

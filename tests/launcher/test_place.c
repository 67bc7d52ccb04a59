/* SPDX-License-Identifier: MIT */
/* Tests placement on made-up topologies, with some examples and with laws that all results obey. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/plan/place.h"
#include "launcher/values/topology.h"

static hwloc_topology_t synthetic(const char *text)
{
    hwloc_topology_t t;

    cr_assert(eq(int, hwloc_topology_init(&t), 0));
    cr_assert(eq(int, hwloc_topology_set_synthetic(t, text), 0), "%s", text);
    cr_assert(eq(int, hwloc_topology_load(t), 0), "%s", text);
    return t;
}

/* Returns a made-up topology. The text after '!' lists its only CPUs, the text after '?' its NUMA
 * nodes. */
static hwloc_topology_t irregular(const char *text)
{
    char copy[160], *cpus, *nodes;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_topology_t t;

    snprintf(copy, sizeof(copy), "%s", text);
    cpus = strchr(copy, '!');
    nodes = strchr(copy, '?');
    if (cpus)
        *cpus++ = '\0';
    if (nodes)
        *nodes++ = '\0';
    t = synthetic(copy);
    if (cpus) { /* keep nodes whose CPUs are gone */
        hwloc_bitmap_list_sscanf(set, cpus);
        cr_assert(eq(int, hwloc_topology_restrict(t, set, 0), 0), "%s", text);
    }
    if (nodes) { /* keep CPUs whose nodes are gone */
        hwloc_bitmap_list_sscanf(set, nodes);
        cr_assert(eq(int, hwloc_topology_restrict(t, set, HWLOC_RESTRICT_FLAG_BYNODESET), 0), "%s",
                  text);
    }
    hwloc_bitmap_free(set);
    return t;
}

static struct place_request of(enum place_policy policy, uint32_t count)
{
    return (struct place_request){.policy = policy, .count = count, .memory = NUMA_BIND};
}

/* Returns the places as in place_case.want, or "error: " and the message. The caller frees it. */
static char *show(hwloc_topology_t t, const struct place_request *request)
{
    static const char *const marks[] = {[NUMA_BIND] = "m",
                                        [NUMA_PREFERRED] = "p",
                                        [NUMA_INTERLEAVE] = "i",
                                        [NUMA_LOCAL] = "l",
                                        [NUMA_DEFAULT] = ""};
    struct plenum_error err = {""};
    struct places places;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (place_host(t, request, &places, &err) < 0) {
        fprintf(f, "error: %s", err.text);
        fclose(f);
        return text;
    }
    for (uint32_t i = 0; i < places.count; i++) {
        const struct place *p = &places.list[i];
        char *cpus, *nodes;

        hwloc_bitmap_list_asprintf(&cpus, p->cpus);
        hwloc_bitmap_list_asprintf(&nodes, p->nodes);
        fprintf(f, "%s%s@%s%s%s", i ? " " : "", cpus, nodes, marks[p->memory],
                p->oversubscribed ? "!" : "");
        free(cpus);
        free(nodes);
    }
    if (places.loader_cores > 0) {
        char *cpus;

        hwloc_bitmap_list_asprintf(&cpus, places.loader);
        fprintf(f, " loader %s", cpus);
        free(cpus);
    }
    fclose(f);
    places_fini(&places);
    return text;
}

struct place_case {
    char why[60];
    char topology[80];
    enum place_policy policy;
    uint32_t count;
    char
        want[120]; /* per instance: cpus@nodes, '!' when oversubscribed, 'm' when memory is bound */
    /* Not given: the default. */
    enum numa_policy memory;
    bool no_smt;
    uint32_t reserve;
    char cpus[20];
};

ParameterizedTestParameters(place, rows)
{
    static struct place_case cases[] = {
        {"all of it", "package:1 [numa] core:4 pu:2", PLACE_SPREADNUMA, 1, .want = "0-7@0"},
        {"a node each", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 2,
         .want = "0-3@0m 4-7@1m"},
        {"two nodes each", "package:4 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2,
         .want = "0-3@0-1m 4-7@2-3m"},
        {"nodes that do not divide", "package:3 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2,
         .want = "0-1@0m 2-5@1-2m"},
        {"disjoint cores of shared nodes", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 4,
         .want = "0-1@0m 2-3@0m 4-5@1m 6-7@1m"},
        {"three on two nodes", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 3,
         .want = "0-1@0m 2-3@0m 4-7@1m"},
        {"both threads of a core stay together", "package:1 [numa] core:2 pu:2", PLACE_SPREADNUMA,
         2, .want = "0-1@0 2-3@0"},
        {"more instances than cores", "package:1 [numa] core:2 pu:1", PLACE_SPREADNUMA, 3,
         .want = "0@0! 0@0! 1@0"},
        {"larger nodes take more instances", "package:2 [numa] core:4 pu:1!0,4-7", PLACE_SPREADNUMA,
         4, .want = "0@0m 4@1m 5@1m 6-7@1m"},
        {"a node that has lost its CPUs is unused", "package:2 [numa] core:2 pu:1!0-1",
         PLACE_SPREADNUMA, 2, .want = "0@0 1@0"},
        {"CPUs without memory are a group", "package:2 [numa] core:2 pu:1?0", PLACE_SPREADNUMA, 2,
         .want = "0-1@0 2-3@"},
        {"two kinds of memory near the same cores", "package:2 [numa] [numa] core:2 pu:1",
         PLACE_SPREADNUMA, 2, .want = "0-1@0m 2-3@2m"},
        {"memory near all cores is unused", "[numa] package:2 [numa] core:2 pu:1", PLACE_SPREADNUMA,
         2, .want = "0-1@0m 2-3@1m"},
        {"no cores, only threads", "package:1 [numa] pu:4", PLACE_SPREADNUMA, 2,
         .want = "0-1@0 2-3@0"},

        {"compact ignores node boundaries", "package:2 [numa] core:3 pu:1", PLACE_COMPACT, 4,
         .want = "0@0m 1-2@0m 3@1m 4-5@1m"},
        {"compact across a node boundary", "package:2 [numa] core:3 pu:1", PLACE_COMPACT, 3,
         .want = "0-1@0m 2-3@0-1 4-5@1m"},
        {"core", "package:4 [numa] core:2 pu:2", PLACE_CORE, 2, .want = "0-1@0m 8-9@2m"},
        {"core, several on a node", "package:2 [numa] core:4 pu:1", PLACE_CORE, 4,
         .want = "0@0m 2@0m 4@1m 6@1m"},
        {"core, more instances than cores", "package:1 [numa] core:2 pu:1", PLACE_CORE, 4,
         .want = "0@0! 0@0! 1@0! 1@0!"},
        {"socket", "package:2 numa:2 core:2 pu:1", PLACE_SOCKET, 2, .want = "0-3@0-1m 4-7@2-3m"},
        {"several on a socket", "package:2 numa:2 core:2 pu:1", PLACE_SOCKET, 3,
         .want = "0-1@0m 2-3@1m 4-7@2-3m"},
        {"device, but locality unknown", "package:2 [numa] core:2 pu:1", PLACE_DEVICE, 2,
         .want = "0-1@0m 2-3@1m"},
        {"disabled", "package:2 [numa] core:2 pu:1", PLACE_DISABLED, 2, .want = "0-3@0-1 0-3@0-1"},
        {"disabled, more instances than cores", "package:1 [numa] core:1 pu:1", PLACE_DISABLED, 2,
         .want = "0@0! 0@0!"},

        {"preferred", "package:2 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2, "0-1@0p 2-3@1p",
         .memory = NUMA_PREFERRED},
        {"interleave needs two nodes", "package:3 [numa] core:1 pu:1", PLACE_SPREADNUMA, 2,
         "0@0 1-2@1-2i", .memory = NUMA_INTERLEAVE},
        {"local", "package:1 [numa] core:2 pu:1", PLACE_SPREADNUMA, 2, "0@0l 1@0l",
         .memory = NUMA_LOCAL},
        {"no SMT", "package:2 [numa] core:2 pu:2", PLACE_SPREADNUMA, 2, "0,2@0m 4,6@1m",
         .no_smt = true},
        {"some CPUs only", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 2, "1-2@0m 5-6@1m",
         .cpus = "1-2,5-6"},
        {"CPUs of one node", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 2, "4-5@1m 6-7@1m",
         .cpus = "4-7"},
        {"halves of cores", "package:1 [numa] core:4 pu:2", PLACE_SPREADNUMA, 2, "1,3@0 5,7@0",
         .cpus = "1,3,5,7"},
        {"CPUs that are not there", "package:1 [numa] core:4 pu:1", PLACE_SPREADNUMA, 1,
         "error: --cpus 2-5: CPU 4 does not exist, or may not be used", .cpus = "2-5"},
        {"reserved cores are spread", "package:2 [numa] core:4 pu:1", PLACE_SPREADNUMA, 2,
         "0-2@0m 4-6@1m loader 3,7", .reserve = 2},
        {"three reserved cores", "package:2 [numa] core:4 pu:1", PLACE_COMPACT, 1,
         "0-1,4-6@0-1 loader 2-3,7", .reserve = 3},
        {"whole cores are reserved", "package:1 [numa] core:2 pu:2", PLACE_SPREADNUMA, 1,
         "0-1@0 loader 2-3", .reserve = 1},
        {"all cores cannot be reserved", "package:1 [numa] core:2 pu:2", PLACE_SPREADNUMA, 1,
         "error: --reserve-cores 2 leaves nothing of the host's 2 cores", .reserve = 2},
    };
    return cr_make_param_array(struct place_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct place_case *c, place, rows)
{
    const struct place_request request = {
        .policy = c->policy,
        .count = c->count,
        .memory = c->memory,
        .first_threads = c->no_smt,
        .reserve_cores = c->reserve,
        .cpus = c->cpus[0] ? c->cpus : NULL,
    };
    hwloc_topology_t t = irregular(c->topology);
    char *got = show(t, &request);

    cr_expect(eq(str, got, c->want), "%s", c->why);
    free(got);
    hwloc_topology_destroy(t);
}

/* ---- the laws ---- */

/* Returns the number of the smallest NUMA node that contains a CPU, or -1 if there is none.
 * Searches all nodes, so that the result is obviously right. */
static int node_of(hwloc_topology_t t, unsigned cpu)
{
    hwloc_obj_t node = NULL, best = NULL;

    while ((node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isset(node->cpuset, cpu) &&
            (!best || hwloc_bitmap_weight(node->cpuset) < hwloc_bitmap_weight(best->cpuset)))
            best = node;
    return best ? (int)best->os_index : -1;
}

/* Check that threads of a core stay together, or that one of them is alone. */
static void check_cores(hwloc_topology_t t, const struct place_request *q, hwloc_bitmap_t cpus,
                        const char *what)
{
    hwloc_bitmap_t part = hwloc_bitmap_alloc();
    hwloc_obj_t core = NULL;

    while ((core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core))) {
        hwloc_bitmap_and(part, core->cpuset, cpus);
        if (!hwloc_bitmap_iszero(part))
            cr_assert(eq(int, hwloc_bitmap_weight(part),
                         q->first_threads ? 1 : hwloc_bitmap_weight(core->cpuset)),
                      "%s: cores must be assigned whole", what);
    }
    hwloc_bitmap_free(part);
}

static void check_laws(hwloc_topology_t t, const struct place_request *q, const char *what)
{
    hwloc_bitmap_t seen = hwloc_bitmap_alloc(), twice = hwloc_bitmap_alloc();
    hwloc_bitmap_t used = hwloc_bitmap_alloc(), both = hwloc_bitmap_alloc();
    hwloc_bitmap_t expected = hwloc_bitmap_alloc();
    struct plenum_error err = {""};
    struct places places;
    struct place_host host;
    uint32_t cores = 0, shared = 0;
    hwloc_obj_t core = NULL;
    unsigned cpu;

    place_describe_host(t, &host);
    cr_assert(eq(int, place_host(t, q, &places, &err), 0), "%s: %s", what, err.text);
    cr_assert(eq(u32, places.count, q->count));
    for (uint32_t i = 0; i < q->count; i++) {
        const struct place *p = &places.list[i];

        cr_assert(not(hwloc_bitmap_iszero(p->cpus)), "%s: instance %u has CPUs", what, i);
        cr_assert(ge(u32, p->cores, 1), "%s", what);
        check_cores(t, q, p->cpus, what);
        hwloc_bitmap_and(both, seen, p->cpus);
        hwloc_bitmap_or(twice, twice, both);
        hwloc_bitmap_or(seen, seen, p->cpus);
        hwloc_bitmap_or(used, used, p->nodes);
        cores += p->cores;
        shared += p->oversubscribed;
        hwloc_bitmap_zero(expected);
        hwloc_bitmap_foreach_begin(cpu, p->cpus) if (node_of(t, cpu) >= 0)
            hwloc_bitmap_set(expected, (unsigned)node_of(t, cpu));
        hwloc_bitmap_foreach_end();
        cr_assert(hwloc_bitmap_isequal(p->nodes, expected), "%s: memory must be that of the CPUs",
                  what);
    }
    for (uint32_t i = 0; i < q->count; i++) /* only shared CPUs are marked as such */
        cr_assert(eq(int, hwloc_bitmap_intersects(places.list[i].cpus, twice),
                     places.list[i].oversubscribed),
                  "%s: only shared CPUs are marked (instance %u of %u)", what, i, q->count);
    cr_assert(eq(u32, places.loader_cores, q->reserve_cores), "%s", what);
    if (q->reserve_cores > 0) {
        cr_assert(not(hwloc_bitmap_intersects(places.loader, seen)),
                  "%s: the loader must not share CPUs", what);
        check_cores(t, q, places.loader, what);
    }
    cr_assert(shared == 0 || q->count > host.cores - q->reserve_cores ||
                  q->policy == PLACE_SPREADNUMA || q->policy == PLACE_CORE ||
                  q->policy == PLACE_SOCKET,
              "%s: no instance may share unnecessarily", what);
    if (shared == 0 && q->policy != PLACE_CORE) {
        cr_assert(eq(u32, cores, host.cores - q->reserve_cores), "%s: every core must be assigned",
                  what);
        hwloc_bitmap_zero(expected);
        while ((core = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_CORE, core))) {
            int node = node_of(t, (unsigned)hwloc_bitmap_first(core->cpuset));

            if (node >= 0 &&
                !(q->reserve_cores && hwloc_bitmap_intersects(places.loader, core->cpuset)))
                hwloc_bitmap_set(expected, (unsigned)node);
        }
        cr_assert(hwloc_bitmap_isequal(used, expected), "%s: all nodes must be used", what);
    }
    places_fini(&places);
    hwloc_bitmap_free(expected);
    hwloc_bitmap_free(seen);
    hwloc_bitmap_free(twice);
    hwloc_bitmap_free(used);
    hwloc_bitmap_free(both);
}

Test(place, laws, .timeout = 600)
{
    static const char *const topologies[] = {
        "package:1 [numa] core:1 pu:1",
        "package:1 [numa] core:6 pu:2",
        "package:2 [numa] core:4 pu:2",
        "package:2 numa:4 core:8 pu:2",
        "package:3 [numa] core:5 pu:1",
        "numa:5 core:1 pu:4",
        "package:8 [numa] core:3 pu:1",
        "package:2 numa:3 core:2 pu:1",
        "package:2 l3:2 [numa] core:3 pu:2",
        /* uneven, as cpusets and offline CPUs leave them */
        "package:2 [numa] core:4 pu:1!0,4-7",
        "package:4 [numa] core:4 pu:2!0-7,16-19,24-25",
        "package:3 [numa] core:2 pu:1!0,2-5",
        /* memory without CPUs, CPUs without memory, two kinds of memory */
        "package:2 [numa] core:2 pu:1!0-1",
        "package:4 [numa] core:2 pu:2!4-15",
        "package:2 [numa] core:4 pu:1?1",
        "package:2 [numa] [numa] core:4 pu:1",
        "[numa] package:2 [numa] core:4 pu:2",
    };
    static const enum place_policy policies[] = {PLACE_SPREADNUMA, PLACE_COMPACT, PLACE_CORE,
                                                 PLACE_SOCKET};
    char what[160];

    for (size_t i = 0; i < ARRAY_LEN(topologies); i++) {
        hwloc_topology_t t = irregular(topologies[i]);
        struct place_host host;

        place_describe_host(t, &host);
        for (uint32_t count = 1; count <= 40; count += count < 10 ? 1 : 5) {
            for (size_t k = 0; k < ARRAY_LEN(policies); k++) {
                for (uint32_t reserve = 0; reserve < host.cores && reserve < 4; reserve++) {
                    struct place_request q = of(policies[k], count);

                    q.reserve_cores = reserve;
                    q.first_threads = (count + reserve) % 2;
                    snprintf(what, sizeof(what), "%s %s, %u, reserve %u", topologies[i],
                             place_policy_name(policies[k]), count, reserve);
                    check_laws(t, &q, what);
                }
            }
        }
        hwloc_topology_destroy(t);
    }
}

/* A CPU-time quota counts as a number of cores. */
Test(place, quota)
{
    hwloc_topology_t t = synthetic("package:1 [numa] core:8 pu:1");
    struct place_request q = of(PLACE_SPREADNUMA, 2);
    struct places places;
    struct place_host host;

    hwloc_obj_add_info(hwloc_get_root_obj(t), TOPOLOGY_QUOTA_KEY, "5000");
    place_describe_host(t, &host);
    cr_expect(eq(u32, host.quota_millicores, 5000));
    cr_assert(eq(int, place_host(t, &q, &places, NULL), 0));
    cr_expect(eq(u32, places.list[0].cores, 2), "threads must not exceed the quota");
    cr_expect(eq(int, hwloc_bitmap_weight(places.list[0].cpus), 4),
              "the quota must not reduce the CPUs");
    cr_expect(not(places.list[0].oversubscribed));
    places_fini(&places);
    q.count = 6;
    cr_assert(eq(int, place_host(t, &q, &places, NULL), 0));
    cr_expect(eq(u32, places.list[5].cores, 1));
    cr_expect(places.list[5].oversubscribed, "6 instances must share 5 cores");
    places_fini(&places);
    hwloc_topology_destroy(t);
}

/* Two packages with four NUMA nodes, a service processor's display, and four accelerators: 0 and 1
 * near node 0, 2 near node 1, 3 near node 3. */
static hwloc_topology_t with_devices(void)
{
    static const struct {
        const char *after; /* the start of their parent object */
        const char *devices;
    } added[] = {
        {"type=\"NUMANode\" os_index=\"0\"",
         "<object type=\"Bridge\" gp_index=\"901\" bridge_type=\"0-1\" depth=\"0\" "
         "bridge_pci=\"0000:[00-10]\">"
         "<object type=\"PCIDev\" gp_index=\"902\" pci_busid=\"0000:01:00.0\" "
         "pci_type=\"0300 [1a03:2000] [1a03:2000] 41\" pci_link_speed=\"0.0\"/>"
         "<object type=\"PCIDev\" gp_index=\"903\" pci_busid=\"0000:09:00.0\" "
         "pci_type=\"0302 [10de:2330] [10de:1626] a1\" pci_link_speed=\"0.0\"/>"
         "<object type=\"PCIDev\" gp_index=\"904\" pci_busid=\"0000:08:00.0\" "
         "pci_type=\"0302 [10de:2330] [10de:1626] a1\" pci_link_speed=\"0.0\"/>"
         "<object type=\"PCIDev\" gp_index=\"905\" pci_busid=\"0000:02:00.0\" "
         "pci_type=\"0200 [8086:1521] [8086:0001] 01\" pci_link_speed=\"0.0\"/>"
         "</object>"},
        {"type=\"NUMANode\" os_index=\"1\"",
         "<object type=\"Bridge\" gp_index=\"911\" bridge_type=\"0-1\" depth=\"0\" "
         "bridge_pci=\"0000:[20-30]\">"
         "<object type=\"PCIDev\" gp_index=\"912\" pci_busid=\"0000:21:00.0\" "
         "pci_type=\"1200 [1da3:1000] [1da3:1000] 01\" pci_link_speed=\"0.0\"/>"
         "</object>"},
        {"type=\"NUMANode\" os_index=\"3\"",
         "<object type=\"Bridge\" gp_index=\"921\" bridge_type=\"0-1\" depth=\"0\" "
         "bridge_pci=\"0000:[80-90]\">"
         "<object type=\"PCIDev\" gp_index=\"922\" pci_busid=\"0000:81:00.0\" "
         "pci_type=\"0302 [10de:2330] [10de:1626] a1\" pci_link_speed=\"0.0\"/>"
         "</object>"},
    };
    hwloc_topology_t t = synthetic("package:2 group:2 [numa] core:4 pu:1"), ret;
    struct plenum_error err = {""};
    char *xml, *text = NULL;
    size_t len, size = 0;
    FILE *f = open_memstream(&text, &size);

    cr_assert(eq(int, topology_export(t, &xml, &len, &err), 0), "%s", err.text);
    fwrite(xml, 1, len - 1, f);
    hwloc_free_xmlbuffer(t, xml);
    hwloc_topology_destroy(t);
    fclose(f);
    for (size_t i = 0; i < ARRAY_LEN(added); i++) { /* before the end of the enclosing object */
        char *at = strstr(text, added[i].after), *more;

        cr_assert(at != NULL, "%s in %s", added[i].after, text);
        at = strstr(at, "</object>"); /* the end of the last core, or of the node itself */
        while (at && strncmp(at + 9 + strspn(at + 9, " \n"), "</object>", 9) != 0)
            at = strstr(at + 9, "</object>");
        cr_assert(at != NULL);
        at += 9;
        more = str_format("%.*s%s%s", (int)(at - text), text, added[i].devices, at);
        free(text);
        text = more;
    }
    cr_assert(eq(int, topology_import(text, strlen(text) + 1, &ret, &err), 0), "%s\n%s", err.text,
              text);
    free(text);
    return ret;
}

Test(place, device)
{
    static const uint32_t numbers[] = {0, 1, 2, 3};
    const struct place_devices one_each[] = {
        {numbers, 1}, {numbers + 1, 1}, {numbers + 2, 1}, {numbers + 3, 1}};
    const struct place_devices two_each[] = {{numbers, 2}, {numbers + 2, 2}};
    hwloc_topology_t t = with_devices();
    struct place_request q = of(PLACE_DEVICE, 4);
    char *got;

    q.devices = one_each;
    got = show(t, &q);
    cr_expect(eq(str, got, (char *)"0-1@0m 2-3@0m 4-7@1m 12-15@3m"));
    free(got);
    q.count = 2;
    q.devices = two_each;
    got = show(t, &q);
    cr_expect(eq(str, got, (char *)"0-3@0m 4-7,12-15@1,3m"));
    free(got);
    hwloc_topology_destroy(t);
}

Test(place, a_saved_topology_gives_the_same_plan)
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
        struct place_request q = of(PLACE_SPREADNUMA, 1);
        char *xml, *a, *b;
        size_t len;

        cr_assert(eq(int, topology_export(t, &xml, &len, &err), 0), "%s", err.text);
        cr_assert(eq(int, topology_import(xml, len, &u, &err), 0), "%s", err.text);
        for (uint32_t count = 1; count <= 9; count++) {
            q.count = count;
            a = show(t, &q);
            b = show(u, &q);
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

Test(place, memory_policies_have_names)
{
    enum numa_policy memory;

    for (int i = NUMA_BIND; i < NUMA_DEFAULT; i++) {
        cr_assert(
            eq(int, numa_policy_parse(numa_policy_name((enum numa_policy)i), &memory, NULL), 0));
        cr_expect(memory == (enum numa_policy)i);
    }
    cr_expect(eq(int, numa_policy_parse("default", &memory, NULL), -EINVAL));
}

Test(place, topologies_are_read_from_files)
{
    char path[] = "/tmp/plenum-place-XXXXXX";
    hwloc_topology_t t = synthetic("package:2 [numa] core:3 pu:2"), u;
    struct place_request q = of(PLACE_SPREADNUMA, 3);
    struct plenum_error err = {""};
    int fd = mkstemp(path);
    char *xml, *a, *b;
    size_t len;

    cr_assert(fd >= 0);
    cr_assert(eq(int, topology_export(t, &xml, &len, &err), 0));
    cr_assert(eq(int, io_write_all(fd, xml, len - 1), 0));
    cr_assert(eq(int, topology_read(path, &u, &err), 0), "%s", err.text);
    a = show(t, &q);
    b = show(u, &q);
    cr_expect(eq(str, a, b));
    free(b);
    hwloc_topology_destroy(u);
    cr_assert(eq(int, topology_read("synthetic:package:2 [numa] core:3 pu:2", &u, &err), 0));
    b = show(u, &q);
    cr_expect(eq(str, a, b));
    hwloc_topology_destroy(u);
    cr_assert(eq(int, ftruncate(fd, (off_t)len / 2), 0));
    cr_expect(eq(int, topology_read(path, &u, &err), -EINVAL));
    cr_expect(strstr(err.text, path) != NULL, "%s", err.text);
    unlink(path);
    cr_expect(eq(int, topology_read(path, &u, &err), -ENOENT));
    cr_expect(eq(int, topology_read("synthetic:cores 4", &u, &err), -EINVAL));
    cr_expect(strstr(err.text, "cores 4") != NULL, "%s", err.text);
    free(a);
    free(b);
    close(fd);
    hwloc_free_xmlbuffer(t, xml);
    hwloc_topology_destroy(t);
}

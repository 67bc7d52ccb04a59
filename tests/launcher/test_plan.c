/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/table.h"

struct plan_case {
    char why[50];
    char hosts[60]; /* "": this host */
    uint32_t instances, replicas;
    int want;
    char split[100]; /* "host:instances/replicas each ...", or words of the error message */
};

static int make_with(struct plan_request request, const char *hosts, uint32_t instances,
                     uint32_t replicas, struct plan *ret, struct plenum_error *err)
{
    struct hostlist list = {0};
    bool local[64] = {false};
    int r;

    request.hosts = &list;
    request.local = local;
    request.this_host = "here";
    request.num_instances = instances;
    request.num_replicas = replicas;
    if (*hosts)
        cr_assert(eq(int, hostlist_add_text(&list, hosts, NULL), 0));
    for (size_t i = 0; i < list.count && i < ARRAY_LEN(local); i++)
        local[i] = strcmp(list.hosts[i].name, "localhost") == 0;
    r = plan_create(&request, ret, err);
    hostlist_fini(&list);
    return r;
}

static int make(const char *hosts, uint32_t instances, uint32_t replicas, struct plan *ret,
                struct plenum_error *err)
{
    return make_with((struct plan_request){0}, hosts, instances, replicas, ret, err);
}

ParameterizedTestParameters(plan, split)
{
    static struct plan_case cases[] = {
        {"one on this host", "", 0, 0, 0, "here:1/1"},
        {"one per host", "a,b,c", 0, 0, 0, "a:1/1 b:1/1 c:1/1"},
        {"as many as slots", "a:2,b:3", 0, 0, 0, "a:2/1 b:3/1"},
        {"evenly", "a,b", 6, 12, 0, "a:3/2 b:3/2"},
        {"the first hosts take the rest", "a,b,c", 5, 0, 0, "a:2/1 b:2/1 c:1/1"},
        {"no more than slots", "a:1,b:4", 4, 0, 0, "a:1/1 b:3/1"},
        {"hosts without work are left out", "a,b,c", 2, 0, 0, "a:1/1 b:1/1"},
        {"many replicas", "", 4, 16, 0, "here:4/4"},
        {"slots do not suffice", "a:1,b:2", 4, 0, -EINVAL, "have 3 slots"},
        {"replicas do not divide", "", 3, 4, -EINVAL, "multiple of --num-instances"},
        {"fewer replicas than instances", "", 4, 2, -EINVAL, "fewer than 4 instances"},
    };
    return cr_make_param_array(struct plan_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct plan_case *c, plan, split)
{
    struct plan plan;
    struct plenum_error err = {""};
    char *text = NULL;
    size_t size = 0;
    FILE *f;

    cr_assert(eq(int, make(c->hosts, c->instances, c->replicas, &plan, &err), c->want), "%s: %s",
              c->why, err.text);
    if (c->want < 0) {
        cr_expect(strstr(err.text, c->split) != NULL, "%s: '%s'", c->why, err.text);
        return;
    }
    f = open_memstream(&text, &size);
    for (uint32_t h = 0; h < plan.num_hosts; h++)
        fprintf(f, "%s%s:%u/%u", h ? " " : "", plan.hosts[h].name, plan.hosts[h].count,
                plan.instances[plan.hosts[h].first].num_replicas);
    fclose(f);
    cr_expect(eq(str, text, c->split), "%s", c->why);
    free(text);
    plan_fini(&plan);
}

static int make_by_host(const char *hosts, uint32_t each, bool uneven, struct plan *ret,
                        struct plenum_error *err)
{
    return make_with((struct plan_request){.replicas_per_host = each, .allow_uneven = uneven},
                     hosts, 0, 0, ret, err);
}

Test(plan, each_host_gets_its_replicas)
{
    struct plenum_error err = {""};
    struct plan plan;

    for (uint32_t hosts = 1; hosts <= 4; hosts++) {
        char text[20];

        snprintf(text, sizeof(text), "h[1-%u]:3", hosts);
        cr_assert(eq(int, make_by_host(text, 6, false, &plan, NULL), 0));
        cr_expect(eq(u32, plan.num_replicas, 6 * hosts));
        for (uint32_t i = 0; i < plan.num_instances; i++) {
            cr_expect(eq(u32, plan.instances[i].num_replicas, 2));
            cr_expect(eq(u32, plan.instances[i].replica_offset, 2 * i));
        }
        plan_fini(&plan);
    }
    cr_expect(eq(int, make_by_host("a:2,b:2", 1, true, &plan, &err), -EINVAL), "too few");
    cr_expect(strstr(err.text, "raise --replicas-per-host") != NULL, "%s", err.text);
    cr_expect(eq(int, make_by_host("a:2,b:2", 3, false, &plan, &err), -EINVAL));
    cr_expect(strstr(err.text, "--replicas-per-host a multiple of that") != NULL, "%s", err.text);
    cr_expect(eq(int,
                 make_with((struct plan_request){.replicas_per_host = 2}, "a:2", 0, 4, &plan, &err),
                 -EINVAL));
    cr_expect(strstr(err.text, "contradict each other") != NULL, "%s", err.text);
    cr_expect(eq(int, make_by_host("a:2,b:1", 2, false, &plan, &err), -EINVAL));
    cr_expect(strstr(err.text, "hosts a and b have 2 and 1 instances") != NULL, "%s", err.text);
}

Test(plan, uneven_replicas_of_a_host_stay_there)
{
    static const uint32_t want[] = {2, 1, 3, 1, 1, 1};
    struct plan plan;
    uint32_t offset = 0;

    cr_assert(eq(int, make_by_host("a:2,b:1,c:3", 3, true, &plan, NULL), 0));
    cr_assert(eq(u32, plan.num_instances, 6));
    for (uint32_t i = 0; i < 6; i++) {
        cr_expect(eq(u32, plan.instances[i].num_replicas, want[i]), "instance %u", i);
        cr_expect(eq(u32, plan.instances[i].replica_offset, offset), "instance %u", i);
        offset += want[i];
    }
    plan_fini(&plan);
}

/* Check laws that every split obeys, for all small jobs. */
Test(plan, instances_and_replicas_are_consecutive_and_even)
{
    for (uint32_t hosts = 1; hosts <= 5; hosts++) {
        for (uint32_t instances = 1; instances <= 23; instances++) {
            char text[20];
            struct plan plan;
            uint32_t index = 0, replica = 0;

            snprintf(text, sizeof(text), "h[1-%u]", hosts);
            cr_assert(eq(int, make(text, instances, instances * 3, &plan, NULL), 0));
            for (uint32_t h = 0; h < plan.num_hosts; h++) {
                cr_assert(eq(u32, plan.hosts[h].first, index));
                cr_assert(ge(u32, plan.hosts[h].count, instances / hosts));
                cr_assert(le(u32, plan.hosts[h].count, instances / hosts + 1));
                for (uint32_t i = 0; i < plan.hosts[h].count; i++, index++) {
                    cr_assert(eq(u32, plan.instances[index].host, h));
                    cr_assert(eq(u32, plan.instances[index].local_index, i));
                    cr_assert(eq(u32, plan.instances[index].replica_offset, replica));
                    replica += plan.instances[index].num_replicas;
                }
            }
            cr_assert(eq(u32, index, instances));
            cr_assert(eq(u32, replica, plan.num_replicas));
            plan_fini(&plan);
        }
    }
}

Test(plan, local_means_only_this_host)
{
    struct plan plan;

    cr_assert(eq(int, make("", 4, 0, &plan, NULL), 0));
    cr_expect(plan_is_local(&plan));
    plan_fini(&plan);
    cr_assert(eq(int, make("localhost", 0, 0, &plan, NULL), 0));
    cr_expect(plan_is_local(&plan));
    plan_fini(&plan);
    cr_assert(eq(int, make("localhost,other-host", 0, 0, &plan, NULL), 0));
    cr_expect(not(plan_is_local(&plan)));
    plan_fini(&plan);
    cr_assert(eq(int, make("other-host", 0, 0, &plan, NULL), 0));
    cr_expect(not(plan_is_local(&plan)));
    plan_fini(&plan);
}

/* Loader hosts run no instances. */
Test(plan, loader_hosts)
{
    struct hostlist loaders = {0};
    const bool local[] = {false, false};
    struct plan_request request = {.loader_hosts = &loaders, .loader_local = local};
    struct plenum_error err;
    struct plan plan;

    cr_assert(eq(int, hostlist_add_text(&loaders, "c1,me@c2:2222", NULL), 0));
    cr_assert(eq(int, make_with(request, "h[1-2]", 4, 4, &plan, NULL), 0));
    cr_expect(eq(u32, plan.num_hosts, 2));
    cr_assert(eq(u32, plan.num_loader_hosts, 2));
    cr_expect(eq(str, plan.loader_hosts[1].name, (char *)"c2"));
    cr_expect(eq(str, plan.loader_hosts[1].user, (char *)"me"));
    cr_expect(eq(u16, plan.loader_hosts[1].port, 2222));
    plan_fini(&plan);
    cr_expect(eq(int, make_with(request, "h1,c2", 4, 4, &plan, &err), -EINVAL));
    cr_expect(strstr(err.text, "--loader-host c2: instances run there") != NULL, "%s", err.text);
    /* A loader host may be listed as long as it gets no instances. */
    cr_assert(eq(int, make_with(request, "h1,c2", 1, 1, &plan, NULL), 0));
    plan_fini(&plan);
    hostlist_fini(&loaders);
}

/* Laws for replicas and devices, even or not. */
Test(plan, uneven_replicas_and_their_devices)
{
    struct device_pool pool = {0};

    unsetenv("CUDA_VISIBLE_DEVICES");
    cr_assert(eq(int, device_pool_parse("cuda", &pool, NULL), 0));
    for (uint32_t instances = 1; instances <= 9; instances++) {
        for (uint32_t replicas = instances; replicas <= 3 * instances; replicas++) {
            const struct plan_request request = {
                .allow_uneven = true, .devices_per_replica = 2, .pool = &pool};
            uint32_t offset = 0, most = 0, least = UINT32_MAX;
            struct plan plan;

            cr_assert(eq(int, make_with(request, "h[1-2]", instances, replicas, &plan, NULL), 0));
            for (uint32_t i = 0; i < instances; i++) {
                const struct plan_instance *x = &plan.instances[i];
                uint32_t on_host = x->local_index == 0 ? 0 : x[-1].first_device + x[-1].num_devices;

                cr_assert(eq(u32, x->replica_offset, offset));
                cr_assert(eq(u32, x->num_devices, 2 * x->num_replicas));
                cr_assert(eq(u32, x->first_device, on_host),
                          "devices must be counted from 0 on each host");
                offset += x->num_replicas;
                most = x->num_replicas > most ? x->num_replicas : most;
                least = x->num_replicas < least ? x->num_replicas : least;
            }
            cr_assert(eq(u32, offset, replicas));
            cr_assert(le(u32, most - least, 1));
            plan_fini(&plan);
        }
    }
    device_pool_fini(&pool);
}

struct pool_case {
    char option[60], variable[40], value[40]; /* the variable's value */
    char want[120];                           /* devices of 2 instances; or, after '!', an error */
};

ParameterizedTestParameters(plan, devices)
{
    static struct pool_case cases[] = {
        {"CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "4,5,6,7", "4,5 6,7"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "4,5,6,7,8", "4,5 6,7"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "(unset)", "0,1 2,3"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "", "!CUDA_VISIBLE_DEVICES='' hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", " ", "!hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "-1", "!CUDA_VISIBLE_DEVICES='-1' hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "-1,0,1,2", "!hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "NoDevFiles", "!hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "-2", "!CUDA_VISIBLE_DEVICES='-2' hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "-10,0,1,2,3", "!hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "none", "!hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "void", "!hides every device"},
        {"cuda=-2", "CUDA_VISIBLE_DEVICES", "0,1,2,3", "!='-2' hides every device"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,1,2,-2", "!are more than the 3 that"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,NoDevFiles", "!are more than the 1 that"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "3,2,1,0,-1,7", "3,2 1,0"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,1,-1,2", "!are more than the 2 that"},
        {"rocr", "ROCR_VISIBLE_DEVICES", "", "!ROCR_VISIBLE_DEVICES='' hides every device"},
        {"hip", "HIP_VISIBLE_DEVICES", "-1", "!HIP_VISIBLE_DEVICES='-1' hides every device"},
        {"MY_DEVICES", "MY_DEVICES", "", "!MY_DEVICES='' hides every device"},
        {"cuda=-1", "CUDA_VISIBLE_DEVICES", "0,1,2,3", "!='-1' hides every device"},
        {"cuda=0,1,2,3", "CUDA_VISIBLE_DEVICES", "", "0,1 2,3"},
        {"cuda=3,1,2,0", "CUDA_VISIBLE_DEVICES", "7", "3,1 2,0"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b,GPU-c,GPU-d", "GPU-a,GPU-b GPU-c,GPU-d"},
        {"oneapi", "ONEAPI_DEVICE_SELECTOR", "level_zero:0,1,2,3", "0,1 2,3"},
        {"MY_DEVICES", "MY_DEVICES", "a,b,c,d", "a,b c,d"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,1,2",
         "!host here: 2 replicas of 2 devices are more than the 3 that CUDA_VISIBLE_DEVICES names"},
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,1,1,2", "!device 1 is given twice"},
        {"cuda=4-5,1,0", "CUDA_VISIBLE_DEVICES", "7", "4,5 1,0"},
        {"cuda=0-2,1", "CUDA_VISIBLE_DEVICES", "7", "!device 1 is given twice"},
        {"cuda=3-2", "CUDA_VISIBLE_DEVICES", "7", "!3-2 runs backwards"},
        {"cuda=0-999999999", "CUDA_VISIBLE_DEVICES", "7", "!there are more than"},
        {"cuda=a,4-+5,b,4--2", "CUDA_VISIBLE_DEVICES", "7", "a,4-+5 b,4--2"}, /* no ranges */
        {"cuda", "CUDA_VISIBLE_DEVICES", "0,,1", "!is not a list of devices"},
        {"cuda=", "CUDA_VISIBLE_DEVICES", "0", "!is not a list of devices"},
        {"my devices", "X", "0", "!'my devices' is not the name"},
    };
    return cr_make_param_array(struct pool_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct pool_case *c, plan, devices)
{
    struct device_pool pool = {0};
    struct plan_request request = {.devices_per_replica = 2};
    struct plenum_error err = {""};
    struct plan plan;
    char *got;
    int r;

    setenv(c->variable, c->value, 1);
    if (strcmp(c->value, "(unset)") == 0)
        unsetenv(c->variable);
    r = device_pool_parse(c->option, &pool, &err);
    if (r == 0) {
        request.pool = &pool;
        r = make_with(request, "", 2, 0, &plan, &err);
    }
    if (c->want[0] == '!') {
        cr_expect(eq(int, r, -EINVAL));
        cr_expect(strstr(err.text, c->want + 1) != NULL, "'%s'", err.text);
    } else {
        cr_assert(eq(int, r, 0), "%s", err.text);
        cr_expect(eq(str, (char *)plan.device_variable, c->variable));
        got = str_format("%s %s", plan.instances[0].devices, plan.instances[1].devices);
        cr_expect(eq(str, got, c->want));
        free(got);
        plan_fini(&plan);
    }
    device_pool_fini(&pool);
}

static void place_all(struct plan *plan, const char *synthetic)
{
    hwloc_topology_t t;

    cr_assert(eq(int, hwloc_topology_init(&t), 0));
    cr_assert(eq(int, hwloc_topology_set_synthetic(t, synthetic), 0));
    cr_assert(eq(int, hwloc_topology_load(t), 0));
    cr_assert(eq(int, plan_place_host(plan, 0, t, false, NULL), 0));
    hwloc_topology_destroy(t);
}

Test(plan, table_of_a_known_and_an_unknown_host)
{
    static const char want[] =
        "3 instances on 2 hosts, 6 replicas of 1 device; loader: auto; "
        "started by: mpirun\n"
        "\n"
        "Host  NUMA nodes  Cores  CPUs  Memory   Instances  Replicas  "
        "Devices  Loader cores  Interface\n"
        "a     2           4      8     2.0 GiB  0-1        0-3       4        "
        "0             ?\n"
        "b     ?           ?      ?     ?        2          4-5       2        "
        "?             ?\n"
        "\n"
        "Instance  Host  Local  Replicas  NUMA  CPUs  Bound         Devices\n"
        "0         a     0      0-1       0     0-3   CPUs, memory  -\n"
        "1         a     1      2-3       1     4-7   CPUs, memory  -\n"
        "2         b     0      4-5       ?     ?     ?             -\n"
        "\n"
        "?: not known until the job has been started there\n";
    struct plan plan;
    char *text = NULL;
    size_t size = 0;
    FILE *f;

    cr_assert(eq(int, make("a:2,b:1", 0, 6, &plan, NULL), 0));
    place_all(&plan, "package:2 [numa(memory=1073741824)] core:2 pu:2");
    f = open_memstream(&text, &size);
    table_print_text(f, &plan, "auto", "mpirun");
    fclose(f);
    cr_expect(eq(str, text, (char *)want));
    free(text);
    plan_fini(&plan);
}

Test(plan, json_has_the_same_plan)
{
    struct plan plan;
    char *text = NULL;
    size_t size = 0;
    FILE *f;

    cr_assert(eq(int, make("a:3,b:1", 0, 0, &plan, NULL), 0));
    place_all(&plan, "package:1 [numa] core:2 pu:1");
    f = open_memstream(&text, &size);
    table_print_json(f, &plan, "none", "plenumrun");
    fclose(f);
    cr_expect(strstr(text, "{\"index\": 1, \"host\": \"a\", \"local_index\": 1, \"cpus\": \"0\", "
                           "\"numa_nodes\": \"0\", \"memory_policy\": \"default\", "
                           "\"replica_offset\": 1, \"num_local_replicas\": 1, \"devices\": [], "
                           "\"oversubscribed\": true}") != NULL,
              "%s", text);
    cr_expect(strstr(text, "{\"index\": 3, \"host\": \"b\", \"local_index\": 0, \"cpus\": null, "
                           "\"numa_nodes\": null, \"memory_policy\": null,") != NULL,
              "%s", text);
    free(text);
    plan_fini(&plan);
}

/* SPDX-License-Identifier: MIT */
/* Tests which addresses a host has, and which networks hosts share. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util/util.h"
#include "launcher/host/network.h"
#include "launcher/remote/probe.h"

struct subnet_case {
    char text[50], want[50]; /* "": not a network */
};

ParameterizedTestParameters(network, subnets)
{
    static struct subnet_case cases[] = {
        {"10.1.2.3/16", "10.1.0.0/16"},
        {"10.1.2.3/32", "10.1.2.3/32"},
        {"10.255.255.255/9", "10.128.0.0/9"},
        {"0.0.0.0/0", "0.0.0.0/0"},
        {"fd00:1::5/64", "fd00:1::/64"},
        {"::1/128", "::1/128"},
        {"10.1.2.3", ""},
        {"10.1.2.3/33", ""},
        {"10.1.2/8", ""},
        {"/8", ""},
        {"10.1.2.3/", ""},
        {"fd00::/129", ""},
        {"eth0", ""},
        {"10.1.2.3/8 ", ""},
    };
    return cr_make_param_array(struct subnet_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct subnet_case *c, network, subnets)
{
    struct subnet s;
    struct plenum_error err = {""};
    char got[SUBNET_TEXT_MAX];
    int r = subnet_parse(c->text, &s, &err);

    if (!*c->want) {
        cr_expect(eq(int, r, -EINVAL), "%s", c->text);
        cr_expect(strstr(err.text, c->text) != NULL, "%s", err.text);
        return;
    }
    cr_assert(eq(int, r, 0), "%s", c->text);
    subnet_format(&s, got);
    cr_expect(eq(str, got, c->want));
}

struct shared_case {
    char why[50];
    char hosts[3][160]; /* addresses, separated by commas; "": no such host */
    char want[50];      /* "": none */
};

ParameterizedTestParameters(network, shared)
{
    static struct shared_case cases[] = {
        {"one network", {"eth0 10.1.0.1/16", "eno1 10.1.7.2/16"}, "10.1.0.0/16"},
        {"docker0 is everywhere",
         {"docker0 172.17.0.1/16 virtual,eth0 10.1.0.1/16",
          "docker0 172.17.0.1/16 virtual,eth0 10.1.0.2/16"},
         "10.1.0.0/16"},
        {"nothing else is shared",
         {"docker0 172.17.0.1/16 virtual,eth0 10.1.0.1/24",
          "docker0 172.17.0.1/16 virtual,eth0 10.2.0.2/24"},
         ""},
        {"two are shared: the one by which they are reached",
         {"eth0 10.1.0.1/16,ib0 10.9.0.1/16 reached", "eth0 10.1.0.2/16,ib0 10.9.0.2/16 reached"},
         "10.9.0.0/16"},
        {"a third host is not on it",
         {"eth0 10.1.0.1/16,ib0 10.9.0.1/16 reached", "eth0 10.1.0.2/16,ib0 10.9.0.2/16 reached",
          "eth0 10.1.0.3/16 reached"},
         "10.1.0.0/16"},
        {"the same bits, another prefix length", {"eth0 10.1.0.1/16", "eth0 10.1.0.2/24"}, ""},
        {"routers between them",
         {"eth0 10.1.1.1/24 reached,docker0 172.17.0.1/16 virtual", "eth0 10.1.2.1/24 reached"},
         "10.1.0.0/22"},
        {"but something virtual lies in between",
         {"eth0 10.1.1.1/24 reached,docker0 10.1.3.1/24 virtual", "eth0 10.1.2.1/24 reached"},
         ""},
        {"far apart", {"eth0 10.1.1.1/24 reached", "eth0 192.168.2.1/24 reached"}, ""},
        {"IPv4 before IPv6",
         {"eth0 fd00::1/64,eth0 10.1.0.1/16", "eth0 fd00::2/64,eth0 10.1.0.2/16"},
         "10.1.0.0/16"},
        {"only IPv6", {"eth0 fd00::1/64", "eth0 fd00::2/64"}, "fd00::/64"},
    };
    return cr_make_param_array(struct shared_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct shared_case *c, network, shared)
{
    struct network hosts[3] = {{0}};
    const struct network *list[3];
    char got[SUBNET_TEXT_MAX] = "";
    struct subnet s;
    size_t count = 0;

    for (; count < 3 && *c->hosts[count]; count++) {
        char *save = NULL;

        list[count] = &hosts[count];
        for (char *a = strtok_r(c->hosts[count], ",", &save); a; a = strtok_r(NULL, ",", &save)) {
            struct network_address address;
            char again[100];

            cr_assert(eq(int, network_parse_address(a, &address), 0), "%s", a);
            network_format_address(&address, again, sizeof(again));
            cr_assert(eq(str, again, a));
            cr_assert(eq(int, network_add(&hosts[count], &address), 0));
        }
    }
    if (network_find_shared(list, count, &s) == 0) {
        subnet_format(&s, got);
        for (size_t i = 0; i < count; i++) {
            const struct network_address *a = network_find(&hosts[i], &s);

            cr_expect(a != NULL, "%s: host %zu must be on the network", c->why, i);
            cr_expect(a && !a->is_virtual, "%s", c->why);
        }
    }
    cr_expect(eq(str, got, c->want), "%s", c->why);
    for (size_t i = 0; i < 3; i++)
        network_fini(&hosts[i]);
}

Test(network, own)
{
    struct network own = {0};

    cr_assert(eq(int, network_read(&own), 0));
    for (size_t i = 0; i < own.count; i++) {
        cr_expect(ne(str, own.list[i].interface, (char *)"lo"));
        cr_expect(gt(u32, own.list[i].at.bits, 0));
    }
    network_fini(&own);
}

Test(network, virtual_interfaces)
{
    static const char *const yes[] = {"docker0", "virbr0", "veth1a2b", "br-123", "cni0"};
    static const char *const no[] = {"eth0", "eno1", "ib0", "bond0", "br0", "enp3s0"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        cr_expect(network_is_virtual(yes[i]), "%s", yes[i]);
    for (size_t i = 0; i < ARRAY_LEN(no); i++)
        cr_expect(not(network_is_virtual(no[i])), "%s", no[i]);
}

/* ---- answers of hosts before a job ---- */

struct answer_case {
    char why[50];
    char text[300];
    char step[30], what[60]; /* "": no error */
    int64_t clock_ns;
};

#define WELL "plenumrun-probe\nversion " PACKAGE_VERSION "\ntime 1500\ndirectory 0\nprogram 0\n"

ParameterizedTestParameters(probe, answers)
{
    static struct answer_case cases[] = {
        {"all is well", WELL "memory 5 7\naddress eth0 10.0.0.1/8 reached\nend\n", "", "", 0},
        {"memory that is not a number", WELL "memory -5 7\nmemory 5 -7\nend\n", "", "", 0},
        {"a login that prints text", "Welcome!\nlast login\n" WELL "end\n", "", "", 0},
        {"unknown lines", WELL "colour blue\nend\n", "", "", 0},
        {"another version", "plenumrun-probe\nversion 0.0.1\nend\n", "version",
         "0.0.1 is installed there", 0},
        {"no directory",
         "plenumrun-probe\nversion " PACKAGE_VERSION "\ndirectory /x: No such file\nend\n",
         "working directory", "/x: No such file", 0},
        {"no program",
         "plenumrun-probe\nversion " PACKAGE_VERSION
         "\ndirectory 0\nprogram there is no 'y'\nend\n",
         "program", "there is no 'y'", 0},
        {"cut short", WELL, "log in", "truncated", 0},
        {"something else", "a\nhello\n", "log in",
         "the login printed 'hello' and ended with 0: ", 0},
        {"nothing", "", "log in", "the login printed nothing and ended with 0: ", 0},
        {"ahead", "plenumrun-probe\ntime 2500\nend\n", "", "", 500},
        {"behind", "plenumrun-probe\ntime 900\nend\n", "", "", -100},
    };
    return cr_make_param_array(struct answer_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct answer_case *c, probe, answers)
{
    struct probe p = {0};

    probe_read_answer(c->text, 1000, 2000, &p);
    cr_expect(eq(str, p.step, c->step), "%s", c->why);
    cr_expect(strstr(p.what, c->what) != NULL, "%s: '%s'", c->why, p.what);
    cr_expect(eq(i64, p.clock_ns, c->clock_ns), "%s", c->why);
    if (strstr(c->text, "memory -"))
        cr_expect(eq(u64, p.memory_total, 0));
    if (strstr(c->text, "10.0.0.1")) {
        cr_assert(eq(sz, p.network.count, 1));
        cr_expect(p.network.list[0].reached);
        cr_expect(eq(u64, p.memory_free, 5));
        cr_expect(eq(u64, p.memory_total, 7));
    }
    probe_fini(&p);
}

/* Whether a host can reach plenumrun is checked for the address that the job will use or, if that
 * is unknown, for any address. */
Test(probe, hosts_can_reach_plenumrun)
{
    static char text[] = "plenumrun-probe\nback 10.0.0.1 0\nback 10.1.0.1 Connection timed out\n"
                         "back fd00::1 No route to host\nback\nback x\nend\n";
    static const struct {
        const char *own, *what;
    } cases[] = {
        {NULL, ""},
        {"10.0.0.1", ""},
        {"10.0.0.10", ""}, /* was not probed */
        {"10.1.0.1",
         "it cannot connect to plenumrun at 10.1.0.1, port 20000 (Connection timed out): allow"},
        {"fd00::1", "plenumrun at fd00::1, port 20000 (No route to host): allow"},
    };
    struct probe p = {0};

    probe_check_back(&p, NULL, 20000);
    cr_expect(eq(int, p.failed, 0), "an older plenumrun does not report this, so it must not fail");
    probe_read_answer(text, 1000, 2000, &p);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        p.failed = false;
        p.what[0] = '\0';
        probe_check_back(&p, cases[i].own, 20000);
        cr_expect(eq(int, p.failed, cases[i].what[0] != '\0'), "%zu: %s", i, p.what);
        cr_expect(strstr(p.what, cases[i].what) != NULL, "%zu: %s", i, p.what);
    }
    probe_fini(&p);
}

Test(probe, all_problems_are_in_one_table)
{
    struct plan_host hosts[] = {
        {.name = (char *)"a"}, {.name = (char *)"longer"}, {.name = (char *)"c"}};
    struct probe probes[] = {{.host = &hosts[0]}, {.host = &hosts[1]}, {.host = &hosts[2]}};
    char *text, title[64];

    probe_fail(&probes[0], "log in", "Connection %s", "refused");
    probe_fail(&probes[0], "program", "a second failure must not be reported");
    probe_fail(&probes[1], "working directory", "/x");
    text = probe_table(probes, 3, title, sizeof(title));
    cr_expect(eq(str, title, (char *)"2 of 3 other hosts are not ready"));
    cr_expect(eq(str, text,
                 (char *)"  Host    Step               What\n"
                         "  a       log in             Connection refused\n"
                         "  longer  working directory  /x\n"));
    free(text);
}

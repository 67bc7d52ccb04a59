/* SPDX-License-Identifier: MIT */
/* Tests of addresses: which are accepted, which are rejected with a message, and the sockets made
 * from them. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/net/address.h"

struct address_case {
    char text[64];
    int want;
    unsigned count; /* for literal IP addresses, which need no look-up */
    char says[48];
};

ParameterizedTestParameters(address, parse)
{
    static struct address_case cases[] = {
        {"unix:/run/x.sock", 0, 0, ""},
        {"/run/x.sock", 0, 0, ""},
        {"unix:@x", 0, 0, ""},
        {"tcp:127.0.0.1:7000", 0, 1, ""},
        {"tcp:[::1]:7000", 0, 1, ""},
        {"tcp:host-1.example:65535", 0, 0, ""},
        {"tcp:3host:1", 0, 0, ""},
        {"", -EINVAL, 0, "is not unix:PATH"},
        {"x.sock", -EINVAL, 0, "is not unix:PATH"},
        {"unix:", -EINVAL, 0, "has no path"},
        {"unix:@", -EINVAL, 0, "has no path"},
        {"tcp:", -EINVAL, 0, "is not HOST:PORT"},
        {"tcp:host", -EINVAL, 0, "is not HOST:PORT"},
        {"tcp::7000", -EINVAL, 0, "is not HOST:PORT"},
        {"tcp:::1:7000", -EINVAL, 0, "in brackets"},
        {"tcp:[::1]7000", -EINVAL, 0, "is not HOST:PORT"},
        {"tcp:[]:7000", -EINVAL, 0, "is not HOST:PORT"},
        {"tcp:[::1::]:7000", -EINVAL, 0, "not an IPv6 address"},
        {"tcp:host:0", -EINVAL, 0, "is not a port"},
        {"tcp:host:65536", -EINVAL, 0, "is not a port"},
        {"tcp:host:", -EINVAL, 0, "is not a port"},
        {"tcp:host:x", -EINVAL, 0, "is not a port"},
        {"tcp:300.1.1.1:7000", -EINVAL, 0, "is not a valid host name"},
        {"tcp:a b:7000", -EINVAL, 0, "is not a valid host name"},
    };

    return cr_make_param_array(struct address_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct address_case *c, address, parse)
{
    struct address a = {.count = 77};
    struct plenum_error err = {""};

    cr_expect(eq(int, address_parse(c->text, &a, &err), c->want), "'%s': %s", c->text, err.text);
    if (c->want < 0) {
        cr_expect(eq(u32, a.count, 77), "a failure must not change the address");
        cr_expect(strstr(err.text, c->says) != NULL, "'%s': %s", c->text, err.text);
    } else {
        cr_expect(eq(str, a.text, c->text));
        cr_expect(eq(u32, a.count, c->count));
        cr_expect(eq(int, a.tcp, strncmp(c->text, "tcp:", 4) == 0));
    }
}

Test(address, local_addresses_are_recognised)
{
    static const struct {
        const char *text;
        bool local;
    } cases[] = {{"unix:/x", true},     {"tcp:127.0.0.1:1", true},  {"tcp:127.9.9.9:1", true},
                 {"tcp:[::1]:1", true}, {"tcp:10.0.0.1:1", false},  {"tcp:0.0.0.0:1", false},
                 {"tcp:[::]:1", false}, {"tcp:[fe80::1]:1", false}, {"tcp:unknown:1", false}};
    struct address a;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert(eq(int, address_parse(cases[i].text, &a, NULL), 0));
        cr_expect(eq(int, address_is_local(&a), cases[i].local), "%s", cases[i].text);
    }
    cr_assert(eq(int, address_parse("tcp:localhost:1", &a, NULL), 0));
    cr_assert(eq(int, address_resolve(&a, NULL), 0));
    cr_expect(address_is_local(&a));
}

Test(address, an_unknown_name_is_reported)
{
    struct plenum_error err = {""};
    struct address a;

    cr_assert(eq(int, address_parse("tcp:no-such-host.invalid:1", &a, NULL), 0));
    cr_expect(lt(int, address_resolve(&a, &err), 0));
    cr_expect(strstr(err.text, "host 'no-such-host.invalid'") != NULL, "%s", err.text);
    cr_expect(eq(int, address_connect(&a, 0), -ENOENT));
}

Test(address, a_port_alone_means_this_host)
{
    struct plenum_error err = {""};
    struct address a, b;
    char text[64];
    int fd, peer;

    cr_assert(eq(int, address_parse_listen("0", &a, &err), 0), "%s", err.text);
    cr_expect(eq(str, a.text, "tcp:127.0.0.1:0"));
    fd = address_listen(&a, 0, &err);
    cr_assert(ge(int, fd, 0), "%s", err.text);
    (void)address_of_socket(fd, text, sizeof(text));
    cr_assert(eq(int, address_parse(text, &b, &err), 0), "%s", err.text);
    peer = address_connect(&b, 3);
    cr_expect(ge(int, peer, 0));
    cr_expect(eq(int, address_listen(&b, 0, &err), -EADDRINUSE));
    cr_expect(strstr(err.text, text) != NULL, "%s", err.text);
    (void)close(peer);
    (void)close(fd);
    cr_expect(eq(int, address_parse_listen("70000", &a, &err), -EINVAL));
}

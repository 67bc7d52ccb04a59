/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "loader/store/fetch.h"
#include "loader/store/store_place.h"

struct place_case {
    char name[80], canonical[80]; /* canonical "": the name is rejected */
};

ParameterizedTestParameters(place, names)
{
    static struct place_case cases[] = {
        {"s3://bucket/a/b.tar", "s3://bucket/a/b.tar"},
        {"s3://bucket", "s3://bucket"},
        {"s3://bucket/", "s3://bucket"},
        {"s3://bucket/a b%20c+d", "s3://bucket/a b%20c+d"},
        {"s3://bucket/a//b", "s3://bucket/a//b"},
        {"s3://bucket/a?b#c", "s3://bucket/a?b#c"},
        {"s3://", ""},
        {"s3:///key", ""},
        {"s3://.bucket/key", ""},
        {"s3://user@bucket/key", ""},
        {"s3://bucket%2fa/key", ""},
        {"s3://bucket/../other", ""},
        {"s3://bucket/a/./b", ""},
        {"s3://bucket/a\nb", ""},
        {"S3://bucket/a", "s3://bucket/a"},
        {"https://Host.Example/x", "https://host.example/x"},
        {"HTTPS://host./x", "https://host/x"},
        {"https://host:443/x", "https://host/x"},
        {"https://host:0443/x", "https://host/x"},
        {"http://host:443/x", "http://host:443/x"},
        {"http://host:80/x", "http://host/x"},
        {"https://host:8080/x", "https://host:8080/x"},
        {"https://host:99999/x", ""},
        {"https://host:/x", ""},
        {"https://host:1a/x", ""},
        {"https://[::1]:80/x", "https://[::1]:80/x"},
        {"https://[::1/x", ""},
        {"https://[x]/x", ""},
        {"https:///x", ""},
        {"https://user:word@host/x", ""},
        {"https://host/a%20b", "https://host/a%20b"},
        {"https://host/a b", "https://host/a%20b"},
        {"https://host/%61", "https://host/a"},
        {"https://host/%2e%2e/x", ""},
        {"https://host/a%2fb", ""},
        {"https://host/a%00b", ""},
        {"https://host/a%zz", ""},
        {"https://host/a%2", ""},
        {"https://host/a%252e", "https://host/a%252e"},
        {"https://host/a?b", ""},
        {"https://host/a#b", ""},
        {"ftp://host/x", ""},
        {"/data/x", ""},
    };
    return cr_make_param_array(struct place_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct place_case *c, place, names)
{
    struct plenum_error err = {""};
    char *name = NULL, *again = NULL;
    int r = place_canonical(c->name, &name, &err);

    if (!c->canonical[0]) {
        cr_expect(eq(int, r, -EINVAL), "%s", c->name);
        cr_expect(err.text[0] != '\0', "%s", c->name);
        return;
    }
    cr_assert(eq(int, r, 0), "%s: %s", c->name, err.text);
    cr_expect(eq(str, name, c->canonical));
    cr_assert(eq(int, place_canonical(name, &again, &err), 0), "%s", name);
    cr_expect(eq(str, again, name)); /* the canonical form of a canonical name is the same */
    free(name);
    free(again);
}

Test(place, hosts_may_be_addresses)
{
    cr_expect(place_is_literal("127.0.0.1:9000"));
    cr_expect(place_is_literal("localhost/path"));
    cr_expect(place_is_literal("[::1]:80"));
    cr_expect(not(place_is_literal("example.org")));
    cr_expect(not(place_is_literal("localhost.example.org")));
    cr_expect(not(place_is_literal("127.0.0.1.example.org:80")));
    cr_expect(not(place_is_literal("")));
}

struct policy_case {
    char name[40];
    bool allowed;
};

ParameterizedTestParameters(place, policy)
{
    static struct policy_case cases[] = {
        {"s3://data/train", true},
        {"s3://data/train/x.tar", true},
        {"s3://data/train-2/x.tar", false},
        {"s3://data/trai", false},
        {"s3://data", false},
        {"s3://data2/train/x", false},
        {"https://host/sets/x.tar", true},
        {"http://host/sets/x.tar", false},
        {"https://host:444/sets/x", false},
        {"https://host.evil/sets/x", false},
        {"s3://whole/any/thing", true},
    };
    return cr_make_param_array(struct policy_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct policy_case *c, place, policy)
{
    static const char *const prefixes[] = {"/data", "s3://data/train", "https://host/sets",
                                           "s3://whole"};
    const struct store_policy policy = {.prefixes = prefixes, .count = 4}, none = {.count = 0};

    cr_expect(eq(int, store_policy_allows(&policy, c->name), c->allowed), "%s", c->name);
    cr_expect(not(store_policy_allows(&none, c->name)));
}

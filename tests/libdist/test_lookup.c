/* SPDX-License-Identifier: MIT */
/* Tests loaders addressed by a name that resolves to other loaders while a stream runs: the stream
 * still delivers the same as from a single loader. The test has its own getaddrinfo(), so no name
 * server is queried. */
#include "config.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <plenum/plenum.h>

#include "common/util/util.h"
#include "libdist/lookup.h"
#include "tests/daemon.h"
#include "tests/libdist/streams.h"
#include "tests/tree.h"

enum { SAMPLES = 53, LOADERS = 3, MANY = 40 };

static struct tree tree;
static char data[DATA_PATH_MAX], port[16], name[64], ips[MANY][INET_ADDRSTRLEN];
static char sockets[LOADERS][128];

/* The results of look-ups. */
static atomic_uint_fast64_t stands_for; /* addresses of "loaders.test": a bit for each of `ips` */
static atomic_uint_fast64_t more_stands_for; /* addresses of "more.test" */
static atomic_uint more_takes_ms;            /* time to look up "more.test" */
static atomic_int fails;                     /* error code of getaddrinfo(); 0: it succeeds */
static atomic_bool has_ipv6;                 /* ::1 is the first result */
static atomic_uint asked;                    /* number of look-ups */

static struct addrinfo *one(int family, const char *ip, const char *service, struct addrinfo *next)
{
    struct addrinfo hints = {.ai_family = family,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST},
                    *ret;
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (!real)
        real = (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))(
            intptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    cr_assert(eq(int, real(ip, service, &hints, &ret), 0));
    ret->ai_next = next;
    return ret;
}

PLENUM_API int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                           struct addrinfo **ret)
{
    bool more = strcmp(node, "more.test") == 0;
    uint64_t bits = more ? more_stands_for : stands_for;

    (void)hints;
    if (!more && strcmp(node, "loaders.test") != 0)
        return EAI_NONAME;
    asked++;
    if (more)
        (void)usleep(more_takes_ms * 1000); /* a slow name server */
    if (fails)
        return fails;
    *ret = NULL;
    for (int i = MANY - 1; i >= 0; i--)
        if (bits >> i & 1)
            *ret = one(AF_INET, ips[i], service, *ret);
    if (has_ipv6)
        *ret = one(AF_INET6, "::1", service, *ret);
    return *ret ? 0 : EAI_NONAME;
}

static void setup(void)
{
    unsigned me = (unsigned)getpid();

    tree_init(&tree);
    write_data(&tree, SAMPLES, data);
    /* All of 127.0.0.0/8 is this host: each process has its own port and addresses. */
    (void)snprintf(port, sizeof(port), "%u", 7100 + me % 800);
    (void)snprintf(name, sizeof(name), "tcp:loaders.test:%s", port);
    for (unsigned i = 0; i < MANY; i++)
        (void)snprintf(ips[i], sizeof(ips[i]), "127.%u.%u.%u", 100 + i, me >> 8 & 255, me & 255);
    for (unsigned i = 0; i < LOADERS; i++)
        (void)snprintf(sockets[i], sizeof(sockets[i]), "unix:%s/%u.sock", tree.root, i);
    lookup_every_ns = 50 * NS_PER_MS;
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(lookup, .init = setup, .fini = teardown, .timeout = 600);

static pid_t start(unsigned i)
{
    char listen[64];
    const char *const args[] = {"--listen", listen, "--root", tree.root, NULL};

    (void)snprintf(listen, sizeof(listen), "%s:%s", ips[i], port);
    return daemon_start_with(sockets[i], "1", args);
}

static struct plenum_stream_options options_of(const char *loader)
{
    struct plenum_stream_options o = common_options(data, loader);

    o.pipeline = "rrc(48) flip(0.5)";
    o.epochs = 12;
    return o;
}

static struct plenum_stream *opened(const char *loader)
{
    struct plenum_stream_options o = options_of(loader);

    return open_stream(NULL, &o);
}

static uint64_t hash_alone(void)
{
    struct plenum_stream *s = opened(sockets[0]);
    uint64_t hash = drain(s, UINT64_MAX);

    plenum_stream_destroy(s);
    return hash;
}

static void wait_until_asked(unsigned times)
{
    unsigned begin = asked;

    for (int i = 0; i < 6000 && asked - begin < times; i++)
        (void)usleep(10000);
    cr_assert(ge(u32, asked - begin, times));
}

static void no_warning(struct plenum_stream *s)
{
    struct plenum_error warning;

    cr_expect(eq(int, plenum_stream_take_warning(s, &warning), 0), "%s", warning.text);
}

Test(lookup, all_addresses_of_a_name_are_loaders)
{
    pid_t loaders[LOADERS];
    struct plenum_stream *s;

    for (unsigned i = 0; i < LOADERS; i++)
        loaders[i] = start(i);
    stands_for = 7;
    s = opened(name);
    wait_for_loaders(s, LOADERS);
    cr_expect(eq(u64, drain(s, UINT64_MAX), hash_alone()));
    no_warning(s);
    cr_expect(strncmp(stats_of(s).loader, "tcp:127.", 8) == 0, "%s", stats_of(s).loader);
    plenum_stream_destroy(s);
    for (unsigned i = 0; i < LOADERS; i++)
        (void)daemon_end(loaders[i], SIGTERM);
}

Test(lookup, loaders_come_and_go_while_a_stream_runs)
{
    pid_t loaders[LOADERS];
    struct plenum_stream *s;
    uint64_t hash;

    for (unsigned i = 0; i < LOADERS; i++)
        loaders[i] = start(i);
    stands_for = 1;
    s = opened(name);
    hash = drain(s, 20);
    cr_expect(eq(str, (char *)stats_of(s).loader, name));
    stands_for = 3; /* one loader is added */
    wait_for_loaders(s, 2);
    hash += drain(s, 20);
    stands_for = 6; /* one loader is removed and one added; the removed one still listens */
    wait_for_loaders(s, 2);
    wait_until_asked(2);
    wait_for_loaders(s, 2);
    (void)daemon_end(loaders[0], SIGKILL); /* no longer used by the stream */
    hash += drain(s, 20);
    no_warning(s);
    cr_expect(eq(u64, stats_of(s).incidents, 0));
    cr_expect(strstr(stats_of(s).loader, ips[1]) || strstr(stats_of(s).loader, ips[2]));

    fails = EAI_AGAIN; /* the name does not resolve for a while: the stream continues */
    wait_until_asked(2);
    cr_expect(eq(u32, stats_of(s).loaders, 2));
    hash += drain(s, 20);
    fails = EAI_NONAME;
    wait_until_asked(2);
    cr_expect(eq(u32, stats_of(s).loaders, 2));
    fails = 0;

    (void)daemon_end(loaders[1], SIGKILL); /* then another loader appears */
    (void)daemon_end(loaders[2], SIGKILL);
    loaders[0] = start(0);
    stands_for = 1;
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, hash_alone()));
    plenum_stream_destroy(s);
    (void)daemon_end(loaders[0], SIGTERM);
}

/* The last loader is used as long as there is no other, whatever the name resolves to. */
Test(lookup, the_last_loader_stays)
{
    pid_t loader = start(0);
    struct plenum_stream *s;
    uint64_t hash;

    stands_for = 1;
    s = opened(name);
    hash = drain(s, 10);
    stands_for = 2; /* no loader listens there */
    wait_until_asked(3);
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, hash_alone()));
    cr_expect(eq(u64, stats_of(s).incidents, 0));
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

/* A host's IPv4 and IPv6 addresses belong to one loader. */
Test(lookup, the_other_address_family_is_tried_if_one_fails)
{
    pid_t loader = start(0);
    struct plenum_stream *s;

    stands_for = 1;
    has_ipv6 = true; /* this address sorts before the other, and no loader listens there */
    s = opened(name);
    cr_expect(eq(u64, drain(s, UINT64_MAX), hash_alone()));
    cr_expect(eq(u32, stats_of(s).loaders, 1));
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

Test(lookup, a_name_may_become_known_later)
{
    char both[256];
    pid_t loaders[2] = {start(0), start(1)};
    struct plenum_error warning;
    struct plenum_stream *s;
    uint64_t hash;

    (void)snprintf(both, sizeof(both), "tcp:%s:%s,%s", ips[0], port, name);
    fails = EAI_NONAME;
    s = opened(both);
    cr_assert(eq(int, plenum_stream_take_warning(s, &warning), 1));
    cr_expect(strstr(warning.text, "host 'loaders.test'") != NULL, "%s", warning.text);
    hash = drain(s, 10);
    stands_for = 3; /* the first address is already in the list */
    fails = 0;
    wait_for_loaders(s, 2);
    wait_until_asked(2);
    cr_expect(eq(u32, stats_of(s).loaders, 2));
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, hash_alone()));
    no_warning(s);
    plenum_stream_destroy(s);
    for (int i = 0; i < 2; i++)
        (void)daemon_end(loaders[i], SIGTERM);
}

Test(lookup, a_name_with_too_many_addresses_is_reported)
{
    pid_t loader = start(0);
    struct plenum_error warning;
    struct plenum_stream *s;

    stands_for = (UINT64_C(1) << MANY) - 1;
    s = opened(name);
    cr_expect(eq(u64, drain(s, UINT64_MAX), hash_alone()));
    cr_assert(eq(int, plenum_stream_take_warning(s, &warning), 1));
    cr_expect(strstr(warning.text, "names more than 32 loaders") != NULL, "%s", warning.text);
    no_warning(s); /* reported once */
    plenum_stream_destroy(s);
    (void)daemon_end(loader, SIGTERM);
}

/* When all loaders are gone, the error includes the name. */
Test(lookup, the_result_of_the_name_is_reported)
{
    struct plenum_stream_options o = options_of(name);
    struct plenum_stream *s;
    struct plenum_batch b;
    struct plenum_error err;
    pid_t loader = start(0);
    int r;

    stands_for = 1;
    o.epochs = 0;
    o.loader_timeout_ns = NS_PER_SEC;
    cr_assert(eq(int, plenum_stream_open(NULL, &o, &s, &err), 0), "%s", err.text);
    (void)drain(s, 5);
    (void)daemon_end(loader, SIGKILL);
    while ((r = plenum_stream_next(s, 60 * NS_PER_SEC, &b, &err)) == 0)
        plenum_batch_release(&b);
    cr_expect(eq(int, r, -ECONNRESET));
    cr_expect(strstr(err.text, name) != NULL, "%s", err.text);
    plenum_stream_destroy(s);

    fails = EAI_NONAME;
    cr_expect(eq(int, plenum_stream_open(NULL, &o, &s, &err), -ENOENT));
    cr_expect(strstr(err.text, "host 'loaders.test' in tcp:loaders.test:") != NULL, "%s", err.text);
}

/* A loader is dropped when no name resolves to it any more. */
Test(lookup, a_loader_with_two_names_stays_while_either_resolves_to_it)
{
    char both[256];
    pid_t loaders[LOADERS];
    struct plenum_stream *s;
    uint64_t hash;
    unsigned begin;

    for (unsigned i = 0; i < LOADERS; i++)
        loaders[i] = start(i);
    (void)snprintf(both, sizeof(both), "%s,tcp:more.test:%s", name, port);
    stands_for = 3;
    more_stands_for = 5;
    more_takes_ms = 60; /* so that their look-up times do not coincide */
    s = opened(both);
    more_takes_ms = 0;
    wait_for_loaders(s, LOADERS);
    hash = drain(s, 20);
    stands_for = 2;
    for (begin = asked; asked - begin < 8;) {
        cr_assert(eq(u32, stats_of(s).loaders, LOADERS));
        (void)usleep(500);
    }
    more_stands_for = 4;
    wait_for_loaders(s, 2);
    hash += drain(s, UINT64_MAX);
    cr_expect(eq(u64, hash, hash_alone()));
    no_warning(s);
    plenum_stream_destroy(s);
    for (unsigned i = 0; i < LOADERS; i++)
        (void)daemon_end(loaders[i], SIGTERM);
}

/* If a loader has two names, its rejections are reported as one loader's. */
Test(lookup, a_loader_with_two_names_is_reported_once)
{
    char both[256];
    struct plenum_stream_options o;
    struct plenum_stream *s;
    struct plenum_error err;
    pid_t loader = start(0);

    (void)snprintf(both, sizeof(both), "%s,tcp:more.test:%s", name, port);
    stands_for = more_stands_for = 1;
    o = options_of(both);
    o.dataset = "/usr";
    cr_expect(lt(int, plenum_stream_open(NULL, &o, &s, &err), 0));
    cr_expect(strstr(err.text, "--root") && !strstr(err.text, "no loader answered"), "%s",
              err.text);
    (void)daemon_end(loader, SIGTERM);
}

/* A slow look-up must not block anything, least of all ending the stream. */
Test(lookup, a_stream_may_end_while_its_name_is_looked_up)
{
    pid_t loader = start(0);

    stands_for = 1;
    lookup_every_ns = 2; /* as often as possible */
    for (int i = 0; i < 50; i++) {
        struct plenum_stream *s = opened(name);

        (void)drain(s, 1 + (uint64_t)i % 3);
        plenum_stream_destroy(s);
    }
    (void)daemon_end(loader, SIGTERM);
}

/* SPDX-License-Identifier: MIT */
/* dial.c - the launching host does not know which of its addresses another host can reach, so it
 * lists them all, and the shim tries them all at once and uses the first that answers.
 *
 * Interfaces of containers and virtual machines on the launching host (docker0, virbr0 ...) come
 * last: other hosts have interfaces with the same name and address, on which no process listens. */
#include "config.h"

#include "launcher/control/dial.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/host/network.h"

enum { TRIES_MAX = 64 };

/* Open a TCP socket that can use a port on which closed connections linger, such as those of an
 * earlier start of the job. */
static int open_tcp(int family)
{
    const int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return fd;
}

/* Open a listening TCP socket on all addresses and `*port` (0: any; the chosen port is stored).
 * Stores in `*v6` whether it accepts IPv6, too. Returns the descriptor, or -errno with a
 * message. */
static int listen_tcp(bool *v6, uint16_t *port, struct plenum_error *err)
{
    union any_address a = {
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons(*port), .sin6_addr = in6addr_any}};
    socklen_t len = sizeof(a.v6);
    const int off = 0;
    int fd, r;

    fd = open_tcp(AF_INET6);
    *v6 = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
          bind(fd, &a.any, len) == 0;
    if (!*v6) {
        io_close(&fd);
        a = (union any_address){.v4 = {.sin_family = AF_INET, .sin_port = htons(*port)}};
        len = sizeof(a.v4);
        fd = open_tcp(AF_INET);
        if (fd < 0 || bind(fd, &a.any, len) < 0)
            goto fail;
    }
    len = sizeof(a);
    if (listen(fd, 1024) < 0 || getsockname(fd, &a.any, &len) < 0)
        goto fail;
    *port = ntohs(*v6 ? a.v6.sin6_port : a.v4.sin_port);
    return fd;

fail:
    r = -errno;
    io_close(&fd);
    return error_set(err, r, "cannot listen for the instances: %s", strerror(-r));
}

/* Append the addresses of one kind of interface, virtual or not, to `ret`. Returns 0, or
 * -ENAMETOOLONG. */
static int write_addresses(const struct ifaddrs *list, bool virtual, bool v6, uint16_t port,
                           char *ret, size_t size)
{
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        const union any_address *a = (const union any_address *)(const void *)i->ifa_addr;
        char text[INET6_ADDRSTRLEN];
        size_t len = strlen(ret);
        int n;

        if (!a || !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK ||
            network_is_virtual(i->ifa_name) != virtual)
            continue;
        if (a->any.sa_family == AF_INET) {
            (void)inet_ntop(AF_INET, &a->v4.sin_addr, text, sizeof(text));
            n = snprintf(ret + len, size - len, "%stcp:%s:%u", len ? "," : "", text, port);
        } else if (a->any.sa_family == AF_INET6 && v6 && !IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr)) {
            (void)inet_ntop(AF_INET6, &a->v6.sin6_addr, text, sizeof(text));
            n = snprintf(ret + len, size - len, "%stcp:[%s]:%u", len ? "," : "", text, port);
        } else {
            continue;
        }
        if ((size_t)n >= size - len) {
            ret[len] = '\0';
            return -ENAMETOOLONG;
        }
    }
    return 0;
}

static int describe_tcp(bool v6, uint16_t port, char *ret, size_t size, struct plenum_error *err)
{
    struct ifaddrs *list;
    int r;

    ret[0] = '\0';
    if (getifaddrs(&list) < 0) {
        r = -errno;
        return error_set(err, r, "cannot list the addresses of this host: %s", strerror(-r));
    }
    /* If there are more addresses than fit, leave out the rest. */
    if (write_addresses(list, false, v6, port, ret, size) == 0)
        (void)write_addresses(list, true, v6, port, ret, size);
    freeifaddrs(list);
    if (!ret[0]) /* no network: then every host of the job is this one */
        (void)snprintf(ret, size, "tcp:127.0.0.1:%u", port);
    return 0;
}

bool dial_find_own(const char *network, char ret[INET6_ADDRSTRLEN])
{
    const struct network_address *at;
    struct network own = {0};
    struct subnet subnet;
    bool found;

    if (!network || subnet_parse(network, &subnet, NULL) < 0 || network_read(&own) < 0)
        return false;
    at = network_find(&own, &subnet);
    found = at && inet_ntop(at->at.family, at->at.address, ret, INET6_ADDRSTRLEN);
    network_fini(&own);
    return found;
}

/* Listen on one of our addresses only. */
static int listen_at(const char *own, uint16_t port, char *ret, size_t size,
                     struct plenum_error *err)
{
    struct address address;
    char text[INET6_ADDRSTRLEN + 9];
    int fd, r;

    (void)snprintf(text, sizeof(text), strchr(own, ':') ? "[%s]:%u" : "%s:%u", own, port);
    r = address_parse_listen(text, &address, err);
    fd = r < 0 ? r : address_listen(&address, 0, err);
    if (fd >= 0)
        (void)address_of_socket(fd, ret, size);
    return fd;
}

int dial_listen_here(const char *name, char *ret, size_t size, struct plenum_error *err)
{
    struct address address;
    int fd, r;

    if ((size_t)snprintf(ret, size, "unix:@%s", name) >= size)
        return error_set(err, -ENAMETOOLONG, "the control socket's name is too long");
    r = address_parse(ret, &address, err);
    fd = r < 0 ? r : address_listen(&address, 0600, err);
    if (fd >= 0)
        io_refuse_descriptors(fd);
    return fd;
}

/* Listen on this TCP port (0: any); `own` NULL: on all of our addresses. */
static int listen_at_port(const char *own, uint16_t port, char *ret, size_t size,
                          struct plenum_error *err)
{
    bool v6 = false;
    int fd, r;

    if (own)
        return listen_at(own, port, ret, size, err);
    fd = listen_tcp(&v6, &port, err);
    if (fd < 0)
        return fd;
    r = describe_tcp(v6, port, ret, size, err);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

int dial_listen(const char *network, const struct ports *ports, char *ret, size_t size,
                struct plenum_error *err)
{
    unsigned count = ports_count_blocks(ports);
    char address[INET6_ADDRSTRLEN];
    const char *own = NULL;
    uint32_t first = 0;
    int fd = -EADDRINUSE;

    if (dial_find_own(network, address))
        own = address;
    if (count == 0)
        return listen_at_port(own, 0, ret, size, err);
    (void)random_bytes(&first, sizeof(first)); /* at random, because other hosts start jobs, too */
    for (unsigned i = 0; i < count && fd == -EADDRINUSE; i++)
        fd = listen_at_port(own, ports_get_own(ports, (first % count + i) % count), ret, size, err);
    if (fd == -EADDRINUSE)
        return error_set(
            err, fd,
            "--port-range %u-%u: no port that plenumrun could use in this range is free; give a "
            "larger or another range",
            ports->first, ports->last);
    return fd;
}

uint16_t dial_get_port(const char *addresses)
{
    const char *colon = strrchr(addresses, ':');
    uint64_t port;

    return colon && parse_u64(colon + 1, UINT16_MAX, &port) == 0 ? (uint16_t)port : 0;
}

static void keep_alive(int fd)
{
    const int on = 1;

    /* Fails on a unix socket, which does not need it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Store the peer's address in IPv6 form. */
static void note_host(const union any_address *from, struct dial_peer *ret)
{
    static const uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    if (from->any.sa_family == AF_INET6) {
        memcpy(ret->host, &from->v6.sin6_addr, sizeof(ret->host));
    } else if (from->any.sa_family == AF_INET) {
        memcpy(ret->host, mapped, sizeof(mapped));
        memcpy(ret->host + sizeof(mapped), &from->v4.sin_addr, sizeof(from->v4.sin_addr));
    }
}

int dial_accept(int listener, struct dial_peer *ret)
{
    union any_address from = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(from);
    int fd = accept4(listener, &from.any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;

    if (fd < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    *ret = (struct dial_peer){.uid = (uid_t)-1};
    if (from.any.sa_family == AF_INET || from.any.sa_family == AF_INET6) {
        keep_alive(fd);
        note_host(&from, ret);
        return fd;
    }
    len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0) {
        ret->uid = peer.uid;
        if (peer.uid == geteuid() || peer.uid == 0)
            return fd;
    }
    (void)close(fd);
    return -EPERM;
}

char *dial_format_host(const struct dial_peer *peer, char *text, size_t size)
{
    char address[INET6_ADDRSTRLEN] = "";
    const char *v4;

    (void)inet_ntop(AF_INET6, peer->host, address, sizeof(address));
    v4 = str_after(address, "::ffff:");
    (void)snprintf(text, size, "%s", v4 ? v4 : address);
    return text;
}

/* The addresses to try. */
struct tries {
    struct pollfd fds[TRIES_MAX]; /* fd -1: not in progress */
    struct address addresses[TRIES_MAX];
    bool later[TRIES_MAX]; /* not tried yet, or its backlog was full */
    size_t count;
    int error; /* the last failure */
};

static void parse_all(const char *list, struct tries *ret)
{
    *ret = (struct tries){.error = -EINVAL};
    while (*list && ret->count < TRIES_MAX) {
        char one[160];
        size_t len = strcspn(list, ",");

        if (len < sizeof(one)) {
            memcpy(one, list, len);
            one[len] = '\0';
            if (address_parse(one, &ret->addresses[ret->count], NULL) == 0) {
                ret->fds[ret->count] = (struct pollfd){.fd = -1, .events = POLLOUT};
                assert(ret->count < TRIES_MAX);
                ret->later[ret->count++] = true;
            }
        }
        list += len;
        list += *list == ',';
    }
}

/* Begin or retry pending attempts. Returns whether any address can still be reached. */
static bool begin_all(struct tries *t)
{
    bool hope = false;

    for (size_t i = 0; i < t->count; i++) {
        if (t->later[i]) {
            int fd = address_connect(&t->addresses[i], 0);

            t->later[i] = fd == -EAGAIN && !t->addresses[i].tcp;
            t->fds[i].fd = fd < 0 ? -1 : fd;
            t->error = fd < 0 ? fd : t->error;
        }
        hope |= t->later[i] || t->fds[i].fd >= 0;
    }
    return hope;
}

static bool any_later(const struct tries *t)
{
    bool later = false;

    for (size_t i = 0; i < t->count; i++)
        later |= t->later[i];
    return later;
}

/* Remove and return the first connected socket, or -1. Closes those that have failed. */
static int find_connected(struct tries *t)
{
    for (size_t i = 0; i < t->count; i++) {
        socklen_t len = sizeof(int);
        int fd = t->fds[i].fd, r = 0;

        if (fd < 0 || !t->fds[i].revents)
            continue;
        t->fds[i].fd = -1;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0)
            r = errno;
        assert(!t->later[i]);
        if (r == 0)
            return fd;
        t->error = -r;
        (void)close(fd);
    }
    return -1;
}

/* Returns whether the address is on one of this host's own networks, apart from virtual ones. */
static bool is_near(const struct network *own, const struct address *address)
{
    const union address_any *a = &address->ip[0];
    struct subnet at = {.family = a->any.sa_family};

    if (at.family == AF_INET)
        memcpy(at.address, &a->in.sin_addr, 4);
    else
        memcpy(at.address, &a->in6.sin6_addr, 16);
    for (size_t i = 0; i < own->count; i++) {
        const struct subnet network = subnet_of(&own->list[i].at);

        if (!own->list[i].is_virtual && subnet_has(&network, &at))
            return true;
    }
    return false;
}

static void tell_of(const struct address *address, int r, dial_tell *tell, void *arg)
{
    const union address_any *a = &address->ip[0];
    char text[INET6_ADDRSTRLEN];

    if (inet_ntop(a->any.sa_family,
                  a->any.sa_family == AF_INET ? (const void *)&a->in.sin_addr
                                              : (const void *)&a->in6.sin6_addr,
                  text, sizeof(text)))
        tell(arg, text, r);
}

/* Report finished attempts, and set `connected` if one has connected. Returns whether to wait for
 * others: once one has connected, only for those to near addresses. */
static bool hear_all(struct tries *t, const struct network *own, bool *connected, dial_tell *tell,
                     void *arg)
{
    bool near = false, far = false;

    for (size_t i = 0; i < t->count; i++) {
        socklen_t len = sizeof(int);
        int r = 0;

        if (t->fds[i].fd < 0)
            continue;
        if (!t->fds[i].revents) {
            *(is_near(own, &t->addresses[i]) ? &near : &far) = true;
            continue;
        }
        if (getsockopt(t->fds[i].fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0)
            r = errno;
        *connected |= r == 0;
        tell_of(&t->addresses[i], -r, tell, arg);
        io_close(&t->fds[i].fd);
    }
    return near || (far && !*connected);
}

void dial_try_all(const char *addresses, int timeout_ms, int more_ms, dial_tell *tell, void *arg)
{
    uint64_t now = time_now_ns(), end = now + (uint64_t)timeout_ms * NS_PER_MS;
    struct network own = {0};
    bool connected = false, wait = true;
    struct tries t;

    (void)network_read(&own);
    parse_all(addresses, &t);
    for (size_t i = 0; i < t.count; i++) {
        int fd = t.addresses[i].tcp ? address_connect(&t.addresses[i], 0) : -EINVAL;

        t.fds[i].fd = fd < 0 ? -1 : fd;
        if (fd < 0 && t.addresses[i].tcp)
            tell_of(&t.addresses[i], fd, tell, arg);
    }
    while (wait && (now = time_now_ns()) < end) {
        bool before = connected;

        (void)poll(t.fds, t.count, (int)((end - now) / NS_PER_MS) + 1);
        wait = hear_all(&t, &own, &connected, tell, arg);
        if (connected && !before)
            end = min_u64(end, time_now_ns() + (uint64_t)more_ms * NS_PER_MS);
    }
    for (size_t i = 0; i < t.count; i++) {
        if (t.fds[i].fd >= 0 && (!connected || is_near(&own, &t.addresses[i])))
            tell_of(&t.addresses[i], -ETIMEDOUT, tell, arg);
        io_close(&t.fds[i].fd);
    }
    network_fini(&own);
}

int dial_connect(const char *addresses, int timeout_ms, struct plenum_error *err)
{
    uint64_t deadline = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS, now;
    struct tries t;
    int fd = -1;

    parse_all(addresses, &t);
    while (fd < 0 && begin_all(&t)) {
        bool later = any_later(&t);

        now = time_now_ns();
        if (now >= deadline) {
            t.error = later ? -EAGAIN : -ETIMEDOUT;
            break;
        }
        if (poll(t.fds, t.count,
                 later ? ADDRESS_AGAIN_MS : (int)((deadline - now) / NS_PER_MS) + 1) > 0)
            fd = find_connected(&t);
    }
    for (size_t i = 0; i < t.count; i++)
        io_close(&t.fds[i].fd);
    if (fd < 0)
        return error_set(
            err, t.error, "cannot reach plenumrun at %s: %s", addresses,
            t.error == -EAGAIN
                ? "its connection queue stays full: a process on this host keeps connecting to it"
                : strerror(-t.error));
    keep_alive(fd);
    return fd;
}

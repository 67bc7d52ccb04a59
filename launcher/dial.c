/* SPDX-License-Identifier: MIT */
/* dial.c - the launching host does not know which of its addresses another host can reach, so it
 * names them all and the shim tries them all at once: the first that answers is used.
 *
 * Interfaces of containers and virtual machines on the launching host (docker0, virbr0 ...) come
 * last: other hosts have interfaces of the same name and address, on which nobody listens. */
#include "config.h"

#include "launcher/dial.h"

#include <arpa/inet.h>
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

#include "common/address.h"
#include "common/error.h"
#include "common/util.h"
#include "launcher/network.h"

enum { TRIES_MAX = 64 };

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A listening TCP socket on all addresses; `*v6`: does it take IPv6 too? */
static int listen_tcp(bool *v6, uint16_t *port, struct plenum_error *err)
{
    union any_address a = {.v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any}};
    socklen_t len = sizeof(a.v6);
    const int off = 0;
    int fd, r;

    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *v6 = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
          bind(fd, &a.any, len) == 0;
    if (!*v6) {
        io_close(&fd);
        a = (union any_address){.v4 = {.sin_family = AF_INET}};
        len = sizeof(a.v4);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

/* Append the addresses of either kind of interface: 0, or -ENAMETOOLONG. */
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
    /* More addresses than fit: the rest is left out. */
    if (write_addresses(list, false, v6, port, ret, size) == 0)
        (void)write_addresses(list, true, v6, port, ret, size);
    freeifaddrs(list);
    if (!ret[0]) /* no network: then all hosts of the list are this one */
        (void)snprintf(ret, size, "tcp:127.0.0.1:%u", port);
    return 0;
}

/* Our own address on a network, as text; false: it is not known. */
static bool find_own(const char *network, char ret[INET6_ADDRSTRLEN])
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

/* On one address of ours, and no other. */
static int listen_at(const char *own, char *ret, size_t size, struct plenum_error *err)
{
    struct address address;
    char text[INET6_ADDRSTRLEN + 8];
    int fd, r;

    (void)snprintf(text, sizeof(text), strchr(own, ':') ? "[%s]:0" : "%s:0", own);
    r = address_parse_listen(text, &address, err);
    fd = r < 0 ? r : address_listen(&address, 0, err);
    if (fd >= 0)
        (void)address_of_socket(fd, false, ret, size);
    return fd;
}

int dial_listen(bool local, const char *name, const char *network, char *ret, size_t size,
                struct plenum_error *err)
{
    char own[INET6_ADDRSTRLEN];
    struct address address;
    uint16_t port = 0;
    bool v6 = false;
    int fd, r;

    if (local) {
        if ((size_t)snprintf(ret, size, "unix:@%s", name) >= size)
            return error_set(err, -ENAMETOOLONG, "the control socket's name is too long");
        r = address_parse(ret, &address, err);
        fd = r < 0 ? r : address_listen(&address, 0600, err);
        if (fd >= 0)
            io_refuse_descriptors(fd);
        return fd;
    }
    if (find_own(network, own))
        return listen_at(own, ret, size, err);
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

static void keep_alive(int fd)
{
    const int on = 1;

    /* Fails on a unix socket, where it is not needed. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

int dial_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int domain = AF_INET;

    if (fd < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    keep_alive(fd);
    len = sizeof(domain);
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    len = sizeof(peer);
    if (domain == AF_UNIX && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
                              (peer.uid != geteuid() && peer.uid != 0))) {
        (void)close(fd);
        return -EPERM;
    }
    return fd;
}

/* A socket that is connected or on its way, or -errno. */
static int begin_connect(const char *text)
{
    struct address address;

    return address_parse(text, &address, NULL) < 0 ? -EINVAL : address_connect(&address, 0);
}

/* The first of `fds` that is connected is taken out; others that have failed are closed. */
static int find_connected(struct pollfd *fds, size_t count, int *error)
{
    for (size_t i = 0; i < count; i++) {
        socklen_t len = sizeof(int);
        int fd = fds[i].fd, r = 0;

        if (fd < 0 || !fds[i].revents)
            continue;
        fds[i].fd = -1;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0)
            r = errno;
        if (r == 0)
            return fd;
        *error = -r;
        (void)close(fd);
    }
    return -1;
}

static bool any_left(const struct pollfd *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i].fd >= 0)
            return true;
    return false;
}

int dial_connect(const char *addresses, int timeout_ms, struct plenum_error *err)
{
    uint64_t deadline = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    struct pollfd fds[TRIES_MAX];
    const char *p = addresses;
    size_t count = 0;
    int fd = -1, error = -ETIMEDOUT;

    while (*p && count < TRIES_MAX) {
        char one[160];
        size_t len = strcspn(p, ",");
        int r = -EINVAL;

        if (len < sizeof(one)) {
            memcpy(one, p, len);
            one[len] = '\0';
            r = begin_connect(one);
        }
        if (r < 0)
            error = r;
        else
            fds[count++] = (struct pollfd){.fd = r, .events = POLLOUT};
        p += len;
        p += *p == ',';
    }
    while (fd < 0 && any_left(fds, count)) {
        uint64_t now = time_now_ns();

        if (now >= deadline) {
            error = -ETIMEDOUT;
            break;
        }
        if (poll(fds, count, (int)((deadline - now) / NS_PER_MS) + 1) > 0)
            fd = find_connected(fds, count, &error);
    }
    for (size_t i = 0; i < count; i++)
        io_close(&fds[i].fd);
    if (fd < 0)
        return error_set(err, error, "cannot reach plenumrun at %s: %s", addresses,
                         strerror(-error));
    keep_alive(fd);
    return fd;
}

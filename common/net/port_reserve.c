/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/port_reserve.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/net/address.h"
#include "common/util/util.h"

static int bind_any(int fd, bool v6, uint16_t port)
{
    const struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(port)};
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = htons(port)};
    const int off = 0;

    if (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
        return -errno;
    return (v6 ? bind(fd, (const void *)&in6, sizeof(in6))
               : bind(fd, (const void *)&in, sizeof(in))) < 0
               ? -errno
               : 0;
}

/* Returns a socket that is bound to this port, alone, or -errno. */
static int take(bool v6, uint16_t port)
{
    const int on = 1;
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

    if (fd < 0)
        return -errno;
    r = bind_any(fd, v6, port);
    if (r == 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
        r = -errno;
    if (r < 0)
        io_close(&fd);
    return r < 0 ? r : fd;
}

/* Returns the port of a bound socket, or 0. */
static uint16_t port_of(int fd)
{
    union address_any a;
    socklen_t len = sizeof(a);

    if (getsockname(fd, &a.any, &len) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.in6.sin6_port : a.in.sin_port);
}

int port_reserve(uint16_t first, uint16_t last, unsigned turn, uint16_t *ret)
{
    const unsigned count = last - first + 1U;
    int fd = -EADDRINUSE;

    assert(first <= last);
    for (unsigned i = 0; i < count && fd < 0; i++) {
        uint16_t port = (uint16_t)(last - (turn % count + i) % count);

        fd = take(true, port);
        if (fd < 0 && fd != -EADDRINUSE) /* there is no IPv6 here */
            fd = take(false, port);
        if (fd < 0 && fd != -EADDRINUSE && fd != -EACCES)
            return fd;
    }
    if (fd >= 0)
        *ret = port_of(fd);
    return fd;
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/port_reserve.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* Bind to a port of the loopback interface with these options; returns a descriptor or -errno. */
static int bind_beside(uint16_t port, int reuse_address, int reuse_port)
{
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

    cr_assert(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse_address, sizeof(int));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &reuse_port, sizeof(int));
    if (bind(fd, (const void *)&a, sizeof(a)) == 0)
        return fd;
    r = -errno;
    (void)close(fd);
    return r;
}

Test(port_reserve, keeps_the_port_for_this_user)
{
    uint16_t port = 0;
    int fd = port_reserve(0, 0, 0, &port), beside, again;

    cr_assert(fd >= 0 && port > 0);
    cr_expect(eq(int, bind_beside(port, 0, 0), -EADDRINUSE));
    cr_expect(eq(int, bind_beside(port, 1, 0), -EADDRINUSE));
    beside = bind_beside(port, 1, 1);
    cr_assert(beside >= 0, "a program that reuses the port can bind to it");
    cr_expect(eq(int, listen(beside, 1), 0));
    (void)close(beside);
    again = bind_beside(port, 1, 1); /* its next program */
    cr_expect(again >= 0 && listen(again, 1) == 0);
    (void)close(again);
    (void)close(fd);
}

Test(port_reserve, another_user_cannot_have_it)
{
    uint16_t port = 0;
    int fd = port_reserve(0, 0, 0, &port);

    if (getuid() != 0)
        cr_skip_test("only root can become another user");
    cr_assert(fd >= 0);
    cr_assert(eq(int, seteuid(65534), 0));
    cr_expect(eq(int, bind_beside(port, 1, 1), -EADDRINUSE));
    cr_assert(eq(int, seteuid(0), 0));
    (void)close(fd);
}

Test(port_reserve, takes_each_port_of_a_range_once)
{
    uint16_t first = 0, ports[4] = {0}, more = 0;
    int probe, fds[4];

    /* Find four adjacent free ports. */
    for (int tries = 0; tries < 100; tries++) {
        probe = port_reserve(0, 0, 0, &first);
        cr_assert(probe >= 0);
        (void)close(probe);
        if (first > 65000)
            continue;
        for (unsigned i = 0; i < 4; i++)
            fds[i] = port_reserve(first, (uint16_t)(first + 3), i, &ports[i]);
        if (fds[3] >= 0)
            break;
        for (unsigned i = 0; i < 4; i++)
            if (fds[i] >= 0)
                (void)close(fds[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        cr_expect(eq(u16, ports[i], (uint16_t)(first + 3 - i)));
    cr_expect(eq(int, port_reserve(first, (uint16_t)(first + 3), 0, &more), -EADDRINUSE));
    for (unsigned i = 0; i < 4; i++)
        (void)close(fds[i]);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/host/network.h"

static const struct ports any;

/* Controls connect(2), which this program wraps. */
static struct {
    int listener;             /* its queue is emptied when needed */
    unsigned make_room_after; /* failures after which a connection is accepted; 0: never */
    unsigned full;            /* number of failures because the queue was full */
} queue = {.listener = -1};

static int accept_one(int listener)
{
    struct dial_peer peer;

    return dial_accept(listener, &peer);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int r = (int)syscall(SYS_connect, fd, address, len), error = errno, one;

    if (r < 0 && error == EAGAIN && ++queue.full == queue.make_room_after)
        while ((one = accept_one(queue.listener)) >= 0)
            close(one);
    errno = error;
    return r;
}

/* Send a byte from one end to the other. */
static void expect_connected(int a, int b)
{
    char c = 0;

    cr_assert(eq(int, (int)write(a, "x", 1), 1));
    for (int i = 0; i < 30000 && read(b, &c, 1) != 1; i++)
        (void)usleep(10000);
    cr_expect(eq(chr, c, 'x'));
}

static int accept_soon(int listener)
{
    for (int i = 0; i < 500; i++) {
        int fd = accept_one(listener);

        if (fd != -EAGAIN)
            return fd;
        (void)usleep(10000);
    }
    return -ETIMEDOUT;
}

static void go_through(bool local)
{
    char text[DIAL_TEXT_MAX], name[40];
    struct plenum_error err = {""};
    int listener, there, here;

    snprintf(name, sizeof(name), "test-dial-%d", (int)getpid());
    listener = local ? dial_listen_here(name, text, sizeof(text), &err)
                     : dial_listen(NULL, &any, text, sizeof(text), &err);
    cr_assert(ge(int, listener, 0), "%s", err.text);
    there = dial_connect(text, 5000, &err);
    cr_assert(ge(int, there, 0), "%s", err.text);
    here = accept_soon(listener);
    cr_assert(ge(int, here, 0));
    expect_connected(there, here);
    close(listener);
    close(there);
    close(here);
    cr_expect(lt(int, dial_connect(text, 1000, &err), 0));
    cr_expect(strstr(err.text, "cannot reach plenumrun at") != NULL, "%s", err.text);
}

Test(dial, on_this_host)
{
    go_through(true);
}

Test(dial, over_tcp)
{
    go_through(false);
}

/* A listener on the job's network cannot be reached over other networks. */
Test(dial, only_on_the_jobs_network)
{
    char text[DIAL_TEXT_MAX], subnet[SUBNET_TEXT_MAX], loopback[64];
    const struct network_address *at = NULL;
    struct network own = {0};
    struct plenum_error err = {""};
    int listener, there;

    (void)network_read(&own);
    for (size_t i = 0; i < own.count && !at; i++)
        if (own.list[i].at.family == AF_INET)
            at = &own.list[i];
    if (!at)
        cr_skip_test("this host has no address on a network");
    subnet_format(&at->at, subnet);
    listener = dial_listen(subnet, &any, text, sizeof(text), &err);
    cr_assert(ge(int, listener, 0), "%s", err.text);
    cr_expect(strchr(text, ',') == NULL, "there must be one address, not %s", text);
    there = dial_connect(text, 5000, &err);
    cr_expect(ge(int, there, 0), "%s", err.text);
    close(there);
    snprintf(loopback, sizeof(loopback), "tcp:127.0.0.1:%s", strrchr(text, ':') + 1);
    cr_expect(lt(int, dial_connect(loopback, 5000, &err), 0),
              "it must not listen on other networks");
    close(listener);
    network_fini(&own);
}

/* One address refuses, one is invalid, one is right: in any order, the right one must be chosen. */
Test(dial, the_address_that_answers_is_used)
{
    char text[DIAL_TEXT_MAX], name[40], list[DIAL_TEXT_MAX + 200];
    struct plenum_error err = {""};
    int listener, there;

    snprintf(name, sizeof(name), "test-dial-list-%d", (int)getpid());
    listener = dial_listen_here(name, text, sizeof(text), &err);
    cr_assert(ge(int, listener, 0), "%s", err.text);
    snprintf(list, sizeof(list), "tcp:127.0.0.1:1,tcp:[::1]:1,nonsense,tcp:,%s,unix:@gone", text);
    there = dial_connect(list, 5000, &err);
    cr_expect(ge(int, there, 0), "%s", err.text);
    close(there);
    close(listener);
}

static unsigned port_of(const char *text)
{
    return (unsigned)atoi(strrchr(text, ':') + 1);
}

/* Each listener must get its own block, and the last one must report that none is left. */
Test(dial, ports_of_a_range)
{
    struct ports ports = {0};
    struct plenum_error err = {""};
    char text[DIAL_TEXT_MAX];
    bool seen[8] = {false};
    int fd;

    /* Find a range in which no other program listens, below the kernel's ephemeral ports. */
    for (unsigned first = 20000; ports.last == 0 && first < 30000; first += 64) {
        bool is_free = true;

        for (unsigned p = first; p < first + 64; p++) {
            struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p)};

            fd = socket(AF_INET, SOCK_STREAM, 0);
            is_free &= bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;
            close(fd);
        }
        if (is_free)
            ports = (struct ports){.first = (uint16_t)first, .last = (uint16_t)(first + 63)};
    }
    if (ports.last == 0)
        cr_skip_test("other programs use each range that was tried");
    cr_assert(eq(u32, ports_count_blocks(&ports), 8));
    for (unsigned i = 0; i < 8; i++) {
        unsigned block;

        fd = dial_listen("127.0.0.0/8", &ports, text, sizeof(text), &err);
        cr_assert(ge(int, fd, 0), "%s", err.text);
        cr_expect(eq(u32, dial_get_port(text), port_of(text)));
        block = (port_of(text) - ports.first) / 4;
        cr_expect(eq(u32, (port_of(text) - ports.first) % 4, 0));
        cr_assert(lt(u32, block, 8));
        cr_expect(eq(int, seen[block], 0));
        seen[block] = true;
    }
    fd = dial_listen("127.0.0.0/8", &ports, text, sizeof(text), &err);
    cr_expect(eq(int, fd, -EADDRINUSE));
    cr_expect(strstr(err.text, "--port-range") != NULL, "%s", err.text);
}

/* Append the result of an attempt as text. */
static void note_try(void *arg, const char *address, int r)
{
    char *text = arg;

    (void)sprintf(text + strlen(text), "%s %s\n", address, r == 0 ? "0" : strerror(-r));
}

Test(dial, each_address_is_tried)
{
    char text[DIAL_TEXT_MAX], list[DIAL_TEXT_MAX], said[1000] = "";
    struct plenum_error err = {""};
    int listener = dial_listen("127.0.0.0/8", &any, text, sizeof(text), &err);

    cr_assert(ge(int, listener, 0), "%s", err.text);
    (void)snprintf(list, sizeof(list), "tcp:127.0.0.1:%u", port_of(text));
    dial_try_all(list, 5000, 5000, note_try, said);
    cr_expect(eq(str, said, (char *)"127.0.0.1 0\n"));
    close(listener);
    said[0] = '\0';
    dial_try_all(list, 5000, 5000, note_try, said);
    cr_expect(eq(str, said, (char *)"127.0.0.1 Connection refused\n"));
    said[0] = '\0';
    dial_try_all("nonsense,unix:@x,", 5000, 5000, note_try, said);
    cr_expect(eq(str, said, (char *)""));
}

Test(dial, times_out_without_an_answer)
{
    struct plenum_error err = {""};
    /* 192.0.2.0/24 is reserved for documentation: no answer, or an immediate error without a
     * route. */
    int r = dial_connect("tcp:192.0.2.1:9", 300, &err);

    cr_expect(lt(int, r, 0));
}

/* Returns a listener whose connection queue is full, so that connect(2) returns EAGAIN. */
static int listen_and_fill(const char *name, char *text, size_t size)
{
    struct plenum_error err = {""};
    struct address address;

    queue.listener = dial_listen_here(name, text, size, &err);
    cr_assert(ge(int, queue.listener, 0), "%s", err.text);
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    for (int i = 0; address_connect(&address, 0) >= 0; i++) /* kept open until the test ends */
        cr_assert(lt(int, i, 100000));
    queue.full = 0;
    return queue.listener;
}

Test(dial, a_full_queue_is_retried)
{
    char text[DIAL_TEXT_MAX], name[40];
    struct plenum_error err = {""};
    struct address address;
    int there;

    snprintf(name, sizeof(name), "test-dial-full-%d", (int)getpid());
    (void)listen_and_fill(name, text, sizeof(text));
    queue.make_room_after = 3;
    there = dial_connect(text, 60000, &err);
    cr_assert(ge(int, there, 0), "%s", err.text);
    cr_expect(eq(u32, queue.full, 3));
    /* address_connect_until() must do this, too. */
    cr_assert(eq(int, address_parse(text, &address, &err), 0));
    while (address_connect(&address, 0) >= 0)
        ;
    queue.full = 0;
    there = address_connect_until(&address, 0, time_now_ns() + 60 * NS_PER_SEC);
    cr_expect(ge(int, there, 0));
    cr_expect(eq(u32, queue.full, 3));
}

Test(dial, a_queue_that_stays_full_is_reported)
{
    char text[DIAL_TEXT_MAX], name[40];
    struct plenum_error err = {""};

    snprintf(name, sizeof(name), "test-dial-flood-%d", (int)getpid());
    (void)listen_and_fill(name, text, sizeof(text));
    cr_expect(eq(int, dial_connect(text, 20, &err), -EAGAIN));
    cr_expect(strstr(err.text, "its connection queue stays full") != NULL, "%s", err.text);
}

Test(dial, the_peer_is_identified)
{
    char text[DIAL_TEXT_MAX], name[40], host[64];
    struct plenum_error err = {""};
    struct dial_peer peer;
    int listener;

    snprintf(name, sizeof(name), "test-dial-who-%d", (int)getpid());
    listener = dial_listen_here(name, text, sizeof(text), &err);
    cr_assert(ge(int, dial_connect(text, 5000, &err), 0), "%s", err.text);
    cr_assert(ge(int, dial_accept(listener, &peer), 0));
    cr_expect(eq(u32, peer.uid, geteuid()));

    listener = dial_listen("127.0.0.0/8", &any, text, sizeof(text), &err);
    cr_assert(ge(int, listener, 0), "%s", err.text);
    snprintf(name, sizeof(name), "tcp:127.0.0.1:%s", strrchr(text, ':') + 1);
    cr_assert(ge(int, dial_connect(name, 5000, &err), 0), "%s", err.text);
    cr_assert(ge(int, dial_accept(listener, &peer), 0));
    cr_expect(eq(u32, peer.uid, (uid_t)-1));
    cr_expect(eq(str, dial_format_host(&peer, host, sizeof(host)), (char *)"127.0.0.1"));
}

/* SPDX-License-Identifier: MIT */
/* Checks that clients that connect over TLS get one frame, whatever others do. The TLS module
 * is linked into this program. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/refuser.h"
#include "common/net/wire.h"
#include "common/util/util.h"

enum { CLIENTS_MAX = 64, LIMIT_S = 5 }; /* refuser.c */

extern const struct tls_backend plenum_tls_backend;

static const struct tls_key loader_key = {.bytes = "0123456789abcdef0123456789abcde"};
static void *loader;
static struct refuser *refuser;
static struct frame_buffer message;
static int later_s; /* added to the time */

/* NOLINTBEGIN(bugprone-reserved-identifier): ld --wrap */
int __wrap_tls_carry(struct tls *tls, int fd, struct frame_carrier **ret);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
/* NOLINTEND(bugprone-reserved-identifier) */

int __wrap_tls_carry(struct tls *tls, int fd, struct frame_carrier **ret)
{
    return plenum_tls_backend.carry((void *)tls, fd, ret);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = __real_clock_gettime(clock, ret);

    ret->tv_sec += later_s;
    return r;
}

static void setup(void)
{
    struct wire_error m = {.code = -ENOEXEC, .text = "there is no loader"};

    cr_assert(eq(int, plenum_tls_backend.open(&loader_key, &loader), 0));
    cr_assert(eq(int, refuser_create((struct tls *)loader, &refuser), 0));
    cr_assert(eq(int, wire_put_error(&message, 0, &m), 0));
}

static void teardown(void)
{
    refuser_destroy(refuser);
    plenum_tls_backend.close(loader);
    frame_buffer_fini(&message);
}

TestSuite(refuser, .init = setup, .fini = teardown, .timeout = 600);

struct client {
    void *context;
    struct frame_conn conn;
};

/* Connects, and gives the connection to the refuser; returns the client's end. */
static int connect_one(void)
{
    int fds[2];

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0));
    refuser_take(refuser, fds[0], &message);
    return fds[1];
}

static void client_init(struct client *c, const unsigned char *secret)
{
    struct tls_key key = {.name = "alice"};
    int fd = connect_one();

    *c = (struct client){0};
    cr_assert(eq(int, plenum_tls_backend.derive(secret, key.name, key.bytes), 0));
    cr_assert(eq(int, plenum_tls_backend.open(&key, &c->context), 0));
    cr_assert(eq(int, frame_conn_init(&c->conn, fd, WIRE_MAX_PAYLOAD), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(c->context, fd, &c->conn.carrier), 0));
    frame_put_bytes(&c->conn.tx, "a request", 9);
}

static void client_fini(struct client *c)
{
    frame_conn_fini(&c->conn);
    plenum_tls_backend.close(c->context);
}

/* Lets both sides take turns. Returns 1 when the client has a frame, or -errno when its connection
 * has ended. */
static int receive(struct client *c)
{
    struct frame_header header;
    struct frame_reader payload;
    struct wire_error m;
    int64_t n = -EAGAIN;

    while (n > 0 || n == -EAGAIN) {
        (void)frame_conn_flush(&c->conn);
        refuser_dispatch(refuser);
        n = frame_conn_fill(&c->conn);
        if (frame_conn_next(&c->conn, &header, &payload) != 1)
            continue;
        cr_assert(eq(int, header.type, WIRE_ERROR));
        cr_assert(eq(int, wire_get_error(&payload, &m), 0));
        cr_expect(eq(int, m.code, -ENOEXEC));
        cr_expect(eq(str, m.text, (char *)"there is no loader"));
        return 1;
    }
    return (int)n;
}

/* Returns whether the refuser has hung up. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n;

    refuser_dispatch(refuser);
    do
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

Test(refuser, all_are_answered)
{
    static struct client clients[CLIENTS_MAX];

    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        client_init(&clients[i], loader_key.bytes);
    for (unsigned i = CLIENTS_MAX; i-- > 0;) {
        cr_expect(eq(int, receive(&clients[i]), 1), "client %u", i);
        client_fini(&clients[i]);
    }
}

Test(refuser, clients_without_the_key_get_nothing)
{
    static const unsigned char other[TLS_KEY_BYTES] = "another secret";
    struct client c;
    int fd = connect_one();

    cr_assert(eq(i64, send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18));
    cr_expect(is_closed(fd));
    (void)close(fd);
    client_init(&c, other);
    cr_expect(lt(int, receive(&c), 0));
    client_fini(&c);
}

Test(refuser, clients_that_hang_up_early_leave_room)
{
    struct client c;

    for (unsigned i = 0; i < 3 * CLIENTS_MAX; i++)
        (void)close(connect_one());
    client_init(&c, loader_key.bytes);
    cr_expect(eq(int, receive(&c), 1));
    client_fini(&c);
}

Test(refuser, the_oldest_of_many_silent_clients_make_room)
{
    int silent[CLIENTS_MAX];
    struct client c;

    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        silent[i] = connect_one();
    client_init(&c, loader_key.bytes);
    cr_expect(is_closed(silent[0]));
    cr_expect(not(is_closed(silent[1])));
    cr_expect(eq(int, receive(&c), 1));
    client_fini(&c);
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        (void)close(silent[i]);
}

Test(refuser, silent_clients_are_dropped_after_a_few_seconds)
{
    int fd = connect_one();

    later_s = LIMIT_S - 2;
    cr_expect(not(is_closed(fd)));
    later_s = LIMIT_S + 1;
    cr_expect(is_closed(fd));
    (void)close(fd);
}

/* test_tls.c - the module itself, which is linked into this program, between two ends of a socket that
 * are both ours. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/tls.h"
#include "common/util.h"

extern const struct tls_backend plenum_tls_backend;

static const char secret[] = "0123456789abcdef0123456789abcdef";

/* One side of a connection. */
struct side {
    void *context;
    struct frame_conn conn;
};

static struct side side_of(const char *key, int fd, bool server)
{
    struct side s = {0};

    cr_assert(eq(int, plenum_tls_backend.open(key, strlen(key), &s.context), 0));
    cr_assert(eq(int, frame_conn_init(&s.conn, fd, 1 << 20), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(s.context, fd, server, &s.conn.carrier), 0));
    return s;
}

static void end(struct side *s)
{
    frame_conn_fini(&s->conn);
    plenum_tls_backend.close(s->context);
}

static void put(struct side *s, const char *text)
{
    size_t begin = frame_begin(&s->conn.tx, 7, 0);

    frame_put_text(&s->conn.tx, text);
    cr_assert(eq(int, frame_end(&s->conn.tx, begin), 0));
}

static void expect_text(struct side *s, const char *text)
{
    struct frame_header header;
    struct frame_reader payload;
    char got[64];

    cr_assert(eq(int, frame_conn_next(&s->conn, &header, &payload), 1));
    frame_get_text(&payload, got, sizeof(got));
    cr_expect(eq(str, got, (char *)(uintptr_t)text));
}

static void connect_two(int fds[2])
{
    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0));
}

Test(tls, who_has_the_key_understands)
{
    struct side a, b;
    int fds[2];

    connect_two(fds);
    a = side_of(secret, fds[0], false);
    b = side_of(secret, fds[1], true);
    put(&a, "hello");
    for (int i = 0; i < 4; i++) {
        (void)frame_conn_flush(&a.conn);
        (void)frame_conn_fill(&b.conn);
    }
    expect_text(&b, "hello");
    put(&b, "and hello");
    cr_expect(eq(int, frame_conn_flush(&b.conn), 0));
    cr_expect(gt(i64, frame_conn_fill(&a.conn), 0));
    expect_text(&a, "and hello");
    end(&a);
    end(&b);
}

/* What is said before the other side's answer is there waits for it, and no longer: whoever reads the
 * last of it. */
Test(tls, a_handshake_that_ends_while_reading_lets_writers_go)
{
    struct side a, b;
    int client[2], server[2];
    char flight[65536];
    ssize_t len;

    connect_two(client);
    connect_two(server);
    a = side_of(secret, client[0], false);
    b = side_of(secret, server[0], true);
    put(&a, "hello");
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN));
    cr_expect(not(frame_conn_wants_write(&a.conn)), "it waits for an answer");
    len = recv(client[1], flight, sizeof(flight), 0);
    cr_assert(eq(i64, send(server[1], flight, (size_t)len, 0), len));
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    len = recv(server[1], flight, sizeof(flight), 0);

    cr_assert(eq(i64, send(client[1], flight, 100, 0), 100));
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN), "half of an answer is none");
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    cr_assert(eq(i64, send(client[1], flight + 100, (size_t)len - 100, 0), len - 100));
    cr_assert(eq(i64, frame_conn_fill(&a.conn), -EAGAIN));
    cr_expect(frame_conn_wants_write(&a.conn), "now it can be sent");
    cr_expect(eq(int, frame_conn_flush(&a.conn), 0));
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    end(&a);
    end(&b);
    (void)close(client[1]);
    (void)close(server[1]);
}

/* A socket that is full holds up the flight of a side that has nothing to say itself. */
Test(tls, a_handshake_that_cannot_be_written_wants_to)
{
    int client[2], server[2], least = 1;
    struct side a, b;
    char bytes[65536], hello[4096];
    ssize_t len;

    connect_two(client);
    connect_two(server);
    a = side_of(secret, client[0], false);
    b = side_of(secret, server[0], true);
    put(&a, "hello");
    (void)frame_conn_flush(&a.conn);
    len = recv(client[1], hello, sizeof(hello), 0);
    (void)setsockopt(server[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    memset(bytes, 0, sizeof(bytes));
    while (send(server[0], bytes, 64, MSG_DONTWAIT) > 0)
        ;
    cr_assert(eq(i64, send(server[1], hello, (size_t)len, 0), len));
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    cr_expect(frame_conn_wants_write(&b.conn));
    while (recv(server[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    cr_expect(not(frame_conn_wants_write(&b.conn)));
    cr_expect(gt(i64, recv(server[1], bytes, sizeof(bytes), MSG_DONTWAIT), 0), "its flight");
    end(&a);
    end(&b);
    (void)close(client[1]);
    (void)close(server[1]);
}

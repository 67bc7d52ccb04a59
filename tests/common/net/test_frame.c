/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/frame.h"
#include "common/util/util.h"

Test(frame, frames_are_read_as_written)
{
    struct frame_buffer b = {0};
    struct frame_header h;
    struct frame_reader r;
    char text[16];
    size_t begin = frame_begin(&b, 7, 0x1122334455667788);

    frame_put_u8(&b, 0xab);
    frame_put_u16(&b, 0x1234);
    frame_put_u32(&b, 0xdeadbeef);
    frame_put_u64(&b, UINT64_MAX - 1);
    frame_put_text(&b, "hello");
    frame_put_text(&b, "");
    cr_assert(eq(int, frame_end(&b, begin), 0));

    cr_assert(eq(i64, frame_parse(b.bytes, b.len, 100, &h, &r), (int64_t)b.len));
    cr_expect(eq(u16, h.type, 7));
    cr_expect(eq(u64, h.request, 0x1122334455667788));
    cr_expect(eq(u8, frame_get_u8(&r), 0xab));
    cr_expect(eq(u16, frame_get_u16(&r), 0x1234));
    cr_expect(eq(u32, frame_get_u32(&r), 0xdeadbeef));
    cr_expect(eq(u64, frame_get_u64(&r), UINT64_MAX - 1));
    frame_get_text(&r, text, sizeof(text));
    cr_expect(eq(str, text, "hello"));
    frame_get_text(&r, text, sizeof(text));
    cr_expect(eq(str, text, ""));
    cr_expect(not(r.bad));
    cr_expect(eq(u32, frame_get_u32(&r), 0), "nothing must be left");
    cr_expect(r.bad);
    frame_buffer_fini(&b);
}

Test(frame, an_incomplete_frame_waits_and_a_false_length_is_rejected)
{
    struct frame_buffer b = {0};
    struct frame_header h = {.type = 99};
    struct frame_reader r;
    size_t begin = frame_begin(&b, 1, 2);

    frame_put_u64(&b, 3);
    (void)frame_end(&b, begin);
    for (size_t len = 0; len < b.len; len++)
        cr_assert(eq(i64, frame_parse(b.bytes, len, 100, &h, &r), 0), "%zu bytes", len);
    cr_expect(eq(u16, h.type, 99), "an incomplete frame must not change the header");
    cr_expect(eq(i64, frame_parse(b.bytes, b.len, 7, &h, &r), -EPROTO),
              "a frame longer than allowed");
    cr_expect(eq(i64, frame_parse(b.bytes, FRAME_HEADER_BYTES, 7, &h, &r), -EPROTO),
              "the header must suffice to reject a frame");
    b.bytes[6] = 1;
    cr_expect(eq(i64, frame_parse(b.bytes, b.len, 100, &h, &r), -EPROTO),
              "reserved bytes that are not 0");
    frame_buffer_fini(&b);
}

Test(frame, strings_are_bounded_and_have_no_nul)
{
    static const uint8_t nul[] = {3, 0, 0, 0, 'a', 0, 'b'};
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'a'};
    struct frame_reader r = {.at = nul, .end = nul + sizeof(nul)};
    char text[4] = "xyz";

    frame_get_text(&r, text, sizeof(text));
    cr_expect(r.bad);
    cr_expect(eq(str, text, ""));
    r = (struct frame_reader){.at = huge, .end = huge + sizeof(huge)};
    frame_get_text(&r, text, sizeof(text));
    cr_expect(r.bad);
    r = (struct frame_reader){.at = nul, .end = nul + sizeof(nul)};
    frame_get_text(&r, text, 3);
    cr_expect(r.bad, "a string without room for its NUL must be rejected");
}

static void pair(struct frame_conn *a, struct frame_conn *b)
{
    int fds[2];

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0));
    cr_assert(eq(int, frame_conn_init(a, fds[0], 1 << 20), 0));
    cr_assert(eq(int, frame_conn_init(b, fds[1], 1 << 20), 0));
}

static void put(struct frame_conn *c, uint16_t type, size_t bytes)
{
    size_t begin = frame_begin(&c->tx, type, bytes);
    uint8_t *p = calloc(1, bytes + 1);

    frame_put_bytes(&c->tx, p, bytes);
    free(p);
    cr_assert(eq(int, frame_end(&c->tx, begin), 0));
}

/* Frames of all sizes pass through a socket that is full most of the time. */
Test(conn, frames_arrive_whole_and_in_order)
{
    struct frame_conn a, b;
    struct frame_header h;
    struct frame_reader r;
    uint64_t got = 0;
    enum { COUNT = 300 };

    pair(&a, &b);
    for (uint64_t i = 0; i < COUNT; i++)
        put(&a, (uint16_t)i, i * 37 % 20000);
    while (got < COUNT) {
        int sent = frame_conn_flush(&a);

        cr_assert(sent == 0 || sent == -EAGAIN);
        for (int64_t n; (n = frame_conn_fill(&b)) != -EAGAIN;) {
            cr_assert(gt(i64, n, 0));
            while (frame_conn_next(&b, &h, &r) == 1) {
                cr_assert(eq(u16, h.type, (uint16_t)got));
                cr_assert(eq(u32, h.len, (uint32_t)(got * 37 % 20000)));
                got++;
            }
        }
    }
    frame_conn_fini(&a);
    cr_expect(eq(i64, frame_conn_fill(&b), -ECONNRESET), "the end must be reported");
    frame_conn_fini(&b);
}

/* A caller that waits for the answer to a message that was never queued would wait forever. */
Test(conn, a_connection_that_lost_a_message_fails)
{
    struct frame_conn a, b;
    size_t begin;

    pair(&a, &b);
    put(&a, 1, 100);
    begin = frame_begin(&a.tx, 2, 0);
    frame_put_bytes(&a.tx, "", SIZE_MAX / 2);
    cr_expect(eq(int, frame_end(&a.tx, begin), -ENOMEM));
    cr_expect(eq(int, frame_conn_flush(&a), -ENOMEM));
    put(&a, 3, 100);
    cr_expect(eq(int, frame_conn_flush(&a), -ENOMEM));
    frame_conn_fini(&a);
    frame_conn_fini(&b);
}

/* The descriptor must arrive with its own frame, not with one before it. */
Test(conn, a_descriptor_comes_with_its_frame)
{
    struct frame_conn a, b;
    struct frame_header h;
    struct frame_reader r;
    struct stat sent, got;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), taken;

    pair(&a, &b);
    b.takes_fd = true;
    put(&a, 1, 100);
    cr_assert(eq(int, fstat(fd, &sent), 0));
    cr_assert(eq(int, frame_conn_attach_fd(&a, fd), 0));
    put(&a, 2, 100);
    put(&a, 3, 100);
    cr_expect(eq(int, frame_conn_attach_fd(&a, fd), -EBUSY));
    cr_assert(eq(int, frame_conn_flush(&a), 0));
    cr_expect(eq(int, a.tx_fd, -1), "a sent descriptor must not be kept");
    while (frame_conn_fill(&b) > 0)
        ;
    for (uint16_t type = 1; type <= 3; type++) {
        cr_assert(eq(int, frame_conn_next(&b, &h, &r), 1));
        cr_assert(eq(u16, h.type, type));
    }
    taken = frame_conn_take_fd(&b);
    cr_assert(ge(int, taken, 0));
    cr_assert(eq(int, fstat(taken, &got), 0));
    cr_expect(eq(u64, got.st_rdev, sent.st_rdev));
    cr_expect(ne(int, fcntl(taken, F_GETFD) & FD_CLOEXEC, 0));
    cr_expect(eq(int, frame_conn_take_fd(&b), -1), "a descriptor must be returned once");
    (void)close(taken);
    frame_conn_fini(&a);
    frame_conn_fini(&b);
}

Test(conn, unused_descriptors_do_not_pile_up)
{
    struct frame_conn a, b;
    int before = dup(0), after;

    (void)close(before);
    pair(&a, &b);
    for (int i = 0; i < 100; i++) {
        cr_assert(eq(int, frame_conn_attach_fd(&a, open("/dev/null", O_RDONLY)), 0));
        put(&a, 1, 10);
        cr_assert(eq(int, frame_conn_flush(&a), 0));
        while (frame_conn_fill(&b) > 0)
            ;
    }
    frame_conn_fini(&a);
    frame_conn_fini(&b);
    after = dup(0);
    cr_expect(eq(int, after, before), "none of a hundred descriptors may stay open");
    (void)close(after);
}

/* Sends one urgent byte with a descriptor. */
static void send_urgent(int fd)
{
    union io_descriptor_room control;
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    io_attach_descriptor(&msg, &control, 0);
    if (sendmsg(fd, &msg, MSG_OOB) < 0)
        cr_skip("this kernel has no urgent bytes in unix sockets");
}

/* An urgent byte is read like any other. Otherwise the kernel would drop it and, during one of our
 * calls, close the descriptor attached to it. */
Test(conn, an_urgent_byte_is_an_ordinary_byte)
{
    char text[FRAME_HEADER_BYTES] = {0};
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn a, b;

    pair(&a, &b);
    send_urgent(a.fd);
    cr_assert(eq(i64, send(a.fd, text + 1, sizeof(text) - 1, 0), sizeof(text) - 1));
    while (frame_conn_fill(&b) > 0)
        ;
    cr_expect(eq(int, frame_conn_next(&b, &h, &r), 1));
    cr_expect(eq(u32, b.unwanted_fds, 1));
    frame_conn_fini(&a);
    frame_conn_fini(&b);
}

Test(conn, a_peek_leaves_descriptors_in_the_socket)
{
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn a, b;
    int before, after;

    pair(&a, &b);
    b.leaves_fds = true;
    put(&a, 1, 10);
    cr_assert(eq(int, frame_conn_flush(&a), 0));
    cr_expect(not(frame_holds_fds(b.fd)));
    cr_expect(gt(i64, frame_conn_fill(&b), 0));
    cr_expect(eq(i64, frame_conn_fill(&b), -EAGAIN));
    put(&a, 2, 10);
    cr_assert(eq(int, frame_conn_flush(&a), 0));
    before = dup(0);
    (void)close(before);
    cr_assert(eq(int, frame_conn_attach_fd(&a, dup(0)), 0));
    put(&a, 3, 10);
    cr_assert(eq(int, frame_conn_flush(&a), 0));
    cr_expect(eq(i64, frame_conn_fill(&b), -EPROTO));
    cr_expect(eq(i64, frame_conn_fill(&b), -EPROTO));
    cr_expect(frame_holds_fds(b.fd));
    cr_expect(eq(int, frame_conn_next(&b, &h, &r), 1));
    cr_expect(eq(int, frame_conn_next(&b, &h, &r), 0), "nothing after the byte must be read");
    after = dup(0);
    cr_expect(eq(int, after, before));
    (void)close(after);
    frame_conn_fini(&a);
    cr_expect(eq(i64, frame_conn_fill(&b), -EPROTO));
    cr_expect(frame_holds_fds(b.fd), "descriptors must arrive even if the other end is closed");
    frame_conn_fini(&b);
}

/* A peek ends at an urgent byte: there may be more data after it. */
Test(conn, descriptors_after_an_urgent_byte_arrive)
{
    static char text[60000];
    struct frame_conn a, b;

    pair(&a, &b);
    b.leaves_fds = true;
    cr_assert(eq(i64, send(a.fd, text, 5000, 0), 5000));
    cr_expect(not(frame_holds_fds(b.fd)));
    send_urgent(a.fd);
    cr_expect(frame_holds_fds(b.fd));
    cr_assert(eq(i64, send(a.fd, text, sizeof(text), 0), sizeof(text)));
    cr_expect(frame_holds_fds(b.fd));
    frame_conn_fini(&a);
    cr_expect(frame_holds_fds(b.fd));
    frame_conn_fini(&b);
}

/* If a sender always has something pending, its buffer holds only that, not everything it ever
 * sent. */
Test(frame, sent_bytes_are_dropped)
{
    static char sink[1 << 16];
    struct frame_conn conn;
    uint64_t sent = 0;
    int fds[2];

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0));
    cr_assert(eq(int, frame_conn_init(&conn, fds[0], 1 << 20), 0));
    while (sent < (64 << 20)) {
        while (frame_conn_pending(&conn) < (1 << 19)) {
            size_t begin = frame_begin(&conn.tx, 1, 0);

            frame_put_bytes(&conn.tx, sink, 40000);
            cr_assert(eq(int, frame_end(&conn.tx, begin), 0));
        }
        cr_assert(eq(int, frame_conn_flush(&conn), -EAGAIN));
        for (int i = 0; i < 4; i++) {
            ssize_t n = read(fds[1], sink, sizeof(sink));

            cr_assert(gt(int, (int)n, 0));
            sent += (uint64_t)n;
        }
    }
    cr_expect(lt(sz, conn.tx.cap, 4 << 20), "%zu bytes are kept", conn.tx.cap);
    frame_conn_fini(&conn);
    (void)close(fds[1]);
}

/* Bulks between frames pass through a socket that is full most of the time: everything arrives in
 * order, and each bulk in the memory that the reader has chosen. */
Test(conn, a_bulk_arrives_after_its_frame)
{
    enum { ROUNDS = 40, BULK_MAX = 1 << 20 };
    static uint8_t sent[BULK_MAX], got[BULK_MAX];
    struct frame_conn a, b;
    struct frame_header h;
    struct frame_reader r;

    pair(&a, &b);
    for (size_t i = 0; i < sizeof(sent); i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t len = round % 4 == 3 ? 0 : (round * 65537 + 1) % BULK_MAX, have = 0, frames = 0;

        put(&a, 1, round * 100);
        put(&a, 2, 3);
        cr_assert(eq(int, frame_conn_attach_bulk(&a, sent, len), 0));
        if (len > 0)
            cr_expect(eq(int, frame_conn_attach_bulk(&a, sent, 1), -EBUSY),
                      "only one bulk at a time");
        put(&a, 3, round);
        while (frames < 3) {
            int s = frame_conn_flush(&a);
            int64_t n;

            cr_assert(s == 0 || s == -EAGAIN);
            if (frames == 2 && have < len) {
                n = frame_conn_read_bulk(&b, got + have, len - have);
                cr_assert(n > 0 || n == -EAGAIN, "%lld", (long long)n);
                have += n > 0 ? (size_t)n : 0;
                continue;
            }
            n = frame_conn_fill(&b);
            cr_assert(n > 0 || n == -EAGAIN);
            while ((frames < 2 || have == len) && frames < 3 && frame_conn_next(&b, &h, &r) == 1)
                cr_assert(eq(u16, h.type, (uint16_t)++frames));
        }
        cr_assert(eq(sz, frame_conn_bulk_left(&a), 0));
        cr_assert(eq(sz, frame_conn_pending(&a), 0));
        cr_assert(eq(int, memcmp(sent, got, len), 0), "round %zu", round);
        memset(got, 0, len);
    }
    frame_conn_fini(&a);
    frame_conn_fini(&b);
}

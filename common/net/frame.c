/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/frame.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    /* descriptors per message (SCM_MAX_FD); without room the kernel would close them */
    FDS_MAX = 253,
    /* one TLS record, so that no bytes stay in a carrier, where poll() does not see them */
    FILL_LEAST = 16 * 1024,
    TX_COMPACT_BYTES = 64 * 1024,
    NOWHERE_BYTES = 4096,
    NOWHERE_TIMES = 256, /* more than the kernel queues for one connection */
    /* bytes per call, so that one fast reader does not delay all others */
    FLUSH_MAX = 4 << 20,
};

void frame_buffer_fini(struct frame_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct frame_buffer){0};
}

static uint8_t *reserve(struct frame_buffer *b, size_t more)
{
    assert(b->len <= b->cap);
    b->failed = b->failed || more > SIZE_MAX / 4 - b->len ||
                array_reserve(&b->bytes, &b->cap, b->len + more, 1) < 0;
    return b->failed ? NULL : b->bytes + b->len;
}

void frame_put_bytes(struct frame_buffer *b, const void *bytes, size_t len)
{
    uint8_t *p;

    if (len == 0)
        return;
    p = reserve(b, len);
    if (!p)
        return;
    memcpy(p, bytes, len);
    b->len += len;
}

/* The host is little-endian (checked by configure), so values are stored in wire form. */
void frame_put_u8(struct frame_buffer *b, uint8_t v)
{
    frame_put_bytes(b, &v, sizeof(v));
}

void frame_put_u16(struct frame_buffer *b, uint16_t v)
{
    frame_put_bytes(b, &v, sizeof(v));
}

void frame_put_u32(struct frame_buffer *b, uint32_t v)
{
    frame_put_bytes(b, &v, sizeof(v));
}

void frame_put_u64(struct frame_buffer *b, uint64_t v)
{
    frame_put_bytes(b, &v, sizeof(v));
}

void frame_put_text(struct frame_buffer *b, const char *text)
{
    size_t len = strlen(text);

    assert(len <= UINT32_MAX);
    frame_put_u32(b, (uint32_t)len);
    frame_put_bytes(b, text, len);
}

size_t frame_begin(struct frame_buffer *b, uint16_t type, uint64_t request)
{
    size_t begin = b->len;

    frame_put_u32(b, 0);
    frame_put_u16(b, type);
    frame_put_u16(b, 0);
    frame_put_u64(b, request);
    return begin;
}

int frame_end(struct frame_buffer *b, size_t begin)
{
    uint32_t len;

    assert(begin <= b->len && b->len <= b->cap);
    if (b->ended)
        b->ended(b->ended_arg);
    if (b->failed) {
        b->failed = false;
        b->lost = true;
        b->len = begin;
        return -ENOMEM;
    }
    assert(b->len - begin >= FRAME_HEADER_BYTES);
    assert(b->len - begin - FRAME_HEADER_BYTES <= UINT32_MAX);
    len = (uint32_t)(b->len - begin - FRAME_HEADER_BYTES);
    memcpy(b->bytes + begin, &len, sizeof(len));
    return 0;
}

uint32_t frame_get_choice(struct frame_reader *r, uint32_t count)
{
    uint32_t v = frame_get_u32(r);

    if (v < count)
        return v;
    r->bad = true;
    return 0;
}

const uint8_t *frame_get_view(struct frame_reader *r, size_t len)
{
    const uint8_t *at = r->at;

    assert(r->at <= r->end);
    if (r->bad || (size_t)(r->end - r->at) < len) {
        r->bad = true;
        return NULL;
    }
    r->at += len;
    return at;
}

void frame_get_bytes(struct frame_reader *r, void *ret, size_t len)
{
    const uint8_t *p = frame_get_view(r, len);

    if (p)
        memcpy(ret, p, len);
    else
        memset(ret, 0, len);
}

uint8_t frame_get_u8(struct frame_reader *r)
{
    uint8_t v;

    frame_get_bytes(r, &v, sizeof(v));
    return v;
}

uint16_t frame_get_u16(struct frame_reader *r)
{
    uint16_t v;

    frame_get_bytes(r, &v, sizeof(v));
    return v;
}

uint32_t frame_get_u32(struct frame_reader *r)
{
    uint32_t v;

    frame_get_bytes(r, &v, sizeof(v));
    return v;
}

uint64_t frame_get_u64(struct frame_reader *r)
{
    uint64_t v;

    frame_get_bytes(r, &v, sizeof(v));
    return v;
}

void frame_get_text(struct frame_reader *r, char *ret, size_t size)
{
    uint32_t len = frame_get_u32(r);
    const uint8_t *p;

    assert(size > 0);
    ret[0] = '\0';
    if (len >= size) {
        r->bad = true;
        return;
    }
    p = frame_get_view(r, len);
    if (!p || len == 0)
        return;
    if (memchr(p, 0, len)) {
        r->bad = true;
        return;
    }
    memcpy(ret, p, len);
    ret[len] = '\0';
}

int64_t frame_parse(const uint8_t *bytes, size_t len, uint32_t max_payload,
                    struct frame_header *header, struct frame_reader *payload)
{
    struct frame_reader r = {.at = bytes, .end = bytes + len};
    struct frame_header h;

    if (len < FRAME_HEADER_BYTES)
        return 0;
    h.len = frame_get_u32(&r);
    h.type = frame_get_u16(&r);
    if (frame_get_u16(&r) != 0 || h.len > max_payload)
        return -EPROTO;
    h.request = frame_get_u64(&r);
    if (len - FRAME_HEADER_BYTES < h.len)
        return 0;
    assert(r.at == bytes + FRAME_HEADER_BYTES);
    *header = h;
    *payload = (struct frame_reader){.at = r.at, .end = r.at + h.len};
    return (int64_t)FRAME_HEADER_BYTES + h.len;
}

/* Read urgent bytes in band, like all others. Otherwise the kernel would drop them, with their
 * descriptors, in the middle of a call. */
static void read_urgent_bytes(int fd)
{
    const int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
}

int frame_conn_init(struct frame_conn *conn, int fd, uint32_t max_payload)
{
    read_urgent_bytes(fd);
    *conn = (struct frame_conn){.fd = fd, .max_payload = max_payload, .tx_fd = -1, .rx_fd = -1};
    return io_set_nonblock(fd);
}

/* Close a descriptor that the other side sent, or a socket whose queue may hold such
 * descriptors. */
static void drop_fd(const struct frame_conn *conn, int *fd)
{
    if (*fd >= 0 && conn->close_fd)
        conn->close_fd(conn->close_arg, *fd);
    else
        io_close(fd);
    *fd = -1;
}

void frame_conn_hang_up(struct frame_conn *conn)
{
    if (conn->fd >= 0 && conn->close_fd)
        (void)shutdown(conn->fd, SHUT_RDWR); /* close() could block */
    drop_fd(conn, &conn->fd);
}

void frame_conn_fini(struct frame_conn *conn)
{
    if (conn->carrier)
        conn->carrier->destroy(conn->carrier);
    conn->carrier = NULL;
    frame_conn_hang_up(conn);
    io_close(&conn->tx_fd);
    drop_fd(conn, &conn->rx_fd);
    frame_buffer_fini(&conn->rx);
    frame_buffer_fini(&conn->tx);
    conn->bulk = NULL;
    conn->bulk_left = 0;
}

/* Take the descriptors that came with a message. The protocol sends at most one, which is kept if
 * one is expected. All others are closed: a copy of the other side's own end, for example, would
 * keep the connection open. */
static void receive_fds(struct frame_conn *conn, struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (conn->takes_fd && conn->rx_fd < 0) {
                conn->rx_fd = fd;
                continue;
            }
            conn->unwanted_fds++;
            drop_fd(conn, &fd);
        }
    }
}

/* Read bytes, but no descriptors. If a descriptor is read without room for it, the kernel closes it
 * before the call returns, and the other side decides how long that takes. So peek at the bytes
 * first, and read only up to such a descriptor. */
static ssize_t receive_bytes(int fd, struct iovec *iov)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 1};
    ssize_t n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);

    if (n > 0 && (msg.msg_flags & MSG_CTRUNC)) {
        errno = EPROTO;
        return -1;
    }
    return n > 0 ? recv(fd, iov->iov_base, (size_t)n, MSG_DONTWAIT) : n;
}

int64_t frame_conn_fill(struct frame_conn *conn)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    assert(conn->rx_at <= conn->rx.len);
    if (conn->rx_at > 0) {
        memmove(conn->rx.bytes, conn->rx.bytes + conn->rx_at, conn->rx.len - conn->rx_at);
        conn->rx.len -= conn->rx_at;
        conn->rx_at = 0;
    }
    /* At most one incomplete frame is buffered, so max_payload bounds the buffer. */
    iov.iov_base = reserve(&conn->rx, FILL_LEAST);
    if (!iov.iov_base) {
        conn->rx.failed = false;
        return -ENOMEM;
    }
    iov.iov_len = conn->rx.cap - conn->rx.len;
    assert(iov.iov_len >= FILL_LEAST);
    if (conn->carrier) {
        int64_t got = conn->carrier->read(conn->carrier, iov.iov_base, iov.iov_len);

        conn->rx.len += got > 0 ? (size_t)got : 0;
        return got;
    }
    msg.msg_control = control.bytes;
    msg.msg_controllen = sizeof(control.bytes);
    do
        n = conn->leaves_fds ? receive_bytes(conn->fd, &iov)
                             : recvmsg(conn->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (!conn->leaves_fds) {
        receive_fds(conn, &msg);
        conn->lost_fds |= (msg.msg_flags & MSG_CTRUNC) != 0;
    }
    if (n == 0)
        return -ECONNRESET;
    conn->rx.len += (size_t)n;
    return n;
}

int frame_conn_next(struct frame_conn *conn, struct frame_header *header,
                    struct frame_reader *payload)
{
    int64_t n;

    assert(conn->rx_at <= conn->rx.len);
    if (conn->rx.len == conn->rx_at)
        return 0;
    n = frame_parse(conn->rx.bytes + conn->rx_at, conn->rx.len - conn->rx_at, conn->max_payload,
                    header, payload);
    if (n <= 0)
        return (int)n;
    assert((size_t)n <= conn->rx.len - conn->rx_at);
    conn->rx_at += (size_t)n;
    return 1;
}

/* Remove sent bytes once there are many. Otherwise a connection that always has pending output
 * would keep everything that it ever sent. */
static void compact_tx(struct frame_conn *conn)
{
    assert(conn->tx_at <= conn->tx.len);
    assert(!conn->bulk || conn->bulk_at >= conn->tx_at);
    if (conn->tx_at < TX_COMPACT_BYTES || conn->tx_at < conn->tx.len / 2)
        return;
    memmove(conn->tx.bytes, conn->tx.bytes + conn->tx_at, conn->tx.len - conn->tx_at);
    assert(conn->tx_fd < 0 || conn->tx_fd_at >= conn->tx_at); /* not sent yet */
    conn->tx.len -= conn->tx_at;
    if (conn->tx_fd >= 0)
        conn->tx_fd_at -= conn->tx_at;
    if (conn->bulk)
        conn->bulk_at -= conn->tx_at;
    conn->tx_at = 0;
}

/* Get the next pieces to send, in order: frames, the bulk, frames. Returns their number. */
static size_t next_pieces(const struct frame_conn *conn, struct iovec iov[3])
{
    size_t at = conn->tx_at, n = 0;

    assert(!conn->bulk || (conn->bulk_left > 0 && conn->bulk_at <= conn->tx.len));
    if (conn->bulk) {
        if (conn->bulk_at > at)
            iov[n++] = (struct iovec){conn->tx.bytes + at, conn->bulk_at - at};
        iov[n++] = (struct iovec){(void *)(uintptr_t)conn->bulk, conn->bulk_left};
        at = conn->bulk_at;
    }
    if (conn->tx.len > at)
        iov[n++] = (struct iovec){conn->tx.bytes + at, conn->tx.len - at};
    return n;
}

/* Record that `sent` bytes of the pieces of next_pieces() have been sent. */
static void note_sent(struct frame_conn *conn, size_t sent)
{
    if (conn->bulk) {
        size_t before = min_u64(sent, conn->bulk_at - conn->tx_at);

        conn->tx_at += before;
        sent -= before;
        before = min_u64(sent, conn->bulk_left);
        conn->bulk += before;
        conn->bulk_left -= before;
        sent -= before;
        if (conn->bulk_left == 0)
            conn->bulk = NULL;
    }
    assert(conn->tx_at + sent <= conn->tx.len); /* no more than next_pieces() returned */
    conn->tx_at += sent;
}

static int flush_by_carrier(struct frame_conn *conn)
{
    size_t budget = FLUSH_MAX;

    while (conn->tx_at < conn->tx.len || conn->bulk) {
        struct iovec iov[3];
        int64_t n;

        if (budget == 0)
            return -EAGAIN;
        (void)next_pieces(conn, iov);
        n = conn->carrier->write(conn->carrier, iov[0].iov_base, iov[0].iov_len);
        if (n < 0) {
            compact_tx(conn);
            return (int)n;
        }
        note_sent(conn, (size_t)n);
        budget -= min_u64(budget, (size_t)n);
    }
    conn->tx.len = conn->tx_at = 0;
    return 0;
}

int frame_conn_flush(struct frame_conn *conn)
{
    union io_descriptor_room control;
    size_t budget = FLUSH_MAX;

    if (conn->tx.lost)
        return -ENOMEM;
    if (conn->carrier)
        return flush_by_carrier(conn);
    while (conn->tx_at < conn->tx.len || conn->bulk) {
        struct iovec iov[3];
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = next_pieces(conn, iov)};
        ssize_t n;

        if (budget == 0)
            return -EAGAIN;
        if (conn->tx_fd >= 0 && conn->tx_at < conn->tx_fd_at) {
            msg.msg_iovlen = 1; /* up to the frame that carries the descriptor */
            iov[0].iov_len = conn->tx_fd_at - conn->tx_at;
        } else if (conn->tx_fd >= 0) {
            io_attach_descriptor(&msg, &control, conn->tx_fd);
        }
        n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EWOULDBLOCK)
                return -errno;
            compact_tx(conn);
            return -EAGAIN;
        }
        if (msg.msg_control)
            io_close(&conn->tx_fd);
        note_sent(conn, (size_t)n);
        budget -= min_u64(budget, (size_t)n);
    }
    conn->tx.len = conn->tx_at = 0;
    return 0;
}

/* Free a buffer, unless it is small. */
static void trim(struct frame_buffer *b)
{
    enum { KEPT_MAX = 256 };

    b->len = 0;
    if (b->cap <= KEPT_MAX)
        return;
    free(b->bytes);
    b->bytes = NULL;
    b->cap = 0;
}

void frame_conn_trim(struct frame_conn *conn)
{
    if (conn->rx_at == conn->rx.len) {
        conn->rx_at = 0;
        trim(&conn->rx);
    }
    if (conn->tx_at == conn->tx.len && conn->tx_fd < 0 && !conn->bulk) {
        conn->tx_at = 0;
        trim(&conn->tx);
    }
}

int frame_conn_attach_bulk(struct frame_conn *conn, const void *bytes, size_t len)
{
    if (conn->bulk)
        return -EBUSY;
    if (len == 0)
        return 0;
    conn->bulk = bytes;
    conn->bulk_left = len;
    conn->bulk_at = conn->tx.len;
    return 0;
}

int64_t frame_conn_read_bulk(struct frame_conn *conn, void *ret, size_t len)
{
    size_t have = conn->rx.len - conn->rx_at;
    ssize_t n;

    assert(conn->rx_at <= conn->rx.len);
    if (have > 0) {
        have = min_u64(have, len);
        memcpy(ret, conn->rx.bytes + conn->rx_at, have);
        conn->rx_at += have;
        return (int64_t)have;
    }
    if (conn->carrier)
        return conn->carrier->read(conn->carrier, ret, len);
    do
        n = recv(conn->fd, ret, len, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    return n == 0 ? -ECONNRESET : n;
}

int frame_conn_attach_fd(struct frame_conn *conn, int fd)
{
    assert(fd >= 0);
    if (conn->tx_fd >= 0)
        return -EBUSY;
    conn->tx_fd = fd;
    conn->tx_fd_at = conn->tx.len;
    return 0;
}

int frame_conn_take_fd(struct frame_conn *conn)
{
    int fd = conn->rx_fd;

    conn->rx_fd = -1;
    conn->takes_fd = false;
    return fd;
}

bool frame_holds_fds(int fd)
{
    char bytes[NOWHERE_BYTES];
    struct iovec nowhere[NOWHERE_TIMES];
    struct msghdr msg = {.msg_iov = nowhere, .msg_iovlen = NOWHERE_TIMES};
    int domain, left;
    socklen_t len = sizeof(domain);
    ssize_t n;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
        return true;
    if (domain != AF_UNIX)
        return false;
    read_urgent_bytes(fd);
    for (size_t i = 0; i < NOWHERE_TIMES; i++)
        nowhere[i] = (struct iovec){bytes, sizeof(bytes)};
    do /* if the peer closed without reading everything, one call fails */
        n = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0)
        return errno != EAGAIN;
    /* FIONREAD counts only the bytes before an urgent byte. */
    return (msg.msg_flags & MSG_CTRUNC) || ioctl(fd, FIONREAD, &left) < 0 || left > n;
}

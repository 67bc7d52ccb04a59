/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/refuser.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/net/wire.h"
#include "common/util/util.h"

enum {
    CLIENTS_MAX = 64, /* connections at the same time */
    LIMIT_MS = 5000,  /* time for a client's part of the handshake, and to hang up */
    READS = 16,       /* number of reads from one client before others get their turn */
    EVENTS = 16,
};

struct refused {
    struct frame_conn conn; /* fd -1: free */
    uint64_t since_ns;
};

struct refuser {
    struct tls *tls;
    int epoll_fd;
    struct refused clients[CLIENTS_MAX];
};

#define FOR_CLIENTS(c, refuser) \
    for (struct refused *c = (refuser)->clients; c < (refuser)->clients + CLIENTS_MAX; c++)

static void drop(struct refused *c)
{
    frame_conn_fini(&c->conn); /* epoll forgets it */
    c->conn = (struct frame_conn){.fd = -1, .tx_fd = -1, .rx_fd = -1};
}

int refuser_create(struct tls *tls, struct refuser **ret)
{
    struct refuser *r = calloc(1, sizeof(*r));
    int error;

    if (!r)
        return -ENOMEM;
    r->tls = tls;
    FOR_CLIENTS(c, r)
    c->conn = (struct frame_conn){.fd = -1, .tx_fd = -1, .rx_fd = -1};
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r->epoll_fd < 0) {
        error = -errno;
        free(r);
        return error;
    }
    *ret = r;
    return 0;
}

void refuser_destroy(struct refuser *refuser)
{
    if (!refuser)
        return;
    FOR_CLIENTS(c, refuser)
    drop(c);
    io_close(&refuser->epoll_fd);
    free(refuser);
}

int refuser_get_fd(const struct refuser *refuser)
{
    return refuser->epoll_fd;
}

/* Read and discard what has arrived, which advances the handshake. Returns -EAGAIN, 0 if there may
 * be more to read, or an error. */
static int discard_input(struct refused *c)
{
    for (int i = 0; i < READS; i++) {
        int64_t n = frame_conn_fill(&c->conn);

        if (n < 0)
            return (int)n;
        c->conn.rx.len = c->conn.rx_at = 0;
    }
    return 0;
}

static int watch(struct refuser *r, struct refused *c, int operation)
{
    struct epoll_event event = {
        .events = EPOLLIN | (frame_conn_wants_write(&c->conn) ? (uint32_t)EPOLLOUT : 0),
        .data.u32 = (uint32_t)(c - r->clients)};

    return epoll_ctl(r->epoll_fd, operation, c->conn.fd, &event) < 0 ? -errno : 0;
}

/* Advance one connection. A client hangs up once it has the whole frame; if we closed first, it
 * could lose what it has not read. */
static void advance(struct refuser *r, struct refused *c)
{
    int error = frame_conn_flush(&c->conn);

    if (error == 0 || error == -EAGAIN)
        error = discard_input(c);
    if (error == 0 || error == -EAGAIN)
        error = frame_conn_flush(&c->conn);
    if (error == 0 || error == -EAGAIN)
        error = watch(r, c, EPOLL_CTL_MOD);
    if (error < 0)
        drop(c);
}

/* Returns an entry for a new client: a free one, or that of the oldest client, which is dropped. */
static struct refused *make_room(struct refuser *r)
{
    struct refused *oldest = r->clients;

    FOR_CLIENTS(c, r)
    {
        if (c->conn.fd < 0)
            return c;
        if (c->since_ns < oldest->since_ns)
            oldest = c;
    }
    drop(oldest);
    return oldest;
}

void refuser_take(struct refuser *refuser, int fd, const struct frame_buffer *b)
{
    struct refused *c = make_room(refuser);

    c->since_ns = time_now_ns();
    if (frame_conn_init(&c->conn, fd, WIRE_MAX_PAYLOAD) < 0 ||
        tls_carry(refuser->tls, fd, &c->conn.carrier) < 0 || watch(refuser, c, EPOLL_CTL_ADD) < 0) {
        drop(c);
        return;
    }
    frame_put_bytes(&c->conn.tx, b->bytes, b->len);
    advance(refuser, c);
}

void refuser_dispatch(struct refuser *refuser)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(refuser->epoll_fd, events, EVENTS, 0);
    uint64_t now = time_now_ns();

    for (int i = 0; i < count; i++)
        advance(refuser, &refuser->clients[events[i].data.u32]);
    FOR_CLIENTS(c, refuser)
    if (c->conn.fd >= 0 && now > c->since_ns + LIMIT_MS * NS_PER_MS)
        drop(c);
}

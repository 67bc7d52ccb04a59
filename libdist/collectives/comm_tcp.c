/* SPDX-License-Identifier: MIT */
/* comm_tcp.c - moves bytes between instances on different hosts, over connections that
 * comm_tcp_meet.c has made.
 *
 * An instance ends in one of three ways. Either its last frame says which collective it has
 * reached, or that another instance has ended, whose name is then passed on. Or its connection ends
 * without such a frame: if bytes are missing, the instance is lost at once. Otherwise it may have
 * finished the present collective, and only its process is gone; the wait then continues for a
 * while, because this instance may be able to finish, too. */
#include "config.h"

#include "libdist/collectives/comm_tcp.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_tcp_priv.h"

static const uint64_t gone_wait_ns = NS_PER_SEC, leave_ns = 500 * NS_PER_MS,
                      cause_ns = 300 * NS_PER_MS;

static struct {
    struct comm_tcp_world world;
    struct tcp_peer *peers; /* [hosts]; ours is unused */
    struct pollfd *fds;     /* [hosts] */
    struct tls *tls[2];     /* for those who connect, and to connect; NULL: not encrypted */
    uint64_t number;        /* of the collective */
    /* Moves in flight: number m, from `finished` to `begun` - 1, at [m % COMM_TCP_MOVES]. */
    const struct comm_tcp_part *moves[COMM_TCP_MOVES];
    uint64_t begun, finished;
} tcp;

static const struct comm_tcp_part *part_of(uint64_t move, uint32_t host)
{
    assert(move >= tcp.finished && move < tcp.begun);
    return &tcp.moves[move % COMM_TCP_MOVES][host];
}

static struct tcp_peer *peer_of(uint32_t host)
{
    return host == tcp.world.host ? NULL : &tcp.peers[host];
}

bool comm_tcp_has_come(uint32_t host)
{
    return host == tcp.world.host || (tcp.peers && tcp.peers[host].up);
}

void comm_tcp_begin(uint64_t number)
{
    assert(tcp.begun == tcp.finished);
    tcp.number = number;
}

/* Returns whom to name if this peer's connection has ended. */
static uint32_t culprit_of(const struct tcp_peer *peer)
{
    return peer->culprit ? peer->culprit - 1 : peer->instance;
}

/* Read a frame that has arrived. Returns 0, or -EPROTO. */
static int take_frame(struct tcp_peer *peer, const struct frame_header *h, struct frame_reader *r)
{
    if (h->type == TCP_DATA && !peer->ended) {
        peer->number = frame_get_u64(r);
        peer->left = frame_get_u64(r);
        peer->framed = true;
        return frame_got(r) < 0 || peer->left == 0 ? -EPROTO : 0;
    }
    if (h->type != TCP_LAST || peer->ended)
        return -EPROTO;
    peer->ended = true;
    peer->reached = frame_get_u64(r);
    peer->culprit = frame_get_u32(r);
    if (peer->culprit > tcp.world.instances)
        return -EPROTO;
    return frame_got(r);
}

/* Read up to the next frame of data, if it has arrived. Returns 1 if there is one; 0; or -errno if
 * nothing more will come. */
static int next_frame(struct tcp_peer *peer)
{
    while (!peer->framed) {
        struct frame_header header;
        struct frame_reader payload;
        int64_t r = frame_conn_next(&peer->conn, &header, &payload);

        if (r > 0)
            r = take_frame(peer, &header, &payload);
        else if (r == 0 && peer->gone_ns)
            return -ECONNRESET;
        else if (r == 0)
            r = frame_conn_fill(&peer->conn);
        if (r == -EAGAIN)
            return 0;
        if (r < 0 && !peer->gone_ns)
            peer->gone_ns = time_now_ns();
        if (r == -EPROTO || r == -ENOMEM)
            return (int)r;
    }
    return 1;
}

bool comm_tcp_look(uint32_t *who)
{
    for (uint32_t i = 0; i < tcp.world.hosts; i++) {
        struct tcp_peer *peer = peer_of(i);

        if (!peer || !peer->up || peer->framed || next_frame(peer) > 0)
            continue;
        if (peer->ended ? peer->culprit || peer->reached < tcp.number
                        : peer->gone_ns && time_now_ns() - peer->gone_ns > gone_wait_ns) {
            *who = culprit_of(peer);
            return true;
        }
    }
    return false;
}

/* ---- moving ---- */

/* Receive what has arrived of a part. Returns 0 if it is complete, -EAGAIN, or -errno. */
static int pull(struct tcp_peer *peer, const struct comm_tcp_part *part)
{
    while (peer->got < part->received) {
        int64_t n;
        int r = next_frame(peer);

        if (r <= 0)
            return r == 0 ? -EAGAIN : r;
        if (peer->number != tcp.number || peer->left != part->received - peer->got)
            return -EPROTO;
        n = frame_conn_read_bulk(&peer->conn, (unsigned char *)part->recv + peer->got, peer->left);
        if (n < 0 && n != -EAGAIN && !peer->gone_ns)
            peer->gone_ns = time_now_ns();
        if (n < 0)
            return (int)n;
        peer->got += (uint64_t)n;
        peer->left -= (uint64_t)n;
        peer->framed = peer->left > 0;
    }
    return 0;
}

static int queue_part(struct tcp_peer *peer, const struct comm_tcp_part *part)
{
    size_t begin;

    if (part->sent == 0)
        return 0;
    begin = frame_begin(&peer->conn.tx, TCP_DATA, 0);
    frame_put_u64(&peer->conn.tx, tcp.number);
    frame_put_u64(&peer->conn.tx, part->sent);
    if (frame_end(&peer->conn.tx, begin) < 0)
        return -ENOMEM;
    return frame_conn_attach_bulk(&peer->conn, part->send, part->sent);
}

/* Send what the connection takes. Returns 0 when all moves are sent, -EAGAIN, or -errno. */
static int send_moves(struct tcp_peer *peer, uint32_t host)
{
    for (;;) {
        int r = frame_conn_flush(&peer->conn);

        if (r < 0)
            return r;
        peer->sent = peer->queued;
        if (peer->queued == tcp.begun)
            return 0;
        r = queue_part(peer, part_of(peer->queued, host));
        if (r < 0)
            return r;
        peer->queued++;
    }
}

/* Receive what has arrived. Returns 0 when all moves are received, -EAGAIN, or -errno. */
static int receive_moves(struct tcp_peer *peer, uint32_t host)
{
    while (peer->arrived < tcp.begun) {
        int r = pull(peer, part_of(peer->arrived, host));

        if (r < 0)
            return r;
        peer->arrived++;
        peer->got = 0;
    }
    return 0;
}

/* Continue the moves with one peer. Returns 0 when the oldest is complete, -EAGAIN, or -errno. */
static int continue_peer(struct tcp_peer *peer, uint32_t host)
{
    int sent = send_moves(peer, host), r = receive_moves(peer, host);

    if ((r < 0 && r != -EAGAIN) || sent == -ENOMEM)
        return sent == -ENOMEM ? sent : r;
    if (sent == 0 || sent == -EAGAIN)
        return peer->sent > tcp.finished && peer->arrived > tcp.finished ? 0 : -EAGAIN;
    while (!peer->framed && next_frame(peer) == 0 && !peer->gone_ns && !peer->ended) {
        struct pollfd p = {.fd = peer->conn.fd, .events = POLLIN};

        if (poll(&p, 1, TCP_LOOK_MS) <= 0)
            break;
    }
    return -ECONNRESET; /* it may have said why */
}

/* Wait until a connection can be used. */
static void wait_for_any(uint64_t deadline_ns)
{
    uint64_t now = time_now_ns(), ms = TCP_LOOK_MS;

    if (deadline_ns)
        ms = min_u64(ms, deadline_ns > now ? (deadline_ns - now) / NS_PER_MS + 1 : 0);
    for (uint32_t i = 0; i < tcp.world.hosts; i++) {
        const struct tcp_peer *peer = peer_of(i);
        short events = 0;

        tcp.fds[i] = (struct pollfd){.fd = -1};
        if (!peer)
            continue;
        if (peer->arrived < tcp.begun)
            events |= POLLIN;
        if (peer->arrived < tcp.begun && frame_conn_has_read(&peer->conn))
            ms = 0;
        if (frame_conn_wants_write(&peer->conn))
            events |= POLLOUT;
        if (events)
            tcp.fds[i] = (struct pollfd){.fd = peer->conn.fd, .events = events};
    }
    (void)poll(tcp.fds, tcp.world.hosts, (int)ms);
}

/* A connection has ended without a last frame. Its instance may have failed because of another one,
 * which others may name: ask them for a while. */
static void find_first_cause(uint32_t *who)
{
    uint64_t end = time_now_ns() + cause_ns;
    uint32_t other;

    while (time_now_ns() < end) {
        if (tcp.world.look(&other)) {
            *who = other;
            return;
        }
        (void)poll(NULL, 0, 2);
    }
}

/* Continue with all. Returns 0 when the oldest move is complete, -EAGAIN, or -errno with the peer's
 * instance. */
static int continue_all(uint32_t *who)
{
    int ret = 0;

    for (uint32_t i = 0; i < tcp.world.hosts; i++) {
        struct tcp_peer *peer = peer_of(i);
        int r = peer ? continue_peer(peer, i) : 0;

        if (r == -EAGAIN)
            ret = r;
        if (r == 0 || r == -EAGAIN)
            continue;
        *who = r == -EPROTO ? peer->instance : culprit_of(peer);
        if (!peer->ended)
            find_first_cause(who);
        return r == -EPROTO || r == -ENOMEM ? r : -ECANCELED;
    }
    return ret;
}

int comm_tcp_start(const struct comm_tcp_part *parts, uint32_t *who)
{
    int r;

    assert(tcp.begun - tcp.finished < COMM_TCP_MOVES);
    tcp.moves[tcp.begun++ % COMM_TCP_MOVES] = parts;
    r = continue_all(who);
    return r == -EAGAIN ? 0 : r;
}

int comm_tcp_finish(uint64_t deadline_ns, uint32_t *who)
{
    uint64_t look_ns = time_now_ns() + TCP_LOOK_MS * NS_PER_MS;
    int r;

    assert(tcp.begun > tcp.finished);
    while ((r = continue_all(who)) == -EAGAIN) {
        uint64_t now;

        wait_for_any(deadline_ns);
        now = time_now_ns();
        if (deadline_ns && now >= deadline_ns)
            return -ETIMEDOUT;
        if (now < look_ns)
            continue;
        look_ns = now + TCP_LOOK_MS * NS_PER_MS;
        if (tcp.world.look(who))
            return -ECANCELED;
    }
    tcp.finished += r == 0;
    return r;
}

/* ---- beginning and end ---- */

/* Read and ignore what the peers still send, until they close: if unread bytes were left, closing
 * the connection would also discard what we have said. */
static void drain(uint64_t end_ns)
{
    bool more = true;

    while (more && time_now_ns() < end_ns) {
        char ignored[4096];

        more = false;
        for (uint32_t i = 0; i < tcp.world.hosts; i++) {
            int fd = peer_of(i) ? tcp.peers[i].conn.fd : -1;
            ssize_t n = fd < 0 ? 0 : recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);

            more |= n > 0 || (n < 0 && errno == EAGAIN);
        }
        if (more)
            (void)poll(NULL, 0, 1);
    }
}

void comm_tcp_leave(uint32_t who)
{
    uint64_t end = time_now_ns() + leave_ns;
    bool more = tcp.peers != NULL;

    for (uint32_t i = 0; more && i < tcp.world.hosts; i++) {
        struct tcp_peer *peer = peer_of(i);
        size_t begin;

        if (!peer || !peer->up)
            continue;
        /* Data in flight comes first: its buffers are not written again. */
        begin = frame_begin(&peer->conn.tx, TCP_LAST, 0);
        frame_put_u64(&peer->conn.tx, tcp.number);
        frame_put_u32(&peer->conn.tx, who + 1);
        (void)frame_end(&peer->conn.tx, begin);
    }
    while (more && time_now_ns() < end) {
        more = false;
        for (uint32_t i = 0; i < tcp.world.hosts; i++)
            more |=
                peer_of(i) && tcp.peers[i].up && frame_conn_flush(&tcp.peers[i].conn) == -EAGAIN;
        if (more)
            (void)poll(NULL, 0, 1);
    }
    for (uint32_t i = 0; tcp.peers && i < tcp.world.hosts; i++) {
        struct frame_conn *conn = &tcp.peers[i].conn;

        if (!peer_of(i) || conn->fd < 0)
            continue;
        if (frame_conn_wants_write(conn))
            frame_conn_hang_up(conn); /* the peer must not wait for the rest */
        else
            (void)shutdown(conn->fd, SHUT_WR);
    }
    if (tcp.peers && who != UINT32_MAX)
        drain(end);
}

void comm_tcp_close(void)
{
    for (uint32_t i = 0; tcp.peers && i < tcp.world.hosts; i++)
        if (peer_of(i))
            frame_conn_fini(&tcp.peers[i].conn);
    free(tcp.peers);
    free(tcp.fds);
    tls_destroy(tcp.tls[0]);
    tls_destroy(tcp.tls[1]);
    memset(&tcp, 0, sizeof(tcp));
}

int comm_tcp_open(const struct comm_tcp_world *world, uint64_t deadline_ns, uint32_t *who,
                  struct plenum_error *err)
{
    int r;

    tcp.world = *world;
    tcp.peers = calloc(world->hosts, sizeof(*tcp.peers));
    tcp.fds = calloc(world->hosts, sizeof(*tcp.fds));
    for (uint32_t i = 0; tcp.peers && i < world->hosts; i++) {
        tcp.peers[i].instance = world->peers[i];
        (void)frame_conn_init(&tcp.peers[i].conn, -1, TCP_PAYLOAD_MAX);
    }
    r = tcp.peers && tcp.fds ? tcp_meet(world, tcp.tls, tcp.peers, deadline_ns, who, err)
                             : error_set(err, -ENOMEM, "out of memory");
    if (r < 0)
        comm_tcp_close();
    return r;
}

/* SPDX-License-Identifier: MIT */
/* comm_tcp_meet.c - connects instances of equal local index on different hosts. The instance on the
 * later host connects, and the other one listens.
 *
 * Any process can connect to the port, so a connection counts only once its other side has shown
 * that it has the job's key, and has said which instance it is. Until then it is a guest. When
 * there are too many guests, the host that has the most loses its oldest one, and few are accepted
 * in each turn. So a flood from one host does not keep out the instances of the others, and each
 * guest has some turns to show its key.
 *
 * A program may start later than its peers, or a second program may start while a peer still runs
 * the first one. So connecting is repeated until the time limit. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_tcp_priv.h"

enum {
    GUESTS = 128, /* connections whose other side is unknown */
    GUESTS_A_TURN = 16,
    AGAIN_MS = 20,  /* before an attempt is repeated */
    TRY_MS = 2000,  /* an attempt */
    KEEP_S = 5,     /* between probes of a silent host */
    KEEP_COUNT = 4, /* probes */
    BUFFER_BYTES = 4 << 20,
};

static const char magic[8] = {'p', 'l', 'n', 'm', 'c', 'o', 'l', 'l'};

/* A connection that we accepted, or the attempt to make one. */
struct guest {
    struct frame_conn conn; /* fd -1: none */
    uint64_t since_ns;
    struct in6_addr from; /* its host, if we accepted it */
    bool greeted;         /* our HELLO is in its output */
};

/* Connecting with all. */
struct meeting_point {
    const struct comm_tcp_world *world;
    struct tls *listens; /* as the one who listens; NULL: not encrypted */
    struct tls *dials;
    struct tcp_peer *peers;
    struct guest *dialed;                   /* [hosts] */
    uint64_t *again_ns;                     /* [hosts]: when to dial next */
    unsigned *turns;                        /* [hosts] */
    struct address (*at)[ADDRESS_LIST_MAX]; /* [hosts] */
    int *num_at;
    struct pollfd *fds; /* [1 + GUESTS + hosts] */
    struct guest guests[GUESTS];
    int listener; /* -1: none */
};

void tcp_tune(int fd)
{
    const int on = 1, keep = KEEP_S, count = KEEP_COUNT, limit_ms = KEEP_S * KEEP_COUNT * 1000;
    const int buffer = BUFFER_BYTES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keep, sizeof(keep));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keep, sizeof(keep));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
}

int tcp_put_hello(struct frame_conn *conn, uint32_t instances, uint32_t instance)
{
    size_t begin = frame_begin(&conn->tx, TCP_HELLO, 0);

    frame_put_bytes(&conn->tx, magic, sizeof(magic));
    frame_put_u32(&conn->tx, TCP_VERSION);
    frame_put_u32(&conn->tx, instances);
    frame_put_u32(&conn->tx, instance);
    return frame_end(&conn->tx, begin);
}

int tcp_get_hello(struct frame_reader *payload, uint32_t instances, uint32_t *instance)
{
    char theirs[sizeof(magic)];
    uint32_t version, count;

    frame_get_bytes(payload, theirs, sizeof(theirs));
    version = frame_get_u32(payload);
    count = frame_get_u32(payload);
    *instance = frame_get_u32(payload);
    if (frame_got(payload) < 0 || memcmp(theirs, magic, sizeof(magic)) != 0 ||
        version != TCP_VERSION || count != instances || *instance >= instances)
        return -EPROTO;
    return 0;
}

/* ---- one connection ---- */

static void drop(struct guest *g)
{
    frame_conn_fini(&g->conn);
    (void)frame_conn_init(&g->conn, -1, TCP_PAYLOAD_MAX);
}

static void begin_guest(struct guest *g, struct tls *tls, int fd)
{
    tcp_tune(fd);
    *g = (struct guest){.since_ns = time_now_ns()};
    if (frame_conn_init(&g->conn, fd, TCP_PAYLOAD_MAX) < 0 ||
        (tls && tls_carry(tls, fd, &g->conn.carrier) < 0))
        drop(g);
}

/* Say HELLO, and wait for the other's. Returns 1 with its number; 0 while it has not come; or
 * -errno if it does not belong to the job. */
static int greet(const struct meeting_point *m, struct guest *g, uint32_t *instance)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t r;

    if (!g->greeted &&
        tcp_put_hello(&g->conn, m->world->instances, m->world->peers[m->world->host]) < 0)
        return -ENOMEM;
    g->greeted = true;
    r = frame_conn_flush(&g->conn);
    if (r < 0 && r != -EAGAIN)
        return (int)r;
    while ((r = frame_conn_next(&g->conn, &header, &payload)) == 0)
        if ((r = frame_conn_fill(&g->conn)) < 0)
            return r == -EAGAIN ? 0 : (int)r;
    if (r < 0 || header.type != TCP_HELLO ||
        tcp_get_hello(&payload, m->world->instances, instance) < 0)
        return -EPROTO;
    return 1;
}

/* Make the connection the peer's. */
static void seat(struct tcp_peer *peer, struct guest *g)
{
    frame_conn_fini(&peer->conn);
    peer->conn = g->conn;
    peer->up = true;
    (void)frame_conn_init(&g->conn, -1, TCP_PAYLOAD_MAX);
}

/* ---- listening ---- */

/* Listen on the port of this address: only there, if it is the only one. */
static int listen_at(const struct address *at, bool only)
{
    const int on = 1;
    union address_any a = at->ip[0];
    socklen_t len = a.any.sa_family == AF_INET6 ? sizeof(a.in6) : sizeof(a.in);
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

    if (fd < 0)
        return -errno;
    if (!only && a.any.sa_family == AF_INET6)
        a.in6.sin6_addr = in6addr_any;
    else if (!only)
        a.in.sin_addr.s_addr = htonl(INADDR_ANY);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* The launcher reserves the port for processes of this user (launcher/host/reserve.h). */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (bind(fd, &a.any, len) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    r = -errno;
    io_close(&fd);
    return r;
}

static int start_listening(struct meeting_point *m, struct plenum_error *err)
{
    const uint32_t own = m->world->host;
    int fd;

    if (own + 1 == m->world->hosts)
        return 0;
    fd = m->at[own][0].count == 0 ? -EADDRNOTAVAIL : listen_at(&m->at[own][0], m->num_at[own] == 1);
    if (fd < 0)
        return error_set(err, fd, "collectives: cannot listen at %s for the other hosts: %s",
                         m->at[own][0].text, strerror(-fd));
    m->listener = fd;
    return 0;
}

/* Returns the host of an accepted connection. */
static struct in6_addr host_of(const union address_any *a)
{
    struct in6_addr host = {0};

    if (a->any.sa_family == AF_INET6)
        return a->in6.sin6_addr;
    memcpy(&host, &a->in.sin_addr, sizeof(a->in.sin_addr));
    return host;
}

static unsigned count_from(const struct meeting_point *m, const struct in6_addr *host)
{
    unsigned n = 0;

    for (unsigned i = 0; i < GUESTS; i++)
        n += memcmp(&m->guests[i].from, host, sizeof(*host)) == 0;
    return n;
}

/* Returns the place for another guest: a free one, or that of the oldest guest of the host that has
 * the most. */
static struct guest *find_place(struct meeting_point *m)
{
    struct guest *ret = NULL;
    unsigned most = 0;

    for (unsigned i = 0; i < GUESTS; i++)
        if (m->guests[i].conn.fd < 0)
            return &m->guests[i];
    for (unsigned i = 0; i < GUESTS; i++) {
        struct guest *g = &m->guests[i];
        unsigned n = count_from(m, &g->from);

        if (n < most || (n == most && g->since_ns >= ret->since_ns))
            continue;
        most = n;
        ret = g;
    }
    assert(ret);
    return ret;
}

static void accept_guests(struct meeting_point *m)
{
    for (unsigned n = 0; m->listener >= 0 && n < GUESTS_A_TURN; n++) {
        union address_any from = {0};
        socklen_t len = sizeof(from);
        int fd = accept4(m->listener, &from.any, &len, SOCK_CLOEXEC);
        struct guest *g;

        if (fd < 0)
            return;
        g = find_place(m);
        drop(g);
        begin_guest(g, m->listens, fd);
        g->from = host_of(&from);
    }
}

static void hear_guests(struct meeting_point *m)
{
    for (unsigned i = 0; i < GUESTS; i++) {
        struct guest *g = &m->guests[i];
        uint32_t instance;
        int r = g->conn.fd < 0 ? 0 : greet(m, g, &instance);

        if (r == 0)
            continue;
        for (uint32_t h = m->world->host + 1; r > 0 && h < m->world->hosts; h++)
            if (m->world->peers[h] == instance && !m->peers[h].up)
                seat(&m->peers[h], g);
        drop(g); /* unless it was seated */
    }
}

/* ---- dialing ---- */

static void dial_again(struct meeting_point *m, uint32_t host)
{
    drop(&m->dialed[host]);
    m->again_ns[host] = time_now_ns() + AGAIN_MS * NS_PER_MS;
}

/* Has the attempt taken too long? Once our HELLO has been sent, the other side may have counted
 * us, so the connection is never given up. */
static bool is_late(const struct guest *g)
{
    return frame_conn_pending(&g->conn) > 0 &&
           time_now_ns() > g->since_ns + (uint64_t)TRY_MS * NS_PER_MS;
}

/* Continue to connect with an earlier host's instance. */
static void continue_dialing(struct meeting_point *m, uint32_t host)
{
    struct guest *g = &m->dialed[host];
    uint32_t instance;
    int r;

    if (g->conn.fd < 0 && time_now_ns() >= m->again_ns[host]) {
        unsigned turn = m->turns[host]++, n = (unsigned)m->num_at[host];
        struct address *at = &m->at[host][turn % n];

        if (address_is_name(at))
            (void)address_resolve(at, NULL);
        r = address_connect(at, turn / n);
        if (r < 0)
            dial_again(m, host);
        else
            begin_guest(g, m->dials, r);
    }
    if (g->conn.fd < 0)
        return;
    r = greet(m, g, &instance);
    if (r > 0 && instance == m->world->peers[host])
        seat(&m->peers[host], g);
    else if (r != 0 || is_late(g))
        dial_again(m, host);
}

static bool all_seated(const struct meeting_point *m)
{
    for (uint32_t i = 0; i < m->world->hosts; i++)
        if (i != m->world->host && !m->peers[i].up)
            return false;
    return true;
}

/* The replies of those who are seated may not have been sent yet. */
static bool all_told(const struct meeting_point *m)
{
    bool told = true;

    for (uint32_t i = 0; i < m->world->hosts; i++)
        if (i != m->world->host && m->peers[i].up)
            told &= frame_conn_flush(&m->peers[i].conn) != -EAGAIN;
    return told;
}

static void watch(struct pollfd *p, const struct frame_conn *conn, short events)
{
    if (frame_conn_wants_write(conn))
        events |= POLLOUT;
    *p = (struct pollfd){.fd = events ? conn->fd : -1, .events = events};
}

/* Wait until a connection can be continued, or an attempt can be repeated. */
static void wait_for_guests(struct meeting_point *m)
{
    struct pollfd *p = m->fds;

    *p++ = (struct pollfd){.fd = m->listener, .events = POLLIN};
    for (unsigned i = 0; i < GUESTS; i++)
        watch(p++, &m->guests[i].conn, POLLIN);
    for (uint32_t i = 0; i < m->world->hosts; i++)
        if (m->peers[i].up)
            watch(p++, &m->peers[i].conn, 0);
        else
            watch(p++, &m->dialed[i].conn, POLLIN);
    (void)poll(m->fds, (nfds_t)(p - m->fds), AGAIN_MS);
}

static int connect_all(struct meeting_point *m, uint64_t deadline_ns, uint32_t *who)
{
    for (uint64_t look_ns = 0;;) {
        uint64_t now = time_now_ns();

        accept_guests(m);
        hear_guests(m);
        for (uint32_t i = 0; i < m->world->host; i++)
            if (!m->peers[i].up)
                continue_dialing(m, i);
        if (all_seated(m) && all_told(m))
            return 0;
        if (deadline_ns && now >= deadline_ns)
            return -ETIMEDOUT;
        if (now >= look_ns && m->world->look(who))
            return -ECANCELED;
        if (now >= look_ns)
            look_ns = now + TCP_LOOK_MS * NS_PER_MS;
        wait_for_guests(m);
    }
}

/* ---- all ---- */

static int make_keys(struct meeting_point *m, struct tls *ret[2], struct plenum_error *err)
{
    struct tls_key secret = {.name = ""}, own;
    char name[TLS_NAME_MAX];
    int r;

    if (!m->world->secret)
        return 0;
    memcpy(secret.bytes, m->world->secret, sizeof(secret.bytes));
    (void)snprintf(name, sizeof(name), "instance-%u", m->world->peers[m->world->host]);
    r = tls_create(&secret, &m->listens, err);
    if (r == 0)
        r = tls_key_of_client(&secret, name, &own, err);
    if (r == 0)
        r = tls_create(&own, &m->dials, err);
    explicit_bzero(&secret, sizeof(secret));
    explicit_bzero(&own, sizeof(own));
    ret[0] = m->listens;
    ret[1] = m->dials;
    return r;
}

static int prepare(struct meeting_point *m, struct plenum_error *err)
{
    const uint32_t hosts = m->world->hosts;

    m->dialed = calloc(hosts, sizeof(*m->dialed));
    m->again_ns = calloc(hosts, sizeof(*m->again_ns));
    m->turns = calloc(hosts, sizeof(*m->turns));
    m->at = calloc(hosts, sizeof(*m->at));
    m->num_at = calloc(hosts, sizeof(*m->num_at));
    m->fds = calloc(1 + GUESTS + (size_t)hosts, sizeof(*m->fds));
    if (!m->dialed || !m->again_ns || !m->turns || !m->at || !m->num_at || !m->fds)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < hosts; i++) {
        (void)frame_conn_init(&m->dialed[i].conn, -1, TCP_PAYLOAD_MAX);
        m->num_at[i] = address_parse_list(m->world->addresses[i], m->at[i], err);
        if (m->num_at[i] < 0)
            return m->num_at[i];
        if (address_is_name(&m->at[i][0]))
            (void)address_resolve(&m->at[i][0], NULL);
    }
    return start_listening(m, err);
}

static void finish(struct meeting_point *m)
{
    for (unsigned i = 0; i < GUESTS; i++)
        frame_conn_fini(&m->guests[i].conn);
    for (uint32_t i = 0; m->dialed && i < m->world->hosts; i++)
        frame_conn_fini(&m->dialed[i].conn);
    io_close(&m->listener);
    free(m->dialed);
    free(m->again_ns);
    free(m->turns);
    free(m->at);
    free(m->num_at);
    free(m->fds);
}

int tcp_meet(const struct comm_tcp_world *world, struct tls *tls[2], struct tcp_peer *peers,
             uint64_t deadline_ns, uint32_t *who, struct plenum_error *err)
{
    struct meeting_point m = {.world = world, .peers = peers, .listener = -1};
    int r;

    for (unsigned i = 0; i < GUESTS; i++)
        (void)frame_conn_init(&m.guests[i].conn, -1, TCP_PAYLOAD_MAX);
    r = make_keys(&m, tls, err);
    if (r == 0)
        r = prepare(&m, err);
    if (r == 0)
        r = connect_all(&m, deadline_ns, who);
    finish(&m);
    return r;
}

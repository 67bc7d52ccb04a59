/* SPDX-License-Identifier: MIT */
/* session_peer.c - authenticates a client, checks quotas, and probes silent clients. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/util.h"
#include "loader/serve/quota.h"
#include "loader/serve/server_priv.h"

enum {
    HEARD_MS = 1500,  /* a host heard from within this time is alive */
    SILENT_MS = 5000, /* a probed host that is silent for longer is lost */
};

static const uint64_t silent_enough_ns = NS_PER_SEC;

/* Returns the time since anything, even an acknowledgement, arrived from the other host. */
static uint64_t silent_ns(const struct session *s)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    if (getsockopt(s->conn.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return 0;
    return info.tcpi_last_ack_recv * NS_PER_MS;
}

/* Returns whether the client has hung up, even if the loop has not handled that yet. */
static bool has_hung_up(const struct session *s)
{
    struct pollfd p = {.fd = s->conn.fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Returns whether the client has hung up, or a TCP client has been silent lately. A session whose
 * client has hung up is closed. A silent host is probed (TCP keepalive), and its session is closed
 * if it does not answer within a few seconds. */
static bool ask_if_there(struct session *s)
{
    const int every_s = 1;

    if (has_hung_up(s)) {
        session_close(s);
        return true;
    }
    if (!s->remote || s->state != STATE_OPEN || silent_ns(s) < HEARD_MS * NS_PER_MS)
        return false;
    if (s->asked_ns == 0) {
        s->asked_ns = time_now_ns();
        (void)setsockopt(s->conn.fd, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof(every_s));
        (void)setsockopt(s->conn.fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    }
    return true;
}

/* Like ask_if_there(), but asks at most ten times a second. */
static bool may_end(struct session *session)
{
    uint64_t now = time_now_ns();

    if (session->looked_ns == 0 || now > session->looked_ns + ROOM_EVERY_MS * NS_PER_MS) {
        session->looked_ns = now;
        session->may_end = ask_if_there(session);
    }
    return session->may_end;
}

bool session_any_ends_soon(struct server *server, const char *user)
{
    bool soon = false;

    for (struct session *s = session_first(server); s; s = session_next(s))
        if ((!user || strcmp(s->user, user) == 0) && (s->state == STATE_CLOSING || may_end(s)))
            soon = true;
    return soon;
}

/* Close the oldest client that has not opened a stream, to make room for a new one. */
static bool close_oldest_idle(struct server *server)
{
    struct session *oldest = NULL;

    /* Sessions are listed newest first, so the last match is the oldest. */
    for (struct session *other = session_first(server); other; other = session_next(other))
        if (other->state == STATE_HELLO || other->state == STATE_IDLE)
            oldest = other;
    if (!oldest || time_now_ns() < oldest->opened_ns + silent_enough_ns)
        return false;
    session_refuse(oldest, 0, -ETIMEDOUT, "it opened no stream, and others are waiting");
    return true;
}

/* Set the user of a TCP client. All clients of a host count as one user, and all of this host's own
 * addresses count as one host. */
static void name_host(struct session *s)
{
    static const char *const own[] = {"tcp:127.", "tcp:[::1]", "tcp:[::ffff:127."};
    char *colon;

    (void)address_of_peer(s->conn.fd, s->user, sizeof(s->user));
    colon = strrchr(s->user, ':');
    if (colon)
        *colon = '\0'; /* the port differs for each connection */
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strncmp(s->user, own[i], strlen(own[i])) == 0)
            (void)snprintf(s->user, sizeof(s->user), "tcp:localhost");
}

int session_check_peer(struct session *s, struct plenum_error *err)
{
    const struct server_options *o = s->server->options;
    int r = 0;

    if (s->remote) { /* the peer is unknown: its name is its address until HELLO */
        s->peer = (struct peer){.uid = (uid_t)-1};
        (void)address_of_peer(s->conn.fd, s->name, sizeof(s->name));
        name_host(s);
    } else {
        r = peer_read(s->conn.fd, &s->peer);
        (void)snprintf(s->name, sizeof(s->name), "user %u", (unsigned)s->peer.uid);
        (void)snprintf(s->user, sizeof(s->user), "%u", (unsigned)s->peer.uid);
    }
    if (r < 0)
        return r;
    if (!s->remote && o->own_uid_only && s->peer.uid != geteuid() && s->peer.uid != 0)
        return -EACCES;
    r = quota_check_client(s->server, s->user, err);
    if (r < 0 &&
        session_any_ends_soon(s->server, NULL)) /* which closes clients that have hung up */
        r = quota_check_client(s->server, s->user, err);
    if (r < 0 && close_oldest_idle(s->server))
        r = quota_check_client(s->server, s->user, err);
    return r;
}

/* Watch the peer's host: one that disappears silently must not hold memory here forever. So the
 * kernel sends keepalives while the connection is idle, and sent bytes must be acknowledged in
 * time. */
void session_watch_peer(int fd)
{
    const int on = 1, idle_s = 30, every_s = 10, times = 3;
    const unsigned limit_ms = SEND_LIMIT_MS;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

/* Close a session whose host was probed and did not answer. */
void session_watch_silent(struct session *s, uint64_t now_ns)
{
    uint64_t silent;

    if (s->asked_ns == 0)
        return;
    silent = silent_ns(s);
    if (silent < HEARD_MS * NS_PER_MS) {
        s->asked_ns = 0;
        session_watch_peer(s->conn.fd);
    } else if (silent >= SILENT_MS * NS_PER_MS && now_ns > s->asked_ns + SILENT_MS * NS_PER_MS) {
        if (session_may_log(s, LOG_LEVEL_WARN))
            log_about(LOG_LEVEL_WARN, session_about(s, &(struct session_about){0}),
                      "client %s has not been heard from for %d s, and others are waiting: closed",
                      s->name, SILENT_MS / 1000);
        session_close(s);
    }
}

/* Returns what the client may see: root and the loader's own user see all streams, other users only
 * their own. */
struct snapshot_viewer session_viewer(const struct session *s)
{
    return (struct snapshot_viewer){.all = s->peer.known &&
                                           (s->peer.uid == 0 || s->peer.uid == geteuid()),
                                    .known = s->peer.known,
                                    .uid = s->peer.uid,
                                    .id = s->id};
}

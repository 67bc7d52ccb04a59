/* SPDX-License-Identifier: MIT */
/* peers.c - the connections of plenumrun's shims, and of strangers: those that have not sent HELLO.
 *
 * A job may have thousands of connections, and most of them are quiet at any moment. So no turn of
 * the loop looks at all of them: the kernel lists those that can be read (epoll), each frame puts
 * its connection on the list of those to be flushed, and strangers have their own list. A quiet
 * connection has no buffers. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/job/supervise_priv.h"

enum {
    STRANGER_MS = 10000, /* time for a connection to send HELLO */
    STRANGERS_MAX = 256, /* connections, in addition to one for each missing instance */
    ACCEPTS = 64,        /* maximum per turn, so that earlier connections are read, too */
    READS = 256,         /* maximum per turn */
    REFUSED_TOLD = 100,  /* after refusing this many processes of other users, report it */
};

int peers_open(struct supervisor *s)
{
    list_init(&s->strangers.list);
    list_init(&s->unsent);
    (void)random_bytes(&s->strangers.seed, sizeof(s->strangers.seed));
    s->num_ready = 0;
    s->peers_fd = epoll_create1(EPOLL_CLOEXEC);
    return s->peers_fd < 0 ? -errno : 0;
}

/* A frame for this peer is complete: list the peer as one to which something must be sent. */
static void note_unsent(void *arg)
{
    struct shim_peer *peer = arg;

    if (!list_is_linked(&peer->unsent))
        list_add_last(peer->unsent_list, &peer->unsent);
}

/* Let the kernel report when the peer can be read and, if there is output, written to. */
static void watch(struct supervisor *s, struct shim_peer *peer)
{
    bool wants = frame_conn_wants_write(&peer->conn);
    struct epoll_event e = {.events = EPOLLIN | (wants ? EPOLLOUT : 0U), .data.ptr = peer};

    if (wants == peer->watched)
        return;
    peer->watched = wants;
    (void)epoll_ctl(s->peers_fd, EPOLL_CTL_MOD, peer->conn.fd, &e);
}

/* ---- strangers ---- */

static uint32_t *bucket_of(struct strangers *n, const struct shim_peer *peer)
{
    uint64_t hash = XXH3_64bits_withSeed(peer->from.host, sizeof(peer->from.host), n->seed);

    return &n->of_host[hash % STRANGERS_BUCKETS];
}

static struct shim_peer *stranger_of(struct list *link)
{
    return container_of(link, struct shim_peer, link);
}

static void count_stranger(struct supervisor *s, struct shim_peer *peer)
{
    assert(!peer->instance);
    s->strangers.count++;
    ++*bucket_of(&s->strangers, peer);
    list_add_last(&s->strangers.list, &peer->link);
}

void peers_discount(struct supervisor *s, struct shim_peer *peer)
{
    assert(!peer->instance && s->strangers.count > 0);
    s->strangers.count--;
    --*bucket_of(&s->strangers, peer);
    list_remove(&peer->link);
}

void peers_drop(struct supervisor *s, struct shim_peer *peer)
{
    if (!peer->instance)
        peers_discount(s, peer);
    else
        peer->instance->peer = NULL;
    for (int i = 0; i < s->num_ready; i++) /* it may be about to be read */
        if (s->ready[i].data.ptr == peer)
            s->ready[i].data.ptr = NULL;
    if (list_is_linked(&peer->unsent))
        list_remove(&peer->unsent);
    assert(s->num_peers > 0 && s->peers[peer->at] == peer);
    s->peers[peer->at] = s->peers[--s->num_peers];
    s->peers[peer->at]->at = peer->at;
    /* Closing it is not enough: a child that is about to call exec still has a copy. */
    (void)epoll_ctl(s->peers_fd, EPOLL_CTL_DEL, peer->conn.fd, NULL);
    frame_conn_fini(&peer->conn);
    free(peer);
}

/* Has a peer had a turn without sending anything? A shim sends its first bytes as soon as it
 * connects. */
static bool is_silent(const struct supervisor *s, const struct shim_peer *peer)
{
    return peer->moved_ns == 0 && peer->round != s->strangers.round;
}

/* Returns whether `a` should be dropped rather than `b`. Silent strangers go first, then those of
 * the host with the most, then the one that has been idle for longest: a shim's handshake takes
 * several turns, and makes progress in each. */
static bool is_rather_dropped(struct supervisor *s, const struct shim_peer *a,
                              const struct shim_peer *b)
{
    uint32_t mates_a = *bucket_of(&s->strangers, a), mates_b = *bucket_of(&s->strangers, b);

    assert(!a->instance && !b->instance);
    if (is_silent(s, a) != is_silent(s, b))
        return is_silent(s, a);
    if (mates_a != mates_b)
        return mates_a > mates_b;
    return max_u64(a->moved_ns, a->since_ns) < max_u64(b->moved_ns, b->since_ns);
}

/* Drop a stranger; false if there is none. */
static bool drop_stranger(struct supervisor *s)
{
    struct list *head = &s->strangers.list;
    struct shim_peer *found = NULL;
    char host[64];

    for (struct list *at = list_first(head); at; at = list_next(head, at))
        if (!found || is_rather_dropped(s, stranger_of(at), found))
            found = stranger_of(at);
    if (!found)
        return false;
    if (s->strangers.dropped++ == 0 && found->from.uid == (uid_t)-1)
        log_warn("%u connections from host %s have not identified themselves: the oldest are "
                 "closed to make room for those of the job",
                 *bucket_of(&s->strangers, found),
                 dial_format_host(&found->from, host, sizeof(host)));
    s->strangers.worst = found->from;
    assert(!found->instance);
    peers_drop(s, found);
    return true;
}

void peers_drop_late(struct supervisor *s, uint64_t now)
{
    struct list *head = &s->strangers.list, *next;

    for (struct list *at = list_first(head); at; at = next) {
        next = list_next(head, at);
        if (now > stranger_of(at)->since_ns + STRANGER_MS * NS_PER_MS)
            peers_drop(s, stranger_of(at));
    }
}

static void note_refused(struct supervisor *s, const struct dial_peer *from)
{
    s->strangers.worst = *from;
    if (++s->strangers.refused == REFUSED_TOLD)
        log_warn("processes of user %u keep connecting to this job, and are refused",
                 (unsigned)from->uid);
}

void instances_describe_strangers(const struct supervisor *s, char *ret, size_t size)
{
    const struct strangers *n = &s->strangers;
    char host[64];

    *ret = '\0';
    if (n->refused >= REFUSED_TOLD)
        (void)snprintf(ret, size,
                       "; meanwhile %llu connections of other users of this host were refused, the "
                       "last from user %u",
                       (unsigned long long)n->refused, (unsigned)n->worst.uid);
    else if (n->dropped > 0)
        (void)snprintf(ret, size,
                       "; meanwhile %llu connections that did not identify themselves were closed, "
                       "the last from %s",
                       (unsigned long long)n->dropped,
                       n->worst.uid == (uid_t)-1 ? dial_format_host(&n->worst, host, sizeof(host))
                                                 : "this host");
}

/* ---- accepting ---- */

static int add_peer(struct supervisor *s, int fd, const struct dial_peer *from)
{
    struct epoll_event e = {.events = EPOLLIN};
    struct shim_peer *peer;

    /* All shims of a large job may connect at the same moment. */
    if (s->strangers.count >= STRANGERS_MAX + s->counts[INSTANCE_ABSENT])
        (void)drop_stranger(s);
    if (array_grow(&s->peers, &s->peers_cap, s->num_peers, sizeof(struct shim_peer *)) < 0)
        return -ENOMEM;
    peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    e.data.ptr = peer;
    if (epoll_ctl(s->peers_fd, EPOLL_CTL_ADD, fd, &e) < 0) {
        free(peer);
        return -ENOMEM;
    }
    (void)frame_conn_init(&peer->conn, fd, CONTROL_UNAUTHENTICATED_PAYLOAD);
    peer->conn.tx.ended = note_unsent;
    peer->conn.tx.ended_arg = peer;
    peer->unsent_list = &s->unsent;
    peer->since_ns = time_now_ns();
    peer->from = *from;
    peer->round = s->strangers.round;
    assert(s->num_peers < s->peers_cap);
    peer->at = s->num_peers;
    s->peers[s->num_peers++] = peer;
    count_stranger(s, peer);
    return 0;
}

void instances_accept(struct supervisor *s)
{
    struct dial_peer from;
    int fd = 0;

    s->strangers.round++;
    for (int i = 0; i < ACCEPTS && fd >= 0; i++) {
        fd = dial_accept(s->listener, &from);
        if (fd == -EPERM)
            note_refused(s, &from);
        if (fd == -EPERM || fd == -ECONNABORTED || fd == -EINTR ||
            ((fd == -EMFILE || fd == -ENFILE) && drop_stranger(s)))
            fd = 0; /* continue with the next */
        else if (fd >= 0 && add_peer(s, fd, &from) < 0)
            (void)close(fd);
    }
    if (fd >= 0 || fd == -EAGAIN)
        return;
    if (s->deaf_until == 0)
        log_warn("no instance can connect at the moment: %s", strerror(-fd));
    s->deaf_until = time_now_ns() + SUPERVISE_DEAF_MS * NS_PER_MS;
}

/* ---- reading and writing ---- */

void peers_read(struct supervisor *s)
{
    struct epoll_event ready[READS];
    int n = epoll_wait(s->peers_fd, ready, READS, 0);

    assert(s->num_ready == 0);
    s->ready = ready;
    s->num_ready = n < 0 ? 0 : n;
    for (int i = 0; i < s->num_ready; i++) {
        struct shim_peer *peer = ready[i].data.ptr;

        if (!peer)
            continue; /* dropped since epoll_wait() */
        instances_read(s, peer);
        if (ready[i].data.ptr)
            note_unsent(peer); /* reading can let it write */
    }
    s->ready = NULL;
    s->num_ready = 0;
}

void instances_flush(struct supervisor *s)
{
    struct list *link;

    while ((link = list_first(&s->unsent))) {
        struct shim_peer *peer = container_of(link, struct shim_peer, unsent);
        int r;

        list_remove(link);
        r = frame_conn_flush(&peer->conn);
        if (r < 0 && r != -EAGAIN) {
            peers_hang_up(s, peer);
            continue;
        }
        frame_conn_trim(&peer->conn);
        watch(s, peer);
    }
}

void instances_close(struct supervisor *s)
{
    while (s->num_peers > 0)
        peers_drop(s, s->peers[s->num_peers - 1]);
    free(s->peers);
    s->peers = NULL;
    io_close(&s->peers_fd);
}

/* SPDX-License-Identifier: MIT */
/* test_hosts_strangers.c - processes that do not belong to the job connect to the ports of its
 * instances while these meet. All instances must meet, and their results must be right. */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/tls.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_tcp_priv.h"
#include "tests/libdist/collectives/many_hosts.h"
#include "tests/libdist/collectives/random_op.h"
#include "tests/tap.h"

enum { HOSTS = 3, MOST = 1000, OPS = 20 };

enum kind { SILENT, GARBAGE, SLOW, PLAIN, WRONG_KEY, FLOOD, KINDS };

static const char *const sentences[KINDS] = {
    "a thousand silent connections do not keep instances from meeting",
    "garbage does not keep instances from meeting",
    "slow clients do not keep instances from meeting",
    "clients without TLS do not join",
    "clients with another key do not join",
    "a flood of connections does not keep instances from meeting",
};
static const unsigned counts[KINDS] = {MOST, 200, 200, 40, 40, 200};

/* Between this process and the instances. */
struct progress {
    _Atomic uint32_t open;    /* the strangers are connected: the later hosts' instances may come */
    _Atomic uint32_t met;     /* instances that have finished their first collective */
    _Atomic uint32_t checked; /* they may continue */
    _Atomic uint32_t ended;   /* an instance has failed */
};

struct run {
    struct random_op_limits limits;
    struct progress *progress; /* shared */
};

struct strangers {
    enum kind kind;
    unsigned count;
    struct many_hosts *all;
    struct progress *progress;
    struct frame_conn conns[MOST];
    struct tls *tls;
    pthread_t thread;
    _Atomic bool stop;
};

/* ---- the instances ---- */

static int call(struct plenum_job *job, const struct run *run, uint64_t i)
{
    struct plenum_error err = {""};
    int r = random_op_run(job, &run->limits, i, &err);

    if (r < 0)
        fprintf(stderr, "collective %u: %s\n", (unsigned)i, err.text);
    return r;
}

static int be_instance(struct plenum_job *job, const void *arg)
{
    const struct run *run = arg;
    struct progress *p = run->progress;
    int r;

    while (plenum_job_get_info(job)->instance_index > 0 && !p->open)
        (void)usleep(1000);
    r = call(job, run, 0);
    if (r == 0)
        (void)atomic_fetch_add(&p->met, 1);
    while (r == 0 && !p->checked)
        (void)usleep(1000);
    for (uint64_t i = 1; i < OPS && r == 0; i++)
        r = call(job, run, i);
    p->ended |= r != 0;
    plenum_job_close(job);
    return r != 0;
}

/* ---- the strangers ---- */

/* Returns a socket that is connected with this port here, or -errno. */
static int dial_port(uint16_t port)
{
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const struct linger none = {.l_onoff = 1}; /* leave no port behind in TIME_WAIT */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    if (connect(fd, (const void *)&a, sizeof(a)) == 0)
        return fd;
    r = -errno;
    (void)close(fd);
    return r;
}

static void *flood(void *arg)
{
    struct strangers *s = arg;

    for (unsigned i = 0, done = 0; !s->stop; i++) {
        int fd = dial_port(many_hosts_port(s->all, i % (HOSTS - 1), 0));

        if (fd < 0)
            continue;
        (void)close(fd);
        if (++done == s->count)
            s->progress->open = 1;
    }
    return NULL;
}

/* Send the beginning of a long handshake, byte by byte. */
static void *dribble(void *arg)
{
    static const char start[] = {0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0x70, 3, 3};
    struct strangers *s = arg;

    for (size_t at = 0; !s->stop; at++) {
        char byte = at < sizeof(start) ? start[at] : 0;

        for (unsigned i = 0; i < s->count; i++)
            (void)send(s->conns[i].fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)usleep(1000);
    }
    return NULL;
}

/* Send what this kind of stranger sends at once. */
static void greet(struct strangers *s, unsigned i)
{
    struct frame_conn *conn = &s->conns[i];
    unsigned char bytes[4096];

    if (s->kind == GARBAGE) {
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (unsigned char)((i * 7919 + k + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 56);
        (void)send(conn->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (s->kind == WRONG_KEY && tls_carry(s->tls, conn->fd, &conn->carrier) < 0)
        exit(99);
    if (s->kind != PLAIN && s->kind != WRONG_KEY)
        return;
    if (tcp_put_hello(conn, HOSTS, 1 + i % 2) < 0)
        exit(99);
    (void)frame_conn_flush(conn);
}

static void make_key(struct tls **ret)
{
    struct tls_key other = {.bytes = "a secret of another job"}, key;

    if (tls_key_of_client(&other, "instance-1", &key, NULL) < 0 || tls_create(&key, ret, NULL) < 0)
        exit(99);
}

/* Connect with the first instance, which waits for the others. */
static void start_strangers(struct strangers *s)
{
    if (s->kind == WRONG_KEY)
        make_key(&s->tls);
    for (unsigned i = 0; s->kind != FLOOD && i < s->count && !s->progress->ended; i++) {
        int fd;

        while ((fd = dial_port(many_hosts_port(s->all, 0, 0))) == -ECONNREFUSED &&
               !s->progress->ended)
            (void)usleep(1000); /* it does not listen yet */
        if (fd < 0 || frame_conn_init(&s->conns[i], fd, TCP_PAYLOAD_MAX) < 0)
            exit(99);
        greet(s, i);
    }
    if (s->kind != FLOOD)
        s->progress->open = 1;
    if (s->kind == FLOOD || s->kind == SLOW)
        (void)pthread_create(&s->thread, NULL, s->kind == FLOOD ? flood : dribble, s);
}

/* Continue the handshakes. Returns whether an instance has answered. */
static bool hear_answers(struct strangers *s)
{
    struct frame_header header;
    struct frame_reader payload;
    bool answered = false;

    for (unsigned i = 0; i < s->count && (s->kind == PLAIN || s->kind == WRONG_KEY); i++) {
        struct frame_conn *conn = &s->conns[i];

        (void)frame_conn_flush(conn);
        if (frame_conn_fill(conn) > 0)
            answered |= frame_conn_next(conn, &header, &payload) > 0 && header.type == TCP_HELLO;
    }
    return answered;
}

static void stop_strangers(struct strangers *s)
{
    s->stop = true;
    if (s->kind == FLOOD || s->kind == SLOW)
        (void)pthread_join(s->thread, NULL);
    for (unsigned i = 0; s->kind != FLOOD && i < s->count; i++)
        frame_conn_fini(&s->conns[i]);
    tls_destroy(s->tls);
}

/* ---- */

static void check(enum kind kind, unsigned most)
{
    static const uint32_t hosts[HOSTS] = {1, 1, 1};
    struct progress *p =
        mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct run run = {.limits = {.seed = 5, .bytes = 100000, .kind = -1}, .progress = p};
    static struct strangers s;
    int statuses[MANY_HOSTS_MOST];
    bool answered = false, closed = true;

    s = (struct strangers){.kind = kind, .progress = p, .count = counts[kind]};
    s.count = (unsigned)min_u64(s.count, most);
    for (unsigned i = 0; i < MOST; i++)
        s.conns[i].fd = -1;
    s.all = many_hosts_start(hosts, HOSTS, true, be_instance, &run);
    start_strangers(&s);
    while (p->met < HOSTS && !p->ended) {
        answered |= hear_answers(&s);
        (void)usleep(1000);
    }
    for (uint32_t h = 0; h + 1 < HOSTS; h++)
        closed &= dial_port(many_hosts_port(s.all, h, 0)) == -ECONNREFUSED;
    p->checked = 1;
    many_hosts_end(s.all, statuses);
    stop_strangers(&s);
    tap_ok(closed && !answered && !statuses[0] && !statuses[1] && !statuses[2], "%s",
           sentences[kind]);
    (void)munmap(p, sizeof(*p));
}

int main(void)
{
    struct rlimit limit;

    (void)alarm(3000);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (tls_is_installed(NULL) < 0)
        tap_skip_all("Plenum was built without TLS");
    for (int kind = 0; kind < KINDS; kind++)
        check((enum kind)kind, (unsigned)limit.rlim_cur - 200);
    return tap_end();
}

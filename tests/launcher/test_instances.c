/* SPDX-License-Identifier: MIT */
/* Checks that strangers cannot keep a shim from connecting, and that a shim must report its
 * program's states in a fixed order: STARTED or FAILED, EXITED, DRAINED. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/job/supervise_priv.h"

static int put(struct frame_buffer *b, enum control_type type)
{
    static const struct control_started started = {
        .pid = 4711, .cpus = (char *)"0-3", .nodes = (char *)"0"};
    static const struct control_failed failed = {.step = CONTROL_STEP_FORK, .error = -EAGAIN};
    static const struct control_exited exited = {.status = 0};

    switch (type) {
    case CONTROL_STARTED:
        return control_put_started(b, &started);
    case CONTROL_FAILED:
        return control_put_failed(b, &failed);
    case CONTROL_EXITED:
        return control_put_exited(b, &exited);
    default:
        return control_put_bytes(b, type, "last\n", 5);
    }
}

/* Returns whether the shim of a job with one instance is disconnected when it sends this while its
 * program is at `state`. */
static bool hangs_up(enum instance_state state, enum control_type type)
{
    struct plan_instance planned = {0};
    struct plan_host host = {.name = (char *)"node7"};
    struct plan plan = {.num_instances = 1, .instances = &planned, .num_hosts = 1, .hosts = &host};
    const struct limits limits = {.grace_ns = 1};
    const struct stop_settings stop = {0};
    const struct supervise_job job = {.limits = &limits, .plan = &plan, .stop = &stop};
    struct shim_peer *peer = calloc(1, sizeof(*peer)), **peers = malloc(sizeof(struct shim_peer *));
    struct instance instance = {.state = state,
                                .peer = peer,
                                .has_exited = state >= INSTANCE_EXITED,
                                .tail = state == INSTANCE_DONE ? strdup("before") : NULL};
    struct supervisor s = {.plan = &plan,
                           .job = &job,
                           .phase = JOB_RUNNING,
                           .instances = &instance,
                           .peers = peers,
                           .num_peers = 1};
    struct frame_buffer said = {0};
    bool hung_up;
    int fds[2];

    s.counts[state] = 1;
    cr_assert(eq(int, peers_open(&s), 0));
    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0));
    cr_assert(eq(int, frame_conn_init(&peer->conn, fds[0], CONTROL_MAX_PAYLOAD), 0));
    peers[0] = peer;
    peer->instance = &instance;
    cr_assert(eq(int, stop_init(&s), 0));
    cr_assert(eq(int, put(&said, type), 0));
    cr_assert(eq(i64, write(fds[1], said.bytes, said.len), (int64_t)said.len));
    instances_read(&s, peer);
    hung_up = !instance.peer;
    instances_close(&s);
    stop_fini(&s);
    (void)close(fds[1]);
    frame_buffer_fini(&said);
    free(instance.tail);
    return hung_up;
}

Test(instances, messages_out_of_order_break_the_connection)
{
    static const enum control_type types[] = {CONTROL_STARTED, CONTROL_FAILED, CONTROL_EXITED,
                                              CONTROL_DRAINED};

    for (enum instance_state state = INSTANCE_PRESENT; state <= INSTANCE_DONE; state++)
        for (size_t i = 0; i < 4; i++) {
            bool right = (state == INSTANCE_PLANNED && types[i] == CONTROL_FAILED) ||
                         (state == INSTANCE_ALIVE && types[i] == CONTROL_EXITED) ||
                         (state == INSTANCE_EXITED && types[i] == CONTROL_DRAINED);

            if (state == INSTANCE_PLANNED && types[i] == CONTROL_STARTED)
                continue; /* also valid, and waits for output */
            cr_expect(eq(int, hangs_up(state, types[i]), !right), "state %d, message %d", state,
                      types[i]);
        }
}

/* ---- strangers ---- */

enum {
    SHIMS = 8,
    HOSTS = 5,       /* number of addresses (127.0.0.1 ...) that strangers and shims connect from */
    HELD_MAX = 400,  /* connections that strangers keep open */
    KEPT_MAX = 256,  /* number of them that plenumrun keeps, in addition to the missing shims */
    PIECE = 3,       /* bytes of a HELLO that a shim sends per turn */
    TURNS_MAX = 200, /* far longer than a shim needs to identify itself */
};

/* A job that is starting, and its port. */
struct port {
    struct plan_instance planned[SHIMS];
    struct plan_host host;
    struct plan plan;
    struct limits limits;
    struct supervise_job job;
    struct instance instances[SHIMS];
    struct supervisor s;
    struct sockaddr_in at;
};

static void open_port(struct port *p, bool local, char *text, size_t size)
{
    static const struct ports any;
    struct plenum_error err = {""};
    char name[40];

    *p = (struct port){.host = {.name = (char *)"node7", .known = true},
                       .limits = {.grace_ns = 1, .heartbeat_timeout_ns = UINT64_MAX / 4}};
    p->plan = (struct plan){
        .num_instances = SHIMS, .instances = p->planned, .num_hosts = 1, .hosts = &p->host};
    p->job = (struct supervise_job){.limits = &p->limits};
    p->s = (struct supervisor){.plan = &p->plan,
                               .job = &p->job,
                               .phase = JOB_STARTING,
                               .instances = p->instances,
                               .counts = {[INSTANCE_ABSENT] = SHIMS},
                               .token = "secret"};
    cr_assert(eq(int, peers_open(&p->s), 0));
    p->s.strangers.seed = 1; /* with which the addresses below are in different buckets */
    snprintf(name, sizeof(name), "test-instances-%d", (int)getpid());
    p->s.listener = local ? dial_listen_here(name, text, size, &err)
                          : dial_listen("127.0.0.0/8", &any, text, size, &err);
    cr_assert(ge(int, p->s.listener, 0), "%s", err.text);
    p->at = (struct sockaddr_in){.sin_family = AF_INET};
    if (!local)
        p->at.sin_port = htons((uint16_t)atoi(strrchr(text, ':') + 1));
    p->at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static void close_port(struct port *p)
{
    instances_close(&p->s);
    for (int i = 0; i < SHIMS; i++)
        free(p->instances[i].loader);
    close(p->s.listener);
}

/* Connect from 127.0.0.1, 127.0.0.2 ... */
static int knock(const struct port *p, uint32_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, bind(fd, (struct sockaddr *)&from, sizeof(from)), 0));
    cr_assert(eq(int, connect(fd, (const struct sockaddr *)&p->at, sizeof(p->at)), 0));
    return fd;
}

/* Run one turn like supervise.c: read everything that is readable, then accept new connections. */
static void turn(struct supervisor *s)
{
    peers_read(s);
    instances_accept(s);
}

static size_t count_strangers(const struct supervisor *s)
{
    size_t count = 0;

    for (size_t i = 0; i < s->num_peers; i++)
        count += !s->peers[i]->instance;
    return count;
}

/* A flood that is waiting when we begin to accept must not delay everything else. */
Test(instances, a_turn_accepts_a_limited_number_of_connections)
{
    char text[DIAL_TEXT_MAX];
    struct port p;
    int fds[150];

    open_port(&p, false, text, sizeof(text));
    for (int i = 0; i < 150; i++)
        fds[i] = knock(&p, 0);
    instances_accept(&p.s);
    cr_expect(gt(sz, p.s.num_peers, 0));
    cr_expect(lt(sz, p.s.num_peers, 150));
    for (int i = 0; i < 10; i++)
        instances_accept(&p.s);
    cr_expect(eq(sz, p.s.num_peers, 150));
    for (int i = 0; i < 150; i++)
        close(fds[i]);
    close_port(&p);
}

/* One shim: it sends its HELLO piece by piece, as a handshake takes several turns. */
struct knocker {
    int fd; /* -1: not connected yet */
    struct frame_buffer hello;
    size_t said;
};

static void begin_hello(struct knocker *k, uint32_t instance)
{
    struct control_hello hello;

    control_hello_init(&hello);
    snprintf(hello.token, sizeof(hello.token), "secret");
    host_get_name(hello.host, sizeof(hello.host));
    hello.instance = instance;
    *k = (struct knocker){.fd = -1};
    cr_assert(eq(int, control_put_hello(&k->hello, &hello), 0));
}

static void say_more(struct knocker *k)
{
    size_t len = min_u64(k->hello.len - k->said, PIECE);

    if (k->fd < 0 || len == 0)
        return;
    /* EPIPE: plenumrun has disconnected it, which the test notices at the end */
    k->said += send(k->fd, k->hello.bytes + k->said, len, MSG_NOSIGNAL) == (ssize_t)len ? len : 0;
}

/* Strangers that send nothing, a byte now and then, or garbage, and keep a few hundred
 * connections open. */
static void flood(const struct port *p, int *held, size_t *next)
{
    for (long n = random() % 60; n > 0; n--) {
        if (held[*next] >= 0)
            close(held[*next]);
        held[*next] = knock(p, (uint32_t)(random() % HOSTS));
        *next = (*next + 1) % HELD_MAX;
    }
    for (long n = random() % 8; n > 0; n--) {
        int fd = held[random() % HELD_MAX];

        if (fd >= 0)
            (void)!send(fd, "\0", 1, MSG_NOSIGNAL);
    }
}

static void strangers_round(unsigned seed)
{
    struct knocker shims[SHIMS];
    char text[DIAL_TEXT_MAX];
    int held[HELD_MAX], turns = 0;
    size_t next = 0;
    struct port p;

    srandom(seed);
    open_port(&p, false, text, sizeof(text));
    for (int i = 0; i < HELD_MAX; i++)
        held[i] = -1;
    for (uint32_t i = 0; i < SHIMS; i++)
        begin_hello(&shims[i], i);
    while (!instances_are(&p.s, INSTANCE_PRESENT) && turns++ < TURNS_MAX) {
        flood(&p, held, &next);
        for (uint32_t i = 0; i < SHIMS; i++) {
            if (shims[i].fd < 0 && random() % 8 == 0)
                shims[i].fd = knock(&p, i % HOSTS);
            say_more(&shims[i]);
        }
        turn(&p.s);
        cr_assert(le(sz, count_strangers(&p.s), KEPT_MAX + SHIMS));
        cr_assert(eq(sz, count_strangers(&p.s), p.s.strangers.count));
    }
    for (uint32_t i = 0; i < SHIMS; i++)
        cr_expect(eq(int, p.instances[i].state, INSTANCE_PRESENT), "seed %u, shim %u", seed, i);
    for (int i = 0; i < HELD_MAX; i++)
        io_close(&held[i]);
    for (int i = 0; i < SHIMS; i++) {
        io_close(&shims[i].fd);
        frame_buffer_fini(&shims[i].hello);
    }
    close_port(&p);
}

/* No pattern of strangers disconnects a shim that is sending its HELLO. PLENUM_STRANGERS sets the
 * number of rounds (default 5). */
Test(instances, strangers_cannot_displace_a_shim)
{
    const char *rounds = getenv("PLENUM_STRANGERS");

    io_raise_descriptors(2 * HELD_MAX + KEPT_MAX);
    for (unsigned i = 0; i < (rounds ? (unsigned)atoi(rounds) : 5); i++)
        strangers_round(i);
}

/* The host with the most connections is evicted first: a flooding host must not affect another,
 * even if both are silent. */
Test(instances, the_host_with_most_connections_loses_them)
{
    char text[DIAL_TEXT_MAX], told[200];
    int few[20], many[300], gone = 0;
    struct port p;
    char c;

    open_port(&p, false, text, sizeof(text));
    for (int i = 0; i < 20; i++)
        few[i] = knock(&p, 1);
    turn(&p.s);
    for (int i = 0; i < 300; i++) {
        many[i] = knock(&p, 2);
        turn(&p.s);
    }
    for (int i = 0; i < 20; i++)
        cr_expect(eq(int, (int)recv(few[i], &c, 1, MSG_DONTWAIT), -1),
                  "connection %d must stay open", i);
    for (int i = 0; i < 300; i++)
        gone += recv(many[i], &c, 1, MSG_DONTWAIT) == 0;
    cr_expect(eq(int, gone, 20 + 300 - KEPT_MAX - SHIMS));
    instances_describe_strangers(&p.s, told, sizeof(told));
    cr_expect(strstr(told, "56 connections that did not identify themselves were closed") &&
                  strstr(told, "127.0.0.3"),
              "%s", told);
    for (int i = 0; i < 300; i++)
        close(many[i]);
    for (int i = 0; i < 20; i++)
        close(few[i]);
    close_port(&p);
}

/* The shims of these instances connect, and the last one is refused with this report. */
static void check_refused(const uint32_t *instances, size_t count, enum report_kind kind,
                          const char *why)
{
    char text[DIAL_TEXT_MAX];
    struct knocker shims[4];
    struct port p;
    char c;

    open_port(&p, false, text, sizeof(text));
    for (size_t i = 0; i < count; i++) {
        cr_expect(eq(int, p.s.phase, JOB_STARTING));
        begin_hello(&shims[i], instances[i]);
        shims[i].fd = knock(&p, 0);
        while (shims[i].said < shims[i].hello.len)
            say_more(&shims[i]);
        do
            turn(&p.s);
        while (i + 1 < count ? p.instances[instances[i]].state != INSTANCE_PRESENT
                             : recv(shims[i].fd, &c, 1, MSG_DONTWAIT) != 0);
    }
    cr_expect(eq(int, p.s.phase, JOB_ENDING));
    cr_expect(eq(int, p.s.report.kind, kind));
    cr_expect(eq(str, p.s.report.text, (char *)why));
    for (size_t i = 0; i < count; i++) {
        io_close(&shims[i].fd);
        frame_buffer_fini(&shims[i].hello);
    }
    close_port(&p);
}

Test(instances, a_process_too_many_ends_the_job_with_its_reason)
{
    char why[CONTROL_TEXT_MAX], host[HOST_NAME_MAX_BYTES];
    const uint32_t twice[] = {1, 0, 1}, beyond[] = {0, SHIMS};

    host_get_name(host, sizeof(host));
    snprintf(why, sizeof(why),
             "it has connected a second time, from host %s: was its first connection interrupted, "
             "or has the starter started it twice?",
             host);
    check_refused(twice, ARRAY_LEN(twice), REPORT_LOST, why);
    snprintf(why, sizeof(why),
             "the starter has started instance %u on host %s, but the job has %u instances: remove "
             "options that change their number (--mpi-global-args, --mpi-local-args)",
             SHIMS, host, SHIMS);
    check_refused(beyond, ARRAY_LEN(beyond), REPORT_OTHER, why);
}

/* The cost of a turn depends only on the connections that have data to read or send. Idle
 * connections keep at most a small send buffer. */
Test(instances, a_quiet_connection_costs_nothing)
{
    struct knocker shims[SHIMS];
    char text[DIAL_TEXT_MAX];
    struct port p;

    open_port(&p, false, text, sizeof(text));
    for (uint32_t i = 0; i < SHIMS; i++) {
        begin_hello(&shims[i], i);
        shims[i].fd = knock(&p, i % HOSTS);
        while (shims[i].said < shims[i].hello.len)
            say_more(&shims[i]);
    }
    for (int i = 0; i < TURNS_MAX && !instances_are(&p.s, INSTANCE_PRESENT); i++)
        turn(&p.s);
    cr_assert(instances_are(&p.s, INSTANCE_PRESENT));
    instances_flush(&p.s);
    cr_expect(eq(int, p.s.strangers.count, 0));
    cr_expect(list_is_empty(&p.s.unsent), "nothing is left to be flushed");
    for (uint32_t i = 0; i < SHIMS; i++) {
        cr_expect(eq(sz, p.instances[i].peer->conn.rx.cap, 0));
        cr_expect(le(sz, p.instances[i].peer->conn.tx.cap, 256));
    }
    cr_assert(eq(int, control_put_empty(&p.instances[3].peer->conn.tx, CONTROL_BEAT), 0));
    cr_expect(list_first(&p.s.unsent) == &p.instances[3].peer->unsent, "a frame was queued");
    cr_expect(list_next(&p.s.unsent, list_first(&p.s.unsent)) == NULL, "and no other");
    instances_flush(&p.s);
    cr_expect(list_is_empty(&p.s.unsent));
    for (int i = 0; i < SHIMS; i++) {
        io_close(&shims[i].fd);
        frame_buffer_fini(&shims[i].hello);
    }
    close_port(&p);
}

/* A shim that sends but does not read must not fill plenumrun's memory. */
Test(instances, a_shim_that_does_not_read_is_lost)
{
    static char block[1 << 20];
    char text[DIAL_TEXT_MAX];
    struct knocker shim;
    struct port p;

    open_port(&p, false, text, sizeof(text));
    begin_hello(&shim, 2);
    shim.fd = knock(&p, 0);
    while (shim.said < shim.hello.len)
        say_more(&shim);
    for (int i = 0; i < TURNS_MAX && p.instances[2].state != INSTANCE_PRESENT; i++)
        turn(&p.s);
    for (int i = 0; i < 17; i++)
        cr_assert(eq(
            int,
            control_put_bytes(&p.instances[2].peer->conn.tx, CONTROL_INPUT, block, sizeof(block)),
            0));
    instances_beat(&p.s, time_now_ns());
    cr_expect(eq(int, p.instances[2].state, INSTANCE_DONE));
    cr_expect(p.instances[2].peer == NULL);
    cr_expect(eq(int, p.s.report.kind, REPORT_LOST));
    cr_expect(eq(u32, p.s.report.instance, 2));
    close(shim.fd);
    frame_buffer_fini(&shim.hello);
    close_port(&p);
}

Test(instances, other_users_are_counted_and_named)
{
    char text[DIAL_TEXT_MAX], told[200];
    struct port p;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        cr_skip_test("needs root, to be another user");
    open_port(&p, true, text, sizeof(text));
    instances_describe_strangers(&p.s, told, sizeof(told));
    cr_expect(eq(str, told, (char *)""));
    pid = fork();
    if (pid == 0) {
        struct address address;
        int made = 0;

        if (setuid(65534) == 0 && address_parse(text, &address, NULL) == 0)
            while (made < 120 && address_connect(&address, 0) >= 0)
                made++;
        _exit(made == 120 ? 0 : 1);
    }
    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    cr_assert(eq(int, status, 0));
    for (int i = 0; i < 10; i++)
        instances_accept(&p.s);
    cr_expect(eq(u64, p.s.strangers.refused, 120));
    cr_expect(eq(sz, p.s.num_peers, 0));
    instances_describe_strangers(&p.s, told, sizeof(told));
    cr_expect(strstr(told, "120 connections of other users") && strstr(told, "user 65534"), "%s",
              told);
    close_port(&p);
}

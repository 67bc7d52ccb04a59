/* SPDX-License-Identifier: MIT */
/* scale_hosts.c - see scale_hosts.h.
 *
 *     plenumrun --probe    ── ssh (here) prints what a host would print
 *     guard ── mpirun (here) ──┬── plenumrun --agent ── ssh (here)  one per host, as with Open MPI
 *                              └── a connection for each instance   as its shim opens one
 *
 * The connections speak the real protocol with the code of the real shims: TLS, HELLO, a heartbeat
 * a second. The instances start, run for a while, print lines, and then one of them fails. */
#include "config.h"

#include "bench/scale_hosts.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/control/control.h"
#include "launcher/control/dial.h"
#include "launcher/control/handover.h"
#include "launcher/values/topology.h"

enum {
    TICKS = 100, /* per second: each sends the heartbeats of one part of the instances */
    LINES = 20,
    LINE_BYTES = 100,
    EVENTS = 256,
    WORDS = 64,
};

/* A host: consecutive instances. */
struct scale_place {
    const char *name;
    uint32_t first, count;
    bool ready; /* the login has taken the secret */
};

struct actor {
    struct frame_conn conn;
    bool open, planned, exited;
    bool polled; /* for output */
};

struct scale_stage {
    struct scale_place *places;
    uint32_t num_places, ready, connected;
    struct actor *actors;
    uint32_t count, planned, exited, ended;
    uint64_t in_flight; /* bytes of output that plenumrun has not acknowledged */
    struct tls *tls;
    char *xml;
    size_t xml_len;
    int events, door; /* the epoll set; where logins report */
    int *logins;
    uint64_t seconds;
    uint64_t idle_ns, fail_ns, tick_ns;
    uint32_t tick;
    bool printed, failed;
};

static void die(const char *what)
{
    fprintf(stderr, "scale: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* ---- records ---- */

static uint64_t read_status(int pid, const char *key)
{
    char path[64], line[256];
    uint64_t kib = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtoull(line + strlen(key), NULL, 10);
    if (f)
        (void)fclose(f);
    return kib << 10;
}

static uint64_t read_cpu(int pid)
{
    char path[64], line[1024] = "";
    unsigned long user = 0, system = 0;
    const char *at;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    f = fopen(path, "r");
    if (f && fgets(line, sizeof(line), f) && (at = strrchr(line, ')')))
        (void)sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    if (f)
        (void)fclose(f);
    return (user + system) * NS_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
}

static uint64_t count_descriptors(int pid)
{
    char path[64];
    uint64_t n = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        (void)closedir(dir);
    return n;
}

void scale_measure(int pid, struct scale_record *ret)
{
    ret->at_ns = time_now_ns();
    ret->rss = read_status(pid, "VmRSS:");
    ret->most = read_status(pid, "VmHWM:");
    ret->most -= min_u64(ret->most, read_status(pid, "RssFile:"));
    ret->cpu_ns = read_cpu(pid);
    ret->descriptors = count_descriptors(pid);
}

static void record(const char *event)
{
    const char *path = getenv(SCALE_ENV_EVENTS), *pid = getenv(SCALE_ENV_PID);
    struct scale_record r = {0};
    FILE *f = path ? fopen(path, "a") : NULL;

    if (!f || !pid)
        die("no file of records");
    scale_measure(atoi(pid), &r);
    fprintf(f, "%s %llu %llu %llu %llu %llu\n", event, (unsigned long long)r.at_ns,
            (unsigned long long)r.rss, (unsigned long long)r.most, (unsigned long long)r.cpu_ns,
            (unsigned long long)r.descriptors);
    if (fclose(f) != 0)
        die("no file of records");
}

/* ---- ssh ---- */

static socklen_t name_door(struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "scale-%s",
                                        getenv(SCALE_ENV_PID)));
}

static int answer_query(void)
{
    const char *address = getenv(SCALE_ENV_ADDRESS);
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    printf("plenumrun-probe\nversion %s\ntime %lld%09ld\ndirectory 0\nprogram 0\n"
           "memory 10000000000 20000000000\nfolder 0\ntls 0\n",
           PACKAGE_VERSION, (long long)now.tv_sec, now.tv_nsec);
    if (address && *address)
        printf("address %s reached\n", address);
    printf("end\n");
    return 0;
}

int scale_be_ssh(int argc, char **argv)
{
    struct sockaddr_un at;
    socklen_t len;
    char bytes[4096];
    int fd;

    if (argc < 3)
        return 255;
    if (strstr(argv[argc - 1], "--probe"))
        return answer_query();
    while (read(STDIN_FILENO, bytes, sizeof(bytes)) > 0)
        ; /* the secret, which the simulated mpirun has anyway */
    len = name_door(&at);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, len) < 0 ||
        send(fd, argv[argc - 2], strlen(argv[argc - 2]), 0) < 0)
        return 255;
    (void)!read(fd, bytes, sizeof(bytes)); /* until mpirun ends */
    return 0;
}

/* ---- the shims ---- */

static void watch(struct scale_stage *s, struct actor *a)
{
    bool wants = frame_conn_wants_write(&a->conn);
    struct epoll_event e = {.events = EPOLLIN | (wants ? EPOLLOUT : 0U), .data.ptr = a};

    if (wants == a->polled)
        return;
    a->polled = wants;
    if (epoll_ctl(s->events, EPOLL_CTL_MOD, a->conn.fd, &e) < 0)
        die("epoll");
}

static void end_actor(struct scale_stage *s, struct actor *a)
{
    if (!a->open)
        return;
    if (!a->planned) {
        fprintf(stderr, "scale: plenumrun closed a connection before it sent a plan\n");
        exit(1);
    }
    a->open = false;
    s->ended++;
    frame_conn_fini(&a->conn);
}

static void flush(struct scale_stage *s, struct actor *a)
{
    int r = frame_conn_flush(&a->conn);

    if (r < 0 && r != -EAGAIN)
        end_actor(s, a);
    else
        watch(s, a);
}

static void say_hello(struct scale_stage *s, uint32_t place, uint32_t index)
{
    struct actor *a = &s->actors[index];
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = a};
    struct control_hello m;
    struct plenum_error err;
    const char *token = getenv(SHIM_ENV_TOKEN);
    int fd = dial_connect(getenv(SHIM_ENV_CONTROL), 30000, &err);

    if (fd < 0 || frame_conn_init(&a->conn, fd, CONTROL_MAX_PAYLOAD) < 0)
        die("connecting to plenumrun");
    if (s->tls && tls_carry(s->tls, fd, &a->conn.carrier) < 0)
        die("tls");
    a->open = true;
    control_hello_init(&m);
    m.instance = index;
    m.local_index = index - s->places[place].first;
    m.pid = 1000 + index;
    (void)snprintf(m.token, sizeof(m.token), "%s", token + (s->tls ? 4 : 0));
    (void)snprintf(m.host, sizeof(m.host), "%s", s->places[place].name);
    if (control_put_hello(&a->conn.tx, &m) < 0 || epoll_ctl(s->events, EPOLL_CTL_ADD, fd, &e) < 0)
        die("hello");
    flush(s, a);
}

static void exit_with(struct scale_stage *s, struct actor *a, int status, enum control_cause cause)
{
    struct control_exited m = {
        .status = status, .cause = cause, .elapsed_ns = NS_PER_SEC, .traceback_ns = UINT64_MAX};

    if (a->exited || !a->planned)
        return;
    a->exited = true;
    s->exited++;
    (void)control_put_exited(&a->conn.tx, &m);
    (void)control_put_bytes(&a->conn.tx, CONTROL_DRAINED, "", 0);
}

static void start_program(struct scale_stage *s, struct actor *a)
{
    struct control_started m = {
        .pid = 1000 + (uint32_t)(a - s->actors), .cpus = (char *)"0", .nodes = (char *)""};

    a->planned = true;
    (void)control_put_started(&a->conn.tx, &m);
    if (++s->planned == s->count) {
        record("planned");
        s->idle_ns = time_now_ns() + NS_PER_SEC;
    }
}

static void handle(struct scale_stage *s, struct actor *a, const struct frame_header *header,
                   struct frame_reader *payload)
{
    uint64_t number;

    switch ((enum control_type)header->type) {
    case CONTROL_TOPOLOGY:
        (void)control_put_topology(&a->conn.tx, true, s->xml, s->xml_len);
        break;
    case CONTROL_PLAN:
        start_program(s, a);
        break;
    case CONTROL_CREDIT:
        (void)control_get_number(payload, &number);
        s->in_flight -= min_u64(s->in_flight, number);
        if (s->in_flight == 0)
            record("written");
        break;
    case CONTROL_TERMINATE:
        exit_with(s, a, SIGTERM, CONTROL_CAUSE_ASKED);
        break;
    case CONTROL_END:
        end_actor(s, a);
        break;
    default:
        break;
    }
}

static void hear(struct scale_stage *s, struct actor *a)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n = frame_conn_fill(&a->conn);

    while (a->open && frame_conn_next(&a->conn, &header, &payload) == 1)
        handle(s, a, &header, &payload);
    if (a->open && n < 0 && n != -EAGAIN)
        end_actor(s, a);
    if (a->open)
        flush(s, a);
}

/* ---- mpirun ---- */

/* Split mpirun's list of hosts, which names a host once for each of its instances. */
static void read_hosts(struct scale_stage *s, char *list)
{
    char *save = NULL;
    size_t cap = 0;

    for (char *name = strtok_r(list, ",\n", &save); name; name = strtok_r(NULL, ",\n", &save)) {
        struct scale_place *last = s->num_places > 0 ? &s->places[s->num_places - 1] : NULL;

        if (last && strcmp(last->name, name) == 0) {
            last->count++;
        } else {
            if (array_grow(&s->places, &cap, s->num_places, sizeof(*s->places)) < 0)
                die("hosts");
            s->places[s->num_places++] =
                (struct scale_place){.name = name, .first = s->count, .count = 1};
        }
        s->count++;
    }
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (!f || getdelim(&text, &size, '\0', f) < 0)
        die(path);
    (void)fclose(f);
    return text;
}

static void read_arguments(struct scale_stage *s, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--host") == 0)
            read_hosts(s, argv[i + 1]);
        else if (strcmp(argv[i], "--hostfile") == 0)
            read_hosts(s, read_file(argv[i + 1]));
    }
    s->actors = calloc(s->count + 1, sizeof(*s->actors));
    s->logins = calloc(s->num_places + 1, sizeof(*s->logins));
    if (s->count == 0 || !s->actors || !s->logins)
        die("no hosts");
}

/* Start the agent for each host, as Open MPI does. */
static void log_in(const struct scale_stage *s)
{
    char *agent = strdup(getenv("OMPI_MCA_plm_rsh_agent")), *words[WORDS], *save = NULL;
    char *args = strdup(getenv("OMPI_MCA_plm_rsh_args") ? getenv("OMPI_MCA_plm_rsh_args") : "");
    size_t n = 0;
    pid_t pid;

    for (char *w = strtok_r(agent, " ", &save); w; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    for (char *w = strtok_r(args, " ", &save); w && n + 3 < WORDS; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    words[n + 1] = (char *)"orted";
    words[n + 2] = NULL;
    for (uint32_t i = 0; i < s->num_places; i++) {
        words[n] = (char *)s->places[i].name;
        if (posix_spawn(&pid, words[0], NULL, NULL, words, environ) != 0)
            die(words[0]);
    }
    free(agent);
    free(args);
}

/* Accept a login, which has taken the secret: its host's shims may connect now. */
static void open_door(struct scale_stage *s)
{
    char name[256];
    int fd = accept4(s->door, NULL, NULL, SOCK_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : recv(fd, name, sizeof(name) - 1, 0);

    if (n <= 0)
        die("a login");
    name[n] = '\0';
    for (uint32_t i = 0; i < s->num_places; i++) {
        struct scale_place *p = &s->places[i];

        if (p->ready || strcmp(p->name, name) != 0)
            continue;
        p->ready = true;
        s->logins[s->ready++] = fd;
        break;
    }
    if (s->ready == s->num_places)
        record("logins");
}

/* Let the shims of one host connect. */
static void connect_more(struct scale_stage *s)
{
    if (s->connected == s->num_places || !s->places[s->connected].ready)
        return;
    for (uint32_t i = 0; i < s->places[s->connected].count; i++)
        say_hello(s, s->connected, s->places[s->connected].first + i);
    if (++s->connected == s->num_places)
        record("connected");
}

static void print_lines(struct scale_stage *s)
{
    static char text[LINES * LINE_BYTES];

    memset(text, 'x', sizeof(text));
    for (int i = 1; i <= LINES; i++)
        text[i * LINE_BYTES - 1] = '\n';
    s->printed = true;
    s->in_flight = (uint64_t)s->count * sizeof(text);
    record("print");
    for (uint32_t i = 0; i < s->count; i++) {
        (void)control_put_output(&s->actors[i].conn.tx, CONTROL_STDOUT, text, sizeof(text));
        flush(s, &s->actors[i]);
    }
}

static void beat(struct scale_stage *s)
{
    for (uint32_t i = s->tick++ % TICKS; i < s->count; i += TICKS) {
        if (!s->actors[i].open)
            continue;
        (void)control_put_empty(&s->actors[i].conn.tx, CONTROL_BEAT);
        flush(s, &s->actors[i]);
    }
}

static void do_what_is_due(struct scale_stage *s, uint64_t now)
{
    if (now >= s->tick_ns) {
        s->tick_ns = max_u64(s->tick_ns + NS_PER_SEC / TICKS, now - NS_PER_SEC / TICKS);
        beat(s);
    }
    if (now >= s->idle_ns) {
        s->idle_ns = UINT64_MAX;
        s->fail_ns = now + s->seconds * NS_PER_SEC;
        record("idle");
    }
    if (now < s->fail_ns)
        return;
    if (!s->printed) {
        print_lines(s);
    } else if (!s->failed && s->in_flight == 0) {
        s->failed = true;
        record("failure");
        exit_with(s, &s->actors[s->count / 2], 1 << 8, CONTROL_CAUSE_ITSELF);
        flush(s, &s->actors[s->count / 2]);
    }
}

static void run(struct scale_stage *s)
{
    struct epoll_event events[EVENTS];

    while (s->ended < s->count) {
        bool busy = s->connected < s->num_places && s->places[s->connected].ready;
        int n = epoll_wait(s->events, events, EVENTS, busy ? 0 : 1000 / TICKS);

        for (int i = 0; i < n; i++) {
            struct actor *a = events[i].data.ptr;

            if (!a)
                open_door(s);
            else if (a->open)
                hear(s, a);
        }
        connect_more(s);
        do_what_is_due(s, time_now_ns());
    }
}

static void prepare(struct scale_stage *s)
{
    const char *token = getenv(SHIM_ENV_TOKEN);
    struct epoll_event e = {.events = EPOLLIN};
    struct sockaddr_un at;
    hwloc_topology_t topology;
    struct plenum_error err;
    socklen_t len = name_door(&at);

    (void)io_raise_descriptors(s->count + s->num_places + 64);
    if (!token || !getenv(SHIM_ENV_CONTROL))
        die("no token");
    if (str_after(token, CONTROL_TOKEN_TLS) &&
        control_secure(str_after(token, CONTROL_TOKEN_TLS), true, &s->tls, &err) < 0)
        die("tls");
    if (topology_load(false, &topology, &err) < 0 ||
        topology_export(topology, &s->xml, &s->xml_len, &err) < 0)
        die("topology");
    s->events = epoll_create1(EPOLL_CLOEXEC);
    s->door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s->events < 0 || s->door < 0 || bind(s->door, (struct sockaddr *)&at, len) < 0 ||
        listen(s->door, SOMAXCONN) < 0 || epoll_ctl(s->events, EPOLL_CTL_ADD, s->door, &e) < 0)
        die("a socket");
}

int scale_be_mpirun(int argc, char **argv)
{
    struct scale_stage s = {.idle_ns = UINT64_MAX, .fail_ns = UINT64_MAX};

    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("mpirun (Open MPI) 4.1.4\n");
        return 0;
    }
    s.seconds = strtoull(getenv(SCALE_ENV_SECONDS), NULL, 10);
    read_arguments(&s, argc, argv);
    prepare(&s);
    record("mpirun");
    log_in(&s);
    run(&s);
    record("over");
    for (uint32_t i = 0; i < s.ready; i++)
        (void)close(s.logins[i]);
    while (wait(NULL) > 0)
        ;
    return 1;
}

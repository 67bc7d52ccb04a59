/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/libdist/collectives/many_hosts.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/job/meeting.h"
#include "common/net/port_reserve.h"

/* A TLS context, which may be left at the end, is in memory that the leak checker does not read. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

#ifdef HAVE_TLS
static const bool has_tls = true;
#else
static const bool has_tls = false;
#endif

struct many_hosts {
    uint32_t instances, hosts;
    pid_t pids[MANY_HOSTS_MOST];
    struct meeting_server *servers[MANY_HOSTS_MOST];
    pthread_t thread; /* calls meeting_server_dispatch() */
    _Atomic bool closing;
    uint16_t ports[MANY_HOSTS_MOST][MANY_HOSTS_MOST]; /* by host and local index */
    int reserved[MANY_HOSTS_MOST][MANY_HOSTS_MOST];   /* what keeps them */
};

static void die(const char *what)
{
    fprintf(stderr, "many_hosts: %s\n", what);
    exit(99);
}

static void *serve(void *arg)
{
    struct many_hosts *all = arg;

    while (!all->closing) {
        struct pollfd p[MANY_HOSTS_MOST];

        for (uint32_t i = 0; i < all->hosts; i++)
            p[i] = (struct pollfd){.fd = meeting_server_get_fd(all->servers[i]), .events = POLLIN};
        (void)poll(p, all->hosts, 5);
        for (uint32_t i = 0; i < all->hosts; i++)
            meeting_server_dispatch(all->servers[i]);
    }
    return NULL;
}

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", value);
    (void)setenv(name, text, 1);
}

static void be_instance(uint32_t instances, uint32_t index, many_hosts_instance *run,
                        const void *arg)
{
    struct plenum_error err = {""};
    struct plenum_job *job;

    (void)alarm(300);
    set_number("PLENUM_NUM_INSTANCES", instances);
    set_number("PLENUM_INSTANCE_INDEX", index);
    set_number("PLENUM_NUM_REPLICAS", instances);
    set_number("PLENUM_NUM_LOCAL_REPLICAS", 1);
    set_number("PLENUM_REPLICA_OFFSET", index);
    if (plenum_job_open(&job, &err) < 0)
        die(err.text);
    exit(run(job, arg));
}

/* Set the variable for instances of this local index. */
static void set_hosts(const struct many_hosts *all, const uint32_t *counts, uint32_t local)
{
    char text[512] = "";

    for (uint32_t i = 0; i < all->hosts; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u=tcp:127.0.0.1:%u",
                       i ? ";" : "", counts[i], all->ports[i][local]);
    (void)setenv("PLENUM_COLLECTIVES_HOSTS", text, 1);
}

static void make_servers(struct many_hosts *all, const uint32_t *counts, bool encrypted,
                         char addresses[MANY_HOSTS_MOST][MEETING_ADDRESS_MAX])
{
    static unsigned number;
    unsigned char secret[MEETING_SECRET_BYTES] = "a secret of thirty-two bytes...";
    struct plenum_error err;
    char name[48];

    number++;
    for (uint32_t i = 0; i < all->hosts; i++) {
        (void)snprintf(name, sizeof(name), "many-%d-%u-%u", (int)getpid(), number, i);
        if (meeting_server_create(name, "job", counts[i], &all->servers[i], addresses[i], &err) < 0)
            die(err.text);
        if (encrypted && has_tls)
            meeting_server_set_secret(all->servers[i], secret);
        all->instances += counts[i];
    }
}

static void reserve_ports(struct many_hosts *all)
{
    for (uint32_t h = 0; h < all->hosts; h++)
        for (uint32_t i = 0; i < MANY_HOSTS_MOST; i++) {
            all->reserved[h][i] = port_reserve(0, 0, 0, &all->ports[h][i]);
            if (all->reserved[h][i] < 0)
                die("no port");
        }
}

uint16_t many_hosts_port(const struct many_hosts *all, uint32_t host, uint32_t local)
{
    return all->ports[host][local];
}

struct many_hosts *many_hosts_start(const uint32_t *counts, uint32_t hosts, bool encrypted,
                                    many_hosts_instance *run, const void *arg)
{
    struct many_hosts *all = calloc(1, sizeof(*all));
    char addresses[MANY_HOSTS_MOST][MEETING_ADDRESS_MAX];
    uint32_t index = 0;

    if (!all)
        die("out of memory");
    all->hosts = hosts;
    make_servers(all, counts, encrypted, addresses);
    (void)setenv("PLENUM_JOB_ID", "job", 1);
    reserve_ports(all);
    (void)fflush(NULL);
    for (uint32_t h = 0; h < hosts; h++) {
        (void)setenv(MEETING_VARIABLE, addresses[h], 1);
        set_number("PLENUM_NUM_LOCAL_INSTANCES", counts[h]);
        for (uint32_t i = 0; i < counts[h]; i++, index++) {
            set_hosts(all, counts, i);
            set_number("PLENUM_LOCAL_INSTANCE_INDEX", i);
            all->pids[index] = fork();
            if (all->pids[index] == 0)
                be_instance(all->instances, index, run, arg);
        }
    }
    if (pthread_create(&all->thread, NULL, serve, all) != 0)
        die("no thread");
    return all;
}

void many_hosts_kill(struct many_hosts *all, uint32_t instance, int signal)
{
    (void)kill(all->pids[instance], signal);
}

void many_hosts_end(struct many_hosts *all, int statuses[MANY_HOSTS_MOST])
{
    for (uint32_t i = 0; i < all->instances; i++) {
        int status = 0;

        (void)waitpid(all->pids[i], &status, 0);
        statuses[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    all->closing = true;
    (void)pthread_join(all->thread, NULL);
    for (uint32_t h = 0; h < all->hosts; h++) {
        meeting_server_destroy(all->servers[h]);
        for (uint32_t i = 0; i < MANY_HOSTS_MOST; i++)
            (void)close(all->reserved[h][i]);
    }
    free(all);
}

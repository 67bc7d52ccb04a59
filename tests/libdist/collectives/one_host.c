/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/libdist/collectives/one_host.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/job/meeting.h"

struct one_host {
    uint32_t instances;
    pid_t pids[ONE_HOST_MOST];
    struct meeting_server *server;
    pthread_t thread; /* calls meeting_server_dispatch() */
    _Atomic bool closing;
};

static void die(const char *what)
{
    fprintf(stderr, "one_host: %s\n", what);
    exit(99);
}

static void *serve(void *arg)
{
    struct one_host *host = arg;

    while (!host->closing) {
        struct pollfd p = {.fd = meeting_server_get_fd(host->server), .events = POLLIN};

        (void)poll(&p, 1, 5);
        meeting_server_dispatch(host->server);
    }
    return NULL;
}

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", value);
    (void)setenv(name, text, 1);
}

static void be_instance(uint32_t instances, uint32_t index, one_host_instance *run, const void *arg)
{
    struct plenum_error err = {""};
    struct plenum_job *job;

    (void)alarm(300);
    set_number("PLENUM_NUM_INSTANCES", instances);
    set_number("PLENUM_NUM_LOCAL_INSTANCES", instances);
    set_number("PLENUM_INSTANCE_INDEX", index);
    set_number("PLENUM_LOCAL_INSTANCE_INDEX", index);
    set_number("PLENUM_NUM_REPLICAS", instances);
    set_number("PLENUM_NUM_LOCAL_REPLICAS", 1);
    set_number("PLENUM_REPLICA_OFFSET", index);
    if (plenum_job_open(&job, &err) < 0)
        die(err.text);
    exit(run(job, arg));
}

struct one_host *one_host_start(uint32_t instances, const char *wait, one_host_instance *run,
                                const void *arg)
{
    static unsigned number;
    struct one_host *host = calloc(1, sizeof(*host));
    char address[MEETING_ADDRESS_MAX], name[48];
    struct plenum_error err;

    if (!host || instances > ONE_HOST_MOST)
        die("too large");
    host->instances = instances;
    (void)snprintf(name, sizeof(name), "test-%d-%u", (int)getpid(), number++);
    if (meeting_server_create(name, "job", instances, &host->server, address, &err) < 0)
        die(err.text);
    (void)setenv(MEETING_VARIABLE, address, 1);
    (void)setenv("PLENUM_JOB_ID", "job", 1);
    (void)setenv(MEETING_WAIT_VARIABLE, wait, 1);
    (void)fflush(NULL);
    for (uint32_t i = 0; i < instances; i++) {
        host->pids[i] = fork();
        if (host->pids[i] < 0)
            die("fork failed");
        if (host->pids[i] == 0) {
            meeting_server_destroy(host->server); /* the parent has it */
            free(host);
            be_instance(instances, i, run, arg);
        }
    }
    if (pthread_create(&host->thread, NULL, serve, host) != 0)
        die("no thread");
    return host;
}

void one_host_kill(struct one_host *host, uint32_t instance, int signal)
{
    (void)kill(host->pids[instance], signal);
}

void one_host_end(struct one_host *host, int statuses[ONE_HOST_MOST])
{
    for (uint32_t i = 0; i < host->instances; i++) {
        int status = 0;

        (void)waitpid(host->pids[i], &status, 0);
        statuses[i] = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    host->closing = true;
    (void)pthread_join(host->thread, NULL);
    meeting_server_destroy(host->server);
    free(host);
}

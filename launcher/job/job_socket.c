/* SPDX-License-Identifier: MIT */
/* job_socket.c - answers plenumctl job, through the job's own socket (common/job/jobctl.h).
 *
 * The job does not depend on the socket, and also runs without it. The number of clients is
 * limited, each of them has a few seconds, and none can make plenumrun wait. If there are too many,
 * the one that has been silent for longest is dropped. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/jobctl.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/job/interlude.h"
#include "launcher/job/supervise_priv.h"

enum { CLIENT_MS = 5000 };

int job_socket_open(const char *id)
{
    char text[JOBCTL_NAME_MAX], address[DIAL_TEXT_MAX];
    struct plenum_error err;
    int fd;

    (void)jobctl_address(id, text);
    fd = dial_listen_here(text + sizeof("unix:@") - 1, address, sizeof(address), &err);
    if (fd < 0)
        log_debug("plenumctl job cannot reach this job: %s", err.text);
    return fd < 0 ? -1 : fd;
}

static void drop(struct supervisor *s, size_t index)
{
    assert(index < s->socket.count);
    frame_conn_fini(&s->socket.clients[index].conn);
    s->socket.clients[index] = s->socket.clients[--s->socket.count];
}

void job_socket_drop_clients(struct supervisor *s)
{
    while (s->socket.count > 0)
        drop(s, 0);
}

struct job_socket job_socket_take(const struct supervise_job *job)
{
    struct job_socket taken = {.listener = -1};

    if (!job->socket)
        return taken;
    taken = *job->socket;
    job->socket->count = 0;
    return taken;
}

void job_socket_give_back(struct supervisor *s)
{
    for (size_t i = s->socket.count; i-- > 0;)
        if (s->socket.clients[i].growing || !s->job->socket)
            drop(s, i);
    if (s->job->socket)
        *s->job->socket = s->socket;
}

static const char *phase_of(const struct supervisor *s)
{
    static const char *const names[JOB_PHASES] = {[JOB_STARTING] = "starting",
                                                  [JOB_RUNNING] = "running",
                                                  [JOB_ENDING] = "ending",
                                                  [JOB_CLOSING] = "closing"};

    if (s->phase == JOB_RESTING)
        return "waiting";
    return s->phase == JOB_RUNNING && s->stop.noticed ? "stopping" : names[s->phase];
}

static int put_job(struct supervisor *s, struct frame_buffer *b)
{
    struct jobctl_job m = {.pid = (uint32_t)getpid(),
                           .hosts = s->plan->num_hosts,
                           .instances = s->plan->num_instances,
                           .restarts = s->job->restart_count,
                           .elapsed_ns = time_now_ns() - s->job->begun_ns,
                           .halted = stop_get_step(s)};

    (void)snprintf(m.id, sizeof(m.id), "%s", s->job->id);
    (void)snprintf(m.program, sizeof(m.program), "%s", s->job->program[0]);
    (void)snprintf(m.phase, sizeof(m.phase), "%s", phase_of(s));
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        m.asked = max_u64(m.asked, s->stop.agreement.ranks[i].asked);
    (void)slow_watch_describe(s, UINT32_MAX, m.slow, sizeof(m.slow));
    return jobctl_put_job(b, &m);
}

static uint64_t ago(uint64_t now, uint64_t then)
{
    if (then == 0)
        return UINT64_MAX;
    return now > then ? now - then : 0;
}

static int put_instance(struct supervisor *s, uint32_t index, struct frame_buffer *b)
{
    const struct instance *inst = &s->instances[index];
    uint64_t now = time_now_ns();
    struct jobctl_instance m = {.index = index,
                                .pid = inst->pid,
                                .asked = s->stop.agreement.ranks[index].asked,
                                .own_ns = inst->paced ? inst->own_ns : UINT64_MAX,
                                .wait_ns = inst->paced ? inst->wait_ns : UINT64_MAX,
                                .output_ns = ago(now, inst->output_ns),
                                .heard_ns =
                                    ago(now, inst->state == INSTANCE_DONE ? 0 : inst->heard_ns)};

    (void)snprintf(m.host, sizeof(m.host), "%s", instance_host(s, inst)->name);
    (void)snprintf(m.state, sizeof(m.state), "%s", result_state(inst));
    (void)snprintf(m.cause, sizeof(m.cause), "%s",
                   slow_watch_describe(s, index, m.slow, sizeof(m.slow)));
    return jobctl_put_instance(b, &m);
}

static int answer_status(struct supervisor *s, struct frame_buffer *b)
{
    int r = put_job(s, b);

    for (uint32_t i = 0; r == 0 && i < s->plan->num_instances; i++)
        r = put_instance(s, i, b);
    return r;
}

static int answer_stop(struct supervisor *s, struct frame_buffer *b)
{
    enum jobctl_effect effect = JOBCTL_AGREES;

    if (s->phase == JOB_RESTING) {
        s->stop.noticed = true;
        effect = JOBCTL_ENDS;
    } else if (s->phase == JOB_STARTING) {
        effect = JOBCTL_EARLY;
    } else if (s->stop.growing) {
        s->stop.growing = false; /* and do not continue */
    } else if (s->phase != JOB_RUNNING || s->stop.noticed || s->interrupts > 0) {
        effect = JOBCTL_ALREADY;
        interlude_end(SIGTERM, "plenumctl job stop"); /* it must not start again */
    } else {
        stop_request(s, "plenumctl job stop");
        if (!s->stop.noticed)
            effect = JOBCTL_SIGNALS;
    }
    return jobctl_put_stopped(b, effect);
}

void job_socket_answer_growth(struct supervisor *s, const struct jobctl_grown *m)
{
    for (size_t i = 0; i < s->socket.count; i++) {
        struct job_client *client = &s->socket.clients[i];

        if (!client->growing)
            continue;
        client->growing = false;
        client->until = time_now_ns() + CLIENT_MS * NS_PER_MS;
        (void)jobctl_put_grown(&client->conn.tx, m);
    }
}

static int answer(struct supervisor *s, struct job_client *client, unsigned type)
{
    switch (type) {
    case JOBCTL_STATUS:
        return answer_status(s, &client->conn.tx);
    case JOBCTL_STOP:
        return answer_stop(s, &client->conn.tx);
    case JOBCTL_GROW: /* the answer follows when hosts have been checked */
        client->growing = true;
        client->until = UINT64_MAX;
        grow_request(s);
        return 0;
    default:
        return -EPROTO;
    }
}

/* Receive a client's request, and answer it. Returns whether the client stays. */
static bool serve(struct supervisor *s, struct job_client *client)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n;
    int r;

    if (client->growing) { /* it sends nothing more, but it may leave */
        n = frame_conn_fill(&client->conn);
        return n >= 0 || n == -EAGAIN;
    }
    if (!client->answered) {
        n = frame_conn_fill(&client->conn);
        if (n < 0)
            return n == -EAGAIN;
        r = frame_conn_next(&client->conn, &header, &payload);
        if (r <= 0)
            return r == 0;
        client->answered = true;
        r = answer(s, client, header.type);
        if (r < 0)
            return false;
    }
    return frame_conn_flush(&client->conn) == -EAGAIN || client->growing;
}

/* Drop the client that has been silent for longest. Returns false if all have sent a request. */
static bool drop_silent(struct supervisor *s)
{
    size_t oldest = s->socket.count;

    for (size_t i = 0; i < s->socket.count; i++)
        if (!s->socket.clients[i].answered &&
            (oldest == s->socket.count ||
             s->socket.clients[i].until < s->socket.clients[oldest].until))
            oldest = i;
    if (oldest == s->socket.count)
        return false;
    drop(s, oldest);
    return true;
}

/* plenumctl sends its request at once, so silent clients must not keep it out. */
static void accept_client(struct supervisor *s)
{
    struct job_client *client;
    struct dial_peer from;
    int fd = dial_accept(s->socket.listener, &from);

    /* The client stays in the queue, so poll() would report it again at once. */
    if (fd < 0 && fd != -EAGAIN && fd != -EPERM)
        s->socket.deaf_until = time_now_ns() + SUPERVISE_DEAF_MS * NS_PER_MS;
    if (fd < 0)
        return;
    if (s->socket.count == JOB_CLIENTS_MAX && !drop_silent(s)) {
        (void)close(fd);
        return;
    }
    client = &s->socket.clients[s->socket.count++];
    *client = (struct job_client){.until = time_now_ns() + CLIENT_MS * NS_PER_MS};
    (void)frame_conn_init(&client->conn, fd, JOBCTL_MAX_PAYLOAD);
}

void job_socket_fill(const struct supervisor *s, struct pollfd *fds)
{
    bool deaf = time_now_ns() < s->socket.deaf_until;

    fds[0] = (struct pollfd){.fd = deaf ? -1 : s->socket.listener, .events = POLLIN};
    for (size_t i = 0; i < JOB_CLIENTS_MAX; i++) {
        const struct job_client *client = &s->socket.clients[i];
        bool used = i < s->socket.count;

        fds[1 + i] = (struct pollfd){
            .fd = used ? client->conn.fd : -1,
            .events = used && client->answered && !client->growing ? POLLOUT : POLLIN};
    }
}

void job_socket_dispatch(struct supervisor *s, const struct pollfd *fds)
{
    uint64_t now = time_now_ns();

    /* Backwards: the last client takes the place of one that leaves. */
    for (size_t i = s->socket.count; i-- > 0;)
        if ((fds[1 + i].revents && !serve(s, &s->socket.clients[i])) ||
            now > s->socket.clients[i].until)
            drop(s, i);
    if (fds[0].revents)
        accept_client(s);
}

/* SPDX-License-Identifier: MIT */
/* What a shim says of its program comes in one order: STARTED or FAILED, EXITED, DRAINED. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* Whether the shim of a job of one is hung up on when it says this, its program being at
 * `state`. */
static bool hangs_up(enum instance_state state, enum control_type type)
{
    struct plan_instance planned = {0};
    struct plan_host host = {.name = (char *)"node7"};
    struct plan plan = {.num_instances = 1, .instances = &planned, .num_hosts = 1, .hosts = &host};
    const struct limits limits = {.grace_ns = 1};
    const struct supervise_job job = {.limits = &limits};
    struct peer *peer = calloc(1, sizeof(*peer)), **peers = malloc(sizeof(struct peer *));
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

    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0));
    cr_assert(eq(int, frame_conn_init(&peer->conn, fds[0], CONTROL_MAX_PAYLOAD), 0));
    peers[0] = peer;
    peer->instance = &instance;
    cr_assert(eq(int, put(&said, type), 0));
    cr_assert(eq(i64, write(fds[1], said.bytes, said.len), (int64_t)said.len));
    instances_read(&s, peer);
    hung_up = !instance.peer;
    instances_close(&s);
    (void)close(fds[1]);
    frame_buffer_fini(&said);
    free(instance.tail);
    return hung_up;
}

Test(instances, what_comes_out_of_order_breaks_the_connection)
{
    static const enum control_type types[] = {CONTROL_STARTED, CONTROL_FAILED, CONTROL_EXITED,
                                              CONTROL_DRAINED};

    for (enum instance_state state = INSTANCE_PRESENT; state <= INSTANCE_DONE; state++)
        for (size_t i = 0; i < 4; i++) {
            bool right = (state == INSTANCE_PLANNED && types[i] == CONTROL_FAILED) ||
                         (state == INSTANCE_ALIVE && types[i] == CONTROL_EXITED) ||
                         (state == INSTANCE_EXITED && types[i] == CONTROL_DRAINED);

            if (state == INSTANCE_PLANNED && types[i] == CONTROL_STARTED)
                continue; /* right as well, and wants an output */
            cr_expect(eq(int, hangs_up(state, types[i]), !right), "state %d, message %d", state,
                      types[i]);
        }
}

/* SPDX-License-Identifier: MIT */
/* inner_start.c - the start of the program: from the plan to the report that it is running. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/departed.h"
#include "common/job/jobloader.h"
#include "common/net/tls.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "common/util/util.h"
#include "launcher/values/ranges.h"
#include "launcher/values/topology.h"

static void send_failure(struct inner *in, const struct control_failed *failed)
{
    assert(in->state == INNER_WAITING || in->state == INNER_STARTING);
    assert(failed->error < 0);
    (void)control_put_failed(&in->conn.tx, failed);
    in->failed = true;
    if (in->state == INNER_WAITING) /* nothing was forked */
        inner_move(in, INNER_DRAINING);
}

static void send_failed(struct inner *in, enum control_step step, int error)
{
    const struct control_failed m = {.step = step, .error = error};

    send_failure(in, &m);
}

static void send_started(struct inner *in)
{
    const struct bind_result *bind = &in->child.report.bind;
    struct control_started m = {
        .pid = (uint32_t)in->child.pid,
        .cpus_error = bind->cpus_error,
        .memory_error = bind->memory_error,
        .memory = (uint32_t)bind->memory,
        .cpus = ranges_format(bind->sets.cpus, NUMA_CPUS_MAX),
        .nodes = ranges_format(bind->sets.nodes, NUMA_NODES_MAX),
    };

    if (m.cpus && m.nodes)
        (void)control_put_started(&in->conn.tx, &m);
    control_started_fini(&m);
    inner_move(in, INNER_RUNNING);
}

void inner_read_report(struct inner *in)
{
    int r = child_read_report(&in->child);

    if (r == 0)
        return;
    if (r < 0)
        send_failed(in, CONTROL_STEP_FORK, r);
    else if (in->child.report.failed.error)
        send_failure(in, &in->child.report.failed);
    else
        send_started(in);
}

/* Bind this process to the loader's CPUs. We start the loader later, and it inherits the binding.
 * If the kernel refuses, the loader shares the CPUs of the programs. */
static void bind_loader(const struct inner *in)
{
    struct bind_request bind;
    struct bind_result result;

    if (in->loader && *in->plan.loader_cpus &&
        bind_request_parse(in->plan.loader_cpus, "", true, NUMA_DEFAULT, &bind, NULL) == 0)
        bind_apply(&bind, &result);
}

/* Keep the loaders' key for the program, whose environment contains only a file name. That is valid
 * on this host, for this user, for as long as we live. */
static int keep_key(struct inner *in)
{
    char path[TLS_PATH_MAX];

    if (!*in->plan.loader_key)
        return 0;
    in->key_fd = tls_keep_key(in->plan.loader_key, path);
    if (in->key_fd < 0)
        return in->key_fd;
    return environ_list_put(&in->plan.environment, ENVIRON_SET, "PLENUM_LOADER_KEY", path);
}

/* Under mpirun, create the page that shows the program which instances have ended. Without it, the
 * program only waits longer for them. */
static void make_departed(struct inner *in)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    char path[DEPARTED_PATH_MAX];
    uint64_t instances;

    if (!size || parse_u64(size, UINT32_MAX, &instances) < 0 ||
        departed_create((uint32_t)instances, &in->departed, path) < 0)
        return;
    (void)environ_list_put(&in->plan.environment, ENVIRON_SET, DEPARTED_VARIABLE, path);
}

/* Create the memory in which this host's programs meet. Returns 0 or -errno. */
static int make_place(struct inner *in)
{
    unsigned char secret[MEETING_SECRET_BYTES];
    char address[MEETING_ADDRESS_MAX];
    int r;

    if (in->plan.place_instances == 0)
        return 0;
    in->seen = calloc(in->plan.place_instances, sizeof(*in->seen));
    r = in->seen ? parse_hex(in->plan.place_key, secret, sizeof(secret)) : -ENOMEM;
    if (r == 0)
        r = meeting_server_create(in->plan.place, in->plan.place_job, in->plan.place_instances,
                                  &in->place, address, NULL);
    if (r == 0)
        meeting_server_set_secret(in->place, secret);
    explicit_bzero(secret, sizeof(secret));
    return r;
}

void inner_keep_place(struct inner *in)
{
    meeting_server_dispatch(in->place);
    for (uint32_t i = 0; i < in->plan.place_instances; i++) {
        pid_t pid;
        uint64_t end = meeting_server_get_end(in->place, i, &pid);

        if (end == in->seen[i])
            continue;
        in->seen[i] = end;
        if (end > 0)
            (void)control_put_number(&in->conn.tx, CONTROL_SEEN, (uint64_t)i << 32 | (uint32_t)pid);
    }
}

static void start_program(struct inner *in)
{
    struct child_options options = {
        .argv = in->plan.argv,
        .directory = in->plan.directory,
        .strict = in->plan.strict,
        .input = in->plan.input,
        .ignored = in->task->ignored,
        .descriptors = in->task->descriptors,
        .umask = (mode_t)in->plan.umask,
    };
    struct bind_request bind;
    int r;

    assert(in->state == INNER_WAITING && in->child.pid == 0);
    r = bind_request_parse(in->plan.cpus, in->plan.nodes, in->plan.bind_cpus,
                           (enum numa_policy)in->plan.memory, &bind, NULL);
    if (r < 0) {
        send_failed(in, CONTROL_STEP_PLAN, r);
        return;
    }
    r = keep_key(in);
    if (r == 0)
        r = make_place(in);
    if (r < 0) {
        send_failed(in, CONTROL_STEP_FORK, r);
        return;
    }
    options.inherit = in->key_fd > 0 ? in->key_fd : 0;
    make_departed(in);
    inner_make_stop_page(in);
    (void)environ_list_put(&in->plan.environment, ENVIRON_SET, "PWD", in->plan.directory);
    in->environment = environ_apply(environ, &in->plan.environment);
    options.bind = &bind;
    options.environment = in->environment;
    r = in->environment ? child_start(&options, &in->child) : -ENOMEM;
    if (r < 0) {
        send_failed(in, CONTROL_STEP_FORK, r);
        return;
    }
    inner_move(in, INNER_STARTING);
    in->started_ns = time_now_ns();
    in->memory_kills = memory_count_kills();
    bind_loader(in);
    if (in->loader)
        jobloader_set_environment(in->loader, in->environment);
}

void inner_handle_plan(struct inner *in, struct frame_reader *payload)
{
    int r;

    if (in->state != INNER_WAITING)
        return;
    r = control_get_plan(payload, &in->plan);
    if (r < 0) {
        send_failed(in, CONTROL_STEP_PLAN, r);
        return;
    }
    if (in->plan.window < INNER_FRAME_BYTES)
        in->plan.window = INNER_FRAME_BYTES;
    start_program(in);
}

void inner_send_topology(struct inner *in, bool devices)
{
    struct plenum_error err;
    hwloc_topology_t topology;
    size_t len;
    char *xml;

    if (topology_load(devices, &topology, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&in->conn.tx, false, NULL, 0);
        return;
    }
    if (topology_export(topology, &xml, &len, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&in->conn.tx, false, NULL, 0);
    } else {
        (void)control_put_topology(&in->conn.tx, hwloc_topology_is_thissystem(topology), xml, len);
        hwloc_free_xmlbuffer(topology, xml);
    }
    hwloc_topology_destroy(topology);
}

/* SPDX-License-Identifier: MIT */
/* inner_start.c - the start of the program: from the plan to the report that it is running. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/departed.h"
#include "common/jobloader.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/tls.h"
#include "common/util.h"
#include "launcher/ranges.h"
#include "launcher/topology.h"

static void send_failure(struct inner *a, const struct control_failed *failed)
{
    (void)control_put_failed(&a->conn.tx, failed);
    a->told_started = a->failed = true;
    if (a->child.pid == 0)
        a->exited = a->swept = true;
}

static void send_failed(struct inner *a, enum control_step step, int error)
{
    const struct control_failed m = {.step = step, .error = error};

    send_failure(a, &m);
}

static void send_started(struct inner *a)
{
    const struct bind_result *bind = &a->child.report.bind;
    struct control_started m = {
        .pid = (uint32_t)a->child.pid,
        .cpus_error = bind->cpus_error,
        .memory_error = bind->memory_error,
        .memory = (uint32_t)bind->memory,
        .cpus = ranges_format(bind->sets.cpus, NUMA_CPUS_MAX),
        .nodes = ranges_format(bind->sets.nodes, NUMA_NODES_MAX),
    };

    if (m.cpus && m.nodes)
        (void)control_put_started(&a->conn.tx, &m);
    control_started_fini(&m);
    a->told_started = true;
}

void inner_read_report(struct inner *a)
{
    int r = child_read_report(&a->child);

    if (r == 0)
        return;
    if (r < 0)
        send_failed(a, CONTROL_STEP_FORK, r);
    else if (a->child.report.failed.error)
        send_failure(a, &a->child.report.failed);
    else
        send_started(a);
}

/* We start the loader later, and it inherits our CPUs. If the kernel refuses, nothing is lost: the
 * loader then shares the CPUs of the programs. */
static void bind_loader(const struct inner *a)
{
    struct bind_request bind;
    struct bind_result result;

    if (a->loader && *a->plan.loader_cpus &&
        bind_request_parse(a->plan.loader_cpus, "", true, NUMA_DEFAULT, &bind, NULL) == 0)
        bind_apply(&bind, &result);
}

/* The program finds it in the usual place, but its environment contains only a file name, which is
 * valid on this host, for this user, for as long as we live. */
static int keep_key(struct inner *a)
{
    char path[TLS_PATH_MAX];

    if (!*a->plan.loader_key)
        return 0;
    a->key_fd = tls_keep_key(a->plan.loader_key, path);
    if (a->key_fd < 0)
        return a->key_fd;
    return environ_list_put(&a->plan.environment, ENVIRON_SET, "PLENUM_LOADER_KEY", path);
}

/* Under mpirun the program learns from us which instances have ended. Without the page it only
 * waits longer. */
static void make_departed(struct inner *a)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    char path[DEPARTED_PATH_MAX];
    uint64_t instances;

    if (!size || parse_u64(size, UINT32_MAX, &instances) < 0 ||
        departed_create((uint32_t)instances, &a->departed, path) < 0)
        return;
    (void)environ_list_put(&a->plan.environment, ENVIRON_SET, DEPARTED_VARIABLE, path);
}

static void start_program(struct inner *a)
{
    struct child_options options = {
        .argv = a->plan.argv,
        .directory = a->plan.directory,
        .strict = a->plan.strict,
        .input = a->plan.input,
        .ignored = a->task->ignored,
        .descriptors = a->task->descriptors,
        .umask = (mode_t)a->plan.umask,
    };
    struct bind_request bind;
    int r;

    r = bind_request_parse(a->plan.cpus, a->plan.nodes, a->plan.bind_cpus,
                           (enum numa_policy)a->plan.memory, &bind, NULL);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_PLAN, r);
        return;
    }
    r = keep_key(a);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_FORK, r);
        return;
    }
    options.inherit = a->key_fd > 0 ? a->key_fd : 0;
    make_departed(a);
    (void)environ_list_put(&a->plan.environment, ENVIRON_SET, "PWD", a->plan.directory);
    a->environment = environ_apply(environ, &a->plan.environment);
    options.bind = &bind;
    options.environment = a->environment;
    r = a->environment ? child_start(&options, &a->child) : -ENOMEM;
    if (r < 0) {
        send_failed(a, CONTROL_STEP_FORK, r);
        return;
    }
    a->started_ns = time_now_ns();
    a->memory_kills = memory_count_kills();
    bind_loader(a);
    if (a->loader)
        jobloader_set_environment(a->loader, a->environment);
}

void inner_handle_plan(struct inner *a, struct frame_reader *payload)
{
    int r;

    if (a->planned)
        return;
    r = control_get_plan(payload, &a->plan);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_PLAN, r);
        return;
    }
    a->planned = true;
    if (a->plan.window < INNER_FRAME_BYTES)
        a->plan.window = INNER_FRAME_BYTES;
    start_program(a);
}

void inner_send_topology(struct inner *a, bool devices)
{
    struct plenum_error err;
    hwloc_topology_t topology;
    size_t len;
    char *xml;

    if (topology_load(devices, &topology, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&a->conn.tx, false, NULL, 0);
        return;
    }
    if (topology_export(topology, &xml, &len, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&a->conn.tx, false, NULL, 0);
    } else {
        (void)control_put_topology(&a->conn.tx, hwloc_topology_is_thissystem(topology), xml, len);
        hwloc_free_xmlbuffer(topology, xml);
    }
    hwloc_topology_destroy(topology);
}

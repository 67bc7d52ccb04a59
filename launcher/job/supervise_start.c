/* SPDX-License-Identifier: MIT */
/* supervise_start.c - the beginning of a job: its names, its output, its listener, the services
 * beside it, and finally the starter, which starts the shims. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/host/signals.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/job/variables.h"
#include "launcher/values/ports.h"
#include "launcher/values/ranges.h"
#include "launcher/values/topology.h"

enum {
    ASK_MS = 6000,          /* part of --start-timeout reserved for querying the hosts */
    DESCRIPTORS_LEAST = 32, /* needed in addition to those of instances */
};

/* Log lines go through the output's thread, like all other output. */
static struct output *log_output;

static void log_to_output(const char *line, size_t len)
{
    if (output_put_message(log_output, line, len) < 0)
        (void)io_write_all(STDERR_FILENO, line, len);
}

/* Log a line at the end of the job, without the limit on messages: these lines are few, and they
 * matter. */
static void log_last_words(const char *line, size_t len)
{
    if (output_put_own(log_output, CONTROL_STDERR, line, len) < 0)
        (void)io_write_all(STDERR_FILENO, line, len);
}

void supervise_log_last_words(void)
{
    log_set_sink(log_last_words);
}

static int make_ids(struct supervisor *s, struct plenum_error *err)
{
    if (random_hex(s->token, CONTROL_TOKEN_BYTES) < 0)
        return error_set(err, -EIO, "the kernel provides no random numbers");
    /* Sockets of the previous attempt may not be gone yet. */
    if (s->job->restart_count > 0)
        (void)snprintf(s->id, sizeof(s->id), "%s-%u", s->job->id, s->job->restart_count);
    else
        (void)snprintf(s->id, sizeof(s->id), "%s", s->job->id);
    return 0;
}

static int open_signals(struct supervisor *s, struct plenum_error *err)
{
    s->signal_fd = signals_open();
    return s->signal_fd < 0
               ? error_set(err, s->signal_fd, "cannot take signals: %s", strerror(-s->signal_fd))
               : 0;
}

/* On one host the programs meet in shared memory that we provide, whatever starts them. It is
 * faster than MPI, and does not need it. */
static bool has_place(const struct supervisor *s)
{
    return plan_is_local(s->plan) && !s->job->through_mpi && s->plan->num_instances > 1;
}

/* Raise the limit on descriptors: each instance needs a connection, a descriptor for its process if
 * it is watched (meeting_server.c), and files for its output. */
static int raise_descriptors(const struct supervisor *s, struct plenum_error *err)
{
    uint64_t each = (s->job->output->folder ? 4U : 1U) + (has_place(s) ? 1U : 0U);
    uint64_t all = s->plan->num_instances * each;
    uint64_t needed = all + DESCRIPTORS_LEAST, allowed = io_raise_descriptors(all);

    if (allowed >= needed)
        return 0;
    return error_set(err, -EMFILE,
                     "%u instances need %llu open files here, but only %llu are allowed: raise the "
                     "limit (ulimit -Hn, or LimitNOFILE= of the service)",
                     s->plan->num_instances, (unsigned long long)needed,
                     (unsigned long long)allowed);
}

static int open_output(struct supervisor *s, struct plenum_error *err)
{
    struct output_instance *instances = calloc(s->plan->num_instances, sizeof(*instances));
    struct output_options options = {.tag = s->job->output->tag,
                                     .folder = s->job->output->folder,
                                     .append = s->job->attempts > 0,
                                     .instances = instances,
                                     .count = s->plan->num_instances,
                                     .stdout_fd = STDOUT_FILENO,
                                     .stderr_fd = STDERR_FILENO};
    int r;

    assert(!s->output);
    if (!instances)
        return error_set(err, -ENOMEM, "out of memory");
    r = raise_descriptors(s, err);
    if (r < 0) {
        free(instances);
        return r;
    }
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        instances[i] =
            (struct output_instance){.index = i,
                                     .host = s->plan->hosts[s->plan->instances[i].host].name,
                                     .hidden = s->shown && !ranges_has(s->shown, i)};
    r = output_create(&options, &s->output, err);
    free(instances);
    if (r < 0)
        return r;
    log_output = s->output;
    log_set_sink(log_to_output);
    return 0;
}

int supervise_read_shown(struct supervisor *s, struct plenum_error *err)
{
    const char *list = s->job->output->only;
    int r;

    if (!list)
        return 0;
    s->shown = calloc(RANGES_WORDS(s->plan->num_instances), sizeof(*s->shown));
    if (!s->shown)
        return error_set(err, -ENOMEM, "out of memory");
    r = *list ? ranges_parse(list, s->shown, s->plan->num_instances, err)
              : error_set(err, -EINVAL, "the list is empty");
    return r < 0 ? error_prefix(err, r, "--only-output-from-instance") : 0;
}

static const char *told(const char *text)
{
    return *text ? text : NULL;
}

/* Encrypt the traffic between hosts, which contains the environment, output and keys. A job may run
 * without TLS on trusted networks where it is not installed; the user gets a warning. */
static int secure_control(struct supervisor *s, struct plenum_error *ret_err)
{
    bool tcp = s->job->mpi->tcp_collectives;
    struct plenum_error err;

    if (plan_is_local(s->plan))
        return 0;
    if (tcp && random_hex(s->place_key, MEETING_SECRET_BYTES) < 0)
        return error_set(ret_err, -EIO, "the kernel provides no random numbers");
    if (control_secure(s->token, false, &s->tls, &err) == 0)
        return 0;
    if (tcp)
        return error_set(ret_err, -ENOTSUP, "--collectives tcp: %s", err.text);
    log_warn("the traffic between plenumrun and the other hosts, including output and variables "
             "passed with -x, is not encrypted: %s",
             err.text);
    return 0;
}

static int make_place(struct supervisor *s, struct plenum_error *err)
{
    assert(!s->place);
    if (!has_place(s))
        return 0;
    return meeting_server_create(s->id, s->job->id, s->plan->num_instances, &s->place,
                                 s->place_address, err);
}

static int start_loaders(struct supervisor *s, struct plenum_error *err)
{
    const struct remote_loaders_request request = {
        .plan = s->plan, .agent = s->job->agent, .environment = &s->loader_environment};
    int r;

    if (s->plan->num_loader_hosts == 0)
        return 0;
    r = variables_of_loader(s->job->exports, &s->loader_environment);
    return r < 0 ? error_set(err, r, "out of memory")
                 : remote_loaders_create(&request, &s->loaders, err);
}

static int start_job(struct supervisor *s, struct plenum_error *err)
{
    char name[64];
    char token[sizeof(CONTROL_TOKEN_TLS) + CONTROL_TOKEN_MAX];
    const struct ports place_ports = ports_get_programs(s->job->ports);
    struct starter_job job = {.mpirun = s->job->mpirun,
                              .mpi = s->job->mpi,
                              .agent = s->job->agent,
                              .grace_ns = s->job->limits->grace_ns,
                              .id = s->id,
                              .token = token,
                              .control = s->control,
                              .keep_loader = strcmp(s->job->loader, "auto") == 0,
                              .status_port = s->job->status_port,
                              .daemon_include = told(s->job->ready->daemon_include),
                              .program_include = told(s->job->ready->program_include),
                              .excluded = told(s->job->ready->excluded),
                              .ports = s->job->ports,
                              .place_ports = s->job->mpi->tcp_collectives && !plan_is_local(s->plan)
                                                 ? &place_ports
                                                 : NULL,
                              .ignored = signals_get_ignored(),
                              .descriptors = s->job->descriptors};
    hwloc_topology_t topology;
    uint64_t now = time_now_ns();
    int r;

    assert(!s->tls && s->listener < 0);
    (void)snprintf(name, sizeof(name), "plenumrun-%s", s->id);
    s->listener = plan_is_local(s->plan)
                      ? dial_listen_here(name, s->control, sizeof(s->control), err)
                      : dial_listen(s->job->ready->daemon_include, s->job->ports, s->control,
                                    sizeof(s->control), err);
    if (s->listener < 0)
        return s->listener;
    r = make_place(s, err);
    if (r < 0)
        return r;
    r = secure_control(s, err);
    if (r < 0)
        return r;
    (void)snprintf(token, sizeof(token), "%s%s", s->tls ? CONTROL_TOKEN_TLS : "", s->token);
    r = start_loaders(s, err);
    if (r < 0)
        goto out;
    r = starter_start(s->plan, &job, &s->starter, err);
out:
    explicit_bzero(token, sizeof(token));
    if (r < 0)
        return r;
    s->beat_at = now + SUPERVISE_BEAT_MS * NS_PER_MS;
    s->start_at = max_u64(s->job->attempt_ns + s->job->limits->start_timeout_ns, now + NS_PER_SEC);
    if (!plan_is_local(s->plan)) /* leave time to query the hosts about the problem (failure.c) */
        s->start_at -= min_u64(s->job->limits->start_timeout_ns / 4, ASK_MS * NS_PER_MS);
    if (s->job->limits->timeout_ns > 0)
        s->timeout_at = s->job->begun_ns + s->job->limits->timeout_ns;
    /* While the shims start, load this host's topology here instead of requesting it. */
    if (plan_is_local(s->plan)) {
        if (topology_load(s->plan->place.policy == PLACE_DEVICE, &topology, err) < 0) {
            instances_cannot_place(s, &s->plan->hosts[0], err->text);
        } else {
            instances_place(s, &s->plan->hosts[0], topology,
                            hwloc_topology_is_thissystem(topology));
            hwloc_topology_destroy(topology);
        }
    }
    return 0;
}

int supervise_start(struct supervisor *s, struct plenum_error *err)
{
    int r = make_ids(s, err);

    if (r == 0)
        r = open_signals(s, err);
    if (r == 0)
        r = open_output(s, err);
    return r == 0 ? start_job(s, err) : r;
}

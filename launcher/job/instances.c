/* SPDX-License-Identifier: MIT */
/* instances.c - the messages between plenumrun and the shims (control.h), from plenumrun's side.
 *
 * An instance passes through its states in one direction only. It is lost (and done) when the
 * connection to its shim breaks, or when the shim sends a malformed frame, is silent for too long
 * or does not read, whatever the starter reports about it. supervise.c decides what a loss or a
 * failure means for the job. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/state.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/control/exit_status.h"
#include "launcher/values/topology.h"

enum {
    SILENT_MS = 4000, /* several missed heartbeats: more than a busy host misses */
    /* bytes queued for a shim: a plan, and standard input */
    QUEUE_MAX = CONTROL_MAX_PAYLOAD + SUPERVISE_INPUT_BYTES,
    LEAVE_MS = 1000, /* time for others to notice by themselves that an instance has ended */
};

/* DONE follows PLANNED if the program fails to start, and any state with a shim if that is lost. */
static const struct state_row instance_states[INSTANCE_STATES] = {
    [INSTANCE_ABSENT] = {"absent", STATE(INSTANCE_PRESENT)},
    [INSTANCE_PRESENT] = {"present", STATE(INSTANCE_PLANNED) | STATE(INSTANCE_DONE)},
    [INSTANCE_PLANNED] = {"planned", STATE(INSTANCE_ALIVE) | STATE(INSTANCE_DONE)},
    [INSTANCE_ALIVE] = {"alive", STATE(INSTANCE_EXITED) | STATE(INSTANCE_DONE)},
    [INSTANCE_EXITED] = {"exited", STATE(INSTANCE_DONE)},
    [INSTANCE_DONE] = {"done", 0},
};

static bool instance_holds(const void *object)
{
    const struct instance *inst = object;

    if (inst->state == INSTANCE_DONE)
        return true; /* it may have ended in any way */
    return inst->peer && !inst->has_failed && inst->has_exited == (inst->state == INSTANCE_EXITED);
}

static const struct state_machine instance_machine = {.name = "instance",
                                                      .states = instance_states,
                                                      .count = INSTANCE_STATES,
                                                      .holds = instance_holds,
                                                      .trace = state_log};

/* Change an instance's state, and the number of instances in each state. No other function writes
 * the state. */
void instance_move(struct supervisor *s, struct instance *inst, enum instance_state to)
{
    enum instance_state from = inst->state;

    inst->state = to;
    s->counts[from]--;
    s->counts[to]++;
    state_moved(&instance_machine, inst, instance_index(s, inst), from, to);
}

bool instances_are(const struct supervisor *s, enum instance_state state)
{
    uint32_t earlier = 0;

    for (int i = 0; i < (int)state; i++)
        earlier += s->counts[i];
    return earlier == 0;
}

void instances_list_missing(const struct supervisor *s, enum instance_state state,
                            const bool *hosts, char *ret, size_t size)
{
    static const char more[] = ", ...";
    size_t len = 0;

    ret[0] = '\0';
    for (uint32_t h = 0; h < s->plan->num_hosts; h++) {
        const struct plan_host *host = &s->plan->hosts[h];
        uint32_t missing = 0, first = 0;
        char item[HOST_NAME_MAX_BYTES + 64];
        int n;

        for (uint32_t i = host->count; i-- > 0;) {
            if (s->instances[host->first + i].state >= state)
                continue;
            missing++;
            first = host->first + i;
        }
        if (missing == 0 || (hosts && !hosts[h]))
            continue;
        if (missing == 1)
            n = snprintf(item, sizeof(item), "instance %u on host %s", first, host->name);
        else
            n = snprintf(item, sizeof(item), "%u instances on host %s", missing, host->name);
        if (len > 0 && len + (size_t)n + 2 * sizeof(more) > size) { /* cut between names */
            (void)snprintf(ret + len, size - len, "%s", more);
            return;
        }
        len += (size_t)snprintf(ret + len, size - len, "%s%s", len > 0 ? ", " : "", item);
    }
}

MESSAGE static void lose(struct supervisor *s, struct instance *inst, const char *why)
{
    if (inst->state == INSTANCE_DONE)
        return;
    instance_move(s, inst, INSTANCE_DONE);
    inst->lost |= !inst->has_exited;
    supervise_fail_with(s, REPORT_LOST, inst, "%s", why);
}

/* ---- messages from shims ---- */

void peers_hang_up(struct supervisor *s, struct shim_peer *peer)
{
    struct instance *inst = peer->instance;

    peers_drop(s, peer);
    if (inst && s->phase != JOB_CLOSING)
        lose(s, inst,
             "the connection to its shim was lost; was the shim killed, or did the host go down?");
}

void instances_cannot_place(struct supervisor *s, struct plan_host *host, const char *why)
{
    host->known = true;
    if (s->job->strict_binding)
        supervise_fail_with(s, REPORT_OTHER, NULL,
                            "host %s: %s: nothing can be bound (--strict-binding)", host->name,
                            why);
    else
        log_warn("host %s: %s: nothing is bound", host->name, why);
}

void instances_place(struct supervisor *s, struct plan_host *host, hwloc_topology_t topology,
                     bool real)
{
    struct plenum_error err;
    uint32_t shared = 0;

    if (plan_place_host(s->plan, (uint32_t)(host - s->plan->hosts), topology, real, &err) < 0) {
        host->known = true;
        supervise_fail_with(s, REPORT_OTHER, NULL, "%s", err.text);
        return;
    }
    for (uint32_t i = 0; i < host->count; i++)
        shared += s->plan->instances[host->first + i].oversubscribed;
    if (shared > 0)
        log_warn("host %s: %u instances share %u core%s", host->name, host->count,
                 host->shape.cores, host->shape.cores == 1 ? "" : "s");
    if (host->blind)
        log_warn("host %s: the location of its accelerators is unknown: instances are placed as "
                 "with spreadnuma",
                 host->name);
    if (!host->real && s->plan->place.policy != PLACE_DISABLED)
        instances_cannot_place(
            s, host, "its topology does not match the machine (HWLOC_SYNTHETIC, HWLOC_XMLFILE)");
}

static int handle_topology(struct supervisor *s, struct instance *inst,
                           struct frame_reader *payload)
{
    struct plan_host *host = instance_host(s, inst);
    hwloc_topology_t topology;
    struct plenum_error err;
    const char *xml;
    size_t len;
    bool real;

    if (host->known)
        return 0;
    if (control_get_topology(payload, &real, &xml, &len) < 0)
        return -EPROTO;
    if (topology_import(xml, len, &topology, &err) < 0) {
        instances_cannot_place(s, host, err.text);
        return 0;
    }
    instances_place(s, host, topology, real);
    hwloc_topology_destroy(topology);
    return 0;
}

/* Report the status page of a host's loader. Without its loader a host has no status page; that
 * ends the job only if a page was requested. A fixed port is the same on all hosts and is shown
 * once. */
static void note_loader(struct supervisor *s, const char *host, const struct control_hello *hello)
{
    bool fixed = s->job->status_port > 0, several = s->plan->num_hosts > 1;

    if (hello->loader_error[0] && s->job->status_port == SETTINGS_NO_PORT)
        log_debug("host %s: no loader: %s", host, hello->loader_error);
    else if (hello->loader_error[0])
        supervise_fail_with(s, REPORT_OTHER, NULL, "--status-port on host %s: %s", host,
                            hello->loader_error);
    else if (hello->page[0] && several && !fixed)
        log_about(LOG_LEVEL_NOTICE, NULL, "status page of host %s: %s", host, hello->page);
    else if (hello->page[0] && (!several || hello->instance == 0))
        log_about(LOG_LEVEL_NOTICE, NULL, "status page%s: %s",
                  several ? " of each host, on that host" : "", hello->page);
}

/* A shim has connected that this job does not expect. It would try again until its time is over,
 * and mpirun would then end the job without a reason. Returns -EPROTO. */
static int refuse_shim(struct supervisor *s, const struct control_hello *hello)
{
    if (hello->instance >= s->plan->num_instances)
        supervise_fail_with(s, REPORT_OTHER, NULL,
                            "%s has started instance %u on host %s, but the job has %u instance%s: "
                            "remove options that change their number (--mpi-global-args, "
                            "--mpi-local-args)",
                            starter_name(s), hello->instance, hello->host, s->plan->num_instances,
                            s->plan->num_instances == 1 ? "" : "s");
    else
        supervise_fail_with(s, REPORT_LOST, &s->instances[hello->instance],
                            "it has connected a second time, from host %s: was its first "
                            "connection interrupted, or has %s started it twice?",
                            hello->host, starter_name(s));
    log_debug("instance %u on host %s was refused", hello->instance, hello->host);
    return -EPROTO;
}

static int handle_hello(struct supervisor *s, struct shim_peer *peer, struct frame_reader *payload)
{
    struct control_hello hello;
    struct plenum_error err;
    struct instance *inst;
    int r = control_get_hello(payload, &hello);

    if (r == 0)
        r = control_hello_check(&hello, s->token, &err);
    if (r == -EPROTONOSUPPORT)
        supervise_fail_with(s, REPORT_OTHER, NULL, "%s", err.text);
    if (r < 0)
        return r;
    if (hello.instance >= s->plan->num_instances ||
        s->instances[hello.instance].state != INSTANCE_ABSENT)
        return refuse_shim(s, &hello);
    assert(!peer->instance && !s->instances[hello.instance].peer);
    inst = &s->instances[hello.instance];
    peers_discount(s, peer);
    inst->peer = peer;
    instance_move(s, inst, INSTANCE_PRESENT);
    inst->loader = hello.loader[0] ? strdup(hello.loader) : NULL;
    peer->instance = inst;
    peer->conn.max_payload = CONTROL_MAX_PAYLOAD;
    if (hello.instance == 0)
        s->master_port = hello.free_port;
    inst->place_port = hello.place_port;
    if (s->place_key[0] && hello.place_port == 0)
        supervise_fail_with(s, REPORT_OTHER, inst,
                            "no port on host %s is free for the collectives of instance %u: give a "
                            "larger --port-range",
                            instance_host(s, inst)->name, hello.instance);
    note_loader(s, instance_host(s, inst)->name, &hello);
    log_debug("instance %u has connected from host %s", hello.instance, hello.host);
    if (!instance_host(s, inst)->known && s->plan->instances[hello.instance].local_index == 0)
        (void)control_put_number(&peer->conn.tx, CONTROL_TOPOLOGY,
                                 s->plan->place.policy == PLACE_DEVICE);
    return 0;
}

static int handle_started(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    const struct plan_instance *instance = &s->plan->instances[instance_index(s, inst)];
    const char *host = instance_host(s, inst)->name;
    struct control_started started;
    int r;

    if (inst->state != INSTANCE_PLANNED)
        return -EPROTO;
    r = control_get_started(payload, &started);
    if (r < 0)
        return r;
    instance_move(s, inst, INSTANCE_ALIVE);
    inst->pid = started.pid;
    inst->started_ns = time_now_ns();
    output_set_pid(s->output, instance_index(s, inst), (pid_t)started.pid);
    if (started.cpus_error)
        log_warn("instance %u on host %s cannot be bound to CPUs %s: %s", instance_index(s, inst),
                 host, instance->cpus, strerror(-started.cpus_error));
    else if (instance->bind_cpus && instance_host(s, inst)->real &&
             strcmp(started.cpus, instance->cpus) != 0)
        log_warn("instance %u on host %s should be bound to CPUs %s, but the kernel reports %s",
                 instance_index(s, inst), host, instance->cpus, started.cpus);
    if (started.memory_error)
        log_warn("instance %u on host %s cannot be bound to memory of NUMA node %s: %s%s",
                 instance_index(s, inst), host, instance->nodes, strerror(-started.memory_error),
                 started.memory_error == -EPERM || started.memory_error == -ENOSYS
                     ? " (is this a container without permission for set_mempolicy?)"
                     : "");
    else if (instance_host(s, inst)->real &&
             (instance->memory == NUMA_BIND || instance->memory == NUMA_INTERLEAVE) &&
             strcmp(started.nodes, instance->nodes) != 0)
        log_warn(
            "instance %u on host %s should have memory of NUMA nodes %s, but the kernel reports %s",
            instance_index(s, inst), host, instance->nodes, *started.nodes ? started.nodes : "any");
    log_info("instance %u on host %s: process %u, CPUs %s, memory: %s%s%s", instance_index(s, inst),
             host, started.pid, started.cpus, numa_policy_name((enum numa_policy)started.memory),
             *started.nodes ? ", NUMA node " : "", started.nodes);
    control_started_fini(&started);
    return 0;
}

static int handle_failed(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    struct report report = {.kind = REPORT_FAILED, .instance = instance_index(s, inst)};

    if (inst->state != INSTANCE_PLANNED || control_get_failed(payload, &report.failed) < 0)
        return -EPROTO;
    (void)text_make_plain(report.failed.text);
    instance_move(s, inst, INSTANCE_DONE);
    inst->failed = report.failed;
    inst->has_failed = true;
    supervise_fail(s, &report);
    return 0;
}

/* Notify the other instances that this one has ended, because they may be waiting for it in a
 * collective: in the shared memory on one host, or through MPI. */
static void note_departed(struct supervisor *s, const struct instance *inst)
{
    meeting_server_note_end(s->place, instance_index(s, inst));
    if (!s->place && s->job->mpirun)
        departures_note(&s->departures, instance_index(s, inst), inst->exited.reached,
                        time_now_ns());
}

void instances_tell_departed(struct supervisor *s, uint64_t now)
{
    struct control_departed m;

    if (now < s->departures.due_ns)
        return;
    for (int k = 0; k < DEPARTURES_ROUND && departures_take(&s->departures, &m); k++)
        for (uint32_t i = 0; i < s->plan->num_instances; i++)
            if (s->instances[i].peer && s->instances[i].state < INSTANCE_EXITED)
                (void)control_put_departed(&s->instances[i].peer->conn.tx, &m);
    departures_told(&s->departures, now);
}

static int handle_exited(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    char status[128];

    if (inst->state != INSTANCE_ALIVE || control_get_exited(payload, &inst->exited) < 0)
        return -EPROTO;
    inst->has_exited = true;
    instance_move(s, inst, INSTANCE_EXITED);
    inst->exited_ns = inst->ended_ns = time_now_ns();
    note_departed(s, inst);
    stop_note_exit(s, inst);
    status_describe(inst->exited.status, status, sizeof(status));
    log_info("instance %u on host %s %s after %.1f s (%.1f s of CPU, %.0f MiB at most)",
             instance_index(s, inst), instance_host(s, inst)->name, status,
             (double)inst->exited.elapsed_ns / 1e9,
             (double)(inst->exited.user_ns + inst->exited.system_ns) / 1e9,
             (double)inst->exited.max_rss_bytes / (1 << 20));
    switch (inst->exited.cause) {
    case CONTROL_CAUSE_SHIM:
        supervise_fail_with(s, REPORT_LOST, inst,
                            "the outer of its two shims ended; was it killed?");
        break;
    case CONTROL_CAUSE_MPIRUN:
        supervise_fail_with(s, REPORT_MPIRUN, inst, "%s, or its daemon on host %s, ended the job",
                            starter_name(s), instance_host(s, inst)->name);
        break;
    default:
        failure_note_end(s, inst);
        break;
    }
    return 0;
}

/* Handle SEEN, from the first shim of a host. */
static int handle_seen(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    const struct plan_host *host = instance_host(s, inst);
    struct instance *seen;
    uint64_t number;

    if (control_get_number(payload, &number) < 0 || host->first != instance_index(s, inst) ||
        number >> 32 >= host->count)
        return -EPROTO;
    seen = &s->instances[host->first + (uint32_t)(number >> 32)];
    seen->seen_ns = time_now_ns();
    seen->seen_pid = (pid_t)(number & UINT32_MAX);
    return 0;
}

static int handle_drained(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    const char *bytes;
    size_t len;

    if (!inst->has_exited || inst->tail)
        return -EPROTO;
    control_get_bytes(payload, &bytes, &len);
    inst->tail = strndup(len > 0 ? bytes : "", len);
    if (inst->state != INSTANCE_DONE) /* it is already DONE if the shim was silent for too long */
        instance_move(s, inst, INSTANCE_DONE);
    return 0;
}

static int handle_output(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    enum control_stream stream;
    const char *bytes;
    size_t len;

    if (control_get_output(payload, &stream, &bytes, &len) < 0)
        return -EPROTO;
    if (stream != CONTROL_LOADER)
        inst->output_ns = time_now_ns();
    return len > 0 ? output_put(s->output, instance_index(s, inst), stream, bytes, len) : 0;
}

static int handle_progress(struct supervisor *s, struct instance *inst,
                           struct frame_reader *payload)
{
    enum control_stream stream;
    const char *bytes;
    size_t len;

    if (control_get_output(payload, &stream, &bytes, &len) < 0 || len > CONTROL_PROGRESS_MAX)
        return -EPROTO;
    inst->output_ns = time_now_ns();
    return output_put_progress(s->output, instance_index(s, inst), stream, bytes, len);
}

static int handle_frame(struct supervisor *s, struct shim_peer *peer,
                        const struct frame_header *header, struct frame_reader *payload)
{
    struct instance *inst = peer->instance;
    uint64_t number;

    if (!inst)
        return header->type == CONTROL_HELLO ? handle_hello(s, peer, payload) : -EPROTO;
    switch ((enum control_type)header->type) {
    case CONTROL_TOPOLOGY:
        return handle_topology(s, inst, payload);
    case CONTROL_STARTED:
        return handle_started(s, inst, payload);
    case CONTROL_FAILED:
        return handle_failed(s, inst, payload);
    case CONTROL_OUTPUT:
        return handle_output(s, inst, payload);
    case CONTROL_UNREAD:
        if (control_get_number(payload, &number) < 0 || number > INT32_MAX)
            return -EPROTO;
        log_warn("the output of instance %u on host %s cannot be read: %s; the rest is lost",
                 instance_index(s, inst), instance_host(s, inst)->name, strerror((int)number));
        s->output_unread = true;
        return 0;
    case CONTROL_PROGRESS:
        return handle_progress(s, inst, payload);
    case CONTROL_TAKEN:
        if (control_get_number(payload, &number) < 0)
            return -EPROTO;
        s->input_ended |= number == UINT64_MAX;
        s->input_in_flight -= min_u64(s->input_in_flight, number);
        return 0;
    case CONTROL_TOLD:
        if (control_get_number(payload, &number) < 0)
            return -EPROTO;
        log_debug(number ? "the process that started instance %u is gone"
                         : "the process that started instance %u wants the instance to end",
                  instance_index(s, inst));
        if (number && !s->orphan && !inst->asked) /* otherwise its daemon has ended normally */
            s->orphan = inst;
        inst->asked |= number == 0;
        supervise_expect_reason(s);
        return 0;
    case CONTROL_STOPPED:
        if (control_get_number(payload, &number) < 0 || number >= NSIG)
            return -EPROTO;
        inst->stopped_by = (int)number;
        if (number)
            log_warn("instance %u on host %s was stopped by SIG%s, and is waiting to be continued",
                     instance_index(s, inst), instance_host(s, inst)->name,
                     sigabbrev_np((int)number));
        else
            log_warn("instance %u on host %s continues", instance_index(s, inst),
                     instance_host(s, inst)->name);
        return 0;
    case CONTROL_STEP:
    case CONTROL_NOTICE:
    case CONTROL_ANSWER:
    case CONTROL_HALTED:
        return stop_handle(s, inst, (enum control_type)header->type, payload);
    case CONTROL_PACE:
        return slow_watch_handle(s, inst, payload);
    case CONTROL_HUNG:
        return hung_handle(s, inst, payload);
    case CONTROL_EXITED:
        return handle_exited(s, inst, payload);
    case CONTROL_SEEN:
        return handle_seen(s, inst, payload);
    case CONTROL_DRAINED:
        return handle_drained(s, inst, payload);
    case CONTROL_BEAT:
        return 0;
    default:
        return -EPROTO;
    }
}

/* Read from a peer. Encrypting a connection costs memory and time, so that waits for the first
 * bytes. */
static int64_t fill(struct supervisor *s, struct shim_peer *peer)
{
    if (s->tls && !peer->conn.carrier && tls_carry(s->tls, peer->conn.fd, &peer->conn.carrier) < 0)
        return -ENOMEM;
    peer->moved_ns = time_now_ns();
    return frame_conn_fill(&peer->conn);
}

void instances_read(struct supervisor *s, struct shim_peer *peer)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n = fill(s, peer);
    int r;

    if (n == -EAGAIN)
        return;
    while ((r = frame_conn_next(&peer->conn, &header, &payload)) == 1) {
        r = handle_frame(s, peer, &header, &payload);
        if (r < 0)
            break;
    }
    if (peer->instance)
        peer->instance->heard_ns = time_now_ns();
    if (n < 0 || r < 0)
        peers_hang_up(s, peer);
    else
        frame_conn_trim(&peer->conn);
}

/* ---- messages to shims ---- */

void instances_send_number(struct supervisor *s, enum control_type type, uint64_t number)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (s->instances[i].peer)
            (void)control_put_number(&s->instances[i].peer->conn.tx, type, number);
}

void instances_send_empty(struct supervisor *s, enum control_type type)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (s->instances[i].peer)
            (void)control_put_empty(&s->instances[i].peer->conn.tx, type);
}

void instances_send_credit(struct supervisor *s)
{
    char why[OUTPUT_FAILURE_MAX];
    uint32_t files, instance;
    const char *stream;
    uint64_t bytes;
    int r;

    output_acknowledge(s->output);
    while ((bytes = output_collect_credit(s->output, &instance)) > 0)
        if (s->instances[instance].peer)
            (void)control_put_number(&s->instances[instance].peer->conn.tx, CONTROL_CREDIT, bytes);
    files = output_take_file_failures(s->output, why);
    if (files > 0)
        log_warn("--output-dir: %s; further output is lost", why);
    r = output_get_failure(s->output, &stream);
    if (r == s->output_failure)
        return;
    s->output_failure = r;
    if (r == -EPIPE)
        supervise_fail_with(s, REPORT_CLOSED, NULL, "%s", stream);
    else
        log_warn("cannot write to %s: %s; the rest of the output is lost", stream, strerror(-r));
}

/* Returns whether instance 0 can take more input. A background job must not read from the terminal,
 * because that would stop it. */
bool instances_want_input(const struct supervisor *s)
{
    return !s->input_ended && instance_wants_input(s, 0) && s->phase == JOB_RUNNING &&
           s->instances[0].peer && s->instances[0].state == INSTANCE_ALIVE &&
           s->input_in_flight < SUPERVISE_INPUT_BYTES &&
           (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp());
}

void instances_send_input(struct supervisor *s, const char *bytes, size_t len)
{
    s->input_in_flight += len;
    assert(s->input_in_flight <= SUPERVISE_INPUT_BYTES);
    if (s->instances[0].peer)
        (void)control_put_bytes(&s->instances[0].peer->conn.tx, CONTROL_INPUT, bytes, len);
}

/* ---- liveness ---- */

/* Does the instance's shim send heartbeats at the moment? */
static bool is_heard(const struct instance *inst)
{
    return inst->state != INSTANCE_ABSENT && inst->state != INSTANCE_DONE && inst->peer;
}

static void check_silence(struct supervisor *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        struct instance *inst = &s->instances[i];
        char why[128];

        if (!is_heard(inst) || now < inst->heard_ns + s->job->limits->heartbeat_timeout_ns)
            continue;
        (void)snprintf(why, sizeof(why), "host %s has been silent for %.1f s (--heartbeat-timeout)",
                       instance_host(s, inst)->name, (double)(now - inst->heard_ns) / 1e9);
        inst->silent = true;
        lose(s, inst, why);
    }
    peers_drop_late(s, now);
}

const struct instance *instances_find_silent(const struct supervisor *s, uint64_t now,
                                             uint64_t *ret_silence_ns)
{
    const struct instance *found = NULL;
    uint64_t longest = SILENT_MS * NS_PER_MS;

    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (!is_heard(inst) || now < inst->heard_ns + longest)
            continue;
        longest = now - inst->heard_ns;
        found = inst;
    }
    *ret_silence_ns = longest;
    return found;
}

/* Returns whether Open MPI should see that this instance has ended. Returns false if it has called
 * collectives of libplenum: there, the others see its end, and a program that then skips
 * MPI_Finalize() has a reason. */
static bool should_leave(const struct instance *inst, uint64_t now)
{
    return inst->state == INSTANCE_DONE && inst->peer && inst->has_exited && !inst->left &&
           inst->exited.status == 0 && inst->exited.reached == 0 &&
           now >= inst->exited_ns + LEAVE_MS * NS_PER_MS;
}

/* While others are running, let mpirun see the end of instances that have succeeded (shim.c). */
static void send_leave(struct supervisor *s, uint64_t now)
{
    bool running = false;

    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        running |= s->instances[i].state == INSTANCE_ALIVE;
    if (!s->job->mpirun || s->phase != JOB_RUNNING || !running)
        return;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        struct instance *inst = &s->instances[i];

        if (!should_leave(inst, now))
            continue;
        assert(inst->peer && !inst->left);
        inst->left = true;
        (void)control_put_empty(&inst->peer->conn.tx, CONTROL_LEAVE);
    }
}

/* Drop a shim that does not read, and count its instance as lost. Messages to shims are few, so
 * they pile up only then. */
static void lose_deaf(struct supervisor *s, struct shim_peer *peer)
{
    struct instance *inst = peer->instance;
    char why[128];

    (void)snprintf(why, sizeof(why),
                   "its shim does not read what plenumrun sends: %zu MiB are waiting",
                   frame_conn_pending(&peer->conn) >> 20);
    peers_drop(s, peer);
    lose(s, inst, why);
}

void instances_beat(struct supervisor *s, uint64_t now)
{
    for (size_t i = s->num_peers; i-- > 0;) {
        struct shim_peer *peer = s->peers[i];
        size_t pending = frame_conn_pending(&peer->conn);

        if (peer->instance && pending < SUPERVISE_INPUT_BYTES)
            (void)control_put_empty(&peer->conn.tx, CONTROL_BEAT);
        else if (peer->instance && pending > QUEUE_MAX)
            lose_deaf(s, peer);
    }
    check_silence(s, now);
    send_leave(s, now);
}

/* SPDX-License-Identifier: MIT */
/* instance_plans.c - builds the plan that each instance receives before its program starts.
 *
 * Either all plans are queued or none: if the job cannot start, no program must. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/job/between_hosts.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/job/variables.h"
#include "launcher/plan/table.h"
#include "launcher/values/ranges.h"

enum {
    WINDOW_TOTAL = 32 * 1024 * 1024, /* unacknowledged output of all instances together */
    WINDOW_LEAST = 16 * 1024,
    WINDOW_MOST = 1024 * 1024,
};

static const char *loader_of(const struct supervisor *s, const struct instance *inst, char *text,
                             size_t size)
{
    *text = '\0';
    if (strcmp(s->job->loader, "auto") == 0) {
        const char *own = s->instances[instance_host(s, inst)->first].loader;

        (void)snprintf(text, size, "%s", own ? own : "");
    } else if (strcmp(s->job->loader, "none") != 0) {
        (void)snprintf(text, size, "%s", s->job->loader);
    }
    remote_loaders_add_addresses(s->loaders, instance_index(s, inst), text, size);
    return *text ? text : NULL;
}

static bool is_shown(const struct supervisor *s, uint32_t instance)
{
    return !s->shown || ranges_has(s->shown, instance);
}

/* Returns a name or address of instance 0's host that works on all hosts. */
static const char *master_address(const struct supervisor *s, char *text, size_t size)
{
    const struct plan *plan = s->plan;
    const struct plan_host *host = &plan->hosts[plan->instances[0].host];

    if (s->job->ready->master[0])
        return s->job->ready->master;
    if (plan_is_local(plan))
        return "127.0.0.1";
    if (!host->local)
        return host->name;
    host_get_name(text, size);
    return text;
}

/* Returns the interface's name, the first word of a string such as "eth0 10.1.2.3", or NULL if it
 * is not known. */
static const char *interface_of(const struct supervisor *s, const struct plan_host *host,
                                char ret[NETWORK_INTERFACE_MAX])
{
    if (plan_is_local(s->plan))
        return "lo";
    if (!host->interface)
        return NULL;
    (void)snprintf(ret, NETWORK_INTERFACE_MAX, "%.*s", (int)strcspn(host->interface, " "),
                   host->interface);
    return ret;
}

/* Returns the streams that are terminals here: programs may draw progress bars on these. */
static uint8_t live_streams(void)
{
    return (uint8_t)((isatty(STDOUT_FILENO) ? 1 << CONTROL_STDOUT : 0) |
                     (isatty(STDERR_FILENO) ? 1 << CONTROL_STDERR : 0));
}

/* Compute the instance's variables. */
static int make_environment(struct supervisor *s, const struct instance *inst,
                            struct environ_list *ret)
{
    uint32_t index = instance_index(s, inst);
    const struct plan_host *host = instance_host(s, inst);
    char master[HOST_NAME_MAX_BYTES], interface[NETWORK_INTERFACE_MAX];
    char loader[ADDRESS_LIST_MAX * sizeof(((struct address *)0)->text)];
    char place[MEETING_ADDRESS_MAX], *hosts = NULL;
    struct variables_job job = {
        .id = s->job->id,
        .restart_count = s->job->restart_count,
        .master_address = master_address(s, master, sizeof(master)),
        .master_port = s->master_port,
        .interface = interface_of(s, host, interface),
        .meeting = s->place ? s->place_address : NULL,
        .exports = s->job->exports,
        .mpi = s->job->mpi,
        .verify = s->job->verify,
    };
    int r;

    if (s->place_key[0]) {
        between_hosts_format_place(s, index, place);
        job.meeting = place;
        job.meeting_hosts = hosts = between_hosts_format(s, index);
        if (!hosts)
            return -ENOMEM;
    }
    r = variables_of_instance(&job, s->plan, index, loader_of(s, inst, loader, sizeof(loader)),
                              ret);
    free(hosts);
    return r;
}

/* Build an instance's plan. The caller owns the environment; everything else is borrowed. `place`
 * receives text that the plan borrows. */
static int make_plan(struct supervisor *s, struct instance *inst, char place[MEETING_ADDRESS_MAX],
                     struct control_plan *ret)
{
    uint32_t index = instance_index(s, inst);
    const struct plan_instance *instance = &s->plan->instances[index];
    const struct plan_host *host = instance_host(s, inst);

    *ret = (struct control_plan){
        .grace_ns = s->job->limits->grace_ns,
        .silence_ns = s->job->limits->heartbeat_timeout_ns,
        .progress_ns = s->job->limits->progress_timeout_ns,
        .instances = s->plan->num_instances,
        .input = instance_wants_input(s, index),
        .quiet = !is_shown(s, index) && !s->job->output->folder,
        .live = is_shown(s, index) && s->plan->num_instances > 1 ? live_streams() : 0,
        .at_once = s->plan->num_instances == 1,
        .bind_cpus = host->real && instance->bind_cpus,
        .memory = (uint8_t)(host->real ? instance->memory : NUMA_DEFAULT),
        .strict = s->job->strict_binding,
        .umask = (uint32_t)s->job->umask,
        .directory = (char *)s->job->directory,
        .cpus = instance->cpus ? instance->cpus : (char *)"",
        .nodes = instance->nodes ? instance->nodes : (char *)"",
        .loader_cpus = host->real && host->loader_cpus ? host->loader_cpus : (char *)"",
        .loader_key = (char *)remote_loaders_get_key(s->loaders),
        .place = (char *)"",
        .place_job = (char *)"",
        .place_key = (char *)"",
        .argv = (char **)s->job->program,
    };
    assert(s->plan->num_instances > 0);
    ret->window = (uint32_t)min_u64(max_u64(WINDOW_TOTAL / s->plan->num_instances, WINDOW_LEAST),
                                    WINDOW_MOST);
    between_hosts_plan(s, index, place, ret);
    return make_environment(s, inst, &ret->environment);
}

/* Append the plan to the send buffer. Returns 0, -ENOMEM, or -E2BIG if it exceeds a shim's frame
 * limit. */
static int put_plan(struct supervisor *s, struct instance *inst)
{
    struct frame_buffer *tx;
    struct control_plan plan;
    char place[MEETING_ADDRESS_MAX];
    size_t before;
    int r;

    assert(inst->peer && inst->state == INSTANCE_PRESENT);
    tx = &inst->peer->conn.tx;
    before = tx->len;
    r = make_plan(s, inst, place, &plan);
    if (r == 0)
        r = control_put_plan(tx, &plan);
    environ_list_fini(&plan.environment);
    if (r < 0)
        return r;
    if (tx->len - before <= FRAME_HEADER_BYTES + CONTROL_MAX_PAYLOAD)
        return 0;
    supervise_fail_with(
        s, REPORT_OTHER, NULL,
        "the program's arguments and variables take %zu MiB, but an instance can be given at most "
        "%d MiB: pass fewer arguments or variables (-x, --env-file)",
        (tx->len - before) >> 20, CONTROL_MAX_PAYLOAD >> 20);
    assert(tx->len > before);
    tx->len = before;
    return -E2BIG;
}

/* Remove plans that have not been sent to any shim: if the job cannot start, no program must. */
static void take_back_plans(struct supervisor *s, const size_t *before, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (s->instances[i].peer)
            s->instances[i].peer->conn.tx.len = before[i];
}

static void print_table(struct supervisor *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f;

    if (s->job->output->table == TABLE_NONE || s->table_printed || s->job->restart_count > 0)
        return;
    s->table_printed = true;
    f = open_memstream(&text, &size);
    if (!f)
        return;
    if (s->job->output->table == TABLE_JSON) {
        table_print_json(f, s->plan, s->job->loader, s->job->mpirun ? "mpirun" : "plenumrun");
    } else {
        table_print_text(f, s->plan, s->job->loader, s->job->mpirun ? "mpirun" : "plenumrun");
        (void)fputc('\n', f);
    }
    if (fclose(f) == 0)
        (void)output_put_own(s->output, CONTROL_STDOUT, text, size);
    free(text);
}

/* Queue all plans, or none. */
static int put_plans(struct supervisor *s)
{
    size_t *before = calloc(s->plan->num_instances, sizeof(*before));
    uint32_t i = 0;
    int r = before ? 0 : -ENOMEM;

    for (; r == 0 && i < s->plan->num_instances; i++) {
        before[i] = s->instances[i].peer->conn.tx.len;
        r = put_plan(s, &s->instances[i]);
    }
    if (r < 0) {
        take_back_plans(s, before, i);
        if (r != -E2BIG)
            supervise_fail_with(s, REPORT_OTHER, NULL, "out of memory for the plan of instance %u",
                                i);
    }
    free(before);
    return r;
}

void instances_send_plans(struct supervisor *s)
{
    assert(s->phase == JOB_STARTING && !s->plans_sent);
    for (uint32_t h = 0; h < s->plan->num_hosts; h++)
        if (!s->plan->hosts[h].known)
            return;
    print_table(s);
    if (put_plans(s) < 0)
        return;
    s->plans_sent = true;
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        instance_move(s, &s->instances[i], INSTANCE_PLANNED);
}

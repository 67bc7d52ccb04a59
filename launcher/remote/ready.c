/* SPDX-License-Identifier: MIT */
/* ready.c - looks for problems that would make a job fail before it starts, and reports all of them
 * in one table. */
#include "config.h"

#include "launcher/remote/ready.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/net/tls.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/host/host.h"
#include "launcher/remote/probe.h"
#include "launcher/host/script.h"
#include "launcher/control/exit_status.h"

#define CLOCK_MOST (2 * NS_PER_SEC)     /* clocks that differ by more cause a warning */
#define CLOCK_WRONG (300 * NS_PER_SEC)  /* a host whose clock differs by more is not used */
#define MEMORY_LEAST (256ull * 1048576) /* fewer free bytes cause a warning */
enum { MEMORY_PART = 20 };              /* so does less than 1/20 of a host's memory */

/* ---- this host ---- */

static bool root_is_allowed(bool allow_root)
{
    const char *allow = getenv("OMPI_ALLOW_RUN_AS_ROOT");
    const char *confirm = getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");

    return geteuid() != 0 || allow_root ||
           (allow && confirm && strcmp(allow, "1") == 0 && strcmp(confirm, "1") == 0);
}

/* Check that root may start jobs, if we are root, and that the program can be executed, if this
 * host has instances. Returns 0, or an exit status after a message. */
static int check_here(const struct ready_request *request, const struct plan *plan)
{
    struct plenum_error err;
    bool here = false;
    int r;

    if (!root_is_allowed(request->allow_root)) {
        log_error(
            "plenumrun does not start jobs as root, where a mistake can damage the system: use "
            "another user, or --allow-run-as-root");
        return STATUS_USAGE;
    }
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        here |= plan->hosts[i].local;
    if (!here)
        return 0;
    r = script_find(request->program, request->path, &err);
    if (r < 0)
        log_error("%s", err.text);
    return r == -ENOENT ? STATUS_NOT_FOUND : r < 0 ? STATUS_NOT_EXECUTABLE : 0;
}

/* ---- the other hosts ---- */

void ready_survey_fini(struct ready_survey *h)
{
    for (uint32_t i = 0; h->probes && i < h->count; i++)
        probe_fini(&h->probes[i]);
    free(h->probes);
    network_fini(&h->own);
    *h = (struct ready_survey){0};
}

/* Log the host's answer, and warn about conditions that are not failures but may explain trouble
 * later. */
static void warn_of(const struct probe *p)
{
    char available[32], all[32];
    uint64_t apart = (uint64_t)(p->clock_ns < 0 ? -p->clock_ns : p->clock_ns);

    if (apart > CLOCK_MOST)
        log_warn("host %s: its clock is %.1f s %s ours", p->host->name, (double)apart / 1e9,
                 p->clock_ns > 0 ? "ahead of" : "behind");
    if (p->memory_total > 0 &&
        (p->memory_free < MEMORY_LEAST || p->memory_free < p->memory_total / MEMORY_PART))
        log_warn("host %s: only %s of its %s of memory is free", p->host->name,
                 format_bytes(p->memory_free, available, sizeof(available)),
                 format_bytes(p->memory_total, all, sizeof(all)));
    log_info("host %s answered in %.2f s: %s of %s of memory is free", p->host->name,
             (double)p->took_ns / 1e9, format_bytes(p->memory_free, available, sizeof(available)),
             format_bytes(p->memory_total, all, sizeof(all)));
}

bool ready_can_ask(const struct ready_request *request)
{
    return !request->no_host_check && agent_is_used(request->agent);
}

/* Prepare a query to each host of the plan other than this one, if it can be queried. Returns 0, or
 * an exit status. */
static int add_probes(const struct ready_request *request, const struct plan *plan,
                      struct ready_survey *h)
{
    h->probes = calloc((size_t)plan->num_hosts + plan->num_loader_hosts, sizeof(*h->probes));
    if (!h->probes) {
        log_error("out of memory");
        return STATUS_LAUNCH;
    }
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        h->here |= plan->hosts[i].local;
        if (!plan->hosts[i].local && ready_can_ask(request))
            h->probes[h->count++].host = &plan->hosts[i];
    }
    for (uint32_t i = 0; i < plan->num_loader_hosts; i++)
        if (!plan->loader_hosts[i].local && ready_can_ask(request))
            h->probes[h->count++] = (struct probe){.host = &plan->loader_hosts[i], .loader = true};
    return 0;
}

/* Returns the time limit for all answers. */
static int get_limit_ms(const struct ready_request *request)
{
    return (int)min_u64(request->agent->start_timeout_ns / NS_PER_MS / 2, INT32_MAX);
}

/* Warn that an accelerator does not answer, which does not matter if the program uses none. */
static void warn_of_device(const char *host, const char *name, const char *device)
{
    log_warn("%s%s: %s; the job starts, because none of its options says that it uses accelerators "
             "(--device-env)",
             host, name, device);
}

static void check_devices(const struct ready_request *request, struct ready_survey *h)
{
    if (request->devices == READY_DEVICES_UNUSED)
        return;
    if (request->devices == READY_DEVICES_NEEDED)
        health_need_devices(&h->health);
    else if (h->health.device[0] && h->health.state == HEALTH_GOOD)
        warn_of_device("this host", "", h->health.device);
    for (uint32_t i = 0; i < h->count; i++) {
        struct probe *p = &h->probes[i];

        if (!p->device[0] || p->failed || p->loader)
            continue;
        if (request->devices == READY_DEVICES_NEEDED)
            probe_fail(p, "health", "%s", p->device);
        else
            warn_of_device("host ", p->host->name, p->device);
    }
}

/* Fail hosts whose clocks are wrong, because certificates, build tools and comparisons of files'
 * times rely on them. */
static void check_clocks(const struct ready_survey *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        struct probe *p = &h->probes[i];
        uint64_t apart = (uint64_t)(p->clock_ns < 0 ? -p->clock_ns : p->clock_ns);

        if (apart > CLOCK_WRONG)
            probe_fail(p, "health", "its clock is %.0f s %s ours: set one of them",
                       (double)apart / 1e9, p->clock_ns > 0 ? "ahead of" : "behind");
    }
}

static int query(const struct ready_request *request, bool connect, struct ready_survey *h,
                 uint64_t *ret_stopped_ns)
{
    char self[4096], back[DIAL_TEXT_MAX];
    struct plenum_error err;
    struct probe_question question = {.agent = request->agent,
                                      .program = request->program,
                                      .path = request->path,
                                      .self = self,
                                      .directory = request->directory,
                                      .job = request->earlier,
                                      .health = request->health,
                                      .healthy = true,
                                      .no_devices = request->devices == READY_DEVICES_UNUSED,
                                      .interrupted = request->interrupted,
                                      .listener = -1,
                                      .limit_ms = get_limit_ms(request)};
    int r;

    if (host_get_self(self, sizeof(self), &err) < 0) {
        log_error("%s", err.text);
        return STATUS_LAUNCH;
    }
    if (connect) {
        question.listener = dial_listen(NULL, request->ports, back, sizeof(back), &err);
        if (question.listener < 0) {
            log_error("%s", err.text);
            return STATUS_LAUNCH;
        }
        question.back = back;
        h->port = dial_get_port(back);
    }
    r = probe_hosts(&question, h->probes, h->count, ret_stopped_ns);
    io_close(&question.listener);
    if (r < 0) {
        log_error("the hosts cannot be queried: out of memory");
        return STATUS_LAUNCH;
    }
    check_clocks(h);
    return 0;
}

int ready_ask(const struct ready_request *request, bool connect, struct ready_survey *h,
              uint64_t *ret_stopped_ns)
{
    const struct health_request own = {.command = request->health,
                                       .root = "",
                                       .no_devices = request->devices == READY_DEVICES_UNUSED,
                                       .interrupted = request->interrupted,
                                       .limit_ns =
                                           probe_get_health_ms(get_limit_ms(request)) * NS_PER_MS};
    struct health *health = NULL;
    int r = h->here && !request->no_host_check ? health_begin(&own, &health) : 0;
    int status = 0;

    if (r < 0) {
        log_error("this host cannot be checked: %s", strerror(-r));
        return STATUS_LAUNCH;
    }
    if (h->count > 0)
        status = query(request, connect, h, ret_stopped_ns);
    if (health)
        health_finish(health, &h->health);
    check_devices(request, h);
    if (request->interrupted && request->interrupted())
        status = STATUS_SIGNAL + request->interrupted();
    return status;
}

/* If this host can encrypt, check that each of the others can, too. */
static void check_tls(const struct ready_survey *h)
{
    if (tls_is_installed(NULL) < 0)
        return;
    for (uint32_t i = 0; i < h->count; i++)
        if (h->probes[i].no_tls[0])
            probe_fail(&h->probes[i], "encryption", "%s", h->probes[i].no_tls);
}

/* Check that each host is on the network that the user named. */
static void check_subnet(const struct ready_survey *h, const struct subnet *subnet,
                         const char *text)
{
    for (uint32_t i = 0; i < h->count; i++) {
        struct probe *p = &h->probes[i];
        char addresses[300] = "";

        if (p->failed || network_find(&p->network, subnet))
            continue;
        for (size_t k = 0; k < p->network.count; k++) {
            size_t len = strlen(addresses);
            char one[100];

            network_format_address(&p->network.list[k], one, sizeof(one));
            one[strcspn(one, " ") + 1 + strcspn(one + strcspn(one, " ") + 1, " ")] = '\0';
            (void)snprintf(addresses + len, sizeof(addresses) - len, "%s%s", k ? ", " : "", one);
        }
        if (addresses[0])
            probe_fail(p, "network", "it has no address in --host-subnet %s; its addresses are %s",
                       text, addresses);
        else
            probe_fail(p, "network",
                       "it has no address in --host-subnet %s, and no other usable one", text);
    }
}

/* Check that each host with instances can reach the address on which we will listen. */
static void check_back(const struct ready_survey *h, const char *network)
{
    char own[INET6_ADDRSTRLEN];
    bool known = dial_find_own(network, own);

    for (uint32_t i = 0; i < h->count; i++)
        if (!h->probes[i].loader)
            probe_check_back(&h->probes[i], known ? own : NULL, h->port);
}

int ready_report(const struct ready_survey *h)
{
    bool failed = false, programs = true, missing = false, here = h->health.state == HEALTH_GOOD;
    char *table, title[64];

    for (uint32_t i = 0; i < h->count; i++) {
        const struct probe *p = &h->probes[i];

        failed |= p->failed;
        programs &= !p->failed || strcmp(p->step, "program") == 0;
        missing |= p->failed && !p->not_executable;
    }
    for (uint32_t i = 0; i < h->count; i++)
        if (!h->probes[i].failed)
            warn_of(&h->probes[i]);
    if (!here)
        log_error("this host is not ready: health: %s", h->health.why);
    if (!failed)
        return here ? 0 : STATUS_LAUNCH;
    table = probe_table(h->probes, h->count, title, sizeof(title));
    log_error("%s:", title);
    if (table)
        (void)io_write_all(STDERR_FILENO, table, strlen(table));
    free(table);
    if (!programs || !here)
        return STATUS_LAUNCH;
    return missing ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

/* ---- the network ---- */

/* Mark our address for another host: the one from which we would send to that host. */
static void mark_own(struct network *own, const struct network *other)
{
    for (size_t i = 0; i < other->count; i++) {
        const struct network_address *a = &other->list[i];
        struct sockaddr_storage to = {.ss_family = (sa_family_t)a->at.family}, from = {0};
        socklen_t len = sizeof(from);
        char text[INET6_ADDRSTRLEN];
        int fd;

        if (!a->reached)
            continue;
        if (a->at.family == AF_INET) {
            memcpy(&((struct sockaddr_in *)&to)->sin_addr, a->at.address, 4);
            ((struct sockaddr_in *)&to)->sin_port = htons(9);
        } else {
            memcpy(&((struct sockaddr_in6 *)&to)->sin6_addr, a->at.address, 16);
            ((struct sockaddr_in6 *)&to)->sin6_port = htons(9);
        }
        fd = socket(a->at.family, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* sends nothing */
        if (fd < 0)
            continue;
        if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
            getsockname(fd, (struct sockaddr *)&from, &len) == 0 &&
            inet_ntop(from.ss_family,
                      from.ss_family == AF_INET
                          ? (const void *)&((struct sockaddr_in *)&from)->sin_addr
                          : (const void *)&((struct sockaddr_in6 *)&from)->sin6_addr,
                      text, sizeof(text)))
            network_mark_reached(own, text);
        (void)close(fd);
    }
}

/* Is this the same host? The hosts that were queried may be copies of the plan's. */
static bool is_same(const struct plan_host *a, const struct plan_host *b)
{
    return a == b || plan_host_is(a, &(struct hostlist_host){
                                         .name = b->name, .user = b->user, .port = b->port});
}

static const struct network *network_of(const struct ready_survey *h, const struct plan_host *host)
{
    if (host->local)
        return &h->own;
    for (uint32_t i = 0; i < h->count; i++)
        if (is_same(h->probes[i].host, host))
            return &h->probes[i].network;
    return NULL;
}

/* Append the names of virtual interfaces, each once, separated by commas. Names that do not fit
 * are left out. */
static void list_virtual(const struct network *network, char *ret, size_t size)
{
    for (size_t i = 0; i < network->count; i++) {
        const char *name = network->list[i].interface;
        size_t len = strlen(ret);

        if (!network->list[i].is_virtual || text_is_listed(ret, name))
            continue;
        if (len + strlen(name) + 2 <= size)
            (void)snprintf(ret + len, size - len, "%s%s", len ? "," : "", name);
    }
}

/* Store an address with its interface as "eth0 10.1.2.3". */
static int note_interface(struct plan_host *host, const struct network_address *a)
{
    char text[100], *slash;

    network_format_address(a, text, sizeof(text));
    slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    free(host->interface);
    host->interface = strdup(text);
    return host->interface ? 0 : -ENOMEM;
}

static int note_interfaces(struct plan *plan, const struct ready_survey *h,
                           const struct subnet *subnet, struct ready *ret)
{
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        const struct network *network = network_of(h, &plan->hosts[i]);
        const struct network_address *a = network ? network_find(network, subnet) : NULL;

        if (!a)
            continue;
        if (note_interface(&plan->hosts[i], a) < 0)
            return -ENOMEM;
        if (i == plan->instances[0].host)
            (void)snprintf(ret->master, sizeof(ret->master), "%s",
                           strchr(plan->hosts[i].interface, ' ') + 1);
    }
    return 0;
}

/* Write the network as Open MPI accepts it: IPv4 networks as numbers, but for IPv6 only the name of
 * an interface, which must then be the same on all hosts. */
static void describe_include(const struct network *const *list, size_t count,
                             const struct subnet *subnet, char ret[SUBNET_TEXT_MAX])
{
    const char *name = NULL;

    ret[0] = '\0';
    if (subnet->family == AF_INET) {
        subnet_format(subnet, ret);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct network_address *a = network_find(list[i], subnet);

        if (!a || (name && strcmp(name, a->interface) != 0))
            return;
        name = a->interface;
    }
    (void)snprintf(ret, SUBNET_TEXT_MAX, "%s", name ? name : "");
}

/* Choose the addresses at which instances reach loaders on separate hosts: those on a network that
 * all of them share, or, if there is none, those that we use ourselves. */
static int choose_loader_network(struct plan *plan, const struct ready_survey *h,
                                 const struct subnet *named)
{
    uint32_t count = 0, all = plan->num_hosts + plan->num_loader_hosts;
    const struct network **list = calloc(all, sizeof(*list));
    struct subnet subnet;
    bool known = named != NULL;

    if (!list)
        return -ENOMEM;
    if (named)
        subnet = *named;
    for (uint32_t i = 0; i < all; i++) {
        const struct plan_host *host =
            i < plan->num_hosts ? &plan->hosts[i] : &plan->loader_hosts[i - plan->num_hosts];

        list[count] = network_of(h, host);
        count += list[count] != NULL;
    }
    if (!known && count == all)
        known = network_find_shared(list, count, &subnet) == 0;
    free(list);
    for (uint32_t i = 0; i < plan->num_loader_hosts; i++) {
        const struct network *network = network_of(h, &plan->loader_hosts[i]);
        const struct network_address *a = network && known ? network_find(network, &subnet) : NULL;

        for (size_t k = 0; network && !a && k < network->count; k++)
            a = network->list[k].reached ? &network->list[k] : NULL;
        if (a && note_interface(&plan->loader_hosts[i], a) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int choose_network(struct plan *plan, struct ready_survey *h, const struct subnet *named,
                          struct ready *ret)
{
    const struct network **list = calloc((size_t)plan->num_hosts + 1, sizeof(*list));
    struct subnet subnet;
    uint32_t count = 0;
    bool known = named != NULL;
    int r = 0;

    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        list[count] = network_of(h, &plan->hosts[i]);
        count += list[count] != NULL;
    }
    if (named)
        subnet = *named;
    else if (count == plan->num_hosts)
        known = network_find_shared(list, count, &subnet) == 0;
    if (known) {
        subnet_format(&subnet, ret->subnet);
        describe_include(list, count, &subnet, ret->program_include);
        r = note_interfaces(plan, h, &subnet, ret);
    }
    /* mpirun itself runs on this host, which may have no instances, and may be on another
     * network. */
    list[count++] = &h->own;
    if (known && !network_find(&h->own, &subnet))
        known = network_find_shared(list, count, &subnet) == 0;
    if (known)
        describe_include(list, count, &subnet, ret->daemon_include);
    for (uint32_t i = 0; i < count; i++)
        list_virtual(list[i], ret->excluded, sizeof(ret->excluded));
    free(list);
    return r;
}

static int choose_networks(struct plan *plan, struct ready_survey *h, const struct subnet *named,
                           struct ready *ret)
{
    for (uint32_t i = 0; i < h->count; i++)
        mark_own(&h->own, &h->probes[i].network);
    if ((!plan_is_local(plan) && choose_network(plan, h, named, ret) < 0) ||
        choose_loader_network(plan, h, named) < 0) {
        log_error("out of memory");
        return STATUS_LAUNCH;
    }
    return 0;
}

/* Check that --health-check can be run on all hosts, because it must not be skipped silently.
 * Returns 0, or an exit status after a message. */
static int check_command(const struct ready_request *request, const struct plan *plan)
{
    if (!request->health || (!request->no_host_check && plan_is_local(plan)) ||
        ready_can_ask(request))
        return 0;
    if (request->no_host_check)
        log_error("--health-check and --no-host-check contradict each other: leave one of them "
                  "out");
    else
        log_error("--health-check cannot be run on the other hosts, because srun starts processes "
                  "there instead of a login: let Slurm check its nodes (HealthCheckProgram), or "
                  "leave it out");
    return STATUS_USAGE;
}

int ready_settle(const struct ready_request *request, struct plan *plan, struct ready_survey *h,
                 struct ready *ret)
{
    struct subnet subnet = {0};
    const struct subnet *named = request->host_subnet ? &subnet : NULL;
    int status;

    *ret = (struct ready){.stopped_ns = ret->stopped_ns};
    status = check_here(request, plan);
    if (status == 0)
        status = check_command(request, plan);
    if (status != 0 || (plan_is_local(plan) && plan->num_loader_hosts == 0))
        return status;
    if (request->host_subnet)
        (void)subnet_parse(request->host_subnet, &subnet, NULL); /* the text was checked before */
    if (h->own.count == 0)
        (void)network_read(&h->own);
    status = choose_networks(plan, h, named, ret);
    if (status != 0)
        return status;
    check_tls(h);
    if (request->host_subnet)
        check_subnet(h, &subnet, request->host_subnet);
    if (!plan_is_local(plan))
        check_back(h, ret->daemon_include);
    return 0;
}

void ready_tell(const struct ready *ready)
{
    if (ready->subnet[0])
        log_info("the hosts communicate over %s", ready->subnet);
}

int ready_check(const struct ready_request *request, struct plan *plan, struct ready *ret)
{
    struct ready_survey h = {0};
    int status;

    *ret = (struct ready){0};
    status = check_here(request, plan);
    if (status == 0)
        status = add_probes(request, plan, &h);
    if (status == 0)
        status = ready_ask(request, !plan_is_local(plan), &h, &ret->stopped_ns);
    if (status == 0)
        status = ready_settle(request, plan, &h, ret);
    if (status == 0)
        status = ready_report(&h);
    if (status == 0)
        ready_tell(ret);
    ready_survey_fini(&h);
    return status;
}

/* SPDX-License-Identifier: MIT */
/* job_hosts.c - from options and batch system to the hosts of a job, and to its plan. */
#include "config.h"

#include "launcher/job/job_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "launcher/host/host.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/cmdline.h"

const char *job_hosts_get_loader(const struct cmdline *options)
{
    const char *named = getenv("PLENUM_LOADER");

    if (options->loader)
        return options->loader;
    return named && *named ? named : "auto";
}

/* Remove the hosts of --exclude and, from a batch system's list, those of --loader-host. Some must
 * remain. */
static int remove_others(const struct cmdline *options, bool allocated, struct hostlist *list,
                         struct plenum_error *err)
{
    int r;

    if (list->count == 0)
        return 0;
    if (allocated) /* some of them run only a loader */
        for (size_t i = 0; i < options->loader_hosts.count; i++) {
            r = hostlist_remove_text(list, options->loader_hosts.hosts[i].name, err);
            if (r < 0)
                return r;
        }
    for (size_t i = 0; i < options->excluded.count; i++) {
        r = hostlist_remove_text(list, options->excluded.items[i], err);
        if (r < 0)
            return r;
    }
    if (list->count == 0)
        return error_set(err, -EINVAL, "%s leaves no host",
                         options->excluded.count > 0 ? "--exclude" : "--loader-host");
    return 0;
}

/* Get the hosts of the batch system, if there is one. */
static int read_allocation(struct cmdline *options, struct hostlist *ret, struct plenum_error *err)
{
    struct allocation allocation;
    int r = allocation_read(&allocation, err);

    if (r < 0)
        return r;
    if (allocation.name)
        log_info("%zu host%s, from %s", allocation.hosts.count,
                 allocation.hosts.count == 1 ? "" : "s", allocation.name);
    *ret = allocation.hosts;
    if (options->num_instances == 0 && options->excluded.count == 0 &&
        options->loader_hosts.count == 0 && !cmdline_is_elastic(options))
        options->num_instances = allocation.tasks;
    return 0;
}

/* If this host is named several times, merge its slots into one entry. */
static void merge_this_host(struct hostlist *hosts, bool *local)
{
    size_t first = SIZE_MAX, kept = 0;

    for (size_t i = 0; i < hosts->count; i++) {
        struct hostlist_host *host = &hosts->hosts[i];

        if (local[i] && first != SIZE_MAX) {
            struct hostlist_host *to = &hosts->hosts[first];

            log_info("%s and %s are both this host", to->name, host->name);
            to->slots = (to->slots ? to->slots : 1) + (host->slots ? host->slots : 1);
            free(host->name);
            free(host->user);
            continue;
        }
        if (local[i])
            first = kept;
        local[kept] = local[i];
        hosts->hosts[kept++] = *host;
    }
    hosts->count = kept;
}

/* Check that --loader-host, --loader and --status-port fit together. A program has one key. The
 * job's own loaders use the job's key, so loaders with other keys cannot be used at the same
 * time. */
static int check_loaders(const struct cmdline *options, struct plenum_error *err)
{
    struct address list[ADDRESS_LIST_MAX];
    const char *named = job_hosts_get_loader(options);
    int count;

    if (options->status_port != SETTINGS_NO_PORT && strcmp(named, "auto") != 0)
        return error_set(err, -EINVAL,
                         "--status-port is for a loader that the job starts itself, but this job "
                         "starts none (loader: %s): leave it out, or give plenumd --http-port",
                         named);
#ifndef HAVE_MICROHTTPD
    if (options->status_port != SETTINGS_NO_PORT)
        return error_set(err, -EINVAL,
                         "--status-port: this Plenum was built without libmicrohttpd, and its "
                         "loader has no status page: leave it out");
#endif
    if (options->loader_hosts.count == 0 || strcmp(named, "auto") == 0 ||
        strcmp(named, "none") == 0)
        return 0;
    count = address_parse_list(named, list, err);
    if (count < 0)
        return error_prefix(err, count, "PLENUM_LOADER");
    if (count == ADDRESS_LIST_MAX)
        return error_set(
            err, -EINVAL,
            "--loader-host: a program uses at most %d loaders, and that many are already named",
            ADDRESS_LIST_MAX);
    for (int i = 0; i < count; i++)
        if (list[i].tcp)
            return error_set(err, -EINVAL,
                             "--loader-host gives the programs a key of the job's own, with which "
                             "loader %s cannot be used: name that host with --loader-host, too, or "
                             "leave one of the two out",
                             list[i].text);
    return 0;
}

/* Find out which of the hosts is this one. */
static int find_this(const struct cmdline *options, struct job_hosts *hosts,
                     struct plenum_error *err)
{
    hosts->local = calloc(hosts->list.count + 1, sizeof(*hosts->local));
    hosts->lenders_local = calloc(hosts->lenders.count + 1, sizeof(*hosts->lenders_local));
    if (!hosts->local || !hosts->lenders_local)
        return error_set(err, -ENOMEM, "out of memory");
    if (options->topologies.count > 0) /* the hosts need not exist */
        return 0;
    host_find_this(&hosts->lenders, hosts->lenders_local);
    host_find_this(&hosts->list, hosts->local);
    merge_this_host(&hosts->list, hosts->local);
    return 0;
}

int job_hosts_init(struct cmdline *options, struct job_hosts *ret, struct plenum_error *err)
{
    bool allocated = options->hosts.count == 0;
    int r = 0;

    *ret = (struct job_hosts){.list = options->hosts, .lenders = options->loader_hosts};
    options->hosts = (struct hostlist){0};
    if (allocated && options->topologies.count == 0)
        r = read_allocation(options, &ret->list, err);
    if (r == 0)
        r = remove_others(options, allocated, &ret->list, err);
    if (r == 0)
        r = check_loaders(options, err);
    if (r == 0)
        r = find_this(options, ret, err);
    if (r < 0)
        job_hosts_fini(ret);
    return r;
}

void job_hosts_fini(struct job_hosts *hosts)
{
    hostlist_fini(&hosts->list);
    free(hosts->local);
    free(hosts->lenders_local);
    *hosts = (struct job_hosts){0};
}

int job_hosts_read_again(const struct cmdline *options, struct job_hosts *ret,
                         struct plenum_error *err)
{
    struct allocation allocation;
    bool allocated = false;
    int r;

    *ret = (struct job_hosts){.lenders = options->loader_hosts};
    r = cmdline_read_hosts(options, &ret->list, err);
    if (r == 0 && ret->list.count == 0) {
        r = allocation_read_again(&allocation, err);
        if (r == 0) {
            ret->list = allocation.hosts;
            allocated = true;
        }
    }
    if (r == 0)
        r = remove_others(options, allocated, &ret->list, err);
    if (r == 0)
        r = find_this(options, ret, err);
    if (r < 0)
        job_hosts_fini(ret);
    return r;
}

int job_hosts_plan(const struct cmdline *options, const struct job_hosts *hosts, struct plan *ret,
                   struct plenum_error *err)
{
    char name[HOST_NAME_MAX_BYTES];
    struct plan_request request = {
        .hosts = &hosts->list,
        .local = hosts->local,
        .loader_hosts = &hosts->lenders,
        .loader_local = hosts->lenders_local,
        .this_host = name,
        .num_instances = options->num_instances,
        .num_replicas = options->num_replicas,
        .replicas_per_host = options->replicas_per_host,
        .devices_per_replica = options->devices_per_replica,
        .allow_uneven = options->allow_uneven,
        .place = {.policy = options->numa_aware ? options->placement : PLACE_DISABLED,
                  .memory = options->memory,
                  .cpus = options->cpus,
                  .first_threads = options->first_threads,
                  .reserve_cores = options->reserve_cores},
        .pool = options->pool.variable ? &options->pool : NULL,
    };
    int r;

    if (request.place.policy == PLACE_DEVICE && !request.pool &&
        (r = devices_check_visible(err)) < 0)
        return r;
    host_get_name(name, sizeof(name));
    return plan_create(&request, ret, err);
}

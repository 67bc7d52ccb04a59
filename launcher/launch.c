/* launch.c - what plenumrun does before and instead of a job.
 *
 *     options → plan → (topology, table: --dry-run ends here) → checks → supervise.c
 *
 * What can be found wrong without starting anything is found here, so that it costs nothing and is
 * said in one sentence. */
#include "config.h"

#include "launcher/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "launcher/environ.h"
#include "launcher/host.h"
#include "launcher/cmdline.h"
#include "launcher/plan.h"
#include "launcher/report.h"
#include "launcher/supervise.h"
#include "launcher/table.h"
#include "launcher/topology.h"

/* --loader wins over PLENUM_LOADER, which wins over a loader of our own. */
static const char *choose_loader(const struct cmdline *options)
{
    const char *named = getenv("PLENUM_LOADER");

    if (options->loader)
        return options->loader;
    return named && *named ? named : "auto";
}

static int make_plan(const struct cmdline *options, struct plan *ret, struct plenum_error *err)
{
    char name[HOST_NAME_MAX_BYTES];
    const struct plan_request request = {
        .hosts = &options->hosts,
        .this_host = name,
        .num_instances = options->num_instances,
        .num_replicas = options->num_replicas,
        .devices_per_replica = options->devices_per_replica,
        .policy = options->numa_aware ? options->placement : PLACE_DISABLED,
    };

    host_get_name(name, sizeof(name));
    return plan_create(&request, ret, err);
}

/* Place this host's instances; others' topologies are known when a job runs there. */
static int dry_run(const struct cmdline *options, struct plan *plan)
{
    struct plenum_error err;
    hwloc_topology_t topology;

    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        int r;

        if (!plan->hosts[i].local)
            continue;
        r = topology_load(&topology, &err);
        if (r == 0) {
            r = plan_place_host(plan, i, topology, hwloc_topology_is_thissystem(topology), &err);
            hwloc_topology_destroy(topology);
        }
        if (r < 0) {
            log_error("%s", err.text);
            return REPORT_LAUNCH;
        }
    }
    if (options->print_topology == CMDLINE_FORMAT_JSON)
        table_print_json(stdout, plan, choose_loader(options));
    else
        table_print_text(stdout, plan, choose_loader(options));
    if (fflush(stdout) != 0) {
        log_error("cannot write the table to standard output: %s", strerror(errno));
        return REPORT_LAUNCH;
    }
    return 0;
}

static bool root_is_allowed(const struct cmdline *options)
{
    const char *allow = getenv("OMPI_ALLOW_RUN_AS_ROOT");
    const char *confirm = getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM");

    return geteuid() != 0 || options->allow_root ||
           (allow && confirm && strcmp(allow, "1") == 0 && strcmp(confirm, "1") == 0);
}

/* What would fail on this host: 0, or an exit status. */
static int check(const struct cmdline *options, const struct plan *plan)
{
    char path[4096];
    bool here = false;

    if (!root_is_allowed(options)) {
        log_error("a job is not started as root, where a mistake in it could harm the system; use "
                  "another user, or --allow-run-as-root");
        return REPORT_USAGE;
    }
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        here |= plan->hosts[i].local;
    if (!here)
        return 0;
    switch (host_find_program(options->program[0], path, sizeof(path))) {
    case 0:
        return 0;
    case -EACCES:
        log_error("program '%s' cannot be executed: is it a program, and has it the permission "
                  "(chmod +x)?",
                  options->program[0]);
        return REPORT_NOT_EXECUTABLE;
    default:
        log_error("there is no program '%s'%s", options->program[0],
                  strchr(options->program[0], '/') ? "" : " in PATH");
        return REPORT_NOT_FOUND;
    }
}

static int run(const struct cmdline *options, struct plan *plan)
{
    char directory[4096];
    struct supervise_job job = {
        .options = options,
        .plan = plan,
        .directory = directory,
        .loader = choose_loader(options),
    };
    struct plenum_error err;
    int status = check(options, plan);

    if (status != 0)
        return status;
    if (host_get_directory(directory, sizeof(directory), &err) < 0) {
        log_error("%s", err.text);
        return REPORT_LAUNCH;
    }
    environ_warn(plan, options);
    return supervise_run(&job);
}

int launch_main(int argc, char **argv)
{
    struct cmdline options;
    struct plan plan;
    struct plenum_error err;
    int operands, status;

    cmdline_init(&options);
    status = options_start(&cmdline_program, &options, argc, argv, &operands);
    if (status >= 0)
        goto out;
    status = REPORT_USAGE;
    log_init("plenumrun", options.verbosity > 1    ? LOG_LEVEL_DEBUG
                          : options.verbosity == 1 ? LOG_LEVEL_INFO
                                                   : LOG_LEVEL_WARN);
    if (cmdline_finish(&options, argv, operands, &err) < 0 ||
        make_plan(&options, &plan, &err) < 0) {
        log_error("%s", err.text);
        goto out;
    }
    status = options.dry_run ? dry_run(&options, &plan) : run(&options, &plan);
    plan_fini(&plan);
out:
    cmdline_fini(&options);
    return status;
}

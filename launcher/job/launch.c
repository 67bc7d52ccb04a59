/* SPDX-License-Identifier: MIT */
/* launch.c - everything that plenumrun does before a job, or instead of one.
 *
 *     options → plan → (topology, table: --dry-run ends here) → checks → supervise.c
 *
 * Problems that can be found without starting anything are found here, at no cost, and are reported
 * in one sentence. */
#include "config.h"

#include "launcher/job/launch.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/environ.h"
#include "launcher/host/host.h"
#include "launcher/job/advance.h"
#include "launcher/job/elastic.h"
#include "launcher/job/interlude.h"
#include "launcher/job/job_hosts.h"
#include "launcher/job/mpirun.h"
#include "launcher/job/pause.h"
#include "launcher/job/report.h"
#include "launcher/job/supervise.h"
#include "launcher/job/variables.h"
#include "launcher/job/version.h"
#include "launcher/plan/cmdline.h"
#include "launcher/plan/configfile.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/table.h"
#include "launcher/remote/ready.h"
#include "launcher/control/exit_status.h"
#include "launcher/values/topology.h"

enum { MS_PER_S = 1000 };

/* Place all hosts on the given topologies: one for all, or one each. */
static int place_on_given(const struct cmdline *options, struct plan *plan,
                          struct plenum_error *err)
{
    size_t count = options->topologies.count;
    hwloc_topology_t topology = NULL;
    int r = 0;

    if (count != 1 && count != plan->num_hosts)
        return error_set(err, -EINVAL,
                         "--topology is given %zu times for %u hosts: give it once for all hosts, "
                         "or once for each",
                         count, plan->num_hosts);
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        if (i < count) {
            if (topology)
                hwloc_topology_destroy(topology);
            topology = NULL;
            r = topology_read(options->topologies.items[i], &topology, err);
            if (r < 0) {
                (void)error_prefix(err, r, "--topology");
                break;
            }
        }
        r = plan_place_host(plan, i, topology, false, err);
        if (r < 0)
            break;
    }
    if (topology)
        hwloc_topology_destroy(topology);
    return r;
}

/* Place this host's instances; topologies of other hosts become known when a job runs there. */
static int place_here(struct plan *plan, struct plenum_error *err)
{
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        hwloc_topology_t topology;
        int r;

        if (!plan->hosts[i].local)
            continue;
        r = topology_load(plan->place.policy == PLACE_DEVICE, &topology, err);
        if (r < 0)
            return r;
        r = plan_place_host(plan, i, topology, hwloc_topology_is_thissystem(topology), err);
        hwloc_topology_destroy(topology);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Returns the first option that only mpirun understands, or NULL. */
static const char *find_mpirun_option(const struct cmdline *options)
{
    if (options->mpi.global_args.count > 0)
        return "--mpi-global-args";
    if (options->mpi.local_args.count > 0)
        return "--mpi-local-args";
    return options->mpi.num_instance_args > 0 ? "--instance-mpi-local-args" : NULL;
}

static int choose_own(const struct plan *plan, const char *option, struct plenum_error *why)
{
    if (!plan_is_local(plan))
        return error_set(why, -EINVAL,
                         "--starter own starts instances only on this host, but the job has other "
                         "hosts: leave it out");
    if (option)
        return error_set(
            why, -EINVAL,
            "%s is for mpirun, which --starter own does not use: leave one of them out", option);
    (void)snprintf(why->text, sizeof(why->text), "--starter own");
    return 0;
}

/* Choose what starts the instances, unless --starter decides: mpirun; or plenumrun itself, if there
 * is no Open MPI mpirun and all instances are on this host. `*ret` is NULL for plenumrun, and `why`
 * gives the reason. */
static int choose_starter(const struct cmdline *options, const struct plan *plan,
                          struct mpirun_program *mpirun, const struct mpirun_program **ret,
                          struct plenum_error *why)
{
    const char *option = find_mpirun_option(options);
    struct plenum_error lack;
    int r;

    *ret = NULL;
    if (options->mpi.starter == STARTER_OWN)
        return choose_own(plan, option, why);
    r = mpirun_find(mpirun, why);
    *ret = r == 0 ? mpirun : NULL;
    if (r == 0)
        return 0;
    lack = *why;
    if (options->mpi.starter == STARTER_MPIRUN)
        return error_set(why, r, "--starter mpirun: %s", lack.text);
    if (!plan_is_local(plan))
        return error_set(why, r,
                         "%s: to start instances on other hosts, install Open MPI 4 or 5 on all of "
                         "them (Debian: openmpi-bin), and put its mpirun first in PATH; a job on a "
                         "single host does not need it",
                         lack.text);
    if (option)
        return error_set(why, r,
                         "%s is for mpirun, and %s: leave it out, or install Open MPI 4 or 5 "
                         "(Debian: openmpi-bin), and put its mpirun first in PATH",
                         option, lack.text);
    if (r != -ENOENT && plan->num_instances > 1)
        log_warn(
            "%s: plenumrun starts the instances itself; a program that uses MPI will end with an "
            "error",
            lack.text);
    return 0;
}

/* Returns the name of what would start the instances on this machine. For other machines
 * (--topology) it is unknown, and mpirun is assumed. */
static const char *tell_starter(const struct cmdline *options, const struct plan *plan)
{
    const struct mpirun_program *found;
    struct mpirun_program mpirun;
    struct plenum_error err;

    if (options->topologies.count > 0)
        return "mpirun";
    if (choose_starter(options, plan, &mpirun, &found, &err) == 0)
        return found ? "mpirun" : "plenumrun";
    log_warn("this job could not be started now: %s", err.text);
    return "mpirun";
}

static int dry_run(const struct cmdline *options, struct plan *plan)
{
    struct plenum_error err;
    const char *starter;
    int r;

    r = options->topologies.count > 0 ? place_on_given(options, plan, &err)
                                      : place_here(plan, &err);
    if (r < 0) {
        log_error("%s", err.text);
        return r == -EINVAL || options->topologies.count > 0 ? STATUS_USAGE : STATUS_LAUNCH;
    }
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        if (plan->hosts[i].blind)
            log_warn("host %s: the location of its accelerators is unknown: instances are placed "
                     "as with spreadnuma",
                     plan->hosts[i].name);
    starter = tell_starter(options, plan);
    if (options->output.table == TABLE_JSON)
        table_print_json(stdout, plan, job_hosts_get_loader(options), starter);
    else
        table_print_text(stdout, plan, job_hosts_get_loader(options), starter);
    if (fflush(stdout) != 0) {
        log_error("cannot write the table to standard output: %s", strerror(errno));
        return STATUS_LAUNCH;
    }
    return 0;
}

/* Warn if Open MPI cannot write its files: MPI_Init() would fail without giving a reason, or die of
 * SIGBUS. */
static void warn_of_folder(void)
{
    const char *folder;
    int r = host_check_folder(&folder);

    if (r < 0)
        log_warn("Open MPI's files cannot be written here: %s: %s; programs that use MPI may fail: "
                 "free some space, or name another folder with TMPDIR",
                 folder, strerror(-r));
}

/* Get the umask. It cannot be read without changing it, so call this before there are threads. */
static mode_t get_umask(void)
{
    mode_t mask = umask(0);

    (void)umask(mask);
    return mask;
}

static int check_instances(const struct cmdline *options, const struct plan *plan)
{
    for (size_t i = 0; i < options->mpi.num_instance_args; i++) {
        if (options->mpi.instance_args[i].instance >= plan->num_instances) {
            log_error("--instance-mpi-local-args: there is no instance %u: the last one is %u",
                      options->mpi.instance_args[i].instance, plan->num_instances - 1);
            return STATUS_USAGE;
        }
    }
    return 0;
}

/* Wait before restarting the job, because a host may return, and restarting at once does not help a
 * program that fails at once. Never waits beyond --timeout. Returns 0, or the signal that ended the
 * job. */
static int rest(const struct supervise_job *job, uint64_t ms)
{
    uint64_t limit = job->limits->timeout_ns, now = time_now_ns();
    uint64_t left = limit > 0 ? job->begun_ns + limit : UINT64_MAX;
    int signal = interlude_look();

    left = left > now ? (left - now) / NS_PER_MS + MS_PER_S : 0;
    ms = min_u64(ms, left);
    if (signal || ms == 0)
        return signal;
    log_warn("not yet: trying again in %u s", (unsigned)((ms + MS_PER_S / 2) / MS_PER_S));
    return interlude_wait(now + ms * NS_PER_MS);
}

static void tell_replaced(const struct plan *plan, const char *why)
{
    log_warn("mpirun cannot start the instances here: %s: plenumrun starts them itself%s", why,
             plan->num_instances > 1 ? ", and a program that uses MPI will end with an error" : "");
}

/* A job with all its attempts. */
struct attempts {
    const struct cmdline *options;
    char directory[4096], id[17];
    struct agent_settings agent;
    struct ready_request request;
    struct ready ready;
    struct mpirun_program mpirun;
    struct pause pause;
    struct advance advance;
    struct elastic *elastic; /* borrowed; NULL: all hosts are needed, in every attempt */
    bool has_asked;          /* its programs have called plenum_job_should_stop() */
    bool replaced;           /* plenumrun's own starter has replaced mpirun */
    struct supervise_job job;
    struct supervise_result result;
};

/* Returns whether the job needs accelerators. A job that can choose among hosts avoids those whose
 * accelerators do not answer, unless they are hidden from it. */
static enum ready_devices get_devices(const struct cmdline *options)
{
    if (options->pool.variable || options->placement == PLACE_DEVICE)
        return READY_DEVICES_NEEDED;
    if (devices_check_visible(NULL) < 0)
        return READY_DEVICES_UNUSED;
    return cmdline_is_elastic(options) ? READY_DEVICES_NEEDED : READY_DEVICES_UNKNOWN;
}

/* Set everything that stays the same in all attempts. The members of `all` refer to each other. */
static void attempts_init(struct attempts *all, const struct cmdline *options,
                          struct elastic *elastic, struct plan *plan)
{
    struct rlimit descriptors;

    *all = (struct attempts){
        .options = options,
        .elastic = elastic,
        .agent = {.mpi_args = &options->mpi.global_args,
                  .start_timeout_ns = options->limits.start_timeout_ns,
                  .heartbeat_timeout_ns = options->limits.heartbeat_timeout_ns},
        .request = {.agent = &all->agent,
                    .program = options->program[0],
                    .directory = all->directory,
                    .path = variables_get_path(&options->exports),
                    .host_subnet = options->host_subnet,
                    .ports = &options->ports,
                    .health = options->health_check,
                    .interrupted = interlude_look,
                    .devices = get_devices(options),
                    .allow_root = options->mpi.allow_root,
                    .no_host_check = options->no_host_check},
        .job = {.program = options->program,
                .limits = &options->limits,
                .stop = &options->stop,
                .output = &options->output,
                .mpi = &options->mpi,
                .agent = &all->agent,
                .exports = &options->exports,
                .verify = options->verify,
                .strict_binding = options->strict_binding,
                .elastic = elastic != NULL,
                .hosts = elastic,
                .request = &all->request,
                .plan = plan,
                .ready = &all->ready,
                .ports = &options->ports,
                .directory = all->directory,
                .loader = job_hosts_get_loader(options),
                .status_port = options->status_port,
                .id = all->id,
                .begun_ns = time_now_ns(),
                .descriptors =
                    getrlimit(RLIMIT_NOFILE, &descriptors) == 0 ? descriptors.rlim_cur : 0,
                .umask = get_umask()},
    };
    advance_begin(&all->advance, options->progress_file);
}

/* Choose what starts the instances of the present plan. */
static int choose_again(struct attempts *all, struct plenum_error *err)
{
    const struct cmdline *options = all->options;
    struct supervise_job *job = &all->job;

    job->may_replace = options->mpi.starter == STARTER_AUTO && plan_is_local(job->plan) &&
                       !find_mpirun_option(options);
    job->through_mpi = options->mpi.starter == STARTER_MPIRUN && !options->mpi.tcp_collectives;
    return choose_starter(options, job->plan, &all->mpirun, &job->mpirun, err);
}

/* Choose what starts the instances of the first attempt, log it, and print the warnings that depend
 * on it. */
static int choose(struct attempts *all, struct plenum_error *err)
{
    const struct cmdline *options = all->options;
    struct supervise_job *job = &all->job;
    int r = choose_again(all, err);

    if (r < 0)
        return r;
    if (job->mpirun)
        log_info("the instances are started by %s", all->mpirun.path);
    else
        log_info("the instances are started by plenumrun itself: %s", err->text);
    variables_warn(job->plan, &options->exports);
    if (job->mpirun)
        warn_of_folder();
    return 0;
}

/* Do everything that can fail before the first attempt. */
static int prepare(struct attempts *all, struct plenum_error *err)
{
    const char *result = all->options->output.result;
    int r;

    variables_warn_of_job_around();
    environ_leave_outer();
    if (result && (r = result_prepare(result, err)) < 0)
        return r;
    if (random_hex(all->id, sizeof(all->id) / 2) < 0)
        return error_set(err, -EIO, "the kernel provides no random numbers");
    if ((r = host_check_proc(err)) < 0 ||
        (r = host_get_directory(all->directory, sizeof(all->directory), err)) < 0)
        return r;
    r = choose(all, err);
    if (r == 0 && (r = interlude_open(&all->job)) < 0)
        return error_set(err, r, "cannot take signals: %s", strerror(-r));
    all->job.socket = interlude_get_socket();
    all->job.stop_command = interlude_get_stop_command();
    return r;
}

/* Report that the user has ended the job before an attempt. Returns the exit status. */
static int end_between(const struct attempts *all, int signal)
{
    int status = STATUS_SIGNAL + signal;
    char why[80];

    (void)snprintf(why, sizeof(why), "the job was ended by %s before it started%s",
                   interlude_get_reason(), all->job.attempts > 0 ? " again" : "");
    log_error("%s", why);
    supervise_not_started(&all->job, status, why);
    return status;
}

/* Choose hosts and starter of the next attempt. Returns 0, or an exit status. */
static int get_elastic_ready(struct attempts *all)
{
    const struct limits *limits = all->job.limits;
    uint64_t end = limits->timeout_ns ? all->job.begun_ns + limits->timeout_ns : UINT64_MAX;
    struct plenum_error err;
    int signal, status;

    all->request.earlier = all->job.restart_count > 0 ? all->id : NULL;
    status = elastic_prepare(all->elastic, &all->request, end, all->job.plan, &all->ready, &signal);
    if (signal)
        return end_between(all, signal);
    if (status == 0 && choose_again(all, &err) < 0) {
        log_error("%s", err.text);
        status = STATUS_LAUNCH;
    }
    if (status != 0)
        supervise_not_started(&all->job, status,
                              status == STATUS_HOSTS ? "too few hosts are ready"
                                                     : "a host is not ready");
    all->job.attempt_ns = time_now_ns();
    return status;
}

/* Check the hosts of the next attempt. Returns 0, or an exit status. */
static int get_ready(struct attempts *all)
{
    struct supervise_job *job = &all->job;
    int signal, status;

    if (all->elastic)
        return get_elastic_ready(all);
    job->attempt_ns = time_now_ns();
    status = ready_check(&all->request, job->plan, &all->ready);
    job->attempt_ns += all->ready.stopped_ns;
    if (status == 0)
        return 0;
    signal = interlude_look();
    if (signal)
        return end_between(all, signal);
    supervise_not_started(job, status, "a host is not ready");
    all->result.again = job->restart_count > 0; /* everything was ready before */
    return status;
}

/* Try once to run the job. If mpirun turns out to be useless before anything has started, try a
 * second time, which does not count as a restart. */
static int attempt(struct attempts *all)
{
    struct supervise_job *job = &all->job;
    int status;

    for (;;) {
        all->result = (struct supervise_result){.again = false};
        status = get_ready(all);
        if (status != 0)
            return status;
        if (all->replaced)
            job->mpirun = NULL;
        status = supervise_run(job, &all->result);
        job->attempts++;
        if (all->result.asked)
            interlude_set_notices(INTERLUDE_OBEYS);
        else if (all->result.ran && !all->has_asked)
            interlude_set_notices(INTERLUDE_IGNORES);
        all->has_asked |= all->result.asked;
        if (all->elastic)
            elastic_note_end(all->elastic, job->plan, all->result.why);
        if (!all->result.why_not[0])
            return status;
        assert(job->mpirun && job->may_replace);
        tell_replaced(job->plan, all->result.why_not);
        all->replaced = true;
    }
}

/* Returns how long to wait after an attempt. If it is known to have made no progress, the wait is
 * longer each time; if it has made progress, there is no wait; otherwise its duration decides. */
static uint64_t get_pause_ms(struct attempts *all, enum advance_made made)
{
    const struct supervise_job *job = &all->job;
    uint64_t now = time_now_ns(), draw = 0;

    if (!all->result.ran || made == ADVANCE_UNKNOWN)
        return (uint64_t)MS_PER_S * pause_next(&all->pause, all->result.ran,
                                               now > job->attempt_ns ? now - job->attempt_ns : 0);
    all->pause = (struct pause){.failures = 0};
    if (made == ADVANCE_MADE)
        return 0;
    (void)random_bytes(&draw, sizeof(draw));
    return advance_pause_ms(all->advance.idle, draw);
}

/* Find out whether an attempt has made progress, if the user wants to know. */
static enum advance_made note_progress(struct attempts *all)
{
    const struct cmdline *options = all->options;
    enum advance_made made;

    if (!all->result.ran || (options->max_idle_restarts == 0 && !options->progress_file))
        return ADVANCE_UNKNOWN;
    made = advance_note(&all->advance, all->result.step);
    if (made == ADVANCE_UNKNOWN && !all->advance.warned) {
        all->advance.warned = true;
        if (all->advance.unread < 0)
            log_warn("--progress-file %s: its folder cannot be read, so it is unknown whether the "
                     "job makes progress: %s",
                     options->progress_file, strerror(-all->advance.unread));
        else
            log_warn(
                "--max-restarts-without-progress has no effect: the program does not report its "
                "steps, so name its checkpoint with --progress-file");
    }
    return made;
}

/* Report that the job has started too often without progress. Returns the exit status. */
static int give_up(const struct attempts *all)
{
    const char *file = all->advance.file;
    char why[200];

    (void)snprintf(why, sizeof(why),
                   "%u start%s in a row made no progress (--max-restarts-without-progress)",
                   all->advance.idle, all->advance.idle == 1 ? "" : "s");
    if (file && all->advance.unread == -ENOENT)
        log_error("%s: %s is in a folder that does not exist; the job is not restarted", why, file);
    else if (file)
        log_error("%s: %s has not changed; the job is not restarted", why, file);
    else
        log_error("%s: no step was taken for the first time; the job is not restarted", why);
    supervise_not_started(&all->job, STATUS_STUCK, why);
    return STATUS_STUCK;
}

/* Run the job, and restart it if it has failed and may be restarted. */
static int run_attempts(struct attempts *all)
{
    const struct cmdline *options = all->options;
    struct supervise_job *job = &all->job;
    uint32_t growths = 0; /* restarts for other reasons than failures */

    for (;;) {
        enum advance_made made;
        int signal, status = attempt(all);

        if (all->result.grows) { /* it has stopped at a step, not failed */
            job->restart_count++;
            growths++;
            continue;
        }
        if (!all->result.again || job->restart_count - growths >= options->max_restarts)
            return status;
        made = note_progress(all);
        if (made == ADVANCE_NONE && options->max_idle_restarts > 0 &&
            all->advance.idle >= options->max_idle_restarts)
            return give_up(all);
        signal = rest(job, get_pause_ms(all, made));
        if (signal != 0)
            return end_between(all, signal);
        job->restart_count++;
        log_warn("the job starts again (%u of %u times)", job->restart_count - growths,
                 options->max_restarts);
    }
}

static int run_job(const struct cmdline *options, struct elastic *elastic, struct plan *plan)
{
    struct plenum_error err;
    struct attempts all;
    int status = check_instances(options, plan);

    if (status != 0)
        return status;
    attempts_init(&all, options, elastic, plan);
    if (prepare(&all, &err) < 0) {
        log_error("%s", err.text);
        status = STATUS_LAUNCH;
    } else {
        status = run_attempts(&all);
        interlude_close();
    }
    advance_end(&all.advance);
    return status;
}

/* Plan the first attempt, or the placement that --dry-run prints. `*ret_elastic` is NULL unless
 * attempts may use different hosts. */
static int plan_first(struct cmdline *options, struct elastic **ret_elastic, struct plan *ret,
                      struct plenum_error *err)
{
    struct job_hosts hosts;
    int r = job_hosts_init(options, &hosts, err);

    *ret_elastic = NULL;
    if (r < 0)
        return r;
    if (!cmdline_is_elastic(options)) {
        r = job_hosts_plan(options, &hosts, ret, err);
        job_hosts_fini(&hosts);
        return r;
    }
    r = elastic_create(options, &hosts, ret_elastic, err);
    if (r == 0)
        r = elastic_plan(*ret_elastic, ret, err);
    if (r < 0) {
        elastic_destroy(*ret_elastic);
        *ret_elastic = NULL;
    }
    return r;
}

/* Do everything after parsing the command line. Returns an exit status. */
static int launch(struct cmdline *options)
{
    struct plenum_error err;
    struct elastic *elastic;
    struct plan plan;
    int status;

    if (options->version == CMDLINE_VERSION_TEXT) {
        options_print_version(cmdline_program.name);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (options->version != CMDLINE_VERSION_NONE)
        return version_print(options->version == CMDLINE_VERSION_FULL_JSON);
    if (options->export_config && configfile_write(options->export_config, &options->settings,
                                                   options->overwrite_config, &err) < 0) {
        log_error("%s", err.text);
        return STATUS_USAGE;
    }
    if (!options->program[0] && !options->dry_run)
        return 0;
    if (plan_first(options, &elastic, &plan, &err) < 0) {
        log_error("%s", err.text);
        return STATUS_USAGE;
    }
    status = options->dry_run ? dry_run(options, &plan) : run_job(options, elastic, &plan);
    plan_fini(&plan);
    elastic_destroy(elastic);
    return status;
}

int launch_main(int argc, char **argv)
{
    struct cmdline options;
    struct plenum_error err;
    int r, status;

    if (argc > 1 && strcmp(argv[1], OPTIONS_COMPLETE) == 0)
        return options_complete(&cmdline_program, argc, argv);
    cmdline_init(&options);
    r = cmdline_parse(&options, argc, argv, &err);
    if (r < 0) { /* format it like all later errors */
        log_init(cmdline_program.name, LOG_LEVEL_WARN);
        log_error("%s", err.text);
        status = STATUS_USAGE;
    } else if (r > 0) {
        status = options_answer(&cmdline_program, r, &err);
    } else {
        log_init(cmdline_program.name, options.verbosity > 1    ? LOG_LEVEL_DEBUG
                                       : options.verbosity == 1 ? LOG_LEVEL_INFO
                                                                : LOG_LEVEL_NOTICE);
        status = launch(&options);
    }
    cmdline_fini(&options);
    return status;
}

/* SPDX-License-Identifier: MIT */
/* mpirun.c - everything specific to Open MPI 4.1 and 5, in one place.
 *
 * mpirun starts one shim per instance, directly on this host and elsewhere through ssh and its
 * daemon (orted; prted from 5 on), and wires up MPI for the programs. We do everything else: mpirun
 * binds nothing and forwards no program output, and its view of failures matters only when a shim
 * cannot report for itself. The command line contains nothing of the user's program, because some
 * words have a special meaning to mpirun (":" begins another program).
 *
 * Settings go into the environment, where the user's own OMPI_MCA_* are kept; command line
 * arguments (--mpi-global-args) override both. */
#include "config.h"

#include "launcher/job/mpirun.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/control/environ.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/job/version.h"
#include "launcher/remote/agent.h"

enum { ANSWER_MS = 20000 }; /* time limit for --version: the file system may be slow */

static const struct {
    const char *name, *value;
    bool transport; /* set only if the user chose no transport and there is no fabric */
} settings[] = {
    /* Without a fabric, looking for one takes 200 ms of MPI_Init. TCP is needed even on one host:
     * processes that a program starts (MPI_Comm_spawn) do not share its memory. */
    {"OMPI_MCA_pml", "ob1", true},
    {"OMPI_MCA_btl", "self,vader,tcp", true},
    /* A rank that waits in MPI yields its core to the loader. */
    {"OMPI_MCA_mpi_yield_when_idle", "1", false},
};

/* From Open MPI 5 on, PRRTE starts processes. Its settings have a different prefix, and some have
 * different names. Here they are all handled by their older names (4.1's) and renamed at the end. A
 * user may set either name. */
static const struct {
    const char *older, *prrte; /* prefixes; the first that fits is used */
} renamed[] = {
    {"OMPI_MCA_plm_rsh_", "PRTE_MCA_plm_ssh_"},
    {"OMPI_MCA_plm", "PRTE_MCA_plm"},
    {"OMPI_MCA_ras", "PRTE_MCA_ras"},
    {"OMPI_MCA_oob_", "PRTE_MCA_oob_"},
    {"OMPI_MCA_routed_", "PRTE_MCA_routed_"},
    {"OMPI_MCA_oob_tcp_if_", "PRTE_MCA_prte_if_"}, /* two names of one setting */
    {"OMPI_MCA_orte_", "PRTE_MCA_prte_"},
};

/* Keep host names unabbreviated. */
#define KEEP_NAMES "OMPI_MCA_orte_keep_fqdn_hostnames="

#define CONCURRENT "OMPI_MCA_plm_rsh_num_concurrent="
#define SLURM_EXPORT "SLURM_EXPORT_ENV="

static bool is_prrte(const struct mpirun_program *program)
{
    return program && program->major >= 5;
}

/* Returns the hosts of `count` instances, in order: "a,a,b". mpirun's usual mapping would begin
 * with its own host, wherever that is in the list; `seq` follows the list. */
static char *list_hosts(const struct plan *plan, uint32_t first, uint32_t count)
{
    char *text = NULL, name[AGENT_NAME_MAX];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (uint32_t i = first; i < first + count; i++) {
        agent_name_host(plan, plan->instances[i].host, name);
        (void)fprintf(f, "%s%s", i > first ? "," : "", name);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Pass a list that is too long for a command line word as a file that only mpirun has open. */
static void add_host_file(struct starter_words *w, char *list)
{
    int fd = w->num_files < STARTER_FILES_MAX ? memfd_create("hosts", MFD_CLOEXEC) : -1;
    size_t len = strlen(list);

    for (char *p = list; (p = strchr(p, ',')); p++)
        *p = '\n';
    if (fd < 0 || io_write_all(fd, list, len) < 0 || io_write_all(fd, "\n", 1) < 0) {
        io_close(&fd);
        w->failed = true;
        return;
    }
    starter_words_add(w, "--hostfile");
    starter_words_take(w, str_format("/proc/self/fd/%zu", STARTER_FILES_FD + w->num_files));
    w->files[w->num_files++] = fd;
}

static void add_hosts(struct starter_words *w, const struct plan *plan, uint32_t first,
                      uint32_t count)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    char *list;

    if (plan_is_local(plan)) { /* the rest is for processes that programs spawn */
        starter_words_add(w, "--host");
        starter_words_take(w, str_format("localhost:%u", cpus > (long)plan->num_instances
                                                             ? (unsigned)cpus
                                                             : plan->num_instances));
        return;
    }
    list = list_hosts(plan, first, count);
    if (!list) {
        w->failed = true;
    } else if (strlen(list) >= AGENT_LIST_BYTES) {
        add_host_file(w, list);
        free(list);
    } else {
        starter_words_add(w, "--host");
        starter_words_take(w, list);
    }
}

bool mpirun_are_exports(const struct texts *words)
{
    for (size_t i = 0; i < words->count; i += 2)
        if (strcmp(words->items[i], "-x") != 0 || i + 1 == words->count || !words->items[i + 1][0])
            return false;
    return true;
}

/* Get this instance's next arguments, beginning at `from`; `*at` is their index. Arguments that are
 * only variables are skipped, because shims get variables from us, and each additional application
 * is a risk: Open MPI 5.0 crashes with several. */
static const struct instance_args *arguments_of(const struct mpi_settings *mpi, uint32_t instance,
                                                size_t from, size_t *at)
{
    for (size_t i = from; i < mpi->num_instance_args; i++) {
        const struct instance_args *args = &mpi->instance_args[i];

        if (args->instance == instance && !mpirun_are_exports(&args->words)) {
            *at = i;
            return args;
        }
    }
    return NULL;
}

/* Add consecutive instances as one application, as mpirun calls it. */
static void add_application(struct starter_words *w, const struct plan *plan,
                            const struct starter_job *job, const char *self, uint32_t first,
                            uint32_t count)
{
    static const char *const exports[] = {SHIM_ENV_CONTROL, SHIM_ENV_JOB,   SHIM_ENV_LOADER,
                                          SHIM_ENV_STATUS,  SHIM_ENV_GRACE, SHIM_ENV_IGNORED};
    const struct mpi_settings *mpi = job->mpi;
    const struct instance_args *own;
    size_t at = 0;

    add_hosts(w, plan, first, count);
    starter_words_add(w, "-n");
    starter_words_take(w, str_format("%u", count));
    for (size_t i = 0; i < ARRAY_LEN(exports); i++) {
        starter_words_add(w, "-x");
        starter_words_add(w, exports[i]);
    }
    if (job->place_ports) {
        starter_words_add(w, "-x");
        starter_words_add(w, SHIM_ENV_PORTS);
    }
    if (!plan_is_local(plan) && !agent_gives_secret(job->agent, plan)) {
        starter_words_add(w, "-x");
        starter_words_add(w, SHIM_ENV_TOKEN);
    }
    for (size_t i = 0; i < mpi->local_args.count; i++)
        starter_words_add(w, mpi->local_args.items[i]);
    for (size_t from = 0; (own = arguments_of(mpi, first, from, &at)); from = at + 1)
        for (size_t i = 0; i < own->words.count; i++)
            starter_words_add(w, own->words.items[i]);
    starter_words_add(w, self);
    starter_words_add(w, SHIM_ARGUMENT);
}

/* Returns the number of consecutive instances from `first` with the same arguments; an instance
 * with its own arguments is counted alone. */
static uint32_t count_alike(const struct plan *plan, const struct mpi_settings *mpi, uint32_t first)
{
    uint32_t count = 1;
    size_t at;

    if (arguments_of(mpi, first, 0, &at))
        return 1;
    while (first + count < plan->num_instances && !arguments_of(mpi, first + count, 0, &at))
        count++;
    return count;
}

bool mpirun_has_several(const struct plan *plan, const struct mpi_settings *mpi)
{
    return count_alike(plan, mpi, 0) < plan->num_instances;
}

/* Does mpirun call us instead of ssh? */
static bool we_are_agent(const struct plan *plan, const struct starter_job *job)
{
    return agent_must_translate(plan) || agent_gives_secret(job->agent, plan);
}

/* Add mpirun's global arguments, except an agent that plenumrun calls itself. */
static void add_global_arguments(struct starter_words *w, const struct plan *plan,
                                 const struct starter_job *job)
{
    const struct texts *args = &job->mpi->global_args;

    for (size_t i = 0; i < args->count; i++) {
        bool setting = i + 2 < args->count && agent_begins_setting(args->items[i]);

        if (setting && we_are_agent(plan, job) &&
            agent_is_setting(args->items[i + 1], "plm_rsh_agent"))
            i += 2;
        else
            starter_words_add(w, args->items[i]);
    }
}

int mpirun_arguments(const struct plan *plan, const struct starter_job *job, const char *self,
                     struct starter_words *ret)
{
    struct starter_words w = {0};
    uint32_t count;

    starter_words_add(&w, "mpirun");
    if (job->mpi->allow_root)
        starter_words_add(&w, "--allow-run-as-root");
    starter_words_add(&w, "--bind-to");
    starter_words_add(&w, "none");
    if (!plan_is_local(plan)) {
        starter_words_add(&w, "--map-by");
        starter_words_add(&w, "seq");
    }
    starter_words_add(&w, "--stdin");
    starter_words_add(&w, "none");
    /* Otherwise mpirun discards srun's output, which says why a daemon cannot run (daemons.c). A
     * daemon that a login starts would go into the background, so it could not report why it fails,
     * and would outlive the login. (PRRTE has no setting for this.) */
    if (!plan_is_local(plan) && (!agent_is_used(job->agent) || we_are_agent(plan, job)))
        starter_words_add(&w, "--leave-session-attached");
    add_global_arguments(&w, plan, job);
    for (uint32_t first = 0; first < plan->num_instances; first += count) {
        count = count_alike(plan, job->mpi, first);
        if (first > 0)
            starter_words_add(&w, ":");
        add_application(&w, plan, job, self, first, count);
    }
    return starter_words_finish(&w, ret);
}

static bool folder_has_entries(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool found = false;

    if (!dir)
        return false;
    while (!found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.';
    (void)closedir(dir);
    return found;
}

/* Is there InfiniBand, RoCE, Omni-Path or Slingshot? Then Open MPI chooses the transport. */
static bool has_fabric(void)
{
    return folder_has_entries("/sys/class/infiniband") || folder_has_entries("/sys/class/cxi");
}

static bool is_named(char *const *environment, const char *name)
{
    size_t len = strcspn(name, "=");

    for (size_t i = 0; environment[i]; i++)
        if (strncmp(environment[i], name, len) == 0 && environment[i][len] == '=')
            return true;
    return false;
}

/* Add a setting unless the user has set it or `value` is empty. */
static void add_setting(struct starter_words *w, char *const *environment, const char *name,
                        const char *value)
{
    if (value && *value && !is_named(environment, name))
        starter_words_take(w, str_format("%s=%s", name, value));
}

/* Add the settings for logging in to other hosts. */
static int add_agent(struct starter_words *w, const struct plan *plan,
                     const struct starter_job *job, char *const *environment)
{
    char arguments[AGENT_OPTIONS_MAX], self[4096];
    uint32_t next = 0;
    int r;

    add_setting(w, environment, "OMPI_MCA_plm_rsh_args", agent_arguments(job->agent, arguments));
    if (!we_are_agent(plan, job))
        return 0;
    r = host_get_self(self, sizeof(self), NULL);
    if (r < 0)
        return r;
    for (unsigned i = 0; next < plan->num_hosts && !w->failed; i++) {
        char *hosts = agent_list_hosts(plan, &next);

        starter_words_take(w, hosts ? str_format(AGENT_ENV_HOSTS "%u=%s", i, hosts) : NULL);
        free(hosts);
    }
    starter_words_take(w, str_format(AGENT_ENV_WORDS "=%s", agent_program(job->agent)));
    starter_words_take(w, str_format("OMPI_MCA_plm_rsh_agent=%s " AGENT_ARGUMENT, self));
    /* Only this host can translate names and has the secret, so it starts all daemons itself. */
    starter_words_take(w, strdup("OMPI_MCA_plm_rsh_no_tree_spawn=1"));
    if (agent_must_translate(plan))
        starter_words_take(w, str_format("OMPI_MCA_routed_radix=%u", plan->num_hosts + 1));
    /* One login per host stays open (mpirun_arguments()). */
    starter_words_take(w, str_format(CONCURRENT "%u", plan->num_hosts + 1));
    return 0;
}

/* Let Open MPI check its daemons later than we do, because it would end the job without naming the
 * host. (Its defaults, 300, 20 and 9, notice a lost host after eight minutes.) */
static void add_keepalive(struct starter_words *w, const struct agent_settings *agent,
                          char *const *environment)
{
    static const char *const names[] = {"OMPI_MCA_oob_tcp_keepalive_time",
                                        "OMPI_MCA_oob_tcp_keepalive_intvl"};
    char text[24];

    (void)snprintf(text, sizeof(text), "%u", agent_keepalive_seconds(agent));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        add_setting(w, environment, names[i], text);
    (void)snprintf(text, sizeof(text), "%d", AGENT_KEEPALIVE_PROBES);
    add_setting(w, environment, "OMPI_MCA_oob_tcp_keepalive_probes", text);
}

static void add_networks(struct starter_words *w, const struct starter_job *job, bool local,
                         char *const *environment)
{
    static const char *const layers[][2] = {
        {"OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_oob_tcp_if_exclude"},
        {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude"}};
    /* PRRTE uses lo if there is nothing else, but not if lo is named explicitly. */
    const char *const own = is_prrte(job->mpirun) ? NULL : "lo";
    const char *const subnets[] = {local ? own : job->daemon_include,
                                   local ? "lo" : job->program_include};

    for (size_t i = 0; i < ARRAY_LEN(layers); i++) {
        /* Open MPI rejects include and exclude together. */
        if (is_named(environment, layers[i][0]) || is_named(environment, layers[i][1]))
            continue;
        if (subnets[i])
            starter_words_take(w, str_format("%s=%s", layers[i][0], subnets[i]));
        else if (job->excluded)
            starter_words_take(w, str_format("%s=lo,%s", layers[i][1], job->excluded));
    }
    /* PMIx, whose clients are on the same host, would listen on the host's address. */
    if (is_prrte(job->mpirun) && local)
        add_setting(w, environment, "PMIX_MCA_ptl_base_if_include", "lo");
    /* If some hosts also have IPv6, MPI_Init() of Open MPI 5 finds no route to the others. */
    if (is_prrte(job->mpirun) && subnets[1] && strchr(subnets[1], '/'))
        add_setting(w, environment, "OMPI_MCA_btl_tcp_disable_family", "6");
}

/* Restrict the ports on which Open MPI's daemons and the programs listen (--port-range), so that
 * firewalls can allow them. */
static void add_ports(struct starter_words *w, const struct starter_job *job,
                      char *const *environment)
{
    static const char *const daemons[] = {"OMPI_MCA_oob_tcp_dynamic_ipv4_ports",
                                          "OMPI_MCA_oob_tcp_dynamic_ipv6_ports"};
    static const char *const programs[][2] = {
        {"OMPI_MCA_btl_tcp_port_min_v4", "OMPI_MCA_btl_tcp_port_range_v4"},
        {"OMPI_MCA_btl_tcp_port_min_v6", "OMPI_MCA_btl_tcp_port_range_v6"}};
    struct ports of_daemons, of_programs;
    char text[PORTS_TEXT_MAX];

    if (!job->ports || job->ports->last == 0)
        return;
    of_daemons = ports_get_daemons(dial_get_port(job->control));
    of_programs = ports_get_programs(job->ports);
    for (size_t i = 0; i < ARRAY_LEN(daemons); i++) {
        (void)snprintf(text, sizeof(text), "%u-%u", of_daemons.first, of_daemons.last);
        add_setting(w, environment, daemons[i], text);
        (void)snprintf(text, sizeof(text), "%u", of_programs.first);
        add_setting(w, environment, programs[i][0], text);
        (void)snprintf(text, sizeof(text), "%u", of_programs.last - of_programs.first + 1U);
        add_setting(w, environment, programs[i][1], text);
    }
}

/* Returns whether we are in a Slurm step, such as srun --pty bash. Slurm's variables then describe
 * the step, and mpirun would treat its few tasks as the whole allocation, so add_allocation()
 * replaces them. */
static bool in_slurm_step(void)
{
    return getenv("SLURM_STEP_ID") && getenv("SLURM_JOB_NODELIST") && getenv("SLURM_JOB_NUM_NODES");
}

static void add_allocation(struct starter_words *w, const struct plan *plan)
{
    uint32_t most = 1;

    if (!in_slurm_step())
        return;
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        most = plan->hosts[i].count > most ? plan->hosts[i].count : most;
    starter_words_take(w, str_format("SLURM_NODELIST=%s", getenv("SLURM_JOB_NODELIST")));
    starter_words_take(
        w, str_format("SLURM_TASKS_PER_NODE=%u(x%s)", most, getenv("SLURM_JOB_NUM_NODES")));
    /* srun inside a step waits for the step's CPUs unless it may share them. */
    starter_words_take(w, strdup("SLURM_OVERLAP=1"));
}

/* Tell mpirun that a job on one host needs neither a login nor an allocation. A scheduler's
 * variables may belong to another job or to a step, and mpirun would fail if they do not match. */
static void add_one_host(struct starter_words *w, const struct starter_job *job,
                         char *const *environment)
{
    if (!is_prrte(job->mpirun)) /* PRRTE has no such component and needs none */
        add_setting(w, environment, "OMPI_MCA_plm", ENVIRON_ONE_HOST_PLM);
    add_setting(w, environment, "OMPI_MCA_ras", ENVIRON_ONE_HOST_RAS);
}

/* Returns whether this is one of several settings of Slurm's memory, which srun rejects in
 * combination. Without them, a step has its job's memory. */
static bool is_contradiction(const char *entry)
{
    static const char *const names[] = {"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU",
                                        "SLURM_MEM_PER_NODE"};
    size_t count = 0;
    bool found = false;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *rest = str_after(entry, names[i]);

        count += getenv(names[i]) != NULL;
        found |= rest && *rest == '=';
    }
    return found && count > 1;
}

/* Returns whether our own value replaces this setting. */
static bool is_replaced(const char *entry, bool agent, bool translate)
{
    if (str_after(entry, HANDOVER_PREFIX) || str_after(entry, KEEP_NAMES))
        return true;
    if (str_after(entry, SLURM_EXPORT) && getenv("SLURM_JOB_ID"))
        return true;
    if (is_contradiction(entry))
        return true;
    if (in_slurm_step() &&
        (str_after(entry, "SLURM_NODELIST=") || str_after(entry, "SLURM_TASKS_PER_NODE=") ||
         str_after(entry, "SLURM_OVERLAP=")))
        return true;
    return (agent && (str_after(entry, "OMPI_MCA_plm_rsh_agent=") || str_after(entry, CONCURRENT) ||
                      str_after(entry, "OMPI_MCA_plm_rsh_no_tree_spawn="))) ||
           (translate && str_after(entry, "OMPI_MCA_routed_radix="));
}

/* Convert a setting to its older name or to PRRTE's; NULL if out of memory. */
static char *rename_setting(const char *entry, bool to_prrte)
{
    if (to_prrte && strcmp(entry, "OMPI_MCA_plm=rsh") == 0)
        return strdup("PRTE_MCA_plm=ssh");
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        const char *from = to_prrte ? renamed[i].older : renamed[i].prrte;

        const char *rest = str_after(entry, from);

        if (rest)
            return str_format("%s%s", to_prrte ? renamed[i].prrte : renamed[i].older, rest);
    }
    return strdup(entry);
}

/* Convert all settings; if the user has set one by both names, the older one is kept. */
static int rename_settings(char *const *environment, bool to_prrte, struct starter_words *ret)
{
    struct starter_words w = {0};

    for (size_t i = 0; environment[i]; i++) {
        char *entry = rename_setting(environment[i], to_prrte);

        if (entry && strcmp(entry, environment[i]) != 0 &&
            ((w.count > 0 && is_named(w.words, entry)) || is_named(environment, entry)))
            free(entry);
        else
            starter_words_take(&w, entry);
    }
    return starter_words_finish(&w, ret);
}

static int make_environment(const struct plan *plan, const struct starter_job *job,
                            char *const *environment, struct starter_words *ret)
{
    /* The Open MPI communication layer chooses a pml first: if the user chose it, everything that
     * depends on it is left alone. */
    bool own_transport = is_named(environment, "OMPI_MCA_pml") ||
                         is_named(environment, "OMPI_MCA_btl") ||
                         is_named(environment, "OMPI_MCA_mtl");
    bool choose_transport = !own_transport && !has_fabric();
    bool agent = we_are_agent(plan, job), translate = agent_must_translate(plan);
    struct starter_words w = {0};

    for (size_t i = 0; environment[i]; i++)
        if (!is_replaced(environment[i], agent, translate))
            starter_words_add(&w, environment[i]);
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (!is_named(environment, settings[i].name) &&
            (choose_transport || !settings[i].transport))
            starter_words_take(&w, str_format("%s=%s", settings[i].name, settings[i].value));
    add_networks(&w, job, plan_is_local(plan), environment);
    if (!plan_is_local(plan)) {
        int r;

        /* Otherwise mpirun cuts names at the first dot, so that n1.rack-a and n1.rack-b become the
         * same. */
        starter_words_take(&w, strdup(KEEP_NAMES "1"));
        r = add_agent(&w, plan, job, environment);

        if (r < 0) {
            starter_words_fini(&w);
            return r;
        }
        add_keepalive(&w, job->agent, environment);
        add_ports(&w, job, environment);
        add_allocation(&w, plan);
        if (getenv("SLURM_JOB_ID")) /* many sites set NONE, with which srun does not find orted */
            starter_words_take(&w, strdup(SLURM_EXPORT "ALL"));
    } else {
        add_one_host(&w, job, environment);
    }
    starter_add_shim(&w, job);
    return starter_words_finish(&w, ret);
}

int mpirun_environment(const struct plan *plan, const struct starter_job *job,
                       char *const *environment, struct starter_words *ret)
{
    struct starter_words older, made;
    int r;

    if (!is_prrte(job->mpirun))
        return make_environment(plan, job, environment, ret);
    r = rename_settings(environment, false, &older);
    if (r < 0)
        return r;
    r = make_environment(plan, job, older.words ? older.words : environment, &made);
    starter_words_fini(&older);
    if (r < 0)
        return r;
    r = rename_settings(made.words, true, ret);
    starter_words_fini(&made);
    return r;
}

/* Find mpirun, and check that it is Open MPI's: those of other MPIs do not understand our command
 * line. */
int mpirun_find(struct mpirun_program *ret, struct plenum_error *err)
{
    static const char open_mpi[] = "(Open MPI) ";
    char version[256];
    const char *number;
    uint64_t major;
    int r = host_find_program("mpirun", ret->path, sizeof(ret->path));

    if (r == -EACCES)
        return error_set(err, r, "%s cannot be executed", ret->path);
    if (r < 0)
        return error_set(err, r, "mpirun was not found in PATH");
    if (version_ask(ret->path, "--version", ANSWER_MS, version, sizeof(version)) < 0)
        return error_set(err, -ENODATA, "'%s --version' prints nothing", ret->path);
    number = strstr(version, open_mpi);
    number = number ? number + strlen(open_mpi) : "";
    if (parse_next_u64(&number, UINT32_MAX, &major) < 0 || *number != '.' || major < 4)
        return error_set(err, -ENOTSUP, "%s is '%s', not Open MPI 4 or 5", ret->path, version);
    ret->major = (unsigned)major;
    return 0;
}

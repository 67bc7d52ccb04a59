/* SPDX-License-Identifier: MIT */
/* allocation.c - reads a job's hosts from Slurm, PBS, SGE, OAR, Cobalt and LSF, each in its own
 * format.
 *
 * Slurm's list has the syntax of --host; SLURM_TASKS_PER_NODE has the number of tasks per host,
 * run-length encoded. Slurm sets it even if no tasks were requested (to the number of CPUs), so it
 * is read only if some were: otherwise, each host gets one instance. */
#include "config.h"

#include "launcher/plan/allocation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/text.h"
#include "common/util/util.h"

enum { HET_PARTS_MAX = 128 };

/* Parse a number at *p and advance *p. Returns 0 or -EINVAL. */
static int get_number(const char **p, uint32_t *ret)
{
    size_t len = strspn(*p, "0123456789");
    char digits[12];
    uint64_t number;

    if (len == 0 || len >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, *p, len);
    digits[len] = '\0';
    if (parse_u64(digits, HOSTLIST_SLOTS_MAX, &number) < 0 || number == 0)
        return -EINVAL;
    *p += len;
    *ret = (uint32_t)number;
    return 0;
}

/* Parse "2(x3),1" into the slots of the hosts from `first` on. Returns the number of hosts that the
 * text describes, or -EINVAL. */
static int64_t spread_tasks(struct hostlist *list, size_t first, const char *tasks)
{
    const char *p = tasks;
    size_t at = first;

    for (;;) {
        uint32_t slots, times = 1;

        if (get_number(&p, &slots) < 0)
            return -EINVAL;
        if (strncmp(p, "(x", 2) == 0) {
            p += 2;
            if (get_number(&p, &times) < 0 || *p++ != ')')
                return -EINVAL;
        }
        if (times > HOSTLIST_MAX || at + times > 2 * (size_t)HOSTLIST_MAX)
            return -EINVAL;
        for (; times > 0; times--, at++)
            if (at < list->count)
                list->hosts[at].slots = slots;
        if (*p == '\0')
            return (int64_t)(at - first);
        if (*p++ != ',')
            return -EINVAL;
    }
}

int allocation_add_slurm(struct hostlist *list, const char *nodes, const char *tasks,
                         struct plenum_error *err)
{
    size_t before = list->count;
    int64_t told;
    int r = hostlist_add_text(list, nodes, err);

    if (r < 0)
        return error_prefix(err, r, "SLURM_JOB_NODELIST");
    if (!tasks)
        return 0;
    told = spread_tasks(list, before, tasks);
    if (told < 0)
        return error_set(err, -EINVAL, "SLURM_TASKS_PER_NODE: '%s' is not like 2(x3),1", tasks);
    if (told != (int64_t)(list->count - before))
        return error_set(
            err, -EINVAL,
            "SLURM_TASKS_PER_NODE '%s' describes %lld hosts, but SLURM_JOB_NODELIST '%s' has %zu",
            tasks, (long long)told, nodes, list->count - before);
    return 0;
}

int allocation_add_lsf(struct hostlist *list, const char *text, struct plenum_error *err)
{
    char *copy = strdup(text), *save = NULL, *name;
    size_t before = list->count;
    int r = 0;

    if (!copy)
        return error_set(err, -ENOMEM, "out of memory");
    for (name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        char *count = strtok_r(NULL, " ", &save);
        uint64_t slots = 0;

        if (!count || parse_u64(count, HOSTLIST_SLOTS_MAX, &slots) < 0 || slots == 0)
            r = error_set(err, -EINVAL, "LSB_MCPU_HOSTS: host '%s' has no number of slots", name);
        else
            r = hostlist_add_name(list, name, (uint32_t)slots, err);
        if (r < 0)
            break;
    }
    free(copy);
    if (r < 0)
        return r;
    return list->count == before ? error_set(err, -EINVAL, "LSB_MCPU_HOSTS lists no hosts") : 0;
}

/* Add a line's host: "HOST", which is one slot, or "HOST SLOTS ..." if `counted`. */
static int add_line(struct hostlist *list, char *line, bool counted, struct plenum_error *err)
{
    char *save = NULL, *name = strtok_r(line, " \t\r\n", &save), *number;
    uint64_t slots = 1;

    if (!name)
        return 0;
    number = counted ? strtok_r(NULL, " \t\r\n", &save) : NULL;
    if (counted && (!number || parse_u64(number, HOSTLIST_SLOTS_MAX, &slots) < 0 || slots == 0))
        return error_set(err, -EINVAL, "host '%s' has no number of slots", name);
    return hostlist_add_name(list, name, (uint32_t)slots, err);
}

int allocation_add_file(struct hostlist *list, const char *variable, const char *path, bool counted,
                        struct plenum_error *err)
{
    FILE *file = fopen(path, "re");
    size_t cap = 0, before = list->count;
    char *line = NULL;
    int r = 0;

    if (!file) {
        r = -errno;
        return error_set(err, r, "%s: cannot read %s: %s; use --host, which overrides it", variable,
                         path, strerror(-r));
    }
    while ((r = text_read_line(file, path, &line, &cap, err)) > 0)
        if ((r = add_line(list, line, counted, err)) < 0) {
            (void)error_prefix(err, r, "%s %s", variable, path);
            goto out;
        }
    if (r < 0)
        (void)error_prefix(err, r, "%s", variable);
out:
    free(line);
    (void)fclose(file);
    if (r < 0)
        return r;
    return list->count == before ? error_set(err, -EINVAL, "%s: %s lists no hosts", variable, path)
                                 : 0;
}

/* Returns the variable's value, or NULL if it is unset or empty. */
static const char *told(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* Read Slurm's hosts. In a batch script, the task counts are the job's. In a step (srun), they are
 * the step's, of which plenumrun must be the only task, so they are ignored. */
static int read_slurm(const char *nodes, struct allocation *ret, struct plenum_error *err)
{
    const char *tasks = told("SLURM_TASKS_PER_NODE"), *step = told("SLURM_STEP_NUM_TASKS");
    uint64_t total = 0, sum = 0;
    int r;

    if (told("SLURM_PROCID") && step && parse_u64(step, UINT32_MAX, &total) == 0 && total > 1)
        return error_set(err, -EINVAL,
                         "srun has started plenumrun %s times, and each would start the whole job: "
                         "start it without srun, or with srun -n1",
                         step);
    if (told("SLURM_STEP_ID") || !(told("SLURM_NTASKS") || told("SLURM_NTASKS_PER_NODE")))
        tasks = NULL;
    r = allocation_add_slurm(&ret->hosts, nodes, tasks, err);
    for (size_t i = 0; i < ret->hosts.count; i++)
        sum += ret->hosts.hosts[i].slots;
    if (r < 0)
        return r;
    if (tasks && told("SLURM_NTASKS") && parse_u64(told("SLURM_NTASKS"), UINT32_MAX, &total) == 0 &&
        total > 0 && total < sum)
        ret->tasks = (uint32_t)total;
    return 0;
}

/* Refuse heterogeneous jobs, "v1 and v[2-3]": SLURM_JOB_NODELIST contains only the first part, and
 * Open MPI does not start its daemons with srun there. */
static int refuse_parts(const char *count, struct plenum_error *err)
{
    char parts[300] = "";

    for (unsigned i = 0; i < HET_PARTS_MAX; i++) {
        char variable[64];
        const char *nodes;
        size_t len = strlen(parts);

        (void)snprintf(variable, sizeof(variable), "SLURM_JOB_NODELIST_HET_GROUP_%u", i);
        nodes = told(variable);
        if (!nodes)
            break;
        (void)snprintf(parts + len, sizeof(parts) - len, "%s%s", len > 0 ? " and " : "", nodes);
    }
    return error_set(err, -EINVAL,
                     "a heterogeneous Slurm job (SLURM_HET_SIZE=%s) with the hosts %s is not "
                     "supported: name hosts with --host; if you name several, you must be able to "
                     "log in to them with ssh (--mpi-global-args '--mca plm rsh')",
                     count, parts[0] ? parts : "of several components");
}

/* Warn that Flux's hosts are unknown, because it has no file of hosts. Returns 0, or -EINVAL if it
 * has started several copies of plenumrun. */
static int read_flux(const char *job, struct plenum_error *err)
{
    const char *size = told("FLUX_JOB_SIZE");
    uint64_t total = 0;

    if (size && parse_u64(size, UINT32_MAX, &total) == 0 && total > 1)
        return error_set(err, -EINVAL,
                         "flux has started plenumrun %s times, and each would start the whole job: "
                         "start it without flux run, or with flux run -n1",
                         size);
    log_warn("this Flux job (%s) may have several hosts, of which only this one is used: name them "
             "with --host \"$(flux hostlist local)\"",
             job);
    return 0;
}

/* Schedulers whose jobs have a file of hosts. */
static const struct {
    const char *variable, *name;
    bool counted; /* "HOST SLOTS ..."; otherwise one line per slot */
} files[] = {
    {"PBS_NODEFILE", "PBS", false},   {"PE_HOSTFILE", "SGE", true},
    {"OAR_NODEFILE", "OAR", false},   {"OAR_NODE_FILE", "OAR", false},
    {"OAR_FILE_NODES", "OAR", false}, {"COBALT_NODEFILE", "Cobalt", false},
};

static int read_file(struct allocation *ret, struct plenum_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        const char *path = told(files[i].variable);

        if (!path)
            continue;
        ret->name = files[i].name;
        return allocation_add_file(&ret->hosts, files[i].variable, path, files[i].counted, err);
    }
    return 0;
}

/* Warn if this is a job of a scheduler that has provided no list of hosts that we can read. */
static void warn_of_other_hosts(void)
{
    static const struct {
        const char *variable, *name;
        bool counts; /* hosts or processes; otherwise the value is a job ID */
    } signs[] = {
        {"SLURM_NNODES", "Slurm", true},
        {"SLURM_JOB_NUM_NODES", "Slurm", true},
        {"PBS_JOBID", "PBS", false},
        {"LSB_JOBID", "LSF", false},
        {"OAR_JOB_ID", "OAR", false},
        {"COBALT_JOBID", "Cobalt", false},
        {"LOADL_STEP_ID", "LoadLeveler", false},
        {"PJM_NODE", "Fujitsu PJM", true},
        {"_CONDOR_NPROCS", "HTCondor", true},
        {"AWS_BATCH_JOB_NUM_NODES", "AWS Batch", true},
    };
    uint64_t number;

    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        const char *value = told(signs[i].variable);

        if (!value ||
            (signs[i].counts && (parse_u64(value, UINT32_MAX, &number) < 0 || number < 2)))
            continue;
        log_warn("%s=%s: this %s job may have several hosts, of which only this one is used, "
                 "because no list of them was found: name them with --host",
                 signs[i].variable, value, signs[i].name);
        return;
    }
}

int allocation_read(struct allocation *ret, struct plenum_error *err)
{
    const char *slurm = told("SLURM_JOB_NODELIST"), *parts = told("SLURM_HET_SIZE"),
               *lsf = told("LSB_MCPU_HOSTS"),
               *flux = told("FLUX_JOB_ID") ? told("FLUX_JOB_ID") : told("FLUX_ENCLOSING_ID");
    uint64_t number;
    int r;

    *ret = (struct allocation){0};
    if (parts && parse_u64(parts, UINT32_MAX, &number) == 0 && number > 1) {
        r = refuse_parts(parts, err);
    } else if (slurm) {
        ret->name = "Slurm";
        r = read_slurm(slurm, ret, err);
    } else {
        r = read_file(ret, err);
        if (r == 0 && !ret->name && lsf) {
            ret->name = "LSF";
            r = allocation_add_lsf(&ret->hosts, lsf, err);
        } else if (r == 0 && !ret->name && flux) {
            r = read_flux(flux, err);
        } else if (r == 0 && !ret->name) {
            warn_of_other_hosts();
        }
    }
    if (r < 0)
        allocation_fini(ret);
    return r;
}

int allocation_read_again(struct allocation *ret, struct plenum_error *err)
{
    int r;

    *ret = (struct allocation){0};
    r = read_file(ret, err);
    if (r == 0 && !ret->name)
        r = -ENODATA;
    if (r < 0)
        allocation_fini(ret);
    return r;
}

void allocation_fini(struct allocation *allocation)
{
    hostlist_fini(&allocation->hosts);
    *allocation = (struct allocation){0};
}

/* SPDX-License-Identifier: MIT */
/* variables.c - the environment of an instance.
 *
 * There are three kinds; a later one replaces an earlier one of the same name:
 *   1. variables that travel: PATH and similar, with their values here, because a remote shell sets
 *      its own;
 *   2. what the user exports with -x;
 *   3. the instance's rank: always set, replacing any earlier value. A program that reads RANK must
 *      get this job's, not that of an enclosing job. (MASTER_ADDR and MASTER_PORT may be exported.)
 * OMP_NUM_THREADS is set only if neither this host nor the instance's host sets it. */
#include "config.h"

#include "launcher/job/variables.h"

#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/meeting.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/job/mpirun.h"

static const char *const travelling[] = {
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
    /* read by libplenum and its loader */
    "PLENUM_CACHE_DIR", "PLENUM_CACHE_SIZE", "PLENUM_CACHE_MEMORY", "PLENUM_DECODER",
    "PLENUM_SOURCE", "PLENUM_TRACE", "PLENUM_VERIFY_BATCHES", "PLENUM_LOADER_KEY",
    /* choose the library and the loader that they run */
    "PLENUM_LIBRARY", "PLENUM_PLENUMD"};

/* Defaults that help programs, set in all instances if the user has not set them. With
 * PYTHONUNBUFFERED, a Python program's lines arrive when they are printed, not in blocks of 8 KiB.
 * Without USE_LIBUV=0, PyTorch's store would need libuv, without which Debian's PyTorch is built;
 * it does not detect that. */
static const char *const comforts[][2] = {{"PYTHONUNBUFFERED", "1"}, {"USE_LIBUV", "0"}};

static int put_number(struct environ_list *list, const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return environ_list_put(list, ENVIRON_SET, name, text);
}

/* Put all variables of our environment whose names begin with `prefix`. */
static int put_all(struct environ_list *list, const char *prefix, size_t len)
{
    for (char **e = environ; *e; e++) {
        char *equals = strchr(*e, '='), *name;
        int r;

        if (strncmp(*e, prefix, len) != 0 || !equals)
            continue;
        name = strndup(*e, (size_t)(equals - *e));
        r = name ? environ_list_put(list, ENVIRON_SET, name, equals + 1) : -ENOMEM;
        free(name);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Put "NAME=value", "NAME" with its value here (skipped if not set), or "PREFIX*". */
static int put_export(struct environ_list *list, const char *text)
{
    const char *equals = strchr(text, '='), *value = equals ? equals + 1 : getenv(text);
    size_t len = strlen(text);
    char *name;
    int r = 0;

    if (!equals && text[len - 1] == '*')
        return put_all(list, text, len - 1);
    name = strndup(text, strcspn(text, "="));
    if (!name)
        return -ENOMEM;
    if (value)
        r = environ_list_put(list, ENVIRON_SET, name, value);
    free(name);
    return r;
}

/* Put our own value for all instances, if there is one; otherwise `value`, unless the variable is
 * set on the instance's host. */
static int put_default(struct environ_list *list, const char *name, const char *value)
{
    const char *own = getenv(name);

    return environ_list_put(list, own ? ENVIRON_SET : ENVIRON_SET_IF, name, own ? own : value);
}

static int put_travelling(struct environ_list *list, const struct texts *exports)
{
    int r;

    for (size_t i = 0; i < ARRAY_LEN(travelling); i++) {
        const char *value = getenv(travelling[i]);

        if (value && (r = environ_list_put(list, ENVIRON_SET, travelling[i], value)) < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(comforts); i++)
        if ((r = put_default(list, comforts[i][0], comforts[i][1])) < 0)
            return r;
    for (size_t i = 0; i < exports->count; i++)
        if ((r = put_export(list, exports->items[i])) < 0)
            return r;
    return 0;
}

/* Put the mpirun arguments of a single instance, if they are only variables. */
static int put_own(struct environ_list *list, const struct mpi_settings *mpi, uint32_t instance)
{
    int r;

    for (size_t i = 0; i < mpi->num_instance_args; i++) {
        const struct texts *words = &mpi->instance_args[i].words;

        if (mpi->instance_args[i].instance != instance || !mpirun_are_exports(words))
            continue;
        for (size_t j = 1; j < words->count; j += 2)
            if ((r = put_export(list, words->items[j])) < 0)
                return r;
    }
    return 0;
}

static int put_tuning(struct environ_list *list, const struct plan_instance *instance)
{
    char cores[16];

    if (environ_list_has(list, "OMP_NUM_THREADS"))
        return 0;
    (void)snprintf(cores, sizeof(cores), "%u", instance->cores);
    return put_default(list, "OMP_NUM_THREADS", cores);
}

/* Put the devices of an instance, in the variable that its vendor's libraries read. */
static int put_devices(struct environ_list *list, const struct plan *plan,
                       const struct plan_instance *instance)
{
    char *value;
    int r;

    if (!plan->device_variable)
        return 0;
    value = str_format("%s%s", plan->device_prefix, instance->devices);
    r = value ? environ_list_put(list, ENVIRON_SET, plan->device_variable, value) : -ENOMEM;
    free(value);
    return r;
}

/* Put the interface for communication. Gloo and similar libraries use the address that the host's
 * name resolves to, which often leads nowhere (127.0.1.1). If we know a better one, set it unless
 * it is already set. */
static int put_interface(struct environ_list *list, const char *interface)
{
    static const char *const names[] = {"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME",
                                        "NCCL_SOCKET_IFNAME"};
    char exact[IF_NAMESIZE + 1];
    int r;

    for (size_t i = 0; interface && i < ARRAY_LEN(names); i++) {
        bool nccl = strncmp(names[i], "NCCL", 4) == 0;

        if (nccl && strcmp(interface, "lo") == 0)
            continue; /* NCCL needs no interface on one host */
        (void)snprintf(exact, sizeof(exact), "=%s", interface);
        /* NCCL takes "eth0" as a prefix, which also matches eth0.100. */
        if (!environ_list_has(list, names[i]) &&
            (r = put_default(list, names[i], nccl ? exact : interface)) < 0)
            return r;
    }
    return 0;
}

static int put_master(struct environ_list *list, const struct variables_job *job)
{
    int r;

    if (!environ_list_has(list, "MASTER_ADDR") &&
        (r = environ_list_put(list, ENVIRON_SET, "MASTER_ADDR", job->master_address)) < 0)
        return r;
    return environ_list_has(list, "MASTER_PORT")
               ? 0
               : put_number(list, "MASTER_PORT", job->master_port);
}

static int put_identity(struct environ_list *list, const struct variables_job *job,
                        const struct plan *plan, uint32_t index)
{
    const struct plan_instance *instance = &plan->instances[index];
    const struct plan_host *host = &plan->hosts[instance->host];
    const struct {
        const char *name;
        uint32_t value;
    } identity[] = {
        {"PLENUM_NUM_INSTANCES", plan->num_instances},
        {"PLENUM_INSTANCE_INDEX", index},
        {"PLENUM_LOCAL_INSTANCE_INDEX", instance->local_index},
        {"PLENUM_NUM_LOCAL_INSTANCES", host->count},
        {"PLENUM_NUM_REPLICAS", plan->num_replicas},
        {"PLENUM_NUM_LOCAL_REPLICAS", instance->num_replicas},
        {"PLENUM_REPLICA_OFFSET", instance->replica_offset},
        {"PLENUM_DEVICES_PER_REPLICA", plan->devices_per_replica},
        {"PLENUM_RESTART_COUNT", job->restart_count},
        {"PLENUM_GENERATION", job->restart_count + 1},
        {"RANK", index},
        {"WORLD_SIZE", plan->num_instances},
        {"LOCAL_RANK", instance->local_index},
        {"LOCAL_WORLD_SIZE", host->count},
        {"GROUP_RANK", instance->host},
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(identity); i++)
        if ((r = put_number(list, identity[i].name, identity[i].value)) < 0)
            return r;
    return environ_list_put(list, ENVIRON_SET, "PLENUM_JOB_ID", job->id);
}

/* Put the variable, or unset it if there is no value: an inherited value belongs to another job. */
static int put_or_unset(struct environ_list *list, const char *name, const char *value)
{
    return environ_list_put(list, value ? ENVIRON_SET : ENVIRON_UNSET, name, value ? value : "");
}

/* Unset the variables by which torchrun and srun are recognised. If a program finds them set, such
 * a launcher must have started it within the instance (libdist/job_environ.c). */
static int unset_markers(struct environ_list *list)
{
    int r = put_or_unset(list, "GROUP_WORLD_SIZE", NULL);

    return r < 0 ? r : put_or_unset(list, "SLURM_STEP_NUM_TASKS", NULL);
}

int variables_of_instance(const struct variables_job *job, const struct plan *plan, uint32_t index,
                          const char *loader, struct environ_list *ret)
{
    const struct plan_instance *instance = &plan->instances[index];
    struct environ_list list = {0};
    int r;

    assert(index < plan->num_instances);
    if ((r = put_travelling(&list, job->exports)) < 0 ||
        (r = put_own(&list, job->mpi, index)) < 0 || (r = put_tuning(&list, instance)) < 0 ||
        (r = put_master(&list, job)) < 0 || (r = put_interface(&list, job->interface)) < 0 ||
        (r = put_devices(&list, plan, instance)) < 0 ||
        (r = put_identity(&list, job, plan, index)) < 0 || (r = unset_markers(&list)) < 0 ||
        (r = put_or_unset(&list, MEETING_VARIABLE, job->meeting)) < 0 ||
        (r = put_or_unset(&list, MEETING_HOSTS_VARIABLE, job->meeting_hosts)) < 0 ||
        (r = put_or_unset(&list, "PLENUM_LOADER", loader)) < 0)
        goto fail;
    if (job->verify) {
        r = environ_list_put(&list, ENVIRON_SET, "PLENUM_VERIFY_BATCHES", job->verify);
        if (r < 0)
            goto fail;
    }
    *ret = list;
    return 0;

fail:
    environ_list_fini(&list);
    return r;
}

const char *variables_get_path(const struct texts *exports)
{
    const char *path = getenv("PATH");

    for (size_t i = 0; i < exports->count; i++)
        if (strncmp(exports->items[i], "PATH=", 5) == 0)
            path = exports->items[i] + 5;
    return path;
}

int variables_of_loader(const struct texts *exports, struct environ_list *ret)
{
    struct environ_list list = {0};
    int r = put_travelling(&list, exports);

    if (r < 0)
        goto fail;
    /* Our own value of this variable is the programs' key to other loaders. */
    r = environ_list_put(&list, ENVIRON_UNSET, "PLENUM_LOADER_KEY", "");
    if (r < 0)
        goto fail;
    *ret = list;
    return 0;

fail:
    environ_list_fini(&list);
    return r;
}

void variables_warn_of_job_around(void)
{
    static const char *const around[][2] = {{"RANK", "WORLD_SIZE"},
                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                            {"PMI_RANK", "PMI_SIZE"}};
    uint64_t count;

    for (size_t i = 0; i < ARRAY_LEN(around); i++) {
        const char *index = getenv(around[i][0]), *text = getenv(around[i][1]);

        if (!index || !text || parse_u64(text, UINT32_MAX, &count) < 0 || count < 2)
            continue;
        log_warn("%s=%s and %s=%s: plenumrun was started by a process of another job. This is a "
                 "separate job: if every process of the other job starts plenumrun, each of these "
                 "jobs sees all samples",
                 around[i][0], index, around[i][1], text);
        return;
    }
}

void variables_warn(const struct plan *plan, const struct texts *exports)
{
    const struct {
        const char *name;
        uint32_t value;
    } same_for_all[] = {
        {"WORLD_SIZE", plan->num_instances},
        {"PLENUM_NUM_INSTANCES", plan->num_instances},
        {"PLENUM_NUM_REPLICAS", plan->num_replicas},
    };
    uint64_t value;

    for (size_t i = 0; i < ARRAY_LEN(same_for_all); i++) {
        const char *own = getenv(same_for_all[i].name);

        if (own && (parse_u64(own, UINT32_MAX, &value) < 0 || value != same_for_all[i].value))
            log_warn("%s=%s is set in the environment; the instances of this job see %u",
                     same_for_all[i].name, own, same_for_all[i].value);
    }
    for (size_t i = 0; i < exports->count; i++)
        if (!strpbrk(exports->items[i], "=*") && !getenv(exports->items[i]))
            log_warn("-x %s: this variable is not set here, so the instances do not get it",
                     exports->items[i]);
}

/* SPDX-License-Identifier: MIT */
/* environ.c - an environment is described as changes, because the shim makes them on its own host.
 *
 * Three kinds, later ones in place of earlier ones of the same name:
 *   1. what should travel: PATH and its like as they are here, since a remote shell sets its own;
 *   2. what the person exports with -x;
 *   3. who the instance is: always set, whatever was there. A program that reads RANK must get this
 *      job's, not that of a job around it. (MASTER_ADDR and MASTER_PORT may be exported.)
 * Tuning (OMP_NUM_THREADS) is set only where nobody has set it, here or there. */
#include "config.h"

#include "launcher/environ.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/meeting.h"
#include "common/util.h"

static const char *const travelling[] = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
                                         /* what libplenum and its loader read */
                                         "PLENUM_CACHE_DIR", "PLENUM_DECODER", "PLENUM_SOURCE",
                                         "PLENUM_TRACE", "PLENUM_VERIFY_BATCHES",
                                         "PLENUM_LOADER_KEY"};

/* Set for good programs' sake when nobody has an opinion, and then for all: lines of a Python
 * program arrive when they are printed, not when 8 KiB have come together; and PyTorch's store does
 * without libuv, as Debian's is built without and does not find that out by itself. */
static const char *const comforts[][2] = {{"PYTHONUNBUFFERED", "1"}, {"USE_LIBUV", "0"}};

void environ_list_fini(struct environ_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].name);
        free(list->entries[i].value);
    }
    free(list->entries);
    *list = (struct environ_list){0};
}

static struct environ_entry *find(const struct environ_list *list, const char *name, size_t len)
{
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->entries[i].name, name, len) == 0 && list->entries[i].name[len] == '\0')
            return &list->entries[i];
    return NULL;
}

int environ_list_put(struct environ_list *list, enum environ_how how, const char *name,
                     const char *value)
{
    struct environ_entry *entry = find(list, name, strlen(name));
    char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    if (entry) {
        free(entry->value);
        entry->value = copy;
        entry->how = how;
        return 0;
    }
    if (array_grow(&list->entries, &list->cap, list->count, sizeof(*list->entries)) < 0) {
        free(copy);
        return -ENOMEM;
    }
    entry = &list->entries[list->count];
    *entry = (struct environ_entry){.name = strdup(name), .value = copy, .how = how};
    if (!entry->name) {
        free(copy);
        return -ENOMEM;
    }
    list->count++;
    return 0;
}

void environ_free(char **environment)
{
    for (size_t i = 0; environment && environment[i]; i++)
        free(environment[i]);
    free(environment);
}

char **environ_apply(char *const *environment, const struct environ_list *list)
{
    size_t before = 0, n = 0;
    bool *seen = calloc(list->count + 1, sizeof(*seen));
    char **ret;

    while (environment[before])
        before++;
    ret = calloc(before + list->count + 1, sizeof(*ret));
    if (!ret || !seen)
        goto fail;
    for (size_t i = 0; i < before; i++) {
        struct environ_entry *entry = find(list, environment[i], strcspn(environment[i], "="));

        if (entry && entry->how == ENVIRON_SET_IF)
            seen[entry - list->entries] = true;
        else if (entry)
            continue;
        ret[n] = strdup(environment[i]);
        if (!ret[n++])
            goto fail;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].how == ENVIRON_UNSET || seen[i])
            continue;
        ret[n] = str_format("%s=%s", list->entries[i].name, list->entries[i].value);
        if (!ret[n++])
            goto fail;
    }
    free(seen);
    return ret;

fail:
    free(seen);
    environ_free(ret);
    return NULL;
}

int environ_adopt(const struct environ_list *list)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->count; i++) {
        const struct environ_entry *e = &list->entries[i];

        r = e->how == ENVIRON_UNSET ? unsetenv(e->name)
                                    : setenv(e->name, e->value, e->how == ENVIRON_SET);
    }
    return r < 0 ? -ENOMEM : 0;
}

static int put_number(struct environ_list *list, enum environ_how how, const char *name,
                      uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return environ_list_put(list, how, name, text);
}

int environ_unquote(char *text)
{
    char *value = strchr(text, '=');
    size_t len;

    if (!value || value == text || strcspn(text, " \t\"'") < (size_t)(value - text))
        return -EINVAL;
    value++;
    len = strlen(value);
    if (len >= 2 && (*value == '"' || *value == '\'') && value[len - 1] == *value) {
        memmove(value, value + 1, len - 2);
        value[len - 2] = '\0';
    }
    return 0;
}

/* "PREFIX*": what is set here under names that begin so. */
static int put_all(struct environ_list *list, const char *prefix, size_t len)
{
    int r = 0;

    for (char **e = environ; r == 0 && *e; e++) {
        char *equals = strchr(*e, '='), *name;

        if (strncmp(*e, prefix, len) != 0 || !equals)
            continue;
        name = strndup(*e, (size_t)(equals - *e));
        r = name ? environ_list_put(list, ENVIRON_SET, name, equals + 1) : -ENOMEM;
        free(name);
    }
    return r;
}

/* "NAME=value", "NAME" for what it is here (nothing when it is not set), "PREFIX*". */
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

static int put_travelling(struct environ_list *list, const struct cmdline *options)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(travelling); i++) {
        const char *value = getenv(travelling[i]);

        if (value)
            r = environ_list_put(list, ENVIRON_SET, travelling[i], value);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(comforts); i++) {
        const char *own = getenv(comforts[i][0]);

        r = environ_list_put(list, own ? ENVIRON_SET : ENVIRON_SET_IF, comforts[i][0],
                             own ? own : comforts[i][1]);
    }
    for (size_t i = 0; r == 0 && i < options->exports.count; i++)
        r = put_export(list, options->exports.items[i]);
    return r;
}

/* What mpirun was to be told of this instance alone, where that is no more than variables. */
static int put_own(struct environ_list *list, const struct cmdline *options, uint32_t instance)
{
    int r = 0;

    for (size_t i = 0; i < options->num_instance_args; i++) {
        const struct cmdline_instance_args *args = &options->instance_args[i];

        for (size_t j = 1; args->instance == instance && cmdline_are_exports(&args->words) &&
                           r == 0 && j < args->words.count;
             j += 2)
            r = put_export(list, args->words.items[j]);
    }
    return r;
}

static int put_tuning(struct environ_list *list, const struct plan_instance *instance)
{
    const char *own = getenv("OMP_NUM_THREADS");

    if (find(list, "OMP_NUM_THREADS", strlen("OMP_NUM_THREADS")))
        return 0;
    if (own)
        return environ_list_put(list, ENVIRON_SET, "OMP_NUM_THREADS", own);
    return put_number(list, ENVIRON_SET_IF, "OMP_NUM_THREADS", instance->cores);
}

/* The devices of an instance, in the variable that its maker's libraries read. */
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

/* Gloo and its like take the address that the host's name stands for, which is often one that leads
 * nowhere (127.0.1.1): where we know better, we say so, if nobody else has. */
static int put_interface(struct environ_list *list, const char *interface)
{
    static const char *const names[] = {"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME",
                                        "NCCL_SOCKET_IFNAME"};
    int r = 0;

    for (size_t i = 0; r == 0 && interface && i < ARRAY_LEN(names); i++) {
        const char *own = getenv(names[i]);

        if (strcmp(interface, "lo") == 0 && strncmp(names[i], "NCCL", 4) == 0)
            continue; /* which finds its way on one host */
        if (!find(list, names[i], strlen(names[i])))
            r = environ_list_put(list, own ? ENVIRON_SET : ENVIRON_SET_IF, names[i],
                                 own ? own : interface);
    }
    return r;
}

static int put_master(struct environ_list *list, const struct environ_job *job)
{
    int r = 0;

    if (!find(list, "MASTER_ADDR", strlen("MASTER_ADDR")))
        r = environ_list_put(list, ENVIRON_SET, "MASTER_ADDR", job->master_address);
    if (r == 0 && !find(list, "MASTER_PORT", strlen("MASTER_PORT")))
        r = put_number(list, ENVIRON_SET, "MASTER_PORT", job->master_port);
    return r;
}

int environ_of_instance(const struct environ_job *job, const struct plan *plan, uint32_t index,
                        const struct cmdline *options, const char *loader, struct environ_list *ret)
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
        {"RANK", index},
        {"WORLD_SIZE", plan->num_instances},
        {"LOCAL_RANK", instance->local_index},
        {"LOCAL_WORLD_SIZE", host->count},
        {"GROUP_RANK", instance->host},
    };
    struct environ_list list = {0};
    int r;

    r = put_travelling(&list, options);
    if (r == 0)
        r = put_own(&list, options, index);
    if (r == 0)
        r = put_tuning(&list, instance);
    if (r == 0)
        r = put_master(&list, job);
    if (r == 0)
        r = put_interface(&list, job->interface);
    if (r == 0)
        r = put_devices(&list, plan, instance);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(identity); i++)
        r = put_number(&list, ENVIRON_SET, identity[i].name, identity[i].value);
    if (r == 0)
        r = environ_list_put(&list, ENVIRON_SET, "PLENUM_JOB_ID", job->id);
    if (r == 0)
        r = environ_list_put(&list, job->meeting ? ENVIRON_SET : ENVIRON_UNSET, MEETING_VARIABLE,
                             job->meeting ? job->meeting : "");
    if (r == 0 && options->verify)
        r = environ_list_put(&list, ENVIRON_SET, "PLENUM_VERIFY_BATCHES", options->verify);
    if (r == 0)
        r = environ_list_put(&list, loader ? ENVIRON_SET : ENVIRON_UNSET, "PLENUM_LOADER",
                             loader ? loader : "");
    if (r < 0) {
        environ_list_fini(&list);
        return r;
    }
    *ret = list;
    return 0;
}

const char *environ_get_path(const struct cmdline *options)
{
    const char *path = getenv("PATH");

    for (size_t i = 0; i < options->exports.count; i++)
        if (strncmp(options->exports.items[i], "PATH=", 5) == 0)
            path = options->exports.items[i] + 5;
    return path;
}

int environ_of_loader(const struct cmdline *options, struct environ_list *ret)
{
    struct environ_list list = {0};
    int r = put_travelling(&list, options);

    if (r == 0) /* what lies there is the programs' key to other loaders */
        r = environ_list_put(&list, ENVIRON_UNSET, "PLENUM_LOADER_KEY", "");
    if (r < 0)
        environ_list_fini(&list);
    else
        *ret = list;
    return r;
}

void environ_warn(const struct plan *plan, const struct cmdline *options)
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
    for (size_t i = 0; i < options->exports.count; i++)
        if (!strpbrk(options->exports.items[i], "=*") && !getenv(options->exports.items[i]))
            log_warn("-x %s: this variable is not set here, so the instances do not get it",
                     options->exports.items[i]);
}

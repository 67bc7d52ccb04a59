/* SPDX-License-Identifier: MIT */
/* environ.c - changes to an environment. A shim or keeper applies them to the environment that it
 * has on its own host. */
#include "config.h"

#include "launcher/control/environ.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/control/handover.h"

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

bool environ_list_has(const struct environ_list *list, const char *name)
{
    return find(list, name, strlen(name)) != NULL;
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
    assert(list->count < list->cap);
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
    assert(n <= before);
    for (size_t i = 0; i < list->count; i++) {
        if (list->entries[i].how == ENVIRON_UNSET || seen[i])
            continue;
        ret[n] = str_format("%s=%s", list->entries[i].name, list->entries[i].value);
        if (!ret[n++])
            goto fail;
    }
    assert(n <= before + list->count && !ret[n]);
    free(seen);
    return ret;

fail:
    free(seen);
    environ_free(ret);
    return NULL;
}

int environ_adopt(const struct environ_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct environ_entry *e = &list->entries[i];

        if ((e->how == ENVIRON_UNSET ? unsetenv(e->name)
                                     : setenv(e->name, e->value, e->how == ENVIRON_SET)) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Returns whether mpirun, an MPI program after MPI_Init(), or srun with --mpi=pmix or pmi2 started
 * us. */
static bool is_in_outer(void)
{
    static const char *const marks[] = {"PMIX_NAMESPACE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK"};

    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (getenv(marks[i]))
            return true;
    return false;
}

static bool is_of_outer(const char *entry)
{
    static const char *const beginnings[] = {"OMPI_COMM_WORLD_",
                                             "OMPI_UNIVERSE_SIZE=",
                                             "PMIX_",
                                             "PMI_",
                                             "OMPI_MCA_ess",
                                             "OMPI_MCA_orte_",
                                             "PRTE_",
                                             "OMPI_MCA_pmix=",
                                             "OMPI_MCA_btl_vader_backing_directory=",
                                             "OMPI_MCA_btl_sm_backing_directory="};
    /* mpirun.c makes these settings for a job on one host. */
    static const char *const settings[] = {
        "OMPI_MCA_oob_tcp_if_include=lo", "OMPI_MCA_btl_tcp_if_include=lo",
        "OMPI_MCA_plm=" ENVIRON_ONE_HOST_PLM, "OMPI_MCA_ras=" ENVIRON_ONE_HOST_RAS};
    const char *agent = str_after(entry, "OMPI_MCA_plm_rsh_agent=");

    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++)
        if (str_after(entry, beginnings[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (strcmp(entry, settings[i]) == 0)
            return true;
    return agent && strstr(agent, " " AGENT_ARGUMENT);
}

void environ_leave_outer(void)
{
    size_t i = 0;

    if (!is_in_outer())
        return;
    while (environ[i]) {
        char *name = is_of_outer(environ[i]) ? strndup(environ[i], strcspn(environ[i], "=")) : NULL;

        if (!name || unsetenv(name) < 0) /* unsetenv() moves the next entry to this index */
            i++;
        free(name);
    }
}

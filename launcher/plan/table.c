/* SPDX-License-Identifier: MIT */
/* table.c - prints a plan as text and as JSON.
 *
 * Text is laid out in two passes: cells are collected first, then each column is as wide as its
 * widest cell. In JSON, unknown values (of a host whose shim has not sent its topology) are
 * null. */
#include "config.h"

#include "launcher/plan/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/json.h"
#include "common/util/util.h"
#include "launcher/plan/grid.h"

static void print_grid(FILE *file, struct grid *grid)
{
    char *text = grid_format(grid, 0);

    if (text)
        (void)fputs(text, file);
    free(text);
    grid_fini(grid);
}

/* Returns "3" or "3-5" (malloc). */
static char *format_span(uint32_t first, uint32_t count)
{
    return count == 1 ? str_format("%u", first) : str_format("%u-%u", first, first + count - 1);
}

static void print_hosts(FILE *file, const struct plan *plan)
{
    static const char *const names[] = {"Host",         "NUMA nodes", "Cores",    "CPUs",
                                        "Memory",       "Instances",  "Replicas", "Devices",
                                        "Loader cores", "Interface",  NULL};
    struct grid g = {0};

    grid_add_header(&g, names);
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        const struct plan_host *h = &plan->hosts[i];
        const struct plan_instance *first = &plan->instances[h->first],
                                   *last = first + h->count - 1;
        char memory[32];

        grid_add(&g, h->name);
        if (h->known) {
            grid_take(&g, str_format("%u", h->shape.numa_nodes));
            grid_take(&g, str_format("%u", h->shape.cores));
            grid_take(&g, h->shape.quota_millicores ? str_format("%u (time of %.3g)", h->shape.cpus,
                                                                 h->shape.quota_millicores / 1000.0)
                                                    : str_format("%u", h->shape.cpus));
            grid_take(
                &g, str_format("%s", format_bytes(h->shape.memory_bytes, memory, sizeof(memory))));
        } else {
            for (int c = 0; c < 4; c++)
                grid_take(&g, str_format("?"));
        }
        grid_take(&g, format_span(h->first, h->count));
        grid_take(&g, format_span(first->replica_offset, last->replica_offset + last->num_replicas -
                                                             first->replica_offset));
        grid_take(&g,
                  str_format("%llu", (unsigned long long)last->first_device + last->num_devices));
        grid_take(&g, h->known ? str_format("%u", h->loader_cores) : str_format("?"));
        grid_add(&g, h->interface ? h->interface : h->local ? "-" : "?");
    }
    print_grid(file, &g);
}

static char *bound_text(const struct plan *plan, const struct plan_instance *i)
{
    if (!plan->hosts[i->host].known)
        return str_format("?");
    if (!i->bind_cpus)
        return str_format("nothing");
    switch (i->memory) {
    case NUMA_DEFAULT:
        return str_format("CPUs");
    case NUMA_BIND:
        return str_format("CPUs, memory");
    default:
        return str_format("CPUs, memory %s", numa_policy_name(i->memory));
    }
}

static void print_instances(FILE *file, const struct plan *plan)
{
    static const char *const names[] = {"Instance", "Host",  "Local",   "Replicas", "NUMA",
                                        "CPUs",     "Bound", "Devices", "",         NULL};
    struct grid g = {0};

    grid_add_header(&g, names);
    for (uint32_t n = 0; n < plan->num_instances; n++) {
        const struct plan_instance *i = &plan->instances[n];
        const char *nodes = i->nodes && *i->nodes ? i->nodes : "-";

        grid_take(&g, str_format("%u", n));
        grid_add(&g, plan->hosts[i->host].name);
        grid_take(&g, str_format("%u", i->local_index));
        grid_take(&g, format_span(i->replica_offset, i->num_replicas));
        grid_add(&g, i->cpus ? nodes : "?");
        grid_add(&g, i->cpus ? i->cpus : "?");
        grid_take(&g, bound_text(plan, i));
        grid_add(&g, *i->devices ? i->devices : "-");
        grid_add(&g, i->oversubscribed ? "oversubscribed" : "");
    }
    print_grid(file, &g);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

void table_print_text(FILE *file, const struct plan *plan, const char *loader, const char *starter)
{
    bool unknown = false;

    (void)fprintf(file,
                  "%u instance%s on %u host%s, %u replica%s of %u device%s; loader: %s; "
                  "started by: %s\n\n",
                  plan->num_instances, plural(plan->num_instances), plan->num_hosts,
                  plural(plan->num_hosts), plan->num_replicas, plural(plan->num_replicas),
                  plan->devices_per_replica, plural(plan->devices_per_replica), loader, starter);
    if (plan->num_loader_hosts > 0) {
        (void)fprintf(file, "Loaders on %u more host%s: ", plan->num_loader_hosts,
                      plural(plan->num_loader_hosts));
        for (uint32_t i = 0; i < plan->num_loader_hosts; i++)
            (void)fprintf(file, "%s%s", i ? ", " : "", plan->loader_hosts[i].name);
        (void)fputs("\n\n", file);
    }
    print_hosts(file, plan);
    (void)fputc('\n', file);
    print_instances(file, plan);
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        unknown |= !plan->hosts[i].known;
    if (unknown)
        (void)fprintf(file, "\n?: not known until the job has been started there\n");
}

/* Write a number, or null if the host is not known. */
static void put_known(struct json *j, const char *key, bool known, uint64_t value)
{
    if (known)
        json_number(j, key, value);
    else
        json_null(j, key);
}

static void put_host(struct json *j, const struct plan_host *h)
{
    json_begin_object(j, NULL, JSON_FLAT);
    json_text(j, "name", h->name);
    json_number(j, "first_instance", h->first);
    json_number(j, "num_instances", h->count);
    put_known(j, "numa_nodes", h->known, h->shape.numa_nodes);
    put_known(j, "cores", h->known, h->shape.cores);
    put_known(j, "cpus", h->known, h->shape.cpus);
    put_known(j, "memory_bytes", h->known, h->shape.memory_bytes);
    put_known(j, "cpu_quota_millicores", h->known && h->shape.quota_millicores > 0,
              h->shape.quota_millicores);
    put_known(j, "loader_cores", h->known, h->loader_cores);
    json_text(j, "loader_cpus", h->loader_cpus && *h->loader_cpus ? h->loader_cpus : NULL);
    json_text(j, "interface", h->interface);
    json_end_object(j);
}

static void put_devices(struct json *j, const char *devices)
{
    json_begin_array(j, "devices", JSON_FLAT);
    while (*devices) {
        size_t len = strcspn(devices, ",");
        char *one = strndup(devices, len);

        json_text(j, NULL, one);
        free(one);
        devices += len;
        devices += *devices == ',';
    }
    json_end_array(j);
}

static void put_instance(struct json *j, const struct plan *plan, uint32_t n)
{
    const struct plan_instance *i = &plan->instances[n];
    bool known = plan->hosts[i->host].known;

    json_begin_object(j, NULL, JSON_FLAT);
    json_number(j, "index", n);
    json_text(j, "host", plan->hosts[i->host].name);
    json_number(j, "local_index", i->local_index);
    json_text(j, "cpus", i->cpus);
    json_text(j, "numa_nodes", i->nodes);
    json_text(j, "memory_policy", known ? numa_policy_name(i->memory) : NULL);
    json_number(j, "replica_offset", i->replica_offset);
    json_number(j, "num_local_replicas", i->num_replicas);
    put_devices(j, i->devices);
    if (known)
        json_bool(j, "oversubscribed", i->oversubscribed);
    else
        json_null(j, "oversubscribed");
    json_end_object(j);
}

void table_print_json(FILE *file, const struct plan *plan, const char *loader, const char *starter)
{
    struct json j = {.file = file};

    json_begin_object(&j, NULL, JSON_LINES);
    json_number(&j, "num_instances", plan->num_instances);
    json_number(&j, "num_replicas", plan->num_replicas);
    json_number(&j, "devices_per_replica", plan->devices_per_replica);
    json_text(&j, "process_placement", place_policy_name(plan->place.policy));
    json_text(&j, "loader", loader);
    json_text(&j, "started_by", starter);
    json_begin_array(&j, "hosts", JSON_LINES);
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        put_host(&j, &plan->hosts[i]);
    json_end_array(&j);
    json_begin_array(&j, "loader_hosts", JSON_FLAT);
    for (uint32_t i = 0; i < plan->num_loader_hosts; i++)
        json_text(&j, NULL, plan->loader_hosts[i].name);
    json_end_array(&j);
    json_begin_array(&j, "instances", JSON_LINES);
    for (uint32_t i = 0; i < plan->num_instances; i++)
        put_instance(&j, plan, i);
    json_end_array(&j);
    json_end_object(&j);
}

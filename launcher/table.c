/* table.c - both forms are written from the same plan that the shims get.
 *
 * The text is laid out in two passes: cells are collected, then each column is as wide as its
 * widest cell. In JSON what is not known (a host whose shim has not told its topology) is null. */
#include "config.h"

#include "launcher/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { COLUMNS_MAX = 9 };

struct grid {
    size_t columns;
    char **cells; /* owned, row by row; NULL: memory was short */
    size_t count, cap;
};

static void add_cell(struct grid *g, char *text)
{
    if (g->count == g->cap) {
        size_t cap = g->cap ? g->cap * 2 : 64;
        char **cells = realloc(g->cells, cap * sizeof(*cells));

        if (!cells) {
            free(text);
            return;
        }
        g->cells = cells;
        g->cap = cap;
    }
    g->cells[g->count++] = text;
}

static void add_header(struct grid *g, const char *const *names)
{
    for (g->columns = 0; names[g->columns]; g->columns++)
        add_cell(g, str_format("%s", names[g->columns]));
}

/* Columns as wide as their widest cell, nothing behind a row's last one. */
static void print_grid(FILE *file, struct grid *g)
{
    size_t width[COLUMNS_MAX] = {0}, gap = 0;

    for (size_t i = 0; i < g->count; i++) {
        size_t len = g->cells[i] ? strlen(g->cells[i]) : 0;

        if (len > width[i % g->columns])
            width[i % g->columns] = len;
    }
    for (size_t i = 0; i < g->count; i++) {
        size_t column = i % g->columns, len = g->cells[i] ? strlen(g->cells[i]) : 0;

        if (len > 0) {
            (void)fprintf(file, "%*s%s", (int)gap, "", g->cells[i]);
            gap = 0;
        }
        gap += width[column] - len + 2;
        if (column + 1 == g->columns) {
            (void)fputc('\n', file);
            gap = 0;
        }
    }
    for (size_t i = 0; i < g->count; i++)
        free(g->cells[i]);
    free(g->cells);
}

/* "3", or "3-5". */
static char *format_span(uint32_t first, uint32_t count)
{
    return count == 1 ? str_format("%u", first) : str_format("%u-%u", first, first + count - 1);
}

static void print_hosts(FILE *file, const struct plan *plan)
{
    static const char *const names[] = {"Host",   "NUMA nodes", "Cores", "CPUs",
                                        "Memory", "Instances",  NULL};
    struct grid g = {0};

    add_header(&g, names);
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        const struct plan_host *h = &plan->hosts[i];
        char memory[32];

        add_cell(&g, str_format("%s", h->name));
        if (h->known) {
            add_cell(&g, str_format("%u", h->shape.numa_nodes));
            add_cell(&g, str_format("%u", h->shape.cores));
            add_cell(&g, str_format("%u", h->shape.cpus));
            add_cell(&g,
                     str_format("%s", format_bytes(h->shape.memory_bytes, memory, sizeof(memory))));
        } else {
            for (int c = 0; c < 4; c++)
                add_cell(&g, str_format("?"));
        }
        add_cell(&g, format_span(h->first, h->count));
    }
    print_grid(file, &g);
}

static const char *bound_text(const struct plan *plan, const struct plan_instance *i)
{
    if (!plan->hosts[i->host].known)
        return "?";
    if (!i->bind_cpus)
        return "nothing";
    return i->bind_memory ? "CPUs, memory" : "CPUs";
}

static void print_instances(FILE *file, const struct plan *plan)
{
    static const char *const names[] = {"Instance", "Host",  "Local", "Replicas", "NUMA",
                                        "CPUs",     "Bound", "",      NULL};
    struct grid g = {0};

    add_header(&g, names);
    for (uint32_t n = 0; n < plan->num_instances; n++) {
        const struct plan_instance *i = &plan->instances[n];
        const char *nodes = i->nodes && *i->nodes ? i->nodes : "-";

        add_cell(&g, str_format("%u", n));
        add_cell(&g, str_format("%s", plan->hosts[i->host].name));
        add_cell(&g, str_format("%u", i->local_index));
        add_cell(&g, format_span(i->replica_offset, i->num_replicas));
        add_cell(&g, str_format("%s", i->cpus ? nodes : "?"));
        add_cell(&g, str_format("%s", i->cpus ? i->cpus : "?"));
        add_cell(&g, str_format("%s", bound_text(plan, i)));
        add_cell(&g, str_format("%s", i->oversubscribed ? "oversubscribed" : ""));
    }
    print_grid(file, &g);
}

void table_print_text(FILE *file, const struct plan *plan, const char *loader)
{
    bool unknown = false;

    (void)fprintf(file, "%u instance%s on %u host%s, %u replica%s of %u device%s; loader: %s\n\n",
                  plan->num_instances, plan->num_instances == 1 ? "" : "s", plan->num_hosts,
                  plan->num_hosts == 1 ? "" : "s", plan->num_replicas,
                  plan->num_replicas == 1 ? "" : "s", plan->devices_per_replica,
                  plan->devices_per_replica == 1 ? "" : "s", loader);
    print_hosts(file, plan);
    (void)fputc('\n', file);
    print_instances(file, plan);
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        unknown |= !plan->hosts[i].known;
    if (unknown)
        (void)fprintf(file, "\n?: known when the job has been started there\n");
}

/* Names and lists hold no characters that JSON minds, but a host name comes from outside. */
static void put_string(FILE *file, const char *text)
{
    (void)fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c < 0x20)
            (void)fprintf(file, "\\u%04x", *c);
        else if (*c == '"' || *c == '\\')
            (void)fprintf(file, "\\%c", *c);
        else
            (void)fputc(*c, file);
    }
    (void)fputc('"', file);
}

static void put_text(FILE *file, const char *key, const char *text)
{
    (void)fprintf(file, "\"%s\": ", key);
    if (text)
        put_string(file, text);
    else
        (void)fputs("null", file);
}

static void put_number(FILE *file, const char *key, bool known, uint64_t value)
{
    if (known)
        (void)fprintf(file, "\"%s\": %llu", key, (unsigned long long)value);
    else
        (void)fprintf(file, "\"%s\": null", key);
}

static void put_host(FILE *file, const struct plan_host *h)
{
    (void)fputs("    {", file);
    put_text(file, "name", h->name);
    (void)fprintf(file, ", \"first_instance\": %u, \"num_instances\": %u, ", h->first, h->count);
    put_number(file, "numa_nodes", h->known, h->shape.numa_nodes);
    (void)fputs(", ", file);
    put_number(file, "cores", h->known, h->shape.cores);
    (void)fputs(", ", file);
    put_number(file, "cpus", h->known, h->shape.cpus);
    (void)fputs(", ", file);
    put_number(file, "memory_bytes", h->known, h->shape.memory_bytes);
    (void)fputs("}", file);
}

static void put_instance(FILE *file, const struct plan *plan, uint32_t n)
{
    const struct plan_instance *i = &plan->instances[n];
    bool known = plan->hosts[i->host].known;

    (void)fprintf(file, "    {\"index\": %u, ", n);
    put_text(file, "host", plan->hosts[i->host].name);
    (void)fprintf(file, ", \"local_index\": %u, ", i->local_index);
    put_text(file, "cpus", i->cpus);
    (void)fputs(", ", file);
    put_text(file, "numa_nodes", i->nodes);
    (void)fputs(", ", file);
    put_text(file, "memory_policy", !known ? NULL : i->bind_memory ? "bind" : "default");
    (void)fprintf(file,
                  ", \"replica_offset\": %u, \"num_local_replicas\": %u, \"devices\": [], "
                  "\"oversubscribed\": %s}",
                  i->replica_offset, i->num_replicas,
                  !known              ? "null"
                  : i->oversubscribed ? "true"
                                      : "false");
}

void table_print_json(FILE *file, const struct plan *plan, const char *loader)
{
    (void)fprintf(file,
                  "{\n  \"num_instances\": %u,\n  \"num_replicas\": %u,\n"
                  "  \"devices_per_replica\": %u,\n  ",
                  plan->num_instances, plan->num_replicas, plan->devices_per_replica);
    put_text(file, "process_placement", place_policy_name(plan->policy));
    (void)fputs(",\n  ", file);
    put_text(file, "loader", loader);
    (void)fputs(",\n  \"hosts\": [\n", file);
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        put_host(file, &plan->hosts[i]);
        (void)fputs(i + 1 < plan->num_hosts ? ",\n" : "\n", file);
    }
    (void)fputs("  ],\n  \"instances\": [\n", file);
    for (uint32_t i = 0; i < plan->num_instances; i++) {
        put_instance(file, plan, i);
        (void)fputs(i + 1 < plan->num_instances ? ",\n" : "\n", file);
    }
    (void)fputs("  ]\n}\n", file);
}

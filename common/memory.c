/* memory.c - the kernel lets a process take memory that is not there, and kills somebody
 * afterwards: so we look before. */
#include "config.h"

#include "common/memory.h"

#include <stdio.h>
#include <string.h>

#include "common/cgroup.h"
#include "common/util.h"

/* One group's limit, less what is used of it and cannot be given up. */
static void look_at_group(const struct cgroup *group, void *arg)
{
    bool first = group->version == 1;
    struct memory_limit *ret = arg;
    uint64_t limit, used, cache = 0;

    if (cgroup_read(group, first ? "memory.limit_in_bytes" : "memory.max", NULL, &limit) < 0 ||
        cgroup_read(group, first ? "memory.usage_in_bytes" : "memory.current", NULL, &used) < 0)
        return;
    (void)cgroup_read(group, "memory.stat", "inactive_file", &cache);
    used -= min_u64(used, cache);
    if (limit - min_u64(used, limit) < ret->bytes) {
        ret->bytes = limit - min_u64(used, limit);
        (void)snprintf(ret->what, sizeof(ret->what), "the control group %.200s",
                       *group->name ? group->name : "/");
    }
}

/* What the kernel thinks could be taken without swapping, in bytes; UINT64_MAX: it does not say. */
static uint64_t machine_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[128];
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f))
        found = sscanf(line, "MemAvailable: %llu", &kib) == 1;
    if (f)
        (void)fclose(f);
    return found ? kib * 1024 : UINT64_MAX;
}

void memory_available(struct memory_limit *ret)
{
    *ret = (struct memory_limit){.bytes = machine_available(), .what = "the machine"};
    cgroup_visit("memory", look_at_group, ret);
}

/* The nearest group that counts decides. */
static void look_at_kills(const struct cgroup *group, void *arg)
{
    const char *file = group->version == 1 ? "memory.oom_control" : "memory.events";
    uint64_t *ret = arg, kills;

    if (*ret == UINT64_MAX && cgroup_read(group, file, "oom_kill", &kills) == 0)
        *ret = kills;
}

uint64_t memory_count_kills(void)
{
    static const struct cgroup machine = {.folder = "/proc", .name = "", .version = 2};
    uint64_t kills = UINT64_MAX;

    cgroup_visit("memory", look_at_kills, &kills);
    if (kills == UINT64_MAX && cgroup_read(&machine, "vmstat", "oom_kill", &kills) < 0)
        kills = 0;
    return kills;
}

/* SPDX-License-Identifier: MIT */
/* memory.c - the kernel lets processes reserve more memory than there is and kills one later, so we
 * check in advance. */
#include "config.h"

#include "common/util/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/cgroup.h"
#include "common/util/text.h"
#include "common/util/util.h"

/* Lower *ret to a group's limit minus the usage that cannot be reclaimed. */
static void look_at_group(const struct cgroup *group, void *arg)
{
    bool first = group->version == 1;
    struct memory_limit *ret = arg;
    uint64_t limit, used, cache = 0;

    if (cgroup_read(group, first ? "memory.limit_in_bytes" : "memory.max", NULL, &limit) < 0 ||
        cgroup_read(group, first ? "memory.usage_in_bytes" : "memory.current", NULL, &used) < 0)
        return;
    (void)cgroup_read(group, "memory.stat", first ? "total_inactive_file" : "inactive_file",
                      &cache);
    used -= min_u64(used, cache);
    if (limit - min_u64(used, limit) < ret->bytes) {
        ret->bytes = limit - min_u64(used, limit);
        (void)snprintf(ret->what, sizeof(ret->what), "the control group %.200s",
                       *group->name ? group->name : "/");
    }
}

int memory_read(const char *path, const char *key, uint64_t *ret)
{
    size_t len = strlen(key);
    struct text_lines lines;
    int r = -ENOENT;
    char line[256];
    uint64_t kib;

    if (text_lines_open(&lines, path) < 0)
        return -ENOENT;
    while (r < 0 && text_lines_next(&lines, line, sizeof(line))) {
        const char *at = line + len + 1;

        if (strncmp(line, key, len) != 0 || line[len] != ':')
            continue;
        at += strspn(at, " \t");
        r = parse_next_u64(&at, UINT64_MAX / 1024, &kib);
        if (r == 0)
            *ret = kib * 1024;
    }
    text_lines_close(&lines);
    return r;
}

void memory_available(struct memory_limit *ret)
{
    *ret = (struct memory_limit){.bytes = UINT64_MAX, .what = "the machine"};
    /* The kernel's estimate of what can be allocated without swapping. */
    (void)memory_read("/proc/meminfo", "MemAvailable", &ret->bytes);
    cgroup_visit("memory", look_at_group, ret);
}

/* Read how many processes of a group were killed for lack of memory. Only the nearest group that
 * counts them is used. */
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

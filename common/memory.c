/* memory.c - the kernel lets a process take memory that is not there, and kills somebody
 * afterwards: so we look before. */
#include "config.h"

#include "common/memory.h"

#include <stdio.h>
#include <string.h>

#include "common/util.h"

/* The number behind `key` in a file of "key number" lines, or the whole file's when `key` is NULL:
 * 0 or -1. */
static int read_value(const char *path, const char *key, uint64_t *ret)
{
    FILE *f = fopen(path, "re");
    unsigned long long value;
    char line[256];
    int r = -1;

    if (!f)
        return -1;
    while (r < 0 && fgets(line, sizeof(line), f)) {
        const char *at = line;

        if (key) {
            size_t len = strlen(key);

            if (strncmp(line, key, len) != 0)
                continue;
            at = line + len;
        }
        if (sscanf(at, " %llu", &value) != 1) /* "max": no limit */
            break;
        *ret = value;
        r = 0;
    }
    (void)fclose(f);
    return r;
}

/* One group's limit, less what is used of it and cannot be given up. */
static void look_at_group(const char *root, const char *group, const char *limit_name,
                          const char *used_name, struct memory_limit *ret)
{
    uint64_t limit, used, cache = 0;
    char path[700];

    (void)snprintf(path, sizeof(path), "%s%s/%s", root, group, limit_name);
    if (read_value(path, NULL, &limit) < 0)
        return;
    (void)snprintf(path, sizeof(path), "%s%s/%s", root, group, used_name);
    if (read_value(path, NULL, &used) < 0)
        return;
    (void)snprintf(path, sizeof(path), "%s%s/memory.stat", root, group);
    (void)read_value(path, "inactive_file ", &cache);
    used -= min_u64(used, cache);
    if (limit - min_u64(used, limit) < ret->bytes) {
        ret->bytes = limit - min_u64(used, limit);
        (void)snprintf(ret->what, sizeof(ret->what), "the control group %.200s",
                       *group ? group : "/");
    }
}

/* A group and all above it: "/a/b", "/a", "". */
static void look_at_groups(const char *root, const char *group, const char *limit_name,
                           const char *used_name, struct memory_limit *ret)
{
    char at[400];

    (void)snprintf(at, sizeof(at), "%s", group);
    for (;;) {
        char *slash = strrchr(at, '/');

        if (slash && !slash[1])
            *slash = '\0';
        look_at_group(root, at, limit_name, used_name, ret);
        slash = strrchr(at, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

void memory_available(struct memory_limit *ret)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512];
    uint64_t kib;

    *ret = (struct memory_limit){.bytes = UINT64_MAX, .what = "the machine"};
    if (read_value("/proc/meminfo", "MemAvailable:", &kib) == 0)
        ret->bytes = kib * 1024;
    while (f && fgets(line, sizeof(line), f)) {
        char *group = strrchr(line, ':');

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(line, "0:") == 0)
            look_at_groups("/sys/fs/cgroup", group, "memory.max", "memory.current", ret);
        else if (strstr(line, ":memory"))
            look_at_groups("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                           "memory.usage_in_bytes", ret);
    }
    if (f)
        (void)fclose(f);
}

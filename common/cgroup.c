#include "config.h"

#include "common/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util.h"

/* A group and all above it: "/a/b", "/a", "". */
static void climb(const char *root, const char *name, int version,
                  void (*visit)(const struct cgroup *, void *), void *arg)
{
    char at[400], folder[600];

    (void)snprintf(at, sizeof(at), "%s", name);
    for (;;) {
        const struct cgroup group = {.folder = folder, .name = at, .version = version};
        char *slash = strrchr(at, '/');

        if (slash && !slash[1])
            *slash = '\0';
        (void)snprintf(folder, sizeof(folder), "%s%s", root, at);
        visit(&group, arg);
        slash = strrchr(at, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Is `name` in the list "cpu,cpuacct"? */
static bool is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == len && memcmp(list, name, len) == 0)
            return true;
        list += n;
        list += *list == ',';
    }
    return false;
}

void cgroup_visit(const char *controller, void (*visit)(const struct cgroup *group, void *arg),
                  void *arg)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512], root[128];

    (void)snprintf(root, sizeof(root), "/sys/fs/cgroup/%s", controller);
    while (f && fgets(line, sizeof(line), f)) { /* "4:cpu,cpuacct:/jobs/17", "0::/jobs/17" */
        char *list = strchr(line, ':'), *name = list ? strchr(list + 1, ':') : NULL;

        if (!name)
            continue;
        *list++ = '\0';
        *name++ = '\0';
        name[strcspn(name, "\n")] = '\0';
        if (strcmp(line, "0") == 0)
            climb("/sys/fs/cgroup", name, 2, visit, arg);
        else if (is_listed(list, controller))
            climb(root, name, 1, visit, arg);
    }
    if (f)
        (void)fclose(f);
}

static FILE *open_file(const struct cgroup *group, const char *file)
{
    char path[700];

    (void)snprintf(path, sizeof(path), "%s/%s", group->folder, file);
    return fopen(path, "re");
}

int cgroup_read(const struct cgroup *group, const char *file, const char *key, uint64_t *ret)
{
    FILE *f = open_file(group, file);
    char line[256];
    int r = -ENOENT;

    if (!f)
        return -ENOENT;
    while (r < 0 && fgets(line, sizeof(line), f)) {
        const char *at = line;

        if (key) {
            size_t len = strlen(key);

            if (strncmp(line, key, len) != 0 || line[len] != ' ')
                continue;
            at = line + len + 1;
        }
        if (parse_next_u64(&at, UINT64_MAX, ret) < 0) /* "max", "-1": no limit */
            break;
        r = 0;
    }
    (void)fclose(f);
    return r;
}

/* "200000 100000" */
static int read_quota(const struct cgroup *group, uint64_t *quota, uint64_t *period)
{
    FILE *f = open_file(group, "cpu.max");
    char line[64];
    const char *at = line;
    int r = f && fgets(line, sizeof(line), f) ? 0 : -ENOENT;

    if (f)
        (void)fclose(f);
    if (r == 0)
        r = parse_next_u64(&at, UINT64_MAX, quota); /* "max": no limit */
    if (r == 0 && *at++ == ' ')
        return parse_next_u64(&at, UINT64_MAX, period);
    return -ENOENT;
}

/* Version 1 has the same two in files of their own. */
static void look_at_quota(const struct cgroup *group, void *arg)
{
    uint64_t quota, period;
    uint32_t *least = arg;

    if (group->version == 1) {
        if (cgroup_read(group, "cpu.cfs_quota_us", NULL, &quota) < 0 ||
            cgroup_read(group, "cpu.cfs_period_us", NULL, &period) < 0)
            return;
    } else if (read_quota(group, &quota, &period) < 0) {
        return;
    }
    if (quota == 0 || period == 0 || quota > UINT32_MAX || quota * 1000 / period > UINT32_MAX)
        return;
    if (*least == 0 || quota * 1000 / period < *least)
        *least = (uint32_t)max_u64(quota * 1000 / period, 1);
}

uint32_t cgroup_cpu_millicores(void)
{
    uint32_t least = 0;

    cgroup_visit("cpu", look_at_quota, &least);
    return least;
}

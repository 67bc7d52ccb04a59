/* SPDX-License-Identifier: MIT */
/* cgroup.c - finds the files of this process's control groups.
 *
 * /proc/self/cgroup names the group in each hierarchy, as seen in this process's cgroup namespace.
 * /proc/self/mountinfo says which part of a hierarchy is mounted where. In a container the two
 * differ: the name may be the host's, with only the container's own part mounted; or "/", with all
 * of the host's mounted ("/../.."). A name is therefore relative to the mount's root, and groups
 * above it are visited up to that root. If the mount contains neither the group nor any of its
 * ancestors, nothing is read: another group's limits do not apply to us. */
#include "config.h"

#include "common/util/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/util/text.h"
#include "common/util/util.h"

/* bytes of a mount's line; a longer list of options is cut off */
enum { LINE_BYTES = PATH_MAX + 2048 };

const char *cgroup_top = "";

/* Visit a group and all above it: "/a/b", "/a", "". Their names are these paths below `root`. */
static void climb(const char *point, const char *root, const char *rest, int version,
                  void (*visit)(const struct cgroup *, void *), void *arg)
{
    char at[PATH_MAX], folder[2 * PATH_MAX], name[2 * PATH_MAX];

    (void)snprintf(at, sizeof(at), "%s", rest);
    for (;;) {
        const struct cgroup group = {.folder = folder, .name = name, .version = version};
        char *slash = strrchr(at, '/');

        if (slash && !slash[1])
            *slash = '\0';
        (void)snprintf(folder, sizeof(folder), "%s%s%s", cgroup_top, point, at);
        (void)snprintf(name, sizeof(name), "%s%s", root[1] ? root : "", at);
        visit(&group, arg);
        slash = strrchr(at, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Count leading "..": "/../../a" begins two groups up. */
static int count_ups(const char *name, const char **rest)
{
    int n = 0;

    for (; strncmp(name, "/..", 3) == 0 && (name[3] == '/' || !name[3]); name += 3)
        n++;
    *rest = name;
    return n;
}

/* Returns a group's path below the mount's root, or NULL if the group is elsewhere. "" means the
 * root, or a group whose path is unknown. */
static const char *below(const char *root, const char *name)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const char *rest, *unused;
    int ups = count_ups(root, &rest);

    if (strncmp(root, name, len) == 0 && (!name[len] || name[len] == '/') &&
        count_ups(name + len, &unused) == 0)
        return name + len;
    /* The mount begins above this namespace, and the names between the two are unknown. */
    return ups > 0 && !*rest && count_ups(name, &unused) <= ups ? "" : NULL;
}

/* Decode mountinfo's escapes, such as "\040" for a space. */
static void unescape(char *text)
{
    char *to = text;

    while (*text) {
        unsigned char byte = (unsigned char)*text++;

        if (byte == '\\' && text[0] >= '0' && text[0] <= '3' && text[1] >= '0' && text[1] <= '7' &&
            text[2] >= '0' && text[2] <= '7') {
            byte = (unsigned char)((text[0] - '0') << 6 | (text[1] - '0') << 3 | (text[2] - '0'));
            text += 3;
        }
        *to++ = (char)byte;
    }
    *to = '\0';
}

static int open_proc(struct text_lines *lines, const char *file)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/proc/self/%s", cgroup_top, file);
    return text_lines_open(lines, path);
}

/* Parse "32 31 0:29 /docker/7 /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu,cpuacct". If it
 * is a mount of this kind, write its root and mount point. */
static bool parse_mount(char *line, const char *controller, int version, char **root, char **point)
{
    char *type = strstr(line, " - "), *word, *save = NULL, *options = NULL;
    int n = 0;

    if (!type)
        return false;
    *type = '\0';
    type += 3;
    for (word = strtok_r(line, " ", &save); word && n < 5; word = strtok_r(NULL, " ", &save), n++) {
        *root = n == 3 ? word : *root;
        *point = n == 4 ? word : *point;
    }
    options = strrchr(type, ' ');
    if (n < 5 || !options ||
        strncmp(type, version == 2 ? "cgroup2 " : "cgroup ", version == 2 ? 8 : 7) != 0)
        return false;
    unescape(*root);
    unescape(*point);
    return version == 2 || text_is_listed(options + 1, controller);
}

/* Visit the group `name` of a hierarchy, through the first mount that shows it. */
static void visit_group(const char *controller, int version, const char *name,
                        void (*visit)(const struct cgroup *, void *), void *arg)
{
    char line[LINE_BYTES], *root = NULL, *point = NULL;
    struct text_lines lines;
    bool found = false;

    if (open_proc(&lines, "mountinfo") < 0)
        return;
    while (!found && text_lines_next(&lines, line, sizeof(line))) {
        const char *rest =
            parse_mount(line, controller, version, &root, &point) ? below(root, name) : NULL;

        found = rest != NULL;
        if (found)
            climb(point, root, rest, version, visit, arg);
    }
    text_lines_close(&lines);
}

void cgroup_visit(const char *controller, void (*visit)(const struct cgroup *group, void *arg),
                  void *arg)
{
    struct text_lines lines;
    char line[LINE_BYTES];

    if (open_proc(&lines, "cgroup") < 0)
        return;
    /* "4:cpu,cpuacct:/jobs/17", "0::/jobs/17" */
    while (text_lines_next(&lines, line, sizeof(line))) {
        char *list = strchr(line, ':'), *name = list ? strchr(list + 1, ':') : NULL;

        if (!name)
            continue;
        *list++ = '\0';
        *name++ = '\0';
        if (strcmp(line, "0") == 0)
            visit_group(controller, 2, name, visit, arg);
        else if (text_is_listed(list, controller))
            visit_group(controller, 1, name, visit, arg);
    }
    text_lines_close(&lines);
}

static int open_file(struct text_lines *lines, const struct cgroup *group, const char *file)
{
    char path[2 * PATH_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/%s", group->folder, file);
    return text_lines_open(lines, path);
}

int cgroup_read(const struct cgroup *group, const char *file, const char *key, uint64_t *ret)
{
    struct text_lines lines;
    char line[256];
    int r = -ENOENT;

    if (open_file(&lines, group, file) < 0)
        return -ENOENT;
    while (r < 0 && text_lines_next(&lines, line, sizeof(line))) {
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
    text_lines_close(&lines);
    return r;
}

/* Read cpu.max, such as "200000 100000". Returns -ENOENT if there is no quota. */
static int read_quota(const struct cgroup *group, uint64_t *quota, uint64_t *period)
{
    struct text_lines lines;
    char line[64];
    const char *at = line;
    int r;

    if (open_file(&lines, group, "cpu.max") < 0)
        return -ENOENT;
    r = text_lines_next(&lines, line, sizeof(line)) ? 0 : -ENOENT;
    text_lines_close(&lines);
    if (r == 0)
        r = parse_next_u64(&at, UINT64_MAX, quota); /* "max": no limit */
    if (r == 0 && *at++ == ' ')
        return parse_next_u64(&at, UINT64_MAX, period);
    return -ENOENT;
}

/* Read a group's CPU quota, and keep the lowest one so far, in thousandths of a core. cgroup v1
 * keeps quota and period in separate files; in v2, cpu.max holds both. */
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

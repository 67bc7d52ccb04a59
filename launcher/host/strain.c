/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/host/strain.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cgroup.h"
#include "common/util/text.h"
#include "common/util/util.h"

enum {
    FILES_MAX = 12,
    GROUPS_MAX = 6,    /* number of control groups read: this process's, and those above it */
    IDLE_STEAL_S = 60, /* between two reads of /proc/stat on a machine without stolen time */
    STAT_BYTES = 256,  /* number of bytes of /proc/stat read: its first line is enough */
    STEAL_COLUMN = 7,  /* user nice system idle iowait irq softirq steal */
    IDLE_COLUMN = 3,
    IOWAIT_COLUMN = 4,
};

/* A file with a time that never decreases. */
struct strain_file {
    enum strain_kind kind;
    int fd;
    const char *key; /* precedes the number */
    uint64_t unit_ns;
    uint64_t before_ns;
};

struct strain {
    struct strain_file files[FILES_MAX];
    unsigned count, groups;
    bool has_memory;
    int stat_fd;
    uint64_t stolen, wanted; /* so far, in ticks */
    uint64_t stat_at;
    uint64_t read_ns; /* when the files were read last; 0: never */
};

/* Add a file, if it can be opened and there is room. Returns whether it was added. */
static bool add_file(struct strain *s, enum strain_kind kind, const char *path, const char *key,
                     uint64_t unit_ns)
{
    int fd = s->count < FILES_MAX ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return false;
    s->files[s->count++] =
        (struct strain_file){.kind = kind, .fd = fd, .key = key, .unit_ns = unit_ns};
    return true;
}

static bool add_pressure(struct strain *s, enum strain_kind kind, const char *folder,
                         const char *name)
{
    char path[2 * PATH_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return add_file(s, kind, path, "total=", 1000);
}

static void add_group(const struct cgroup *group, void *arg)
{
    char path[2 * PATH_MAX + 64];
    struct strain *s = arg;

    if (s->groups++ >= GROUPS_MAX)
        return;
    (void)snprintf(path, sizeof(path), "%s/cpu.stat", group->folder);
    (void)add_file(s, STRAIN_THROTTLED, path,
                   group->version == 2 ? "throttled_usec " : "throttled_time ",
                   group->version == 2 ? 1000 : 1);
    if (group->version == 2 && !s->has_memory)
        s->has_memory = add_pressure(s, STRAIN_MEMORY, group->folder, "memory.pressure");
}

int strain_create(bool host, struct strain **ret)
{
    struct strain *s = calloc(1, sizeof(*s));
    char folder[PATH_MAX];

    if (!s)
        return -ENOMEM;
    s->stat_fd = -1;
    cgroup_visit("cpu", add_group, s);
    (void)snprintf(folder, sizeof(folder), "%s/proc/pressure", cgroup_top);
    if (host && !s->has_memory)
        (void)add_pressure(s, STRAIN_MEMORY, folder, "memory");
    if (host) {
        (void)add_pressure(s, STRAIN_CPU, folder, "cpu");
        (void)add_pressure(s, STRAIN_IO, folder, "io");
        (void)snprintf(folder, sizeof(folder), "%s/proc/stat", cgroup_top);
        s->stat_fd = open(folder, O_RDONLY | O_CLOEXEC);
    }
    *ret = s;
    return 0;
}

void strain_destroy(struct strain *strain)
{
    if (!strain)
        return;
    for (unsigned i = 0; i < strain->count; i++)
        (void)close(strain->files[i].fd);
    io_close(&strain->stat_fd);
    free(strain);
}

/* Read the beginning of a file. Returns whether it is not empty. */
static bool read_text(int fd, char *ret, size_t size)
{
    ssize_t n = pread(fd, ret, size - 1, 0);

    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint8_t percent(uint64_t part, uint64_t whole)
{
    return part >= whole ? 100 * (whole > 0) : (uint8_t)(100 * (double)part / (double)whole);
}

/* Returns by how much the file's time has grown. */
static uint64_t grow(struct strain_file *file)
{
    uint64_t number, before = file->before_ns;
    char text[1024];
    const char *at = read_text(file->fd, text, sizeof(text)) ? strstr(text, file->key) : NULL;

    if (!at)
        return 0;
    at += strlen(file->key);
    if (parse_next_u64(&at, UINT64_MAX / file->unit_ns, &number) < 0)
        return 0;
    file->before_ns = number * file->unit_ns;
    return file->before_ns > before ? file->before_ns - before : 0;
}

/* Returns which percentage of the CPU time wanted since the last call was stolen. If no time has
 * been stolen since the machine started, it is probably not virtual, so /proc/stat, which is long
 * on large machines, is read less often. */
static uint8_t read_steal(struct strain *s, uint64_t now_ns)
{
    uint64_t number, stolen = 0, wanted = 0;
    uint64_t stolen_before = s->stolen, wanted_before = s->wanted;
    char text[STAT_BYTES];
    const char *at = text + sizeof("cpu") - 1;

    if (s->stat_fd < 0 || now_ns < s->stat_at || !read_text(s->stat_fd, text, sizeof(text)))
        return 0;
    for (int column = 0; column <= STEAL_COLUMN; column++) {
        at += strspn(at, " ");
        if (parse_next_u64(&at, UINT64_MAX, &number) < 0)
            return 0;
        wanted += column == IDLE_COLUMN || column == IOWAIT_COLUMN ? 0 : number;
        stolen = column == STEAL_COLUMN ? number : stolen;
    }
    s->stolen = stolen;
    s->wanted = wanted;
    s->stat_at = stolen == 0 ? now_ns + IDLE_STEAL_S * NS_PER_SEC : 0;
    if (stolen <= stolen_before || wanted <= wanted_before)
        return 0;
    return percent(stolen - stolen_before, wanted - wanted_before);
}

void strain_read(struct strain *strain, uint64_t now_ns, uint8_t ret[STRAIN_KINDS])
{
    uint64_t elapsed = now_ns > strain->read_ns ? now_ns - strain->read_ns : 0;
    bool first = strain->read_ns == 0;

    memset(ret, 0, STRAIN_KINDS);
    for (unsigned i = 0; i < strain->count; i++) {
        struct strain_file *file = &strain->files[i];
        uint8_t share = percent(grow(file), elapsed);

        if (!first && share > ret[file->kind])
            ret[file->kind] = share;
    }
    ret[STRAIN_STOLEN] = read_steal(strain, now_ns);
    if (first)
        ret[STRAIN_STOLEN] = 0;
    strain->read_ns = now_ns;
}

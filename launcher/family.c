/* family.c - a walk over /proc, since the kernel has no "kill my descendants".
 *
 * Process groups and sessions do not hold a family together: a grandchild may leave them. Parents
 * do, for a subreaper, to whom every orphan below it falls. A family that forks while it is being
 * killed would outrun the walk; so its members are stopped first, until a walk finds nobody new,
 * and killed then.
 *
 * All parents are read from /proc/PID/stat: /proc/PID/task/TID/children would be less to read, but
 * not every kernel has it. When no child is left, nothing is read at all. */
#include "config.h"

#include "launcher/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util.h"

enum { ROUNDS = 8 }; /* walks until the stopped family is taken for complete */

struct member {
    pid_t pid, parent;
    bool dead; /* a zombie */
    bool ours; /* a descendant */
    bool spared;
};

struct family {
    struct member *members;
    size_t count, cap;
};

/* State and parent of a process: 0, or -ESRCH when it is gone. */
static int read_stat(int proc, pid_t pid, struct member *ret)
{
    char path[32], text[512], *after;
    int fd, parent;
    ssize_t n;
    char state;

    (void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -ESRCH;
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';
    after = strrchr(text, ')'); /* the name in front may hold anything */
    if (!after || sscanf(after + 1, " %c %d", &state, &parent) != 2)
        return -ESRCH;
    ret->parent = parent;
    ret->dead = state == 'Z' || state == 'X';
    return 0;
}

static int add(struct family *f, const struct member *member)
{
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 256;
        struct member *members = realloc(f->members, cap * sizeof(*members));

        if (!members)
            return -ENOMEM;
        f->members = members;
        f->cap = cap;
    }
    f->members[f->count++] = *member;
    return 0;
}

/* All processes. */
static int read_all(struct family *f)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return -errno;
    f->count = 0;
    while (r == 0 && (entry = readdir(dir))) {
        struct member m = {0};
        uint64_t pid;

        if (parse_u64(entry->d_name, INT32_MAX, &pid) < 0 ||
            read_stat(dirfd(dir), (pid_t)pid, &m) < 0)
            continue;
        m.pid = (pid_t)pid;
        r = add(f, &m);
    }
    (void)closedir(dir);
    return r;
}

/* Mark descendants, level by level. */
static void mark(struct family *f, pid_t root, pid_t spare)
{
    bool more = true;

    while (more) {
        more = false;
        for (size_t i = 0; i < f->count; i++) {
            struct member *m = &f->members[i];

            if (m->ours)
                continue;
            m->ours = m->parent == root;
            for (size_t j = 0; !m->ours && j < f->count; j++) {
                if (f->members[j].ours && f->members[j].pid == m->parent) {
                    m->ours = true;
                    m->spared = f->members[j].spared;
                }
            }
            if (m->ours) {
                m->spared |= spare > 0 && m->pid == spare;
                more = true;
            }
        }
    }
}

static bool wanted(const struct member *m)
{
    return m->ours && !m->spared && !m->dead;
}

/* Stop them: how many there are. */
static int stop_all(const struct family *f)
{
    int count = 0;

    for (size_t i = 0; i < f->count; i++) {
        if (wanted(&f->members[i])) {
            (void)kill(f->members[i].pid, SIGSTOP);
            count++;
        }
    }
    return count;
}

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

int family_kill(pid_t spare)
{
    struct family f = {0};
    int r = 0, before = -1;

    if (!has_children())
        return 0;
    for (int round = 0; round < ROUNDS && r != before; round++) {
        before = r;
        r = read_all(&f);
        if (r < 0)
            break;
        mark(&f, getpid(), spare);
        r = stop_all(&f);
    }
    if (r > 0)
        for (size_t i = 0; i < f.count; i++)
            if (wanted(&f.members[i]))
                (void)kill(f.members[i].pid, SIGKILL);
    free(f.members);
    /* A walk can miss who was born while it went on; that no child is left cannot be wrong. */
    return r == 0 && spare == 0 && has_children() ? 1 : r;
}

int family_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

int family_follow(pid_t parent, int signal)
{
    if (prctl(PR_SET_PDEATHSIG, signal) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

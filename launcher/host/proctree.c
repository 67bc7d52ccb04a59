/* SPDX-License-Identifier: MIT */
/* proctree.c - kills descendants by walking /proc, because the kernel cannot kill a process tree.
 *
 * Process groups and sessions do not hold a tree together, because a grandchild may leave them.
 * Parents do if the root is a subreaper, which adopts every orphan below it. A tree that forks
 * while it is being killed could outrun the walk. So its processes are stopped first, until a walk
 * finds no new ones, and are killed then.
 *
 * Children are read from /proc/PID/task/TID/children, so that the cost depends on the size of the
 * tree, not on the number of processes on the host. On kernels without these files, all of /proc is
 * read. If there are no children, nothing is read at all. */
#include "config.h"

#include "launcher/host/proctree.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    ROUNDS = 8,           /* walks until the stopped tree counts as complete */
    UNKILLABLE_MS = 5000, /* after this time, a surviving process is left behind */
};

struct tree_process {
    pid_t pid, parent;
    bool dead; /* a zombie */
};

struct tree {
    struct tree_process *processes;
    size_t count, cap;
};

bool proctree_walks_proc; /* for tests: behave as on a kernel without lists of children */

/* Read the state and parent of a process. Returns 0, or -ESRCH if it is gone. */
static int read_stat(int proc, pid_t pid, struct tree_process *ret)
{
    char path[32], text[512], *after;
    const char *at;
    uint64_t parent;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -ESRCH;
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';
    after = strrchr(text, ')');      /* the name before it may contain any character */
    if (!after || strlen(after) < 5) /* ") S 1" */
        return -ESRCH;
    at = after + 4;
    if (parse_next_u64(&at, INT_MAX, &parent) < 0)
        return -ESRCH;
    ret->parent = (pid_t)parent;
    ret->dead = after[2] == 'Z' || after[2] == 'X';
    return 0;
}

static int add(struct tree *tree, const struct tree_process *process)
{
    if (array_grow(&tree->processes, &tree->cap, tree->count, sizeof(*tree->processes)) < 0)
        return -ENOMEM;
    tree->processes[tree->count++] = *process;
    return 0;
}

/* Read all processes. */
static int read_all(struct tree *tree)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        struct tree_process found = {0};
        uint64_t pid;

        if (parse_u64(entry->d_name, INT32_MAX, &pid) < 0 ||
            read_stat(dirfd(dir), (pid_t)pid, &found) < 0)
            continue;
        found.pid = (pid_t)pid;
        r = add(tree, &found);
        if (r < 0)
            break;
    }
    (void)closedir(dir);
    return r;
}

static int by_parent(const void *a, const void *b)
{
    pid_t x = ((const struct tree_process *)a)->parent,
          y = ((const struct tree_process *)b)->parent;

    return (x > y) - (x < y);
}

/* Add the children of a process, except `root` and `spare`, from a list of all processes sorted by
 * parent. */
static int add_children(struct tree *tree, const struct tree *all, pid_t parent, pid_t root,
                        pid_t spare)
{
    size_t low = 0, high = all->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (all->processes[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low <= all->count);
    for (; low < all->count && all->processes[low].parent == parent; low++)
        if (all->processes[low].pid != spare && all->processes[low].pid != root &&
            add(tree, &all->processes[low]) < 0)
            return -ENOMEM;
    return 0;
}

/* Like read_descendants(), for kernels without lists of children. Each process has one parent in
 * the list, so none is added twice. */
static int pick_descendants(struct tree *tree, pid_t root, pid_t spare)
{
    struct tree all = {0};
    int r = read_all(&all);

    tree->count = 0;
    if (r < 0 || all.count == 0)
        goto out;
    qsort(all.processes, all.count, sizeof(*all.processes), by_parent);
    r = add_children(tree, &all, root, root, spare);
    if (r < 0)
        goto out;
    for (size_t i = 0; i < tree->count; i++) { /* more are appended to it */
        r = add_children(tree, &all, tree->processes[i].pid, root, spare);
        if (r < 0)
            goto out;
    }
out:
    free(all.processes);
    return r;
}

/* Add the children of one thread. Returns 0, -ESRCH if it is gone or the kernel has no such list,
 * or -ENOMEM. */
static int read_children(struct tree *tree, int proc, const char *list, pid_t spare)
{
    int fd = openat(proc, list, O_RDONLY | O_CLOEXEC), r = 0;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char word[16];
    uint64_t pid;

    if (!file) {
        io_close(&fd);
        return -ESRCH;
    }
    while (fscanf(file, "%15s", word) == 1 && parse_u64(word, INT_MAX, &pid) == 0) {
        struct tree_process found = {.pid = (pid_t)pid};

        if (found.pid == spare || read_stat(proc, found.pid, &found) < 0)
            continue;
        r = add(tree, &found);
        if (r < 0)
            break;
    }
    (void)fclose(file);
    return r;
}

/* Add the children of all threads of a process. */
static int read_threads(struct tree *tree, int proc, pid_t pid, pid_t spare)
{
    char path[64];
    int fd, r = 0;
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "%d/task", (int)pid);
    fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        io_close(&fd);
        return -ESRCH;
    }
    while (r != -ENOMEM && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%d/task/%.20s/children", (int)pid, entry->d_name);
        r = read_children(tree, proc, path, spare);
    }
    (void)closedir(dir);
    return r;
}

/* Add all descendants, generation by generation: the list is its own queue. Returns 0; -ESRCH if
 * `root` is gone or the kernel has no lists of children; or another -errno. */
static int read_descendants(struct tree *tree, pid_t root, pid_t spare)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

    if (proc < 0)
        return -errno;
    tree->count = 0;
    r = read_threads(tree, proc, root, spare); /* -ESRCH: no such lists */
    if (r < 0)
        goto out;
    for (size_t i = 0; i < tree->count; i++) {
        if (read_threads(tree, proc, tree->processes[i].pid, spare) == -ENOMEM) {
            r = -ENOMEM;
            goto out;
        }
    }
out:
    (void)close(proc);
    return r;
}

/* Read the current tree. */
static int read_tree(struct tree *tree, pid_t root, pid_t spare)
{
    int r = proctree_walks_proc ? -ESRCH : read_descendants(tree, root, spare);

    return r == -ESRCH ? pick_descendants(tree, root, spare) : r;
}

/* Send SIGSTOP to all processes of the tree that have not ended; returns their number. */
static int stop_all(const struct tree *tree)
{
    int count = 0;

    for (size_t i = 0; i < tree->count; i++) {
        if (!tree->processes[i].dead) {
            (void)kill(tree->processes[i].pid, SIGSTOP);
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

int proctree_kill(pid_t spare)
{
    struct tree tree = {0};
    int r = 0, before = -1;

    if (!has_children())
        return 0;
    for (int round = 0; round < ROUNDS && r != before; round++) {
        before = r;
        r = read_tree(&tree, getpid(), spare);
        if (r < 0)
            break;
        r = stop_all(&tree);
    }
    if (r > 0)
        for (size_t i = 0; i < tree.count; i++)
            if (!tree.processes[i].dead)
                (void)kill(tree.processes[i].pid, SIGKILL);
    free(tree.processes);
    /* A walk can miss processes that are created during it, but having no child is certain. */
    return r == 0 && spare == 0 && has_children() ? 1 : r;
}

bool proctree_end(struct proctree_end *end, pid_t spare, uint64_t now_ns)
{
    int left = proctree_kill(spare);

    assert(spare >= 0);
    if (end->give_up_at == 0 || (left > 0 && left < end->least)) {
        end->least = left > 0 ? left : INT_MAX;
        end->give_up_at = now_ns + UNKILLABLE_MS * NS_PER_MS;
    }
    assert(end->give_up_at > 0 && end->least > 0);
    return left == 0 || now_ns >= end->give_up_at;
}

int proctree_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

int proctree_follow(pid_t parent, int signal)
{
    assert(signal > 0);
    if (prctl(PR_SET_PDEATHSIG, signal) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

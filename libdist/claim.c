/* SPDX-License-Identifier: MIT */
/* claim.c - ensures that each instance of a job is a single process.
 *
 * A program inherits the environment of the process that starts it. So an evaluation started by
 * rank 0 of 2 would consider itself rank 0 and read half of the data. Yet the inherited variables
 * are right for a program started by a wrapper (such as sh, numactl or time), and for one that
 * follows another in a script. The variables alone cannot distinguish these cases, so a process is
 * refused when
 *   1. it was forked from a process that has claimed the instance;
 *   2. a process above it has the same instance in its environment and has loaded this library:
 *      a wrapper has not;
 *   3. another process holds the instance's name, an abstract socket. The kernel releases it when
 *      that process ends, so nothing needs cleaning up.
 *
 * Rule 3 needs a job that has a name. If the program itself chose its instance, its children can
 * inherit that only through fork(), so only rule 1 is checked. */
#include "config.h"

#include "libdist/claim.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/data/crc32c.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/job_environ.h"

#define REMEDY                                                                               \
    "and both would get the same samples: pass rank and world_size to say which share this " \
    "process takes (rank=0, world_size=1: all samples)"

enum {
    PIECE = 4096,     /* bytes read at a time from files in /proc */
    WAITING = 64,     /* backlog: processes that look for the holder of a name */
    ANCESTORS = 1000, /* limit: process numbers that are reused meanwhile could form a loop */
};

/* The instance that this process, or the one it was forked from, has claimed. */
static struct {
    pid_t pid; /* 0: none claimed yet */
    struct plenum_job_info place;
    int fd; /* -1: no name held */
} mine = {.fd = -1};

/* The environment block that environment_get() searches: another process's /proc/PID/environ.
 * Protected by job.c's lock. */
static struct {
    const char *text;
    size_t len;
} environment;

static const char *environment_get(const char *name)
{
    size_t name_len = strlen(name);

    for (const char *at = environment.text, *end = at + environment.len; at < end;
         at += strlen(at) + 1)
        if (strncmp(at, name, name_len) == 0 && at[name_len] == '=')
            return at + name_len + 1;
    return NULL;
}

/* Read a file of /proc and append a zero byte. Returns 0, or a negative error, for example if the
 * process is gone or belongs to another user. */
static int read_proc(pid_t pid, const char *file, char **ret, size_t *len)
{
    char path[64], *text = NULL;
    size_t room = 0;
    ssize_t n;
    int fd, r = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *len = 0;
    do {
        n = 0;
        if (room - *len < PIECE) { /* keep one byte for the zero */
            char *larger = realloc(text, room + 2 * PIECE);

            if (!larger) {
                r = -ENOMEM;
                break;
            }
            text = larger;
            room += 2 * PIECE;
        }
        n = read(fd, text + *len, PIECE - 1);
        if (n > 0)
            *len += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0)
        r = -errno;
    (void)close(fd);
    if (r < 0) {
        free(text);
        return r;
    }
    text[*len] = '\0';
    *ret = text;
    return 0;
}

/* Returns the parent's process number; 0 if it is not known. */
static pid_t parent_of(pid_t pid)
{
    char *text, *after;
    int parent = 0;
    size_t len;

    if (read_proc(pid, "stat", &text, &len) < 0)
        return 0;
    after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %*c %d", &parent) != 1)
        parent = 0;
    free(text);
    return parent;
}

static bool has_name(const struct plenum_job *job)
{
    return strncmp(job->id, "pid-", 4) != 0;
}

/* Would both instances read the same samples? */
static bool takes_same(const struct plenum_job_info *a, const struct plenum_job_info *b)
{
    return a->num_instances == b->num_instances && a->instance_index == b->instance_index;
}

/* Returns whether a process with the environment `text` is the same instance of the same job. */
static bool is_instance_of(const struct plenum_job *job, const char *text, size_t len)
{
    struct plenum_job *other = calloc(1, sizeof(*other));
    bool same = false;

    if (!other)
        return false;
    environment.text = text;
    environment.len = len;
    if (job_from_environment(environment_get, other, NULL) == 0)
        same = other->info.launcher == job->info.launcher && takes_same(&other->info, &job->info) &&
               (!has_name(job) || strcmp(other->id, job->id) == 0);
    free(other);
    return same;
}

static bool has_library(pid_t pid)
{
    char *text;
    size_t len;
    bool found;

    if (read_proc(pid, "maps", &text, &len) < 0)
        return false;
    found = strstr(text, "/libplenum") != NULL;
    free(text);
    return found;
}

/* Returns the process above this one that is the same instance and not just a wrapper; 0 if there
 * is none. */
static pid_t find_ancestor(const struct plenum_job *job)
{
    pid_t pid = proc_self();

    for (int i = 0; i < ANCESTORS && (pid = parent_of(pid)) > 1; i++) {
        char *text;
        size_t len;
        bool same;

        if (read_proc(pid, "environ", &text, &len) < 0)
            return 0;
        same = is_instance_of(job, text, len);
        free(text);
        if (!same)
            return 0; /* the launcher */
        if (has_library(pid))
            return pid;
    }
    return 0;
}

static socklen_t name_address(const struct plenum_job *job, struct sockaddr_un *ret)
{
    char key[sizeof(job->id) + 64];
    int len;

    (void)snprintf(key, sizeof(key), "%s %d", job->id, (int)job->info.launcher);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    len = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "plenum-%u-%08x-%.40s-%u-of-%u",
                   (unsigned)geteuid(), crc32c(0, key, strlen(key)), job->id,
                   job->info.instance_index, job->info.num_instances);
    assert(len > 0 && (size_t)len < sizeof(ret->sun_path) - 1);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

/* Returns the process that holds the name, or 0 if it belongs to another user, or has ended and
 * only a child that it forked still holds the name. */
static pid_t find_holder(const struct sockaddr_un *address, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof(peer);

    if (fd < 0)
        return 0;
    if (connect(fd, (const struct sockaddr *)address, len) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid() ||
        peer.pid <= 0 || kill(peer.pid, 0) < 0)
        peer.pid = 0;
    (void)close(fd);
    return peer.pid;
}

/* Take the instance's name. Returns a descriptor, or -1 if no name can be held; or -EBUSY, with the
 * process that holds the name in `holder`. */
static int hold_name(const struct plenum_job *job, pid_t *holder)
{
    struct sockaddr_un address;
    socklen_t len = name_address(job, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)&address, len) == 0 && listen(fd, WAITING) == 0)
        return fd;
    (void)close(fd);
    *holder = find_holder(&address, len);
    return *holder > 0 ? -EBUSY : -1;
}

static int refuse_forked(const struct plenum_job *job, struct plenum_error *err)
{
    return error_set(err, -EBUSY,
                     "process %d, from which this one was forked, is instance %u of %u of this "
                     "job, " REMEDY,
                     (int)mine.pid, job->info.instance_index, job->info.num_instances);
}

/* Claim the instance that the environment names; refuse it if another process has it. */
static int claim_by_name(const struct plenum_job *job, int *fd, struct plenum_error *err)
{
    pid_t other = find_ancestor(job);

    if (other > 0)
        return error_set(err, -EBUSY,
                         "process %d, which started this one, is instance %u of %u of this job, "
                         "and this process has inherited its environment variables, " REMEDY,
                         (int)other, job->info.instance_index, job->info.num_instances);
    if (!has_name(job))
        return 0;
    *fd = hold_name(job, &other);
    if (*fd != -EBUSY)
        return 0;
    *fd = -1;
    return error_set(err, -EBUSY, "process %d is already instance %u of %u of this job, " REMEDY,
                     (int)other, job->info.instance_index, job->info.num_instances);
}

int claim_instance(const struct plenum_job *job, struct plenum_error *err)
{
    bool same = mine.pid != 0 && takes_same(&mine.place, &job->info);
    int fd = -1, r;

    if (job->info.num_instances == 1 || (same && mine.pid == getpid()))
        return 0;
    if (same && kill(mine.pid, 0) == 0)
        return refuse_forked(job, err);
    if (job->info.launcher != PLENUM_LAUNCHER_PROGRAM) {
        r = claim_by_name(job, &fd, err);
        if (r < 0)
            return r;
    }
    if (mine.pid == getpid())
        io_close(&mine.fd); /* the program has now chosen another instance */
    mine.pid = getpid();
    mine.place = job->info;
    mine.place.job_id = mine.place.loader = NULL;
    mine.fd = fd;
    return 0;
}

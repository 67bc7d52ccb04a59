/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/host/host.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/util.h"
#include "launcher/host/network.h"

void host_get_name(char *ret, size_t size)
{
    if (gethostname(ret, size) < 0 || !ret[0])
        (void)snprintf(ret, size, "localhost");
    ret[size - 1] = '\0';
}

static bool is_loopback(const struct subnet *address)
{
    static const uint8_t one[16] = {[15] = 1};

    return address->family == AF_INET ? address->address[0] == 127
                                      : memcmp(address->address, one, sizeof(one)) == 0;
}

static bool is_own_address(const struct network *own, const struct subnet *address)
{
    if (is_loopback(address))
        return true;
    for (size_t i = 0; i < own->count; i++) {
        struct subnet exact = own->list[i].at;

        exact.bits = address->bits; /* every bit */
        if (subnet_has(&exact, address))
            return true;
    }
    return false;
}

/* Parse a numeric address: "10.1.2.3", "fd00::7". */
static bool get_address(const char *name, struct subnet *ret)
{
    *ret = (struct subnet){.family = AF_INET, .bits = 32};
    if (inet_pton(AF_INET, name, ret->address) == 1)
        return true;
    ret->family = AF_INET6;
    ret->bits = 128;
    return inet_pton(AF_INET6, name, ret->address) == 1;
}

static bool is_own_name(const char *name)
{
    char own[HOST_NAME_MAX_BYTES];

    host_get_name(own, sizeof(own));
    return strcasecmp(name, "localhost") == 0 || strcasecmp(name, own) == 0;
}

/* Returns whether `name` could be our name, with or without its domain. Names in two different
 * domains are two machines. */
static bool resembles_own_name(const char *name)
{
    char own[HOST_NAME_MAX_BYTES];
    size_t label;

    host_get_name(own, sizeof(own));
    label = strcspn(own, ".");
    return strcspn(name, ".") == label && strncasecmp(name, own, label) == 0 &&
           (name[label] == '\0' || own[label] == '\0');
}

bool host_is_this(const char *name)
{
    struct network own = {0};
    struct subnet address;
    bool found;

    if (!get_address(name, &address))
        return is_own_name(name) || resembles_own_name(name);
    (void)network_read(&own);
    found = is_own_address(&own, &address);
    network_fini(&own);
    return found;
}

/* ---- names that a name server knows ----
 *
 * If a name server does not answer, getaddrinfo() waits for half a minute and cannot be cancelled.
 * So threads call it, and a name that is not resolved in time is compared with our host name
 * instead (resembles_own_name()). The last thread that uses the look-up frees it. */

enum { LOOKUP_THREADS = 16, LOOKUP_MS = 2000 };

struct lookup {
    struct network own;
    char **names; /* [count], NULL: nothing to look up; owned */
    bool *found;
    size_t count;
    /* Any thread, holding the lock. */
    struct lock lock;
    pthread_cond_t done;
    size_t next, answered;
    unsigned users;
};

/* End this thread's use of the look-up; the last one frees it. The caller holds the lock, which is
 * released. */
static void leave_lookup(struct lookup *l)
{
    bool last;

    assert(lock_is_held(&l->lock) && l->users > 0);
    last = --l->users == 0;

    lock_release(&l->lock);
    if (!last)
        return;
    for (size_t i = 0; l->names && i < l->count; i++)
        free(l->names[i]);
    network_fini(&l->own);
    free(l->names);
    free(l->found);
    lock_fini(&l->lock);
    (void)pthread_cond_destroy(&l->done);
    free(l);
}

/* Returns whether the name resolves to an address of this host. n1.rack-a and n1.rack-b are
 * different machines, even if both call themselves n1, so addresses are compared. A name without an
 * address is compared up to its first dot. */
static bool resolves_to_own(const struct network *own, const char *name)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *list;
    bool found = false;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return resembles_own_name(name);
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next) {
        struct subnet address = {.family = a->ai_family,
                                 .bits = a->ai_family == AF_INET ? 32 : 128};
        const void *sa = a->ai_addr;

        if (a->ai_family == AF_INET)
            memcpy(address.address, &((const struct sockaddr_in *)sa)->sin_addr, 4);
        else if (a->ai_family == AF_INET6)
            memcpy(address.address, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
        else
            continue;
        found = is_own_address(own, &address);
    }
    freeaddrinfo(list);
    return found;
}

static void *look_up(void *arg)
{
    struct lookup *l = arg;

    lock_acquire(&l->lock);
    while (l->next < l->count) {
        size_t i = l->next++;
        bool found = false;

        if (l->names[i]) {
            lock_release(&l->lock);
            found = resolves_to_own(&l->own, l->names[i]);
            lock_acquire(&l->lock);
        }
        l->found[i] = found;
        l->answered++;
        assert(l->answered <= l->next && l->next <= l->count);
    }
    (void)pthread_cond_signal(&l->done);
    leave_lookup(l);
    return NULL;
}

static void run_lookup(struct lookup *l, size_t threads)
{
    uint64_t until = time_now_ns() + LOOKUP_MS * NS_PER_MS;

    lock_acquire(&l->lock);
    for (size_t i = 0; i < threads; i++) {
        l->users++;
        if (thread_start(NULL, look_up, l) < 0)
            l->users--;
    }
    while (l->answered < l->count && l->users > 1)
        if (lock_wait_until(&l->lock, &l->done, until) < 0)
            break;
    lock_release(&l->lock);
}

void host_find_this(const struct hostlist *list, bool *ret)
{
    struct lookup *l;
    size_t unknown = 0;

    for (size_t i = 0; i < list->count; i++)
        ret[i] = false;
    if (list->count == 0 || !(l = calloc(1, sizeof(*l))))
        return;
    lock_init(&l->lock);
    (void)pthread_cond_init(&l->done, NULL);
    l->users = 1;
    l->count = list->count;
    l->names = calloc(list->count, sizeof(*l->names));
    l->found = calloc(list->count, sizeof(*l->found));
    (void)network_read(&l->own);
    for (size_t i = 0; l->names && l->found && i < list->count; i++) {
        const struct hostlist_host *host = &list->hosts[i];
        struct subnet address;

        if (host->user || host->port)
            continue;
        if (get_address(host->name, &address)) {
            ret[i] = is_own_address(&l->own, &address);
        } else if (is_own_name(host->name)) {
            ret[i] = true;
        } else {
            l->names[i] = strdup(host->name);
            l->found[i] = resembles_own_name(host->name); /* if no answer arrives in time */
            unknown += l->names[i] != NULL;
        }
    }
    if (unknown > 0)
        run_lookup(l, min_u64(unknown, LOOKUP_THREADS));
    lock_acquire(&l->lock);
    for (size_t i = 0; unknown > 0 && i < list->count; i++)
        ret[i] |= l->found[i];
    leave_lookup(l);
}

static int check_executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno == EACCES ? -EACCES : -ENOENT;
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return -EACCES;
    return 0;
}

int host_find_program(const char *name, char *ret, size_t size)
{
    return host_find_program_in(getenv("PATH"), name, ret, size);
}

int host_find_program_in(const char *path, const char *name, char *ret, size_t size)
{
    char refused[4096] = "";

    if (!*name)
        return -ENOENT;
    if (strchr(name, '/')) {
        if ((size_t)snprintf(ret, size, "%s", name) >= size)
            return -ENAMETOOLONG;
        return check_executable(name);
    }
    for (path = path ? path : "/usr/bin:/bin"; path;) {
        size_t len = strcspn(path, ":");
        int n = len > 0 ? snprintf(ret, size, "%.*s/%s", (int)len, path, name)
                        : snprintf(ret, size, "./%s", name);

        if ((size_t)n < size) {
            int found = check_executable(ret);

            if (found == 0)
                return 0;
            if (found == -EACCES && !*refused)
                (void)snprintf(refused, sizeof(refused), "%s", ret);
        }
        path = path[len] ? path + len + 1 : NULL; /* like execvp(): "" is the working directory */
    }
    if (!*refused)
        return -ENOENT;
    (void)snprintf(ret, size, "%s", refused);
    return -EACCES;
}

int host_get_self(char *ret, size_t size, struct plenum_error *err)
{
    static const char deleted[] = " (deleted)"; /* the kernel appends this */
    ssize_t n = readlink("/proc/self/exe", ret, size);
    char *end;

    if (n < 0 || (size_t)n >= size)
        return error_set(err, -ENOENT,
                         "cannot find plenumrun's own file (is /proc mounted?), which is needed to "
                         "start it beside each instance");
    ret[n] = '\0';
    end = (size_t)n > strlen(deleted) ? ret + n - strlen(deleted) : ret;
    if (strcmp(end, deleted) != 0 || access(ret, F_OK) == 0)
        return 0;
    *end = '\0'; /* an upgrade may have replaced the file */
    return access(ret, X_OK) == 0
               ? 0
               : error_set(err, -ENOENT,
                           "plenumrun's own file %s has been removed since plenumrun was started, "
                           "but it is needed to start the instances: install it again",
                           ret);
}

int host_check_proc(struct plenum_error *err)
{
    int adopts;

    if (proc_self() != getpid())
        return error_set(err, -ESRCH,
                         "/proc is not mounted, or belongs to a different PID namespace: mount it "
                         "here (mount -t proc proc /proc; unshare --mount-proc)");
    if (prctl(PR_GET_CHILD_SUBREAPER, &adopts) < 0)
        return error_set(
            err, -ENOSYS,
            "no process can adopt orphans here (PR_SET_CHILD_SUBREAPER), so something could "
            "outlive the job: plenumrun does not run where qemu emulates another processor");
    return 0;
}

uint16_t host_find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof(address);
    uint16_t port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    (void)close(fd);
    return port;
}

int host_get_directory(char *ret, size_t size, struct plenum_error *err)
{
    const char *named = getenv("PWD");
    struct stat here, there;
    int r;

    if (named && named[0] == '/' && strlen(named) < size && stat(".", &here) == 0 &&
        stat(named, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino) {
        (void)snprintf(ret, size, "%s", named);
        return 0;
    }
    if (!getcwd(ret, size)) {
        r = -errno;
        return error_set(err, r, "cannot find the name of the working directory: %s", strerror(-r));
    }
    return 0;
}

int host_check_folder(const char **ret)
{
    const char *named = getenv("TMPDIR"), *folder = named && *named ? named : "/tmp";
    char *path = str_format("%s/plenumrun-XXXXXX", folder), block[4096] = "";
    int fd = path ? mkstemp(path) : -1, r = fd < 0 ? -errno : 0;

    *ret = folder;
    if (r == 0) {
        (void)unlink(path);
        r = io_write_all(fd, block, sizeof(block));
    }
    io_close(&fd);
    free(path);
    return r;
}

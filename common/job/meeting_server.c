/* SPDX-License-Identifier: MIT */
/* meeting_server.c - the launcher creates the instances' memory, hands it out, and watches the
 * processes that have it.
 *
 * The memory is a memfd, so nothing is left behind. A program requests it with a datagram to an
 * abstract socket, where the kernel reports the sender's process and user. It is created for the
 * first request, because a job without collectives needs none.
 *
 * Each process is watched through a pidfd, which reports its end at once, whatever the cause. A
 * process's lock or connection would be lost in programs that close unknown descriptors. A process
 * in a container, with its own PID namespace, can be watched from here, too. (A process in a
 * sibling namespace, whose id is unknown here, is not watched: then only the shim's report
 * counts.) */
#include "config.h"

#include "common/job/meeting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/job/meeting_priv.h"
#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

enum { MEETING_ROOM_LEAST = 128 << 10 };
enum { EVENTS = 16, QUESTION = UINT32_MAX }; /* epoll: the socket, or an instance */

struct watched {
    pid_t pid; /* 0: none */
    int pidfd;
    bool ended;        /* the instance has ended */
    uint64_t ended_ns; /* when the last process was seen to have ended; 0: not, or there is one */
    pid_t before;      /* that process */
};

struct meeting_server {
    char job[MEETING_JOB_MAX];
    unsigned char secret[MEETING_SECRET_BYTES];
    uint32_t instances;
    int socket, epoll_fd, memory;  /* memory -1: not requested yet */
    struct meeting_shared *shared; /* mapping of the memory, or NULL */
    struct watched watched[];
};

static int watch_fd(const struct meeting_server *server, int fd, uint32_t what)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = what};

    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Bind a datagram socket that reports its senders' credentials. */
static int bind_socket(const char *text, struct plenum_error *err)
{
    const int on = 1;
    struct address address;
    int fd, r = address_parse(text, &address, err);

    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        io_refuse_descriptors(fd);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
        bind(fd, (const void *)&address.un, address.len) == 0)
        return fd;
    r = -errno;
    io_close(&fd);
    return error_set(err, r, "cannot listen at %s for collectives: %s", text, strerror(-r));
}

void meeting_server_address(const char *name, char ret[MEETING_ADDRESS_MAX])
{
    (void)snprintf(ret, MEETING_ADDRESS_MAX, "unix:@plenumrun-%s-collectives", name);
}

int meeting_server_create(const char *name, const char *job, uint32_t instances,
                          struct meeting_server **ret, char address[MEETING_ADDRESS_MAX],
                          struct plenum_error *err)
{
    struct meeting_server *server = malloc(sizeof(*server) + instances * sizeof(*server->watched));
    int r;

    if (!server)
        return error_set(err, -ENOMEM, "out of memory");
    *server =
        (struct meeting_server){.instances = instances, .socket = -1, .epoll_fd = -1, .memory = -1};
    for (uint32_t i = 0; i < instances; i++)
        server->watched[i] = (struct watched){.pidfd = -1};
    (void)snprintf(server->job, sizeof(server->job), "%s", job);
    meeting_server_address(name, address);
    server->socket = bind_socket(address, err);
    if (server->socket < 0) {
        r = server->socket;
        goto fail;
    }
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r = server->epoll_fd < 0 ? -errno : watch_fd(server, server->socket, QUESTION);
    if (r < 0) {
        (void)error_set(err, r, "cannot listen for collectives: %s", strerror(-r));
        goto fail;
    }
    *ret = server;
    return 0;

fail:
    meeting_server_destroy(server);
    return r;
}

void meeting_server_set_secret(struct meeting_server *server,
                               const unsigned char secret[MEETING_SECRET_BYTES])
{
    memcpy(server->secret, secret, MEETING_SECRET_BYTES);
}

int meeting_server_get_fd(const struct meeting_server *server)
{
    return server ? server->epoll_fd : -1;
}

static void unwatch(struct meeting_server *server, uint32_t instance)
{
    struct watched *w = &server->watched[instance];

    assert(instance < server->instances);
    /* Closing it is not enough: a child that is about to call exec still has a copy. */
    if (w->pidfd >= 0)
        (void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, w->pidfd, NULL);
    io_close(&w->pidfd);
    w->pid = 0;
}

void meeting_server_destroy(struct meeting_server *server)
{
    if (!server)
        return;
    for (uint32_t i = 0; i < server->instances; i++)
        unwatch(server, i);
    if (server->shared)
        (void)munmap(server->shared, meeting_bytes(server->instances));
    io_close(&server->memory);
    io_close(&server->epoll_fd);
    io_close(&server->socket);
    explicit_bzero(server->secret, sizeof(server->secret));
    free(server);
}

void meeting_server_note_end(struct meeting_server *server, uint32_t instance)
{
    if (!server)
        return;
    assert(instance < server->instances);
    server->watched[instance].ended = true;
    if (!server->shared)
        return;
    atomic_store(&server->shared->slots[instance].ended, 1);
    meeting_wake(server->shared, server->instances);
}

uint64_t meeting_server_get_end(const struct meeting_server *server, uint32_t instance,
                                pid_t *ret_pid)
{
    assert(!server || instance < server->instances);
    *ret_pid = server ? server->watched[instance].before : 0;
    return server ? server->watched[instance].ended_ns : 0;
}

/* Set the memory's size. RLIMIT_FSIZE applies to memfds, too: raise the soft limit, and respect the
 * hard limit. */
static int set_size(int fd, size_t bytes, size_t slots)
{
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, most;
    bool raised;
    int r;

    raised = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < limit.rlim_max;
    most = (struct rlimit){limit.rlim_max, limit.rlim_max};
    raised = raised && setrlimit(RLIMIT_FSIZE, &most) == 0;
    r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : 0;
    if (r == 0) /* a hole could raise SIGBUS; instances allocate their own rooms */
        r = -posix_fallocate(fd, 0, (off_t)slots);
    if (raised)
        (void)setrlimit(RLIMIT_FSIZE, &limit);
    (void)signal(SIGXFSZ, before);
    return r;
}

/* Returns the bytes of a room that are used. Instances read what others have just written, so a few
 * rooms must fit into the second-level cache. Smaller rooms cost more waits. */
static uint32_t choose_room(void)
{
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);

    if (cache < 4 * (long)MEETING_ROOM_LEAST)
        cache = 4 * (long)MEETING_ROOM_LEAST;
    return (uint32_t)min_u64((uint64_t)cache / 4 / MEETING_UNIT_BYTES * MEETING_UNIT_BYTES,
                             MEETING_ROOM_BYTES);
}

/* Create the memory and seal its size, so that no process can truncate it under the others. */
static int make_memory(struct meeting_server *server)
{
    const size_t bytes = meeting_bytes(server->instances);
    void *shared;
    int fd, r;

    if (server->shared)
        return 0;
    fd = memfd_create("plenum-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    r = fd < 0 ? -errno : set_size(fd, bytes, meeting_slots_bytes(server->instances));
    if (r < 0)
        goto fail;
    if (fchmod(fd, 0600) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = -errno;
        goto fail;
    }
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        r = -errno;
        goto fail;
    }
    assert(!server->shared && server->memory < 0);
    server->shared = shared;
    server->memory = fd;
    server->shared->room_bytes = choose_room();
    for (uint32_t i = 0; i < server->instances; i++)
        atomic_store(&server->shared->slots[i].ended, server->watched[i].ended);
    return 0;

fail:
    io_close(&fd);
    return r;
}

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* Check whether the process that is watched for an instance has ended. An event may belong to an
 * earlier process. The others may end because of it, so record the time before they notice. */
static void look_at(struct meeting_server *server, uint32_t instance)
{
    struct watched *w = &server->watched[instance];

    assert(instance < server->instances);
    if (w->pid == 0 || !has_ended(w->pidfd))
        return;
    w->ended_ns = time_now_ns();
    w->before = w->pid;
    unwatch(server, instance);
    atomic_store(&server->shared->slots[instance].present, 0);
    meeting_wake(server->shared, server->instances);
}

/* Register this process as the instance's. Returns 0, or -ESRCH if it is gone. */
static int admit(struct meeting_server *server, uint32_t instance, pid_t pid)
{
    struct watched *w = &server->watched[instance];

    assert(instance < server->instances && server->shared);
    if (w->pid == 0 && pid > 0) {
        w->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (w->pidfd < 0 && errno == ESRCH)
            return -ESRCH;
        if (w->pidfd >= 0 && watch_fd(server, w->pidfd, instance) < 0)
            io_close(&w->pidfd);
        if (w->pidfd >= 0)
            w->pid = pid;
        w->ended_ns = 0;
        w->before = 0;
    }
    atomic_store(&server->shared->slots[instance].present, 1);
    return 0;
}

/* Decide whether this process may have the memory. Returns 1 or 0; negative if the process has
 * ended and expects no answer. */
static int consider(struct meeting_server *server, const struct meeting_question *q,
                    const struct ucred *from, struct meeting_answer *a)
{
    int r;

    if (from->uid != geteuid()) {
        a->refusal = MEETING_OTHER_USER;
        return 0;
    }
    if (q->instances != server->instances || q->index >= server->instances ||
        strncmp(q->job, server->job, sizeof(q->job)) != 0) {
        a->refusal = MEETING_OTHER_JOB;
        return 0;
    }
    look_at(server, q->index);
    if (server->watched[q->index].pid != 0 && server->watched[q->index].pid != from->pid) {
        a->refusal = MEETING_TAKEN;
        a->pid = (uint32_t)server->watched[q->index].pid;
        return 0;
    }
    r = make_memory(server);
    if (r < 0) {
        a->refusal = MEETING_NO_MEMORY;
        a->error = -r;
        return 0;
    }
    return admit(server, q->index, from->pid) < 0 ? -1 : 1;
}

static void answer(const struct meeting_server *server, const struct sockaddr_un *to,
                   socklen_t to_len, struct meeting_answer *a, bool with_memory)
{
    union io_descriptor_room control;
    struct iovec iov = {.iov_base = a, .iov_len = sizeof(*a)};
    struct msghdr msg = {
        .msg_name = (void *)to, .msg_namelen = to_len, .msg_iov = &iov, .msg_iovlen = 1};

    assert(!with_memory || server->memory >= 0);
    if (with_memory) {
        io_attach_descriptor(&msg, &control, server->memory);
        memcpy(a->secret, server->secret, sizeof(a->secret));
    }
    (void)sendmsg(server->socket, &msg,
                  MSG_NOSIGNAL | MSG_DONTWAIT); /* one answer fits into the receiver's queue */
}

/* Answer one question; false if there is none. The control buffer only has room for credentials, so
 * descriptors are dropped. */
static bool answer_question(struct meeting_server *server)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct meeting_question q = {.version = 0};
    struct meeting_answer a = {.version = MEETING_LAYOUT};
    struct iovec iov = {.iov_base = &q, .iov_len = sizeof(q)};
    struct sockaddr_un from;
    struct msghdr msg = {.msg_name = &from,
                         .msg_namelen = sizeof(from),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;
    struct ucred who;
    int r = 0;
    ssize_t n = recvmsg(server->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EINTR;
    c = CMSG_FIRSTHDR(&msg);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
        n < (ssize_t)offsetof(struct meeting_question, instances) ||
        memcmp(q.magic, meeting_magic, sizeof(q.magic)) != 0)
        return true;
    /* Do not answer a sender with a path, which may lead to a different socket by now. Our programs
     * have no path. */
    if (msg.msg_namelen <= offsetof(struct sockaddr_un, sun_path) || from.sun_path[0] != '\0')
        return true;
    memcpy(&who, CMSG_DATA(c), sizeof(who));
    memcpy(a.magic, meeting_magic, sizeof(a.magic));
    /* A sender of another version sees our version in the answer. */
    if (q.version == MEETING_LAYOUT && n == (ssize_t)sizeof(q))
        r = consider(server, &q, &who, &a);
    if (r >= 0)
        answer(server, &from, msg.msg_namelen, &a, r > 0);
    return true;
}

void meeting_server_dispatch(struct meeting_server *server)
{
    struct epoll_event events[EVENTS];
    int n = server ? epoll_wait(server->epoll_fd, events, EVENTS, 0) : 0;

    for (int i = 0; i < n; i++) {
        if (events[i].data.u32 != QUESTION)
            look_at(server, events[i].data.u32);
        else
            for (unsigned k = 0; k < EVENTS && answer_question(server); k++)
                ;
    }
}

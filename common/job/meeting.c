/* SPDX-License-Identifier: MIT */
/* meeting.c - joins the memory in which instances on one host wait for each other and exchange
 * bytes, without MPI.
 *
 * The memory has, for each instance, a slot with the number of rounds that the instance has
 * entered, and rooms for its bytes (meeting_rounds.c). There is no shared state that others depend
 * on, so an instance that is killed at any moment leaves nothing half done.
 *
 * The end of an instance is detected in two ways. The launcher records the end of each program that
 * it started. That is reliable, but the program that joined may be a child of that program (a shell
 * script). So each process that joins is watched, too (meeting_server.c). Its end counts only if
 * its instance has already entered a round since this process joined: otherwise it may be a
 * script's previous program, and the next one continues with the rounds where that one stopped.
 *
 * Nothing here needs a descriptor after joining, because programs close descriptors that they do
 * not know. */
#include "config.h"

#include "common/job/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/job/meeting_priv.h"
#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

/* How long a server may take to be created. */
static const uint64_t patience_ns = 20 * NS_PER_SEC;

void meeting_destroy(struct meeting *meeting)
{
    if (!meeting)
        return;
    if (meeting->shared)
        (void)munmap(meeting->shared, meeting->bytes);
    free(meeting);
}

void meeting_leave(struct meeting *meeting)
{
    atomic_store(&meeting->shared->slots[meeting->index].present, 0);
    meeting_wake(meeting->shared, meeting->instances);
}

MESSAGE static int refuse(struct plenum_error *err, const char *address, const char *why)
{
    return error_set(err, -ENOTSUP, "collectives: PLENUM_COLLECTIVES=%s: %s", address, why);
}

/* Connect with a name that the kernel chooses, so that the answer can be sent to it. */
static int dial(const char *text, struct plenum_error *err)
{
    const struct sockaddr_un own = {.sun_family = AF_UNIX};
    struct address address;
    int fd, r = 0;

    if (strncmp(text, "unix:@", 6) != 0 || address_parse(text, &address, NULL) < 0)
        return refuse(err, text, "plenumrun did not set this value");
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const void *)&own, offsetof(struct sockaddr_un, sun_path)) < 0 ||
        connect(fd, (const void *)&address.un, address.len) < 0)
        r = -errno;
    if (r == -ECONNREFUSED)
        (void)refuse(
            err, text,
            "plenumrun is not running, or this program is in a different network namespace");
    else if (r < 0)
        (void)refuse(err, text, strerror(-r));
    if (r < 0)
        io_close(&fd);
    return r == -ECONNREFUSED ? r : r < 0 ? -ENOTSUP : fd;
}

/* Dial a server that another process may not have created yet. */
static int dial_patiently(const struct meeting_member *self, uint64_t deadline_ns,
                          struct plenum_error *err)
{
    const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
    uint64_t end = time_now_ns() + (self->patient ? patience_ns : 0);
    int r;

    if (deadline_ns)
        end = min_u64(end, deadline_ns);
    while ((r = dial(self->address, err)) == -ECONNREFUSED && time_now_ns() < end)
        (void)nanosleep(&pause, NULL);
    return r == -ECONNREFUSED ? -ENOTSUP : r;
}

static int await(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        uint64_t now = time_now_ns(), left = 1000;

        if (deadline_ns && now >= deadline_ns)
            return -ETIMEDOUT;
        if (deadline_ns)
            left = min_u64(left, (deadline_ns - now) / NS_PER_MS + 1);
        if (poll(&p, 1, (int)left) > 0)
            return 0;
    }
}

/* Send one question and receive one answer with the memory. Returns its descriptor, or -errno. */
static int ask(int fd, const struct meeting_question *question, uint64_t deadline_ns,
               struct meeting_answer *answer)
{
    union io_descriptor_room control;
    struct iovec iov = {.iov_base = answer, .iov_len = sizeof(*answer)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;
    int memory = -1, r;
    ssize_t n;

    do {
        n = send(fd, question, sizeof(*question), MSG_NOSIGNAL);
        r = n < 0 ? -errno : 0;
    } while (r == -EINTR || (r == -EAGAIN && (r = await(fd, POLLOUT, deadline_ns)) == 0));
    while (r == 0) {
        r = await(fd, POLLIN, deadline_ns);
        if (r < 0)
            break;
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN))
            break;
    }
    if (r < 0)
        return r;
    if (n != (ssize_t)sizeof(*answer))
        return n < 0 ? -errno : -EPROTO;
    c = CMSG_FIRSTHDR(&msg);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&memory, CMSG_DATA(c), sizeof(memory));
    if (memory < 0 && (msg.msg_flags & MSG_CTRUNC)) /* no descriptor was free */
        return -EMFILE;
    return memory < 0 ? -ENODATA : memory;
}

/* Write a message that explains why there is no memory. */
static int explain(const struct meeting_answer *answer, int r, const char *address, uint32_t index,
                   struct plenum_error *err)
{
    char why[120];

    if (r == -ETIMEDOUT)
        return error_set(err, r, "collectives: plenumrun has not answered within the time limit");
    if (r != -ENODATA)
        return refuse(err, address, strerror(-r));
    if (memcmp(answer->magic, meeting_magic, sizeof(meeting_magic)) != 0 ||
        answer->version != MEETING_LAYOUT)
        return refuse(err, address, "plenumrun and libplenum have different versions");
    switch (answer->refusal) {
    case MEETING_OTHER_USER:
        return refuse(err, address, "it belongs to another user");
    case MEETING_OTHER_JOB:
        return refuse(err, address, "it belongs to another job");
    case MEETING_TAKEN:
        return error_set(
            err, -ENOTSUP,
            "process %u is already using the collectives of instance %u, and only one process can",
            answer->pid, index);
    default:
        (void)snprintf(why, sizeof(why), "plenumrun cannot create the shared memory: %s%s",
                       strerror(answer->error),
                       answer->error == EFBIG ? " (raise the limit on file sizes, ulimit -f)" : "");
        return refuse(err, address, why);
    }
}

/* Accept only memory that plenumrun of the same user created, because any process can bind an
 * abstract name. */
static int check(int fd, uint32_t instances, const char *address, struct plenum_error *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (fstat(fd, &st) < 0)
        return refuse(err, address, strerror(errno));
    if (st.st_uid != geteuid())
        return refuse(err, address, "it belongs to another user");
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size != (off_t)meeting_bytes(instances))
        return refuse(err, address,
                      "its memory does not have the size that a job of this size needs");
    return 0;
}

int meeting_join(const struct meeting_member *self, uint64_t deadline_ns, struct meeting **ret,
                 struct plenum_error *err)
{
    const uint32_t instances = self->instances, index = self->index;
    struct meeting_question question = {
        .version = MEETING_LAYOUT, .instances = instances, .index = index};
    struct meeting_answer answer = {.pid = 0};
    struct meeting *m;
    int fd = dial_patiently(self, deadline_ns, err), memory, r;

    if (fd < 0)
        return fd;
    memcpy(question.magic, meeting_magic, sizeof(meeting_magic));
    (void)snprintf(question.job, sizeof(question.job), "%s", self->job);
    memory = ask(fd, &question, deadline_ns, &answer);
    (void)close(fd);
    if (self->secret)
        memcpy(self->secret, answer.secret, sizeof(answer.secret));
    explicit_bzero(answer.secret, sizeof(answer.secret));
    if (memory < 0)
        return explain(&answer, memory, self->address, index, err);
    r = check(memory, instances, self->address, err);
    m = r < 0 ? NULL : malloc(sizeof(*m));
    if (m) {
        *m = (struct meeting){
            .instances = instances, .index = index, .bytes = meeting_bytes(instances)};
        m->shared = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    }
    (void)close(memory);
    if (r < 0)
        return r;
    if (!m || m->shared == MAP_FAILED) {
        free(m);
        return error_set(err, -ENOMEM, "out of memory");
    }
    m->first = m->round = m->base = atomic_load(&m->shared->slots[index].came);
    m->turn = m->shared->slots[index].turn;
    atomic_store(&m->shared->slots[index].culprit, 0); /* an earlier program's */
    atomic_store(&m->shared->slots[index].gave_up, 0);
    meeting_wait_publish(&m->shared->slots[index]);
    *ret = m;
    return 0;
}

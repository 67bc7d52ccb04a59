/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/job/meeting.h"
#include "common/job/meeting_priv.h"
#include "common/net/address.h"
#include "common/util/util.h"

static struct meeting_server *place;
static char address[MEETING_ADDRESS_MAX];
static pthread_t door;
static pthread_mutex_t door_mu = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool closing;
static _Atomic uint32_t *met; /* number of instances that have passed a round; shared by all */

/* An instance's work, in its own process; returns the exit status, 0 on success. */
typedef int (*instance)(struct meeting *m, uint32_t index);

static pid_t start(instance run, uint32_t count, uint32_t index)
{
    struct plenum_error err;
    struct meeting *m;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)alarm(60);
    if (meeting_join(&(struct meeting_member){address, "job", count, index, false, NULL}, 0, &m,
                     &err) < 0)
        _exit(100);
    _exit(run(m, index));
}

static int end_of(pid_t pid)
{
    int status;

    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Serves the meeting, like plenumrun's loop. */
static void *keep_door(void *arg)
{
    (void)arg;
    while (!closing) {
        struct pollfd p = {.fd = meeting_server_get_fd(place), .events = POLLIN};

        (void)poll(&p, 1, 20);
        (void)pthread_mutex_lock(&door_mu);
        meeting_server_dispatch(place);
        (void)pthread_mutex_unlock(&door_mu);
    }
    return NULL;
}

static void make(uint32_t count)
{
    struct plenum_error err = {""};
    char name[32];

    met = mmap(NULL, sizeof(*met), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(met != MAP_FAILED);
    (void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
    cr_assert(eq(int, meeting_server_create(name, "job", count, &place, address, &err), 0), "%s",
              err.text);
    cr_assert(eq(int, pthread_create(&door, NULL, keep_door, NULL), 0));
}

static void close_place(void)
{
    closing = true;
    (void)pthread_join(door, NULL);
    meeting_server_destroy(place);
}

/* Runs all instances at the same time, and checks their exit statuses. */
static void all_do(instance run, uint32_t count)
{
    pid_t pids[8];

    cr_assert(le(u32, count, 8));
    for (uint32_t i = 0; i < count; i++)
        pids[i] = start(run, count, i);
    for (uint32_t i = 0; i < count; i++)
        cr_expect(eq(int, end_of(pids[i]), 0), "instance %u", i);
}

static uint64_t in_seconds(unsigned seconds)
{
    return time_now_ns() + seconds * NS_PER_SEC;
}

enum { MANY = 5, TURNS = 500 };

/* A few numbers that show who wrote them, and when. */
struct note {
    uint64_t turn, index;
};

/* In each turn, every instance sees what every instance wrote for that turn, in its note and in its
 * room, however far ahead others are. */
static int exchange(struct meeting *m, uint32_t index)
{
    unsigned random = index + 1;
    struct note all[MANY];
    uint32_t who;

    for (uint64_t turn = 0; turn < TURNS; turn++) {
        const struct note mine = {turn, index};

        if (meeting_meet(m, &mine, sizeof(mine), all, 0, &who) != 0)
            return 1;
        meeting_begin(m, 1);
        memcpy(meeting_room(m, index, turn % MEETING_ROOMS), &mine, sizeof(mine));
        meeting_enter(m);
        if ((random = random * 1103515245 + 12345) >> 24 == 0)
            (void)usleep(random >> 12 & 0xfff);
        for (uint32_t i = 0; i < MANY; i++) {
            const struct note want = {turn, i};

            if (memcmp(&all[i], &want, sizeof(want)) != 0)
                return 2;
            if (meeting_await(m, i, 1, 0, &who) != 0)
                return 3;
            if (memcmp(meeting_room(m, i, turn % MEETING_ROOMS), &want, sizeof(want)) != 0)
                return 4;
        }
    }
    return 0;
}

Test(meeting, all_see_written_data)
{
    make(MANY);
    all_do(exchange, MANY);
    all_do(exchange, MANY); /* again by another program of the same instances, as in a script */
    close_place();
}

/* Returns how many pages of these bytes are resident. */
static size_t count_pages(unsigned char *at, size_t bytes)
{
    unsigned char present[MEETING_ROOM_BYTES / 4096];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page, count = 0;

    if (mincore(at, bytes, present) < 0)
        return SIZE_MAX;
    for (size_t i = 0; i < pages; i++)
        count += present[i] & 1;
    return count;
}

/* Memory is allocated before it is written, and no more than requested. */
static int take_memory(struct meeting *m, uint32_t index)
{
    static const size_t sizes[] = {1, 4096, 4097, 100000, MEETING_ROOM_BYTES, 5};
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 0;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (meeting_reserve(m, 3, sizes[i]) < 0)
            return 1;
        most = sizes[i] > most ? sizes[i] : most;
        for (unsigned room = 0; room < MEETING_ROOMS; room++) {
            size_t want = room < 3 ? (most + page - 1) / page : 0;

            if (count_pages(meeting_room(m, index, room), MEETING_ROOM_BYTES) != want)
                return 2;
        }
        memset(meeting_room(m, index, 2), (int)i, sizes[i]);
    }
    return meeting_room_bytes(m) > 0 && meeting_room_bytes(m) <= MEETING_ROOM_BYTES ? 0 : 3;
}

Test(meeting, memory_is_allocated_before_it_is_written)
{
    void *probe = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (madvise(probe, 1, MADV_POPULATE_WRITE) < 0)
        cr_skip_test("this kernel cannot take memory in advance");
    make(3);
    all_do(take_memory, 3);
    close_place();
}

static int come_twice(struct meeting *m, uint32_t index)
{
    uint32_t who;
    int r = meeting_come(m, 0, &who);

    (void)atomic_fetch_add(met, 1);
    if (r == 0 && index == 1)
        pause(); /* until this process is killed */
    return r == 0 && meeting_come(m, 0, &who) == -EPIPE && who == 1 ? 0 : 1;
}

/* Kills one of three instances that have passed a round together. */
static void kill_one(instance run)
{
    pid_t pids[3];

    make(3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start(run, 3, i);
    while (*met < 3)
        (void)usleep(1000);
    cr_assert(eq(int, kill(pids[1], SIGKILL), 0));
    cr_expect(eq(int, end_of(pids[0]), 0));
    cr_expect(eq(int, end_of(pids[2]), 0));
    cr_expect(eq(int, end_of(pids[1]), 1000 + SIGKILL));
    close_place();
}

Test(meeting, one_that_is_killed_is_not_waited_for)
{
    kill_one(come_twice);
}

/* Closes all descriptors, like a program that becomes a daemon or a library that starts another
 * program, and then takes part. */
static int close_all_and_come(struct meeting *m, uint32_t index)
{
    closefrom(0);
    (void)open("/dev/null", O_RDWR); /* the numbers now belong to other files */
    (void)index;
    return come_twice(m, index);
}

static int close_all_late(struct meeting *m, uint32_t index)
{
    uint32_t who;

    for (int round = 0; round < 3; round++) {
        if (index == 1)
            closefrom(0);
        if (index == 1 && round > 0)
            (void)usleep(700000); /* the others look for this instance several times */
        if (meeting_come(m, 0, &who) != 0)
            return 1;
    }
    return 0;
}

Test(meeting, one_that_closed_its_descriptors_is_still_there)
{
    make(3);
    all_do(close_all_late, 3);
    close_place();
}

Test(meeting, one_that_closed_its_descriptors_and_is_killed_is_not_waited_for)
{
    kill_one(close_all_and_come);
}

/* Starts an instance in its own PID namespace, as in a container; its processes end with the first
 * of them. */
static int come_from_elsewhere(uint32_t index)
{
    struct plenum_error err;
    struct meeting *m;
    pid_t pid;

    if (unshare(CLONE_NEWPID) < 0)
        return 77;
    pid = fork();
    if (pid == 0) {
        (void)alarm(60);
        _exit(meeting_join(&(struct meeting_member){address, "job", 2, index, false, NULL}, 0, &m,
                           &err) < 0
                  ? 100
                  : come_twice(m, index));
    }
    while (*met < 2)
        (void)usleep(1000);
    (void)kill(pid, SIGKILL);
    return end_of(pid) == 1000 + SIGKILL ? 0 : 1;
}

Test(meeting, an_instance_in_another_pid_namespace_is_identified)
{
    pid_t here, there;
    int r;

    make(2);
    here = start(come_twice, 2, 0);
    there = fork();
    if (there == 0)
        _exit(come_from_elsewhere(1));
    r = end_of(there);
    if (r == 77) {
        (void)kill(here, SIGKILL);
        cr_log_warn("no PID namespace can be created here");
    } else {
        cr_expect(eq(int, r, 0));
        cr_expect(eq(int, end_of(here), 0));
    }
    close_place();
}

static int wait_for_one(struct meeting *m, uint32_t index)
{
    uint32_t who = 77;

    (void)index;
    return meeting_come(m, 0, &who) == -EPIPE && who == 1 ? 0 : 1;
}

Test(meeting, one_that_ended_silently_is_not_waited_for)
{
    pid_t pid;

    make(2);
    pid = start(wait_for_one, 2, 0);
    (void)usleep(50000); /* now the instance most likely waits */
    (void)pthread_mutex_lock(&door_mu);
    meeting_server_note_end(place, 1);
    (void)pthread_mutex_unlock(&door_mu);
    cr_expect(eq(int, end_of(pid), 0));
    meeting_server_note_end(NULL, 0);
    close_place();
}

/* Instance 1 ends during a collective. Instance 2 notices that, and ends before instance 0 looks:
 * instance 0 learns the first cause. */
static int leave_in_turn(struct meeting *m, uint32_t index)
{
    uint32_t who = 77;

    if (meeting_come(m, 0, &who) != 0)
        return 1;
    if (index == 1)
        return 0;
    meeting_begin(m, 1);
    if (index == 2)
        return meeting_await(m, 1, 1, 0, &who) == -EPIPE && who == 1 ? 0 : 2;
    while (atomic_load(&m->shared->slots[2].present))
        (void)usleep(1000);
    return meeting_await(m, 2, 1, 0, &who) == -EPIPE && who == 1 ? 0 : 3;
}

Test(meeting, the_first_that_ended_is_named)
{
    make(3);
    all_do(leave_in_turn, 3);
    close_place();
}

static int come_and_go(struct meeting *m, uint32_t index)
{
    uint32_t who;

    if (index == 1)
        (void)usleep(700000); /* the others look for this instance several times */
    return meeting_come(m, 0, &who) == 0 ? 0 : 1;
}

Test(meeting, one_that_joined_and_ended_has_joined)
{
    pid_t a, b;

    make(2);
    for (int run = 0; run < 2; run++) { /* in the second run, the lock of the first is gone */
        a = start(come_and_go, 2, 0);
        b = start(come_and_go, 2, 1);
        cr_expect(eq(int, end_of(b), 0));
        cr_expect(eq(int, end_of(a), 0));
    }
    close_place();
}

static int be_late(struct meeting *m, uint32_t index)
{
    uint32_t who;

    if (index == 1)
        return 0;
    if (meeting_come(m, in_seconds(1), &who) != -ETIMEDOUT)
        return 1;
    return meeting_has_come(m, 0) && !meeting_has_come(m, 1) && meeting_has_come(m, 2) ? 0 : 2;
}

Test(meeting, late_instances_are_identified)
{
    make(3);
    all_do(be_late, 3);
    close_place();
}

static int begin_anew(struct meeting *m, uint32_t index)
{
    struct plenum_error err;
    uint32_t who;

    if (meeting_come(m, 0, &who) != 0)
        return 1;
    if (index == 1) { /* as if the program had crashed and a script had restarted it */
        meeting_destroy(m);
        if (meeting_join(&(struct meeting_member){address, "job", 2, 1, false, NULL}, 0, &m, &err) <
            0)
            return 2;
    }
    return meeting_come(m, 0, &who) == -EPROTO && who == 1 - index ? 0 : 3;
}

Test(meeting, a_restarted_one_is_not_mistaken_for_its_predecessor)
{
    pid_t a, b;

    make(2);
    a = start(begin_anew, 2, 0);
    b = start(begin_anew, 2, 1);
    cr_expect(eq(int, end_of(a), 0));
    cr_expect(eq(int, end_of(b), 0));
    close_place();
}

static int stay(struct meeting *m, uint32_t index)
{
    (void)m;
    (void)index;
    (void)atomic_fetch_add(met, 1);
    pause();
    return 0;
}

static void refused(const char *at, const char *job, uint32_t count, const char *why)
{
    struct plenum_error err = {""};
    struct meeting *m = NULL;

    cr_expect(
        eq(int, meeting_join(&(struct meeting_member){at, job, count, 0, false, NULL}, 0, &m, &err),
           -ENOTSUP),
        "%s", why);
    cr_expect(strstr(err.text, why) != NULL, "'%s' does not say '%s'", err.text, why);
    cr_expect(m == NULL);
}

Test(meeting, addresses_of_other_jobs_are_rejected)
{
    char want[64];
    struct plenum_error err;
    struct meeting *m;
    pid_t pid;

    make(2);
    refused("/proc/1/fd/1", "job", 2, "plenumrun did not set this value");
    refused("unix:@plenum-nobody-there", "job", 2, "plenumrun is not running");
    refused(address, "job", 3, "to another job");
    refused(address, "another", 2, "to another job");
    if (getuid() == 0) {
        pid = fork();
        if (pid == 0) {
            if (setuid(65534) < 0)
                _exit(1);
            _exit(meeting_join(&(struct meeting_member){address, "job", 2, 0, false, NULL}, 0, &m,
                               &err) == -ENOTSUP &&
                          strstr(err.text, "belongs to another user")
                      ? 0
                      : 2);
        }
        cr_expect(eq(int, end_of(pid), 0));
    }

    pid = start(stay, 2, 0);
    while (*met < 1)
        (void)usleep(1000);
    (void)snprintf(want, sizeof(want), "process %d is already using the collectives of instance 0",
                   (int)pid);
    refused(address, "job", 2, want);
    (void)kill(pid, SIGKILL);
    (void)end_of(pid);
    cr_expect(
        eq(int,
           meeting_join(&(struct meeting_member){address, "job", 2, 0, false, NULL}, 0, &m, &err),
           0),
        "%s", err.text);
    meeting_destroy(m);
    close_place();
    meeting_server_destroy(NULL);
    meeting_destroy(NULL);
}

/* Plays another process that has bound the name, and answers once. */
static void answered(int memory, uint32_t version, const char *why)
{
    struct meeting_answer a = {.version = version};
    struct sockaddr_un to;
    struct iovec iov = {.iov_base = &a, .iov_len = sizeof(a)};
    union io_descriptor_room control;
    struct msghdr msg = {.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1};
    struct meeting_question q;
    struct address at;
    socklen_t len = sizeof(to);
    pid_t pid;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address, sizeof(address), "unix:@plenum-test-stranger-%d", (int)getpid());
    cr_assert(eq(int, address_parse(address, &at, NULL), 0));
    cr_assert(eq(int, bind(fd, (const void *)&at.un, at.len), 0));
    pid = fork();
    if (pid == 0) {
        refused(address, "job", 2, why);
        _exit(0);
    }
    cr_assert(eq(sz, (size_t)recvfrom(fd, &q, sizeof(q), 0, (void *)&to, &len), sizeof(q)));
    cr_expect(q.version == MEETING_LAYOUT && q.instances == 2 && q.index == 0);
    memcpy(a.magic, q.magic, sizeof(a.magic));
    msg.msg_namelen = len;
    if (memory >= 0)
        io_attach_descriptor(&msg, &control, memory);
    cr_assert(sendmsg(fd, &msg, 0) > 0);
    cr_expect(eq(int, end_of(pid), 0));
    (void)close(fd);
}

Test(meeting, unsuitable_memory_is_rejected)
{
    int fd = memfd_create("same-size", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    answered(-1, MEETING_LAYOUT + 1, "different versions");
    cr_assert(eq(int, ftruncate(fd, (off_t)meeting_bytes(3)), 0));
    answered(fd, MEETING_LAYOUT, "its memory does not have the size");
    cr_assert(eq(int, ftruncate(fd, (off_t)meeting_bytes(2)), 0));
    answered(fd, MEETING_LAYOUT,
             "its memory does not have the size"); /* because it could be made shorter */
    cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0));
    if (getuid() == 0) {
        cr_assert(eq(int, fchown(fd, 65534, 65534), 0));
        answered(fd, MEETING_LAYOUT, "belongs to another user");
    }
    (void)close(fd);
}

/* plenumrun closes any descriptor that the socket receives, and close() may block forever. */
Test(meeting, descriptors_cannot_be_sent)
{
    union io_descriptor_room control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t) "x", .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    enum { PASSRIGHTS = 83 };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    struct address at;

    if (setsockopt(fd, SOL_SOCKET, PASSRIGHTS, &on, sizeof(on)) < 0)
        cr_skip_test("before Linux 6.16 a socket cannot refuse descriptors");
    make(2);
    cr_assert(eq(int, address_parse(address, &at, NULL), 0));
    cr_assert(eq(int, connect(fd, (const void *)&at.un, at.len), 0));
    io_attach_descriptor(&msg, &control, fd);
    cr_expect(sendmsg(fd, &msg, 0) < 0 && errno == EPERM);
    cr_expect(eq(int, (int)send(fd, "x", 1, 0), 1));
    (void)close(fd);
    close_place();
}

/* By the time of the answer, a path could lead to another process's socket. */
Test(meeting, one_with_a_path_gets_no_answer)
{
    struct meeting_question q = {.version = MEETING_LAYOUT, .instances = 2, .job = "job"};
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct address at;

    make(2);
    memcpy(q.magic, meeting_magic, sizeof(q.magic));
    (void)snprintf(own.sun_path, sizeof(own.sun_path), "/tmp/plenum-test-%d", (int)getpid());
    cr_assert(eq(int, bind(fd, (const void *)&own, sizeof(own)), 0));
    cr_assert(eq(int, address_parse(address, &at, NULL), 0));
    cr_assert(eq(int, connect(fd, (const void *)&at.un, at.len), 0));
    cr_assert(eq(sz, (size_t)send(fd, &q, sizeof(q), 0), sizeof(q)));
    cr_expect(eq(int, poll(&p, 1, 300), 0));
    (void)unlink(own.sun_path);
    (void)close(fd);
    close_place();
}

Test(meeting, a_soft_limit_of_file_sizes_does_not_matter)
{
    struct rlimit limit;

    cr_assert(eq(int, getrlimit(RLIMIT_FSIZE, &limit), 0));
    limit.rlim_cur = 1024;
    cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
    make(2);
    all_do(come_and_go, 2);
    cr_expect(eq(int, getrlimit(RLIMIT_FSIZE, &limit), 0));
    cr_expect(eq(u64, limit.rlim_cur, 1024));
    close_place();
}

Test(meeting, a_hard_limit_of_file_sizes_is_reported_to_joiners)
{
    const struct rlimit limit = {1024, 1024};

    cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
    make(2); /* instances that do not join are unaffected */
    refused(address, "job", 2, "File too large (raise the limit on file sizes, ulimit -f)");
    close_place();
}

Test(meeting, waiting_for_an_answer_ends_at_the_time_limit)
{
    struct plenum_error err = {""};
    struct meeting *m;
    char name[32];

    (void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
    cr_assert(eq(int, meeting_server_create(name, "job", 2, &place, address, &err), 0));
    cr_expect(eq(int,
                 meeting_join(&(struct meeting_member){address, "job", 2, 0, false, NULL},
                              time_now_ns() + 50 * NS_PER_MS, &m, &err),
                 -ETIMEDOUT));
    meeting_server_dispatch(place); /* the requester is gone */
    meeting_server_destroy(place);
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/meeting.h"
#include "common/util.h"

static struct meeting *meeting; /* its maker's */
static char path[MEETING_PATH_MAX];

static const struct meeting_topic topic = {.what = 1, .bytes = 8};

/* What an instance does in a process of its own: what it returns is its exit status, 0 when all was well. */
typedef int (*instance)(struct meeting *m, uint32_t index);

static pid_t start(instance run, uint32_t count, uint32_t index)
{
    struct plenum_error err;
    struct meeting *m;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    (void)alarm(60);
    if (meeting_join(path, "job", count, index, &m, &err) < 0)
        _exit(100);
    _exit(run(m, index));
}

static int end_of(pid_t pid)
{
    int status;

    cr_assert(eq(int, waitpid(pid, &status, 0), pid));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void make(uint32_t count)
{
    cr_assert(eq(int, meeting_create("job", count, &meeting, path), 0));
}

static uint64_t in_seconds(unsigned seconds)
{
    return time_now_ns() + seconds * NS_PER_SEC;
}

enum { MANY = 5, TURNS = 2000 };

/* Each turn, everybody finds what everybody wrote for that turn, however far ahead others are. */
static int exchange(struct meeting *m, uint32_t index)
{
    unsigned random = index + 1;
    uint32_t who;

    for (uint64_t turn = 0; turn < TURNS; turn++) {
        unsigned char *rooms = meeting_take_turn(m);
        uint64_t mine = turn * MANY + index, theirs;

        memcpy(rooms + index * MEETING_ROOM_BYTES, &mine, sizeof(mine));
        if (meeting_come(m, &topic, 0, &who) != 0)
            return 1;
        if ((random = random * 1103515245 + 12345) >> 24 == 0)
            (void)usleep(random >> 12 & 0xfff);
        for (uint32_t i = 0; i < MANY; i++) {
            memcpy(&theirs, rooms + i * MEETING_ROOM_BYTES, sizeof(theirs));
            if (theirs != turn * MANY + i)
                return 2;
        }
    }
    return 0;
}

Test(meeting, what_was_written_is_seen_by_all)
{
    pid_t pids[MANY];

    make(MANY);
    for (int run = 0; run < 2; run++) { /* again by another program of the same instances, as of a script */
        for (uint32_t i = 0; i < MANY; i++)
            pids[i] = start(exchange, MANY, i);
        for (uint32_t i = 0; i < MANY; i++)
            cr_expect(eq(int, end_of(pids[i]), 0), "instance %u, run %d", i, run);
    }
    meeting_destroy(meeting);
}

static int come_twice(struct meeting *m, uint32_t index)
{
    uint32_t who;
    int r = meeting_come(m, &topic, 0, &who);

    if (r == 0 && index == 1)
        pause(); /* until it is killed */
    return r == 0 && meeting_come(m, &topic, 0, &who) == -EPIPE && who == 1 ? 0 : 1;
}

Test(meeting, one_that_is_killed_is_not_waited_for)
{
    pid_t pids[3];

    make(3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start(come_twice, 3, i);
    for (uint32_t i = 0; i < 3; i++)
        while (!meeting_has_come(meeting, i)) /* to the first round */
            (void)usleep(1000);
    cr_assert(eq(int, kill(pids[1], SIGKILL), 0));
    cr_expect(eq(int, end_of(pids[0]), 0));
    cr_expect(eq(int, end_of(pids[2]), 0));
    cr_expect(eq(int, end_of(pids[1]), 1000 + SIGKILL));
    meeting_destroy(meeting);
}

static int wait_for_one(struct meeting *m, uint32_t index)
{
    uint32_t who = 77;

    (void)index;
    return meeting_come(m, &topic, 0, &who) == -EPIPE && who == 1 ? 0 : 1;
}

Test(meeting, one_that_ended_without_a_word_is_not_waited_for)
{
    pid_t pid;

    make(2);
    pid = start(wait_for_one, 2, 0);
    (void)usleep(50000);
    meeting_note_end(meeting, 1);
    cr_expect(eq(int, end_of(pid), 0));
    meeting_note_end(NULL, 0);
    meeting_destroy(meeting);
}

static int come_and_go(struct meeting *m, uint32_t index)
{
    uint32_t who;

    if (index == 1)
        (void)usleep(700000); /* the others look for it several times */
    return meeting_come(m, &topic, 0, &who) == 0 ? 0 : 1;
}

Test(meeting, one_that_has_come_and_ended_has_come)
{
    pid_t a, b;

    make(2);
    for (int run = 0; run < 2; run++) { /* the second time, its lock of the first is gone */
        a = start(come_and_go, 2, 0);
        b = start(come_and_go, 2, 1);
        cr_expect(eq(int, end_of(b), 0));
        cr_expect(eq(int, end_of(a), 0));
    }
    meeting_destroy(meeting);
}

static int be_late(struct meeting *m, uint32_t index)
{
    uint32_t who;

    if (index == 1)
        return 0;
    if (meeting_come(m, &topic, in_seconds(1), &who) != -ETIMEDOUT)
        return 1;
    return meeting_has_come(m, 0) && !meeting_has_come(m, 1) && meeting_has_come(m, 2) ? 0 : 2;
}

Test(meeting, those_who_are_late_are_known)
{
    pid_t pids[3];

    make(3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start(be_late, 3, i);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect(eq(int, end_of(pids[i]), 0), "instance %u", i);
    meeting_destroy(meeting);
}

static int differ(struct meeting *m, uint32_t index)
{
    const struct meeting_topic mine = {.what = index == 2 ? 9 : 1, .bytes = 8};
    uint32_t who;

    if (meeting_come(m, &mine, 0, &who) != -EPROTO)
        return 1;
    return who == (index == 2 ? 0 : 2) && meeting_get_topic(m, who).what == (index == 2 ? 1 : 9)
               ? 0
               : 2;
}

Test(meeting, those_who_do_something_else_are_known)
{
    pid_t pids[3];

    make(3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = start(differ, 3, i);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect(eq(int, end_of(pids[i]), 0), "instance %u", i);
    meeting_destroy(meeting);
}

static int begin_anew(struct meeting *m, uint32_t index)
{
    struct plenum_error err;
    uint32_t who;

    if (meeting_come(m, &topic, 0, &who) != 0)
        return 1;
    if (index == 1) { /* as if its program had crashed, and a script had started it again */
        meeting_destroy(m);
        if (meeting_join(path, "job", 2, 1, &m, &err) < 0)
            return 2;
    }
    return meeting_come(m, &topic, 0, &who) == -EPROTO && who == 1 - index ? 0 : 3;
}

Test(meeting, one_that_begins_anew_is_not_taken_for_the_one_before)
{
    pid_t a, b;

    make(2);
    a = start(begin_anew, 2, 0);
    b = start(begin_anew, 2, 1);
    cr_expect(eq(int, end_of(a), 0));
    cr_expect(eq(int, end_of(b), 0));
    meeting_destroy(meeting);
}

static int stay(struct meeting *m, uint32_t index)
{
    (void)m;
    (void)index;
    pause();
    return 0;
}

static bool is_joined(uint32_t instance)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = instance, .l_len = 1};
    int fd = open(path, O_RDWR | O_CLOEXEC);

    cr_assert(eq(int, fcntl(fd, F_GETLK, &lock), 0));
    (void)close(fd);
    return lock.l_type != F_UNLCK;
}

static void refused(const char *at, const char *job, uint32_t count, const char *why)
{
    struct plenum_error err = {""};
    struct meeting *m = NULL;

    cr_expect(eq(int, meeting_join(at, job, count, 0, &m, &err), -ENOTSUP), "%s", why);
    cr_expect(strstr(err.text, why) != NULL, "'%s' does not say '%s'", err.text, why);
    cr_expect(m == NULL);
}

Test(meeting, what_is_not_ours_is_refused)
{
    char other[MEETING_PATH_MAX], want[64];
    struct plenum_error err;
    struct meeting *m;
    struct stat st;
    pid_t pid;
    int fd;

    make(2);
    refused("/nonexistent", "job", 2, "No such file");
    refused(path, "job", 3, "for a job of this size");
    refused(path, "another", 2, "of another job");
    cr_assert(eq(int, stat(path, &st), 0));
    cr_expect(eq(u32, st.st_mode & 0777, 0600));

    fd = memfd_create("same-size", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(eq(int, ftruncate(fd, st.st_size), 0));
    (void)snprintf(other, sizeof(other), "/proc/%d/fd/%d", (int)getpid(), fd);
    refused(other, "job", 2, "not what plenumrun makes"); /* it could be made shorter */
    cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0));
    refused(other, "job", 2, "different versions");
    if (getuid() == 0) {
        cr_assert(eq(int, fchown(fd, 65534, 65534), 0));
        refused(other, "job", 2, "belongs to another user");
    }
    (void)close(fd);

    pid = start(stay, 2, 0);
    while (!is_joined(0))
        (void)usleep(1000);
    (void)snprintf(want, sizeof(want), "process %d has the collectives of instance 0", (int)pid);
    refused(path, "job", 2, want);
    (void)kill(pid, SIGKILL);
    (void)end_of(pid);
    cr_expect(eq(int, meeting_join(path, "job", 2, 0, &m, &err), 0), "%s", err.text);
    meeting_destroy(m);
    meeting_destroy(meeting);
    meeting_destroy(NULL);
}

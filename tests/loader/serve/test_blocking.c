/* SPDX-License-Identifier: MIT */
/* Tests the threads for calls that may block and for closing descriptors; close() is wrapped. This
 * is a plain program, so that it also runs under ThreadSanitizer. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/serve/blocking.h"
#include "tests/tap.h"

enum { FDS = 4096, JOBS = 40 };

/* Descriptors whose close() hangs until it is released. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t change;
    bool slow[FDS];
    unsigned hanging, most, closed;
    pthread_t closer; /* the thread of the last close() */
} files = {.mu = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
    (void)pthread_mutex_lock(&files.mu);
    if (fd >= 0 && fd < FDS) {
        files.hanging += files.slow[fd];
        if (files.hanging > files.most)
            files.most = files.hanging;
        while (files.slow[fd])
            (void)pthread_cond_wait(&files.change, &files.mu);
        files.closed++;
        files.closer = pthread_self();
    }
    (void)pthread_mutex_unlock(&files.mu);
    return __real_close(fd);
}

static void let_go(void)
{
    (void)pthread_mutex_lock(&files.mu);
    memset(files.slow, 0, sizeof(files.slow));
    files.hanging = 0;
    (void)pthread_cond_broadcast(&files.change);
    (void)pthread_mutex_unlock(&files.mu);
}

static unsigned look(const unsigned *what)
{
    unsigned n;

    (void)pthread_mutex_lock(&files.mu);
    n = *what;
    (void)pthread_mutex_unlock(&files.mu);
    return n;
}

/* Returns whether the value becomes `n` within five minutes. */
static bool comes(const unsigned *what, unsigned n)
{
    for (unsigned i = 0; i < 300000 && look(what) != n; i++)
        (void)usleep(1000);
    return look(what) == n;
}

static int open_slow(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fd >= FDS)
        abort();
    (void)pthread_mutex_lock(&files.mu);
    files.slow[fd] = true;
    (void)pthread_mutex_unlock(&files.mu);
    return fd;
}

static uv_loop_t loop;
static struct blocking *blocking;

static void begin(void)
{
    files.closed = files.most = files.hanging = 0;
    (void)uv_loop_init(&loop);
    if (blocking_create(&loop, &blocking) < 0)
        abort();
}

static void finish(void)
{
    blocking_close(blocking);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    blocking_destroy(blocking);
    tap_ok(uv_loop_close(&loop) == 0, "nothing is left on the loop");
}

static void descriptors_that_hang_are_bounded(void)
{
    bool stuck = false, other;
    int fd;

    begin();
    for (unsigned i = 0; i < 100; i++)
        blocking_close_fd(blocking, 1, open_slow());
    for (unsigned i = 0; i < 300000 && !stuck; i++) {
        stuck = blocking_is_stuck(blocking, 1);
        (void)usleep(1000);
    }
    tap_ok(stuck && look(&files.most) <= 2,
           "a user whose jobs hang takes at most two threads, and counts as stuck: %u",
           look(&files.most));
    other = blocking_is_stuck(blocking, 2);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    blocking_close_fd(blocking, 2, fd);
    tap_ok(!other && comes(&files.closed, 1), "another user's descriptors are closed meanwhile");
    let_go();
    tap_ok(comes(&files.closed, 101) && !blocking_is_stuck(blocking, 1),
           "after the release, "
           "all descriptors are closed");
    finish();
}

static void wait_at_the_end(void)
{
    begin();
    for (unsigned i = 0; i < 10; i++)
        blocking_close_fd(blocking, 1, open_slow());
    (void)comes(&files.hanging, 2);
    let_go();
    finish();
    tap_ok(look(&files.closed) == 10, "no descriptor stays open at the end");
}

enum {
    WITH_FD = 1, /* a descriptor waits in the connection, besides bytes */
    RESET = 2,   /* the other end was closed with unread bytes */
};

/* Close a connection. Returns whether the loop's thread called close(). */
static bool is_closed_here(unsigned flags)
{
    union io_descriptor_room control;
    char text[9000] = "text";
    struct iovec iov = {text, sizeof(text)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int ends[2], fd = 0;
    bool here;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        abort();
    for (unsigned i = 0; i < 3; i++) {
        if (flags & WITH_FD && i == 2)
            io_attach_descriptor(&msg, &control, fd);
        if (sendmsg(ends[0], &msg, 0) < 0)
            abort();
    }
    if (flags & RESET) {
        if (write(ends[1], text, 1) != 1)
            abort();
        (void)close(ends[0]);
    }
    begin();
    blocking_close_connection(blocking, 1, ends[1]);
    (void)comes(&files.closed, 1);
    (void)pthread_mutex_lock(&files.mu);
    here = pthread_equal(files.closer, pthread_self());
    (void)pthread_mutex_unlock(&files.mu);
    finish();
    if (!(flags & RESET))
        (void)close(ends[0]);
    return here;
}

static void connections_go_at_once_where_nothing_can_hang(void)
{
    tap_ok(is_closed_here(0), "a connection in which bytes wait is closed at once");
    tap_ok(is_closed_here(RESET), "a connection whose other end has closed with bytes unread is "
                                  "closed at once");
    tap_ok(!is_closed_here(WITH_FD), "a connection in which a descriptor waits is closed in "
                                     "another thread");
    tap_ok(!is_closed_here(WITH_FD | RESET), "it is closed in another thread even if the other "
                                             "end has closed");
}

struct piece {
    struct blocking_job job;
    atomic_uint *inside, *most;
    bool worked;
};

static unsigned done;
static atomic_uint off_loop;

static void work(struct blocking_job *job)
{
    struct piece *p = container_of(job, struct piece, job);
    unsigned now = atomic_fetch_add(p->inside, 1) + 1, most = atomic_load(p->most);

    while (now > most && !atomic_compare_exchange_weak(p->most, &most, now))
        ;
    (void)usleep(1000);
    p->worked = true;
    (void)atomic_fetch_sub(p->inside, 1);
}

static void on_done(struct blocking_job *job)
{
    struct piece *p = container_of(job, struct piece, job);

    done += p->worked && job->code == 0;
}

static void on_off_loop(struct blocking_job *job)
{
    struct piece *p = container_of(job, struct piece, job);

    (void)atomic_fetch_add(&off_loop, p->worked && job->code == 0);
}

static struct piece pieces[4][JOBS];
static atomic_uint inside[4], most[4];

/* Submits jobs to one of four groups, in a thread for each group. */
static void *start_many(void *arg)
{
    static const char *const groups[] = {"a", "b", "c", "d"};
    unsigned group = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < JOBS; i++) {
        struct piece *p = &pieces[group][i];

        *p = (struct piece){.inside = &inside[group], .most = &most[group]};
        p->job = (struct blocking_job){.work = work,
                                       .done = group < 2 ? on_done : on_off_loop,
                                       .off_loop = group >= 2,
                                       .group = groups[group],
                                       .limit = group + 1};
        blocking_start(blocking, &p->job);
    }
    return NULL;
}

static void lanes_keep_their_limits(void)
{
    pthread_t ids[4];
    bool kept = true;

    begin();
    for (uintptr_t i = 0; i < 4; i++)
        (void)pthread_create(&ids[i], NULL, start_many, (void *)i);
    for (unsigned i = 0; i < 4; i++)
        (void)pthread_join(ids[i], NULL);
    while (done < 2 * JOBS || atomic_load(&off_loop) < 2 * JOBS)
        if (done < 2 * JOBS)
            (void)uv_run(&loop, UV_RUN_ONCE);
        else
            (void)usleep(1000);
    for (unsigned i = 0; i < 4; i++)
        kept &= atomic_load(&most[i]) <= i + 1;
    tap_ok(kept, "a group never runs more jobs at once than it may");
    tap_ok(done == 2 * JOBS && atomic_load(&off_loop) == 2 * JOBS, "each job is done once");
    finish();
}

static void dropped_ones_are_not_done(void)
{
    unsigned dropped = 0, begun = 0;

    begin();
    done = 0;
    (void)start_many((void *)0);
    for (unsigned i = JOBS; i-- > 0;) {
        bool gone = blocking_cancel(&pieces[0][i].job);

        dropped += gone;
        begun += !gone;
    }
    while (done < begun)
        (void)uv_run(&loop, UV_RUN_ONCE);
    tap_ok(begun > 0 && dropped > 0 && done == begun, "waiting jobs can be dropped (%u)", dropped);
    finish();
}

int main(void)
{
    descriptors_that_hang_are_bounded();
    wait_at_the_end();
    connections_go_at_once_where_nothing_can_hang();
    lanes_keep_their_limits();
    dropped_ones_are_not_done();
    return tap_end();
}

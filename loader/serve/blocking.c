/* SPDX-License-Identifier: MIT */
/* blocking.c - runs calls that may block in threads. The loop never waits for them.
 *
 * A thread whose job has ended takes the oldest waiting job that may begin. This is usually one of
 * the same group, because other groups' jobs wait only because of their own limits. */
#include "config.h"

#include "loader/serve/blocking.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/net/frame.h"
#include "common/util/lock.h"
#include "common/util/util.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* older versions of glibc have no name for it */
#endif

enum {
    CLOSING_MAX = 2,          /* threads that close descriptors of one user */
    CLOSING_QUEUE = 64,       /* descriptors that may wait while these threads hang */
    CLOSING_QUEUE_MAX = 1024, /* descriptors that may wait in any case */
    HANG_MS = 1000,           /* a job that takes longer than this hangs */
    SIGNAL_MS = 10,           /* interval between signals to a closing thread */
};

struct blocking {
    uv_async_t finished;
    /* Any thread, with mu held. */
    struct lock mu;
    pthread_cond_t ended;
    struct list waiting; /* oldest first */
    struct list running;
    struct list reports; /* jobs whose done() the loop still has to call */
    unsigned threads;
    bool closed;
};

static struct blocking_job *job_of(struct list *link)
{
    return link ? container_of(link, struct blocking_job, link) : NULL;
}

/* Handle the end of a job, or one that could not begin. Call it with the lock held, which is
 * released while done() of an off-loop job runs. */
static void end(struct blocking *c, struct blocking_job *job)
{
    assert(lock_is_held(&c->mu));
    if (job->off_loop) {
        lock_release(&c->mu);
        job->done(job);
        lock_acquire(&c->mu);
        return;
    }
    list_add_last(&c->reports, &job->link);
    if (!c->closed)
        (void)uv_async_send(&c->finished);
}

/* Returns whether the group is below its limit. */
static bool may_begin(const struct blocking *c, const struct blocking_job *job)
{
    unsigned running = 0;

    assert(lock_is_held(&c->mu));
    for (struct list *at = list_first(&c->running); at; at = list_next(&c->running, at))
        running += strcmp(job_of(at)->group, job->group) == 0;
    return running < job->limit;
}

static void begin(struct blocking *c, struct blocking_job *job)
{
    assert(lock_is_held(&c->mu) && !job->started);
    job->started = true;
    job->began_ns = time_now_ns();
    list_add_first(&c->running, &job->link);
}

/* Begin the oldest waiting job that may begin. Returns NULL if there is none. */
static struct blocking_job *begin_waiting(struct blocking *c)
{
    struct list *at;

    assert(lock_is_held(&c->mu));
    at = list_first(&c->waiting);
    while (at && !may_begin(c, job_of(at)))
        at = list_next(&c->waiting, at);
    if (at) {
        list_remove(at);
        begin(c, job_of(at));
    }
    return job_of(at);
}

static void *thread_main(void *arg)
{
    struct blocking_job *job = arg, *next;
    struct blocking *c = job->blocking;

    lock_acquire(&c->mu);
    while (job) {
        lock_release(&c->mu);
        job->work(job);
        lock_acquire(&c->mu);
        list_remove(&job->link);
        next = c->closed ? NULL : begin_waiting(c);
        end(c, job);
        job = next;
    }
    assert(c->threads > 0);
    c->threads--;
    (void)pthread_cond_signal(&c->ended);
    lock_release(&c->mu);
    return NULL;
}

/* Do nothing: the signal only has to interrupt the kernel's wait in close_work(). */
static void on_signal(int signum)
{
    (void)signum;
}

static void on_finished(uv_async_t *handle)
{
    struct blocking *c = handle->data;
    struct blocking_job *job;

    do {
        lock_acquire(&c->mu);
        job = job_of(list_pop_first(&c->reports));
        lock_release(&c->mu);
        if (job)
            job->done(job);
    } while (job);
}

int blocking_create(uv_loop_t *loop, struct blocking **ret)
{
    const struct sigaction nothing = {.sa_handler = on_signal}; /* without SA_RESTART */
    struct blocking *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return -ENOMEM;
    lock_init(&c->mu);
    list_init(&c->waiting);
    list_init(&c->running);
    list_init(&c->reports);
    (void)pthread_cond_init(&c->ended, NULL);
    (void)sigaction(SIGRTMIN, &nothing, NULL);
    c->finished.data = c;
    r = uv_async_init(loop, &c->finished, on_finished);
    if (r < 0) {
        free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void blocking_close(struct blocking *blocking)
{
    if (!blocking)
        return;
    lock_acquire(&blocking->mu);
    blocking->closed = true;
    lock_release(&blocking->mu);
    uv_close((uv_handle_t *)&blocking->finished, NULL);
}

void blocking_destroy(struct blocking *blocking)
{
    struct blocking_job *job;

    if (!blocking)
        return;
    lock_acquire(&blocking->mu);
    while (blocking->threads > 0)
        lock_wait(&blocking->mu, &blocking->ended);
    assert(blocking->closed && list_is_empty(&blocking->running));
    lock_release(&blocking->mu);
    while ((job = job_of(list_pop_first(&blocking->reports))))
        job->done(job);
    while ((job = job_of(list_pop_first(&blocking->waiting)))) {
        job->code = -ECANCELED;
        job->done(job);
    }
    (void)pthread_cond_destroy(&blocking->ended);
    lock_fini(&blocking->mu);
    free(blocking);
}

void blocking_start(struct blocking *blocking, struct blocking_job *job)
{
    assert(job->work && job->done && job->group && job->limit > 0);
    job->blocking = blocking;
    job->code = 0;
    job->started = false;
    lock_acquire(&blocking->mu);
    if (blocking->closed || !may_begin(blocking, job)) {
        list_add_last(&blocking->waiting, &job->link);
    } else {
        begin(blocking, job);
        job->code = thread_start(NULL, thread_main, job);
        if (job->code < 0) {
            list_remove(&job->link);
            end(blocking, job);
        } else {
            blocking->threads++;
        }
    }
    lock_release(&blocking->mu);
}

bool blocking_cancel(struct blocking_job *job)
{
    struct blocking *c = job->blocking;
    bool begun;

    lock_acquire(&c->mu);
    begun = job->started;
    if (!begun)
        list_remove(&job->link);
    lock_release(&c->mu);
    return !begun;
}

bool blocking_has_begun(struct blocking_job *job)
{
    bool begun;

    lock_acquire(&job->blocking->mu);
    begun = job->started;
    lock_release(&job->blocking->mu);
    return begun;
}

/* ---- descriptors ---- */

struct closing {
    struct blocking_job job;
    int fd;
    char group[32];
};

/* Group names: for received descriptors, and for connections with descriptors in their queues. */
static const char received[] = "close", queued[] = "hang up";

static void name_group(char group[32], const char *what, uint64_t user)
{
    (void)snprintf(group, 32, "%s %" PRIu64, what, user);
}

static void close_one(int fd)
{
    /* A socket then closes without lingering; for other descriptors this call fails. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    (void)close(fd);
}

/* Start a timer that signals this thread at regular intervals, which interrupts waits in the
 * kernel. */
static int send_signals(timer_t *ret)
{
    const struct itimerspec often = {{0, SIGNAL_MS * (long)NS_PER_MS},
                                     {0, SIGNAL_MS * (long)NS_PER_MS}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};

    event.sigev_notify_thread_id = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, ret) < 0)
        return -errno;
    (void)timer_settime(*ret, 0, &often, NULL);
    return 0;
}

/* Close a descriptor, which may take long. When a unix socket is closed, the kernel closes the
 * descriptors in its queue, and those in their queues. For each socket among them it waits as long
 * as SO_LINGER requires, or until a signal arrives. We do not receive these descriptors first:
 * closing a received file makes the kernel notify its file system and wait for an answer, but
 * closing a file that was never received does not. */
static void close_work(struct blocking_job *job)
{
    struct closing *closing = container_of(job, struct closing, job);
    sigset_t signals, old;
    timer_t timer;
    int r = send_signals(&timer);

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGRTMIN);
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, &old);
    close_one(closing->fd);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r >= 0)
        (void)timer_delete(timer);
}

static void close_done(struct blocking_job *job)
{
    if (job->code < 0)
        close_work(job); /* blocking is better than leaving it open */
    free(container_of(job, struct closing, job));
}

static void close_off_loop(struct blocking *blocking, const char *what, uint64_t user, int fd)
{
    struct closing *closing = malloc(sizeof(*closing));

    if (!closing) {
        close_one(fd);
        return;
    }
    *closing = (struct closing){.fd = fd};
    name_group(closing->group, what, user);
    closing->job = (struct blocking_job){.work = close_work,
                                         .done = close_done,
                                         .off_loop = true,
                                         .group = closing->group,
                                         .limit = CLOSING_MAX};
    blocking_start(blocking, &closing->job);
}

void blocking_close_fd(struct blocking *blocking, uint64_t user, int fd)
{
    close_off_loop(blocking, received, user, fd);
}

void blocking_close_connection(struct blocking *blocking, uint64_t user, int fd)
{
    (void)shutdown(fd, SHUT_RDWR); /* no more data will arrive */
    if (frame_holds_fds(fd))
        close_off_loop(blocking, queued, user, fd);
    else
        close_one(fd);
}

bool blocking_is_stuck(struct blocking *blocking, uint64_t user)
{
    uint64_t now = time_now_ns();
    unsigned waiting = 0, hang = 0;
    char group[32];

    name_group(group, received, user);
    lock_acquire(&blocking->mu);
    for (struct list *at = list_first(&blocking->waiting); at;
         at = list_next(&blocking->waiting, at))
        waiting += strcmp(job_of(at)->group, group) == 0;
    for (struct list *at = list_first(&blocking->running); at;
         at = list_next(&blocking->running, at))
        hang += strcmp(job_of(at)->group, group) == 0 &&
                now > job_of(at)->began_ns + HANG_MS * NS_PER_MS;
    lock_release(&blocking->mu);
    return waiting > CLOSING_QUEUE_MAX || (waiting > CLOSING_QUEUE && hang == CLOSING_MAX);
}

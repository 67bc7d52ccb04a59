/* SPDX-License-Identifier: MIT */
/* chores.c - threads that may hang, as storage may; the loop never waits for one.
 *
 * A thread that has done its chore takes the next of the same lane: no other can begin then. */
#include "config.h"

#include "loader/serve/chores.h"

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

#include "common/frame.h"
#include "common/lock.h"
#include "common/util.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid /* older glibc has no name for it */
#endif

enum {
    CLOSING_MAX = 2,         /* threads that close descriptors of one user */
    CLOSING_LINE = 64,       /* that may wait while these hang */
    CLOSING_LINE_MAX = 1024, /* that may wait at all */
    PATIENCE_MS = 1000,      /* what takes longer hangs */
    NAG_MS = 10,             /* between signals to a thread that closes */
};

struct chores {
    uv_async_t finished;
    /* Any thread, holding mu. */
    struct lock mu;
    pthread_cond_t ended;
    struct list waiting; /* in line, the first first */
    struct list running;
    struct list over; /* that ended and the loop has not heard of */
    unsigned threads;
    bool closed;
};

static struct chore *chore_of(struct list *link)
{
    return link ? container_of(link, struct chore, link) : NULL;
}

/* It has ended, or never began. Holding the lock, which is let go for what is done aside. */
static void end(struct chores *c, struct chore *chore)
{
    assert(lock_is_held(&c->mu));
    if (chore->aside) {
        lock_release(&c->mu);
        chore->done(chore);
        lock_acquire(&c->mu);
        return;
    }
    list_add_last(&c->over, &chore->link);
    if (!c->closed)
        (void)uv_async_send(&c->finished);
}

/* Have as many of its lane begun as may? Holding the lock. */
static bool may_begin(const struct chores *c, const struct chore *chore)
{
    unsigned running = 0;

    assert(lock_is_held(&c->mu));
    for (struct list *at = list_first(&c->running); at; at = list_next(&c->running, at))
        running += strcmp(chore_of(at)->lane, chore->lane) == 0;
    return running < chore->limit;
}

/* Holding the lock. */
static void begin(struct chores *c, struct chore *chore)
{
    assert(lock_is_held(&c->mu) && !chore->started);
    chore->started = true;
    chore->began_ns = time_now_ns();
    list_add_first(&c->running, &chore->link);
}

/* The first in line that may begin, or NULL. Holding the lock. */
static struct chore *take_waiting(struct chores *c)
{
    struct list *at;

    assert(lock_is_held(&c->mu));
    at = list_first(&c->waiting);
    while (at && !may_begin(c, chore_of(at)))
        at = list_next(&c->waiting, at);
    if (at) {
        list_remove(at);
        begin(c, chore_of(at));
    }
    return chore_of(at);
}

static void *thread_main(void *arg)
{
    struct chore *chore = arg, *next;
    struct chores *c = chore->chores;

    lock_acquire(&c->mu);
    while (chore) {
        lock_release(&c->mu);
        chore->work(chore);
        lock_acquire(&c->mu);
        list_remove(&chore->link);
        next = c->closed ? NULL : take_waiting(c);
        end(c, chore);
        chore = next;
    }
    c->threads--;
    (void)pthread_cond_signal(&c->ended);
    lock_release(&c->mu);
    return NULL;
}

/* The signal that has the kernel wait no longer: close_work(). */
static void on_nag(int signum)
{
    (void)signum;
}

static void on_finished(uv_async_t *handle)
{
    struct chores *c = handle->data;
    struct chore *over;

    do {
        lock_acquire(&c->mu);
        over = chore_of(list_take_first(&c->over));
        lock_release(&c->mu);
        if (over)
            over->done(over);
    } while (over);
}

int chores_create(uv_loop_t *loop, struct chores **ret)
{
    const struct sigaction nothing = {.sa_handler = on_nag}; /* without SA_RESTART */
    struct chores *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return -ENOMEM;
    lock_init(&c->mu);
    list_init(&c->waiting);
    list_init(&c->running);
    list_init(&c->over);
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

void chores_close(struct chores *chores)
{
    if (!chores)
        return;
    lock_acquire(&chores->mu);
    chores->closed = true;
    lock_release(&chores->mu);
    uv_close((uv_handle_t *)&chores->finished, NULL);
}

void chores_destroy(struct chores *chores)
{
    struct chore *chore;

    if (!chores)
        return;
    lock_acquire(&chores->mu);
    while (chores->threads > 0)
        lock_wait(&chores->mu, &chores->ended);
    lock_release(&chores->mu);
    while ((chore = chore_of(list_take_first(&chores->over))))
        chore->done(chore);
    while ((chore = chore_of(list_take_first(&chores->waiting)))) {
        chore->code = -ECANCELED;
        chore->done(chore);
    }
    (void)pthread_cond_destroy(&chores->ended);
    lock_fini(&chores->mu);
    free(chores);
}

void chores_start(struct chores *chores, struct chore *chore)
{
    chore->chores = chores;
    chore->code = 0;
    chore->started = false;
    lock_acquire(&chores->mu);
    if (chores->closed || !may_begin(chores, chore)) {
        list_add_last(&chores->waiting, &chore->link);
    } else {
        begin(chores, chore);
        chore->code = thread_start(NULL, thread_main, chore);
        if (chore->code == 0) {
            chores->threads++;
        } else {
            list_remove(&chore->link);
            end(chores, chore);
        }
    }
    lock_release(&chores->mu);
}

bool chores_drop(struct chore *chore)
{
    struct chores *c = chore->chores;
    bool begun;

    lock_acquire(&c->mu);
    begun = chore->started;
    if (!begun)
        list_remove(&chore->link);
    lock_release(&c->mu);
    return !begun;
}

bool chores_has_begun(struct chore *chore)
{
    bool begun;

    lock_acquire(&chore->chores->mu);
    begun = chore->started;
    lock_release(&chore->chores->mu);
    return begun;
}

/* ---- descriptors ---- */

struct closing {
    struct chore chore;
    int fd;
    char lane[32];
};

/* Descriptors that we were given, and connections in whose queue there are some. */
static const char taken[] = "close", untaken[] = "hang up";

static void name_lane(char lane[32], const char *what, uint64_t user)
{
    (void)snprintf(lane, 32, "%s %" PRIu64, what, user);
}

static void close_one(int fd)
{
    /* Of a socket this leaves nothing to wait for; of anything else it fails. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    (void)close(fd);
}

/* From now on a signal comes to this thread again and again: the kernel does not go on waiting
 * then. */
static int nag(timer_t *ret)
{
    const struct itimerspec often = {{0, NAG_MS * (long)NS_PER_MS}, {0, NAG_MS * (long)NS_PER_MS}};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};

    event.sigev_notify_thread_id = gettid();
    if (timer_create(CLOCK_MONOTONIC, &event, ret) < 0)
        return -errno;
    (void)timer_settime(*ret, 0, &often, NULL);
    return 0;
}

/* What waits in the queue of a unix socket the kernel closes with it, and what waits in those, and
 * waits for each socket among them as SO_LINGER says, or until a signal comes. It is not taken out:
 * the kernel has a file system told of a descriptor that a process closes, and waits for its
 * answer, but not of one that nobody took. */
static void close_work(struct chore *chore)
{
    struct closing *closing = container_of(chore, struct closing, chore);
    sigset_t signals, old;
    timer_t timer;
    int r = nag(&timer);

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGRTMIN);
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, &old);
    close_one(closing->fd);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r == 0)
        (void)timer_delete(timer);
}

static void close_done(struct chore *chore)
{
    if (chore->code < 0)
        close_work(chore); /* rather wait than leave it open */
    free(container_of(chore, struct closing, chore));
}

static void close_aside(struct chores *chores, const char *what, uint64_t user, int fd)
{
    struct closing *closing = malloc(sizeof(*closing));

    if (!closing) {
        close_one(fd);
        return;
    }
    *closing = (struct closing){.fd = fd};
    name_lane(closing->lane, what, user);
    closing->chore = (struct chore){.work = close_work,
                                    .done = close_done,
                                    .aside = true,
                                    .lane = closing->lane,
                                    .limit = CLOSING_MAX};
    chores_start(chores, &closing->chore);
}

void chores_close_fd(struct chores *chores, uint64_t user, int fd)
{
    close_aside(chores, taken, user, fd);
}

void chores_close_connection(struct chores *chores, uint64_t user, int fd)
{
    (void)shutdown(fd, SHUT_RDWR); /* nothing comes any more */
    if (frame_holds_fds(fd))
        close_aside(chores, untaken, user, fd);
    else
        close_one(fd);
}

bool chores_is_stuck(struct chores *chores, uint64_t user)
{
    uint64_t now = time_now_ns();
    unsigned waiting = 0, hang = 0;
    char lane[32];

    name_lane(lane, taken, user);
    lock_acquire(&chores->mu);
    for (struct list *at = list_first(&chores->waiting); at; at = list_next(&chores->waiting, at))
        waiting += strcmp(chore_of(at)->lane, lane) == 0;
    for (struct list *at = list_first(&chores->running); at; at = list_next(&chores->running, at))
        hang += strcmp(chore_of(at)->lane, lane) == 0 &&
                now > chore_of(at)->began_ns + PATIENCE_MS * NS_PER_MS;
    lock_release(&chores->mu);
    return waiting > CLOSING_LINE_MAX || (waiting > CLOSING_LINE && hang == CLOSING_MAX);
}

/* SPDX-License-Identifier: MIT */
/* chores.c - threads that may hang, as storage may; the loop never waits for one.
 *
 * A thread that has done its chore takes the next of the same lane: no other can begin then. */
#include "config.h"

#include "loader/serve/chores.h"

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
    pthread_mutex_t mu;
    pthread_cond_t ended;
    struct chore *waiting; /* in line, the first first */
    struct chore *running;
    struct chore *over; /* that ended and the loop has not heard of */
    unsigned threads;
    bool closed;
};

static void lock(struct chores *c)
{
    (void)pthread_mutex_lock(&c->mu);
}

static void unlock(struct chores *c)
{
    (void)pthread_mutex_unlock(&c->mu);
}

/* It has ended, or never began. Holding the lock, which is let go for what is done aside. */
static void end(struct chores *c, struct chore *chore)
{
    if (chore->aside) {
        unlock(c);
        chore->done(chore);
        lock(c);
        return;
    }
    chore->next_over = c->over;
    c->over = chore;
    if (!c->closed)
        (void)uv_async_send(&c->finished);
}

static void unlink_chore(struct chore **at, const struct chore *chore)
{
    while (*at != chore)
        at = &(*at)->next;
    *at = chore->next;
}

/* Have as many of its lane begun as may? Holding the lock. */
static bool may_begin(const struct chores *c, const struct chore *chore)
{
    unsigned running = 0;

    for (const struct chore *other = c->running; other; other = other->next)
        running += strcmp(other->lane, chore->lane) == 0;
    return running < chore->limit;
}

/* Holding the lock. */
static void begin(struct chores *c, struct chore *chore)
{
    chore->started = true;
    chore->began_ns = time_now_ns();
    chore->next = c->running;
    c->running = chore;
}

/* The first in line that may begin, or NULL. Holding the lock. */
static struct chore *take_waiting(struct chores *c)
{
    struct chore *chore = c->waiting;

    while (chore && !may_begin(c, chore))
        chore = chore->next;
    if (chore) {
        unlink_chore(&c->waiting, chore);
        begin(c, chore);
    }
    return chore;
}

static void *thread_main(void *arg)
{
    struct chore *chore = arg, *next;
    struct chores *c = chore->chores;

    lock(c);
    while (chore) {
        unlock(c);
        chore->work(chore);
        lock(c);
        unlink_chore(&c->running, chore);
        next = c->closed ? NULL : take_waiting(c);
        end(c, chore);
        chore = next;
    }
    c->threads--;
    (void)pthread_cond_signal(&c->ended);
    unlock(c);
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

    lock(c);
    over = c->over;
    c->over = NULL;
    unlock(c);
    while (over) {
        struct chore *chore = over;

        over = chore->next_over;
        chore->done(chore);
    }
}

int chores_create(uv_loop_t *loop, struct chores **ret)
{
    const struct sigaction nothing = {.sa_handler = on_nag}; /* without SA_RESTART */
    struct chores *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return -ENOMEM;
    (void)pthread_mutex_init(&c->mu, NULL);
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
    lock(chores);
    chores->closed = true;
    unlock(chores);
    uv_close((uv_handle_t *)&chores->finished, NULL);
}

void chores_destroy(struct chores *chores)
{
    struct chore *chore;

    if (!chores)
        return;
    lock(chores);
    while (chores->threads > 0)
        (void)pthread_cond_wait(&chores->ended, &chores->mu);
    unlock(chores);
    while ((chore = chores->over)) {
        chores->over = chore->next_over;
        chore->done(chore);
    }
    while ((chore = chores->waiting)) {
        chores->waiting = chore->next;
        chore->code = -ECANCELED;
        chore->done(chore);
    }
    (void)pthread_cond_destroy(&chores->ended);
    (void)pthread_mutex_destroy(&chores->mu);
    free(chores);
}

void chores_start(struct chores *chores, struct chore *chore)
{
    struct chore **last = &chores->waiting;

    chore->chores = chores;
    chore->code = 0;
    chore->next = NULL;
    chore->started = false;
    lock(chores);
    if (chores->closed || !may_begin(chores, chore)) {
        while (*last)
            last = &(*last)->next;
        *last = chore;
    } else {
        begin(chores, chore);
        chore->code = thread_start(NULL, thread_main, chore);
        if (chore->code == 0) {
            chores->threads++;
        } else {
            unlink_chore(&chores->running, chore);
            end(chores, chore);
        }
    }
    unlock(chores);
}

bool chores_drop(struct chore *chore)
{
    struct chores *c = chore->chores;
    bool begun;

    lock(c);
    begun = chore->started;
    if (!begun)
        unlink_chore(&c->waiting, chore);
    unlock(c);
    return !begun;
}

bool chores_has_begun(struct chore *chore)
{
    bool begun;

    lock(chore->chores);
    begun = chore->started;
    unlock(chore->chores);
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

/* From now on a signal comes to this thread again and again: the kernel does not go on waiting then. */
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

/* What waits in the queue of a unix socket the kernel closes with it, and what waits in those, and waits
 * for each socket among them as SO_LINGER says, or until a signal comes. It is not taken out: the
 * kernel has a file system told of a descriptor that a process closes, and waits for its answer, but not
 * of one that nobody took. */
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
    lock(chores);
    for (const struct chore *c = chores->waiting; c; c = c->next)
        waiting += strcmp(c->lane, lane) == 0;
    for (const struct chore *c = chores->running; c; c = c->next)
        hang += strcmp(c->lane, lane) == 0 && now > c->began_ns + PATIENCE_MS * NS_PER_MS;
    unlock(chores);
    return waiting > CLOSING_LINE_MAX || (waiting > CLOSING_LINE && hang == CLOSING_MAX);
}

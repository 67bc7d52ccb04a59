/* chores.c - threads that may hang, as storage may; the loop never waits for one. */
#include "config.h"

#include "loader/serve/chores.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct chores {
    uv_async_t finished;
    /* The loop's. */
    struct chore *waiting; /* in line, the first first */
    struct chore *running;
    /* Any thread, holding mu. */
    pthread_mutex_t mu;
    pthread_cond_t ended;
    struct chore *over; /* that ended and the loop has not heard of */
    unsigned threads;
    bool closed;
};

/* Holding the lock. */
static void end(struct chores *c, struct chore *chore)
{
    chore->next_over = c->over;
    c->over = chore;
    if (!c->closed)
        (void)uv_async_send(&c->finished);
}

static void *thread_main(void *arg)
{
    struct chore *chore = arg;
    struct chores *c = chore->chores;

    chore->work(chore);
    (void)pthread_mutex_lock(&c->mu);
    end(c, chore);
    c->threads--;
    (void)pthread_cond_signal(&c->ended);
    (void)pthread_mutex_unlock(&c->mu);
    return NULL;
}

static int start_thread(struct chore *chore)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t id;
    int r;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
    r = -pthread_create(&id, &attr, thread_main, chore);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return r;
}

/* Have as many of its lane begun as may? */
static bool may_begin(const struct chores *c, const struct chore *chore)
{
    unsigned running = 0;

    for (const struct chore *other = c->running; other; other = other->next)
        running += strcmp(other->lane, chore->lane) == 0;
    return running < chore->limit;
}

static void begin(struct chores *c, struct chore *chore)
{
    chore->started = true;
    (void)pthread_mutex_lock(&c->mu);
    chore->code = start_thread(chore);
    if (chore->code < 0)
        end(c, chore);
    else
        c->threads++;
    (void)pthread_mutex_unlock(&c->mu);
}

/* All that may begin now. */
static void begin_waiting(struct chores *c)
{
    struct chore **at = &c->waiting, *chore;

    while ((chore = *at)) {
        if (!may_begin(c, chore)) {
            at = &chore->next;
            continue;
        }
        *at = chore->next;
        chore->next = c->running;
        c->running = chore;
        begin(c, chore);
    }
}

static void on_finished(uv_async_t *handle)
{
    struct chores *c = handle->data;
    struct chore *over, **at;

    (void)pthread_mutex_lock(&c->mu);
    over = c->over;
    c->over = NULL;
    (void)pthread_mutex_unlock(&c->mu);
    while (over) {
        struct chore *chore = over;

        over = chore->next_over;
        for (at = &c->running; *at != chore; at = &(*at)->next)
            ;
        *at = chore->next;
        chore->started = false;
        chore->done(chore);
    }
    begin_waiting(c);
}

int chores_create(uv_loop_t *loop, struct chores **ret)
{
    struct chores *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return -ENOMEM;
    (void)pthread_mutex_init(&c->mu, NULL);
    (void)pthread_cond_init(&c->ended, NULL);
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
    (void)pthread_mutex_lock(&chores->mu);
    chores->closed = true;
    (void)pthread_mutex_unlock(&chores->mu);
    uv_close((uv_handle_t *)&chores->finished, NULL);
}

/* None of them begins any more. */
static struct chore *pop(struct chore **list)
{
    struct chore *chore = *list;

    if (chore)
        *list = chore->next;
    return chore;
}

void chores_destroy(struct chores *chores)
{
    struct chore *chore;

    if (!chores)
        return;
    (void)pthread_mutex_lock(&chores->mu);
    while (chores->threads > 0)
        (void)pthread_cond_wait(&chores->ended, &chores->mu);
    (void)pthread_mutex_unlock(&chores->mu);
    while ((chore = pop(&chores->running)))
        chore->done(chore);
    while ((chore = pop(&chores->waiting))) {
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

    while (*last)
        last = &(*last)->next;
    chore->chores = chores;
    chore->code = 0;
    chore->next = NULL;
    *last = chore;
    begin_waiting(chores);
}

bool chores_drop(struct chore *chore)
{
    struct chore **at = &chore->chores->waiting;

    if (chore->started)
        return false;
    while (*at != chore)
        at = &(*at)->next;
    *at = chore->next;
    return true;
}

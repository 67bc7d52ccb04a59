#include "config.h"

#include "loader/serve/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

enum { PENDING_MAX = 1024, PATIENCE_MS = 1000 };

struct item {
    struct item *link;
    int fd;
};

/* A user for whom there is something to close: gone with its thread, when that has closed all. */
struct account {
    struct account *link;
    uint64_t user;
    struct item *first;
    unsigned pending;  /* with the one that is being closed */
    uint64_t began_ns; /* when that was begun */
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static struct account *accounts; /* holding mu */

static void close_one(int fd)
{
    /* Of a socket this leaves nothing to wait for; of anything else it fails. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    (void)close(fd);
}

static void *closer_main(void *arg)
{
    struct account *a = arg, **at;

    (void)pthread_mutex_lock(&mu);
    while (a->first) {
        struct item *item = a->first;

        a->first = item->link;
        a->began_ns = time_now_ns();
        (void)pthread_mutex_unlock(&mu);
        close_one(item->fd);
        free(item);
        (void)pthread_mutex_lock(&mu);
        a->pending--;
    }
    for (at = &accounts; *at != a; at = &(*at)->link)
        ;
    *at = a->link;
    (void)pthread_mutex_unlock(&mu);
    free(a);
    return NULL;
}

static int start_thread(struct account *a)
{
    pthread_attr_t attr;
    sigset_t all, old;
    pthread_t thread;
    int r = pthread_attr_init(&attr);

    if (r != 0)
        return -r;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the loop's */
    r = pthread_create(&thread, &attr, closer_main, a);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return -r;
}

static struct account *find(uint64_t user)
{
    struct account *a = accounts;

    while (a && a->user != user)
        a = a->link;
    return a;
}

/* Holding mu: false when there is no memory or no thread. */
static bool put(uint64_t user, struct item *item)
{
    struct account *a = find(user);

    if (a) {
        item->link = a->first;
        a->first = item;
        a->pending++;
        return true;
    }
    a = malloc(sizeof(*a));
    if (!a)
        return false;
    *a = (struct account){.link = accounts,
                          .user = user,
                          .first = item,
                          .pending = 1,
                          .began_ns = time_now_ns()};
    if (start_thread(a) < 0) {
        free(a);
        return false;
    }
    accounts = a;
    return true;
}

void closer_close(uint64_t user, int fd)
{
    struct item *item = malloc(sizeof(*item));
    bool done = false;

    if (item) {
        *item = (struct item){.fd = fd};
        (void)pthread_mutex_lock(&mu);
        done = put(user, item);
        (void)pthread_mutex_unlock(&mu);
    }
    if (done)
        return;
    free(item);
    close_one(fd); /* rather wait than leave it open */
}

bool closer_is_stuck(uint64_t user)
{
    const struct account *a;
    bool stuck;

    (void)pthread_mutex_lock(&mu);
    a = find(user);
    stuck = a && a->pending > PENDING_MAX && time_now_ns() > a->began_ns + PATIENCE_MS * NS_PER_MS;
    (void)pthread_mutex_unlock(&mu);
    return stuck;
}

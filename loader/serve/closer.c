#include "config.h"

#include "loader/serve/closer.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util.h"

enum {
    PENDING_MAX = 1024,
    PENDING_WORST = 2048, /* however fast they go */
    PATIENCE_MS = 1000,
    FDS_MAX = 253,     /* of a message, in the kernel */
    EMPTY_MAX = 1000,  /* more empty datagrams than a queue holds */
};

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

/* What waits in the queue of a unix socket, connections and descriptors, the kernel would close with it, and wait for as
 * long as each likes. So it is taken out first: a connection, or the descriptors of a message. How many are there? */
static unsigned take_inner(int fd, int inner[FDS_MAX])
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    char bytes[4096];
    int domain = 0;
    ssize_t n = 1;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof(domain)}) < 0 || domain != AF_UNIX)
        return 0;
    (void)shutdown(fd, SHUT_RDWR); /* nothing more comes, and nothing below waits */
    inner[0] = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (inner[0] >= 0)
        return 1;
    for (unsigned empty = 0; n >= 0 && empty < EMPTY_MAX; empty = n == 0 ? empty + 1 : 0) {
        struct iovec data = {.iov_base = bytes, .iov_len = sizeof(bytes)};
        struct msghdr m = {.msg_iov = &data,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof(control)};
        struct cmsghdr *c;

        n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        for (c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                memcpy(inner, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
                return (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            }
    }
    return 0;
}

static void *closer_main(void *arg)
{
    struct account *a = arg, **at;
    int inner[FDS_MAX];

    (void)pthread_mutex_lock(&mu);
    while (a->first) {
        struct item *item = a->first;
        unsigned n;

        a->first = item->link;
        a->began_ns = time_now_ns();
        (void)pthread_mutex_unlock(&mu);
        n = take_inner(item->fd, inner);
        if (n == 0) {
            close_one(item->fd);
            free(item);
        }
        (void)pthread_mutex_lock(&mu);
        if (n > 0) { /* these first, and then what else is in it */
            item->link = a->first;
            a->first = item;
            (void)pthread_mutex_unlock(&mu);
            for (unsigned i = 0; i < n; i++)
                closer_close(a->user, inner[i]);
            (void)pthread_mutex_lock(&mu);
        } else {
            a->pending--;
        }
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
    stuck = a && a->pending > PENDING_MAX &&
            (a->pending > PENDING_WORST || time_now_ns() > a->began_ns + PATIENCE_MS * NS_PER_MS);
    (void)pthread_mutex_unlock(&mu);
    return stuck;
}

/* SPDX-License-Identifier: MIT */
/* io.c - the library's only thread: it talks to loaders for all streams of the process.
 *
 * It starts with the first stream and ends with the last. It sleeps in epoll until a socket, the
 * clock or io_poke() wakes it. It blocks all signals, because they belong to the program.
 *
 * Some programs close all descriptors above 2, and may then open others, which get the same
 * numbers. Nothing wakes a thread that sleeps in an epoll that was closed. So the thread checks its
 * descriptors once a second. If they were closed, it fails all streams and uses no descriptor
 * again.
 *
 * Lock order: io.life, io.mu, then a stream's. The thread holds io.mu while it works, so when
 * io_remove() returns, the thread is no longer inside the stream.
 *
 * A forked child does not have this thread, and its descriptors must not make the loader believe
 * that the program is still alive. The child therefore closes its copies (pthread_atfork), and
 * every handle returns -ECHILD. */
#include "config.h"

#include "libdist/io.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/job/jobloader.h"
#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

enum { LOADER_GRACE_MS = 1000, EVENTS_MAX = 32, LOOK_MS = 1000 };

struct served {
    struct plenum_stream *stream;
    struct lock *lock;
    const struct io_calls *calls;
    struct served *next;
};

/* The loaders that this process keeps: one per address at which its streams found no loader. */
struct keeper {
    struct jobloader *loader;
    char address[sizeof(((struct address *)0)->text)];
    struct keeper *next;
};

static struct {
    /* Constant while the thread runs. */
    int epoll_fd, wake_fd;
    pthread_t thread;
    /* Held while the thread starts or ends; taken before mu. */
    struct lock life;
    bool running;
    /* Any thread, holding mu. */
    struct lock mu;
    bool stop;
    bool cut_off; /* the program has closed the thread's descriptors */
    pthread_cond_t stopped;
    struct served *served;
    struct keeper *keepers;
} io = {.epoll_fd = -1,
        .wake_fd = -1,
        .life = LOCK_INITIALIZER,
        .mu = LOCK_INITIALIZER,
        .stopped = PTHREAD_COND_INITIALIZER};

/* The tag of wake_fd in epoll; its address differs from every other tag. */
static char tag_wake;

static void in_child(void)
{
    io_close(&io.epoll_fd);
    io_close(&io.wake_fd);
    for (struct keeper *k = io.keepers; k; k = k->next)
        jobloader_forget(k->loader);
    for (struct served *s = io.served; s; s = s->next)
        s->calls->leave(s->stream);
    lock_init(&io.life);
    lock_init(&io.mu); /* held since before_fork(), like the streams' locks */
    io.stopped = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    io.running = false;
    io.served = NULL;
    io.keepers = NULL;
}

/* Take all locks before a fork, so that the child does not inherit half-done work. */
static void before_fork(void)
{
    lock_acquire(&io.mu);
    for (struct served *s = io.served; s; s = s->next)
        lock_acquire(s->lock);
}

static void in_parent(void)
{
    for (struct served *s = io.served; s; s = s->next)
        lock_release(s->lock);
    lock_release(&io.mu);
}

static void serve(void *tag)
{
    if (tag == &tag_wake) {
        io_event_clear(io.wake_fd);
        return;
    }
    for (struct keeper *k = io.keepers; k; k = k->next)
        if (k == tag) {
            jobloader_dispatch(k->loader);
            return;
        }
    for (struct served *s = io.served; s; s = s->next) {
        bool ours;

        lock_acquire(s->lock);
        ours = s->calls->ready(s->stream, tag);
        lock_release(s->lock);
        if (ours)
            return;
    }
}

static int watch(int op, int fd, void *tag, bool write)
{
    struct epoll_event ev = {.events = EPOLLIN | (write ? (unsigned)EPOLLOUT : 0U),
                             .data.ptr = tag};

    return epoll_ctl(io.epoll_fd, op, fd, &ev) < 0 ? -errno : 0;
}

static int keep(const struct jobloader_options *options, struct plenum_error *err)
{
    struct keeper *k = calloc(1, sizeof(*k));
    int r;

    if (!k)
        return error_set(err, -ENOMEM, "out of memory");
    r = jobloader_create(options, &k->loader, err);
    if (r < 0)
        goto fail;
    r = watch(EPOLL_CTL_ADD, jobloader_get_fd(k->loader), k, false);
    if (r < 0) {
        (void)error_set(err, r, "cannot watch the loader: %s", strerror(-r));
        goto fail;
    }
    (void)snprintf(k->address, sizeof(k->address), "%s", options->address);
    k->next = io.keepers;
    io.keepers = k;
    return 0;

fail:
    jobloader_destroy(k->loader, 0);
    free(k);
    return r;
}

int io_keep_loader(const char *address, bool all_cpus, struct plenum_error *err)
{
    static const char *const widened[] = {"--all-cpus", NULL};
    struct jobloader_options options = {.address = address, .args = all_cpus ? widened : NULL};

    assert(lock_is_held(&io.mu));
    for (const struct keeper *k = io.keepers; k; k = k->next)
        if (strcmp(k->address, options.address) == 0)
            return 0;
    return keep(&options, err);
}

/* Run the timers of all streams; returns the time of the next call. */
static uint64_t tick(bool jumped)
{
    uint64_t next = UINT64_MAX;

    for (struct served *s = io.served; s; s = s->next) {
        lock_acquire(s->lock);
        next = min_u64(next, s->calls->tick(s->stream, jumped));
        lock_release(s->lock);
    }
    return next;
}

static int timeout_until(uint64_t when_ns)
{
    uint64_t now = time_now_ns();

    if (when_ns <= now)
        return 0;
    return (int)min_u64((when_ns - now - 1) / NS_PER_MS + 1, LOOK_MS);
}

static void cut_off(void)
{
    assert(lock_is_held(&io.mu));
    io.cut_off = true;
    for (struct served *s = io.served; s; s = s->next) {
        lock_acquire(s->lock);
        s->calls->cut_off(s->stream);
        lock_release(s->lock);
    }
    while (!io.stop)
        lock_wait(&io.mu, &io.stopped);
}

static void *io_main(void *arg)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t next = 0;

    (void)arg;
    lock_acquire(&io.mu);
    while (!io.stop) {
        bool jumped, closed;
        int n;

        lock_release(&io.mu);
        n = epoll_wait(io.epoll_fd, events, EVENTS_MAX, timeout_until(next));
        closed = (n < 0 && errno != EINTR) || io_is_closed();
        lock_acquire(&io.mu);
        if (closed) {
            cut_off();
            break;
        }
        /* If the thread woke up long after its time, and nothing had arrived, this process was
         * stopped, and not its loaders. */
        jumped = next != UINT64_MAX && next > 0 && time_now_ns() > next + NS_PER_SEC;
        for (int i = 0; i < n; i++)
            serve(events[i].data.ptr);
        next = tick(jumped);
    }
    lock_release(&io.mu);
    return NULL;
}

static int start(struct plenum_error *err)
{
    static bool at_fork;
    int r;

    assert(lock_is_held(&io.life));
    if (!at_fork)
        at_fork = pthread_atfork(before_fork, in_parent, in_child) == 0;
    io.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    io.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (io.epoll_fd < 0 || io.wake_fd < 0) {
        r = -errno;
        goto fail;
    }
    r = watch(EPOLL_CTL_ADD, io.wake_fd, &tag_wake, false);
    if (r < 0)
        goto fail;
    io.stop = io.cut_off = false;
    r = thread_start(&io.thread, io_main, NULL);
    if (r < 0)
        goto fail;
    io.running = true;
    return 0;

fail:
    io_close(&io.epoll_fd);
    io_close(&io.wake_fd);
    return error_set(err, r, "cannot start the thread that talks to loaders: %s", strerror(-r));
}

int io_add(struct plenum_stream *s, struct lock *lock, const struct io_calls *calls,
           struct plenum_error *err)
{
    struct served *served = malloc(sizeof(*served));
    int r;

    if (!served)
        return error_set(err, -ENOMEM, "out of memory");
    lock_acquire(&io.life);
    if (!io.running && (r = start(err)) < 0)
        goto fail;
    lock_acquire(&io.mu);
    if (io.cut_off) {
        lock_release(&io.mu);
        r = error_set(err, -EIO, "%s", io_closed_sentence);
        goto fail;
    }
    *served = (struct served){.stream = s, .lock = lock, .calls = calls, .next = io.served};
    io.served = served;
    lock_release(&io.mu);
    io_poke();
    lock_release(&io.life);
    return 0;

fail:
    lock_release(&io.life);
    free(served);
    return r;
}

/* End the thread and the loaders that this process keeps, because the last stream is gone. Needs
 * io.life. */
static void stop(void)
{
    assert(lock_is_held(&io.life));
    lock_acquire(&io.mu);
    io.stop = true;
    (void)pthread_cond_signal(&io.stopped);
    lock_release(&io.mu);
    io_poke();
    (void)pthread_join(io.thread, NULL);
    for (struct keeper *k = io.keepers; k; k = io.keepers) {
        io.keepers = k->next;
        jobloader_destroy(k->loader, LOADER_GRACE_MS);
        free(k);
    }
    io.running = false;
    if (io.cut_off) { /* the program may have opened files with these numbers */
        io.epoll_fd = io.wake_fd = -1;
        return;
    }
    io_close(&io.epoll_fd);
    io_close(&io.wake_fd);
}

void io_remove(struct plenum_stream *s)
{
    struct served **at, *gone;

    lock_acquire(&io.life);
    lock_acquire(&io.mu);
    for (at = &io.served; (*at)->stream != s; at = &(*at)->next)
        ;
    gone = *at;
    *at = gone->next;
    lock_acquire(gone->lock);
    gone->calls->end(s);
    lock_release(gone->lock);
    lock_release(&io.mu);
    if (!io.served)
        stop();
    lock_release(&io.life);
    free(gone);
}

/* Returns whether `fd` is an anonymous inode, like epoll and eventfd: its mode has no file type. */
static bool is_anonymous(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

bool io_is_closed(void)
{
    return !is_anonymous(io.epoll_fd) || !is_anonymous(io.wake_fd);
}

const char io_closed_sentence[] =
    "the program has closed descriptors that libplenum had opened: close only its own";

void io_poke(void)
{
    if (is_anonymous(io.wake_fd)) /* otherwise 8 bytes would be written to a file of the program */
        io_event_set(io.wake_fd);
}

int io_watch(int fd, void *tag, bool write)
{
    int r = watch(EPOLL_CTL_MOD, fd, tag, write);

    return r == -ENOENT ? watch(EPOLL_CTL_ADD, fd, tag, write) : r;
}

void io_unwatch(int fd)
{
    (void)epoll_ctl(io.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

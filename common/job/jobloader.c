/* SPDX-License-Identifier: MIT */
/* jobloader.c - runs one plenumd for a job, on behalf of plenumrun's shim or of libplenum.
 *
 * The keeper binds an abstract socket named after the job. Binding elects the keeper among a host's
 * processes, and leaves nothing in a file system. (On a host that only runs loaders it is a TCP
 * socket.) plenumd starts when the first client connects, because until then it would only take
 * memory from the training program. It inherits the socket and that client. Clients that connect
 * while there is no loader wait in the socket's backlog: no client of this user is rejected.
 * Connections of other users are closed and start nothing.
 *
 * The status page has its own socket, which is bound, kept and inherited in the same way, so
 * its port stays the same whatever happens to the loader. Opening the page starts the loader, too.
 *
 *     none --a client waits--> starting --first heartbeat--> serving --death--> none ...
 *                                 |
 *                                 +--death--> starting, observed --death--> none: an error
 *
 * A socket pair ("lifeline") ties the two processes together: the loader ends when it reads
 * end-of-file from it, so it cannot outlive its keeper. After a first byte from the keeper, the
 * loader sends one byte per second as a heartbeat. When these stop, the loader hangs: it is killed
 * and replaced like one that has died. Time in which the keeper itself did not run does not count.
 * While the loader starts, its bytes report its progress (enum jobloader_phase), and the kernel
 * kills it together with its keeper (jobspawn.c).
 *
 * A loader that dies while it starts is restarted immediately, once, because it may have been
 * killed by hand. During the second start its exit is observed, and its standard error passes
 * through this process. If it dies again, waiting clients get the reason (signal, code, last
 * message) as the loader's ERROR, and so do those that connect before the next attempt. If it
 * starts slowly, clients get an answer, too: they retry, and can report what they wait for.
 *
 * The loader's parent is process 1 (or a subreaper). The keeper holds a pidfd, because the process
 * id may be reused. Without a pidfd, the process id is used only while the open lifeline shows that
 * the loader is alive. The loader inherits only standard error of the program's descriptors. */
#include "config.h"

#include "common/job/jobloader_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/job/jobspawn.h"
#include "common/job/waitstatus.h"
#include "common/net/address.h"
#include "common/net/refuser.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

enum {
    /* between a loader's death and its restart; doubled after each early death */
    BACKOFF_FIRST_MS = 50,
    BACKOFF_LAST_MS = 5000,
    SETTLED_MS = 10000, /* a loader that lived this long was not a failed start */
    /* seconds without a heartbeat that mean a hang; longer than clients wait for an answer */
    SILENT_MAX = 10,
    SLOW_MAX = 3,     /* seconds that a start may take before clients are notified */
    KILLED_MS = 1000, /* how long jobloader_destroy() waits for a killed loader, which may hang */
    EVENTS = 8,       /* events per epoll_wait(); enough for all descriptors */
    /* Points for early deaths in a row after which clients get an error: see strikes_for(). */
    STRIKES_MAX = 5,
};

#ifndef P_PIDFD /* glibc 2.36 */
#define P_PIDFD ((idtype_t)3)
#endif

static const char *const phases[] = {
    [JOBLOADER_SERVES] = "serves",
    [JOBLOADER_UNKNOWN] =
        "has not begun to run: its program file or one of its libraries is slow to load",
    [JOBLOADER_SETTINGS] = "is reading its settings",
    [JOBLOADER_PIXELS] = "is testing its decoders",
    [JOBLOADER_ROOTS] = "is checking the folders that it may serve",
    [JOBLOADER_TOPOLOGY] = "is reading the topology of this machine (hwloc, sched_getaffinity)",
    [JOBLOADER_THREADS] = "is starting its threads",
    [JOBLOADER_SOCKETS] = "is opening its sockets",
};

const char *jobloader_describe_phase(enum jobloader_phase phase)
{
    assert(phase < JOBLOADER_PHASES);
    return phases[phase];
}

char *jobloader_form_address(const char *job, char *text, size_t size)
{
    (void)snprintf(text, size, "unix:@plenum-%u-%s", (unsigned)geteuid(), job);
    return text;
}

static int watch(struct jobloader *l, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void unwatch(struct jobloader *l, int fd)
{
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int copy_arg(struct jobloader *l, const char *arg)
{
    if (l->num_args == JOBLOADER_ARGS_MAX)
        return -E2BIG;
    if (!(l->args[l->num_args] = strdup(arg)))
        return -ENOMEM;
    l->num_args++;
    return 0;
}

static int copy_args(struct jobloader *l, const char *const *args)
{
    static const char *const own[] = {"plenumd",    "--job", "--listen-fd", "3",
                                      "--leash-fd", "4",     "--start-fd",  "5"};
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(own) && r == 0; i++)
        r = copy_arg(l, own[i]);
    for (size_t i = 0; args && args[i] && r == 0; i++)
        r = copy_arg(l, args[i]);
    return r;
}

static int open_page(struct jobloader *l, const char *where, struct plenum_error *err)
{
    struct address address;
    int r = address_parse_listen(where, &address, err);

    if (r < 0)
        return r;
    l->page_fd = address_listen(&address, 0, NULL);
    if (l->page_fd < 0)
        return error_set(err, l->page_fd,
                         "the status page cannot be served at %s: %s; choose another port, or 0 "
                         "for any free one",
                         where, strerror(-l->page_fd));
    r = watch(l, l->page_fd);
    return r < 0 ? error_set(err, r, "cannot wait for connections to the status page at %s: %s",
                             where, strerror(-r))
                 : 0;
}

static int open_refuser(struct jobloader *l, struct tls *tls)
{
    int r = refuser_create(tls, &l->refuser);

    return r < 0 ? r : watch(l, refuser_get_fd(l->refuser));
}

int jobloader_create(const struct jobloader_options *options, struct jobloader **ret,
                     struct plenum_error *err)
{
    struct jobloader *l;
    struct address address;
    char program[1024];
    int r;

    r = strncmp(options->address, "unix:", 5) == 0
            ? address_parse(options->address, &address, err)
            : address_parse_listen(options->address, &address, err);
    if (r < 0)
        return r;
    if (!options->plenumd) {
        r = jobloader_find_program(program, sizeof(program), err);
        if (r < 0)
            return r;
    }
    l = malloc(sizeof(*l));
    if (!l)
        return error_set(err, -ENOMEM, "out of memory");
    *l = (struct jobloader){.report = options->report,
                            .report_arg = options->report_arg,
                            .tcp = address.tcp,
                            .reports_ends = options->reports_ends,
                            .listen_fd = -1,
                            .page_fd = -1,
                            .client_fd = -1,
                            .epoll_fd = -1,
                            .timer_fd = -1,
                            .spare_fd = -1,
                            .lifeline = -1,
                            .leash = -1,
                            .text_fd = -1,
                            .pidfd = -1,
                            .dying = -1,
                            .backoff_ms = BACKOFF_FIRST_MS};
    (void)snprintf(l->host, sizeof(l->host), "%s", options->host ? options->host : "");
    l->plenumd = strdup(options->plenumd ? options->plenumd : program);
    r = l->plenumd ? copy_args(l, options->args) : -ENOMEM;
    if (r < 0) {
        (void)error_set(err, r, "cannot keep the loader's arguments: %s", strerror(-r));
        goto fail;
    }
    l->listen_fd = address_listen(&address, 0600, err);
    if (l->listen_fd < 0) {
        r = l->listen_fd;
        goto fail;
    }
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* stays -1 without /dev */
    if (l->epoll_fd < 0 || l->timer_fd < 0) {
        r = -errno;
        (void)error_set(err, r, "cannot watch the loader: %s", strerror(-r));
        goto fail;
    }
    r = watch(l, l->listen_fd);
    if (r == 0)
        r = watch(l, l->timer_fd);
    if (r == 0 && options->tls)
        r = open_refuser(l, options->tls);
    if (r < 0) {
        (void)error_set(err, r, "cannot watch the loader: %s", strerror(-r));
        goto fail;
    }
    if (options->page_address && (r = open_page(l, options->page_address, err)) < 0)
        goto fail;
    *ret = l;
    return 0;

fail:
    jobloader_destroy(l, 0);
    return r;
}

int jobloader_get_fd(const struct jobloader *loader)
{
    return loader->epoll_fd;
}

char *jobloader_get_address(const struct jobloader *loader, char *text, size_t size)
{
    return address_of_socket(loader->listen_fd, text, size);
}

char *jobloader_get_page(const struct jobloader *loader, char *text, size_t size)
{
    char at[64];

    if (loader->page_fd < 0)
        (void)snprintf(text, size, "%s", "");
    else
        (void)snprintf(text, size, "http://%s/",
                       address_of_socket(loader->page_fd, at, sizeof(at)) + strlen("tcp:"));
    return text;
}

void jobloader_set_environment(struct jobloader *loader, char *const *environment)
{
    static const char name[] = "PLENUM_PLENUMD=";
    char *named = NULL;

    loader->environment = environment;
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, strlen(name)) == 0 && (*environment)[strlen(name)])
            named = strdup(*environment + strlen(name));
    if (!named)
        return;
    free(loader->plenumd);
    loader->plenumd = named;
}

pid_t jobloader_get_pid(const struct jobloader *loader)
{
    return loader->pid;
}

static void set_timer(struct jobloader *l, unsigned first_ms, unsigned every_ms)
{
    struct itimerspec t = {
        .it_value = {.tv_sec = first_ms / 1000, .tv_nsec = (long)(first_ms % 1000) * 1000000},
        .it_interval = {.tv_sec = every_ms / 1000, .tv_nsec = (long)(every_ms % 1000) * 1000000}};

    (void)timerfd_settime(l->timer_fd, 0, &t, NULL);
}

static void report(const struct jobloader *l, const char *text)
{
    if (l->report)
        l->report(l->report_arg, text);
}

/* ---- output of an observed loader ---- */

/* Keep the last non-empty line. */
static void keep_last(struct jobloader *l, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            l->last_complete = true;
            continue;
        }
        if (l->last_complete)
            l->last_len = 0;
        l->last_complete = false;
        if (l->last_len < sizeof(l->last) - 1)
            l->last[l->last_len++] = (unsigned char)text[i] < ' ' ? ' ' : text[i];
    }
    assert(l->last_len < sizeof(l->last));
    l->last[l->last_len] = '\0';
}

/* Forward text to our standard error, but only as much as it accepts without blocking, because that
 * would stall the program's streams. */
static void hand_on(const char *text, size_t len)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (poll(&fd, 1, 0) == 1 && (fd.revents & POLLOUT))
        (void)!write(STDERR_FILENO, text, len);
}

static void read_text(struct jobloader *l)
{
    char text[1024]; /* less than PIPE_BUF */
    ssize_t n;

    if (l->text_fd < 0)
        return;
    n = read(l->text_fd, text, sizeof(text));
    if (n > 0) {
        hand_on(text, (size_t)n);
        keep_last(l, text, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        unwatch(l, l->text_fd);
        io_close(&l->text_fd);
    }
}

/* Read what the loader left in the pipe when it ended. */
static void read_last_text(struct jobloader *l)
{
    enum { READS = 1024 };

    for (int i = 0; i < READS && l->text_fd >= 0; i++) {
        struct pollfd fd = {.fd = l->text_fd, .events = POLLIN};

        if (poll(&fd, 1, 0) != 1)
            return;
        read_text(l);
    }
}

/* ---- starting ---- */

/* The request for a start, with our ends of the socket pairs and of the pipe. */
struct loader_start {
    struct jobspawn_request request;
    struct jobspawn_process process;
    int lifeline, leash, text;
};

static void start_close_theirs(struct loader_start *t)
{
    io_close(&t->request.fds[JOBSPAWN_LIFELINE]);
    io_close(&t->request.fds[JOBSPAWN_LEASH]);
    io_close(&t->request.stderr_fd);
}

static void start_close(struct loader_start *t)
{
    start_close_theirs(t);
    io_close(&t->lifeline);
    io_close(&t->leash);
    io_close(&t->text);
}

static int open_pair(int *ours, int *theirs)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    *ours = pair[0];
    *theirs = pair[1];
    return 0;
}

static int open_text(int *ours, int *theirs)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ours = fds[0];
    *theirs = fds[1];
    return io_set_nonblock(fds[0]);
}

/* Add the arguments for optional descriptors. */
static void add_args(struct jobloader *l)
{
    static char page[] = "--http-fd", page_fd[] = "6", client[] = "--client-fd", client_fd[] = "7";
    size_t n = l->num_args;

    assert(JOBSPAWN_FIRST_FD + JOBSPAWN_PAGE == 6 && JOBSPAWN_FIRST_FD + JOBSPAWN_CLIENT == 7);
    if (l->page_fd >= 0) {
        l->args[n++] = page;
        l->args[n++] = page_fd;
    }
    if (l->client_fd >= 0) {
        l->args[n++] = client;
        l->args[n++] = client_fd;
    }
    assert(n < ARRAY_LEN(l->args));
    l->args[n] = NULL;
}

static int start_process(struct jobloader *l, struct loader_start *t, bool observed)
{
    int r, *fds = t->request.fds;

    add_args(l);
    *t = (struct loader_start){.request = {.program = l->plenumd,
                                           .args = l->args,
                                           .environment = l->environment,
                                           .fds = {[JOBSPAWN_LISTEN] = l->listen_fd,
                                                   [JOBSPAWN_LIFELINE] = -1,
                                                   [JOBSPAWN_LEASH] = -1,
                                                   [JOBSPAWN_PAGE] = l->page_fd,
                                                   [JOBSPAWN_CLIENT] = l->client_fd},
                                           .stderr_fd = -1},
                               .lifeline = -1,
                               .leash = -1,
                               .text = -1};
    if ((r = open_pair(&t->lifeline, &fds[JOBSPAWN_LIFELINE])) < 0 ||
        (r = open_pair(&t->leash, &fds[JOBSPAWN_LEASH])) < 0 ||
        (observed && (r = open_text(&t->text, &t->request.stderr_fd)) < 0))
        return r;
    r = observed ? jobspawn_observe(&t->request, &t->process, &l->observer) : -ENOTSUP;
    return r == -ENOTSUP ? jobspawn_start(&t->request, &t->process) : r;
}

/* Start the loader. Its end is observed if the last loader died early, or if ends are reported. */
static int spawn(struct jobloader *l)
{
    struct loader_start t;
    int r = start_process(l, &t, l->strikes > 0 || l->reports_ends);

    if (r < 0) {
        start_close(&t);
        return r;
    }
    start_close_theirs(&t);
    assert(l->pid == 0 && l->lifeline < 0);
    l->lifeline = t.lifeline;
    l->leash = t.leash;
    l->text_fd = t.text;
    l->pid = t.process.pid;
    l->pidfd = t.process.pidfd;
    l->beats = l->hung = l->ended = l->last_complete = false;
    l->last[0] = '\0';
    l->last_len = l->silent = 0;
    l->phase = JOBLOADER_UNKNOWN;
    l->started_ns = time_now_ns();
    (void)send(l->lifeline, "", 1, MSG_NOSIGNAL); /* requests heartbeats */
    (void)watch(l, l->lifeline);
    if (l->pidfd >= 0)
        (void)watch(l, l->pidfd);
    if (l->observer)
        (void)watch(l, jobspawn_observer_fd(l->observer));
    if (l->text_fd >= 0)
        (void)watch(l, l->text_fd);
    set_timer(l, 1000, 1000);
    return 0;
}

/* While there is no loader, watch for connections: the first one starts a loader. */
static void watch_sockets(struct jobloader *l)
{
    (void)watch(l, l->listen_fd);
    if (l->page_fd >= 0)
        (void)watch(l, l->page_fd);
}

static void unwatch_sockets(struct jobloader *l)
{
    unwatch(l, l->listen_fd);
    if (l->page_fd >= 0)
        unwatch(l, l->page_fd);
}

/* Schedule the next attempt, which is made if a client is still waiting then. Clients that connect
 * earlier get the error, if it is known. */
static void retry_later(struct jobloader *l)
{
    l->retry_ns = time_now_ns() + (uint64_t)l->backoff_ms * NS_PER_MS;
    set_timer(l, (unsigned)l->backoff_ms, 0);
    l->backoff_ms = l->backoff_ms * 2 > BACKOFF_LAST_MS ? BACKOFF_LAST_MS : l->backoff_ms * 2;
    if (l->failure[0])
        watch_sockets(l);
}

/* Record a failed start, report it if the reason is new, and answer the clients that wait. */
static void note_failure(struct jobloader *l, const char *text)
{
    bool again = strcmp(l->failure, text) == 0;

    (void)snprintf(l->failure, sizeof(l->failure), "%s", text);
    if (!again)
        report(l, text);
    jobloader_answer_clients(l, -ENOEXEC, text);
}

/* Returns the words between the program's name and the host's name. */
static const char *on_host(const struct jobloader *l)
{
    return l->host[0] ? " on host " : "";
}

static void note_no_start(struct jobloader *l, int r)
{
    char text[sizeof(l->failure)];

    (void)snprintf(text, sizeof(text), "the loader %s%s%s could not be started: %s%s", l->plenumd,
                   on_host(l), l->host, strerror(-r),
                   r == -EMFILE   ? "; this process needs more file descriptors (ulimit -n)"
                   : r == -EAGAIN ? "; this user cannot have more processes (ulimit -u)"
                                  : "");
    l->strikes = STRIKES_MAX;
    note_failure(l, text);
}

/* Start the loader for a client that waits. (If watching could not be stopped, a client of a
 * starting loader is reported once more.) */
static void start(struct jobloader *l)
{
    int r;

    if (l->pid != 0)
        return;
    if (l->failure[0] && time_now_ns() < l->retry_ns) {
        jobloader_answer_clients(l, -ENOEXEC, l->failure);
        return;
    }
    unwatch_sockets(l);
    r = spawn(l);
    if (r < 0) {
        note_no_start(l, r);
        retry_later(l);
    }
}

/* ---- the end ---- */

/* Reap a loader that process 1 inherited; until then, its process id stays in use. */
static void bury_by_number(struct jobloader *l)
{
    siginfo_t info = {.si_pid = 0};

    if (l->gone == 0)
        return;
    if (waitid(P_PID, (id_t)l->gone, &info, WEXITED | WNOHANG) < 0 || info.si_pid != 0)
        l->gone = 0;
}

/* Stop waiting for a killed loader, because it has ended or takes too long. */
static void bury(struct jobloader *l)
{
    siginfo_t info;

    bury_by_number(l);
    if (l->dying < 0)
        return;
    (void)waitid(P_PIDFD, (id_t)l->dying, &info, WEXITED | WNOHANG); /* in case we are its parent */
    unwatch(l, l->dying);
    io_close(&l->dying);
}

/* Has the loader closed its end of the lifeline? */
static bool lifeline_is_over(const struct jobloader *l)
{
    struct pollfd fd = {.fd = l->lifeline};

    return poll(&fd, 1, 0) == 1 && (fd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* Kill the loader; its process id is used only while the loader is known to be alive. */
static void kill_process(const struct jobloader *l)
{
    assert(l->pid > 0 && l->lifeline >= 0);
    if (l->pidfd >= 0 && syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0) == 0)
        return;
    if (!lifeline_is_over(l))
        (void)kill(l->pid, SIGKILL);
}

static void stop_observing(struct jobloader *l)
{
    if (l->observer)
        unwatch(l, jobspawn_observer_fd(l->observer));
    jobspawn_unobserve(l->observer);
    l->observer = NULL;
}

/* Describe in `ret` how the loader ended. `again`: it is being restarted. */
static void describe_end(struct jobloader *l, const int *wait_status, bool again, char *ret,
                         size_t size)
{
    char how[128] = "has ended";
    bool killed = wait_status && WIFSIGNALED(*wait_status) && WTERMSIG(*wait_status) == SIGKILL;

    if (wait_status)
        status_describe(*wait_status, how, sizeof(how));
    else if (l->hung)
        (void)snprintf(how, sizeof(how), "gave no sign of life for %d s and was killed",
                       SILENT_MAX);
    (void)snprintf(ret, size,
                   again      ? "the loader %s%s%s %s%s%s%s%s; it is being restarted"
                   : l->beats ? "the loader %s%s%s %s soon after it started%s%s%s%s"
                              : "the loader %s%s%s %s while it was starting%s%s%s%s",
                   l->plenumd, on_host(l), l->host, how,
                   killed ? ", by a user or because memory ran out (see dmesg)" : "",
                   l->last[0] ? "; its last message: " : "", l->last,
                   l->last[0] || wait_status || l->hung ? "" : "; its output probably says why");
}

/* Forget everything about the loader except its pidfd, which becomes readable at its end. */
static void forget_process(struct jobloader *l)
{
    unwatch(l, l->lifeline);
    io_close(&l->lifeline);
    io_close(&l->leash);
    if (l->text_fd >= 0)
        unwatch(l, l->text_fd);
    io_close(&l->text_fd);
    assert(l->dying < 0); /* buried */
    l->dying = l->pidfd;  /* still watched */
    if (l->pidfd < 0 && getpid() == 1)
        l->gone = l->pid;
    l->pidfd = -1;
    l->pid = 0;
}

/* Returns the points of a failed start: two in a row are enough to give up. But SIGKILL may come
 * from a person, or from a temporary shortage of memory, so it costs fewer points. */
static unsigned strikes_for(const struct jobloader *l, const int *wait_status)
{
    if (l->beats || (wait_status && WIFSIGNALED(*wait_status) && WTERMSIG(*wait_status) == SIGKILL))
        return 1;
    return wait_status ? 3 : 2;
}

/* Read the loader's progress and heartbeats. Returns 0, or -EPIPE if there will be no more. */
static int hear_bytes(struct jobloader *l)
{
    char bytes[64];
    ssize_t n = recv(l->lifeline, bytes, sizeof(bytes), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -EPIPE;
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] == JOBLOADER_SERVES) {
            l->beats = true;
            l->silent = 0;
            l->failure[0] = '\0';
            io_close(&l->client_fd); /* the loader has it */
        } else if (!l->beats && bytes[i] > 0 && bytes[i] < JOBLOADER_PHASES) {
            l->phase = (enum jobloader_phase)bytes[i];
        }
    }
    return 0;
}

/* Replace a loader that has ended or must be killed. `wait_status`: NULL if unknown. */
static void lose(struct jobloader *l, const int *wait_status)
{
    char text[sizeof(l->failure)];

    bury(l);
    kill_process(l);
    (void)hear_bytes(l);
    read_last_text(l);
    if (time_now_ns() - l->started_ns > SETTLED_MS * NS_PER_MS) {
        l->backoff_ms = BACKOFF_FIRST_MS;
        l->strikes = 0;
    } else {
        l->strikes += strikes_for(l, wait_status);
    }
    stop_observing(l);
    forget_process(l);
    if (l->strikes >= STRIKES_MAX) {
        describe_end(l, wait_status, false, text, sizeof(text));
        note_failure(l, text);
    } else if (l->reports_ends) {
        describe_end(l, wait_status, true, text, sizeof(text));
        report(l, text);
    }
    retry_later(l);
}

/* Handle the loader's end, or the closing of its descriptors. The wait status of an observed loader
 * arrives in a moment. */
static void note_end(struct jobloader *l)
{
    assert(l->pid > 0);
    if (!l->observer) {
        lose(l, NULL);
        return;
    }
    if (l->ended)
        return;
    l->ended = true;
    unwatch(l, l->lifeline);
    if (l->pidfd >= 0)
        unwatch(l, l->pidfd);
}

static void hear_observer(struct jobloader *l)
{
    int wait_status, r = jobspawn_get_status(l->observer, &wait_status);

    if (r != -EAGAIN)
        lose(l, r == 0 ? &wait_status : NULL);
}

static void hear(struct jobloader *l)
{
    if (hear_bytes(l) < 0)
        note_end(l);
}

/* Returns the loader's state as in proc(5): T means stopped by a signal, t by a debugger. */
static char get_state(pid_t pid)
{
    char path[64], text[512], *state;
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    io_close(&fd);
    text[len > 0 ? len : 0] = '\0';
    state = strrchr(text, ')'); /* "PID (NAME) STATE ...", and NAME may hold brackets */
    return state && state[1] == ' ' ? state[2] : '?';
}

static const char *describe_start(const struct jobloader *l, char text[64])
{
    char state = get_state(l->pid);

    if (state == 't')
        return "is stopped in a debugger: continue or detach there";
    if (state != 'T')
        return jobloader_describe_phase(l->phase);
    (void)snprintf(text, 64, "is stopped: resume it with kill -CONT %ld", (long)l->pid);
    return text;
}

/* Report to clients of a slow start what the loader is doing. */
static void tell_slow(struct jobloader *l)
{
    char text[sizeof(l->failure)], what[64];

    assert(l->pid > 0 && !l->beats);
    (void)snprintf(text, sizeof(text), "the loader %s%s%s has been starting for %.0f s: it %s",
                   l->plenumd, on_host(l), l->host,
                   (double)(time_now_ns() - l->started_ns) / (double)NS_PER_SEC,
                   describe_start(l, what));
    if (l->silent == SLOW_MAX)
        report(l, text);
    jobloader_answer_clients(l, -EINPROGRESS, text);
}

/* Handle the timer: a second of the loader's life has passed, or the pause after a death. Loading
 * plenumd from a file server can take longer. Time in which we were frozen counts as one second. */
static void tick(struct jobloader *l)
{
    uint64_t ticks;

    (void)!read(l->timer_fd, &ticks, sizeof(ticks));
    if (l->refuser)
        refuser_dispatch(l->refuser);
    if (l->pid == 0) {
        watch_sockets(l);
        if (l->client_fd >= 0)
            start(l);
        return;
    }
    l->silent++;
    if (!l->beats && l->silent >= SLOW_MAX)
        tell_slow(l);
    if (l->observer && !l->reports_ends && !l->ended &&
        time_now_ns() - l->started_ns > SETTLED_MS * NS_PER_MS)
        stop_observing(l);
    if (l->beats && l->silent > SILENT_MAX)
        l->hung = true;
    if (l->hung)
        lose(l, NULL);
}

static void serve_event(struct jobloader *l, int fd)
{
    bury_by_number(l);
    if (fd == l->page_fd || (fd == l->listen_fd && l->pid == 0 && jobloader_find_client(l)))
        start(l);
    else if (fd == l->listen_fd)
        return;
    else if (fd == l->timer_fd)
        tick(l);
    else if (l->refuser && fd == refuser_get_fd(l->refuser))
        refuser_dispatch(l->refuser);
    else if (fd == l->lifeline)
        hear(l);
    else if (fd == l->text_fd)
        read_text(l);
    else if (l->observer && fd == jobspawn_observer_fd(l->observer))
        hear_observer(l);
    else if (fd == l->pidfd)
        note_end(l);
    else
        bury(l);
}

void jobloader_dispatch(struct jobloader *loader)
{
    struct epoll_event ev;

    for (int i = 0; i < EVENTS && epoll_wait(loader->epoll_fd, &ev, 1, 0) == 1; i++)
        serve_event(loader, ev.data.fd);
}

void jobloader_forget(struct jobloader *loader)
{
    io_close(&loader->listen_fd);
    io_close(&loader->page_fd);
    io_close(&loader->client_fd);
    io_close(&loader->epoll_fd);
    io_close(&loader->timer_fd);
    io_close(&loader->spare_fd);
    io_close(&loader->lifeline);
    io_close(&loader->leash);
    io_close(&loader->text_fd);
    jobspawn_forget(loader->observer);
    io_close(&loader->pidfd);
    io_close(&loader->dying);
    loader->pid = 0;
}

/* Wait until the loader ends; without a pidfd, until it closes its end of the lifeline. */
static bool is_gone_within(const struct jobloader *l, int timeout_ms)
{
    uint64_t end = time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS, now;
    struct pollfd fd = {.fd = l->pidfd >= 0 ? l->pidfd : l->lifeline,
                        .events = l->pidfd >= 0 ? POLLIN : 0};

    while ((now = time_now_ns()) < end)
        if (poll(&fd, 1, (int)((end - now) / NS_PER_MS) + 1) == 1)
            return true;
    return false;
}

/* End the loader's process. A loader that does not serve yet has nothing to finish. */
static void end_process(struct jobloader *l, int grace_ms)
{
    siginfo_t info;

    bury(l);
    if (l->pid == 0)
        return;
    (void)shutdown(l->lifeline, SHUT_WR);
    if (!l->beats || !is_gone_within(l, grace_ms)) {
        kill_process(l);
        (void)is_gone_within(l, KILLED_MS);
    }
    read_last_text(l);
    stop_observing(l);
    if (l->pidfd >= 0)
        (void)waitid(P_PIDFD, (id_t)l->pidfd, &info, WEXITED | WNOHANG);
    else if (getpid() == 1)
        (void)waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOHANG);
}

void jobloader_destroy(struct jobloader *loader, int grace_ms)
{
    if (!loader)
        return;
    end_process(loader, grace_ms);
    refuser_destroy(loader->refuser);
    jobloader_forget(loader);
    for (size_t i = 0; i < loader->num_args; i++)
        free(loader->args[i]);
    free(loader->plenumd);
    free(loader);
}

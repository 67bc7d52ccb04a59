/* SPDX-License-Identifier: MIT */
/* inner.c - the inner shim: runs one instance's program, from its plan to its last line of output.
 *
 * One poll loop handles the control connection, the program's pipes, signals and the host's loader.
 * The states of the program:
 *
 *     no plan ──PLAN──> starting ──exec──> running ──exit──> sweeping ──> draining ──END──> gone
 *                          └─────fails─────────────────────────┘
 *
 * sweeping: processes that the program has left behind are killed. draining: data left in its pipes
 * is sent, as fast as plenumrun grants credit; the exit itself has already been reported.
 *
 * The program is ended (SIGTERM, then SIGKILL after the grace period) when plenumrun requests it,
 * when mpirun requests it and plenumrun does not decide otherwise within a second, and when
 * plenumrun is gone or silent. When the outer shim is gone, everything is killed at once, because
 * this process no longer has a guard. But mpirun gives processes that it asks to end one second,
 * which may be less than the grace period: an outer shim that disappears after it was asked to end
 * is not an emergency. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/departed.h"
#include "common/error.h"
#include "common/jobloader.h"
#include "common/log.h"
#include "common/memory.h"
#include "common/tls.h"
#include "common/util.h"
#include "launcher/shim/guard.h"

enum {
    CONNECT_MS = 15000, /* to reach plenumrun and to get its first answer */
    AGAIN_MS = 100,     /* before connecting again if the first connection was closed at once */
    BEAT_MS = 1000,
    FIRST_SILENCE_MS = 30000, /* until the plan sets another limit */
    TOLD_MS = 1000,           /* time for plenumrun to decide how to treat mpirun's request */
    LOOK_MS = 10,             /* between two looks at a tree that is being killed */
    LOADER_GRACE_MS = 2000,
};

/* ---- the end of the program ---- */

static void end_program(struct inner *a, uint64_t grace_ns, enum control_cause cause)
{
    uint64_t now = time_now_ns();

    if (!inner_is_running(a))
        return;
    if (a->cause == CONTROL_CAUSE_ITSELF)
        a->cause = cause;
    if (a->kill_at == UINT64_MAX) {
        child_signal(&a->child, SIGTERM);
        child_signal(&a->child, SIGCONT);
    }
    a->kill_at = min_u64(a->kill_at, now + min_u64(grace_ns, UINT64_MAX / 4));
}

static void note_exit(struct inner *a, int status, const struct rusage *usage)
{
    uint64_t now = time_now_ns();
    struct control_exited m = {
        .status = status,
        .cause = a->cause,
        .elapsed_ns = now - a->started_ns,
        .traceback_ns = a->traceback.began_ns ? now - a->traceback.began_ns : UINT64_MAX,
        .memory_kills = memory_count_kills() - a->memory_kills,
        .reached = departed_get_reached(a->departed),
        .user_ns = (uint64_t)usage->ru_utime.tv_sec * NS_PER_SEC +
                   (uint64_t)usage->ru_utime.tv_usec * 1000,
        .system_ns = (uint64_t)usage->ru_stime.tv_sec * NS_PER_SEC +
                     (uint64_t)usage->ru_stime.tv_usec * 1000,
        .max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024,
    };

    a->exited = true;
    a->kill_at = now; /* its leftover processes */
    io_close(&a->child.input);
    if (!a->failed)
        (void)control_put_exited(&a->conn.tx, &m);
}

/* Reap children: the program, and orphans that we have adopted. The loader's keeper reaps its
 * own. */
static void reap(struct inner *a)
{
    for (;;) {
        siginfo_t info = {0};
        struct rusage usage;
        int status;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (a->loader && info.si_pid == jobloader_get_pid(a->loader)) {
            jobloader_dispatch(a->loader);
            if (info.si_pid == jobloader_get_pid(a->loader))
                return; /* retried in a moment */
            continue;
        }
        if (wait4(info.si_pid, &status, WNOHANG, &usage) != info.si_pid)
            return;
        if (info.si_pid != a->child.pid)
            continue;
        if (!a->told_started) /* the report is complete now: did the start fail? */
            inner_read_report(a);
        inner_read_pipe(a, CONTROL_STDERR); /* its last output: a traceback? */
        note_exit(a, status, &usage);
    }
}

/* The program was stopped by a debugger, or by a user who forgets it. The job waits with it, and
 * plenumrun can report which instance it is waiting for. */
static void watch_stops(struct inner *a)
{
    siginfo_t info = {0};

    if (!inner_is_running(a) || a->kill_at != UINT64_MAX || a->suspended ||
        waitid(P_PID, (id_t)a->child.pid, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    if (info.si_code != CLD_STOPPED && !a->stopped)
        return;
    a->stopped = info.si_code == CLD_STOPPED;
    (void)control_put_number(&a->conn.tx, CONTROL_STOPPED,
                             a->stopped ? (uint64_t)info.si_status : 0);
}

static void sweep(struct inner *a, uint64_t now)
{
    if (a->swept || now < a->kill_at)
        return;
    if (a->tree.give_up_at == 0)
        child_signal(&a->child, SIGKILL); /* all of the group at once: none can fork away */
    a->swept = proctree_end(&a->tree, a->loader ? jobloader_get_pid(a->loader) : 0, now) &&
               (a->exited || now >= a->tree.give_up_at);
}

/* ---- the control connection ---- */

static void lose_control(struct inner *a)
{
    if (!a->connected)
        return;
    a->connected = false;
    for (int s = 0; s < CONTROL_STREAMS; s++) /* the program must not wait for a reader */
        lines_drop(&a->lines[s], lines_pending(&a->lines[s]));
    end_program(a, a->planned ? a->plan.grace_ns : 0, CONTROL_CAUSE_ASKED);
}

/* Forward a signal to the program, from the process `from`; 0: from plenumrun. */
static void hand_on(struct inner *a, int signal, pid_t from)
{
    if (signal <= 0 || signal >= NSIG || !inner_is_running(a))
        return;
    if (signals_may_hand_on(&a->handed, signal, from))
        child_signal(&a->child, signal);
}

static void handle_departed(struct inner *a, struct frame_reader *payload)
{
    struct control_departed m;

    if (control_get_departed(payload, &m) == 0)
        departed_note(a->departed, m.instance, m.reached);
    else
        lose_control(a);
}

static void handle_frame(struct inner *a, const struct frame_header *header,
                         struct frame_reader *payload)
{
    uint64_t number = 0;

    if ((header->type == CONTROL_CREDIT || header->type == CONTROL_SIGNAL ||
         header->type == CONTROL_TERMINATE || header->type == CONTROL_SUSPEND ||
         header->type == CONTROL_TOPOLOGY) &&
        control_get_number(payload, &number) < 0) {
        lose_control(a);
        return;
    }
    switch ((enum control_type)header->type) {
    case CONTROL_TOPOLOGY:
        inner_send_topology(a, number != 0);
        break;
    case CONTROL_PLAN:
        inner_handle_plan(a, payload);
        break;
    case CONTROL_CREDIT:
        a->in_flight -= min_u64(a->in_flight, number);
        break;
    case CONTROL_INPUT:
        inner_handle_input(a, payload);
        break;
    case CONTROL_SIGNAL:
        hand_on(a, (int)min_u64(number, NSIG), 0);
        break;
    case CONTROL_TERMINATE:
        a->told_at = UINT64_MAX;
        end_program(a, number, CONTROL_CAUSE_ASKED);
        break;
    case CONTROL_SUSPEND:
        a->suspended = number != 0;
        break;
    case CONTROL_DEPARTED:
        handle_departed(a, payload);
        break;
    case CONTROL_LEAVE:
        if (getppid() == a->outer)
            (void)kill(a->outer, GUARD_LEAVE_SIGNAL);
        break;
    case CONTROL_END:
        a->end = true;
        end_program(a, 0, CONTROL_CAUSE_ASKED); /* the job is over, though our program is running */
        break;
    default: /* BEAT: its arrival is its only information */
        break;
    }
}

/* Print for the reader of mpirun's output: there is no other connection yet. */
MESSAGE static void say_why(const struct inner *a, const char *why)
{
    char host[HOST_NAME_MAX_BYTES];

    host_get_name(host, sizeof(host));
    log_error("instance %u on host %s: %s", a->task->instance, host, why);
}

/* If strangers flood its port, plenumrun may have closed our connection to make room before it knew
 * that it was ours. */
static bool may_connect_again(const struct inner *a, int r)
{
    return !a->answered && !a->end && (r == -ECONNRESET || r == -EPIPE) &&
           time_now_ns() < a->connect_by;
}

static void break_control(struct inner *a, int r)
{
    if (may_connect_again(a, r)) {
        a->connected = false;
        a->again_at = time_now_ns() + AGAIN_MS * NS_PER_MS;
        return;
    }
    if (r == -EACCES && a->tls)
        say_why(a, "who answers in place of plenumrun does not have the job's key");
    else if (!a->answered && !a->end)
        say_why(a, "plenumrun closes each connection before it knows whose it is: do others "
                   "connect to it without end?");
    lose_control(a);
}

static void read_control(struct inner *a)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n = frame_conn_fill(&a->conn);
    int r;

    if (n == -EAGAIN)
        return;
    if (n < 0) {
        break_control(a, (int)n);
        return;
    }
    a->heard_ns = time_now_ns();
    while ((r = frame_conn_next(&a->conn, &header, &payload)) == 1) {
        a->answered = true;
        handle_frame(a, &header, &payload);
    }
    if (r < 0)
        break_control(a, r);
}

/* ---- the loop ---- */

static void handle_signals(struct inner *a)
{
    struct signalfd_siginfo info;

    while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue; /* reap() is called in any case */
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            hand_on(a, (int)info.ssi_signo, (pid_t)info.ssi_pid);
            continue;
        }
        if (info.ssi_signo != (uint32_t)GUARD_PARENT_SIGNAL) {
            if (!a->told) {
                (void)control_put_number(&a->conn.tx, CONTROL_TOLD,
                                         info.ssi_signo == (uint32_t)SHIM_ORPHAN_SIGNAL);
                a->told_at = time_now_ns() + TOLD_MS * NS_PER_MS;
            }
            a->told = true;
        } else if (getppid() != a->outer && !a->told) {
            end_program(a, 0, CONTROL_CAUSE_SHIM);
        }
    }
}

static int say_hello(struct inner *a)
{
    struct control_hello m;

    control_hello_init(&m);
    (void)snprintf(m.token, sizeof(m.token), "%s", a->task->token);
    m.instance = a->task->instance;
    m.local_index = a->task->local_index;
    m.pid = (uint32_t)getpid();
    m.free_port = a->task->instance == 0 ? host_find_free_port() : 0;
    if (a->loader)
        (void)snprintf(m.loader, sizeof(m.loader), "%s", a->loader_address);
    if (a->loader)
        (void)jobloader_get_page(a->loader, m.page, sizeof(m.page));
    host_get_name(m.host, sizeof(m.host));
    (void)snprintf(m.loader_error, sizeof(m.loader_error), "%s", a->loader_error);
    return control_put_hello(&a->conn.tx, &m);
}

static int open_control(struct inner *a)
{
    struct plenum_error err;
    uint64_t now;
    int fd, r;

    now = time_now_ns();
    fd = dial_connect(a->task->control,
                      now < a->connect_by ? (int)((a->connect_by - now) / NS_PER_MS) : 0, &err);
    if (fd < 0) {
        say_why(a, err.text);
        return fd;
    }
    a->connected = true;
    r = frame_conn_init(&a->conn, fd, CONTROL_MAX_PAYLOAD);
    if (r < 0) {
        say_why(a, strerror(-r));
        return r;
    }
    if (!a->task->encrypted)
        return 0;
    r = control_secure(a->task->token, true, &a->tls, &err);
    if (r < 0) {
        say_why(a, err.text);
        return r;
    }
    r = tls_carry(a->tls, fd, &a->conn.carrier);
    if (r < 0)
        say_why(a, strerror(-r));
    return r;
}

static void connect_again(struct inner *a)
{
    a->again_at = UINT64_MAX;
    frame_conn_fini(&a->conn);
    tls_destroy(a->tls);
    a->tls = NULL;
    if (open_control(a) < 0 || say_hello(a) < 0)
        lose_control(a);
    else
        a->heard_ns = time_now_ns();
}

static void do_what_is_due(struct inner *a, uint64_t now)
{
    uint64_t silence = a->planned ? a->plan.silence_ns : (uint64_t)FIRST_SILENCE_MS * NS_PER_MS;

    if (now >= a->again_at)
        connect_again(a);
    if (a->connected && !a->suspended && now > a->heard_ns + silence)
        lose_control(a);
    if (now >= a->told_at) {
        a->told_at = UINT64_MAX;
        end_program(a, a->planned ? a->plan.grace_ns : 0, CONTROL_CAUSE_MPIRUN);
        if (a->child.pid == 0)
            a->end = true; /* there will be no plan */
    }
    if (a->connected && now >= a->beat_at) {
        a->beat_at = now + BEAT_MS * NS_PER_MS;
        if (frame_conn_pending(&a->conn) < INNER_FRAME_BYTES)
            (void)control_put_empty(&a->conn.tx, CONTROL_BEAT);
    }
    sweep(a, now);
}

static int time_to_wait(const struct inner *a, uint64_t now)
{
    uint64_t next = a->connected ? a->beat_at : UINT64_MAX;

    next = min_u64(min_u64(next, a->told_at), a->again_at);
    for (int s = 0; s < CONTROL_STREAMS; s++)
        if (a->progress[s])
            next = min_u64(next, a->progress_at[s]);
    if (!a->swept)
        next = min_u64(next, now >= a->kill_at ? now + LOOK_MS * NS_PER_MS : a->kill_at);
    return next <= now ? 0 : (int)min_u64((next - now) / NS_PER_MS + 1, BEAT_MS);
}

static bool is_done(const struct inner *a)
{
    bool ended = a->child.pid == 0 || a->swept; /* or it was given up */

    return (a->end || (!a->connected && a->again_at == UINT64_MAX)) && ended;
}

enum { FD_SIGNAL, FD_CONTROL, FD_REPORT, FD_INPUT, FD_LOADER, FD_STREAMS, FDS = FD_STREAMS + 3 };

static void fill_fds(struct inner *a, struct pollfd fds[FDS])
{
    bool sending = a->connected && frame_conn_wants_write(&a->conn);

    fds[FD_SIGNAL] = (struct pollfd){.fd = a->signal_fd, .events = POLLIN};
    fds[FD_CONTROL] = (struct pollfd){.fd = a->connected ? a->conn.fd : -1,
                                      .events = (short)(POLLIN | (sending ? POLLOUT : 0))};
    fds[FD_REPORT] = (struct pollfd){.fd = a->child.report_fd, .events = POLLIN};
    fds[FD_INPUT] =
        (struct pollfd){.fd = a->input_len > 0 ? a->child.input : -1, .events = POLLOUT};
    /* Another instance of this host may get its plan first and connect to the loader. It waits
     * until our plan brings the loader's environment. */
    fds[FD_LOADER] = (struct pollfd){
        .fd = a->loader && a->environment ? jobloader_get_fd(a->loader) : -1, .events = POLLIN};
    for (int s = 0; s < CONTROL_STREAMS; s++)
        fds[FD_STREAMS + s] = (struct pollfd){
            .fd = lines_has_room(&a->lines[s]) ? *inner_pipe(a, s) : -1, .events = POLLIN};
}

/* We were stopped, perhaps with the whole job: plenumrun was not silent. */
static void forgive(struct inner *a)
{
    uint64_t gap = time_not_run(&a->turn_ns, time_now_ns(), BEAT_MS * NS_PER_MS);

    a->heard_ns += gap; /* may be slightly later than now */
    a->told_at = time_put_off(a->told_at, gap);
    a->kill_at = time_put_off(a->kill_at, gap);
}

static void run(struct inner *a)
{
    while (!is_done(a)) {
        uint64_t now = time_now_ns();
        struct pollfd fds[FDS];

        fill_fds(a, fds);
        if (poll(fds, FDS, time_to_wait(a, now)) < 0 && errno != EINTR)
            return;
        forgive(a);
        if (fds[FD_SIGNAL].revents)
            handle_signals(a);
        if (fds[FD_REPORT].revents)
            inner_read_report(a);
        reap(a);
        watch_stops(a);
        if (fds[FD_CONTROL].revents && a->connected)
            read_control(a);
        if (fds[FD_LOADER].revents)
            jobloader_dispatch(a->loader);
        inner_write_input(a);
        do_what_is_due(a, time_now_ns());
        for (int s = 0; s < CONTROL_STREAMS; s++) {
            if (fds[FD_STREAMS + s].revents || (a->swept && s != CONTROL_LOADER))
                inner_read_pipe(a, s);
            inner_send_lines(a, s);
            inner_send_progress(a, s, time_now_ns());
        }
        inner_finish_output(a);
        if (a->connected) {
            int r = frame_conn_flush(&a->conn);

            if (r < 0 && r != -EAGAIN)
                break_control(a, r);
        }
    }
}

/* ---- beginning and end ---- */

static void open_loader(struct inner *a)
{
    char page[32];
    struct jobloader_options options = {.address = a->loader_address};
    struct plenum_error err = {""};
    int fds[2];
    int r;

    if (!a->task->keep_loader || a->task->local_index != 0)
        return;
    (void)snprintf(page, sizeof(page), "127.0.0.1:%s", a->task->status_port);
    if (strcmp(a->task->status_port, "none") != 0)
        options.page_address = page;
    (void)jobloader_form_address(a->task->job, a->loader_address, sizeof(a->loader_address));
    r = jobloader_create(&options, &a->loader, &err);
    if (r < 0) {
        (void)snprintf(a->loader_error, sizeof(a->loader_error), "%s", err.text);
        return;
    }
    /* plenumd's output reaches us through the standard error that it inherits. */
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    (void)io_set_nonblock(fds[0]);
    (void)dup2(fds[1], STDOUT_FILENO);
    (void)dup2(fds[1], STDERR_FILENO);
    (void)close(fds[1]);
    a->loader_fd = fds[0];
}

static void close_loader(struct inner *a)
{
    if (!a->loader)
        return;
    jobloader_destroy(a->loader, LOADER_GRACE_MS);
    a->loader = NULL;
    /* Its last output, if there is credit for it. */
    inner_read_pipe(a, CONTROL_LOADER);
    io_close(&a->loader_fd);
    inner_send_lines(a, CONTROL_LOADER);
    if (a->connected)
        (void)frame_conn_flush(&a->conn);
}

static int open_signals(struct inner *a)
{
    const int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2,
                          /* real-time signals are not constants */
                          GUARD_PARENT_SIGNAL, SHIM_ORPHAN_SIGNAL};

    a->signal_fd = io_open_signals(wanted, ARRAY_LEN(wanted));
    return a->signal_fd < 0 ? a->signal_fd : 0;
}

int shim_inner(const struct shim_task *task, pid_t outer)
{
    static struct inner inner; /* large */
    struct inner *a = &inner;

    *a = (struct inner){
        .task = task,
        .outer = outer,
        .heard_ns = time_now_ns(),
        .connect_by = time_now_ns() + CONNECT_MS * NS_PER_MS,
        .again_at = UINT64_MAX,
        .told_at = UINT64_MAX,
        .kill_at = UINT64_MAX,
        .child = {.input = -1, .output = {-1, -1}, .report_fd = -1},
        .loader_fd = -1,
        .key_fd = -1,
    };
    /* mpirun signals the outer shim's process group: that must not reach us. */
    (void)setpgid(0, 0);
    if (open_signals(a) < 0 || proctree_adopt() < 0 ||
        proctree_follow(outer, GUARD_PARENT_SIGNAL) < 0)
        return 1;
    if (open_control(a) < 0)
        return 1;
    open_loader(a);
    if (say_hello(a) < 0)
        return 1;
    run(a);
    close_loader(a);
    environ_free(a->environment);
    departed_destroy(a->departed);
    io_close(&a->key_fd);
    frame_conn_fini(&a->conn);
    tls_destroy(a->tls);
    return a->end ? 0 : SHIM_LOST;
}

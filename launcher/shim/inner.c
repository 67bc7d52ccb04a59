/* SPDX-License-Identifier: MIT */
/* inner.c - the inner shim: runs one instance's program, from its plan to its last line of output.
 *
 * One poll loop handles the control connection, the program's pipes, signals and the host's loader.
 * The states of the program (enum inner_state):
 *
 *     WAITING ──PLAN──> STARTING ──exec──> RUNNING ──exit──> SWEEPING ──> DRAINING ──> DRAINED
 *        │                 └───────────cannot start─────────────┘             │
 *        └───────────────cannot fork──────────────────────────────────────────┘
 *
 * In SWEEPING, processes that the program has left behind are killed. In DRAINING, data that is
 * still in its pipes is sent, as fast as plenumrun grants credit; the exit itself has already been
 * reported.
 * This process ends when plenumrun sends END or is lost, and no process of the program is left.
 *
 * The program is ended (SIGTERM, then SIGKILL after the grace period) when plenumrun requests it,
 * when mpirun requests it and plenumrun does not decide otherwise within a second, and when
 * plenumrun is gone or silent. When the outer shim is gone, everything is killed at once, because
 * this process no longer has a guard. There is an exception: mpirun gives processes that it asks to
 * end only one second, which may be less than the grace period. So an outer shim that disappears
 * after it was asked to end is not an emergency. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <assert.h>
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

#include "common/job/departed.h"
#include "common/job/jobloader.h"
#include "common/job/stop_page.h"
#include "common/net/port_reserve.h"
#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "common/util/state.h"
#include "common/util/util.h"
#include "launcher/shim/guard.h"

enum {
    CONNECT_MS = 15000, /* time to reach plenumrun and get its first answer */
    AGAIN_MS = 100,     /* pause before connecting again, if plenumrun closed the connection */
    BEAT_MS = 1000,
    FIRST_SILENCE_MS = 30000, /* silence that is allowed until the plan sets another limit */
    TOLD_MS = 1000,           /* time for plenumrun to decide how to treat mpirun's request */
    LOOK_MS = 10,             /* between checks of a tree that is being killed */
    LOADER_GRACE_MS = 2000,
};

/* ---- states ---- */

static const struct state_row inner_states[INNER_STATES] = {
    [INNER_WAITING] = {"waiting", STATE(INNER_STARTING) | STATE(INNER_DRAINING)},
    [INNER_STARTING] = {"starting",
                        STATE(INNER_RUNNING) | STATE(INNER_SWEEPING) | STATE(INNER_DRAINING)},
    /* to DRAINING: the program exits although we had given up on it. */
    [INNER_RUNNING] = {"running", STATE(INNER_SWEEPING) | STATE(INNER_DRAINING)},
    [INNER_SWEEPING] = {"sweeping", STATE(INNER_DRAINING)},
    [INNER_DRAINING] = {"draining", STATE(INNER_DRAINED)},
    [INNER_DRAINED] = {"drained", 0},
};

static bool inner_holds(const void *object)
{
    const struct inner *in = object;
    bool forked = in->child.pid > 0;

    switch (in->state) {
    case INNER_WAITING:
        return !forked;
    case INNER_STARTING:
    case INNER_RUNNING:
        return forked && !in->failed;
    case INNER_SWEEPING:
        return forked && in->kill_at != UINT64_MAX;
    default:
        return forked || in->failed;
    }
}

static const struct state_machine inner_machine = {.name = "program of instance",
                                                   .states = inner_states,
                                                   .count = INNER_STATES,
                                                   .holds = inner_holds,
                                                   .trace = state_log};

/* Change the program's state. No other function writes it. */
void inner_move(struct inner *in, enum inner_state to)
{
    enum inner_state from = in->state;

    in->state = to;
    state_moved(&inner_machine, in, in->task->instance, from, to);
}

static const struct state_row link_states[LINK_STATES] = {
    [LINK_CLOSED] = {"closed", STATE(LINK_OPEN) | STATE(LINK_LOST)},
    [LINK_OPEN] = {"open", STATE(LINK_ANSWERED) | STATE(LINK_CLOSED) | STATE(LINK_LOST)},
    [LINK_ANSWERED] = {"answered", STATE(LINK_LOST)},
    [LINK_LOST] = {"lost", 0},
};

static const struct state_machine link_machine = {.name = "connection of instance",
                                                  .states = link_states,
                                                  .count = LINK_STATES,
                                                  .trace = state_log};

/* Change the connection's state. No other function writes it. */
static void link_move(struct inner *in, enum link_state to)
{
    enum link_state from = in->link;

    in->link = to;
    state_moved(&link_machine, in, in->task->instance, from, to);
}

/* ---- the end of the program ---- */

/* Returns whether the program has ended, although reap() has not seen it yet. */
static bool has_ended(const struct inner *in)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)in->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

static void end_program(struct inner *in, uint64_t grace_ns, enum control_cause cause)
{
    uint64_t now = time_now_ns();

    if (!inner_is_running(in) || has_ended(in))
        return;
    if (in->cause == CONTROL_CAUSE_ITSELF)
        in->cause = cause;
    if (in->kill_at == UINT64_MAX) {
        child_signal(&in->child, SIGTERM);
        child_signal(&in->child, SIGCONT);
    }
    in->kill_at = min_u64(in->kill_at, now + min_u64(grace_ns, UINT64_MAX / 4));
}

static void note_exit(struct inner *in, int status, const struct rusage *usage)
{
    uint64_t now = time_now_ns();
    struct control_exited m = {
        .status = status,
        .cause = in->cause,
        .elapsed_ns = now - in->started_ns,
        .traceback_ns = in->traceback.began_ns ? now - in->traceback.began_ns : UINT64_MAX,
        .memory_kills = memory_count_kills() - in->memory_kills,
        .reached = departed_get_reached(in->departed),
        .user_ns = (uint64_t)usage->ru_utime.tv_sec * NS_PER_SEC +
                   (uint64_t)usage->ru_utime.tv_usec * 1000,
        .system_ns = (uint64_t)usage->ru_stime.tv_sec * NS_PER_SEC +
                     (uint64_t)usage->ru_stime.tv_usec * 1000,
        .max_rss_bytes = (uint64_t)usage->ru_maxrss * 1024,
    };

    assert(inner_is_running(in));
    meeting_server_note_end(in->place, in->task->local_index);
    inner_look_at_stop(in, false); /* its last requests must precede its end */
    inner_end_stop(in, &m);
    in->kill_at = now; /* kill the processes that it left behind */
    inner_move(in, in->given_up ? INNER_DRAINING : INNER_SWEEPING);
    io_close(&in->child.input);
    if (!in->failed)
        (void)control_put_exited(&in->conn.tx, &m);
}

/* Reap children: the program, and orphans that we have adopted. jobloader_dispatch() reaps the
 * loader, and capture_poll() the process that reads stacks. */
static void reap(struct inner *in)
{
    for (;;) {
        siginfo_t info = {0};
        struct rusage usage;
        int status;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (in->loader && info.si_pid == jobloader_get_pid(in->loader)) {
            jobloader_dispatch(in->loader);
            if (info.si_pid == jobloader_get_pid(in->loader))
                return; /* retried in a moment */
            continue;
        }
        if (info.si_pid == in->stacks.pid) {
            inner_watch_progress(in, time_now_ns());
            if (info.si_pid == in->stacks.pid)
                capture_fini(&in->stacks);
            continue;
        }
        if (wait4(info.si_pid, &status, WNOHANG, &usage) != info.si_pid)
            return;
        if (info.si_pid != in->child.pid || !inner_is_running(in)) /* its number may be reused */
            continue;
        if (in->state == INNER_STARTING && !in->failed) /* the report is complete: did it fail? */
            inner_read_report(in);
        inner_read_pipe(in, CONTROL_STDERR); /* its last output: a traceback? */
        note_exit(in, status, &usage);
    }
}

/* Report when the program is stopped (by a debugger, or by a user) or continues. The job waits for
 * it, and plenumrun can then name the instance. */
static void watch_stops(struct inner *in)
{
    siginfo_t info = {0};

    if (!inner_is_running(in) || in->kill_at != UINT64_MAX || in->suspended ||
        waitid(P_PID, (id_t)in->child.pid, &info, WSTOPPED | WCONTINUED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return;
    if (info.si_code != CLD_STOPPED && !in->stopped)
        return;
    in->stopped = info.si_code == CLD_STOPPED;
    inner_note_stop(in, time_now_ns());
    (void)control_put_number(&in->conn.tx, CONTROL_STOPPED,
                             in->stopped ? (uint64_t)info.si_status : 0);
}

static void sweep(struct inner *in, uint64_t now)
{
    if (inner_is_swept(in) || now < in->kill_at)
        return;
    if (in->tree.give_up_at == 0)
        child_signal(&in->child, SIGKILL); /* kill the whole group at once: none can fork away */
    if (!proctree_end(&in->tree, in->loader ? jobloader_get_pid(in->loader) : 0, now))
        return;
    if (in->state == INNER_SWEEPING)
        inner_move(in, INNER_DRAINING);
    else
        in->given_up = now >= in->tree.give_up_at;
}

/* ---- the control connection ---- */

static void lose_control(struct inner *in)
{
    if (in->link == LINK_LOST)
        return;
    link_move(in, LINK_LOST);
    for (int s = 0; s < CONTROL_STREAMS; s++) /* the program must not wait for a reader */
        lines_drop(&in->lines[s], lines_pending(&in->lines[s]));
    end_program(in, in->plan.grace_ns, CONTROL_CAUSE_ASKED);
}

/* Send the program a signal that came from the process `from` (0: from plenumrun). */
static void hand_on(struct inner *in, int signal, pid_t from)
{
    if (signal <= 0 || signal >= NSIG || !inner_is_running(in))
        return;
    if (signals_may_hand_on(&in->handed, signal, from))
        child_signal(&in->child, signal);
}

/* Forward a signal that we have received. SIGUSR1 does not reach a program that calls
 * plenum_job_should_stop(): plenumrun makes all programs stop at the same step instead. */
static void pass_on(struct inner *in, int signal, pid_t from)
{
    if (signal == SIGUSR1 && inner_asks_to_stop(in))
        inner_notice_stop(in);
    else
        hand_on(in, signal, from);
}

static void handle_departed(struct inner *in, struct frame_reader *payload)
{
    struct control_departed m;

    if (control_get_departed(payload, &m) < 0) {
        lose_control(in);
        return;
    }
    for (uint32_t i = 0; i < 8 * m.len; i++)
        if (m.bits[i / 8] & 1 << i % 8)
            departed_note(in->departed, m.first + i, m.reached);
}

static void handle_frame(struct inner *in, const struct frame_header *header,
                         struct frame_reader *payload)
{
    uint64_t number = 0;

    if ((header->type == CONTROL_CREDIT || header->type == CONTROL_SIGNAL ||
         header->type == CONTROL_TERMINATE || header->type == CONTROL_SUSPEND ||
         header->type == CONTROL_TOPOLOGY) &&
        control_get_number(payload, &number) < 0) {
        lose_control(in);
        return;
    }
    switch ((enum control_type)header->type) {
    case CONTROL_TOPOLOGY:
        inner_send_topology(in, number != 0);
        break;
    case CONTROL_PLAN:
        inner_handle_plan(in, payload);
        break;
    case CONTROL_CREDIT:
        in->in_flight -= min_u64(in->in_flight, number);
        break;
    case CONTROL_INPUT:
        inner_handle_input(in, payload);
        break;
    case CONTROL_SIGNAL:
        hand_on(in, (int)min_u64(number, NSIG), 0);
        break;
    case CONTROL_TERMINATE:
        in->obey_at = UINT64_MAX;
        end_program(in, number, CONTROL_CAUSE_ASKED);
        break;
    case CONTROL_SUSPEND:
        in->suspended = number != 0;
        break;
    case CONTROL_DEPARTED:
        handle_departed(in, payload);
        break;
    case CONTROL_PROPOSE:
        if (inner_handle_propose(in, payload) < 0)
            lose_control(in);
        break;
    case CONTROL_DECIDE:
        if (inner_handle_decide(in, payload) < 0)
            lose_control(in);
        break;
    case CONTROL_LEAVE:
        if (getppid() == in->outer)
            (void)kill(in->outer, GUARD_LEAVE_SIGNAL);
        break;
    case CONTROL_END:
        in->end = true;
        end_program(in, 0,
                    CONTROL_CAUSE_ASKED); /* the job is over, although our program is running */
        break;
    default: /* BEAT: its arrival is its only information */
        break;
    }
}

/* Print a message to mpirun's output, because there is no connection to plenumrun. */
MESSAGE static void say_why(const struct inner *in, const char *why)
{
    char host[HOST_NAME_MAX_BYTES];

    host_get_name(host, sizeof(host));
    log_error("instance %u on host %s: %s", in->task->instance, host, why);
}

/* Returns whether we should connect again. If strangers flood its port, plenumrun may have closed
 * our connection to make room before it knew that the connection was ours. */
static bool may_connect_again(const struct inner *in, int r)
{
    return in->link == LINK_OPEN && !in->end && (r == -ECONNRESET || r == -EPIPE) &&
           time_now_ns() < in->connect_by;
}

static void break_control(struct inner *in, int r)
{
    if (may_connect_again(in, r)) {
        link_move(in, LINK_CLOSED);
        in->again_at = time_now_ns() + AGAIN_MS * NS_PER_MS;
        return;
    }
    if (r == -EACCES && in->tls)
        say_why(in, "a program that answers in place of plenumrun does not have the job's key");
    else if (in->link == LINK_OPEN && !in->end)
        say_why(in, "plenumrun closes each connection before the instance can identify itself: is "
                    "another program flooding it with connections?");
    lose_control(in);
}

static void read_control(struct inner *in)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n = frame_conn_fill(&in->conn);
    int r;

    if (n == -EAGAIN)
        return;
    if (n < 0) {
        break_control(in, (int)n);
        return;
    }
    assert(inner_is_connected(in));
    in->heard_ns = time_now_ns();
    while ((r = frame_conn_next(&in->conn, &header, &payload)) == 1) {
        if (in->link == LINK_OPEN)
            link_move(in, LINK_ANSWERED);
        handle_frame(in, &header, &payload);
    }
    if (r < 0)
        break_control(in, r);
}

/* ---- the loop ---- */

static void handle_signals(struct inner *in)
{
    struct signalfd_siginfo info;

    while (read(in->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue; /* reap() is called in any case */
        if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            pass_on(in, (int)info.ssi_signo, (pid_t)info.ssi_pid);
            continue;
        }
        if (info.ssi_signo != (uint32_t)GUARD_PARENT_SIGNAL) {
            if (!in->asked) {
                (void)control_put_number(&in->conn.tx, CONTROL_TOLD,
                                         info.ssi_signo == (uint32_t)SHIM_ORPHAN_SIGNAL);
                in->obey_at = time_now_ns() + TOLD_MS * NS_PER_MS;
            }
            in->asked = true;
        } else if (getppid() != in->outer && !in->asked) {
            end_program(in, 0, CONTROL_CAUSE_SHIM);
        }
    }
}

static int say_hello(struct inner *in)
{
    struct control_hello m;

    control_hello_init(&m);
    (void)snprintf(m.token, sizeof(m.token), "%s", in->task->token);
    m.instance = in->task->instance;
    m.local_index = in->task->local_index;
    m.pid = (uint32_t)getpid();
    m.free_port = in->task->instance == 0 ? host_find_free_port() : 0;
    if (in->task->reserves_port && in->port_fd < 0)
        in->port_fd = port_reserve(in->task->ports.first, in->task->ports.last,
                                   in->task->local_index, &in->port);
    m.place_port = in->port;
    if (in->loader)
        (void)snprintf(m.loader, sizeof(m.loader), "%s", in->loader_address);
    if (in->loader)
        (void)jobloader_get_page(in->loader, m.page, sizeof(m.page));
    host_get_name(m.host, sizeof(m.host));
    (void)snprintf(m.loader_error, sizeof(m.loader_error), "%s", in->loader_error);
    return control_put_hello(&in->conn.tx, &m);
}

static int open_control(struct inner *in)
{
    struct plenum_error err;
    uint64_t now;
    int fd, r;

    assert(in->link == LINK_CLOSED);
    now = time_now_ns();
    fd = dial_connect(in->task->control,
                      now < in->connect_by ? (int)((in->connect_by - now) / NS_PER_MS) : 0, &err);
    if (fd < 0) {
        say_why(in, err.text);
        return fd;
    }
    link_move(in, LINK_OPEN);
    r = frame_conn_init(&in->conn, fd, CONTROL_MAX_PAYLOAD);
    if (r < 0) {
        say_why(in, strerror(-r));
        return r;
    }
    if (!in->task->encrypted)
        return 0;
    r = control_secure(in->task->token, true, &in->tls, &err);
    if (r < 0) {
        say_why(in, err.text);
        return r;
    }
    r = tls_carry(in->tls, fd, &in->conn.carrier);
    if (r < 0)
        say_why(in, strerror(-r));
    return r;
}

static void connect_again(struct inner *in)
{
    assert(in->link == LINK_CLOSED);
    in->again_at = UINT64_MAX;
    frame_conn_fini(&in->conn);
    tls_destroy(in->tls);
    in->tls = NULL;
    if (open_control(in) < 0 || say_hello(in) < 0)
        lose_control(in);
    else
        in->heard_ns = time_now_ns();
}

static void do_what_is_due(struct inner *in, uint64_t now)
{
    if (now >= in->again_at)
        connect_again(in);
    if (inner_is_connected(in) && !in->suspended && now > in->heard_ns + in->plan.silence_ns)
        lose_control(in);
    if (now >= in->obey_at) {
        in->obey_at = UINT64_MAX;
        end_program(in, in->plan.grace_ns, CONTROL_CAUSE_MPIRUN);
        if (in->child.pid == 0)
            in->end = true; /* there will be no plan */
    }
    if (inner_is_connected(in) && now >= in->beat_at) {
        in->beat_at = now + BEAT_MS * NS_PER_MS;
        if (frame_conn_pending(&in->conn) < INNER_FRAME_BYTES) {
            inner_look_at_stop(in, true);
            inner_tell_pace(in, now);
            (void)control_put_empty(&in->conn.tx, CONTROL_BEAT);
        }
    }
    inner_watch_progress(in, now);
    sweep(in, now);
}

static int time_to_wait(const struct inner *in, uint64_t now)
{
    uint64_t next = inner_is_connected(in) ? in->beat_at : UINT64_MAX;

    next = min_u64(min_u64(next, in->obey_at), in->again_at);
    for (int s = 0; s < CONTROL_STREAMS; s++)
        if (in->progress[s])
            next = min_u64(next, in->progress_at[s]);
    if (!inner_is_swept(in))
        next = min_u64(next, now >= in->kill_at ? now + LOOK_MS * NS_PER_MS : in->kill_at);
    return next <= now ? 0 : (int)min_u64((next - now) / NS_PER_MS + 1, BEAT_MS);
}

static bool is_done(const struct inner *in)
{
    return (in->end || in->link == LINK_LOST) && (in->state == INNER_WAITING || inner_is_swept(in));
}

enum {
    FD_SIGNAL,
    FD_CONTROL,
    FD_REPORT,
    FD_INPUT,
    FD_LOADER,
    FD_STOP,
    FD_PLACE,
    FD_STREAMS,
    FDS = FD_STREAMS + CONTROL_STREAMS
};

static void fill_fds(struct inner *in, struct pollfd fds[FDS])
{
    bool sending = inner_is_connected(in) && frame_conn_wants_write(&in->conn);

    fds[FD_SIGNAL] = (struct pollfd){.fd = in->signal_fd, .events = POLLIN};
    fds[FD_CONTROL] = (struct pollfd){.fd = inner_is_connected(in) ? in->conn.fd : -1,
                                      .events = (short)(POLLIN | (sending ? POLLOUT : 0))};
    fds[FD_REPORT] = (struct pollfd){.fd = in->child.report_fd, .events = POLLIN};
    fds[FD_INPUT] =
        (struct pollfd){.fd = in->input_len > 0 ? in->child.input : -1, .events = POLLOUT};
    /* Another instance of this host may get its plan first and connect to the loader. That
     * connection waits until our plan brings the loader's environment. */
    fds[FD_LOADER] = (struct pollfd){
        .fd = in->loader && in->environment ? jobloader_get_fd(in->loader) : -1, .events = POLLIN};
    fds[FD_STOP] = (struct pollfd){.fd = stop_keeper_get_fd(in->stop), .events = POLLIN};
    fds[FD_PLACE] = (struct pollfd){.fd = meeting_server_get_fd(in->place), .events = POLLIN};
    for (int s = 0; s < CONTROL_STREAMS; s++)
        fds[FD_STREAMS + s] = (struct pollfd){
            .fd = lines_has_room(&in->lines[s]) ? *inner_pipe(in, s) : -1, .events = POLLIN};
}

/* Do not count time during which we were stopped, perhaps with the whole job, as plenumrun's
 * silence. */
static void forgive(struct inner *in)
{
    uint64_t gap = time_not_run(&in->turn_ns, time_now_ns(), BEAT_MS * NS_PER_MS);

    if (gap > 0)
        inner_forgive_progress(in, time_now_ns());
    in->heard_ns += gap; /* may be slightly later than now */
    in->obey_at = time_put_off(in->obey_at, gap);
    in->kill_at = time_put_off(in->kill_at, gap);
}

static void run(struct inner *in)
{
    while (!is_done(in)) {
        uint64_t now = time_now_ns();
        struct pollfd fds[FDS];

        fill_fds(in, fds);
        if (poll(fds, FDS, time_to_wait(in, now)) < 0 && errno != EINTR)
            return;
        forgive(in);
        if (fds[FD_SIGNAL].revents)
            handle_signals(in);
        if (fds[FD_REPORT].revents)
            inner_read_report(in);
        if (fds[FD_STOP].revents) {
            stop_keeper_clear(in->stop);
            inner_look_at_stop(in, false);
        }
        if (fds[FD_PLACE].revents)
            inner_keep_place(in);
        reap(in);
        watch_stops(in);
        if (fds[FD_CONTROL].revents && inner_is_connected(in))
            read_control(in);
        if (fds[FD_LOADER].revents)
            jobloader_dispatch(in->loader);
        inner_write_input(in);
        do_what_is_due(in, time_now_ns());
        for (int s = 0; s < CONTROL_STREAMS; s++) {
            if (fds[FD_STREAMS + s].revents || (inner_is_swept(in) && s != CONTROL_LOADER))
                inner_read_pipe(in, s);
            inner_send_lines(in, s);
            inner_send_progress(in, s, time_now_ns());
        }
        inner_finish_output(in);
        if (inner_is_connected(in)) {
            int r = frame_conn_flush(&in->conn);

            if (r < 0 && r != -EAGAIN)
                break_control(in, r);
        }
    }
}

/* ---- beginning and end ---- */

static void open_loader(struct inner *in)
{
    char page[32];
    struct jobloader_options options = {.address = in->loader_address};
    struct plenum_error err = {""};
    int fds[2];
    int r;

    if (!in->task->keep_loader || in->task->local_index != 0)
        return;
    (void)snprintf(page, sizeof(page), "127.0.0.1:%s", in->task->status_port);
    if (strcmp(in->task->status_port, "none") != 0)
        options.page_address = page;
    (void)jobloader_form_address(in->task->job, in->loader_address, sizeof(in->loader_address));
    r = jobloader_create(&options, &in->loader, &err);
    if (r < 0) {
        (void)snprintf(in->loader_error, sizeof(in->loader_error), "%s", err.text);
        return;
    }
    /* plenumd's output reaches us through the standard error that it inherits. */
    if (pipe2(fds, O_CLOEXEC) < 0)
        return;
    (void)io_set_nonblock(fds[0]);
    (void)dup2(fds[1], STDOUT_FILENO);
    (void)dup2(fds[1], STDERR_FILENO);
    (void)close(fds[1]);
    in->loader_fd = fds[0];
}

static void close_loader(struct inner *in)
{
    if (!in->loader)
        return;
    jobloader_destroy(in->loader, LOADER_GRACE_MS);
    in->loader = NULL;
    /* The loader's last output, if there is credit for it. */
    inner_read_pipe(in, CONTROL_LOADER);
    io_close(&in->loader_fd);
    inner_send_lines(in, CONTROL_LOADER);
    if (inner_is_connected(in))
        (void)frame_conn_flush(&in->conn);
}

static int open_signals(struct inner *in)
{
    const int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2,
                          /* real-time signals are not constants */
                          GUARD_PARENT_SIGNAL, SHIM_ORPHAN_SIGNAL};

    in->signal_fd = io_open_signals(wanted, ARRAY_LEN(wanted));
    return in->signal_fd < 0 ? in->signal_fd : 0;
}

int shim_inner(const struct shim_task *task, pid_t outer)
{
    static struct inner inner; /* large */
    struct inner *in = &inner;

    *in = (struct inner){
        .task = task,
        .outer = outer,
        .heard_ns = time_now_ns(),
        .connect_by = time_now_ns() + CONNECT_MS * NS_PER_MS,
        .again_at = UINT64_MAX,
        .plan = {.silence_ns = (uint64_t)FIRST_SILENCE_MS * NS_PER_MS},
        .obey_at = UINT64_MAX,
        .kill_at = UINT64_MAX,
        .child = {.input = -1, .output = {-1, -1}, .report_fd = -1},
        .loader_fd = -1,
        .key_fd = -1,
        .port_fd = -1,
    };
    /* mpirun signals the outer shim's process group, which must not reach us. */
    (void)setpgid(0, 0);
    if (open_signals(in) < 0 || proctree_adopt() < 0 ||
        proctree_follow(outer, GUARD_PARENT_SIGNAL) < 0)
        return 1;
    if (open_control(in) < 0)
        return 1;
    open_loader(in);
    inner_open_pace(in);
    if (say_hello(in) < 0)
        return 1;
    run(in);
    close_loader(in);
    environ_free(in->environment);
    departed_destroy(in->departed);
    meeting_server_destroy(in->place);
    free(in->seen);
    stop_keeper_destroy(in->stop);
    inner_close_pace(in);
    capture_fini(&in->stacks);
    io_close(&in->key_fd);
    io_close(&in->port_fd);
    frame_conn_fini(&in->conn);
    tls_destroy(in->tls);
    return in->end ? 0 : SHIM_LOST;
}

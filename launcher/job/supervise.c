/* SPDX-License-Identifier: MIT */
/* supervise.c - plenumrun's view of the job: one poll loop, one state machine.
 *
 *     STARTING ──all started──> RUNNING ──all done──────────────┐
 *         │                        │                            v
 *         └───── a failure ────────┴──> ENDING ──all ended──> CLOSING ──starter gone──> over
 *
 * STARTING  shims connect (HELLO), and the first of each unknown host sends its topology; once all
 *           are connected, all get their plan at once.
 * ENDING    the first failure has been recorded, and all others were sent TERMINATE; they have the
 *           grace period. Further failures are consequences and are not reported.
 * CLOSING   all got END: the shims leave, then the starter (mpirun, or plenumrun's own). If it
 *           does not, its guard ends it, and finally the guard is killed.
 *
 * All states except RUNNING have a time limit, but a blocked reader of the output may delay the
 * end. A separate thread writes output (output.c), so that this loop never waits for anything but
 * poll().
 *
 * An instance is lost when its connection breaks or is silent for too long, whatever the starter
 * reports about it. */
#include "config.h"

#include "launcher/job/supervise.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/state.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/job/input.h"
#include "launcher/job/interlude.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/remote/answer.h"
#include "launcher/host/signals.h"
#include "launcher/control/exit_status.h"

enum {
    SWEEP_MS = 8000,         /* time for a shim to kill its tree, after the grace period */
    CLOSE_MS = 4000,         /* time for the starter to end by itself after END */
    CLOSE_FAILED_MS = 200,   /* like CLOSE_MS, if not all shims ever ran */
    ABANDON_MS = 15000,      /* time for the guard to end the starter */
    LAST_WORDS_MS = 500,     /* time for connections to close after the starter has ended */
    LOADERS_MS = 3000,       /* time for loaders on other hosts to end */
    STARTER_REASON_MS = 400, /* time for a better reason, once the starter wants to end */
};

static const struct state_row job_states[JOB_PHASES] = {
    [JOB_STARTING] = {"starting", STATE(JOB_RUNNING) | STATE(JOB_ENDING)},
    [JOB_RUNNING] = {"running", STATE(JOB_ENDING) | STATE(JOB_CLOSING)},
    [JOB_ENDING] = {"ending", STATE(JOB_CLOSING)},
    [JOB_CLOSING] = {"closing", 0},
};

static bool job_holds(const void *object)
{
    const struct supervisor *s = object;

    switch (s->phase) {
    case JOB_RUNNING:
        return s->plans_sent && s->start_at == SUPERVISE_NEVER;
    case JOB_ENDING:
        return s->report.kind != REPORT_SUCCESS;
    default:
        return true;
    }
}

static const struct state_machine job_machine = {.name = "attempt",
                                                 .states = job_states,
                                                 .count = JOB_PHASES,
                                                 .holds = job_holds,
                                                 .trace = state_log};

/* Change the job's phase. No other function writes it. */
static void enter(struct supervisor *s, enum phase to)
{
    enum phase from = s->phase;

    s->phase = to;
    state_moved(&job_machine, s, s->job->attempts, from, to);
}

/* ---- the end ---- */

/* Tell all instances to end, within this grace period. */
static void terminate_all(struct supervisor *s, uint64_t grace_ns)
{
    instances_send_number(s, CONTROL_TERMINATE, grace_ns);
    s->close_at = min_u64(s->close_at, time_now_ns() + grace_ns + SWEEP_MS * NS_PER_MS);
}

void supervise_fail(struct supervisor *s, const struct report *report)
{
    int signal = s->report.signal;

    assert(report->kind != REPORT_SUCCESS);
    assert(report->instance < s->plan->num_instances || report->instance == UINT32_MAX);
    if (s->phase >= JOB_ENDING)
        return;
    s->report = failure_choose(s, report);
    s->report.signal = signal;
    enter(s, JOB_ENDING);
    s->start_at = s->timeout_at = s->reason_at = s->stop.by = SUPERVISE_NEVER;
    terminate_all(s, s->job->limits->grace_ns);
}

void supervise_fail_with(struct supervisor *s, enum report_kind kind, const struct instance *inst,
                         const char *format, ...)
{
    struct report report = {.kind = kind, .instance = inst ? instance_index(s, inst) : UINT32_MAX};
    va_list args;

    va_start(args, format);
    (void)vsnprintf(report.text, sizeof(report.text), format, args);
    va_end(args);
    supervise_fail(s, &report);
}

void supervise_expect_reason(struct supervisor *s)
{
    if (s->phase < JOB_ENDING)
        s->reason_at = min_u64(s->reason_at, time_now_ns() + STARTER_REASON_MS * NS_PER_MS);
}

static void begin_close(struct supervisor *s)
{
    bool complete = true;

    assert((s->phase == JOB_RUNNING || s->phase == JOB_ENDING) && !s->suspect);
    enter(s, JOB_CLOSING);
    s->stop.by = SUPERVISE_NEVER;
    s->start_at = s->timeout_at = s->reason_at = s->close_at = s->kill_at = SUPERVISE_NEVER;
    instances_send_empty(s, CONTROL_END);
    remote_loaders_end(s->loaders);
    starter_wake(&s->starter);
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        complete &= s->instances[i].peer != NULL;
    s->end_starter_at = time_now_ns() + (complete ? CLOSE_MS : CLOSE_FAILED_MS) * NS_PER_MS;
}

/* ---- input and signals ---- */

static void read_input(struct supervisor *s, const struct pollfd *fds)
{
    static char bytes[SUPERVISE_INPUT_BYTES]; /* the stack may be small (ulimit -s) */
    ssize_t n = input_read(fds, bytes, SUPERVISE_INPUT_BYTES - s->input_in_flight);

    assert(s->input_in_flight <= SUPERVISE_INPUT_BYTES);
    if (n < 0)
        return;
    s->input_ended |= n == 0;
    instances_send_input(s, bytes, (size_t)n);
}

static void suspend_all(struct supervisor *s, bool suspend)
{
    instances_send_number(s, CONTROL_SUSPEND, suspend);
    instances_flush(s);
    remote_loaders_suspend(s->loaders, suspend);
}

/* This process was stopped for a while, perhaps with the whole job. That time does not count, so
 * postpone all deadlines except --timeout, which is wall-clock time. */
static void forgive(struct supervisor *s)
{
    uint64_t *const times[] = {&s->start_at,       &s->kill_at,    &s->reason_at, &s->close_at,
                               &s->end_starter_at, &s->abandon_at, &s->stop.by,   &s->suspect_at};
    uint64_t gap = time_not_run(&s->turn_ns, time_now_ns(), SUPERVISE_BEAT_MS * NS_PER_MS);

    if (gap == 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        *times[i] = time_put_off(*times[i], gap);
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        s->instances[i].heard_ns += gap;
    log_debug("plenumrun did not run for %.1f s", (double)gap / 1e9);
}

/* Ctrl-Z: stop the programs, then ourselves; later, all continue together. */
static void stop_and_continue(struct supervisor *s)
{
    instances_send_number(s, CONTROL_SIGNAL, SIGTSTP);
    suspend_all(s, true);
    (void)raise(SIGSTOP);
    suspend_all(s, false);
    instances_send_number(s, CONTROL_SIGNAL, SIGCONT);
    forgive(s);
}

/* Users press Ctrl-C when something seems to hang: show them the state of each instance. */
static void show_state(struct supervisor *s)
{
    char *table = isatty(STDERR_FILENO) ? result_table(s) : NULL;

    if (table)
        (void)output_put_own(s->output, CONTROL_STDERR, table, strlen(table));
    free(table);
}

/* End the job, but let the programs end by themselves within the grace period. */
static void end_gently(struct supervisor *s, int signal)
{
    if (s->phase < JOB_ENDING)
        s->report.signal = signal;
    if (signal == SIGINT)
        show_state(s);
    log_warn("SIG%s: ending the job; send the signal again to kill it", sigabbrev_np(signal));
    if (s->phase == JOB_STARTING) {
        supervise_fail_with(s, REPORT_OTHER, NULL, "the job was interrupted while it was starting");
    } else if (s->phase == JOB_RUNNING) { /* in JOB_ENDING, they were sent SIGTERM */
        instances_send_number(s, CONTROL_SIGNAL, (uint64_t)signal);
        s->kill_at = time_now_ns() + s->job->limits->grace_ns;
    }
}

/* The user wants the job to end. The first time, the programs get the same signal as we did. */
void supervise_interrupt(struct supervisor *s, int signal)
{
    s->interrupts++;
    s->stop.growing = false;
    if (s->phase >= JOB_ENDING)
        interlude_end(signal, NULL); /* it does not start again */
    if (s->interrupts == 1 && s->phase < JOB_CLOSING) {
        end_gently(s, signal);
        return;
    }
    if (s->phase < JOB_CLOSING) {
        s->kill_at = SUPERVISE_NEVER;
        if (s->phase < JOB_ENDING)
            supervise_fail_with(s, REPORT_OTHER, NULL, "the job was killed");
        terminate_all(s, 0);
    }
    if (s->interrupts > 2) {
        s->hurry = true;
        starter_end(&s->starter);
    }
}

static void handle_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
            if (!stop_take_signal(s, (int)info.ssi_signo))
                supervise_interrupt(s, (int)info.ssi_signo);
            break;
        case SIGUSR1:
        case SIGUSR2:
        case SIGCONT:
            if (!stop_take_signal(s, (int)info.ssi_signo))
                instances_send_number(s, CONTROL_SIGNAL, info.ssi_signo);
            break;
        case SIGTSTP:
            stop_and_continue(s);
            break;
        default: /* SIGCHLD */
            break;
        }
    }
}

/* Reap children that we inherited, but not those that other parts of plenumrun wait for: a shell's,
 * if it has become this process by exec, and orphans, if we are process 1 of a container. */
static void reap_strangers(const struct supervisor *s)
{
    siginfo_t info = {.si_pid = 0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 &&
           info.si_pid != s->starter.guard && info.si_pid != s->stop.command.pid &&
           info.si_pid != s->growth.pid && !remote_loaders_own(s->loaders, info.si_pid)) {
        (void)waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}

/* ---- the starter ---- */

/* Handle a line that the starter has printed: keep it for the report of a failure, and show it to
 * users who passed arguments to mpirun (--report-bindings). */
static void handle_line(void *arg, const char *line, size_t len)
{
    struct supervisor *s = arg;

    char *text = str_format("%.*s", (int)len, line);

    if (!text)
        return;
    answer_hide(text, s->token);         /* a login may have read it */
    len = strlen(text_make_plain(text)); /* it may come from another host's login */
    tail_add(&s->text_tail, text, len);
    tail_add(&s->text_tail, "\n", 1);
    if (s->phase == JOB_STARTING && !s->plans_sent && daemons_read_line(&s->daemon, text))
        supervise_expect_reason(s);
    if (s->job->mpi->global_args.count + s->job->mpi->local_args.count == 0) {
        log_debug("%s: %s", starter_name(s), text);
    } else {
        text[len] = '\n'; /* replaces its NUL */
        (void)output_put_message(s->output, text, len + 1);
    }
    free(text);
}

static void read_text(struct supervisor *s)
{
    lines_follow(&s->text, &s->starter.text_fd, handle_line, s);
}

static void read_status(struct supervisor *s)
{
    char status[128];

    if (starter_read_status(&s->starter, &s->starter_status) != 1)
        return;
    s->starter_ended = true;
    read_text(s);
    status_describe(s->starter_status, status, sizeof(status));
    log_debug("%s %s", starter_name(s), status);
    supervise_expect_reason(s);
}

/* Returns whether the orphan was left by its host's daemon, and not by mpirun. mpirun of Open MPI 5
 * ends at once when a daemon is gone, so its end may be noticed first. But if mpirun was killed, or
 * the orphan is on mpirun's own host, which has no daemon, mpirun left it. */
static bool has_lost_daemon(const struct supervisor *s)
{
    return !s->starter_ended ||
           (!WIFSIGNALED(s->starter_status) && !instance_host(s, s->orphan)->local);
}

/* Returns whether Open MPI 5 has crashed because it was given several applications
 * (open-mpi/ompi#13303, seen in 5.0.7). */
static bool has_crashed_at_arguments(const struct supervisor *s)
{
    return s->phase == JOB_STARTING && s->job->mpirun && s->job->mpirun->major == 5 &&
           WIFSIGNALED(s->starter_status) && WTERMSIG(s->starter_status) == SIGSEGV &&
           mpirun_has_several(s->plan, s->job->mpi);
}

/* End the job because the starter has ended or wants to end, and no instance has reported a better
 * reason. */
static void blame_starter(struct supervisor *s)
{
    char status[128], strangers[160];
    uint64_t silence;
    const struct instance *silent = instances_find_silent(s, time_now_ns(), &silence);

    s->reason_at = SUPERVISE_NEVER;
    if (silent) {
        supervise_fail_with(s, REPORT_LOST, silent,
                            "host %s has been silent for %.1f s, and %s ended the job",
                            instance_host(s, silent)->name, (double)silence / 1e9, starter_name(s));
        return;
    }
    if (!s->starter_ended && s->starter_gone) {
        supervise_fail_with(s, REPORT_MPIRUN, NULL, "the process that guards %s was killed",
                            starter_name(s));
        return;
    }
    if (s->orphan && has_lost_daemon(s)) {
        supervise_fail_with(
            s, REPORT_LOST, s->orphan,
            "the Open MPI process that started it on host %s is gone; was it killed?",
            instance_host(s, s->orphan)->name);
        return;
    }
    if (!s->starter_ended) {
        supervise_fail_with(
            s, REPORT_MPIRUN, NULL,
            "%s ended the job: on request, or because it lost a host or one of its own processes",
            starter_name(s));
        return;
    }
    status_describe(s->starter_status, status, sizeof(status));
    instances_describe_strangers(s, strangers, sizeof(strangers));
    supervise_fail_with(
        s, REPORT_MPIRUN, NULL, "%s, which starts the instances, %s%s%s%s", starter_name(s), status,
        s->phase == JOB_STARTING ? " before all of them had started" : "",
        s->phase == JOB_STARTING ? strangers : "",
        has_crashed_at_arguments(s) ? ": the mpirun of Open MPI 5.0 crashes if an instance has its "
                                      "own arguments other than -x (--instance-mpi-local-args)"
                                    : "");
}

/* ---- time ---- */

/* If mpirun still waits for a daemon, no shim has connected from any other host: name only the
 * hosts that it waits for. */
static void describe_late(const struct supervisor *s, char *ret, size_t size)
{
    bool *late = calloc(s->plan->num_hosts, sizeof(*late));
    bool any = late && s->job->mpirun && !s->starter_ended &&
               daemons_find_late(s->plan, s->starter.pid, late) > 0;
    size_t len;

    instances_list_missing(s, INSTANCE_ALIVE, any ? late : NULL, ret, size / 2);
    free(late);
    len = strlen(ret);
    if (any)
        (void)snprintf(ret + len, size - len,
                       ": Open MPI's daemon there has not connected to mpirun on this host: is a "
                       "firewall blocking it (--port-range), or is the login slow?");
}

static void be_late(struct supervisor *s)
{
    struct report report = {
        .kind = REPORT_LATE, .instance = UINT32_MAX, .limit_ns = s->job->limits->start_timeout_ns};
    char missing[336], strangers[160];

    if (instances_are(s, INSTANCE_PRESENT) && !remote_loaders_are_ready(s->loaders))
        remote_loaders_list_missing(s->loaders, missing, sizeof(missing));
    else
        describe_late(s, missing, sizeof(missing));
    instances_describe_strangers(s, strangers, sizeof(strangers));
    (void)snprintf(report.text, sizeof(report.text), "no response from %s%s", missing, strangers);
    supervise_fail(s, &report);
}

static void time_out(struct supervisor *s)
{
    struct report report = {
        .kind = REPORT_TIMED_OUT, .instance = UINT32_MAX, .limit_ns = s->job->limits->timeout_ns};

    for (uint32_t i = s->plan->num_instances; i-- > 0;)
        if (s->instances[i].stopped_by && !s->instances[i].has_exited)
            (void)snprintf(report.text, sizeof(report.text),
                           "; instance %u on host %s had been stopped by SIG%s", i,
                           instance_host(s, &s->instances[i])->name,
                           sigabbrev_np(s->instances[i].stopped_by));
    supervise_fail(s, &report);
}

static void do_what_is_due(struct supervisor *s, uint64_t now)
{
    if (now >= s->beat_at) {
        s->beat_at = now + SUPERVISE_BEAT_MS * NS_PER_MS;
        instances_beat(s, now);
        slow_watch_beat(s, now);
        remote_loaders_beat(s->loaders, now);
    }
    if (now >= s->start_at)
        be_late(s);
    if (now >= s->timeout_at)
        time_out(s);
    failure_do_what_is_due(s, now);
    stop_do_what_is_due(s, now);
    hung_do_what_is_due(s, now);
    instances_tell_departed(s, now);
    if (now >= s->kill_at) { /* they were sent a signal and did not end */
        s->kill_at = SUPERVISE_NEVER;
        terminate_all(s, 0);
    }
    if (now >= s->reason_at)
        blame_starter(s);
    if (now >= s->end_starter_at) {
        s->end_starter_at = SUPERVISE_NEVER;
        s->abandon_at = now + ABANDON_MS * NS_PER_MS;
        log_debug("%s does not end by itself: ending it", starter_name(s));
        starter_end(&s->starter);
    }
    if (now >= s->abandon_at) {
        s->abandon_at = SUPERVISE_NEVER;
        starter_abandon(&s->starter);
    }
}

static bool is_gone_for(const struct supervisor *s, uint64_t ms, uint64_t now)
{
    assert(s->starter_gone);
    return now >= s->starter_gone_ns + ms * NS_PER_MS;
}

static uint64_t next_due(const struct supervisor *s, uint64_t now)
{
    const uint64_t times[] = {s->beat_at,   s->start_at,       s->timeout_at, s->kill_at,
                              s->reason_at, s->end_starter_at, s->abandon_at, s->suspect_at};
    uint64_t next = min_u64(stop_next_due(s), s->departures.due_ns);

    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        next = min_u64(next, times[i]);
    /* These two stay set after they have passed, so only future times count. */
    if (s->close_at > now)
        next = min_u64(next, s->close_at);
    if (s->phase == JOB_CLOSING && s->starter_gone)
        next = min_u64(next, is_gone_for(s, LAST_WORDS_MS, now)
                                 ? s->starter_gone_ns + LOADERS_MS * NS_PER_MS
                                 : s->starter_gone_ns + LAST_WORDS_MS * NS_PER_MS);
    assert(next <= s->beat_at);
    return next;
}

/* ---- the loop ---- */

/* Returns whether there is no instance left to wait for. After close_at, wait only for instances
 * whose program has ended and whose output is still arriving. */
static bool all_ended(const struct supervisor *s, uint64_t now)
{
    bool late = now >= s->close_at;

    if (!late &&
        s->counts[INSTANCE_PLANNED] + s->counts[INSTANCE_ALIVE] + s->counts[INSTANCE_EXITED] > 0)
        return false;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (inst->state == INSTANCE_DONE || !inst->peer)
            continue;
        if (inst->state <= INSTANCE_PRESENT && s->phase == JOB_ENDING)
            continue; /* its program never started */
        if (!late || inst->state == INSTANCE_EXITED)
            return false;
    }
    return true;
}

/* While the job starts, end it if a host of --loader-host cannot run its loader. A later failure
 * does not end it. */
static void look_at_loaders(struct supervisor *s)
{
    char why[400];
    const char *host = remote_loaders_get_failed(s->loaders, why, sizeof(why));

    if (host)
        supervise_fail_with(s, REPORT_OTHER, NULL,
                            "--loader-host %s: its loader cannot be started: %s", host, why);
}

static void advance(struct supervisor *s, uint64_t now)
{
    if (s->phase == JOB_STARTING && !s->plans_sent)
        look_at_loaders(s);
    if (s->phase == JOB_STARTING && !s->plans_sent && instances_are(s, INSTANCE_PRESENT) &&
        remote_loaders_are_ready(s->loaders))
        instances_send_plans(s);
    if (s->phase == JOB_STARTING && instances_are(s, INSTANCE_ALIVE)) {
        s->start_at = SUPERVISE_NEVER;
        enter(s, JOB_RUNNING);
    }
    if ((s->phase == JOB_RUNNING && instances_are(s, INSTANCE_DONE)) ||
        (s->phase == JOB_ENDING && all_ended(s, now)))
        begin_close(s);
}

static bool is_over(const struct supervisor *s, uint64_t now)
{
    return s->phase == JOB_CLOSING && s->starter_gone &&
           (s->hurry || ((s->num_peers == 0 || is_gone_for(s, LAST_WORDS_MS, now)) &&
                         (remote_loaders_are_gone(s->loaders) || is_gone_for(s, LOADERS_MS, now))));
}

enum {
    FD_SIGNAL,
    FD_LISTENER,
    FD_STATUS,
    FD_TEXT,
    FD_OUTPUT,
    FD_LOADERS,
    FD_PLACE,
    FD_SOCKET,
    FD_INPUT = FD_SOCKET + 1 + JOB_CLIENTS_MAX,
    FD_PEERS = FD_INPUT + INPUT_FDS,
    FD_COUNT
};

static void fill_fds(const struct supervisor *s, struct pollfd *fds)
{
    fds[FD_SIGNAL] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    fds[FD_LISTENER] =
        (struct pollfd){.fd = time_now_ns() < s->deaf_until ? -1 : s->listener, .events = POLLIN};
    fds[FD_STATUS] = (struct pollfd){.fd = s->starter.status_fd, .events = POLLIN};
    fds[FD_TEXT] = (struct pollfd){.fd = s->starter.text_fd, .events = POLLIN};
    fds[FD_OUTPUT] = (struct pollfd){.fd = output_get_fd(s->output), .events = POLLIN};
    input_poll(instances_want_input(s) ? SUPERVISE_INPUT_BYTES - s->input_in_flight : 0,
               &fds[FD_INPUT]);
    fds[FD_LOADERS] = (struct pollfd){.fd = remote_loaders_get_fd(s->loaders), .events = POLLIN};
    fds[FD_PLACE] = (struct pollfd){.fd = meeting_server_get_fd(s->place), .events = POLLIN};
    job_socket_fill(s, &fds[FD_SOCKET]);
    fds[FD_PEERS] = (struct pollfd){.fd = s->peers_fd, .events = POLLIN};
}

static int time_to_wait(const struct supervisor *s, uint64_t now)
{
    uint64_t next = next_due(s, now);

    return next <= now ? 0 : (int)min_u64((next - now) / NS_PER_MS + 1, SUPERVISE_BEAT_MS);
}

static int turn(struct supervisor *s)
{
    struct pollfd fds[FD_COUNT];

    fill_fds(s, fds);
    if (poll(fds, FD_COUNT, time_to_wait(s, time_now_ns())) < 0) {
        if (errno != EINTR)
            return -errno;
        return 0;
    }
    forgive(s);
    if (fds[FD_SIGNAL].revents)
        handle_signals(s);
    if (fds[FD_TEXT].revents)
        read_text(s);
    if (fds[FD_PLACE].revents) /* first: it sees ends of processes before shims report them */
        meeting_server_dispatch(s->place);
    if (fds[FD_PEERS].revents)
        peers_read(s);
    if (fds[FD_LISTENER].revents)
        instances_accept(s);
    if (fds[FD_STATUS].revents)
        read_status(s);
    if (fds[FD_OUTPUT].revents)
        instances_send_credit(s);
    job_socket_dispatch(s, &fds[FD_SOCKET]);
    read_input(s, &fds[FD_INPUT]);
    remote_loaders_dispatch(s->loaders);
    if (!s->starter_gone && starter_reap(&s->starter)) {
        s->starter_gone = true;
        s->starter_gone_ns = time_now_ns();
        supervise_expect_reason(s);
    }
    reap_strangers(s);
    grow_continue(s);
    do_what_is_due(s, time_now_ns());
    advance(s, time_now_ns());
    instances_flush(s);
    return 0;
}

/* Wait until all output is written, however slow its reader is, or until a signal shows that the
 * user is in a hurry. */
static void finish_output(struct supervisor *s)
{
    while (!s->hurry && output_flush(s->output, 50) < 0) {
        struct signalfd_siginfo info;

        while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            if (info.ssi_signo != SIGINT && info.ssi_signo != SIGTERM && info.ssi_signo != SIGHUP &&
                info.ssi_signo != SIGQUIT)
                continue;
            s->hurry = true;
            s->stop.growing = false;
            interlude_end((int)info.ssi_signo, NULL);
        }
    }
}

/* Returns whether the job may be restarted. Yes if an instance or its host failed, which may not
 * happen again. No if it cannot be started or the user ended it; but a job that has run before
 * waits for its hosts to return. If the user ended it after the failure, interlude.c knows that. */
static bool may_start_again(const struct supervisor *s)
{
    enum report_kind kind = s->report.kind;

    if (s->report.signal || (s->stop.noticed && !s->stop.growing) ||
        (stop_was_too_early(s) && report_exit_status(&s->report) == STATUS_SIGNAL + SIGUSR1))
        return false;
    /* With these statuses, a shell reports that a program was not found or could not be
     * executed. */
    if (kind == REPORT_EXITED && (report_exit_status(&s->report) == STATUS_NOT_FOUND ||
                                  report_exit_status(&s->report) == STATUS_NOT_EXECUTABLE))
        return false;
    return kind == REPORT_EXITED || kind == REPORT_LOST || kind == REPORT_UNSTOPPED ||
           kind == REPORT_HUNG || (kind == REPORT_MPIRUN && s->plans_sent) ||
           ((s->job->restart_count > 0 || s->job->elastic) &&
            (kind == REPORT_MPIRUN || kind == REPORT_LATE));
}

/* Returns whether Open MPI's daemon could not run on the instance's host. */
static bool is_daemons_fault(const struct supervisor *s, uint32_t instance)
{
    return (s->report.kind == REPORT_MPIRUN || s->report.kind == REPORT_LATE) && !s->plans_sent &&
           daemons_names_host(&s->daemon, instance_host(s, &s->instances[instance])->name);
}

/* Returns whether the failure is the fault of the instance's host. How a program ends is not, and
 * neither is the end of a connection after the first failure, which may be a consequence. */
static bool is_hosts_fault(const struct supervisor *s, uint32_t instance)
{
    const struct instance *inst = &s->instances[instance];

    return inst->silent || is_daemons_fault(s, instance) ||
           (s->report.kind == REPORT_LOST && s->report.instance == instance) ||
           (s->report.kind == REPORT_LATE && inst->state == INSTANCE_ABSENT);
}

/* Mark the hosts that have failed, and those whose programs may still be running. The shim of a
 * host that is cut off ends its program after the same silence. */
static void mark_hosts(const struct supervisor *s)
{
    const struct limits *limits = s->job->limits;

    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];
        struct plan_host *host = instance_host(s, inst);

        host->lost |= is_hosts_fault(s, i);
        if (s->plans_sent && !inst->has_exited && !inst->has_failed)
            host->dead_ns = max_u64(host->dead_ns, inst->heard_ns + limits->heartbeat_timeout_ns +
                                                       limits->grace_ns + SWEEP_MS * NS_PER_MS);
    }
}

/* Returns whether mpirun ended by itself before any shim connected, in a job that does not need
 * it. */
static bool is_mpirun_useless(const struct supervisor *s)
{
    int status = s->starter_status;
    bool killed =
        WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT);

    if (!s->job->may_replace || !s->job->mpirun || s->report.kind != REPORT_MPIRUN ||
        s->report.signal || !s->starter_ended || killed)
        return false;
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (s->instances[i].state != INSTANCE_ABSENT)
            return false;
    return true;
}

static void supervisor_fini(struct supervisor *s)
{
    instances_close(s);
    for (uint32_t i = 0; s->instances && i < s->plan->num_instances; i++) {
        free(s->instances[i].tail);
        free(s->instances[i].stacks);
        free(s->instances[i].loader);
    }
    job_socket_give_back(s);
    capture_fini(&s->growth);
    stop_fini(s);
    departures_fini(&s->departures);
    slow_destroy(s->slow);
    free(s->instances);
    free(s->shown);
    lines_fini(&s->text);
    starter_fini(&s->starter);
    remote_loaders_destroy(s->loaders);
    environ_list_fini(&s->loader_environment);
    meeting_server_destroy(s->place);
    tls_destroy(s->tls);
    explicit_bzero(s->token, sizeof(s->token));
    explicit_bzero(s->place_key, sizeof(s->place_key));
    io_close(&s->listener);
    io_close(&s->signal_fd);
    log_set_sink(NULL);
    output_destroy(s->output);
}

/* Returns plenumrun's exit status. Lost output is a failure, even if the programs succeed, except
 * in a job that has stopped at a step and continues later. */
static int exit_status(struct supervisor *s)
{
    const char *stream;
    int status = report_exit_status(&s->report), r;

    instances_send_credit(s); /* notes errors of the last writes */
    r = output_get_failure(s->output, &stream);
    if (status == 0 && stop_get_step(s) > 0)
        return STATUS_STOPPED;
    if (status == 0 && r == -EPIPE)
        return STATUS_SIGNAL + SIGPIPE;
    return status == 0 && (r < 0 || output_lost_files(s->output) || s->output_unread)
               ? STATUS_OUTPUT
               : status;
}

static void tell_stopped(const struct supervisor *s)
{
    uint64_t step = stop_get_step(s);

    if (s->report.kind == REPORT_SUCCESS && step > 0 && s->stop.growing)
        log_about(LOG_LEVEL_NOTICE, NULL,
                  "the programs have stopped before step %llu, to continue on more hosts",
                  (unsigned long long)step - 1);
    else if (s->report.kind == REPORT_SUCCESS && step > 0)
        log_about(
            LOG_LEVEL_NOTICE, NULL,
            "the programs have stopped before step %llu, as requested: start the job again to "
            "continue (exit status %d)",
            (unsigned long long)step - 1, STATUS_STOPPED);
}

int supervise_run(const struct supervise_job *job, struct supervise_result *ret)
{
    struct supervisor s = {
        .job = job,
        .plan = job->plan,
        .listener = -1,
        .peers_fd = -1,
        .signal_fd = -1,
        .counts = {[INSTANCE_ABSENT] = job->plan->num_instances},
        .socket = job_socket_take(job),
        .starter = {.gate = -1, .status_fd = -1, .text_fd = -1},
        .beat_at = SUPERVISE_NEVER,
        .start_at = SUPERVISE_NEVER,
        .timeout_at = SUPERVISE_NEVER,
        .kill_at = SUPERVISE_NEVER,
        .reason_at = SUPERVISE_NEVER,
        .close_at = SUPERVISE_NEVER,
        .end_starter_at = SUPERVISE_NEVER,
        .abandon_at = SUPERVISE_NEVER,
        .hung_at = SUPERVISE_NEVER,
        .suspect_at = SUPERVISE_NEVER,
    };
    struct plenum_error err;
    int status;

    s.instances = calloc(job->plan->num_instances, sizeof(*s.instances));
    if (!s.instances || stop_init(&s) < 0 || peers_open(&s) < 0 || slow_watch_init(&s) < 0 ||
        departures_init(&s.departures, job->plan->num_instances) < 0) {
        log_error("out of memory");
        status = STATUS_LAUNCH;
        goto out;
    }
    if (supervise_read_shown(&s, &err) < 0) {
        log_error("%s", err.text);
        status = STATUS_USAGE;
        goto out;
    }
    if (supervise_start(&s, &err) < 0) {
        log_error("%s", err.text);
        status = STATUS_LAUNCH;
        goto out;
    }
    while (!is_over(&s, time_now_ns())) {
        int r = turn(&s);

        if (r < 0) {
            supervise_fail_with(&s, REPORT_OTHER, NULL, "cannot supervise the job: %s",
                                strerror(-r));
            break;
        }
    }
    lines_hand_on(&s.text, true, handle_line, &s);
    if (is_mpirun_useless(&s)) {
        failure_get_words(&s, ret->why_not, sizeof(ret->why_not));
        status = STATUS_LAUNCH;
        goto out;
    }
    supervise_log_last_words();
    if (stop_was_too_early(&s)) {
        s.stop.growing = false;
        interlude_end(SIGUSR1, NULL);
    }
    failure_find_cause(&s);
    failure_print(&s);
    tell_stopped(&s);
    finish_output(&s);
    status = s.status = exit_status(&s);
    if (result_write(&s) < 0 && status == 0)
        status = STATUS_OUTPUT;
    mark_hosts(&s);
    report_sentence(&s.report, s.plan, job->program[0], job->directory, ret->why, sizeof(ret->why));
    ret->again = may_start_again(&s);
    ret->asked = agree_is_possible(&s.stop.agreement);
    ret->ran = s.plans_sent;
    ret->step = stop_get_progress(&s);
    ret->grows = status == STATUS_STOPPED && s.stop.growing;
out:
    if (s.output)
        (void)output_flush(s.output, s.hurry ? 0 : 1000);
    supervisor_fini(&s);
    return status;
}

void supervise_not_started(const struct supervise_job *job, int status, const char *why)
{
    struct supervisor s = {
        .job = job,
        .plan = job->plan,
        .instances = calloc(job->plan->num_instances, sizeof(*s.instances)),
        .report = {.kind = REPORT_OTHER, .instance = UINT32_MAX},
        .status = status,
    };

    (void)snprintf(s.report.text, sizeof(s.report.text), "%s", why);
    if (s.instances)
        (void)result_write(&s);
    free(s.instances);
}

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

#include "launcher/shim/shim.h"

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
#include "launcher/lines.h"
#include "launcher/proctree.h"
#include "launcher/shim/child.h"
#include "launcher/shim/guard.h"
#include "launcher/signals.h"
#include "launcher/topology.h"

enum {
    CONNECT_MS = 15000, /* to reach plenumrun and to get its first answer */
    AGAIN_MS = 100,     /* before connecting again if the first connection was closed at once */
    BEAT_MS = 1000,
    FIRST_SILENCE_MS = 30000, /* until the plan sets another limit */
    TOLD_MS = 1000,           /* time for plenumrun to decide how to treat mpirun's request */
    LOOK_MS = 10,             /* between two looks at a tree that is being killed */
    LOADER_GRACE_MS = 2000,
    TAIL_LINES = 20,
    FRAME_BYTES = 64 * 1024, /* of output, unless a single line is longer */
    PROGRESS_MS = 100,       /* between two PROGRESS messages of a stream */
    READS = 16,              /* of one pipe, before the others have their turn */
};

struct inner {
    const struct shim_task *task;
    pid_t outer;
    int signal_fd;
    struct tls *tls; /* of the control connection, or NULL */
    struct frame_conn conn;
    bool connected;
    bool answered;       /* plenumrun has answered, so it has accepted us */
    uint64_t connect_by; /* deadline for that answer */
    uint64_t again_at;   /* time of the next connection attempt; UINT64_MAX: none */
    bool suspended;      /* plenumrun is stopped, and has announced it */
    bool end;            /* plenumrun has sent END */
    uint64_t turn_ns;    /* when the loop last ran */
    uint64_t heard_ns, beat_at;

    bool planned;
    struct control_plan plan;
    struct child child; /* pid 0: not started */
    bool told_started;  /* STARTED or FAILED was sent */
    bool failed;        /* the program did not start */
    uint64_t started_ns;

    struct signals_handed handed;
    bool stopped; /* the program is stopped, and plenumrun was notified */
    bool exited;
    enum control_cause cause; /* cause of the coming end */
    bool told;                /* mpirun has requested the end */
    uint64_t told_at;         /* when the program is ended for that; UINT64_MAX: never */
    uint64_t kill_at;         /* UINT64_MAX: not set */
    struct proctree_end tree; /* progress of killing the tree */
    bool swept;
    bool drained;

    struct lines lines[CONTROL_STREAMS];
    bool progress[CONTROL_STREAMS];        /* there may be a new PROGRESS */
    uint64_t progress_at[CONTROL_STREAMS]; /* when it may be sent */
    struct tail tail;
    struct traceback traceback;
    uint64_t memory_kills; /* kills by the kernel before the program started */
    uint64_t in_flight;    /* bytes of output not yet credited */
    char *input;           /* input for the program */
    size_t input_len;
    bool input_ended;

    struct jobloader *loader;
    char loader_address[CONTROL_ADDRESS_MAX];
    char **environment;        /* environment of the program, and of the loader */
    struct departed *departed; /* what the program learns about other instances; NULL: not needed */
    int loader_fd;             /* the loader's output */
    int key_fd;                /* the key of loaders on other hosts */
    char loader_error[CONTROL_TEXT_MAX];
};

static bool is_running(const struct inner *a)
{
    return a->child.pid > 0 && !a->exited;
}

static void send_failure(struct inner *a, const struct control_failed *failed)
{
    (void)control_put_failed(&a->conn.tx, failed);
    a->told_started = a->failed = true;
    if (a->child.pid == 0)
        a->exited = a->swept = true;
}

static void send_failed(struct inner *a, enum control_step step, int error)
{
    const struct control_failed m = {.step = step, .error = error};

    send_failure(a, &m);
}

static void send_started(struct inner *a)
{
    const struct bind_result *bind = &a->child.report.bind;
    struct control_started m = {
        .pid = (uint32_t)a->child.pid,
        .cpus_error = bind->cpus_error,
        .memory_error = bind->memory_error,
        .memory = (uint32_t)bind->memory,
        .cpus = ranges_format(bind->sets.cpus, NUMA_CPUS_MAX),
        .nodes = ranges_format(bind->sets.nodes, NUMA_NODES_MAX),
    };

    if (m.cpus && m.nodes)
        (void)control_put_started(&a->conn.tx, &m);
    control_started_fini(&m);
    a->told_started = true;
}

static void read_report(struct inner *a)
{
    int r = child_read_report(&a->child);

    if (r == 0)
        return;
    if (r < 0)
        send_failed(a, CONTROL_STEP_FORK, r);
    else if (a->child.report.failed.error)
        send_failure(a, &a->child.report.failed);
    else
        send_started(a);
}

/* ---- the end of the program ---- */

static void end_program(struct inner *a, uint64_t grace_ns, enum control_cause cause)
{
    uint64_t now = time_now_ns();

    if (!is_running(a))
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

static int *pipe_of(struct inner *a, int stream)
{
    return stream == CONTROL_LOADER ? &a->loader_fd : &a->child.output[stream];
}

/* Read what a pipe holds; after the sweep, no process is left that could write more. */
static void read_pipe(struct inner *a, int stream)
{
    struct lines *lines = &a->lines[stream];
    int *fd = pipe_of(a, stream);

    for (int round = 0; round < READS && *fd >= 0 && lines_has_room(lines); round++) {
        size_t size;
        char *place = lines_reserve(lines, &size);
        ssize_t n = place ? read(*fd, place, size) : -1;

        if (!place)
            return; /* out of memory: the program waits, as it would for a slow reader */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && (!a->swept || stream == CONTROL_LOADER))
            return;
        if (n < 0 && errno != EAGAIN && stream != CONTROL_LOADER)
            (void)control_put_number(&a->conn.tx, CONTROL_UNREAD, (uint64_t)errno);
        if (n <= 0) {
            io_close(fd);
            return;
        }
        if (stream == CONTROL_STDERR) {
            tail_add(&a->tail, place, (size_t)n);
            traceback_look(&a->traceback, place, (size_t)n, time_now_ns());
        }
        lines_added(lines, (size_t)n);
        if (a->plan.live & 1 << stream)
            a->progress[stream] = true;
        if ((a->plan.quiet && stream != CONTROL_LOADER) || !a->connected)
            lines_drop(lines, lines_pending(lines));
    }
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
            read_report(a);
        read_pipe(a, CONTROL_STDERR); /* its last output: a traceback? */
        note_exit(a, status, &usage);
    }
}

/* The program was stopped by a debugger, or by a user who forgets it. The job waits with it, and
 * plenumrun can report which instance it is waiting for. */
static void watch_stops(struct inner *a)
{
    siginfo_t info = {0};

    if (!is_running(a) || a->kill_at != UINT64_MAX || a->suspended ||
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

/* We start the loader later, and it inherits our CPUs. If the kernel refuses, nothing is lost: the
 * loader then shares the CPUs of the programs. */
static void bind_loader(const struct inner *a)
{
    struct bind_request bind;
    struct bind_result result;

    if (a->loader && *a->plan.loader_cpus &&
        bind_request_parse(a->plan.loader_cpus, "", true, NUMA_DEFAULT, &bind, NULL) == 0)
        bind_apply(&bind, &result);
}

/* The program finds it in the usual place, but its environment contains only a file name, which is
 * valid on this host, for this user, for as long as we live. */
static int keep_key(struct inner *a)
{
    char path[TLS_PATH_MAX];

    if (!*a->plan.loader_key)
        return 0;
    a->key_fd = tls_keep_key(a->plan.loader_key, path);
    if (a->key_fd < 0)
        return a->key_fd;
    return environ_list_put(&a->plan.environment, ENVIRON_SET, "PLENUM_LOADER_KEY", path);
}

/* Under mpirun the program learns from us which instances have ended. Without the page it only
 * waits longer. */
static void make_departed(struct inner *a)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    char path[DEPARTED_PATH_MAX];
    uint64_t instances;

    if (!size || parse_u64(size, UINT32_MAX, &instances) < 0 ||
        departed_create((uint32_t)instances, &a->departed, path) < 0)
        return;
    (void)environ_list_put(&a->plan.environment, ENVIRON_SET, DEPARTED_VARIABLE, path);
}

static void start_program(struct inner *a)
{
    struct child_options options = {
        .argv = a->plan.argv,
        .directory = a->plan.directory,
        .strict = a->plan.strict,
        .input = a->plan.input,
        .ignored = a->task->ignored,
        .descriptors = a->task->descriptors,
        .umask = (mode_t)a->plan.umask,
    };
    struct bind_request bind;
    int r;

    r = bind_request_parse(a->plan.cpus, a->plan.nodes, a->plan.bind_cpus,
                           (enum numa_policy)a->plan.memory, &bind, NULL);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_PLAN, r);
        return;
    }
    r = keep_key(a);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_FORK, r);
        return;
    }
    options.inherit = a->key_fd > 0 ? a->key_fd : 0;
    make_departed(a);
    (void)environ_list_put(&a->plan.environment, ENVIRON_SET, "PWD", a->plan.directory);
    a->environment = environ_apply(environ, &a->plan.environment);
    options.bind = &bind;
    options.environment = a->environment;
    r = a->environment ? child_start(&options, &a->child) : -ENOMEM;
    if (r < 0) {
        send_failed(a, CONTROL_STEP_FORK, r);
        return;
    }
    a->started_ns = time_now_ns();
    a->memory_kills = memory_count_kills();
    bind_loader(a);
    if (a->loader)
        jobloader_set_environment(a->loader, a->environment);
}

static void handle_plan(struct inner *a, struct frame_reader *payload)
{
    int r;

    if (a->planned)
        return;
    r = control_get_plan(payload, &a->plan);
    if (r < 0) {
        send_failed(a, CONTROL_STEP_PLAN, r);
        return;
    }
    a->planned = true;
    if (a->plan.window < FRAME_BYTES)
        a->plan.window = FRAME_BYTES;
    start_program(a);
}

/* Send this host's topology; empty if it is not available: then nothing is bound here. */
static void send_topology(struct inner *a, bool devices)
{
    struct plenum_error err;
    hwloc_topology_t topology;
    size_t len;
    char *xml;

    if (topology_load(devices, &topology, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&a->conn.tx, false, NULL, 0);
        return;
    }
    if (topology_export(topology, &xml, &len, &err) < 0) {
        log_error("%s", err.text);
        (void)control_put_topology(&a->conn.tx, false, NULL, 0);
    } else {
        (void)control_put_topology(&a->conn.tx, hwloc_topology_is_thissystem(topology), xml, len);
        hwloc_free_xmlbuffer(topology, xml);
    }
    hwloc_topology_destroy(topology);
}

static void handle_input(struct inner *a, struct frame_reader *payload)
{
    const char *bytes;
    size_t len;
    char *more;

    control_get_bytes(payload, &bytes, &len);
    if (len == 0) {
        a->input_ended = true;
        return;
    }
    if (a->child.input < 0) {
        (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        return;
    }
    more = realloc(a->input, a->input_len + len);
    if (!more) {
        a->input_ended = true; /* end the input early rather than with a gap in it */
        return;
    }
    memcpy(more + a->input_len, bytes, len);
    a->input = more;
    a->input_len += len;
}

/* Forward a signal to the program, from the process `from`; 0: from plenumrun. */
static void hand_on(struct inner *a, int signal, pid_t from)
{
    if (signal <= 0 || signal >= NSIG || !is_running(a))
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
        send_topology(a, number != 0);
        break;
    case CONTROL_PLAN:
        handle_plan(a, payload);
        break;
    case CONTROL_CREDIT:
        a->in_flight -= min_u64(a->in_flight, number);
        break;
    case CONTROL_INPUT:
        handle_input(a, payload);
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

/* ---- output and input ---- */

/* Send lines as far as credit allows. */
static void send_lines(struct inner *a, int stream)
{
    struct lines *lines = &a->lines[stream];
    bool flush = *pipe_of(a, stream) < 0 || (a->plan.at_once && stream != CONTROL_LOADER);
    const char *bytes;
    size_t len;

    while (a->connected && (len = lines_peek(lines, FRAME_BYTES, flush, &bytes)) > 0) {
        if (a->in_flight > 0 && a->in_flight + len > a->plan.window)
            return;
        if (control_put_output(&a->conn.tx, (enum control_stream)stream, bytes, len) < 0)
            return;
        a->in_flight += len;
        lines_drop(lines, len);
    }
}

/* A progress bar that is redrawn again and again has no newline for minutes. Report its current
 * state to plenumrun, apart from its bytes, which are sent when the line is complete. */
static void send_progress(struct inner *a, int stream, uint64_t now)
{
    const char *bytes;
    size_t len;

    if (!a->progress[stream] || now < a->progress_at[stream] || !a->connected)
        return;
    a->progress[stream] = false;
    len = lines_peek_progress(&a->lines[stream], &bytes);
    if (len == 0)
        return;
    a->progress_at[stream] = now + PROGRESS_MS * NS_PER_MS;
    (void)control_put_progress(&a->conn.tx, (enum control_stream)stream, bytes, len);
}

static void write_input(struct inner *a)
{
    size_t done = 0;

    while (a->child.input >= 0 && done < a->input_len) {
        ssize_t n = write(a->child.input, a->input + done, a->input_len - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            io_close(&a->child.input);
            (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        }
    }
    if (done > 0) {
        (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, done);
        a->input_len -= done;
        memmove(a->input, a->input + done, a->input_len);
    }
    if (a->input_len == 0 && a->input_ended)
        io_close(&a->child.input);
}

static void finish_output(struct inner *a)
{
    char last[sizeof(a->tail.bytes) + 1];
    size_t len;

    if (a->drained || !a->exited || !a->swept || a->child.output[0] >= 0 ||
        a->child.output[1] >= 0 || lines_pending(&a->lines[CONTROL_STDOUT]) > 0 ||
        lines_pending(&a->lines[CONTROL_STDERR]) > 0)
        return;
    a->drained = true;
    if (a->failed)
        return;
    len = tail_get(&a->tail, TAIL_LINES, last);
    (void)control_put_bytes(&a->conn.tx, CONTROL_DRAINED, last, len);
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
        if (frame_conn_pending(&a->conn) < FRAME_BYTES)
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
            .fd = lines_has_room(&a->lines[s]) ? *pipe_of(a, s) : -1, .events = POLLIN};
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
            read_report(a);
        reap(a);
        watch_stops(a);
        if (fds[FD_CONTROL].revents && a->connected)
            read_control(a);
        if (fds[FD_LOADER].revents)
            jobloader_dispatch(a->loader);
        write_input(a);
        do_what_is_due(a, time_now_ns());
        for (int s = 0; s < CONTROL_STREAMS; s++) {
            if (fds[FD_STREAMS + s].revents || (a->swept && s != CONTROL_LOADER))
                read_pipe(a, s);
            send_lines(a, s);
            send_progress(a, s, time_now_ns());
        }
        finish_output(a);
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
    read_pipe(a, CONTROL_LOADER);
    io_close(&a->loader_fd);
    send_lines(a, CONTROL_LOADER);
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

/* SPDX-License-Identifier: MIT */
/* probe.c - queries each host by a login, in parallel and with a time limit, before the job starts.
 *
 * mpirun starts nothing until all of its daemons have reported, and does not name the one that it
 * is waiting for. And each instance would discover a missing program or folder by itself. So each
 * host is queried in advance: its shell starts plenumrun there, which prints
 *
 *     plenumrun-probe
 *     version 0.1.0
 *     time 1700000000123456789
 *     directory 0                     0, or the error
 *     program 0
 *     executable 0                    only if the program exists but cannot be executed
 *     memory 22548578304 25281560576  free and total bytes
 *     folder 0                        0, or why Open MPI cannot keep its files in TMPDIR or /tmp
 *     tls 0                           0, or why TLS is not available
 *     back 10.1.2.254 0               0, or why plenumrun's port cannot be reached at that address
 *     address eth0 10.1.2.3/16 reached
 *     earlier 0                       processes of the job's earlier start that cannot be killed
 *     health 0                        0, "bad REASON" or "unknown REASON"
 *     device gpu 3 is lost            the accelerator that does not answer, if one does not
 *     end
 *
 * The login may print any amount of text before the first line. Unknown lines are ignored, so that
 * other versions can answer, too. */
#include "config.h"

#include "launcher/remote/probe.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/net/tls.h"
#include "common/util/error_set.h"
#include "common/util/memory.h"
#include "common/util/util.h"
#include "launcher/control/dial.h"
#include "launcher/host/health.h"
#include "launcher/host/host.h"
#include "launcher/host/leftover.h"
#include "launcher/host/script.h"
#include "launcher/plan/grid.h"
#include "launcher/remote/answer.h"

enum {
    SIDE_BY_SIDE = 64, /* parallel logins, not counting silent ones */
    PROMPT_MS = 3000,  /* a login counts as silent after this time */
    LEAVE_MS = 1000,   /* time for a login to end after its answer */
    POLL_MS = 1000,
    READS = 16,          /* number of reads from one login before others get their turn */
    BACK_MS = 5000,      /* longest time for connecting to plenumrun */
    BACK_PART = 3,       /* connecting gets at most 1/3 of the time for the answer */
    BACK_MORE_MS = 1500, /* time for the other addresses, once one has connected */
    HEALTH_PARTS = 2,    /* health checks get at most 2/3 of the time for the answer */
    ACCEPTS = 64,
    EARLIER_MS = 3000, /* time for processes of an earlier start to end */
};

/* The last argument, if accelerators do not matter. */
#define NO_DEVICES "no-devices"

static const char first_line[] = "plenumrun-probe\n";

/* A query in progress. */
struct inquiry {
    pid_t pid;           /* 0: not begun, or over */
    int fd;              /* the login's output; -1: closed */
    uint64_t asked_ns;   /* when it began, on the real-time clock */
    uint64_t heard_ns;   /* when its output was last read, on the real-time clock */
    uint64_t since_ns;   /* when it began, on the monotonic clock, plus time we were stopped */
    struct answer *said; /* the login's output; owned; NULL: not begun */
};

static uint64_t real_time_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * NS_PER_SEC + (uint64_t)t.tv_nsec;
}

void probe_fini(struct probe *probe)
{
    network_fini(&probe->network);
    texts_fini(&probe->back);
}

void probe_fail(struct probe *probe, const char *step, const char *format, ...)
{
    va_list args;

    if (probe->failed)
        return;
    probe->failed = true;
    (void)snprintf(probe->step, sizeof(probe->step), "%s", step);
    va_start(args, format);
    (void)vsnprintf(probe->what, sizeof(probe->what), format, args);
    va_end(args);
}

/* ---- the query ---- */

uint64_t probe_get_health_ms(int limit_ms)
{
    return min_u64((uint64_t)limit_ms * HEALTH_PARTS / BACK_PART, HEALTH_LIMIT_MS);
}

static char *make_script(const struct probe_question *q, bool loader)
{
    bool back = q->back && !loader;
    char limit[16], health[16];
    const char *const words[] = {PROBE_ARGUMENT,
                                 PACKAGE_VERSION,
                                 loader ? "/" : q->directory,
                                 q->program && !loader ? q->program : "",
                                 q->path ? q->path : "",
                                 back ? q->back : "",
                                 limit,
                                 q->job ? q->job : "",
                                 health,
                                 q->health ? q->health : "",
                                 loader || q->no_devices ? NO_DEVICES : ""};

    (void)snprintf(health, sizeof(health), "%u",
                   q->healthy ? (unsigned)probe_get_health_ms(q->limit_ms) : 0);
    (void)snprintf(limit, sizeof(limit), "%u",
                   (unsigned)min_u64((uint64_t)q->limit_ms / BACK_PART, BACK_MS));
    return agent_make_script(q->self, words, ARRAY_LEN(words));
}

static int ask(const struct probe_question *question, const struct plan_host *host, char *script,
               struct inquiry *q)
{
    char *words[AGENT_WORDS_MAX + 1], *text;
    int null, fds[2], r;

    q->said = malloc(sizeof(*q->said));
    if (!q->said)
        return -ENOMEM;
    answer_init(q->said, first_line);
    r = agent_make_command(question->agent, host, script, &text, words);
    if (r < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        r = -errno;
        free(text);
        return r;
    }
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    q->asked_ns = real_time_ns();
    q->since_ns = time_now_ns();
    q->pid = agent_start(words, null, fds[1], fds[1]);
    free(text);
    io_close(&null);
    (void)close(fds[1]);
    q->fd = fds[0];
    if (q->pid < 0) {
        r = q->pid;
        q->pid = 0;
        io_close(&q->fd);
        return r;
    }
    return io_set_nonblock(q->fd);
}

static void listen_to(struct inquiry *q)
{
    char bytes[4096];
    ssize_t n = 1;

    assert(q->pid > 0 && q->fd >= 0);
    for (int i = 0; i < READS && n > 0; i++) {
        n = read(q->fd, bytes, sizeof(bytes));
        if (n > 0)
            answer_add(q->said, bytes, (size_t)n);
    }
    q->heard_ns = real_time_ns();
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        io_close(&q->fd);
}

/* ---- the answer ---- */

static void read_clock(const char *value, uint64_t asked_ns, uint64_t heard_ns, struct probe *p)
{
    uint64_t there;

    if (parse_u64(value, UINT64_MAX, &there) < 0)
        return;
    /* The other clock was read between our query and its answer. Only a time outside this interval
     * proves a difference. */
    if (there > heard_ns)
        p->clock_ns = (int64_t)min_u64(there - heard_ns, INT64_MAX);
    else if (there < asked_ns)
        p->clock_ns = -(int64_t)min_u64(asked_ns - there, INT64_MAX);
}

/* Parse "AVAILABLE TOTAL", in bytes. */
static void read_memory(const char *value, struct probe *p)
{
    uint64_t available, all;

    if (parse_next_u64(&value, UINT64_MAX, &available) < 0 || *value++ != ' ' ||
        parse_u64(value, UINT64_MAX, &all) < 0)
        return;
    p->memory_free = available;
    p->memory_total = all;
}

static void read_health(const char *value, struct probe *p)
{
    const char *unknown = str_after(value, "unknown ");

    if (strcmp(value, "0") == 0 || p->failed)
        return;
    p->blameless = unknown != NULL;
    value = unknown ? unknown : str_after(value, "bad ");
    probe_fail(p, "health", "%s", value ? value : "its answer cannot be read");
}

static void handle_line(const char *key, char *value, uint64_t asked_ns, uint64_t heard_ns,
                        struct probe *p)
{
    struct network_address address;

    if (strcmp(key, "version") == 0 && strcmp(value, PACKAGE_VERSION) != 0)
        probe_fail(
            p, "version",
            "plenumrun %s is installed there, but %s here: install the same version on all hosts",
            value, PACKAGE_VERSION);
    else if (strcmp(key, "time") == 0)
        read_clock(value, asked_ns, heard_ns, p);
    else if (strcmp(key, "directory") == 0 && strcmp(value, "0") != 0)
        probe_fail(p, "working directory", "%s", value);
    else if (strcmp(key, "program") == 0 && strcmp(value, "0") != 0)
        probe_fail(p, "program", "%s", value);
    else if (strcmp(key, "executable") == 0)
        p->not_executable = strcmp(value, "0") == 0;
    else if (strcmp(key, "folder") == 0 && strcmp(value, "0") != 0 && !p->loader)
        probe_fail(p, "folder", "Open MPI's files cannot be written there: %s", value);
    else if (strcmp(key, "earlier") == 0 && strcmp(value, "0") != 0)
        probe_fail(p, "earlier start",
                   "processes of the job's earlier start cannot be ended there (%s)", value);
    else if (strcmp(key, "device") == 0)
        (void)snprintf(p->device, sizeof(p->device), "%s", value);
    else if (strcmp(key, "health") == 0)
        read_health(value, p);
    else if (strcmp(key, "tls") == 0 && strcmp(value, "0") != 0)
        (void)snprintf(p->no_tls, sizeof(p->no_tls), "%s", value);
    else if (strcmp(key, "memory") == 0)
        read_memory(value, p);
    else if (strcmp(key, "back") == 0)
        (void)texts_add(&p->back, value, strlen(value));
    else if (strcmp(key, "address") == 0 && network_parse_address(value, &address) == 0)
        (void)network_add(&p->network, &address);
}

/* Record a login that ended successfully without plenumrun's answer, because something else ran
 * there. */
static void fail_without_answer(const char *last, struct probe *p)
{
    static const char why[] = "does a file like ~/.bashrc there exit, or start another shell?";

    if (*last)
        probe_fail(p, "log in", "the login printed '%.200s' and ended with 0: %s", last, why);
    else
        probe_fail(p, "log in", "the login printed nothing and ended with 0: %s", why);
}

void probe_read_answer(char *text, uint64_t asked_ns, uint64_t heard_ns, struct probe *ret)
{
    char *line = strstr(text, first_line), *save = NULL;
    bool complete = false;

    if (!line) {
        fail_without_answer(answer_last_line(text), ret);
        return;
    }
    line += strlen(first_line);
    for (line = strtok_r(line, "\n", &save); line && !complete;
         line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');

        complete = strcmp(line, "end") == 0;
        if (!value)
            continue;
        *value++ = '\0';
        handle_line(line, value, asked_ns, heard_ns, ret);
    }
    if (!complete)
        probe_fail(ret, "log in", "the answer of plenumrun there was truncated");
}

/* Reap a login, which may have closed its output without ending. Returns true if it had to be
 * killed. */
static bool end_login(struct inquiry *q, uint64_t patience_ns, int *status)
{
    pid_t pid;

    assert(q->pid > 0);
    while ((pid = waitpid(q->pid, status, WNOHANG)) == 0 && time_now_ns() < patience_ns)
        (void)usleep(1000);
    if (pid != 0)
        return false;
    (void)kill(-q->pid, SIGKILL);
    (void)waitpid(q->pid, status, 0);
    return true;
}

static void fail_silent(const struct probe_question *question, const char *last, struct probe *p)
{
    double seconds = question->limit_ms / 1000.0;

    if (*last)
        probe_fail(p, "log in", "no answer within %.3g s; last, the login printed '%.200s'",
                   seconds, last);
    else
        probe_fail(p, "log in", "no answer within %.3g s", seconds);
}

static void conclude(const struct probe_question *question, struct inquiry *q, uint64_t patience_ns,
                     struct probe *p)
{
    bool silent = q->fd >= 0, stayed, well;
    int status = 0;

    if (q->pid == 0) {
        probe_fail(p, "log in", "there was no time left to query it");
        return;
    }
    stayed = end_login(q, silent ? 0 : patience_ns, &status);
    io_close(&q->fd);
    q->pid = 0;
    p->took_ns = q->heard_ns > q->asked_ns ? q->heard_ns - q->asked_ns : 0;
    well = !silent && (stayed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    if (well)
        probe_read_answer(q->said->text, q->asked_ns, q->heard_ns, p);
    else if (silent)
        fail_silent(question, answer_last_line(q->said->text), p);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == AGENT_NO_SELF)
        probe_fail(p, "plenumrun", "there is no %s: install it at the same place on all hosts",
                   question->self);
    else if (strstr(q->said->text, "unknown option " PROBE_ARGUMENT) ||
             strstr(q->said->text, PROBE_ARGUMENT " is for plenumrun's own use"))
        probe_fail(p, "version", "a different version of plenumrun is installed there");
    else if (*answer_last_line(q->said->text))
        probe_fail(p, "log in", "%s", answer_last_line(q->said->text));
    else
        probe_fail(p, "log in", "%s ended without any output", agent_program(question->agent));
}

/* Does a query count towards SIDE_BY_SIDE? Not once the host has been silent for PROMPT_MS:
 * otherwise many silent hosts would block the queries of the others. */
static bool is_busy(const struct inquiry *q, uint64_t now)
{
    return q->fd >= 0 && (q->said->len > 0 || now < q->since_ns + PROMPT_MS * NS_PER_MS);
}

/* Begin as many queries as are allowed in parallel. Returns the number in progress. */
static uint32_t ask_more(const struct probe_question *question, struct probe *probes,
                         struct inquiry *list, uint32_t count, uint32_t *next,
                         char *const scripts[2])
{
    uint32_t busy = 0, open = 0;
    uint64_t now = time_now_ns();

    for (uint32_t i = 0; i < *next; i++) {
        busy += is_busy(&list[i], now);
        open += list[i].fd >= 0;
    }
    for (; *next < count && busy < SIDE_BY_SIDE; (*next)++) {
        const struct probe *p = &probes[*next];
        int r = ask(question, p->host, scripts[p->loader], &list[*next]);

        if ((r == -EMFILE || r == -ENFILE || r == -EAGAIN) && open > 0) {
            free(list[*next].said);
            list[*next].said = NULL;
            break; /* retried when one of the others has ended */
        }
        if (r < 0)
            probe_fail(&probes[*next], "log in", "cannot be queried: %s", strerror(-r));
        busy += r == 0;
        open += r == 0;
    }
    return open;
}

/* Accept and close connections: only their arrival matters. */
static void close_connections(int listener)
{
    struct dial_peer from;

    for (int i = 0, fd = 0; i < ACCEPTS && fd >= 0; i++) {
        fd = dial_accept(listener, &from);
        if (fd >= 0)
            (void)close(fd);
    }
}

static void listen_to_all(struct inquiry *list, uint32_t count, struct pollfd *fds, int listener,
                          int wait_ms)
{
    nfds_t open = 0;

    for (uint32_t i = 0; i < count; i++)
        if (list[i].fd >= 0)
            fds[open++] = (struct pollfd){.fd = list[i].fd, .events = POLLIN};
    fds[open] = (struct pollfd){.fd = listener, .events = POLLIN};
    if (poll(fds, open + 1, wait_ms) <= 0)
        return;
    if (fds[open].revents)
        close_connections(listener);
    for (uint32_t i = count; i-- > 0;) /* backwards, because each is replaced by the last */
        if (list[i].fd >= 0 && fds[--open].revents)
            listen_to(&list[i]);
}

/* Run the queries until all hosts have answered, the time is over, or the user interrupts. Returns
 * for how long we were stopped (Ctrl-Z, or a suspended job). */
static uint64_t wait_for_all(const struct probe_question *question, struct probe *probes,
                             struct inquiry *list, uint32_t count, char *const scripts[2])
{
    uint64_t turn_ns = time_now_ns(), now, gap, stopped_ns = 0;
    uint64_t deadline = turn_ns + (uint64_t)question->limit_ms * NS_PER_MS;
    struct pollfd *fds = calloc((size_t)count + 1, sizeof(*fds));
    uint32_t next = 0;

    io_raise_descriptors(count);
    while (fds && (now = time_now_ns()) < deadline &&
           !(question->interrupted && question->interrupted()) &&
           (ask_more(question, probes, list, count, &next, scripts) > 0 || next < count)) {
        listen_to_all(list, next, fds, question->back ? question->listener : -1,
                      (int)min_u64((deadline - now) / NS_PER_MS + 1, POLL_MS));
        gap = time_not_run(&turn_ns, time_now_ns(), POLL_MS * NS_PER_MS);
        deadline += gap;
        stopped_ns += gap;
        for (uint32_t i = 0; i < next; i++)
            list[i].since_ns += gap;
    }
    free(fds);
    return stopped_ns;
}

int probe_hosts(const struct probe_question *question, struct probe *probes, uint32_t count,
                uint64_t *ret_stopped_ns)
{
    struct inquiry *list;
    char *scripts[2];
    uint64_t patience_ns;
    int failed;

    *ret_stopped_ns = 0;
    if (count == 0)
        return 0;
    list = calloc(count, sizeof(*list));
    scripts[0] = make_script(question, false);
    scripts[1] = make_script(question, true);
    failed = list && scripts[0] && scripts[1] ? 0 : -ENOMEM;
    if (failed < 0)
        goto out;
    for (uint32_t i = 0; i < count; i++)
        list[i].fd = -1;
    *ret_stopped_ns = wait_for_all(question, probes, list, count, scripts);
    patience_ns = time_now_ns() + LEAVE_MS * NS_PER_MS;
    for (uint32_t i = 0; i < count; i++) {
        conclude(question, &list[i], patience_ns, &probes[i]);
        failed += probes[i].failed;
        free(list[i].said);
    }
out:
    free(list);
    free(scripts[0]);
    free(scripts[1]);
    return failed;
}

void probe_check_back(struct probe *probe, const char *own, unsigned port)
{
    const char *address = NULL, *why = "";

    for (size_t i = 0; i < probe->back.count; i++) {
        const char *one = probe->back.items[i], *space = strchr(one, ' ');

        if (!space || (own && str_after(one, own) != space))
            continue;
        if (strcmp(space, " 0") == 0)
            return;
        if (!address)
            address = one, why = space + 1;
    }
    if (!address)
        return;
    probe_fail(probe, "network",
               "it cannot connect to plenumrun at %.*s, port %u (%.100s): allow that in the "
               "firewall (--port-range names the ports), or give --host-subnet",
               (int)(why - 1 - address), address, port, why);
}

char *probe_table(const struct probe *probes, uint32_t count, char *title, size_t size)
{
    static const char *const names[] = {"Host", "Step", "What", NULL};
    struct grid grid = {0};
    uint32_t failed = 0;
    char *text;

    grid_add_header(&grid, names);
    for (uint32_t i = 0; i < count; i++) {
        if (!probes[i].failed)
            continue;
        failed++;
        grid_add(&grid, probes[i].host->name);
        grid_add(&grid, probes[i].step);
        grid_add(&grid, probes[i].what);
    }
    (void)snprintf(title, size, "%u of %u other host%s not ready", failed, count,
                   count == 1 ? " is" : "s are");
    text = grid_format(&grid, 2);
    grid_fini(&grid);
    return text;
}

/* ---- on the other host ---- */

static void answer_program(const char *program)
{
    struct plenum_error err;
    int r = *program ? script_find(program, getenv("PATH"), &err) : 0;

    printf("program %s\n", r < 0 ? err.text : "0");
    if (r < 0 && r != -ENOENT)
        printf("executable 0\n");
}

static void answer_folder(void)
{
    const char *folder;
    int r = host_check_folder(&folder);

    if (r < 0)
        printf("folder %s: %s\n", folder, strerror(-r));
    else
        printf("folder 0\n");
}

static void answer_earlier(const char *job)
{
    int left = leftover_kill(job, EARLIER_MS * NS_PER_MS);

    if (left < 0)
        printf("earlier unknown: %s\n", strerror(-left));
    else
        printf("earlier %d\n", left);
}

static void answer_back(void *arg, const char *address, int r)
{
    (void)arg;
    printf("back %s %s\n", address, r == 0 ? "0" : strerror(-r));
}

static void answer_addresses(void)
{
    const char *connection = getenv("SSH_CONNECTION"); /* client, port, server, port */
    struct network network = {0};
    char server[64] = "", text[128];

    if (connection)
        (void)sscanf(connection, "%*s %*s %63s", server);
    (void)network_read(&network);
    network_mark_reached(&network, server);
    for (size_t i = 0; i < network.count; i++) {
        network_format_address(&network.list[i], text, sizeof(text));
        printf("address %s\n", text);
    }
    network_fini(&network);
}

/* Begin this host's health checks. Returns NULL if none were requested, or after printing why they
 * cannot be started. */
static struct health *begin_health(const char *limit, const char *command, const char *devices)
{
    struct health_request request = {
        .command = command, .root = "", .no_devices = strcmp(devices, NO_DEVICES) == 0};
    struct health *health = NULL;
    uint64_t ms;
    int r;

    if (parse_u64(limit, HEALTH_LIMIT_MS, &ms) < 0 || ms == 0)
        return NULL;
    request.limit_ns = ms * NS_PER_MS;
    r = health_begin(&request, &health);
    if (r < 0)
        printf("health unknown its checks cannot be started: %s\n", strerror(-r));
    return health;
}

static void answer_health(struct health *health)
{
    struct health_report report;

    health_finish(health, &report);
    if (report.device[0])
        printf("device %s\n", report.device);
    if (report.state == HEALTH_GOOD)
        printf("health 0\n");
    else
        printf("health %s %s\n", report.state == HEALTH_BAD ? "bad" : "unknown", report.why);
}

int probe_answer(int argc, char **argv)
{
    struct health *health = NULL;
    struct memory_limit memory;
    struct plenum_error err;
    uint64_t limit_ms;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int r;

    if (argc < 6) {
        fprintf(stderr, "plenumrun: %s is for plenumrun's own use: leave it out\n", PROBE_ARGUMENT);
        return 2;
    }
    printf("%sversion %s\ntime %llu\n", first_line, PACKAGE_VERSION,
           (unsigned long long)real_time_ns());
    r = chdir(argv[3]) < 0 ? -errno : 0;
    if (r < 0)
        printf("directory %s: %s\n", argv[3], strerror(-r));
    else
        printf("directory 0\n");
    if (*argv[5])
        (void)setenv("PATH", argv[5], 1);
    if (r == 0)
        answer_program(argv[4]);
    memory_available(&memory);
    printf("memory %llu %llu\n", (unsigned long long)memory.bytes,
           (unsigned long long)pages * (unsigned long long)page);
    answer_folder();
    printf("tls %s\n", tls_is_installed(&err) == 0 ? "0" : err.text);
    answer_addresses();
    if (argc > 8 && *argv[8])
        answer_earlier(argv[8]); /* before the health checks: earlier processes use accelerators */
    (void)fflush(stdout);
    if (argc > 10)
        health = begin_health(argv[9], argv[10], argc > 11 ? argv[11] : "");
    if (argc > 7 && *argv[6] && parse_u64(argv[7], BACK_MS, &limit_ms) == 0)
        dial_try_all(argv[6], (int)limit_ms, BACK_MORE_MS, answer_back, NULL);
    if (health)
        answer_health(health);
    printf("end\n");
    return fflush(stdout) == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/* bench_scale.c - bench/scale: measures on one machine what jobs of many hosts cost plenumrun.
 *
 *     bench/scale [--instances N] [--seconds N] [--real LIST] [HOSTS]...
 *
 * Default: 8 instances per host, 5 seconds, real jobs of 16 and 64, and 16, 64, 256 and 1024 hosts.
 *
 * plenumrun is the real program, from the current folder or PATH. The hosts are simulated
 * (scale_hosts.c): plenumrun runs this program as its mpirun and ssh. A second table compares jobs
 * of real processes on this host with mpirun's. bench/README.md explains both tables. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/scale_hosts.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/host/network.h"

enum { EVENTS_MAX = 16, UP_MS = 120000, ROUNDS = 5 };

static char folder[] = "/tmp/scale-XXXXXX";
static char plenumrun[4096];
static uint32_t instances = 8, seconds = 5;

/* The records of one job. */
struct scale_trace {
    struct scale_record events[EVENTS_MAX];
    size_t count;
    uint64_t begun_ns, ended_ns;
    int status;
    struct rusage usage;
};

static void die(const char *what)
{
    fprintf(stderr, "scale: %s: %s\n", what, strerror(errno));
    exit(1);
}

static char *in_folder(const char *name)
{
    char *path = str_format("%s/%s", folder, name);

    if (!path)
        die("out of memory");
    return path;
}

static void link_as(const char *name, const char *self)
{
    char *path = in_folder(name);

    if (symlink(self, path) < 0)
        die(path);
    free(path);
}

/* ---- simulated hosts ---- */

static char *list_hosts(uint32_t hosts)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    for (uint32_t i = 0; f && i < hosts; i++)
        (void)fprintf(f, "%s10.77.%u.%u", i ? "," : "", i >> 8, i & 255);
    if (!f || fclose(f) != 0)
        die("out of memory");
    return text;
}

/* Give all simulated hosts an address of this one, so that plenumrun listens only there. */
static void set_address(void)
{
    struct network own = {0};
    char text[128] = "";

    (void)network_read(&own);
    for (size_t i = 0; i < own.count && !text[0]; i++)
        if (!own.list[i].is_virtual && own.list[i].at.family == AF_INET)
            network_format_address(&own.list[i], text, sizeof(text));
    (void)setenv(SCALE_ENV_ADDRESS, text, 1);
    network_fini(&own);
}

/* Returns the option that root needs, or for other users one that changes nothing. */
static const char *allow_root(void)
{
    return geteuid() == 0 ? "--allow-run-as-root" : "--loader=none";
}

static _Noreturn void become_plenumrun(uint32_t hosts)
{
    char *list = list_hosts(hosts), *all = str_format("%u", hosts * instances), *log, *path, *pid;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err;

    log = in_folder("log");
    err = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    path = str_format("%s:%s", folder, getenv("PATH"));
    pid = str_format("%d", (int)getpid());
    if (null < 0 || err < 0 || !path || !pid || !all)
        die(log);
    (void)setenv("PATH", path, 1);
    (void)setenv(SCALE_ENV_PID, pid, 1);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    (void)execl(plenumrun, "plenumrun", allow_root(), "--host", list, "-n", all, "--start-timeout",
                "600", "--loader", "none", "true", NULL);
    die(plenumrun);
    _exit(127);
}

static void read_trace(const char *path, struct scale_trace *t)
{
    FILE *f = fopen(path, "r");
    struct scale_record r;
    unsigned long long at, rss, most, cpu, descriptors;

    while (f && t->count < EVENTS_MAX &&
           fscanf(f, "%15s %llu %llu %llu %llu %llu", r.event, &at, &rss, &most, &cpu,
                  &descriptors) == 6) {
        r.at_ns = at;
        r.rss = rss;
        r.most = most;
        r.cpu_ns = cpu;
        r.descriptors = descriptors;
        t->events[t->count++] = r;
    }
    if (f)
        (void)fclose(f);
}

static const struct scale_record *find(const struct scale_trace *t, const char *event)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->events[i].event, event) == 0)
            return &t->events[i];
    fprintf(stderr, "scale: the job ended before '%s' (status %d); see %s/log\n", event, t->status,
            folder);
    exit(1);
}

static double span(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static double cpu_of(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static void print_job(uint32_t hosts, const struct scale_trace *t)
{
    const struct scale_record *mpirun = find(t, "mpirun"), *logins = find(t, "logins"),
                              *planned = find(t, "planned"), *idle = find(t, "idle"),
                              *print = find(t, "print"), *written = find(t, "written"),
                              *failure = find(t, "failure"), *over = find(t, "over");
    double n = (double)hosts * instances;

    printf("%5u %6.0f %7.2f %7.2f %7.2f %8.2f %8.1f %7.1f %7.2f %6llu %7.2f %7.2f %7.2f %7.2f\n",
           hosts, n, span(t->begun_ns, mpirun->at_ns), span(mpirun->at_ns, logins->at_ns),
           span(t->begun_ns, planned->at_ns), (double)planned->cpu_ns / 1e9,
           100 * span(idle->cpu_ns, print->cpu_ns) / span(idle->at_ns, print->at_ns),
           (double)failure->most / n / 1024,
           (double)(failure->rss - min_u64(failure->rss, idle->rss)) / n / 1024,
           (unsigned long long)failure->descriptors, span(print->at_ns, written->at_ns),
           span(failure->at_ns, over->at_ns), (double)(over->cpu_ns - failure->cpu_ns) / 1e9,
           span(over->at_ns, t->ended_ns));
    (void)fflush(stdout);
}

static void simulate(uint32_t hosts)
{
    struct scale_trace t = {0};
    char *events = in_folder("events"), *length = str_format("%u", seconds);
    int status;
    pid_t pid;

    (void)unlink(events);
    (void)setenv(SCALE_ENV_EVENTS, events, 1);
    (void)setenv(SCALE_ENV_SECONDS, length, 1);
    t.begun_ns = time_now_ns();
    pid = fork();
    if (pid == 0)
        become_plenumrun(hosts);
    if (pid < 0 || wait4(pid, &status, 0, &t.usage) < 0)
        die("plenumrun");
    t.ended_ns = time_now_ns();
    t.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_trace(events, &t);
    print_job(hosts, &t);
    free(events);
    free(length);
}

/* ---- real processes, on this host ---- */

/* Each instance reports that it is up; instance 1 then waits for `go`, and fails. */
static const char program[] =
    "printf x >>\"$0/up\"; [ \"${OMPI_COMM_WORLD_RANK:-$PLENUM_INSTANCE_INDEX}\" = 1 ] || "
    "exec sleep 600; read x <\"$0/go\"; exit 1";

static _Noreturn void become_real(bool mpirun, const char *count)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(null, STDERR_FILENO);
    if (mpirun)
        (void)execlp("mpirun", "mpirun", "--oversubscribe", "-n", count, "sh", "-c", program,
                     folder, NULL);
    else
        (void)execl(plenumrun, "plenumrun", allow_root(), "-n", count, "--loader", "none", "sh",
                    "-c", program, folder, NULL);
    _exit(127);
}

static bool wait_until_up(const char *path, uint32_t count)
{
    uint64_t until = time_now_ns() + UP_MS * NS_PER_MS;
    struct stat st;

    while (stat(path, &st) < 0 || st.st_size < (off_t)count) {
        if (time_now_ns() > until)
            return false;
        (void)usleep(1000);
    }
    return true;
}

static void let_fail(void)
{
    char *go = in_folder("go");
    int fd = open(go, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "\n", 1) != 1)
        die(go);
    (void)close(fd);
    free(go);
}

static void run_real(bool mpirun, uint32_t count, struct scale_trace *t)
{
    char *up = in_folder("up"), *number = str_format("%u", count);
    struct scale_record *r = t->events;
    int status;
    pid_t pid;

    (void)unlink(up);
    t->begun_ns = time_now_ns();
    pid = fork();
    if (pid == 0)
        become_real(mpirun, number);
    if (pid < 0 || !wait_until_up(up, count))
        die(mpirun ? "mpirun" : plenumrun);
    scale_measure(pid, r);
    r[1].at_ns = time_now_ns();
    let_fail();
    if (wait4(pid, &status, 0, &t->usage) < 0)
        die("wait");
    t->ended_ns = time_now_ns();
    free(up);
    free(number);
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The measurements of several jobs. */
struct medians {
    double start[ROUNDS], end[ROUNDS], cpu[ROUNDS];
    struct scale_record used; /* by the launcher's process in the last round; not a median */
};

static void measure_round(bool mpirun, uint32_t count, int round, struct medians *ret)
{
    struct scale_trace t = {0};

    run_real(mpirun, count, &t);
    ret->start[round] = span(t.begun_ns, t.events[0].at_ns);
    ret->end[round] = span(t.events[1].at_ns, t.ended_ns);
    ret->cpu[round] = cpu_of(&t.usage);
    ret->used = t.events[0];
}

static void print_real(const char *name, uint32_t count, struct medians *m, double base)
{
    double *const lists[] = {m->start, m->end, m->cpu};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        qsort(lists[i], ROUNDS, sizeof(double), compare_times);
    printf("%-10s %6u %7.3f %7.2f %8.1f %6llu %8.2f %7.3f\n", name, count, m->start[ROUNDS / 2],
           base > 0 ? m->start[ROUNDS / 2] / base : 1, (double)m->used.most / count / 1024,
           (unsigned long long)m->used.descriptors, m->cpu[ROUNDS / 2], m->end[ROUNDS / 2]);
    (void)fflush(stdout);
}

static void compare(const char *list)
{
    char *go = in_folder("go");
    uint64_t count;

    if (!*list || host_find_program("mpirun", (char[4096]){0}, 4096) < 0)
        return;
    if (mkfifo(go, 0600) < 0)
        die(go);
    printf("\nreal processes on this host, medians of %d rounds\n%-10s %6s %7s %7s %8s %6s %8s "
           "%7s\n",
           ROUNDS, "", "inst.", "start", "ratio", "KiB/i", "fds", "CPU", "end");
    for (; *list; list += *list == ',') {
        struct medians open_mpi = {0}, own = {0};

        if (parse_next_u64(&list, 4096, &count) < 0 || count < 2)
            break;
        for (int i = 0; i < ROUNDS; i++) {
            measure_round(true, (uint32_t)count, i, &open_mpi);
            measure_round(false, (uint32_t)count, i, &own);
        }
        print_real("mpirun", (uint32_t)count, &open_mpi, 0);
        print_real("plenumrun", (uint32_t)count, &own, open_mpi.start[ROUNDS / 2]);
    }
    free(go);
}

/* ---- the command line ---- */

static void remove_folder(void)
{
    static const char *const names[] = {"mpirun", "ssh", "events", "up", "go", "log"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path = in_folder(names[i]);

        (void)unlink(path);
        free(path);
    }
    (void)rmdir(folder);
}

static void prepare(void)
{
    char self[4096];
    struct plenum_error err;

    if (host_get_self(self, sizeof(self), &err) < 0 || !mkdtemp(folder))
        die("a folder in /tmp");
    link_as("mpirun", self);
    link_as("ssh", self);
    if (!realpath("plenumrun", plenumrun) &&
        host_find_program("plenumrun", plenumrun, sizeof(plenumrun)) < 0)
        die("plenumrun");
    (void)unsetenv("SLURM_JOB_ID");
    (void)unsetenv("SLURM_JOBID");
    set_address();
}

static void simulate_all(int argc, char **argv)
{
    static const uint32_t sizes[] = {16, 64, 256, 1024};
    uint64_t hosts;

    printf("simulated hosts, %u instances on each; seconds of time and CPU, KiB per instance\n"
           "%5s %6s %7s %7s %7s %8s %8s %7s %7s %6s %7s %7s %7s %7s\n",
           instances, "hosts", "inst.", "check", "logins", "start", "startCPU", "idleCPU%", "KiB/i",
           "growth", "fds", "output", "end", "endCPU", "exit");
    for (int i = 0; i < argc; i++) {
        if (parse_u64(argv[i], 65536, &hosts) < 0 || hosts == 0)
            die(argv[i]);
        simulate((uint32_t)hosts);
    }
    for (size_t i = 0; argc == 0 && i < ARRAY_LEN(sizes); i++)
        simulate(sizes[i]);
}

int main(int argc, char **argv)
{
    const char *name = io_base_name(argv[0]), *real = "16,64";
    int at = 1;

    if (strcmp(name, "mpirun") == 0)
        return scale_be_mpirun(argc, argv);
    if (strcmp(name, "ssh") == 0)
        return scale_be_ssh(argc, argv);
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--instances") == 0)
            instances = (uint32_t)strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "--seconds") == 0)
            seconds = (uint32_t)strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "--real") == 0)
            real = argv[at + 1];
        else
            break;
    }
    if (at < argc && argv[at][0] == '-') {
        fprintf(stderr, "usage: scale [--instances N] [--seconds N] [--real LIST] [HOSTS]...\n");
        return 2;
    }
    prepare();
    simulate_all(argc - at, argv + at);
    compare(real);
    remove_folder();
    return 0;
}

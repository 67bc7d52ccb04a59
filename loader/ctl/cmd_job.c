/* SPDX-License-Identifier: MIT */
/* cmd_job.c - plenumctl job: shows, stops and grows this user's running jobs on this host. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/job/jobctl.h"
#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/message.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/screen.h"

enum { ANSWER_MS = 5000, GROWTH_MS = 600000, INSTANCES_MAX = 1000000, JOBS_MAX = 4096 };

struct job_arguments {
    bool json, metrics;
    uint64_t interval_ns;
};

#define AT(field) offsetof(struct job_arguments, field)

static const struct option_def defs[] = {
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "list, status: print JSON"},
    {"metrics", 'm', NULL, OPTION_FLAG, AT(metrics),
     .help = "status: print metrics for Prometheus"},
    {"interval", 'i', "TIME", OPTION_DURATION, AT(interval_ns), NS_PER_MS * 100, 0,
     .help = "top: refresh interval (default 1s)"},
};

static const struct options_program program = {
    .name = "plenumctl job",
    .usage = "list|status|stop|top|grow [JOB] [options]",
    .summary = "Show, stop and grow your running jobs on this host, where their plenumrun runs.",
    .footer =
        "JOB: the job's id, or its beginning. It can be left out if only one job is running.\n"
        "list: your jobs. status: a job and its instances. top: the same, refreshed until q "
        "is pressed. stop: ask the programs to stop at the same step; those that cannot get "
        "SIGTERM. grow: continue on more hosts, if any are ready, from a checkpoint at a step.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* A job, with its instances if they were requested. */
struct job_answer {
    struct jobctl_job job;
    struct jobctl_instance *instances; /* [got]; owned */
    uint32_t got;
    bool begun;
    enum jobctl_effect effect;
    struct jobctl_grown grown;
};

/* Take one message of the answer. Returns 1 once the answer is complete, 0 if messages are missing,
 * -EPROTO, or -ENOMEM. */
static int take(struct job_answer *a, const struct frame_header *h, struct frame_reader *payload)
{
    switch (h->type) {
    case JOBCTL_JOB:
        if (a->begun || jobctl_get_job(payload, &a->job) < 0 || a->job.instances > INSTANCES_MAX)
            return -EPROTO;
        a->begun = true;
        a->instances = calloc(a->job.instances + 1, sizeof(*a->instances));
        return a->instances ? a->job.instances == 0 : -ENOMEM;
    case JOBCTL_INSTANCE:
        if (!a->begun || a->got == a->job.instances ||
            jobctl_get_instance(payload, &a->instances[a->got]) < 0)
            return -EPROTO;
        return ++a->got == a->job.instances;
    case JOBCTL_STOPPED:
        return jobctl_get_stopped(payload, &a->effect) < 0 ? -EPROTO : 1;
    case JOBCTL_GROWN:
        return jobctl_get_grown(payload, &a->grown) < 0 ? -EPROTO : 1;
    default:
        return -EPROTO;
    }
}

static int talk(struct frame_conn *c, enum jobctl_type request, struct job_answer *a)
{
    uint64_t limit_ms = request == JOBCTL_GROW ? GROWTH_MS : ANSWER_MS;
    uint64_t end = time_now_ns() + limit_ms * NS_PER_MS;
    int r = jobctl_put_empty(&c->tx, request);

    while (r == 0) {
        int sent = frame_conn_flush(c);
        struct pollfd p = {.fd = c->fd, .events = sent == -EAGAIN ? POLLIN | POLLOUT : POLLIN};
        struct frame_header h;
        struct frame_reader payload;
        uint64_t now = time_now_ns();
        int64_t n;

        if (now >= end)
            return -ETIMEDOUT;
        (void)poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1);
        n = frame_conn_fill(c);
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        while (r == 0 && (r = frame_conn_next(c, &h, &payload)) == 1)
            r = take(a, &h, &payload);
    }
    return r < 0 ? r : 0;
}

static int refuse_to_wait(int r, int limit_ms, struct plenum_error *err)
{
    return error_set(err, r, "plenumrun has not answered for %d s: is it stopped?",
                     limit_ms / 1000);
}

/* Ask a job. The caller frees a->instances, even after an error. */
static int ask(const struct address *address, enum jobctl_type request, struct job_answer *a,
               struct plenum_error *err)
{
    struct frame_conn c;
    int fd = address_connect_until(address, 0, time_now_ns() + ANSWER_MS * NS_PER_MS), r;

    *a = (struct job_answer){.effect = JOBCTL_AGREES};
    if (fd == -ECONNREFUSED || fd == -ENOENT)
        return error_set(err, fd, "the job has ended");
    if (fd < 0) /* too many clients wait already */
        return refuse_to_wait(fd, ANSWER_MS, err);
    r = address_check_peer(address, fd);
    if (r < 0) {
        (void)close(fd);
        return error_set(err, r, "%s: another user's process listens there", address->text);
    }
    r = frame_conn_init(&c, fd, JOBCTL_MAX_PAYLOAD);
    if (r == 0)
        r = talk(&c, request, a);
    frame_conn_fini(&c);
    if (r == 0 && a->begun != (request == JOBCTL_STATUS))
        r = -EPROTO;
    if (r == -ETIMEDOUT)
        return refuse_to_wait(r, request == JOBCTL_GROW ? GROWTH_MS : ANSWER_MS, err);
    return r < 0 ? error_set(err, r, "plenumrun has closed the connection: has the job ended?") : r;
}

/* ---- finding jobs ---- */

struct jobs {
    struct address *list;
    unsigned count;
};

/* Find the jobs whose ids begin with `id`. An abstract socket disappears with its process, so no
 * job found here is stale. */
static int find_jobs(const char *id, struct jobs *ret, struct plenum_error *err)
{
    char line[512], text[300] = "unix:", wanted[JOBCTL_NAME_MAX];
    char *name = text + sizeof("unix:") - 1;
    FILE *f = fopen("/proc/net/unix", "re");
    unsigned char flags[4];
    int r = 0;

    if (!f)
        return error_set(err, -errno, "cannot read /proc/net/unix: %s", strerror(errno));
    (void)jobctl_address(id, wanted);
    while (r == 0 && ret->count < JOBS_MAX && fgets(line, sizeof(line), f)) {
        struct address *list;
        char hex[9];

        if (sscanf(line, "%*s %*s %*s %8s %*s %*s %*s %255s", hex, name) != 2 ||
            parse_hex(hex, flags, sizeof(flags)) < 0 || !(flags[1] & 1) || /* not listening */
            !str_after(text, wanted))
            continue;
        list = reallocarray(ret->list, ret->count + 1, sizeof(*list));
        if (!list) {
            r = error_set(err, -ENOMEM, "out of memory");
            break;
        }
        ret->list = list;
        if (address_parse(text, &list[ret->count], NULL) == 0)
            ret->count++;
    }
    (void)fclose(f);
    return r;
}

/* Find the only job whose id begins with `id`. */
static int find_one(const char *id, struct address *ret, struct plenum_error *err)
{
    struct jobs jobs = {0};
    int r = find_jobs(id, &jobs, err);

    if (r == 0 && jobs.count == 0)
        r = *id ? error_set(err, -ENOENT, "you have no running job '%s' on this host", id)
                : error_set(err, -ENOENT, "you have no running job on this host");
    else if (r == 0 && jobs.count > 1)
        r = error_set(err, -EINVAL, "%u jobs are running: name one of those of plenumctl job list",
                      jobs.count);
    else if (r == 0)
        *ret = jobs.list[0];
    free(jobs.list);
    return r;
}

/* ---- output ---- */

static void put_step(struct json *j, const char *key, uint64_t from_one)
{
    if (from_one > 0)
        json_number(j, key, from_one - 1);
    else
        json_null(j, key);
}

static void put_age(struct json *j, const char *key, uint64_t ns)
{
    if (ns == UINT64_MAX)
        json_null(j, key);
    else
        json_seconds(j, key, ns);
}

static void write_json(struct json *j, const struct job_answer *a, bool instances)
{
    const struct jobctl_job *m = &a->job;

    json_begin_object(j, NULL, instances ? JSON_LINES : JSON_FLAT);
    json_text(j, "id", m->id);
    json_number(j, "pid", m->pid);
    json_text(j, "program", m->program);
    json_text(j, "state", m->phase);
    json_number(j, "hosts", m->hosts);
    json_number(j, "num_instances", m->instances);
    json_number(j, "restarts", m->restarts);
    json_seconds(j, "elapsed_seconds", m->elapsed_ns);
    put_step(j, "step", m->asked);
    put_step(j, "stopped_at_step", m->halted);
    json_text(j, "slow", *m->slow ? m->slow : NULL);
    if (instances)
        json_begin_array(j, "instances", JSON_LINES);
    for (uint32_t i = 0; instances && i < a->got; i++) {
        const struct jobctl_instance *inst = &a->instances[i];

        json_begin_object(j, NULL, JSON_FLAT);
        json_number(j, "index", inst->index);
        json_text(j, "host", inst->host);
        json_number(j, "pid", inst->pid);
        json_text(j, "state", inst->state);
        put_step(j, "step", inst->asked);
        put_age(j, "output_seconds_ago", inst->output_ns);
        put_age(j, "heard_seconds_ago", inst->heard_ns);
        put_age(j, "own_seconds", inst->own_ns);
        put_age(j, "wait_seconds", inst->wait_ns);
        json_text(j, "slow", *inst->slow ? inst->slow : NULL);
        json_text(j, "slow_cause", *inst->cause ? inst->cause : NULL);
        json_end_object(j);
    }
    if (instances)
        json_end_array(j);
    json_end_object(j);
}

static const char *format_step(uint64_t from_one, char text[24])
{
    (void)snprintf(text, 24, "-");
    if (from_one > 0)
        (void)snprintf(text, 24, "%llu", (unsigned long long)from_one - 1);
    return text;
}

static const char *format_age(uint64_t ns, char text[24])
{
    (void)snprintf(text, 24, "-");
    if (ns != UINT64_MAX)
        (void)snprintf(text, 24, "%.1f s", (double)ns / 1e9);
    return text;
}

static const char *format_ms(uint64_t ns, char text[24])
{
    (void)snprintf(text, 24, "-");
    if (ns != UINT64_MAX)
        (void)snprintf(text, 24, "%.3g ms", (double)ns / 1e6);
    return text;
}

static const char list_row[] = "%-16s  %-9s %9s %10s %10s  %s%s\n";

static void write_row(FILE *f, struct job_answer *a, const char *end)
{
    char step[24], time[24], count[24];

    (void)snprintf(count, sizeof(count), "%u", a->job.instances);
    (void)fprintf(f, list_row, text_make_plain(a->job.id), text_make_plain(a->job.phase), count,
                  format_step(a->job.asked, step), format_age(a->job.elapsed_ns, time),
                  text_make_plain(a->job.program), end);
}

static void write_list_head(FILE *f, const char *end)
{
    (void)fprintf(f, list_row, "Job", "State", "Instances", "Step", "Time", "Program", end);
}

/* Write which hosts are slow, and why. Returns the number of lines. */
static unsigned write_slow(FILE *f, struct job_answer *a, unsigned rows, const char *end)
{
    unsigned lines = 0;

    if (*a->job.slow && lines < rows) {
        (void)fprintf(f, "The whole job is slow: %s%s\n", text_make_plain(a->job.slow), end);
        lines++;
    }
    for (uint32_t i = 0; i < a->got && lines < rows; i++) {
        struct jobctl_instance *inst = &a->instances[i];

        if (!*inst->slow)
            continue;
        (void)fprintf(f, "Host %s is slow (instance %u): %s%s\n", text_make_plain(inst->host),
                      inst->index, text_make_plain(inst->slow), end);
        lines++;
    }
    return lines;
}

/* Write a job and its instances in at most `rows` lines. */
static void write_text(FILE *f, struct job_answer *a, unsigned rows, const char *end)
{
    static const char row[] = "  %8s  %-20s %9s  %-9s %10s %10s %10s %12s %14s%s\n";
    unsigned slow;

    write_list_head(f, end);
    write_row(f, a, end);
    slow = write_slow(f, a, rows > 6 ? rows - 6 : 0, end);
    (void)fprintf(f, "%s\n", end);
    (void)fprintf(f, row, "Instance", "Host", "Process", "State", "Step", "Own time", "Wait",
                  "Last output", "Last heard of", end);
    for (uint32_t i = 0; i < a->got; i++) {
        struct jobctl_instance *inst = &a->instances[i];
        char index[24], pid[24], step[24], own[24], wait[24], output[24], heard[24];

        if (i + 5 + slow >= rows && i + 1 < a->got) {
            (void)fprintf(f, "  and %u more%s\n", a->got - i, end);
            break;
        }
        (void)snprintf(index, sizeof(index), "%u", inst->index);
        (void)snprintf(pid, sizeof(pid), inst->pid ? "%u" : "-", inst->pid);
        (void)fprintf(f, row, index, text_make_plain(inst->host), pid, text_make_plain(inst->state),
                      format_step(inst->asked, step), format_ms(inst->own_ns, own),
                      format_ms(inst->wait_ns, wait), format_age(inst->output_ns, output),
                      format_age(inst->heard_ns, heard), end);
    }
}

/* Write one metric of all instances that have it, in Prometheus's text format. */
static void write_metric(const struct job_answer *a, const char *name, const char *help,
                         size_t offset)
{
    printf("# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
    for (uint32_t i = 0; i < a->got; i++) {
        const struct jobctl_instance *inst = &a->instances[i];
        uint64_t ns = *(const uint64_t *)(const void *)((const char *)inst + offset);

        if (ns != UINT64_MAX)
            printf("%s{job=\"%s\",host=\"%s\",instance=\"%u\"} %.9g\n", name, a->job.id, inst->host,
                   inst->index, (double)ns / 1e9);
    }
}

static void write_metrics(struct job_answer *a)
{
    static const char name[] = "plenum_job_slow";

    (void)text_make_plain(a->job.id);
    for (uint32_t i = 0; i < a->got; i++)
        (void)text_make_plain(a->instances[i].host);
    write_metric(a, "plenum_job_own_seconds", "Time of the last step, without waits.",
                 offsetof(struct jobctl_instance, own_ns));
    write_metric(a, "plenum_job_wait_seconds", "Wait for batches in the last step.",
                 offsetof(struct jobctl_instance, wait_ns));
    printf("# HELP %s 1 if this host slows the job down; with an empty host: if the whole job is "
           "slow.\n# TYPE %s gauge\n",
           name, name);
    if (*a->job.slow)
        printf("%s{job=\"%s\",host=\"\",cause=\"\"} 1\n", name, a->job.id);
    for (uint32_t i = 0; i < a->got; i++)
        if (*a->instances[i].slow)
            printf("%s{job=\"%s\",host=\"%s\",cause=\"%s\"} 1\n", name, a->job.id,
                   a->instances[i].host, text_make_plain(a->instances[i].cause));
}

/* ---- the commands ---- */

/* List all jobs, except those that end while we ask. */
static int list_all(const struct job_arguments *arguments, struct plenum_error *err)
{
    struct json j = {.file = stdout};
    struct jobs jobs = {0};
    struct job_answer a;
    int r = find_jobs("", &jobs, err);

    if (r == 0 && arguments->json)
        json_begin_array(&j, NULL, JSON_LINES);
    else if (r == 0 && jobs.count > 0)
        write_list_head(stdout, "");
    for (unsigned i = 0; r == 0 && i < jobs.count; i++) {
        int asked = ask(&jobs.list[i], JOBCTL_STATUS, &a, err);

        if (asked == 0 && arguments->json)
            write_json(&j, &a, false);
        else if (asked == 0)
            write_row(stdout, &a, "");
        else if (asked != -ECONNREFUSED && asked != -ENOENT)
            fprintf(stderr, "%s: %s: %s\n", program.name, jobs.list[i].text, err->text);
        free(a.instances);
    }
    if (r == 0 && arguments->json)
        json_end_array(&j);
    free(jobs.list);
    return r;
}

static int show(const struct address *address, const struct job_arguments *arguments,
                struct plenum_error *err)
{
    struct json j = {.file = stdout};
    struct job_answer a;
    int r = ask(address, JOBCTL_STATUS, &a, err);

    if (r == 0 && arguments->metrics)
        write_metrics(&a);
    else if (r == 0 && arguments->json)
        write_json(&j, &a, true);
    else if (r == 0)
        write_text(stdout, &a, UINT32_MAX, "");
    free(a.instances);
    return r;
}

static int stop(const struct address *address, struct plenum_error *err)
{
    static const char *const effects[JOBCTL_EFFECTS] = {
        [JOBCTL_AGREES] = "the programs stop at the same step",
        [JOBCTL_SIGNALS] = "the programs were sent SIGTERM",
        [JOBCTL_ALREADY] = "the job is stopping already",
        [JOBCTL_ENDS] = "no programs are running: the job ends without starting them",
    };
    struct job_answer a;
    int r = ask(address, JOBCTL_STOP, &a, err);

    free(a.instances);
    if (r < 0)
        return r;
    if (a.effect == JOBCTL_EARLY)
        return error_set(err, -EAGAIN, "the job is still starting: try again in a moment");
    (void)puts(effects[a.effect]);
    return 0;
}

/* Ask a job to continue on more hosts, and wait until these have been checked. */
static int grow(const struct address *address, struct plenum_error *err)
{
    struct job_answer a;
    int r = ask(address, JOBCTL_GROW, &a, err);

    free(a.instances);
    if (r < 0)
        return r;
    text_make_plain(a.grown.text);
    if (!a.grown.grows)
        return error_set(err, -EAGAIN, "nothing was stopped: %s", a.grown.text);
    (void)printf("the programs stop at the same step and continue on %s\n", a.grown.text);
    return 0;
}

static int draw(void *arg, FILE *f, unsigned rows, struct plenum_error *err)
{
    struct job_answer a;
    int r = ask(arg, JOBCTL_STATUS, &a, err);

    if (r == 0)
        write_text(f, &a, rows, "\033[K");
    free(a.instances);
    return r;
}

static int top(struct address *address, uint64_t interval_ns, struct plenum_error *err)
{
    if (!isatty(STDOUT_FILENO))
        return error_set(err, -ENOTTY,
                         "top needs a terminal: use plenumctl job status for files and pipes");
    return screen_run(draw, address, interval_ns, err);
}

MESSAGE static int refuse_usage(const char *why)
{
    fprintf(stderr, "%s: %s; see --help\n", program.name, why);
    return 2;
}

static int run(int argc, char **argv)
{
    static const char *const words[] = {"list", "status", "stop", "top", "grow"};
    struct job_arguments arguments = {.interval_ns = NS_PER_SEC};
    struct plenum_error err;
    struct address address;
    size_t word = 0;
    int operands, r = options_start(&program, &arguments, argc, argv, &operands);

    if (r >= 0)
        return r;
    while (operands > 0 && word < ARRAY_LEN(words) && strcmp(argv[1], words[word]) != 0)
        word++;
    if (operands == 0 || word == ARRAY_LEN(words))
        return refuse_usage("list, status, stop, top or grow is needed");
    if (operands > (word == 0 ? 1 : 2))
        return refuse_usage("only one job can be named");
    if (arguments.metrics && word != 1)
        return refuse_usage("--metrics is for status");
    if (arguments.json && word > 1)
        return refuse_usage("--json is for list and status");
    r = word == 0 ? list_all(&arguments, &err)
                  : find_one(operands > 1 ? argv[2] : "", &address, &err);
    if (r == 0 && word == 1)
        r = show(&address, &arguments, &err);
    else if (r == 0 && word == 2)
        r = stop(&address, &err);
    else if (r == 0 && word == 3)
        r = top(&address, arguments.interval_ns, &err);
    else if (r == 0 && word == 4)
        r = grow(&address, &err);
    if (r < 0)
        return ctl_fail("job", &err);
    return fflush(stdout) == 0 ? 0 : 1;
}

const struct ctl_command ctl_job = {
    .name = "job",
    .summary = "show, stop and grow your running jobs",
    .run = run,
};

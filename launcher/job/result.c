/* SPDX-License-Identifier: MIT */
/* result.c - reports the state of each instance: to programs at the end of the job (--result), and
 * to users who press Ctrl-C. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/plan/grid.h"

enum { READER_MS = 5000 };

/* Returns the instance's state, for both reports. */
const char *result_state(const struct instance *inst)
{
    if (inst->has_failed)
        return "not started";
    if (inst->has_exited)
        return WIFSIGNALED(inst->exited.status) ? "killed" : "exited";
    if (inst->lost)
        return "lost";
    switch (inst->state) {
    case INSTANCE_ABSENT:
    case INSTANCE_PRESENT:
        return "not started";
    case INSTANCE_PLANNED:
        return "starting";
    default:
        return inst->stopped_by ? "stopped" : "running";
    }
}

static void put_exit(struct json *j, const struct supervisor *s, const struct instance *inst)
{
    const char *const causes[] = {[CONTROL_CAUSE_ITSELF] = "itself",
                                  [CONTROL_CAUSE_ASKED] = "plenumrun",
                                  [CONTROL_CAUSE_MPIRUN] = s->job->mpirun ? "mpirun" : "starter",
                                  [CONTROL_CAUSE_SHIM] = "shim"};
    int status = inst->exited.status;

    if (!inst->has_exited) {
        json_null(j, "exit_code");
        json_null(j, "signal");
        json_null(j, "ended_by");
        json_null(j, "elapsed_seconds");
        json_null(j, "user_seconds");
        json_null(j, "system_seconds");
        json_null(j, "max_rss_bytes");
        return;
    }
    if (WIFEXITED(status))
        json_number(j, "exit_code", (uint64_t)WEXITSTATUS(status));
    else
        json_null(j, "exit_code");
    if (WIFSIGNALED(status))
        json_number(j, "signal", (uint64_t)WTERMSIG(status));
    else
        json_null(j, "signal");
    json_text(j, "ended_by", causes[inst->exited.cause]);
    json_seconds(j, "elapsed_seconds", inst->exited.elapsed_ns);
    json_seconds(j, "user_seconds", inst->exited.user_ns);
    json_seconds(j, "system_seconds", inst->exited.system_ns);
    json_number(j, "max_rss_bytes", inst->exited.max_rss_bytes);
}

static void put_instance(struct json *j, const struct supervisor *s, uint32_t index)
{
    const struct instance *inst = &s->instances[index];

    json_begin_object(j, NULL, JSON_FLAT);
    json_number(j, "index", index);
    json_text(j, "host", instance_host(s, inst)->name);
    json_number(j, "local_index", s->plan->instances[index].local_index);
    json_text(j, "state", result_state(inst));
    if (inst->pid)
        json_number(j, "pid", inst->pid);
    else
        json_null(j, "pid");
    if (inst->started_ns)
        json_seconds(j, "start_seconds", inst->started_ns - s->job->begun_ns);
    else
        json_null(j, "start_seconds");
    put_exit(j, s, inst);
    if (inst->stacks)
        json_text(j, "stacks", inst->stacks);
    json_end_object(j);
}

static void put_all(struct json *j, const struct supervisor *s)
{
    uint64_t elapsed = time_now_ns() - s->job->begun_ns;
    time_t begun = time(NULL) - (time_t)(elapsed / NS_PER_SEC);
    char sentence[2048], date[32];
    struct tm tm;

    report_sentence(&s->report, s->plan, s->job->program[0], s->job->directory, sentence,
                    sizeof(sentence));
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&begun, &tm));
    json_begin_object(j, NULL, JSON_LINES);
    json_text(j, "job_id", s->job->id);
    json_number(j, "exit_status", (uint64_t)s->status);
    json_text(j, "cause", sentence[0] ? sentence : NULL);
    if (s->report.instance < s->plan->num_instances && s->report.kind != REPORT_SUCCESS)
        json_number(j, "first_failed_instance", s->report.instance);
    else
        json_null(j, "first_failed_instance");
    if (stop_get_step(s) > 0)
        json_number(j, "stopped_at_step", stop_get_step(s) - 1);
    else
        json_null(j, "stopped_at_step");
    json_number(j, "restarts", s->job->restart_count);
    json_text(j, "started", date);
    json_seconds(j, "elapsed_seconds", elapsed);
    slow_watch_write(s, j);
    json_begin_array(j, "instances", JSON_LINES);
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        put_instance(j, s, i);
    json_end_array(j);
    json_end_object(j);
}

/* Write to a terminal or pipe, whose reader gets a few seconds for each piece. A FIFO without a
 * reader is rejected. */
static int write_special(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r = fd < 0 ? -errno : 0;

    while (r == 0 && len > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EAGAIN)
            r = poll(&p, 1, READER_MS) == 0 ? -ETIMEDOUT : 0;
        else if (n < 0 && errno != EINTR)
            r = -errno;
        text += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    io_close(&fd);
    return r;
}

static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int result_prepare(const char *path, struct plenum_error *err)
{
    char *temporary = NULL;
    int fd, r = 0;

    if (is_special(path)) {
        r = write_special(path, "", 0);
        return r < 0 ? error_set(err, r, "--result: cannot write %s: %s", path,
                                 r == -ENXIO ? "it is a FIFO without a reader" : strerror(-r))
                     : 0;
    }
    r = *path ? io_name_temporary(path, &temporary) : -ENOENT;
    if (r == 0) {
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        r = fd < 0 || unlink(temporary) < 0 ? -errno : 0;
        io_close(&fd);
    }
    if (r == 0 && unlink(path) < 0 && errno != ENOENT)
        r = -errno;
    free(temporary);
    return r < 0 ? error_set(err, r, "--result: cannot write %s: %s", path, strerror(-r)) : 0;
}

int result_write(const struct supervisor *s)
{
    char *text = NULL;
    size_t len = 0;
    struct json j = {0};
    int r = -ENOMEM;

    if (!s->job->output->result)
        return 0;
    j.file = open_memstream(&text, &len);
    if (j.file) {
        put_all(&j, s);
        if (fclose(j.file) == 0)
            r = is_special(s->job->output->result)
                    ? write_special(s->job->output->result, text, len)
                    : io_write_file(s->job->output->result, text, len);
        free(text);
    }
    if (r < 0)
        log_error("--result: cannot write %s: %s", s->job->output->result, strerror(-r));
    return r;
}

static char *seconds_ago(uint64_t now, uint64_t then)
{
    return then ? str_format("%.1f s", now > then ? (double)(now - then) / 1e9 : 0.0)
                : str_format("-");
}

char *result_table(const struct supervisor *s)
{
    static const char *const names[] = {"Instance", "Host",        "Process",       "State",
                                        "Started",  "Last output", "Last heard of", NULL};
    uint64_t now = time_now_ns();
    struct grid grid = {0};
    char *text;

    grid_add_header(&grid, names);
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        grid_take(&grid, str_format("%u", i));
        grid_add(&grid, instance_host(s, inst)->name);
        grid_take(&grid, inst->pid ? str_format("%u", inst->pid) : str_format("-"));
        grid_add(&grid, result_state(inst));
        grid_take(&grid, seconds_ago(now, inst->started_ns));
        grid_take(&grid, seconds_ago(now, inst->output_ns));
        grid_take(&grid, seconds_ago(now, inst->state == INSTANCE_DONE ? 0 : inst->heard_ns));
    }
    text = grid_format(&grid, 2);
    grid_fini(&grid);
    return text;
}

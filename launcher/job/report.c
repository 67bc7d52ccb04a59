/* SPDX-License-Identifier: MIT */
/* report.c - the root cause, as one final sentence.
 *
 * failure.c assembles the text above it (the last lines of the instance's standard error, mpirun's
 * output, what happened to the others). This file contains what can be tested without a job. */
#include "config.h"

#include "launcher/job/report.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "common/util/util.h"
#include "launcher/control/exit_status.h"

static int status_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? STATUS_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

static int failed_code(const struct control_failed *failed)
{
    assert(failed->step < CONTROL_STEPS);
    if (failed->step != CONTROL_STEP_EXEC)
        return STATUS_LAUNCH;
    return failed->error == -ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

int report_exit_status(const struct report *report)
{
    switch (report->kind) {
    case REPORT_SUCCESS:
        return 0;
    case REPORT_EXITED:
        /* The user's signal was not enough, so we killed the program. */
        if (report->signal && report->exited.cause == CONTROL_CAUSE_ASKED)
            return STATUS_SIGNAL + report->signal;
        return status_code(report->exited.status);
    case REPORT_FAILED:
        return failed_code(&report->failed);
    case REPORT_TIMED_OUT:
    case REPORT_UNSTOPPED:
        return STATUS_TIMEOUT;
    case REPORT_CLOSED:
        return STATUS_SIGNAL + 13; /* like SIGPIPE */
    case REPORT_LOST:
    case REPORT_MPIRUN:
    case REPORT_LATE:
    case REPORT_HUNG:
    case REPORT_OTHER:
        return report->signal ? STATUS_SIGNAL + report->signal : STATUS_LAUNCH;
    }
    return STATUS_LAUNCH;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Format a limit that the user set: "90.0 s", "5m", "36h", "7d". */
static const char *format_time_limit(uint64_t ns, char *text, size_t size)
{
    const uint64_t minute = 60 * NS_PER_SEC;

    if (ns > minute && ns % minute == 0)
        return format_duration(ns, text, size);
    (void)snprintf(text, size, "%.1f s", seconds(ns));
    return text;
}

static void failed_sentence(const struct control_failed *failed, const char *who,
                            const char *program, const char *directory, char *ret, size_t size)
{
    const char *reason = strerror(-failed->error);

    switch (failed->step) {
    case CONTROL_STEP_DIRECTORY:
        (void)snprintf(ret, size, "%s cannot be started: the working directory %s: %s", who,
                       directory, reason);
        break;
    case CONTROL_STEP_EXEC:
        if (failed->text[0])
            (void)snprintf(ret, size, "%s cannot be started: %s", who, failed->text);
        else
            (void)snprintf(ret, size, "%s cannot be started: program '%s': %s", who, program,
                           reason);
        break;
    default:
        (void)snprintf(ret, size, "%s cannot be started: %s: %s", who,
                       control_step_name(failed->step), reason);
        break;
    }
}

static void describe_instance(const struct plan *plan, uint32_t instance, char *ret, size_t size)
{
    assert(instance < plan->num_instances);
    (void)snprintf(ret, size, "instance %u on host %s", instance,
                   plan->hosts[plan->instances[instance].host].name);
}

static void exited_sentence(const struct report *report, const struct plan *plan, const char *who,
                            char *ret, size_t size)
{
    const struct control_exited *exited = &report->exited;
    char status[128], first[HOST_NAME_MAX_BYTES + 64];
    size_t n;

    assert(report->kind == REPORT_EXITED);
    status_describe(exited->status, status, sizeof(status));
    if (report->signal) {
        (void)snprintf(ret, size, "the job was ended by SIG%s; %s %s", sigabbrev_np(report->signal),
                       who, status);
        return;
    }
    if (report->by_traceback) {
        describe_instance(plan, report->ended, first, sizeof(first));
        n = (size_t)snprintf(
            ret, size,
            "%s failed first, according to its traceback; the first to end was %s, which "
            "%s after %.1f s",
            who, first, status, seconds(exited->elapsed_ns));
    } else {
        n = (size_t)snprintf(ret, size, "%s %s after %.1f s", who, status,
                             seconds(exited->elapsed_ns));
    }
    if (WIFSIGNALED(exited->status) && WTERMSIG(exited->status) == SIGBUS && n < size)
        n += (size_t)snprintf(ret + n, size - n,
                              "; a file that it had mapped could not be read or written: is "
                              "/dev/shm, /tmp or the disk full there?");
    if (exited->memory_kills > 0 && n < size)
        (void)snprintf(ret + n, size - n,
                       "; meanwhile the kernel killed %llu process%s there because memory ran out",
                       (unsigned long long)exited->memory_kills,
                       exited->memory_kills == 1 ? "" : "es");
}

void report_sentence(const struct report *report, const struct plan *plan, const char *program,
                     const char *directory, char *ret, size_t size)
{
    char who[HOST_NAME_MAX_BYTES + 64] = "", limit[32];

    assert(size > 0);
    if (report->instance < plan->num_instances)
        describe_instance(plan, report->instance, who, sizeof(who));
    ret[0] = '\0';
    switch (report->kind) {
    case REPORT_SUCCESS:
        break;
    case REPORT_EXITED:
        exited_sentence(report, plan, who, ret, size);
        break;
    case REPORT_FAILED:
        failed_sentence(&report->failed, who, program, directory, ret, size);
        break;
    case REPORT_LOST:
        (void)snprintf(ret, size, "%s was lost: %s", who, report->text);
        break;
    case REPORT_HUNG:
        (void)snprintf(ret, size, "%s %s (--progress-timeout)", who, report->text);
        break;
    case REPORT_LATE:
        (void)snprintf(ret, size, "the job did not start within %s (--start-timeout): %s",
                       format_time_limit(report->limit_ns, limit, sizeof(limit)), report->text);
        break;
    case REPORT_TIMED_OUT:
        (void)snprintf(ret, size, "the job was ended after %s (--timeout)%s",
                       format_time_limit(report->limit_ns, limit, sizeof(limit)), report->text);
        break;
    case REPORT_UNSTOPPED:
        (void)snprintf(ret, size,
                       "the programs did not stop at the same step within %s (--stop-timeout): %s",
                       format_time_limit(report->limit_ns, limit, sizeof(limit)), report->text);
        break;
    case REPORT_CLOSED:
        (void)snprintf(ret, size, "the job was ended because the reader of its %s has closed it",
                       report->text);
        break;
    case REPORT_MPIRUN:
    case REPORT_OTHER:
        (void)snprintf(ret, size, "%s", report->text);
        break;
    }
}

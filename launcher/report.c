/* report.c - the root cause, as one sentence that comes last.
 *
 * What is shown above it (the last lines of the instance's standard error, mpirun's own words, the
 * fate of the others) is put together in supervise.c; here is what can be tested without a job. */
#include "config.h"

#include "launcher/report.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "common/util.h"

static int status_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? REPORT_SIGNAL + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

static int failed_code(const struct control_failed *failed)
{
    if (failed->step != CONTROL_STEP_EXEC)
        return REPORT_LAUNCH;
    return failed->error == -ENOENT ? REPORT_NOT_FOUND : REPORT_NOT_EXECUTABLE;
}

int report_exit_status(const struct report *report)
{
    switch (report->kind) {
    case REPORT_SUCCESS:
        return 0;
    case REPORT_EXITED:
        /* Killed by us because the signal that somebody sent was not enough. */
        if (report->signal && report->exited.cause == CONTROL_CAUSE_ASKED)
            return REPORT_SIGNAL + report->signal;
        return status_code(report->exited.status);
    case REPORT_FAILED:
        return failed_code(&report->failed);
    case REPORT_TIMED_OUT:
        return REPORT_TIMEOUT;
    case REPORT_CLOSED:
        return REPORT_SIGNAL + 13; /* as of SIGPIPE */
    case REPORT_LOST:
    case REPORT_MPIRUN:
    case REPORT_LATE:
    case REPORT_OTHER:
        return report->signal ? REPORT_SIGNAL + report->signal : REPORT_LAUNCH;
    }
    return REPORT_LAUNCH;
}

void report_describe_status(int wait_status, char *ret, size_t size)
{
    if (WIFSIGNALED(wait_status))
        (void)snprintf(ret, size, "was ended by signal %d (%s%s)", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)),
                       WCOREDUMP(wait_status) ? ", core dumped" : "");
    else
        (void)snprintf(ret, size, "exited with code %d", WEXITSTATUS(wait_status));
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
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
        if (failed->error == -ENOENT)
            (void)snprintf(ret, size,
                           "%s cannot be started: there is no program '%s' (or its interpreter is "
                           "missing)",
                           who, program);
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

void report_sentence(const struct report *report, const struct plan *plan, const char *program,
                     const char *directory, char *ret, size_t size)
{
    char who[HOST_NAME_MAX_BYTES + 64] = "", status[128];

    if (report->instance < plan->num_instances)
        (void)snprintf(who, sizeof(who), "instance %u on host %s", report->instance,
                       plan->hosts[plan->instances[report->instance].host].name);
    ret[0] = '\0';
    switch (report->kind) {
    case REPORT_SUCCESS:
        break;
    case REPORT_EXITED:
        report_describe_status(report->exited.status, status, sizeof(status));
        if (report->signal)
            (void)snprintf(ret, size, "the job was ended by SIG%s; %s %s",
                           sigabbrev_np(report->signal), who, status);
        else
            (void)snprintf(ret, size, "%s %s after %.1f s", who, status,
                           seconds(report->exited.elapsed_ns));
        break;
    case REPORT_FAILED:
        failed_sentence(&report->failed, who, program, directory, ret, size);
        break;
    case REPORT_LOST:
        (void)snprintf(ret, size, "%s was lost: %s", who, report->text);
        break;
    case REPORT_LATE:
        (void)snprintf(ret, size, "the job did not start within %.1f s (--start-timeout): %s",
                       seconds(report->limit_ns), report->text);
        break;
    case REPORT_TIMED_OUT:
        (void)snprintf(ret, size, "the job was ended after %.1f s (--timeout)%s",
                       seconds(report->limit_ns), report->text);
        break;
    case REPORT_CLOSED:
        (void)snprintf(ret, size, "the job was ended, for nobody reads its standard output");
        break;
    case REPORT_MPIRUN:
    case REPORT_OTHER:
        (void)snprintf(ret, size, "%s", report->text);
        break;
    }
}

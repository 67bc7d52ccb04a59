/* SPDX-License-Identifier: MIT */
/* Checks which of several failures is the cause of a job's end, in whatever order their reports
 * arrive. The programs are processes that have joined the memory for collectives. */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/job/meeting.h"
#include "common/util/util.h"
#include "launcher/job/supervise_priv.h"

enum { COUNT = 3 };

static struct plan_instance planned[COUNT];
static struct plan_host host = {.name = (char *)"node7", .count = COUNT};
static struct plan plan = {
    .num_instances = COUNT, .instances = planned, .num_hosts = 1, .hosts = &host};
static const struct limits limits = {.grace_ns = 1};
static const struct supervise_job job = {.limits = &limits, .plan = &plan};
static struct instance instances[COUNT];
static struct supervisor s = {.plan = &plan,
                              .job = &job,
                              .phase = JOB_RUNNING,
                              .plans_sent = true,
                              .instances = instances,
                              .counts = {[INSTANCE_ALIVE] = COUNT},
                              .start_at = SUPERVISE_NEVER,
                              .close_at = SUPERVISE_NEVER,
                              .suspect_at = SUPERVISE_NEVER};

/* Wait until plenumrun has seen something. */
static void dispatch(void)
{
    struct pollfd p = {.fd = meeting_server_get_fd(s.place), .events = POLLIN};

    cr_assert(ge(int, poll(&p, 1, -1), 1));
    meeting_server_dispatch(s.place);
}

/* Start a process that joins as this instance. */
static pid_t join(uint32_t instance, const char *address)
{
    const struct meeting_member self = {
        .address = address, .job = "job", .instances = COUNT, .index = instance};
    struct plenum_error err;
    struct meeting *m;
    pid_t pid = fork();

    if (pid == 0) {
        (void)alarm(300);
        if (meeting_join(&self, 0, &m, &err) < 0)
            _exit(1);
        for (;;)
            (void)pause();
    }
    dispatch();
    return pid;
}

/* Let the instance's process end, and plenumrun see it. */
static void end(uint32_t instance, pid_t pid)
{
    pid_t seen;

    (void)kill(pid, SIGKILL);
    while (meeting_server_get_end(s.place, instance, &seen) == 0)
        dispatch();
    cr_assert(eq(int, seen, pid));
    cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
}

/* Let plenumrun receive the shim's report, like instances.c. */
static void report(uint32_t instance, int status, enum control_cause cause)
{
    struct instance *inst = &instances[instance];

    inst->exited =
        (struct control_exited){.status = status, .cause = cause, .traceback_ns = UINT64_MAX};
    inst->has_exited = true;
    s.counts[inst->state]--;
    inst->state = INSTANCE_EXITED;
    s.counts[inst->state]++;
    inst->exited_ns = inst->ended_ns = time_now_ns();
    failure_note_end(&s, inst);
}

/* A job with three running instances, of which 0 and 1 have joined. */
static void start(pid_t pids[2])
{
    char name[32], address[MEETING_ADDRESS_MAX];
    struct plenum_error err = {""};

    (void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
    cr_assert(eq(int, meeting_server_create(name, "job", COUNT, &s.place, address, &err), 0), "%s",
              err.text);
    for (uint32_t i = 0; i < COUNT; i++)
        instances[i] = (struct instance){.state = INSTANCE_ALIVE};
    for (uint32_t i = 0; i < 2; i++) {
        pids[i] = join(i, address);
        instances[i].pid = (uint32_t)pids[i];
    }
}

static void finish(void)
{
    meeting_server_destroy(s.place);
}

enum { FAILED = 5 << 8 };

/* Instance 1 is killed, instance 0 fails because of it, and its shim reports that first. */
static void fail_both(pid_t pids[2])
{
    start(pids);
    end(1, pids[1]);
    end(0, pids[0]);
    report(0, FAILED, CONTROL_CAUSE_ITSELF);
}

Test(failure, the_report_of_an_earlier_end_is_awaited)
{
    pid_t pids[2];

    fail_both(pids);
    cr_assert(eq(int, s.phase, JOB_RUNNING));
    failure_do_what_is_due(&s, s.suspect_at - 1);
    cr_assert(eq(int, s.phase, JOB_RUNNING));
    report(1, SIGKILL, CONTROL_CAUSE_ITSELF);
    cr_assert(eq(int, s.phase, JOB_ENDING));
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 1));
    cr_expect(eq(int, s.report.exited.status, SIGKILL));
    finish();
}

Test(failure, a_later_report_of_an_earlier_end_is_the_cause)
{
    pid_t pids[2];

    fail_both(pids);
    failure_do_what_is_due(&s, s.suspect_at);
    cr_assert(eq(int, s.phase, JOB_ENDING));
    cr_expect(eq(u32, s.report.instance, 0), "nothing else is known yet");
    report(1, SIGKILL, CONTROL_CAUSE_ITSELF);
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 1));
    cr_expect(eq(int, s.report.exited.status, SIGKILL));
    finish();
}

/* It left the others early, but it did not fail. */
Test(failure, an_earlier_end_without_failure_is_not_the_cause)
{
    pid_t pids[2];

    fail_both(pids);
    report(1, 0, CONTROL_CAUSE_ITSELF);
    cr_assert(eq(int, s.phase, JOB_ENDING));
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 0));
    cr_expect(eq(int, s.report.exited.status, FAILED));
    finish();
}

Test(failure, a_program_that_was_asked_to_end_is_not_the_cause)
{
    pid_t pids[2];

    fail_both(pids);
    report(1, SIGTERM, CONTROL_CAUSE_ASKED);
    cr_assert(eq(int, s.phase, JOB_ENDING));
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 0));
    finish();
}

Test(failure, nothing_is_awaited_without_an_earlier_end)
{
    pid_t pids[2];

    start(pids);
    end(0, pids[0]);
    report(0, FAILED, CONTROL_CAUSE_ITSELF);
    cr_expect(eq(int, s.phase, JOB_ENDING));
    cr_expect(eq(u32, s.report.instance, 0));
    end(1, pids[1]);
    report(1, SIGKILL, CONTROL_CAUSE_ITSELF);
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 0));
    finish();
}

/* Instance 1 is a script. Its first program has joined and ended well before. */
Test(failure, a_process_that_ended_long_before_its_instance_does_not_count)
{
    pid_t pids[2];

    start(pids);
    instances[1].pid++;
    end(1, pids[1]);
    end(0, pids[0]);
    report(0, FAILED, CONTROL_CAUSE_ITSELF);
    failure_do_what_is_due(&s, s.suspect_at);
    cr_assert(eq(int, s.phase, JOB_ENDING));
    instances[1].exited = (struct control_exited){.status = SIGKILL, .traceback_ns = UINT64_MAX};
    instances[1].has_exited = true;
    instances[1].exited_ns = instances[1].ended_ns = time_now_ns() + 60 * NS_PER_SEC;
    failure_note_end(&s, &instances[1]);
    failure_find_cause(&s);
    cr_expect(eq(u32, s.report.instance, 0));
    finish();
}

Test(failure, a_loss_of_the_first_to_end_is_the_cause)
{
    pid_t pids[2];

    fail_both(pids);
    supervise_fail_with(&s, REPORT_LOST, &instances[1], "its shim is gone");
    cr_expect(eq(int, s.report.kind, REPORT_LOST));
    cr_expect(eq(u32, s.report.instance, 1));
    finish();
}

Test(failure, what_happens_while_a_report_is_awaited_is_not_the_cause)
{
    pid_t pids[2];

    fail_both(pids);
    supervise_fail_with(&s, REPORT_LOST, &instances[2], "its shim is gone");
    cr_expect(eq(int, s.report.kind, REPORT_EXITED));
    cr_expect(eq(u32, s.report.instance, 0));
    finish();
}

/* SPDX-License-Identifier: MIT */
/* stop.c - stops the job's programs at the same step, so that it can continue later: on SIGTERM or
 * SIGUSR1 to plenumrun, on SIGUSR1 to a shim or a program, if --stop-command ends with status 0,
 * and on request of plenumctl job.
 *
 * Only programs that call plenum_job_should_stop() can be stopped like this. The first call of any
 * program is reported at once (STEP). Without one, plenumrun treats signals as if this file did
 * not exist. agree.h finds the step; this file has the messages and the time limit. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/exit_status.h"
#include "launcher/job/interlude.h"
#include "launcher/job/supervise_priv.h"

int stop_init(struct supervisor *s)
{
    const struct stop_settings *settings = s->job->stop;

    s->stop = (struct stop){
        .agreement = {.ranks = calloc(s->plan->num_instances, sizeof(struct agree_rank)),
                      .count = s->plan->num_instances},
        .by = SUPERVISE_NEVER,
        .command = {.text = settings->command, .poll_ns = settings->poll_ns},
    };
    if (s->job->stop_command)
        s->stop.command = stop_command_take(s->job->stop_command);
    return s->stop.agreement.ranks ? 0 : -ENOMEM;
}

void stop_fini(struct supervisor *s)
{
    if (s->job->stop_command && s->stop.command.text)
        *s->job->stop_command = stop_command_take(&s->stop.command);
    stop_command_end(&s->stop.command);
    free(s->stop.agreement.ranks);
}

uint64_t stop_get_progress(const struct supervisor *s)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (inst->has_exited && inst->exited.status != 0 && inst->exited.asked > 0)
            least = min_u64(least, inst->exited.asked);
    }
    return least < UINT64_MAX ? least : agree_get_latest(&s->stop.agreement);
}

uint64_t stop_get_step(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (s->instances[i].halted)
            return s->instances[i].halted;
    return 0;
}

/* Returns whether every program that is still running knows that it must stop. Each is checked only
 * until it knows, because none forgets it. */
static bool all_have_halted(struct supervisor *s)
{
    uint32_t *i = &s->stop.awaited;

    while (*i < s->plan->num_instances &&
           (s->instances[*i].state >= INSTANCE_EXITED || s->instances[*i].halted))
        ++*i;
    return *i == s->plan->num_instances;
}

static void do_action(struct supervisor *s, enum agree_action action)
{
    const struct agreement *a = &s->stop.agreement;
    const struct control_stop m = {.proposal = a->proposal, .step = a->step};

    if (action == AGREE_NOTHING || s->phase != JOB_RUNNING)
        return;
    if (action == AGREE_DECIDE)
        log_info("all instances stop before step %llu", (unsigned long long)a->step);
    else
        log_debug("proposal %llu: stop before step %llu", (unsigned long long)a->proposal,
                  (unsigned long long)a->step);
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (s->instances[i].peer)
            (void)control_put_stop(&s->instances[i].peer->conn.tx,
                                   action == AGREE_DECIDE ? CONTROL_DECIDE : CONTROL_PROPOSE, &m);
}

static bool begin(struct supervisor *s)
{
    if (s->phase != JOB_RUNNING || !agree_is_possible(&s->stop.agreement))
        return false;
    if (s->stop.noticed)
        return true;
    s->stop.noticed = true;
    s->stop.by = time_now_ns() + s->job->stop->timeout_ns;
    do_action(s, agree_begin(&s->stop.agreement));
    return true;
}

bool stop_was_too_early(const struct supervisor *s)
{
    if (s->stop.held || s->stop.pending)
        return true;
    return s->stop.early && (agree_is_possible(&s->stop.agreement) ||
                             report_exit_status(&s->report) == STATUS_SIGNAL + SIGUSR1);
}

bool stop_take_signal(struct supervisor *s, int signal)
{
    bool before = s->stop.noticed;

    if (signal == SIGTERM || signal == SIGUSR1)
        s->stop.growing = false; /* the user wants more than that */
    if (signal == SIGUSR1 && s->phase == JOB_STARTING) {
        s->stop.held = true;
        return true;
    }
    if ((signal != SIGTERM && signal != SIGUSR1) || (signal == SIGTERM && s->stop.terminated) ||
        s->interrupts > 0 || !begin(s)) {
        s->stop.early |= signal == SIGUSR1;
        if (s->phase >= JOB_ENDING && stop_was_too_early(s))
            interlude_end(SIGUSR1, NULL); /* it does not start again */
        return false;
    }
    s->stop.terminated |= signal == SIGTERM;
    if (before)
        log_about(
            LOG_LEVEL_NOTICE, NULL,
            "SIG%s: the programs are stopping already; send SIGTERM again to end them at once",
            sigabbrev_np(signal));
    else
        log_warn("SIG%s: stopping the programs at the same step%s", sigabbrev_np(signal),
                 signal == SIGTERM ? "; send the signal again to end them at once" : "");
    return true;
}

void stop_request(struct supervisor *s, const char *why)
{
    if (s->stop.noticed && s->stop.growing) {
        s->stop.growing = false;
        log_about(LOG_LEVEL_NOTICE, NULL,
                  "%s: the programs are stopping already, and the job does not continue", why);
    }
    if (s->phase != JOB_RUNNING || s->stop.noticed || s->interrupts > 0)
        return;
    if (begin(s)) {
        log_warn("%s: stopping the programs at the same step", why);
        return;
    }
    log_warn("%s: sending the programs SIGTERM, because none has called plenum_job_should_stop()",
             why);
    supervise_interrupt(s, SIGTERM);
}

/* ---- messages from shims ---- */

static void note_halt(struct supervisor *s, struct instance *inst, uint64_t halted)
{
    if (halted)
        inst->halted = halted;
    if (s->stop.noticed && all_have_halted(s))
        s->stop.by = SUPERVISE_NEVER;
}

int stop_handle(struct supervisor *s, struct instance *inst, enum control_type type,
                struct frame_reader *payload)
{
    uint32_t index = instance_index(s, inst);
    struct control_stop m;
    uint64_t number;

    switch (type) {
    case CONTROL_NOTICE:
        s->stop.pending = true;
        return 0;
    case CONTROL_ANSWER:
        if (control_get_stop(payload, &m) < 0)
            return -EPROTO;
        agree_note_step(&s->stop.agreement, index, m.step);
        do_action(s, agree_answer(&s->stop.agreement, index, m.proposal, m.promised));
        return 0;
    default: /* STEP, HALTED */
        if (control_get_number(payload, &number) < 0 || number > STOP_STEP_MAX + 1)
            return -EPROTO;
        if (type == CONTROL_STEP)
            agree_note_step(&s->stop.agreement, index, number);
        else
            note_halt(s, inst, number);
        return 0;
    }
}

void stop_note_exit(struct supervisor *s, struct instance *inst)
{
    uint64_t asked = min_u64(inst->exited.asked, STOP_STEP_MAX + 1);

    assert(inst->has_exited);
    agree_note_step(&s->stop.agreement, instance_index(s, inst), asked);
    if (inst->exited.status != 0)
        return;
    do_action(s, agree_finish(&s->stop.agreement, instance_index(s, inst), asked));
    note_halt(s, inst, inst->exited.halted);
}

/* ---- time ---- */

/* Describe the first instances that have not stopped. */
static void describe_late(const struct supervisor *s, char *ret, size_t size)
{
    const struct agreement *a = &s->stop.agreement;
    size_t len = 0;

    for (uint32_t i = 0; i < s->plan->num_instances && len + 160 < size; i++) {
        const struct instance *inst = &s->instances[i];
        const char *host = instance_host(s, inst)->name;

        if (inst->state >= INSTANCE_EXITED || inst->halted)
            continue;
        if (a->state == AGREE_PROPOSED && !a->ranks[i].answered)
            len += (size_t)snprintf(ret + len, size - len,
                                    "%sinstance %u on host %.64s does not "
                                    "respond",
                                    len ? ", " : "", i, host);
        else if (a->ranks[i].asked == 0)
            len += (size_t)snprintf(ret + len, size - len,
                                    "%sinstance %u on host %.64s has not "
                                    "called plenum_job_should_stop()",
                                    len ? ", " : "", i, host);
        else
            len += (size_t)snprintf(ret + len, size - len,
                                    "%sinstance %u on host %.64s is at step "
                                    "%llu of %llu",
                                    len ? ", " : "", i, host,
                                    (unsigned long long)a->ranks[i].asked - 1,
                                    (unsigned long long)a->step);
    }
}

/* Returns whether it makes a difference that the job is asked to stop. */
static bool may_be_asked(const struct supervisor *s)
{
    return s->phase == JOB_RUNNING && (!s->stop.noticed || s->stop.growing);
}

void stop_do_what_is_due(struct supervisor *s, uint64_t now)
{
    struct report report = {
        .kind = REPORT_UNSTOPPED, .instance = UINT32_MAX, .limit_ns = s->job->stop->timeout_ns};

    if (s->phase == JOB_RUNNING && s->stop.held) {
        s->stop.held = false;
        if (!stop_take_signal(s, SIGUSR1))
            instances_send_number(s, CONTROL_SIGNAL, SIGUSR1);
    }
    if (s->phase == JOB_RUNNING && s->stop.pending) {
        s->stop.pending = false;
        stop_request(s, "a program was sent SIGUSR1");
    }
    if (may_be_asked(s) && stop_command_poll(&s->stop.command, now))
        stop_request(s, "--stop-command has ended with status 0");
    if (now < s->stop.by)
        return;
    s->stop.by = SUPERVISE_NEVER;
    describe_late(s, report.text, sizeof(report.text));
    supervise_fail(s, &report);
}

uint64_t stop_next_due(const struct supervisor *s)
{
    return may_be_asked(s) ? min_u64(s->stop.by, stop_command_due(&s->stop.command)) : s->stop.by;
}

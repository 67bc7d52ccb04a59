/* SPDX-License-Identifier: MIT */
/* failure.c - reports a failed job: consequences first, the cause last.
 *
 *     the last lines on standard error of the instances that failed; the cause's come last
 *     the hosts' answers to our queries (probe.h), or otherwise what the starter printed
 *     one sentence: the cause (report.h)
 */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/job/supervise_priv.h"
#include "launcher/job/variables.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/probe.h"
#include "launcher/control/exit_status.h"

enum {
    PROBE_MS = 5000,
    MPIRUN_LINES = 40, /* lines to search and show; mpirun prints the reason first */
    /* if exceptions are this far apart, their order is known even on busy hosts */
    ORDER_MS = 200,
    TAILS_MOST = 3, /* instances, besides the cause, whose last lines are shown */
    /* for the shim of a program that ended before one that failed, and for a script to end after
     * the program that it has run */
    REPORT_MS = 1000,
};

/* ---- the order of ends ---- */

static uint64_t get_end(const struct supervisor *s, const struct instance *inst, pid_t *ret_pid)
{
    if (s->place)
        return meeting_server_get_end(s->place, instance_index(s, inst), ret_pid);
    *ret_pid = inst->seen_pid;
    return inst->seen_ns;
}

/* Returns when the instance's program was seen to have ended before that was reported; 0: it was
 * not. If the process was not the program itself (a script has run it, for example), its end only
 * counts if the program's followed. */
static uint64_t seen_ns(const struct supervisor *s, const struct instance *inst)
{
    pid_t pid;
    uint64_t end = get_end(s, inst, &pid);

    if (inst->has_exited && (pid_t)inst->pid != pid &&
        end + REPORT_MS * NS_PER_MS < inst->exited_ns)
        return 0;
    return end;
}

static bool has_failed_by_itself(const struct instance *inst)
{
    return inst->has_exited && inst->exited.status != 0 &&
           inst->exited.cause == CONTROL_CAUSE_ITSELF;
}

/* Returns the first to end of this instance and those that have failed by themselves. Reports may
 * arrive in another order: in shared memory, others notice an end before its shim reports it. */
static const struct instance *find_first(const struct supervisor *s, const struct instance *inst)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++)
        if (has_failed_by_itself(&s->instances[i]) && s->instances[i].ended_ns < inst->ended_ns)
            inst = &s->instances[i];
    return inst;
}

static struct report report_exit(const struct supervisor *s, const struct instance *inst)
{
    return (struct report){
        .kind = REPORT_EXITED, .instance = instance_index(s, inst), .exited = inst->exited};
}

/* Returns whether a program ended before the one that has failed, and its report is missing. */
static bool is_awaiting(const struct supervisor *s)
{
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];
        uint64_t end = inst->state == INSTANCE_ALIVE ? seen_ns(s, inst) : 0;

        if (end > 0 && end < s->suspect->ended_ns)
            return true;
    }
    return false;
}

void failure_do_what_is_due(struct supervisor *s, uint64_t now)
{
    struct report report;

    if (!s->suspect || (now < s->suspect_at && is_awaiting(s)))
        return;
    report = report_exit(s, find_first(s, s->suspect));
    supervise_fail(s, &report);
}

void failure_note_end(struct supervisor *s, struct instance *inst)
{
    uint64_t end = seen_ns(s, inst);

    assert(inst->has_exited);
    if (end > 0)
        inst->ended_ns = min_u64(inst->ended_ns, end);
    if (inst->exited.status != 0 && !s->suspect && s->phase < JOB_ENDING) {
        s->suspect = inst;
        s->suspect_at = inst->exited_ns + REPORT_MS * NS_PER_MS;
    }
    failure_do_what_is_due(s, inst->exited_ns);
}

struct report failure_choose(struct supervisor *s, const struct report *report)
{
    const struct instance *suspect = s->suspect;
    uint64_t end = 0;

    s->suspect = NULL;
    s->suspect_at = SUPERVISE_NEVER;
    if (suspect && report->kind == REPORT_LOST)
        end = seen_ns(s, &s->instances[report->instance]);
    if (!suspect || report->kind == REPORT_EXITED || (end > 0 && end < suspect->ended_ns))
        return *report;
    return report_exit(s, find_first(s, suspect));
}

static bool has_traceback(const struct instance *inst)
{
    return inst->exited.traceback_ns <= inst->exited.elapsed_ns;
}

/* Returns when the instance failed, as far as is known. A program may take long to end. */
static uint64_t failed_ns(const struct instance *inst)
{
    return has_traceback(inst) ? inst->exited_ns - inst->exited.traceback_ns : inst->ended_ns;
}

/* Returns whether the instance failed by itself, or was already failing when it was asked to end. A
 * much earlier traceback belongs to an exception that the program caught. */
static bool has_failed_too(const struct supervisor *s, const struct instance *inst)
{
    const struct report *r = &s->report;
    const struct instance *first = &s->instances[r->by_traceback ? r->ended : r->instance];

    assert(r->kind == REPORT_EXITED && r->instance < s->plan->num_instances);
    return has_failed_by_itself(inst) ||
           (inst->has_exited && inst->exited.status != 0 && has_traceback(inst) &&
            failed_ns(inst) < inst->exited_ns &&
            failed_ns(inst) + s->job->limits->grace_ns >= first->exited_ns);
}

/* Blame an instance that has left if Open MPI ended the job because of it. Both versions of Open
 * MPI then print "exiting improperly". */
static void blame_unfinalised(struct supervisor *s)
{
    char words[sizeof(s->text_tail.bytes) + 1];

    if (tail_get(&s->text_tail, MPIRUN_LINES, words) == 0 || !strstr(words, "exiting improperly"))
        return;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (!inst->left)
            continue;
        (void)snprintf(s->report.text, sizeof(s->report.text),
                       "instance %u on host %s ended with status 0 while others were in MPI: a "
                       "program that uses MPI must call MPI_Finalize() before it ends",
                       i, instance_host(s, inst)->name);
        return;
    }
}

/* Blame a host whose Open MPI daemon cannot run. */
static void blame_daemon(struct supervisor *s)
{
    if (!s->daemon.text[0])
        return;
    s->report.kind = REPORT_MPIRUN;
    (void)snprintf(s->report.text, sizeof(s->report.text), "%s", s->daemon.text);
    s->report.explained = true;
}

void failure_find_cause(struct supervisor *s)
{
    uint32_t first, best;
    uint64_t before;

    if (s->report.kind == REPORT_MPIRUN)
        blame_unfinalised(s);
    if (s->report.kind == REPORT_MPIRUN || s->report.kind == REPORT_LATE)
        blame_daemon(s);
    if (s->report.kind != REPORT_EXITED || s->report.signal)
        return;
    assert(s->report.instance < s->plan->num_instances);
    s->report = report_exit(s, find_first(s, &s->instances[s->report.instance]));
    first = best = s->report.instance;
    before = failed_ns(&s->instances[first]) - ORDER_MS * NS_PER_MS;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (!has_failed_too(s, inst) || failed_ns(inst) >= before)
            continue;
        before = failed_ns(inst);
        best = i;
    }
    if (best == first)
        return;
    assert(best < s->plan->num_instances);
    s->report.by_traceback = true;
    s->report.ended = first;
    s->report.instance = best;
}

static void put_line(const struct supervisor *s, const char *line, size_t len)
{
    char *text = str_format("  | %.*s\n", (int)len, line);

    if (text)
        (void)output_put_own(s->output, CONTROL_STDERR, text, strlen(text));
    free(text);
}

/* Print lines; of a progress bar, print only the final state. */
static void put_lines(const struct supervisor *s, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n"), shown = len;
        const char *last;

        shown -= shown > 0 && text[shown - 1] == '\r';
        last = memrchr(text, '\r', shown);
        last = last ? last + 1 : text;
        put_line(s, last, (size_t)(text + shown - last));
        text += len;
        text += *text == '\n';
    }
}

/* Report that the other instances have ended or, if some were not seen to end, name these. */
static void report_others(const struct supervisor *s)
{
    uint32_t ended = 0, lost = 0, others = 0;
    char missing[400];

    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        if (i == s->report.instance)
            continue;
        others++;
        ended += s->instances[i].has_exited;
        lost += s->instances[i].state > INSTANCE_PRESENT && !s->instances[i].has_exited;
    }
    if (others > 0 && ended == others)
        log_info("the other %u instance%s ended", ended, ended == 1 ? " has" : "s have");
    else if (lost > 0 && s->plans_sent) {
        instances_list_missing(s, INSTANCE_DONE, NULL, missing, sizeof(missing));
        if (missing[0])
            log_warn("plenumrun did not see %s end: look for processes there", missing);
    }
}

/* Ask the hosts why the job could not start. If a host reports a problem, print the sentence and
 * then the hosts' answers. Returns whether they were printed. */
static bool ask_hosts(const struct supervisor *s, const char *sentence)
{
    struct probe *probes = calloc(s->plan->num_hosts, sizeof(*probes));
    uint64_t stopped_ns;
    uint32_t count = 0;
    char self[4096], title[64], *table;
    struct probe_question question = {.agent = s->job->agent,
                                      .program = s->job->program[0],
                                      .path = variables_get_path(s->job->exports),
                                      .self = self,
                                      .directory = s->job->directory,
                                      .back = s->control,
                                      .listener = s->listener,
                                      .limit_ms = PROBE_MS};
    bool found = false;

    if (!probes || !agent_is_used(s->job->agent) || host_get_self(self, sizeof(self), NULL) < 0)
        goto out;
    for (uint32_t i = 0; i < s->plan->num_hosts; i++)
        if (!s->plan->hosts[i].local &&
            s->instances[s->plan->hosts[i].first].state == INSTANCE_ABSENT)
            probes[count++].host = &s->plan->hosts[i];
    assert(count <= s->plan->num_hosts);
    if (count == 0 || probe_hosts(&question, probes, count, &stopped_ns) < 0)
        goto out;
    for (uint32_t i = 0; i < count; i++) {
        probe_check_back(&probes[i], NULL, dial_get_port(s->control));
        found |= probes[i].failed;
    }
    if (!found)
        goto out;
    table = probe_table(probes, count, title, sizeof(title));
    log_error("%s", sentence);
    log_error("%s:", title);
    if (table)
        (void)output_put_own(s->output, CONTROL_STDERR, table, strlen(table));
    free(table);
out:
    for (uint32_t i = 0; i < count; i++)
        probe_fini(&probes[i]);
    free(probes);
    return found;
}

static void put_tail(const struct supervisor *s, uint32_t instance)
{
    const char *tail = s->instances[instance].tail;

    assert(instance < s->plan->num_instances);
    if (!tail || !*tail)
        return;
    log_error("the last lines of instance %u on standard error:", instance);
    put_lines(s, tail);
}

/* Print the last lines of up to TAILS_MOST instances that also failed by themselves, and then those
 * of the cause. Identical lines are printed once. */
static void put_tails(const struct supervisor *s)
{
    const char *cause = s->instances[s->report.instance].tail, *shown[TAILS_MOST];
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->plan->num_instances && count < TAILS_MOST; i++) {
        const char *tail = s->instances[i].tail;
        bool again = i == s->report.instance || !tail || !has_failed_too(s, &s->instances[i]) ||
                     (cause && strcmp(tail, cause) == 0);

        for (uint32_t j = 0; j < count; j++)
            again |= !again && strcmp(tail, shown[j]) == 0;
        if (again || !*tail)
            continue;
        assert(count < TAILS_MOST);
        shown[count++] = tail;
        put_tail(s, i);
    }
    put_tail(s, s->report.instance);
}

/* Returns whether this line is blank or a frame, such as one of dashes or asterisks, which Open MPI
 * puts around its messages. */
static bool is_frame(const char *line, size_t len)
{
    return strspn(line, "-=* \t\r") >= len;
}

void failure_get_words(const struct supervisor *s, char *ret, size_t size)
{
    char text[sizeof(s->text_tail.bytes) + 1], status[128];
    size_t at = 0;

    assert(size > 0);
    text[0] = '\0';
    (void)tail_get(&s->text_tail, MPIRUN_LINES, text);
    for (const char *line = text; *line && at + 1 < size;) {
        size_t len = strcspn(line, "\n"), n = len;

        if (is_frame(line, len) && at > 0 && ret[min_u64(at, size - 1) - 1] != ':')
            break; /* the message is complete */
        for (; !is_frame(line, len) && n > 0 && line[n - 1] == ' '; n--)
            ;
        if (!is_frame(line, len))
            at += (size_t)snprintf(ret + at, size - at, "%s%.*s", at > 0 ? " " : "", (int)n, line);
        line += len;
        line += *line == '\n';
    }
    if (at > 0)
        return;
    status_describe(s->starter_status, status, sizeof(status));
    (void)snprintf(ret, size, "it %s", status);
}

void failure_print(const struct supervisor *s)
{
    const struct report *report = &s->report;
    char sentence[2048], last[sizeof(s->text_tail.bytes) + 1];

    if (report->kind == REPORT_SUCCESS)
        return;
    report_others(s);
    if (report->kind == REPORT_EXITED && !report->signal)
        put_tails(s);
    report_sentence(report, s->plan, s->job->program[0], s->job->directory, sentence,
                    sizeof(sentence));
    if ((report->kind == REPORT_MPIRUN || report->kind == REPORT_LATE) && !s->hurry) {
        bool explained = !s->plans_sent && !report->explained && ask_hosts(s, sentence);

        if (explained)
            return;
        if (tail_get(&s->text_tail, MPIRUN_LINES, last) > 0) {
            log_error("the last output of %s:", starter_name(s));
            put_lines(s, last);
        }
    }
    if (sentence[0])
        log_error("%s", sentence);
}

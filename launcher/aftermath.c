/* aftermath.c - what is printed when a job has failed: consequences first, the cause last.
 *
 *     the last lines that the failed instance wrote to standard error
 *     what the hosts say when they are asked (probe.h), or else what mpirun said
 *     one sentence: the cause (report.h) */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "launcher/agent.h"
#include "launcher/host.h"
#include "launcher/probe.h"
#include "launcher/supervise_priv.h"
#include "launcher/version.h"

enum { PROBE_MS = 5000, MPIRUN_LINES = 15 };

static void put_line(const struct supervisor *s, const char *line, size_t len)
{
    char *text = str_format("  | %.*s\n", (int)len, line);

    if (text)
        (void)output_put_own(s->output, true, text, strlen(text));
    free(text);
}

/* Of a progress bar, what it shows in the end. */
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

/* Those who were ended because of the failure. */
static void report_others(const struct supervisor *s)
{
    uint32_t ended = 0, lost = 0, others = 0;
    char missing[400];

    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        if (i == s->report.instance)
            continue;
        others++;
        ended += s->members[i].has_exited;
        lost += s->members[i].state > PRESENT && !s->members[i].has_exited;
    }
    if (others > 0 && ended == others)
        log_info("the other %u instance%s ended", ended, ended == 1 ? " has" : "s have");
    else if (lost > 0 && s->plans_sent) {
        members_list_missing(s, DONE, missing, sizeof(missing));
        if (missing[0])
            log_warn("no end was seen of %s: look for processes there", missing);
    }
}

/* Why could mpirun not start? When a host's answer tells, it comes after what we know ourselves;
 * else mpirun's own words must do. */
static bool ask_hosts(const struct supervisor *s, const char *sentence)
{
    struct probe *probes = calloc(s->plan->num_hosts, sizeof(*probes));
    uint32_t count = 0;
    char self[4096], title[64], *table;
    struct probe_question question = {
        .options = s->options, .self = self, .directory = s->job->directory, .limit_ms = PROBE_MS};
    bool found = false;

    if (!probes || !agent_is_used(s->options) || host_get_self(self, sizeof(self), NULL) < 0)
        goto out;
    for (uint32_t i = 0; i < s->plan->num_hosts; i++)
        if (!s->plan->hosts[i].local && s->members[s->plan->hosts[i].first].state == ABSENT)
            probes[count++].host = &s->plan->hosts[i];
    if (count == 0 || probe_hosts(&question, probes, count) <= 0)
        goto out;
    found = true;
    table = probe_table(probes, count, title, sizeof(title));
    log_error("%s", sentence);
    log_error("%s:", title);
    if (table)
        (void)output_put_own(s->output, true, table, strlen(table));
    free(table);
out:
    for (uint32_t i = 0; i < count; i++)
        probe_fini(&probes[i]);
    free(probes);
    return found;
}

/* Is it Open MPI at all? Others have a program of the same name, which does not understand ours. */
static bool is_open_mpi(char *path, size_t size, char *version, size_t version_size)
{
    return host_find_program("mpirun", path, size) < 0 ||
           version_ask(path, "--version", version, version_size) < 0 ||
           strstr(version, "(Open MPI) 4.") != NULL;
}

void aftermath_print(const struct supervisor *s)
{
    const struct report *report = &s->report;
    char sentence[2048], last[sizeof(s->text_tail.bytes) + 1], path[4096], version[256];
    const char *tail = NULL;

    if (report->kind == REPORT_SUCCESS)
        return;
    report_others(s);
    if (report->kind == REPORT_EXITED)
        tail = s->members[report->instance].tail;
    if (tail && *tail && !report->signal) {
        log_error("the last lines of instance %u on standard error:", report->instance);
        put_lines(s, tail);
    }
    report_sentence(report, s->plan, s->options->program[0], s->job->directory, sentence,
                    sizeof(sentence));
    if ((report->kind == REPORT_MPIRUN || report->kind == REPORT_LATE) && !s->hurry) {
        bool explained = !s->plans_sent && ask_hosts(s, sentence);

        if (explained)
            return;
        if (tail_get(&s->text_tail, MPIRUN_LINES, last) > 0) {
            log_error("the last words of mpirun:");
            put_lines(s, last);
        }
    }
    if (sentence[0])
        log_error("%s", sentence);
    if (report->kind == REPORT_MPIRUN && !s->plans_sent && !s->hurry &&
        !is_open_mpi(path, sizeof(path), version, sizeof(version)))
        log_error(
            "%s is '%s'; plenumrun needs Open MPI 4 (Debian: openmpi-bin): let that come first "
            "in PATH",
            path, version);
}

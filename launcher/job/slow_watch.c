/* SPDX-License-Identifier: MIT */
/* slow_watch.c - which hosts are slow, and why: passes the reports of the shims to the rules
 * (slow.h), and shows what these find. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/util/json.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/pace_report.h"
#include "launcher/job/slow.h"
#include "launcher/job/supervise_priv.h"

enum { SLOW_TEXT_MAX = 200 };

_Static_assert((int)SLOW_REPORT_STEPS == (int)PACE_REPORT_STEPS, "reports are passed on");

/* The shares are passed on in their order. */
#define IS_SHARE(fact, kind) ((int)(fact) - (int)SLOW_IS_STOPPED == (int)PACE_STRAIN + (int)(kind))
_Static_assert(IS_SHARE(SLOW_IS_THROTTLED, STRAIN_THROTTLED), "");
_Static_assert(IS_SHARE(SLOW_IS_STOLEN, STRAIN_STOLEN), "");
_Static_assert(IS_SHARE(SLOW_IN_MEMORY, STRAIN_MEMORY), "");
_Static_assert(IS_SHARE(SLOW_IN_CPU, STRAIN_CPU), "");
_Static_assert(IS_SHARE(SLOW_IN_IO, STRAIN_IO), "");
_Static_assert(IS_SHARE(SLOW_FACTS, STRAIN_KINDS), "");

/* Returns whether hosts are compared with each other. On one host, instances are. */
static bool has_hosts(const struct supervisor *s)
{
    return s->plan->num_hosts > 1;
}

int slow_watch_init(struct supervisor *s)
{
    uint32_t count = s->plan->num_instances;
    uint32_t *unit_of = calloc(count, sizeof(*unit_of));
    int r;

    if (!unit_of)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        unit_of[i] = has_hosts(s) ? s->plan->instances[i].host : i;
    r = slow_create(count, has_hosts(s) ? s->plan->num_hosts : count, unit_of, &s->slow);
    free(unit_of);
    return r;
}

int slow_watch_handle(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    struct pace_report m;
    struct slow_report report;

    if (pace_report_get(payload, &m) < 0)
        return -EPROTO;
    report = (struct slow_report){.count = m.count, .meets = m.meets};
    for (uint32_t i = 0; i < m.count; i++)
        report.steps[i] =
            (struct slow_step){.step = m.step - min_u64(m.step, (m.count - 1 - i) * m.stride),
                               .own_s = (double)m.steps[i].own_ns / 1e9,
                               .wait_s = (double)m.steps[i].wait_ns / 1e9};
    report.facts.of[SLOW_READ] = (double)m.read_ns / 1e9;
    report.facts.of[SLOW_RENDER] = (double)m.render_ns / 1e9;
    report.facts.of[SLOW_REST] = (double)m.rest_ns / 1e9;
    report.facts.of[SLOW_CARRIAGE] = (double)m.network_ns / 1e9;
    for (unsigned i = 0; i < PACE_SHARES; i++)
        report.facts.of[SLOW_IS_STOPPED + i] = m.share[i];
    if (m.count > 0) {
        inst->paced = true;
        inst->own_ns = m.steps[m.count - 1].own_ns;
        inst->wait_ns = m.steps[m.count - 1].wait_ns;
    }
    slow_note(s->slow, instance_index(s, inst), &report);
    return 0;
}

/* Returns the unit's name, for messages. */
static const char *name_unit(const struct supervisor *s, uint32_t unit, uint32_t instance,
                             char ret[SLOW_TEXT_MAX])
{
    if (unit == slow_count(s->slow))
        return "the whole job";
    if (has_hosts(s) && s->plan->hosts[unit].count == 1)
        (void)snprintf(ret, SLOW_TEXT_MAX, "host %.128s", s->plan->hosts[unit].name);
    else
        (void)snprintf(ret, SLOW_TEXT_MAX, "host %.128s (instance %u)",
                       instance_host(s, &s->instances[instance])->name, instance);
    return ret;
}

static void log_lines(struct supervisor *s)
{
    struct slow_line line;

    while (slow_take_line(s->slow, &line)) {
        char name[SLOW_TEXT_MAX], text[SLOW_TEXT_MAX];
        const char *who = name_unit(s, line.unit, line.verdict.instance, name);

        slow_describe(&line.verdict, text, sizeof(text));
        if (line.ends)
            log_about(LOG_LEVEL_NOTICE, NULL, "%s is no longer slow (%s)", who, text);
        else
            log_warn("%s is slow: %s", who, text);
    }
}

void slow_watch_beat(struct supervisor *s, uint64_t now)
{
    if (s->phase != JOB_RUNNING)
        return;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (inst->state == INSTANCE_ALIVE)
            slow_note_stop(s->slow, i, inst->stopped_by != 0);
        else
            slow_note_end(s->slow, i);
    }
    slow_judge(s->slow, now);
    log_lines(s);
}

const char *slow_watch_describe(const struct supervisor *s, uint32_t instance, char *ret,
                                size_t size)
{
    const struct slow_verdict *verdict;
    uint32_t unit;

    *ret = '\0';
    if (!s->slow) /* no attempt is in progress */
        return "";
    unit = slow_count(s->slow);
    if (instance < s->plan->num_instances)
        unit = has_hosts(s) ? s->plan->instances[instance].host : instance;
    verdict = slow_get(s->slow, unit);
    if (verdict->cause == SLOW_NOT || (unit < slow_count(s->slow) && verdict->instance != instance))
        return "";
    slow_describe(verdict, ret, size);
    return slow_word(verdict->cause);
}

static void write_verdict(struct json *j, const struct supervisor *s, uint32_t unit,
                          const struct slow_verdict *verdict, bool now)
{
    char text[SLOW_TEXT_MAX];

    slow_describe(verdict, text, sizeof(text));
    json_begin_object(j, NULL, JSON_FLAT);
    if (unit == slow_count(s->slow)) {
        json_null(j, "host");
        json_null(j, "instance");
    } else {
        json_text(j, "host", instance_host(s, &s->instances[verdict->instance])->name);
        json_number(j, "instance", verdict->instance);
    }
    json_text(j, "cause", slow_word(verdict->cause));
    json_number(j, "since_step", verdict->since);
    json_bool(j, "at_the_end", now);
    json_text(j, "text", text);
    json_end_object(j);
}

void slow_watch_write(const struct supervisor *s, struct json *j)
{
    json_begin_array(j, "slow", JSON_LINES);
    for (uint32_t i = 0; s->slow && i <= slow_count(s->slow); i++) {
        const struct slow_verdict *now = slow_get(s->slow, i),
                                  *logged = slow_get_logged(s->slow, i);

        if (logged->cause != SLOW_NOT && logged->since != now->since)
            write_verdict(j, s, i, logged, false);
        if (now->cause != SLOW_NOT)
            write_verdict(j, s, i, now, true);
    }
    json_end_array(j);
}

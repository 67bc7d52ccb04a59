/* SPDX-License-Identifier: MIT */
/* hung.c - ends the job if an instance makes no progress (--progress-timeout).
 *
 * Its shim notices that, and sends the stacks of the program. If one instance hangs, others may
 * wait for it in a way that libplenum does not see, and seem to hang as well. So all reports of the
 * next seconds are shown. The program that was stopped by a signal is blamed, otherwise the one
 * that has been idle for longest. */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/job/supervise_priv.h"

enum { OTHERS_MS = 2000 };

/* Make lines safe to print, because they contain names that the program chooses. */
static void make_lines_plain(char *text)
{
    char *to = text;

    for (char *line = text, *end; line; line = end) {
        size_t len;

        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        len = strlen(text_make_plain(line));
        memmove(to, line, len);
        to += len;
        if (end)
            *to++ = '\n';
    }
    *to = '\0';
}

int hung_handle(struct supervisor *s, struct instance *inst, struct frame_reader *payload)
{
    struct control_hung m;

    if (control_get_hung(payload, &m) < 0 || inst->hung_ns > 0)
        return -EPROTO;
    if (m.len == 0) {
        if (!s->idle_warned)
            log_warn("--progress-timeout has no effect on instance %u on host %s, and others like "
                     "it, so far: its program has not used libplenum yet",
                     instance_index(s, inst), instance_host(s, inst)->name);
        s->idle_warned = true;
        return 0;
    }
    inst->hung_ns = max_u64(m.idle_ns, 1);
    inst->stacks = strndup(m.text, m.len);
    if (inst->stacks)
        make_lines_plain(inst->stacks);
    if (s->phase == JOB_RUNNING || s->phase == JOB_STARTING)
        s->hung_at = min_u64(s->hung_at, time_now_ns() + OTHERS_MS * NS_PER_MS);
    return 0;
}

static bool is_worse(const struct instance *a, const struct instance *b)
{
    bool stopped = a->stopped_by != 0, other = b && b->stopped_by != 0;

    return !b || (stopped != other ? stopped : a->hung_ns > b->hung_ns);
}

void hung_do_what_is_due(struct supervisor *s, uint64_t now)
{
    const struct instance *worst = NULL;

    if (now < s->hung_at)
        return;
    s->hung_at = SUPERVISE_NEVER;
    for (uint32_t i = 0; i < s->plan->num_instances; i++) {
        const struct instance *inst = &s->instances[i];

        if (inst->hung_ns == 0 || inst->state != INSTANCE_ALIVE)
            continue;
        if (is_worse(inst, worst))
            worst = inst;
        log_warn("instance %u on host %s has made no progress for %.1f s:", i,
                 instance_host(s, inst)->name, (double)inst->hung_ns / 1e9);
        if (inst->stacks)
            (void)output_put_own(s->output, CONTROL_STDERR, inst->stacks, strlen(inst->stacks));
    }
    if (worst)
        supervise_fail_with(s, REPORT_HUNG, worst, "made no progress for %.1f s%s",
                            (double)worst->hung_ns / 1e9,
                            worst->stopped_by ? ", because a signal has stopped it" : "");
}

/* SPDX-License-Identifier: MIT */
/* inner_hung.c - notices when the program makes no progress (--progress-timeout): by the time of
 * its last activity, which libplenum writes to the page that both share (common/job/pace.h).
 *
 * A program that waits in a collective is not hung, because it waits for another instance, and
 * collectives have their own time limit. Neither is one that waits until plenumrun's output is
 * read. Before its first activity nothing is known about a program, so it is not ended. */
#include "config.h"

#include <string.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"
#include "launcher/host/stacks.h"
#include "launcher/shim/inner_priv.h"

void inner_forgive_progress(struct inner *in, uint64_t now)
{
    in->progress_from = now;
}

static void tell(struct inner *in, uint64_t idle_ns, const char *text)
{
    const struct control_hung m = {.idle_ns = idle_ns, .text = text, .len = strlen(text)};

    (void)control_put_hung(&in->conn.tx, &m);
    in->hung_told = true;
}

/* Report that nothing is known about the program so far. Its first activity may still come. */
static void tell_unknown(struct inner *in)
{
    const struct control_hung m = {.text = ""};

    if (!in->unknown_told)
        (void)control_put_hung(&in->conn.tx, &m);
    in->unknown_told = true;
}

/* Once the stacks are captured, report the program as hung, unless it has made progress since. */
static void finish(struct inner *in, uint64_t active_ns, uint64_t now)
{
    if (!capture_poll(&in->stacks, now))
        return;
    if (active_ns == in->hung_active && now >= in->progress_from + in->plan.progress_ns)
        tell(in, now - active_ns,
             in->stacks.len > 0 ? in->stacks.text : "  its threads cannot be shown\n");
    capture_fini(&in->stacks);
}

/* Might the program be waiting until plenumrun's output is read? That can take any time. */
static bool cannot_print(const struct inner *in)
{
    return !lines_has_room(&in->lines[CONTROL_STDOUT]) ||
           !lines_has_room(&in->lines[CONTROL_STDERR]);
}

/* Returns whether the program may be inactive at the moment. */
static bool is_excused(const struct inner *in)
{
    bool meets = atomic_load(&in->stop->page->pace.doing) == PACE_MEETS;

    return in->suspended || (meets && !in->stopped) || cannot_print(in);
}

void inner_watch_progress(struct inner *in, uint64_t now)
{
    uint64_t limit = in->plan.progress_ns, active, from;

    if (limit == 0 || in->hung_told || !in->stop || in->state != INNER_RUNNING ||
        in->kill_at != UINT64_MAX)
        return;
    active = atomic_load(&in->stop->page->pace.active_ns);
    if (is_excused(in))
        in->progress_from = now;
    if (in->stacks.pid > 0) {
        finish(in, active, now);
        return;
    }
    if (active == 0 && now > in->started_ns + limit) {
        tell_unknown(in);
        return;
    }
    from = max_u64(active, in->progress_from);
    if (active == 0 || now < from || now - from < limit)
        return;
    in->hung_active = active;
    if (stacks_begin(&in->stacks, &in->child.pid) < 0)
        tell(in, now - active, "  its threads cannot be shown: out of memory\n");
}

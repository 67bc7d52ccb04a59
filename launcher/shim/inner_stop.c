/* SPDX-License-Identifier: MIT */
/* inner_stop.c - stops the program at the step on which all instances agree (launcher/job/agree.h).
 * plenum_job_should_stop() uses a page that the program shares with us (common/job/stop_page.h). */
#include "config.h"

#include <assert.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"
#include "launcher/shim/inner_priv.h"

void inner_make_stop_page(struct inner *in)
{
    char path[STOP_PATH_MAX];

    assert(!in->stop);
    if (stop_keeper_create(in->task->instance, in->plan.instances, &in->stop, path) == 0)
        (void)environ_list_put(&in->plan.environment, ENVIRON_SET, STOP_PAGE_VARIABLE, path);
    else
        (void)environ_list_put(&in->plan.environment, ENVIRON_UNSET, STOP_PAGE_VARIABLE, "");
}

bool inner_asks_to_stop(const struct inner *in)
{
    return in->stop && stop_page_get_asked(in->stop->page) > 0;
}

void inner_notice_stop(struct inner *in)
{
    if (!in->notice_told)
        (void)control_put_empty(&in->conn.tx, CONTROL_NOTICE);
    in->notice_told = true;
}

void inner_look_at_stop(struct inner *in, bool beat)
{
    struct stop_page *page = in->stop ? in->stop->page : NULL;
    uint64_t asked, halted;

    if (!page)
        return;
    asked = stop_page_get_asked(page);
    halted = atomic_load(&page->halted);
    if (asked != in->step_told && (beat || in->step_told == 0)) {
        (void)control_put_number(&in->conn.tx, CONTROL_STEP, asked);
        in->step_told = asked;
    }
    if (atomic_load(&page->noticed))
        inner_notice_stop(in);
    if (halted && !in->halt_told) {
        (void)control_put_number(&in->conn.tx, CONTROL_HALTED, min_u64(halted, STOP_STEP_MAX + 1));
        in->halt_told = true;
    }
}

int inner_handle_propose(struct inner *in, struct frame_reader *payload)
{
    struct control_stop m;
    int r = control_get_stop(payload, &m);

    if (r < 0)
        return r;
    if (!in->stop) { /* without a page, there are no steps to agree on */
        m.step = 0;
        m.promised = 1;
    } else {
        m.promised = stop_page_promise(in->stop->page, m.step, &m.step);
    }
    return control_put_stop(&in->conn.tx, CONTROL_ANSWER, &m);
}

int inner_handle_decide(struct inner *in, struct frame_reader *payload)
{
    struct control_stop m;
    int r = control_get_stop(payload, &m);

    if (r == 0 && in->stop)
        stop_page_decide(in->stop->page, m.step);
    return r;
}

void inner_end_stop(const struct inner *in, struct control_exited *exited)
{
    if (!in->stop)
        return;
    exited->asked = stop_page_get_asked(in->stop->page);
    exited->halted = min_u64(atomic_load(&in->stop->page->halted), STOP_STEP_MAX + 1);
}

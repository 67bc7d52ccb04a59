/* SPDX-License-Identifier: MIT */
/* inner_pace.c - reports once a second how the program progresses, so that plenumrun can find out
 * which host is slow (launcher/job/slow.h). */
#include "config.h"

#include <stdlib.h>

#include "common/job/pace.h"
#include "common/job/stop_page.h"
#include "common/util/util.h"
#include "launcher/control/pace_report.h"
#include "launcher/host/strain.h"
#include "launcher/shim/inner_priv.h"

enum {
    STRIDE_MAX = 1 << 20,
    FEW_STEPS = 3, /* if fewer are recorded in a second, the stride is halved */
};

/* The loader's sums in the page. */
struct pace_sums {
    uint64_t batches, samples, read_ns, render_ns, rest_ns, network_ns;
};

struct inner_pace {
    struct strain *strain;
    uint64_t seen; /* number of the page's steps that were read */
    struct pace_sums sums;
    uint64_t told_ns;    /* time of the last report */
    uint64_t stopped_at; /* when the program was stopped, or this was last reported; 0: it runs */
    uint64_t stopped_ns; /* earlier stops since the last report */
};

void inner_open_pace(struct inner *in)
{
    in->pace = calloc(1, sizeof(*in->pace));
}

void inner_close_pace(struct inner *in)
{
    if (!in->pace)
        return;
    strain_destroy(in->pace->strain);
    free(in->pace);
    in->pace = NULL;
}

void inner_note_stop(struct inner *in, uint64_t now)
{
    struct inner_pace *p = in->pace;

    if (!p)
        return;
    if (in->stopped && p->stopped_at == 0) {
        p->stopped_at = now;
    } else if (!in->stopped && p->stopped_at > 0) {
        p->stopped_ns += now - p->stopped_at;
        p->stopped_at = 0;
    }
}

static uint8_t stopped_share(struct inner_pace *p, uint64_t now)
{
    uint64_t elapsed = now > p->told_ns ? now - p->told_ns : 0, stopped = p->stopped_ns;

    if (p->stopped_at > 0) {
        stopped += now - p->stopped_at;
        p->stopped_at = now;
    }
    p->stopped_ns = 0;
    return elapsed == 0 ? 0 : (uint8_t)min_u64(100 * stopped / elapsed, 100);
}

static uint64_t mean(uint64_t sum, uint64_t before, uint64_t count)
{
    return count == 0 || sum <= before ? 0 : (sum - before) / count;
}

static void add_batches(struct inner_pace *p, const struct pace *page, struct pace_report *m)
{
    const struct pace_sums now = {.batches = atomic_load(&page->batches),
                                  .samples = atomic_load(&page->samples),
                                  .read_ns = atomic_load(&page->read_ns),
                                  .render_ns = atomic_load(&page->render_ns),
                                  .rest_ns = atomic_load(&page->rest_ns),
                                  .network_ns = atomic_load(&page->network_ns)};
    uint64_t batches = mean(now.batches, p->sums.batches, 1);
    uint64_t samples = mean(now.samples, p->sums.samples, 1);

    m->read_ns = mean(now.read_ns, p->sums.read_ns, samples);
    m->render_ns = mean(now.render_ns, p->sums.render_ns, samples);
    m->rest_ns = mean(now.rest_ns, p->sums.rest_ns, batches);
    m->network_ns = mean(now.network_ns, p->sums.network_ns, batches);
    p->sums = now;
}

/* Add the last steps that are `m->stride` apart. */
static void add_steps(const struct pace_step *steps, size_t count, struct pace_report *m)
{
    size_t first = count;

    if (count == 0)
        return;
    m->step = steps[count - 1].step;
    while (first > 0 && count - first < PACE_REPORT_STEPS &&
           steps[first - 1].step + (count - first) * m->stride == m->step)
        first--;
    m->count = (uint32_t)(count - first);
    for (size_t i = first; i < count; i++) {
        m->steps[i - first].own_ns = steps[i].own_ns;
        m->steps[i - first].wait_ns = steps[i].wait_ns;
    }
}

/* Change the stride so that about as many steps are recorded as a report has room for. */
static void adapt_stride(struct pace *page, size_t count, uint32_t stride)
{
    if (count > PACE_REPORT_STEPS && stride < STRIDE_MAX)
        atomic_store(&page->stride, 2 * stride);
    else if (count < FEW_STEPS && stride > 1)
        atomic_store(&page->stride, stride / 2);
}

void inner_tell_pace(struct inner *in, uint64_t now)
{
    struct pace_step steps[PACE_STEPS];
    struct inner_pace *p = in->pace;
    struct pace *page;
    struct pace_report m = {0};
    size_t count;

    if (!p || !in->stop || !inner_is_running(in))
        return;
    page = &in->stop->page->pace;
    if (atomic_load(&page->active_ns) == 0)
        return; /* nothing is known about this program */
    m.stride = (uint32_t)max_u64(atomic_load(&page->stride), 1);
    m.meets = atomic_load(&page->met) != 0;
    count = pace_read(page, &p->seen, steps);
    add_steps(steps, count, &m);
    add_batches(p, page, &m);
    /* Looking for the kernel's files takes time that the start of a large job does not have. */
    if (!p->strain)
        (void)strain_create(in->task->local_index == 0, &p->strain);
    if (p->strain)
        strain_read(p->strain, now, &m.share[PACE_STRAIN]);
    m.share[PACE_STOPPED] = stopped_share(p, now);
    p->told_ns = now;
    adapt_stride(page, count, m.stride);
    (void)pace_report_put(&in->conn.tx, &m);
}

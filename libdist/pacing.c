/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/pacing.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/job/pace.h"
#include "common/job/stop_page.h"
#include "common/util/util.h"

/* This process. A forked child must open the page again. */
static struct {
    _Atomic int32_t pid; /* this process, once it has opened the page; 0: not yet */
    struct stop_page *page;
    pthread_mutex_t mu; /* protects everything below */
    bool by_steps;      /* the program calls plenum_job_should_stop() */
    bool in_step;
    uint64_t step, begun_ns;  /* of the step in progress */
    uint64_t wait_ns, met_ns; /* within it: waits for batches, collectives */
    uint64_t asked_ns;        /* when the next batch was requested; 0: not yet */
    uint64_t asked_wait_ns;   /* how long the program has waited for it since then */
    uint64_t arrived_ns;      /* at the collective in progress; 0: none */
    uint64_t batches;
    struct pace_step sum; /* since the last recorded step */
    uint64_t count;
} self = {.mu = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t open_mu = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forget(void)
{
    atomic_store(&self.pid, 0);
    /* Another thread of the parent may have held them. */
    (void)pthread_mutex_init(&self.mu, NULL);
    (void)pthread_mutex_init(&open_mu, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, forget);
}

static int32_t opened_by(void)
{
    return atomic_load_explicit(&self.pid, memory_order_acquire);
}

static void begin(struct stop_page *page)
{
    self.page = page;
    self.by_steps = self.in_step = false;
    self.asked_ns = self.arrived_ns = self.batches = self.count = 0;
    self.sum = (struct pace_step){0};
    (void)pace_claim(&page->pace);
    atomic_store(&self.pid, (int32_t)getpid());
}

struct stop_page *pacing_open(const struct plenum_job_info *info)
{
    struct stop_page *page = NULL;

    if (opened_by())
        return self.page;
    (void)pthread_once(&fork_once, watch_forks);
    (void)pthread_mutex_lock(&open_mu);
    if (!opened_by() && (page = stop_page_open(info->instance_index, info->num_instances)) != NULL)
        begin(page);
    (void)pthread_mutex_unlock(&open_mu);
    return opened_by() ? self.page : NULL;
}

/* Record what the program does now. Returns its page, or NULL if this process records no steps. */
static struct pace *note(uint64_t now, enum pace_doing doing)
{
    int32_t pid = opened_by();
    struct pace *pace;

    if (!pid)
        return NULL;
    pace = &self.page->pace;
    atomic_store_explicit(&pace->active_ns, now, memory_order_relaxed);
    /* Only one of several processes records steps. */
    if (atomic_load_explicit(&pace->writer, memory_order_relaxed) != pid)
        return NULL;
    atomic_store_explicit(&pace->doing, doing, memory_order_relaxed);
    return pace;
}

/* Like note(), but takes the lock if it returns a page. */
static struct pace *enter(uint64_t now, enum pace_doing doing)
{
    struct pace *pace = note(now, doing);

    if (pace)
        (void)pthread_mutex_lock(&self.mu);
    return pace;
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&self.mu);
}

static uint64_t since(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}

/* Add up the step that ends now; each time `stride` steps are complete, record their means. */
static void end_step(struct pace *pace, uint64_t now)
{
    uint64_t stride = max_u64(atomic_load_explicit(&pace->stride, memory_order_relaxed), 1);
    uint64_t elapsed = since(self.begun_ns, now), away = self.wait_ns + self.met_ns;

    self.sum.own_ns += elapsed > away ? elapsed - away : 0;
    self.sum.wait_ns += self.wait_ns;
    self.count++;
    if (self.step % stride != 0)
        return;
    self.sum = (struct pace_step){.step = self.step,
                                  .own_ns = self.sum.own_ns / self.count,
                                  .wait_ns = self.sum.wait_ns / self.count};
    pace_record(pace, &self.sum);
    self.sum = (struct pace_step){0};
    self.count = 0;
}

static void begin_step(struct pace *pace, uint64_t step, uint64_t now)
{
    if (self.in_step)
        end_step(pace, now);
    self.in_step = true;
    self.step = step;
    self.begun_ns = now;
    self.wait_ns = self.met_ns = 0;
    atomic_store_explicit(&pace->step, step + 1, memory_order_relaxed);
}

void pacing_begin_step(uint64_t step, uint64_t now)
{
    int32_t pid = opened_by();
    struct pace *pace;

    /* The process that calls this is the one that trains, whichever opened a stream first. */
    if (pid && !self.by_steps)
        atomic_store(&self.page->pace.writer, pid);
    pace = enter(now, PACE_COMPUTES);
    if (!pace)
        return;
    if (!self.by_steps) {
        self.in_step = false; /* steps were counted by batches until now */
        self.sum = (struct pace_step){0};
        self.count = 0;
    }
    self.by_steps = true;
    if (!self.in_step || step != self.step)
        begin_step(pace, step, now);
    leave();
}

void pacing_wait(uint64_t now)
{
    (void)note(now, PACE_WAITS);
}

/* Add the times that the loader has reported, which are all zero if there was no loader. */
static void add_batch(struct pace *pace, const struct trace_batch *batch, uint64_t samples)
{
    const struct wire_done *done = &batch->done;
    uint64_t elapsed = since(batch->asked_ns, batch->done_ns);

    if (done->total_ns == 0)
        return;
    (void)atomic_fetch_add_explicit(&pace->batches, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pace->samples, samples, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pace->read_ns, done->read_ns, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pace->render_ns, done->render_ns, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pace->rest_ns, done->rest_ns, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pace->network_ns, since(done->total_ns, elapsed),
                                    memory_order_relaxed);
}

void pacing_take(uint64_t began_ns, uint64_t now, bool waits, const struct trace_batch *batch,
                 uint64_t samples)
{
    struct pace *pace = enter(now, PACE_COMPUTES);

    if (!pace)
        return;
    if (self.asked_ns == 0 && (waits || batch)) {
        self.asked_ns = began_ns;
        self.asked_wait_ns = 0;
    }
    self.asked_wait_ns += waits ? since(began_ns, now) : 0;
    if (batch) {
        if (!self.by_steps)
            begin_step(pace, self.batches++, self.asked_ns);
        self.wait_ns += self.asked_wait_ns;
        self.asked_ns = 0;
        add_batch(pace, batch, samples);
    }
    leave();
}

void pacing_arrive(uint64_t now)
{
    struct pace *pace = enter(now, PACE_MEETS);

    if (!pace)
        return;
    atomic_store_explicit(&pace->met, 1, memory_order_relaxed);
    self.arrived_ns = now;
    leave();
}

void pacing_depart(uint64_t now)
{
    if (!enter(now, PACE_COMPUTES))
        return;
    if (self.arrived_ns)
        self.met_ns += since(self.arrived_ns, now);
    self.arrived_ns = 0;
    leave();
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/parallel.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/util/util.h"

enum { TELL_MS = 100 }; /* between progress reports */

struct parallel_work {
    const struct parallel *p;
    atomic_uint_fast64_t next, done;
    /* Any thread, holding mu. */
    pthread_mutex_t mu;
    pthread_cond_t ended;
    unsigned running;
    int error;
    uint64_t error_index;
};

struct worker {
    struct parallel_work *run;
    unsigned index;
    pthread_t thread;
};

unsigned parallel_cpus(void)
{
    cpu_set_t *set;
    int n = 0;

    /* A machine can have more CPUs than fit into cpu_set_t. */
    for (size_t cpus = 1024; cpus <= 65536 && n == 0; cpus *= 4) {
        size_t size = CPU_ALLOC_SIZE(cpus);

        set = CPU_ALLOC(cpus);
        if (!set)
            break;
        if (sched_getaffinity(0, size, set) == 0)
            n = CPU_COUNT_S(size, set);
        CPU_FREE(set);
    }
    return n > 0 ? (unsigned)n : 1;
}

static void note_error(struct parallel_work *run, uint64_t index, int error)
{
    assert(error < 0 && index < run->p->count);
    (void)pthread_mutex_lock(&run->mu);
    if (run->error == 0 || index < run->error_index) {
        run->error = error;
        run->error_index = index;
    }
    (void)pthread_mutex_unlock(&run->mu);
    atomic_store(&run->next, run->p->count); /* start no further iterations */
}

static void work(struct parallel_work *run, unsigned thread)
{
    for (;;) {
        uint64_t index = atomic_fetch_add(&run->next, 1);
        int r;

        if (index >= run->p->count)
            return;
        r = run->p->cancel && atomic_load(run->p->cancel)
                ? -ECANCELED
                : run->p->turn(run->p->arg, index, thread);
        if (r < 0)
            note_error(run, index, r);
        (void)atomic_fetch_add(&run->done, 1);
    }
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    work(w->run, w->index);
    (void)pthread_mutex_lock(&w->run->mu);
    assert(w->run->running > 0);
    w->run->running--;
    (void)pthread_cond_signal(&w->run->ended);
    (void)pthread_mutex_unlock(&w->run->mu);
    return NULL;
}

static void wait_and_tell(struct parallel_work *run)
{
    const struct parallel *p = run->p;

    (void)pthread_mutex_lock(&run->mu);
    while (run->running > 0) {
        (void)cond_wait_until(&run->ended, &run->mu, time_now_ns() + TELL_MS * NS_PER_MS);
        if (p->progress) {
            (void)pthread_mutex_unlock(&run->mu);
            p->progress(p->arg, atomic_load(&run->done), p->count);
            (void)pthread_mutex_lock(&run->mu);
        }
    }
    (void)pthread_mutex_unlock(&run->mu);
}

int parallel_run(const struct parallel *p)
{
    struct parallel_work run = {
        .p = p, .mu = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    unsigned threads = p->threads ? p->threads : parallel_cpus(), started = 0;
    struct worker *workers;

    if (threads > p->count)
        threads = (unsigned)p->count;
    if (threads == 1 && !p->progress)
        threads = 0;
    workers = calloc(threads ? threads : 1, sizeof(*workers));
    if (!workers)
        threads = 0;
    for (; started < threads; started++) {
        workers[started] = (struct worker){.run = &run, .index = started};
        (void)pthread_mutex_lock(&run.mu);
        run.running++;
        (void)pthread_mutex_unlock(&run.mu);
        if (thread_start(&workers[started].thread, worker_main, &workers[started]) < 0) {
            (void)pthread_mutex_lock(&run.mu);
            run.running--;
            (void)pthread_mutex_unlock(&run.mu);
            break;
        }
    }
    if (started == 0)
        work(&run, 0); /* one thread, or no memory or thread available for more */
    wait_and_tell(&run);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    assert(run.running == 0);
    assert(run.error < 0 || atomic_load(&run.done) == p->count);
    free(workers);
    return run.error;
}

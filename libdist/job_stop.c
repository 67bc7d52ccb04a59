/* SPDX-License-Identifier: MIT */
/* job_stop.c - plenum_job_should_stop(). Under plenumrun, it uses a page that this process shares
 * with its shim (common/job/stop_page.h). A process that is alone checks whether it has received a
 * signal. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/job/stop_page.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/job_priv.h"
#include "libdist/pacing.h"

/* How this process finds out whether to stop. Once set, this does not change, because signal
 * handlers stay installed. */
static struct asker {
    bool ready;
    struct stop_page *page; /* NULL: this process is alone */
    bool told;              /* the signal was reported to the shim */
} asker;
static pthread_once_t asker_once = PTHREAD_ONCE_INIT;
static atomic_int asker_signal; /* the last signal that asked this process to stop; 0: none */

static void take_signal(int signal)
{
    atomic_store(&asker_signal, signal);
}

static void in_child(void)
{
    asker.ready = false;
}

static void at_fork(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* Handle a signal if the program does not. */
static void handle(int signal)
{
    struct sigaction before, ours = {.sa_handler = take_signal, .sa_flags = SA_RESTART};

    (void)sigemptyset(&ours.sa_mask);
    if (sigaction(signal, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
        before.sa_handler == SIG_DFL)
        (void)sigaction(signal, &ours, NULL);
}

static const char *name_launcher(enum plenum_launcher launcher)
{
    static const char *const names[] = {
        [PLENUM_LAUNCHER_NONE] = "no launcher", [PLENUM_LAUNCHER_PLENUM] = "plenumrun",
        [PLENUM_LAUNCHER_TORCH] = "torchrun",   [PLENUM_LAUNCHER_MPI] = "mpirun",
        [PLENUM_LAUNCHER_SLURM] = "srun",       [PLENUM_LAUNCHER_PROGRAM] = "the program itself",
    };

    return names[launcher];
}

static int refuse(const struct plenum_job_info *info, struct plenum_error *err)
{
    if (info->launcher == PLENUM_LAUNCHER_PLENUM)
        return error_set(err, -ENOTSUP,
                         "plenum_job_should_stop: plenumrun's memory (%s) cannot be opened: does "
                         "this program run as another user, or without plenumrun's /proc?",
                         STOP_PAGE_VARIABLE);
    return error_set(err, -ENOTSUP,
                     "plenum_job_should_stop: %u instances started by %s cannot agree on a step: "
                     "start them with plenumrun, or exchange a flag in a collective of your own",
                     info->num_instances, name_launcher(info->launcher));
}

/* Claim the page for this process and report its first step, so that plenumrun knows that the
 * program calls plenum_job_should_stop(). */
static int join(struct stop_page *page, uint64_t step, struct plenum_error *err)
{
    pid_t owner = 0;
    int r = stop_page_claim(page, &owner);

    if (r < 0)
        return error_set(err, r,
                         "plenum_job_should_stop: process %d of this instance calls it, too: call "
                         "it in one process of each instance",
                         (int)owner);
    stop_page_enter(page, step);
    stop_page_ring(page);
    return 0;
}

static int prepare(const struct plenum_job *job, uint64_t step, struct plenum_error *err)
{
    const struct plenum_job_info *info = &job->info;
    int r;

    if (job->pid != getpid())
        return error_set(err, -ECHILD,
                         "plenum_job_should_stop: the job belongs to the process that opened it: "
                         "open it again after fork()");
    if (!asker.page)
        asker.page = pacing_open(info);
    if (!asker.page && (info->num_instances > 1 || info->launcher == PLENUM_LAUNCHER_PLENUM))
        return refuse(info, err);
    (void)pthread_once(&asker_once, at_fork);
    r = asker.page ? join(asker.page, step, err) : 0;
    if (r < 0)
        return r;
    handle(SIGUSR1);
    if (!asker.page)
        handle(SIGTERM);
    asker.ready = true;
    return 0;
}

/* Obey a signal that this process itself received, from a batch system that signals all processes.
 * A process that is alone stops at once (1). Otherwise, report the signal to the shim, and return
 * whether this is the step at which all stop. */
static int obey(uint64_t step)
{
    if (!asker.page)
        return 1;
    if (!asker.told)
        stop_page_note(asker.page);
    asker.told = true;
    return stop_page_ask(asker.page, step) == STOP_HALT;
}

int plenum_job_should_stop(struct plenum_job *job, uint64_t step, struct plenum_error *err)
{
    int r;

    if (step > STOP_STEP_MAX)
        return error_set(err, -EINVAL, "plenum_job_should_stop: step %llu is above 2^62 - 1",
                         (unsigned long long)step);
    if (!asker.ready && (r = prepare(job, step, err)) < 0)
        return r;
    if (asker.page)
        pacing_begin_step(step, time_now_ns());
    if (atomic_load_explicit(&asker_signal, memory_order_relaxed) != 0)
        return obey(step);
    return asker.page && stop_page_ask(asker.page, step) == STOP_HALT;
}

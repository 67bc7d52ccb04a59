/* SPDX-License-Identifier: MIT */
/* local.c - does for a job on one host what mpirun does, and no more: it starts one shim per
 * instance, passes signals on to them, and ends when they have ended.
 *
 * Like mpirun, it is a separate process between its guard and the shims. If any of these processes
 * is killed, the consequences are therefore the same as with mpirun; guard.c describes them. If a
 * shim fails, this process ends the others: plenumrun would not notice a shim that fails before it
 * has connected. */
#include "config.h"

#include "launcher/job/local.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/host/signals.h"

enum { NUMBER_MAX = 24 };

int local_arguments(const struct plan *plan, struct starter_words *ret)
{
    struct starter_words w = {0};

    starter_words_add(&w, "plenumrun");
    starter_words_add(&w, LOCAL_ARGUMENT);
    starter_words_take(&w, str_format("%u", plan->num_instances));
    return starter_words_finish(&w, ret);
}

/* Without mpirun, MPI_Init() would make each of several instances rank 0 of 1. These variables make
 * it fail: in Open MPI 4; in Open MPI 5 and MPICH 4, which use PMIx; in others, which use PMI. An
 * Open MPI mpirun that an instance starts still works. */
#define SINGLETON_SERVER "OMPI_MCA_ess_singleton_server="
#define NAMESPACE "PMIX_NAMESPACE="
#define PMI_PORT "PMI_PORT="

static bool is_replaced(const char *entry)
{
    return str_after(entry, HANDOVER_PREFIX) || str_after(entry, NAMESPACE) ||
           str_after(entry, PMI_PORT) || str_after(entry, SINGLETON_SERVER);
}

int local_environment(const struct plan *plan, const struct starter_job *job,
                      char *const *environment, struct starter_words *ret)
{
    struct starter_words w = {0};

    for (size_t i = 0; environment[i]; i++)
        if (!is_replaced(environment[i]))
            starter_words_add(&w, environment[i]);
    if (plan->num_instances > 1) {
        starter_words_add(&w, SINGLETON_SERVER "file:/plenumrun-started-this-without-mpirun");
        starter_words_add(&w, PMI_PORT "127.0.0.1:1"); /* where no process listens */
        starter_words_take(&w, str_format(NAMESPACE "plenumrun-%s-without-mpirun", job->id));
    }
    starter_add_shim(&w, job);
    return starter_words_finish(&w, ret);
}

/* ---- the process ---- */

struct starting {
    pid_t *shims; /* [count]; 0: not started, or ended */
    uint32_t count, left;
    int status; /* status of the first shim that failed, or 0 */
};

static void signal_all(const struct starting *s, int signal)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->shims[i] > 0)
            (void)kill(s->shims[i], signal);
}

static _Noreturn void become_shim(const char *self, uint32_t instance)
{
    char *const argv[] = {(char *)"plenumrun", (char *)SHIM_ARGUMENT, NULL};
    char number[NUMBER_MAX];

    (void)snprintf(number, sizeof(number), "%u", instance);
    (void)setenv(SHIM_ENV_INSTANCE, number, 1);
    signals_reset(0);
    (void)execv(self, argv);
    log_error("cannot execute %s: %s", self, strerror(errno));
    _exit(126);
}

static void start_all(struct starting *s, const char *self)
{
    for (uint32_t i = 0; i < s->count; i++) {
        s->shims[i] = fork();
        if (s->shims[i] == 0)
            become_shim(self, i);
        if (s->shims[i] < 0) {
            log_error("cannot start instance %u: %s", i, strerror(errno));
            s->status = 1;
            signal_all(s, SIGTERM);
            return;
        }
        s->left++;
    }
}

static void reap(struct starting *s)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t i = 0; i < s->count; i++) {
            if (s->shims[i] != pid)
                continue;
            s->shims[i] = 0;
            s->left--;
        }
        if (status != 0 && s->status == 0) {
            s->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            signal_all(s, SIGTERM);
        }
    }
}

int local_main(const char *count)
{
    static const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct starting s = {0};
    struct plenum_error err;
    char self[4096];
    uint64_t number;
    sigset_t set;

    log_init("plenumrun", LOG_LEVEL_WARN);
    if (!getenv(SHIM_ENV_TOKEN) || parse_u64(count, UINT32_MAX, &number) < 0) {
        log_error("%s is for plenumrun's own use: leave it out", LOCAL_ARGUMENT);
        return 2;
    }
    s.count = (uint32_t)number;
    s.shims = calloc(s.count, sizeof(*s.shims));
    if (!s.shims)
        (void)error_set(&err, -ENOMEM, "out of memory");
    if (!s.shims || host_get_self(self, sizeof(self), &err) < 0) {
        log_error("cannot start the instances: %s", err.text);
        free(s.shims);
        return 1;
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        (void)sigaddset(&set, passed[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    signals_ignore_strays();
    start_all(&s, self);
    while (s.left > 0) {
        int signal = sigwaitinfo(&set, NULL);

        if (signal > 0 && signal != SIGCHLD)
            signal_all(&s, signal);
        reap(&s);
    }
    free(s.shims);
    return s.status;
}

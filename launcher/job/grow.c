/* SPDX-License-Identifier: MIT */
/* grow.c - lets a running job continue on more hosts (plenumctl job grow).
 *
 * A separate process looks for hosts first, because logins take seconds, and nothing is stopped
 * unless it finds some. Then the programs stop at the same step, as for a preemption, and the job
 * starts again from the checkpoint that they write there. The choice of hosts is made again at that
 * start, by a check of all hosts: if the new ones have gone by then, the job continues as it
 * was. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/job/elastic.h"
#include "launcher/job/supervise_priv.h"

enum { CHECK_MS = 10000 }; /* for the check, in addition to the answers of hosts */

static const char found[] = "found ", none[] = "none ";

/* In the separate process: look for more hosts, and print the result. The log's present sink is not
 * used, because another thread, which does not exist here, may have held its lock. */
static int look(const void *arg)
{
    const struct supervise_job *job = arg;
    char text[JOBCTL_TEXT_MAX];
    bool more;

    log_set_sink(NULL);
    more = elastic_find_more(job->hosts, job->request, text, sizeof(text));
    printf("\n%s%s\n", more ? found : none, text);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Returns why the job cannot grow, whatever hosts are ready; NULL: it may. */
static const char *find_obstacle(const struct supervisor *s)
{
    if (!s->job->elastic)
        return "the job has neither --num-hosts nor --min-hosts, so its hosts never change";
    if (s->phase == JOB_RESTING)
        return "no programs are running: all hosts that are ready are used when they start";
    if (s->phase == JOB_STARTING)
        return "the job is still starting: try again in a moment";
    if (s->phase != JOB_RUNNING || s->stop.noticed || s->interrupts > 0)
        return "the job is stopping already";
    if (!agree_is_possible(&s->stop.agreement))
        return "its programs have not called plenum_job_should_stop(), so they cannot stop at a "
               "step; new hosts are used at the next restart";
    return NULL;
}

MESSAGE static void answer(struct supervisor *s, bool grows, const char *text)
{
    struct jobctl_grown m = {.grows = grows};

    (void)snprintf(m.text, sizeof(m.text), "%s", text);
    job_socket_answer_growth(s, &m);
}

void grow_request(struct supervisor *s)
{
    uint64_t limit = s->job->agent->start_timeout_ns / 2 + CHECK_MS * NS_PER_MS;
    const char *obstacle = find_obstacle(s);

    if (obstacle) {
        answer(s, false, obstacle);
        return;
    }
    if (s->growth.pid > 0)
        return; /* this client gets the same answer */
    elastic_pardon(s->job->hosts);
    if (capture_call(&s->growth, look, s->job, limit) < 0)
        answer(s, false, "the hosts cannot be checked");
}

void grow_continue(struct supervisor *s)
{
    const char *last, *hosts, *obstacle;

    if (s->growth.pid == 0)
        return;
    obstacle = find_obstacle(s); /* it may have changed since the request */
    if (!capture_poll(&s->growth, time_now_ns()) && !obstacle)
        return;
    last = capture_last_line(&s->growth);
    hosts = str_after(last, found);
    if (hosts && !obstacle) {
        s->stop.growing = true;
        stop_request(s, "plenumctl job grow");
        assert(s->stop.noticed);
        answer(s, true, hosts);
    } else if (obstacle) {
        answer(s, false, obstacle);
    } else {
        last = str_after(last, none);
        answer(s, false, last ? last : "the hosts cannot be checked");
    }
    capture_fini(&s->growth);
}

/* SPDX-License-Identifier: MIT */
/* elastic.c - decides before each start which of the listed hosts work, and which of these to use.
 *
 *     lists of hosts ──> roster.c ──> check of all (ready.c) ──> choice (roster.c) ──> plan
 *            ^                                                │
 *            └────────────── a pause ── too few ──────────────┘
 *
 * A start must not begin while programs of the previous one may still run: they would write to the
 * same files. On a host that answers, the check looks for them. If a host does not answer,
 * plenumrun waits until its shims have certainly ended them, because these shims have lost contact
 * with plenumrun no later than plenumrun with them. */
#include "config.h"

#include "launcher/job/elastic.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/exit_status.h"
#include "launcher/host/leftover.h"
#include "launcher/job/interlude.h"
#include "launcher/job/pause.h"
#include "launcher/plan/cmdline.h"
#include "launcher/plan/roster.h"
#include "launcher/values/ranges.h"

enum {
    FAILURES = 3,      /* --max-host-failures */
    WAIT_S = 600,      /* the default of --wait-hosts before a restart */
    LACK_MAX = 4096,   /* bytes of a sentence about hosts that are not ready */
    NAMES_MAX = 600,   /* bytes of a list of hosts */
    EARLIER_MS = 3000, /* time for processes of an earlier start to end */
};

/* In addition to exit statuses. */
enum {
    STATUS_AGAIN = -1, /* too few hosts are ready */
    STATUS_ALIVE = -2, /* programs may still run on a host that does not answer */
};

struct elastic {
    const struct cmdline *options;
    struct job_hosts hosts; /* as they were read last */
    struct roster roster;   /* of hosts for instances */
    struct roster lenders;  /* the hosts that run only a loader */
    bool begun;             /* there has been a start */
};

/* Hosts that were chosen for a start. */
struct elastic_choice {
    uint32_t *chosen; /* [count]: indices of the roster */
    size_t count;
    struct ready_survey survey;
    struct plan plan;
    struct ready *ready;
};

/* ---- options ---- */

static uint32_t get_most(const struct elastic *e)
{
    return e->options->num_hosts ? e->options->num_hosts : (uint32_t)e->hosts.list.count;
}

/* Plan the job on hosts of the roster. */
static int plan_on(const struct elastic *e, const uint32_t *chosen, size_t count, struct plan *ret,
                   struct plenum_error *err)
{
    struct job_hosts hosts = {.local = calloc(count + 1, sizeof(bool)),
                              .lenders_local = calloc(e->lenders.count + 1, sizeof(bool))};
    uint32_t *lenders = calloc(e->lenders.count + 1, sizeof(*lenders));
    int r = -ENOMEM;

    if (!hosts.local || !hosts.lenders_local || !lenders)
        goto out;
    r = roster_list(&e->roster, chosen, count, &hosts.list, hosts.local);
    if (r == 0)
        r = roster_list(&e->lenders, lenders, roster_choose(&e->lenders, lenders), &hosts.lenders,
                        hosts.lenders_local);
out:
    if (r < 0)
        (void)error_set(err, r, "out of memory");
    else
        r = job_hosts_plan(e->options, &hosts, ret, err);
    free(hosts.list.hosts); /* the names belong to the roster */
    free(hosts.lenders.hosts);
    free(hosts.local);
    free(hosts.lenders_local);
    free(lenders);
    return r;
}

static int compare_slots(const void *a, const void *b, void *arg)
{
    const struct roster *roster = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    uint32_t x = roster->hosts[i].slots, y = roster->hosts[k].slots;

    x = x ? x : 1;
    y = y ? y : 1;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

/* Check the options for a start on `count` hosts, namely those with the fewest slots. */
static int check_on(const struct elastic *e, uint32_t count, struct plenum_error *err)
{
    const struct cmdline *options = e->options;
    uint32_t *order = calloc(e->roster.count + 1, sizeof(*order));
    unsigned long *shown = NULL;
    struct plan plan;
    int r;

    assert(count <= e->roster.count);
    if (!order)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < e->roster.count; i++)
        order[i] = i;
    qsort_r(order, e->roster.count, sizeof(*order), compare_slots, (void *)&e->roster);
    r = plan_on(e, order, count, &plan, err);
    free(order);
    if (r < 0)
        return error_prefix(err, r, "with %u host%s", count, count == 1 ? "" : "s");
    for (size_t i = 0; i < options->mpi.num_instance_args && r == 0; i++)
        if (options->mpi.instance_args[i].instance >= plan.num_instances)
            r = error_set(err, -EINVAL,
                          "--instance-mpi-local-args: there is no instance %u if the job starts on "
                          "%u host%s: the last one is %u",
                          options->mpi.instance_args[i].instance, count, count == 1 ? "" : "s",
                          plan.num_instances - 1);
    if (r == 0 && options->output.only && *options->output.only) {
        shown = calloc(RANGES_WORDS(plan.num_instances), sizeof(*shown));
        r = shown ? ranges_parse(options->output.only, shown, plan.num_instances, err)
                  : error_set(err, -ENOMEM, "out of memory");
        if (r < 0)
            (void)error_prefix(err, r, "--only-output-from-instance, with %u host%s", count,
                               count == 1 ? "" : "s");
        free(shown);
    }
    plan_fini(&plan);
    return r;
}

/* Reject options that cannot be met, whichever hosts are ready. */
static int check_options(const struct elastic *e, struct plenum_error *err)
{
    const struct cmdline *options = e->options;
    const struct hostlist *list = &e->hosts.list;
    uint32_t most = get_most(e), least = e->roster.limits.min_hosts;
    const char *option = options->num_hosts ? "--num-hosts" : "--min-hosts";
    int r;

    if (list->count == 0)
        return error_set(
            err, -EINVAL,
            "%s needs several hosts to choose from: name them with --host or --hostfile", option);
    if (most > list->count || least > list->count)
        return error_set(err, -EINVAL, "%s %u: only %zu host%s named: name more, or lower it",
                         option, options->num_hosts ? most : least, list->count,
                         list->count == 1 ? " is" : "s are");
    if (options->num_instances > 0 && least < most)
        return error_set(err, -EINVAL,
                         "--num-instances cannot be used with --min-hosts, because the number of "
                         "instances then depends on the number of hosts: give the hosts slots "
                         "instead (--host %s:2)",
                         list->hosts[0].name);
    for (size_t i = 1; i < list->count && options->num_replicas && !options->allow_uneven; i++)
        if (list->hosts[i].slots != list->hosts[0].slots)
            return error_set(err, -EINVAL,
                             "--num-replicas: hosts %s and %s have different numbers of slots, so "
                             "replicas might not divide evenly once a host is replaced: give all "
                             "the same number, or use --allow-uneven or --replicas-per-host",
                             list->hosts[0].name, list->hosts[i].name);
    r = check_on(e, most, err);
    return r == 0 && least < most ? check_on(e, least, err) : r;
}

static void assume_ready(struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        roster->hosts[i].ready = true;
}

/* Choose hosts, and remember them as those that the user expects to be used. */
static int expect(struct elastic *e)
{
    uint32_t *chosen = calloc(e->roster.count + 1, sizeof(*chosen));

    if (!chosen)
        return -ENOMEM;
    roster_start(&e->roster, chosen, roster_choose(&e->roster, chosen));
    free(chosen);
    return 0;
}

int elastic_create(const struct cmdline *options, struct job_hosts *hosts, struct elastic **ret,
                   struct plenum_error *err)
{
    struct elastic *e = calloc(1, sizeof(*e));
    int r = e ? 0 : -ENOMEM;

    if (e) {
        *e = (struct elastic){.options = options,
                              .hosts = *hosts,
                              .roster.limits = {.num_hosts = options->num_hosts,
                                                .max_failures = options->max_host_failures
                                                                    ? options->max_host_failures
                                                                    : FAILURES},
                              .lenders.limits = {.min_hosts = 1, .max_failures = UINT32_MAX}};
        e->roster.limits.min_hosts = options->min_hosts ? options->min_hosts : options->num_hosts;
        *hosts = (struct job_hosts){.local = NULL};
        r = roster_set(&e->roster, &e->hosts.list, e->hosts.local);
        if (r == 0)
            r = roster_set(&e->lenders, &e->hosts.lenders, e->hosts.lenders_local);
        assume_ready(&e->roster);
        assume_ready(&e->lenders);
        if (r == 0)
            r = expect(e);
    }
    if (r < 0)
        (void)error_set(err, r, "out of memory");
    else
        r = check_options(e, err);
    if (r < 0)
        elastic_destroy(e);
    else
        *ret = e;
    return r;
}

void elastic_destroy(struct elastic *elastic)
{
    if (!elastic)
        return;
    job_hosts_fini(&elastic->hosts);
    roster_fini(&elastic->roster);
    roster_fini(&elastic->lenders);
    free(elastic);
}

int elastic_plan(const struct elastic *elastic, struct plan *ret, struct plenum_error *err)
{
    uint32_t *chosen = calloc(elastic->roster.count + 1, sizeof(*chosen));
    int r;

    if (!chosen)
        return error_set(err, -ENOMEM, "out of memory");
    r = plan_on(elastic, chosen, roster_choose(&elastic->roster, chosen), ret, err);
    free(chosen);
    return r;
}

/* ---- hosts that fail ---- */

static void tell_left_out(const struct roster_host *host)
{
    log_warn("host %s is left out of this job, because it has failed %u time%s "
             "(--max-host-failures): %s",
             host->at.name, host->failures, host->failures == 1 ? "" : "s", host->why);
}

static struct roster_host *find_host(const struct roster *roster, const struct plan_host *host)
{
    const struct hostlist_host named = {.name = host->name, .user = host->user, .port = host->port};

    for (size_t i = 0; i < roster->count; i++)
        if (plan_host_is(&roster->hosts[i].at, &named))
            return &roster->hosts[i];
    return NULL;
}

void elastic_note_end(struct elastic *elastic, const struct plan *plan, const char *why)
{
    struct roster *roster = &elastic->roster;
    bool *lost = calloc(roster->count + 1, sizeof(*lost));

    if (!lost)
        return; /* the check finds out */
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        struct roster_host *host = find_host(roster, &plan->hosts[i]);

        assert(host);
        host->dead_ns = plan->hosts[i].dead_ns;
        lost[host - roster->hosts] = plan->hosts[i].lost;
    }
    if (!roster_lose(roster, lost, why))
        log_warn("most hosts were lost at the same time, which is not their fault: is the network "
                 "broken?");
    for (size_t i = 0; i < roster->count; i++)
        if (lost[i] && !roster_allows(roster, &roster->hosts[i]) && roster->hosts[i].listed)
            tell_left_out(&roster->hosts[i]);
    free(lost);
}

/* Read the lists of hosts again. If that fails, the last ones still hold. */
static void read_again(struct elastic *e)
{
    struct job_hosts hosts;
    struct plenum_error err = {""};
    int r = job_hosts_read_again(e->options, &hosts, &err);

    if (r == -ENODATA)
        return;
    if (r == 0 && roster_set(&e->roster, &hosts.list, hosts.local) == 0) {
        job_hosts_fini(&e->hosts);
        e->hosts = hosts;
        return;
    }
    if (r == 0)
        job_hosts_fini(&hosts);
    log_warn("the list of hosts cannot be read again, and stays as it was: %s",
             r == 0 ? "out of memory" : err.text);
}

/* ---- the check ---- */

/* Record that a host has failed its check, and report it if that excludes the host. */
MESSAGE static void note_failure(const struct roster *roster, struct roster_host *host,
                                 bool blameless, const char *why)
{
    if (blameless)
        roster_set_aside(host, why);
    else if (roster_fail(roster, host, "%s", why))
        tell_left_out(host);
}

/* Check this host, which needs no login: it fails if processes of the earlier start `earlier` (may
 * be NULL) cannot be ended. */
static void check_here(const struct roster *roster, struct roster_host *host, const char *earlier)
{
    int left = earlier ? leftover_kill(earlier, EARLIER_MS * NS_PER_MS) : 0;

    host->ready = left == 0;
    if (left != 0)
        note_failure(roster, host, false, "processes of the job's earlier start cannot be ended");
}

/* Apply the result of this host's health check: unless it is good, this host has failed. */
static void note_health(const struct roster *roster, const struct health_report *health)
{
    char why[sizeof(health->why) + 16];

    (void)snprintf(why, sizeof(why), "health: %s", health->why);
    for (size_t i = 0; i < roster->count && health->state != HEALTH_GOOD; i++)
        if (roster->hosts[i].at.local && roster->hosts[i].ready)
            note_failure(roster, &roster->hosts[i], health->state == HEALTH_UNKNOWN, why);
}

/* Returns whether a host may be used although it cannot be checked. One that has just failed is
 * left out of the next start if it can be spared, because nothing shows that it has recovered. */
static bool is_worth_a_try(const struct roster_host *host, bool spared, uint64_t now)
{
    return host->dead_ns <= now && (!host->failed || !host->blamed || !spared);
}

/* If hosts are not checked, decide from earlier starts which of them count as ready: first those
 * that were not blamed for a failure; if these are too few, also those that were. */
static void assume_some_ready(const struct roster *roster)
{
    uint64_t now = time_now_ns();

    for (int spared = 1; spared >= 0; spared--) {
        if (roster_count_ready(roster) >= roster->limits.min_hosts)
            return;
        for (size_t i = 0; i < roster->count; i++)
            if (roster_allows(roster, &roster->hosts[i]) && !roster->hosts[i].at.local)
                roster->hosts[i].ready = is_worth_a_try(&roster->hosts[i], spared != 0, now);
    }
}

/* Check this host, and add queries for the other hosts of a roster that may be used. Without
 * queries, assume which are ready. */
static void add_probes(const struct roster *roster, const struct ready_request *request,
                       bool loaders, struct ready_survey *survey)
{
    bool can_ask = ready_can_ask(request);

    for (size_t i = 0; i < roster->count; i++) {
        struct roster_host *host = &roster->hosts[i];

        if (!roster_allows(roster, host))
            continue;
        survey->here |= host->at.local;
        if (host->at.local)
            check_here(roster, host, request->earlier);
        else if (can_ask)
            survey->probes[survey->count++] = (struct probe){.host = &host->at, .loader = loaders};
    }
    if (!can_ask)
        assume_some_ready(roster);
}

/* Store the answers to the check. */
static void note_answers(struct elastic *e, const struct ready_survey *survey)
{
    for (uint32_t i = 0; i < survey->count; i++) {
        const struct probe *p = &survey->probes[i];
        const struct roster *roster = p->loader ? &e->lenders : &e->roster;
        struct roster_host *host = container_of(p->host, struct roster_host, at);
        char why[sizeof(p->step) + sizeof(p->what) + 2];

        (void)snprintf(why, sizeof(why), "%s: %s", p->step, p->what);
        host->ready = !p->failed;
        if (p->failed)
            note_failure(roster, host, p->blameless, why);
    }
}

static int ask_all(struct elastic *e, const struct ready_request *request,
                   struct ready_survey *survey, uint64_t *ret_stopped_ns)
{
    int status;

    survey->probes = calloc(e->roster.count + e->lenders.count + 1, sizeof(*survey->probes));
    if (!survey->probes) {
        log_error("out of memory");
        return STATUS_LAUNCH;
    }
    roster_begin_check(&e->roster);
    roster_begin_check(&e->lenders);
    add_probes(&e->roster, request, false, survey);
    add_probes(&e->lenders, request, true, survey);
    status = ready_ask(request, true, survey, ret_stopped_ns);
    if (status != 0)
        return status;
    note_answers(e, survey);
    note_health(&e->roster, &survey->health);
    note_health(&e->lenders, &survey->health);
    return status;
}

/* ---- the choice ---- */

static void list_names(const struct roster *roster, const uint32_t *chosen, size_t count, char *ret,
                       size_t size)
{
    size_t len = 0;

    ret[0] = '\0';
    for (size_t n = 0; n < count && len < size; n++)
        len += (size_t)snprintf(ret + len, size - len, "%s%s", n > 0 ? ", " : "",
                                roster->hosts[chosen[n]].at.name);
    if (len >= size)
        (void)snprintf(ret + size - 5, 5, " ...");
}

/* Report the hosts if they differ from those of the last start, or from those that the user
 * expects. */
static void tell_chosen(const struct elastic *e, const uint32_t *chosen, size_t count)
{
    char names[NAMES_MAX];
    size_t used = 0, same = 0;

    for (size_t i = 0; i < e->roster.count; i++)
        used += e->roster.hosts[i].used;
    for (size_t n = 0; n < count; n++)
        same += e->roster.hosts[chosen[n]].used;
    if (same == count && same == used)
        return;
    list_names(&e->roster, chosen, count, names, sizeof(names));
    log_warn("this start of the job has %zu host%s: %s", count, count == 1 ? "" : "s", names);
}

/* Plan a start on the hosts that are ready, or on fewer if replicas do not divide evenly over their
 * instances. Returns 0, an exit status, or STATUS_AGAIN if there are too few. */
static int plan_ready(const struct elastic *e, uint32_t *chosen, size_t *count, struct plan *ret)
{
    struct roster some = e->roster; /* with other limits */
    struct plenum_error err;
    int r;

    for (;;) {
        *count = roster_choose(&some, chosen);
        if (*count == 0)
            return STATUS_AGAIN;
        r = plan_on(e, chosen, *count, ret, &err);
        if (r == 0)
            return 0;
        if (r != -EINVAL || *count == some.limits.min_hosts)
            break;
        log_warn("the job cannot use %zu hosts: %s", *count, err.text);
        some.limits.num_hosts = (uint32_t)*count - 1;
    }
    log_error("%s", err.text);
    return r == -EINVAL ? STATUS_USAGE : STATUS_LAUNCH;
}

/* Returns the host that does not answer and whose programs may run for longest; NULL if there is
 * none. */
static const struct roster_host *find_alive(const struct roster *roster, uint64_t now)
{
    const struct roster_host *found = NULL;

    for (size_t i = 0; i < roster->count; i++) {
        const struct roster_host *host = &roster->hosts[i];

        if (!host->ready && host->dead_ns > (found ? found->dead_ns : now))
            found = host;
    }
    return found;
}

/* Choose hosts, plan, and choose the network. A host that cannot use the network is not ready after
 * all. */
static int choose(struct elastic *e, const struct ready_request *request,
                  struct elastic_choice *ret)
{
    for (;;) {
        size_t ready = roster_count_ready(&e->roster);
        int status = plan_ready(e, ret->chosen, &ret->count, &ret->plan);

        if (status != 0)
            return status;
        status = ready_settle(request, &ret->plan, &ret->survey, ret->ready);
        if (status == 0)
            note_answers(e, &ret->survey);
        if (status == 0 && ready == roster_count_ready(&e->roster) &&
            find_alive(&e->roster, time_now_ns()))
            status = STATUS_ALIVE;
        if (status == 0 && ready == roster_count_ready(&e->roster))
            return 0;
        plan_fini(&ret->plan);
        if (status != 0)
            return status;
    }
}

/* Check and choose once. Returns 0, an exit status, STATUS_AGAIN or STATUS_ALIVE. */
static int try(struct elastic *e, const struct ready_request *request, struct plan *plan,
               struct ready *ret)
{
    struct elastic_choice choice = {.ready = ret,
                                    .chosen = calloc(e->roster.count + 1, sizeof(*choice.chosen))};
    int status, reported = 0;

    *ret = (struct ready){0};
    if (!choice.chosen) {
        log_error("out of memory");
        return STATUS_LAUNCH;
    }
    status = ask_all(e, request, &choice.survey, &ret->stopped_ns);
    if (status == 0)
        status = choose(e, request, &choice);
    roster_end_check(&e->roster);
    roster_end_check(&e->lenders);
    if (status == 0 || status == STATUS_AGAIN)
        reported = ready_report(&choice.survey);
    if (status == STATUS_AGAIN &&
        (reported == STATUS_NOT_FOUND || reported == STATUS_NOT_EXECUTABLE))
        status = reported; /* waiting does not help */
    if (status == 0) {
        tell_chosen(e, choice.chosen, choice.count);
        ready_tell(ret);
        roster_start(&e->roster, choice.chosen, choice.count);
        plan_fini(plan);
        *plan = choice.plan;
    }
    ready_survey_fini(&choice.survey);
    free(choice.chosen);
    return status;
}

/* ---- waiting ---- */

/* Wait for the end of programs on hosts that do not answer. Returns 0, or the user's signal. */
static int wait_for_dead(const struct elastic *e)
{
    uint64_t now = time_now_ns();
    const struct roster_host *host = find_alive(&e->roster, now);

    if (!host)
        return 0;
    log_warn("host %s does not answer: its programs will have ended in %u s, and the job starts "
             "after that",
             host->at.name, (unsigned)((host->dead_ns - now) / NS_PER_SEC + 1));
    return interlude_wait(host->dead_ns);
}

static void describe_lack(const struct elastic *e, char *ret, size_t size)
{
    size_t ready = roster_count_ready(&e->roster);
    uint32_t needed = e->roster.limits.min_hosts;
    int len =
        snprintf(ret, size, "%zu of the %u host%s that the job needs (%s) %s ready: ", ready,
                 needed, needed == 1 ? "" : "s",
                 e->options->min_hosts ? "--min-hosts" : "--num-hosts", ready == 1 ? "is" : "are");

    assert(len > 0 && (size_t)len < size);
    roster_describe_lack(&e->roster, ret + len, size - (size_t)len);
}

/* Wait before the next check, because too few hosts are ready. Returns STATUS_AGAIN, or an exit
 * status. */
static int wait_for_hosts(const struct elastic *e, struct pause *pause, uint64_t deadline,
                          int *ret_signal)
{
    char lack[LACK_MAX];
    uint64_t now = time_now_ns(), seconds;

    describe_lack(e, lack, sizeof(lack));
    if (now >= deadline) {
        log_error("%s", lack);
        return STATUS_HOSTS;
    }
    seconds = min_u64(pause_next(pause, false, 0), (deadline - now) / NS_PER_SEC + 1);
    log_warn("%s; checking the hosts again in %u s", lack, (unsigned)seconds);
    *ret_signal = interlude_wait(now + seconds * NS_PER_SEC);
    return *ret_signal ? STATUS_SIGNAL + *ret_signal : STATUS_AGAIN;
}

int elastic_prepare(struct elastic *elastic, const struct ready_request *request, uint64_t end_ns,
                    struct plan *plan, struct ready *ret, int *ret_signal)
{
    uint64_t wait = elastic->options->wait_hosts_ns, deadline;
    struct pause pause = {0};
    int status;

    if (wait == CMDLINE_NO_WAIT)
        wait = elastic->begun ? WAIT_S * NS_PER_SEC : 0;
    deadline = min_u64(time_now_ns() + min_u64(wait, UINT64_MAX / 4), end_ns);
    *ret_signal = 0;
    while (*ret_signal == 0) {
        if (elastic->begun)
            read_again(elastic);
        status = try(elastic, request, plan, ret);
        *ret_signal = interlude_look();
        if (*ret_signal)
            break;
        if (status == STATUS_ALIVE)
            *ret_signal = wait_for_dead(elastic);
        else if (status == STATUS_AGAIN)
            status = wait_for_hosts(elastic, &pause, deadline, ret_signal);
        if (status > 0)
            return status;
        if (status == 0) {
            elastic->begun = true;
            return 0;
        }
    }
    return STATUS_SIGNAL + *ret_signal;
}

/* ---- growth ---- */

void elastic_pardon(struct elastic *elastic)
{
    roster_pardon(&elastic->roster);
}

/* Check the hosts that are not in use. Those in use answer all the time. */
static int ask_unused(struct elastic *e, const struct ready_request *request,
                      struct ready_survey *survey)
{
    struct ready_request unused = *request;
    uint64_t stopped_ns;
    uint32_t kept = 0;
    int status;

    survey->probes = calloc(e->roster.count + 1, sizeof(*survey->probes));
    if (!survey->probes)
        return -ENOMEM;
    unused.interrupted = NULL; /* this process ends with the job */
    unused.earlier = NULL;     /* kill nothing: the host may be in use under another name */
    add_probes(&e->roster, &unused, false, survey);
    for (uint32_t i = 0; i < survey->count; i++) {
        struct roster_host *host = container_of(survey->probes[i].host, struct roster_host, at);

        host->ready |= host->used;
        if (!host->used)
            survey->probes[kept++] = survey->probes[i];
    }
    survey->count = kept;
    /* Without trying to connect back: the ports may be in use. */
    status = ready_ask(&unused, false, survey, &stopped_ns);
    if (status == 0)
        note_answers(e, survey);
    return status;
}

bool elastic_find_more(struct elastic *elastic, const struct ready_request *request, char *ret,
                       size_t size)
{
    struct ready_survey survey = {0};
    uint32_t *chosen;
    size_t used = roster_count_used(&elastic->roster), count = 0, len;
    struct plan plan;
    bool more;

    read_again(elastic);
    roster_begin_check(&elastic->roster);
    chosen = calloc(elastic->roster.count + 1, sizeof(*chosen));
    if (!chosen || ask_unused(elastic, request, &survey) != 0) {
        (void)snprintf(ret, size, "the hosts cannot be checked");
        free(chosen);
        return false;
    }
    more = plan_ready(elastic, chosen, &count, &plan) == 0;
    if (more)
        plan_fini(&plan);
    more = more && count > used;
    if (more) {
        list_names(&elastic->roster, chosen, count, ret, size);
    } else {
        len = (size_t)snprintf(ret, size, "no host is ready in addition to those in use: ");
        roster_describe_lack(&elastic->roster, ret + len, size - len);
        if (!ret[len])
            (void)snprintf(ret, size, "all hosts that the job may have are in use");
    }
    ready_survey_fini(&survey);
    free(chosen);
    return more;
}

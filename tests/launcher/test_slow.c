/* SPDX-License-Identifier: MIT */
/* test_slow.c - compares the rules with a plain second implementation, and simulates jobs.
 *
 * PLENUM_SLOW_STEPS=432000 simulates a whole day for false alarms; PLENUM_SLOW_TABLE=1 prints which
 * slowdowns are found, and how soon. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "launcher/job/slow.h"

enum { HOSTS_MAX = 64, LOCAL_MAX = 4, INSTANCES_MAX = HOSTS_MAX * LOCAL_MAX, FAULTS_TRIED = 300 };

/* ---- randomness ---- */

static uint64_t state = 1;

static uint64_t draw(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static double uniform(void)
{
    return ((double)(draw() >> 11) + 0.5) / 9007199254740992.0;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(draw() % n);
}

static double noisy(double spread)
{
    return exp(spread * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

/* ---- a plain second implementation of the rule of three steps ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double plain_median(const double *values, size_t n)
{
    double sorted[HOSTS_MAX];

    memcpy(sorted, values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static double plain_deviation(const double *values, size_t n)
{
    double away[HOSTS_MAX], center = plain_median(values, n);

    for (size_t i = 0; i < n; i++)
        away[i] = fabs(values[i] - center);
    return 1.4826 * plain_median(away, n);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

struct plain {
    double ratios[HOSTS_MAX][64]; /* the last ones, the newest first */
    size_t ratio_count;
    unsigned marked[HOSTS_MAX], clean[HOSTS_MAX];
    bool named[HOSTS_MAX];
};

static double plain_scale(const struct plain *p, size_t host)
{
    const double *ratios = p->ratios[host];
    double noise = p->ratio_count < 16 ? 0.03
                                       : plain_deviation(ratios, p->ratio_count) /
                                             plain_median(ratios, p->ratio_count);

    return larger(noise, 0.01);
}

static void plain_step(struct plain *p, const double *x, size_t hosts)
{
    for (size_t h = 0; h < hosts; h++) {
        double others[HOSTS_MAX], usual = plain_median(x, hosts), scale;
        size_t n = 0;
        bool marked;

        for (size_t i = 0; i < hosts; i++)
            if (i != h)
                others[n++] = x[i];
        if (hosts < 5)
            usual = plain_median(others, n);
        scale =
            hosts < 5 ? plain_scale(p, h) * usual : larger(plain_deviation(x, hosts), 0.01 * usual);
        marked = (x[h] - usual) / scale > 6 && x[h] - usual > 0.1 * usual;
        p->marked[h] = marked ? p->marked[h] + 1 : 0;
        p->clean[h] = marked ? 0 : p->clean[h] + 1;
        p->named[h] = p->marked[h] >= 3 || (p->named[h] && p->clean[h] < 3);
        memmove(p->ratios[h] + 1, p->ratios[h], sizeof(p->ratios[h]) - sizeof(double));
        p->ratios[h][0] = x[h] / usual;
    }
    p->ratio_count += p->ratio_count < 64;
}

static struct slow *make(uint32_t instances, uint32_t units)
{
    uint32_t unit_of[INSTANCES_MAX];
    struct slow *slow;

    for (uint32_t i = 0; i < instances; i++)
        unit_of[i] = i / (instances / units);
    cr_assert(eq(int, slow_create(instances, units, unit_of, &slow), 0));
    return slow;
}

/* Hosts that become slow for a while, by amounts around the limits. */
static void run_both(uint32_t hosts, uint32_t steps)
{
    struct slow *slow = make(hosts, hosts);
    static struct plain plain;
    double factor[HOSTS_MAX];

    plain = (struct plain){0};
    for (uint32_t h = 0; h < hosts; h++)
        factor[h] = 1;
    for (uint32_t step = 0; step < steps; step++) {
        double x[HOSTS_MAX], level = 0.2 * noisy(0.2);

        for (uint32_t h = 0; h < hosts; h++) {
            struct slow_report report = {.count = 1, .meets = true, .steps = {{.step = step}}};

            if (below(20) == 0)
                factor[h] = below(3) ? 1 : 1 + 0.5 * uniform();
            x[h] = level * factor[h] * noisy(0.02);
            report.steps[0].own_s = x[h] / 2;
            report.steps[0].wait_s = x[h] - x[h] / 2;
            slow_note(slow, h, &report);
        }
        plain_step(&plain, x, hosts);
        slow_judge(slow, step * NS_PER_SEC / 5);
        for (uint32_t h = 0; h < hosts && step < 64; h++) /* later, the slower rule names more */
            cr_expect(eq(int, slow_get(slow, h)->cause != SLOW_NOT, plain.named[h]),
                      "%u hosts, step %u, host %u", hosts, step, h);
    }
    slow_destroy(slow);
}

Test(slow, hosts_are_named_as_by_a_plain_implementation)
{
    for (uint32_t i = 0; i < 200; i++)
        run_both(2 + below(i < 100 ? 3 : HOSTS_MAX - 2), 64);
}

/* ---- simulated jobs ---- */

enum fault { NONE, DISK, THROTTLE, NETWORK, PROGRAM, STOP, FAULTS };

static const enum slow_cause causes[FAULTS] = {
    [NONE] = SLOW_NOT,        [DISK] = SLOW_STORAGE,    [THROTTLE] = SLOW_THROTTLED,
    [NETWORK] = SLOW_NETWORK, [PROGRAM] = SLOW_PROGRAM, [STOP] = SLOW_STOPPED};

struct job {
    struct slow *slow;
    uint32_t hosts, local; /* instances of each host */
    double step_s, bursts; /* duration; share of steps with a burst */
    bool meets;
    enum fault fault;
    uint32_t at;         /* the faulty host */
    double more_s;       /* what it costs in each step */
    uint64_t step;       /* the next one */
    uint64_t fault_from; /* step */
    double now_s;
    uint64_t lines; /* logged so far */
};

/* The time that an instance needs for a step, and the fault's part of it. */
struct piece {
    double own_s, wait_s, fault_s;
};

static struct piece make_piece(const struct job *job, uint32_t instance)
{
    bool faulty = job->fault && job->step >= job->fault_from && instance == job->at * job->local;
    struct piece p = {.own_s = job->step_s * noisy(0.03),
                      .wait_s = job->step_s * 0.001 * uniform()};

    if (uniform() < job->bursts)
        p.own_s -= job->step_s * 0.5 * log(uniform());
    if (!faulty)
        return p;
    p.fault_s = job->more_s;
    if (job->fault == DISK || job->fault == NETWORK)
        p.wait_s += p.fault_s;
    else
        p.own_s += p.fault_s;
    return p;
}

static void add_facts(const struct job *job, struct slow_facts *f, double fault_s, double wall_s)
{
    double percent = 100 * fault_s / wall_s;

    f->of[SLOW_READ] = 0.005 * noisy(0.3) + (job->fault == DISK ? fault_s : 0);
    f->of[SLOW_RENDER] = 0.02 * noisy(0.1);
    f->of[SLOW_CARRIAGE] = 0.001 * noisy(0.5) + (job->fault == NETWORK ? fault_s : 0);
    f->of[SLOW_IS_THROTTLED] = floor(2 * uniform() + (job->fault == THROTTLE ? percent : 0));
    f->of[SLOW_IS_STOPPED] = floor(job->fault == STOP ? percent : 0);
    f->of[SLOW_IN_IO] = job->fault == DISK ? 90 : 0;
}

/* All instances take `count` steps and report them. */
static void advance_job(struct job *job, uint32_t count)
{
    static struct slow_report reports[INSTANCES_MAX];
    static double fault_s[INSTANCES_MAX];
    uint32_t instances = job->hosts * job->local;
    double wall_s = 0;

    memset(reports, 0, sizeof(reports));
    memset(fault_s, 0, sizeof(fault_s));
    for (uint32_t k = 0; k < count; k++, job->step++) {
        double longest = 0;

        for (uint32_t i = 0; i < instances; i++) {
            struct piece p = make_piece(job, i);

            reports[i].steps[reports[i].count++] =
                (struct slow_step){.step = job->step, .own_s = p.own_s, .wait_s = p.wait_s};
            fault_s[i] += p.fault_s;
            longest = larger(longest, p.own_s + p.wait_s);
        }
        if (!job->meets) /* collectives that Plenum does not see are part of the own time */
            for (uint32_t i = 0; i < instances; i++) {
                struct slow_step *s = &reports[i].steps[reports[i].count - 1];

                s->own_s = longest - s->wait_s;
            }
        wall_s += longest;
    }
    job->now_s += wall_s;
    for (uint32_t i = 0; i < instances; i++) {
        reports[i].meets = job->meets;
        add_facts(job, &reports[i].facts,
                  fault_s[i] / (job->fault == DISK || job->fault == NETWORK ? count : 1), wall_s);
        slow_note(job->slow, i, &reports[i]);
    }
    slow_judge(job->slow, (uint64_t)(job->now_s * 1e9));
}

static struct job make_job(uint32_t hosts, uint32_t local, double step_s)
{
    return (struct job){.slow = make(hosts * local, hosts),
                        .hosts = hosts,
                        .local = local,
                        .step_s = step_s,
                        .bursts = 0.001,
                        .meets = true};
}

static uint32_t count_named(const struct job *job)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i <= job->hosts; i++)
        n += slow_get(job->slow, i)->cause != SLOW_NOT;
    return n;
}

/* Returns whether the fault is shown, and only that, once three faulty steps have been reported; or
 * eight, if only the kernel's reports show it, because these are means of a second. */
static bool inject(enum fault fault, double share, struct job *job)
{
    const struct slow_verdict *verdict;
    uint64_t later = job->meets ? 0 : 5;
    bool right;

    for (uint32_t i = 0; i < 20; i++)
        advance_job(job, 1 + below(SLOW_REPORT_STEPS));
    job->fault = fault;
    job->at = below(job->hosts);
    job->more_s = share * job->step_s;
    job->fault_from = job->step + below(SLOW_REPORT_STEPS);
    while (job->step < job->fault_from + 3 + later)
        advance_job(job, 1 + below(SLOW_REPORT_STEPS));
    verdict = slow_get(job->slow, job->at);
    right = count_named(job) == 1 && verdict->cause == causes[fault] &&
            verdict->since >= job->fault_from && verdict->since <= job->fault_from + later &&
            verdict->instance == job->at * job->local;
    if (!right)
        cr_log_info(
            "%u hosts, fault %d of %.0f %% from step %llu: %s, since step %llu, instance %u "
            "(host %u), %u named",
            job->hosts, (int)fault, 100 * share, (unsigned long long)job->fault_from,
            slow_word(verdict->cause), (unsigned long long)verdict->since, verdict->instance,
            job->at, count_named(job));
    return right;
}

Test(slow, faults_of_a_third_of_a_step_are_named_within_three_steps)
{
    uint32_t right = 0;

    for (uint32_t i = 0; i < FAULTS_TRIED; i++) {
        struct job job = make_job(5 + below(HOSTS_MAX - 4), 1 + below(LOCAL_MAX), 0.05 + uniform());

        right += inject(DISK + (enum fault)(i % 5), 0.3 + 0.7 * uniform(), &job);
        slow_destroy(job.slow);
    }
    cr_log_info("%u of %u", right, (unsigned)FAULTS_TRIED);
    cr_expect(ge(u32, 100 * right, 99 * FAULTS_TRIED));
}

Test(slow, a_few_hosts_are_compared_with_the_others_and_their_own_noise)
{
    uint32_t right = 0;

    for (uint32_t i = 0; i < 100; i++) {
        struct job job = make_job(2 + below(3), 1 + below(LOCAL_MAX), 0.05 + uniform());

        right += inject(DISK + (enum fault)(i % 5), 0.4 + 0.6 * uniform(), &job);
        slow_destroy(job.slow);
    }
    cr_log_info("%u of 100", right);
    cr_expect(ge(u32, right, 95));
}

static void count_lines(struct job *job)
{
    struct slow_line line;
    char text[256];

    while (slow_take_line(job->slow, &line)) {
        slow_describe(&line.verdict, text, sizeof(text));
        cr_log_info("step %llu, unit %u%s: %s", (unsigned long long)job->step, line.unit,
                    line.ends ? " (ends)" : "", text);
        job->lines++;
    }
}

Test(slow, a_day_without_faults_logs_nothing)
{
    const char *text = getenv("PLENUM_SLOW_STEPS");
    uint64_t steps = text ? strtoull(text, NULL, 10) : 20000;
    struct job job = make_job(64, 1, 0.2);

    while (job.step < steps) {
        advance_job(&job, 5);
        count_lines(&job);
    }
    cr_expect(eq(u64, job.lines, 0));
    cr_expect(eq(u64, slow_get_judged(job.slow), job.step));
    slow_destroy(job.slow);
}

/* Advance for this time. Returns the number of lines logged. */
static uint64_t advance_for(struct job *job, double seconds)
{
    double end_s = job->now_s + seconds;
    uint64_t before = job->lines;

    while (job->now_s < end_s) {
        advance_job(job, 5);
        count_lines(job);
    }
    return job->lines - before;
}

Test(slow, a_line_waits_for_ten_seconds_and_is_not_repeated_for_ten_minutes)
{
    struct job job = make_job(8, 2, 0.2);
    const struct slow_verdict *logged;

    job.at = 3;
    job.more_s = 0.1;
    cr_expect(eq(u64, advance_for(&job, 100), 0));
    job.fault = DISK;
    job.fault_from = job.step;
    cr_expect(eq(u64, advance_for(&job, 8), 0), "too early");
    cr_expect(eq(u64, advance_for(&job, 30), 1), "it begins");
    logged = slow_get_logged(job.slow, 3);
    cr_expect(eq(int, logged->cause, SLOW_STORAGE));
    cr_expect(eq(u64, logged->since, job.fault_from));
    job.fault = NONE;
    cr_expect(eq(u64, advance_for(&job, 60), 1), "it ends");
    cr_expect(eq(int, slow_get(job.slow, 3)->cause, SLOW_NOT));
    job.fault = DISK;
    cr_expect(eq(u64, advance_for(&job, 100), 0),
              "the same slowness must not be logged again so soon");
    cr_expect(eq(int, slow_get(job.slow, 3)->cause, SLOW_STORAGE));
    job.fault = NONE;
    cr_expect(eq(u64, advance_for(&job, 600), 0), "an end must be logged only after a beginning");
    job.fault = DISK;
    cr_expect(eq(u64, advance_for(&job, 30), 1),
              "the same slowness must be logged again much later");
    slow_destroy(job.slow);
}

Test(slow, if_all_are_slow_the_run_is_named)
{
    struct job job = make_job(8, 1, 0.2);

    (void)advance_for(&job, 100);
    job.step_s = 0.3;
    advance_job(&job, 3);
    cr_expect(eq(u32, count_named(&job), 1));
    cr_expect(eq(int, slow_get(job.slow, 8)->cause, SLOW_PROGRAM));
    cr_expect(eq(u64, slow_get(job.slow, 8)->since, job.step - 3));
    cr_expect(eq(u64, advance_for(&job, 30), 1), "it is logged");
    /* A thousand steps later it is usual. */
    cr_expect(eq(u64, advance_for(&job, 400), 1), "it ends");
    cr_expect(eq(u32, count_named(&job), 0));
    slow_destroy(job.slow);
}

Test(slow, without_plenums_collectives_waits_and_the_kernels_reports_are_compared)
{
    static const enum fault visible[] = {DISK, NETWORK, THROTTLE, STOP};
    uint32_t right = 0;

    for (uint32_t i = 0; i < 100; i++) {
        struct job job = make_job(5 + below(HOSTS_MAX - 4), 1, 0.05 + uniform());

        job.meets = false;
        job.bursts = 0;
        right += inject(visible[i % 4], 0.5 + 0.5 * uniform(), &job);
        slow_destroy(job.slow);
    }
    cr_log_info("%u of 100", right);
    cr_expect(ge(u32, right, 95));
}

Test(slow, a_stopped_program_takes_no_steps_and_is_named_at_once)
{
    struct job job = make_job(4, 2, 0.2);
    struct slow_line line;

    advance_job(&job, 5);
    slow_note_stop(job.slow, 5, true);
    slow_judge(job.slow, (uint64_t)2e9);
    cr_expect(eq(int, slow_get(job.slow, 2)->cause, SLOW_STOPPED));
    cr_expect(eq(u32, slow_get(job.slow, 2)->instance, 5));
    cr_expect(eq(u64, slow_get(job.slow, 2)->since, 5));
    cr_expect(eq(u32, count_named(&job), 1));
    for (uint64_t s = 3; s <= 10; s++) {
        slow_judge(job.slow, s * NS_PER_SEC);
        cr_expect(eq(int, slow_take_line(job.slow, &line), 0), "%llu s", (unsigned long long)s);
    }
    slow_judge(job.slow, 12 * NS_PER_SEC);
    cr_assert(eq(int, slow_take_line(job.slow, &line), 1));
    cr_expect(eq(u32, line.unit, 2));
    slow_note_stop(job.slow, 5, false);
    job.now_s = 14;
    advance_job(&job, 1);
    cr_expect(eq(u32, count_named(&job), 0));
    slow_destroy(job.slow);
}

Test(slow, a_stopped_program_is_logged_even_if_others_continue)
{
    struct slow *slow = make(3, 3);
    struct slow_report report = {.count = 1};
    struct slow_line line = {0};
    uint64_t lines = 0;

    for (uint64_t step = 0; step < 100; step++) {
        slow_note_stop(slow, 1, step >= 20);
        report.steps[0] = (struct slow_step){.step = step, .own_s = 0.2};
        for (uint32_t i = 0; i < 3; i++)
            if (i != 1 || step < 20)
                slow_note(slow, i, &report);
        slow_judge(slow, step * NS_PER_SEC);
        lines += slow_take_line(slow, &line);
        cr_expect(eq(int, lines > 0, step >= 29), "step %llu", (unsigned long long)step);
    }
    cr_expect(eq(u64, lines, 1));
    cr_expect(eq(u32, line.unit, 1));
    cr_expect(eq(int, line.verdict.cause, SLOW_STOPPED));
    slow_destroy(slow);
}

/* Unit 1 takes twice as long as the others, and then ends. */
Test(slow, a_host_whose_program_has_ended_is_no_longer_slow)
{
    struct slow *slow = make(3, 3);
    struct slow_report report = {.count = 1};
    struct slow_line line;
    uint64_t begins = 0, ends = 0;

    for (uint64_t step = 0; step < 300; step++) {
        for (uint32_t i = 0; i < 3; i++) {
            report.steps[0] = (struct slow_step){.step = step, .own_s = i == 1 ? 0.4 : 0.2};
            if (i != 1 || step < 200)
                slow_note(slow, i, &report);
        }
        if (step >= 200)
            slow_note_end(slow, 1);
        slow_judge(slow, step * NS_PER_SEC);
        while (slow_take_line(slow, &line)) {
            cr_expect(eq(u32, line.unit, 1));
            begins += !line.ends;
            ends += line.ends;
        }
        if (step >= 10) /* as long as the others take no more steps, it was slow at the end */
            cr_expect(eq(int, slow_get(slow, 1)->cause == SLOW_NOT, step >= 202), "step %llu",
                      (unsigned long long)step);
    }
    cr_expect(eq(u64, begins, 1));
    cr_expect(eq(u64, ends, 1));
    slow_destroy(slow);
}

/* Returns the number of steps after which host 1 is named, or 0 if it is not within a minute. */
static uint64_t find(double share, uint32_t hosts)
{
    struct job job = make_job(hosts, 1, 0.2);
    uint64_t found = 0;

    for (uint32_t i = 0; i < 30; i++)
        advance_job(&job, 5);
    job.fault = PROGRAM;
    job.at = 1;
    job.more_s = share * job.step_s;
    job.fault_from = job.step;
    while (!found && job.step < job.fault_from + 300) {
        advance_job(&job, 1);
        if (slow_get(job.slow, 1)->cause == SLOW_PROGRAM)
            found = job.step - job.fault_from;
    }
    slow_destroy(job.slow);
    return found;
}

static uint32_t count_found(double share, uint32_t hosts, uint32_t tries)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < tries; i++)
        count += find(share, hosts) > 0;
    return count;
}

Test(slow, small_slowdowns_are_found_within_a_minute)
{
    static const double shares[] = {0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.2};

    cr_expect(ge(u32, count_found(0.06, 64, 20), 19));
    cr_expect(ge(u32, count_found(0.1, 2, 20), 19));
    for (size_t i = 0; getenv("PLENUM_SLOW_TABLE") && i < ARRAY_LEN(shares); i++)
        fprintf(stderr,
                "slower by %2.0f %%: of 100, found on 64 hosts %u, 8 hosts %u, 2 hosts %u\n",
                100 * shares[i], count_found(shares[i], 64, 100), count_found(shares[i], 8, 100),
                count_found(shares[i], 2, 100));
}

Test(slow, instances_that_are_far_behind_are_not_waited_for)
{
    struct slow *slow = make(6, 6);
    struct slow_report report = {.count = 1, .meets = true};

    for (uint64_t step = 0; step < 100; step++) {
        report.steps[0] = (struct slow_step){.step = step, .own_s = 0.2};
        for (uint32_t i = 0; i < 6; i++)
            if (i != 3 || step < 5)
                slow_note(slow, i, &report);
        slow_judge(slow, step * NS_PER_SEC);
    }
    cr_expect(gt(u64, slow_get_judged(slow), 60));
    slow_note_end(slow, 3);
    slow_judge(slow, 100 * NS_PER_SEC);
    cr_expect(eq(u64, slow_get_judged(slow), 100));
    /* The program goes back to an earlier step. */
    report.steps[0].step = 50;
    for (uint32_t i = 0; i < 6; i++)
        if (i != 3)
            slow_note(slow, i, &report);
    slow_judge(slow, 101 * NS_PER_SEC);
    cr_expect(eq(u64, slow_get_judged(slow), 101));
    slow_destroy(slow);
}

Test(slow, verdicts_are_described)
{
    struct slow_verdict v = {.cause = SLOW_STORAGE, .since = 1200, .x_s = 0.42, .usual_s = 0.21};
    char text[256];

    v.is.of[SLOW_READ] = 0.08;
    slow_describe(&v, text, sizeof(text));
    cr_expect(eq(str, text, "data, storage 80 ms per read, since step 1200"));
    v.cause = SLOW_PROGRAM;
    slow_describe(&v, text, sizeof(text));
    cr_expect(eq(str, text, "program, 420 ms per step instead of 210 ms, since step 1200"));
    for (int cause = SLOW_STOPPED; cause < SLOW_CAUSES; cause++) {
        v.cause = (enum slow_cause)cause;
        slow_describe(&v, text, sizeof(text));
        cr_expect(ne(ptr, strstr(text, ", since step 1200"), NULL), "%s", text);
        cr_expect(gt(sz, strlen(slow_word(v.cause)), 0));
    }
}

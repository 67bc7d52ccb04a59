/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/slow.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/job/slow_cause.h"

enum {
    PENDING = 32,      /* maximum steps of an instance that wait for the others' reports */
    ENOUGH = 16,       /* steps needed before a history is used */
    NEW_NORMAL = 1024, /* after this many slow steps of all hosts, the speed is the new normal */
    WINDOW_S = 10,     /* decisions about the log are made at this interval */
    LOG_AGAIN_S = 600, /* minimum time between two lines about the same host and cause */
    LINE_NONE = 0,
    LINE_BEGINS,
    LINE_ENDS,
};

static const double z_most = 6, ratio_most = 1.1;
static const double sigma = 1.4826; /* standard deviation / MAD of a normal distribution */
static const double least = 0.01;   /* least deviation, as a fraction of the median */
static const double guess = 0.03;   /* assumed deviation before there is a history */
static const double median_noise = 1.2533 / 8; /* deviation of a median of 64 / of one value */
static const double period_least = 0.0025, period_ratio = 1.03, period_ratio_few = 1.05;

/* The last SLOW_PERIOD values. */
struct slow_past {
    double value[SLOW_PERIOD];
    uint64_t count; /* of all values so far */
};

/* One instance. */
struct slow_member {
    uint32_t unit;
    bool part;           /* it has reported steps, and has not ended */
    bool stopped, meets; /* in the last report */
    uint64_t last;       /* the last step reported */
    struct slow_step pending[PENDING];
    uint32_t first, len;
    struct slow_facts facts;
};

/* A host, or the run. */
struct slow_unit {
    bool part; /* one of its instances has reported steps, and has not ended */
    /* The step that is being judged. */
    bool present;
    uint32_t instance; /* its slowest instance */
    struct slow_need is, usual;
    bool marked;
    /* The rule of three steps. */
    unsigned row, clean; /* consecutive marked steps; consecutive unmarked ones */
    uint64_t row_since;
    struct slow_need row_is, row_usual; /* moving means over the marked steps */
    bool named;
    /* The slower rule. */
    struct slow_past past;        /* of a host: x / usual x; of the run: x */
    struct slow_need sum, others; /* means over the period: of this host, of the others */
    unsigned periods;             /* consecutive periods in which it was slow */
    uint64_t drags_since;
    bool drags;

    bool stopped;
    uint64_t window_ns;
    uint64_t seen, bad; /* since window_ns: all steps, and those in which it was slow */
    int line;
    bool in_log;
    struct slow_verdict verdict, logged;
    uint64_t logged_ns[SLOW_CAUSES]; /* 1 + the time */
};

struct slow {
    uint32_t instances, count;
    struct slow_member *members; /* [instances] */
    struct slow_unit *units;     /* [count + 1]: the last one is the run */
    double *scratch;             /* [count] */
    struct slow_past run_wait;
    struct slow_facts run_facts; /* moving mean over the steps that were not slow */
    uint64_t judged, period, step;
    unsigned run_slow;  /* consecutive slow steps of the run */
    bool facts_current; /* the run's facts have been computed from the last reports */
};

/* ---- statistics ---- */

/* Reorder the values so that values[k] is the one that sorting would put there, and no value before
 * it is larger (Hoare's quickselect). */
static void select_smallest(double *values, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;

    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;

        for (;;) {
            double swapped;

            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
}

/* Returns the median, or 0 if there are no values. Reorders the values. */
static double median(double *values, size_t n)
{
    double below;

    if (n == 0)
        return 0;
    select_smallest(values, n, n / 2);
    if (n % 2 == 1)
        return values[n / 2];
    below = values[0];
    for (size_t i = 1; i < n / 2; i++)
        below = values[i] > below ? values[i] : below;
    return (below + values[n / 2]) / 2;
}

/* Returns the scaled median absolute deviation from `center`. Changes the values. */
static double deviation(double *values, size_t n, double center)
{
    for (size_t i = 0; i < n; i++)
        values[i] = values[i] > center ? values[i] - center : center - values[i];
    return sigma * median(values, n);
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

static void past_add(struct slow_past *past, double value)
{
    past->value[past->count++ % SLOW_PERIOD] = value;
}

/* Returns the median of the past, and its deviation. */
static double past_median(const struct slow_past *past, double *ret_deviation)
{
    size_t n = min_u64(past->count, SLOW_PERIOD);
    double values[SLOW_PERIOD], center;

    memcpy(values, past->value, n * sizeof(*values));
    center = median(values, n);
    *ret_deviation = deviation(values, n, center);
    return center;
}

/* ---- steps that all instances have reported ---- */

static const struct slow_step *front(const struct slow_member *m)
{
    return &m->pending[m->first];
}

static void pop(struct slow_member *m)
{
    assert(m->len > 0);
    m->first = (m->first + 1) % PENDING;
    m->len--;
}

/* Returns whether all have a step, or some are so far ahead that the others are no longer waited
 * for; and the latest first step. */
static bool find_step(const struct slow *s, uint64_t *ret)
{
    bool any = false, all = true, ahead = false;

    *ret = 0;
    for (uint32_t i = 0; i < s->instances; i++) {
        const struct slow_member *m = &s->members[i];

        if (!m->part)
            continue;
        all = all && m->len > 0;
        ahead = ahead || m->len == PENDING;
        if (m->len > 0)
            *ret = max_u64(*ret, front(m)->step);
        any = any || m->len > 0;
    }
    return any && (all || ahead);
}

/* Drop steps before `step`; returns whether any instance then begins with a later one. */
static bool skip_to(struct slow *s, uint64_t step)
{
    bool later = false;

    for (uint32_t i = 0; i < s->instances; i++) {
        struct slow_member *m = &s->members[i];

        while (m->part && m->len > 0 && front(m)->step < step)
            pop(m);
        later = later || (m->part && m->len > 0 && front(m)->step > step);
    }
    return later;
}

static bool next_step(struct slow *s, uint64_t *step)
{
    while (find_step(s, step))
        if (!skip_to(s, *step) && find_step(s, step))
            return true;
    return false;
}

/* Take this step's times from all instances that have it. A unit gets those of its slowest
 * instance. Returns the number of units with this step. */
static size_t gather(struct slow *s, uint64_t step, bool *meets)
{
    size_t n = 0;

    *meets = false;
    for (uint32_t u = 0; u < s->count; u++)
        s->units[u].present = s->units[u].part = false;
    for (uint32_t i = 0; i < s->instances; i++) {
        struct slow_member *m = &s->members[i];
        struct slow_unit *u = &s->units[m->unit];
        struct slow_need need;

        u->part |= m->part;
        if (!m->part || m->len == 0 || front(m)->step != step)
            continue;
        need = (struct slow_need){.x_s = front(m)->own_s + front(m)->wait_s,
                                  .wait_s = front(m)->wait_s,
                                  .facts = m->facts};
        if (!u->present || need.x_s > u->is.x_s) {
            u->is = need;
            u->instance = i;
        }
        n += !u->present;
        u->present = true;
        *meets = *meets || m->meets;
        pop(m);
    }
    return n;
}

/* ---- one step ---- */

enum { VALUE_X, VALUE_WAIT, VALUE_FACTS };

static double value_of(const struct slow_need *need, unsigned value)
{
    return value == VALUE_X      ? need->x_s
           : value == VALUE_WAIT ? need->wait_s
                                 : need->facts.of[value - VALUE_FACTS];
}

/* Collect this value of all hosts except `but` in s->scratch. Returns the number of hosts. */
static size_t collect(struct slow *s, unsigned value, const struct slow_unit *but)
{
    size_t n = 0;

    for (uint32_t u = 0; u < s->count; u++)
        if (s->units[u].present && &s->units[u] != but)
            s->scratch[n++] = value_of(&s->units[u].is, value);
    return n;
}

static double median_of(struct slow *s, unsigned value, const struct slow_unit *but)
{
    return median(s->scratch, collect(s, value, but));
}

static struct slow_facts facts_of_others(struct slow *s, const struct slow_unit *but)
{
    struct slow_facts ret;

    for (unsigned i = 0; i < SLOW_FACTS; i++)
        ret.of[i] = median_of(s, VALUE_FACTS + i, but);
    return ret;
}

/* The usual times for a step, and their deviations. */
struct slow_norm {
    double x_s, wait_s, x_deviation, wait_deviation;
};

static struct slow_norm norm_of_many(struct slow *s)
{
    struct slow_norm norm = {.x_s = median_of(s, VALUE_X, NULL)};
    size_t n;

    norm.x_deviation = deviation(s->scratch, collect(s, VALUE_X, NULL), norm.x_s);
    n = collect(s, VALUE_WAIT, NULL);
    norm.wait_s = median(s->scratch, n);
    norm.wait_deviation = deviation(s->scratch, n, norm.wait_s);
    norm.x_deviation = max_of(norm.x_deviation, least * norm.x_s);
    norm.wait_deviation = max_of(norm.wait_deviation, least * norm.x_s);
    return norm;
}

static struct slow_norm norm_of_few(struct slow *s, const struct slow_unit *u)
{
    struct slow_norm norm = {.x_s = median_of(s, VALUE_X, u),
                             .wait_s = median_of(s, VALUE_WAIT, u)};
    double noise = guess, center;

    if (u->past.count >= ENOUGH) {
        center = past_median(&u->past, &noise);
        noise /= center; /* relative to the host's own usual x */
    }
    norm.x_deviation = norm.wait_deviation = max_of(noise, least) * norm.x_s;
    return norm;
}

static bool exceeds(double value, double usual, double deviation_s, double margin)
{
    return value - usual > z_most * deviation_s && value - usual > margin;
}

static void mark_unit(struct slow_unit *u, const struct slow_norm *norm, bool meets)
{
    double margin = (ratio_most - 1) * norm->x_s;

    assert(u->present);
    u->usual = (struct slow_need){.x_s = norm->x_s, .wait_s = norm->wait_s};
    u->marked = exceeds(u->is.x_s, norm->x_s, norm->x_deviation, margin);
    if (norm->x_s > 0)
        past_add(&u->past, u->is.x_s / norm->x_s);
    if (u->marked || meets || !exceeds(u->is.wait_s, norm->wait_s, norm->wait_deviation, margin))
        return;
    /* While this host waits for batches, the others wait for it, and count that as their own time.
     * So subtract the extra wait from its x to get the usual value. */
    u->marked = true;
    u->usual.x_s = u->is.x_s - (u->is.wait_s - norm->wait_s);
}

/* Compare hosts; returns whether one is marked. */
static bool mark_units(struct slow *s, size_t n, bool meets)
{
    struct slow_norm norm = {0};
    bool any = false;

    if (n >= SLOW_FEW)
        norm = norm_of_many(s);
    for (uint32_t i = 0; i < s->count; i++) {
        struct slow_unit *u = &s->units[i];

        u->marked = false;
        if (!u->present || n == 1)
            continue;
        if (n < SLOW_FEW)
            norm = norm_of_few(s, u);
        mark_unit(u, &norm, meets);
        any = any || u->marked;
    }
    return any;
}

/* Add a usual step to the run's past. */
static void learn(struct slow *s, const struct slow_need *is)
{
    struct slow_unit *run = &s->units[s->count];

    if (run->past.count == 0)
        s->run_facts = is->facts;
    for (unsigned i = 0; i < SLOW_FACTS; i++)
        s->run_facts.of[i] += (is->facts.of[i] - s->run_facts.of[i]) / ENOUGH;
    past_add(&run->past, is->x_s);
    past_add(&s->run_wait, is->wait_s);
}

/* Compare the run with its own past, unless a host is marked (`others`). */
static void mark_run(struct slow *s, bool others)
{
    struct slow_unit *run = &s->units[s->count];
    double noise, ignored;

    run->present = true;
    run->is.x_s = median_of(s, VALUE_X, NULL);
    run->is.wait_s = median_of(s, VALUE_WAIT, NULL);
    run->marked = false;
    run->instance = UINT32_MAX;
    if (!s->facts_current)
        run->is.facts = facts_of_others(s, NULL);
    s->facts_current = true;
    if (others)
        return;
    if (run->past.count >= ENOUGH) {
        run->usual = (struct slow_need){.x_s = past_median(&run->past, &noise),
                                        .wait_s = past_median(&s->run_wait, &ignored),
                                        .facts = s->run_facts};
        run->marked = exceeds(run->is.x_s, run->usual.x_s, max_of(noise, least * run->usual.x_s),
                              (ratio_most - 1) * run->usual.x_s);
    }
    s->run_slow = run->marked ? s->run_slow + 1 : 0;
    if (s->run_slow == NEW_NORMAL)
        run->past.count = s->run_wait.count = s->run_slow = 0;
    else if (!run->marked)
        learn(s, &run->is);
}

/* If all hosts wait for each other in their own time, the kernel may still report which one is
 * slow: the run's mark becomes that host's. */
static void blame_by_facts(struct slow *s)
{
    struct slow_unit *run = &s->units[s->count];
    double half = slow_half_share(&run->is, &run->usual);

    for (uint32_t i = 0; i < s->count && run->marked; i++) {
        struct slow_unit *u = &s->units[i];

        for (unsigned f = SLOW_IS_STOPPED; f <= SLOW_IN_MEMORY && u->present; f++)
            u->marked = u->marked || u->is.facts.of[f] - run->is.facts.of[f] > max_of(half, 1);
        if (!u->marked)
            continue;
        u->usual = run->usual;
        run->marked = false;
    }
}

static bool is_active(const struct slow_unit *u)
{
    return u->named || u->drags || u->stopped;
}

static void set_verdict(struct slow_unit *u, uint64_t since, const struct slow_need *is,
                        const struct slow_need *usual)
{
    u->verdict = (struct slow_verdict){.cause = slow_find_cause(is, usual),
                                       .since = since,
                                       .x_s = is->x_s,
                                       .usual_s = usual->x_s,
                                       .wait_s = is->wait_s,
                                       .is = is->facts,
                                       .instance = u->instance};
}

static void move_mean(struct slow_need *mean, const struct slow_need *need, unsigned count)
{
    double weight = 1.0 / (double)min_u64(count, ENOUGH);

    mean->x_s += (need->x_s - mean->x_s) * weight;
    mean->wait_s += (need->wait_s - mean->wait_s) * weight;
    mean->facts = need->facts;
}

/* Apply the rule of three steps to a host or the run, and count the step for the log. */
static void name_unit(struct slow *s, struct slow_unit *u)
{
    bool before = u->named;

    u->seen++;
    u->bad += u->marked || u->drags;
    if (!u->marked) {
        u->row = 0;
        u->named = u->named && ++u->clean < SLOW_IN_A_ROW;
        return;
    }
    u->clean = 0;
    if (u->row++ == 0 && !before)
        u->row_since = s->step;
    u->named = u->named || u->row >= SLOW_IN_A_ROW;
    move_mean(&u->row_is, &u->is, u->row);
    move_mean(&u->row_usual, &u->usual, u->row);
    if (!u->named)
        return;
    if (!before && !u->drags && !u->stopped)
        u->seen = u->bad = u->row; /* the log's window begins with the first of these steps */
    if (u != &s->units[s->count])
        u->row_usual.facts = facts_of_others(s, u);
    set_verdict(u, u->row_since, &u->row_is, &u->row_usual);
}

/* ---- the slower rule ---- */

static void add_need(struct slow_need *sum, const struct slow_need *need)
{
    sum->x_s += need->x_s / SLOW_PERIOD;
    sum->wait_s += need->wait_s / SLOW_PERIOD;
}

static void judge_period_of(struct slow *s, struct slow_unit *u, double center, double spread,
                            bool few)
{
    double noise, m = past_median(&u->past, &noise);

    if (few)
        spread = max_of(noise / m * median_noise, period_least);
    if (!exceeds(m, center, spread, ((few ? period_ratio_few : period_ratio) - 1) * center)) {
        u->periods = 0;
        u->drags = false;
    } else if (++u->periods == 1) {
        u->drags_since = s->step - min_u64(s->step, s->period);
    } else {
        u->others.facts = facts_of_others(s, u);
        u->sum.facts = u->is.facts;
        u->drags = true;
        if (!u->named)
            set_verdict(u, u->drags_since, &u->sum, &u->others);
    }
    u->sum = u->others = (struct slow_need){0};
}

static void judge_period(struct slow *s, size_t n)
{
    double center = 1, spread = 0, ignored;
    size_t full = 0;

    for (uint32_t i = 0; i < s->count; i++)
        if (s->units[i].present && s->units[i].past.count >= SLOW_PERIOD)
            s->scratch[full++] = past_median(&s->units[i].past, &ignored);
    if (n >= SLOW_FEW) {
        center = median(s->scratch, full);
        spread = max_of(deviation(s->scratch, full, center), period_least);
    }
    for (uint32_t i = 0; i < s->count; i++)
        if (s->units[i].present && s->units[i].past.count >= SLOW_PERIOD && n > 1)
            judge_period_of(s, &s->units[i], center, spread, n < SLOW_FEW);
}

/* The instances of this host have ended, so it does not make the others slow. */
static void note_absence(struct slow *s, struct slow_unit *u)
{
    u->marked = u->drags = false;
    u->periods = 0;
    name_unit(s, u);
}

static void judge_step(struct slow *s, uint64_t step)
{
    bool meets;
    size_t n = gather(s, step, &meets);

    s->judged++;
    if (s->judged % SLOW_PERIOD == 1)
        s->period = 0;
    s->period += step - min_u64(step, s->step);
    s->step = step;
    mark_run(s, mark_units(s, n, meets));
    if (!meets)
        blame_by_facts(s);
    for (uint32_t i = 0; i <= s->count; i++) {
        struct slow_unit *u = &s->units[i];

        if (!u->present && !u->part)
            note_absence(s, u);
        if (!u->present)
            continue;
        name_unit(s, u);
        if (i == s->count)
            break;
        add_need(&u->sum, &u->is);
        add_need(&u->others, &u->usual);
    }
    if (s->judged % SLOW_PERIOD == 0)
        judge_period(s, n);
}

/* ---- the log ---- */

static void look_at_stops(struct slow *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        s->units[i].stopped = false;
    for (uint32_t i = 0; i < s->instances; i++) {
        struct slow_unit *u = &s->units[s->members[i].unit];

        if (!s->members[i].stopped || u->stopped)
            continue;
        u->stopped = true;
        u->instance = i;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        struct slow_unit *u = &s->units[i];

        if (!u->stopped)
            continue;
        if (u->verdict.cause != SLOW_STOPPED)
            u->verdict = (struct slow_verdict){
                .cause = SLOW_STOPPED, .since = s->step + (s->judged > 0), .instance = u->instance};
        u->seen++; /* a stopped program takes no steps: count this call as one */
        u->bad++;
    }
}

static bool may_log(const struct slow_unit *u, uint64_t now_ns)
{
    uint64_t before = u->logged_ns[u->verdict.cause];

    return before == 0 || now_ns + 1 - before >= LOG_AGAIN_S * NS_PER_SEC;
}

static void update_log(struct slow_unit *u, uint64_t now_ns)
{
    bool active = is_active(u);

    if (!active)
        u->verdict.cause = SLOW_NOT;
    if (!active && !u->in_log) {
        u->window_ns = now_ns;
        u->seen = u->bad = 0;
        return;
    }
    if (u->seen == 0 || now_ns - u->window_ns < WINDOW_S * NS_PER_SEC)
        return;
    if (active && !u->in_log && u->bad * 10 >= u->seen * 9 && may_log(u, now_ns)) {
        u->logged_ns[u->verdict.cause] = now_ns + 1;
        u->logged = u->verdict;
        u->in_log = true;
        u->line = LINE_BEGINS;
    } else if (!active && u->bad * 10 <= u->seen) {
        u->in_log = false;
        u->line = LINE_ENDS;
    }
    u->window_ns = now_ns;
    u->seen = u->bad = 0;
}

/* ---- the interface ---- */

int slow_create(uint32_t instances, uint32_t units, const uint32_t *unit_of, struct slow **ret)
{
    struct slow *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->instances = instances;
    s->count = units;
    s->members = calloc(instances, sizeof(*s->members));
    s->units = calloc(units + (size_t)1, sizeof(*s->units));
    s->scratch = calloc(units, sizeof(*s->scratch));
    if (!s->members || !s->units || !s->scratch) {
        slow_destroy(s);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < instances; i++) {
        assert(unit_of[i] < units);
        s->members[i].unit = unit_of[i];
    }
    *ret = s;
    return 0;
}

void slow_destroy(struct slow *slow)
{
    if (!slow)
        return;
    free(slow->members);
    free(slow->units);
    free(slow->scratch);
    free(slow);
}

void slow_note(struct slow *slow, uint32_t instance, const struct slow_report *report)
{
    struct slow_member *m = &slow->members[instance];

    assert(report->count <= SLOW_REPORT_STEPS);
    m->facts = report->facts;
    m->meets = report->meets;
    for (uint32_t i = 0; i < report->count; i++) {
        if (m->part && report->steps[i].step <= m->last)
            m->len = 0; /* the program went back to an earlier step */
        if (m->len == PENDING)
            pop(m);
        m->pending[(m->first + m->len++) % PENDING] = report->steps[i];
        m->last = report->steps[i].step;
        m->part = true;
    }
}

void slow_note_stop(struct slow *slow, uint32_t instance, bool stopped)
{
    slow->members[instance].stopped = stopped;
}

void slow_note_end(struct slow *slow, uint32_t instance)
{
    slow->members[instance].part = slow->members[instance].stopped = false;
}

void slow_judge(struct slow *slow, uint64_t now_ns)
{
    uint64_t step;

    slow->facts_current = false;
    while (next_step(slow, &step))
        judge_step(slow, step);
    look_at_stops(slow);
    for (uint32_t i = 0; i <= slow->count; i++)
        update_log(&slow->units[i], now_ns);
}

uint32_t slow_count(const struct slow *slow)
{
    return slow->count;
}

const struct slow_verdict *slow_get(const struct slow *slow, uint32_t unit)
{
    assert(unit <= slow->count);
    return &slow->units[unit].verdict;
}

const struct slow_verdict *slow_get_logged(const struct slow *slow, uint32_t unit)
{
    assert(unit <= slow->count);
    return &slow->units[unit].logged;
}

uint64_t slow_get_judged(const struct slow *slow)
{
    return slow->judged;
}

bool slow_take_line(struct slow *slow, struct slow_line *ret)
{
    for (uint32_t i = 0; i <= slow->count; i++) {
        struct slow_unit *u = &slow->units[i];

        if (u->line == LINE_NONE)
            continue;
        *ret = (struct slow_line){.unit = i, .ends = u->line == LINE_ENDS, .verdict = u->logged};
        u->line = LINE_NONE;
        return true;
    }
    return false;
}

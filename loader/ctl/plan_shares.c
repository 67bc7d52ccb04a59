/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/ctl/plan_shares.h"

#include <stdio.h>
#include <string.h>

#include "common/util/util.h"

enum { PIECES_PRINTED = 12 };

/* Compute the minimum and the maximum expected number of times that `shown` positions show a
 * sample. */
static void find_times(const struct sampler_table *t, struct plan_part *part)
{
    double shown = (double)part->shown, class_shown = shown / (t->classes ? t->classes : 1);
    uint64_t least = UINT64_MAX, most = 0;

    for (uint32_t i = 0; t->kind == SAMPLER_QUOTA && i < t->n; i++) {
        uint64_t weight = t->sums[i] - (i > 0 ? t->sums[i - 1] : 0);

        least = min_u64(least, weight);
        most = max_u64(most, weight);
    }
    part->least = part->most = shown / t->n;
    if (t->kind == SAMPLER_QUOTA) {
        part->least = shown * (double)least / (double)t->sums[t->n - 1];
        part->most = shown * (double)most / (double)t->sums[t->n - 1];
    }
    if (t->kind != SAMPLER_BALANCED && t->kind != SAMPLER_CLASSES)
        return;
    for (uint32_t c = 0; c < t->classes; c++) {
        least = min_u64(least, t->start[c + 1] - t->start[c]);
        most = max_u64(most, t->start[c + 1] - t->start[c]);
    }
    part->least = class_shown / (double)most;
    part->most = class_shown / (double)least;
}

static void add_part(struct plan_shares *s, const char *name, const struct sampler_table *t,
                     uint64_t samples)
{
    struct plan_part *part = &s->parts[s->num_parts++];

    (void)snprintf(part->name, sizeof(part->name), "%s", name);
    part->samples = samples;
    part->selected = t->n;
    part->positions = t->positions;
    part->table_bytes =
        (uint64_t)t->n * ((t->member ? sizeof(*t->member) : 0) + (t->sums ? sizeof(*t->sums) : 0) +
                          (t->columns ? sizeof(*t->columns) : 0)) +
        (t->start ? ((uint64_t)t->classes + 1) * sizeof(*t->start) : 0) +
        (uint64_t)t->num_later * t->n * sizeof(*t->sums);
}

/* Add the positions [begin, end) that show each set, times `sign`. */
static void add_shown(const struct mixture *mixture, struct plan_shares *s, uint64_t begin,
                      uint64_t end, int sign)
{
    uint64_t before[MIXTURE_SETS_MAX], after[MIXTURE_SETS_MAX], count;
    uint32_t sets = mixture_count(mixture, begin, before);

    (void)mixture_count(mixture, end, after);
    for (uint32_t i = 0; i < s->num_parts; i++) {
        count = sets == 0 ? end - begin : after[i] - before[i];
        s->parts[i].shown += sign > 0 ? count : -count;
    }
}

/* Count the positions of the epoch that show each set, and those that are skipped. */
static void count_shown(const struct mixture *mixture, struct plan_shares *s)
{
    uint64_t begin = s->epoch * s->epoch_positions, end = begin + s->epoch_positions, first = begin;
    uint64_t before[MIXTURE_SETS_MAX];
    uint32_t sets;

    add_shown(mixture, s, begin, end, 1);
    for (uint32_t i = 0; i < s->plan->num_skips; i++) {
        uint64_t from = max_u64(begin, s->plan->skips[i].begin);
        uint64_t to = min_u64(end, s->plan->skips[i].end);

        if (from >= to)
            continue;
        add_shown(mixture, s, from, to, -1);
        s->skipped += to - from;
        first = from == begin ? to : first;
    }
    sets = mixture_count(mixture, first, before);
    for (uint32_t i = 0; i < s->num_parts; i++)
        s->parts[i].first_pass = sets == 0 ? s->epoch : before[i] / s->parts[i].positions;
}

int plan_shares_find(const struct dataset *dataset, uint64_t seed, uint64_t epoch,
                     struct plan_shares *ret, struct plenum_error *err)
{
    const struct sampler_table *joined = dataset_get_joined(dataset);
    struct dataset_set sets[MIXTURE_SETS_MAX];
    struct order order = {.seed = seed};
    uint32_t count = dataset_get_sets(dataset, sets);
    int r = dataset_set_order(dataset, &order, err);

    if (r < 0)
        return r;
    *ret = (struct plan_shares){.epoch = epoch,
                                .epoch_positions = order.n,
                                .plan = dataset_get_plan(dataset),
                                .warning = dataset_get_warning(dataset)};
    (void)snprintf(ret->name, sizeof(ret->name), "%s", dataset_get_name(dataset));
    ret->block = ret->plan->num_sets > 1 || joined ? ret->plan->block : 0;
    if (joined && joined->kind == SAMPLER_CLASSES)
        ret->block = (uint64_t)joined->per_block * joined->each;
    if (joined)
        add_part(ret, count == 1 ? sets[0].name : "all", joined, dataset_get_samples(dataset));
    for (uint32_t i = 0; i < count && !joined; i++)
        add_part(ret, sets[i].name, sets[i].table, dataset_get_samples(sets[i].dataset));
    count_shown(order.mixture, ret);
    for (uint32_t i = 0; i < ret->num_parts; i++)
        find_times(joined ? joined : sampler_table_at(sets[i].table, ret->parts[i].first_pass),
                   &ret->parts[i]);
    return 0;
}

/* ---- output ---- */

static double percent(uint64_t part, uint64_t whole)
{
    return 100 * (double)part / (double)max_u64(whole, 1);
}

static uint64_t sum_of(const struct plan_shares *s, uint32_t piece)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < s->plan->num_sets; i++)
        sum += s->plan->pieces[piece].weights[i];
    return sum;
}

/* Print each position at which the shares change, with the shares from there on. */
static void print_pieces(const struct plan_shares *s)
{
    const struct orderplan *plan = s->plan;

    if (s->num_parts < 2)
        return;
    for (uint32_t j = 0; j < plan->num_pieces && j < PIECES_PRINTED; j++) {
        printf("from %-12llu", (unsigned long long)plan->pieces[j].start);
        for (uint32_t i = 0; i < plan->num_sets; i++)
            if (plan->pieces[j].weights[i] > 0)
                printf("  %s %.4g %%", plan->sets[i].name,
                       percent(plan->pieces[j].weights[i], sum_of(s, j)));
        printf("\n");
    }
    if (plan->num_pieces > PIECES_PRINTED)
        printf("and %u more change%s\n", plan->num_pieces - PIECES_PRINTED,
               plan->num_pieces - PIECES_PRINTED > 1 ? "s" : "");
}

/* Print the passes at which samples get new weights. */
static void print_reweighs(const struct plan_shares *s)
{
    const struct orderplan *plan = s->plan;

    for (uint32_t i = 0; i < plan->num_reweighs && i < PIECES_PRINTED; i++)
        printf("from pass %-7u  samples of %s are weighted by %s\n", plan->reweighs[i].pass,
               plan->sets[plan->reweighs[i].set].name, plan->reweighs[i].weights);
    if (plan->num_reweighs > PIECES_PRINTED)
        printf("and %u more change%s\n", plan->num_reweighs - PIECES_PRINTED,
               plan->num_reweighs - PIECES_PRINTED > 1 ? "s" : "");
}

static void print_part(const struct plan_shares *s, const struct plan_part *part)
{
    char times[64];

    if (part->most - part->least < 1e-9)
        (void)snprintf(times, sizeof(times), "%.3g", part->most);
    else
        (void)snprintf(times, sizeof(times), "%.3g to %.3g", part->least, part->most);
    printf("%-16s %10llu %10llu %10llu %7.2f%% %8.3f  %s\n", part->name,
           (unsigned long long)part->samples, (unsigned long long)part->selected,
           (unsigned long long)part->shown, percent(part->shown, s->epoch_positions - s->skipped),
           (double)part->shown / (double)part->positions, times);
}

void plan_shares_print(const struct plan_shares *s)
{
    uint64_t bytes = 0;
    char text[32];

    printf("plan         %s\n", s->name);
    printf("epoch %-6llu %llu positions", (unsigned long long)s->epoch,
           (unsigned long long)s->epoch_positions);
    if (s->block > 0)
        printf(", in blocks of %llu", (unsigned long long)s->block);
    if (s->skipped > 0)
        printf(", of which %llu are skipped", (unsigned long long)s->skipped);
    if (*s->warning)
        printf("\nwarning      %s", s->warning);
    printf("\n\n");
    print_pieces(s);
    print_reweighs(s);
    printf("%s%-16s %10s %10s %10s %8s %8s  %s\n",
           s->num_parts > 1 || s->plan->num_reweighs > 0 ? "\n" : "", "set", "samples", "selected",
           "positions", "share", "passes", "times each sample is shown");
    for (uint32_t i = 0; i < s->num_parts; i++) {
        print_part(s, &s->parts[i]);
        bytes += s->parts[i].table_bytes;
    }
    if (bytes > 0)
        printf("\ntables take %s of a loader's memory\n", format_bytes(bytes, text, sizeof(text)));
}

static void print_json_pieces(struct json *j, const struct plan_shares *s)
{
    json_begin_array(j, "pieces", JSON_LINES);
    for (uint32_t k = 0; k < s->plan->num_pieces; k++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_number(j, "position", s->plan->pieces[k].start);
        json_begin_object(j, "shares", JSON_FLAT);
        for (uint32_t i = 0; i < s->plan->num_sets; i++)
            json_real(j, s->plan->sets[i].name,
                      percent(s->plan->pieces[k].weights[i], sum_of(s, k)) / 100, 9);
        json_end_object(j);
        json_end_object(j);
    }
    json_end_array(j);
}

static void print_json_reweighs(struct json *j, const struct plan_shares *s)
{
    const struct orderplan *plan = s->plan;

    json_begin_array(j, "weights", JSON_LINES);
    for (uint32_t i = 0; i < plan->num_reweighs; i++) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_text(j, "set", plan->sets[plan->reweighs[i].set].name);
        json_number(j, "pass", plan->reweighs[i].pass);
        json_text(j, "rule", plan->reweighs[i].weights);
        json_end_object(j);
    }
    json_end_array(j);
}

void plan_shares_print_json(struct json *j, const struct plan_shares *s)
{
    json_text(j, "plan", s->name);
    json_text(j, "warning", *s->warning ? s->warning : NULL);
    json_number(j, "epoch", s->epoch);
    json_number(j, "positions", s->epoch_positions);
    json_number(j, "block", s->block);
    json_number(j, "skipped", s->skipped);
    print_json_pieces(j, s);
    print_json_reweighs(j, s);
    json_begin_array(j, "sets", JSON_LINES);
    for (uint32_t i = 0; i < s->num_parts; i++) {
        const struct plan_part *part = &s->parts[i];

        json_begin_object(j, NULL, JSON_FLAT);
        json_text(j, "name", part->name);
        json_number(j, "samples", part->samples);
        json_number(j, "selected", part->selected);
        json_number(j, "pass", part->positions);
        json_number(j, "shown", part->shown);
        json_real(j, "passes", (double)part->shown / (double)part->positions, 6);
        json_real(j, "times_least", part->least, 6);
        json_real(j, "times_most", part->most, 6);
        json_number(j, "table_bytes", part->table_bytes);
        json_end_object(j);
    }
    json_end_array(j);
}

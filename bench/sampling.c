/* SPDX-License-Identifier: MIT */
/* sampling.c - measures how long each kind of order takes to find the sample of a position.
 *
 *     sampling [SAMPLES]        1,281,167 by default
 *
 * It uses one thread. Each line is a kind of order: nanoseconds of CPU time per position, the
 * memory of its table, and the largest distance of a set from its share, which is measured for the
 * mixture only; the other lines print a constant. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/order/mixture.h"
#include "common/order/sampler.h"
#include "common/util/util.h"

enum { POSITIONS = 200000, SETS = 5, CLASSES = 1000, BLOCK = 64 };

static uint32_t samples = 1281167, sink;

static void print_line(const char *kind, uint64_t ns, uint64_t bytes, double off)
{
    printf("%-34s %6llu ns   %8.1f MiB   %.2f\n", kind, (unsigned long long)(ns / POSITIONS),
           (double)bytes / (1 << 20), off);
}

static void *need(void *memory)
{
    if (!memory) {
        fprintf(stderr, "sampling: out of memory\n");
        exit(1);
    }
    return memory;
}

static void measure_mixture(void)
{
    static const uint32_t weights[SETS] = {62, 25, 10, 2, 1};
    static const char *const names[SETS] = {"a", "b", "c", "d", "e"};
    const struct mixture_piece piece = {0, weights};
    struct sampler_table table = {.kind = SAMPLER_PLAIN,
                                  .n = samples,
                                  .positions = samples,
                                  .plain = {.n = samples, .shuffle = ORDER_GLOBAL}};
    struct mixture_set sets[SETS];
    struct mixture_parts parts = {.sets = sets,
                                  .num_sets = SETS,
                                  .pieces = &piece,
                                  .num_pieces = 1,
                                  .block = BLOCK,
                                  .positions = samples};
    struct mixture *m;
    double off = 0;
    uint64_t begin;

    for (uint32_t i = 0; i < SETS; i++)
        sets[i] = (struct mixture_set){names[i], &table, i * samples};
    if (mixture_create(&parts, 1, &m) < 0)
        exit(1);
    begin = time_cpu_ns();
    for (uint32_t p = 0; p < POSITIONS; p++)
        sink ^= mixture_sample(m, 3, p % samples);
    begin = time_cpu_ns() - begin;
    for (uint64_t b = 0; b < POSITIONS; b++)
        for (uint32_t i = 0; i < SETS; i++) {
            double shown = (double)mixture_before(m, i, b * BLOCK),
                   share = (double)b * BLOCK * weights[i] / 100;

            off = shown - share > off ? shown - share : share - shown > off ? share - shown : off;
        }
    print_line("mixture of 5 sets", begin, 0, off);
    mixture_destroy(m);
}

static void measure(const char *kind, const struct sampler_table *table, uint64_t bytes, double off)
{
    struct sampler s;
    uint64_t begin;

    if (sampler_init(&s, table, 1) < 0)
        exit(1);
    begin = time_cpu_ns();
    for (uint32_t p = 0; p < POSITIONS; p++)
        sink ^= sampler_at(&s, 3, p % table->positions);
    print_line(kind, time_cpu_ns() - begin, bytes, off);
    sampler_fini(&s);
}

static void measure_weights(void)
{
    uint64_t *sums = need(malloc(samples * sizeof(*sums)));
    uint32_t *weights = need(malloc(samples * sizeof(*weights)));
    struct sampler_column *columns = need(malloc(samples * sizeof(*columns)));
    struct sampler_table table = {.kind = SAMPLER_QUOTA, .n = samples, .positions = samples};
    uint32_t *guide;

    for (uint32_t i = 0; i < samples; i++) {
        weights[i] = 1 + (uint32_t)rand() % 1000;
        sums[i] = weights[i] + (i > 0 ? sums[i - 1] : 0);
    }
    if (sampler_fill_columns(columns, weights, samples) < 0)
        exit(1);
    table.sums = sums;
    guide = need(sampler_make_guide(&table));
    measure("weights, by quota", &table, samples * sizeof(*sums), 1);
    table.kind = SAMPLER_DRAWN;
    table.columns = columns;
    measure("weights, independent", &table, samples * sizeof(*columns), 0);
    free(guide);
    free(columns);
    free(weights);
    free(sums);
}

static void measure_classes(void)
{
    uint32_t *start = need(malloc((CLASSES + 1) * sizeof(*start)));
    struct sampler_table table = {.kind = SAMPLER_STRATA,
                                  .n = samples,
                                  .positions = samples,
                                  .classes = CLASSES,
                                  .start = start,
                                  .block = 1024};

    for (uint32_t c = 0; c <= CLASSES; c++)
        start[c] = (uint32_t)((uint64_t)samples * c / CLASSES);
    measure("stratified, blocks of 1024", &table, samples * sizeof(uint32_t), 1);
    table.kind = SAMPLER_BALANCED;
    measure("balanced, blocks of 1024", &table, samples * sizeof(uint32_t), 1);
    table.kind = SAMPLER_CLASSES;
    table.per_block = 32;
    table.each = 4;
    measure("32 classes x 4 samples", &table, samples * sizeof(uint32_t), 0);
    free(start);
}

int main(int argc, char **argv)
{
    uint64_t given;

    if (argc > 2 || (argc == 2 && parse_u64(argv[1], UINT32_MAX - 1, &given) < 0)) {
        fprintf(stderr, "usage: sampling [SAMPLES]\n");
        return 2;
    }
    if (argc == 2)
        samples = (uint32_t)(given < CLASSES ? CLASSES : given);
    printf("%-34s %9s   %12s   %s\n", "order", "position", "table", "most off");
    measure_mixture();
    measure_weights();
    measure_classes();
    return sink == UINT32_MAX; /* uses the results */
}

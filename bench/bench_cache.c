/* SPDX-License-Identifier: MIT */
/* bench_cache.c - measures how many reads a cache of limited size saves, by the rule of
 * loader/cache and by other rules.
 *
 *     cache [--json] [SAMPLES]        20,000 by default
 *
 * Each line simulates one host's part of six epochs. Hits are counted in the second to the
 * fifth epoch, in percent of the host's uses. The last epoch is left out because a rule could gain
 * from knowing when the stream ends, which a loader does not know. All samples have one size, for
 * which Belady's rule, which needs to know the whole trace in advance, is the optimum. "writes" are
 * those of `plenum` in the last three of these epochs, in percent of the uses; "burst" is the
 * largest share of misses in a twentieth of an epoch, of `plenum` and of the optimum.
 *
 * "homes" is what Plenum does not do: each sample has a home, one of the hosts, from which the
 * others get it. The hosts' caches then hold different samples. The column shows the hits of one
 * host's cache, by the rule of `plenum`, in percent of all uses of the samples at home there. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/cache/keep.h"

enum { EPOCHS = 6, STREAMS = 2, MICRO_BATCH = 32, PARTS = 20, STEADY = 2, BLOCK = 64 };

/* The second stream begins after this part of an epoch, in percent; an epoch takes ten minutes. */
enum { LATER = 37, EPOCH_S = 600 };

struct cache_use {
    uint32_t sample, next; /* next: index of the sample's next use, or UINT32_MAX */
    uint32_t stream, epoch;
    struct order_place step; /* the step to which the use belongs */
    uint64_t time;           /* in positions, times MICRO_BATCH */
};

struct cache_trace {
    struct cache_use *uses;
    uint32_t count;
    uint32_t hosts, streams;
    bool homes; /* the trace is what all hosts use of the samples whose home is the first host */
    struct order order[STREAMS];
    struct order_steps steps;
};

struct score {
    double hits, writes, burst;
};

enum rule { OPTIMUM, LRU, FIFO, RANDOM, NEVER, RULES };

static uint32_t samples = 20000;
static uint64_t random_state;

static void *need(void *memory)
{
    if (!memory) {
        fprintf(stderr, "cache: out of memory\n");
        exit(1);
    }
    return memory;
}

/* ---- the trace ---- */

static int by_time(const void *a, const void *b)
{
    const struct cache_use *x = a, *y = b;

    return x->time != y->time       ? (x->time > y->time) - (x->time < y->time)
           : x->stream != y->stream ? (x->stream > y->stream) - (x->stream < y->stream)
                                    : 0;
}

/* Returns how many positions of a step the trace covers. */
static uint32_t part_of_step(const struct cache_trace *t)
{
    return t->homes ? t->hosts * MICRO_BATCH : MICRO_BATCH;
}

static bool is_at_home(const struct cache_trace *t, uint32_t sample)
{
    return (sample * UINT64_C(0x9E3779B97F4A7C15) >> 32) % t->hosts == 0;
}

static void add_step(struct cache_trace *t, uint32_t stream, struct order_place step)
{
    uint64_t later = stream * (uint64_t)samples * LATER / 100;

    for (uint32_t i = 0; i < part_of_step(t) && step.position + i < samples; i++) {
        uint32_t sample =
            order_sample(&t->order[stream], (uint32_t)step.epoch, (uint32_t)step.position + i);

        if (t->homes && !is_at_home(t, sample))
            continue;
        t->uses[t->count++] = (struct cache_use){
            .sample = sample,
            .stream = stream,
            .epoch = (uint32_t)step.epoch,
            .step = step,
            .time = (later + step.epoch * samples + step.position) * MICRO_BATCH + i};
    }
}

/* Make the trace of the samples that the first host uses, or that are requested from it as a
 * home. */
static void make_trace(struct cache_trace *t, enum order_shuffle shuffle)
{
    uint32_t *last = need(malloc(samples * sizeof(*last)));

    t->count = 0;
    t->steps =
        (struct order_steps){.n = samples, .per_step = t->hosts * MICRO_BATCH, .last = ORDER_PAD};
    for (uint32_t s = 0; s < t->streams; s++) {
        struct order_place step = {0};

        t->order[s] =
            (struct order){.seed = 1000 + s, .n = samples, .shuffle = shuffle, .block = BLOCK};
        for (; step.epoch < EPOCHS;
             step = order_place_settle(&t->steps, order_place_after(&t->steps, step)))
            add_step(t, s, step);
    }
    qsort(t->uses, t->count, sizeof(*t->uses), by_time);
    memset(last, 0xFF, samples * sizeof(*last));
    for (uint32_t i = t->count; i-- > 0;) {
        t->uses[i].next = last[t->uses[i].sample];
        last[t->uses[i].sample] = i;
    }
    free(last);
}

/* ---- counting ---- */

struct counting {
    uint64_t uses, hits, steady, writes;
    uint32_t seen[EPOCHS * PARTS + PARTS], missed[EPOCHS * PARTS + PARTS];
};

static void count_use(struct counting *c, const struct cache_use *u, bool hit, bool wrote)
{
    uint64_t part = u->time / MICRO_BATCH * PARTS / samples;

    if (u->epoch == 0 || u->epoch == EPOCHS - 1)
        return;
    c->uses++;
    c->hits += hit;
    c->steady += u->epoch >= STEADY;
    c->writes += wrote && u->epoch >= STEADY;
    if (part < ARRAY_LEN(c->seen)) {
        c->seen[part]++;
        c->missed[part] += !hit;
    }
}

static struct score score_of(const struct counting *c)
{
    struct score s = {.hits = 100.0 * (double)c->hits / (double)c->uses,
                      .writes = 100.0 * (double)c->writes / (double)max_u64(c->steady, 1)};

    for (size_t i = 0; i < ARRAY_LEN(c->seen); i++)
        if (c->seen[i] >= samples / PARTS / 32 && c->seen[i] > 0 &&
            100.0 * c->missed[i] / c->seen[i] > s.burst)
            s.burst = 100.0 * c->missed[i] / c->seen[i];
    return s;
}

/* ---- our rule, by the code of the loader ---- */

static void ignore(void *arg, uint32_t entry)
{
    (void)arg;
    (void)entry;
}

static uint64_t time_ns_of(const struct cache_use *u)
{
    return u->time * (EPOCH_S * NS_PER_SEC / samples / MICRO_BATCH);
}

static bool plenum_use(struct keep *keep, const struct cache_use *u, bool *wrote)
{
    struct keep_bytes bytes = {.key = {{u->sample * UINT64_C(0x9E3779B97F4A7C15), 1}},
                               .len = KEEP_BLOCK,
                               .sample = {.number = u->sample}};
    uint64_t now = time_ns_of(u);
    uint32_t entry = keep_find(keep, &bytes.key);

    *wrote = false;
    if (entry != KEEP_NONE) {
        keep_use(keep, entry, &bytes.sample, now);
        return true;
    }
    entry = keep_admit(keep, &bytes, now, ignore, NULL);
    *wrote = entry != KEEP_NONE;
    if (*wrote)
        keep_settle(keep, entry, 0, now);
    return false;
}

static struct score run_plenum(const struct cache_trace *t, uint32_t room)
{
    struct keep *keep = need(keep_create((uint64_t)room * KEEP_BLOCK));
    struct course_stream *stream[STREAMS] = {NULL};
    struct counting c = {0};

    for (uint32_t i = 0; i < t->count; i++) {
        const struct cache_use *u = &t->uses[i];
        struct course_order order = {.order = t->order[u->stream], .steps = t->steps};
        bool hit, wrote;

        if (!stream[u->stream])
            stream[u->stream] =
                need(keep_open_stream(keep, &order, 0, part_of_step(t), time_ns_of(u)));
        course_advance(stream[u->stream], u->step,
                       order_place_settle(&t->steps, order_place_after(&t->steps, u->step)),
                       time_ns_of(u));
        hit = plenum_use(keep, u, &wrote);
        count_use(&c, u, hit, wrote);
    }
    for (uint32_t s = 0; s < t->streams; s++)
        keep_close_stream(keep, stream[s], 0);
    keep_destroy(keep);
    return score_of(&c);
}

/* ---- other rules: a heap whose top is evicted ---- */

struct heap {
    uint64_t *key;
    uint32_t *item, *at, count; /* at: UINT32_MAX: not in the cache */
};

static void swap(struct heap *h, uint32_t i, uint32_t j)
{
    uint32_t x = h->item[i];

    h->item[i] = h->item[j];
    h->item[j] = x;
    h->at[h->item[i]] = i;
    h->at[h->item[j]] = j;
}

static uint64_t key_at(const struct heap *h, uint32_t i)
{
    return h->key[h->item[i]];
}

/* Restore the heap's order after the key at this place has changed. */
static void settle(struct heap *h, uint32_t i)
{
    for (; i > 0 && key_at(h, i) > key_at(h, (i - 1) / 2); i = (i - 1) / 2)
        swap(h, i, (i - 1) / 2);
    for (;;) {
        uint32_t below = 2 * i + 1;

        below += below + 1 < h->count && key_at(h, below + 1) > key_at(h, below);
        if (below >= h->count || key_at(h, below) <= key_at(h, i))
            return;
        swap(h, i, below);
        i = below;
    }
}

static void drop(struct heap *h, uint32_t i)
{
    uint32_t item = h->item[i];

    swap(h, i, h->count - 1);
    h->count--;
    h->at[item] = UINT32_MAX;
    if (i < h->count)
        settle(h, i);
}

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}

/* Returns a key; every rule but RANDOM evicts the sample with the largest key. */
static uint64_t rule_key(enum rule rule, const struct cache_trace *t, uint32_t i)
{
    return rule == OPTIMUM ? t->uses[i].next : rule == RANDOM ? next_random() : UINT32_MAX - i;
}

static bool rule_use(struct heap *h, enum rule rule, uint32_t room, uint32_t sample, uint64_t key)
{
    if (h->at[sample] != UINT32_MAX) {
        if (rule != FIFO)
            h->key[sample] = key;
        settle(h, h->at[sample]);
        return true;
    }
    if (h->count == room) {
        if (rule == NEVER || (rule == OPTIMUM && key >= key_at(h, 0)))
            return false;
        drop(h, rule == RANDOM ? (uint32_t)(next_random() % h->count) : 0);
    }
    h->key[sample] = key;
    h->item[h->count] = sample;
    h->at[sample] = h->count;
    settle(h, h->count++);
    return false;
}

static struct score run_rule(const struct cache_trace *t, enum rule rule, uint32_t room)
{
    struct heap h = {.key = need(calloc(samples, sizeof(*h.key))),
                     .item = need(calloc(samples + 1, sizeof(*h.item))),
                     .at = need(malloc(samples * sizeof(*h.at)))};
    struct counting c = {0};

    random_state = 88172645463325252u;
    memset(h.at, 0xFF, samples * sizeof(*h.at));
    for (uint32_t i = 0; i < t->count; i++)
        count_use(&c, &t->uses[i],
                  rule_use(&h, rule, room, t->uses[i].sample, rule_key(rule, t, i)), false);
    free(h.key);
    free(h.item);
    free(h.at);
    return score_of(&c);
}

/* ---- the table ---- */

static double worst = 1; /* the smallest ratio of plenum's hits to the optimum's */

static void print_line(const struct cache_trace *t, const struct cache_trace *home,
                       const char *shuffle, uint32_t percent, bool json)
{
    static const char *const names[RULES] = {"optimum", "lru", "fifo", "random", "never-evict"};
    uint32_t room = (uint32_t)((uint64_t)samples * percent / 100);
    struct score ours = run_plenum(t, room), homes = run_plenum(home, room), other[RULES];

    for (unsigned i = 0; i < RULES; i++)
        other[i] = run_rule(t, (enum rule)i, room);
    if (other[OPTIMUM].hits > 0 && ours.hits / other[OPTIMUM].hits < worst)
        worst = ours.hits / other[OPTIMUM].hits;
    if (json) {
        printf("{\"shuffle\": \"%s\", \"hosts\": %u, \"streams\": %u, \"cache\": %u, "
               "\"plenum\": %.2f, \"homes\": %.2f",
               shuffle, t->hosts, t->streams, percent, ours.hits, homes.hits);
        for (unsigned i = 0; i < RULES; i++)
            printf(", \"%s\": %.2f", names[i], other[i].hits);
        printf(", \"writes\": %.2f, \"burst\": %.1f, \"optimum_burst\": %.1f}\n", ours.writes,
               ours.burst, other[OPTIMUM].burst);
        return;
    }
    printf("%-9s %5u %7u %4u %% | %7.1f %7.1f | %6.1f %6.1f %6.1f %6.1f | %6.1f | %6.1f | %5.0f "
           "%5.0f\n",
           shuffle, t->hosts, t->streams, percent, other[OPTIMUM].hits, ours.hits, other[LRU].hits,
           other[FIFO].hits, other[RANDOM].hits, other[NEVER].hits, homes.hits, ours.writes,
           ours.burst, other[OPTIMUM].burst);
}

static void run_all(bool json)
{
    static const uint32_t hosts[] = {1, 2, 4, 16}, percents[] = {10, 25, 50, 90};
    size_t most = (size_t)samples * EPOCHS * STREAMS;
    struct cache_trace t = {.uses = need(calloc(most, sizeof(*t.uses)))};
    struct cache_trace home = {.uses = need(calloc(most, sizeof(*t.uses))), .homes = true};

    for (unsigned block = 0; block < 2; block++)
        for (size_t h = 0; h < ARRAY_LEN(hosts); h++)
            for (t.streams = 1; t.streams <= STREAMS; t.streams++) {
                t.hosts = home.hosts = hosts[h];
                home.streams = t.streams;
                make_trace(&t, block ? ORDER_BLOCK : ORDER_GLOBAL);
                make_trace(&home, block ? ORDER_BLOCK : ORDER_GLOBAL);
                for (size_t i = 0; i < ARRAY_LEN(percents); i++)
                    print_line(&t, &home, block ? "block:64" : "global", percents[i], json);
                (void)fflush(stdout);
            }
    free(t.uses);
    free(home.uses);
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    uint64_t n = samples;

    if (argc > 1 + json && parse_u64(argv[1 + json], 1 << 26, &n) < 0)
        n = 0;
    if (argc > 2 + json || n < 1000) {
        fprintf(stderr, "usage: cache [--json] [SAMPLES]: at least 1,000 samples\n");
        return 2;
    }
    samples = (uint32_t)n;
    if (!json)
        printf("hits in %% of a host's uses, epochs 2 to 5, %u samples of one size\n"
               "%-9s %5s %7s %6s | %7s %7s | %6s %6s %6s %6s | %6s | %6s | %s\n",
               samples, "shuffle", "hosts", "streams", "cache", "optimum", "plenum", "LRU", "FIFO",
               "random", "never", "homes", "writes", "burst: plenum, optimum");
    run_all(json);
    if (!json)
        printf("plenum reaches at least %.4f of the optimum's hits\n", worst);
    return 0;
}

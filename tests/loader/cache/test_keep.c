/* SPDX-License-Identifier: MIT */
/* Compares when samples are used next, and which are removed, with slow versions that go through
 * all positions and all samples. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/cache/keep.h"

enum { SAMPLES = 60, EPOCHS = 6, SEARCHED = EPOCHS + 6 };

static uint64_t random_state = 88172645463325252u;

static uint32_t pick(uint32_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 11) % below;
}

static uint32_t *evicted;

static void note_evicted(void *arg, uint32_t entry)
{
    (void)arg;
    *evicted = entry;
}

/* ---- when a sample is used next ---- */

/* Returns the next use, by going through all positions of some epochs that the streams have not
 * requested. */
static uint64_t slow_next(const struct course *c, uint32_t sample)
{
    const struct course_order *o = &c->order;
    uint32_t n = order_positions(&o->order);

    for (uint64_t epoch = 0; epoch < SEARCHED; epoch++)
        for (uint32_t p = 0; p < n; p++) {
            struct order_place step = {epoch, p / o->steps.per_step * o->steps.per_step};
            uint32_t partner = order_partner(&o->order, p);

            if (!order_place_has_step(&o->steps, step) ||
                (order_sample(&o->order, (uint32_t)epoch, p) != sample &&
                 !(o->mix && order_sample(&o->order, (uint32_t)epoch, partner) == sample)))
                continue;
            for (struct list *at = list_first(&c->streams); at; at = list_next(&c->streams, at)) {
                const struct course_stream *s = container_of(at, struct course_stream, link);

                for (uint32_t i = s->offset; i < s->offset + s->local; i++)
                    if (order_deal(o->steps.per_step, o->deal, i) == p - step.position &&
                        epoch * c->stride + p >= s->at)
                        return epoch * c->stride + p;
            }
        }
    return COURSE_NEVER;
}

/* Make a course with a random order and one or two streams, which have requested some batches. */
static void make_course(struct course *c, struct course_stream stream[2])
{
    uint32_t replicas = 1 + pick(4), m = 1 + pick(3), count = 1 + pick(2);
    struct course_order o = {.order = {.seed = pick(1000),
                                       .n = 1 + pick(SAMPLES),
                                       .shuffle = (enum order_shuffle)pick(3),
                                       .block = 1 + pick(5),
                                       .first = pick(3),
                                       .repeat = pick(3)},
                             .deal = pick(2) ? m : 0,
                             .mix = pick(2)};

    o.steps = (struct order_steps){.n = order_positions(&o.order),
                                   .per_step = replicas * m,
                                   .last = pick(2) ? ORDER_PAD : ORDER_DROP};
    if (o.steps.n < o.steps.per_step)
        o.steps.last = ORDER_PAD;
    course_init(c, &o, 1);
    for (uint32_t i = 0; i < count; i++) {
        struct order_place begin = {pick(EPOCHS), 0}, end = begin;

        stream[i] = (struct course_stream){.offset = pick(replicas) * m, .local = m};
        course_add(c, &stream[i]);
        end.position = pick(order_positions(&o.order) + 1);
        course_advance(&stream[i], begin, end, 1000 + i);
    }
}

Test(course, the_next_use_is_the_one_that_going_through_all_positions_finds)
{
    for (unsigned i = 0; i < 100; i++) {
        struct course c;
        struct course_stream stream[2];

        make_course(&c, stream);
        for (uint32_t sample = 0; sample < SAMPLES + 4; sample += 1 + pick(8)) {
            uint64_t slow = slow_next(&c, sample), got = course_next(&c, sample);
            const struct order *o = &c.order.order;

            if (sample < o->first || sample - o->first >= o->n)
                cr_assert(eq(u64, got, COURSE_NEVER));
            else if (slow == COURSE_NEVER)
                cr_assert(ge(u64, got / c.stride, SEARCHED)); /* far away */
            else
                cr_assert(eq(u64, got, slow));
        }
    }
}

Test(course, the_next_use_of_a_sample_with_many_repetitions_is_found_in_short_time, .timeout = 60)
{
    struct course_order o = {.order = {.n = 3, .shuffle = ORDER_GLOBAL, .repeat = 1 << 30}};
    struct course_stream stream = {.offset = 0, .local = 1};
    struct order_place begin = {0, 0}, end = {0, 0};
    struct course c;

    o.steps = (struct order_steps){
        .n = order_positions(&o.order), .per_step = 1U << 31, .last = ORDER_DROP};
    course_init(&c, &o, 1);
    course_add(&c, &stream);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t sample = order_sample(&o.order, 0, i << 21);

        end.position = i << 21;
        course_advance(&stream, begin, end, 1000 + i);
        cr_assert(ge(u64, course_next(&c, sample), end.position));
        cr_assert(le(u64, course_next(&c, sample), end.position + (1 << 30)));
    }
}

/* ---- victims ---- */

struct simulation {
    struct keep *keep;
    struct course_order order[3];
    struct course_stream *stream[3];
    uint64_t at[3], now_ns;
    uint32_t sample_of[SAMPLES * 2]; /* the sample of each entry */
    bool kept[SAMPLES];
};

/* Returns the bytes of a sample of set 0. */
static struct keep_bytes bytes_of(uint32_t sample)
{
    return (struct keep_bytes){.key = {{sample * UINT64_C(0x9E3779B97F4A7C15), sample}},
                               .len = KEEP_BLOCK,
                               .sample = {.number = sample}};
}

/* Returns the position of a sample's next use, or its epoch. The sample for which this is largest
 * is removed first. */
static uint64_t rank_of(const struct simulation *s, uint32_t sample, bool whole_epochs)
{
    uint64_t use = course_next(s->stream[0]->course, sample);

    return whole_epochs ? use / SAMPLES : use;
}

static void use(struct simulation *s, uint32_t sample)
{
    struct keep_bytes bytes = bytes_of(sample);
    uint32_t entry = keep_find(s->keep, &bytes.key), gone = KEEP_NONE;
    uint64_t farthest = 0;

    cr_assert(eq(int, entry != KEEP_NONE, s->kept[sample]));
    if (entry != KEEP_NONE) {
        keep_use(s->keep, entry, &bytes.sample, s->now_ns);
        return;
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        if (s->kept[i])
            farthest = max_u64(farthest, rank_of(s, i, true));
    evicted = &gone;
    entry = keep_admit(s->keep, &bytes, s->now_ns, note_evicted, NULL);
    if (entry == KEEP_NONE) {
        cr_assert(ge(u64, rank_of(s, sample, true), farthest), "the victim is the sample that "
                                                               "is used last");
        return;
    }
    if (gone != KEEP_NONE) {
        cr_assert(eq(u64, rank_of(s, s->sample_of[gone], true), farthest));
        cr_assert(lt(u64, rank_of(s, sample, true), farthest));
        s->kept[s->sample_of[gone]] = false;
    }
    keep_settle(s->keep, entry, 0, s->now_ns);
    s->sample_of[entry] = sample;
    s->kept[sample] = true;
}

Test(keep, the_victim_of_one_stream_is_in_the_farthest_epoch)
{
    for (uint32_t room = 1; room < SAMPLES; room += 7)
        for (uint32_t hosts = 1; hosts <= 4; hosts++) {
            struct simulation s = {.keep = keep_create((uint64_t)room * KEEP_BLOCK)};
            struct course_order order = {.order = {.seed = room, .n = SAMPLES},
                                         .steps = {.n = SAMPLES, .per_step = hosts}};

            s.stream[0] = keep_open_stream(s.keep, &order, 0, 1, 1);
            for (uint32_t i = 0; i < SAMPLES * EPOCHS; i += hosts) {
                struct order_place here = {i / SAMPLES, i % SAMPLES};

                s.now_ns += 1000000;
                course_advance(s.stream[0], here,
                               (struct order_place){here.epoch, here.position + 1}, s.now_ns);
                if (i % SAMPLES % hosts == 0)
                    use(&s,
                        order_sample(&order.order, (uint32_t)here.epoch, (uint32_t)here.position));
                cr_assert(keep_is_sound(s.keep));
            }
            keep_close_stream(s.keep, s.stream[0], s.now_ns);
            keep_destroy(s.keep);
        }
}

Test(keep, one_stream_writes_nothing_after_its_first_epoch)
{
    struct keep *keep = keep_create(UINT64_C(20) * KEEP_BLOCK);
    struct course_order order = {.order = {.seed = 3, .n = SAMPLES},
                                 .steps = {.n = SAMPLES, .per_step = 1}};
    struct course_stream *stream = keep_open_stream(keep, &order, 0, 1, 1);
    uint32_t hits = 0, gone = KEEP_NONE;

    evicted = &gone;
    for (uint32_t i = 0; i < SAMPLES * EPOCHS; i++) {
        struct order_place here = {i / SAMPLES, i % SAMPLES};
        struct keep_bytes bytes =
            bytes_of(order_sample(&order.order, (uint32_t)here.epoch, (uint32_t)here.position));
        uint32_t entry = keep_find(keep, &bytes.key);

        course_advance(stream, here, (struct order_place){here.epoch, here.position + 1}, i);
        if (entry != KEEP_NONE) {
            hits++;
            keep_use(keep, entry, &bytes.sample, i);
            continue;
        }
        entry = keep_admit(keep, &bytes, i, note_evicted, NULL);
        cr_assert(eq(int, entry != KEEP_NONE, i < 20));
        if (entry != KEEP_NONE)
            keep_settle(keep, entry, 0, i);
    }
    cr_assert(eq(u32, gone, KEEP_NONE));
    cr_assert(eq(u32, hits, 20 * (EPOCHS - 1)));
    keep_close_stream(keep, stream, 0);
    keep_destroy(keep);
}

/* Fill `keep` with the samples [0, count). */
static void fill(struct keep *keep, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct keep_bytes bytes = bytes_of(i);
        uint32_t entry = keep_admit(keep, &bytes, 1, note_evicted, NULL);

        cr_assert(ne(u32, entry, KEEP_NONE));
        keep_settle(keep, entry, 0, 1);
    }
}

Test(keep, samples_without_a_known_use_stay_while_there_is_room_and_go_first)
{
    struct keep *keep = keep_create(UINT64_C(10) * KEEP_BLOCK);
    struct course_order order = {
        .set = 1, .order = {.seed = 3, .n = SAMPLES}, .steps = {.n = SAMPLES, .per_step = 1}};
    struct course_stream *stream;
    struct keep_bytes unknown = bytes_of(50), known = bytes_of(50);
    struct keep_counts counts;
    uint32_t gone = KEEP_NONE;

    evicted = &gone;
    unknown.sample.set = KEEP_NO_SET;
    known.sample.set = 1;
    fill(keep, 10);
    cr_assert(eq(u32, keep_admit(keep, &unknown, 1, note_evicted, NULL), KEEP_NONE));
    stream = keep_open_stream(keep, &order, 0, 1, 1);
    cr_assert(ne(u32, keep_admit(keep, &known, 1, note_evicted, NULL), KEEP_NONE));
    cr_assert(ne(u32, gone, KEEP_NONE));
    keep_get_counts(keep, &counts);
    cr_assert(eq(u64, counts.entries, 10));
    keep_close_stream(keep, stream, 1);
    keep_destroy(keep);
}

Test(keep, a_stream_that_opens_protects_samples_of_an_earlier_run)
{
    struct keep *keep = keep_create(UINT64_C(30) * KEEP_BLOCK);
    struct course_order order = {.order = {.seed = 3, .n = 25}, .steps = {.n = 25, .per_step = 1}};
    struct course_stream *stream;
    uint32_t gone[SAMPLES];

    for (uint32_t i = 0; i < 30; i++) {
        struct keep_bytes bytes = bytes_of(i);

        cr_assert(keep_restore(keep, i, &bytes));
    }
    keep_restored(keep);
    stream = keep_open_stream(keep, &order, 0, 1, 1);
    /* Only samples 25 to 29 have no use. New samples that the stream uses later than all others are
     * not added. */
    for (uint32_t i = 40; i < SAMPLES; i++) {
        struct keep_bytes bytes = bytes_of(i);
        uint32_t entry;

        bytes.sample.number = i % 25;
        gone[i] = KEEP_NONE;
        evicted = &gone[i];
        entry = keep_admit(keep, &bytes, 1, note_evicted, NULL);
        cr_assert(eq(int, entry != KEEP_NONE, i < 45), "%u", i);
        if (entry != KEEP_NONE)
            keep_settle(keep, entry, 0, 1);
        if (gone[i] != KEEP_NONE)
            cr_assert(ge(u32, gone[i], 25));
        cr_assert(keep_is_sound(keep));
    }
    keep_close_stream(keep, stream, 1);
    cr_assert(keep_is_sound(keep));
    keep_destroy(keep);
}

Test(keep, the_larger_of_two_samples_of_an_epoch_goes_first)
{
    struct keep *keep = keep_create(UINT64_C(4) * KEEP_BLOCK);
    struct course_order order = {.order = {.seed = 3, .n = SAMPLES},
                                 .steps = {.n = SAMPLES, .per_step = 1}};
    struct course_stream *stream = keep_open_stream(keep, &order, 0, 1, 1);
    uint32_t gone = KEEP_NONE, entry[3];

    evicted = &gone;
    for (uint32_t i = 0; i < 3; i++) {
        struct keep_bytes bytes = bytes_of(i);

        bytes.len = i == 0 ? 3 * KEEP_BLOCK : KEEP_BLOCK;
        entry[i] = keep_admit(keep, &bytes, 1, note_evicted, NULL);
        cr_assert(ne(u32, entry[i], KEEP_NONE));
        keep_settle(keep, entry[i], 0, 1);
    }
    cr_assert(eq(u32, gone, entry[0]));
    keep_close_stream(keep, stream, 1);
    keep_destroy(keep);
}

Test(keep, any_sequence_of_calls_leaves_it_sound)
{
    struct keep *keep = keep_create(UINT64_C(40) * KEEP_BLOCK);
    struct course_stream *stream[4] = {NULL};
    uint64_t at[4] = {0}, now = 1;
    uint32_t gone;

    evicted = &gone;
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t which = pick(4), number = pick(SAMPLES), entry;
        struct course_order order = {.set = which / 2,
                                     .order = {.seed = which, .n = SAMPLES},
                                     .steps = {.n = SAMPLES, .per_step = 2}};
        struct keep_bytes bytes = bytes_of(number);

        bytes.sample.set = pick(4) ? pick(2) : KEEP_NO_SET;
        now += pick(1000000000);
        bytes.len = 1 + pick(3 * KEEP_BLOCK);
        entry = keep_find(keep, &bytes.key);
        if (!stream[which] && pick(50) == 0) {
            stream[which] = keep_open_stream(keep, &order, pick(2), 1, now);
            at[which] = 0;
        } else if (stream[which] && pick(200) == 0) {
            keep_close_stream(keep, stream[which], now);
            stream[which] = NULL;
        } else if (stream[which] && pick(3) == 0) {
            uint64_t from = pick(40) ? at[which] : pick(SAMPLES * EPOCHS);

            at[which] = from + pick(6);
            course_advance(stream[which], (struct order_place){from / SAMPLES, from % SAMPLES},
                           (struct order_place){at[which] / SAMPLES, at[which] % SAMPLES}, now);
        } else if (entry == KEEP_NONE) {
            entry = keep_admit(keep, &bytes, now, note_evicted, NULL);
            if (entry != KEEP_NONE)
                keep_settle(keep, entry, 0, now);
        } else if (pick(10) == 0) {
            keep_remove(keep, entry);
        } else {
            keep_use(keep, entry, &bytes.sample, now);
        }
        cr_assert(keep_is_sound(keep), "after %u calls", i);
    }
    for (unsigned i = 0; i < ARRAY_LEN(stream); i++)
        keep_close_stream(keep, stream[i], now);
    keep_destroy(keep);
}

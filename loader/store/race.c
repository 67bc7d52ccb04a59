/* SPDX-License-Identifier: MIT */
/* race.c - the second request is the first one again, with its signature, into memory of its own,
 * because both may be writing at the same time. */
#include "config.h"

#include "loader/store/race.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/lock.h"
#include "loader/store/fetch.h"

enum { CANCEL_MS = 50 };

struct race {
    struct bucket *bucket;
    struct exchange *first, second;
    uint8_t *bytes; /* of the second; NULL: it was not started */
    struct lock mu;
    /* Holding mu. */
    pthread_cond_t changed;
    bool late;
    unsigned flying;
    const struct exchange *winner;
};

/* These two run in the module's thread. */
static void on_late(struct exchange *x)
{
    struct race *race = x->waiter;

    lock_acquire(&race->mu);
    race->late = true;
    (void)pthread_cond_signal(&race->changed);
    lock_release(&race->mu);
}

static void on_ended(struct exchange *x)
{
    struct race *race = x->waiter;

    lock_acquire(&race->mu);
    assert(race->flying > 0);
    race->flying--;
    if (!race->winner && exchange_is_success(x))
        race->winner = x;
    (void)pthread_cond_signal(&race->changed);
    lock_release(&race->mu);
}

/* Start an exchange: 0, or -errno, which is then its result. Holding mu. */
static int start(struct race *race, struct exchange *x)
{
    struct plenum_error why;
    int r;

    x->waiter = race;
    x->ended = on_ended;
    race->flying++;
    r = exchange_start(x, &why);
    if (r < 0) {
        race->flying--;
        x->code = r;
        x->why = why;
    }
    return r;
}

/* Send the late request once more. Holding mu. */
static void send_again(struct race *race)
{
    const struct exchange *first = race->first;

    assert(lock_is_held(&race->mu) && !race->bytes);
    race->late = false;
    if (race->winner || race->flying == 0 || !bucket_try_hedge(race->bucket))
        return;
    race->bytes = malloc(first->want->len);
    race->second = (struct exchange){.transfer = {.method = first->transfer.method,
                                                  .url = first->transfer.url,
                                                  .headers = first->transfer.headers,
                                                  .connect_ns = first->transfer.connect_ns,
                                                  .stall_ns = first->transfer.stall_ns,
                                                  .any_address = first->transfer.any_address},
                                     .want = first->want,
                                     .dst = race->bytes};
    if (race->bytes && start(race, &race->second) == 0)
        return;
    bucket_leave(race->bucket, BUCKET_FAILURE);
    free(race->bytes);
    race->bytes = NULL;
}

/* Cancel the requests that have not won. */
static void cancel_others(struct race *race)
{
    struct exchange *both[] = {race->first, race->bytes ? &race->second : NULL};
    bool cancelled = false;

    for (int i = 0; i < 2; i++)
        if (both[i] && both[i] != race->winner)
            cancelled = !atomic_exchange(&both[i]->transfer.cancel, true) || cancelled;
    if (cancelled)
        store_backend_get(NULL)->wake();
}

/* Wait until no request is flying. */
static void await_end(struct race *race, const atomic_bool *cancel)
{
    lock_acquire(&race->mu);
    while (race->flying > 0) {
        uint64_t until = cancel ? time_now_ns() + CANCEL_MS * NS_PER_MS : UINT64_MAX;

        (void)lock_wait_until(&race->mu, &race->changed, until);
        if (race->late)
            send_again(race);
        if (race->flying > 0 && (race->winner || (cancel && atomic_load(cancel))))
            cancel_others(race);
    }
    lock_release(&race->mu);
}

/* Take the second answer for the first, if it has won. */
static void end_second(struct race *race)
{
    struct exchange *first = race->first;
    bool won = race->winner == &race->second;

    bucket_leave(race->bucket, won ? fetch_outcome(&race->second) : BUCKET_FAILURE);
    if (won) {
        exchange_fini(first); /* it may have the text of an error */
        first->body_len = 0;
        memcpy(first->dst, race->bytes, first->want->len);
        first->answer = race->second.answer;
        first->code = 0;
        first->got = first->want->len;
        first->transfer.begun_ns = race->second.transfer.begun_ns;
    }
    exchange_fini(&race->second);
    free(race->bytes);
}

void race_run(struct exchange *x, struct bucket *bucket, const atomic_bool *cancel)
{
    struct race race = {
        .bucket = bucket, .first = x, .mu = LOCK_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

    assert(x->want && x->dst);
    x->late = on_late;
    x->transfer.late_ns = bucket_late_ns(bucket, x->want->len);
    lock_acquire(&race.mu);
    (void)start(&race, x);
    lock_release(&race.mu);
    await_end(&race, cancel);
    if (race.bytes)
        end_second(&race);
    if (exchange_is_success(x))
        bucket_note_time(bucket, x->want->len, time_now_ns() - x->transfer.begun_ns);
    lock_fini(&race.mu);
}

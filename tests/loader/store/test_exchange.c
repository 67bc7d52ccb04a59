/* SPDX-License-Identifier: MIT */
/* Tests late requests, over a network whose events this test decides. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/store/exchange.h"

enum { LEN = 10, FLIGHTS = 3 };

static struct transfer *flights[FLIGHTS];
static atomic_uint started;
static unsigned left[3], noted, ended;
static bool may_hedge, may_repeat, may_start;
static struct exchange x;
static uint8_t got[LEN];
static const struct object_facts facts = {.size = 100};
static const struct wanted_range want = {.offset = 20, .len = LEN, .facts = &facts};

static int start(struct transfer *t)
{
    if (!may_start && started > 0)
        return -ENOMEM;
    flights[started] = t;
    started++;
    return 0;
}

/* End a request that has not ended yet. */
static void end(unsigned i, int code)
{
    struct transfer *t = flights[i];

    flights[i] = NULL;
    t->done(t, code, code < 0 ? "why" : "");
}

static void wake(void)
{
    /* tests call end_cancelled() themselves */
}

/* End the requests that were cancelled, as the module does after wake(). */
static void end_cancelled(void)
{
    for (unsigned i = 0; i < started; i++)
        if (flights[i] && atomic_load(&flights[i]->cancel))
            end(i, -ECANCELED);
}

const struct store_backend *__wrap_store_backend_get(struct plenum_error *err);
uint64_t __wrap_bucket_late_ns(struct bucket *b, uint64_t len);
bool __wrap_bucket_try_hedge(struct bucket *b);
void __wrap_bucket_leave(struct bucket *b, enum bucket_outcome outcome);
void __wrap_bucket_note_time(struct bucket *b, uint64_t len, uint64_t ns);

const struct store_backend *__wrap_store_backend_get(struct plenum_error *err)
{
    static const struct store_backend fake = {
        .version = STORE_BACKEND_VERSION, .start = start, .wake = wake};

    (void)err;
    return &fake;
}

uint64_t __wrap_bucket_late_ns(struct bucket *b, uint64_t len)
{
    (void)b;
    return len;
}

bool __wrap_bucket_try_hedge(struct bucket *b)
{
    (void)b;
    return may_hedge;
}

void __wrap_bucket_leave(struct bucket *b, enum bucket_outcome outcome)
{
    (void)b;
    left[outcome]++;
}

void __wrap_bucket_note_time(struct bucket *b, uint64_t len, uint64_t ns)
{
    (void)b;
    (void)len;
    (void)ns;
    noted++;
}

static void on_ended(struct exchange *e)
{
    cr_assert(eq(ptr, e, &x));
    ended++;
}

static bool repeat(struct exchange *e)
{
    cr_assert(eq(ptr, e, &x));
    return may_repeat;
}

static void make_request(void)
{
    static const char *const headers[] = {NULL};

    may_hedge = may_repeat = may_start = true;
    x = (struct exchange){
        .transfer = {.method = "GET", .url = "http://a/b", .headers = headers},
        .want = &want,
        .dst = got,
        .bucket = (struct bucket *)&x, /* never dereferenced */
        .ended = on_ended,
        .may_repeat = repeat,
    };
}

static void set_up(void)
{
    make_request();
    cr_assert(eq(int, exchange_start(&x, NULL), 0));
    cr_assert(eq(u64, flights[0]->late_ns, LEN));
}

static void tear_down(void)
{
    cr_assert(eq(u32, ended, 1));
    exchange_fini(&x);
}

TestSuite(exchange, .init = set_up, .fini = tear_down);

static void say(unsigned i, const char *line)
{
    flights[i]->header(flights[i], line, strlen(line));
}

/* Answer a request with the range, whose bytes are all `value`, and end it. */
static void answer(unsigned i, int value)
{
    uint8_t bytes[LEN];

    memset(bytes, value, sizeof(bytes));
    say(i, "HTTP/1.1 206 Partial Content");
    say(i, "Content-Range: bytes 20-29/100");
    say(i, "Content-Length: 10");
    cr_assert(flights[i]->body(flights[i], bytes, LEN));
    end(i, 0);
}

static void refuse(unsigned i)
{
    say(i, "HTTP/1.1 503 Slow Down");
    end(i, 0);
}

static void expect(int value, unsigned successes, unsigned failures, unsigned slow)
{
    cr_assert(eq(u32, ended, 1));
    cr_assert(eq(u32, left[BUCKET_SUCCESS], successes));
    cr_assert(eq(u32, left[BUCKET_FAILURE], failures));
    cr_assert(eq(u32, left[BUCKET_SLOW], slow));
    cr_assert(eq(u32, noted, successes));
    cr_assert(eq(int, exchange_is_success(&x), value > 0));
    for (unsigned i = 0; i < LEN && value > 0; i++)
        cr_assert(eq(int, got[i], value));
}

Test(exchange, in_time_it_is_sent_once)
{
    answer(0, 1);
    expect(1, 1, 0, 0);
    cr_assert(eq(u32, started, 1));
    cr_assert(not(x.repeated));
}

Test(exchange, the_second_request_may_win)
{
    flights[0]->late(flights[0]);
    cr_assert(eq(u32, started, 2));
    cr_assert(eq(str, (char *)(uintptr_t)flights[1]->url, "http://a/b"));
    answer(1, 2);
    cr_assert(eq(u32, ended, 0), "the first one may still be writing");
    end_cancelled();
    expect(2, 1, 1, 0);
    cr_assert(x.repeated);
    cr_assert(eq(int, x.answer.status, 206));
}

Test(exchange, the_first_request_may_win)
{
    flights[0]->late(flights[0]);
    answer(0, 1);
    cr_assert(eq(u32, ended, 0));
    end_cancelled();
    expect(1, 1, 1, 0);
}

Test(exchange, both_may_arrive)
{
    flights[0]->late(flights[0]);
    answer(1, 2);
    answer(0, 1); /* before its cancellation takes effect */
    expect(1, 2, 0, 0);
}

Test(exchange, a_second_request_that_fails_changes_nothing)
{
    flights[0]->late(flights[0]);
    refuse(1);
    cr_assert(not(atomic_load(&flights[0]->cancel)));
    answer(0, 1);
    expect(1, 1, 0, 1);
}

Test(exchange, the_second_request_replaces_a_failure_of_the_first)
{
    flights[0]->late(flights[0]);
    end(0, -ECONNRESET);
    cr_assert(not(atomic_load(&flights[1]->cancel)));
    answer(1, 2);
    expect(2, 1, 1, 0);
    cr_assert(eq(int, x.code, 0));
}

Test(exchange, if_both_fail_the_error_is_that_of_the_first)
{
    flights[0]->late(flights[0]);
    refuse(1);
    end(0, -ECONNRESET);
    expect(0, 0, 1, 1);
    cr_assert(eq(int, x.code, -ECONNRESET));
    cr_assert(eq(str, x.why.text, "why"));
}

Test(exchange, a_request_for_fewer_requests_counts_though_its_body_is_missing)
{
    say(0, "HTTP/1.1 503 Slow Down");
    end(0, -ECONNRESET);
    expect(0, 0, 0, 1);
    cr_assert(eq(int, x.code, -ECONNRESET));
}

Test(exchange, a_request_for_fewer_requests_counts_though_the_other_one_has_won)
{
    flights[0]->late(flights[0]);
    say(0, "HTTP/1.1 429 Too Many Requests");
    answer(1, 2);
    end_cancelled();
    expect(2, 1, 0, 1);
}

Test(exchange, if_both_fail_the_longer_pause_is_kept)
{
    flights[0]->late(flights[0]);
    say(1, "HTTP/1.1 503 Slow Down");
    say(1, "Retry-After: 7");
    end(1, 0);
    end(0, -ECONNRESET);
    expect(0, 0, 1, 1);
    cr_assert(eq(u64, x.answer.retry_after_s, 7));
}

Test(exchange, without_memory_it_is_not_repeated)
{
    may_repeat = false;
    flights[0]->late(flights[0]);
    cr_assert(eq(u32, started, 1));
    cr_assert(eq(u32, left[BUCKET_FAILURE], 1), "the second request has left the bucket");
    answer(0, 1);
    expect(1, 1, 1, 0);
}

Test(exchange, without_a_budget_it_is_not_repeated)
{
    may_hedge = false;
    flights[0]->late(flights[0]);
    answer(0, 1);
    expect(1, 1, 0, 0);
    cr_assert(not(x.repeated));
}

Test(exchange, a_second_request_that_cannot_be_started_changes_nothing)
{
    may_start = false;
    flights[0]->late(flights[0]);
    answer(0, 1);
    expect(1, 1, 1, 0);
    cr_assert(x.repeated);
}

static atomic_bool cancel;

static void *run(void *arg)
{
    exchange_run(&x, &cancel);
    return arg;
}

Test(exchange_run, cancels_the_second_request_when_only_that_is_left)
{
    pthread_t thread;

    make_request();
    cr_assert(eq(int, pthread_create(&thread, NULL, run, NULL), 0));
    while (atomic_load(&started) == 0)
        (void)sched_yield();
    flights[0]->late(flights[0]);
    refuse(0);
    atomic_store(&cancel, true);
    while (!atomic_load(&flights[1]->cancel))
        (void)sched_yield();
    end_cancelled();
    (void)pthread_join(thread, NULL);
    cr_assert(not(exchange_is_success(&x)));
    exchange_fini(&x);
}

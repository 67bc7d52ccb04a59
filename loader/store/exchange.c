/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/exchange.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "loader/store/listing.h"

enum { CANCEL_MS = 50 }; /* interval at which a waiting thread checks its cancel flag */

static struct exchange *of(struct transfer *t)
{
    return container_of(t, struct exchange, transfer);
}

static bool is_success(const struct store_answer *a)
{
    return a->status == 200 || a->status == 206;
}

static void on_header(struct transfer *t, const char *line, size_t len)
{
    answer_add_line(&of(t)->answer, line, len);
}

/* Append bytes to the body of an answer that is not a range. */
static bool keep_body(struct exchange *x, const uint8_t *bytes, size_t len)
{
    if (x->body_len + len > EXCHANGE_BODY_MAX) {
        x->code = error_set(&x->why, -EFBIG, "the server's answer is too long");
        return false;
    }
    if (array_reserve(&x->body, &x->body_cap, x->body_len + len + 1, 1) < 0) {
        x->code = error_set(&x->why, -ENOMEM, "out of memory");
        return false;
    }
    assert(x->body && x->body_len + len < x->body_cap);
    memcpy(x->body + x->body_len, bytes, len);
    x->body_len += len;
    x->body[x->body_len] = '\0';
    return true;
}

static int check(struct exchange *x)
{
    x->checked = true;
    if (x->code == 0)
        x->code = answer_check_range(&x->answer, x->want, &x->skip, &x->why);
    return x->code;
}

static bool on_body(struct transfer *t, const uint8_t *bytes, size_t len)
{
    struct exchange *x = of(t);
    uint64_t skipped, n;

    if (!x->want || !is_success(&x->answer))
        return keep_body(x, bytes, len);
    if (!x->checked && check(x) < 0)
        return false;
    if (!x->dst)
        return false;
    assert(x->got <= x->want->len);
    skipped = min_u64(x->skip, len);
    x->skip -= skipped;
    n = min_u64(len - skipped, x->want->len - x->got);
    memcpy(x->dst + x->got, bytes + skipped, n);
    x->got += n;
    if (skipped + n == len)
        return true;
    if (x->answer.has_range && x->code == 0)
        x->code = error_set(&x->why, -EPROTO, "the server sent more bytes than it announced");
    return false; /* the rest of a whole object is not needed */
}

/* Check a finished range request: if it received fewer bytes than requested, it fails. */
static void end_range(struct exchange *x, int code)
{
    if (x->code == 0 && !x->checked && code == 0)
        (void)check(x);
    if (x->code != 0 || !x->dst)
        return;
    if (x->got < x->want->len && (code == 0 || code == -ECANCELED))
        x->code = error_set(&x->why, -EPROTO, "the answer ended after %llu of %llu bytes",
                            (unsigned long long)x->got, (unsigned long long)x->want->len);
}

/* ---- the end ---- */

static void free_body(struct exchange *x)
{
    if (x->body)
        explicit_bzero(x->body, x->body_len); /* it may contain credentials */
    free(x->body);
    x->body = NULL;
    x->body_len = x->body_cap = 0;
}

/* Cancel a request. Returns whether the module's thread has to be woken. */
static bool cancel_one(struct exchange *x)
{
    return x && !atomic_exchange(&x->transfer.cancel, true);
}

/* Returns what the end of a request means for the bucket's window. A status counts even if the rest
 * of the answer did not arrive, or was cancelled because another request had won. */
static enum bucket_outcome outcome_of(const struct exchange *x)
{
    struct listing_error document;

    if (exchange_is_success(x))
        return BUCKET_SUCCESS;
    if (x->answer.status < 400)
        return BUCKET_FAILURE;
    listing_read_error(x->body ? x->body : "", x->body_len, &document);
    return answer_classify(&x->answer, document.code) == ANSWER_SLOW ? BUCKET_SLOW : BUCKET_FAILURE;
}

static void leave_bucket(const struct exchange *x)
{
    if (!x->bucket)
        return;
    bucket_leave(x->bucket, outcome_of(x));
    if (x->dst && exchange_is_success(x))
        bucket_note_time(x->bucket, x->want->len, time_now_ns() - x->transfer.begun_ns);
}

/* Use the answer to the second request. */
static void adopt(struct exchange *x, const struct exchange *again)
{
    free_body(x);
    memcpy(x->dst, again->dst, x->want->len);
    x->answer = again->answer;
    x->code = 0;
    x->got = x->want->len;
}

/* Handle the end of one of at most two requests. If it has succeeded, the other is cancelled, and
 * ends soon. */
static void end_one(struct exchange *x)
{
    struct exchange *first = x->first ? x->first : x, *again = atomic_load(&first->again);

    assert(first->flying > 0);
    first->flying--;
    if (first->flying == 0) {
        if (again && !exchange_is_success(first) && exchange_is_success(again))
            adopt(first, again);
        else if (again)
            first->answer.retry_after_s =
                max_u64(first->answer.retry_after_s, again->answer.retry_after_s);
        first->ended(first);
    } else if (exchange_is_success(x) && cancel_one(x == first ? again : first)) {
        store_backend_get(NULL)->wake();
    }
}

static void on_done(struct transfer *t, int code, const char *why)
{
    struct exchange *x = of(t);
    bool cancelled = atomic_load(&t->cancel);
    bool has_all = x->want && x->dst && x->checked && x->code == 0 && x->got == x->want->len;
    bool stopped = code == -ECANCELED && !cancelled && x->checked; /* on_body() stopped it */

    if (x->code == 0 && code < 0 && !stopped && !(has_all && code == -ECANCELED))
        x->code = error_set(&x->why, code, "%s", why);
    if (x->want && is_success(&x->answer))
        end_range(x, code);
    leave_bucket(x);
    end_one(x);
}

/* ---- the beginning ---- */

static int start_one(struct exchange *x, struct plenum_error *err)
{
    const struct store_backend *backend = store_backend_get(err);
    int r;

    assert(x->transfer.url && x->transfer.method && x->transfer.headers);
    assert(!x->body && x->got == 0 && x->code == 0);
    if (!backend)
        return -ENOTSUP;
    x->transfer.header = on_header;
    x->transfer.body = on_body;
    x->transfer.done = on_done;
    r = backend->start(&x->transfer);
    return r < 0 ? error_set(err, r, "cannot start a request: %s", strerror(-r)) : 0;
}

/* Copy a request. The copy has its own memory for the answer, because both requests may be
 * receiving at once. */
static struct exchange *copy_request(struct exchange *x)
{
    struct exchange *again = malloc(sizeof(*again) + x->want->len);

    if (again)
        *again = (struct exchange){.transfer = {.method = x->transfer.method,
                                                .url = x->transfer.url,
                                                .headers = x->transfer.headers,
                                                .connect_ns = x->transfer.connect_ns,
                                                .stall_ns = x->transfer.stall_ns,
                                                .any_address = x->transfer.any_address},
                                   .want = x->want,
                                   .dst = (uint8_t *)(again + 1),
                                   .bucket = x->bucket,
                                   .first = x};
    return again;
}

/* Repeat a late request. Runs in the module's thread. */
static void on_late(struct transfer *t)
{
    struct exchange *x = of(t), *again;

    assert(x->flying == 1 && !atomic_load(&x->again));
    if (!bucket_try_hedge(x->bucket))
        return;
    x->repeated = x->may_repeat(x);
    again = x->repeated ? copy_request(x) : NULL;
    atomic_store(&x->again, again);
    if (again && start_one(again, NULL) == 0)
        x->flying++;
    else
        bucket_leave(x->bucket, BUCKET_FAILURE);
}

int exchange_start(struct exchange *x, struct plenum_error *err)
{
    assert(x->ended && (!x->may_repeat || (x->bucket && x->dst)));
    x->transfer.late = on_late;
    x->transfer.late_ns = x->may_repeat ? bucket_late_ns(x->bucket, x->want->len) : 0;
    x->flying = 1;
    return start_one(x, err);
}

/* A thread that waits for an exchange. */
struct exchange_waiter {
    struct lock mu;
    pthread_cond_t cond;
    bool ended; /* protected by mu */
};

static void tell_waiter(struct exchange *x)
{
    struct exchange_waiter *w = x->waiter;

    lock_acquire(&w->mu);
    w->ended = true;
    (void)pthread_cond_signal(&w->cond);
    lock_release(&w->mu);
}

void exchange_run(struct exchange *x, const atomic_bool *cancel)
{
    struct exchange_waiter w = {.mu = LOCK_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct plenum_error why;
    bool cancelled;
    int r;

    x->waiter = &w;
    x->ended = tell_waiter;
    r = exchange_start(x, &why);
    if (r < 0) { /* otherwise it may already have ended */
        x->code = r;
        x->why = why;
        if (x->bucket)
            bucket_leave(x->bucket, BUCKET_FAILURE);
        return;
    }
    lock_acquire(&w.mu);
    while (!w.ended) {
        uint64_t until = cancel ? time_now_ns() + CANCEL_MS * NS_PER_MS : UINT64_MAX;

        (void)lock_wait_until(&w.mu, &w.cond, until);
        if (!cancel || !atomic_load(cancel))
            continue;
        cancelled = cancel_one(x);
        if (cancel_one(atomic_load(&x->again)) || cancelled)
            store_backend_get(NULL)->wake();
    }
    lock_release(&w.mu);
    lock_fini(&w.mu);
}

bool exchange_is_success(const struct exchange *x)
{
    return x->code == 0 && is_success(&x->answer);
}

void exchange_fini(struct exchange *x)
{
    struct exchange *again = atomic_exchange(&x->again, NULL);

    free_body(x);
    if (again)
        free_body(again);
    free(again);
}

/* SPDX-License-Identifier: MIT */
/* bucket.c - keeps the state of each bucket or server.
 *
 * The number of requests in flight is limited by a window, as in TCP. The window grows by one with
 * each success until the server first asks for fewer requests (503, 429), and after that by one
 * with each window of successes. When the server asks, the window shrinks to 0.7 of its size, at
 * most once in 100 ms. */
#include "config.h"

#include "loader/store/bucket.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "loader/store/hedge.h"
#include "loader/store/hugging_face.h"
#include "loader/store/sigv4.h"

enum {
    WINDOW_FIRST = 16, /* which also limits simultaneous handshakes */
    WINDOW_MIN = 4,
    WINDOW_MAX = 256,
    SHRINK_MS = 100,
    CANCEL_MS = 50,
    TOKENS_FIRST = 10,
    TOKENS_MAX = 100,
    TOKENS_A_SUCCESS = 10, /* number of successes that earn the token for one retry */
    BACKOFF_MS = 50,
    BACKOFF_POOR = 4, /* without a token, a pause is this many times as long */
    BACKOFF_MAX_S = 20,
    DOUBLINGS_MAX = 16,
    SKEW_MIN_S = 30,
    /* Late requests are not repeated for this long after the server asked for fewer requests. */
    CALM_S = 10,
};

struct bucket {
    struct bucket *next; /* constant, like the next two fields */
    enum dataname_scheme scheme;
    char *host;
    struct lock mu;
    /* Protected by mu. */
    pthread_cond_t room;
    struct endpoint endpoint;
    int64_t skew_s; /* the server's clock minus ours */
    double window;
    bool was_slow;
    unsigned in_flight, waiting;
    uint64_t shrunk_ns;
    uint64_t tenths; /* tokens for retries, in tenths */
    struct hedge hedge;
};

static struct lock registry_mu = LOCK_INITIALIZER;
static struct bucket *registry; /* protected by registry_mu */

/* ---- time limits ---- */

static struct bucket_times times;
static pthread_once_t times_once = PTHREAD_ONCE_INIT;

static uint64_t duration_of(const char *name, uint64_t absent_ns)
{
    const char *text = aws_variable(name);
    uint64_t ns;

    return text && parse_duration(text, &ns) == 0 && ns > 0 ? ns : absent_ns;
}

static void read_times(void)
{
    times.stall_ns = duration_of("PLENUM_STORE_TIMEOUT", 10 * NS_PER_SEC);
    times.connect_ns = times.stall_ns;
    times.give_up_ns = duration_of("PLENUM_STORE_RETRY", 120 * NS_PER_SEC);
}

const struct bucket_times *bucket_times(void)
{
    (void)pthread_once(&times_once, read_times);
    return &times;
}

/* ---- the registry ---- */

static int set_endpoint(struct bucket *b, struct plenum_error *err)
{
    struct aws_config config = {.found = false};
    int r;

    if (b->scheme != DATANAME_S3) {
        (void)snprintf(b->endpoint.scheme, sizeof(b->endpoint.scheme), "%s",
                       b->scheme == DATANAME_HTTPS ? "https" : "http");
        r = snprintf(b->endpoint.host, sizeof(b->endpoint.host), "%s", b->host);
        return r < (int)sizeof(b->endpoint.host)
                   ? 0
                   : error_set(err, -EINVAL, "the name of the host is too long");
    }
    r = aws_config_read(&config, err);
    if (r == 0)
        r = endpoint_find(b->host, &config, &b->endpoint, err);
    aws_config_fini(&config);
    return r;
}

/* Add a bucket. Call it with registry_mu held. */
static int add(const struct store_place *place, struct bucket **ret, struct plenum_error *err)
{
    struct bucket *b = calloc(1, sizeof(*b));
    int r;

    assert(lock_is_held(&registry_mu));
    if (b)
        b->host = strdup(place->host);
    if (!b || !b->host) {
        free(b);
        return error_set(err, -ENOMEM, "out of memory");
    }
    b->scheme = place->scheme;
    b->window = WINDOW_FIRST;
    b->tenths = TOKENS_FIRST * TOKENS_A_SUCCESS;
    lock_init(&b->mu);
    (void)pthread_cond_init(&b->room, NULL);
    r = set_endpoint(b, err);
    if (r < 0) {
        lock_fini(&b->mu);
        free(b->host);
        free(b);
        return r;
    }
    b->next = registry;
    registry = b;
    *ret = b;
    return 0;
}

int bucket_get(const struct store_place *place, struct bucket **ret, struct plenum_error *err)
{
    struct bucket *b;
    int r = 0;

    lock_acquire(&registry_mu);
    for (b = registry; b; b = b->next)
        if (b->scheme == place->scheme && strcmp(b->host, place->host) == 0)
            break;
    if (b)
        *ret = b;
    else
        r = add(place, ret, err);
    lock_release(&registry_mu);
    return r;
}

bool bucket_is_s3(const struct bucket *b)
{
    return b->scheme == DATANAME_S3;
}

void bucket_get_endpoint(struct bucket *b, struct endpoint *ret)
{
    lock_acquire(&b->mu);
    *ret = b->endpoint;
    lock_release(&b->mu);
}

bool bucket_move(struct bucket *b, const char *region)
{
    bool moves = *region && !region[strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-")];

    lock_acquire(&b->mu);
    moves = moves && strcmp(b->endpoint.region, region) != 0;
    if (moves && b->endpoint.is_aws)
        endpoint_of_aws(b->host, region, &b->endpoint);
    else if (moves)
        (void)snprintf(b->endpoint.region, sizeof(b->endpoint.region), "%s", region);
    lock_release(&b->mu);
    return moves;
}

bool bucket_set_clock(struct bucket *b, uint64_t server_s)
{
    int64_t skew = (int64_t)server_s - (int64_t)(time_clock_ns(CLOCK_REALTIME) / NS_PER_SEC);
    bool changes = false;

    if (server_s == 0)
        return false;
    lock_acquire(&b->mu);
    changes = skew > b->skew_s + SKEW_MIN_S || skew < b->skew_s - SKEW_MIN_S;
    if (changes)
        b->skew_s = skew;
    lock_release(&b->mu);
    return changes;
}

/* ---- the window ---- */

int bucket_enter(struct bucket *b, const atomic_bool *cancel)
{
    int r = 0;

    lock_acquire(&b->mu);
    b->waiting++;
    while (b->in_flight >= (unsigned)b->window && r == 0) {
        (void)lock_wait_until(&b->mu, &b->room,
                              cancel ? time_now_ns() + CANCEL_MS * NS_PER_MS : UINT64_MAX);
        if (cancel && atomic_load(cancel))
            r = -ECANCELED;
    }
    b->waiting--;
    if (r == 0)
        b->in_flight++;
    lock_release(&b->mu);
    return r;
}

bool bucket_try_enter(struct bucket *b)
{
    bool may;

    lock_acquire(&b->mu);
    may = b->waiting == 0 && b->in_flight < (unsigned)b->window;
    if (may)
        b->in_flight++;
    lock_release(&b->mu);
    return may;
}

/* Reduce the window, because the server asks for fewer requests. Call it with b->mu held. */
static void shrink(struct bucket *b)
{
    uint64_t now = time_now_ns();

    assert(lock_is_held(&b->mu));
    if (now - b->shrunk_ns < SHRINK_MS * NS_PER_MS)
        return;
    b->shrunk_ns = now;
    b->was_slow = true;
    b->window = b->window * 7 / 10 < WINDOW_MIN ? WINDOW_MIN : b->window * 7 / 10;
}

void bucket_leave(struct bucket *b, enum bucket_outcome outcome)
{
    lock_acquire(&b->mu);
    assert(b->in_flight > 0 && b->window >= WINDOW_MIN);
    b->in_flight--;
    if (outcome == BUCKET_SUCCESS) {
        b->window += b->was_slow ? 1 / b->window : 1;
        if (b->window > WINDOW_MAX)
            b->window = WINDOW_MAX;
        b->tenths = min_u64(b->tenths + 1, TOKENS_MAX * TOKENS_A_SUCCESS);
    } else if (outcome == BUCKET_SLOW) {
        shrink(b);
    }
    (void)pthread_cond_broadcast(&b->room);
    lock_release(&b->mu);
}

uint64_t bucket_late_ns(struct bucket *b, uint64_t len)
{
    uint64_t ns;

    lock_acquire(&b->mu);
    ns = hedge_late_ns(&b->hedge, len);
    lock_release(&b->mu);
    return ns;
}

void bucket_note_time(struct bucket *b, uint64_t len, uint64_t ns)
{
    lock_acquire(&b->mu);
    hedge_note(&b->hedge, len, ns);
    lock_release(&b->mu);
}

bool bucket_try_hedge(struct bucket *b)
{
    bool may;

    lock_acquire(&b->mu);
    may = b->waiting == 0 && b->in_flight < (unsigned)b->window &&
          (b->shrunk_ns == 0 || time_now_ns() - b->shrunk_ns > CALM_S * NS_PER_SEC) &&
          hedge_take(&b->hedge);
    if (may)
        b->in_flight++;
    lock_release(&b->mu);
    return may;
}

uint64_t bucket_backoff_ns(struct bucket *b, unsigned tries)
{
    uint64_t most = BACKOFF_MS * NS_PER_MS, random = 0;
    bool is_poor;

    assert(tries > 0);
    lock_acquire(&b->mu);
    is_poor = b->tenths < TOKENS_A_SUCCESS;
    if (!is_poor)
        b->tenths -= TOKENS_A_SUCCESS;
    lock_release(&b->mu);
    most <<= min_u64(tries, DOUBLINGS_MAX);
    if (is_poor)
        most *= BACKOFF_POOR;
    most = min_u64(most, min_u64(BACKOFF_MAX_S * NS_PER_SEC, bucket_times()->give_up_ns / 10));
    (void)random_bytes(&random, sizeof(random));
    return most ? random % most : 0;
}

/* ---- requests ---- */

void bucket_request_fini(struct bucket_request *request)
{
    for (unsigned i = 0; i < request->num_headers; i++)
        aws_wipe((char *)(uintptr_t)request->headers[i]);
    aws_wipe(request->url); /* a signed URL is a secret, too */
    credentials_unref(request->credentials);
    *request = (struct bucket_request){.url = NULL};
}

/* Add a header, and take ownership of it. NULL means that there was no memory for it. */
static int add_header(struct bucket_request *r, char *header)
{
    assert(r->num_headers + 1 < ARRAY_LEN(r->headers));
    if (!header)
        return -ENOMEM;
    r->headers[r->num_headers++] = header;
    return 0;
}

static int add_range(struct bucket_request *r, const struct wanted_range *want)
{
    int code = add_header(r, strdup("Accept-Encoding: identity"));

    assert(!want || (want->len > 0 && want->offset <= UINT64_MAX - want->len));
    if (code == 0 && want)
        code = add_header(r, str_format("Range: bytes=%llu-%llu", (unsigned long long)want->offset,
                                        (unsigned long long)(want->offset + want->len - 1)));
    if (code == 0 && want && want->facts && want->facts->etag[0] && want->facts->etag[0] != 'W')
        code = add_header(r, str_format("If-Match: \"%s\"", want->facts->etag));
    return code;
}

/* Add the headers of a signature. */
static int add_signature(struct bucket_request *r, const struct endpoint *e, const char *path,
                         const struct bucket_query *query, int64_t skew_s)
{
    const struct store_backend *backend = store_backend_get(NULL);
    const struct credentials *c = r->credentials;
    char payload[2 * STORE_HASH_BYTES + 1] =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"; /* of no bytes */
    char date[SIGV4_DATE_BYTES];
    const struct sigv4_header headers[] = {{"host", e->host},
                                           {"x-amz-content-sha256", payload},
                                           {"x-amz-date", date},
                                           {"x-amz-security-token", c->token}};
    struct sigv4_request request = {.method = query->upload ? "PUT" : "GET",
                                    .path = path,
                                    .query = query->query,
                                    .headers = headers,
                                    .num_headers = c->token[0] ? 4 : 3,
                                    .payload_hash = payload,
                                    .region = e->region,
                                    .service = "s3",
                                    .key_id = c->key_id,
                                    .secret = c->secret,
                                    .date = date};
    char *authorization;
    int code;

    sigv4_date((time_t)((int64_t)(time_clock_ns(CLOCK_REALTIME) / NS_PER_SEC) + skew_s), date);
    assert(!c->anonymous);
    if (query->upload)
        sigv4_hash(backend, query->upload, query->upload_len, payload);
    authorization = sigv4_authorization(backend, &request);
    if (!authorization)
        return -ENOMEM;
    code = add_header(r, str_format("Authorization: %s", authorization));
    free(authorization);
    if (code == 0)
        code = add_header(r, str_format("x-amz-date: %s", date));
    if (code == 0)
        code = add_header(r, str_format("x-amz-content-sha256: %s", payload));
    if (code == 0 && c->token[0])
        code = add_header(r, str_format("x-amz-security-token: %s", c->token));
    return code;
}

static int get_credentials(const struct bucket_query *query, const struct credentials **ret,
                           struct plenum_error *err)
{
    if (!store_backend_get(err))
        return -ENOTSUP;
    if (!query->at_once)
        return credentials_get(query->bad, ret, err);
    *ret = credentials_get_current();
    return *ret ? 0 : -EAGAIN; /* the thread that reads the range waits for credentials */
}

int bucket_sign(struct bucket *b, const struct bucket_query *query, struct bucket_request *ret,
                struct plenum_error *err)
{
    struct bucket_request request = {.url = NULL};
    char *key = place_encode(query->key, false), *path = NULL;
    struct endpoint e;
    int64_t skew;
    int r = -ENOMEM;

    lock_acquire(&b->mu);
    e = b->endpoint;
    skew = b->skew_s;
    lock_release(&b->mu);
    if (key)
        path = str_format("%s/%s", e.path, key);
    if (path)
        request.url = str_format("%s://%s%s%s%s", e.scheme, e.host, path, *query->query ? "?" : "",
                                 query->query);
    if (request.url)
        r = add_range(&request, query->want);
    request.any_address = (b->scheme == DATANAME_S3 && !e.is_aws) || place_is_literal(e.host);
    if (r == 0 && b->scheme == DATANAME_S3) {
        r = get_credentials(query, &request.credentials, err);
        if (r < 0)
            goto out;
        if (!request.credentials->anonymous)
            r = add_signature(&request, &e, path, query, skew);
    } else if (r == 0 && b->scheme == DATANAME_HTTPS) {
        char *token = hugging_face_header(e.host);

        r = token ? add_header(&request, token) : 0;
    }
    if (r < 0)
        (void)error_set(err, r, "out of memory");

out:
    free(key);
    free(path);
    if (r < 0)
        bucket_request_fini(&request);
    else
        *ret = request;
    return r;
}

int bucket_request_url(const char *url, const struct wanted_range *want, struct bucket_request *ret,
                       struct plenum_error *err)
{
    struct bucket_request request = {.url = strdup(url)};
    const char *host = strstr(url, "://");
    int r = request.url ? add_range(&request, want) : -ENOMEM;

    assert(host);
    request.any_address = place_is_literal(host + 3);
    if (r < 0) {
        bucket_request_fini(&request);
        return error_set(err, r, "out of memory");
    }
    *ret = request;
    return 0;
}

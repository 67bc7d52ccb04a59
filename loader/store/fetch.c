/* SPDX-License-Identifier: MIT */
/* fetch.c - decides after each try whether, when and how to try again.
 *
 * A truncated body, a wrong range or a wrong length counts as a failed try, like a reset
 * connection: none of its bytes are used. */
#include "config.h"

#include "loader/store/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/store/listing.h"

enum {
    TRIES_MIN = 10,
    REDIRECTS_MAX = 3,
    MOVED_S = 240, /* a redirection is reused for this long; signed URLs last longer */
    NAP_MS = 50,
};

bool store_policy_allows(const struct store_policy *policy, const char *name)
{
    if (policy->anything)
        return true;
    for (unsigned i = 0; i < policy->count; i++) {
        size_t len = strlen(policy->prefixes[i]);

        if (strncmp(name, policy->prefixes[i], len) == 0 && (name[len] == '/' || name[len] == '\0'))
            return true;
    }
    return false;
}

/* ---- the state of a fetch ---- */

struct fetching {
    struct fetch *fetch;
    struct plenum_error *err;
    uint64_t begin_ns;
    unsigned tries, redirects, failures; /* failures: tries that did not succeed */
    bool moved_region, moved_clock, refreshed;
    char *url;                     /* the URL after a redirection, or NULL */
    bool was_moved_before;         /* `url` is from an earlier fetch */
    const struct credentials *bad; /* credentials that have expired */
    struct listing_error document;
};

enum next_step { FETCH_DONE, FETCH_AGAIN, FETCH_AT_ONCE };

static int sleep_for(uint64_t ns, const atomic_bool *cancel)
{
    uint64_t end = time_now_ns() + ns, now;

    while ((now = time_now_ns()) < end) {
        struct timespec pause = {.tv_nsec = (long)min_u64(end - now, NAP_MS * NS_PER_MS)};

        if (cancel && atomic_load(cancel))
            return -ECANCELED;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

/* ---- messages ---- */

/* Describe an answer ("the server answered 403 AccessDenied (request 4442)"), or why there was
 * none. */
static const char *describe(const struct fetching *f, const struct exchange *x, char *ret,
                            size_t size)
{
    const char *id = x->answer.request_id[0] ? x->answer.request_id : f->document.request_id;
    int n;

    if (x->code < 0) {
        (void)snprintf(ret, size, "%s", x->why.text);
        return ret;
    }
    n = snprintf(ret, size, "the server answered %u", x->answer.status);
    if (f->document.code[0])
        n += snprintf(ret + n, size - (size_t)n, " %s", f->document.code);
    if (*id)
        (void)snprintf(ret + n, size - (size_t)n, " (request %s)", id);
    return ret;
}

/* Returns advice about an answer that forbids access. */
static const char *remedy(const struct fetching *f, const struct bucket_request *request, char *ret,
                          size_t size)
{
    const char *source = request->credentials ? request->credentials->source : "";
    const char *code = f->document.code;

    if (!bucket_is_s3(f->fetch->bucket))
        return "it does not allow this host to read the file (a private one of the Hugging Face "
               "Hub needs HF_TOKEN)";
    if (strcmp(code, "InvalidObjectState") == 0)
        return "the object is archived: restore it first";
    if (strcmp(code, "SignatureDoesNotMatch") == 0)
        (void)snprintf(ret, size, "the secret key does not belong to the access key (%s)", source);
    else if (strcmp(code, "InvalidAccessKeyId") == 0)
        (void)snprintf(ret, size, "the store does not know the access key (%s)", source);
    else if (request->credentials && request->credentials->anonymous)
        (void)snprintf(ret, size,
                       "it is not public: set credentials instead of AWS_NO_SIGN_REQUEST");
    else
        (void)snprintf(ret, size, "the credentials (%s) do not allow %s it: use others", source,
                       f->fetch->upload ? "writing" : "reading");
    return ret;
}

static int give_up(const struct fetching *f, const struct exchange *x)
{
    char what[512];

    return error_set(f->err, -EREMOTEIO, "%s: no success in %u tries; the last: %s", f->fetch->name,
                     f->tries, describe(f, x, what, sizeof(what)));
}

static int has_changed(const struct fetching *f, const char *what)
{
    return error_set(f->err, -ESTALE,
                     "%s has changed since the data set was indexed: start the job again, or put "
                     "the object back%s%s%s",
                     f->fetch->name, *what ? " (" : "", what, *what ? ")" : "");
}

static int fail_finally(const struct fetching *f, const struct exchange *x,
                        const struct bucket_request *request, enum answer_class class)
{
    char what[512], why[300];
    const char *name = f->fetch->name;
    struct endpoint e;

    bucket_get_endpoint(f->fetch->bucket, &e);
    (void)describe(f, x, what, sizeof(what));
    switch (class) {
    case ANSWER_ABSENT:
        return error_set(f->err, -ENOENT, "%s: there is no such %s at %s: %s", name,
                         strcmp(f->document.code, "NoSuchBucket") == 0 ? "bucket" : "object",
                         e.host, what);
    case ANSWER_CHANGED:
        if (f->fetch->want && !f->fetch->want->facts && x->answer.status == 416)
            return error_set(f->err, -ERANGE, "%s: it is empty", name);
        return has_changed(f, what);
    case ANSWER_REFUSED:
        return error_set(f->err, -EACCES, "%s: %s: %s", name, what,
                         remedy(f, request, why, sizeof(why)));
    case ANSWER_REFRESH:
        return error_set(f->err, -EACCES, "%s: %s: the credentials (%s) have expired: renew them",
                         name, what, request->credentials ? request->credentials->source : "");
    case ANSWER_CLOCK:
        return error_set(f->err, -EACCES, "%s: %s: set the clock of this host", name, what);
    default:
        return error_set(f->err, -EINVAL, "%s: %s%s%s", name, what,
                         f->document.message[0] ? ": " : "", f->document.message);
    }
}

/* Returns the final error of a try without a usable answer, or 0 to try again. */
static int fail_code(const struct fetching *f, const struct exchange *x)
{
    const char *name = f->fetch->name;

    switch (x->code) {
    case -ECANCELED:
    case -ENOMEM:
    case -EOPNOTSUPP: /* also -ENOTSUP */
    case -EFBIG:
        return error_set(f->err, x->code, "%s: %s", name, x->why.text);
    case -ESTALE:
        return has_changed(f, "");
    case -EKEYREJECTED:
        return error_set(f->err, x->code,
                         "%s: the server's certificate is not valid: %s; AWS_CA_BUNDLE or "
                         "SSL_CERT_FILE can name a file with its authority",
                         name, x->why.text);
    case -EPERM:
        return error_set(f->err, -EACCES,
                         "%s: its host resolves to a loopback or link-local address, which is "
                         "only allowed if the name contains the address itself",
                         name);
    default:
        return 0;
    }
}

/* ---- redirections ---- */

char *fetch_moved_url(struct fetch_moved *moved)
{
    char *url = NULL;

    if (!moved)
        return NULL;
    lock_acquire(&moved->mu);
    if (moved->url && time_now_ns() < moved->until_ns)
        url = strdup(moved->url);
    lock_release(&moved->mu);
    return url;
}

static void set_moved(struct fetch_moved *moved, const char *url)
{
    if (!moved)
        return;
    lock_acquire(&moved->mu);
    aws_wipe(moved->url);
    moved->url = url ? strdup(url) : NULL;
    moved->until_ns = time_now_ns() + MOVED_S * NS_PER_SEC;
    lock_release(&moved->mu);
}

/* Returns the absolute URL of a Location (malloc), or NULL when out of memory. */
static char *absolute(const char *location, const char *from)
{
    const char *host = strstr(from, "://");
    size_t root = host ? (size_t)(host - from) + 3 : 0;

    if (*location != '/')
        return strdup(location);
    root += strcspn(from + root, "/");
    return str_format("%.*s%s", (int)root, from, location);
}

/* Check where a redirection leads to. Returns 0, or -errno with err set. */
static int check_location(const struct fetching *f, const char *url, const char *from)
{
    char *plain = strndup(url, strcspn(url, "?#")), *name = NULL;
    int r = plain ? place_canonical(plain, &name, f->err) : -ENOMEM;

    free(plain);
    if (r < 0)
        return error_set(f->err, r, "%s: the server redirects to an invalid URL", f->fetch->name);
    if (strncmp(name, "s3://", 5) == 0 ||
        (strncmp(name, "http://", 7) == 0 && strncmp(from, "https://", 8) == 0))
        r = error_set(f->err, -EACCES, "%s: the server redirects from https:// to %s",
                      f->fetch->name, name);
    else if (!store_policy_allows(f->fetch->policy, name))
        r = error_set(f->err, -EACCES,
                      "%s: the server redirects to %s, which is not below a --root of this loader",
                      f->fetch->name, name);
    free(name);
    return r;
}

static int follow(struct fetching *f, const struct exchange *x)
{
    char *url;
    int r;

    if (bucket_is_s3(f->fetch->bucket)) /* another address would need another signature */
        return error_set(f->err, -EINVAL,
                         "%s: the server answered %u: the bucket is at another endpoint, which "
                         "AWS_ENDPOINT_URL or AWS_REGION must name",
                         f->fetch->name, x->answer.status);
    url = absolute(x->answer.location, x->transfer.url);
    r = url ? 0 : error_set(f->err, -ENOMEM, "out of memory");
    if (r == 0 && (!*x->answer.location || f->redirects++ == REDIRECTS_MAX))
        r = error_set(f->err, -ELOOP, "%s: the server redirects too often, or to nowhere",
                      f->fetch->name);
    if (r == 0)
        r = check_location(f, url, x->transfer.url);
    if (r < 0) {
        aws_wipe(url);
        return r;
    }
    assert(url != f->url);
    aws_wipe(f->url);
    f->url = url;
    f->was_moved_before = false;
    return 0;
}

/* ---- one try ---- */

/* Drop the redirection of an earlier fetch, which may have expired. Returns whether there was
 * one. */
static bool forget_moved(struct fetching *f)
{
    if (!f->was_moved_before)
        return false;
    assert(f->url && f->fetch->moved);
    aws_wipe(f->url);
    f->url = NULL;
    f->was_moved_before = false;
    set_moved(f->fetch->moved, NULL);
    return true;
}

/* Decide what to do after an answer that is not a success. Returns 0 with the next step, or -errno
 * with err set. */
static int judge(struct fetching *f, const struct exchange *x, const struct bucket_request *request,
                 enum next_step *next)
{
    enum answer_class class = answer_classify(&x->answer, f->document.code);
    const char *region = x->answer.region[0] ? x->answer.region : f->document.region;

    *next = FETCH_AT_ONCE;
    switch (class) {
    case ANSWER_RETRY:
    case ANSWER_SLOW:
        *next = FETCH_AGAIN;
        return 0;
    case ANSWER_MOVED:
        return follow(f, x);
    case ANSWER_REFRESH:
        if (f->refreshed || !request->credentials)
            break;
        f->refreshed = true;
        f->bad = request->credentials;
        return 0;
    case ANSWER_CLOCK:
        if (f->moved_clock || !bucket_set_clock(f->fetch->bucket, x->answer.date_s))
            break;
        f->moved_clock = true;
        return 0;
    case ANSWER_REGION:
        if (f->moved_region || !bucket_move(f->fetch->bucket, region))
            break;
        f->moved_region = true;
        return 0;
    default:
        if (forget_moved(f))
            return 0;
        break;
    }
    return fail_finally(f, x, request, class);
}

static int sign(struct fetching *f, struct bucket_request *request)
{
    const struct fetch *fetch = f->fetch;
    struct bucket_query query = {.key = fetch->key,
                                 .query = fetch->query,
                                 .want = fetch->want,
                                 .bad = f->bad,
                                 .upload = fetch->upload,
                                 .upload_len = fetch->upload_len};
    int r;

    if (f->url)
        return bucket_request_url(f->url, fetch->want, request, f->err);
    r = bucket_sign(fetch->bucket, &query, request, f->err);
    return r < 0 ? error_prefix(f->err, r, "%s", fetch->name) : 0;
}

/* Use a finished exchange. Returns 0 with the next step, or -errno with err set. */
static int use(struct fetching *f, struct exchange *x, const struct bucket_request *request,
               enum next_step *next)
{
    assert(!f->fetch->body);
    f->fetch->answer = x->answer;
    *next = FETCH_AGAIN;
    if (exchange_is_success(x)) {
        *next = FETCH_DONE;
        f->fetch->body = x->body;
        f->fetch->body_len = x->body_len;
        x->body = NULL;
        if (f->url && !f->was_moved_before)
            set_moved(f->fetch->moved, f->url);
        return 0;
    }
    f->failures++;
    if (x->code < 0)
        return fail_code(f, x);
    listing_read_error(x->body ? x->body : "", x->body_len, &f->document);
    return judge(f, x, request, next);
}

/* Wait before the next try, or give up. */
static int wait_for_next(struct fetching *f, const struct exchange *x)
{
    uint64_t pause;

    assert(f->tries > 0);
    if (f->tries >= TRIES_MIN && time_now_ns() - f->begin_ns >= bucket_times()->give_up_ns)
        return give_up(f, x);
    pause = bucket_backoff_ns(f->fetch->bucket, f->tries);
    pause = max_u64(pause,
                    min_u64(x->answer.retry_after_s * NS_PER_SEC, bucket_times()->give_up_ns / 2));
    return sleep_for(pause, f->fetch->policy->cancel);
}

static bool always(struct exchange *x)
{
    (void)x;
    return true;
}

static int try_once(struct fetching *f, enum next_step *next)
{
    struct fetch *fetch = f->fetch;
    struct bucket_request request = {.url = NULL};
    struct exchange x = {.want = fetch->want,
                         .dst = fetch->dst,
                         .bucket = fetch->bucket,
                         .may_repeat = fetch->dst ? always : NULL};
    int r = sign(f, &request);

    if (r < 0)
        return r;
    r = bucket_enter(fetch->bucket, fetch->policy->cancel);
    if (r < 0)
        goto out;
    x.transfer = (struct transfer){.method = fetch->upload ? "PUT" : "GET",
                                   .upload = fetch->upload,
                                   .upload_len = fetch->upload_len,
                                   .url = request.url,
                                   .headers = request.headers,
                                   .connect_ns = bucket_times()->connect_ns,
                                   .stall_ns = bucket_times()->stall_ns,
                                   .any_address = request.any_address};
    f->tries++;
    f->document = (struct listing_error){.code = ""};
    exchange_run(&x, fetch->policy->cancel);
    r = use(f, &x, &request, next);
    if (r == 0 && *next == FETCH_AGAIN)
        r = wait_for_next(f, &x);

out:
    if (f->bad && f->bad == request.credentials)
        request.credentials = NULL; /* fetch_run() releases them */
    exchange_fini(&x);
    bucket_request_fini(&request);
    return r;
}

int fetch_run(struct fetch *fetch, struct plenum_error *err)
{
    struct plenum_error ignored;
    struct fetching f = {.fetch = fetch, .err = err ? err : &ignored, .begin_ns = time_now_ns()};
    enum next_step next = FETCH_AGAIN;
    int r = 0;

    assert(fetch->bucket && fetch->policy && fetch->name && fetch->key && fetch->query);
    assert(!fetch->want || fetch->want->len > 0);
    assert(!fetch->dst || fetch->want);
    f.url = fetch_moved_url(fetch->moved);
    f.was_moved_before = f.url != NULL;
    while (r == 0 && next != FETCH_DONE)
        r = try_once(&f, &next);
    if (r == -ECANCELED)
        (void)error_set(err, r, "%s: it was cancelled", fetch->name);
    credentials_unref(f.bad);
    aws_wipe(f.url);
    return r;
}

void fetch_fini(struct fetch *fetch)
{
    free(fetch->body);
    fetch->body = NULL;
}

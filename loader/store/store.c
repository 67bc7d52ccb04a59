/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/cache/sample_cache.h"
#include "loader/store/ahead.h"

enum { EMPTY_PAGES_MAX = 1000 };

struct store_object {
    struct bucket *bucket;
    struct store_place place;
    char *name;
    struct object_facts facts;
    uint64_t id;
    struct keep_key key; /* for the cache of samples */
    uint64_t set;        /* KEEP_NO_SET: not cached */
    const void *owner;
    const struct store_policy *policy;
    struct fetch_moved moved; /* has its own lock */
};

/* A parsed name that the policy allows. */
struct opened_place {
    struct store_place place;
    char *name;
    struct bucket *bucket;
};

static void opened_fini(struct opened_place *p)
{
    place_fini(&p->place);
    free(p->name);
}

static int open_place(const char *name, const struct store_policy *policy, struct opened_place *ret,
                      struct plenum_error *err)
{
    struct opened_place p = {.name = NULL};
    int r = place_parse(name, &p.place, err);

    if (r < 0)
        return r;
    p.name = place_name(&p.place);
    if (!p.name)
        r = error_set(err, -ENOMEM, "out of memory");
    else if (!store_policy_allows(policy, p.name))
        r = error_set(err, -EACCES, "%s is not below a --root of this loader", p.name);
    else if (!store_backend_get(err))
        r = error_prefix(err, -ENOTSUP, "%s", p.name);
    else if (bucket_get(&p.place, &p.bucket, err) < 0)
        r = error_prefix(err, -EINVAL, "%s", p.name);
    if (r < 0)
        opened_fini(&p);
    else
        *ret = p;
    return r;
}

static uint64_t total_of(const struct store_answer *a)
{
    return a->has_range || a->has_total ? a->total : a->length;
}

int store_stat(const char *name, const struct store_policy *policy, struct object_facts *ret,
               struct plenum_error *err)
{
    struct wanted_range first = {.len = 1};
    struct opened_place p;
    struct fetch fetch;
    int r = open_place(name, policy, &p, err);

    if (r < 0)
        return r;
    fetch = (struct fetch){.bucket = p.bucket,
                           .name = p.name,
                           .key = p.place.key,
                           .query = "",
                           .want = &first,
                           .policy = policy};
    /* This is not a HEAD request, because servers often forbid HEAD where they allow GET. */
    r = fetch_run(&fetch, err);
    if (r == 0 && (fetch.answer.has_range ? fetch.answer.has_total : fetch.answer.has_length)) {
        *ret = fetch.answer.facts;
        ret->size = total_of(&fetch.answer);
        object_judge_time(ret, fetch.answer.date_s);
    } else if (r == -ERANGE) {
        *ret = fetch.answer.facts;
        ret->size = 0;
        object_judge_time(ret, fetch.answer.date_s);
        r = 0;
    } else if (r == 0) {
        r = error_set(err, -EOPNOTSUPP, "%s: the server does not say how long it is", p.name);
    }
    fetch_fini(&fetch);
    opened_fini(&p);
    return r;
}

/* ---- listings ---- */

struct store_listing {
    const struct opened_place *place;
    const struct store_policy *policy;
    store_found *found;
    void *arg;
    uint64_t count, most;
    uint64_t date_s; /* the store's time when it sent the page */
};

static int on_object(void *arg, const char *key, const struct object_facts *facts)
{
    struct store_listing *l = arg;
    struct object_facts judged = *facts;
    char *name;
    int r = 0;

    if (strncmp(key, l->place->place.key, strlen(l->place->place.key)) != 0)
        return -EBADMSG; /* the server listed a key without the prefix */
    if (l->most && l->count == l->most)
        return -E2BIG;
    l->count++;
    object_judge_time(&judged, l->date_s);
    name = str_format("s3://%s/%s", l->place->place.host, key);
    if (!name)
        return -ENOMEM;
    if (store_policy_allows(l->policy, name))
        r = l->found(l->arg, name, &judged);
    free(name);
    return r;
}

/* Returns the query of a page (malloc). */
static char *page_query(const char *prefix, const char *token)
{
    char *quoted = place_encode(prefix, true), *after = place_encode(token, true), *query = NULL;

    if (quoted && after)
        query = *token ? str_format("continuation-token=%s&list-type=2&prefix=%s", after, quoted)
                       : str_format("list-type=2&prefix=%s", quoted);
    free(quoted);
    free(after);
    return query;
}

static int read_page(struct store_listing *l, struct listing_page *page, struct plenum_error *err)
{
    char *query = page_query(l->place->place.key, page->token);
    struct fetch fetch = {.bucket = l->place->bucket,
                          .name = l->place->name,
                          .key = "",
                          .query = query,
                          .policy = l->policy};
    int r = query ? fetch_run(&fetch, err) : error_set(err, -ENOMEM, "out of memory");

    if (r == 0) {
        l->date_s = fetch.answer.date_s;
        r = listing_read(fetch.body ? fetch.body : "", fetch.body_len, on_object, l, page, err);
        if (r == -EBADMSG)
            (void)error_set(err, r, "%s: the server's listing is malformed", l->place->name);
        else if (r == -ENOMEM)
            (void)error_set(err, r, "out of memory");
        else if (r == -E2BIG && l->count == l->most)
            (void)error_set(err, r, "%s: it has more than %llu objects", l->place->name,
                            (unsigned long long)l->most);
    }
    fetch_fini(&fetch);
    free(query);
    return r;
}

/* Like open_place(), for a prefix in S3, whose folder must be allowed. Fails with -EOPNOTSUPP
 * behind HTTP. */
static int open_prefix(const char *prefix, const struct store_policy *policy,
                       struct opened_place *ret, struct plenum_error *err)
{
    static const struct store_policy any = {.anything = true};
    char *folder;
    int r = place_canonical(prefix, &folder, err);

    if (r < 0)
        return r;
    if (strlen(folder) > (size_t)(strrchr(prefix, '/') - prefix))
        folder[strrchr(prefix, '/') - prefix] = '\0';
    if (!store_policy_allows(policy, folder)) /* before the bucket's state is created */
        r = error_set(err, -EACCES, "%s is not below a --root of this loader", folder);
    free(folder);
    if (r == 0)
        r = open_place(prefix, &any, ret, err);
    if (r < 0 || bucket_is_s3(ret->bucket))
        return r;
    r = error_set(err, -EOPNOTSUPP,
                  "%s: servers behind HTTP have no listings: name all files, with braces like "
                  "train-{000..146}.tar",
                  ret->name);
    opened_fini(ret);
    return r;
}

int store_list(const char *prefix, uint64_t most, const struct store_policy *policy,
               store_found *found, void *arg, struct plenum_error *err)
{
    struct listing_page page = {.more = false};
    struct opened_place place;
    struct store_listing l = {
        .place = &place, .policy = policy, .found = found, .arg = arg, .most = most};
    unsigned empty = 0; /* consecutive pages without objects */
    int r = open_prefix(prefix, policy, &place, err);

    assert(found);
    if (r < 0)
        return r;
    do {
        uint64_t before = l.count;

        r = read_page(&l, &page, err);
        empty = l.count > before ? 0 : empty + 1;
        if (r == 0 && page.more && empty == EMPTY_PAGES_MAX)
            r = error_set(err, -EBADMSG, "%s: the server's listing does not end", place.name);
    } while (r == 0 && page.more);
    opened_fini(&place);
    return r;
}

/* ---- objects ---- */

/* Returns a number that identifies the version of an object. */
static uint64_t identify(const char *name, const struct object_facts *facts)
{
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, name, strlen(name) + 1);
    (void)XXH3_64bits_update(&state, facts->etag, strlen(facts->etag) + 1);
    (void)XXH3_64bits_update(&state, &facts->size, sizeof(facts->size));
    (void)XXH3_64bits_update(&state, &facts->mtime_s, sizeof(facts->mtime_s));
    (void)XXH3_64bits_update(&state, &facts->version, sizeof(facts->version));
    return XXH3_64bits_digest(&state);
}

/* Like identify(), for a cache that outlives the process. The key also depends on the endpoint, and
 * on the time only if there is no ETag, because listings and answers may give different times.
 * Returns 0 or -ENOMEM. */
static int identify_for_ever(const struct opened_place *p, const struct object_facts *facts,
                             struct keep_key *ret)
{
    struct endpoint at = {.host = ""};
    char *text;

    if (bucket_is_s3(p->bucket))
        bucket_get_endpoint(p->bucket, &at);
    if (at.is_aws) /* the region may become known later */
        at = (struct endpoint){.host = ""};
    text = str_format("%s\n%s\n%s\n%s\n%llu %llu %llu", p->name, facts->etag, at.host, at.path,
                      (unsigned long long)facts->size,
                      (unsigned long long)(facts->etag[0] ? 0 : facts->mtime_s),
                      (unsigned long long)facts->version);
    if (!text)
        return -ENOMEM;
    *ret = keep_hash(text, strlen(text));
    free(text);
    return 0;
}

int store_open(const char *name, const struct object_facts *facts, const void *owner,
               const struct store_policy *policy, struct store_object **ret,
               struct plenum_error *err)
{
    struct store_object *o;
    struct opened_place p;
    struct keep_key key;
    int r = open_place(name, policy, &p, err);

    assert(facts && policy);
    if (r < 0)
        return r;
    o = calloc(1, sizeof(*o));
    if (!o || identify_for_ever(&p, facts, &key) < 0) {
        free(o);
        opened_fini(&p);
        return error_set(err, -ENOMEM, "out of memory");
    }
    *o = (struct store_object){.bucket = p.bucket,
                               .place = p.place,
                               .name = p.name,
                               .facts = *facts,
                               .id = identify(p.name, facts),
                               .key = key,
                               .set = KEEP_NO_SET,
                               .owner = owner,
                               .policy = policy};
    lock_init(&o->moved.mu);
    *ret = o;
    return 0;
}

void store_close(struct store_object *o)
{
    if (!o)
        return;
    aws_wipe(o->moved.url);
    lock_fini(&o->moved.mu);
    place_fini(&o->place);
    free(o->name);
    free(o);
}

const struct object_facts *store_get_facts(const struct store_object *object)
{
    return &object->facts;
}

/* Returns the object's redirection. It has its own lock, so it may change although the object is
 * constant. */
static struct fetch_moved *moved_of(const struct store_object *o)
{
    return (struct fetch_moved *)(uintptr_t)&o->moved;
}

static struct ahead_range range_of(const struct store_object *o, uint64_t offset, uint64_t len)
{
    return (struct ahead_range){.bucket = o->bucket,
                                .key = o->place.key,
                                .object = o->id,
                                .owner = o->owner,
                                .facts = &o->facts,
                                .moved = moved_of(o),
                                .offset = offset,
                                .len = len};
}

static struct sample_cache_range cached_range(const struct store_object *o, uint32_t sample,
                                              uint64_t offset, uint64_t len)
{
    bool is_cached = sample != STORE_NO_SAMPLE;

    return (struct sample_cache_range){.object = o->key,
                                       .offset = offset,
                                       .len = len,
                                       .sample = {is_cached ? o->set : KEEP_NO_SET, sample}};
}

int store_read_sample(const struct store_object *o, uint32_t sample, uint64_t offset, size_t len,
                      void *dst, struct plenum_error *err)
{
    struct sample_cache_range cached = cached_range(o, sample, offset, len);
    struct wanted_range want = {.offset = offset, .len = len, .facts = &o->facts};
    struct ahead_range range = range_of(o, offset, len);
    struct fetch fetch = {.bucket = o->bucket,
                          .name = o->name,
                          .key = o->place.key,
                          .query = "",
                          .want = &want,
                          .dst = dst,
                          .policy = o->policy,
                          .moved = moved_of(o)};
    int r = 0;

    if (offset > o->facts.size || len > o->facts.size - offset)
        return error_set(err, -ESTALE, "%s: it has only %llu bytes", o->name,
                         (unsigned long long)o->facts.size);
    if (len == 0 || sample_cache_read(&cached, dst))
        return 0;
    if (!ahead_take(&range, dst, o->policy->cancel)) {
        r = fetch_run(&fetch, err);
        fetch_fini(&fetch);
    }
    if (r == 0)
        sample_cache_keep(&cached, dst);
    return r;
}

int store_read(const struct store_object *o, uint64_t offset, size_t len, void *dst,
               struct plenum_error *err)
{
    return store_read_sample(o, STORE_NO_SAMPLE, offset, len, dst, err);
}

void store_announce(const struct store_object *o, uint64_t offset, size_t len)
{
    struct sample_cache_range cached = cached_range(o, 0, offset, len);
    struct ahead_range range = range_of(o, offset, len);

    if (offset <= o->facts.size && len <= o->facts.size - offset && !sample_cache_has(&cached))
        ahead_announce(&range);
}

void store_set_cached(struct store_object *object, uint64_t set)
{
    const struct object_facts *f = &object->facts;

    if (f->etag[0] || ((f->mtime_s || f->version) && !f->racy))
        object->set = set;
}

void store_forget(const void *owner)
{
    ahead_forget(owner);
}

int store_read_whole(const char *name, uint64_t most, const struct store_policy *policy, char **ret,
                     struct object_facts *facts, struct plenum_error *err)
{
    struct store_object *object;
    char *text;
    int r = store_stat(name, policy, facts, err);

    if (r < 0)
        return r;
    if (facts->size > most)
        return error_set(err, -EFBIG, "%s: it has %llu bytes, more than %llu", name,
                         (unsigned long long)facts->size, (unsigned long long)most);
    text = malloc(facts->size + 1);
    if (!text)
        return error_set(err, -ENOMEM, "out of memory");
    r = store_open(name, facts, NULL, policy, &object, err);
    if (r == 0) {
        r = store_read(object, 0, facts->size, text, err);
        store_close(object);
    }
    if (r < 0) {
        free(text);
        return r;
    }
    text[facts->size] = '\0';
    *ret = text;
    return 0;
}

int store_write(const char *name, const void *bytes, size_t len, const struct store_policy *policy,
                struct plenum_error *err)
{
    struct opened_place p;
    struct fetch fetch;
    int r = open_place(name, policy, &p, err);

    if (r < 0)
        return r;
    fetch = (struct fetch){.bucket = p.bucket,
                           .name = p.name,
                           .key = p.place.key,
                           .query = "",
                           .upload = bytes,
                           .upload_len = len,
                           .policy = policy};
    r = bucket_is_s3(p.bucket)
            ? fetch_run(&fetch, err)
            : error_set(err, -EOPNOTSUPP, "%s: files behind HTTP cannot be written: use s3://",
                        p.name);
    fetch_fini(&fetch);
    opened_fini(&p);
    return r;
}

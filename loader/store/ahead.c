/* SPDX-License-Identifier: MIT */
/* ahead.c - keeps announced ranges in a table until they are read.
 *
 *     QUEUED --request starts--> FLYING --answer--> READY --read--> (removed)
 *        |                          `------------> FAILED --'
 *        `--read before it starts: the reader fetches it--> (removed)
 *
 * Ranges wait in the queue for a while, so that neighbouring ranges of one object, which block
 * shuffle causes, are found there and fetched by one request (a block). If neighbours are rare,
 * ranges hardly wait.
 *
 * A request of the look-ahead is tried once. Retries, renewing credentials and errors are left to
 * the thread that reads the range. */
#include "config.h"

#include "loader/store/ahead.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/list.h"
#include "common/util/lock.h"

enum {
    RANGE_MAX = 16 << 20, /* larger ranges are not fetched in advance */
    GAP_MAX = 64 << 10,   /* bytes between neighbours that are fetched and dropped */
    BLOCK_MAX = 8 << 20,
    /* A range that was not read for this long is dropped if others need the memory. */
    ABANDONED_S = 30,
    TABLE = 4096,
    HOLD = 768,            /* ranges in the queue if neighbours are found */
    HOLD_FEW = 16,         /* ranges in the queue if neighbours are rare */
    STARTED_AT_ONCE = 256, /* ranges whose requests start when a reader has caught up */
    NEIGHBOURS_FULL = 1 << 16,
    NEIGHBOURS_MEAN = 64,
    CANCEL_MS = 50,
};

enum block_state { BLOCK_FLYING, BLOCK_READY, BLOCK_FAILED };

/* Bytes for one or more ranges. */
struct ahead_block {
    struct exchange exchange;
    struct bucket_request request;
    struct object_facts facts;
    struct wanted_range want;
    /* Protected by mu. */
    enum block_state state;
    unsigned refs; /* ranges, readers, and the request while it is flying */
    uint8_t bytes[];
};

struct ahead_entry {
    struct list link; /* in the queue, or in the list of started ranges */
    struct ahead_entry *chain;
    struct bucket *bucket;
    char *key, *url; /* url: after a redirection, or NULL */
    uint64_t object, offset, len, added_ns;
    const void *owner;
    struct object_facts facts;
    struct ahead_block *block; /* NULL: queued */
    unsigned readers;          /* threads that wait for the block */
    unsigned wanted;           /* announced reads that have not happened yet */
};

static struct {
    struct lock mu;
    /* Protected by mu. */
    pthread_cond_t landed;
    struct ahead_entry *table[TABLE];
    struct list queue, started;
    size_t queued;
    uint64_t limit; /* maximum of `bytes` */
    uint64_t bytes; /* memory of queued ranges, of blocks, and of repeated requests */
    /* Moving mean of ranges with a neighbour in the queue; NEIGHBOURS_FULL: all have one. */
    uint64_t neighbours;
    uint64_t requests, ranges, hedges;
    bool ready;
} ahead = {.mu = LOCK_INITIALIZER, .limit = AHEAD_BYTES, .landed = PTHREAD_COND_INITIALIZER};

/* ---- the table; holding mu ---- */

static struct ahead_entry **slot_of(uint64_t object, uint64_t offset)
{
    uint64_t hash = (object ^ offset * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xBF58476D1CE4E5B9);

    return &ahead.table[hash >> 52 & (TABLE - 1)];
}

static struct ahead_entry *find(const struct ahead_range *r)
{
    assert(lock_is_held(&ahead.mu));
    for (struct ahead_entry *e = *slot_of(r->object, r->offset); e; e = e->chain)
        if (e->object == r->object && e->owner == r->owner && e->offset == r->offset &&
            e->len >= r->len)
            return e;
    return NULL;
}

static void unref_block(struct ahead_block *b)
{
    assert(lock_is_held(&ahead.mu) && b->refs > 0);
    if (--b->refs > 0)
        return;
    assert(b->state != BLOCK_FLYING && ahead.bytes >= b->want.len);
    ahead.bytes -= b->exchange.repeated ? 2 * b->want.len : b->want.len;
    exchange_fini(&b->exchange);
    bucket_request_fini(&b->request);
    free(b);
}

/* Account for a range that leaves the queue. */
static void leave_queue(const struct ahead_entry *e)
{
    assert(ahead.queued > 0 && ahead.bytes >= e->len);
    ahead.queued--;
    ahead.bytes -= e->len;
}

static void remove_entry(struct ahead_entry *e)
{
    struct ahead_entry **at = slot_of(e->object, e->offset);

    assert(lock_is_held(&ahead.mu) && e->readers == 0);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    list_remove(&e->link);
    if (e->block)
        unref_block(e->block);
    else
        leave_queue(e);
    free(e->key);
    aws_wipe(e->url);
    free(e);
}

static void init(void)
{
    if (ahead.ready)
        return;
    list_init(&ahead.queue);
    list_init(&ahead.started);
    ahead.neighbours = NEIGHBOURS_FULL / 16;
    ahead.ready = true;
}

/* ---- requests; holding mu ---- */

static void pump(size_t hold);

/* Returns how many ranges stay in the queue to wait for neighbours. */
static size_t hold_now(void)
{
    return ahead.neighbours >= NEIGHBOURS_FULL / NEIGHBOURS_MEAN ? HOLD : HOLD_FEW;
}

/* Use the result of a request. Runs in the module's thread. */
static void on_ended(struct exchange *x)
{
    struct ahead_block *b = container_of(x, struct ahead_block, exchange);

    lock_acquire(&ahead.mu);
    assert(b->state == BLOCK_FLYING);
    b->state = exchange_is_success(x) ? BLOCK_READY : BLOCK_FAILED;
    unref_block(b);
    (void)pthread_cond_broadcast(&ahead.landed);
    pump(hold_now());
    lock_release(&ahead.mu);
}

/* Returns whether there is memory to repeat a late request, and takes it. Runs in the module's
 * thread. */
static bool may_repeat(struct exchange *x)
{
    bool may;

    lock_acquire(&ahead.mu);
    may = ahead.bytes + x->want->len <= ahead.limit;
    if (may) {
        ahead.bytes += x->want->len;
        ahead.hedges++;
        ahead.requests++;
    }
    lock_release(&ahead.mu);
    return may;
}

/* Returns whether a queued range belongs to the same version as `first` and is near [begin,
 * end). */
static bool joins(const struct ahead_entry *e, const struct ahead_entry *first, uint64_t begin,
                  uint64_t end)
{
    return e->object == first->object && e->owner == first->owner &&
           e->offset + e->len + GAP_MAX >= begin && e->offset <= end + GAP_MAX;
}

/* Set [*begin, *end) to the range of `first`, extended by its queued neighbours. */
static void find_extent(const struct ahead_entry *first, uint64_t *begin, uint64_t *end)
{
    bool grown = true;

    *begin = first->offset;
    *end = first->offset + first->len;
    while (grown) {
        grown = false;
        for (struct list *at = list_first(&ahead.queue); at; at = list_next(&ahead.queue, at)) {
            const struct ahead_entry *e = container_of(at, struct ahead_entry, link);
            uint64_t low = min_u64(*begin, e->offset), high = max_u64(*end, e->offset + e->len);

            if (!joins(e, first, *begin, *end) || high - low > BLOCK_MAX ||
                (low == *begin && high == *end))
                continue;
            *begin = low;
            *end = high;
            grown = true;
        }
    }
}

/* Move the queued ranges within a block's extent to it. */
static void attach(struct ahead_block *b, const struct ahead_entry *first)
{
    struct list *next;

    for (struct list *at = list_first(&ahead.queue); at; at = next) {
        struct ahead_entry *e = container_of(at, struct ahead_entry, link);

        next = list_next(&ahead.queue, at);
        if (e->object != first->object || e->owner != first->owner || e->offset < b->want.offset ||
            e->offset + e->len > b->want.offset + b->want.len)
            continue;
        list_remove(&e->link);
        list_add_last(&ahead.started, &e->link);
        leave_queue(e);
        ahead.ranges++;
        e->block = b;
        b->refs++;
    }
}

/* Create the block of a queued range and its neighbours. Returns NULL when out of memory. */
static struct ahead_block *create_block(const struct ahead_entry *first)
{
    struct ahead_block *b;
    uint64_t begin, end;

    find_extent(first, &begin, &end);
    b = malloc(sizeof(*b) + (end - begin));
    if (!b)
        return NULL;
    *b = (struct ahead_block){
        .facts = first->facts,
        .want = {.offset = begin, .len = end - begin, .facts = &b->facts},
        .state = BLOCK_FAILED,
        .refs = 1,
    };
    ahead.bytes += b->want.len;
    return b;
}

/* Prepare and start the request of a block, whose bucket has already counted it. Returns 0 or
 * -errno. */
static int launch(struct ahead_block *b, const struct ahead_entry *first)
{
    struct bucket_query query = {.key = first->key, .query = "", .at_once = true, .want = &b->want};
    int r = first->url ? bucket_request_url(first->url, &b->want, &b->request, NULL)
                       : bucket_sign(first->bucket, &query, &b->request, NULL);

    assert(lock_is_held(&ahead.mu));
    if (r < 0)
        return r;
    b->exchange = (struct exchange){
        .transfer = {.method = "GET",
                     .url = b->request.url,
                     .headers = b->request.headers,
                     .connect_ns = bucket_times()->connect_ns,
                     .stall_ns = bucket_times()->stall_ns,
                     .any_address = b->request.any_address},
        .want = &b->want,
        .dst = b->bytes,
        .bucket = first->bucket,
        .ended = on_ended,
        .may_repeat = may_repeat,
    };
    r = exchange_start(&b->exchange, NULL);
    if (r < 0)
        return r;
    b->state = BLOCK_FLYING;
    b->refs++;
    ahead.requests++;
    return 0;
}

/* Start the request of a queued range. Returns false if the range was dropped. */
static bool start(struct ahead_entry *first)
{
    struct ahead_block *b = create_block(first);
    bool started = b && launch(b, first) == 0;

    if (started) {
        attach(b, first);
        assert(first->block == b && b->refs > 2);
    } else {
        remove_entry(first);
    }
    if (b)
        unref_block(b); /* the reference of create_block() */
    return started;
}

/* Start requests while more than `hold` ranges are queued and their buckets allow it. */
static void pump(size_t hold)
{
    struct bucket *full = NULL;
    struct list *at = list_first(&ahead.queue);

    assert(lock_is_held(&ahead.mu));
    while (at && ahead.queued > hold) {
        struct ahead_entry *e = container_of(at, struct ahead_entry, link);
        struct bucket *bucket = e->bucket;

        if (bucket == full || !bucket_try_enter(bucket)) {
            full = bucket;
            at = list_next(&ahead.queue, at);
            continue;
        }
        if (!start(e))
            bucket_leave(bucket, BUCKET_FAILURE);
        at = list_first(&ahead.queue);
    }
}

/* ---- announcing ---- */

/* Drop ranges that were announced ABANDONED_S ago or earlier, except those that are being read. */
static void drop_abandoned(uint64_t now_ns)
{
    struct list *lists[] = {&ahead.queue, &ahead.started}, *next;

    assert(lock_is_held(&ahead.mu));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (struct list *at = list_first(lists[i]); at; at = next) {
            struct ahead_entry *e = container_of(at, struct ahead_entry, link);

            next = list_next(lists[i], at);
            if (now_ns - e->added_ns < ABANDONED_S * NS_PER_SEC)
                break;
            if (e->readers == 0)
                remove_entry(e);
        }
}

/* Update the mean number of ranges that have a neighbour in the queue. */
static void note_neighbours(const struct ahead_entry *e)
{
    bool has = false;

    for (struct list *at = list_first(&ahead.queue); at && !has; at = list_next(&ahead.queue, at)) {
        const struct ahead_entry *other = container_of(at, struct ahead_entry, link);

        has = other != e && joins(other, e, e->offset, e->offset + e->len);
    }
    ahead.neighbours =
        (ahead.neighbours * (NEIGHBOURS_MEAN - 1) + (has ? NEIGHBOURS_FULL : 0)) / NEIGHBOURS_MEAN;
}

static void add(const struct ahead_range *r, uint64_t now_ns)
{
    struct ahead_entry *e = calloc(1, sizeof(*e)), **slot = slot_of(r->object, r->offset);

    if (!e)
        return;
    *e = (struct ahead_entry){.bucket = r->bucket,
                              .key = strdup(r->key),
                              .url = fetch_moved_url(r->moved),
                              .object = r->object,
                              .offset = r->offset,
                              .len = r->len,
                              .added_ns = now_ns,
                              .owner = r->owner,
                              .facts = *r->facts,
                              .wanted = 1,
                              .chain = *slot};
    if (!e->key) {
        aws_wipe(e->url);
        free(e);
        return;
    }
    *slot = e;
    list_add_last(&ahead.queue, &e->link);
    ahead.queued++;
    ahead.bytes += e->len;
    note_neighbours(e);
}

void ahead_announce(const struct ahead_range *r)
{
    uint64_t now = time_now_ns();
    struct ahead_entry *e;

    if (r->len == 0 || r->len > RANGE_MAX)
        return;
    lock_acquire(&ahead.mu);
    init();
    e = find(r);
    if (ahead.bytes + r->len > ahead.limit)
        drop_abandoned(now);
    if (e)
        e->wanted++;
    else if (ahead.bytes + r->len <= ahead.limit)
        add(r, now);
    pump(hold_now());
    lock_release(&ahead.mu);
}

/* ---- reading ---- */

/* Wait until the block of a range has arrived. Returns false if the wait was cancelled. */
static bool await(struct ahead_entry *e, const atomic_bool *cancel)
{
    bool cancelled = false;

    e->readers++;
    while (e->block->state == BLOCK_FLYING && !cancelled) {
        (void)lock_wait_until(&ahead.mu, &ahead.landed,
                              cancel ? time_now_ns() + CANCEL_MS * NS_PER_MS : UINT64_MAX);
        cancelled = cancel && atomic_load(cancel);
    }
    e->readers--;
    return !cancelled;
}

/* Start more requests, because a reader has caught up with a range in the queue. */
static void catch_up(void)
{
    size_t left = ahead.queued > STARTED_AT_ONCE ? ahead.queued - STARTED_AT_ONCE : 0;

    pump(left);
}

/* Drop a reader's reference to a block. */
static void release_block(struct ahead_block *b)
{
    lock_acquire(&ahead.mu);
    unref_block(b);
    lock_release(&ahead.mu);
}

bool ahead_take(const struct ahead_range *r, uint8_t *dst, const atomic_bool *cancel)
{
    struct ahead_entry *e;
    struct ahead_block *b = NULL;
    bool taken = false;

    assert(r->bucket && r->key && r->facts && r->len > 0);
    lock_acquire(&ahead.mu);
    init();
    e = find(r);
    if (e && !e->block) {
        catch_up();
        e = find(r); /* the range may have been dropped in between */
    }
    if (e && e->block && await(e, cancel)) {
        b = e->block;
        b->refs++;
        taken = b->state == BLOCK_READY;
    }
    if (e && e->readers == 0 && (!taken || e->wanted <= 1))
        remove_entry(e);
    else if (e && e->wanted > 0)
        e->wanted--;
    lock_release(&ahead.mu);
    if (taken)
        memcpy(dst, b->bytes + (r->offset - b->want.offset), r->len);
    if (b)
        release_block(b);
    return taken;
}

void ahead_forget(const void *owner)
{
    struct list *lists[] = {&ahead.queue, &ahead.started}, *next;

    lock_acquire(&ahead.mu);
    init();
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (struct list *at = list_first(lists[i]); at; at = next) {
            struct ahead_entry *e = container_of(at, struct ahead_entry, link);

            next = list_next(lists[i], at);
            if (e->owner == owner && e->readers == 0)
                remove_entry(e);
        }
    lock_release(&ahead.mu);
}

void ahead_set_memory(uint64_t bytes)
{
    assert(bytes > 0);
    lock_acquire(&ahead.mu);
    ahead.limit = bytes;
    lock_release(&ahead.mu);
}

void ahead_count(struct ahead_counts *ret)
{
    lock_acquire(&ahead.mu);
    *ret = (struct ahead_counts){.requests = ahead.requests,
                                 .ranges = ahead.ranges,
                                 .hedges = ahead.hedges,
                                 .bytes = ahead.bytes};
    lock_release(&ahead.mu);
}

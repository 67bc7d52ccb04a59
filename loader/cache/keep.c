/* SPDX-License-Identifier: MIT */
/* keep.c - removes the sample whose next use is farthest away.
 *
 * Each course (course.h) has a heap of the entries that it uses before any other course does, with
 * the farthest use at the top. A use is a position on the course's own axis, so an entry's rank
 * never changes while it waits, whatever the rate of its stream is; rates are only needed to
 * compare the tops of several heaps. One more heap has the entries without a known use. These are
 * removed first, in the order of their last use.
 *
 * Opening a stream can only bring uses nearer. So ranks are upper bounds: if a stream has opened
 * since an entry was ranked, its use is computed again before it becomes a victim, and the entry is
 * kept if the use has come nearer. The result is exact, although not all entries are visited. Uses
 * that were passed without being requested are found by a "hand", which examines a few entries with
 * each call.
 *
 * If only one course uses a data set, its uses are compared in whole epochs. The number of hits
 * does not change, but the samples in the cache then stay, instead of being replaced by those that
 * are needed soon, and misses are spread over the epoch. Within an epoch, the larger sample is
 * removed first, because that saves more requests. */
#include "config.h"

#include "loader/cache/keep.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"

enum {
    HEAPS = 16, /* one for entries without a known use, and one for each course */
    UNKNOWN = 0,
    NO_HEAP = HEAPS, /* the heap of a new entry */
    FREE = HEAPS + 1,
    TABLE_MIN = 1024,
    ENTRIES_MAX = 1 << 26,
    TRIES = 32,     /* maximum number of uses that are computed again to find one victim */
    HAND_STEPS = 2, /* entries that the hand examines with each call */
    /* If an entry has no known next use and has not been used for this long, a new entry without a
     * known next use may replace it. */
    FORGOTTEN_S = 86400,
};

struct keep_entry {
    struct keep_key key;
    uint64_t hash;
    uint64_t use; /* the next use; if it is not known, the time in seconds of the last one */
    uint64_t set;
    uint32_t len, number;
    uint32_t chain;   /* the next entry in its chain of the table, or in the list of free entries */
    uint32_t heap_at; /* index in its heap */
    uint16_t generation;
    uint8_t heap;
};

struct keep_heap {
    uint32_t *items;
    size_t count, cap;
    struct course course;
    bool open;  /* the course has streams */
    bool alone; /* no other course uses its data set */
};

struct keep {
    struct keep_entry *entries;
    size_t count, cap; /* count: numbers in use or free */
    uint32_t first_free, *table;
    size_t table_size; /* a power of two */
    uint64_t used, live, blocks, most;
    struct keep_heap heap[HEAPS];
    uint32_t hand;
    uint16_t generation; /* changes whenever uses may have come nearer */
};

static uint64_t blocks_of(uint32_t len)
{
    return ((uint64_t)len + KEEP_BLOCK - 1) / KEEP_BLOCK;
}

/* ---- heaps ---- */

/* Returns whether entry `a` is removed before entry `b` of the same heap. */
static bool goes_first(const struct keep *k, const struct keep_entry *a, const struct keep_entry *b)
{
    const struct keep_heap *h = &k->heap[a->heap];
    uint64_t x = a->use, y = b->use;

    assert(a->heap == b->heap);
    if (a->heap == UNKNOWN)
        return x < y;
    if (h->alone) {
        x /= h->course.stride;
        y /= h->course.stride;
    }
    return x != y ? x > y : h->alone && blocks_of(a->len) > blocks_of(b->len);
}

static void set_item(struct keep *k, struct keep_heap *h, uint32_t at, uint32_t entry)
{
    h->items[at] = entry;
    k->entries[entry].heap_at = at;
}

static void sift_up(struct keep *k, struct keep_heap *h, uint32_t at)
{
    uint32_t entry = h->items[at];

    while (at > 0) {
        uint32_t above = (at - 1) / 2;

        if (!goes_first(k, &k->entries[entry], &k->entries[h->items[above]]))
            break;
        set_item(k, h, at, h->items[above]);
        at = above;
    }
    set_item(k, h, at, entry);
}

static void sift_down(struct keep *k, struct keep_heap *h, uint32_t at)
{
    uint32_t entry = h->items[at];

    for (;;) {
        size_t below = 2 * (size_t)at + 1;

        if (below >= h->count)
            break;
        if (below + 1 < h->count &&
            goes_first(k, &k->entries[h->items[below + 1]], &k->entries[h->items[below]]))
            below++;
        if (!goes_first(k, &k->entries[h->items[below]], &k->entries[entry]))
            break;
        set_item(k, h, at, h->items[below]);
        at = (uint32_t)below;
    }
    set_item(k, h, at, entry);
}

/* Rebuild a heap after ranks have changed. */
static void order_heap(struct keep *k, struct keep_heap *h)
{
    for (size_t i = h->count / 2; i-- > 0;)
        sift_down(k, h, (uint32_t)i);
}

static void leave_heap(struct keep *k, uint32_t entry)
{
    struct keep_entry *e = &k->entries[entry];
    struct keep_heap *h;
    uint32_t at = e->heap_at, last;

    if (e->heap >= HEAPS)
        return;
    h = &k->heap[e->heap];
    assert(h->count > at && h->items[at] == entry);
    last = h->items[--h->count];
    e->heap = NO_HEAP;
    if (last == entry)
        return;
    set_item(k, h, at, last);
    sift_up(k, h, at);
    sift_down(k, h, k->entries[last].heap_at);
}

/* Add an entry to a heap. Returns 0 or -ENOMEM. */
static int enter_heap(struct keep *k, uint32_t entry, unsigned heap)
{
    struct keep_heap *h = &k->heap[heap];

    assert(k->entries[entry].heap == NO_HEAP);
    if (array_grow(&h->items, &h->cap, h->count, sizeof(*h->items)) < 0)
        return -ENOMEM;
    k->entries[entry].heap = (uint8_t)heap;
    set_item(k, h, (uint32_t)h->count++, entry);
    sift_up(k, h, (uint32_t)h->count - 1);
    return 0;
}

/* ---- the index ---- */

struct keep_key keep_hash(const void *bytes, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len);

    return (struct keep_key){{hash.low64, hash.high64}};
}

static uint32_t *slot_of(const struct keep *k, const struct keep_key *key)
{
    return &k->table[key->word[0] & (k->table_size - 1)];
}

static bool is_key(const struct keep_key *a, const struct keep_key *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

/* Make room for another entry in the table. If there is no memory, the table's chains become
 * longer. */
static void grow_table(struct keep *k)
{
    size_t size = 2 * k->table_size;
    uint32_t *table = k->live < k->table_size ? NULL : malloc(size * sizeof(*table));

    if (!table)
        return;
    memset(table, 0xFF, size * sizeof(*table));
    free(k->table);
    k->table = table;
    k->table_size = size;
    for (uint32_t i = 0; i < k->count; i++) {
        struct keep_entry *e = &k->entries[i];
        uint32_t *slot = slot_of(k, &e->key);

        if (e->heap == FREE)
            continue;
        e->chain = *slot;
        *slot = i;
    }
}

uint32_t keep_find(const struct keep *k, const struct keep_key *key)
{
    uint32_t i = *slot_of(k, key);

    while (i != KEEP_NONE && !is_key(&k->entries[i].key, key))
        i = k->entries[i].chain;
    return i;
}

bool keep_get(const struct keep *k, uint32_t entry, struct keep_bytes *ret)
{
    const struct keep_entry *e = &k->entries[entry];

    assert(entry < k->count && e->heap != FREE);
    *ret = (struct keep_bytes){
        .key = e->key, .hash = e->hash, .len = e->len, .sample = {e->set, e->number}};
    return e->heap != NO_HEAP;
}

static void fill_entry(struct keep *k, uint32_t entry, const struct keep_bytes *bytes)
{
    uint32_t *slot = slot_of(k, &bytes->key);

    k->entries[entry] = (struct keep_entry){.key = bytes->key,
                                            .hash = bytes->hash,
                                            .len = bytes->len,
                                            .set = bytes->sample.set,
                                            .number = bytes->sample.number,
                                            .chain = *slot,
                                            .generation = (uint16_t)(k->generation - 1),
                                            .heap = NO_HEAP};
    *slot = entry;
    k->live++;
    k->blocks += blocks_of(bytes->len);
    grow_table(k);
}

void keep_remove(struct keep *k, uint32_t entry)
{
    struct keep_entry *e = &k->entries[entry];
    uint32_t *at = slot_of(k, &e->key);

    assert(entry < k->count && e->heap != FREE);
    leave_heap(k, entry);
    while (*at != entry)
        at = &k->entries[*at].chain;
    *at = e->chain;
    assert(k->live > 0 && k->blocks >= blocks_of(e->len));
    k->live--;
    k->blocks -= blocks_of(e->len);
    e->heap = FREE;
    e->chain = k->first_free;
    k->first_free = entry;
}

/* Returns a free number, or KEEP_NONE. */
static uint32_t take_number(struct keep *k)
{
    uint32_t entry = k->first_free;

    if (entry != KEEP_NONE) {
        k->first_free = k->entries[entry].chain;
        return entry;
    }
    if (k->count == ENTRIES_MAX ||
        array_grow(&k->entries, &k->cap, k->count, sizeof(*k->entries)) < 0)
        return KEEP_NONE;
    return (uint32_t)k->count++;
}

bool keep_restore(struct keep *k, uint32_t entry, const struct keep_bytes *bytes)
{
    if (entry >= ENTRIES_MAX || k->blocks + blocks_of(bytes->len) > k->most ||
        keep_find(k, &bytes->key) != KEEP_NONE)
        return false;
    while (k->count <= entry) {
        if (array_grow(&k->entries, &k->cap, k->count, sizeof(*k->entries)) < 0)
            return false;
        k->entries[k->count++].heap = FREE;
    }
    assert(k->entries[entry].heap == FREE);
    fill_entry(k, entry, bytes);
    if (enter_heap(k, entry, UNKNOWN) == 0)
        return true;
    keep_remove(k, entry);
    k->first_free = KEEP_NONE; /* keep_restored() finds the free numbers */
    return false;
}

void keep_restored(struct keep *k)
{
    k->first_free = KEEP_NONE;
    for (uint32_t i = (uint32_t)k->count; i-- > 0;) {
        if (k->entries[i].heap != FREE)
            continue;
        k->entries[i].chain = k->first_free;
        k->first_free = i;
    }
}

void keep_remove_all(struct keep *k)
{
    for (uint32_t i = 0; i < k->count; i++)
        if (k->entries[i].heap != FREE)
            keep_remove(k, i);
}

void keep_follow(struct keep *k, uint32_t entry, const struct keep_bytes *bytes)
{
    const struct keep_entry *e = entry < k->count ? &k->entries[entry] : NULL;

    if (e && e->heap != FREE) {
        if (bytes && is_key(&e->key, &bytes->key) && e->hash == bytes->hash && e->len == bytes->len)
            return;
        keep_remove(k, entry);
    }
    if (bytes)
        (void)keep_restore(k, entry, bytes);
}

/* ---- uses ---- */

/* Find when a sample is used next. Returns the heap that it belongs to. */
static unsigned find_use(const struct keep *k, const struct keep_sample *sample, uint64_t now_ns,
                         uint64_t *use)
{
    unsigned best = UNKNOWN;
    double best_ns = 0;

    *use = now_ns / NS_PER_SEC;
    for (unsigned i = 1; i < HEAPS && sample->set != KEEP_NO_SET; i++) {
        const struct keep_heap *h = &k->heap[i];
        uint64_t next;
        double ns;

        if (!h->open || h->course.order.set != sample->set)
            continue;
        next = course_next(&h->course, sample->number);
        ns = course_wait_ns(&h->course, next, now_ns);
        if (next == COURSE_NEVER || (best != UNKNOWN && ns >= best_ns))
            continue;
        best = i;
        best_ns = ns;
        *use = next;
    }
    return best;
}

/* Compute the next use of an entry again. Returns false if it had to be removed. */
static bool rank_again(struct keep *k, uint32_t entry, uint64_t now_ns)
{
    struct keep_entry *e = &k->entries[entry];
    struct keep_sample sample = {e->set, e->number};
    uint64_t use, last = e->heap == UNKNOWN ? e->use : now_ns / NS_PER_SEC;
    unsigned heap = find_use(k, &sample, now_ns, &use);

    leave_heap(k, entry);
    e->use = heap == UNKNOWN ? last : use;
    e->generation = k->generation;
    if (enter_heap(k, entry, heap) == 0)
        return true;
    keep_remove(k, entry);
    return false;
}

/* Returns the nanoseconds until the top of a course's heap is used. */
static double top_wait_ns(const struct keep *k, const struct keep_heap *h, uint64_t now_ns)
{
    uint64_t use = k->entries[h->items[0]].use, stride = h->course.stride;

    if (h->alone) /* the middle of its epoch */
        use = use / stride * stride + stride / 2;
    return course_wait_ns(&h->course, use, now_ns);
}

/* Returns the heap whose top is removed first, or NULL if there are no entries. */
static struct keep_heap *victims_heap(struct keep *k, uint64_t now_ns)
{
    struct keep_heap *best = NULL;
    double best_ns = -1;

    if (k->heap[UNKNOWN].count > 0)
        return &k->heap[UNKNOWN];
    for (unsigned i = 1; i < HEAPS; i++) {
        struct keep_heap *h = &k->heap[i];
        double ns = h->count > 0 ? top_wait_ns(k, h, now_ns) : -1;

        if (ns <= best_ns)
            continue;
        best = h;
        best_ns = ns;
    }
    return best;
}

/* Returns the entry to remove next, or KEEP_NONE if none was found within a few tries. */
static uint32_t find_victim(struct keep *k, uint64_t now_ns)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct keep_heap *h = victims_heap(k, now_ns);
        const struct keep_entry *e;

        if (!h)
            return KEEP_NONE;
        e = &k->entries[h->items[0]];
        if (e->generation == k->generation &&
            (e->heap == UNKNOWN || !course_is_overdue(&h->course, e->use)))
            return h->items[0];
        (void)rank_again(k, h->items[0], now_ns);
    }
    return KEEP_NONE;
}

/* Returns whether a new entry would be used before this victim. */
static bool is_nearer(const struct keep *k, const struct keep_entry *fresh,
                      const struct keep_entry *victim, uint64_t now_ns)
{
    if (victim->heap == UNKNOWN)
        return fresh->heap != UNKNOWN || fresh->use > victim->use + FORGOTTEN_S;
    if (fresh->heap == UNKNOWN)
        return false;
    if (fresh->heap == victim->heap)
        return goes_first(k, victim, fresh);
    return course_wait_ns(&k->heap[fresh->heap].course, fresh->use, now_ns) <
           top_wait_ns(k, &k->heap[victim->heap], now_ns);
}

static void move_hand(struct keep *k, uint64_t now_ns)
{
    for (unsigned i = 0; i < HAND_STEPS && k->count > 0; i++) {
        const struct keep_entry *e;

        k->hand = k->hand + 1 < k->count ? k->hand + 1 : 0;
        e = &k->entries[k->hand];
        if (e->heap != UNKNOWN && e->heap < HEAPS &&
            course_is_overdue(&k->heap[e->heap].course, e->use))
            (void)rank_again(k, k->hand, now_ns);
    }
}

uint32_t keep_admit(struct keep *k, const struct keep_bytes *bytes, uint64_t now_ns,
                    void (*evict)(void *arg, uint32_t entry), void *arg)
{
    struct keep_entry fresh = {.len = bytes->len};
    uint32_t entry;

    assert(keep_find(k, &bytes->key) == KEEP_NONE);
    move_hand(k, now_ns);
    fresh.heap = (uint8_t)find_use(k, &bytes->sample, now_ns, &fresh.use);
    while (k->blocks + blocks_of(bytes->len) > k->most) {
        uint32_t victim = find_victim(k, now_ns);

        if (victim == KEEP_NONE || !is_nearer(k, &fresh, &k->entries[victim], now_ns))
            return KEEP_NONE;
        keep_remove(k, victim);
        evict(arg, victim);
    }
    entry = take_number(k);
    if (entry != KEEP_NONE)
        fill_entry(k, entry, bytes);
    return entry;
}

void keep_settle(struct keep *k, uint32_t entry, uint64_t hash, uint64_t now_ns)
{
    assert(k->entries[entry].heap == NO_HEAP);
    k->entries[entry].hash = hash;
    (void)rank_again(k, entry, now_ns);
}

void keep_use(struct keep *k, uint32_t entry, const struct keep_sample *sample, uint64_t now_ns)
{
    struct keep_entry *e = &k->entries[entry];

    assert(e->heap < HEAPS);
    e->set = sample->set;
    e->number = sample->number;
    if (e->heap == UNKNOWN)
        e->use = now_ns / NS_PER_SEC;
    (void)rank_again(k, entry, now_ns);
    move_hand(k, now_ns);
}

/* ---- streams ---- */

/* Note which courses are the only ones of their data sets. */
static void note_alone(struct keep *k)
{
    for (unsigned i = 1; i < HEAPS; i++) {
        struct keep_heap *h = &k->heap[i];
        bool alone = true;

        for (unsigned j = 1; j < HEAPS; j++)
            alone = alone && (j == i || !k->heap[j].open ||
                              k->heap[j].course.order.set != h->course.order.set);
        if (alone == h->alone)
            continue;
        h->alone = alone;
        order_heap(k, h);
    }
}

struct course_stream *keep_open_stream(struct keep *k, const struct course_order *order,
                                       uint32_t offset, uint32_t local, uint64_t now_ns)
{
    struct keep_heap *found = NULL, *free_one = NULL;
    struct course_stream *s;

    for (unsigned i = 1; i < HEAPS && !found; i++)
        if (!k->heap[i].open)
            free_one = &k->heap[i];
        else if (course_has_order(&k->heap[i].course, order))
            found = &k->heap[i];
    s = found || free_one ? calloc(1, sizeof(*s)) : NULL;
    if (!s)
        return NULL;
    if (!found) {
        found = free_one;
        assert(found->count == 0);
        course_init(&found->course, order, now_ns);
        found->open = true;
        note_alone(k);
    }
    s->offset = offset;
    s->local = local;
    course_add(&found->course, s);
    k->generation++;
    return s;
}

/* Move all entries of a heap to the heap without known uses. They are ranked again from there. */
static void forget_uses(struct keep *k, struct keep_heap *h, uint64_t now_ns)
{
    while (h->count > 0) {
        uint32_t entry = h->items[--h->count];
        struct keep_entry *e = &k->entries[entry];

        e->heap = NO_HEAP;
        e->use = now_ns / NS_PER_SEC;
        if (enter_heap(k, entry, UNKNOWN) < 0)
            keep_remove(k, entry);
    }
}

void keep_close_stream(struct keep *k, struct course_stream *stream, uint64_t now_ns)
{
    struct keep_heap *h;

    if (!stream)
        return;
    h = container_of(stream->course, struct keep_heap, course);
    if (course_remove(stream)) {
        h->open = false;
        forget_uses(k, h, now_ns);
        note_alone(k);
        k->generation++;
    }
    free(stream);
}

/* ---- the whole ---- */

struct keep *keep_create(uint64_t limit)
{
    struct keep *k = calloc(1, sizeof(*k));

    if (!k)
        return NULL;
    k->most = limit / KEEP_BLOCK;
    k->first_free = KEEP_NONE;
    k->table_size = TABLE_MIN;
    k->table = malloc(k->table_size * sizeof(*k->table));
    if (!k->table) {
        free(k);
        return NULL;
    }
    memset(k->table, 0xFF, k->table_size * sizeof(*k->table));
    return k;
}

void keep_destroy(struct keep *k)
{
    if (!k)
        return;
    for (unsigned i = 0; i < HEAPS; i++) {
        assert(!k->heap[i].open);
        free(k->heap[i].items);
    }
    free(k->entries);
    free(k->table);
    free(k);
}

void keep_get_counts(const struct keep *k, struct keep_counts *ret)
{
    *ret = (struct keep_counts){
        .entries = k->live, .bytes = k->blocks * KEEP_BLOCK, .limit = k->most * KEEP_BLOCK};
    for (unsigned i = 1; i < HEAPS; i++)
        ret->known += k->heap[i].count;
}

static bool heap_is_sound(const struct keep *k, const struct keep_heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct keep_entry *e = &k->entries[h->items[i]];

        if (e->heap_at != i || &k->heap[e->heap] != h ||
            (i > 0 && goes_first(k, e, &k->entries[h->items[(i - 1) / 2]])))
            return false;
    }
    return true;
}

bool keep_is_sound(const struct keep *k)
{
    uint64_t blocks = 0, live = 0;

    for (unsigned i = 0; i < HEAPS; i++)
        if (!heap_is_sound(k, &k->heap[i]))
            return false;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct keep_entry *e = &k->entries[i];

        if (e->heap == FREE)
            continue;
        live++;
        blocks += blocks_of(e->len);
        if (keep_find(k, &e->key) != i)
            return false;
    }
    return live == k->live && blocks == k->blocks && blocks <= k->most;
}

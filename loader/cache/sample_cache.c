/* SPDX-License-Identifier: MIT */
/* sample_cache.c - combines the choice of samples (keep.h), their files (shelf.h), and a thread
 * that writes.
 *
 * A reader finds an entry under the lock, and reads its record without the lock. If the record is
 * erased in the meantime, its checksum is wrong and its entry is gone. A fetched range is copied
 * and written later, by one thread, in the order of decisions; so a removed record is erased before
 * its place is written again. If the disk cannot keep up, ranges are not added.
 *
 * If the disk fails or is slow, the cache is not used for a minute, then for two, up to an hour. If
 * the disk is full, it is only not written.
 *
 * While another loader has the folder, the cache follows it: the thread reads from time to time
 * which records there are, and tries to lock the folder. Readers use these records, and the
 * checksums show which of them have since been replaced. Nothing is written. Streams are
 * registered, so their future uses are known when the folder becomes free. */
#include "config.h"

#include "loader/cache/sample_cache.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/list.h"
#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/cache/shelf.h"

enum {
    QUEUE_MAX = 64 << 20, /* bytes that wait to be written */
    PAUSE_MIN_S = 60,
    PAUSE_MAX_S = 3600,
    SLOW_MS = 500, /* mean time of a read */
    READS_MEAN = 32,
    LOCK_TRIED_MS = 500, /* between two tries to lock a folder that another loader has */
    FOLLOWED_MS = 1000,  /* minimum interval at which that loader's records are read */
    FOLLOWED_PART = 50,  /* reading them takes at most a 50th of the time */
};

/* CLOSED -> (FOLLOWING ->) LOADING -> OPEN -> CLOSED */
enum sample_cache_state {
    CLOSED,
    FOLLOWING, /* another loader has the folder */
    LOADING,   /* the records of an earlier loader are being read, or cannot be read */
    OPEN,
};

/* A record to write or, if it has no bytes, to erase. */
struct shelf_job {
    struct list link;
    uint32_t entry;
    struct keep_bytes bytes;
    uint8_t content[];
};

static struct {
    _Atomic(enum sample_cache_state) state;
    /* Constant while it is open. */
    struct shelf *shelf;
    char *folder; /* NULL: the cache is in memory */
    pthread_t writer;
    /* Protected by mu, the innermost lock. */
    struct lock mu;
    pthread_cond_t work;
    struct keep *keep;
    struct list jobs;
    uint64_t queued; /* bytes that wait to be written */
    bool stop;
    struct sample_cache_counts counts;
    uint64_t paused_until_ns, pause_s;
    uint64_t read_ns; /* moving mean of the time of a read */
    unsigned reads;
    bool only_writes; /* the disk is full: the pause is only for writes */
    struct plenum_error news;
    bool has_news;
} cache = {.mu = LOCK_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* ---- the state of the disk; holding mu ---- */

static bool is_paused(void)
{
    return cache.paused_until_ns > 0 && time_now_ns() < cache.paused_until_ns;
}

static bool is_full(int code)
{
    return code == -ENOSPC || code == -EDQUOT || code == -EFBIG || code == -ENOMEM;
}

static const char *where(void)
{
    return cache.folder ? cache.folder : "memory";
}

static void pause_use(int code)
{
    bool told = cache.pause_s > 0 && cache.only_writes == is_full(code);

    assert(lock_is_held(&cache.mu));
    if (is_paused() && (told || !cache.only_writes))
        return;
    cache.pause_s =
        cache.pause_s > 0 ? min_u64(2 * cache.pause_s, PAUSE_MAX_S) : (uint64_t)PAUSE_MIN_S;
    cache.paused_until_ns = time_now_ns() + cache.pause_s * NS_PER_SEC;
    cache.only_writes = is_full(code);
    cache.read_ns = cache.reads = 0;
    if (told)
        return;
    (void)error_set(
        &cache.news, code,
        "%s: no samples are added to the cache at present: %s; they are read from their store",
        where(),
        code == -ETIMEDOUT ? "reading them takes longer than 500 ms"
        : code == -ENOSPC  ? "less than a twentieth of the file system is free"
                           : strerror(-code));
    cache.has_news = true;
}

/* Note that the disk works again. */
static void resume_use(void)
{
    assert(lock_is_held(&cache.mu));
    if (cache.pause_s == 0 || is_paused())
        return;
    cache.pause_s = 0;
    (void)error_set(&cache.news, 0, "%s: samples are added to the cache again", where());
    cache.has_news = true;
}

bool sample_cache_get_news(struct plenum_error *ret)
{
    bool has;

    lock_acquire(&cache.mu);
    has = cache.has_news;
    if (has)
        *ret = cache.news;
    cache.has_news = false;
    lock_release(&cache.mu);
    return has;
}

/* ---- the writer ---- */

/* Queue a job that writes an entry, or erases it if `content` is NULL. Returns 0 or -ENOMEM. */
static int add_job(uint32_t entry, const struct keep_bytes *bytes, const void *content)
{
    size_t len = content ? bytes->len : 0;
    struct shelf_job *job = malloc(sizeof(*job) + len);

    assert(lock_is_held(&cache.mu));
    if (!job)
        return -ENOMEM;
    *job = (struct shelf_job){.entry = entry};
    if (content) {
        job->bytes = *bytes;
        memcpy(job->content, content, len);
    }
    list_add_last(&cache.jobs, &job->link);
    cache.queued += len;
    (void)pthread_cond_signal(&cache.work);
    return 0;
}

/* Queue the erasure of an entry. If there is no memory, its record stays on the disk until its
 * place is reused. */
static void erase_later(void *arg, uint32_t entry)
{
    (void)arg;
    (void)add_job(entry, NULL, NULL);
}

static void evict(void *arg, uint32_t entry)
{
    cache.counts.evicted++;
    erase_later(arg, entry);
}

/* Write a record and set its checksum, or erase it. Call it without mu. */
static int run_job(struct shelf_job *job)
{
    if (job->bytes.len == 0)
        return shelf_erase(cache.shelf, job->entry);
    job->bytes.hash = shelf_hash(&job->bytes.key, job->content, job->bytes.len);
    return shelf_write(cache.shelf, job->entry, &job->bytes, job->content);
}

static void note_written(const struct shelf_job *job, int r)
{
    assert(lock_is_held(&cache.mu));
    cache.queued -= job->bytes.len;
    if (r < 0)
        pause_use(r);
    if (job->bytes.len == 0)
        return;
    if (r < 0) {
        keep_remove(cache.keep, job->entry);
        erase_later(NULL, job->entry);
        return;
    }
    resume_use();
    cache.counts.writes++;
    cache.counts.write_bytes += job->bytes.len;
    keep_settle(cache.keep, job->entry, job->bytes.hash, time_now_ns());
}

static bool restore(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    bool kept;

    (void)arg;
    lock_acquire(&cache.mu);
    kept = keep_restore(cache.keep, number, bytes);
    lock_release(&cache.mu);
    return kept;
}

/* Lock the folder, and begin to use its files. Call it without mu. Returns 0, or -errno: -EBUSY if
 * another loader has it. */
static int take_folder(struct plenum_error *err)
{
    int r = shelf_take(cache.shelf, err);

    if (r == -EBUSY)
        return r;
    atomic_store(&cache.state, LOADING);
    lock_acquire(&cache.mu);
    keep_remove_all(cache.keep);
    lock_release(&cache.mu);
    if (r == 0)
        r = shelf_load(cache.shelf, restore, NULL, err);
    if (r < 0)
        return r;
    lock_acquire(&cache.mu);
    keep_restored(cache.keep);
    lock_release(&cache.mu);
    atomic_store(&cache.state, OPEN);
    return 0;
}

static bool note_record(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    (void)arg;
    lock_acquire(&cache.mu);
    keep_follow(cache.keep, number, bytes);
    lock_release(&cache.mu);
    return true;
}

/* Read which records the other loader has, unless that was done recently. Returns when to do it
 * again. */
static uint64_t follow_other(uint64_t due_ns)
{
    uint64_t begin = time_now_ns(), took;

    if (begin < due_ns)
        return due_ns;
    (void)shelf_follow(cache.shelf, note_record, NULL); /* what cannot be read is not used */
    took = time_now_ns() - begin;
    return begin + max_u64(FOLLOWED_MS * NS_PER_MS, FOLLOWED_PART * took);
}

/* Report the end of the wait. */
static void report_taken(int code, const struct plenum_error *why)
{
    assert(lock_is_held(&cache.mu));
    if (code < 0)
        (void)error_set(&cache.news, code, "samples are not cached: %s", why->text);
    else
        (void)error_set(&cache.news, 0, "%s: the other loader has ended; this one uses its cache",
                        where());
    cache.has_news = true;
}

/* Follow the loader that has the folder until it ends, then take the folder over and report it.
 * Returns 0 if the cache is open; -ECANCELED if it was closed; or -errno if the folder cannot be
 * used. */
static int wait_for_folder(void)
{
    struct plenum_error err = {""};
    uint64_t due_ns = 0;
    int r = -EBUSY;

    lock_acquire(&cache.mu);
    while (r == -EBUSY && !cache.stop) {
        lock_release(&cache.mu);
        r = take_folder(&err);
        if (r == -EBUSY)
            due_ns = follow_other(due_ns);
        lock_acquire(&cache.mu);
        if (r != -EBUSY)
            report_taken(r, &err);
        else if (!cache.stop)
            (void)lock_wait_until(&cache.mu, &cache.work,
                                  time_now_ns() + LOCK_TRIED_MS * NS_PER_MS);
    }
    lock_release(&cache.mu);
    return r == -EBUSY ? -ECANCELED : r;
}

static void *writer_main(void *arg)
{
    if (atomic_load(&cache.state) == FOLLOWING && wait_for_folder() < 0)
        return arg;
    lock_acquire(&cache.mu);
    while (!cache.stop) {
        struct list *next = list_pop_first(&cache.jobs);
        struct shelf_job *job;
        int r;

        if (!next) {
            lock_wait(&cache.mu, &cache.work);
            continue;
        }
        job = container_of(next, struct shelf_job, link);
        lock_release(&cache.mu);
        r = run_job(job);
        lock_acquire(&cache.mu);
        note_written(job, r);
        free(job);
    }
    lock_release(&cache.mu);
    return arg;
}

/* ---- ranges ---- */

static struct keep_key key_of(const struct sample_cache_range *r)
{
    uint64_t all[] = {r->object.word[0], r->object.word[1], r->offset, r->len};

    return keep_hash(all, sizeof(all));
}

/* Returns whether samples can be read from the cache. */
static bool is_in_use(void)
{
    enum sample_cache_state state = atomic_load(&cache.state);

    return state == FOLLOWING || state == OPEN;
}

static bool is_cacheable(const struct sample_cache_range *r)
{
    return r->len > 0 && r->len <= SHELF_RECORD_MAX && r->sample.set != KEEP_NO_SET && is_in_use();
}

/* Find an entry that can be read. Returns KEEP_NONE if there is none. */
static uint32_t find_ready(const struct keep_key *key, struct keep_bytes *ret)
{
    uint32_t entry;

    assert(lock_is_held(&cache.mu));
    entry = is_paused() && !cache.only_writes ? KEEP_NONE : keep_find(cache.keep, key);
    return entry != KEEP_NONE && keep_get(cache.keep, entry, ret) ? entry : KEEP_NONE;
}

/* Find a range's entry if it can be read, and get its description. Returns KEEP_NONE otherwise. */
static uint32_t find_range(const struct sample_cache_range *range, struct keep_bytes *ret)
{
    struct keep_key key;
    uint32_t entry;

    if (!is_cacheable(range)) /* without a cache, no hash is computed */
        return KEEP_NONE;
    key = key_of(range);
    lock_acquire(&cache.mu);
    entry = find_ready(&key, ret);
    lock_release(&cache.mu);
    return entry;
}

bool sample_cache_has(const struct sample_cache_range *range)
{
    struct keep_bytes bytes;
    uint32_t entry = find_range(range, &bytes);

    if (entry == KEEP_NONE)
        return false;
    shelf_announce(cache.shelf, entry, bytes.len);
    return true;
}

/* Pause or resume the use of the cache, depending on a read's result and time. */
static void note_disk(int code, uint64_t begin_ns)
{
    assert(lock_is_held(&cache.mu));
    if (code < 0 && code != -EBADMSG)
        pause_use(code);
    if (begin_ns < cache.paused_until_ns)
        return; /* a read that began before the end of the pause is not counted */
    cache.read_ns = (cache.read_ns * (READS_MEAN - 1) + time_now_ns() - begin_ns) / READS_MEAN;
    cache.reads++;
    if (cache.read_ns > SLOW_MS * NS_PER_MS)
        pause_use(-ETIMEDOUT);
    else if (cache.reads >= READS_MEAN && cache.read_ns < SLOW_MS * NS_PER_MS / 2 &&
             !cache.only_writes) /* a full disk can be read */
        resume_use();
}

/* Remove an entry whose record could not be read or has wrong bytes. Another loader may have just
 * replaced its record, and erases its damaged records itself. */
static void drop_unreadable(uint32_t entry)
{
    assert(lock_is_held(&cache.mu));
    keep_remove(cache.keep, entry);
    if (atomic_load(&cache.state) != OPEN)
        return;
    cache.counts.damaged++;
    erase_later(NULL, entry);
}

/* Handle the result of reading a record. */
static void note_read(const struct sample_cache_range *range, const struct keep_key *key,
                      uint32_t entry, int code, uint64_t begin_ns)
{
    struct keep_bytes bytes;
    bool there = find_ready(key, &bytes) == entry; /* otherwise it was removed while it was read */

    if (code == 0) {
        cache.counts.hits++;
        cache.counts.hit_bytes += range->len;
        if (there)
            keep_use(cache.keep, entry, &range->sample, time_now_ns());
    } else if (there) {
        drop_unreadable(entry);
    }
    note_disk(code, begin_ns);
}

bool sample_cache_read(const struct sample_cache_range *range, void *dst)
{
    struct keep_bytes bytes;
    uint32_t entry = find_range(range, &bytes);
    uint64_t begin;
    int r;

    if (entry == KEEP_NONE)
        return false;
    begin = time_now_ns();
    r = bytes.len == range->len ? shelf_read(cache.shelf, entry, &bytes, dst) : -EBADMSG;
    lock_acquire(&cache.mu);
    note_read(range, &bytes.key, entry, r, begin);
    lock_release(&cache.mu);
    return r == 0;
}

/* Decide whether to add a range, and queue it. */
static void add_range(const struct sample_cache_range *range, const void *content)
{
    struct keep_bytes bytes = {
        .key = key_of(range), .len = (uint32_t)range->len, .sample = range->sample};
    uint32_t entry;

    assert(lock_is_held(&cache.mu));
    if (atomic_load(&cache.state) != OPEN || is_paused() ||
        keep_find(cache.keep, &bytes.key) != KEEP_NONE)
        return;
    if (cache.queued + range->len > QUEUE_MAX) {
        cache.counts.dropped++;
        return;
    }
    entry = keep_admit(cache.keep, &bytes, time_now_ns(), evict, NULL);
    if (entry != KEEP_NONE && add_job(entry, &bytes, content) < 0)
        keep_remove(cache.keep, entry);
}

void sample_cache_keep(const struct sample_cache_range *range, const void *bytes)
{
    if (!is_cacheable(range))
        return;
    lock_acquire(&cache.mu);
    cache.counts.misses++;
    cache.counts.miss_bytes += range->len;
    add_range(range, bytes);
    lock_release(&cache.mu);
}

/* ---- streams ---- */

struct course_stream *sample_cache_open_stream(const struct course_order *order, uint32_t offset,
                                               uint32_t local)
{
    struct course_stream *stream;

    if (order->set == KEEP_NO_SET || order->order.mixture || atomic_load(&cache.state) == CLOSED)
        return NULL;
    lock_acquire(&cache.mu);
    stream = keep_open_stream(cache.keep, order, offset, local, time_now_ns());
    lock_release(&cache.mu);
    return stream;
}

void sample_cache_advance(struct course_stream *stream, struct order_place begin,
                          struct order_place end)
{
    if (!stream)
        return;
    lock_acquire(&cache.mu);
    course_advance(stream, begin, end, time_now_ns());
    lock_release(&cache.mu);
}

void sample_cache_close_stream(struct course_stream *stream)
{
    if (!stream)
        return;
    lock_acquire(&cache.mu);
    keep_close_stream(cache.keep, stream, time_now_ns());
    lock_release(&cache.mu);
}

/* ---- opening and closing ---- */

/* Free everything; the writer has ended. */
static void free_all(void)
{
    struct list *next;

    atomic_store(&cache.state, CLOSED);
    while ((next = list_pop_first(&cache.jobs)))
        free(container_of(next, struct shelf_job, link));
    keep_destroy(cache.keep);
    shelf_close(cache.shelf);
    free(cache.folder);
    cache.keep = NULL;
    cache.shelf = NULL;
    cache.folder = NULL;
    cache.queued = cache.paused_until_ns = cache.pause_s = cache.read_ns = cache.reads = 0;
    cache.counts = (struct sample_cache_counts){0};
    cache.has_news = false;
}

/* Begin to use the folder, or follow the loader that has it. */
static int start_use(struct plenum_error *err)
{
    int r = take_folder(err);

    if (r != -EBUSY)
        return r;
    atomic_store(&cache.state, FOLLOWING);
    cache.has_news = true;
    (void)error_set(&cache.news, 0,
                    "%s; its samples are read, but none are added until that loader ends",
                    err->text);
    return 0;
}

int sample_cache_open(const char *folder, uint64_t limit, struct plenum_error *err)
{
    int r;

    assert(atomic_load(&cache.state) == CLOSED && !cache.keep);
    list_init(&cache.jobs);
    cache.stop = false;
    cache.folder = folder ? strdup(folder) : NULL;
    cache.keep = keep_create(limit);
    r = cache.keep && (cache.folder || !folder) ? shelf_attach(folder, &cache.shelf, err)
                                                : error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = start_use(err);
    if (r == 0) {
        r = thread_start(&cache.writer, writer_main, NULL);
        if (r < 0)
            (void)error_set(err, r, "%s: cannot start a thread: %s", where(), strerror(-r));
    }
    if (r < 0)
        free_all();
    return r;
}

void sample_cache_close(void)
{
    if (atomic_load(&cache.state) == CLOSED)
        return;
    lock_acquire(&cache.mu);
    cache.stop = true;
    (void)pthread_cond_signal(&cache.work);
    lock_release(&cache.mu);
    (void)pthread_join(cache.writer, NULL);
    free_all();
}

void sample_cache_get_counts(struct sample_cache_counts *ret)
{
    *ret = (struct sample_cache_counts){0};
    if (!is_in_use())
        return;
    lock_acquire(&cache.mu);
    *ret = cache.counts;
    keep_get_counts(cache.keep, &ret->kept);
    ret->open = true;
    ret->in_memory = !cache.folder;
    ret->paused = cache.pause_s > 0;
    lock_release(&cache.mu);
}

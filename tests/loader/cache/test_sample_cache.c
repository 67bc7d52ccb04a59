/* SPDX-License-Identifier: MIT */
/* Tests a cache on full, failing and slow disks, and one whose folder another process has locked.
 * Each case sets whether writes and reads fail, and how long reads take. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/cache/sample_cache.h"

enum { LEN = 10000 };

static char folder[64];
static uint8_t bytes[LEN], got[LEN];
static atomic_int fails, reading_fails; /* an errno */
static atomic_int read_s;               /* how long a read takes */
static atomic_ullong passed_s;          /* seconds by which the clock is ahead */

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at);
ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t at);

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    errno = atomic_load(&fails);
    if (errno == 0)
        return __real_pwrite(fd, from, len, at);
    return -1;
}

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t at);
ssize_t __real_pread(int fd, void *to, size_t len, off_t at);

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t at)
{
    (void)atomic_fetch_add(&passed_s, (unsigned)atomic_load(&read_s));
    errno = atomic_load(&reading_fails);
    return errno == 0 ? __real_pread(fd, to, len, at) : -1;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = __real_clock_gettime(clock, ret);

    ret->tv_sec += (time_t)atomic_load(&passed_s);
    return r;
}

static void set_up(void)
{
    struct plenum_error err = {""};

    (void)snprintf(folder, sizeof(folder), "/tmp/plenum-sample_cache-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    memset(bytes, 7, sizeof(bytes));
}

static void tear_down(void)
{
    char command[100];

    sample_cache_close();
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    cr_assert(eq(int, system(command), 0));
}

TestSuite(sample_cache, .init = set_up, .fini = tear_down);

static struct sample_cache_range range_of(uint32_t i)
{
    return (struct sample_cache_range){
        .object = {{1, 2}}, .offset = i, .len = LEN, .sample = {.set = 0, .number = i}};
}

static struct sample_cache_counts counts(void)
{
    struct sample_cache_counts c;

    sample_cache_get_counts(&c);
    return c;
}

/* Keep a range, and wait until that has succeeded or failed. */
static void keep(uint32_t i)
{
    struct sample_cache_range range = range_of(i);
    uint64_t writes = counts().writes;

    sample_cache_keep(&range, bytes);
    while (counts().writes == writes && !counts().paused)
        (void)usleep(1000);
}

static bool reads(uint32_t i)
{
    struct sample_cache_range range = range_of(i);

    memset(got, 0, sizeof(got));
    return sample_cache_read(&range, got) && memcmp(got, bytes, LEN) == 0;
}

Test(sample_cache, what_was_kept_is_read_and_counted)
{
    struct sample_cache_range range = range_of(1);

    cr_assert(not(sample_cache_has(&range)));
    cr_assert(not(reads(1)));
    keep(1);
    cr_assert(sample_cache_has(&range));
    cr_assert(reads(1));
    cr_assert(eq(u64, counts().hits, 1));
    cr_assert(eq(u64, counts().misses, 1));
    cr_assert(eq(u64, counts().hit_bytes, LEN));
    cr_assert(eq(u64, counts().write_bytes, LEN));
    range.len--; /* another range */
    cr_assert(not(sample_cache_has(&range)));
}

Test(sample_cache, a_full_disk_stops_writing_and_is_reported_once)
{
    struct plenum_error news;

    keep(1);
    cr_assert(not(sample_cache_get_news(&news)));
    atomic_store(&fails, ENOSPC);
    keep(2);
    cr_assert(counts().paused);
    cr_assert(sample_cache_get_news(&news));
    cr_assert(strstr(news.text, "no samples are added to the cache at present") != NULL);
    keep(3);
    cr_assert(not(sample_cache_get_news(&news)));
    cr_assert(reads(1), "a full disk can be read");
    cr_assert(not(reads(2)));
    cr_assert(eq(u64, counts().kept.entries, 1));
}

Test(sample_cache, a_failing_disk_is_not_read_either)
{
    struct plenum_error news;

    keep(1);
    atomic_store(&fails, EIO);
    keep(2);
    cr_assert(sample_cache_get_news(&news));
    cr_assert(strstr(news.text, strerror(EIO)) != NULL);
    cr_assert(not(reads(1)));
}

/* Read a range until the cache is used again, at most `most` times. Returns one more than the
 * number of reads. */
static int read_until_used(uint32_t i, int most)
{
    int n = 0;

    while (n++ < most && counts().paused)
        cr_assert(reads(i), "after %d reads", n);
    return n;
}

Test(sample_cache, a_disk_that_has_hung_once_is_used_again)
{
    struct plenum_error news;

    keep(1);
    atomic_store(&read_s, 40);
    cr_assert(reads(1));
    atomic_store(&read_s, 0);
    cr_assert(counts().paused);
    cr_assert(sample_cache_get_news(&news));
    cr_assert(strstr(news.text, "reading them takes longer than 500 ms") != NULL);
    cr_assert(not(reads(1)));
    (void)atomic_fetch_add(&passed_s, 61);
    cr_assert(lt(int, read_until_used(1, 100), 50));
    cr_assert(sample_cache_get_news(&news));
    cr_assert(strstr(news.text, "are added to the cache again") != NULL);
}

Test(sample_cache, pauses_grow_while_the_disk_is_slow)
{
    struct plenum_error news;

    keep(1);
    atomic_store(&read_s, 20);
    for (unsigned pause_s = 60; pause_s < 3600; pause_s *= 2) {
        cr_assert(reads(1));
        (void)atomic_fetch_add(&passed_s, pause_s - 1);
        cr_assert(not(reads(1)), "after %u s", pause_s);
        (void)atomic_fetch_add(&passed_s, 2);
    }
    cr_assert(sample_cache_get_news(&news));
    cr_assert(not(sample_cache_get_news(&news)));
}

Test(sample_cache, a_full_disk_that_fails_is_not_read_either)
{
    struct plenum_error news;

    keep(1);
    keep(2);
    atomic_store(&fails, ENOSPC);
    keep(3);
    cr_assert(sample_cache_get_news(&news));
    atomic_store(&reading_fails, EIO);
    cr_assert(not(reads(1)));
    cr_assert(sample_cache_get_news(&news));
    cr_assert(strstr(news.text, strerror(EIO)) != NULL);
    atomic_store(&reading_fails, 0);
    cr_assert(not(reads(2)));
}

Test(sample_cache, a_full_disk_is_not_taken_for_a_free_one_because_it_can_be_read)
{
    keep(1);
    atomic_store(&fails, ENOSPC);
    keep(2);
    (void)atomic_fetch_add(&passed_s, 61);
    cr_assert(eq(int, read_until_used(1, 100), 101));
}

Test(sample_cache, a_full_cache_keeps_its_limit)
{
    for (uint32_t i = 0; i < 200; i++) {
        struct sample_cache_range range = range_of(i);

        sample_cache_keep(&range, bytes);
        cr_assert(le(u64, counts().kept.bytes, 1 << 20));
    }
    cr_assert(eq(u64, counts().kept.entries, (1 << 20) / (3 * KEEP_BLOCK)));
}

/* Lock the cache's folder as another process would. Returns the descriptor. */
static int lock_folder(void)
{
    char path[80];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/lock", folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, flock(fd, LOCK_EX | LOCK_NB), 0));
    return fd;
}

/* Wait until the cache has news, and check that it contains `text`. */
static void wait_for_news(const char *text)
{
    struct plenum_error news;

    while (!sample_cache_get_news(&news))
        (void)usleep(1000);
    cr_assert(strstr(news.text, text) != NULL, "%s", news.text);
}

Test(sample_cache, a_folder_is_taken_over_when_it_becomes_free)
{
    struct course_order order = {
        .set = 0, .order = {.n = 10, .shuffle = ORDER_GLOBAL}, .steps = {.n = 10, .per_step = 1}};
    struct plenum_error err = {""};
    struct course_stream *stream;
    int lock;

    keep(1);
    sample_cache_close();
    lock = lock_folder();
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    wait_for_news("another loader uses it");
    stream = sample_cache_open_stream(&order, 0, 1);
    cr_assert(stream != NULL);
    (void)close(lock);
    wait_for_news("this one uses its cache");
    cr_assert(counts().open);
    cr_assert(reads(1));
    cr_assert(eq(u64, counts().kept.known, 1), "the stream is known");
    keep(2);
    cr_assert(reads(2));
    sample_cache_close_stream(stream);
}

/* Read or write a byte of the cache's file. */
static uint8_t byte_at(off_t at, int changed)
{
    char path[80];
    uint8_t byte = (uint8_t)changed;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/0000.samples", folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert(ge(int, fd, 0));
    if (changed >= 0)
        cr_assert(eq(int, (int)pwrite(fd, &byte, 1, at), 1));
    else
        cr_assert(eq(int, (int)pread(fd, &byte, 1, at), 1));
    (void)close(fd);
    return byte;
}

Test(sample_cache, samples_of_the_loader_that_has_the_folder_are_read)
{
    enum { ROW_AT = 4096, RECORD_AT = 1 << 20 };
    struct sample_cache_range other = range_of(2);
    struct plenum_error err = {""};
    uint8_t before;
    int lock;

    keep(1);
    sample_cache_close();
    lock = lock_folder();
    before = byte_at(ROW_AT, -1);
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    wait_for_news("its samples are read, but none are added until that loader ends");
    while (!reads(1))
        (void)usleep(1000);
    cr_assert(eq(u64, counts().hits, 1));
    sample_cache_keep(&other, bytes);
    cr_assert(eq(u64, counts().misses, 1));
    cr_assert(not(reads(2)));
    (void)byte_at(RECORD_AT, bytes[0] ^ 1); /* it replaces the record */
    cr_assert(not(reads(1)));
    cr_assert(zero(u64, counts().damaged));
    (void)byte_at(RECORD_AT, bytes[0]);
    (void)atomic_fetch_add(&passed_s, 2); /* the next look at its records is due */
    while (!reads(1))
        (void)usleep(1000);
    cr_assert(zero(u64, counts().writes));
    sample_cache_close();
    cr_assert(eq(u8, byte_at(ROW_AT, -1), before), "nothing was erased");
    (void)close(lock);
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    cr_assert(reads(1));
}

Test(sample_cache, a_cache_that_waits_for_a_folder_can_be_closed)
{
    struct sample_cache_range range = range_of(1);
    struct plenum_error err = {""};
    int lock;

    sample_cache_close();
    lock = lock_folder();
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    sample_cache_keep(&range, bytes);
    sample_cache_close();
    (void)close(lock);
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    cr_assert(counts().open);
    cr_assert(not(reads(1)));
}

Test(sample_cache, a_folder_that_has_become_unusable_is_reported)
{
    struct plenum_error err = {""};
    int lock;

    sample_cache_close();
    lock = lock_folder();
    cr_assert(eq(int, sample_cache_open(folder, 1 << 20, &err), 0), "%s", err.text);
    wait_for_news("another loader uses it");
    cr_assert(eq(int, chmod(folder, 0777), 0));
    (void)close(lock);
    wait_for_news("samples are not cached: ");
    cr_assert(not(counts().open));
    cr_assert(not(reads(1)));
}

Test(sample_cache, without_a_cache_nothing_happens)
{
    struct sample_cache_range range = range_of(1);

    sample_cache_close();
    sample_cache_keep(&range, bytes);
    cr_assert(not(sample_cache_has(&range)));
    cr_assert(not(reads(1)));
    cr_assert(not(counts().open));
    sample_cache_advance(NULL, (struct order_place){0}, (struct order_place){0});
    sample_cache_close_stream(NULL);
}

/* SPDX-License-Identifier: MIT */
/* Full and failing disks: writes fail as a test says. */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/cache/sample_cache.h"

enum { LEN = 10000 };

static char folder[64];
static uint8_t bytes[LEN], got[LEN];
static atomic_int fails; /* an errno */

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at);
ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t at);

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    errno = atomic_load(&fails);
    if (errno == 0)
        return __real_pwrite(fd, from, len, at);
    return -1;
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

Test(sample_cache, a_full_cache_keeps_its_limit)
{
    for (uint32_t i = 0; i < 200; i++) {
        struct sample_cache_range range = range_of(i);

        sample_cache_keep(&range, bytes);
        cr_assert(le(u64, counts().kept.bytes, 1 << 20));
    }
    cr_assert(eq(u64, counts().kept.entries, (1 << 20) / (3 * KEEP_BLOCK)));
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

/* SPDX-License-Identifier: MIT */
/* Checks that a reader gets the hint that was written for the sample, or none. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/dataset/hint_cache.h"
#include "tests/tree.h"

enum { SAMPLES = 50 };

int __wrap_fsync(int fd);

/* Skip fsync(): the test writes thousands of files, which need not survive it. */
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

static struct tree tree;
static const char *path;
static struct hint_cache_key subject = {
    .fingerprint = "fifteen letters", .samples = SAMPLES, .bytes = 25 * 100000};

static void setup(void)
{
    tree_init(&tree);
    path = tree_path(&tree, "x.notes");
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(hints, .init = setup, .fini = teardown);

static struct hint_cache *opened(void)
{
    struct hint_cache *n = NULL;

    cr_assert(eq(int, hint_cache_make(path, &subject, &n), 0));
    return n;
}

/* Make bytes by which the sample and its version can be recognised. */
static void make(uint32_t sample, uint32_t version, uint8_t *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)philox_draw(sample, (uint32_t)(i / 4), version, DRAW_SEED, 0).word[i % 4];
}

static size_t length_of(uint32_t sample, uint32_t version)
{
    return 20 + sample * 3 + version * 40;
}

static int put_from(struct hint_cache *n, uint32_t sample, uint32_t version, size_t had)
{
    uint8_t bytes[1000];
    size_t len = length_of(sample, version);

    make(sample, version, bytes, len);
    return hint_cache_put(n, sample, bytes, len, length_of(sample, 5), had);
}

/* Replace the sample's hint. */
static int put(struct hint_cache *n, uint32_t sample, uint32_t version)
{
    static __thread struct dataset_buffer buffer;
    const uint8_t *bytes;
    size_t len;

    return put_from(n, sample, version, hint_cache_get(n, sample, &buffer, &bytes, &len) ? len : 0);
}

/* Returns the stored version of a sample's hint, or -1 if there is none. Fails the test if the hint
 * is anything else. */
static int version_of(struct hint_cache *n, uint32_t sample)
{
    static __thread struct dataset_buffer buffer;
    const uint8_t *bytes;
    uint8_t want[1000];
    size_t len;

    if (!hint_cache_get(n, sample, &buffer, &bytes, &len))
        return -1;
    for (uint32_t version = 0; version < 6; version++)
        if (len == length_of(sample, version)) {
            make(sample, version, want, len);
            cr_assert(memcmp(bytes, want, len) == 0, "sample %u", sample);
            return (int)version;
        }
    cr_assert(false, "sample %u: %zu bytes", sample, len);
    return -1;
}

static uint64_t file_size(void)
{
    struct stat st;

    cr_assert(eq(int, stat(path, &st), 0));
    return (uint64_t)st.st_size;
}

/* If two threads begin with the same hint and each finds more, the longer result is kept. */
Test(hints, only_grow)
{
    struct hint_cache *n = opened();

    for (uint32_t i = 0; i < SAMPLES; i++) {
        cr_assert(eq(int, put_from(n, i, 3, 0), 0));
        cr_expect(eq(int, put_from(n, i, 1, 0), 0));
        cr_expect(eq(int, version_of(n, i), 3), "written meanwhile");
        cr_expect(eq(int, put_from(n, i, 4, length_of(i, 1)), 0));
        cr_expect(eq(int, version_of(n, i), 4), "a longer one");
        cr_expect(eq(int, put_from(n, i, 0, length_of(i, 4)), 0));
        cr_expect(eq(int, version_of(n, i), 0), "a hint replaces the one from which it was "
                                                "derived, even if it is not longer");
    }
    hint_cache_close(n);
}

Test(hints, grow_in_place)
{
    struct hint_cache *n = opened();
    uint64_t size;

    for (uint32_t i = 0; i < SAMPLES; i++)
        cr_expect(eq(int, version_of(n, i), -1));
    for (uint32_t i = 0; i < SAMPLES; i += 2)
        cr_assert(eq(int, put(n, i, 0), 0));
    size = file_size();
    for (uint32_t i = 0; i < SAMPLES; i += 4)
        cr_assert(eq(int, put(n, i, 3), 0));
    cr_expect(eq(u64, file_size(), size));
    cr_expect(eq(int, hint_cache_state(n), 0));
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < SAMPLES; i++)
            cr_expect(eq(int, version_of(n, i), i % 4 == 0 ? 3 : i % 2 == 0 ? 0 : -1), "%u", i);
        hint_cache_close(n);
        n = opened();
    }
    hint_cache_close(n);
}

Test(hints, of_another_index_are_deleted)
{
    struct hint_cache *n = opened();
    struct hint_cache_key other = subject;

    cr_assert(eq(int, put(n, 1, 1), 0));
    hint_cache_close(n);
    other.fingerprint[3] ^= 1;
    cr_expect(eq(int, hint_cache_open(path, &other, &n), -ESTALE));
    cr_assert(eq(int, hint_cache_make(path, &other, &n), 0));
    cr_expect(eq(int, version_of(n, 1), -1));
    hint_cache_close(n);
    cr_expect(eq(int, hint_cache_open(path, &subject, &n), -ESTALE));
    cr_assert(eq(int, unlink(path), 0));
    cr_expect(eq(int, hint_cache_open(path, &subject, &n), -ENOENT));
    other.bytes = SAMPLES * 8 * 25;
    cr_expect(eq(int, hint_cache_make(path, &other, &n), -EFBIG));
}

/* If the file is truncated while it is open, hints are missing, and nothing worse happens. */
Test(hints, may_be_truncated_while_they_are_open)
{
    struct hint_cache *n = opened();

    cr_assert(eq(int, put(n, 1, 1), 0));
    cr_assert(eq(int, put(n, 7, 1), 0));
    cr_expect(eq(int, version_of(n, 7), 1));
    for (off_t size = (off_t)file_size(); size >= 0; size -= 8) {
        cr_assert(eq(int, truncate(path, size), 0));
        cr_expect(ne(int, version_of(n, 7), 2));
    }
    cr_expect(eq(int, version_of(n, 7), -1));
    hint_cache_close(n);
}

/* Whatever is stored, the file stays below a 25th of the data, and existing hints may grow. */
Test(hints, stay_within_their_share)
{
    struct hint_cache *n;
    int fitted = 0;

    subject.bytes = 25 * 4000;
    for (uint32_t round = 0; round < 3; round++) {
        n = opened();
        for (uint32_t i = 0; i < SAMPLES; i++) {
            int r = put(n, i, round);

            cr_assert(r == 0 || r == -ENOSPC);
            cr_assert(le(u64, file_size(), 4000));
            cr_expect(eq(int, version_of(n, i), r == 0 ? (int)round : -1), "%u", i);
            fitted += round == 2 && r == 0;
        }
        cr_expect(eq(int, hint_cache_state(n), -ENOSPC));
        hint_cache_close(n);
    }
    cr_expect(fitted > 3 && fitted < SAMPLES, "%d", fitted);
}

/* Overwrite a file in place, so that thousands of writes need not wait for the disk. */
static void overwrite(const char *name, const void *bytes, size_t len)
{
    int fd = open(name, O_WRONLY | O_TRUNC);

    cr_assert(eq(int, io_write_all(fd, bytes, len), 0));
    (void)close(fd);
}

/* With any byte of the file changed, or the file truncated anywhere, a reader gets the hint that
 * was written or none, and hints written afterwards are found. */
Test(hints, damaged_files)
{
    static uint8_t bytes[4096], changed[4096];
    struct hint_cache *n;
    int fd, lost = 0;
    size_t len;

    subject.samples = 6;
    subject.bytes = 25 * 3000;
    n = opened();
    for (uint32_t i = 0; i < 6; i += 2)
        cr_assert(eq(int, put(n, i, 2), 0));
    hint_cache_close(n);
    len = file_size();
    cr_assert(le(sz, len, sizeof(bytes)));
    fd = open(path, O_RDWR);
    cr_assert(eq(int, io_pread_all(fd, bytes, len, 0), 0));
    (void)close(fd);
    for (size_t i = 0; i < 3 * len; i++) {
        memcpy(changed, bytes, len);
        if (i < 2 * len)
            changed[i / 2] ^= i % 2 ? 0x81 : 0xFF;
        overwrite(path, changed, i < 2 * len ? len : i - 2 * len);
        n = opened();
        for (uint32_t k = 0; k < 6; k++) {
            int version = version_of(n, k);

            cr_assert(version == -1 || (version == 2 && k % 2 == 0), "byte %zu: sample %u", i, k);
            lost += version == -1 && k % 2 == 0;
        }
        for (uint32_t k = 0; k < 6; k++) {
            int r = put(n, k, 3);

            cr_assert(r == 0 || r == -ENOSPC, "byte %zu: %d", i, r);
            cr_assert(r < 0 || version_of(n, k) == 3, "byte %zu: sample %u", i, k);
        }
        hint_cache_close(n);
    }
    cr_expect(lost > 0, "no damaged hint was detected");
}

static void *write_and_read(void *arg)
{
    struct hint_cache *n = arg;
    uint32_t seed = (uint32_t)(uintptr_t)pthread_self() ^ (uint32_t)getpid();

    for (uint32_t i = 0; i < 4000; i++) {
        struct philox_block d = philox_draw(seed, i, 0, DRAW_SEED, 0);

        if (d.word[0] % 2)
            cr_assert(eq(int, put(n, d.word[1] % SAMPLES, d.word[2] % 6), 0));
        else
            (void)version_of(n, d.word[1] % SAMPLES);
    }
    return NULL;
}

/* Three processes with three threads each read only hints that one of them wrote. */
Test(hints, written_by_many_at_once)
{
    int found = 0;
    struct hint_cache *n = opened();
    int status;

    for (int i = 0; i < 3; i++) {
        if (fork() == 0) {
            struct hint_cache *mine = opened();
            pthread_t threads[3];

            for (int k = 0; k < 3; k++)
                cr_assert(eq(int, pthread_create(&threads[k], NULL, write_and_read, mine), 0));
            for (int k = 0; k < 3; k++)
                (void)pthread_join(threads[k], NULL);
            hint_cache_close(mine);
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        cr_assert(gt(int, wait(&status), 0));
        cr_assert(eq(int, status, 0));
    }
    /* Two threads that wrote one hint at the same moment may both have lost it, but not often. */
    for (uint32_t i = 0; i < SAMPLES; i++)
        found += version_of(n, i) >= 0;
    cr_expect(gt(int, found, SAMPLES / 2), "%d", found);
    cr_expect(le(u64, file_size(), subject.bytes / 25));
    hint_cache_close(n);
}

Test(hints, of_another_user_are_only_read)
{
    struct hint_cache *n = opened();

    cr_assert(eq(int, put(n, 7, 1), 0));
    hint_cache_close(n);
    cr_assert(eq(int, chmod(path, 0444), 0));
    cr_assert(eq(int, chmod(tree.root, 0555), 0));
    if (fork() == 0) {
        int ok = geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;

        ok = ok && hint_cache_make(path, &subject, &n) == 0 && version_of(n, 7) == 1 &&
             version_of(n, 8) == -1 && hint_cache_state(n) == -EROFS && put(n, 8, 1) == -EROFS &&
             version_of(n, 8) == -1;
        subject.fingerprint[0] ^= 1;
        ok = ok && hint_cache_make(path, &subject, &n) < 0;
        _exit(ok ? 0 : 1);
    } else {
        int status;

        cr_assert(gt(int, wait(&status), 0));
        cr_expect(eq(int, status, 0));
    }
    cr_assert(eq(int, chmod(tree.root, 0755), 0));
}

/* SPDX-License-Identifier: MIT */
/* Tests which files are removed from a cache folder that is too large, or whose files are too old.
 * The oracle removes one file after another, by last use, as long as a limit is exceeded. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/cache_limit.h"
#include "loader/dataset/dataset.h"

enum { FILES = 12, UNIT = 64 << 10, ROUNDS = 200 };

static char folder[200];
static bool has_attributes;

/* Write the name of file `i`. Every fourth file is a table that belongs to the index before it. */
static char *name_of(unsigned i, char *text, size_t size)
{
    if (i % 4 == 3)
        (void)snprintf(text, size, "%s/%032x.index.fields-%016x", folder, i - 1, i);
    else
        (void)snprintf(text, size, "%s/%032x.index", folder, i);
    return text;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Create a file of `units` units, of one of two users, last used `ago_s` seconds ago. */
static void make(unsigned i, unsigned units, const char *user, unsigned ago_s)
{
    struct timespec times[] = {{.tv_sec = time(NULL) - (time_t)ago_s}, {.tv_nsec = UTIME_OMIT}};
    char path[400];
    void *bytes = calloc(units, UNIT);
    int fd = open(name_of(i, path, sizeof(path)), O_RDWR | O_CREAT | O_TRUNC, 0600);

    cr_assert(fd >= 0 && bytes);
    memset(bytes, 'x', (size_t)units * UNIT);
    cr_assert(eq(int, io_write_all(fd, bytes, (size_t)units * UNIT), 0));
    has_attributes = fsetxattr(fd, "user.plenum.user", user, strlen(user), 0) == 0;
    cr_assert(eq(int, futimens(fd, times), 0));
    (void)close(fd);
    free(bytes);
}

static void setup(void)
{
    (void)snprintf(folder, sizeof(folder), "%s/plenum-test-XXXXXX",
                   getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
}

static void teardown(void)
{
    char *command = str_format("rm -rf '%s'", folder);

    cr_assert(eq(int, system(command), 0));
    free(command);
}

TestSuite(cache_limit, .init = setup, .fini = teardown, .timeout = 600);

Test(cache_limit, removes_the_least_recently_used_but_nothing_in_use)
{
    srand(7);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned units[FILES], total = 0, of_user = 0, age_s = 500;
        bool held[FILES], of[FILES], gone[FILES] = {false};
        int holds[FILES];
        struct dataset_cache_limits limits = {.bytes = (1 + (uint64_t)rand() % 30) * UNIT,
                                              .user_bytes = (1 + (uint64_t)rand() % 20) * UNIT,
                                              .age_ns = age_s * NS_PER_SEC};
        char path[400];
        bool kept;

        for (unsigned i = 0; i < FILES; i++) { /* the first file was used longest ago */
            units[i] = 1 + (unsigned)rand() % 3;
            of[i] = rand() % 2;
            make(i, units[i], of[i] ? "1" : "12", 1000 - 60 * i);
            held[i] = rand() % 4 == 0;
            holds[i] = -1;
            if (held[i]) {
                holds[i] = open(name_of(i, path, sizeof(path)), O_RDONLY | O_CLOEXEC);
                cr_assert(eq(int, flock(holds[i], LOCK_SH | LOCK_NB), 0));
            }
            total += units[i];
            of_user += of[i] && has_attributes ? units[i] : 0;
        }
        for (unsigned i = 0; i < FILES; i++) {
            bool mine = of[i] && has_attributes;
            bool must = 1000 - 60 * i > age_s || total * (uint64_t)UNIT > limits.bytes ||
                        (mine && of_user * (uint64_t)UNIT > limits.user_bytes);

            if (!must || held[i])
                continue;
            gone[i] = true;
            total -= units[i];
            of_user -= mine ? units[i] : 0;
        }
        (void)snprintf(path, sizeof(path), "%s/last", folder);
        cr_assert(eq(int, io_write_file(path, "", 0), 0));
        kept = cache_trim(path, &limits, "1");
        cr_expect(eq(int, kept, exists(path)));
        cr_expect(eq(int, exists(path),
                     total *(uint64_t)UNIT <= limits.bytes &&
                         of_user * (uint64_t)UNIT <= limits.user_bytes),
                  "the file that was written last is kept if there is room");
        for (unsigned i = 0; i < FILES; i++) {
            cr_expect(eq(int, exists(name_of(i, path, sizeof(path))), !gone[i]), "%u of round %u",
                      i, round);
            (void)unlink(path);
            io_close(&holds[i]);
        }
    }
}

/* Files stay while another process holds the lock of their index, because it is building the
 * index. */
Test(cache_limit, keeps_files_that_are_being_written)
{
    struct dataset_cache_limits limits = {.bytes = 1};
    char path[400], *lock_path;
    int lock;

    make(0, 1, "1", 10);
    lock_path = str_format("%s.lock", name_of(0, path, sizeof(path)));
    lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(eq(int, flock(lock, LOCK_EX | LOCK_NB), 0));
    (void)cache_trim(lock_path, &(struct dataset_cache_limits){0}, "1");
    cr_expect(exists(lock_path), "without limits, no file is removed");
    (void)snprintf(path, sizeof(path), "%s/last", folder);
    (void)cache_trim(path, &limits, "1");
    (void)name_of(0, path, sizeof(path));
    cr_expect(exists(path));
    (void)close(lock);
    free(lock_path);
}

Test(cache_limit, an_index_is_removed_with_its_companions)
{
    static const char *const suffixes[] = {".sums", ".notes", ".lock"};
    struct dataset_cache_limits limits = {.age_ns = NS_PER_SEC};
    char path[400], other[420];

    make(0, 1, "1", 10);
    (void)name_of(0, path, sizeof(path));
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        (void)snprintf(other, sizeof(other), "%s%s", path, suffixes[i]);
        cr_assert(eq(int, io_write_file(other, "x", 1), 0));
    }
    (void)snprintf(other, sizeof(other), "%s/list.bad", folder);
    cr_assert(eq(int, io_write_file(other, "x", 1), 0));
    (void)cache_trim(other, &limits, NULL);
    cr_expect(exists(other), "lists of bad samples are not removed");
    cr_expect(not(exists(path)));
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        (void)snprintf(other, sizeof(other), "%s%s", path, suffixes[i]);
        cr_expect(not(exists(other)), "%s", suffixes[i]);
    }
}

/* Files whose index is gone are useless: they are removed, and are not counted. */
Test(cache_limit, files_without_an_index_are_removed)
{
    static const struct {
        const char *name;
        unsigned age_s;
        bool stays, stays_locked;
    } files[] = {
        {"1.index.sums", 0, false, true},  {"1.index.notes", 0, false, true},
        {"1.index.lock", 0, false, true},  {"1.index.notes.00.tmp", 7200, false, true},
        {"1.index.00.tmp", 0, true, true}, {"2.index.sums", 0, true, true},
        {"2.index.notes", 0, true, true},  {"2.index.lock", 0, true, true},
        {"2.index", 0, true, true},        {"2.index.00.tmp", 7200, false, false},
        {"1.bad", 0, true, true},          {"1.index.other", 0, true, true},
    };
    struct dataset_cache_limits limits = {.bytes = 1 << 30};

    for (int locked = 0; locked < 2; locked++) {
        char path[400];
        int lock = -1;

        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
            struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
                                       {.tv_sec = time(NULL) - (time_t)files[i].age_s}};

            (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
            cr_assert(eq(int, io_write_file(path, "x", 1), 0));
            cr_assert(eq(int, utimensat(AT_FDCWD, path, times, 0), 0));
        }
        if (locked) { /* its index is being built */
            (void)snprintf(path, sizeof(path), "%s/1.index.lock", folder);
            lock = open(path, O_RDWR | O_CLOEXEC);
            cr_assert(eq(int, flock(lock, LOCK_EX | LOCK_NB), 0));
        }
        (void)snprintf(path, sizeof(path), "%s/2.index", folder);
        cr_expect(cache_trim(path, &limits, NULL));
        for (size_t i = 0; i < ARRAY_LEN(files); i++) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
            cr_expect(eq(int, exists(path), locked ? files[i].stays_locked : files[i].stays),
                      "%s, locked: %d", files[i].name, locked);
        }
        io_close(&lock);
    }
}

/* A data set whose index is over the limit is read from memory, and leaves no file. */
Test(cache_limit, an_index_over_the_limit_leaves_nothing)
{
    char images[300], cache[300], path[400];
    struct dataset_options options = {
        .cache_dir = cache, .threads = 1, .hints = true, .limits = {.bytes = 1}};
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct dataset *d;

    (void)snprintf(images, sizeof(images), "%s/data", folder);
    (void)snprintf(cache, sizeof(cache), "%s/cache", folder);
    cr_assert(eq(int, mkdir(images, 0777), 0));
    (void)snprintf(path, sizeof(path), "%s/a", images);
    cr_assert(eq(int, mkdir(path, 0777), 0));
    for (int i = 0; i < 20; i++) {
        void *bytes = calloc(1, UNIT);

        (void)snprintf(path, sizeof(path), "%s/a/%d.jpg", images, i);
        cr_assert(bytes && io_write_file(path, bytes, UNIT) == 0);
        free(bytes);
    }
    cr_assert(eq(int, dataset_open(images, &options, &d, &err), 0), "%s", err.text);
    cr_expect(eq(ptr, (void *)dataset_get_index_path(d), NULL));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0), "%s", err.text);
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
    /* rmdir() removes only an empty folder. */
    (void)snprintf(path, sizeof(path), "%s", cache);
    cr_expect(eq(int, rmdir(path), 0), "the cache folder is empty");
}

/* A held file is neither old nor removable until it is released. */
Test(cache_limit, a_held_file_counts_as_used)
{
    struct dataset_cache_limits limits = {.age_ns = 5 * NS_PER_SEC}, none = {.bytes = 1};
    char path[400];
    int hold;

    make(0, 1, "1", 10);
    (void)name_of(0, path, sizeof(path));
    hold = cache_hold(path, NULL);
    cr_assert(hold >= 0);
    (void)snprintf(path, sizeof(path), "%s/last", folder);
    (void)cache_trim(path, &none, NULL);
    cr_expect(exists(name_of(0, path, sizeof(path))));
    (void)close(hold);
    (void)snprintf(path, sizeof(path), "%s/last", folder);
    (void)cache_trim(path, &limits, NULL);
    cr_expect(exists(name_of(0, path, sizeof(path))), "a file that was just released is not "
                                                      "removed");
}

/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/job/advance.h"

static char folder[64];

static void enter(void)
{
    strcpy(folder, "/tmp/plenum-advance-XXXXXX");
    cr_assert(ne(ptr, mkdtemp(folder), NULL));
    cr_assert(eq(int, chdir(folder), 0));
}

static void leave(void)
{
    cr_assert(eq(int, chdir("/"), 0));
    cr_assert(eq(int, rmdir(folder), 0), "a test has left files behind");
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen("new", "w");

    cr_assert(ne(ptr, f, NULL));
    fputs(text, f);
    fclose(f);
    cr_assert(eq(int, rename("new", path), 0));
}

TestSuite(advance, .init = enter, .fini = leave);

Test(advance, is_unknown_without_a_file_and_steps)
{
    struct advance a;

    advance_begin(&a, NULL);
    for (int i = 0; i < 3; i++)
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_UNKNOWN));
    cr_expect(eq(u32, a.idle, 0), "unknown progress must not count as none");
    cr_expect(eq(int, advance_note(&a, 1), ADVANCE_MADE), "step 0");
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE),
              "the program is now known to report steps");
}

Test(advance, counts_only_steps_beyond_earlier_ones)
{
    struct advance a;

    advance_begin(&a, NULL);
    cr_expect(eq(int, advance_note(&a, 10), ADVANCE_MADE));
    cr_expect(eq(int, advance_note(&a, 10), ADVANCE_NONE));
    cr_expect(eq(int, advance_note(&a, 9), ADVANCE_NONE));
    cr_expect(eq(u32, a.idle, 2));
    cr_expect(eq(int, advance_note(&a, 11), ADVANCE_MADE));
    cr_expect(eq(u32, a.idle, 0));
}

Test(advance, notices_changes_of_the_checkpoint)
{
    static const char *const paths[] = {"run.pt", "./run.pt", NULL};
    char absolute[100];

    snprintf(absolute, sizeof(absolute), "%s/run.pt", folder);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct advance a;

        write_file("run.pt.1", "from an earlier job");
        advance_begin(&a, paths[i] ? paths[i] : absolute);
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE), "an earlier job's checkpoint");
        write_file("run.pt.1", "from an earlier job");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE),
                  "a checkpoint replaced by the same bytes");
        write_file("run.pt.2", "from an earlier job");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE),
                  "the next start's checkpoint, with the same bytes");
        cr_assert(eq(int, unlink("run.pt.1"), 0));
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE), "the earlier one was removed");
        write_file("run.pt.2", "x");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE), "a checkpoint with other content");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
        write_file("run.pt", "y");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE), "a checkpoint without a number");
        write_file("run.pt.3.claim", "x");
        write_file("run.pt.3.new", "x");
        write_file("run.pt.", "x");
        write_file("arun.pt", "x");
        write_file("run.pty", "x");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE), "none of these is a checkpoint");
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
        cr_expect(eq(u32, a.idle, 2));
        advance_end(&a);
        cr_assert(eq(int, system("rm -f -- *"), 0));
    }
}

/* Write one byte into a file without changing its size. If `ago` is not 0, it seems to have been
 * written that number of seconds ago, so that an unchanged file is not read again. */
static void poke(const char *path, off_t at, char byte, time_t ago)
{
    const struct timespec times[] = {{time(NULL) - ago, 0}, {time(NULL) - ago, 0}};
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    cr_assert(eq(i64, pwrite(fd, &byte, 1, at), 1));
    if (ago > 0)
        cr_assert(eq(int, futimens(fd, times), 0));
    (void)close(fd);
}

/* Change single bytes of a file of this size. */
static void compare(off_t size, time_t ago)
{
    const off_t ends[] = {0, size - 1};
    struct advance a;

    write_file("run.pt", "");
    cr_assert(eq(int, truncate("run.pt", size), 0));
    advance_begin(&a, "run.pt");
    for (int k = 0; k < 4; k++) {
        char byte = k % 2 ? 'b' : 'a';

        poke("run.pt", ends[k / 2], byte, ago ? ago - 20 * k : 0);
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE), "byte %lld of %lld",
                  (long long)ends[k / 2], (long long)size);
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
        poke("run.pt", ends[k / 2], byte, ago ? ago - 20 * k - 10 : 0);
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE), "the same byte");
    }
    if (size <= 16 << 20) {
        poke("run.pt", size / 2, 'c', ago ? ago - 100 : 0);
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE), "size %lld", (long long)size);
    }
    advance_end(&a);
    cr_assert(eq(int, unlink("run.pt"), 0));
}

Test(advance, compares_small_files_whole_and_large_ones_in_part)
{
    static const off_t sizes[] = {1, 4096, (1 << 20) + 1, 16 << 20, (16 << 20) + 1, (off_t)1 << 33};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        compare(sizes[i], 0);
        compare(sizes[i], 86400);
    }
}

Test(advance, a_change_of_the_size_is_progress)
{
    struct advance a;

    write_file("run.pt", "");
    cr_assert(eq(int, truncate("run.pt", 1 << 30), 0));
    advance_begin(&a, "run.pt");
    cr_assert(eq(int, truncate("run.pt", (1 << 30) + 1), 0));
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE));
    advance_end(&a);
    cr_assert(eq(int, unlink("run.pt"), 0));
}

Test(advance, an_entry_that_is_added_to_a_folder_is_progress)
{
    const struct timespec past[] = {{1, 0}, {1, 0}};
    struct advance a;

    cr_assert(eq(int, mkdir("run", 0700), 0));
    cr_assert(eq(int, utimensat(AT_FDCWD, "run", past, 0), 0));
    advance_begin(&a, "run");
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
    write_file("run/model.pt", "x");
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE));
    advance_end(&a);
    cr_assert(eq(int, unlink("run/model.pt"), 0));
    cr_assert(eq(int, rmdir("run"), 0));
}

Test(advance, no_checkpoint_is_no_progress)
{
    struct advance a;

    advance_begin(&a, "nothing/there");
    for (uint32_t i = 1; i <= 3; i++) {
        cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
        cr_expect(eq(u32, a.idle, i));
    }
}

Test(advance, pauses_grow_and_vary)
{
    static const uint64_t want[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};

    for (uint32_t i = 0; i < ARRAY_LEN(want); i++) {
        uint64_t least = UINT64_MAX, most = 0;

        for (uint64_t draw = 0; draw < 1000; draw++) {
            least = min_u64(least, advance_pause_ms(i + 1, draw));
            most = max_u64(most, advance_pause_ms(i + 1, draw));
        }
        cr_expect(eq(u64, least, want[i] * 3 / 4));
        cr_expect(eq(u64, most, want[i] * 5 / 4));
    }
    cr_expect(eq(u64, advance_pause_ms(UINT32_MAX, 25), 60000));
}

Test(advance, is_unknown_if_the_folder_cannot_be_read)
{
    struct advance a;

    write_file("file", "a");
    advance_begin(&a, "file/run.pt");
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_UNKNOWN));
    cr_expect(eq(int, a.unread, -ENOTDIR));
    cr_assert(eq(int, unlink("file"), 0));
}

Test(advance, a_lost_folder_is_no_progress)
{
    struct advance a;

    cr_assert(eq(int, mkdir("none", 0700), 0));
    advance_begin(&a, "none/run.pt");
    write_file("none/run.pt", "a");
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_MADE));
    cr_assert(eq(int, rename("none", "away"), 0));
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE));
    cr_assert(eq(int, rename("away", "none"), 0));
    cr_expect(eq(int, advance_note(&a, 0), ADVANCE_NONE), "the folder has returned unchanged");
    advance_end(&a);
    cr_assert(eq(int, unlink("none/run.pt"), 0));
    cr_assert(eq(int, rmdir("none"), 0));
}

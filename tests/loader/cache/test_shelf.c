/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/cache/shelf.h"
#include "tests/loader/cache/open_shelf.h"

enum { COUNT = 40, LEN = 5000, ROW = 48 };

static char folder[64], file[128];
static uint32_t found;
static uint8_t content[LEN], got[LEN];

static void set_up(void)
{
    (void)snprintf(folder, sizeof(folder), "/tmp/plenum-shelf-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(file, sizeof(file), "%s/0000.samples", folder);
}

static void tear_down(void)
{
    char path[200];

    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%04u.samples", folder, i);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/lock", folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

TestSuite(shelf, .init = set_up, .fini = tear_down);

static struct keep_bytes make(uint32_t i)
{
    struct keep_bytes bytes = {.key = {{i + 1, i * 7}}, .len = LEN - i, .sample = {i * 5, i * 3}};

    memset(content, (int)i + 1, sizeof(content));
    bytes.hash = shelf_hash(&bytes.key, content, bytes.len);
    return bytes;
}

static bool note_found(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    struct keep_bytes want = make(number);

    (void)arg;
    cr_assert(eq(u64, bytes->key.word[0], want.key.word[0]));
    cr_assert(eq(u64, bytes->key.word[1], want.key.word[1]));
    cr_assert(eq(u64, bytes->hash, want.hash));
    cr_assert(eq(u32, bytes->len, want.len));
    cr_assert(eq(u64, bytes->sample.set, want.sample.set));
    cr_assert(eq(u32, bytes->sample.number, want.sample.number));
    found++;
    return true;
}

static bool refuse(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    (void)arg;
    (void)number;
    (void)bytes;
    return false;
}

static struct shelf *reopen(shelf_found *call)
{
    struct plenum_error err = {""};
    struct shelf *s;

    found = 0;
    cr_assert(eq(int, open_shelf(folder, call, NULL, &s, &err), 0), "%s", err.text);
    return s;
}

static void write_all(struct shelf *s)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        struct keep_bytes bytes = make(i);

        cr_assert(eq(int, shelf_write(s, i, &bytes, content), 0));
    }
}

static uint64_t blocks(void)
{
    struct stat st;

    cr_assert(eq(int, stat(file, &st), 0));
    return (uint64_t)st.st_blocks * 512;
}

Test(shelf, records_are_there_after_a_restart)
{
    struct shelf *s = reopen(note_found);

    cr_assert(eq(u32, found, 0));
    write_all(s);
    shelf_close(s);
    s = reopen(note_found);
    cr_assert(eq(u32, found, COUNT));
    for (uint32_t i = 0; i < COUNT; i++) {
        struct keep_bytes bytes = make(i);

        cr_assert(eq(int, shelf_read(s, i, &bytes, got), 0));
        cr_assert(eq(int, memcmp(got, content, bytes.len), 0));
        bytes.key.word[1]++; /* a record is bound to its key */
        cr_assert(eq(int, shelf_read(s, i, &bytes, got), -EBADMSG));
    }
    shelf_close(s);
}

Test(shelf, erasing_frees_space)
{
    struct shelf *s = reopen(note_found);
    uint64_t full;

    write_all(s);
    full = blocks();
    cr_assert(ge(u64, full, (uint64_t)COUNT * LEN));
    for (uint32_t i = 0; i < COUNT; i++) {
        struct keep_bytes bytes = make(i);

        cr_assert(eq(int, shelf_erase(s, i), 0));
        cr_assert(eq(int, shelf_read(s, i, &bytes, got), -EBADMSG));
    }
    cr_assert(le(u64, blocks(), full - (uint64_t)COUNT * 4096));
    shelf_close(s);
    shelf_close(reopen(note_found));
    cr_assert(eq(u32, found, 0));
}

Test(shelf, unwanted_and_rowless_records_are_freed_at_the_start)
{
    struct shelf *s = reopen(note_found);
    uint8_t nothing[ROW] = {0};
    uint64_t full;
    int fd;

    write_all(s);
    shelf_close(s);
    full = blocks();
    fd = open(file, O_RDWR);
    for (uint32_t i = 0; i < COUNT; i += 2) /* the writer was killed before it wrote the row */
        cr_assert(eq(long, pwrite(fd, nothing, sizeof(nothing), 4096 + i * ROW), ROW));
    shelf_close(reopen(note_found));
    cr_assert(eq(u32, found, COUNT / 2));
    cr_assert(le(u64, blocks(), full - (uint64_t)COUNT / 2 * 4096));
    full = blocks();
    shelf_close(reopen(refuse));
    cr_assert(le(u64, blocks(), full - (uint64_t)COUNT / 2 * 4096));
    (void)close(fd);
}

Test(shelf, a_row_is_bound_to_its_place)
{
    struct shelf *s = reopen(note_found);
    uint8_t row[ROW];
    int fd;

    write_all(s);
    shelf_close(s);
    fd = open(file, O_RDWR);
    cr_assert(eq(long, pread(fd, row, sizeof(row), 4096 + 3 * ROW), ROW));
    cr_assert(eq(long, pwrite(fd, row, sizeof(row), 4096 + 9 * ROW), ROW));
    row[5] ^= 1;
    cr_assert(eq(long, pwrite(fd, row, sizeof(row), 4096 + 3 * ROW), ROW));
    (void)close(fd);
    shelf_close(reopen(note_found));
    cr_assert(eq(u32, found, COUNT - 2));
}

Test(shelf, in_memory_records_are_read_erased_and_freed)
{
    struct plenum_error err = {""};
    struct shelf *s, *other;

    cr_assert(eq(int, open_shelf(NULL, note_found, NULL, &s, &err), 0), "%s", err.text);
    cr_assert(eq(int, open_shelf(NULL, note_found, NULL, &other, &err), 0), "each shelf in "
                                                                            "memory is separate");
    write_all(s);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct keep_bytes bytes = make(i);

        cr_assert(eq(int, shelf_read(s, i, &bytes, got), 0));
        cr_assert(eq(int, memcmp(got, content, bytes.len), 0));
        cr_assert(eq(int, shelf_read(other, i, &bytes, got), -EBADMSG));
        cr_assert(eq(int, shelf_erase(s, i), 0));
        cr_assert(eq(int, shelf_read(s, i, &bytes, got), -EBADMSG));
    }
    shelf_close(s);
    shelf_close(other);
    cr_assert(lt(int, access(file, F_OK), 0));
}

Test(shelf, numbers_of_other_files)
{
    struct shelf *s = reopen(refuse);
    uint32_t number = 2 * SHELF_ROWS + 5;
    struct keep_bytes bytes = make(1);

    cr_assert(eq(int, shelf_write(s, number, &bytes, content), 0));
    cr_assert(eq(int, shelf_read(s, number, &bytes, got), 0));
    cr_assert(eq(int, shelf_read(s, 5, &bytes, got), -EBADMSG));
    cr_assert(eq(int, shelf_erase(s, 5), 0));
    shelf_close(s);
}

Test(shelf, only_one_process_uses_it)
{
    struct shelf *s = reopen(note_found), *other = NULL;
    struct plenum_error err = {""};

    cr_assert(eq(int, open_shelf(folder, note_found, NULL, &other, &err), -EBUSY));
    cr_assert(strstr(err.text, "another loader uses it") != NULL);
    cr_assert(zero(ptr, other));
    shelf_close(s);
    shelf_close(reopen(note_found));
}

Test(shelf, a_folder_that_others_can_write_to_is_refused)
{
    struct plenum_error err = {""};
    struct shelf *s = NULL;

    cr_assert(eq(int, chmod(folder, 0777), 0));
    cr_assert(eq(int, open_shelf(folder, note_found, NULL, &s, &err), -EPERM));
    cr_assert(strstr(err.text, "other users can write to it") != NULL);
}

Test(shelf, a_file_that_others_can_have_changed_is_replaced)
{
    struct shelf *s = reopen(note_found);

    write_all(s);
    shelf_close(s);
    cr_assert(eq(int, chmod(file, 0620), 0));
    s = reopen(note_found);
    cr_assert(eq(u32, found, 0));
    write_all(s);
    shelf_close(s);
    s = reopen(note_found);
    cr_assert(eq(u32, found, COUNT));
    shelf_close(s);
}

/* The numbers that shelf_follow() reported with a record, as bits. */
static uint64_t followed;

static bool note_followed(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    (void)arg;
    if (!bytes)
        return false;
    cr_assert(lt(u32, number, 64));
    followed |= UINT64_C(1) << number;
    return note_found(arg, number, bytes);
}

Test(shelf, a_follower_reads_what_the_owner_has)
{
    struct shelf *follower, *owner;
    struct plenum_error err = {""};
    struct keep_bytes bytes = make(1);

    cr_assert(eq(int, shelf_attach(folder, &follower, &err), 0), "%s", err.text);
    cr_assert(eq(int, shelf_follow(follower, note_followed, NULL), 0));
    cr_assert(zero(u64, followed), "there are no files yet");
    owner = reopen(note_found);
    cr_assert(eq(int, shelf_take(follower, &err), -EBUSY));
    write_all(owner);
    cr_assert(eq(int, shelf_follow(follower, note_followed, NULL), 0));
    cr_assert(eq(u64, followed, (UINT64_C(1) << COUNT) - 1));
    cr_assert(eq(int, shelf_read(follower, 1, &bytes, got), 0));
    cr_assert(eq(int, shelf_erase(owner, 1), 0));
    cr_assert(eq(int, shelf_read(follower, 1, &bytes, got), -EBADMSG));
    followed = 0;
    cr_assert(eq(int, shelf_follow(follower, note_followed, NULL), 0));
    cr_assert(eq(u64, followed, ((UINT64_C(1) << COUNT) - 1) & ~UINT64_C(2)));
    shelf_close(owner);
    cr_assert(eq(int, shelf_take(follower, &err), 0), "%s", err.text);
    found = 0;
    cr_assert(eq(int, shelf_load(follower, note_found, NULL, &err), 0), "%s", err.text);
    cr_assert(eq(u32, found, COUNT - 1));
    shelf_close(follower);
}

Test(shelf, files_that_cannot_be_loaded_are_left_to_others)
{
    struct shelf *first, *second;
    struct plenum_error err = {""};

    cr_assert(eq(int, shelf_attach(folder, &first, &err), 0), "%s", err.text);
    cr_assert(eq(int, shelf_attach(folder, &second, &err), 0), "%s", err.text);
    cr_assert(eq(int, mkdir(file, 0700), 0));
    cr_assert(eq(int, shelf_take(first, &err), 0), "%s", err.text);
    cr_expect(eq(int, shelf_load(first, note_found, NULL, &err), -EISDIR), "%s", err.text);
    cr_assert(eq(int, rmdir(file), 0));
    cr_assert(eq(int, shelf_take(second, &err), 0), "%s", err.text);
    cr_expect(eq(int, shelf_load(second, note_found, NULL, &err), 0), "%s", err.text);
    shelf_close(first);
    shelf_close(second);
}

Test(shelf, a_follower_changes_nothing)
{
    struct shelf *follower, *owner = reopen(note_found);
    struct plenum_error err = {""};
    uint8_t byte = 0x55;
    uint64_t before;
    int fd;

    write_all(owner);
    fd = open(file, O_RDWR | O_CLOEXEC);
    cr_assert(eq(int, (int)pwrite(fd, &byte, 1, 4096 + 3 * ROW), 1), "a row that is being written");
    before = blocks();
    cr_assert(eq(int, shelf_attach(folder, &follower, &err), 0), "%s", err.text);
    cr_assert(eq(int, shelf_follow(follower, note_followed, NULL), 0));
    cr_assert(eq(u64, followed, ((UINT64_C(1) << COUNT) - 1) & ~UINT64_C(8)));
    cr_assert(eq(u64, blocks(), before));
    cr_assert(eq(int, (int)pread(fd, &byte, 1, 4096 + 3 * ROW), 1));
    cr_assert(eq(u8, byte, 0x55));
    (void)close(fd);
    shelf_close(follower);
    shelf_close(owner);
}

/* Returns the message with which the folder is rejected. */
static const char *refusal(void)
{
    static struct plenum_error err;
    struct shelf *s;

    cr_assert(lt(int, open_shelf(folder, note_found, NULL, &s, &err), 0));
    return err.text;
}

Test(shelf, what_is_in_the_way_is_named)
{
    char target[80];

    cr_assert(eq(int, symlink("/dev/null", file), 0));
    cr_assert(strstr(refusal(), "/0000.samples: ") != NULL, "%s", refusal());
    (void)unlink(file);
    (void)snprintf(target, sizeof(target), "%s/lock", folder);
    (void)unlink(target);
    cr_assert(eq(int, mkdir(target, 0700), 0));
    cr_assert(strstr(refusal(), "/lock: ") != NULL, "%s", refusal());
    cr_assert(eq(int, rmdir(target), 0));
    (void)snprintf(target, sizeof(target), "%s-moved", folder);
    cr_assert(eq(int, rename(folder, target), 0));
    cr_assert(eq(int, symlink(target, folder), 0));
    cr_assert(strstr(refusal(), "is a symbolic link") != NULL, "%s", refusal());
    (void)unlink(folder);
    cr_assert(eq(int, rename(target, folder), 0));
}

/* SPDX-License-Identifier: MIT */
/* Tests changes that must be detected even if times were restored, and events that are not changes.
 * test_fresh.c tests random sequences of both. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index.h"
#include "loader/dataset/stamp.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

int __real_fstatfs(int fd, struct statfs *ret);
int __wrap_fstatfs(int fd, struct statfs *ret);
int __real_fstatat(int fd, const char *path, struct stat *ret, int flags);
int __wrap_fstatat(int fd, const char *path, struct stat *ret, int flags);
int __real_fstat(int fd, struct stat *ret);
int __wrap_fstat(int fd, struct stat *ret);

static struct tree tree;
static bool fuse; /* the file system does not keep ctimes */

int __wrap_fstatfs(int fd, struct statfs *ret)
{
    int r = __real_fstatfs(fd, ret);

    if (fuse)
        ret->f_type = 0x65735546;
    return r;
}

static void hide(struct stat *st)
{
    st->st_ctim = st->st_mtim;
}

int __wrap_fstatat(int fd, const char *path, struct stat *ret, int flags)
{
    int r = __real_fstatat(fd, path, ret, flags);

    if (r == 0 && fuse)
        hide(ret);
    return r;
}

int __wrap_fstat(int fd, struct stat *ret)
{
    int r = __real_fstat(fd, ret);

    if (r == 0 && fuse)
        hide(ret);
    return r;
}

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(stamp, .init = setup, .fini = teardown);

static void set_time(const char *name, int64_t seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(&tree, name), times, 0), 0));
}

enum { LONG_AGO = 1600000000 };

/* Write a file, and set back its times and those of its folders, like an archiver. */
static void write_old(const char *name, const void *bytes, size_t len)
{
    char folder[200], *slash;

    tree_write(&tree, name, bytes, len);
    (void)snprintf(folder, sizeof(folder), "%s", name);
    do {
        set_time(folder, LONG_AGO);
        slash = strrchr(folder, '/');
        if (slash)
            *slash = '\0';
    } while (slash);
}

static void write_text(const char *name, const char *text)
{
    write_old(name, text, strlen(text));
}

static struct dataset *opened_with(const char *name, const char *fields)
{
    struct dataset_options options = {.fields = fields};
    struct plenum_error err;
    struct dataset *d = NULL;

    cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0), "%s", err.text);
    return d;
}

static void reads(struct dataset *d, uint32_t sample, int code, const char *want)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    int r = dataset_read(d, sample, &buffer, &err);

    cr_expect(eq(int, r, code), "sample %u: %s", sample, err.text);
    if (r < 0)
        cr_expect(ne(ptr, (void *)strstr(err.text, want), NULL), "'%s' lacks '%s'", err.text, want);
    else
        cr_expect(eq(int, strncmp((const char *)buffer.bytes, want, strlen(want)), 0));
    dataset_buffer_fini(&buffer);
}

/* Check the only field, which is text. */
static void reads_field(struct dataset *d, uint32_t sample, int code, const char *want)
{
    struct dataset_buffer record = {0};
    struct plenum_error err = {""};
    int r = dataset_read_fields(d, sample, &record, &err);

    cr_expect(eq(int, r, code), "sample %u: %s", sample, err.text);
    if (r < 0)
        cr_expect(ne(ptr, (void *)strstr(err.text, want), NULL), "'%s' lacks '%s'", err.text, want);
    else
        cr_expect(
            eq(str, strndupa((char *)record.bytes + 4, *(uint32_t *)record.bytes), (char *)want));
    dataset_buffer_fini(&record);
}

static ino_t index_inode(const struct dataset *d)
{
    struct stat st;

    cr_assert(eq(int, __real_fstatat(AT_FDCWD, dataset_get_index_path(d), &st, 0), 0));
    return st.st_ino;
}

/* Check that the next opening uses the present index of the data set. */
static void is_used_again(const char *name, const char *why)
{
    struct dataset *a = opened(name), *b = opened(name);

    cr_expect(eq(u64, index_inode(a), index_inode(b)), "%s", why);
    dataset_unref(a);
    dataset_unref(b);
}

static const char *in_tree(const char *format, const char *name)
{
    static char text[8][600];
    static int next;
    char *ret = text[next++ % 8];

    (void)snprintf(ret, sizeof(text[0]), "%s%s", format, tree_path(&tree, name));
    return ret;
}

static void write_many(int count)
{
    char name[64];

    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "data/a/%03d.jpg", i);
        tree_write_text(&tree, name, "image");
        set_time(name, LONG_AGO);
    }
    set_time("data/a", LONG_AGO);
    set_time("data", LONG_AGO);
}

/* Returns a sample that the fingerprint does not cover, so that only reading it can show that it
 * has changed. */
static int uncovered(struct dataset *d)
{
    struct index index;
    int sample = 0;

    cr_assert(eq(int, index_open(dataset_get_index_path(d), &index), 0));
    for (bool covered = true; covered; sample += covered) {
        covered = false;
        for (uint64_t i = 0; i < index.header->heads; i++)
            covered = covered || index.heads[i].sample == (uint64_t)sample;
    }
    index_close(&index);
    return sample;
}

Test(stamp, an_empty_file_that_is_complete_now_is_checked_again)
{
    const char *const names[] = {in_tree("folder:", "data"), in_tree("list:", "data/l.txt")};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct dataset *d;

        write_text("data/l.txt", "a/1.jpg 0\na/2.jpg 1\n");
        write_text("data/a/1.jpg", "one");
        write_text("data/a/2.jpg", "");
        d = opened(names[i]);
        reads(d, 1, -EBADMSG, "the file is empty");
        write_text("data/a/2.jpg", "two");
        reads(d, 1, -ESTALE, "2.jpg has changed since the data set was indexed");
        dataset_unref(d);
        d = opened(names[i]);
        reads(d, 1, 0, "two");
        dataset_unref(d);
        write_text("data/a/2.jpg", ""); /* only an opening examines it */
        dataset_unref(opened(names[i]));
        write_text("data/a/2.jpg", "two again");
        d = opened(names[i]);
        reads(d, 1, 0, "two again");
        dataset_unref(d);
    }
}

Test(stamp, a_file_that_was_too_large_is_checked_again)
{
    struct dataset *d;

    write_text("data/a/1.jpg", "one");
    cr_assert(
        eq(int, truncate(tree_path(&tree, "data/a/1.jpg"), (off_t)DATASET_SAMPLE_MAX + 1), 0));
    set_time("data/a/1.jpg", LONG_AGO);
    d = opened(in_tree("folder:", "data"));
    reads(d, 0, -EBADMSG, "larger than 256 MiB");
    write_text("data/a/1.jpg", "one");
    reads(d, 0, -ESTALE, "1.jpg has changed since");
    dataset_unref(d);
}

Test(stamp, files_added_while_folder_times_are_reset_are_detected)
{
    const char *name = in_tree("folder:", "data");
    struct dataset *d;

    write_text("data/a/1.jpg", "one");
    dataset_unref(opened(name));
    write_text("data/a/2.jpg", "two");
    d = opened(name);
    cr_expect(eq(u32, dataset_get_samples(d), 2));
    dataset_unref(d);
    write_text("data/b/c/3.jpg", "three");
    d = opened(name);
    cr_expect(eq(u32, dataset_get_samples(d), 3));
    cr_expect(eq(u32, dataset_get_classes(d), 2));
    dataset_unref(d);
}

/* Only the type of an entry, or of a link's target, shows that there is a class now. */
Test(stamp, files_that_become_folders_are_detected)
{
    static const char *const notes[] = {"data/b", "data/a/b", "notes/d", "notes/e"};
    const char *name = in_tree("folder:", "data");
    char link[600], image[64];
    struct dataset *d;

    write_text("data/a/1.jpg", "one");
    for (size_t i = 0; i < ARRAY_LEN(notes); i++)
        write_text(notes[i], "note");
    (void)snprintf(link, sizeof(link), "%s", tree_path(&tree, "data/d"));
    cr_assert(eq(int, symlink(tree_path(&tree, "notes/d"), link), 0));
    (void)snprintf(link, sizeof(link), "%s", tree_path(&tree, "data/a/e"));
    cr_assert(eq(int, symlink(tree_path(&tree, "notes/e"), link), 0));
    set_time("data/a", LONG_AGO);
    set_time("data", LONG_AGO);
    is_used_again(name, "nothing changed");
    for (size_t i = 0; i < ARRAY_LEN(notes); i++) {
        cr_assert(eq(int, unlink(tree_path(&tree, notes[i])), 0));
        (void)snprintf(image, sizeof(image), "%s/2.jpg", notes[i]);
        write_text(image, "two");
        set_time("data/a", LONG_AGO);
        set_time("data", LONG_AGO);
        d = opened(name);
        cr_expect(eq(u32, dataset_get_samples(d), (uint32_t)i + 2), "%s", notes[i]);
        dataset_unref(d);
    }
    is_used_again(name, "an unchanged data set uses its index again");
}

/* A damaged hash does not make a good file count as changed. */
Test(stamp, a_damaged_hash_counts_as_none)
{
    const char *name = in_tree("folder:", "data");
    struct dataset *d;
    char path[600];
    struct stat st;

    write_text("data/a/1.jpg", "one");
    write_text("data/a/2.jpg", "two");
    d = opened(name);
    reads(d, 0, 0, "one");
    reads(d, 1, 0, "two");
    (void)snprintf(path, sizeof(path), "%s.sums", dataset_get_index_path(d));
    dataset_unref(d);
    cr_assert(eq(int, __real_fstatat(AT_FDCWD, path, &st, 0), 0));
    for (off_t at = 0; at < st.st_size; at++) {
        int fd = open(path, O_RDWR);
        char byte;

        cr_assert(eq(i64, pread(fd, &byte, 1, at), 1));
        byte ^= 0x10;
        cr_assert(eq(i64, pwrite(fd, &byte, 1, at), 1));
        (void)close(fd);
        d = opened(name);
        reads(d, 0, 0, "one");
        reads(d, 1, 0, "two");
        dataset_unref(d);
    }
    d = opened(name); /* hashes are recorded again */
    write_text("data/a/1.jpg", "eno");
    reads(d, 0, -ESTALE, "1.jpg has changed since the data set was indexed");
    dataset_unref(d);
}

/* On file systems without ctimes, a folder's entries are compared by name. */
Test(stamp, files_added_without_ctimes_are_detected)
{
    const char *name = in_tree("folder:", "data");
    struct dataset *d;

    fuse = true;
    write_text("data/a/1.jpg", "one");
    write_text("data/b/2.jpg", "two");
    dataset_unref(opened(name));
    is_used_again(name, "nothing changed");
    write_text("data/b/3.jpg", "three");
    d = opened(name);
    cr_expect(eq(u32, dataset_get_samples(d), 3), "the added file is found");
    dataset_unref(d);
    cr_assert(
        eq(int, rename(tree_path(&tree, "data/b/3.jpg"), tree_path(&tree, "data/b/0.jpg")), 0));
    write_text("data/b/0.jpg", "three");
    d = opened(name);
    reads(d, 1, 0, "three");
    dataset_unref(d);
}

Test(stamp, a_list_of_the_same_size_and_time_is_detected)
{
    const char *name = in_tree("list:", "data/l.txt");
    struct dataset *d;

    write_text("data/1.jpg", "one");
    write_text("data/2.jpg", "two");
    write_text("data/l.txt", "1.jpg 0\n2.jpg 1\n");
    dataset_unref(opened(name));
    write_text("data/l.txt", "1.jpg 1\n2.jpg 0\n");
    d = opened(name);
    cr_expect(eq(i64, dataset_get_label(d, 0), 1));
    dataset_unref(d);
}

Test(stamp, a_missing_image_leads_to_an_index_without_it)
{
    const char *name = in_tree("list:", "data/l.txt");
    struct dataset *d;

    write_text("data/1.jpg", "one");
    write_text("data/l.txt", "1.jpg 0\n");
    d = opened(name);
    cr_assert(eq(int, unlink(tree_path(&tree, "data/1.jpg")), 0));
    reads(d, 0, -ENOENT, "1.jpg: No such file");
    dataset_unref(d);
    refused(name, -ENOENT, "line 1");
}

Test(stamp, different_bytes_of_the_same_size_and_time_are_estale)
{
    struct dataset *d;
    char name[64];
    int sample;

    write_many(600);
    d = opened(in_tree("folder:", "data"));
    sample = uncovered(d);
    reads(d, (uint32_t)sample, 0, "image");
    (void)snprintf(name, sizeof(name), "data/a/%03d.jpg", sample);
    write_text(name, "other");
    reads(d, (uint32_t)sample, -ESTALE, "has changed since the data set was indexed");
    dataset_unref(d);
    d = opened(in_tree("folder:", "data"));
    reads(d, (uint32_t)sample, 0, "other");
    dataset_unref(d);
}

/* The fingerprint does not cover the sample, so the list applies to the repaired data set, too. */
Test(stamp, a_sample_on_the_list_that_was_repaired_is_good)
{
    struct dataset_options options = {.forget_bad = true, .rebuild = true};
    const char *name = in_tree("folder:", "data");
    struct dataset_bad bad[2] = {{.reason = "it is bad", .content = stamp_hash_bytes("image", 5)},
                                 {.reason = "it is bad", .content = stamp_hash_bytes("image", 5)}};
    struct dataset_kept kept;
    struct plenum_error err;
    struct dataset *d;
    char path[64];

    write_many(600);
    cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0));
    bad[0].sample = (uint32_t)uncovered(d);
    bad[1].sample = 599;
    cr_assert(eq(int, dataset_keep_bad(d, bad, 2, &kept, &err), 0));
    dataset_unref(d);
    d = opened(name);
    reads(d, bad[0].sample, -EBADMSG, "is known to be bad: it is bad");
    (void)snprintf(path, sizeof(path), "data/a/%03u.jpg", bad[0].sample);
    write_text(path, "wholE");
    reads(d, bad[0].sample, -ESTALE, "has changed since");
    dataset_unref(d);
    d = opened(name);
    reads(d, bad[0].sample, 0, "wholE");
    reads(d, 599, -EBADMSG, "is known to be bad");
    cr_expect(eq(u32, dataset_get_known_bad(d), 1));
    dataset_unref(d);

    /* The index describes the repaired file, and only the list does not. */
    write_text("data/a/599.jpg", "wholE");
    options.forget_bad = false;
    cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0));
    reads(d, 599, -ESTALE, "has changed since plenumctl verify found it bad");
    dataset_unref(d);
    d = opened(name);
    reads(d, 599, 0, "wholE");
    cr_expect(eq(u32, dataset_get_known_bad(d), 0));
    dataset_unref(d);
}

Test(stamp, a_field_file_that_is_added_later_is_read)
{
    const char *name = in_tree("list:", "data/l.csv");
    struct dataset *d;

    write_text("data/1.jpg", "one");
    write_text("data/1.txt", "caption");
    write_text("data/l.csv", "path,label,caption\n1.jpg,0,1.txt\n1.jpg,0,2.txt\n1.jpg,0,3.txt\n");
    write_text("data/3.txt", "x");
    cr_assert(eq(int, truncate(tree_path(&tree, "data/3.txt"), 64 << 20), 0));
    d = opened_with(name, "c:caption:bytes");
    reads_field(d, 0, 0, "caption");
    reads_field(d, 1, -EBADMSG, "");
    reads_field(d, 2, -EBADMSG, "");
    write_text("data/3.txt", "third");
    reads_field(d, 2, -ESTALE, "3.txt has changed since");
    dataset_unref(d);
    d = opened_with(name, "c:caption:bytes");
    reads_field(d, 2, 0, "third");
    write_text("data/2.txt", "second");
    reads_field(d, 1, -ESTALE, "2.txt has changed since");
    dataset_unref(d);
    d = opened_with(name, "c:caption:bytes");
    reads_field(d, 1, 0, "second");
    dataset_unref(d);
}

Test(stamp, a_caption_that_was_touched_has_not_changed)
{
    const char *name = in_tree("folder:", "data");
    struct dataset *d;

    write_text("data/a/1.jpg", "one");
    write_text("data/a/1.txt", "caption");
    d = opened_with(name, "c:txt");
    reads_field(d, 0, 0, "caption");
    set_time("data/a/1.txt", LONG_AGO + 5);
    reads_field(d, 0, 0, "caption");
    dataset_unref(d);
    d = opened_with(name, "c:txt");
    reads_field(d, 0, 0, "caption");
    write_text("data/a/1.txt", "CAPTION");
    reads_field(d, 0, -ESTALE, "1.txt has changed since");
    dataset_unref(d);
    d = opened_with(name, "c:txt");
    reads_field(d, 0, 0, "CAPTION");
    dataset_unref(d);
}

Test(stamp, times_in_the_future_and_before_1970_work)
{
    static const int64_t times[] = {0, 1, -300000000, LONG_AGO, 4070908800};
    const char *name = in_tree("folder:", "data");
    char why[64];

    write_text("data/a/1.jpg", "one");
    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        set_time("data/a/1.jpg", times[i]);
        set_time("data/a", times[i]);
        set_time("data", times[i]);
        (void)snprintf(why, sizeof(why), "%lld", (long long)times[i]);
        dataset_unref(opened(name));
        is_used_again(name, why);
    }
}

Test(stamp, changes_that_affect_no_byte_keep_the_index)
{
    const char *const names[] = {in_tree("folder:", "data"), in_tree("list:", "data/l.txt")};

    write_text("data/l.txt", "a/1.jpg 0\n");
    write_text("data/a/1.jpg", "one");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct dataset *d = opened(names[i]);
        ino_t before = index_inode(d);

        cr_assert(eq(int, chmod(tree_path(&tree, "data"), 0700), 0));
        cr_assert(eq(int, chmod(tree_path(&tree, "data/a"), 0700), 0));
        cr_assert(eq(int, chmod(tree_path(&tree, "data/l.txt"), 0600), 0));
        cr_assert(eq(int, chmod(tree_path(&tree, "data/a/1.jpg"), 0600), 0));
        cr_assert(
            eq(int,
               link(tree_path(&tree, "data/a/1.jpg"), tree_path(&tree, i ? "backup1" : "backup0")),
               0));
        cr_assert(eq(int, rename(tree_path(&tree, "data"), tree_path(&tree, "aside")), 0));
        cr_assert(eq(int, rename(tree_path(&tree, "aside"), tree_path(&tree, "data")), 0));
        reads(d, 0, 0, "one");
        dataset_unref(d);
        d = opened(names[i]);
        cr_expect(eq(u64, index_inode(d), before), "%s", names[i]);
        dataset_unref(d);
    }
}

Test(stamp, an_index_of_another_version_is_rebuilt)
{
    const char *name = in_tree("folder:", "data");
    uint8_t fingerprint[16];
    struct dataset *d;
    uint32_t old = 5;
    int fd;

    write_text("data/a/1.jpg", "one");
    d = opened(name);
    memcpy(fingerprint, dataset_get_fingerprint(d), 16);
    fd = open(dataset_get_index_path(d), O_WRONLY);
    cr_assert(eq(i64, pwrite(fd, &old, sizeof(old), offsetof(struct index_header, version)), 4));
    (void)close(fd);
    dataset_unref(d);
    d = opened(name);
    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    cr_expect(eq(int, memcmp(fingerprint, dataset_get_fingerprint(d), 16), 0));
    reads(d, 0, 0, "one");
    dataset_unref(d);
    is_used_again(name, "it was replaced");
}

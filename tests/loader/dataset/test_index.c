/* SPDX-License-Identifier: MIT */
/* Tests indices: several processes that need one at once, folders that cannot be written,
 * comparisons, labels, indices that must not be used, and files that killed processes left. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/index_builder.h"
#include "tests/tree.h"

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(index, .init = setup, .fini = teardown);

static void write_set(const char *name, int files)
{
    char path[128];

    for (int i = 0; i < files; i++) {
        (void)snprintf(path, sizeof(path), "%s/%c/%04d.jpg", name, 'a' + i % 3, i);
        tree_write_text(&tree, path, "content");
    }
}

static void make_old(const char *name)
{
    struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};

    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(&tree, name), then, 0), 0));
}

static struct dataset *opened(const char *name)
{
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    cr_assert(eq(int, dataset_open(tree_path(&tree, name), NULL, &d, &err), 0), "%s", err.text);
    return d;
}

static void note_scan(void *arg, const char *what, uint64_t done, uint64_t total)
{
    int *fd = arg;

    (void)done;
    (void)total;
    if (strcmp(what, "reading folders") == 0 && *fd >= 0) {
        (void)!write(*fd, "x", 1);
        *fd = -1;
    }
}

/* If many processes need an index at once, one builds it and all get it. */
Test(index, one_of_several_processes_builds_it_and_the_others_wait, .timeout = 600)
{
    enum { PROCESSES = 8 };
    int go[2], built[2], left = 0;
    char bytes[PROCESSES];
    pid_t pids[PROCESSES];

    write_set("data", 3000);
    make_old("data/a");
    make_old("data/b");
    make_old("data/c");
    make_old("data");
    cr_assert(eq(int, pipe(go), 0));
    cr_assert(eq(int, pipe(built), 0));
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        cr_assert(ge(int, pids[i], 0));
        if (pids[i] == 0) {
            int fd = built[1];
            struct dataset_options options = {
                .threads = 2, .progress = note_scan, .progress_arg = &fd};
            struct dataset *d = NULL;
            char byte;

            (void)close(go[1]);
            (void)!read(go[0], &byte, 1); /* wait until all processes run */
            if (dataset_open(tree_path(&tree, "data"), &options, &d, NULL) < 0)
                _exit(1);
            _exit(dataset_get_samples(d) == 3000 && dataset_get_index_path(d) ? 0 : 2);
        }
    }
    (void)close(go[1]);
    (void)close(built[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        cr_assert(eq(int, waitpid(pids[i], &status, 0), pids[i]));
        cr_expect(eq(int, status, 0));
    }
    left = (int)read(built[0], bytes, sizeof(bytes));
    cr_expect(eq(int, left, 1), "exactly one process has built the index");
}

static int entries(const char *folder)
{
    DIR *dir = opendir(tree_path(&tree, folder));
    int count = 0;

    cr_assert(ne(ptr, dir, NULL));
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count - 2;
}

/* A process that is killed while it builds leaves neither a lock nor half an index. */
Test(index, a_builder_that_dies_is_replaced)
{
    struct dataset *d;
    char lock[600], half[600];
    pid_t pid;
    int ready[2];
    char byte;

    write_set("data", 10);
    d = opened("data");
    (void)snprintf(lock, sizeof(lock), "%s.lock", dataset_get_index_path(d));
    cr_assert(eq(int, unlink(dataset_get_index_path(d)), 0));
    (void)snprintf(half, sizeof(half), "cache%s.4711.tmp", strrchr(dataset_get_index_path(d), '/'));
    tree_write_text(&tree, half, "half an index");
    tree_write_text(&tree, "cache/other.index.4711.tmp", "another process's");
    dataset_unref(d);
    cr_assert(eq(int, pipe(ready), 0));
    pid = fork();
    if (pid == 0) {
        int fd = open(lock, O_RDWR);

        (void)!write(ready[1], "x", (size_t)(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0));
        (void)pause();
        _exit(0);
    }
    cr_assert(eq(i64, read(ready[0], &byte, 1), 1));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    d = opened("data");
    cr_expect(eq(u32, dataset_get_samples(d), 10));
    dataset_unref(d);
    cr_expect(eq(int, entries("cache"), 4),
              "there are the index, its lock, its checksums and a leftover of another index");
}

/* Nothing is ever written to a data set's folder, and only the index, its lock and its sums to the
 * cache. */
Test(index, data_folders_are_only_read)
{
    struct dataset *d;

    write_set("data", 30);
    cr_assert(eq(int, chmod(tree_path(&tree, "data"), 0555), 0));
    d = opened("data");
    dataset_unref(d);
    cr_expect(eq(int, entries("data"), 3));
    cr_expect(eq(int, entries("data/a"), 10));
    cr_expect(eq(int, entries("cache"), 3), "there are the index, its lock and its checksums");
    cr_assert(eq(int, chmod(tree_path(&tree, "data"), 0755), 0));
}

Test(index, a_folder_that_cannot_be_read_is_named)
{
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    write_set("data", 30);
    cr_assert(eq(int, chmod(tree_path(&tree, "data/b"), 0), 0));
    cr_assert(eq(int, chmod(tree.root, 0755), 0));
    if (geteuid() == 0) /* root may read everything */
        cr_assert(eq(int, seteuid(65534), 0));
    cr_expect(eq(int, dataset_open(tree_path(&tree, "data"), NULL, &d, &err), -EACCES));
    cr_expect(ne(ptr, (void *)strstr(err.text, "data/b: Permission denied"), NULL), "%s", err.text);
    cr_assert(eq(int, seteuid(getuid()), 0));
    cr_assert(eq(int, chmod(tree_path(&tree, "data/b"), 0755), 0));
}

Test(index, takes_32_bytes_per_sample_besides_names)
{
    struct dataset *d;
    struct stat st;
    uint64_t names = 0;
    char name[600];

    write_set("data", 3000);
    d = opened("data");
    cr_assert(eq(int, stat(dataset_get_index_path(d), &st), 0));
    for (uint32_t i = 0; i < 3000; i++)
        names += strlen(strrchr(dataset_get_sample_name(d, i, name, sizeof(name)), '/'));
    /* The index also stores its subject: the extensions of images, and the folder. */
    names += strlen(dataset_image_names()) + strlen(tree_path(&tree, "data"));
    cr_expect(le(u64, (uint64_t)st.st_size,
                 names + 32 * 3000 + sizeof(struct index_header) + 256 * sizeof(struct index_head) +
                     4 * sizeof(struct index_container) + 256));
    dataset_unref(d);
}

static void differ(const char *one, const char *two, const char *want)
{
    struct dataset *a = opened(one), *b = opened(two);
    struct plenum_error err = {""};
    char got[1024];

    cr_assert(eq(int, dataset_compare(a, dataset_get_index_path(b), got, sizeof(got), &err), 0),
              "%s", err.text);
    cr_expect(eq(str, got, (char *)want));
    cr_expect(eq(int, memcmp(dataset_get_fingerprint(a), dataset_get_fingerprint(b), 16) == 0,
                 want[0] == '\0'));
    dataset_unref(a);
    dataset_unref(b);
}

Test(index, the_first_difference_of_two_data_sets_is_named)
{
    struct plenum_error err = {""};
    struct dataset *d;
    char got[100];

    write_set("one", 300);
    write_set("two", 300);
    differ("one", "two", "");
    write_set("six", 200); /* so few that the checksum covers the beginning of each */
    write_set("seven", 200);
    tree_write_text(&tree, "seven/b/0004.jpg", "CONTENT");
    differ("six", "seven", "names, sizes and labels are equal, but the contents differ");
    write_set("three", 299);
    differ("one", "three", "sample 299, c/0299.jpg, is here but not there");
    differ("three", "one", "sample 299, c/0299.jpg, is there but not here");
    write_set("four", 300);
    tree_write_text(&tree, "four/a/0003.jpg", "longer than that");
    differ("one", "four", "sample 1, a/0003.jpg, has 7 bytes here and 16 there");
    write_set("five", 300);
    tree_write_text(&tree, "five/a/0003-.jpg", "content");
    differ("one", "five", "sample 1 is a/0003.jpg here and a/0003-.jpg there");
    d = opened("one");
    cr_expect(
        eq(int, dataset_compare(d, tree_path(&tree, "one/a/0000.jpg"), got, 100, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "this is not an index"), NULL), "%s", err.text);
    dataset_unref(d);
}

/* ---- labels ---- */

static int64_t add(struct index_builder *b, const char *label)
{
    int64_t id = index_builder_add_label(b, LABEL_VALUE, label, strlen(label), NULL);

    cr_assert(ge(i64, id, 0));
    cr_assert(ge(
        i64,
        index_builder_add_sample(b, &(struct index_sample){.label = (int32_t)id, .len = 1}, label),
        0));
    return id;
}

/* Any number of labels, in any order, in one part or in several that are joined. */
Test(index, labels_do_not_depend_on_the_number_of_parts)
{
    for (int count = 1; count < 2000; count += count < 20 ? 1 : 331)
        for (int pieces = 1; pieces <= 4; pieces++) {
            struct index_builder whole = {0};

            for (int piece = 0; piece < pieces; piece++) {
                struct index_builder part = {0};
                char text[32];

                cr_assert(eq(i64, index_builder_add_container(&part, "x", &(struct stamp){0}), 0));
                for (int i = piece; i < count; i += pieces) {
                    (void)snprintf(text, sizeof(text), "class %05d", i * 7919 % count / 2);
                    (void)add(&part, text);
                }
                cr_assert(eq(int, index_builder_append(&whole, &part), 0));
                index_builder_fini(&part);
            }
            cr_assert(eq(int, index_builder_settle_labels(&whole, NULL), 0));
            for (size_t i = 0; i < whole.num_samples; i++) {
                const struct index_sample *s = &whole.samples[i];

                cr_assert(eq(str, whole.names + whole.classes[s->label], whole.names + s->name));
            }
            for (size_t i = 1; i < whole.num_classes; i++)
                cr_assert(lt(
                    int, strcmp(whole.names + whole.classes[i - 1], whole.names + whole.classes[i]),
                    0));
            index_builder_fini(&whole);
        }
}

Test(index, numbers_keep_their_values)
{
    static const struct label_rule rule = {.offset = 10};
    struct index_builder b = {.rule = &rule};
    struct plenum_error err = {""};

    cr_assert(eq(i64, index_builder_add_container(&b, "x", &(struct stamp){0}), 0));
    for (int i = 0; i < 5000; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), i % 3 ? "%d" : i % 2 ? "%05d" : "+%d", i);
        (void)add(&b, text);
    }
    cr_assert(eq(int, index_builder_settle_labels(&b, &err), 0), "%s", err.text);
    for (int i = 0; i < 5000; i++)
        cr_assert(eq(i32, b.samples[i].label, i + 10));
    cr_expect(eq(sz, b.num_classes, 5010));
    cr_expect(b.unnamed);
    index_builder_fini(&b);
}

/* Reverse all labels of an index and correct its checksum. Returns 0 if it is still a valid
 * index. */
static int forge(const char *path)
{
    struct index in, out;
    struct datasum sum;
    char *bytes;
    int r;

    cr_assert(eq(int, index_read(path, &in), 0));
    bytes = malloc(in.bytes);
    cr_assert(ne(ptr, bytes, NULL));
    memcpy(bytes, in.header, in.bytes);
    for (uint32_t i = 0; i < in.header->samples; i++) {
        struct index_sample *s = (struct index_sample *)(bytes + in.header->samples_at) + i;

        s->label = (int32_t)in.header->classes - 1 - s->label;
    }
    out = in;
    out.header = (void *)bytes;
    sum = in.header->sum;
    index_set_sum(&out, &sum, &in.header->checked);
    r = index_write(&out, path);
    index_close(&in);
    free(bytes);
    return r;
}

/* An index that other users could have written is ignored, even if it is valid. */
Test(index, of_another_user_is_ignored)
{
    for (int i = 0; i < 3; i++) {
        struct dataset *d;
        char path[600];
        struct stat st;

        write_set("data", 30);
        make_old("data/a");
        make_old("data/b");
        make_old("data/c");
        make_old("data");
        dataset_unref(opened("data"));
        d = opened("data");
        (void)snprintf(path, sizeof(path), "%s", dataset_get_index_path(d));
        cr_expect(eq(int, dataset_get_label(d, 0), 0));
        dataset_unref(d);
        cr_assert(eq(int, forge(path), 0));
        if (i == 0) { /* nothing shows that a file of our own was forged */
            d = opened("data");
            cr_expect(eq(int, dataset_get_label(d, 0), 2), "the test's forgery has no effect");
            dataset_unref(d);
        }
        if (i == 2 && geteuid() != 0)
            break;
        cr_assert(eq(int, i == 2 ? chown(path, 65534, 65534) : chmod(path, 0602), 0));
        d = opened("data");
        cr_expect(eq(int, dataset_get_label(d, 0), 0));
        cr_expect(eq(str, (char *)dataset_get_index_path(d), path), "it is rebuilt");
        dataset_unref(d);
        cr_assert(eq(int, stat(path, &st), 0));
        cr_expect(eq(int, st.st_mode & 0777, 0600));
        cr_expect(eq(int, st.st_uid == geteuid(), 1));
    }
}

/* One data set's index under the name of another's is not used. */
Test(index, identifies_its_subject)
{
    char one[600], two[600];
    struct dataset *d;

    write_set("one", 30);
    write_set("two", 3);
    d = opened("one");
    (void)snprintf(one, sizeof(one), "%s", dataset_get_index_path(d));
    dataset_unref(d);
    d = opened("two");
    (void)snprintf(two, sizeof(two), "%s", dataset_get_index_path(d));
    dataset_unref(d);
    make_old("two/a");
    make_old("two/b");
    make_old("two/c");
    make_old("two");
    make_old("one/a");
    make_old("one/b");
    make_old("one/c");
    make_old("one");
    dataset_unref(opened("one"));
    cr_assert(eq(int, rename(one, two), 0));
    /* Judging only by times, the folders of both are equal. */
    d = opened("two");
    cr_expect(eq(u32, dataset_get_samples(d), 3));
    dataset_unref(d);
}

Test(index, the_cache_is_private)
{
    struct dataset *d;
    struct stat st;

    (void)umask(0);
    write_set("data", 3);
    d = opened("data");
    cr_assert(eq(int, stat(tree_path(&tree, "cache"), &st), 0));
    cr_expect(eq(int, st.st_mode & 0777, 0700));
    cr_assert(eq(int, stat(dataset_get_index_path(d), &st), 0));
    cr_expect(eq(int, st.st_mode & 0777, 0600));
    dataset_unref(d);
}

/* Process 1 of a container has the same process ID as in the previous container, where it was
 * killed while it wrote. */
Test(cache, leftovers_of_a_killed_process_do_no_harm, .init = setup, .fini = teardown)
{
    char left[64];
    int fd;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(left, sizeof(left), i ? "file.%d" : "file.%d.tmp", (int)getpid());
        tree_write_text(&tree, left, "left");
    }
    cr_expect(eq(int, io_write_file(tree_path(&tree, "file"), "new", 3), 0));
    cr_expect(eq(int, cache_write(tree_path(&tree, "file"), "newer", 5), 0));
    fd = cache_open(tree_path(&tree, "file"));
    cr_expect(ge(int, fd, 0));
    io_close(&fd);
}

static bool is_there(const char *name)
{
    return access(tree_path(&tree, name), F_OK) == 0;
}

/* A later writer removes only what killed writers have left: no file with a different kind of name,
 * and none that is being written. */
Test(cache, leftovers_of_killed_processes_are_removed, .init = setup, .fini = teardown)
{
    static const struct {
        const char *name;
        bool old, stays;
    } files[] = {
        {"file.0123456789abcdef.tmp", true, false},
        {"file.fedcba9876543210.tmp", false, true},
        {"file.0123456789abcdef", true, true},
        {"file.0123456789abcde.tmp", true, true},
        {"file.notes", true, true},
        {"file.0123456789abcdef0.tmp", true, true},
        {"file.0123456789abcdeX.tmp", true, true},
        {"another.0123456789abcdef.tmp", true, true},
        {"file.0123456789abcdef.txt", true, true},
    };

    for (int by_cache = 0; by_cache < 2; by_cache++) {
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
            tree_write_text(&tree, files[i].name, "left");
            if (files[i].old)
                make_old(files[i].name);
        }
        cr_expect(eq(int,
                     by_cache ? cache_write(tree_path(&tree, "file"), "new", 3)
                              : io_write_file(tree_path(&tree, "file"), "new", 3),
                     0));
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
            cr_expect(is_there(files[i].name) == files[i].stays, "%s, %s", files[i].name,
                      by_cache ? "cache" : "file");
    }
}

/* The holder of an index's lock removes all leftovers of the index and of the files beside it at
 * once. */
Test(index, leftovers_are_removed_by_the_builder)
{
    char *path, left[3][600];
    struct dataset *d;

    write_set("data", 3);
    d = opened("data");
    path = strdup(dataset_get_index_path(d));
    dataset_unref(d);
    cr_assert(eq(int, unlink(path), 0));
    (void)snprintf(left[0], sizeof(left[0]), "%s.0123456789abcdef.tmp", path);
    (void)snprintf(left[1], sizeof(left[1]), "%s.notes.0123456789abcdef.tmp", path);
    (void)snprintf(left[2], sizeof(left[2]), "%s.other", path);
    for (int i = 0; i < 3; i++)
        cr_assert(eq(int, io_write_new_file(left[i], "left", 4), 0));
    d = opened("data");
    for (int i = 0; i < 3; i++)
        cr_expect(eq(int, access(left[i], F_OK), i < 2 ? -1 : 0), "%s", left[i]);
    dataset_unref(d);
    free(path);
}

/* If the lock or the file is a symbolic link, its target is not written to. */
Test(cache, links_are_not_followed_to_write, .init = setup, .fini = teardown)
{
    struct stat st;

    tree_write_text(&tree, "victim", "victim");
    cr_assert(eq(int, symlink("victim", tree_path(&tree, "file")), 0));
    cr_expect(eq(int, cache_open_lock(tree_path(&tree, "file")), -ELOOP));
    cr_expect(eq(int, cache_write(tree_path(&tree, "file"), "new", 3), 0));
    cr_assert(eq(int, lstat(tree_path(&tree, "file"), &st), 0));
    cr_expect(eq(int, S_ISREG(st.st_mode), 1));
    cr_assert(eq(int, stat(tree_path(&tree, "victim"), &st), 0));
    cr_expect(eq(i64, st.st_size, 6));
}
